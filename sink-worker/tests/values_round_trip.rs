//! Every type that the sink writes, against a real server: random values and limits go through the decoder and the
//! Native block, and come back as exactly what they were.
//!
//! The list of types is the only definition: table, JSON, and what to expect are made from it. Must not be here:
//! what is rejected (unit tests of the decoder).

#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::sync::Arc;

use clickhouse_sink_crds::data_type::{DataType, IntWidth};
use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::worker_config::{
    ColumnMapping, Compression, OnError, OnMissing, RecordFormat, TargetTable, Tombstones,
    UnknownFields,
};
use clickhouse_sink_worker::compress::compress_body;
use clickhouse_sink_worker::decode::{Decoder, RecordPosition};
use clickhouse_sink_worker::native::{Block, BlockBuilder};
use clickhouse_sink_worker::schema::Schema;
use jiff::civil::date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::value::RawValue;

/// A value as JSON and as what the server must print for it.
#[derive(Clone, Debug)]
struct Sample {
    json: String,
    want: Want,
}

/// What the server prints, free of the ways to quote it.
#[derive(Clone, Debug)]
enum Want {
    Text(String),
    Float64(f64),
    Float32(f32),
    Null,
    List(Vec<Want>),
    Object(Vec<(String, Want)>),
}

type Samples = BoxedStrategy<Sample>;

const SCALARS: [&str; 46] = [
    "String",
    "FixedString(5)",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "Int256",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
    "UInt256",
    "Float32",
    "Float64",
    "Decimal(1, 0)",
    "Decimal(9, 0)",
    "Decimal(9, 9)",
    "Decimal(18, 6)",
    "Decimal(38, 10)",
    "Decimal(76, 0)",
    "Decimal(76, 40)",
    "Bool",
    "Date",
    "Date32",
    "DateTime",
    "DateTime('UTC')",
    "DateTime('Europe/Berlin')",
    "DateTime64(0)",
    "DateTime64(1, 'UTC')",
    "DateTime64(2)",
    "DateTime64(3, 'UTC')",
    "DateTime64(3, 'America/New_York')",
    "DateTime64(4)",
    "DateTime64(5)",
    "DateTime64(6, 'Asia/Kathmandu')",
    "DateTime64(7)",
    "DateTime64(8)",
    "DateTime64(9, 'UTC')",
    "DateTime64(9, 'Australia/Lord_Howe')",
    "UUID",
    "IPv4",
    "IPv6",
    "Enum8('a' = -128, 'it\\'s' = 0, 'é' = 127)",
    "Enum16('low' = -32768, 'high' = 32767)",
];

const LOW_CARDINALITY: [&str; 3] = ["String", "FixedString(3)", "FixedString(1)"];

const MAP_KEYS: [&str; 8] = [
    "String",
    "LowCardinality(String)",
    "Int16",
    "UInt64",
    "Date",
    "UUID",
    "Enum8('x' = 1, 'y' = 2)",
    "IPv4",
];

const NESTED: [&str; 8] = [
    "Array(Array(LowCardinality(Nullable(String))))",
    "Array(Map(String, Array(Nullable(DateTime64(3, 'UTC')))))",
    "Tuple(a LowCardinality(String), b Array(LowCardinality(String)), c Tuple(d Nullable(Int8), e Decimal(9, 2)))",
    "Tuple(Int8, LowCardinality(Nullable(String)), Map(String, LowCardinality(String)))",
    "Array(Tuple(k String, v Nullable(Float64)))",
    "Map(LowCardinality(String), Tuple(LowCardinality(String), UInt8))",
    "Array(Array(Array(Array(UInt8))))",
    "Map(String, Map(String, Map(String, LowCardinality(Nullable(String)))))",
];

fn all_types() -> Vec<String> {
    let around = |types: &[&str], shapes: &[&str]| -> Vec<String> {
        types
            .iter()
            .flat_map(|inner| shapes.iter().map(move |shape| shape.replace('_', inner)))
            .collect()
    };
    let mut types = around(
        &SCALARS,
        &["_", "Nullable(_)", "Array(_)", "Array(Nullable(_))"],
    );
    types.extend(around(
        &LOW_CARDINALITY,
        &[
            "LowCardinality(_)",
            "LowCardinality(Nullable(_))",
            "Array(LowCardinality(_))",
            "Array(LowCardinality(Nullable(_)))",
            "Map(String, LowCardinality(_))",
        ],
    ));
    types.extend(around(&MAP_KEYS, &["Map(_, Nullable(Int32))"]));
    types.extend(NESTED.map(str::to_owned));
    types
}

