//! The smaller parts of the spec: format, batch, delivery, dead letters, shutdown, workers.
//!
//! Must not be here: what reads them.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::worker_config::{Compression, Guarantee, Tombstones, UnknownFields};

/// Gives a struct whose fields all have defaults its `Default`, from the same functions that fill the CRD.
macro_rules! default_from_fields {
    ($name:ident { $($field:ident: $value:expr),* $(,)? }) => {
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $value),* }
            }
        }
    };
}

/// How the payload of a record is read.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FormatSpec {
    /// Payloads are JSON objects.
    #[serde(default)]
    pub json: JsonSpec,
    /// A larger payload is rejected; bytes, as a number or with a unit such as `16Mi`.
    #[serde(default = "default_max_record_bytes")]
    #[schemars(
        length(min = 1, max = 20),
        regex(pattern = r"^[0-9]+(k|M|G|Ki|Mi|Gi)?$")
    )]
    pub max_record_bytes: String,
    /// What to do with a record without payload (a tombstone): `Skip` makes no row of it, `Reject` sends it to the dead letters.
    #[serde(default = "default_tombstones")]
    pub tombstones: Tombstones,
}

default_from_fields!(FormatSpec {
    json: JsonSpec::default(),
    max_record_bytes: default_max_record_bytes(),
    tombstones: default_tombstones(),
});

fn default_max_record_bytes() -> String {
    "16Mi".to_owned()
}

const fn default_tombstones() -> Tombstones {
    Tombstones::Skip
}

/// How JSON payloads are read.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JsonSpec {
    /// What to do with a field of the record that no column takes: `Ignore` skips it, `Reject` rejects the record.
    #[serde(default = "default_unknown_fields")]
    pub unknown_fields: UnknownFields,
}

default_from_fields!(JsonSpec {
    unknown_fields: default_unknown_fields()
});

const fn default_unknown_fields() -> UnknownFields {
    UnknownFields::Ignore
}

/// When a batch is cut, whichever limit is reached first.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchSpec {
    /// Most rows of a batch.
    #[serde(default = "default_max_rows")]
    #[schemars(range(min = 1, max = 999_999))]
    pub max_rows: i32,
    /// Most bytes of a batch before compression, below 200Mi.
    #[serde(default = "default_max_bytes")]
    #[schemars(
        length(min = 1, max = 20),
        regex(pattern = r"^[0-9]+(k|M|G|Ki|Mi|Gi)?$")
    )]
    pub max_bytes: String,
    /// Milliseconds that the first record of a batch waits for others; 0: a batch is cut whenever no insert is in flight.
    #[serde(default = "default_linger_milliseconds")]
    #[schemars(range(min = 0, max = 600_000))]
    pub linger_milliseconds: i32,
    /// INSERTs a second of the whole sink that the linger may cause, so that the table is not filled with small parts: a worker takes its partitions' share and lets a batch wait longer than its linger. A batch that is full does not wait. By default 4, and 50 where `lingerMilliseconds` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_inserts_per_second: Option<i32>,
    /// Compression of inserts: `LZ4` is cheap, `ZSTD` is smaller and costs more CPU.
    #[serde(default = "default_compression")]
    pub compression: Compression,
}

default_from_fields!(BatchSpec {
    max_rows: default_max_rows(),
    max_bytes: default_max_bytes(),
    linger_milliseconds: default_linger_milliseconds(),
    max_inserts_per_second: None,
    compression: default_compression(),
});

const fn default_max_rows() -> i32 {
    200_000
}

fn default_max_bytes() -> String {
    "64Mi".to_owned()
}

const fn default_linger_milliseconds() -> i32 {
    2_000
}

const fn default_compression() -> Compression {
    Compression::Lz4
}

/// What is promised about each record.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliverySpec {
    /// `ExactlyOnce`: each record's row is in the table once; what is in flight is declared in the commit before it is sent, one INSERT for each partition. A replay that comes later than half of the table's deduplication window is compared with the table by the metadata columns; with `metadataColumns.mode: None` it is held (`WindowExceeded`) instead. `AtLeastOnce`: no record is lost, partitions share an INSERT, and a crash may insert again what was not committed yet.
    #[serde(default = "default_guarantee")]
    pub guarantee: Guarantee,
    /// Seconds after which an insert without an answer is tried again.
    #[serde(default = "default_insert_timeout_seconds")]
    #[schemars(range(min = 1, max = 3_600))]
    pub insert_timeout_seconds: i32,
    /// Replicas that must have an insert before it counts (`insert_quorum`), for replicated tables; 0: the server's own setting.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 64))]
    pub quorum: i32,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde takes"
)]
const fn is_zero(number: &i32) -> bool {
    *number == 0
}

default_from_fields!(DeliverySpec {
    guarantee: default_guarantee(),
    insert_timeout_seconds: default_insert_timeout_seconds(),
    quorum: 0,
});

const fn default_guarantee() -> Guarantee {
    Guarantee::ExactlyOnce
}

const fn default_insert_timeout_seconds() -> i32 {
    30
}

/// Where records go that cannot become a row.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterSpec {
    /// The rejected table, in the sink's database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<DeadLetterTableSpec>,
    /// Largest share of rejected records, in percent of a partition's last 10,000 and of the batch, judged from 100 rejected ones on: above it the partition is held (`TooManyRejected`) and none of the batch's rejects is written, since a wrong mapping must not empty a topic into the rejected table. 100: never.
    #[serde(default = "default_max_rejected_percent")]
    #[schemars(range(min = 0, max = 100))]
    pub max_rejected_percent: i32,
}

default_from_fields!(DeadLetterSpec {
    table: None,
    max_rejected_percent: default_max_rejected_percent(),
});

const fn default_max_rejected_percent() -> i32 {
    5
}

/// The rejected table.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterTableSpec {
    /// Its name; by default the name of the sink's table and `_rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f/]+$"))]
    pub name: Option<String>,
}

/// How long a worker may take to stop.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownSpec {
    /// Seconds from SIGTERM for the insert in flight and the last flush; what is not flushed by then is read again later.
    #[serde(default = "default_final_flush_timeout_seconds")]
    #[schemars(range(min = 1, max = 3_600))]
    pub final_flush_timeout_seconds: i32,
}

default_from_fields!(ShutdownSpec {
    final_flush_timeout_seconds: default_final_flush_timeout_seconds()
});

const fn default_final_flush_timeout_seconds() -> i32 {
    20
}

/// Size of each worker.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkersSpec {
    /// Threads that read and decode; each is one consumer.
    #[serde(default = "default_threads")]
    #[schemars(range(min = 1, max = 64))]
    pub threads: i32,
    /// Ceiling of everything that a worker buffers; when it is reached the backlog waits in Kafka. Bytes, as a number or with a unit such as `256Mi`.
    #[serde(default = "default_memory_budget")]
    #[schemars(
        length(min = 1, max = 20),
        regex(pattern = r"^[0-9]+(k|M|G|Ki|Mi|Gi)?$")
    )]
    pub memory_budget: String,
}

default_from_fields!(WorkersSpec {
    threads: default_threads(),
    memory_budget: default_memory_budget()
});

const fn default_threads() -> i32 {
    1
}

fn default_memory_budget() -> String {
    "256Mi".to_owned()
}
