//! The statements that make a table and change it, as text: one place that quotes every name and literal.
//!
//! Expressions and types are put in as they are, so they must be canonical: read by the server, or by our own parsers.
//! Must not be here: which statement is wanted (`check`, the operator's plan), running them.

use std::fmt::Write as _;

use crate::data_type::{quote_identifier, quote_literal};
use crate::table::{ColumnDefinition, Engine, IndexDefinition, TableDefinition};

pub use alter::Alteration;

mod alter;

/// `database.table`, both quoted.
#[must_use]
pub fn render_table_name(database: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(database), quote_identifier(name))
}

/// ` ON CLUSTER name`, or nothing.
#[must_use]
pub fn render_on_cluster(table: &TableDefinition) -> String {
    match &table.cluster {
        Some(cluster) if cluster.on_cluster => {
            format!(" ON CLUSTER {}", quote_identifier(&cluster.name))
        }
        _ => String::new(),
    }
}

/// `CREATE TABLE IF NOT EXISTS` of a definition.
#[must_use]
pub fn render_create_table(table: &TableDefinition) -> String {
    let columns = table.columns.iter().map(render_column);
    let indexes = table
        .indexes
        .iter()
        .map(|index| format!("INDEX {}", render_index(index)));
    let elements: Vec<_> = columns.chain(indexes).collect();
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS {}{}\n(\n    {}\n)\nENGINE = {}",
        render_table_name(&table.database, &table.name),
        render_on_cluster(table),
        elements.join(",\n    "),
        render_engine(table),
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
    clauses.push(format!("ORDER BY {}", render_order_by(table)));
    clauses.extend(table.ttl.as_ref().map(|ttl| format!("TTL {ttl}")));
    if !table.settings.is_empty() {
        let settings = table.settings.iter();
        let settings = settings.map(|(name, value)| render_setting(name, value));
        let settings: Vec<_> = settings.collect();
        clauses.push(format!("SETTINGS {}", settings.join(", ")));
    }
    clauses
}

/// A part that is a column's name is quoted: bare, `true` or `index` would read as something else.
fn render_order_by(table: &TableDefinition) -> String {
    if table.order_by.is_empty() {
        return "tuple()".to_owned();
    }
    let is_column = |part: &String| table.columns.iter().any(|column| column.name == *part);
    let parts = table.order_by.iter();
    let parts = parts.map(|part| {
        if is_column(part) {
            quote_identifier(part)
        } else {
            part.clone()
        }
    });
    format!("({})", parts.collect::<Vec<_>>().join(", "))
}

/// On a cluster the engine is the replicated one, with the path and replica name that the servers are set up with.
fn render_engine(table: &TableDefinition) -> String {
    let prefix = table.cluster.as_ref().map_or("", |_| "Replicated");
    match &table.engine {
        Engine::MergeTree => format!("{prefix}MergeTree"),
        Engine::ReplacingMergeTree { version_column } => format!(
            "{prefix}ReplacingMergeTree({})",
            quote_identifier(version_column)
        ),
    }
}

/// `name = value`. Numbers stay numbers: the server keeps the spelling, and a quoted number would read as another value.
fn render_setting(name: &str, value: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let name = if is_plain {
        name.to_owned()
    } else {
        quote_identifier(name)
    };
    if value.parse::<f64>().is_ok_and(f64::is_finite) {
        format!("{name} = {value}")
    } else {
        format!("{name} = {}", quote_literal(value))
    }
}

fn render_column(column: &ColumnDefinition) -> String {
    let mut sql = format!("{} {}", quote_identifier(&column.name), column.data_type);
    if let Some(default) = &column.default {
        let _ = write!(sql, " DEFAULT {default}");
    }
    if let Some(comment) = &column.comment {
        let _ = write!(sql, " COMMENT {}", quote_literal(comment));
    }
    if let Some(codec) = &column.codec {
        let _ = write!(sql, " CODEC({codec})");
    }
    sql
}

fn render_index(index: &IndexDefinition) -> String {
    format!(
        "{} {} TYPE {} GRANULARITY {}",
        quote_identifier(&index.name),
        index.expression,
        index.index_type,
        index.granularity
    )
}

#[cfg(test)]
mod tests;
