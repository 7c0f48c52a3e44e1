//! What a table must look like, what it looks like, and how the two differ.
//!
//! Must not be here: SQL text of statements (`ddl`), clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::expression::mentions;
use crate::fingerprint::fingerprint;

/// A table as declared. Expressions are ClickHouse SQL in canonical one-line form where the server has formatted them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TableDefinition {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// Engine kind and version column.
    pub engine: Engine,
    /// Columns in order, metadata columns last.
    pub columns: Vec<ColumnDefinition>,
    /// Sorting key, one expression per part; empty: `tuple()`.
    pub order_by: Vec<String>,
    /// Partition key; absent: none.
    pub partition_by: Option<String>,
    /// TTL expression.
    pub ttl: Option<String>,
    /// `MergeTree` settings, the deduplication window included.
    pub settings: BTreeMap<String, String>,
    /// Data-skipping indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexDefinition>,
    /// How the statements reach every replica; absent: one server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterDefinition>,
}

impl TableDefinition {
    /// SHA-256 of the definition, first 16 bytes in hex: another text, another definition.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        // Plain structs and maps with text keys always become JSON.
        let text = serde_json::to_vec(self).unwrap_or_default();
        fingerprint(&text)
    }

    /// True where the column is the version, or part of the sorting or partition key: it can never be changed.
    #[must_use]
    pub fn is_in_key(&self, column: &str) -> bool {
        let is_version = matches!(&self.engine, Engine::ReplacingMergeTree { version_column } if version_column == column);
        let mut keys = self.order_by.iter().chain(&self.partition_by);
        is_version || keys.any(|key| key == column || mentions(key, column))
    }
}

/// A cluster of servers that each have the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterDefinition {
    /// Its name in `remote_servers`.
    pub name: String,
    /// True: every statement says `ON CLUSTER`; false: the database is `Replicated` and passes statements on itself.
    pub on_cluster: bool,
}

/// Engine of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Engine {
    /// `MergeTree`.
    MergeTree,
    /// `ReplacingMergeTree(version)`.
    ReplacingMergeTree {
        /// The column whose largest value wins.
        version_column: String,
    },
}

/// A column as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ColumnDefinition {
    /// Name.
    pub name: String,
    /// Type in canonical text.
    pub data_type: String,
    /// Default expression.
    pub default: Option<String>,
    /// Comment.
    pub comment: Option<String>,
    /// Compression codec in canonical text, for example `Delta(8), ZSTD(1)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
}

/// A data-skipping index, declared or found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IndexDefinition {
    /// Name.
    pub name: String,
    /// Expression; found: without brackets around a list.
    pub expression: String,
    /// Type with its arguments, for example `bloom_filter(0.01)`.
    pub index_type: String,
    /// Granules that one entry covers.
    pub granularity: u64,
}

/// A table as the server reports it (`system.tables`, `system.columns`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedTable {
    /// uuid; all zero where the database has none.
    pub uuid: String,
    /// Engine name, for example `ReplacingMergeTree`.
    pub engine: String,
    /// Engine with arguments and settings, as `system.tables.engine_full`.
    pub engine_full: String,
    /// Sorting key as the server prints it.
    pub sorting_key: String,
    /// Partition key as the server prints it.
    pub partition_key: String,
    /// Comment.
    pub comment: String,
    /// Columns in order.
    pub columns: Vec<ObservedColumn>,
    /// Data-skipping indexes; a worker does not ask for them.
    #[serde(default)]
    pub indexes: Vec<IndexDefinition>,
    /// Materialized views that this table's inserts fill; a worker does not ask for them.
    #[serde(default)]
    pub views: Vec<ObservedView>,
}

/// A materialized view on a table, and what it fills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedView {
    /// Database of the view.
    pub database: String,
    /// Name of the view.
    pub name: String,
    /// Database of the table it fills.
    pub target_database: String,
    /// The table it fills.
    pub target: String,
    /// Engine of that table, as `system.tables.engine_full`; empty where the account cannot see it.
    pub target_engine_full: String,
}

/// A column as the server reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedColumn {
    /// Name.
    pub name: String,
    /// Type as the server prints it.
    pub data_type: String,
    /// `""`, `DEFAULT`, `MATERIALIZED`, `ALIAS` or `EPHEMERAL`.
    pub default_kind: String,
    /// The default expression as the server prints it.
    pub default_expression: String,
    /// Comment.
    pub comment: String,
    /// Codec as the server prints it, for example `CODEC(ZSTD(1))`; empty: the server's. A worker does not ask for it.
    #[serde(default)]
    pub compression_codec: String,
}

/// One difference between what is declared and what is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What it is about: `table`, `engine`, `sorting key`, `partition key`, `setting x`, or a column's name.
    pub subject: String,
    /// What was declared.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// What a person can do.
    pub remedy: String,
    /// False: worth a warning, writes go on.
    pub blocks_writes: bool,
}
