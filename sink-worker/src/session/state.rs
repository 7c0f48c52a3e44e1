//! The states of a session, and why one is held.
//!
//! Must not be here: how it gets from one to the other.

use std::time::Instant;

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its position, topic id and watermarks are being asked for.
    Fetching,
    /// What Kafka has lost is being written to the rejected table; the position moves after that.
    Recording,
    /// Its first position is being committed; nothing is read before that is acknowledged.
    Creating,
    /// The position and the plan that were found are being committed as they are.
    Checking,
    /// Declared ranges of an earlier session are read and sent again, exactly as they were cut.
    Replaying,
    /// Reading, cutting, sending, committing.
    Running,
    /// Nothing more is read; what is in flight is waited for.
    Draining,
    /// It keeps its place and waits for the cause to go away.
    Held(Hold),
    /// The gate is closed: nothing is sent or committed for it any more.
    Closed,
}

impl State {
    /// Name as `/state` shows it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fetching => "Fetching",
            Self::Recording => "Recording",
            Self::Creating => "Creating",
            Self::Checking => "Checking",
            Self::Replaying => "Replaying",
            Self::Running => "Running",
            Self::Draining => "Draining",
            Self::Held(_) => "Held",
            Self::Closed => "Closed",
        }
    }
}

/// Why a partition is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// CamelCase reason.
    pub reason: &'static str,
    /// What exactly is held (offsets, ids): another one is another hold, with another id.
    pub about: String,
    /// What was expected, what was found, what to do.
    pub message: String,
    /// When it began.
    pub since: Instant,
    /// When the cause is looked at again.
    pub retry_at: Instant,
}
