//! Step 5: how a sink is, in the words of its status. Pure.
//!
//! Must not be here: where the status is written or printed.

use clickhouse_sink_crds::names::reason;
use clickhouse_sink_crds::violation::Violation;
use serde::Serialize;

use crate::controller::apply::{Applied, Failure};
use crate::controller::declaration::Declaration;
use crate::controller::plan::{Plan, describe_difference};
use crate::controller::validate::{Validation, reason_of};
use crate::derived::Note;
use crate::fleet::{FleetState, Hold, WorkerPhase};

/// Reasons of local mode, beside those of the contract and of ClickHouse errors.
pub mod reasons {
    /// All is well.
    pub const READY: &str = "Ready";
    /// The sink was not looked at yet.
    pub const PENDING: &str = "Pending";
    /// A changed declaration was refused; what ran before goes on.
    pub const CHANGE_REFUSED: &str = "ChangeRefused";
    /// Workers drain for good.
    pub const STOPPING: &str = "Stopping";
    /// All workers have ended.
    pub const STOPPED: &str = "Stopped";
}

/// How a sink is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkStatus {
    /// `namespace/name`.
    pub sink: String,
    /// `database.table`.
    pub table: String,
    /// Workers that are ready.
    pub workers_ready: u32,
    /// Workers that should be.
    pub workers_wanted: u32,
    /// Rows inserted since the start.
    pub rows_inserted: u64,
    /// Records rejected since the start.
    pub rejected: u64,
    /// Records that wait in Kafka.
    pub lag: u64,
    /// A stable word.
    pub reason: &'static str,
    /// What was expected, what was found, what to do; empty where all is well.
    pub message: String,
    /// Data can flow.
    pub ready: bool,
    /// What the table's deduplication window lacks, and the statement that mends it; data flows all the same.
    pub window: Option<String>,
    /// What is under way with derived tables and views, or waits; data flows all the same.
    pub derived: Vec<String>,
    /// Partitions that are held, by partition; each once.
    pub holds: Vec<Hold>,
}

/// What the last reconcile left behind, as far as a status needs it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What the declaration is worth; none before the first reconcile.
    pub validation: Option<Validation>,
    /// What was meant.
    pub plan: Option<Plan>,
    /// What was done.
    pub applied: Applied,
    /// Why a changed declaration was refused.
    pub refused: Option<String>,
    /// Writes into the catalog that failed since the start.
    pub catalog_failures: u64,
}

impl Outcome {
    /// True once ClickHouse could be asked and did what it was told; what people must mend in a table is not its fault.
    #[must_use]
    pub const fn has_been_applied(&self) -> bool {
        matches!(self.validation, Some(Validation::Valid(_))) && self.applied.failed.is_none()
    }

    /// What keeps the sink from going on, workers left aside.
    #[must_use]
    pub fn trouble(&self) -> Option<(&'static str, String)> {
        self.validation.as_ref()?;
        explain_validation(self.validation.as_ref())
            .or_else(|| explain_held(self.plan.as_ref()))
            .or_else(|| explain_failure(self.applied.failed.as_ref()))
    }
}

/// How a sink is.
#[must_use]
pub fn build_status(
    declaration: &Declaration,
    outcome: &Outcome,
    fleet: &FleetState,
) -> SinkStatus {
    let (why, message) = explain(declaration, outcome, fleet);
    let expected = &declaration.expected;
    let ready = fleet
        .workers
        .iter()
        .filter(|worker| worker.health.ready && worker.phase == WorkerPhase::Running);
    SinkStatus {
        sink: declaration.qualified_name(),
        table: format!("{}.{}", expected.database, expected.name),
        workers_ready: u32::try_from(ready.count()).unwrap_or(u32::MAX),
        workers_wanted: declaration.replicas(),
        rows_inserted: fleet.rows_inserted,
        rejected: fleet.rejected,
        lag: fleet.workers.iter().map(|worker| worker.health.lag).sum(),
        ready: why == reasons::READY,
        reason: why,
        message,
        window: outcome
            .plan
            .as_ref()
            .and_then(|plan| plan.window.as_ref())
            .map(describe_difference),
        derived: list_notes(outcome),
        holds: list_holds(fleet),
    }
}

