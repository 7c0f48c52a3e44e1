//! Step 4: writes. Idempotent, in order; stops at the first error and returns what was done.
//!
//! Must not be here: decisions.

use std::time::Duration;

use clickhouse_sink_crds::names::reason;
use serde::Serialize;
use tokio::time::sleep;

use crate::catalog::TABLE_NAME;
use crate::controller::memory::Memory;
use crate::controller::observe::Unreachable;
use crate::controller::plan::{FleetStep, Plan};
use crate::ddl::DdlStep;
use crate::derived::{DerivedStep, Note};
use crate::fleet::Fleet;
use crate::warehouse::{Account, Warehouse};

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Steps that were done, in words.
    pub done: Vec<String>,
    /// The step that failed, and why; what came after it was not tried.
    pub failed: Option<Failure>,
    /// What failed that data does not wait for.
    pub notes: Vec<Note>,
    /// A write into the catalog failed.
    pub catalog_failed: bool,
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The step, in words.
    pub step: String,
    /// Why.
    pub why: Unreachable,
}

/// Does what a plan says: tables first, since workers need them.
pub async fn apply<W: Warehouse, F: Fleet>(
    warehouse: &W,
    fleet: &F,
    account: Option<&Account>,
    plan: &Plan,
) -> Applied {
    let mut applied = Applied::default();
    let mut put_off = None;
    for step in &plan.ddl {
        match apply_ddl(warehouse, step).await {
            None => applied.done.push(step.describe()),
            // Rows can go on without it: told, and tried again.
            failed if !step.is_needed() => put_off = put_off.or(failed),
            failed => {
                applied.failed = failed;
                return applied;
            }
        }
    }
    for step in &plan.derived.steps {
        applied.failed = apply_derived(warehouse, step).await;
        if applied.failed.is_some() && step.is_awaited() {
            return applied;
        }
        if applied.failed.is_some() {
            break;
        }
        applied.done.push(step.describe());
    }
    let failed = apply_workers(fleet, account, plan, &mut applied.done).await;
    let is_running = failed.is_none();
    applied.failed = applied.failed.or(failed).or(put_off);
    if is_running {
        apply_view(warehouse, plan, &mut applied).await;
    }
    apply_catalog(warehouse, plan, &mut applied).await;
    applied
}

/// The view comes last, and data does not wait for it.
async fn apply_view<W: Warehouse>(warehouse: &W, plan: &Plan, applied: &mut Applied) {
    let Some(step) = &plan.flat.step else { return };
    match warehouse.apply_statement(&step.sql).await {
        Ok(()) => applied.done.push(step.what.clone()),
        // Somebody else was faster: the next look decides anew.
        Err(error) if error.is_there_already() => {}
        Err(error) => {
            let message = format!("cannot {}: {error}", step.what);
            tracing::warn!(step = step.what, %error, "Flat view stays as it is.");
            applied.notes.push(Note {
                table: "flat view".to_owned(),
                reason: error.reason(),
                message,
            });
        }
    }
}

/// A catalog that cannot be written is told, and never stops a sink.
async fn apply_catalog<W: Warehouse>(warehouse: &W, plan: &Plan, applied: &mut Applied) {
    let steps = plan.catalog.steps.iter().map(DdlStep::render);
    for sql in steps.chain(plan.catalog.insert.clone()) {
        let Err(error) = warehouse.apply_statement(&sql).await else {
            continue;
        };
        tracing::warn!(%error, "Catalog was not written.");
        applied.catalog_failed = true;
        applied.notes.push(Note {
            table: TABLE_NAME.to_owned(),
            reason: reason::CATALOG_UNWRITABLE,
            message: error.to_string(),
        });
        return;
    }
}

async fn apply_workers<F: Fleet>(
    fleet: &F,
    account: Option<&Account>,
    plan: &Plan,
    done: &mut Vec<String>,
) -> Option<Failure> {
    if let Some(memory) = &plan.memory {
        let failed = apply_memory(fleet, memory).await;
        if failed.is_some() {
            return failed;
        }
    }
    let failed = apply_fleet(fleet, account, &plan.fleet).await;
    if failed.is_none() {
        done.extend(plan.fleet.describe());
    }
    failed
}

async fn apply_derived<W: Warehouse>(warehouse: &W, step: &DerivedStep) -> Option<Failure> {
    if let Some(statement) = step.statement()
        && let Err(error) = warehouse.apply_statement(statement).await
    {
        return Some(Failure {
            step: step.describe(),
            why: error.into(),
        });
    }
    if let Some(warning) = step.warning() {
        let step = step.describe();
        tracing::warn!(step, warning, "Derived table was mended.");
    }
    None
}

/// Attempts of a statement that meets another one on the same table.
const ATTEMPTS: u32 = 3;
/// Wait between them.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

async fn apply_ddl<W: Warehouse>(warehouse: &W, step: &DdlStep) -> Option<Failure> {
    let sql = step.render();
    let mut result = warehouse.apply_statement(&sql).await;
    for _ in 1..ATTEMPTS {
        match &result {
            Err(error) if error.is_ddl_conflict() => {
                sleep(RETRY_PAUSE).await;
                result = warehouse.apply_statement(&sql).await;
            }
            _ => break,
        }
    }
    // Somebody else was faster: the next look says whether it is as declared.
    let error = result.err().filter(|error| !error.is_there_already())?;
    Some(Failure {
        step: step.describe(),
        why: error.into(),
    })
}

async fn apply_memory<F: Fleet>(fleet: &F, memory: &Memory) -> Option<Failure> {
    let error = fleet.apply_memory(memory).await.err()?;
    Some(Failure {
        step: "write down the facts".to_owned(),
        why: error.into(),
    })
}

async fn apply_fleet<F: Fleet>(
    fleet: &F,
    account: Option<&Account>,
    step: &FleetStep,
) -> Option<Failure> {
    let result = match step {
        FleetStep::Keep => Ok(()),
        FleetStep::Scale { replicas } => fleet.apply_replicas(*replicas).await,
        FleetStep::Run(spec) => fleet.apply(spec, account).await,
    };
    result.err().map(|error| Failure {
        step: step.describe().unwrap_or_default(),
        why: error.into(),
    })
}
