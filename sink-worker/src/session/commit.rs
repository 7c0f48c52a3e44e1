//! Commits of a session: what is declared, what is acknowledged, and what becomes of each.
//!
//! Must not be here: sending them.

use std::time::{Duration, Instant};

use clickhouse_sink_crds::commit::{CommitMetadata, MetadataError};

use super::ranges::{MAX_SPLITTING, RangeState, Stage};
use super::{LONGEST_TAIL, Now, Session, State};
use crate::insert::backoff::decide_backoff;

/// Longest wait between two tries of one commit.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// A commit to send, exactly these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// Committed offset: everything before it is acknowledged.
    pub offset: i64,
    /// Metadata of delivery.md.
    pub metadata: String,
    /// Start and end of every range that it declares.
    pub declares: Vec<(i64, i64)>,
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
    /// The broker does not take so much metadata.
    TooLarge,
    /// The broker refuses for a reason that waiting alone does not mend.
    Refused(&'static str),
}

/// The one commit that may be on its way.
#[derive(Clone, Debug)]
pub(super) enum CommitState {
    Idle,
    /// Sent at this moment of `CLOCK_BOOTTIME`.
    Outstanding {
        request: CommitRequest,
        sent_at: Duration,
    },
    Retry {
        request: CommitRequest,
        at: Instant,
    },
    /// The broker has refused the last one for good; the next one is made anew, not before this.
    Pause {
        until: Instant,
    },
}

/// What every commit of a worker says beside the partition's own facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitContext {
    /// First 8 hex digits of the table's uuid.
    pub table: String,
    /// Hash of everything that turns bytes into rows.
    pub mapping: String,
}

impl Session {
    /// The commit to send now, if any; at most one is outstanding, and a retry is the same bytes.
    pub fn next_commit(&mut self, context: &CommitContext, now: Now) -> Option<CommitRequest> {
        if !self.gate_open {
            return None;
        }
        let request = match &self.commit {
            CommitState::Outstanding { .. } => return None,
            CommitState::Retry { at, .. } | CommitState::Pause { until: at }
                if now.instant < *at =>
            {
                return None;
            }
            CommitState::Retry { request, .. } => request.clone(),
            CommitState::Idle | CommitState::Pause { .. } => self.new_commit(context, now)?,
        };
        self.commit = CommitState::Outstanding {
            request: request.clone(),
            sent_at: now.boot,
        };
        Some(request)
    }

    fn new_commit(&mut self, context: &CommitContext, now: Now) -> Option<CommitRequest> {
        if self.identity.is_none() || !self.commit_is_due(now) {
            return None;
        }
        self.sequence += 1;
        self.declare(now);
        match self.render(context) {
            Ok(request) => Some(request),
            Err(error) => {
                let message = format!("the commit's metadata cannot be written: {error}");
                self.hold("UnknownError", String::new(), message, now);
                None
            }
        }
    }

    fn commit_is_due(&self, now: Now) -> bool {
        let begins =
            matches!(self.state, State::Creating | State::Checking) && self.proof.is_none();
        begins
            || self.has_undeclared()
            || self.tail_due().is_some_and(|due| due <= now.instant)
            || self.refresh_due().is_some_and(|due| due <= now.boot)
    }

    /// True where a range waits for its declaration.
    fn has_undeclared(&self) -> bool {
        self.committed.is_some() && self.declarable().any(|range| range.stage == Stage::Cut)
    }

    /// The ranges that the next commit declares: none that is declared, or further, is ever left out.
    fn declarable(&self) -> impl Iterator<Item = &RangeState> {
        let most = if self.splitting.is_some() || self.ranges.has_replay() {
            MAX_SPLITTING
        } else {
            self.max_declared.max(self.ranges.in_plan())
        };
        self.ranges
            .iter()
            .filter(|range| self.declares_new() || range.replay)
            .take(most)
    }

