//! One shard: one thread, one consumer, one member of the group. It reads, cuts, hands over, and commits.
//!
//! The loop polls everything, never blocks, and parks when nothing is left to do. What it decides, it asks pure
//! functions and the sessions for. Must not be here: HTTP, compression, retries of INSERTs (the async side has those).

mod commits;
mod lookups;
mod read;
mod rebalance;
mod stop;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::worker_config::WorkerConfig;

use self::commits::SentCommits;
use self::lookups::Lookups;
use self::rebalance::Revocation;
use self::stop::Stop;
pub use self::stop::{StopSignal, Stopped};
use crate::decode::Decoder;
use crate::insert::{Acknowledged, Inserter};
use crate::kafka::{Consumer, Fault, KafkaError, PartitionHandle, TopicPartition};
use crate::lane::Lane;
use crate::metrics::Metrics;
use crate::schema::Schema;
use crate::session::Session;
use crate::state::WorkerState;
use crate::table_watch::TableWatch;

/// Longest park: a missed wake-up costs at most this.
const LONGEST_PARK: Duration = Duration::from_millis(500);

/// Why a shard ended on its own account. The process then exits and is started again; nothing is lost by that.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// librdkafka gave up on this consumer.
    #[error("the Kafka client has failed for good: {0}; the worker starts again")]
    Fatal(Fault),
    /// A call that cannot fail in a running consumer did.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

/// What a shard is given.
pub struct ShardParts {
    /// Number of the shard.
    pub index: usize,
    /// The configuration.
    pub config: Arc<WorkerConfig>,
    /// Hash of the mapping, for commits.
    pub mapping: String,
    /// The compiled mapping.
    pub schema: Arc<Schema>,
    /// The way to ClickHouse.
    pub inserter: Inserter,
    /// What came back from there.
    pub acknowledged: Receiver<Acknowledged>,
    /// The table's state.
    pub table: TableWatch,
    /// Where views are published.
    pub state: Arc<WorkerState>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Tells when to stop.
    pub stop: Arc<StopSignal>,
    /// Bytes that this shard may buffer.
    pub budget_bytes: u64,
}

/// A partition of this shard.
struct Slot {
    session: Session,
    lane: Option<Lane>,
    handle: PartitionHandle,
    low: Option<i64>,
    end: Option<i64>,
    behind_since: Option<Instant>,
}

/// One shard.
pub struct Shard {
    parts: ShardParts,
    consumer: Consumer,
    decoder: Decoder,
    slots: BTreeMap<TopicPartition, Slot>,
    /// Bytes of each batch that is not acknowledged.
    in_flight: BTreeMap<u64, u64>,
    next_batch: u64,
    commits: SentCommits,
    lookups: Lookups,
    revocation: Option<Revocation>,
    stop: Option<Stop>,
    member: bool,
    cluster_id: Arc<str>,
    published_at: Option<Instant>,
}

impl Shard {
    /// A shard around a consumer that has subscribed.
    #[must_use]
    pub fn new(parts: ShardParts, consumer: Consumer) -> Self {
        let decoder = Decoder::new(Arc::clone(&parts.schema));
        Self {
            parts,
            consumer,
            decoder,
            slots: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            next_batch: 1,
            commits: SentCommits::default(),
            lookups: Lookups::default(),
            revocation: None,
            stop: None,
            member: false,
            cluster_id: Arc::from(""),
            published_at: None,
        }
    }

    /// Runs until it is told to stop, or the client fails for good.
    ///
    /// # Errors
    /// [`ShardError`]; everything that was not committed is replayed by the next owner.
    pub fn run(mut self) -> Result<Stopped, ShardError> {
        loop {
            let now = Instant::now();
            let worked = self.turn(now)?;
            if let Some(stopped) = self.serve_stop(now) {
                return Ok(self.leave(stopped));
            }
            self.publish(now);
            if !worked {
                std::thread::park_timeout(self.park_for(now));
            }
        }
    }

    /// One turn of the loop; true where there was anything to do.
    fn turn(&mut self, now: Instant) -> Result<bool, ShardError> {
        let events = self.serve_main(now)?;
        let answers = self.serve_ops(now)?;
        let acknowledged = self.serve_acknowledged(now);
        let read = self.read_all(now)?;
        let cut = self.cut_where_due(now);
        self.serve_revocation(now)?;
        self.send_lookups(now);
        self.send_commits(now);
        Ok(events || answers || acknowledged || read || cut)
    }

    fn serve_acknowledged(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Ok(acknowledged) = self.parts.acknowledged.try_recv() {
            self.in_flight.remove(&acknowledged.batch);
            for (partition, start, end) in &acknowledged.ranges {
                if let Some(slot) = self.slots.get_mut(partition) {
                    slot.session.on_acknowledged(*start, *end, now);
                }
            }
            any = true;
        }
        any
    }

    /// How long nothing can be due.
    fn park_for(&self, now: Instant) -> Duration {
        let commits = self
            .slots
            .values()
            .filter_map(|slot| slot.session.commit_due())
            .min();
        let due = [
            self.cut_due(now),
            commits,
            self.lookups.due(),
            self.revocation_due(),
            self.stop_due(),
        ];
        let next = due
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now + LONGEST_PARK);
        next.saturating_duration_since(now)
            .clamp(Duration::from_millis(1), LONGEST_PARK)
    }
}
