//! What a shard tells about itself, a few times a second.
//!
//! Must not be here: decisions.

use std::time::{Duration, Instant};

use super::{Shard, Slot};
use crate::kafka::TopicPartition;
use crate::session::State;
use crate::state::{HoldView, SessionView, ShardView};

/// How often the view is published.
const PERIOD: Duration = Duration::from_millis(100);

impl Shard {
    /// Publishes the view where it is time.
    pub(super) fn publish(&mut self, now: Instant) {
        if self.published_at.is_some_and(|at| now < at + PERIOD) {
            return;
        }
        self.published_at = Some(now);
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
        };
        self.parts.state.publish(self.parts.index, view);
    }
}

fn session_view(key: &TopicPartition, slot: &Slot, now: Instant) -> SessionView {
    let committed = slot.session.committed();
    SessionView {
        topic: key.topic.to_string(),
        partition: key.partition,
        state: slot.session.state().name(),
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
        id: format!("{}-{}-{}", hold.reason, key.topic, key.partition),
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