fn samples_of(data_type: &DataType) -> Samples {
    match data_type {
        DataType::Nullable(inner) => prop_oneof![1 => Just(null()), 3 => samples_of(inner)].boxed(),
        DataType::LowCardinality(inner) => samples_of(inner),
        DataType::Array(inner) => prop::collection::vec(samples_of(inner), 0..4)
            .prop_map(list)
            .boxed(),
        DataType::Map(key, value) => {
            prop::collection::vec((samples_of(key), samples_of(value)), 0..4)
                .prop_map(map)
                .boxed()
        }
        DataType::Tuple(fields) => tuple_samples(fields),
        scalar => scalar_samples(scalar),
    }
}

fn null() -> Sample {
    Sample {
        json: "null".to_owned(),
        want: Want::Null,
    }
}

fn text(json: String, want: impl Into<String>) -> Sample {
    Sample {
        json,
        want: Want::Text(want.into()),
    }
}

fn list(items: Vec<Sample>) -> Sample {
    let json: Vec<String> = items.iter().map(|item| item.json.clone()).collect();
    Sample {
        json: format!("[{}]", json.join(" , ")),
        want: Want::List(items.into_iter().map(|item| item.want).collect()),
    }
}

fn map(pairs: Vec<(Sample, Sample)>) -> Sample {
    let distinct: BTreeMap<String, Sample> = pairs
        .into_iter()
        .map(|(key, value)| match key.want {
            Want::Text(key) => (key, value),
            other => panic!("{other:?} is no key"),
        })
        .collect();
    object(distinct.into_iter().collect())
}

fn object(pairs: Vec<(String, Sample)>) -> Sample {
    let json: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("{}: {}", quoted(key), value.json))
        .collect();
    let want = pairs
        .into_iter()
        .map(|(key, value)| (key, value.want))
        .collect();
    Sample {
        json: format!("{{{}}}", json.join(",")),
        want: Want::Object(want),
    }
}

fn tuple_samples(fields: &[(Option<String>, DataType)]) -> Samples {
    let values: Vec<Samples> = fields.iter().map(|(_, inner)| samples_of(inner)).collect();
    let names: Option<Vec<String>> = fields.iter().map(|(name, _)| name.clone()).collect();
    match names {
        None => values.prop_map(list).boxed(),
        Some(names) => (values, any::<bool>())
            .prop_map(move |(values, reversed)| {
                let mut pairs: Vec<_> = names.iter().cloned().zip(values).collect();
                if reversed {
                    pairs.reverse();
                }
                object(pairs)
            })
            .boxed(),
    }
}

fn scalar_samples(data_type: &DataType) -> Samples {
    match data_type {
        DataType::String => prop_oneof!["[a-c]{0,2}", ".{0,20}", "[\\x00-\\x7f]{0,40}"]
            .prop_map(|s| text(quoted(&s), s))
            .boxed(),
        DataType::FixedString(length) => fixed_text(*length as usize),
        DataType::Int(width) => integers(*width, true),
        DataType::UInt(width) => integers(*width, false),
        DataType::Float32 => floats32(),
        DataType::Float64 => floats64(),
        DataType::Decimal { precision, scale } => {
            decimals(usize::from(*precision), usize::from(*scale))
        }
        DataType::Bool => any::<bool>()
            .prop_map(|b| text(b.to_string(), b.to_string()))
            .boxed(),
        DataType::Date => days(0, 65_535),
        DataType::Date32 => days(-25_567, 120_529),
        DataType::DateTime { zone } => times(0, zone.as_deref(), 0, i128::from(u32::MAX)),
        DataType::DateTime64 { precision, zone } => {
            let per_second = 10_i128.pow(u32::from(*precision));
            let last = (10_413_792_000 * per_second - 1).min(i128::from(i64::MAX));
            times(
                *precision,
                zone.as_deref(),
                -2_208_988_800 * per_second,
                last,
            )
        }
        DataType::Uuid => prop_oneof![Just(0), Just(u128::MAX), any::<u128>()]
            .prop_map(uuid)
            .boxed(),
        DataType::Ipv4 => any::<u32>()
            .prop_map(|bits| plain(Ipv4Addr::from(bits).to_string()))
            .boxed(),
        DataType::Ipv6 => prop_oneof![
            any::<u128>(),
            Just(0),
            Just(1),
            any::<u32>().prop_map(|low| 0xffff_0000_0000 | u128::from(low))
        ]
        .prop_map(|bits| plain(Ipv6Addr::from(bits).to_string()))
        .boxed(),
        DataType::Enum8(members) => members_of(
            members
                .iter()
                .map(|(name, number)| (name.clone(), i16::from(*number)))
                .collect(),
        ),
        DataType::Enum16(members) => members_of(members.clone()),
        other => panic!("{other} is not a scalar"),
    }
}

