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

#[test]
fn integers_keep_all_their_bits_and_take_no_others() {
    assert_eq!(value("UInt64", "18446744073709551615").unwrap(), [0xff; 8]);
    assert_eq!(
        value("UInt64", "\"18446744073709551615\"").unwrap(),
        [0xff; 8]
    );
    assert_eq!(value("Int8", "-128").unwrap(), [0x80]);
    assert_eq!(
        value("Int64", "-9223372036854775808").unwrap(),
        i64::MIN.to_le_bytes()
    );
    assert_eq!(value("Int128", "-1").unwrap(), [0xff; 16]);
    assert_eq!(value("UInt16", "1e3").unwrap(), 1000_u16.to_le_bytes());
    assert_eq!(value("UInt16", "1.0").unwrap(), [1, 0]);
    for (data_type, json, code) in [
        ("UInt8", "256", RejectCode::OutOfRange),
        ("UInt8", "-1", RejectCode::OutOfRange),
        ("Int8", "128", RejectCode::OutOfRange),
        ("UInt64", "18446744073709551616", RejectCode::OutOfRange),
        ("Int32", "1.5", RejectCode::Inexact),
        ("Int32", "\"abc\"", RejectCode::WrongType),
        ("Int32", "\"NaN\"", RejectCode::OutOfRange),
        ("Int32", "true", RejectCode::WrongType),
        ("Int32", "null", RejectCode::Null),
        ("Int32", "[1]", RejectCode::WrongType),
        ("Int32", "01", RejectCode::NotJson),
    ] {
        assert_eq!(value(data_type, json), Err(code), "{data_type} {json}");
    }
}

#[test]
fn floats_are_the_nearest_and_finite() {
    assert_eq!(value("Float64", "0.1").unwrap(), 0.1_f64.to_le_bytes());
    assert_eq!(value("Float64", "-0.0").unwrap(), (-0.0_f64).to_le_bytes());
    assert_eq!(
        value("Float32", "16777217").unwrap(),
        16_777_216_f32.to_le_bytes()
    );
    assert_eq!(
        value("Float64", "\"Infinity\"").unwrap(),
        f64::INFINITY.to_le_bytes()
    );
    assert_eq!(value("Float64", "1e400"), Err(RejectCode::OutOfRange));
    assert_eq!(value("Float32", "1e39"), Err(RejectCode::OutOfRange));
    assert_eq!(value("Float64", "NaN"), Err(RejectCode::NotJson));
}

#[test]
fn decimals_are_read_from_their_text() {
    assert_eq!(
        value("Decimal(9, 2)", "12.3").unwrap(),
        1230_i32.to_le_bytes()
    );
    assert_eq!(
        value("Decimal(18, 4)", "\"-0.0001000\"").unwrap(),
        (-1_i64).to_le_bytes()
    );
    assert_eq!(value("Decimal(9, 2)", "1.234"), Err(RejectCode::Inexact));
    assert_eq!(
        value("Decimal(9, 2)", "9999999.99").unwrap(),
        999_999_999_i32.to_le_bytes()
    );
    assert_eq!(
        value("Decimal(9, 2)", "10000000"),
        Err(RejectCode::OutOfRange)
    );
    assert_eq!(
        value("Decimal(9, 2)", "\"NaN\""),
        Err(RejectCode::OutOfRange)
    );
}

