//! The session of one partition, from its assignment to its end: a pure state machine.
//!
//! `Fetching → (Recording →) Checking | Creating → Replaying → Running → Draining → Closed`, and `Held`. Events and
//! `now` come in; the answers say what to commit, what to read, and (the gate) what may be sent. Must not be here: I/O,
//! clocks, randomness (numbers are passed in).

mod commit;
pub mod gate;
pub mod position;
pub mod ranges;
mod replay;
mod split;
mod state;
pub mod time;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::worker_config::Guarantee;

use self::commit::CommitState;
pub use self::commit::{CommitContext, CommitOutcome, CommitRequest};
use self::gate::{Declared, GateView};
use self::position::{Gap, Identity, Start};
use self::ranges::{MAX_RUNNING, Ranges, Stage};
pub use self::replay::Reading;
pub use self::state::{Hold, State};
pub use self::time::Now;
pub use crate::window::ReplayMode;

/// A held session looks again after this long.
pub const HOLD_RETRY: Duration = Duration::from_secs(5);
/// What is acknowledged is committed after this long at the latest, however long the linger is.
pub const LONGEST_TAIL: Duration = Duration::from_secs(5);

/// What a session promises and how patient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// The guarantee.
    pub guarantee: Guarantee,
    /// What is acknowledged is committed this long after, where nothing new is declared.
    pub linger: Duration,
    /// An INSERT is sent only while its declaration was acknowledged less than this ago.
    pub max_declaration_age: Duration,
    /// The first commit is read back: nobody has proved yet that the broker keeps metadata.
    pub read_back: bool,
}

/// One partition's session.
#[derive(Clone, Debug)]
pub struct Session {
    settings: SessionSettings,
    state: State,
    gate_open: bool,
    identity: Option<Identity>,
    pending: Option<Start>,
    sequence: u64,
    acknowledged: i64,
    cut: i64,
    read_from: i64,
    committed: Option<i64>,
    ranges: Ranges,
    splitting: Option<(i64, i64)>,
    splits: VecDeque<(i64, i64, i64)>,
    plan_mapping: Option<String>,
    plan_declared_at_s: u64,
    replay_mode: Option<ReplayMode>,
    max_declared: usize,
    commit: CommitState,
    commit_failures: u32,
    acknowledged_since: Option<Instant>,
    declared_at: Option<Duration>,
    proof: Option<String>,
    progress_at: Instant,
}

