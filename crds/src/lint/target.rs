//! The tables that a sink writes, one beside the other: its own and the derived ones.
//!
//! Must not be here: rules.

use crate::api::{
    ClickHouseSink, ColumnSpec, EngineSpec, METADATA_COLUMNS, MetadataColumnsMode, TableSpec,
};
use crate::data_type::DataType;

/// One table.
pub(super) struct Target<'a> {
    /// `spec.table` or `spec.derived[0]`.
    pub(super) path: String,
    /// Version column of a `ReplacingMergeTree`; none: another engine.
    pub(super) version: Option<&'a str>,
    pub(super) partition_by: Option<&'a str>,
    pub(super) order_by: &'a [String],
    /// Its columns, where they are declared: those of a derived table come from its SELECT.
    pub(super) table: Option<&'a TableSpec>,
}

impl Target<'_> {
    /// The place of a column in the sorting key.
    pub(super) fn key_index(&self, name: &str) -> Option<usize> {
        self.order_by.iter().position(|part| part == name)
    }

    /// Path of a part of the sorting key.
    pub(super) fn key_path(&self, index: usize) -> String {
        format!("{}.orderBy[{index}]", self.path)
    }

    /// The parts of the sorting key, for people.
    pub(super) fn key(&self) -> String {
        self.order_by.join(", ")
    }

    /// The declared column of that name.
    pub(super) fn column(&self, name: &str) -> Option<&ColumnSpec> {
        self.table?
            .columns
            .iter()
            .find(|column| column.name == name)
    }

    /// The declared type of a column; none: not declared, or not a type.
    pub(super) fn type_of(&self, name: &str) -> Option<DataType> {
        DataType::parse(&self.column(name)?.data_type).ok()
    }
}

/// The sink's table, and then the derived ones.
pub(super) fn targets(sink: &ClickHouseSink) -> Vec<Target<'_>> {
    let table = &sink.spec.table;
    let mut targets = vec![Target {
        path: "spec.table".to_owned(),
        version: version(&table.engine),
        partition_by: table.partition_by.as_deref(),
        order_by: &table.order_by,
        table: Some(table),
    }];
    let derived = sink.spec.derived.iter().enumerate();
    targets.extend(derived.map(|(index, derived)| Target {
        path: format!("spec.derived[{index}]"),
        version: version(&derived.engine),
        partition_by: derived.partition_by.as_deref(),
        order_by: &derived.order_by,
        table: None,
    }));
    targets
}

fn version(engine: &EngineSpec) -> Option<&str> {
    let replacing = engine.replacing_merge_tree.as_ref()?;
    Some(&replacing.version_column)
}

/// True where the name is a metadata column that the sink fills.
pub(super) fn is_metadata(sink: &ClickHouseSink, name: &str) -> bool {
    sink.spec.table.metadata_columns.mode == MetadataColumnsMode::All
        && METADATA_COLUMNS.contains(&name)
}
