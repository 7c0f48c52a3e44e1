//! Everything that there is in one simulated history.
//!
//! Must not be here: what happens in it.

use std::time::{Duration, Instant};

use clickhouse_sink_crds::facts::TopicFact;
use clickhouse_sink_worker::session::{CommitContext, CommitOutcome, Now};

use super::coverage::{Coverage, Fault};
use super::excuse::{Cut, Excused};
use super::group::{Group, Joined};
use super::log::{Log, Topic};
use super::random::Random;
use super::scenario::{Bug, Rare, Scenario};
use super::table::Table;
use super::worker::Worker;

/// Name of the topic.
pub(super) const TOPIC: &str = "orders";
/// Consumer group, and cluster, for tokens.
pub(super) const GROUP: &str = "orders-sink";
pub(super) const CLUSTER: &str = "rnOvdI7dTsy7R9rDE6y9Ig";
/// First 8 digits of the table's uuid.
pub(super) const TABLE: &str = "0a1b2c3d";
/// Ids of the topic in its lives.
pub(super) const TOPIC_IDS: [&str; 4] = [
    "dG9waWMtaWQtMA",
    "dG9waWMtaWQtMQ",
    "dG9waWMtaWQtMg",
    "dG9waWMtaWQtMw",
];
/// Hashes of the mappings, oldest first; the last digit is the number.
pub(super) const MAPPINGS: [&str; 4] = ["ab12cd30", "ab12cd31", "ab12cd32", "ab12cd33"];
/// The server's clock at the begin.
const SERVER_START_S: u64 = 1_800_000_000;
/// An attempt of an INSERT ends after this long.
pub(super) const INSERT_MS: u64 = 30_000;
/// A declaration is good for so long.
pub(super) const DECLARATION_MS: u64 = 60_000;
/// A question to Kafka that is not answered for so long is asked again.
pub(super) const QUESTION_MS: u64 = 10_000;

/// What one process tells another.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) worker: usize,
    pub(super) process: u32,
    pub(super) due: u64,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Joined(Joined),
    Removed {
        member: u32,
    },
    Committed(Committed),
    Position {
        session: u32,
        op: u32,
        answer: Box<Answer>,
    },
    ReadBack {
        session: u32,
        op: u32,
        metadata: String,
    },
    GapsRecorded {
        session: u32,
        op: u32,
    },
    DeadLetters {
        session: u32,
        task: u32,
        op: u32,
    },
    Inserted {
        session: u32,
        task: u32,
        attempt: u32,
        result: Inserted,
    },
    Looked {
        session: u32,
        task: u32,
        op: u32,
        found: u64,
        sees_before: bool,
    },
}

/// The answer to a commit, and the truth about it.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) session: u32,
    pub(super) op: u32,
    pub(super) outcome: CommitOutcome,
    pub(super) declares: Vec<(i64, i64)>,
    pub(super) mapping: usize,
    pub(super) applied_at: u64,
}

/// Everything that is asked of Kafka before a session starts.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) group: Vec<clickhouse_sink_worker::session::position::Committed>,
    pub(super) life: u8,
    pub(super) load: u16,
    pub(super) low: i64,
    pub(super) high: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    Done,
    /// A record is at fault: nothing of it can have landed.
    Refused,
    /// It may have landed.
    Failed,
}

/// One history.
pub(super) struct World<'a> {
    pub(super) scenario: Scenario,
    pub(super) random: Random,
    /// Milliseconds since the begin.
    pub(super) time: u64,
    begin: Instant,
    pub(super) steps: u32,
    /// Everything is at rest.
    pub(super) over: bool,
    /// No more faults: everything runs to rest.
    pub(super) calm: bool,
    pub(super) topic: Topic,
    pub(super) group: Group,
    pub(super) table: Table,
    pub(super) workers: Vec<Worker>,
    pub(super) network: Vec<Message>,
    pub(super) contexts: Vec<CommitContext>,
    /// Digits of the tables that the sink has had.
    pub(super) tables: Vec<String>,
    /// Facts about the topic.
    pub(super) facts: Vec<TopicFact>,
    /// Partitions whose loss a person has answered.
    pub(super) skip: u8,
    /// Partitions whose declared ranges a person wants inserted again.
    pub(super) insert_again: u8,
    /// Partitions whose first declared range a person wants skipped, and those where nothing else will help.
    pub(super) skip_range: u8,
    /// Partitions whose plan is inserted again because a person wants it.
    pub(super) answered: u8,
    pub(super) refused: u8,
    /// Partitions of which a coordinator has lost a commit.
    pub(super) rolled_back: u8,
    /// A worker of the other guarantee has run.
    pub(super) shared: bool,
    pub(super) excused: Vec<Excused>,
    /// Where the end of a log was cut off, by partition.
    pub(super) cuts: Vec<Option<Cut>>,
    /// No worker is started before that.
    pub(super) paused_until: u64,
    /// A rare event that waits for an empty group.
    pub(super) waiting: Option<(Rare, usize)>,
    pub(super) newest_mapping: usize,
    /// Sessions that were the last to read a partition's position, and epochs for the planted bug.
    pub(super) readers: Vec<u32>,
    pub(super) epochs: Vec<Option<clickhouse_sink_crds::commit::Epoch>>,
    last_id: u32,
    pub(super) cover: &'a mut Coverage,
    pub(super) trace: Option<Vec<String>>,
    pub(super) violation: Option<String>,
}

