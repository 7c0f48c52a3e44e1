//! The Kafka client of one shard thread: a small safe wrapper over librdkafka's event API.
//!
//! One [`Consumer`] is one member of the consumer group. Nothing here blocks and nothing here decides: rebalances,
//! records and the results of commits and look-ups are handed out as values, in the order the shard loop asks for them.
//! The safe wrapper crate is not used, since it loses the results of asynchronous commits, panics on commit metadata
//! that is not UTF-8, and costs several times more per record than the batch call.
//! Must not be here: what a record or a commit means, retries, clocks, channels.

mod consumer;
mod errors;
mod ffi;
mod groups;
mod lists;
mod ops;
mod question;
mod record;
mod settings;
mod single;
mod types;
mod waker;

pub use consumer::{Consumer, PartitionHandle};
pub use errors::{CommitErrorClass, ErrorCode, KafkaError, commit_error_class, describe_code};
pub use record::{Fetched, Headers, ReadOutcome};
pub use settings::{ConsumerSettings, OWNED_PROPERTIES, render_config};
pub use single::{OwnedRecord, fetch_cluster_id, fetch_record};
pub use types::{
    CommitItem, Fault, GroupOffset, MainEvent, Membership, OffsetResult, OffsetSpec, OpId,
    OpResult, TopicInfo, TopicPartition,
};
pub use waker::Waker;
