//! From a known position to records: lanes, replays in turns, the window, the self-test, gaps.
//!
//! Must not be here: which position it is (`session/position.rs`), reading itself.

use std::sync::Arc;
use std::time::Duration;

use clickhouse_sink_crds::facts::ResolutionAction;

use super::{Shard, ShardError};
use crate::kafka::TopicPartition;
use crate::lane::Lane;
use crate::session::position::{Gap, Start};
use crate::session::{Now, ReplayMode, State};

/// Replays that are asked about and fetched at the same time; the others wait for their turn.
const REPLAYS_AT_ONCE: usize = 32;
/// Every attempt of an earlier session has ended this long after its last possible start and its timeout.
const ATTEMPT_MARGIN: Duration = Duration::from_secs(5);

impl Shard {
    /// A position was decided on.
    pub(super) fn on_start(&mut self, key: &TopicPartition, start: Start, now: Now) {
        log_start(key, &start);
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        slot.window_asked = false;
        let gaps = slot.session.on_start(start, now);
        slot.publish_gate();
        if !gaps.is_empty() {
            self.record_gaps(key, gaps);
        }
    }

    fn record_gaps(&self, key: &TopicPartition, gaps: Vec<Gap>) {
        for gap in &gaps {
            tracing::warn!(topic = %key.topic, partition = key.partition, start = gap.start, end = gap.end, cause = gap.cause, "Kafka has lost records; the gap is recorded.");
            self.parts.metrics.gap(gap.cause, gap.end - gap.start);
        }
        self.parts.inserter.record_gaps(key.clone(), gaps);
    }

