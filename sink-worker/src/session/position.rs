//! Positions are made once: which offset a partition starts from, and under which epoch.
//!
//! Pure. Must not be here: asking Kafka, committing.

use clickhouse_sink_crds::commit::{CommitMetadata, Epoch};
use clickhouse_sink_crds::worker_config::StartFrom;

/// What a session is, for tokens and commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Topic id as Kafka prints it.
    pub topic_id: String,
    /// The epoch, marked where the position was moved by somebody else.
    pub epoch: Epoch,
    /// Partitions of the topic when this sink first started on it.
    pub first_partitions: u32,
}

/// Where a session starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The position is ours: go on from it.
    Resume {
        /// Committed offset.
        offset: i64,
        /// From its metadata.
        identity: Identity,
        /// Sequence of the last commit.
        sequence: u64,
    },
    /// No position, or somebody else's: commit this one before anything is read.
    Create {
        /// First offset to read.
        offset: i64,
        /// With a fresh epoch.
        identity: Identity,
    },
    /// Not now.
    Hold {
        /// CamelCase reason.
        reason: &'static str,
        /// What was expected, what was found, what to do.
        message: String,
    },
}

/// A committed position of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Partition.
    pub partition: i32,
    /// Committed offset; `None` where there is none.
    pub offset: Option<i64>,
    /// Metadata as bytes; empty where an admin's tool wrote it.
    pub metadata: Vec<u8>,
}

/// Everything that was asked about a partition before its session starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The partition.
    pub partition: i32,
    /// Topic id.
    pub topic_id: &'a str,
    /// Partitions that the topic has now.
    pub partitions: u32,
    /// The group's positions on all partitions of the topic.
    pub group: &'a [Committed],
    /// First offset that Kafka still has.
    pub low: i64,
    /// Offset after the last record.
    pub high: i64,
    /// First offset at or after the start timestamp, where that was asked for.
    pub at_timestamp: Option<i64>,
    /// Where a partition never seen starts.
    pub start_from: StartFrom,
    /// A random number for a new epoch.
    pub random: u64,
}

/// Decides where the session starts.
#[must_use]
pub fn decide_start(facts: &Facts<'_>) -> Start {
    let own = facts
        .group
        .iter()
        .find(|committed| committed.partition == facts.partition);
    let start = match own.and_then(|committed| Some((committed.offset?, &committed.metadata))) {
        Some((offset, metadata)) => start_from_position(facts, offset, metadata),
        None => create(facts, first_offset(facts), false),
    };
    check_watermarks(facts, start)
}

fn start_from_position(facts: &Facts<'_>, offset: i64, metadata: &[u8]) -> Start {
    let ours = CommitMetadata::parse(metadata)
        .ok()
        .filter(|metadata| metadata.matches(offset));
    let Some(metadata) = ours else {
        return create(facts, offset, true);
    };
    if metadata.topic_id != facts.topic_id {
        return topic_recreated(facts, &metadata);
    }
    if !metadata.ends.is_empty() {
        return plan_not_understood(&metadata);
    }
    let identity = Identity {
        topic_id: metadata.topic_id,
        epoch: metadata.epoch,
        first_partitions: metadata.first_partitions,
    };
    Start::Resume {
        offset,
        identity,
        sequence: metadata.sequence,
    }
}

fn create(facts: &Facts<'_>, offset: i64, reset: bool) -> Start {
    let known = known_partitions(facts);
    let identity = Identity {
        topic_id: facts.topic_id.to_owned(),
        epoch: Epoch::from_random(facts.random, reset),
        first_partitions: known.unwrap_or(facts.partitions),
    };
    Start::Create { offset, identity }
}

/// The smallest partition count at a first start that any of the group's positions on this topic remembers.
fn known_partitions(facts: &Facts<'_>) -> Option<u32> {
    let ours = facts
        .group
        .iter()
        .filter_map(|committed| CommitMetadata::parse(&committed.metadata).ok());
    ours.filter(|metadata| metadata.topic_id == facts.topic_id)
        .map(|metadata| metadata.first_partitions)
        .min()
}

/// A partition that grew after the first start begins at its first record; another one where the user said.
fn first_offset(facts: &Facts<'_>) -> i64 {
    let grown =
        known_partitions(facts).is_some_and(|known| i64::from(facts.partition) >= i64::from(known));
    match facts.start_from {
        _ if grown => facts.low,
        StartFrom::Earliest => facts.low,
        StartFrom::Latest => facts.high,
        StartFrom::TimestampMs(_) => facts.at_timestamp.unwrap_or(facts.high),
    }
}

fn check_watermarks(facts: &Facts<'_>, start: Start) -> Start {
    let (Start::Resume { offset, .. } | Start::Create { offset, .. }) = &start else {
        return start;
    };
    if *offset < facts.low {
        return retention_passed(*offset, facts.low);
    }
    if *offset > facts.high {
        return offset_beyond_end(*offset, facts.high);
    }
    start
}

fn retention_passed(offset: i64, low: i64) -> Start {
    Start::Hold {
        reason: "RetentionPassed",
        message: format!(
            "the position is {offset}, but Kafka's first record is {low}: records {offset} to {} are gone; move the group's \
             position to {low} with Kafka's own tools to go on without them",
            low - 1
        ),
    }
}

fn offset_beyond_end(offset: i64, high: i64) -> Start {
    Start::Hold {
        reason: "OffsetBeyondEnd",
        message: format!(
            "the position is {offset}, but the log ends at {high}: it was cut off, or another cluster answers; check the \
             topic, then move the group's position with Kafka's own tools"
        ),
    }
}

fn topic_recreated(facts: &Facts<'_>, metadata: &CommitMetadata) -> Start {
    Start::Hold {
        reason: "TopicRecreated",
        message: format!(
            "the position belongs to topic id {}, but the topic now has id {}: it was deleted and made again; move the \
             group's position with Kafka's own tools to read the new topic",
            metadata.topic_id, facts.topic_id
        ),
    }
}

fn plan_not_understood(metadata: &CommitMetadata) -> Start {
    Start::Hold {
        reason: "PlanNotUnderstood",
        message: format!(
            "the position {} declares ranges in flight up to {:?}, which this version does not write and cannot replay; \
             let the version that wrote them finish",
            metadata.offset, metadata.ends
        ),
    }
}

#[cfg(test)]
mod tests;
