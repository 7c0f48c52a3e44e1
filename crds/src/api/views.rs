//! `spec.derived` and `spec.flatView`: tables that a materialized view fills, and the view that people read.
//!
//! Must not be here: what the expressions mean (the server parses them), how changes are made (the operator plans them).

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::{EngineSpec, settings_schema};

/// A table that a materialized view fills from `table`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("!has(self.engine.replacingMergeTree) || (has(self.orderBy) && self.orderBy.size() > 0)")
    .message("`orderBy` must name at least one column with `replacingMergeTree`: without a key all rows would be one").field_path(".orderBy"))]
#[serde(rename_all = "camelCase")]
pub struct DerivedSpec {
    /// Name of the table; the materialized view is named `<name>_mv`.
    #[schemars(length(min = 1, max = 125), regex(pattern = r"^[^\x00-\x1f/]+$"))]
    pub name: String,
    /// Engine of the table, exactly one; it cannot be changed.
    pub engine: EngineSpec,
    /// Partition key, one expression; it cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub partition_by: Option<String>,
    /// Sorting key, names of columns that `select` gives; it cannot be changed.
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
    /// One SELECT over `table`; its columns are the columns of the derived table, by name.
    #[schemars(length(min = 1, max = 16384))]
    pub select: String,
    /// What a new derived table holds of the rows that are there already: `None` starts with the next insert, `Once` fills it from `table` first, which needs the metadata columns.
    #[serde(default)]
    pub backfill: Backfill,
}

/// What a new derived table holds of the rows that are there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Backfill {
    /// Nothing.
    #[default]
    None,
    /// All of them, each once.
    Once,
}

/// The view that people read.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlatViewSpec {
    /// Name of the view.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f/]+$"))]
    pub name: String,
    /// What it reads: `table.name`, or the name of one of `derived`; by default the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub source: Option<String>,
    /// How it reads: `Final` by `FINAL`, `LatestBy` by `argMax` over the version column, `Plain` as it is; by default `Final` with `replacingMergeTree`, else `Plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadMode>,
    /// Columns in their order; by default every column of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub columns: Vec<FlatViewColumn>,
}

/// How a flat view reads its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReadMode {
    /// `FINAL`: one row for each key, merged while it is read.
    Final,
    /// `argMax` over the version column: one row for each key, by aggregation.
    LatestBy,
    /// Every row.
    Plain,
}

/// One column of a flat view.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlatViewColumn {
    /// Name of the column.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f]+$"))]
    pub name: String,
    /// Expression over the source's columns; by default the column of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub expression: Option<String>,
}

/// What becomes of the tables when the sink is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Nothing in ClickHouse is touched.
    #[default]
    Retain,
    /// What this sink created is dropped.
    Delete,
}

/// What is done about a declared type that is wider than the column's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WideningPolicy {
    /// It is reported, with the statement that a person could run.
    #[default]
    Refuse,
    /// The column is widened, which rewrites its data.
    Mutate,
}
