//! DDL: which statements bring a table from what is there to what is declared, and their text.
//!
//! Must not be here: running them, reading the server. Expressions come canonical from the server (`observe.rs`).

use std::fmt::Write as _;

use clickhouse_sink_crds::table::{ColumnDefinition, Engine, TableDefinition};
use serde::Serialize;

use crate::sql::{is_plain_identifier, render_identifier, render_literal, render_table_name};

/// One statement, in words that a plan can show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DdlStep {
    /// The database is missing.
    CreateDatabase {
        /// Its name.
        database: String,
    },
    /// The table is missing.
    CreateTable {
        /// What it must be.
        definition: Box<TableDefinition>,
    },
}

impl DdlStep {
    /// What the step does, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::CreateDatabase { database } => format!("create database {database}"),
            Self::CreateTable { definition } => {
                format!("create table {}.{}", definition.database, definition.name)
            }
        }
    }

    /// The statement. Running it twice changes nothing more.
    #[must_use]
    pub fn render(&self) -> String {
        match self {
            Self::CreateDatabase { database } => {
                format!(
                    "CREATE DATABASE IF NOT EXISTS {}",
                    render_identifier(database)
                )
            }
            Self::CreateTable { definition } => render_create_table(definition),
        }
    }
}

/// `CREATE TABLE IF NOT EXISTS` of a definition.
#[must_use]
pub fn render_create_table(table: &TableDefinition) -> String {
    let columns: Vec<_> = table.columns.iter().map(render_column).collect();
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS {}\n(\n    {}\n)\nENGINE = {}",
        render_table_name(&table.database, &table.name),
        columns.join(",\n    "),
        render_engine(&table.engine),
    );
    for clause in render_clauses(table) {
        let _ = write!(sql, "\n{clause}");
    }
    sql
}

fn render_clauses(table: &TableDefinition) -> Vec<String> {
    let mut clauses = Vec::new();
    clauses.extend(
        table
            .partition_by
            .as_ref()
            .map(|key| format!("PARTITION BY {key}")),
    );
    clauses.push(format!("ORDER BY {}", render_order_by(&table.order_by)));
    clauses.extend(table.ttl.as_ref().map(|ttl| format!("TTL {ttl}")));
    if !table.settings.is_empty() {
        clauses.push(render_settings(table));
    }
    clauses
}

fn render_order_by(parts: &[String]) -> String {
    match parts {
        [] => "tuple()".to_owned(),
        parts => format!("({})", parts.join(", ")),
    }
}

fn render_settings(table: &TableDefinition) -> String {
    let settings: Vec<_> = table
        .settings
        .iter()
        .map(|(name, value)| format!("{} = {}", render_name(name), render_setting_value(value)))
        .collect();
    format!("SETTINGS {}", settings.join(", "))
}

fn render_name(name: &str) -> String {
    if is_plain_identifier(name) {
        name.to_owned()
    } else {
        render_identifier(name)
    }
}

/// Numbers stay numbers: the server keeps the spelling, and a quoted number would read as another value.
fn render_setting_value(value: &str) -> String {
    if value.parse::<f64>().is_ok_and(f64::is_finite) {
        value.to_owned()
    } else {
        render_literal(value)
    }
}

fn render_engine(engine: &Engine) -> String {
    match engine {
        Engine::MergeTree => "MergeTree".to_owned(),
        Engine::ReplacingMergeTree { version_column } => {
            format!("ReplacingMergeTree({})", render_identifier(version_column))
        }
    }
}

fn render_column(column: &ColumnDefinition) -> String {
    let mut sql = format!("{} {}", render_identifier(&column.name), column.data_type);
    if let Some(default) = &column.default {
        let _ = write!(sql, " DEFAULT {default}");
    }
    if let Some(comment) = &column.comment {
        let _ = write!(sql, " COMMENT {}", render_literal(comment));
    }
    sql
}
