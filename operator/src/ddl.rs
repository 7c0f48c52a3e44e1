//! DDL: which statements bring a table from what is there to what is declared, and their text.
//!
//! Must not be here: running them, reading the server. Expressions come canonical from the server (`observe.rs`).

use std::fmt::Write as _;

use clickhouse_sink_crds::api::DdlMode;
use clickhouse_sink_crds::table::{ColumnDefinition, Engine, ObservedTable, TableDefinition};
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

/// The statements that bring each pair of declared and found table together, as far as the mode allows: in `auto` what
/// is missing is made, and nothing that is there is touched.
#[must_use]
pub fn plan_ddl(
    mode: DdlMode,
    has_database: bool,
    tables: &[(&TableDefinition, Option<&ObservedTable>)],
) -> Vec<DdlStep> {
    if mode != DdlMode::Auto {
        return Vec::new();
    }
    let missing: Vec<_> = tables
        .iter()
        .filter(|(_, found)| found.is_none())
        .map(|(expected, _)| *expected)
        .collect();
    let database = missing
        .first()
        .filter(|_| !has_database)
        .map(|table| DdlStep::CreateDatabase {
            database: table.database.clone(),
        });
    let tables = missing.iter().map(|table| DdlStep::CreateTable {
        definition: Box::new((*table).clone()),
    });
    database.into_iter().chain(tables).collect()
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
    clauses.push(format!("ORDER BY {}", render_order_by(table)));
    clauses.extend(table.ttl.as_ref().map(|ttl| format!("TTL {ttl}")));
    if !table.settings.is_empty() {
        clauses.push(render_settings(table));
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
            render_identifier(part)
        } else {
            part.clone()
        }
    });
    format!("({})", parts.collect::<Vec<_>>().join(", "))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn column(
        name: &str,
        data_type: &str,
        default: Option<&str>,
        comment: Option<&str>,
    ) -> ColumnDefinition {
        ColumnDefinition {
            name: name.to_owned(),
            data_type: data_type.to_owned(),
            default: default.map(str::to_owned),
            comment: comment.map(str::to_owned),
        }
    }

    fn events() -> TableDefinition {
        TableDefinition {
            database: "ops".to_owned(),
            name: "vision_events".to_owned(),
            engine: Engine::ReplacingMergeTree {
                version_column: "version".to_owned(),
            },
            columns: vec![
                column("event_id", "String", None, None),
                column("ts", "DateTime64(3, 'UTC')", None, None),
                column("version", "UInt32", None, None),
                column(
                    "status",
                    "LowCardinality(String)",
                    Some("'raised'"),
                    Some("raised or acknowledged"),
                ),
                column(
                    "_offset",
                    "UInt64",
                    None,
                    Some("Kafka offset of the record"),
                ),
            ],
            order_by: vec!["ts".to_owned(), "event_id".to_owned()],
            partition_by: Some("toYYYYMM(ts)".to_owned()),
            ttl: Some("ts + toIntervalDay(400)".to_owned()),
            settings: BTreeMap::from([
                (
                    "non_replicated_deduplication_window".to_owned(),
                    "100000".to_owned(),
                ),
                ("storage_policy".to_owned(), "it's hot".to_owned()),
            ]),
        }
    }

    fn hostile() -> TableDefinition {
        TableDefinition {
            database: "a`b".to_owned(),
            name: "c\"; DROP TABLE d; --\n".to_owned(),
            engine: Engine::MergeTree,
            columns: vec![column("e\\`f", "String", None, Some("g'h\\"))],
            order_by: Vec::new(),
            partition_by: None,
            ttl: None,
            settings: BTreeMap::new(),
        }
    }

    fn found() -> ObservedTable {
        ObservedTable {
            uuid: String::new(),
            engine: "MergeTree".to_owned(),
            engine_full: String::new(),
            sorting_key: String::new(),
            partition_key: String::new(),
            comment: String::new(),
            columns: Vec::new(),
        }
    }

    #[test]
    fn a_table_is_rendered_with_all_that_was_declared() {
        insta::assert_snapshot!(render_create_table(&events()));
    }

    #[test]
    fn names_stay_names_whatever_is_in_them() {
        insta::assert_snapshot!(render_create_table(&hostile()));
    }

    #[test]
    fn auto_makes_only_what_is_missing_and_the_database_first() {
        let (table, rejected, found) = (events(), hostile(), found());
        let steps = |has_database, one, other| {
            plan_ddl(
                DdlMode::Auto,
                has_database,
                &[(&table, one), (&rejected, other)],
            )
            .iter()
            .map(DdlStep::describe)
            .collect::<Vec<_>>()
        };
        assert_eq!(
            steps(false, None, None)[..2],
            ["create database ops", "create table ops.vision_events"]
        );
        assert_eq!(
            steps(true, None, Some(&found)),
            ["create table ops.vision_events"]
        );
        assert_eq!(
            steps(true, Some(&found), Some(&found)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_other_modes_make_nothing() {
        let table = events();
        for mode in [DdlMode::Validate, DdlMode::None] {
            assert_eq!(plan_ddl(mode, false, &[(&table, None)]), Vec::new());
        }
    }
}