    /// When what is acknowledged is committed although nothing new is declared.
    fn tail_due(&self) -> Option<Instant> {
        let ahead = self
            .committed
            .is_some_and(|committed| committed < self.acknowledged);
        let since = self.acknowledged_since.unwrap_or(self.progress_at);
        let at_once =
            !self.declares_new() || !matches!(self.state, State::Running | State::Replaying);
        let wait = if at_once {
            Duration::ZERO
        } else {
            self.settings.linger.min(LONGEST_TAIL)
        };
        ahead.then(|| since + wait)
    }

    /// When the plan is committed again so that its declaration stays young; on `CLOCK_BOOTTIME`.
    fn refresh_due(&self) -> Option<Duration> {
        let waits = self
            .ranges
            .iter()
            .any(|range| range.stage == Stage::Declared && range.sent);
        self.declared_at
            .filter(|_| waits)
            .map(|at| at + self.settings.max_declaration_age / 2)
    }

    /// A range keeps the time of its first declaration; a server whose time is not known gives 0, "unknown".
    fn declare(&mut self, now: Now) {
        let declares: Vec<i64> = self
            .declarable()
            .filter(|range| range.stage == Stage::Cut)
            .map(|range| range.start)
            .collect();
        let fresh = self
            .ranges
            .iter_mut()
            .filter(|range| declares.contains(&range.start) && !range.replay);
        for range in fresh.filter(|range| range.declared_at_s == 0) {
            range.declared_at_s = now.server_s.unwrap_or(0);
        }
    }

    fn render(&self, context: &CommitContext) -> Result<CommitRequest, MetadataError> {
        let declares: Vec<(i64, i64)> = self
            .declarable()
            .map(|range| (range.start, range.end))
            .collect();
        let identity = self.identity.as_ref().ok_or(MetadataError::Foreign)?;
        let metadata = CommitMetadata {
            offset: self.acknowledged,
            table: context.table.clone(),
            topic_id: identity.topic_id.clone(),
            first_partitions: identity.first_partitions,
            epoch: identity.epoch.clone(),
            mapping: self
                .plan_mapping
                .clone()
                .unwrap_or_else(|| context.mapping.clone()),
            declared_at_s: self
                .declarable()
                .next()
                .map_or(0, |range| range.declared_at_s),
            sequence: self.sequence,
            ends: declares.iter().map(|(_, end)| *end).collect(),
        };
        Ok(CommitRequest {
            offset: self.acknowledged,
            metadata: metadata.render()?,
            declares,
            alone: false,
        })
    }

    /// The outstanding commit was answered.
    pub fn on_commit(&mut self, outcome: CommitOutcome, now: Now, random: u64) {
        let CommitState::Outstanding { request, sent_at } = self.commit.clone() else {
            return;
        };
        self.commit = CommitState::Idle;
        if !self.gate_open {
            return;
        }
        match outcome {
            CommitOutcome::Applied => self.on_applied(&request, sent_at, now),
            CommitOutcome::Lost => self.close(),
            CommitOutcome::TooLarge => self.on_too_large(&request, now, random),
            CommitOutcome::Again => self.retry_commit(request, now, random),
            CommitOutcome::Refused(reason) => {
                self.hold(reason, String::new(), describe_refusal(reason), now);
                self.retry_commit(request, now, random);
            }
        }
    }

    fn decide_retry_at(&mut self, now: Now, random: u64) -> Instant {
        self.commit_failures = self.commit_failures.saturating_add(1);
        now.instant + decide_backoff(self.commit_failures, random).min(LONGEST_RETRY)
    }

    fn retry_commit(&mut self, request: CommitRequest, now: Now, random: u64) {
        let at = self.decide_retry_at(now, random);
        self.commit = CommitState::Retry {
            request: CommitRequest {
                alone: true,
                ..request
            },
            at,
        };
    }