/// A value whose JSON is its text in quotes.
fn plain(value: String) -> Sample {
    text(format!("\"{value}\""), value)
}

fn uuid(bits: u128) -> Sample {
    let hex = format!("{bits:032x}");
    plain(
        [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-"),
    )
}

/// JSON text, escaped in one of the ways there are.
fn quoted(value: &str) -> String {
    if value.len().is_multiple_of(2) {
        return serde_json::to_string(value).unwrap();
    }
    let mut json = String::from("\"");
    for unit in value.encode_utf16() {
        write!(json, "\\u{unit:04x}").unwrap();
    }
    json + "\""
}

fn fixed_text(length: usize) -> Samples {
    proptest::string::string_regex(&format!("[a-c]{{0,{length}}}"))
        .unwrap()
        .prop_map(move |value| text(quoted(&value), format!("{value:\0<length$}")))
        .boxed()
}

fn integers(width: IntWidth, signed: bool) -> Samples {
    let bits = u32::from(width.bits());
    let any_text = if bits == 256 {
        wide_integers(signed)
    } else {
        narrow_integers(bits, signed)
    };
    (any_text, 0..4)
        .prop_map(|(value, form)| {
            let json = match form {
                0 => format!("\"{value}\""),
                1 => format!("{value}.0"),
                2 if value != "0" => format!("{value}0e-1"),
                _ => value.clone(),
            };
            text(json, value)
        })
        .boxed()
}

fn narrow_integers(bits: u32, signed: bool) -> BoxedStrategy<String> {
    if signed {
        let (min, max) = (i128::MIN >> (128 - bits), i128::MAX >> (128 - bits));
        prop_oneof![Just(min), Just(max), Just(0), Just(-1), min..=max]
            .prop_map(|value| value.to_string())
            .boxed()
    } else {
        let max = u128::MAX >> (128 - bits);
        prop_oneof![Just(max), Just(0), 0..=max]
            .prop_map(|value| value.to_string())
            .boxed()
    }
}

fn wide_integers(signed: bool) -> BoxedStrategy<String> {
    let limits = if signed {
        [
            "57896044618658097711785492504343953926634992332820282019728792003956564819967",
            "-57896044618658097711785492504343953926634992332820282019728792003956564819968",
        ]
    } else {
        [
            "115792089237316195423570985008687907853269984665640564039457584007913129639935",
            "0",
        ]
    };
    prop_oneof![
        Just(limits[0].to_owned()),
        Just(limits[1].to_owned()),
        "[1-9][0-9]{0,75}".prop_map(String::from)
    ]
    .boxed()
}

fn floats64() -> Samples {
    let limits = [
        0.0,
        -0.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        0.1,
        9_007_199_254_740_993.0,
    ];
    prop_oneof![
        prop::sample::select(limits.to_vec())
            .prop_map(|value| float64(value, format!("{value:e}"))),
        any::<f64>()
            .prop_filter("a number", |value| value.is_finite())
            .prop_map(|value| float64(value, format!("{value:?}"))),
        prop::sample::select(vec![
            ("NaN", f64::NAN),
            ("Infinity", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY)
        ])
        .prop_map(|(name, value)| float64(value, format!("\"{name}\""))),
        any::<i32>().prop_map(|value| float64(
            f64::from(value) / 64.0,
            format!("\"{}\"", f64::from(value) / 64.0)
        )),
    ]
    .boxed()
}

fn float64(value: f64, json: String) -> Sample {
    Sample {
        json,
        want: Want::Float64(value),
    }
}

fn floats32() -> Samples {
    let limits = [0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 0.1];
    prop_oneof![
        prop::sample::select(limits.to_vec()),
        any::<f32>().prop_filter("a number", |value| value.is_finite())
    ]
    .prop_map(|value| Sample {
        json: format!("{value:e}"),
        want: Want::Float32(value),
    })
    .boxed()
}

fn decimals(precision: usize, scale: usize) -> Samples {
    let digits = proptest::string::string_regex(&format!("[0-9]{{{precision}}}")).unwrap();
    let digits = prop_oneof![
        Just("9".repeat(precision)),
        Just("0".repeat(precision)),
        digits
    ];
    (digits, any::<bool>(), 0..3)
        .prop_map(move |(digits, negative, form)| {
            let (whole, fraction) = digits.split_at(precision - scale);
            let whole = Some(whole.trim_start_matches('0'))
                .filter(|whole| !whole.is_empty())
                .unwrap_or("0");
            let point = if fraction.is_empty() {
                String::new()
            } else {
                format!(".{fraction}")
            };
            let zero = digits.bytes().all(|digit| digit == b'0');
            let sign = if negative { "-" } else { "" };
            let json = match form {
                0 => format!("\"{sign}{whole}{point}\""),
                1 if scale > 0 => format!("{sign}{whole}{point}000"),
                _ => format!("{sign}{whole}{point}e0"),
            };
            text(
                json,
                format!("{}{whole}{point}", if zero { "" } else { sign }),
            )
        })
        .boxed()
}

fn days(first: i32, last: i32) -> Samples {
    prop_oneof![Just(first), Just(last), Just(0), first..=last]
        .prop_map(|day| plain((date(1970, 1, 1) + day.days()).to_string()))
        .boxed()
}

fn times(precision: u8, zone: Option<&str>, first: i128, last: i128) -> Samples {
    let zone = TimeZone::get(zone.unwrap_or("UTC")).unwrap();
    (
        prop_oneof![
            Just(first),
            Just(last),
            Just(0),
            Just((-1).max(first)),
            first..=last
        ],
        0..4_u8,
    )
        .prop_map(move |(ticks, form)| time(precision, &zone, ticks, form))
        .boxed()
}

fn time(precision: u8, zone: &TimeZone, ticks: i128, form: u8) -> Sample {
    let per_second = 10_i128.pow(u32::from(precision));
    let second = i64::try_from(ticks.div_euclid(per_second)).unwrap();
    let rest = ticks.rem_euclid(per_second);
    let fraction = if precision == 0 {
        String::new()
    } else {
        format!(".{rest:0width$}", width = usize::from(precision))
    };
    let utc = Timestamp::new(second, 0)
        .unwrap()
        .to_zoned(TimeZone::UTC)
        .datetime();
    let wanted = format!("{}{fraction}Z", utc.strftime("%Y-%m-%dT%H:%M:%S"));
    let local = Timestamp::new(second, 0)
        .unwrap()
        .to_zoned(zone.clone())
        .datetime();
    let json = match form {
        0 if !zone.to_ambiguous_timestamp(local).is_ambiguous() => {
            format!("{}{fraction}", local.strftime("%Y-%m-%d %H:%M:%S"))
        }
        1 => format!(
            "{}{fraction}+05:30",
            (utc + 330.minutes()).strftime("%Y-%m-%dT%H:%M:%S")
        ),
        2 if precision > 0 => format!(
            "{}{fraction}000000000000z",
            utc.strftime("%Y-%m-%dt%H:%M:%S")
        ),
        _ => wanted.clone(),
    };
    text(format!("\"{json}\""), wanted)
}

fn members_of(members: Vec<(String, i16)>) -> Samples {
    (prop::sample::select(members), any::<bool>())
        .prop_map(|((name, number), by_number)| {
            text(
                if by_number {
                    number.to_string()
                } else {
                    quoted(&name)
                },
                name,
            )
        })
        .boxed()
}

fn target(types: &[String]) -> TargetTable {
    let mapping = types
        .iter()
        .enumerate()
        .map(|(index, data_type)| ColumnMapping {
            column: format!("c{index}"),
            data_type: data_type.clone(),
            path: vec![format!("c{index}")],
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
    TargetTable {
        expected,
        check: false,
        recheck_period_seconds: 60,
        mapping,
        metadata_columns: true,
    }
}

fn schema_of(types: &[String]) -> Arc<Schema> {
    let format = RecordFormat {
        unknown_fields: UnknownFields::Reject,
        max_record_bytes: 16 << 20,
        tombstones: Tombstones::Skip,
    };
    Arc::new(Schema::compile(&target(types), &format).unwrap())
}

fn decode(schema: &Arc<Schema>, records: &[String]) -> Block {
    let mut decoder = Decoder::new(Arc::clone(schema));
    let mut builder = BlockBuilder::new(Arc::clone(schema));
    for (offset, record) in (0..).zip(records) {
        let at = RecordPosition {
            topic: "values",
            partition: 2,
            offset,
            timestamp_ms: 1_700_000_000_123,
        };
        decoder
            .decode(record.as_bytes(), &at, &mut builder)
            .unwrap_or_else(|rejection| panic!("{rejection:?}: {record}"));
    }
    builder.finish()
}

/// A database of this run's own, dropped at the end.
struct Server {
    authority: String,
    database: String,
}

impl Server {
    fn new(purpose: &str) -> Self {
        let url = std::env::var("CLICKHOUSE_URL")
            .expect("CLICKHOUSE_URL is not set; run `cargo xtask test`, which starts a server, or set it to http://host:port");
        let authority = url
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        let server = Self {
            authority,
            database: format!("values_{purpose}_{}", std::process::id()),
        };
        server.query(&format!("CREATE DATABASE {}", server.database));
        server
    }

    fn query(&self, sql: &str) -> String {
        String::from_utf8(self.post(&[], sql.as_bytes())).unwrap()
    }

    fn create(&self, schema: &Schema) {
        let columns: Vec<String> = schema
            .insert_columns()
            .iter()
            .map(|(name, data_type)| format!("{name} {data_type}"))
            .collect();
        let settings = [("allow_suspicious_low_cardinality_types", "1")];
        let sql = format!(
            "CREATE TABLE {}.t ({}) ENGINE = MergeTree ORDER BY _offset",
            self.database,
            columns.join(", ")
        );
        self.post(&settings, sql.as_bytes());
    }

    fn insert(&self, schema: &Schema, block: &Block, compression: Compression) {
        let mut native = Vec::new();
        block.write_native(&mut native);
        let names: Vec<String> = schema
            .insert_columns()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let sql = format!(
            "INSERT INTO {}.t ({}) FORMAT Native",
            self.database,
            names.join(", ")
        );
        let settings = [
            ("query", sql.as_str()),
            ("decompress", "1"),
            ("async_insert", "0"),
            ("input_format_native_allow_types_conversion", "0"),
            ("input_format_skip_unknown_fields", "0"),
        ];
        self.post(&settings, &compress_body(&native, compression));
    }

    fn post(&self, parameters: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let query: Vec<String> = parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", percent(value)))
            .collect();
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        let head = format!(
            "POST /?{} HTTP/1.0\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            query.join("&"),
            self.authority,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let end = reply
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .unwrap()
            + 4;
        let ok =
            reply[..end].starts_with(b"HTTP/1.0 200") || reply[..end].starts_with(b"HTTP/1.1 200");
        assert!(ok, "{}", String::from_utf8_lossy(&reply));
        reply.split_off(end)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.query(&format!("DROP DATABASE {}", self.database));
        }
    }
}

fn percent(value: &str) -> String {
    value.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").unwrap();
        }
        out
    })
}

