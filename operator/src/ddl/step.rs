//! One statement as a value: shown, compared, rendered.
//!
//! Must not be here: which steps are wanted (`plan`).

use std::collections::BTreeMap;

use clickhouse_sink_crds::ddl::{Alteration, render_create_table};
use clickhouse_sink_crds::table::TableDefinition;
use serde::Serialize;

use crate::sql::{render_identifier, render_literal};

/// One statement, in words that a plan can show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DdlStep {
    /// The database is missing.
    CreateDatabase {
        /// Its name.
        database: String,
        /// The cluster that the statement is for; none: one server.
        #[serde(skip_serializing_if = "Option::is_none")]
        on_cluster: Option<String>,
    },
    /// The table is missing.
    CreateTable {
        /// What it must be.
        definition: Box<TableDefinition>,
        /// Its comment.
        #[serde(skip)]
        comment: Option<String>,
    },
    /// The table was there before and is gone: somebody dropped it.
    CreateAgain {
        /// What it must be.
        definition: Box<TableDefinition>,
        /// Its comment.
        #[serde(skip)]
        comment: Option<String>,
    },
    /// The table is there and differs.
    AlterTable {
        /// What it must be.
        #[serde(skip)]
        definition: Box<TableDefinition>,
        /// The change.
        change: Alteration,
        /// False: rows may go on without it.
        needed: bool,
    },
}

impl DdlStep {
    /// What the step does, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let table = |table: &TableDefinition| format!("{}.{}", table.database, table.name);
        match self {
            Self::CreateDatabase { database, .. } => format!("create database {database}"),
            Self::CreateTable { definition, .. } => format!("create table {}", table(definition)),
            Self::CreateAgain { definition, .. } => {
                format!("create table {} again, which is gone", table(definition))
            }
            Self::AlterTable {
                definition, change, ..
            } => format!("alter table {}: {}", table(definition), change.describe()),
        }
    }

    /// The statement. Running it twice changes nothing more.
    #[must_use]
    pub fn render(&self) -> String {
        match self {
            Self::CreateDatabase {
                database,
                on_cluster,
            } => {
                let cluster = on_cluster.as_deref().map(render_identifier);
                let cluster =
                    cluster.map_or_else(String::new, |name| format!(" ON CLUSTER {name}"));
                format!(
                    "CREATE DATABASE IF NOT EXISTS {}{cluster}",
                    render_identifier(database)
                )
            }
            Self::CreateTable {
                definition,
                comment,
            }
            | Self::CreateAgain {
                definition,
                comment,
            } => {
                let table = render_create_table(definition);
                match comment {
                    None => table,
                    Some(comment) => format!("{table}\nCOMMENT {}", render_literal(comment)),
                }
            }
            Self::AlterTable {
                definition, change, ..
            } => change.render(definition),
        }
    }

    /// The step with a comment for the table that it makes, where it makes one of these.
    #[must_use]
    pub fn with_comment(mut self, comments: &BTreeMap<String, String>) -> Self {
        if let Self::CreateTable {
            definition,
            comment,
        }
        | Self::CreateAgain {
            definition,
            comment,
        } = &mut self
        {
            *comment = comments.get(&definition.name).cloned();
        }
        self
    }

    /// True where workers cannot go on without the step.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        !matches!(self, Self::AlterTable { needed: false, .. })
    }
}
