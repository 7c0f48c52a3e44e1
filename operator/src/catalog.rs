//! The catalog: a table in the sink's database that says what was made for which sink, and when it was made again.
//!
//! Append-only; a row is added only where the latest one of that name says something else. A write that fails is told, and
//! never stops a sink. Must not be here: clients, clocks.

pub mod plan;
pub mod rows;

pub use plan::{CatalogPlan, CatalogReading, plan_catalog};
pub use rows::{CatalogRow, Made, TABLE_NAME};
