//! The session of one partition, from its assignment to its end: a pure state machine.
//!
//! `Fetching → Creating → Running → Draining → Closed`, and `Held(reason)`. Events and `now` come in, the answers say
//! what to commit and when to read. Must not be here: I/O, clocks, randomness (the epoch's number is passed in).

pub mod position;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::commit::{CommitMetadata, MetadataError};

use self::position::{Identity, Start};
use crate::insert::backoff::decide_backoff;

/// A held session looks again after this long.
pub const HOLD_RETRY: Duration = Duration::from_secs(5);

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its position, topic id and watermarks are being asked for.
    Fetching,
    /// Its first position is being committed; nothing is read before that is acknowledged.
    Creating,
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
            Self::Creating => "Creating",
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
    /// What was expected, what was found, what to do.
    pub message: String,
    /// When it began.
    pub since: Instant,
    /// When the cause is looked at again.
    pub retry_at: Instant,
}

/// A commit to send, exactly these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// Committed offset: everything before it is acknowledged.
    pub offset: i64,
    /// Metadata of delivery.md.
    pub metadata: String,
    /// True for a retry after an unknown outcome: it must travel in a request of its own.
    pub alone: bool,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The broker has it.
    Applied,
    /// Unknown, or refused for a passing reason: the same bytes again.
    Again,
    /// This member no longer owns the partition.
    Lost,
    /// The broker refuses for a reason that waiting alone does not mend.
    Refused(&'static str),
}

#[derive(Clone, Debug)]
struct InFlight {
    start: i64,
    end: i64,
    acknowledged: bool,
}

#[derive(Clone, Debug)]
enum CommitState {
    Idle,
    Outstanding(CommitRequest),
    Retry { request: CommitRequest, at: Instant },
}

/// One partition's session.
#[derive(Clone, Debug)]
pub struct Session {
    state: State,
    gate_open: bool,
    identity: Option<Identity>,
    sequence: u64,
    acknowledged: i64,
    cut: i64,
    committed: Option<i64>,
    in_flight: VecDeque<InFlight>,
    commit: CommitState,
    commit_failures: u32,
    progress_at: Instant,
}

impl Session {
    /// A session that has just been assigned.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            state: State::Fetching,
            gate_open: true,
            identity: None,
            sequence: 0,
            acknowledged: 0,
            cut: 0,
            committed: None,
            in_flight: VecDeque::new(),
            commit: CommitState::Idle,
            commit_failures: 0,
            progress_at: now,
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Everything before this offset is acknowledged.
    #[must_use]
    pub const fn acknowledged(&self) -> i64 {
        self.acknowledged
    }

    /// Start of the next range.
    #[must_use]
    pub const fn cut_end(&self) -> i64 {
        self.cut
    }

    /// The offset that the broker has acknowledged.
    #[must_use]
    pub const fn committed(&self) -> Option<i64> {
        self.committed
    }

    /// Topic id, epoch and partitions at the first start; absent before the position is known.
    #[must_use]
    pub const fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// When something was last acknowledged (insert, dead letter, skip by rule), or the session began.
    #[must_use]
    pub const fn progress_at(&self) -> Instant {
        self.progress_at
    }

    /// True while commits, inserts and acknowledgements of this partition may pass.
    #[must_use]
    pub const fn gate_open(&self) -> bool {
        self.gate_open
    }

    /// True where the position has to be asked for.
    #[must_use]
    pub fn wants_position(&self, now: Instant) -> bool {
        match &self.state {
            State::Fetching => true,
            State::Held(hold) => hold.retry_at <= now && self.in_flight.is_empty(),
            _ => false,
        }
    }

    /// True where records may be read and cut.
    #[must_use]
    pub const fn reads(&self) -> bool {
        matches!(self.state, State::Running)
    }

    /// The position is known. Returns the offset to read from, where reading may begin at once.
    pub fn on_start(&mut self, start: Start, now: Instant) -> Option<i64> {
        if !self.gate_open || !matches!(self.state, State::Fetching | State::Held(_)) {
            return None;
        }
        match start {
            Start::Hold { reason, message } => self.hold(reason, message, now),
            Start::Resume {
                offset,
                identity,
                sequence,
            } => {
                self.place(offset, identity, sequence, now);
                self.committed = Some(offset);
                self.state = State::Running;
                return Some(offset);
            }
            Start::Create { offset, identity } => {
                self.place(offset, identity, 0, now);
                self.committed = None;
                self.state = State::Creating;
            }
        }
        None
    }

    fn place(&mut self, offset: i64, identity: Identity, sequence: u64, now: Instant) {
        self.identity = Some(identity);
        self.sequence = sequence;
        self.acknowledged = offset;
        self.cut = offset;
        self.progress_at = now;
    }

    /// The range `[cut_end, end)` was cut and is on its way.
    pub fn on_cut(&mut self, end: i64) {
        self.in_flight.push_back(InFlight {
            start: self.cut,
            end,
            acknowledged: false,
        });
        self.cut = end;
    }

