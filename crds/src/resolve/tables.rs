//! The tables that a sink needs.
//!
//! Must not be here: SQL.

use std::collections::BTreeMap;

use super::canonical_type;
use crate::api::{
    ClickHouseSink, ClickHouseSinkSpec, ClusterDdl, DerivedSpec, EngineSpec, IndexSpec,
    MetadataColumnsMode,
};
use crate::clause::{parse_codec, parse_index_type};
use crate::table::{ClusterDefinition, ColumnDefinition, Engine, IndexDefinition, TableDefinition};

/// The setting that makes a plain `MergeTree` know an INSERT again.
pub const DEDUPLICATION_WINDOW_SETTING: &str = "non_replicated_deduplication_window";
/// How many INSERTs it remembers, one entry for each table partition of each.
pub const DEDUPLICATION_WINDOW: &str = "100000";

/// The same of a replicated table: INSERTs, and the seconds that they are remembered.
pub const REPLICATED_WINDOW: [(&str, &str); 2] = [
    ("replicated_deduplication_window", "20000"),
    ("replicated_deduplication_window_seconds", "604800"),
];

/// Name of the rejected table.
#[must_use]
pub fn rejected_table_name(spec: &ClickHouseSinkSpec) -> String {
    let declared = spec
        .dead_letter
        .table
        .as_ref()
        .and_then(|table| table.name.clone());
    declared.unwrap_or_else(|| format!("{}_rejected", spec.table.name))
}

/// What the sink's table must look like: declared columns, metadata columns, the deduplication window.
#[must_use]
pub fn expected_table(sink: &ClickHouseSink) -> TableDefinition {
    let spec = &sink.spec;
    let table = &spec.table;
    let mut settings = windows(spec);
    settings.extend(table.settings.clone());
    TableDefinition {
        database: spec.clickhouse.database.clone(),
        name: table.name.clone(),
        engine: engine(&table.engine),
        columns: columns(spec),
        order_by: table.order_by.clone(),
        partition_by: table.partition_by.clone(),
        ttl: table.ttl.clone(),
        settings,
        indexes: table.indexes.iter().map(index).collect(),
        cluster: cluster(spec),
    }
}

/// What a derived table must look like: the columns that its SELECT gives (name and type, as the server says), and a
/// deduplication window of its own, since a retried INSERT is pushed into its view again.
#[must_use]
pub fn derived_table(
    sink: &ClickHouseSink,
    derived: &DerivedSpec,
    columns: &[(String, String)],
) -> TableDefinition {
    let mut settings = windows(&sink.spec);
    settings.extend(derived.settings.clone());
    let columns = columns.iter().map(|(name, data_type)| ColumnDefinition {
        name: name.clone(),
        data_type: canonical_type(data_type),
        default: None,
        comment: None,
        codec: None,
    });
    TableDefinition {
        database: sink.spec.clickhouse.database.clone(),
        name: derived.name.clone(),
        engine: engine(&derived.engine),
        columns: columns.collect(),
        order_by: derived.order_by.clone(),
        partition_by: derived.partition_by.clone(),
        ttl: derived.ttl.clone(),
        settings,
        indexes: Vec::new(),
        cluster: cluster(&sink.spec),
    }
}

/// How the statements reach every replica; none: one server.
#[must_use]
pub fn cluster(spec: &ClickHouseSinkSpec) -> Option<ClusterDefinition> {
    let cluster = spec.clickhouse.cluster.as_ref()?;
    Some(ClusterDefinition {
        name: cluster.name.clone(),
        on_cluster: cluster.ddl == ClusterDdl::OnCluster,
    })
}

