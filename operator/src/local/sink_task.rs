//! One sink's loop in local mode: reconcile now, on a change, and again after a while, until told to stop.
//!
//! Must not be here: reading files, printing.

use std::path::PathBuf;
use std::time::Duration;

use clickhouse_sink_crds::names::reason;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::controller::declaration::Declaration;
use crate::controller::plan::Plan;
use crate::controller::reconcile;
use crate::controller::status::{Outcome, SinkStatus, build_status, reasons};
use crate::ddl::DdlStep;
use crate::fleet::local::LocalFleet;
use crate::fleet::{FleetError, FleetState};
use crate::local::build_warehouse;
use crate::local::delete::delete_tables;
use crate::local::state_folder::StateFolder;

/// What the loop is told.
#[derive(Debug, Clone)]
struct Orders {
    declaration: Declaration,
    stop_signals: u32,
    /// It is gone from the files: what it made may go too.
    is_removed: bool,
}

/// A sink that runs.
#[derive(Debug)]
pub struct SinkHandle {
    orders: watch::Sender<Orders>,
    refused: Option<String>,
    outcome: watch::Receiver<Outcome>,
    fleet: watch::Receiver<FleetState>,
    task: JoinHandle<FleetState>,
}

impl SinkHandle {
    /// Starts the loop of a sink.
    ///
    /// # Errors
    /// Where its folder cannot be made.
    pub fn start(
        declaration: Declaration,
        folder: &StateFolder,
        worker_bin: PathBuf,
    ) -> Result<Self, FleetError> {
        let path = folder.locate_sink(declaration.namespace(), declaration.name());
        let fleet = LocalFleet::new(
            &declaration.qualified_name(),
            path,
            folder.salt(),
            worker_bin,
        )?;
        let fleet_state = fleet.subscribe();
        let (orders, orders_receiver) = watch::channel(Orders {
            declaration,
            stop_signals: 0,
            is_removed: false,
        });
        let (outcome_sender, outcome) = watch::channel(Outcome::default());
        let task = tokio::spawn(run_sink(fleet, orders_receiver, outcome_sender));
        Ok(Self {
            orders,
            refused: None,
            outcome,
            fleet: fleet_state,
            task,
        })
    }

    /// What runs now.
    #[must_use]
    pub fn declaration(&self) -> Declaration {
        self.orders.borrow().declaration.clone()
    }

    /// A changed declaration takes the place of what runs.
    pub fn change(&mut self, declaration: Declaration) {
        self.refused = None;
        self.orders
            .send_modify(|orders| orders.declaration = declaration);
    }

    /// A changed declaration was refused, or, with none, no longer is.
    pub fn refuse(&mut self, why: Option<String>) {
        self.refused = why;
    }

    /// Asks the sink's workers to drain and stop; again: passes the hurry on.
    pub fn stop(&self) {
        self.orders.send_modify(|orders| orders.stop_signals += 1);
    }

    /// It is gone from the files: its workers drain, and then its tables go where `deletionPolicy` says so.
    pub fn remove(&self) {
        self.orders.send_modify(|orders| {
            orders.is_removed = true;
            orders.stop_signals += 1;
        });
    }

    /// True once it was asked to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.orders.borrow().stop_signals > 0
    }

    /// True once all workers have ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.task.is_finished()
    }

    /// True once ClickHouse could be asked and did what it was told.
    #[must_use]
    pub fn has_been_applied(&self) -> bool {
        self.outcome.borrow().has_been_applied()
    }

    /// How it is now.
    #[must_use]
    pub fn status(&self) -> SinkStatus {
        let outcome = Outcome {
            refused: self.refused.clone(),
            ..self.outcome.borrow().clone()
        };
        let status = build_status(
            &self.orders.borrow().declaration,
            &outcome,
            &self.fleet.borrow(),
        );
        if self.is_stopping() {
            self.build_stopping(status)
        } else {
            status
        }
    }

    fn build_stopping(&self, status: SinkStatus) -> SinkStatus {
        let reason = if self.is_stopped() {
            reasons::STOPPED
        } else {
            reasons::STOPPING
        };
        let message = if self.left_rows() {
            "rows were left for replay by the next start"
        } else {
            ""
        };
        SinkStatus {
            reason,
            message: message.to_owned(),
            ready: false,
            ..status
        }
    }

    /// True where a worker that was stopped left rows for replay.
    #[must_use]
    pub fn left_rows(&self) -> bool {
        self.fleet.borrow().left_rows
    }
}

