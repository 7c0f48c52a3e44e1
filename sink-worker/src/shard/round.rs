//! One round of questions about partitions without a position, and its answers.
//!
//! Pure. Must not be here: asking, what follows from the answers.

use std::collections::HashMap;
use std::time::Instant;

use crate::kafka::{Fault, GroupOffset, OffsetResult, OpResult, TopicInfo, TopicPartition};
use crate::session::position::Committed;

/// What one question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Group,
    Topics,
    Low,
    High,
    Timestamp,
}

/// The questions of one moment, with the answers that have come.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) wanted: Vec<TopicPartition>,
    pub(super) since: Instant,
    group: Option<Vec<GroupOffset>>,
    topics: Option<Vec<TopicInfo>>,
    low: Option<Vec<OffsetResult>>,
    high: Option<Vec<OffsetResult>>,
    timestamp: Option<Vec<OffsetResult>>,
    needs_timestamp: bool,
}

impl Round {
    pub(super) const fn new(
        wanted: Vec<TopicPartition>,
        needs_timestamp: bool,
        since: Instant,
    ) -> Self {
        Self {
            wanted,
            since,
            group: None,
            topics: None,
            low: None,
            high: None,
            timestamp: None,
            needs_timestamp,
        }
    }

    /// Keeps an answer; a fault of one of its elements is the whole answer's.
    pub(super) fn store(&mut self, question: Question, result: OpResult) -> Result<(), Fault> {
        match (question, result) {
            (Question::Group, OpResult::GroupOffsets(offsets)) => {
                self.group = Some(checked(offsets?, |it| it.fault.as_ref())?);
            }
            (Question::Topics, OpResult::Topics(topics)) => {
                self.topics = Some(checked(topics?, |it| it.fault.as_ref())?);
            }
            (Question::Low, OpResult::Offsets(offsets)) => {
                self.low = Some(checked(offsets?, |it| it.fault.as_ref())?);
            }
            (Question::High, OpResult::Offsets(offsets)) => {
                self.high = Some(checked(offsets?, |it| it.fault.as_ref())?);
            }
            (Question::Timestamp, OpResult::Offsets(offsets)) => {
                self.timestamp = Some(checked(offsets?, |it| it.fault.as_ref())?);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) const fn is_complete(&self) -> bool {
        let timestamp = !self.needs_timestamp || self.timestamp.is_some();
        self.group.is_some()
            && self.topics.is_some()
            && self.low.is_some()
            && self.high.is_some()
            && timestamp
    }

    /// The answers, to be looked up by partition.
    pub(super) fn answers(&self) -> Answers<'_> {
        let mut group: HashMap<&str, Vec<Committed>> = HashMap::new();
        for offset in self.group.iter().flatten() {
            group
                .entry(&offset.partition.topic)
                .or_default()
                .push(committed(offset));
        }
        Answers {
            topics: self.topics.as_deref().unwrap_or_default(),
            group,
            low: by_partition(self.low.as_deref()),
            high: by_partition(self.high.as_deref()),
            timestamp: by_partition(self.timestamp.as_deref()),
        }
    }
}

/// The answers of a round: with a thousand partitions, each is looked up without a walk over the others.
#[derive(Debug)]
pub(super) struct Answers<'a> {
    topics: &'a [TopicInfo],
    group: HashMap<&'a str, Vec<Committed>>,
    low: HashMap<&'a TopicPartition, i64>,
    high: HashMap<&'a TopicPartition, i64>,
    timestamp: HashMap<&'a TopicPartition, i64>,
}

impl Answers<'_> {
    pub(super) const fn topics(&self) -> &[TopicInfo] {
        self.topics
    }

    pub(super) fn topic(&self, name: &str) -> Option<&TopicInfo> {
        self.topics.iter().find(|topic| *topic.topic == *name)
    }

    /// What the group has committed on all partitions of a topic.
    pub(super) fn group(&self, topic: &str) -> &[Committed] {
        self.group.get(topic).map_or(&[], Vec::as_slice)
    }

    pub(super) fn low(&self, key: &TopicPartition) -> Option<i64> {
        self.low.get(key).copied()
    }

    pub(super) fn high(&self, key: &TopicPartition) -> Option<i64> {
        self.high.get(key).copied()
    }

    pub(super) fn at_timestamp(&self, key: &TopicPartition) -> Option<i64> {
        self.timestamp.get(key).copied()
    }
}

fn checked<T>(elements: Vec<T>, fault: impl Fn(&T) -> Option<&Fault>) -> Result<Vec<T>, Fault> {
    let first = elements.iter().find_map(fault).cloned();
    first.map_or(Ok(elements), Err)
}

fn by_partition(results: Option<&[OffsetResult]>) -> HashMap<&TopicPartition, i64> {
    let results = results.unwrap_or_default().iter();
    results
        .filter_map(|result| Some((&result.partition, result.offset?)))
        .collect()
}

fn committed(offset: &GroupOffset) -> Committed {
    Committed {
        partition: offset.partition.partition,
        offset: offset.offset,
        metadata: offset.metadata.clone(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::kafka::ErrorCode;

    fn offset(topic: &str, partition: i32, offset: Option<i64>) -> OffsetResult {
        OffsetResult {
            partition: TopicPartition::new(topic, partition),
            offset,
            fault: None,
        }
    }

    #[test]
    fn an_answer_is_looked_up_by_its_partition_and_topic() {
        let mut round = Round::new(Vec::new(), false, Instant::now());
        let low = vec![offset("a", 0, Some(3)), offset("b", 0, None)];
        round
            .store(Question::Low, OpResult::Offsets(Ok(low)))
            .unwrap();
        let group = vec![GroupOffset {
            partition: TopicPartition::new("b", 7),
            offset: Some(5),
            metadata: b"m".to_vec(),
            fault: None,
        }];
        let group = OpResult::GroupOffsets(Ok(group));
        round.store(Question::Group, group).unwrap();
        assert!(!round.is_complete());
        let answers = round.answers();
        assert_eq!(answers.low(&TopicPartition::new("a", 0)), Some(3));
        assert_eq!(answers.low(&TopicPartition::new("b", 0)), None);
        assert_eq!(answers.group("a"), []);
        assert_eq!(answers.group("b")[0].partition, 7);
    }

    #[test]
    fn a_fault_of_one_partition_is_no_answer_about_the_others() {
        let mut round = Round::new(Vec::new(), false, Instant::now());
        let fault = Fault {
            code: ErrorCode::LEADER_NOT_AVAILABLE,
            text: String::new(),
        };
        let bad = OffsetResult {
            fault: Some(fault.clone()),
            ..offset("a", 1, None)
        };
        let high = OpResult::Offsets(Ok(vec![offset("a", 0, Some(3)), bad]));
        assert_eq!(round.store(Question::High, high), Err(fault));
        assert_eq!(round.answers().high(&TopicPartition::new("a", 0)), None);
    }
}
