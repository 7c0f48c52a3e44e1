//! `spec.table`: the table and how a record becomes a row.
//!
//! Must not be here: what the types and expressions mean (`validate`, `resolve`).

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::views::WideningPolicy;
use crate::worker_config::{OnError, OnMissing, TimeUnit};

/// Columns that say where a row came from, in their order.
pub const METADATA_COLUMNS: [&str; 4] = ["_topic", "_partition", "_offset", "_timestamp"];

/// The table and how a record becomes a row.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("self.name == oldSelf.name")
    .message("`name` cannot be changed: make a new sink for another table").field_path(".name"))]
#[x_kube(validation = Rule::new("self.engine == oldSelf.engine")
    .message("`engine` cannot be changed: ClickHouse cannot change it in a table with rows").field_path(".engine"))]
#[x_kube(validation = Rule::new(
    "has(self.partitionBy) == has(oldSelf.partitionBy) && (!has(self.partitionBy) || self.partitionBy == oldSelf.partitionBy)"
).message("`partitionBy` cannot be changed, added or removed: ClickHouse cannot change it in a table with rows").field_path(".partitionBy"))]
#[x_kube(validation = Rule::new(
    "has(self.orderBy) == has(oldSelf.orderBy) && (!has(self.orderBy) || self.orderBy == oldSelf.orderBy)"
).message("`orderBy` cannot be changed, added or removed: ClickHouse cannot change it in a table with rows").field_path(".orderBy"))]
#[x_kube(validation = Rule::new(
    "!has(self.orderBy) || self.orderBy.all(k, self.columns.exists(c, c.name == k) || (self.metadataColumns.mode == 'All' && k in ['_topic', '_partition', '_offset', '_timestamp']))"
).message("`orderBy` must name declared columns").field_path(".orderBy"))]
#[x_kube(validation = Rule::new("!has(self.engine.replacingMergeTree) || (has(self.orderBy) && self.orderBy.size() > 0)")
    .message("`orderBy` must name at least one column with `replacingMergeTree`: without a key all rows would be one").field_path(".orderBy"))]
#[x_kube(validation = Rule::new(
    "!has(self.engine.replacingMergeTree) || self.columns.exists(c, c.name == self.engine.replacingMergeTree.versionColumn)"
).message("`versionColumn` must name a declared column").field_path(".engine.replacingMergeTree.versionColumn"))]
#[x_kube(validation = Rule::new(
    "self.metadataColumns.mode != 'All' || !self.columns.exists(c, c.name in ['_topic', '_partition', '_offset', '_timestamp'])"
).message("`columns` must not declare '_topic', '_partition', '_offset' or '_timestamp' while `metadataColumns.mode` is 'All'").field_path(".columns"))]
#[serde(rename_all = "camelCase")]
pub struct TableSpec {
    /// Name of the table; it cannot be changed.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f/]+$"))]
    pub name: String,
    /// What may be done to the table: `auto` creates it when it is missing, and reports a difference without repairing it; `validate` only checks it; `none` neither creates nor checks it. While a checked table is not as declared, writes wait.
    #[serde(default = "default_ddl")]
    pub ddl: DdlMode,
    /// Seconds between two checks of the table.
    #[serde(default = "default_recheck")]
    #[schemars(range(min = 1, max = 86400))]
    pub recheck_period_seconds: i32,
    /// What is done where a declared type is wider than the column's, in `auto`: `Refuse` reports it, `Mutate` widens the column, which rewrites its data.
    #[serde(default)]
    pub widening_policy: WideningPolicy,
    /// Engine of the table, exactly one; it cannot be changed.
    pub engine: EngineSpec,
    /// Partition key, one expression such as `toYYYYMM(ts)`; it cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub partition_by: Option<String>,
    /// Sorting key, names of columns; with `replacingMergeTree` rows with the same key become one; it cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub order_by: Vec<String>,
    /// When rows expire, for example `ts + INTERVAL 400 DAY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub ttl: Option<String>,
    /// `MergeTree` settings of the table, over the ones that the sink needs (`non_replicated_deduplication_window`: 100000).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64), schema_with = "settings_schema")]
    pub settings: BTreeMap<String, String>,
    /// Data-skipping indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub indexes: Vec<IndexSpec>,
    /// Columns in their order.
    #[schemars(length(min = 1, max = 1000))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub columns: Vec<ColumnSpec>,
    /// Columns that say where a row came from.
    #[serde(default)]
    pub metadata_columns: MetadataColumnsSpec,
}

