//! The catalog's table and its rows. Pure.
//!
//! Must not be here: which rows are wanted (`plan.rs`).

use clickhouse_sink_crds::resolve::windows;
use clickhouse_sink_crds::table::{ColumnDefinition, Engine, TableDefinition};
use serde::{Deserialize, Serialize};

use crate::controller::declaration::Declaration;
use crate::sql::{render_literal, render_table_name};

/// Name of the table.
pub const TABLE_NAME: &str = "clickhouse_sink_catalog";

/// What something in the catalog is.
pub mod kind {
    /// A sink's table.
    pub const TABLE: &str = "table";
    /// A derived table.
    pub const DERIVED: &str = "derived";
    /// The view that fills it.
    pub const MATERIALIZED_VIEW: &str = "materialized view";
    /// A flat view.
    pub const FLAT_VIEW: &str = "flat view";
    /// A rejected table.
    pub const DEAD_LETTERS: &str = "dead letters";
    /// A Kafka topic; its database is empty, its uuid is the topic's id.
    pub const TOPIC: &str = "topic";
}

/// Something that was made, or found as declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Made {
    /// Its database; empty for a topic.
    pub database: String,
    /// Its name.
    pub name: String,
    /// One of [`kind`].
    pub kind: &'static str,
    /// Its present uuid; empty or all zero where the account cannot read it.
    pub uuid: String,
    /// Names the definition.
    pub fingerprint: String,
    /// The statement that makes it.
    pub definition: String,
}

/// The latest row of a name, as far as the next one depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogRow {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// uuid.
    pub uuid: String,
    /// uid of the sink that it was made for.
    pub sink_uid: String,
    /// `namespace/name` of that sink.
    pub sink: String,
    /// Fingerprint of the definition.
    pub definition_fingerprint: String,
    /// The statement.
    pub definition: String,
}

const COLUMNS: [(&str, &str); 12] = [
    ("database", "String"),
    ("name", "String"),
    ("kind", "LowCardinality(String)"),
    ("uuid", "String"),
    ("sink_namespace", "String"),
    ("sink_name", "String"),
    ("sink_uid", "String"),
    ("generation", "Int64"),
    ("definition_fingerprint", "String"),
    ("definition", "String"),
    ("operator_version", "LowCardinality(String)"),
    ("recorded_at", "DateTime64(3, 'UTC')"),
];

/// The table in a database.
#[must_use]
pub fn catalog_table(declaration: &Declaration) -> TableDefinition {
    let columns = COLUMNS.iter().map(|(name, data_type)| ColumnDefinition {
        name: (*name).to_owned(),
        data_type: (*data_type).to_owned(),
        default: None,
        comment: None,
        codec: None,
    });
    let order_by = ["database", "name", "uuid", "definition_fingerprint"];
    TableDefinition {
        database: declaration.expected.database.clone(),
        name: TABLE_NAME.to_owned(),
        engine: Engine::ReplacingMergeTree {
            version_column: "recorded_at".to_owned(),
        },
        columns: columns.collect(),
        order_by: order_by.map(str::to_owned).to_vec(),
        partition_by: None,
        ttl: None,
        settings: windows(&declaration.sink.spec),
        indexes: Vec::new(),
        cluster: declaration.expected.cluster.clone(),
    }
}

/// One INSERT of all rows; the server's clock says when.
#[must_use]
pub fn render_insert(declaration: &Declaration, rows: &[Made]) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let values: Vec<_> = rows
        .iter()
        .map(|row| render_row(declaration, row))
        .collect();
    format!(
        "INSERT INTO {} ({}) SETTINGS async_insert = 0 VALUES {}",
        render_table_name(&declaration.expected.database, TABLE_NAME),
        names.join(", "),
        values.join(", ")
    )
}

fn render_row(declaration: &Declaration, row: &Made) -> String {
    let texts = [
        &row.database,
        &row.name,
        row.kind,
        &row.uuid,
        declaration.namespace(),
        declaration.name(),
        &declaration.uid,
    ];
    let texts: Vec<_> = texts.iter().map(|text| render_literal(text)).collect();
    format!(
        "({}, {}, {}, {}, {}, now64(3))",
        texts.join(", "),
        declaration.generation(),
        render_literal(&row.fingerprint),
        render_literal(&row.definition),
        render_literal(env!("CARGO_PKG_VERSION")),
    )
}

/// The latest row of each of these names. Not `FINAL`: rows that are the same but for their time are one all the same.
#[must_use]
pub fn render_query(database: &str, names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| render_literal(name)).collect();
    format!(
        "SELECT database, name, kind, uuid, sink_uid, concat(sink_namespace, '/', sink_name) AS sink, definition_fingerprint, definition \
         FROM {} WHERE name IN ({}) ORDER BY recorded_at DESC LIMIT 1 BY database, name",
        render_table_name(database, TABLE_NAME),
        names.join(", ")
    )
}
