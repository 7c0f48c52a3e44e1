//! `WorkerConfig`: the resolved configuration one worker process runs on, as a JSON document.
//!
//! The operator writes it, the worker reads it; every default is already filled in. Must not be here: defaults
//! of the API (those live with the API types), secrets (only the paths of mounted files), anything read at run time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::budget::ShutdownBudget;
use crate::table::TableDefinition;

/// The newest version of the document that this build reads and writes.
pub const WORKER_CONFIG_VERSION: u32 = 1;

/// Everything a worker needs to know, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerConfig {
    /// Version of this document, [`WORKER_CONFIG_VERSION`] when written by this build.
    pub version: u32,
    /// Whose worker this is; used in logs, metrics labels and `/state` only.
    pub sink: SinkIdentity,
    /// Where records come from.
    pub kafka: KafkaSource,
    /// How payload bytes are read.
    pub format: RecordFormat,
    /// The server that rows go to.
    pub clickhouse: ClickHouseTarget,
    /// The table that rows go to and how a record becomes a row.
    pub table: TargetTable,
    /// When a batch is cut.
    pub batch: BatchLimits,
    /// The promise and the time an INSERT may take.
    pub delivery: Delivery,
    /// Where rejected records go.
    pub dead_letter: DeadLetter,
    /// How long each step of a stop may take.
    pub shutdown: ShutdownBudget,
    /// Shard threads; each is one consumer and one group member.
    pub threads: u32,
    /// Ceiling of everything that is buffered in the process, in bytes (librdkafka's queues included).
    pub memory_budget_bytes: u64,
    /// What the process may use at all, in bytes; absent: what the machine gives. A declared range that does not fit is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Mappings that a declared range may still name, newest first, at most [`MAX_EARLIER_MAPPINGS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierMapping>,
    /// The mounted document of facts ([`crate::facts::Facts`]), read again while the worker runs; absent: none are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts_path: Option<PathBuf>,
}

/// Most mappings before the present one that a worker can replay.
pub const MAX_EARLIER_MAPPINGS: usize = 4;

/// A mapping before the present one: what turns payload bytes into rows, and rows into blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EarlierMapping {
    /// The table as it was declared then.
    pub table: TargetTable,
    /// How payload bytes were read then.
    pub format: RecordFormat,
}

/// Namespace, name and uid of the resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SinkIdentity {
    /// Namespace of the resource.
    pub namespace: String,
    /// Name of the resource.
    pub name: String,
    /// `metadata.uid`; in local mode a `UUIDv5` of cluster id, namespace and name.
    pub uid: String,
}

/// The Kafka side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaSource {
    /// `host:port` of brokers to start from.
    pub bootstrap_servers: Vec<String>,
    /// Topics, at least one.
    pub topics: Vec<String>,
    /// The consumer group; this sink's alone.
    pub group_id: String,
    /// Where a partition that was never seen starts.
    pub start_from: StartFrom,
    /// What to do where Kafka no longer has what the position points at.
    pub on_data_loss: OnDataLoss,
    /// How members share the partitions.
    pub group_protocol: GroupProtocol,
    /// librdkafka settings of the user's, already checked against the refused ones.
    pub properties: BTreeMap<String, String>,
}

/// Where a partition that was never seen before starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartFrom {
    /// The oldest record that Kafka still has.
    Earliest,
    /// Records produced from now on.
    Latest,
    /// The first record at or after a time, milliseconds since the epoch.
    TimestampMs(i64),
}

/// What to do where Kafka no longer has what the position points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDataLoss {
    /// The partition is held until a person answers.
    Hold,
    /// It goes on behind the loss, which is recorded as a gap in the rejected table.
    SkipAndRecord,
}

/// How members share the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupProtocol {
    /// The client's assignor, cooperative-sticky.
    Classic,
    /// The broker's assignor (KIP-848).
    Consumer,
}

/// How payload bytes are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordFormat {
    /// What to do with a field of the record that no column takes.
    pub unknown_fields: UnknownFields,
    /// A larger payload is rejected, in bytes.
    pub max_record_bytes: u64,
    /// What to do with a record without payload.
    pub tombstones: Tombstones,
}

