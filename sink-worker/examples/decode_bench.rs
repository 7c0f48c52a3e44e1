//! What decoding costs: `cargo run --profile ci -p clickhouse-sink-worker --example decode_bench`.
//!
//! Prints nanoseconds per row for each stage, best and median of many rounds. Must not be here: sources, servers.

#![allow(clippy::print_stdout, reason = "the figures are for people")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a benchmark, not the product"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::worker_config::{
    ColumnMapping, Compression, OnError, OnMissing, RecordFormat, TargetTable, Tombstones,
    UnknownFields,
};
use clickhouse_sink_worker::compress::compress_body;
use clickhouse_sink_worker::decode::{Decoder, RecordPosition};
use clickhouse_sink_worker::native::{Block, BlockBuilder};
use clickhouse_sink_worker::schema::Schema;

/// Few, and many rounds: some of them are not disturbed, however busy the machine is.
const ROWS: usize = 10_000;
const ROUNDS: usize = 100;

const EVENTS: [(&str, &str); 8] = [
    ("event_id", "String"),
    ("site", "LowCardinality(String)"),
    ("camera", "LowCardinality(String)"),
    ("app", "LowCardinality(String)"),
    ("kind", "LowCardinality(String)"),
    ("ts", "DateTime64(3, 'UTC')"),
    ("version", "UInt32"),
    ("status", "LowCardinality(String)"),
];

const WIDE: [(&str, &str); 12] = [
    ("event_id", "String"),
    ("site", "LowCardinality(String)"),
    ("ts", "DateTime64(3, 'UTC')"),
    ("version", "UInt32"),
    ("location.zone", "LowCardinality(String)"),
    ("location.x", "Float64"),
    ("location.y", "Float64"),
    ("box.w", "UInt16"),
    ("box.h", "UInt16"),
    ("labels", "Array(LowCardinality(String))"),
    ("f06", "String"),
    ("f11", "Nullable(Float32)"),
];

fn event(n: usize) -> String {
    let camera = n.wrapping_mul(2_654_435_761) >> 7;
    format!(
        r#"{{"event_id": "evt-{n:07x}", "site": "plant-{}", "camera": "gate-{}", "app": "{}", "kind": "alert", "ts": "2026-03-14T{:02}:{:02}:{:02}.{:03}Z", "version": {}, "status": "{}"}}"#,
        ["a", "b", "c"][camera % 3],
        camera % 64,
        ["intrusion", "ppe", "anpr"][camera / 64 % 3],
        n / 3_600_000 % 24,
        n / 60_000 % 60,
        n / 1000 % 60,
        n % 1000,
        1 + n % 3,
        ["raised", "acknowledged"][n % 2],
    )
}

fn wide(n: usize) -> String {
    let filler: Vec<String> = (0..16)
        .map(|field| format!("\"f{field:02}\":{}", filler_value(field, n)))
        .collect();
    format!(
        r#"{{"event_id":"evt-{n:07x}","site":"plant-{}","ts":"2026-03-14T02:11:{:02}.{:03}Z","version":{},"location":{{"zone":"dock-{}","x":{}.5,"y":{}.25,"floor":2}},"box":{{"x":1,"y":2,"w":{},"h":{}}},"labels":["person","vest","{}"],{},"comment":"{}"}}"#,
        n % 3,
        n / 1000 % 60,
        n % 1000,
        n % 5,
        n % 8,
        n % 100,
        n % 77,
        n % 1920,
        n % 1080,
        n % 4,
        filler.join(","),
        "a longer text, as people write it, with nothing special in it; ".repeat(6),
    )
}

fn filler_value(field: usize, n: usize) -> String {
    match field % 3 {
        0 => format!("\"value {field} of {}\"", n % 50),
        1 => (n * field).to_string(),
        _ => format!("0.{}", n % 997),
    }
}

fn schema(columns: &[(&str, &str)]) -> Arc<Schema> {
    let mapping = columns
        .iter()
        .map(|(path, data_type)| ColumnMapping {
            column: path.replace('.', "_"),
            data_type: (*data_type).to_owned(),
            path: path.split('.').map(str::to_owned).collect(),
            on_missing: OnMissing::Reject,
            on_error: OnError::Reject,
            unit: None,
            default_json: None,
        })
        .collect();
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
        mapping,
        metadata_columns: true,
    };
    let format = RecordFormat {
        unknown_fields: UnknownFields::Ignore,
        max_record_bytes: 1 << 20,
        tombstones: Tombstones::Skip,
    };
    Arc::new(Schema::compile(&table, &format).unwrap())
}

fn decode(decoder: &mut Decoder, builder: &mut BlockBuilder, records: &[String]) -> Block {
    for (offset, record) in (0..).zip(records) {
        let at = RecordPosition {
            topic: "vision-events",
            partition: 3,
            offset,
            timestamp_ms: 1_773_454_267_412,
        };
        decoder.decode(record.as_bytes(), &at, builder).unwrap();
    }
    builder.finish()
}

fn value(record: &str) -> serde_json::Value {
    serde_json::from_str(record).unwrap()
}

fn report(stage: &str, rows: usize, record_bytes: usize, mut rounds: Vec<Duration>) {
    rounds.sort_unstable();
    let per_row = |time: Duration| time.as_nanos() as f64 / rows as f64;
    let best = per_row(rounds[0]);
    let median = per_row(rounds[rounds.len() / 2]);
    println!(
        "{stage:<34} best {best:7.1} ns/row   median {median:7.1} ns/row   {:7.0} MB/s",
        record_bytes as f64 / best * 1000.0
    );
}

fn timed<T>(times: &mut Vec<Duration>, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = black_box(act());
    times.push(start.elapsed());
    done
}

fn run(name: &str, columns: &[(&str, &str)], rows: usize, make: impl Fn(usize) -> String) {
    let records: Vec<String> = (0..rows).map(make).collect();
    let record_bytes = records.iter().map(String::len).sum::<usize>() / rows;
    let schema = schema(columns);
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut builder = BlockBuilder::new(schema);
    let [mut decoding, mut writing, mut lz4, mut zstd, mut values] = [(); 5].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        timed(&mut values, || {
            records
                .iter()
                .map(|record| value(record))
                .filter(serde_json::Value::is_object)
                .count()
        });
        let block = timed(&mut decoding, || {
            decode(&mut decoder, &mut builder, &records)
        });
        assert_eq!(block.rows(), rows);
        let mut native = Vec::with_capacity(block.bytes() + 4096);
        timed(&mut writing, || block.write_native(&mut native));
        assert_eq!(block.slice(rows - 1..rows).rows(), 1);
        timed(&mut lz4, || compress_body(&native, Compression::Lz4));
        timed(&mut zstd, || compress_body(&native, Compression::Zstd));
    }
    println!("{name}: {record_bytes} B per record, {rows} rows per block");
    report("  decode into columns", rows, record_bytes, decoding);
    report(
        "  (serde_json to Value, for scale)",
        rows,
        record_bytes,
        values,
    );
    report("  columns to one Native block", rows, record_bytes, writing);
    report("  LZ4", rows, record_bytes, lz4);
    report("  ZSTD", rows, record_bytes, zstd);
}

/// Arguments: the number of rows (few, to count instructions under valgrind), and `events` or `wide` for one of them.
fn main() {
    let rows = std::env::args()
        .nth(1)
        .and_then(|rows| rows.parse().ok())
        .unwrap_or(ROWS);
    let only = std::env::args().nth(2);
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    if wanted("events") {
        run("vision-events", &EVENTS, rows, event);
    }
    if wanted("wide") {
        run("vision-wide", &WIDE, rows, wide);
    }
}
