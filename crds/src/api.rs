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
#[x_kube(validation = Rule::new(
    "!has(self.derived) || self.derived.all(d, d.name != self.table.name && d.name + '_mv' != self.table.name)"
).message("names of `derived`, and their materialized views `<name>_mv`, must be others than `table.name`").field_path(".derived"))]
#[x_kube(validation = Rule::new(
    "!has(self.derived) || self.table.metadataColumns.mode == 'All' || self.derived.all(d, d.backfill != 'Once')"
).message("`backfill: Once` needs `table.metadataColumns.mode: All`: by them it takes each row once").field_path(".derived"))]
#[x_kube(validation = Rule::new(
    "!has(self.flatView) || (self.flatView.name != self.table.name && (!has(self.derived) || self.derived.all(d, d.name != self.flatView.name && d.name + '_mv' != self.flatView.name)))"
).message("`flatView.name` must be another name than those of the tables and materialized views").field_path(".flatView.name"))]
#[x_kube(validation = Rule::new(
    "!has(self.flatView) || !has(self.flatView.source) || self.flatView.source == self.table.name || (has(self.derived) && self.derived.exists(d, d.name == self.flatView.source))"
).message("`flatView.source` must be `table.name` or the name of one of `derived`").field_path(".flatView.source"))]
#[x_kube(validation = Rule::new(
    "!has(self.flatView) || !has(self.flatView.read) || self.flatView.read == 'Plain' || (!has(self.flatView.source) || self.flatView.source == self.table.name ? has(self.table.engine.replacingMergeTree) : !has(self.derived) || self.derived.all(d, d.name != self.flatView.source || has(d.engine.replacingMergeTree)))"
).message("`Final` and `LatestBy` need a source with `replacingMergeTree`: another engine has no versions").field_path(".flatView.read"))]
#[x_kube(validation = Rule::new(
    "!has(self.derived) || !has(oldSelf.derived) || self.derived.all(d, oldSelf.derived.all(o, o.name != d.name || (o.engine == d.engine && has(o.partitionBy) == has(d.partitionBy) && (!has(d.partitionBy) || o.partitionBy == d.partitionBy) && has(o.orderBy) == has(d.orderBy) && (!has(d.orderBy) || o.orderBy == d.orderBy))))"
).message("`engine`, `partitionBy` and `orderBy` of a derived table cannot be changed: derive another one under another name").field_path(".derived"))]
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
