//! In the steady state a record becomes a row without a single allocation.
//!
//! A file of its own, as the allocator is the whole process's. Must not be here: anything else.

#![allow(
    unsafe_code,
    reason = "a global allocator can be written in no other way"
)]
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::worker_config::{
    ColumnMapping, OnError, OnMissing, RecordFormat, TargetTable, Tombstones, UnknownFields,
};
use clickhouse_sink_worker::decode::{Decoder, RecordPosition};
use clickhouse_sink_worker::native::BlockBuilder;
use clickhouse_sink_worker::schema::Schema;

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, which is the same.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`, which is the same.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const COLUMNS: [(&str, &str); 11] = [
    ("event_id", "String"),
    ("site", "LowCardinality(String)"),
    ("ts", "DateTime64(3, 'UTC')"),
    ("local", "DateTime('Europe/Berlin')"),
    ("version", "UInt32"),
    ("score", "Nullable(Float64)"),
    ("price", "Decimal(38, 4)"),
    ("tags", "Array(LowCardinality(String))"),
    ("labels", "Map(String, String)"),
    ("where.zone", "LowCardinality(Nullable(String))"),
    ("address", "IPv6"),
];

fn schema() -> Arc<Schema> {
    let mapping = COLUMNS.map(|(path, data_type)| ColumnMapping {
        column: path.to_owned(),
        data_type: data_type.to_owned(),
        path: path.split('.').map(str::to_owned).collect(),
        on_missing: OnMissing::Default,
        on_error: OnError::Reject,
        unit: None,
        default_json: None,
    });
    let expected = TableDefinition {
        database: String::new(),
        name: String::new(),
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
        mapping: mapping.into(),
        metadata_columns: true,
    };
    let format = RecordFormat {
        unknown_fields: UnknownFields::Ignore,
        max_record_bytes: 1 << 20,
        tombstones: Tombstones::Skip,
    };
    Arc::new(Schema::compile(&table, &format).unwrap())
}

fn record(n: usize) -> String {
    format!(
        r#"{{"event_id": "evt-{n:06}", "site": "plant-{}", "ts": "2026-03-14T02:11:07.{:03}Z", "local": "2026-07-01 12:00:{:02}",
            "version": {n}, "score": 0.{n}, "price": "12.{:04}", "tags": ["a", "b{}"], "labels": {{"k": "v", "esc\u00e4pe": "\n{n}"}},
            "where": {{"zone": {}, "ignored": [1, {{"deep": null}}]}}, "address": "::{n:x}", "unknown": {{"x": [true, "\u0041"]}}}}"#,
        n % 7,
        n % 1000,
        n % 60,
        n % 10_000,
        n % 9,
        if n.is_multiple_of(3) {
            "null"
        } else {
            "\"dock\""
        },
    )
}

#[test]
fn a_record_costs_no_allocation_once_the_buffers_have_grown() {
    let schema = schema();
    let records: Vec<String> = (0..2000).map(record).collect();
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut builder = BlockBuilder::new(schema);
    let mut decode_all = |builder: &mut BlockBuilder| {
        for (offset, record) in (0..).zip(&records) {
            let at = RecordPosition {
                topic: "topic",
                partition: 1,
                offset,
                timestamp_ms: 5,
            };
            decoder.decode(record.as_bytes(), &at, builder).unwrap();
        }
    };
    decode_all(&mut builder);
    drop(builder.finish());
    let before = CALLS.load(Ordering::Relaxed);
    decode_all(&mut builder);
    assert_eq!(CALLS.load(Ordering::Relaxed) - before, 0);
    assert_eq!(builder.rows(), 2000);
}
