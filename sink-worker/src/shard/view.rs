//! What a shard tells about itself, a few times a second.
//!
//! Must not be here: decisions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::fingerprint::fingerprint;

use super::{Answer, Shard, Slot};
use crate::kafka::TopicPartition;
use crate::session::{Hold, Now, State};
use crate::state::{HoldView, SessionView, ShardView, TopicView};

/// How often the view is published.
const PERIOD: Duration = Duration::from_millis(100);

impl Shard {
    /// Publishes the view where it is time.
    pub(super) fn publish(&mut self, now: Now) {
        if self
            .published_at
            .is_some_and(|at| now.instant < at + PERIOD)
        {
            return;
        }
        let moment = now;
        let now = now.instant;
        self.published_at = Some(now);
        self.take_answers(moment);
        let linger = self.effective_linger().as_secs_f64();
        self.parts.metrics.effective_linger.set(linger);
        let fill = self.fill();
        let view = ShardView {
            sessions: self
                .slots
                .iter()
                .map(|(key, slot)| session_view(key, slot, now))
                .collect(),
            holds: self
                .slots
                .iter()
                .filter_map(|(key, slot)| hold_view(key, slot, now))
                .collect(),
            buffered_bytes: self.buffered_bytes(&fill),
            in_flight: self.in_flight.len(),
            member: self.member,
            turned_at: Some(now),
            topics: self.topics_read(),
        };
        self.parts.state.publish(self.parts.index, view);
    }
}

impl Shard {
    /// Topics that a position of ours exists on: only those are facts about this sink.
    fn topics_read(&self) -> Vec<TopicView> {
        let read = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.session.committed().is_some());
        let ids: BTreeSet<(String, String)> = read
            .filter_map(|(key, slot)| {
                Some((
                    key.topic.to_string(),
                    slot.session.identity()?.topic_id.clone(),
                ))
            })
            .collect();
        let view = |(name, id): (String, String)| TopicView {
            partitions: self.topics.partitions_of(&name),
            name,
            id,
        };
        ids.into_iter().map(view).collect()
    }

    /// A person's answer to a hold has it looked at again at once.
    fn take_answers(&mut self, now: Now) {
        let facts = Arc::clone(&self.parts.facts.borrow());
        for (key, slot) in &mut self.slots {
            let State::Held(hold) = slot.session.state() else {
                continue;
            };
            let id = hold_id(hold, key);
            let answer = facts.resolutions.iter().find(|resolution| {
                resolution.hold == id && resolution.partition == key.to_string()
            });
            let Some(action) = answer.map(|answer| answer.action) else {
                continue;
            };
            let (reason, about) = (hold.reason, hold.about.clone());
            if slot
                .answer
                .as_ref()
                .is_none_or(|known| known.about != about || known.action != action)
            {
                tracing::info!(topic = %key.topic, partition = key.partition, hold = id, ?action, "A hold was answered.");
                slot.session.retry_now(now);
            }
            slot.answer = Some(Answer {
                reason,
                about,
                action,
            });
        }
    }
}

/// Names a hold: the same cause at the same place has the same name, also after a restart.
fn hold_id(hold: &Hold, key: &TopicPartition) -> String {
    let name = fingerprint(format!("{}\n{key}\n{}", hold.reason, hold.about).as_bytes());
    format!("{}-{}", hold.reason, &name[..8])
}

fn session_view(key: &TopicPartition, slot: &Slot, now: Instant) -> SessionView {
    let committed = slot.session.committed();
    SessionView {
        topic: key.topic.to_string(),
        partition: key.partition,
        state: slot.session.state().name(),
        declared: slot
            .session
            .gate()
            .declared
            .map_or(0, |declared| declared.ranges.len()),
        position: slot.session.acknowledged(),
        committed,
        end: slot.end,
        lag: slot
            .end
            .zip(committed)
            .map(|(end, committed)| (end - committed).max(0)),
        log_start_distance: slot
            .low
            .zip(committed)
            .map(|(low, committed)| (committed - low).max(0)),
        stalled_seconds: stalled_seconds(slot.behind_since, slot.session.progress_at(), now),
        epoch: slot
            .session
            .identity()
            .map(|identity| identity.epoch.to_string()),
    }
}

/// Seconds since the last acknowledged progress, counted only while the log is ahead of the position.
#[must_use]
fn stalled_seconds(behind_since: Option<Instant>, progress_at: Instant, now: Instant) -> f64 {
    behind_since.map_or(0.0, |since| {
        now.saturating_duration_since(since.max(progress_at))
            .as_secs_f64()
    })
}

fn hold_view(key: &TopicPartition, slot: &Slot, now: Instant) -> Option<HoldView> {
    let State::Held(hold) = slot.session.state() else {
        return None;
    };
    Some(HoldView {
        partition: key.to_string(),
        reason: hold.reason,
        id: hold_id(hold, key),
        since_seconds: now.saturating_duration_since(hold.since).as_secs(),
        message: hold.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_log_does_not_stall_however_long_ago_the_last_progress_was() {
        let long_ago = Instant::now();
        let now = long_ago + Duration::from_hours(1);
        assert!(stalled_seconds(None, long_ago, now) == 0.0);
    }

    #[test]
    fn the_stall_begins_when_the_log_moves_ahead_not_at_the_last_progress() {
        let progress = Instant::now();
        let behind = progress + Duration::from_mins(10);
        let now = behind + Duration::from_secs(2);
        assert!((stalled_seconds(Some(behind), progress, now) - 2.0).abs() < 1e-9);
        assert!((stalled_seconds(Some(behind), now, now)).abs() < 1e-9);
    }
}