/// What to do with a field of the record that no column takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnknownFields {
    /// It is skipped (and still checked to be valid JSON).
    Ignore,
    /// The record is rejected.
    Reject,
}

/// What to do with a record without payload (a null value, not an empty one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Tombstones {
    /// It makes no row; its offset counts as done.
    Skip,
    /// It goes to the dead letters.
    Reject,
}

/// The server that rows go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClickHouseTarget {
    /// `http://host:port`.
    pub url: String,
    /// Database of the table and of the rejected table.
    pub database: String,
    /// Folder with the files `username` and `password`; absent: user `default` without a password.
    pub credentials_dir: Option<PathBuf>,
}

/// The table and the mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetTable {
    /// What the table must look like; its columns are in the order of `mapping` with the metadata columns after them.
    pub expected: TableDefinition,
    /// False where `ddl: none`: the table is not checked.
    pub check: bool,
    /// Seconds between two checks of the table.
    pub recheck_period_seconds: u32,
    /// How a record becomes a row, one entry per sent column, metadata columns excluded.
    pub mapping: Vec<ColumnMapping>,
    /// True: `_topic`, `_partition`, `_offset`, `_timestamp` are sent too.
    pub metadata_columns: bool,
}

/// How one column is filled from a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ColumnMapping {
    /// Name of the column.
    pub column: String,
    /// Its ClickHouse type in canonical text.
    pub data_type: String,
    /// Keys from the record's top level down to the value.
    pub path: Vec<String>,
    /// What to do where the record has no such path.
    pub on_missing: OnMissing,
    /// What to do where the value does not fit.
    pub on_error: OnError,
    /// Unit of plain numbers in a date or time column.
    pub unit: Option<TimeUnit>,
    /// The column's default, as JSON text that the column's own decoder reads; absent: the type's zero value.
    pub default_json: Option<String>,
}

/// What to do where the record lacks the path; by default `Default` if the column has a default, `Null` if it is Nullable, else `Reject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnMissing {
    /// The column's default.
    Default,
    /// NULL (only for a Nullable column).
    Null,
    /// The record is rejected.
    Reject,
}

/// What to do where the value does not fit the type; by default `Reject`. `Default` and `Null` replace it, `Clamp` takes the nearest value that fits; each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnError {
    /// The record is rejected.
    Reject,
    /// The column's default, counted.
    Default,
    /// NULL, counted (only for a Nullable column).
    Null,
    /// The nearest value that fits, counted (numbers, dates and times); else as `Reject`.
    Clamp,
}

/// Unit of plain numbers in a date or time column, counted from 1970; without it such numbers are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TimeUnit {
    /// Days (Date, Date32).
    Days,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// When a batch is cut, whichever comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchLimits {
    /// Rows, below 1,000,000.
    pub max_rows: u32,
    /// Bytes of the encoded block before compression, below 200 MiB.
    pub max_bytes: u64,
    /// Milliseconds since the batch's first record; 0: whenever no INSERT is in flight.
    pub linger_ms: u32,
    /// INSERTs a second of the whole sink that the linger may cause; a batch that is full does not wait for it.
    pub max_inserts_per_second: u32,
    /// Compression of the request body.
    pub compression: Compression,
}

/// Compression of the request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compression {
    /// Cheap; the default.
    #[serde(rename = "LZ4")]
    Lz4,
    /// Smaller; costs more CPU.
    #[serde(rename = "ZSTD")]
    Zstd,
    /// None.
    None,
}

/// The promise and the time an INSERT may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delivery {
    /// The guarantee.
    pub guarantee: Guarantee,
    /// An attempt that has no answer by then counts as failed with unknown outcome, in seconds.
    pub insert_timeout_seconds: u32,
    /// Replicas that must have an INSERT before it counts; 0: the server's own setting.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quorum: u32,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde takes"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What is promised about each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Guarantee {
    /// Each record's row is in the table once: what is in flight is declared in the commit before it is sent.
    ExactlyOnce,
    /// Never lost; a crash may replay what was inserted but not committed.
    AtLeastOnce,
}

/// Where rejected records go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeadLetter {
    /// Name of the rejected table, in the sink's database.
    pub table: String,
    /// A range with a larger share of rejected records is held instead; percent, 100: never.
    pub max_rejected_percent: u32,
}
