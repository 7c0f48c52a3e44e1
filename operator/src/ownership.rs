//! Whose a table is: recorded in its comment, so that two sinks never write one table, and only its maker drops it.
//!
//! Must not be here: clients, clocks.

pub mod decide;
pub mod deletion;
pub mod plan;
pub mod record;

pub use plan::{OwnershipPlan, plan_ownership};
