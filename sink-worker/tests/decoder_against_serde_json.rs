//! The decoder and `serde_json` agree on what is JSON and on what it says, except where the contract says otherwise.
//!
//! Must not be here: types of columns beyond what the comparison needs.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clickhouse_sink_crds::table::{Engine, TableDefinition};
use clickhouse_sink_crds::worker_config::{
    ColumnMapping, OnError, OnMissing, RecordFormat, TargetTable, Tombstones, UnknownFields,
};
use clickhouse_sink_worker::decode::{Decoder, RecordPosition, RejectCode};
use clickhouse_sink_worker::native::{Block, BlockBuilder};
use clickhouse_sink_worker::schema::Schema;
use proptest::prelude::*;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Any JSON, with what the contract adds: strings are checked, levels are counted, keys that are looked at are kept.
struct Shape {
    depth: usize,
    object: bool,
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

const SCALAR: Shape = Shape {
    depth: 0,
    object: false,
};

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(SCALAR)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(SCALAR)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(SCALAR)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(SCALAR)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(SCALAR)
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(SCALAR)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut depth = 0;
        while let Some(item) = items.next_element::<Shape>()? {
            depth = depth.max(item.depth);
        }
        Ok(Shape {
            depth: depth + 1,
            object: false,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Shape, A::Error> {
        let mut depth = 0;
        while let Some((_, value)) = pairs.next_entry::<String, Shape>()? {
            depth = depth.max(value.depth);
        }
        Ok(Shape {
            depth: depth + 1,
            object: true,
        })
    }
}

/// Keys of the top level, duplicates refused.
struct TopKeys;

impl<'de> Deserialize<'de> for TopKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = TopKeys;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<TopKeys, A::Error> {
                let mut seen = BTreeSet::new();
                while let Some((key, _)) = pairs.next_entry::<String, serde::de::IgnoredAny>()? {
                    if !seen.insert(key) {
                        return Err(A::Error::custom("duplicate"));
                    }
                }
                Ok(TopKeys)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// What `serde_json` says, with the contract's additions.
fn is_record(payload: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(payload) else {
        return false;
    };
    serde_json::from_str::<Shape>(text).is_ok_and(|shape| shape.object && shape.depth <= 64)
        && serde_json::from_str::<TopKeys>(text).is_ok()
}

fn schema(columns: &[(&str, &str)]) -> Arc<Schema> {
    let mapping = columns
        .iter()
        .map(|(path, data_type)| ColumnMapping {
            column: (*path).to_owned(),
            data_type: (*data_type).to_owned(),
            path: vec![(*path).to_owned()],
            on_missing: OnMissing::Default,
            on_error: OnError::Default,
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
        metadata_columns: false,
    };
    let format = RecordFormat {
        unknown_fields: UnknownFields::Ignore,
        max_record_bytes: 1 << 20,
        tombstones: Tombstones::Skip,
    };
    Arc::new(Schema::compile(&table, &format).unwrap())
}

const AT: RecordPosition<'_> = RecordPosition {
    topic: "t",
    partition: 0,
    offset: 0,
    timestamp_ms: 0,
};

/// By a decoder that has seen nothing before, so that no key is expected and everything takes the general path.
fn decode(schema: &Arc<Schema>, payload: &[u8]) -> Result<Block, RejectCode> {
    decode_with(&mut Decoder::new(Arc::clone(schema)), schema, payload)
}

/// By a decoder that has seen these records before, and so expects their keys and takes the quick path.
fn decode_after(
    schema: &Arc<Schema>,
    before: &[&[u8]],
    payload: &[u8],
) -> Result<Block, RejectCode> {
    let mut decoder = Decoder::new(Arc::clone(schema));
    for record in before {
        drop(decode_with(&mut decoder, schema, record));
    }
    decode_with(&mut decoder, schema, payload)
}

fn decode_with(
    decoder: &mut Decoder,
    schema: &Arc<Schema>,
    payload: &[u8],
) -> Result<Block, RejectCode> {
    let mut builder = BlockBuilder::new(Arc::clone(schema));
    match decoder.decode(payload, &AT, &mut builder) {
        Ok(_) => Ok(builder.finish()),
        Err(rejection) => {
            assert_eq!((builder.rows(), builder.bytes()), (0, 0));
            assert_eq!(
                builder.finish(),
                BlockBuilder::new(Arc::clone(schema)).finish()
            );
            Err(rejection.code)
        }
    }
}

/// One column for each way to read a value.
const COLUMNS: [(&str, &str); 8] = [
    ("a", "String"),
    ("b", "Int64"),
    ("c", "Float64"),
    ("d", "LowCardinality(Nullable(String))"),
    ("e", "DateTime64(3, 'UTC')"),
    ("f", "UInt8"),
    ("g", "Array(Nullable(Int8))"),
    ("h", "Map(String, LowCardinality(String))"),
];

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| format!("{value:e}")),
        ".{0,12}".prop_map(|value| serde_json::to_string(&value).unwrap()),
        "(\\\\[\"\\\\/bfnrtu]|[a-f0-9]|\\\\ud[89a-f][0-9]{2}){0,6}"
            .prop_map(|value| format!("\"{value}\"")),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec((key(), inner), 0..5).prop_map(|pairs| object(&pairs)),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![5 => "[a-h]".prop_map(|key| format!("\"{key}\"")), 1 => Just("\"\\u0061\"".to_owned()), 1 => "[x-z]{1,20}".prop_map(|key| format!("\"{key}\"")), 1 => ".{0,9}".prop_map(|key| serde_json::to_string(&key).unwrap())]
}

fn object(pairs: &[(String, String)]) -> String {
    let style = pairs
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum::<usize>();
    let colon = [":", ": ", " : "][style % 3];
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("{key}{colon}{value}"))
        .collect();
    format!("{{{}}}", pairs.join([",", ", ", " ,\n"][style / 3 % 3]))
}

