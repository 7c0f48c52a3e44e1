//! The mapping, compiled once: a tree of keys to walk a record by, the kind of each column, its default.
//!
//! Must not be here: reading records, rows.

pub(crate) mod keys;
pub(crate) mod kind;

use clickhouse_sink_crds::data_type::{DataType, TypeError};
use clickhouse_sink_crds::worker_config::{
    ColumnMapping, OnError, OnMissing, RecordFormat, TargetTable, UnknownFields,
};

use crate::column::Column;
use crate::column::dictionary::{Dictionary, EntryShape};
use crate::column::text::TextColumn;
use keys::{ObjectPlan, PlanError};
use kind::{Kind, KindError};

/// The metadata columns, after the mapped ones and in this order.
pub const METADATA_COLUMNS: [(&str, &str); 4] = [
    ("_topic", "LowCardinality(String)"),
    ("_partition", "UInt32"),
    ("_offset", "UInt64"),
    ("_timestamp", "DateTime64(3, 'UTC')"),
];

/// Everything that turns payloads into rows, compiled from a mapping.
#[derive(Debug)]
pub struct Schema {
    pub(crate) columns: Vec<ColumnPlan>,
    pub(crate) root: ObjectPlan,
    /// One bit per edge of the tree of keys, all set; each is seen at most once in a record.
    pub(crate) all_edges: Vec<u64>,
    /// How many places "the key after this one" are remembered for.
    pub(crate) places: usize,
    pub(crate) reject_unknown: bool,
    pub(crate) max_record_bytes: usize,
    pub(crate) metadata_columns: bool,
}

/// One mapped column.
#[derive(Debug)]
pub(crate) struct ColumnPlan {
    pub(crate) name: String,
    pub(crate) type_text: String,
    pub(crate) kind: Kind,
    pub(crate) on_missing: OnMissing,
    pub(crate) on_error: OnError,
    /// One row: what the column gets where its default is wanted.
    pub(crate) default: Column,
    /// The edge that leads to the value.
    pub(crate) edge: usize,
}

/// Why a mapping cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The type's text cannot be read.
    #[error("column {column}: {source}")]
    Type {
        /// Whose type.
        column: String,
        /// What is wrong with it.
        source: TypeError,
    },
    /// The type cannot be written.
    #[error("column {column}: {source}")]
    Kind {
        /// Whose type.
        column: String,
        /// What is wrong with it.
        source: KindError,
    },
    /// The path cannot be followed.
    #[error("column {column}: {source}")]
    Path {
        /// Whose path.
        column: String,
        /// What is wrong with it.
        source: PlanError,
    },
    /// NULL is asked for where the type has none.
    #[error(
        "column {column}: NULL is wanted for a missing or bad value, but {type_text} is not Nullable; make it Nullable or use Default or Reject"
    )]
    NotNullable {
        /// Which column.
        column: String,
        /// Its type.
        type_text: String,
    },
    /// The default does not fit the type.
    #[error(
        "column {column}: the default {default_json} is not a value of type {type_text}: {reason}"
    )]
    Default {
        /// Which column.
        column: String,
        /// Its type.
        type_text: String,
        /// The default, as JSON.
        default_json: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing to send.
    #[error("the mapping has no columns; name at least one")]
    NoColumns,
}

impl SchemaError {
    /// The reason in CamelCase, for conditions and metrics; a mapping error is never worth a retry.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Type { .. } | Self::Kind { .. } => "TypeNotSupported",
            Self::Path { .. } => "PathInvalid",
            Self::NotNullable { .. } => "NotNullable",
            Self::Default { .. } => "DefaultInvalid",
            Self::NoColumns => "NoColumns",
        }
    }
}

