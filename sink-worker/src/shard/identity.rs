//! Topic ids, asked all the time: a topic that was deleted and made again within a second shows nowhere else.
//!
//! Must not be here: what follows for a position (`session/position/loss.rs`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Shard, ShardError, Slot};
use crate::kafka::{OpId, OpResult, TopicInfo, TopicPartition};
use crate::session::Now;

/// How often topic ids are asked for.
const PERIOD: Duration = Duration::from_secs(2);
/// A question without an answer is asked again after this.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is known about the topics.
#[derive(Default)]
pub(super) struct TopicWatch {
    asked: Option<(OpId, Instant)>,
    next_at: Option<Instant>,
    partitions: BTreeMap<String, u32>,
}

impl TopicWatch {
    /// When they are asked for again.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.next_at
    }

    /// Partitions of all topics together; 0 before the first answer.
    pub(super) fn partitions(&self) -> usize {
        self.partitions.values().map(|count| *count as usize).sum()
    }

    /// Partitions of one topic.
    pub(super) fn partitions_of(&self, topic: &str) -> u32 {
        self.partitions.get(topic).copied().unwrap_or(0)
    }

    pub(super) fn is_answer(&self, op: OpId) -> bool {
        self.asked.is_some_and(|(asked, _)| asked == op)
    }

    pub(super) fn on_described(&mut self, topics: &[TopicInfo]) {
        for topic in topics.iter().filter(|topic| topic.fault.is_none()) {
            self.partitions
                .insert(topic.topic.to_string(), topic.partitions);
        }
    }
}

impl Shard {
    pub(super) fn send_topic_watch(&mut self, now: Now) {
        let waits = self
            .topics
            .asked
            .is_some_and(|(_, at)| now.instant < at + TIMEOUT);
        let early = self.topics.next_at.is_some_and(|at| now.instant < at);
        if waits || early || self.slots.is_empty() {
            return;
        }
        self.topics.next_at = Some(now.instant + PERIOD);
        match self
            .consumer
            .describe_topics(&self.parts.config.kafka.topics)
        {
            Ok(op) => self.topics.asked = Some((op, now.instant)),
            Err(error) => tracing::debug!(%error, "The topics could not be described yet."),
        }
    }

    /// A partition whose topic has another id than its position is held at once: what was read since the last good answer
    /// may be the new topic's.
    pub(super) fn on_topic_watch(&mut self, result: OpResult, now: Now) -> Result<(), ShardError> {
        self.topics.asked = None;
        let OpResult::Topics(Ok(topics)) = result else {
            return Ok(());
        };
        self.topics.on_described(&topics);
        for topic in topics.iter().filter(|topic| topic.fault.is_none()) {
            self.hold_recreated(topic, now)?;
        }
        Ok(())
    }

    fn hold_recreated(&mut self, topic: &TopicInfo, now: Now) -> Result<(), ShardError> {
        let other = |slot: &Slot| {
            let identity = slot.session.identity();
            slot.lane.is_some()
                && identity.is_some_and(|identity| identity.topic_id != topic.topic_id)
        };
        let recreated: Vec<TopicPartition> = self
            .slots
            .iter()
            .filter(|(key, slot)| key.topic == topic.topic && other(slot))
            .map(|(key, _)| key.clone())
            .collect();
        for key in recreated {
            self.hold_recreated_partition(&key, topic, now)?;
        }
        Ok(())
    }

    fn hold_recreated_partition(
        &mut self,
        key: &TopicPartition,
        topic: &TopicInfo,
        now: Now,
    ) -> Result<(), ShardError> {
        let Some(slot) = self.slots.get_mut(key) else {
            return Ok(());
        };
        let message = format!(
            "the topic was deleted and made again: it has id {} now, the position {} belongs to an earlier one; records before \
             that offset in the new topic were not read, and what was inserted up to offset {} may be of either",
            topic.topic_id,
            slot.session.acknowledged(),
            slot.session.cut_end()
        );
        tracing::warn!(topic = %key.topic, partition = key.partition, %message, "A partition is held.");
        slot.session
            .hold("TopicRecreated", topic.topic_id.clone(), message, now);
        slot.publish_gate();
        self.stop_reading(key)
    }
}