fn list_notes(outcome: &Outcome) -> Vec<String> {
    let notes = outcome.plan.iter().flat_map(Plan::list_notes);
    let told = notes.chain(&outcome.applied.notes).map(Note::render);
    let failures = outcome.catalog_failures;
    let counted = (failures > 0).then(|| format!("{failures} writes into the catalog failed"));
    told.chain(counted).collect()
}

fn list_holds(fleet: &FleetState) -> Vec<Hold> {
    let workers = fleet.workers.iter();
    let mut holds: Vec<Hold> = workers
        .flat_map(|worker| worker.health.holds.clone())
        .collect();
    holds.sort_by(|a, b| (&a.partition, &a.id).cmp(&(&b.partition, &b.id)));
    holds.dedup();
    holds
}

type Explanation = (&'static str, String);

/// The first reason that applies, the nearest to the user's hand first.
fn explain(declaration: &Declaration, outcome: &Outcome, fleet: &FleetState) -> Explanation {
    let refused = outcome
        .refused
        .clone()
        .map(|message| (reasons::CHANGE_REFUSED, message));
    refused
        .or_else(|| {
            outcome
                .validation
                .is_none()
                .then(|| (reasons::PENDING, String::new()))
        })
        .or_else(|| outcome.trouble())
        .or_else(|| explain_rest(declaration, fleet))
        .or_else(|| explain_drain(outcome.plan.as_ref()))
        .or_else(|| explain_workers(declaration, fleet))
        .unwrap_or((reasons::READY, String::new()))
}

fn explain_validation(validation: Option<&Validation>) -> Option<Explanation> {
    match validation {
        None | Some(Validation::Valid(_)) => None,
        Some(Validation::Invalid(violations)) => {
            Some((reason_of(violations), render_violations(violations)))
        }
        Some(Validation::Unknown(why)) => Some((why.reason, why.message.clone())),
    }
}

fn render_violations(violations: &[Violation]) -> String {
    violations
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn explain_held(plan: Option<&Plan>) -> Option<Explanation> {
    let held = &plan?.held;
    let messages: Vec<_> = held.iter().map(describe_difference).collect();
    (!held.is_empty()).then(|| (reason::TABLE_NOT_AS_DECLARED, messages.join("; ")))
}

fn explain_drain(plan: Option<&Plan>) -> Option<Explanation> {
    let message = "workers are stopped for a moment, so that a materialized view is changed between two inserts";
    plan?
        .derived
        .drain
        .then(|| (reason::VIEW_CHANGING, message.to_owned()))
}

fn explain_failure(failed: Option<&Failure>) -> Option<Explanation> {
    let Failure { step, why } = failed?;
    Some((why.reason, format!("cannot {step}: {}", why.message)))
}

fn explain_rest(declaration: &Declaration, fleet: &FleetState) -> Option<Explanation> {
    if declaration.replicas() > 0 {
        return None;
    }
    let draining = fleet
        .workers
        .iter()
        .filter(|worker| worker.phase == WorkerPhase::Draining)
        .count();
    let message = if draining > 0 {
        format!("{draining} workers are draining")
    } else {
        String::new()
    };
    let why = if declaration.sink.spec.paused {
        reason::PAUSED
    } else {
        reason::SCALED_TO_ZERO
    };
    Some((why, message))
}

fn explain_workers(declaration: &Declaration, fleet: &FleetState) -> Option<Explanation> {
    let crashed = fleet
        .workers
        .iter()
        .find(|worker| worker.phase == WorkerPhase::BackingOff);
    if let Some(worker) = crashed {
        let message = worker.message.clone().unwrap_or_default();
        return Some((
            reason::WORKERS_CRASHING,
            format!("worker {}: {message}", worker.index),
        ));
    }
    if let Some(hold) = fleet
        .workers
        .iter()
        .flat_map(|worker| &worker.health.holds)
        .next()
    {
        return Some((
            reason::PARTITION_HELD,
            format!("{} {}: {}", hold.partition, hold.reason, hold.message),
        ));
    }
    let is_ready = |worker: &&crate::fleet::WorkerView| {
        worker.health.ready && worker.phase == WorkerPhase::Running
    };
    let ready = fleet.workers.iter().filter(is_ready).count();
    if ready >= declaration.replicas() as usize {
        return None;
    }
    let waiting = fleet.workers.iter().find(|worker| !is_ready(worker));
    let message = waiting
        .map(|worker| worker.health.reasons.join("; "))
        .unwrap_or_default();
    Some((reason::WORKERS_STARTING, message))
}