impl Session {
    /// A session that has just been assigned.
    #[must_use]
    pub fn new(settings: SessionSettings, now: Now) -> Self {
        Self {
            settings,
            state: State::Fetching,
            gate_open: true,
            identity: None,
            pending: None,
            sequence: 0,
            acknowledged: 0,
            cut: 0,
            read_from: 0,
            committed: None,
            ranges: Ranges::default(),
            splitting: None,
            splits: VecDeque::new(),
            plan_mapping: None,
            plan_declared_at_s: 0,
            replay_mode: None,
            max_declared: MAX_RUNNING,
            commit: CommitState::Idle,
            commit_failures: 0,
            acknowledged_since: None,
            declared_at: None,
            proof: None,
            progress_at: now.instant,
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

    /// The ranges that are not behind the position yet.
    #[must_use]
    pub const fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// True while commits, inserts and acknowledgements of this partition may pass.
    #[must_use]
    pub const fn gate_open(&self) -> bool {
        self.gate_open
    }

    /// What may be sent now.
    #[must_use]
    pub fn gate(&self) -> GateView {
        let guarded = self.declares_new() || self.ranges.has_replay();
        let declared = guarded.then(|| Declared {
            ranges: self
                .ranges
                .iter()
                .filter(|range| range.stage == Stage::Declared)
                .map(|range| (range.start, range.end))
                .collect(),
            valid_until: self
                .declared_at
                .map_or(Duration::ZERO, |at| at + self.settings.max_declaration_age),
        });
        GateView {
            open: self.gate_open,
            declared,
        }
    }

    fn declares_new(&self) -> bool {
        self.settings.guarantee == Guarantee::ExactlyOnce
    }

    /// True where the position has to be asked for.
    #[must_use]
    pub fn wants_position(&self, now: Now) -> bool {
        match &self.state {
            State::Fetching => true,
            State::Held(hold) => hold.retry_at <= now.instant && self.is_settled(),
            _ => false,
        }
    }

    /// True where nothing is on its way and all that is acknowledged is committed.
    fn is_settled(&self) -> bool {
        let committed = self
            .committed
            .is_none_or(|committed| committed >= self.acknowledged);
        let idle = matches!(self.commit, CommitState::Idle | CommitState::Pause { .. });
        committed && !self.ranges.has_open() && idle
    }

    /// The position is known. Returns the gaps that have to be recorded before it is used.
    pub fn on_start(&mut self, start: Start, now: Now) -> Vec<Gap> {
        if !self.gate_open || !matches!(self.state, State::Fetching | State::Held(_)) {
            return Vec::new();
        }
        let gaps = match &start {
            Start::Hold { .. } => Vec::new(),
            Start::Resume { gaps, .. } | Start::Create { gaps, .. } => gaps.clone(),
        };
        if gaps.is_empty() {
            self.begin(start, now);
        } else {
            self.pending = Some(start);
            self.state = State::Recording;
        }
        gaps
    }

    /// The gaps of [`Self::on_start`] are in the rejected table.
    pub fn on_gaps_recorded(&mut self, now: Now) {
        if !self.gate_open || self.state != State::Recording {
            return;
        }
        if let Some(start) = self.pending.take() {
            self.begin(start, now);
        }
    }

    fn begin(&mut self, start: Start, now: Now) {
        self.ranges = Ranges::default();
        (self.plan_mapping, self.replay_mode) = (None, None);
        (self.splitting, self.splits) = (None, VecDeque::new());
        (self.declared_at, self.proof) = (None, None);
        match start {
            Start::Hold {
                reason,
                about,
                message,
            } => self.hold(reason, about, message, now),
            Start::Resume {
                offset,
                identity,
                sequence,
                plan,
                skip_to,
                ..
            } => {
                self.place(offset, identity, sequence, now);
                self.committed = Some(offset);
                self.ranges = Ranges::from_plan(offset, &plan.ends, plan.declared_at_s);
                self.cut = plan.ends.last().copied().unwrap_or(offset);
                self.plan_mapping = (!plan.ends.is_empty()).then_some(plan.mapping);
                self.plan_declared_at_s = plan.declared_at_s;
                self.skip_to(skip_to);
                self.state = State::Checking;
            }
            Start::Create {
                offset, identity, ..
            } => {
                self.place(offset, identity, 0, now);
                self.committed = None;
                self.state = State::Creating;
            }
        }
    }

    fn place(&mut self, offset: i64, identity: Identity, sequence: u64, now: Now) {
        self.identity = Some(identity);
        self.sequence = sequence;
        self.acknowledged = offset;
        self.cut = offset;
        self.read_from = offset;
        self.acknowledged_since = None;
        self.progress_at = now.instant;
    }

    /// What lies before `offset` is recorded as lost: whole ranges there are done with, one across it is read from there.
    fn skip_to(&mut self, offset: i64) {
        self.read_from = self.read_from.max(offset);
        for range in self.ranges.iter_mut().filter(|range| range.end <= offset) {
            range.stage = Stage::Acknowledged;
        }
        self.cut = self.cut.max(offset);
        if self
            .ranges
            .iter()
            .all(|range| range.stage == Stage::Acknowledged)
        {
            self.ranges = Ranges::default();
            self.acknowledged = self.cut;
            self.plan_mapping = None;
        }
    }

    /// True where another range may be cut.
    #[must_use]
    pub fn may_cut(&self) -> bool {
        let states = matches!(self.state, State::Running | State::Draining);
        states
            && !self.ranges.has_replay()
            && self.splitting.is_none()
            && self.splits.is_empty()
            && self.ranges.len() < MAX_RUNNING
    }

    /// The range `[cut_end, end)` was cut and handed over; it waits for the gate.
    pub fn on_cut(&mut self, end: i64) {
        self.ranges.push(self.cut, end);
        self.cut = end;
    }

    /// Everything in `[start, end)` was acknowledged by `ClickHouse`, the dead letters, or a skip rule.
    ///
    /// Ignored once the gate is closed: the next owner replays.
    pub fn on_acknowledged(&mut self, start: i64, end: i64, now: Now) {
        if !self.gate_open {
            return;
        }
        let Some(range) = self.ranges.find(start, end) else {
            return;
        };
        range.stage = Stage::Acknowledged;
        self.progress_at = now.instant;
        if let Some(end) = self.ranges.take_acknowledged() {
            self.acknowledged = end;
            self.acknowledged_since.get_or_insert(now.instant);
        }
        self.next_split();
        if !self.ranges.has_replay() {
            self.plan_mapping = None;
            if self.state == State::Replaying {
                self.state = State::Running;
            }
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
        !self.gate_open || self.is_settled()
    }

    /// Keeps the place and says why.
    pub fn hold(&mut self, reason: &'static str, about: String, message: String, now: Now) {
        if matches!(self.state, State::Closed | State::Draining) {
            return;
        }
        let since = match &self.state {
            State::Held(hold) if hold.reason == reason => hold.since,
            _ => now.instant,
        };
        self.state = State::Held(Hold {
            reason,
            about,
            message,
            since,
            retry_at: now.instant + HOLD_RETRY,
        });
    }

    /// A person wants the cause of the hold looked at now.
    pub fn retry_now(&mut self, now: Now) {
        if let State::Held(hold) = &mut self.state {
            hold.retry_at = now.instant;
        }
    }

    /// Closes the gate: before `incremental_unassign`, or at once where the partition is lost.
    pub fn close(&mut self) {
        self.gate_open = false;
        self.state = State::Closed;
    }
}

#[cfg(test)]
mod tests;
