//! The question before a replay: does the server still know the tokens of the plan?
//!
//! Must not be here: what the answer means (`crate::window`), verifying itself (`crate::verify`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::backoff::decide_backoff;
use super::class::Failure;
use super::run::InsertContext;
use super::{Inserter, Report};
use crate::kafka::TopicPartition;
use crate::session::gate::GateView;
use crate::verify::{TableName, fetch_window_use};
use crate::window::{ReplayMode, decide_replay};

impl Inserter {
    /// Asks how much of the window was used since `since_s` (0: unknown); the answer is a [`Report::Window`].
    ///
    /// Where rows have to be verified it comes after `wait`, when every attempt of an earlier session has ended. Nothing is
    /// answered once the gate is closed.
    pub fn ask_window(
        &self,
        partition: TopicPartition,
        since_s: u64,
        wait: Duration,
        gate: watch::Receiver<GateView>,
    ) {
        let (context, reports, waker) = (
            Arc::clone(&self.context),
            self.reports.clone(),
            self.waker.clone(),
        );
        let asked = Instant::now();
        self.runtime.spawn(async move {
            let Some(mode) = ask_until_answered(&context, &partition, since_s, gate).await else {
                return;
            };
            if mode == ReplayMode::Verify {
                let rest = wait.saturating_sub(asked.elapsed());
                tracing::info!(topic = %partition.topic, partition = partition.partition, wait_seconds = rest.as_secs(), "Declared ranges may be older than the deduplication window: the table is asked before they are sent.");
                tokio::time::sleep(rest).await;
            }
            // The shard is gone only at exit.
            let _ = reports.send(Report::Window { partition, mode });
            waker.wake();
        });
    }
}

/// `None` once the gate is closed.
async fn ask_until_answered(
    context: &InsertContext,
    partition: &TopicPartition,
    since_s: u64,
    gate: watch::Receiver<GateView>,
) -> Option<ReplayMode> {
    let mut failures = 0;
    while gate.borrow().open {
        match ask(context, since_s).await {
            Ok(mode) => return Some(mode),
            Err(failure) => {
                failures += 1;
                tracing::warn!(topic = %partition.topic, partition = partition.partition, error = %failure.message, "The use of the deduplication window is asked for again.");
                tokio::time::sleep(decide_backoff(failures, crate::random())).await;
            }
        }
    }
    None
}

async fn ask(context: &InsertContext, since_s: u64) -> Result<ReplayMode, Failure> {
    let report = context.table.report();
    let table = TableName {
        database: &context.database,
        table: &context.table_name,
    };
    let used = fetch_window_use(&context.client, table, since_s).await?;
    Ok(decide_replay(&report.window, &used))
}
