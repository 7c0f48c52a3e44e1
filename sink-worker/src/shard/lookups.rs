//! What is asked of Kafka: positions, topic ids and log ends, and what follows from the answers.
//!
//! Must not be here: deciding where a session starts (`session/position.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::facts::{Facts, ResolutionAction};
use clickhouse_sink_crds::worker_config::{OnDataLoss, StartFrom};

use super::round::{Answers, Question, Round};
use super::{Shard, ShardError};
use crate::kafka::{KafkaError, OffsetResult, OffsetSpec, OpId, OpResult, TopicPartition};
use crate::session::Now;
use crate::session::position::{Known, Start, decide_start};

/// How often the last stable offsets are asked for: lag and the stall signal are as old as this.
const ENDS_PERIOD: Duration = Duration::from_millis(500);
/// How often the log starts are asked for, in periods of the above.
const STARTS_EVERY: u32 = 20;
/// How soon a round of questions that failed is asked again.
const ROUND_RETRY: Duration = Duration::from_secs(1);
/// A round without all its answers is given up after this.
const ROUND_TIMEOUT: Duration = Duration::from_secs(15);

/// Questions on their way.
#[derive(Default)]
pub(super) struct Lookups {
    round: Option<Round>,
    retry_at: Option<Instant>,
    ends: Option<(OpId, bool)>,
    ends_due: Option<Instant>,
    ends_asked: u32,
    asked: HashMap<OpId, Question>,
    read_backs: HashSet<OpId>,
}

impl Lookups {
    /// When the next question is due.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.retry_at, self.ends_due].into_iter().flatten().min()
    }
}

impl Shard {
    /// Asks what is due.
    pub(super) fn send_lookups(&mut self, now: Now) {
        if self.stop.is_none() {
            self.send_round(now);
        }
        self.send_ends(now);
        self.send_topic_watch(now);
        self.send_read_backs();
    }