/// What may be done to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DdlMode {
    /// Created when missing, then checked.
    Auto,
    /// Checked only.
    Validate,
    /// Neither created nor checked.
    None,
}

const fn default_ddl() -> DdlMode {
    DdlMode::Auto
}

const fn default_recheck() -> i32 {
    60
}

/// Engine of the table, exactly one.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("has(self.mergeTree) != has(self.replacingMergeTree)")
    .message("exactly one of `mergeTree` and `replacingMergeTree` must be set"))]
#[serde(rename_all = "camelCase")]
pub struct EngineSpec {
    /// Keeps every row (`{}`: it has no options).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_tree: Option<MergeTreeSpec>,
    /// Of the rows with the same sorting key, keeps the one with the largest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacing_merge_tree: Option<ReplacingMergeTreeSpec>,
}

/// Keeps every row.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeTreeSpec {}

/// Of the rows with the same sorting key, keeps the one with the largest version.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacingMergeTreeSpec {
    /// Column whose largest value wins: an unsigned integer, a date or a time.
    #[schemars(length(min = 1, max = 128))]
    pub version_column: String,
}

/// One column and where its value comes from.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ColumnSpec {
    /// Name of the column.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f]+$"))]
    pub name: String,
    /// ClickHouse type, for example `DateTime64(3, 'UTC')`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 16384))]
    pub data_type: String,
    /// Default as a ClickHouse expression that gives the same value every time, for example `'raised'`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub default: Option<String>,
    /// Comment of the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub comment: Option<String>,
    /// Compression codec, for example `Delta(8), ZSTD(1)`; by default the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 256),
        regex(
            pattern = r"^[A-Za-z][A-Za-z0-9_]*(\([A-Za-z0-9_', .]*\))?( *, *[A-Za-z][A-Za-z0-9_]*(\([A-Za-z0-9_', .]*\))?)*$"
        )
    )]
    pub codec: Option<String>,
    /// Path of the value in the record, its parts joined by dots and a part with dots in double quotes; by default the column's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub from: Option<String>,
    /// What to do where the record lacks the path; by default `Default` if the column has a default, `Null` if it is Nullable, else `Reject`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_missing: Option<OnMissing>,
    /// What to do where the value does not fit the type; by default `Reject`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Unit of plain numbers in a date or time column, counted from 1970; without it such numbers are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<TimeUnit>,
}

/// A data-skipping index.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexSpec {
    /// Name of the index.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f]+$"))]
    pub name: String,
    /// Expression over the table's columns.
    #[schemars(length(min = 1, max = 1024))]
    pub expression: String,
    /// Type of the index, for example `bloom_filter(0.01)`, `minmax`, `set(100)`.
    #[serde(rename = "type")]
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = r"^[A-Za-z][A-Za-z0-9_]*(\([^;]*\))?$")
    )]
    pub index_type: String,
    /// Granules that one entry of the index covers.
    #[serde(default = "default_granularity")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub granularity: i32,
}

const fn default_granularity() -> i32 {
    1
}

/// Columns that say where a row came from.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataColumnsSpec {
    /// `All` adds `_topic`, `_partition`, `_offset` and `_timestamp` behind the declared columns; `None` adds nothing.
    #[serde(default = "default_mode")]
    pub mode: MetadataColumnsMode,
}

/// Which metadata columns the table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetadataColumnsMode {
    /// All four.
    All,
    /// None.
    None,
}

const fn default_mode() -> MetadataColumnsMode {
    MetadataColumnsMode::All
}

impl Default for MetadataColumnsSpec {
    fn default() -> Self {
        Self {
            mode: default_mode(),
        }
    }
}

pub(super) fn settings_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": { "type": "string", "maxLength": 256 },
    })
}
