//! Derived tables: what a materialized view fills from the sink's table, its changes and its backfill.
//!
//! The order is the promise: the target first, then the view; a changed SELECT only between two INSERTs, that is while no
//! worker runs and no plan of the group is open; a backfill by offsets below those that were committed at such a moment.
//! Must not be here: clients, clocks; columns of tables (`ddl.rs` makes and changes them).

pub mod backfill;
pub mod check;
pub mod decide;
pub mod observe;
pub mod plan;
pub mod sql;

pub use observe::{DerivedReading, GroupReading, SourceReading};
pub use plan::{DerivedPlan, DerivedStep, Note};
