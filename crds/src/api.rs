//! `ClickHouseSink`, the resource that users write.
//!
//! Must not be here: fields that do nothing yet, checks that need more than CEL (`validate`), defaults that depend on
//! other fields (`resolve`).

#![allow(
    unreachable_pub,
    reason = "the schema derive writes its own copy of each public struct into a function"
)]

use kube::CustomResource;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::facts::Resolution;

pub use clickhouse::{ClickHouseSpec, ClusterDdl, ClusterSpec, SecretReference};
pub use kafka::{
    GroupProtocolKind, KafkaSpec, REFUSED_PROPERTIES, REFUSED_WITH_CONSUMER, StartFromKind,
};
pub use limits::{
    BatchSpec, DeadLetterSpec, DeadLetterTableSpec, DeliverySpec, FormatSpec, JsonSpec,
    ShutdownSpec, WorkersSpec,
};
pub use table::{
    ColumnSpec, DdlMode, EngineSpec, IndexSpec, METADATA_COLUMNS, MergeTreeSpec,
    MetadataColumnsMode, MetadataColumnsSpec, ReplacingMergeTreeSpec, TableSpec,
};

pub use views::{
    Backfill, DeletionPolicy, DerivedSpec, FlatViewColumn, FlatViewSpec, ReadMode, WideningPolicy,
};

mod clickhouse;
mod kafka;
mod limits;
mod table;
mod views;

/// Group of the API.
pub const GROUP: &str = "clickhouse-sink.io";
/// Version of the API.
pub const VERSION: &str = "v1alpha1";
/// Kind of the resource.
pub const KIND: &str = "ClickHouseSink";
/// Longest name of a sink; what is made for it adds suffixes, and labels hold 63 characters.
pub const MAX_NAME_LENGTH: usize = 52;

/// What a sink is: these topics, into this table, with this promise.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "clickhouse-sink.io",
    version = "v1alpha1",
    kind = "ClickHouseSink",
    plural = "clickhousesinks",
    shortname = "chs",
    category = "clickhouse",
    namespaced,
    derive = "PartialEq",
    doc = "Moves the records of Kafka topics into a ClickHouse table.",
    printcolumn(name = "Table", type_ = "string", json_path = ".spec.table.name"),
    printcolumn(name = "DDL", type_ = "string", json_path = ".spec.table.ddl"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 52")
        .message("`metadata.name` must be at most 52 characters long")
)]
#[x_kube(validation = Rule::new(
    "!has(self.deadLetter.table) || !has(self.deadLetter.table.name) || self.deadLetter.table.name != self.table.name"
).message("`deadLetter.table.name` must be another table than `table.name`").field_path(".deadLetter.table.name"))]
#[serde(rename_all = "camelCase")]
pub struct ClickHouseSinkSpec {
    /// Number of workers; 0 stops reading and keeps every position.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,
    /// True: workers drain and stop; the table and the positions stay.
    #[serde(default)]
    pub paused: bool,
    /// Where records come from.
    pub kafka: KafkaSpec,
    /// How the payload of a record is read.
    #[serde(default)]
    pub format: FormatSpec,
    /// The server that rows go to.
    pub clickhouse: ClickHouseSpec,
    /// The table that rows go to, and how a record becomes a row.
    pub table: TableSpec,
    /// Tables that a materialized view fills from `table`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub derived: Vec<DerivedSpec>,
    /// The view that people read; by default there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flat_view: Option<FlatViewSpec>,
    /// What becomes of the tables when the sink is deleted: `Retain` touches nothing, `Delete` drops what this sink created.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// When a batch is cut, whichever limit is reached first.
    #[serde(default)]
    pub batch: BatchSpec,
    /// What is promised about each record.
    #[serde(default)]
    pub delivery: DeliverySpec,
    /// Where records go that cannot become a row.
    #[serde(default)]
    pub dead_letter: DeadLetterSpec,
    /// How long a worker may take to stop.
    #[serde(default)]
    pub shutdown: ShutdownSpec,
    /// Size of each worker.
    #[serde(default)]
    pub workers: WorkersSpec,
    /// A person's answers to holds. They reach the workers while these run, and restart none; one whose hold is over does nothing more and can be removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub resolutions: Vec<Resolution>,
}

const fn default_replicas() -> i32 {
    1
}

#[cfg(test)]
pub(crate) mod tests;
