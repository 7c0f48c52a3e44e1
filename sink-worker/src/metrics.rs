//! The worker's metrics: what is counted where it happens, and what is read off the shards at scrape time.
//!
//! Must not be here: HTTP, decisions.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::state::WorkerView;

/// A failure's class.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ClassLabel {
    /// CamelCase class.
    pub class: &'static str,
}

/// Why something was rejected or held.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    /// CamelCase reason.
    pub reason: &'static str,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PartitionLabel {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
}

type Gauges = Family<PartitionLabel, Gauge<f64, AtomicU64>>;

/// Every metric of the worker.
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Rows that ClickHouse acknowledged.
    pub rows_inserted: Counter,
    /// Bytes of acknowledged request bodies, compressed.
    pub bytes_sent: Counter,
    /// INSERTs acknowledged.
    pub inserts: Counter,
    /// Seconds from a batch's cut to its acknowledgement.
    pub insert_seconds: Histogram,
    /// Seconds of one attempt.
    pub attempt_seconds: Histogram,
    /// Failed attempts by class.
    pub retries: Family<ClassLabel, Counter>,
    /// Rows in a batch.
    pub batch_rows: Histogram,
    /// Records acknowledged by the dead letters, by reason.
    pub records_rejected: Family<ReasonLabel, Counter>,
    /// Records skipped by rule (tombstones).
    pub records_skipped: Counter,
    /// Records read from Kafka.
    pub records_read: Counter,
    /// Payload bytes read from Kafka.
    pub bytes_read: Counter,
    /// Values replaced by a column's `onError`.
    pub values_replaced: Counter,
    /// Commits applied.
    pub commits: Counter,
    /// Commits that must be sent again.
    pub commit_retries: Counter,
    /// Seconds from a commit's sending to its answer.
    pub commit_seconds: Histogram,
    /// Assignments and revocations.
    pub rebalances: Counter,
    /// Offsets that Kafka lost, or that a person had skipped, by reason; each is a gap in the rejected table.
    pub offsets_skipped: Family<ReasonLabel, Counter>,
    /// Declared ranges of earlier sessions that were sent again, or found in the table.
    pub ranges_replayed: Counter,
    /// Of these, ranges that the table was asked about before.
    pub ranges_verified: Counter,
    /// Ranges that were split to find a refused record.
    pub ranges_split: Counter,
    /// Seconds that a record waits where all partitions have some.
    pub effective_linger: Gauge<f64, AtomicU64>,
    rejected_total: AtomicU64,
    lag: Gauges,
    stalled: Gauges,
    log_start_distance: Gauges,
    holds: Family<ReasonLabel, Gauge>,
    buffered_bytes: Gauge,
    memory_budget_bytes: Gauge,
    in_flight: Gauge,
    assigned: Gauge,
    draining: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("clickhouse_sink_worker")),
            rows_inserted: Counter::default(),
            bytes_sent: Counter::default(),
            inserts: Counter::default(),
            insert_seconds: seconds(),
            attempt_seconds: seconds(),
            retries: Family::default(),
            batch_rows: Histogram::new(exponential_buckets(1.0, 4.0, 11)),
            records_rejected: Family::default(),
            records_skipped: Counter::default(),
            records_read: Counter::default(),
            bytes_read: Counter::default(),
            values_replaced: Counter::default(),
            commits: Counter::default(),
            commit_retries: Counter::default(),
            commit_seconds: seconds(),
            rebalances: Counter::default(),
            offsets_skipped: Family::default(),
            ranges_replayed: Counter::default(),
            ranges_verified: Counter::default(),
            ranges_split: Counter::default(),
            effective_linger: Gauge::default(),
            rejected_total: AtomicU64::new(0),
            lag: Family::default(),
            stalled: Family::default(),
            log_start_distance: Family::default(),
            holds: Family::default(),
            buffered_bytes: Gauge::default(),
            memory_budget_bytes: Gauge::default(),
            in_flight: Gauge::default(),
            assigned: Gauge::default(),
            draining: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.register_counters(&mut registry);
        self.register_histograms(&mut registry);
        self.register_gauges(&mut registry);
    }

    fn register_counters(&self, registry: &mut Registry) {
        registry.register(
            "rows_inserted",
            "Rows that ClickHouse acknowledged",
            self.rows_inserted.clone(),
        );
        registry.register(
            "sent_bytes",
            "Bytes of acknowledged bodies, compressed",
            self.bytes_sent.clone(),
        );
        registry.register(
            "inserts",
            "INSERTs that ClickHouse acknowledged",
            self.inserts.clone(),
        );
        registry.register(
            "insert_retries",
            "Failed attempts by class",
            self.retries.clone(),
        );
        registry.register(
            "records_rejected",
            "Records in the dead letters by reason",
            self.records_rejected.clone(),
        );
        registry.register(
            "records_skipped",
            "Records skipped by rule",
            self.records_skipped.clone(),
        );
        registry.register(
            "records_read",
            "Records read from Kafka",
            self.records_read.clone(),
        );
        registry.register(
            "read_bytes",
            "Payload bytes read from Kafka",
            self.bytes_read.clone(),
        );
        registry.register(
            "values_replaced",
            "Values replaced by a column's onError",
            self.values_replaced.clone(),
        );
        registry.register(
            "commits",
            "Commits that Kafka applied",
            self.commits.clone(),
        );
        registry.register(
            "commit_retries",
            "Commits that had to be sent again",
            self.commit_retries.clone(),
        );
        registry.register(
            "rebalances",
            "Assignments and revocations",
            self.rebalances.clone(),
        );
        registry.register(
            "ranges_replayed",
            "Declared ranges of earlier sessions that were sent again or found in the table",
            self.ranges_replayed.clone(),
        );
        registry.register(
            "ranges_verified",
            "Replayed ranges that the table was asked about first",
            self.ranges_verified.clone(),
        );
        registry.register(
            "ranges_split",
            "Ranges split to find a refused record",
            self.ranges_split.clone(),
        );
        registry.register(
            "offsets_skipped",
            "Offsets recorded as a gap, by reason",
            self.offsets_skipped.clone(),
        );
    }

    fn register_histograms(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "insert",
            "Cut to acknowledgement of a batch",
            Unit::Seconds,
            self.insert_seconds.clone(),
        );
        registry.register_with_unit(
            "attempt",
            "One INSERT attempt",
            Unit::Seconds,
            self.attempt_seconds.clone(),
        );
        registry.register_with_unit(
            "commit",
            "A commit's way to its answer",
            Unit::Seconds,
            self.commit_seconds.clone(),
        );
        registry.register("batch_rows", "Rows in a batch", self.batch_rows.clone());
    }

    fn register_gauges(&self, registry: &mut Registry) {
        let stalled =
            "Seconds since the last acknowledged progress while the last stable offset is ahead";
        registry.register(
            "lag_records",
            "Records between the committed and the last stable offset",
            self.lag.clone(),
        );
        registry.register("stalled_seconds", stalled, self.stalled.clone());
        let distance = "Records between the log start and the committed offset";
        registry.register(
            "log_start_distance_records",
            distance,
            self.log_start_distance.clone(),
        );
        registry.register(
            "holds",
            "Held partitions and waiting batches by reason",
            self.holds.clone(),
        );
        registry.register(
            "buffered_bytes",
            "Bytes buffered or in flight",
            self.buffered_bytes.clone(),
        );
        registry.register(
            "memory_budget_bytes",
            "Ceiling of all that is buffered",
            self.memory_budget_bytes.clone(),
        );
        registry.register(
            "inserts_in_flight",
            "Batches not acknowledged yet",
            self.in_flight.clone(),
        );
        registry.register(
            "assigned_partitions",
            "Partitions of this worker",
            self.assigned.clone(),
        );
        registry.register_with_unit(
            "effective_linger",
            "How long a record waits where all partitions have some",
            Unit::Seconds,
            self.effective_linger.clone(),
        );
        registry.register(
            "draining",
            "1 while the worker stops",
            self.draining.clone(),
        );
    }

    /// Counts a record that the dead letters acknowledged.
    pub fn rejected(&self, reason: &'static str) {
        self.records_rejected
            .get_or_create(&ReasonLabel { reason })
            .inc();
        self.rejected_total.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts offsets that are recorded as a gap.
    pub fn gap(&self, reason: &'static str, offsets: i64) {
        self.offsets_skipped
            .get_or_create(&ReasonLabel { reason })
            .inc_by(u64::try_from(offsets).unwrap_or(0));
    }

    /// Records in the dead letters since the start, of all reasons.
    #[must_use]
    pub fn rejected_total(&self) -> u64 {
        self.rejected_total.load(Ordering::Relaxed)
    }

    /// The metrics as Prometheus text, with the gauges of this moment.
    #[must_use]
    pub fn render(&self, view: &WorkerView) -> String {
        self.set_gauges(view);
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }

    fn set_gauges(&self, view: &WorkerView) {
        self.set_partition_gauges(view);
        self.holds.clear();
        for hold in &view.holds {
            self.holds
                .get_or_create(&ReasonLabel {
                    reason: hold.reason,
                })
                .inc();
        }
        self.buffered_bytes
            .set(i64::try_from(view.buffered_bytes).unwrap_or(i64::MAX));
        self.memory_budget_bytes
            .set(i64::try_from(view.memory_budget_bytes).unwrap_or(i64::MAX));
        self.in_flight
            .set(i64::try_from(view.in_flight).unwrap_or(i64::MAX));
        self.assigned
            .set(i64::try_from(view.sessions.len()).unwrap_or(i64::MAX));
        self.draining.set(i64::from(view.draining));
    }

    fn set_partition_gauges(&self, view: &WorkerView) {
        for family in [&self.lag, &self.stalled, &self.log_start_distance] {
            family.clear();
        }
        for session in &view.sessions {
            let label = PartitionLabel {
                topic: session.topic.clone(),
                partition: session.partition,
            };
            let set = |family: &Gauges, value: f64| {
                family.get_or_create(&label).set(value);
            };
            if let Some(lag) = session.lag {
                set(&self.lag, gauge_value(lag));
            }
            set(&self.stalled, session.stalled_seconds);
            if let Some(distance) = session.log_start_distance {
                set(&self.log_start_distance, gauge_value(distance));
            }
        }
    }
}

/// A count as a gauge shows it.
#[allow(
    clippy::cast_precision_loss,
    reason = "a metric has 53 bits; above that the last digits do not matter"
)]
pub(crate) fn gauge_value(count: i64) -> f64 {
    count as f64
}
