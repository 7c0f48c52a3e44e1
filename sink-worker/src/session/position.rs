//! Positions are made once: which offset a partition starts from, under which epoch, with which plan.
//!
//! Pure. Must not be here: asking Kafka, committing, what is lost and how it is recorded (`loss.rs`).

use clickhouse_sink_crds::commit::{CommitMetadata, Epoch};
use clickhouse_sink_crds::facts::TopicFact;
use clickhouse_sink_crds::worker_config::{OnDataLoss, StartFrom};

use self::loss::Loss;

mod loss;

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

/// Ranges that an earlier session declared and did not see acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Their exact ends, ascending; the first starts at the position.
    pub ends: Vec<i64>,
    /// Names the mapping that they were cut under.
    pub mapping: String,
    /// When the oldest was first declared, in `ClickHouse`'s seconds; 0: unknown.
    pub declared_at_s: u64,
}

/// Records that Kafka no longer has, to be written to the rejected table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Id of the topic that they were in.
    pub topic_id: String,
    /// Epoch of the position that pointed at them.
    pub epoch: String,
    /// First offset.
    pub start: i64,
    /// The offset behind the last one.
    pub end: i64,
    /// CamelCase reason.
    pub cause: &'static str,
    /// True where they may have been inserted: a range of them was declared.
    pub maybe_inserted: bool,
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
        /// What was in flight.
        plan: Plan,
        /// What lies before it is lost and recorded; the committed offset where nothing is.
        skip_to: i64,
        /// To be recorded first.
        gaps: Vec<Gap>,
    },
    /// No position, or somebody else's: commit this one before anything is read.
    Create {
        /// First offset to read.
        offset: i64,
        /// With a fresh epoch.
        identity: Identity,
        /// To be recorded first.
        gaps: Vec<Gap>,
    },
    /// Not now.
    Hold {
        /// CamelCase reason.
        reason: &'static str,
        /// What exactly is held.
        about: String,
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
pub struct Known<'a> {
    /// Name of the topic.
    pub topic: &'a str,
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
    /// First 8 hex digits of every uuid that the table has, or is known to have had.
    pub tables: &'a [String],
    /// Topics of the sink's past.
    pub topics: &'a [TopicFact],
    /// What to do about a loss: as declared, or as a person answered.
    pub on_loss: OnDataLoss,
    /// A random number for a new epoch.
    pub random: u64,
}

/// Decides where the session starts.
#[must_use]
pub fn decide_start(known: &Known<'_>) -> Start {
    let own = known
        .group
        .iter()
        .find(|committed| committed.partition == known.partition);
    match own.and_then(|committed| Some((committed.offset?, &committed.metadata))) {
        Some((offset, metadata)) => start_from_position(known, offset, metadata),
        None => start_without_position(known),
    }
}

fn start_from_position(known: &Known<'_>, offset: i64, metadata: &[u8]) -> Start {
    let ours = CommitMetadata::parse(metadata)
        .ok()
        .filter(|metadata| metadata.matches(offset));
    let Some(metadata) = ours else {
        return start_from_moved(known, offset);
    };
    if !known.tables.contains(&metadata.table) {
        return group_used_by_other(&metadata);
    }
    match loss::check_position(known, &metadata) {
        Some(loss) => loss.decide(known),
        None => resume(&metadata, offset, Vec::new()),
    }
}

/// Somebody's tool moved the position: it is taken as it is, under a new epoch.
fn start_from_moved(known: &Known<'_>, offset: i64) -> Start {
    match loss::check_offset(known, offset) {
        Some(loss) => loss.decide(known),
        None => create(known, offset, true, Vec::new()),
    }
}

fn start_without_position(known: &Known<'_>) -> Start {
    if let Some(other) = other_sinks_position(known) {
        return group_used_by_other(&other);
    }
    let mut facts = known
        .topics
        .iter()
        .filter(|fact| fact.name == known.topic)
        .peekable();
    let seen = facts.peek().is_some();
    let same = facts.any(|fact| fact.id == known.topic_id);
    match known_partitions(known).filter(|_| is_grown(known) || !all_are_remade(known)) {
        None if same => Loss::OffsetsGone.decide(known),
        None if seen => Loss::TopicRecreated { metadata: None }.decide(known),
        _ => create(known, first_offset(known), false, Vec::new()),
    }
}

fn resume(metadata: &CommitMetadata, skip_to: i64, gaps: Vec<Gap>) -> Start {
    Start::Resume {
        offset: metadata.offset,
        identity: Identity {
            topic_id: metadata.topic_id.clone(),
            epoch: metadata.epoch.clone(),
            first_partitions: metadata.first_partitions,
        },
        sequence: metadata.sequence,
        plan: Plan {
            ends: metadata.ends.clone(),
            mapping: metadata.mapping.clone(),
            declared_at_s: metadata.declared_at_s,
        },
        skip_to,
        gaps,
    }
}

fn create(known: &Known<'_>, offset: i64, reset: bool, gaps: Vec<Gap>) -> Start {
    let identity = Identity {
        topic_id: known.topic_id.to_owned(),
        epoch: Epoch::from_random(known.random, reset),
        first_partitions: known_partitions(known).unwrap_or(known.partitions),
    };
    Start::Create {
        offset,
        identity,
        gaps,
    }
}

/// The smallest partition count at a first start that any of the group's positions on this topic remembers.
fn known_partitions(known: &Known<'_>) -> Option<u32> {
    let ours = known
        .group
        .iter()
        .filter_map(|committed| CommitMetadata::parse(&committed.metadata).ok());
    ours.filter(|metadata| metadata.topic_id == known.topic_id)
        .map(|metadata| metadata.first_partitions)
        .min()
}

/// A position that another sink has made on another partition of the topic.
fn other_sinks_position(known: &Known<'_>) -> Option<CommitMetadata> {
    let positions = known
        .group
        .iter()
        .filter_map(|committed| CommitMetadata::parse(&committed.metadata).ok());
    let mut others = positions.filter(|metadata| metadata.topic_id == known.topic_id);
    others.find(|metadata| !known.tables.contains(&metadata.table))
}

/// Positions that were all made after a loss say nothing about the one that is missing: it may have been lost with them.
fn all_are_remade(known: &Known<'_>) -> bool {
    let mut ours = known
        .group
        .iter()
        .filter_map(|committed| CommitMetadata::parse(&committed.metadata).ok())
        .filter(|metadata| metadata.topic_id == known.topic_id);
    ours.all(|metadata| metadata.epoch.is_reset())
}

/// True for a partition that the topic did not have when the sink first started on it.
fn is_grown(known: &Known<'_>) -> bool {
    known_partitions(known)
        .is_some_and(|partitions| i64::from(known.partition) >= i64::from(partitions))
}

/// A partition that grew after the first start begins at its first record; another one where the user said.
fn first_offset(known: &Known<'_>) -> i64 {
    match known.start_from {
        _ if is_grown(known) => known.low,
        StartFrom::Earliest => known.low,
        StartFrom::Latest => known.high,
        StartFrom::TimestampMs(_) => known.at_timestamp.unwrap_or(known.high),
    }
}

fn group_used_by_other(metadata: &CommitMetadata) -> Start {
    Start::Hold {
        reason: "GroupUsedByOther",
        about: metadata.table.clone(),
        message: format!(
            "expected positions of this sink's table in the consumer group, found those of a table whose uuid starts with {}: \
             another sink uses the group; give one of them another `kafka.groupId`",
            metadata.table
        ),
    }
}

#[cfg(test)]
mod tests;
