//! From a valid sink to the tables it needs and the configuration its workers run on.
//!
//! Must not be here: checks (`validate` comes first; a text that it would refuse is taken as it is), I/O.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use k8s_openapi::jiff::Timestamp;

use crate::api::{
    ClickHouseSink, ClickHouseSinkSpec, ColumnSpec, DdlMode, GroupProtocolKind, KafkaSpec,
    StartFromKind,
};
use crate::budget::ShutdownBudget;
use crate::data_type::DataType;
use crate::path::parse_path;
use crate::quantity::parse_bytes;
use crate::table::TableDefinition;
use crate::worker_config::{
    BatchLimits, ClickHouseTarget, ColumnMapping, DeadLetter, Delivery, GroupProtocol, KafkaSource,
    OnError, OnMissing, RecordFormat, SinkIdentity, StartFrom, TargetTable, WORKER_CONFIG_VERSION,
    WorkerConfig,
};

pub use tables::{
    DEDUPLICATION_WINDOW, DEDUPLICATION_WINDOW_SETTING, REPLICATED_WINDOW, cluster, derived_table,
    expected_table, rejected_table, rejected_table_name, windows,
};

mod tables;

/// What the sink itself does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolveInputs {
    /// `metadata.uid`, or what stands for it in local mode.
    pub uid: String,
    /// The group of a sink that names none.
    pub default_group_id: String,
    /// Value of each column's `default` as JSON text, evaluated by the server.
    pub defaults_json: BTreeMap<String, String>,
    /// The expected table with expressions as the server formats them; absent: as declared.
    pub expected: Option<TableDefinition>,
    /// The document of facts that workers read again while they run; absent: none.
    pub facts_path: Option<PathBuf>,
    /// Folder with `username` and `password`; absent: user `default` without a password.
    pub credentials_dir: Option<PathBuf>,
}

/// The configuration of the sink's workers: every default filled in. Earlier mappings are for the caller to add.
#[must_use]
pub fn resolve(sink: &ClickHouseSink, inputs: &ResolveInputs) -> WorkerConfig {
    let spec = &sink.spec;
    WorkerConfig {
        version: WORKER_CONFIG_VERSION,
        sink: SinkIdentity {
            namespace: namespace(sink).to_owned(),
            name: sink.metadata.name.clone().unwrap_or_default(),
            uid: inputs.uid.clone(),
        },
        kafka: kafka(&spec.kafka, &inputs.default_group_id),
        format: RecordFormat {
            unknown_fields: spec.format.json.unknown_fields,
            max_record_bytes: bytes(&spec.format.max_record_bytes),
            tombstones: spec.format.tombstones,
        },
        clickhouse: ClickHouseTarget {
            url: spec.clickhouse.url.trim_end_matches('/').to_owned(),
            database: spec.clickhouse.database.clone(),
            credentials_dir: inputs.credentials_dir.clone(),
        },
        table: target_table(sink, inputs),
        batch: batch(spec),
        delivery: Delivery {
            guarantee: spec.delivery.guarantee,
            insert_timeout_seconds: unsigned(spec.delivery.insert_timeout_seconds),
            quorum: unsigned(spec.delivery.quorum),
        },
        dead_letter: DeadLetter {
            table: rejected_table_name(spec),
            max_rejected_percent: unsigned(spec.dead_letter.max_rejected_percent),
        },
        shutdown: ShutdownBudget::new(unsigned(spec.shutdown.final_flush_timeout_seconds), 0),
        threads: unsigned(spec.workers.threads),
        memory_budget_bytes: bytes(&spec.workers.memory_budget),
        memory_limit_bytes: None,
        earlier: Vec::new(),
        facts_path: inputs.facts_path.clone(),
    }
}

/// Namespace of the sink, `default` where it names none.
#[must_use]
pub fn namespace(sink: &ClickHouseSink) -> &str {
    sink.metadata.namespace.as_deref().unwrap_or("default")
}

