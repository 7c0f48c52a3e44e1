//! What a table must look like, what it looks like, and how the two differ.
//!
//! Must not be here: SQL text of statements (the operator renders it), clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