/// The settings that make every table of the sink know an INSERT again.
#[must_use]
pub fn windows(spec: &ClickHouseSinkSpec) -> BTreeMap<String, String> {
    let settings: &[(&str, &str)] = match &spec.clickhouse.cluster {
        Some(_) => &REPLICATED_WINDOW,
        None => &[(DEDUPLICATION_WINDOW_SETTING, DEDUPLICATION_WINDOW)],
    };
    let settings = settings.iter();
    settings
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn engine(engine: &EngineSpec) -> Engine {
    match &engine.replacing_merge_tree {
        Some(replacing) => Engine::ReplacingMergeTree {
            version_column: replacing.version_column.clone(),
        },
        None => Engine::MergeTree,
    }
}

fn canonical_codec(text: &str) -> String {
    parse_codec(text).unwrap_or_else(|_| text.to_owned())
}

fn index(index: &IndexSpec) -> IndexDefinition {
    let text = &index.index_type;
    IndexDefinition {
        name: index.name.clone(),
        expression: index.expression.clone(),
        index_type: parse_index_type(text).unwrap_or_else(|_| text.clone()),
        granularity: u64::try_from(index.granularity).unwrap_or(1),
    }
}

fn columns(spec: &ClickHouseSinkSpec) -> Vec<ColumnDefinition> {
    let declared = spec.table.columns.iter().map(|column| ColumnDefinition {
        name: column.name.clone(),
        data_type: canonical_type(&column.data_type),
        default: column.default.clone(),
        comment: column.comment.clone(),
        codec: column.codec.as_deref().map(canonical_codec),
    });
    let metadata: &[_] = if has_metadata_columns(spec) {
        &[
            (
                "_topic",
                "LowCardinality(String)",
                "Kafka topic of the record",
            ),
            ("_partition", "UInt32", "Kafka partition of the record"),
            ("_offset", "UInt64", "Kafka offset of the record"),
            (
                "_timestamp",
                "DateTime64(3, 'UTC')",
                "Kafka timestamp of the record",
            ),
        ]
    } else {
        &[]
    };
    declared
        .chain(
            metadata
                .iter()
                .map(|(name, data_type, comment)| column(name, data_type, comment)),
        )
        .collect()
}

pub(super) fn has_metadata_columns(spec: &ClickHouseSinkSpec) -> bool {
    spec.table.metadata_columns.mode == MetadataColumnsMode::All
}

fn column(name: &str, data_type: &str, comment: &str) -> ColumnDefinition {
    ColumnDefinition {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        default: None,
        comment: Some(comment.to_owned()),
        codec: None,
    }
}

/// The table of rejected records and gaps.
///
/// One row for each record, however often it is replayed: rows of the same place collapse to the one with the latest
/// `rejected_at`. A row is marked as replayed by inserting it again with `replayed_at` set and the same `rejected_at`
/// (of equals the last inserted stays); rejected again later, it is open again.
#[must_use]
pub fn rejected_table(sink: &ClickHouseSink) -> TableDefinition {
    TableDefinition {
        database: sink.spec.clickhouse.database.clone(),
        name: rejected_table_name(&sink.spec),
        engine: Engine::ReplacingMergeTree {
            version_column: "rejected_at".to_owned(),
        },
        columns: REJECTED_COLUMNS
            .iter()
            .map(|(name, data_type, comment)| column(name, data_type, comment))
            .collect(),
        order_by: ["topic", "topic_id", "partition", "offset", "epoch", "kind"]
            .map(str::to_owned)
            .to_vec(),
        partition_by: None,
        ttl: None,
        settings: windows(&sink.spec),
        indexes: Vec::new(),
        cluster: cluster(&sink.spec),
    }
}

/// Name, type and comment of the rejected table's columns; workers write all but the last by exactly these names and types.
const REJECTED_COLUMNS: [(&str, &str, &str); 19] = [
    ("topic", "LowCardinality(String)", "Kafka topic"),
    (
        "topic_id",
        "LowCardinality(String)",
        "id of the Kafka topic",
    ),
    ("partition", "UInt32", "Kafka partition"),
    ("offset", "UInt64", "Kafka offset, of a gap the first"),
    ("epoch", "LowCardinality(String)", "epoch of the position"),
    ("kind", "LowCardinality(String)", "record or gap"),
    (
        "end_offset",
        "UInt64",
        "offset behind the record or the gap",
    ),
    ("cause", "LowCardinality(String)", "why a gap is there"),
    ("lost", "LowCardinality(String)", "of a gap: lost or maybe"),
    ("key", "Nullable(String)", "key of the record, as bytes"),
    ("payload", "String", "payload of the record, as bytes"),
    (
        "headers",
        "Array(Tuple(String, String))",
        "headers of the record, values as bytes",
    ),
    (
        "timestamp",
        "DateTime64(3, 'UTC')",
        "Kafka timestamp of the record",
    ),
    (
        "column",
        "LowCardinality(String)",
        "column whose value did not fit; empty: the record as a whole",
    ),
    (
        "reason",
        "String",
        "what was expected and found, without the value",
    ),
    (
        "code",
        "LowCardinality(String)",
        "why the record was rejected, in one word",
    ),
    (
        "mapping",
        "LowCardinality(String)",
        "hash of the mapping that rejected it",
    ),
    (
        "rejected_at",
        "DateTime64(3, 'UTC')",
        "when it was rejected; the latest stays",
    ),
    (
        "replayed_at",
        "Nullable(DateTime64(3, 'UTC'))",
        "when it was inserted after all",
    ),
];