    /// The broker has never had this commit, so what it was the first to declare may be declared in smaller portions.
    fn on_too_large(&mut self, request: &CommitRequest, now: Now, random: u64) {
        let in_plan = self.ranges.in_plan();
        if request.declares.len() > in_plan.max(1)
            && self.splitting.is_none()
            && !self.ranges.has_replay()
        {
            self.max_declared = (self.max_declared.min(request.declares.len()) / 2).max(1);
            return;
        }
        let until = self.decide_retry_at(now, random);
        self.commit = CommitState::Pause { until };
        if in_plan > 0 && !self.ranges.has_replay() && self.splitting.is_none() {
            // Shorter once the first of what is in flight is acknowledged.
            return;
        }
        let message = "expected a broker that takes 1,024 bytes of commit metadata, found one that refuses a single range; raise \
                       `offset.metadata.max.bytes`, or choose `delivery.guarantee: AtLeastOnce`";
        self.hold(
            "BrokerLimitsCommitMetadata",
            String::new(),
            message.to_owned(),
            now,
        );
    }

    fn on_applied(&mut self, request: &CommitRequest, sent_at: Duration, now: Now) {
        self.commit_failures = 0;
        self.committed = Some(request.offset);
        if request.offset >= self.acknowledged {
            self.acknowledged_since = None;
        }
        // The answer may have waited longer than the declaration is good for: its age counts from the question.
        self.declared_at = Some(sent_at);
        for &(start, end) in &request.declares {
            if let Some(range) = self
                .ranges
                .find(start, end)
                .filter(|range| range.stage == Stage::Cut)
            {
                range.stage = Stage::Declared;
            }
        }
        if !matches!(self.state, State::Creating | State::Checking) {
            return;
        }
        if self.settings.read_back && self.declares_new() {
            self.proof = Some(request.metadata.clone());
        } else {
            self.go_on(now);
        }
    }

    /// The position is ours, and so is the plan: on to the replay, or to new records.
    fn go_on(&mut self, now: Now) {
        self.proof = None;
        self.progress_at = now.instant;
        if let Some(end) = self.ranges.take_acknowledged() {
            self.acknowledged = end;
            self.acknowledged_since = Some(now.instant);
        }
        self.state = if self.ranges.has_replay() {
            State::Replaying
        } else {
            State::Running
        };
    }

    /// True where the committed metadata has to be read back.
    #[must_use]
    pub const fn wants_read_back(&self) -> bool {
        self.proof.is_some()
    }

    /// What the broker gave back for the first commit; true where it was kept as it is.
    pub fn on_read_back(&mut self, metadata: &[u8], now: Now) -> bool {
        let Some(proof) = &self.proof else {
            return false;
        };
        if proof.as_bytes() == metadata {
            self.go_on(now);
            return true;
        }
        let message = format!(
            "expected the broker to keep {} bytes of commit metadata, found {} other bytes: a proxy or a broker that is not Kafka's \
             drops them; use a broker that keeps them, or choose `delivery.guarantee: AtLeastOnce`",
            proof.len(),
            metadata.len()
        );
        self.proof = None;
        self.hold("BrokerDropsCommitMetadata", String::new(), message, now);
        false
    }

    /// When a commit is due, where the time alone makes it due.
    #[must_use]
    pub fn commit_due(&self) -> Option<Instant> {
        match &self.commit {
            CommitState::Retry { at, .. } | CommitState::Pause { until: at } => Some(*at),
            CommitState::Idle => self.tail_due(),
            CommitState::Outstanding { .. } => None,
        }
    }
}

fn describe_refusal(reason: &str) -> String {
    let remedy = match reason {
        "Unauthorized" => "grant the worker's user READ on the group and the topic",
        "TopicMissing" => {
            "expected the partition in the cluster, found none: was the topic deleted?"
        }
        _ => "look at `kafka.groupId` and at the broker's log",
    };
    format!(
        "Kafka refuses the commit of this partition's position; {remedy}; it is tried again by itself"
    )
}
