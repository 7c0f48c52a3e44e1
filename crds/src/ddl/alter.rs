//! Changes of a table that lose nothing, each one statement that may be run twice.
//!
//! There is no way to say DROP or RENAME here. Must not be here: whether a change is allowed (`check`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{render_column, render_index, render_on_cluster, render_setting, render_table_name};
use crate::data_type::{quote_identifier, quote_literal};
use crate::table::{ColumnDefinition, IndexDefinition, TableDefinition};

/// One change of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Alteration {
    /// A column that is not there.
    AddColumn(ColumnDefinition),
    /// A type that holds every value of the one before.
    WidenColumn {
        /// The column.
        column: String,
        /// Its new type.
        data_type: String,
    },
    /// A column that the sink does not send becomes one that the server fills with a constant.
    FillColumn {
        /// The column.
        column: String,
        /// Its type, as it is.
        data_type: String,
    },
    /// A column that the server computes becomes an ordinary one.
    MakeOrdinary {
        /// The column.
        column: String,
        /// What it is: `MATERIALIZED` or `ALIAS`.
        kind: String,
    },
    /// Another default.
    SetDefault {
        /// The column.
        column: String,
        /// The expression.
        default: String,
    },
    /// Another comment.
    SetComment {
        /// The column.
        column: String,
        /// The text.
        comment: String,
    },
    /// Another codec, for parts that are written from now on.
    SetCodec {
        /// The column.
        column: String,
        /// The codec.
        codec: String,
    },
    /// Another TTL.
    SetTtl(String),
    /// Rows no longer expire.
    RemoveTtl,
    /// Other settings.
    SetSettings(BTreeMap<String, String>),
    /// An index that is not there, for parts that are written from now on.
    AddIndex(IndexDefinition),
    /// Another comment of the table itself.
    SetTableComment(String),
}

impl Alteration {
    /// What it does, for people; names as they are.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::AddColumn(column) => format!("add column {}", column.name),
            Self::WidenColumn { column, data_type } => {
                format!("widen column {column} to {data_type}")
            }
            Self::FillColumn { column, .. } => format!("give column {column} a default"),
            Self::MakeOrdinary { column, .. } => format!("make column {column} an ordinary one"),
            Self::SetDefault { column, .. } => format!("set the default of column {column}"),
            Self::SetComment { column, .. } => format!("set the comment of column {column}"),
            Self::SetCodec { column, .. } => format!("set the codec of column {column}"),
            Self::SetTtl(_) => "set the TTL".to_owned(),
            Self::RemoveTtl => "remove the TTL".to_owned(),
            Self::SetSettings(settings) => {
                let names: Vec<_> = settings.keys().map(String::as_str).collect();
                format!("set {}", names.join(", "))
            }
            Self::AddIndex(index) => format!("add index {}", index.name),
            Self::SetTableComment(_) => "record its owner in its comment".to_owned(),
        }
    }

    /// The whole statement.
    #[must_use]
    pub fn render(&self, table: &TableDefinition) -> String {
        format!(
            "ALTER TABLE {}{} {}",
            render_table_name(&table.database, &table.name),
            render_on_cluster(table),
            self.render_change()
        )
    }

    fn render_change(&self) -> String {
        let name = |column: &String| quote_identifier(column);
        match self {
            Self::AddColumn(column) => {
                format!("ADD COLUMN IF NOT EXISTS {}", render_column(column))
            }
            Self::WidenColumn { column, data_type } => {
                format!("MODIFY COLUMN {} {data_type}", name(column))
            }
            Self::FillColumn { column, data_type } => format!(
                "MODIFY COLUMN {} {data_type} DEFAULT defaultValueOfTypeName({})",
                name(column),
                quote_literal(data_type)
            ),
            Self::MakeOrdinary { column, kind } => {
                format!("MODIFY COLUMN {} REMOVE {kind}", name(column))
            }
            Self::SetDefault { column, default } => {
                format!("MODIFY COLUMN {} DEFAULT {default}", name(column))
            }
            Self::SetComment { column, comment } => {
                format!("COMMENT COLUMN {} {}", name(column), quote_literal(comment))
            }
            Self::SetCodec { column, codec } => {
                format!("MODIFY COLUMN {} CODEC({codec})", name(column))
            }
            Self::SetTtl(ttl) => format!("MODIFY TTL {ttl}"),
            Self::RemoveTtl => "REMOVE TTL".to_owned(),
            Self::SetSettings(settings) => {
                let pairs = settings.iter();
                let pairs = pairs.map(|(name, value)| render_setting(name, value));
                format!("MODIFY SETTING {}", pairs.collect::<Vec<_>>().join(", "))
            }
            Self::AddIndex(index) => {
                format!("ADD INDEX IF NOT EXISTS {}", render_index(index))
            }
            Self::SetTableComment(comment) => format!("MODIFY COMMENT {}", quote_literal(comment)),
        }
    }
}