fn record() -> impl Strategy<Value = String> {
    prop::collection::vec((key(), json()), 0..6).prop_map(|pairs| object(&pairs))
}

/// Numbers beyond `f64` are JSON, and only `serde_json` refuses them.
fn has_far_number(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
        && serde_json::from_str::<serde_json::Value>(text)
            .is_err_and(|error| error.to_string().contains("out of range"))
}

fn assert_agrees(schema: &Arc<Schema>, before: &[u8], payload: &[u8]) -> Result<(), TestCaseError> {
    let general = decode(schema, payload);
    prop_assert_eq!(
        &decode_after(schema, &[before], payload),
        &general,
        "{}",
        String::from_utf8_lossy(payload)
    );
    prop_assert_eq!(
        &decode_after(schema, &[payload, payload], payload),
        &general,
        "{}",
        String::from_utf8_lossy(payload)
    );
    if std::str::from_utf8(payload).is_ok_and(has_far_number) {
        return Ok(());
    }
    // Only the decoder looks into a Map, and finds a key there twice.
    if general == Err(RejectCode::DuplicateKey) && is_record(payload) {
        prop_assert!(String::from_utf8_lossy(payload).contains("\"h\""));
        return Ok(());
    }
    prop_assert_eq!(
        general.is_ok(),
        is_record(payload),
        "{:?}: {}",
        general.err(),
        String::from_utf8_lossy(payload)
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_is_json_for_serde_json_is_json_for_us(record in record()) {
        assert_agrees(&schema(&COLUMNS), b"{}", record.as_bytes())?;
    }

    #[test]
    fn a_mutated_record_is_judged_alike(
        record in record(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u8>(), prop::sample::select(b"\"\\{}[]:,0123456789.eE+-tfn u\x00\x1f\xc3\xa9\xff".to_vec())
        ], 0..3), 1..4),
    ) {
        let mut payload = record.clone().into_bytes();
        for (place, byte, edit) in edits {
            let at = place.index(payload.len() + 1);
            match edit {
                0 => payload.insert(at, byte),
                1 if at < payload.len() => payload[at] = byte,
                _ if at < payload.len() => drop(payload.remove(at)),
                _ => {}
            }
        }
        assert_agrees(&schema(&COLUMNS), record.as_bytes(), &payload)?;
    }

    #[test]
    fn strings_and_numbers_mean_the_same(
        text in prop_oneof![".{0,80}", "[\\x00-\\xff]{0,80}"],
        integer in any::<i64>(),
        float in any::<f64>().prop_filter("finite", |value| value.is_finite()),
    ) {
        let schema = schema(&[("a", "String"), ("b", "Int64"), ("c", "Float64")]);
        let payload = serde_json::json!({ "c": float, "a": text, "b": integer }).to_string();
        let mut native = Vec::new();
        decode(&schema, payload.as_bytes()).unwrap().write_native(&mut native);
        let wanted = [b"a\x06String".as_slice(), &length(text.len()), text.as_bytes(), b"\x01b\x05Int64",
            &integer.to_le_bytes(), b"\x01c\x07Float64", &float.to_le_bytes()].concat();
        prop_assert_eq!(&native[3..], &wanted);
    }
}

fn length(value: usize) -> Vec<u8> {
    let low = u8::try_from(value & 0x7f).unwrap();
    if value < 128 {
        vec![low]
    } else {
        [vec![low | 0x80], length(value >> 7)].concat()
    }
}
