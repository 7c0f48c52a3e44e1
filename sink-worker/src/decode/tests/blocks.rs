//! What many records make together: rows taken back, slices, blocks, the bytes on the wire.

use std::sync::Arc;

use super::{AT, column, decode, ignoring};
use crate::decode::Decoder;
use crate::native::{Block, BlockBuilder};
use crate::schema::Schema;

fn rich_schema() -> Arc<Schema> {
    ignoring(vec![
        column("s", "String"),
        column("l", "LowCardinality(String)"),
        column("n", "Nullable(Int16)"),
        column("a", "Array(Array(LowCardinality(Nullable(String))))"),
        column("m", "Map(String, Nullable(Float64))"),
        column("t", "Tuple(x Int32, y Array(String))"),
        column("z", "UInt8"),
    ])
}

fn rich_record(n: usize) -> String {
    let inner: Vec<String> = (0..n % 4)
        .map(|i| format!("[null, \"v{}\"]", n / 3 + i))
        .collect();
    format!(
        r#"{{"s":"{}","l":"l{}","n":{},"a":[{}],"m":{{"k{n}":null,"j":1.5}},"t":{{"y":["{n}"],"x":-{n}}},"z":1}}"#,
        "x".repeat(n * 7 % 300),
        n % 5,
        if n.is_multiple_of(3) {
            "null".to_owned()
        } else {
            n.to_string()
        },
        inner.join(","),
    )
}

#[test]
fn a_rejected_record_leaves_no_trace() {
    let schema = rich_schema();
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut builder = BlockBuilder::new(Arc::clone(&schema));
    let records: Vec<String> = (0..50).map(rich_record).collect();
    for (n, record) in records.iter().enumerate() {
        let before = builder.bytes();
        for cut in (0..record.len()).step_by(7) {
            assert!(
                decoder
                    .decode(&record.as_bytes()[..cut], &AT, &mut builder)
                    .is_err()
            );
        }
        let bad = rich_record(n + 1000).replace("\"z\":1", "\"z\":256");
        assert!(decoder.decode(bad.as_bytes(), &AT, &mut builder).is_err());
        assert_eq!((builder.rows(), builder.bytes()), (n, before));
        decoder
            .decode(record.as_bytes(), &AT, &mut builder)
            .unwrap();
    }
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    assert_eq!(builder.finish(), decode(&schema, &records).unwrap());
}

#[test]
fn a_slice_is_what_decoding_its_records_alone_would_have_made() {
    let schema = rich_schema();
    let records: Vec<String> = (0..40).map(rich_record).collect();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    let all = decode(&schema, &records).unwrap();
    for (start, end) in [(0, 40), (0, 20), (20, 40), (13, 14), (5, 5), (39, 40)] {
        let alone = decode(&schema, &records[start..end]).unwrap();
        let (mut sliced_bytes, mut alone_bytes) = (Vec::new(), Vec::new());
        all.slice(start..end).write_native(&mut sliced_bytes);
        alone.write_native(&mut alone_bytes);
        assert_eq!(sliced_bytes, alone_bytes, "{start}..{end}");
        assert_eq!(all.slice(start..end).bytes(), alone.bytes());
    }
}

#[test]
fn a_builder_is_as_new_after_its_block_was_taken() {
    let schema = rich_schema();
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut builder = BlockBuilder::new(Arc::clone(&schema));
    let blocks: Vec<Block> = (0..3)
        .map(|_| {
            (0..30).for_each(|n| {
                decoder
                    .decode(rich_record(n).as_bytes(), &AT, &mut builder)
                    .unwrap();
            });
            builder.finish()
        })
        .collect();
    assert_eq!(blocks[0], blocks[1]);
    assert_eq!(blocks[0], blocks[2]);
    assert_eq!((builder.rows(), builder.bytes()), (0, 0));
}

#[test]
fn the_block_has_names_types_and_dictionaries_as_clickhouse_reads_them() {
    let schema = ignoring(vec![
        column("l", "LowCardinality(Nullable(String))"),
        column("a", "Array(UInt8)"),
    ]);
    let mut out = Vec::new();
    decode(
        &schema,
        &[
            r#"{"l":"b","a":[1,2]}"#,
            r#"{"l":null,"a":[]}"#,
            r#"{"l":"b","a":[3]}"#,
        ],
    )
    .unwrap()
    .write_native(&mut out);
    let mut wanted = vec![2, 3, 1, b'l', 32];
    wanted.extend(b"LowCardinality(Nullable(String))");
    wanted.extend([
        1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'b',
    ]);
    wanted.extend([3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, b'a', 12]);
    wanted.extend(b"Array(UInt8)");
    wanted.extend([2, 2, 3].iter().flat_map(|end: &u64| end.to_le_bytes()));
    wanted.extend([1, 2, 3]);
    assert_eq!(out, wanted);
}
