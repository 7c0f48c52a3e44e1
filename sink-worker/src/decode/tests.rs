//! What each kind of value takes and refuses, and what a record as a whole may look like.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::worker_config::{
    ColumnMapping, OnError, OnMissing, RecordFormat, TargetTable, TimeUnit, Tombstones,
    UnknownFields,
};

use super::{Decoder, RecordPosition, RejectCode};
use crate::native::{Block, BlockBuilder};
use crate::schema::Schema;

mod blocks;
mod records;
mod scalars;
mod times;

const AT: RecordPosition<'_> = RecordPosition {
    topic: "t",
    partition: 3,
    offset: 7,
    timestamp_ms: 1000,
};

fn column(name: &str, data_type: &str) -> ColumnMapping {
    ColumnMapping {
        column: name.to_owned(),
        data_type: data_type.to_owned(),
        path: name.split('.').map(str::to_owned).collect(),
        on_missing: OnMissing::Reject,
        on_error: OnError::Reject,
        unit: None,
        default_json: None,
    }
}

fn schema_of(mapping: Vec<ColumnMapping>, unknown_fields: UnknownFields) -> Arc<Schema> {
    let expected = TableDefinition {
        database: "d".to_owned(),
        name: "t".to_owned(),
        engine: Engine::MergeTree,
        columns: Vec::new(),
        order_by: Vec::new(),
        indexes: Vec::new(),
        cluster: None,
        partition_by: None,
        ttl: None,
        settings: BTreeMap::new(),
    };
    let table = TargetTable {
        expected,
        check: false,
        recheck_period_seconds: 60,
        mapping,
        metadata_columns: false,
    };
    let format = RecordFormat {
        unknown_fields,
        max_record_bytes: 100_000,
        tombstones: Tombstones::Skip,
    };
    Arc::new(Schema::compile(&table, &format).unwrap())
}

fn ignoring(mapping: Vec<ColumnMapping>) -> Arc<Schema> {
    schema_of(mapping, UnknownFields::Ignore)
}

fn decode(schema: &Arc<Schema>, records: &[&str]) -> Result<Block, RejectCode> {
    let mut decoder = Decoder::new(Arc::clone(schema));
    let mut builder = BlockBuilder::new(Arc::clone(schema));
    for record in records {
        decoder
            .decode(record.as_bytes(), &AT, &mut builder)
            .map_err(|rejection| rejection.code)?;
    }
    Ok(builder.finish())
}

/// The bytes of one value of a type, without names.
fn bytes_of(mapping: ColumnMapping, json: &str) -> Result<Vec<u8>, RejectCode> {
    let record = format!("{{\"{}\": {json}}}", mapping.column);
    let header = 4 + mapping.column.len() + mapping.data_type.len();
    let mut out = Vec::new();
    decode(&ignoring(vec![mapping]), &[&record])?.write_native(&mut out);
    Ok(out.split_off(header))
}

fn value(data_type: &str, json: &str) -> Result<Vec<u8>, RejectCode> {
    bytes_of(column("x", data_type), json)
}

fn ticks(data_type: &str, json: &str) -> Result<i64, RejectCode> {
    value(data_type, json).map(|bytes| {
        bytes
            .iter()
            .rev()
            .fold(0, |all, byte| all << 8 | i64::from(*byte))
    })
}

fn with(mapping: ColumnMapping, change: impl FnOnce(&mut ColumnMapping)) -> ColumnMapping {
    let mut mapping = mapping;
    change(&mut mapping);
    mapping
}
