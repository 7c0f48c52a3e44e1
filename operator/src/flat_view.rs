//! The flat view: what people read, by a definition that moves forward once however many operators, sinks and manifests
//! there are.
//!
//! The lineage in the view's own comment decides; SQL is never taken from there. Must not be here: clients, clocks.

pub mod decide;
pub mod definition;
pub mod lineage;
pub mod plan;
pub mod sql;

pub use definition::ViewDefinition;
pub use plan::{FlatPlan, FlatReading, ViewStep};