    /// Everything in `[start, end)` was acknowledged by ClickHouse, the dead letters, or a skip rule.
    ///
    /// Ignored once the gate is closed: the next owner replays.
    pub fn on_acknowledged(&mut self, start: i64, end: i64, now: Instant) {
        if !self.gate_open {
            return;
        }
        if let Some(range) = self
            .in_flight
            .iter_mut()
            .find(|range| range.start == start && range.end == end)
        {
            range.acknowledged = true;
            self.progress_at = now;
        }
        while self
            .in_flight
            .front()
            .is_some_and(|range| range.acknowledged)
        {
            if let Some(range) = self.in_flight.pop_front() {
                self.acknowledged = range.end;
            }
        }
    }

    /// The commit to send now, if any; at most one is outstanding, and a retry is the same bytes.
    pub fn next_commit(&mut self, table: &CommitContext, now: Instant) -> Option<CommitRequest> {
        if !self.gate_open {
            return None;
        }
        let request = match &self.commit {
            CommitState::Outstanding(_) => return None,
            CommitState::Retry { at, .. } if now < *at => return None,
            CommitState::Retry { request, .. } => request.clone(),
            CommitState::Idle => self.new_commit(table, now)?,
        };
        self.commit = CommitState::Outstanding(request.clone());
        Some(request)
    }

    fn new_commit(&mut self, table: &CommitContext, now: Instant) -> Option<CommitRequest> {
        let first = matches!(self.state, State::Creating);
        let ahead = self
            .committed
            .is_some_and(|committed| committed < self.acknowledged);
        let identity = self.identity.as_ref().filter(|_| first || ahead)?;
        self.sequence += 1;
        match render_metadata(identity, table, self.acknowledged, self.sequence) {
            Ok(metadata) => Some(CommitRequest {
                offset: self.acknowledged,
                metadata,
                alone: false,
            }),
            Err(error) => {
                self.hold(
                    "UnknownError",
                    format!("the commit's metadata cannot be written: {error}"),
                    now,
                );
                None
            }
        }
    }

    /// The outstanding commit was answered. Returns the offset to read from where that was the first position.
    pub fn on_commit(&mut self, outcome: CommitOutcome, now: Instant, random: u64) -> Option<i64> {
        let CommitState::Outstanding(request) =
            std::mem::replace(&mut self.commit, CommitState::Idle)
        else {
            return None;
        };
        if !self.gate_open {
            return None;
        }
        match outcome {
            CommitOutcome::Applied => return self.on_committed(request.offset, now),
            CommitOutcome::Lost => self.close(),
            CommitOutcome::Again | CommitOutcome::Refused(_) => {
                self.commit_failures = self.commit_failures.saturating_add(1);
                let at =
                    now + decide_backoff(self.commit_failures, random).min(Duration::from_secs(5));
                self.commit = CommitState::Retry {
                    request: CommitRequest {
                        alone: true,
                        ..request
                    },
                    at,
                };
            }
        }
        None
    }

    fn on_committed(&mut self, offset: i64, now: Instant) -> Option<i64> {
        self.committed = Some(offset);
        self.commit_failures = 0;
        if !matches!(self.state, State::Creating) {
            return None;
        }
        self.state = State::Running;
        self.progress_at = now;
        Some(offset)
    }

    /// When a commit is due again after a failure.
    #[must_use]
    pub const fn commit_due(&self) -> Option<Instant> {
        match &self.commit {
            CommitState::Retry { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Stops reading for good; what is in flight is waited for.
    pub fn start_drain(&mut self) {
        if !matches!(self.state, State::Closed) {
            self.state = State::Draining;
        }
    }

    /// True where nothing is in flight and all that is acknowledged is committed.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let committed = self
            .committed
            .is_none_or(|committed| committed >= self.acknowledged);
        !self.gate_open
            || (self.in_flight.is_empty() && committed && matches!(self.commit, CommitState::Idle))
    }

    /// Keeps the place and says why.
    pub fn hold(&mut self, reason: &'static str, message: String, now: Instant) {
        if matches!(self.state, State::Closed | State::Draining) {
            return;
        }
        let since = match &self.state {
            State::Held(hold) if hold.reason == reason => hold.since,
            _ => now,
        };
        self.state = State::Held(Hold {
            reason,
            message,
            since,
            retry_at: now + HOLD_RETRY,
        });
    }

    /// Closes the gate: before `incremental_unassign`, or at once where the partition is lost.
    pub fn close(&mut self) {
        self.gate_open = false;
        self.state = State::Closed;
    }

    /// Ranges on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

/// What every commit of a worker says beside the partition's own facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitContext {
    /// First 8 hex digits of the table's uuid.
    pub table: String,
    /// Hash of everything that turns bytes into rows.
    pub mapping: String,
}

fn render_metadata(
    identity: &Identity,
    context: &CommitContext,
    offset: i64,
    sequence: u64,
) -> Result<String, MetadataError> {
    let metadata = CommitMetadata {
        offset,
        table: context.table.clone(),
        topic_id: identity.topic_id.clone(),
        first_partitions: identity.first_partitions,
        epoch: identity.epoch.clone(),
        mapping: context.mapping.clone(),
        declared_at_s: 0,
        sequence,
        ends: Vec::new(),
    };
    metadata.render()
}

#[cfg(test)]
mod tests;
