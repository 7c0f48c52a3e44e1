//! The way of a batch into ClickHouse: dead letters first, then the INSERT, tried until it is acknowledged.
//!
//! This is the one place that writes to ClickHouse. A batch that was submitted is acknowledged, held, or dropped because
//! its partition was given up; else it is still being tried. Must not be here: offsets, commits, Kafka's consumer.

pub mod backoff;
pub mod class;
pub mod client;
mod gate;
mod gated;
mod job;
mod piece;
pub mod questions;
mod rejects;
pub mod run;
pub mod settings;
mod shared;
#[cfg(test)]
mod tests;
pub mod trouble;
mod window;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use tokio::runtime::Handle;

use self::job::Job;
use self::run::{InsertContext, Reporter};
pub use self::window::WindowAnswers;
use crate::batch::Batch;
use crate::kafka::{TopicPartition, Waker};
use crate::session::ReplayMode;
use crate::session::position::Gap;

/// What the async side tells a shard.
#[derive(Debug)]
pub enum Report {
    /// `ClickHouse` (and, for rejects, the dead-letter store) has acknowledged these ranges.
    Acknowledged {
        /// Number of the batch.
        batch: u64,
        /// Partition, start, end.
        ranges: Vec<(TopicPartition, i64, i64)>,
        /// True where the batch has ended; false while other parts of it are still on their way.
        last: bool,
    },
    /// A record in `[start, end)` is at fault: the range wants to be replaced by `[start, at)` and `[at, end)`. The task
    /// waits until the gate shows each half declared.
    Split {
        /// The partition.
        partition: TopicPartition,
        /// First offset of the range.
        start: i64,
        /// The offset behind its last one.
        end: i64,
        /// Where it is split.
        at: i64,
    },
    /// The range cannot go on by itself; the task has ended, and the session is held.
    Held {
        /// Number of the batch.
        batch: u64,
        /// The partition.
        partition: TopicPartition,
        /// First offset of the range.
        start: i64,
        /// The offset behind its last one.
        end: i64,
        /// CamelCase reason.
        reason: &'static str,
        /// What was expected, what was found, what to do.
        message: String,
    },
    /// The gate is closed: nothing more is done for this batch.
    Dropped {
        /// Number of the batch.
        batch: u64,
    },
    /// How the ranges of an earlier session are to be sent again.
    Window {
        /// The partition.
        partition: TopicPartition,
        /// At once, or only what the table does not have.
        mode: ReplayMode,
    },
    /// The gaps of a partition are in the rejected table.
    GapsRecorded {
        /// The partition.
        partition: TopicPartition,
    },
}

/// Hands batches of one shard to the async side.
pub struct Inserter {
    context: Arc<InsertContext>,
    runtime: Handle,
    reports: Sender<Report>,
    waker: Waker,
}

impl Inserter {
    /// What happens is told to `reports`, and wakes the shard.
    #[must_use]
    pub const fn new(
        context: Arc<InsertContext>,
        runtime: Handle,
        reports: Sender<Report>,
        waker: Waker,
    ) -> Self {
        Self {
            context,
            runtime,
            reports,
            waker,
        }
    }

    /// Writes gaps to the rejected table, for as long as it takes; then [`Report::GapsRecorded`].
    pub fn record_gaps(&self, partition: TopicPartition, gaps: Vec<Gap>) {
        let (context, reporter) = (Arc::clone(&self.context), self.reporter());
        let name = format!("{}/{}", partition.topic, partition.partition);
        self.runtime.spawn(async move {
            // Batches are numbered from 0: the upper half of the numbers is free for what is no batch.
            let id = crate::random() | (1 << 63);
            let job = Job::ungated(&context, id, name);
            if rejects::send_gaps(&job, &partition, &gaps).await.is_ok() {
                reporter.tell(Report::GapsRecorded { partition });
            }
        });
    }

    /// Starts sending a batch; its bytes are kept until it is acknowledged.
    pub fn submit(&self, batch: Batch) {
        let (context, reporter) = (Arc::clone(&self.context), self.reporter());
        self.runtime.spawn(async move {
            let started = Instant::now();
            if run::run_batch(&context, batch, &reporter).await {
                let seconds = started.elapsed().as_secs_f64();
                context.metrics.insert_seconds.observe(seconds);
            }
        });
    }

    fn reporter(&self) -> Reporter {
        Reporter {
            reports: self.reports.clone(),
            waker: self.waker.clone(),
        }
    }
}
