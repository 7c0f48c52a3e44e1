//! One reconcile: observe → validate → plan → apply → status, one file each.
//!
//! Must not be here: what any step does. Only `apply.rs` writes to the world; `observe.rs` only reads it; the other
//! three are pure.

pub mod apply;
pub mod declaration;
pub mod made;
pub mod memory;
pub mod observe;
pub mod plan;
pub mod status;
pub mod validate;

use crate::controller::apply::{Applied, apply};
use crate::controller::declaration::Declaration;
use crate::controller::observe::{Observation, observe};
use crate::controller::plan::{Places, Plan, build_plan};
use crate::controller::validate::{Validation, validate};
use crate::fleet::Fleet;
use crate::warehouse::Warehouse;

/// Wait after a step that failed, in milliseconds.
const FAILED_MS: u64 = 5_000;
/// Wait after tables were made, in milliseconds: what they are is to be known soon.
const MADE_MS: u64 = 500;

/// What one reconcile saw, meant and did.
#[derive(Debug)]
pub struct Reconciled {
    /// What was there.
    pub observation: Observation,
    /// What the declaration is worth.
    pub validation: Validation,
    /// What was meant.
    pub plan: Plan,
    /// What was done.
    pub applied: Applied,
}

impl Reconciled {
    /// Milliseconds until the next look: what failed is tried again sooner.
    #[must_use]
    pub fn requeue_ms(&self) -> u64 {
        if self.applied.failed.is_some() {
            self.plan.requeue_ms.min(FAILED_MS)
        } else if !self.plan.ddl.is_empty() {
            self.plan.requeue_ms.min(MADE_MS)
        } else {
            self.plan.requeue_ms
        }
    }
}

/// Sees what is there and what should be done; changes nothing.
pub async fn preview<W: Warehouse, F: Fleet>(
    warehouse: &W,
    fleet: &F,
    declaration: &Declaration,
) -> (Observation, Validation, Plan) {
    let observation = observe(warehouse, fleet, declaration).await;
    let validation = validate(declaration, &observation);
    let places = Places {
        credentials_dir: declaration
            .account
            .as_ref()
            .map(|account| fleet.locate_credentials(account)),
        facts_path: fleet.locate_facts(),
    };
    let plan = build_plan(declaration, &observation, &validation, places);
    (observation, validation, plan)
}

/// One reconcile of one sink. Never fails: what went wrong is in the values.
pub async fn reconcile<W: Warehouse, F: Fleet>(
    warehouse: &W,
    fleet: &F,
    declaration: &Declaration,
) -> Reconciled {
    let (observation, validation, plan) = preview(warehouse, fleet, declaration).await;
    let applied = apply(warehouse, fleet, declaration.account.as_ref(), &plan).await;
    Reconciled {
        observation,
        validation,
        plan,
        applied,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    mod refusals;
    mod status;
    pub(crate) mod steps;
}
