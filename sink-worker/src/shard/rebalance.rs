//! The group: assignments, revocations with their drain, lost partitions.
//!
//! Must not be here: positions (`lookups.rs`), commits.

use std::time::{Duration, Instant};

use super::{Shard, ShardError, Slot};
use crate::kafka::{Fault, MainEvent, TopicPartition};
use crate::session::Now;

/// librdkafka's own default, in milliseconds, where the user sets none.
const MAX_POLL_INTERVAL_MS: u64 = 120_000;

/// Partitions on their way to another member.
pub(super) struct Revocation {
    partitions: Vec<TopicPartition>,
    deadline: Instant,
}

/// How long a revocation may drain: the final flush, but at most half of the poll interval.
#[must_use]
fn decide_revoke_timeout(final_flush_seconds: u32, max_poll_interval_ms: Option<&str>) -> Duration {
    let interval = max_poll_interval_ms
        .and_then(|text| text.parse().ok())
        .unwrap_or(MAX_POLL_INTERVAL_MS);
    Duration::from_secs(u64::from(final_flush_seconds)).min(Duration::from_millis(interval / 2))
}

impl Shard {
    /// Serves the group's events; true where there were any.
    pub(super) fn serve_main(&mut self, now: Now) -> Result<bool, ShardError> {
        let mut any = false;
        while let Some(event) = self.consumer.poll_main() {
            any = true;
            // A revocation that was told before fetching was stopped is answered by that as far as librdkafka knows: the
            // partitions may go to their next owner at once, so nothing of them is drained.
            let answered = self.stopped_fetching || self.revocation.is_some();
            match event {
                MainEvent::Assign(partitions) => self.on_assign(&partitions, now)?,
                MainEvent::Revoke { partitions, lost } if lost || answered => {
                    self.on_lost(&partitions)?;
                }
                MainEvent::Revoke { partitions, .. } => self.on_revoke(partitions, now),
                MainEvent::RebalanceFailed(fault) => self.on_failed(&fault)?,
                MainEvent::Error {
                    fault, fatal: true, ..
                } => return Err(ShardError::Fatal(fault)),
                MainEvent::Error { fault, .. } => log_error(&fault),
            }
        }
        self.stopped_fetching = false;
        Ok(any)
    }

    /// The event is answered at once, with nothing: each partition is fetched once its position is known.
    fn on_assign(&mut self, partitions: &[TopicPartition], now: Now) -> Result<(), ShardError> {
        self.member = true;
        self.parts.metrics.rebalances.inc();
        tracing::info!(partitions = partitions.len(), "Partitions were assigned.");
        // A drain that librdkafka takes to be over, whatever ended it, and partitions that it gives anew.
        let known = partitions.iter().filter(|key| self.slots.contains_key(key));
        let over = self.with_revoked(known.cloned().collect());
        self.stopped_fetching |= !over.is_empty();
        self.release(&over)?;
        self.consumer.incremental_assign(&[])?;
        for key in partitions {
            let handle = self.consumer.split(key)?;
            let slot = Slot::new(self.session_settings(), handle, now);
            self.slots.insert(key.clone(), slot);
        }
        Ok(())
    }

    /// Drains: what is filled is cut and sent, and waited for while the main queue is still polled.
    fn on_revoke(&mut self, partitions: Vec<TopicPartition>, now: Now) {
        self.parts.metrics.rebalances.inc();
        tracing::info!(
            partitions = partitions.len(),
            "Partitions are revoked and drained."
        );
        for key in &partitions {
            if let Some(slot) = self.slots.get_mut(key) {
                slot.session.start_drain();
            }
        }
        let interval = self
            .parts
            .config
            .kafka
            .properties
            .get("max.poll.interval.ms")
            .map(String::as_str);
        let timeout = decide_revoke_timeout(
            self.parts.config.shutdown.final_flush_timeout_seconds,
            interval,
        );
        self.revocation = Some(Revocation {
            partitions,
            deadline: now.instant + timeout,
        });
    }

    /// The partitions were given away already, or may be: nothing more of them is committed.
    fn on_lost(&mut self, partitions: &[TopicPartition]) -> Result<(), ShardError> {
        self.parts.metrics.rebalances.inc();
        tracing::warn!(
            partitions = partitions.len(),
            "Partitions were lost and are dropped without a commit."
        );
        self.release(&self.with_revoked(partitions.to_vec()))
    }

    /// These, and those that are being drained: librdkafka has one revocation at a time, so that it takes an earlier one
    /// for answered when it tells of the next event.
    fn with_revoked(&self, mut partitions: Vec<TopicPartition>) -> Vec<TopicPartition> {
        let revoked = self.revocation.iter().flat_map(|it| &it.partitions);
        partitions.extend(revoked.cloned());
        partitions
    }

    /// librdkafka has given everything up; it joins again by itself.
    fn on_failed(&mut self, fault: &Fault) -> Result<(), ShardError> {
        log_fault(fault);
        let all: Vec<TopicPartition> = self.slots.keys().cloned().collect();
        self.on_lost(&all)
    }

    /// Gates first, then the partitions: a commit sent later could overwrite the next owner's.
    fn release(&mut self, partitions: &[TopicPartition]) -> Result<(), ShardError> {
        if partitions.is_empty() {
            return Ok(());
        }
        for key in partitions {
            if let Some(mut slot) = self.slots.remove(key) {
                slot.close();
            }
        }
        self.consumer.incremental_unassign(partitions)?;
        self.revocation = None;
        self.stop_idle_fetches()
    }

    /// Gives drained partitions up.
    pub(super) fn serve_revocation(&mut self, now: Now) -> Result<(), ShardError> {
        let Some(revocation) = &self.revocation else {
            return Ok(());
        };
        let drained = revocation.partitions.iter().all(|key| {
            self.slots
                .get(key)
                .is_none_or(|slot| slot.session.is_drained())
        });
        if !drained && now.instant < revocation.deadline {
            return Ok(());
        }
        tracing::info!(
            partitions = revocation.partitions.len(),
            drained,
            "Revoked partitions were given up."
        );
        let partitions = revocation.partitions.clone();
        self.release(&partitions)
    }

    pub(super) fn revocation_due(&self) -> Option<Instant> {
        self.revocation
            .as_ref()
            .map(|revocation| revocation.deadline)
    }
}

fn log_error(fault: &Fault) {
    if fault.code.is_informational() {
        tracing::debug!(error = %fault, "Kafka is not reachable for the moment.");
    } else {
        log_fault(fault);
    }
}

fn log_fault(fault: &Fault) {
    tracing::warn!(error = %fault, "Kafka reports an error.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_takes_at_most_half_of_the_poll_interval() {
        assert_eq!(decide_revoke_timeout(20, None), Duration::from_secs(20));
        assert_eq!(
            decide_revoke_timeout(20, Some("6000")),
            Duration::from_secs(3)
        );
        assert_eq!(decide_revoke_timeout(600, None), Duration::from_mins(1));
        assert_eq!(
            decide_revoke_timeout(20, Some("soon")),
            Duration::from_secs(20)
        );
    }
}
