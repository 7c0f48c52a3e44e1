//! The values that go into and come out of the Kafka client.
//!
//! Must not be here: pointers, calls into librdkafka, decisions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::errors::ErrorCode;

/// One partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Names partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// What the broker or librdkafka reported, as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code; class it with [`super::commit_error_class`].
    pub code: ErrorCode,
    /// librdkafka's text for people.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}

/// What the main queue of a consumer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MainEvent {
    /// These partitions are ours from now on (the new ones only, may be empty). Look up their positions, then answer
    /// with `incremental_assign` of exactly these.
    Assign(Vec<TopicPartition>),
    /// These partitions are to be given up. Drain them, then answer with `incremental_unassign` of exactly these.
    Revoke {
        /// The partitions to give up.
        partitions: Vec<TopicPartition>,
        /// True: another member may own them already; commit nothing. False proves nothing (it can be late).
        lost: bool,
    },
    /// The group coordinator refused the rebalance itself; the group is joined again by itself.
    RebalanceFailed(Fault),
    /// An error of the client or of one topic.
    Error {
        /// What was reported.
        fault: Fault,
        /// The partition that it names, where it names one.
        partition: Option<TopicPartition>,
        /// True: this consumer is dead, make a new one.
        fatal: bool,
    },
}

/// Names one asynchronous request of one consumer; its result carries the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(super) usize);

/// One partition of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitItem {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: i32,
    /// The next offset to read, at least 0.
    pub offset: i64,
    /// Bytes kept beside the offset; at most 4,096 characters at the broker.
    pub metadata: String,
}

/// Which offset of a partition is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The log start.
    Earliest,
    /// The end: the high watermark, or the last stable offset where only committed records are read.
    Latest,
    /// The first record at or after this time, milliseconds since the epoch, at least 0.
    TimestampMs(i64),
}

/// What the group has committed for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// The partition.
    pub partition: TopicPartition,
    /// The committed offset; `None`: none is committed.
    pub offset: Option<i64>,
    /// The bytes kept beside the offset, whoever wrote them; empty where there are none.
    pub metadata: Vec<u8>,
    /// This partition could not be read; offset and metadata mean nothing then.
    pub fault: Option<Fault>,
}

/// What the cluster says about one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Topic id, base64 as Kafka prints it (22 characters); empty with `fault`.
    pub topic_id: String,
    /// How many partitions there are; 0 with `fault`.
    pub partitions: u32,
    /// The topic could not be described (`UNKNOWN_TOPIC_OR_PART`: it does not exist).
    pub fault: Option<Fault>,
}

/// One answer of `list_offsets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetResult {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset; `None`: no record at or after the time that was asked for, or `fault`.
    pub offset: Option<i64>,
    /// This partition's answer failed.
    pub fault: Option<Fault>,
}

/// Result of one asynchronous request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// A commit was answered. `error: None` is the only proof that all of it was applied. With an error, the outcome
    /// of **every** partition is unknown, whatever `elements` says: librdkafka stamps one partition's error on the
    /// others. Send the same bytes again, one partition a request; only that answer is a verdict.
    CommitDone {
        /// The error of the request.
        error: Option<Fault>,
        /// Per partition what librdkafka says; for logs and for requests of one partition.
        elements: Vec<(TopicPartition, Option<Fault>)>,
    },
    /// `list_group_offsets` was answered. An `Err` says nothing about what is committed (ask again
    /// where [`ErrorCode::is_transient`]).
    GroupOffsets(Result<Vec<GroupOffset>, Fault>),
    /// `describe_group` was answered: how many members it has.
    GroupMembers(Result<u32, Fault>),
    /// `describe_topics` was answered.
    Topics(Result<Vec<TopicInfo>, Fault>),
    /// `list_offsets` was answered.
    Offsets(Result<Vec<OffsetResult>, Fault>),
}

/// How this consumer stands in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Member id given by the coordinator; empty before the first join and after the membership was lost.
    pub member_id: String,
    /// Generation of the group; below 0 before the first join and after it was lost.
    pub generation: i32,
}

impl Membership {
    /// Whether a commit would be checked by the coordinator. Without it, a commit into an empty group is accepted from anybody.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.generation >= 0 && !self.member_id.is_empty()
    }
}

/// Settings as librdkafka takes them, name and value.
pub(super) type Properties = BTreeMap<String, String>;