/// Adds a line to the trace, where there is one.
macro_rules! say {
    ($world:expr, $($text:tt)*) => {
        if let Some(trace) = &mut $world.trace {
            trace.push(format!("{:>5} {:>9.3} s  {}", $world.steps, $world.time as f64 / 1000.0, format_args!($($text)*)));
        }
    };
}
pub(super) use say;

impl<'a> World<'a> {
    pub(super) fn new(seed: u64, bug: Option<Bug>, trace: bool, cover: &'a mut Coverage) -> Self {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(&mut random, bug);
        let context = |mapping: &&str| CommitContext {
            table: TABLE.to_owned(),
            mapping: (*mapping).to_owned(),
        };
        Self {
            random,
            time: 1_000,
            begin: Instant::now(),
            steps: 0,
            over: false,
            calm: false,
            topic: Topic {
                life: 0,
                first_partitions: scenario.partitions,
                logs: vec![Log::default(); scenario.partitions],
            },
            group: Group::new(scenario.partitions),
            table: Table::new(scenario.table_partitions, scenario.window),
            workers: (0..scenario.workers)
                .map(|_| Worker::new(scenario.guarantee))
                .collect(),
            network: Vec::with_capacity(32),
            contexts: MAPPINGS.iter().map(context).collect(),
            tables: vec![TABLE.to_owned()],
            facts: Vec::new(),
            skip: 0,
            insert_again: 0,
            skip_range: 0,
            answered: 0,
            refused: 0,
            rolled_back: 0,
            shared: false,
            excused: Vec::new(),
            cuts: vec![None; scenario.partitions],
            paused_until: 0,
            waiting: None,
            newest_mapping: 0,
            readers: vec![0; scenario.partitions],
            epochs: vec![None; scenario.partitions],
            last_id: 0,
            cover,
            trace: trace.then(Vec::new),
            violation: None,
            scenario,
        }
    }

    pub(super) fn bug(&self, bug: Bug) -> bool {
        self.scenario.bug == Some(bug)
    }

    pub(super) const fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// The moment as a worker sees it.
    pub(super) fn now(&self, worker: usize) -> Now {
        let since = Duration::from_millis(self.time);
        Now {
            instant: self.begin + since,
            boot: since,
            server_s: self.workers[worker].knows_time.then(|| self.second()),
        }
    }

    /// The server's clock.
    pub(super) const fn second(&self) -> u64 {
        SERVER_START_S + self.time / 1000
    }

    /// The second of a moment.
    pub(super) const fn second_of(time: u64) -> u64 {
        SERVER_START_S + time / 1000
    }

    /// The first thing that must not be ends the history.
    pub(super) fn violate(&mut self, text: impl FnOnce() -> String) {
        if self.violation.is_none() {
            let text = text();
            say!(self, "VIOLATION: {text}");
            self.violation = Some(text);
        }
    }

    /// Sends an answer to a worker.
    pub(super) fn send(&mut self, worker: usize, process: u32, body: Body) {
        let delay = if self.calm { 1 } else { self.draw_delay() };
        let due = self.time + delay;
        self.network.push(Message {
            worker,
            process,
            due,
            body,
        });
    }

    /// Mostly short, sometimes long.
    fn draw_delay(&mut self) -> u64 {
        match self.random.below(100) {
            0..80 => self.random.below(5),
            80..95 => self.random.below(300),
            95..99 => self.random.below(4_000),
            _ => self.random.below(20_000),
        }
    }

    /// Notes which states a fault meets on a worker.
    pub(super) fn cover_states(&mut self, worker: usize, fault: Fault) {
        for slot in self.workers[worker].slots.iter().filter(|slot| slot.owned) {
            self.cover.state(slot.session.state(), fault);
        }
    }
}
