//! One shard: one thread, one consumer, one member of the group. It reads, cuts, hands over, and commits.
//!
//! The loop polls everything, never blocks, and parks when nothing is left to do. What it decides, it asks pure
//! functions and the sessions for. Must not be here: HTTP, compression, retries of INSERTs (the async side has those).

mod commits;
mod cut;
mod identity;
mod in_flight;
mod lookups;
mod read;
mod rebalance;
mod reports;
mod round;
mod start;
mod stop;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::facts::{Facts, ResolutionAction};
use clickhouse_sink_crds::worker_config::{Guarantee, WorkerConfig};
use tokio::sync::watch;

use self::commits::SentCommits;
use self::in_flight::InFlight;
use self::lookups::Lookups;
use self::rebalance::Revocation;
use self::stop::Stop;
pub use self::stop::{StopSignal, Stopped};
use crate::boot::boot_now;
use crate::decode::Decoder;
use crate::insert::{Inserter, Report};
use crate::kafka::{Consumer, Fault, KafkaError, PartitionHandle, TopicPartition};
use crate::lane::Lane;
use crate::mapping::Mappings;
use crate::metrics::Metrics;
use crate::pace::Pace;
use crate::reject_rate::RejectRate;
use crate::session::gate::{GateView, decide_declaration_age};
use crate::session::{Now, Session, SessionSettings};
use crate::shard::identity::TopicWatch;
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
    /// The present mapping and those that a declared range may name.
    pub mappings: Mappings,
    /// What is known from the sink's past, and people's answers to holds.
    pub facts: watch::Receiver<Arc<Facts>>,
    /// The way to ClickHouse.
    pub inserter: Inserter,
    /// What came back from there.
    pub reports: Receiver<Report>,
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
    gate: watch::Sender<GateView>,
    lane: Option<Lane>,
    handle: PartitionHandle,
    rejects: RejectRate,
    answer: Option<Answer>,
    skipping: Option<(i64, i64)>,
    assigned_at: Instant,
    window_asked: bool,
    low: Option<i64>,
    end: Option<i64>,
    behind_since: Option<Instant>,
}

/// A person's answer to the hold that a partition had last.
struct Answer {
    reason: &'static str,
    /// What exactly was held.
    about: String,
    action: ResolutionAction,
}

impl Answer {
    /// True where rejected records are to be written however many there are.
    fn accepts_rejects(&self) -> bool {
        self.reason == "TooManyRejected" && self.action == ResolutionAction::InsertAgain
    }

    /// The range that the hold was about, if it was about one.
    fn range(&self) -> Option<(i64, i64)> {
        let (start, end) = self.about.split_once('-')?;
        Some((start.parse().ok()?, end.parse().ok()?))
    }
}

impl Slot {
    fn new(settings: SessionSettings, handle: PartitionHandle, now: Now) -> Self {
        Self {
            session: Session::new(settings, now),
            gate: watch::Sender::new(GateView::shut()),
            lane: None,
            handle,
            rejects: RejectRate::default(),
            answer: None,
            skipping: None,
            assigned_at: now.instant,
            window_asked: false,
            low: None,
            end: None,
            behind_since: None,
        }
    }

    /// What the session says about the gate is told to the async side.
    fn publish_gate(&self) {
        let view = self.session.gate();
        self.gate.send_if_modified(|published| {
            let changed = *published != view;
            if changed {
                *published = view;
            }
            changed
        });
    }

    fn close(&mut self) {
        self.session.close();
        self.gate.send_replace(GateView::closed());
    }
}

/// One shard.
pub struct Shard {
    parts: ShardParts,
    consumer: Consumer,
    decoders: HashMap<String, Decoder>,
    slots: BTreeMap<TopicPartition, Slot>,
    in_flight: InFlight,
    next_batch: u64,
    commits: SentCommits,
    lookups: Lookups,
    topics: TopicWatch,
    pace: Pace,
    turns: usize,
    metadata_kept: bool,
    revocation: Option<Revocation>,
    /// Still fetched though nobody reads it: a revocation is being drained.
    fetched_idly: BTreeSet<TopicPartition>,
    /// Fetching of a partition was stopped since the group's events were last looked at.
    stopped_fetching: bool,
    stop: Option<Stop>,
    member: bool,
    cluster_id: Arc<str>,
    published_at: Option<Instant>,
}

impl Shard {
    /// A shard around a consumer that has subscribed.
    #[must_use]
    pub fn new(parts: ShardParts, consumer: Consumer) -> Self {
        Self {
            parts,
            consumer,
            decoders: HashMap::new(),
            slots: BTreeMap::new(),
            in_flight: InFlight::default(),
            next_batch: 1,
            commits: SentCommits::default(),
            lookups: Lookups::default(),
            topics: TopicWatch::default(),
            pace: Pace::new(Instant::now()),
            turns: 0,
            metadata_kept: false,
            revocation: None,
            fetched_idly: BTreeSet::new(),
            stopped_fetching: false,
            stop: None,
            member: false,
            cluster_id: Arc::from(""),
            published_at: None,
        }
    }

    fn session_settings(&self) -> SessionSettings {
        let delivery = &self.parts.config.delivery;
        let timeout = Duration::from_secs(u64::from(delivery.insert_timeout_seconds));
        SessionSettings {
            guarantee: delivery.guarantee,
            linger: Duration::from_millis(u64::from(self.parts.config.batch.linger_ms)),
            max_declaration_age: decide_declaration_age(timeout),
            read_back: !self.metadata_kept,
        }
    }

    /// True where each range is declared and has an INSERT of its own.
    fn declares(&self) -> bool {
        self.parts.config.delivery.guarantee == Guarantee::ExactlyOnce
    }

    fn now(&self) -> Now {
        let instant = Instant::now();
        Now {
            instant,
            boot: boot_now(),
            server_s: self.parts.table.report().server_now_s(instant),
        }
    }

    /// Runs until it is told to stop, or the client fails for good.
    ///
    /// # Errors
    /// [`ShardError`]; everything that was not committed is replayed by the next owner.
    pub fn run(mut self) -> Result<Stopped, ShardError> {
        loop {
            let now = self.now();
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
    fn turn(&mut self, now: Now) -> Result<bool, ShardError> {
        self.turns = self.turns.wrapping_add(1);
        let events = self.serve_main(now)?;
        let answers = self.serve_ops(now)?;
        let reports = self.serve_reports(now)?;
        self.start_lanes(now)?;
        let read = self.read_all(now)?;
        let cut = self.cut_where_due(now)?;
        self.serve_revocation(now)?;
        self.send_lookups(now);
        self.send_commits(now);
        Ok(events || answers || reports || read || cut)
    }

    /// How long nothing can be due.
    fn park_for(&self, now: Now) -> Duration {
        let commits = self
            .slots
            .values()
            .filter_map(|slot| slot.session.commit_due())
            .min();
        let due = [
            self.cut_due(now),
            commits,
            self.lookups.due(),
            self.topics.due(),
            self.revocation_due(),
            self.stop_due(),
        ];
        let next = due
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now.instant + LONGEST_PARK);
        next.saturating_duration_since(now.instant)
            .clamp(Duration::from_millis(1), LONGEST_PARK)
    }
}
