//! Facts: what a worker may need to know beside its configuration, and people's answers to holds.
//!
//! A small JSON document beside `WorkerConfig` that is read again while the worker runs, so it restarts no pod.
//! Must not be here: configuration, anything that decides how a record becomes a row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The newest version of the document that this build reads and writes.
pub const FACTS_VERSION: u32 = 1;

/// What is known about a sink from its past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Version of this document.
    pub version: u32,
    /// Topics that the sink has read, one entry for each id.
    #[serde(default)]
    pub topics: Vec<TopicFact>,
    /// uuids that the sink's table has had, the present one included.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Answers to holds.
    #[serde(default)]
    pub resolutions: Vec<Resolution>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            version: FACTS_VERSION,
            topics: Vec::new(),
            tables: Vec::new(),
            resolutions: Vec::new(),
        }
    }
}

/// A topic as it was once read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicFact {
    /// Its name.
    pub name: String,
    /// Its id, as Kafka prints it.
    pub id: String,
    /// Its partitions when it was last seen.
    pub partitions: u32,
}

/// A person's answer to a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// The held partition, `topic/partition`.
    #[schemars(length(min = 3, max = 260))]
    pub partition: String,
    /// Id of the hold, from `status.holds` or `/state`.
    #[schemars(length(min = 1, max = 200))]
    pub hold: String,
    /// What to do.
    pub action: ResolutionAction,
}

/// What a person wants done about a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResolutionAction {
    /// Look again at once.
    Retry,
    /// Insert the declared range (again), under its own token.
    InsertAgain,
    /// Go on behind what is held, and record it as a gap in the rejected table.
    SkipAndRecord,
}