#[test]
fn strings_come_from_strings_alone() {
    assert_eq!(
        value("String", r#""a\u00e4\ud83d\ude00\n""#).unwrap(),
        "\u{8}aä😀\n".as_bytes()
    );
    assert_eq!(value("FixedString(4)", "\"ab\"").unwrap(), b"ab\0\0");
    assert_eq!(
        value("FixedString(2)", "\"abc\""),
        Err(RejectCode::OutOfRange)
    );
    assert_eq!(value("String", "1"), Err(RejectCode::WrongType));
    assert_eq!(value("Bool", "true").unwrap(), [1]);
    assert_eq!(value("Bool", "1"), Err(RejectCode::WrongType));
    assert_eq!(value("Enum8('a' = -5, 'b' = 7)", "\"a\"").unwrap(), [0xfb]);
    assert_eq!(value("Enum8('a' = -5, 'b' = 7)", "7").unwrap(), [7]);
    assert_eq!(
        value("Enum8('a' = -5, 'b' = 7)", "\"c\""),
        Err(RejectCode::OutOfRange)
    );
    assert_eq!(value("IPv4", "\"1.2.3.4\"").unwrap(), [4, 3, 2, 1]);
    assert_eq!(value("IPv4", "\"1.2.3\""), Err(RejectCode::WrongType));
    let uuid = value("UUID", "\"00112233-4455-6677-8899-AABBCCDDEEFF\"").unwrap();
    assert_eq!(
        uuid,
        [
            0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,
            0x88
        ]
    );
}

#[test]
fn times_become_ticks_and_lose_nothing() {
    for (data_type, json, wanted) in [
        (
            "DateTime64(3, 'UTC')",
            "\"2026-03-14T02:11:07.412Z\"",
            1_773_454_267_412,
        ),
        (
            "DateTime64(3)",
            "\"2026-03-14 02:11:07.412\"",
            1_773_454_267_412,
        ),
        (
            "DateTime64(3)",
            "\"2026-03-14t03:11:07.412000000000+01:00\"",
            1_773_454_267_412,
        ),
        (
            "DateTime64(3, 'Europe/Berlin')",
            "\"2026-03-14 03:11:07.412\"",
            1_773_454_267_412,
        ),
        (
            "DateTime64(9)",
            "\"2026-03-14T02:11:07.412000001Z\"",
            1_773_454_267_412_000_001,
        ),
        ("DateTime64(6)", "\"1969-12-31T23:59:59.999999Z\"", -1),
        ("DateTime64(0)", "\"1900-01-01T00:00:00Z\"", -2_208_988_800),
        ("DateTime64(0)", "\"2299-12-31T23:59:59Z\"", 10_413_791_999),
        ("DateTime", "\"2106-02-07T06:28:15Z\"", 4_294_967_295),
        ("Date", "\"2024-02-29\"", 19_782),
        ("Date", "\"2149-06-06\"", 65_535),
        ("Date32", "\"2299-12-31\"", 120_529),
    ] {
        assert_eq!(ticks(data_type, json), Ok(wanted), "{data_type} {json}");
    }
    for (data_type, json, code) in [
        (
            "DateTime64(3)",
            "\"2026-03-14T02:11:07.4125Z\"",
            RejectCode::Inexact,
        ),
        (
            "DateTime",
            "\"2026-03-14T02:11:07.5Z\"",
            RejectCode::Inexact,
        ),
        (
            "DateTime",
            "\"1969-12-31T23:59:59Z\"",
            RejectCode::OutOfRange,
        ),
        (
            "DateTime",
            "\"2106-02-07T06:28:16Z\"",
            RejectCode::OutOfRange,
        ),
        (
            "DateTime64(9)",
            "\"2262-04-11T23:47:16.854775808Z\"",
            RejectCode::OutOfRange,
        ),
        (
            "DateTime64(3)",
            "\"2300-01-01T00:00:00Z\"",
            RejectCode::OutOfRange,
        ),
        ("Date", "\"2149-06-07\"", RejectCode::OutOfRange),
        ("Date", "\"2023-02-29\"", RejectCode::BadTimestamp),
        (
            "Date",
            "\"\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\\u0000\"",
            RejectCode::BadTimestamp,
        ),
        (
            "DateTime",
            "\"2026-03-14T24:00:00Z\"",
            RejectCode::BadTimestamp,
        ),
        (
            "DateTime",
            "\"2026-12-31T23:59:60Z\"",
            RejectCode::BadTimestamp,
        ),
        ("DateTime", "\"2026-03-14\"", RejectCode::BadTimestamp),
        (
            "DateTime",
            "\"2026-03-14T02:11:07.Z\"",
            RejectCode::BadTimestamp,
        ),
        (
            "DateTime('Europe/Berlin')",
            "\"2026-03-29 02:30:00\"",
            RejectCode::BadTimestamp,
        ),
        (
            "DateTime('Europe/Berlin')",
            "\"2026-10-25 02:30:00\"",
            RejectCode::BadTimestamp,
        ),
        ("DateTime", "1773454267", RejectCode::WrongType),
    ] {
        assert_eq!(value(data_type, json), Err(code), "{data_type} {json}");
    }
}

#[test]
fn the_quick_way_to_read_a_time_is_never_another_time() {
    for year in [1899, 1900, 1969, 1970, 2000, 2106, 2261, 2262, 2299, 2300] {
        for (precision, json) in
            (3..=9).map(|precision| (precision, format!("{year}-02-28T23:59:59.999")))
        {
            let data_type = format!("DateTime64({precision})");
            assert_eq!(
                ticks(&data_type, &format!("\"{json}Z\"")),
                ticks(&data_type, &format!("\"{json}+00:00\""))
            );
        }
    }
}

#[test]
fn numbers_are_times_only_with_a_unit() {
    let with_unit = |data_type: &str, unit, json| {
        bytes_of(
            with(column("x", data_type), |mapping| mapping.unit = Some(unit)),
            json,
        )
    };
    assert_eq!(
        with_unit("DateTime64(3)", TimeUnit::Seconds, "1.25").unwrap(),
        1250_i64.to_le_bytes()
    );
    assert_eq!(
        with_unit("DateTime", TimeUnit::Milliseconds, "2000").unwrap(),
        2_u32.to_le_bytes()
    );
    assert_eq!(
        with_unit("DateTime", TimeUnit::Milliseconds, "2001"),
        Err(RejectCode::Inexact)
    );
    assert_eq!(with_unit("Date", TimeUnit::Days, "3").unwrap(), [3, 0]);
    assert_eq!(
        with_unit("Date", TimeUnit::Seconds, "86400").unwrap(),
        [1, 0]
    );
    assert_eq!(
        with_unit("Date", TimeUnit::Seconds, "86401"),
        Err(RejectCode::Inexact)
    );
    assert_eq!(
        with_unit("DateTime64(9)", TimeUnit::Days, "1e9"),
        Err(RejectCode::OutOfRange)
    );
}

#[test]
fn clamp_takes_the_nearest_value_that_fits_and_counts_it() {
    let clamped = |data_type: &str, json| {
        bytes_of(
            with(column("x", data_type), |mapping| {
                mapping.on_error = OnError::Clamp
            }),
            json,
        )
    };
    assert_eq!(clamped("UInt8", "1e99").unwrap(), [255]);
    assert_eq!(clamped("Int8", "-1000").unwrap(), [0x80]);
    assert_eq!(clamped("UInt8", "2.5").unwrap(), [3]);
    assert_eq!(
        clamped("Decimal(9, 2)", "1.234").unwrap(),
        123_i32.to_le_bytes()
    );
    assert_eq!(clamped("Float32", "-1e60").unwrap(), f32::MIN.to_le_bytes());
    assert_eq!(
        clamped("DateTime", "\"1950-01-01T00:00:00Z\"").unwrap(),
        [0; 4]
    );
    assert_eq!(clamped("Array(UInt8)", "[1, 300]").unwrap()[8..], [1, 255]);
    assert_eq!(
        clamped("DateTime('Europe/Berlin')", "\"2026-10-25 02:30:00\"").unwrap(),
        1_792_888_200_u32.to_le_bytes()
    );
    assert_eq!(clamped("UInt8", "\"x\""), Err(RejectCode::WrongType));
    assert_eq!(clamped("UInt8", "1e"), Err(RejectCode::NotJson));
}

#[test]
fn what_does_not_fit_can_be_the_default_or_null_and_is_counted() {
    let schema = ignoring(vec![
        with(column("a", "UInt8"), |mapping| {
            mapping.on_error = OnError::Default;
            mapping.default_json = Some("9".to_owned());
        }),
        with(column("b", "Array(LowCardinality(String))"), |mapping| {
            mapping.on_error = OnError::Default
        }),
        with(column("c", "Nullable(Int8)"), |mapping| {
            mapping.on_error = OnError::Null
        }),
    ]);
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut builder = BlockBuilder::new(Arc::clone(&schema));
    let bad = r#"{"a": "x", "b": ["kept?", {"k": [1, {}]}], "c": 1000}"#;
    assert_eq!(
        decoder
            .decode(bad.as_bytes(), &AT, &mut builder)
            .unwrap()
            .fallbacks,
        3
    );
    let block = builder.finish();
    assert_eq!(
        block,
        decode(&schema, &[r#"{"a": 9, "b": [], "c": null}"#]).unwrap()
    );
    let broken = r#"{"a": "x", "b": ["kept?", {"k": [1, {]}], "c": 1000}"#;
    assert_eq!(decode(&schema, &[broken]), Err(RejectCode::NotJson));
}

#[test]
fn missing_fields_follow_the_mapping() {
    let schema = ignoring(vec![
        with(column("a", "DateTime64(3)"), |mapping| {
            mapping.on_missing = OnMissing::Default;
            mapping.default_json = Some("\"2026-01-01T00:00:00Z\"".to_owned());
        }),
        with(column("b", "Enum8('z' = -3, 'a' = 2)"), |mapping| {
            mapping.on_missing = OnMissing::Default
        }),
        with(column("c", "LowCardinality(Nullable(String))"), |mapping| {
            mapping.on_missing = OnMissing::Null
        }),
    ]);
    let wanted = decode(
        &schema,
        &[r#"{"a": "2026-01-01T00:00:00Z", "b": "z", "c": null}"#],
    )
    .unwrap();
    assert_eq!(decode(&schema, &["{}"]).unwrap(), wanted);
    assert_eq!(
        decode(&ignoring(vec![column("a", "Int8")]), &["{}"]),
        Err(RejectCode::Missing)
    );
}

#[test]
fn paths_lead_into_objects_and_share_their_way() {
    let schema = ignoring(vec![
        column("a.b.c", "Int8"),
        column("a.b.d", "Int8"),
        with(column("a", "Map(String, Map(String, Int8))"), |mapping| {
            mapping.on_error = OnError::Default
        }),
        with(column("a.e", "Int8"), |mapping| {
            mapping.on_missing = OnMissing::Default
        }),
    ]);
    let block = decode(
        &schema,
        &[r#" { "a" : { "b" : { "d" : 2 , "x" : 1, "c" : 1 } } } "#],
    )
    .unwrap();
    assert_eq!(
        block,
        decode(&schema, &[r#"{"a":{"b":{"c":1,"d":2,"x":1}}}"#])
            .map(|_| block.clone())
            .unwrap()
    );
    assert_eq!(
        decode(&schema, &[r#"{"a":{"b":{"c":1,"d":2},"b":{}}}"#]),
        Err(RejectCode::DuplicateKey)
    );
    assert_eq!(
        decode(&schema, &[r#"{"a":null}"#]),
        Err(RejectCode::Missing)
    );
    assert_eq!(
        decode(&schema, &[r#"{"a":[1]}"#]),
        Err(RejectCode::WrongType)
    );
}

#[test]
fn a_key_twice_is_a_fault_in_every_object_that_is_looked_at() {
    let schema = ignoring(vec![
        with(column("m", "Map(String, Int8)"), |mapping| {
            mapping.on_missing = OnMissing::Default
        }),
        with(column("t", "Tuple(a Int8, b Nullable(Int8))"), |mapping| {
            mapping.on_missing = OnMissing::Default
        }),
    ]);
    for record in [
        r#"{"m":{},"m":{}}"#,
        r#"{"other":1,"other":2}"#,
        r#"{"other":1,"\u006fther":2}"#,
        r#"{"m":{"k":1,"k":2}}"#,
        r#"{"m":{"k":1,"\u006b":2}}"#,
        r#"{"t":{"a":1,"a":2}}"#,
        r#"{"t":{"a":1,"x":0,"x":0}}"#,
    ] {
        assert_eq!(
            decode(&schema, &[record]),
            Err(RejectCode::DuplicateKey),
            "{record}"
        );
    }
    for record in [
        r#"{"skipped":{"k":1,"k":2}}"#,
        r#"{"m":{"other":1},"other":[{"m":1},{"m":1}],"t":{"a":1}}"#,
    ] {
        assert!(decode(&schema, &[record]).is_ok(), "{record}");
    }
}

#[test]
fn tuples_are_read_by_name_or_by_place() {
    let named = "Tuple(a Int8, b Nullable(Int8))";
    assert_eq!(value(named, r#"{"b":2,"a":1}"#).unwrap(), [1, 0, 2]);
    assert_eq!(value(named, r#"{"a":1}"#).unwrap(), [1, 1, 0]);
    assert_eq!(value(named, "[1, 2]").unwrap(), [1, 0, 2]);
    assert_eq!(value(named, r#"{"b":1}"#), Err(RejectCode::Missing));
    assert_eq!(value(named, "[1]"), Err(RejectCode::WrongType));
    assert_eq!(value(named, "[1, 2, 3]"), Err(RejectCode::WrongType));
    assert_eq!(value("Tuple(Int8, Int8)", "{}"), Err(RejectCode::WrongType));
}

#[test]
fn unknown_fields_are_refused_where_they_should_be() {
    let schema = schema_of(vec![column("a", "Int8")], UnknownFields::Reject);
    assert_eq!(
        decode(&schema, &[r#"{"a":1,"b":2}"#]),
        Err(RejectCode::UnknownField)
    );
    assert!(decode(&schema, &[r#"{"a":1}"#]).is_ok());
}

#[test]
fn a_record_is_one_json_object_of_modest_depth_and_size() {
    let schema = ignoring(vec![with(column("a", "Int8"), |mapping| {
        mapping.on_missing = OnMissing::Default
    })]);
    let nested = |levels: usize| format!("{{\"x\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(decode(&schema, &[&nested(63)]).is_ok());
    for (record, code) in [
        (nested(64), RejectCode::TooDeep),
        (nested(40_000), RejectCode::TooDeep),
        (
            format!("{{\"x\":\"{}\"}}", "x".repeat(100_000)),
            RejectCode::TooLarge,
        ),
        (String::new(), RejectCode::NotJson),
        ("[]".to_owned(), RejectCode::WrongType),
        ("null".to_owned(), RejectCode::WrongType),
        ("{} {}".to_owned(), RejectCode::NotJson),
        ("{\"a\":1".to_owned(), RejectCode::NotJson),
        ("{\"a\":1,}".to_owned(), RejectCode::NotJson),
        ("\u{feff}{}".to_owned(), RejectCode::NotJson),
        ("{\"x\":\"\\ud800\"}".to_owned(), RejectCode::NotJson),
        ("{\"x\":\"\t\"}".to_owned(), RejectCode::NotJson),
    ] {
        assert_eq!(decode(&schema, &[&record]), Err(code), "{record:.40}");
    }
    let mut builder = BlockBuilder::new(Arc::clone(&schema));
    let rejection = Decoder::new(schema)
        .decode(b"{\"x\":\"\xff\"}", &AT, &mut builder)
        .unwrap_err();
    assert_eq!(rejection.code, RejectCode::InvalidUtf8);
}

#[test]
fn a_rejection_names_the_column_and_never_the_value() {
    let schema = ignoring(vec![column("amount", "UInt8")]);
    let mut builder = BlockBuilder::new(Arc::clone(&schema));
    let rejection = Decoder::new(schema)
        .decode(br#"{"amount": 4711}"#, &AT, &mut builder)
        .unwrap_err();
    assert_eq!(
        rejection.to_string(),
        "column amount: the value is outside of the column's range (type UInt8)"
    );
}
