//! The end of a shard: drain within the budget, leave the group, say what was left.
//!
//! Must not be here: signals (`main.rs` has them).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Shard;
use crate::kafka::{MainEvent, OpResult};
use crate::session::Now;

/// librdkafka can crash while leaving a group whose coordinator is away, so it is asked something first.
const COORDINATOR_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a closing consumer is looked at.
const CLOSE_TURN: Duration = Duration::from_millis(5);

/// Tells shards to stop; shared by all of a worker.
#[derive(Debug, Default)]
pub struct StopSignal {
    stop: AtomicBool,
    hurry: AtomicBool,
}

impl StopSignal {
    /// Stop within the budget.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Stop now, whatever is in flight.
    pub fn hurry(&self) {
        self.hurry.store(true, Ordering::Release);
        self.stop();
    }
}

/// How a shard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// True where everything that was read is inserted and committed.
    pub drained: bool,
}

/// A stop on its way.
pub(super) struct Stop {
    deadline: Instant,
}

impl Shard {
    pub(super) fn stop_due(&self) -> Option<Instant> {
        self.stop.as_ref().map(|stop| stop.deadline)
    }

    /// Begins to stop when told to; `Some` when the drain has ended, one way or the other.
    pub(super) fn serve_stop(&mut self, now: Now) -> Option<Stopped> {
        if !self.parts.stop.stop.load(Ordering::Acquire) {
            return None;
        }
        let deadline = self.begin_stop(now);
        let drained =
            self.in_flight.is_empty() && self.slots.values().all(|slot| slot.session.is_drained());
        let hurry = self.parts.stop.hurry.load(Ordering::Acquire);
        (drained || hurry || now.instant >= deadline).then_some(Stopped { drained })
    }

    fn begin_stop(&mut self, now: Now) -> Instant {
        if let Some(stop) = &self.stop {
            return stop.deadline;
        }
        tracing::info!("The shard drains.");
        let seconds = u64::from(self.parts.config.shutdown.final_flush_timeout_seconds);
        let deadline = now.instant + Duration::from_secs(seconds);
        self.stop = Some(Stop { deadline });
        for slot in self.slots.values_mut() {
            slot.session.start_drain();
        }
        // What is filled becomes the last batches at once: the turn that found the stop has cut already.
        if let Err(error) = self.cut_where_due(now) {
            tracing::warn!(%error, "What was filled could not be cut; it is read again later.");
        }
        deadline
    }

    /// Closes the gates and leaves the group, within the close budget.
    pub(super) fn leave(mut self, stopped: Stopped) -> Stopped {
        let now = Instant::now();
        tracing::info!(
            drained = stopped.drained,
            "The shard has drained and leaves."
        );
        let partitions: Vec<_> = self.slots.keys().cloned().collect();
        self.slots.values_mut().for_each(super::Slot::close);
        self.slots.clear();
        if let Err(error) = self.consumer.incremental_unassign(&partitions) {
            tracing::debug!(%error, "The partitions were not given up by hand.");
        }
        self.close(now);
        self.consumer.abandon();
        stopped
    }

    fn close(&mut self, now: Instant) {
        let deadline =
            now + Duration::from_secs(u64::from(self.parts.config.shutdown.close_seconds));
        if !self.coordinator_answers(deadline.min(now + COORDINATOR_TIMEOUT))
            || self.consumer.close_async().is_err()
        {
            return;
        }
        while !self.closed() && Instant::now() < deadline {
            std::thread::park_timeout(CLOSE_TURN);
        }
    }

    fn coordinator_answers(&mut self, deadline: Instant) -> bool {
        let group_id = self.parts.config.kafka.group_id.clone();
        let Ok(asked) = self.consumer.list_group_offsets(&group_id, None) else {
            return false;
        };
        while Instant::now() < deadline {
            while let Some((op, result)) = self.consumer.poll_ops() {
                if op == asked {
                    return matches!(result, OpResult::GroupOffsets(Ok(_)));
                }
            }
            std::thread::park_timeout(CLOSE_TURN);
        }
        false
    }

    /// Serves what still comes while the consumer closes.
    fn closed(&mut self) -> bool {
        while let Some(event) = self.consumer.poll_main() {
            if let MainEvent::Revoke { partitions, .. } = event {
                // Nothing is assigned any more; the event wants an answer all the same.
                let _ = self.consumer.incremental_unassign(&partitions);
            }
        }
        while self.consumer.poll_ops().is_some() {}
        self.consumer.poll_closed()
    }
}
