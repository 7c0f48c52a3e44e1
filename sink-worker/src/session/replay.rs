//! What a session reads: the declared ranges of an earlier session first, exactly as they were cut, then whatever comes.
//!
//! Must not be here: reading itself, commits.

use super::ranges::Stage;
use super::{ReplayMode, Session, State};

/// What a shard reads for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Start of the first range.
    pub start: i64,
    /// First offset to read: behind the start where Kafka no longer has all of the range.
    pub from: i64,
    /// Ends of the ranges to cut exactly, in order; empty: cut where it is due.
    pub ends: Vec<i64>,
}

impl Session {
    /// True where records may be read.
    #[must_use]
    pub const fn reads(&self) -> bool {
        matches!(self.state, State::Replaying | State::Running)
    }

    /// What the shard has to read, once reading may begin: the first offset, and the ends of the ranges to replay (none:
    /// go on freely). `None`: nothing is read now.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        match self.state {
            State::Running => Some(Reading {
                start: self.cut,
                from: self.cut,
                ends: Vec::new(),
            }),
            State::Replaying if self.replay_mode.is_some() => {
                let unread: Vec<_> = self
                    .ranges
                    .iter()
                    .filter(|range| !range.sent && range.stage == Stage::Declared)
                    .collect();
                let first = unread.first()?;
                Some(Reading {
                    start: first.start,
                    from: first.start.max(self.read_from),
                    ends: unread.iter().map(|range| range.end).collect(),
                })
            }
            _ => None,
        }
    }

    /// The mapping that the ranges of an earlier session were cut under, while there are any.
    #[must_use]
    pub fn plan_mapping(&self) -> Option<&str> {
        self.plan_mapping.as_deref()
    }

    /// Since when the server must still know the tokens of the plan, in its seconds (0: unknown), while that is asked.
    #[must_use]
    pub fn wants_window(&self) -> Option<u64> {
        let waits = self.state == State::Replaying && self.replay_mode.is_none();
        waits.then_some(self.plan_declared_at_s)
    }

    /// When the plan of an earlier session was first declared, in `ClickHouse`'s seconds; 0: unknown.
    #[must_use]
    pub const fn plan_declared_at_s(&self) -> u64 {
        self.plan_declared_at_s
    }

    /// How the ranges of an earlier session are sent.
    #[must_use]
    pub const fn replay_mode(&self) -> Option<ReplayMode> {
        self.replay_mode
    }

    /// It is known whether the server still knows the tokens of the plan.
    pub fn on_window(&mut self, mode: ReplayMode) {
        if self.state == State::Replaying {
            self.replay_mode = Some(mode);
        }
    }

    /// A range of an earlier session was read to its end and handed over.
    pub fn on_replay_sent(&mut self, start: i64, end: i64) {
        if let Some(range) = self.ranges.find(start, end) {
            range.sent = true;
        }
    }
}
