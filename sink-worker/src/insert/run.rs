//! What sending needs, and which way a batch takes.
//!
//! Must not be here: the ways themselves (`gated.rs`, `shared.rs`).

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use clickhouse::Client;
use clickhouse_sink_crds::worker_config::Compression;
use tokio::sync::Semaphore;

use super::Report;
use super::gate::Closed;
use super::gated::run_gated;
use super::job::Job;
use super::questions::TableQuestions;
use super::shared::run_shared;
use super::trouble::Troubles;
use super::window::WindowAnswers;
use crate::batch::{Batch, Part};
use crate::dead_letter::Rejected;
use crate::kafka::{TopicPartition, Waker};
use crate::metrics::{Metrics, gauge_value};
use crate::table_watch::TableWatch;

/// INSERTs of a worker that may be running at once, whatever waits.
pub const MAX_INSERTS: usize = 16;

/// Everything that sending a batch needs; one per shard.
pub struct InsertContext {
    /// Number of the shard.
    pub shard: usize,
    /// Client of the server.
    pub client: Client,
    /// `INSERT INTO db.rejected (columns) FORMAT RowBinaryWithNamesAndTypes`.
    pub rejected_sql: String,
    /// Database of the table.
    pub database: String,
    /// Name of the table.
    pub table_name: String,
    /// The consumer group, for tokens.
    pub group_id: String,
    /// Compression of the body.
    pub compression: Compression,
    /// An attempt ends after this long for us.
    pub timeout: Duration,
    /// An attempt without an answer has ended on the server after this long, counted from when it ended for us.
    pub attempt_ends_after: Duration,
    /// Attempts of an earlier session have ended after this long, counted from when the range is handed over.
    pub earlier_attempts_end_after: Duration,
    /// The table's state, and the way to have it looked at.
    pub table: TableWatch,
    /// The last answer about the use of the deduplication window.
    pub window_answers: WindowAnswers,
    /// Asks the table about ranges.
    pub questions: Arc<dyn TableQuestions>,
    /// Places of running INSERTs, [`MAX_INSERTS`] for all shards of a worker.
    pub places: Arc<Semaphore>,
    /// What is told to people.
    pub troubles: Arc<Troubles>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Reads a record again where its payload is needed after the fact.
    pub records: Arc<dyn RecordSource>,
}

/// Reads one record of Kafka again.
pub trait RecordSource: Send + Sync {
    /// The record at an offset as a dead letter without a reason; `None` where Kafka no longer has it.
    ///
    /// # Errors
    /// In words, where Kafka does not answer.
    fn read(&self, topic: &str, partition: i32, offset: i64) -> Result<Option<Rejected>, String>;
}

/// Tells the shard.
#[derive(Clone)]
pub(super) struct Reporter {
    pub(super) reports: Sender<Report>,
    pub(super) waker: Waker,
}

impl Reporter {
    pub(super) fn tell(&self, report: Report) {
        // The shard is gone only at exit, when nothing is acknowledged any more.
        let _ = self.reports.send(report);
        self.waker.wake();
    }
}

/// Sends the rejects, then the rows; the reports say how it ended. False where the gate was closed before that.
pub(super) async fn run_batch(
    context: &Arc<InsertContext>,
    batch: Batch,
    reporter: &Reporter,
) -> bool {
    let job = Job::new(context, &batch);
    let ended = match (&batch.gate, batch.parts.as_slice()) {
        (Some(_), [part]) => run_gated(&job, &batch, part, reporter).await,
        _ => run_shared(&job, &batch, reporter).await,
    };
    if ended == Err(Closed) {
        reporter.tell(Report::Dropped { batch: batch.id });
    }
    ended.is_ok()
}

pub(super) fn count_batch(metrics: &Metrics, batch: &Batch) {
    metrics.records_skipped.inc_by(batch.skipped());
    metrics
        .batch_rows
        .observe(gauge_value(i64::try_from(batch.rows()).unwrap_or(i64::MAX)));
}

pub(super) fn partition_of(part: &Part) -> TopicPartition {
    TopicPartition::new(Arc::clone(&part.topic), part.range.partition)
}
