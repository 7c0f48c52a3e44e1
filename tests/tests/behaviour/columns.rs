//! How a record becomes a row, as the columns and the format declare it; each setting with its effect.

use serde_json::{Value, json};

use crate::support::{Scene, event_with, metric};
use clickhouse_sink_tests::produce::stat_event;

/// Offset, code and column of what was rejected.
fn rejects(scene: &Scene) -> Vec<Value> {
    scene.rows("SELECT offset AS at, code, column FROM vision_events_rejected ORDER BY at")
}

fn reject(at: i64, code: &str, column: &str) -> Value {
    json!({ "at": at, "code": code, "column": column })
}

#[test]
fn a_column_takes_the_value_that_its_path_names_and_otherwise_the_field_of_its_own_name() {
    let scene = Scene::new("from", 1).columns(json!([
        { "name": "id", "type": "String" },
        { "name": "zone", "type": "LowCardinality(String)", "from": "location.zone" },
        { "name": "dotted", "type": "Int64", "from": "location.\"a.b\".c" },
    ]));
    scene.produce(
        0,
        [r#"{"id": "x", "zone": "no", "location": {"zone": "north", "a.b": {"c": -7}}}"#],
    );
    let _worker = scene.start();
    scene.wait_committed(&[1]);
    assert_eq!(
        scene.rows("SELECT id, zone, dotted FROM vision_events"),
        [json!({ "id": "x", "zone": "north", "dotted": -7 })]
    );
}

#[test]
fn a_missing_value_is_rejected_null_or_the_default_as_its_column_says() {
    let scene = Scene::new("on_missing", 1).columns(json!([
        { "name": "id", "type": "String" },
        { "name": "implied", "type": "Nullable(Int32)" },
        { "name": "empty", "type": "Nullable(Int32)", "onMissing": "Null" },
        { "name": "zero", "type": "UInt64", "onMissing": "Default" },
        { "name": "strict", "type": "Nullable(Int32)", "onMissing": "Reject" },
    ]));
    scene.produce(
        0,
        [
            r#"{"id": "a", "strict": 1}"#,
            r#"{"id": "b"}"#,
            r#"{"strict": 1}"#,
        ],
    );
    let _worker = scene.start();
    scene.wait_committed(&[3]);
    let row = json!({ "id": "a", "implied": null, "empty": null, "zero": 0, "strict": 1 });
    assert_eq!(
        scene.rows("SELECT id, implied, empty, zero, strict FROM vision_events"),
        [row]
    );
    assert_eq!(
        rejects(&scene),
        [reject(1, "Missing", "strict"), reject(2, "Missing", "id")]
    );
}

#[test]
fn a_value_that_does_not_fit_is_rejected_replaced_or_clamped_as_its_column_says_and_counted() {
    let scene = Scene::new("on_error", 1).columns(json!([
        { "name": "id", "type": "String" },
        { "name": "strict", "type": "UInt8" },
        { "name": "zero", "type": "UInt8", "onError": "Default" },
        { "name": "empty", "type": "Nullable(UInt8)", "onError": "Null" },
        { "name": "near", "type": "Int8", "onError": "Clamp" },
    ]));
    scene.produce(
        0,
        [
            r#"{"id": "a", "strict": 1, "zero": 256, "empty": "x", "near": 1000}"#,
            r#"{"id": "b", "strict": 256, "zero": 1, "empty": 1, "near": 1}"#,
            r#"{"id": "c", "strict": 1, "zero": 1, "empty": 1, "near": -1000}"#,
            r#"{"id": "d", "strict": 1, "zero": 1, "empty": 1, "near": "many"}"#,
        ],
    );
    let worker = scene.start();
    scene.wait_committed(&[4]);
    let row = |id, zero, empty: Value, near| json!({ "id": id, "zero": zero, "empty": empty, "near": near });
    let rows = scene.rows("SELECT id, zero, empty, near FROM vision_events ORDER BY id");
    assert_eq!(
        rows,
        [row("a", 0, Value::Null, 127), row("c", 1, json!(1), -128)]
    );
    assert_eq!(
        rejects(&scene),
        [
            reject(1, "OutOfRange", "strict"),
            reject(3, "WrongType", "near")
        ]
    );
    assert_eq!(metric(&worker, "values_replaced_total", &[]).unwrap(), 4.0);
}

#[test]
fn a_number_into_a_time_is_read_in_the_unit_of_its_column_and_without_one_rejected() {
    let time = "DateTime64(3, 'UTC')";
    let scene = Scene::new("unit", 1).columns(json!([
        { "name": "id", "type": "String" },
        { "name": "ms", "type": time, "unit": "Milliseconds" },
        { "name": "s", "type": time, "unit": "Seconds" },
        { "name": "day", "type": "Date", "unit": "Days" },
        { "name": "text", "type": time, "onMissing": "Default" },
    ]));
    scene.produce(
        0,
        [
            r#"{"id": "a", "ms": 1773446400123, "s": 1773446400, "day": 20526}"#,
            r#"{"id": "b", "ms": 1, "s": 1, "day": 1, "text": 1773446400}"#,
        ],
    );
    let _worker = scene.start();
    scene.wait_committed(&[2]);
    let row = json!({ "ms": "2026-03-14 00:00:00.123", "s": "2026-03-14 00:00:00.000", "day": "2026-03-14" });
    assert_eq!(scene.rows("SELECT ms, s, day FROM vision_events"), [row]);
    assert_eq!(rejects(&scene), [reject(1, "WrongType", "text")]);
}

#[test]
fn a_value_keeps_all_its_digits_in_the_type_that_its_column_declares() {
    let scene = Scene::new("types", 1).columns(json!([
        { "name": "id", "type": "UInt64" },
        { "name": "wide", "type": "Int256" },
        { "name": "price", "type": "Decimal(38, 10)" },
        { "name": "tags", "type": "Map(String, Array(Nullable(Int16)))" },
    ]));
    scene.produce(0, [r#"{"id": 18446744073709551615, "wide": "-57896044618658097711785492504343953926634992332820282019728792003956564819968", "price": 1234567890123456789012345678.0000000001, "tags": {"a": [1, null]}}"#]);
    let _worker = scene.start();
    scene.wait_committed(&[1]);
    let row = scene.query("SELECT id, wide, price, tags FROM vision_events");
    let expected = "18446744073709551615\t-57896044618658097711785492504343953926634992332820282019728792003956564819968\t\
        1234567890123456789012345678.0000000001\t{'a':[1,NULL]}";
    assert_eq!(row, expected);
}

#[test]
fn a_field_that_no_column_takes_is_ignored_or_rejects_the_record() {
    let open = Scene::new("unknown_fields", 1);
    let strict =
        Scene::of_topic("unknown_strict", &open.topic).set("format.json.unknownFields", "Reject");
    open.produce(
        0,
        [
            stat_event(0, 0),
            event_with("a", "extra", "{\"deep\": [1]}"),
        ],
    );
    let (_first, _second) = (open.start(), strict.start());
    open.wait_committed(&[2]);
    strict.wait_committed(&[2]);
    assert_eq!((open.count(), strict.count()), (2, 1));
    assert_eq!(rejects(&open), Vec::<Value>::new());
    assert_eq!(rejects(&strict), [reject(1, "UnknownField", "")]);
}

#[test]
fn rows_say_where_they_come_from_unless_metadata_columns_are_off() {
    let all = Scene::new("metadata", 2);
    let none =
        Scene::of_topic("metadata_none", &all.topic).set("table.metadataColumns.mode", "None");
    all.produce(1, [stat_event(1, 0), stat_event(1, 1)]);
    let (_first, _second) = (all.start(), none.start());
    all.wait_committed(&[0, 2]);
    none.wait_committed(&[0, 2]);
    let places = all.rows("SELECT _topic, _partition, _offset, abs(now() - _timestamp) < 300 AS recent FROM vision_events ORDER BY _offset");
    let place = |offset: u64| json!({ "_topic": all.topic, "_partition": 1, "_offset": offset, "recent": 1 });
    assert_eq!(places, [place(0), place(1)]);
    let columns = "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'vision_events' AND startsWith(name, '_')";
    assert_eq!(
        (
            none.count(),
            none.rows(columns).len(),
            all.rows(columns).len()
        ),
        (2, 0, 4)
    );
}

#[test]
fn a_merge_tree_keeps_equal_keys_and_a_replacing_one_keeps_the_latest_version() {
    let plain = Scene::new("engine", 1).set("table.engine", json!({ "mergeTree": {} }));
    let replacing = Scene::of_topic("engine_replacing", &plain.topic);
    let version = |version: u32, status: &str| {
        stat_event(0, 1)
            .replace("\"version\": 1", &format!("\"version\": {version}"))
            .replace("raised", status)
    };
    plain.produce(
        0,
        [
            version(2, "acknowledged"),
            version(1, "raised"),
            version(1, "raised"),
        ],
    );
    let (_first, _second) = (plain.start(), replacing.start());
    for scene in [&plain, &replacing] {
        scene.wait_committed(&[3]);
        scene.query("OPTIMIZE TABLE vision_events FINAL");
    }
    assert_eq!(plain.count(), 3);
    assert_eq!(
        replacing.rows("SELECT version, status FROM vision_events"),
        [json!({ "version": 2, "status": "acknowledged" })]
    );
}
