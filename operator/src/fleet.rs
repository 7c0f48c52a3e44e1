//! The port to where workers run: what a fleet must be, what it is.
//!
//! Must not be here: how workers are started (`fleet/local.rs` runs child processes), decisions about a sink.

pub mod dry;
pub mod local;

use std::fmt::Write as _;
use std::future::Future;
use std::path::PathBuf;

use clickhouse_sink_crds::facts::TopicFact;
use clickhouse_sink_crds::group_plans::GroupPlans;
use clickhouse_sink_crds::worker_config::WorkerConfig;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::controller::memory::Memory;
use crate::warehouse::Account;

/// What a sink's fleet must be.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetSpec {
    /// How many workers; 0: all are drained and stopped.
    pub replicas: u32,
    /// Hash of the configuration, 16 hex digits.
    pub revision: String,
    /// What each worker runs on.
    pub config: Box<WorkerConfig>,
}

impl FleetSpec {
    /// A fleet of workers on one configuration.
    ///
    /// # Panics
    /// Never: a configuration always becomes JSON.
    #[must_use]
    pub fn new(replicas: u32, config: WorkerConfig) -> Self {
        let json = serde_json::to_vec(&config)
            .expect("a configuration is plain data, and its paths are UTF-8 since the state folder's path is");
        Self {
            replicas,
            revision: render_revision(&json),
            config: Box::new(config),
        }
    }
}

/// The first 8 bytes of a SHA-256, as hex: names a configuration or a set of credentials.
#[must_use]
pub fn render_revision(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(16);
    for byte in Sha256::digest(bytes).iter().take(8) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// What a fleet is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetState {
    /// Revision that was asked for last; none before the first.
    pub wanted_revision: Option<String>,
    /// Workers that were asked for last.
    pub wanted_replicas: u32,
    /// The workers, by number.
    pub workers: Vec<WorkerView>,
    /// Rows inserted since the fleet was started, restarts included.
    pub rows_inserted: u64,
    /// Records rejected since the fleet was started, restarts included.
    pub rejected: u64,
    /// Topics that workers have told since the fleet was started.
    pub topics: Vec<TopicFact>,
    /// True where a worker that was stopped left rows for replay (exit code 3, killed, or crashed on the way).
    pub left_rows: bool,
    /// For how many seconds the fleet has been what was asked for: every wanted worker ready on the wanted revision and no
    /// other one there.
    pub settled_s: u64,
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// Its number, from 0.
    pub index: u32,
    /// What it is doing.
    pub phase: WorkerPhase,
    /// Revision it runs; none where it does not run.
    pub revision: Option<String>,
    /// Port of its HTTP endpoints on 127.0.0.1.
    pub port: Option<u16>,
    /// What it says about itself.
    pub health: Health,
    /// The last message about it that a person should see, for example how it ended.
    pub message: Option<String>,
}

/// What a worker is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum WorkerPhase {
    /// It runs.
    Running,
    /// It was asked to stop.
    Draining,
    /// It ended by itself and waits for its next start.
    BackingOff,
    /// It does not run, and should not.
    Stopped,
}

/// What a worker says about itself over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `/readyz` said so.
    pub ready: bool,
    /// Why it is not ready.
    pub reasons: Vec<String>,
    /// Records between what is committed and the end of the log, over its partitions.
    pub lag: u64,
    /// Rows inserted since it started.
    pub rows_inserted: u64,
    /// Records rejected since it started.
    pub rejected: u64,
    /// Partitions that are held.
    pub holds: Vec<Hold>,
    /// Topics that it has positions on.
    pub topics: Vec<TopicFact>,
}

/// A partition that does not move, as the worker tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// `topic/partition`.
    pub partition: String,
    /// A stable word.
    pub reason: String,
    /// Names this hold as long as it lasts; empty where the worker does not say.
    #[serde(default)]
    pub id: String,
    /// What was expected, what was found, what to do.
    #[serde(default)]
    pub message: String,
}

/// Why a fleet could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A file or folder of the fleet's.
    #[error("cannot write {path}: {source}; is the state folder writable?")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What is remembered cannot be read.
    #[error(
        "cannot read {path}: {detail}; restore the file, or move it away: then it is made anew, and a topic or table that was \
         made again is not recognised as such until it was seen"
    )]
    Memory {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// What the consumer group has committed is not known.
    #[error("cannot read what the consumer group has committed: {detail}; is Kafka there?")]
    Plans {
        /// What came in the way.
        detail: String,
    },
    /// The configuration cannot be written.
    #[error("cannot write the worker configuration as JSON: {source}")]
    Config {
        /// What serde said.
        #[from]
        source: serde_json::Error,
    },
}

impl FleetError {
    /// A stable word for status and scripts.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "FactsUnreadable",
            Self::Plans { .. } => "PlansUnreadable",
            Self::File { .. } | Self::Config { .. } => "FleetUnwritable",
        }
    }
}

/// The port.
pub trait Fleet: Send + Sync {
    /// Where a worker of this fleet will find these credentials: a function of the arguments alone.
    fn locate_credentials(&self, account: &Account) -> PathBuf;

    /// Where a worker of this fleet will find its document of facts: always the same place; none where it has none.
    fn locate_facts(&self) -> Option<PathBuf>;

    /// What is remembered about the sink.
    fn fetch_memory(&self) -> impl Future<Output = Result<Memory, FleetError>> + Send;

    /// Remembers from now on.
    fn apply_memory(&self, memory: &Memory) -> impl Future<Output = Result<(), FleetError>> + Send;

    /// What the consumer group has committed and what its plans still name; reads only. Only while no worker runs does
    /// it stay true.
    fn fetch_plans(
        &self,
        config: &WorkerConfig,
    ) -> impl Future<Output = Result<GroupPlans, FleetError>> + Send;

    /// What [`Self::fetch_plans`] gave last, until it is forgotten.
    fn recall_plans(&self) -> Option<GroupPlans> {
        None
    }

    /// Forgets what [`Self::fetch_plans`] gave.
    fn forget_plans(&self) {}

    /// What the fleet is; reads only.
    fn fetch_state(&self) -> impl Future<Output = FleetState> + Send;

    /// Another number of workers on what they run already; nothing where they never ran.
    fn apply_replicas(&self, replicas: u32) -> impl Future<Output = Result<(), FleetError>> + Send;

    /// Makes the fleet what it must be; returns when that is under way, not when it is done.
    fn apply(
        &self,
        spec: &FleetSpec,
        account: Option<&Account>,
    ) -> impl Future<Output = Result<(), FleetError>> + Send;
}