    fn send_round(&mut self, now: Now) {
        if self
            .lookups
            .round
            .as_ref()
            .is_some_and(|round| now.instant < round.since + ROUND_TIMEOUT)
        {
            return;
        }
        let early = self.lookups.retry_at.is_some_and(|at| now.instant < at);
        // The first commit names the table, so no position is made before the table was seen once.
        if early || self.parts.table.report().uuid.is_none() {
            return;
        }
        let wanted = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.session.wants_position(now))
            .map(|(key, _)| key.clone());
        let wanted: Vec<TopicPartition> = wanted.collect();
        if wanted.is_empty() {
            return;
        }
        if let Err(error) = self.ask_round(wanted, now) {
            tracing::warn!(%error, "The positions could not be asked for.");
            self.end_round(now);
        }
    }

    fn ask_round(&mut self, wanted: Vec<TopicPartition>, now: Now) -> Result<(), KafkaError> {
        let with = |spec: OffsetSpec| {
            wanted
                .iter()
                .map(|key| (key.clone(), spec))
                .collect::<Vec<_>>()
        };
        let group_id = self.parts.config.kafka.group_id.clone();
        let mut asked = vec![
            (
                self.consumer.list_group_offsets(&group_id, None)?,
                Question::Group,
            ),
            (
                self.consumer
                    .describe_topics(&self.parts.config.kafka.topics)?,
                Question::Topics,
            ),
            (
                self.consumer
                    .list_offsets(&with(OffsetSpec::Earliest), false)?,
                Question::Low,
            ),
            (
                self.consumer
                    .list_offsets(&with(OffsetSpec::Latest), false)?,
                Question::High,
            ),
        ];
        let needs_timestamp = match self.parts.config.kafka.start_from {
            StartFrom::TimestampMs(ms) => {
                let op = self
                    .consumer
                    .list_offsets(&with(OffsetSpec::TimestampMs(ms)), false)?;
                asked.push((op, Question::Timestamp));
                true
            }
            StartFrom::Earliest | StartFrom::Latest => false,
        };
        self.lookups.asked = asked.into_iter().collect();
        self.lookups.round = Some(Round::new(wanted, needs_timestamp, now.instant));
        self.lookups.retry_at = None;
        Ok(())
    }

    fn end_round(&mut self, now: Now) {
        self.lookups.round = None;
        self.lookups.asked.clear();
        self.lookups.retry_at = Some(now.instant + ROUND_RETRY);
    }

    fn send_ends(&mut self, now: Now) {
        if self.lookups.ends.is_some()
            || self.lookups.ends_due.is_some_and(|due| now.instant < due)
            || self.slots.is_empty()
        {
            return;
        }
        let starts = self.lookups.ends_asked % STARTS_EVERY == 1;
        let spec = if starts {
            OffsetSpec::Earliest
        } else {
            OffsetSpec::Latest
        };
        let asked: Vec<_> = self.slots.keys().map(|key| (key.clone(), spec)).collect();
        self.lookups.ends_asked = self.lookups.ends_asked.wrapping_add(1);
        self.lookups.ends_due = Some(now.instant + ENDS_PERIOD);
        self.lookups.ends = self
            .consumer
            .list_offsets(&asked, true)
            .ok()
            .map(|op| (op, starts));
    }

    /// An answer to a question.
    pub(super) fn on_lookup(
        &mut self,
        op: OpId,
        result: OpResult,
        now: Now,
    ) -> Result<(), ShardError> {
        if let Some((_, starts)) = self.lookups.ends.filter(|(ends, _)| *ends == op) {
            self.lookups.ends = None;
            if let OpResult::Offsets(Ok(offsets)) = result {
                self.on_ends(&offsets, starts, now.instant);
            }
            return Ok(());
        }
        if self.lookups.read_backs.remove(&op) {
            self.on_read_backs(result, now);
            return Ok(());
        }
        if self.topics.is_answer(op) {
            return self.on_topic_watch(result, now);
        }
        let Some(question) = self.lookups.asked.remove(&op) else {
            return Ok(());
        };
        let Some(round) = &mut self.lookups.round else {
            return Ok(());
        };
        match round.store(question, result) {
            Ok(()) => self.finish_round(now),
            Err(fault) => {
                tracing::warn!(error = %fault, "Kafka did not answer where the partitions stand; they are asked for again.");
                self.end_round(now);
            }
        }
        Ok(())
    }

    /// The first commit of a process is read back: the promise rests on a broker that keeps metadata.
    fn send_read_backs(&mut self) {
        if !self.lookups.read_backs.is_empty() {
            return;
        }
        let waiting = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.session.wants_read_back());
        let waiting: Vec<TopicPartition> = waiting.map(|(key, _)| key.clone()).collect();
        if waiting.is_empty() {
            return;
        }
        let group_id = self.parts.config.kafka.group_id.clone();
        match self.consumer.list_group_offsets(&group_id, Some(&waiting)) {
            Ok(op) => {
                self.lookups.read_backs.insert(op);
            }
            Err(error) => tracing::debug!(%error, "The first commit could not be read back yet."),
        }
    }

    fn on_read_backs(&mut self, result: OpResult, now: Now) {
        let OpResult::GroupOffsets(Ok(offsets)) = result else {
            return;
        };
        for found in offsets.iter().filter(|found| found.fault.is_none()) {
            if let Some(slot) = self.slots.get_mut(&found.partition) {
                self.metadata_kept |= slot.session.on_read_back(&found.metadata, now);
                slot.publish_gate();
            }
        }
    }

    fn finish_round(&mut self, now: Now) {
        if !self.lookups.round.as_ref().is_some_and(Round::is_complete) {
            return;
        }
        let Some(round) = self.lookups.round.take() else {
            return;
        };
        if !self.know_cluster() {
            return self.end_round(now);
        }
        let answers = round.answers();
        self.topics.on_described(answers.topics());
        for key in &round.wanted {
            // What was asked before the partition came back may be older than what its last owner has committed.
            let asked = |slot: &super::Slot| slot.assigned_at <= round.since;
            if !self.slots.get(key).is_some_and(asked) {
                continue;
            }
            if let Some(start) = self.decide_in_round(&answers, key) {
                self.on_start(key, start, now);
            }
        }
    }

    /// `None` where an answer says nothing about the partition; it is asked for again then.
    fn decide_in_round(&self, answers: &Answers<'_>, key: &TopicPartition) -> Option<Start> {
        let topic = answers.topic(&key.topic)?;
        let facts = Arc::clone(&self.parts.facts.borrow());
        Some(decide_start(&Known {
            topic: &key.topic,
            partition: key.partition,
            topic_id: &topic.topic_id,
            partitions: topic.partitions,
            group: answers.group(&key.topic),
            low: answers.low(key)?,
            high: answers.high(key)?,
            at_timestamp: answers.at_timestamp(key),
            start_from: self.parts.config.kafka.start_from,
            tables: &self.known_tables(&facts),
            topics: &facts.topics,
            on_loss: self.on_loss(key),
            random: crate::random(),
        }))
    }

    /// First 8 hex digits of every uuid that the table has, or had.
    fn known_tables(&self, facts: &Facts) -> Vec<String> {
        let present = self.parts.table.report().uuid.clone();
        let all = present.iter().chain(&facts.tables);
        all.map(|uuid| short_uuid(uuid)).collect()
    }

    /// What to do about a loss: as a person answered to the last hold, else as declared.
    fn on_loss(&self, key: &TopicPartition) -> OnDataLoss {
        let answer = self.slots.get(key).and_then(|slot| slot.answer.as_ref());
        match answer.map(|answer| answer.action) {
            Some(ResolutionAction::SkipAndRecord) => OnDataLoss::SkipAndRecord,
            _ => self.parts.config.kafka.on_data_loss,
        }
    }

    /// Tokens name the cluster, so nothing is read before its id is known; it has come with the first answers.
    fn know_cluster(&mut self) -> bool {
        if self.cluster_id.is_empty() {
            self.cluster_id = self
                .consumer
                .cluster_id(Duration::from_secs(2))
                .unwrap_or_default()
                .into();
        }
        !self.cluster_id.is_empty()
    }

    fn on_ends(&mut self, offsets: &[OffsetResult], starts: bool, now: Instant) {
        for result in offsets {
            let (Some(slot), Some(offset)) = (self.slots.get_mut(&result.partition), result.offset)
            else {
                continue;
            };
            if starts {
                slot.low = Some(offset);
                continue;
            }
            slot.end = Some(offset);
            let behind = offset > slot.session.acknowledged() && slot.session.identity().is_some();
            slot.behind_since = if behind {
                slot.behind_since.or(Some(now))
            } else {
                None
            };
        }
    }
}

/// First 8 hex digits of a uuid, as commits name a table.
pub(super) fn short_uuid(uuid: &str) -> String {
    uuid.chars()
        .filter(char::is_ascii_hexdigit)
        .take(8)
        .collect()
}