async fn run_sink(
    fleet: LocalFleet,
    mut orders: watch::Receiver<Orders>,
    outcome: watch::Sender<Outcome>,
) -> FleetState {
    loop {
        let declaration = orders.borrow_and_update().declaration.clone();
        let topics = fleet.subscribe().borrow().topics.len();
        let was_troubled = has_table_trouble(&fleet.subscribe().borrow());
        let requeue_ms = tokio::select! {
            biased;
            () = wait_stop(orders.clone()) => break,
            requeue_ms = reconcile_once(&fleet, &declaration, &outcome) => requeue_ms,
        };
        tokio::select! {
            biased;
            changed = orders.changed() => if changed.is_err() { break },
            () = wait_topics(fleet.subscribe(), topics) => {}
            () = wait_table_trouble(fleet.subscribe(), was_troubled) => {}
            () = sleep(Duration::from_millis(requeue_ms)) => {}
        }
    }
    let state = stop_fleet(fleet, orders.clone()).await;
    let last = orders.borrow().clone();
    if last.is_removed {
        delete_tables(&last.declaration).await;
    }
    state
}

/// Waits for a topic that was not known when we looked: what workers read first must be remembered soon.
async fn wait_topics(mut fleet: watch::Receiver<FleetState>, known: usize) {
    if fleet
        .wait_for(|state| state.topics.len() > known)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

/// Waits for a worker to find the table changed: it is looked at now, not after the recheck period.
async fn wait_table_trouble(mut fleet: watch::Receiver<FleetState>, was_troubled: bool) {
    if was_troubled || fleet.wait_for(has_table_trouble).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn has_table_trouble(fleet: &FleetState) -> bool {
    let mut reasons = fleet
        .workers
        .iter()
        .flat_map(|worker| &worker.health.reasons);
    reasons.any(|told| told.starts_with(reason::TABLE_NOT_AS_DECLARED))
}

async fn wait_stop(mut orders: watch::Receiver<Orders>) {
    // A sender that is gone means stop as well.
    let _ = orders.wait_for(|orders| orders.stop_signals > 0).await;
}

/// One reconcile; how long until the next, in milliseconds.
async fn reconcile_once(
    fleet: &LocalFleet,
    declaration: &Declaration,
    outcome: &watch::Sender<Outcome>,
) -> u64 {
    let done = reconcile(&build_warehouse(declaration), fleet, declaration).await;
    let requeue_ms = if is_in_vain(&outcome.borrow(), &done.plan) {
        tracing::warn!(
            sink = declaration.qualified_name(),
            "Statements were done and are wanted again: the table takes them without becoming as declared."
        );
        done.plan.requeue_ms
    } else {
        done.requeue_ms()
    };
    let next = Outcome {
        validation: Some(done.validation),
        plan: Some(done.plan),
        catalog_failures: outcome.borrow().catalog_failures
            + u64::from(done.applied.catalog_failed),
        applied: done.applied,
        refused: None,
    };
    log_transition(declaration, &outcome.borrow(), &next);
    outcome.send_replace(next);
    requeue_ms
}

/// True where all of the plan's statements were done by the reconcile before.
fn is_in_vain(before: &Outcome, plan: &Plan) -> bool {
    let was_planned = before
        .plan
        .as_ref()
        .is_some_and(|before| before.ddl == plan.ddl);
    let was_done = |step: &DdlStep| before.applied.done.contains(&step.describe());
    was_planned && !plan.ddl.is_empty() && plan.ddl.iter().all(was_done)
}

/// One log line for each thing that was done, and one where the sink's trouble is not the one it had before.
fn log_transition(declaration: &Declaration, before: &Outcome, now: &Outcome) {
    let sink = declaration.qualified_name();
    for step in &now.applied.done {
        tracing::info!(sink, step, "Step was done.");
    }
    for step in now.plan.iter().flat_map(|plan| &plan.ddl) {
        if matches!(step, DdlStep::CreateAgain { .. })
            && now.applied.done.contains(&step.describe())
        {
            let step = step.describe();
            tracing::warn!(
                sink,
                step,
                "Table was gone and was made again: its rows are lost, unless they can be restored."
            );
        }
    }
    match (before.trouble(), now.trouble()) {
        (before, Some((reason, message)))
            if before.as_ref() != Some(&(reason, message.clone())) =>
        {
            tracing::warn!(sink, reason, message, "Sink cannot go on.");
        }
        (Some((reason, _)), None) => tracing::info!(sink, reason, "Sink goes on."),
        _ => {}
    }
}

async fn stop_fleet(fleet: LocalFleet, mut orders: watch::Receiver<Orders>) -> FleetState {
    fleet.begin_stop();
    let hurry = fleet.hurry_handle();
    let mut passed_on = 1;
    let stopped = fleet.wait_stopped();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            state = &mut stopped => return state,
            Ok(()) = orders.changed() => {
                let signals = orders.borrow_and_update().stop_signals;
                for _ in passed_on..signals {
                    hurry.begin_stop();
                }
                passed_on = passed_on.max(signals);
            }
        }
    }
}