const READ_BACK: &str = "SETTINGS date_time_output_format = 'iso', output_format_json_quote_64bit_integers = 1, \
     output_format_json_quote_denormals = 1, output_format_decimal_trailing_zeros = 1, \
     output_format_json_quote_decimals = 1, output_format_json_named_tuples_as_objects = 1, \
     output_format_json_escape_forward_slashes = 0 FORMAT JSONCompactEachRow";

fn check(want: &Want, got: &RawValue) -> Result<(), String> {
    let raw = got.get();
    let bare = || serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned());
    let same = match want {
        Want::Null => raw == "null",
        Want::Text(text) => bare() == *text,
        Want::Float64(value) => bare()
            .parse::<f64>()
            .is_ok_and(|got| same_float(got, *value)),
        Want::Float32(value) => bare()
            .parse::<f32>()
            .is_ok_and(|got| same_float(f64::from(got), f64::from(*value))),
        Want::List(items) => return check_list(items, raw),
        Want::Object(pairs) => return check_object(pairs, raw),
    };
    if same {
        Ok(())
    } else {
        Err(format!("wanted {want:?}, got {raw}"))
    }
}

fn same_float(left: f64, right: f64) -> bool {
    left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
}

fn check_list(items: &[Want], raw: &str) -> Result<(), String> {
    let got: Vec<Box<RawValue>> =
        serde_json::from_str(raw).map_err(|error| format!("{error}: {raw}"))?;
    if got.len() != items.len() {
        return Err(format!("wanted {} items, got {raw}", items.len()));
    }
    items
        .iter()
        .zip(&got)
        .try_for_each(|(want, got)| check(want, got))
}