impl Schema {
    /// Compiles the mapping of a table.
    ///
    /// # Errors
    /// The first column whose type, path or default cannot work, and why.
    pub fn compile(table: &TargetTable, format: &RecordFormat) -> Result<Self, SchemaError> {
        if table.mapping.is_empty() {
            return Err(SchemaError::NoColumns);
        }
        let mut plans = keys::PlanBuilder::default();
        let columns = table
            .mapping
            .iter()
            .enumerate()
            .map(|(index, mapping)| compile_column(index, mapping, &mut plans))
            .collect::<Result<Vec<_>, _>>()?;
        let (root, edges, places) = plans.build(&|column| columns[column].kind.clone());
        Ok(Self {
            columns,
            root,
            all_edges: all_set(edges),
            places,
            reject_unknown: format.unknown_fields == UnknownFields::Reject,
            max_record_bytes: usize::try_from(format.max_record_bytes).unwrap_or(usize::MAX),
            metadata_columns: table.metadata_columns,
        })
    }

    /// Names and types of the columns of an INSERT, in order, metadata columns last.
    #[must_use]
    pub fn insert_columns(&self) -> Vec<(String, String)> {
        self.wire_columns()
            .map(|(name, type_text)| (name.to_owned(), type_text.to_owned()))
            .collect()
    }

    /// As [`Self::insert_columns`], borrowed.
    pub(crate) fn wire_columns(&self) -> impl Iterator<Item = (&str, &str)> {
        let mapped = self
            .columns
            .iter()
            .map(|plan| (plan.name.as_str(), plan.type_text.as_str()));
        let metadata = if self.metadata_columns {
            METADATA_COLUMNS.as_slice()
        } else {
            &[]
        };
        mapped.chain(metadata.iter().copied())
    }

    /// Empty columns, metadata columns last.
    pub(crate) fn empty_columns(&self) -> Vec<Column> {
        let mapped = self.columns.iter().map(|plan| plan.kind.empty_column());
        let metadata = [
            Column::Dictionary(Box::new(Dictionary::new(EntryShape::Text, false))),
            Column::fixed(4),
            Column::fixed(8),
            Column::fixed(8),
        ];
        mapped
            .chain(metadata.into_iter().filter(|_| self.metadata_columns))
            .collect()
    }
}

/// So many bits, all set.
fn all_set(bits: usize) -> Vec<u64> {
    let mut words = vec![0; bits.div_ceil(64)];
    (0..bits).for_each(|bit| words[bit / 64] |= 1 << (bit % 64));
    words
}

fn compile_column(
    index: usize,
    mapping: &ColumnMapping,
    plans: &mut keys::PlanBuilder,
) -> Result<ColumnPlan, SchemaError> {
    let column = || mapping.column.clone();
    let data_type = DataType::parse(&mapping.data_type).map_err(|source| SchemaError::Type {
        column: column(),
        source,
    })?;
    let kind = Kind::compile(&data_type, mapping.unit).map_err(|source| SchemaError::Kind {
        column: column(),
        source,
    })?;
    let wants_null = mapping.on_missing == OnMissing::Null || mapping.on_error == OnError::Null;
    if wants_null && !data_type.is_nullable() {
        return Err(SchemaError::NotNullable {
            column: column(),
            type_text: mapping.data_type.clone(),
        });
    }
    let edge = plans
        .add(&mapping.path, index)
        .map_err(|source| SchemaError::Path {
            column: column(),
            source,
        })?;
    Ok(ColumnPlan {
        default: compile_default(mapping, &kind)?,
        name: column(),
        type_text: mapping.data_type.clone(),
        kind,
        on_missing: mapping.on_missing,
        on_error: mapping.on_error,
        edge,
    })
}

fn compile_default(mapping: &ColumnMapping, kind: &Kind) -> Result<Column, SchemaError> {
    let mut column = kind.empty_column();
    match &mapping.default_json {
        None => kind.push_zero(&mut column),
        Some(json) => crate::decode::decode_default(kind, json, &mut column).map_err(|reason| {
            SchemaError::Default {
                column: mapping.column.clone(),
                type_text: mapping.data_type.clone(),
                default_json: json.clone(),
                reason: reason.to_owned(),
            }
        })?,
    }
    Ok(column)
}

/// An empty column of text.
pub(crate) fn text_column() -> Column {
    Column::Text(TextColumn::default())
}