    pub(super) fn on_gaps_recorded(&mut self, key: &TopicPartition, now: Now) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.session.on_gaps_recorded(now);
            if let Some((start, end)) = slot.skipping.take() {
                slot.session.on_replay_sent(start, end);
                slot.session.on_acknowledged(start, end, now);
                (slot.answer, slot.window_asked) = (None, false);
            }
            slot.publish_gate();
        }
    }

    /// A declared range that a person wants skipped is recorded as a gap, and is done with after that.
    fn skip_range(&mut self, key: &TopicPartition, start: i64, end: i64) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let Some(identity) = slot.session.identity() else {
            return;
        };
        let gap = Gap {
            topic_id: identity.topic_id.clone(),
            epoch: identity.epoch.to_string(),
            start,
            end,
            cause: "WindowExceeded",
            maybe_inserted: true,
        };
        slot.skipping = Some((start, end));
        self.record_gaps(key, vec![gap]);
    }

    /// It is known whether the server still knows the tokens of a partition's plan.
    pub(super) fn on_window(&mut self, key: &TopicPartition, mode: ReplayMode) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.session.on_window(mode);
        }
    }

    /// Begins to read where a session wants it, and asks what it has to know before that.
    pub(super) fn start_lanes(&mut self, now: Now) -> Result<(), ShardError> {
        if self.stop.is_some() {
            return Ok(());
        }
        let idle: Vec<TopicPartition> = self
            .slots
            .iter()
            .filter(|(key, slot)| {
                slot.lane.is_none()
                    && !self.fetched_idly.contains(*key)
                    && matches!(slot.session.state(), State::Replaying | State::Running)
            })
            .map(|(key, _)| key.clone())
            .collect();
        let mut replays = self.replaying();
        for key in idle {
            let has_turn = replays < REPLAYS_AT_ONCE;
            if has_turn {
                self.ask_window(&key, now);
            }
            if self.start_lane(&key, has_turn, now)? || (has_turn && self.waits_for_window(&key)) {
                replays += 1;
            }
        }
        Ok(())
    }

    fn waits_for_window(&self, key: &TopicPartition) -> bool {
        let slot = self.slots.get(key);
        slot.is_some_and(|slot| slot.window_asked && slot.session.wants_window().is_some())
    }

    fn replaying(&self) -> usize {
        let lanes = self.slots.values().filter_map(|slot| slot.lane.as_ref());
        lanes.filter(|lane| lane.is_replay()).count()
    }

    /// True where a replay was begun.
    fn start_lane(
        &mut self,
        key: &TopicPartition,
        replay_allowed: bool,
        now: Now,
    ) -> Result<bool, ShardError> {
        let Some(slot) = self.slots.get_mut(key) else {
            return Ok(false);
        };
        let (Some(reading), Some(identity)) =
            (slot.session.reading(), slot.session.identity().cloned())
        else {
            return Ok(false);
        };
        let replay = !reading.ends.is_empty();
        if replay && !replay_allowed {
            return Ok(false);
        }
        let mappings = &self.parts.mappings;
        let hash = slot
            .session
            .plan_mapping()
            .unwrap_or(&mappings.current().hash);
        let Some(mapping) = mappings.find(hash).map(Arc::clone) else {
            let (hash, message) = (hash.to_owned(), unknown_mapping(hash));
            slot.session.hold("MappingUnknown", hash, message, now);
            return Ok(false);
        };
        slot.lane = Some(Lane::new(key, identity, mapping, &reading));
        self.consumer
            .incremental_assign(&[(key.clone(), reading.from)])?;
        Ok(replay)
    }

    /// Stops fetching a partition whose session does not read any more.
    ///
    /// Not while a revocation is drained: librdkafka would take it for the answer, and give away what is still ours.
    pub(super) fn stop_reading(&mut self, key: &TopicPartition) -> Result<(), ShardError> {
        let Some(slot) = self.slots.get_mut(key) else {
            return Ok(());
        };
        if slot.lane.take().is_none() {
            return Ok(());
        }
        if self.revocation.is_some() {
            self.fetched_idly.insert(key.clone());
            return Ok(());
        }
        self.stopped_fetching = true;
        self.consumer
            .incremental_unassign(std::slice::from_ref(key))?;
        Ok(())
    }

    /// Stops fetching what waited for a revocation to end.
    pub(super) fn stop_idle_fetches(&mut self) -> Result<(), ShardError> {
        let idle = std::mem::take(&mut self.fetched_idly);
        let idle: Vec<TopicPartition> = idle
            .into_iter()
            .filter(|key| self.slots.contains_key(key))
            .collect();
        if !idle.is_empty() {
            self.stopped_fetching = true;
            self.consumer.incremental_unassign(&idle)?;
        }
        Ok(())
    }

    fn ask_window(&mut self, key: &TopicPartition, now: Now) {
        let timeout =
            Duration::from_secs(u64::from(self.parts.config.delivery.insert_timeout_seconds));
        let not_before = self.session_settings().max_declaration_age + timeout + ATTEMPT_MARGIN;
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let Some(since_s) = slot.session.wants_window().filter(|_| !slot.window_asked) else {
            return;
        };
        slot.window_asked = true;
        match &slot.answer {
            Some(answer) if answer.action == ResolutionAction::InsertAgain => {
                slot.session.on_window(ReplayMode::Replay);
                return;
            }
            Some(answer) if answer.action == ResolutionAction::SkipAndRecord => {
                if let Some((start, end)) = answer.range() {
                    return self.skip_range(key, start, end);
                }
            }
            _ => {}
        }
        let verify_at = slot.assigned_at + not_before;
        let (gate, wait) = (
            slot.gate.subscribe(),
            verify_at.saturating_duration_since(now.instant),
        );
        self.parts
            .inserter
            .ask_window(key.clone(), since_s, wait, gate);
    }
}

fn unknown_mapping(hash: &str) -> String {
    format!(
        "expected the mapping {hash}, under which ranges in flight were cut, among those that this worker knows, found it not; a worker \
         with the configuration of before ends them by itself, so let the roll go on; where none is left, roll back to it once"
    )
}

fn log_start(key: &TopicPartition, start: &Start) {
    let (topic, partition) = (&key.topic, key.partition);
    match start {
        Start::Resume { offset, plan, .. } => {
            tracing::info!(%topic, partition, offset, declared = plan.ends.len(), "A partition goes on from its position.");
        }
        Start::Create {
            offset, identity, ..
        } => {
            tracing::info!(%topic, partition, offset, epoch = %identity.epoch, "A position is made.");
        }
        Start::Hold {
            reason, message, ..
        } => {
            tracing::warn!(%topic, partition, reason, %message, "A partition is held.");
        }
    }
}