fn check_object(pairs: &[(String, Want)], raw: &str) -> Result<(), String> {
    let got: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(raw).map_err(|error| format!("{error}: {raw}"))?;
    if got.len() != pairs.len() {
        return Err(format!("wanted {} pairs, got {raw}", pairs.len()));
    }
    pairs.iter().try_for_each(|(key, want)| {
        check(
            want,
            got.get(key).ok_or_else(|| format!("no {key:?} in {raw}"))?,
        )
    })
}

fn assert_same(types: &[String], rows: &[Vec<Sample>], printed: &str) {
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), rows.len());
    let mut wrong = Vec::new();
    for (line, row) in lines.iter().zip(rows) {
        let got: Vec<Box<RawValue>> = serde_json::from_str(line).unwrap();
        for ((data_type, sample), got) in types.iter().zip(row).zip(&got) {
            if let Err(difference) = check(&sample.want, got) {
                wrong.push(format!(
                    "{data_type}: {} became something else: {difference}",
                    sample.json
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} values differ, the first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

fn records_of(rows: &[Vec<Sample>]) -> Vec<String> {
    rows.iter()
        .map(|row| {
            let fields: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(index, sample)| format!("\"c{index}\":{}", sample.json))
                .collect();
            format!("{{{}}}", fields.join(", "))
        })
        .collect()
}

#[test]
fn every_value_of_every_type_comes_back_as_it_was() {
    let server = Server::new("all");
    let types = all_types();
    let schema = schema_of(&types);
    let strategy: Vec<Samples> = types
        .iter()
        .map(|text| samples_of(&DataType::parse(text).unwrap()))
        .collect();
    let mut runner = TestRunner::new(Config::default());
    let rows: Vec<Vec<Sample>> = (0..150)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect();
    server.create(&schema);
    let block = decode(&schema, &records_of(&rows));
    server.insert(&schema, &block.slice(0..1), Compression::None);
    server.insert(&schema, &block.slice(1..70), Compression::Zstd);
    server.insert(&schema, &block.slice(70..150), Compression::Lz4);
    let columns: Vec<String> = (0..types.len()).map(|index| format!("c{index}")).collect();
    let sql = format!(
        "SELECT {} FROM {}.t ORDER BY _offset {READ_BACK}",
        columns.join(", "),
        server.database
    );
    assert_same(&types, &rows, &server.query(&sql));
    let metadata = format!(
        "SELECT DISTINCT _topic, _partition, _timestamp FROM {}.t {READ_BACK}",
        server.database
    );
    assert_eq!(
        server.query(&metadata),
        "[\"values\", 2, \"2023-11-14T22:13:20.123Z\"]\n"
    );
}

#[test]
fn blocks_whose_nested_columns_are_all_empty_are_read() {
    let server = Server::new("empty");
    let types = [
        "Array(LowCardinality(String))",
        "Map(LowCardinality(String), LowCardinality(Nullable(String)))",
        "Array(Array(Tuple(LowCardinality(String), UInt8)))",
        "LowCardinality(Nullable(String))",
        "String",
    ]
    .map(str::to_owned);
    let schema = schema_of(&types);
    server.create(&schema);
    let record = r#"{"c0":[],"c1":{},"c2":[[]],"c3":null,"c4":"after"}"#.to_owned();
    server.insert(&schema, &decode(&schema, &[record]), Compression::Lz4);
    let sql = format!(
        "SELECT c0, c1, c2, c3, c4 FROM {}.t {READ_BACK}",
        server.database
    );
    assert_eq!(server.query(&sql), "[[], {}, [[]], null, \"after\"]\n");
}

#[test]
fn dictionaries_of_every_index_width_are_read() {
    let server = Server::new("widths");
    let types = [
        "LowCardinality(String)",
        "LowCardinality(Nullable(FixedString(6)))",
    ]
    .map(str::to_owned);
    let schema = schema_of(&types);
    server.create(&schema);
    for distinct in [255, 256, 257, 65_535, 65_536, 65_537, 70_000] {
        let records: Vec<String> = (0..distinct)
            .map(|n| format!("{{\"c0\":\"v{n}\",\"c1\":\"{n:06}\"}}"))
            .collect();
        server.insert(&schema, &decode(&schema, &records), Compression::Lz4);
        let sql = format!(
            "SELECT count(), countIf(c0 = 'v' || toString(_offset) AND toUInt32(c1::String) = _offset) FROM {}.t FORMAT TSV",
            server.database
        );
        assert_eq!(server.query(&sql), format!("{distinct}\t{distinct}\n"));
        server.query(&format!("TRUNCATE TABLE {}.t", server.database));
    }
}