fn kafka(kafka: &KafkaSpec, default_group_id: &str) -> KafkaSource {
    KafkaSource {
        bootstrap_servers: kafka.bootstrap_servers.clone(),
        topics: kafka.topics.clone(),
        group_id: kafka
            .group_id
            .clone()
            .unwrap_or_else(|| default_group_id.to_owned()),
        start_from: start_from(kafka),
        on_data_loss: kafka.on_data_loss,
        group_protocol: match kafka.group_protocol {
            GroupProtocolKind::Auto | GroupProtocolKind::Classic => GroupProtocol::Classic,
            GroupProtocolKind::Consumer => GroupProtocol::Consumer,
        },
        properties: kafka.properties.clone(),
    }
}

fn start_from(kafka: &KafkaSpec) -> StartFrom {
    match kafka.start_from {
        StartFromKind::Earliest => StartFrom::Earliest,
        StartFromKind::Latest => StartFrom::Latest,
        StartFromKind::Timestamp => {
            let text = kafka.start_timestamp.as_deref().unwrap_or_default();
            StartFrom::TimestampMs(Timestamp::from_str(text).map_or(0, Timestamp::as_millisecond))
        }
    }
}

fn target_table(sink: &ClickHouseSink, inputs: &ResolveInputs) -> TargetTable {
    let table = &sink.spec.table;
    TargetTable {
        expected: inputs
            .expected
            .clone()
            .unwrap_or_else(|| expected_table(sink)),
        check: table.ddl != DdlMode::None,
        recheck_period_seconds: unsigned(table.recheck_period_seconds),
        mapping: table
            .columns
            .iter()
            .map(|column| mapping(column, &inputs.defaults_json))
            .collect(),
        metadata_columns: tables::has_metadata_columns(&sink.spec),
    }
}

fn mapping(column: &ColumnSpec, defaults_json: &BTreeMap<String, String>) -> ColumnMapping {
    let path = column
        .from
        .as_deref()
        .and_then(|from| parse_path(from).ok());
    ColumnMapping {
        column: column.name.clone(),
        data_type: canonical_type(&column.data_type),
        path: path.unwrap_or_else(|| vec![column.name.clone()]),
        on_missing: column.on_missing.unwrap_or_else(|| on_missing(column)),
        on_error: column.on_error.unwrap_or(OnError::Reject),
        unit: column.unit,
        default_json: defaults_json.get(&column.name).cloned(),
    }
}

/// What a missing value becomes where the column does not say.
fn on_missing(column: &ColumnSpec) -> OnMissing {
    let nullable =
        DataType::parse(&column.data_type).is_ok_and(|data_type| data_type.is_nullable());
    match (&column.default, nullable) {
        (Some(_), _) => OnMissing::Default,
        (None, true) => OnMissing::Null,
        (None, false) => OnMissing::Reject,
    }
}

fn canonical_type(text: &str) -> String {
    DataType::parse(text).map_or_else(|_| text.to_owned(), |data_type| data_type.to_string())
}

fn batch(spec: &ClickHouseSinkSpec) -> BatchLimits {
    BatchLimits {
        max_rows: unsigned(spec.batch.max_rows),
        max_bytes: bytes(&spec.batch.max_bytes),
        linger_ms: unsigned(spec.batch.linger_milliseconds),
        max_inserts_per_second: spec
            .batch
            .max_inserts_per_second
            .map_or_else(|| default_pace(spec.batch.linger_milliseconds), unsigned),
        compression: spec.batch.compression,
    }
}

/// INSERTs a second where the sink does not say: without a linger it is a cap, else it keeps the parts few.
const fn default_pace(linger_milliseconds: i32) -> u32 {
    if linger_milliseconds == 0 { 50 } else { 4 }
}

/// A number that the schema keeps at 0 or above.
fn unsigned(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// A size that `validate` has read before.
fn bytes(text: &str) -> u64 {
    parse_bytes(text).unwrap_or(0)
}

#[cfg(test)]
mod tests;
