//! What CEL cannot see: each check with an accepted and a refused twin.

#![allow(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value)]

use serde_json::{Value, json};

use super::*;
use crate::api::tests::sink_with;

mod views;

fn violations(changes: &[(&str, Value)]) -> Vec<String> {
    let sink = serde_json::from_value(sink_with(changes)).unwrap();
    validate(&sink).iter().map(ToString::to_string).collect()
}

fn accepted(changes: &[(&str, Value)]) {
    assert_eq!(violations(changes), Vec::<String>::new());
}

fn refused(changes: &[(&str, Value)], parts: &[&str]) {
    let found = violations(changes);
    assert!(!found.is_empty(), "{changes:?} was accepted");
    for part in parts {
        assert!(
            found.iter().any(|text| text.contains(part)),
            "{found:?} does not say: {part}"
        );
    }
}

fn column(extra: Value) -> (&'static str, Value) {
    let mut column = json!({ "name": "note", "type": "Nullable(String)" });
    for (key, value) in extra.as_object().unwrap() {
        column[key] = value.clone();
    }
    ("/spec/table/columns/3", column)
}

#[test]
fn the_plain_sink_is_valid() {
    accepted(&[]);
}

#[test]
fn types_are_read() {
    accepted(&[column(json!({ "type": "Map(String, Decimal64(2))" }))]);
    refused(
        &[column(json!({ "type": "Strin" }))],
        &["spec.table.columns[3].type", "did you mean String?"],
    );
}

#[test]
fn paths_are_read() {
    accepted(&[column(json!({ "from": "a.\"b.c\"" }))]);
    refused(
        &[column(json!({ "from": "a..b" }))],
        &["spec.table.columns[3].from", "position 2"],
    );
}

#[test]
fn null_needs_a_nullable_type() {
    accepted(&[column(json!({ "onMissing": "Null", "onError": "Null" }))]);
    let text = json!({ "type": "String", "onMissing": "Null", "onError": "Null" });
    refused(
        &[column(text)],
        &[
            "columns[3].onMissing",
            "columns[3].onError",
            "Nullable(String)",
        ],
    );
}

#[test]
fn clamp_needs_something_with_an_order_of_its_own() {
    accepted(&[column(json!({ "type": "UInt8", "onError": "Clamp" }))]);
    accepted(&[column(
        json!({ "type": "Nullable(Date)", "onError": "Clamp" }),
    )]);
    refused(
        &[column(json!({ "onError": "Clamp" }))],
        &["columns[3].onError"],
    );
}

#[test]
fn a_unit_belongs_to_dates_and_times() {
    accepted(&[column(json!({ "type": "DateTime", "unit": "Seconds" }))]);
    refused(
        &[column(json!({ "type": "UInt64", "unit": "Seconds" }))],
        &["columns[3].unit"],
    );
}

#[test]
fn a_default_is_one_expression_that_stays_the_same() {
    accepted(&[column(json!({ "default": "concat('a', 'now()')" }))]);
    refused(
        &[column(json!({ "default": "toString(now())" }))],
        &["columns[3].default", "`now()`"],
    );
    refused(
        &[column(json!({ "default": "1; DROP TABLE x" }))],
        &["columns[3].default", "a semicolon"],
    );
}

#[test]
fn a_key_column_with_a_default_of_now_is_refused() {
    let ts = json!({ "name": "ts", "type": "DateTime64(3, 'UTC')", "default": "now64(3)" });
    refused(
        &[
            ("/spec/table/columns/2", ts),
            ("/spec/table/orderBy", json!(["id", "ts"])),
        ],
        &["columns[2].default"],
    );
}

#[test]
fn a_partition_key_stays_the_same() {
    accepted(&[("/spec/table/partitionBy", json!("toYYYYMM(ts)"))]);
    refused(
        &[("/spec/table/partitionBy", json!("toYYYYMM(today())"))],
        &["spec.table.partitionBy"],
    );
    refused(
        &[("/spec/table/partitionBy", json!("toYYYYMM(ts"))],
        &["a bracket that is not closed"],
    );
}

#[test]
fn a_ttl_is_one_expression() {
    accepted(&[("/spec/table/ttl", json!("ts + INTERVAL 1 DAY"))]);
    refused(
        &[("/spec/table/ttl", json!("ts + INTERVAL 1 DAY -- x"))],
        &["spec.table.ttl", "a comment"],
    );
}

#[test]
fn a_key_column_is_not_nullable_and_named_once() {
    refused(
        &[("/spec/table/orderBy", json!(["id", "note"]))],
        &["spec.table.orderBy[1]", "Nullable"],
    );
    refused(
        &[("/spec/table/orderBy", json!(["id", "id"]))],
        &["spec.table.orderBy[1]", "again"],
    );
}

#[test]
fn a_version_is_an_unsigned_integer_a_date_or_a_time() {
    let version = |data_type: &str| {
        (
            "/spec/table/columns/1",
            json!({ "name": "version", "type": data_type }),
        )
    };
    for data_type in ["UInt8", "UInt256", "Date", "DateTime64(6)"] {
        accepted(&[version(data_type)]);
    }
    for data_type in [
        "Int32",
        "String",
        "Nullable(UInt32)",
        "Nullable(Date)",
        "Float64",
    ] {
        refused(&[version(data_type)], &["versionColumn"]);
    }
}

#[test]
fn columns_and_settings_have_names_of_their_own() {
    refused(
        &[column(json!({ "name": "id" }))],
        &["spec.table.columns[3]", "`id` again"],
    );
    accepted(&[(
        "/spec/table/settings",
        json!({ "index_granularity": "1024" }),
    )]);
    refused(
        &[("/spec/table/settings", json!({ "a = 1, b": "1" }))],
        &["the name of a MergeTree setting"],
    );
}

#[test]
fn sizes_are_read_and_fit_each_other() {
    let sizes = |batch: &str, budget: &str| {
        [
            ("/spec/batch", json!({ "maxBytes": batch })),
            ("/spec/workers", json!({ "memoryBudget": budget })),
        ]
    };
    accepted(&sizes("32Mi", "32Mi"));
    accepted(&sizes("199Mi", "1Gi"));
    refused(&sizes("200Mi", "1Gi"), &["spec.batch.maxBytes"]);
    refused(&sizes("1Mi", "31Mi"), &["spec.workers.memoryBudget"]);
    refused(
        &sizes("64Mi", "48Mi"),
        &["spec.workers.memoryBudget", "at least as much as"],
    );
    refused(&sizes("64MB", "48Mi"), &["spec.batch.maxBytes"]);
}

#[test]
fn bounds_are_those_of_the_schema() {
    accepted(&[("/spec/replicas", json!(0))]);
    refused(
        &[("/spec/replicas", json!(101))],
        &["spec.replicas", "at most 100"],
    );
    accepted(&[(
        "/spec/batch",
        json!({ "maxRows": 999_999, "lingerMilliseconds": 600_000 }),
    )]);
    refused(
        &[("/spec/batch", json!({ "maxRows": 1_000_000 }))],
        &["spec.batch.maxRows"],
    );
    refused(
        &[("/spec/batch", json!({ "lingerMilliseconds": 600_001 }))],
        &["spec.batch.lingerMilliseconds"],
    );
    refused(
        &[("/spec/shutdown", json!({ "finalFlushTimeoutSeconds": 0 }))],
        &["finalFlushTimeoutSeconds"],
    );
    refused(
        &[("/spec/kafka/topics", json!([]))],
        &["spec.kafka.topics", "at least 1"],
    );
    refused(
        &[("/spec/kafka/topics", json!(["a", "a"]))],
        &["spec.kafka.topics[1]", "once"],
    );
}

#[test]
fn patterns_are_those_of_the_schema() {
    refused(
        &[("/spec/clickhouse/url", json!("https://clickhouse:8443"))],
        &["spec.clickhouse.url"],
    );
    refused(
        &[("/spec/kafka/topics", json!(["a b"]))],
        &["spec.kafka.topics[0]"],
    );
    refused(
        &[("/spec/kafka/bootstrapServers", json!(["kafka"]))],
        &["spec.kafka.bootstrapServers[0]"],
    );
    accepted(&[(
        "/spec/kafka/bootstrapServers",
        json!(["kafka:9092", "[::1]:9092"]),
    )]);
}

#[test]
fn a_start_timestamp_is_a_time() {
    let at = |text: &str| {
        [
            ("/spec/kafka/startFrom", json!("Timestamp")),
            ("/spec/kafka/startTimestamp", json!(text)),
        ]
    };
    accepted(&at("2026-03-14T00:00:00+01:00"));
    refused(
        &at("2026-13-14T00:00:00Z"),
        &["spec.kafka.startTimestamp", "RFC 3339"],
    );
}

#[test]
fn an_insert_fits_into_a_url() {
    let columns = |length: usize| -> Value {
        (0..1000)
            .map(|n| json!({ "name": format!("{n:0length$}"), "type": "UInt8" }))
            .collect()
    };
    let plain = ("/spec/table/engine", json!({ "mergeTree": {} }));
    let key = ("/spec/table/orderBy", Value::Null);
    accepted(&[
        plain.clone(),
        key.clone(),
        ("/spec/table/columns", columns(40)),
    ]);
    refused(
        &[plain, key, ("/spec/table/columns", columns(60))],
        &["spec.table.columns", "in a URL"],
    );
}

#[test]
fn a_name_is_a_name_that_kubernetes_takes() {
    refused(&[("/metadata/name", json!("Events_1"))], &["metadata.name"]);
    refused(&[("/metadata/name", json!(""))], &["metadata.name"]);
    accepted(&[("/metadata/name", json!("events-1"))]);
}

#[test]
fn all_violations_are_reported_at_once() {
    let found = violations(&[
        column(json!({ "type": "Foo", "from": "." })),
        ("/spec/replicas", json!(-1)),
        ("/spec/table/orderBy", json!(["nope"])),
    ]);
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn an_update_is_checked_against_what_was_before() {
    let old = serde_json::from_value(sink_with(&[])).unwrap();
    let new =
        serde_json::from_value(sink_with(&[("/spec/kafka/groupId", json!("other"))])).unwrap();
    let found = validate_update(&new, &old);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].path, "spec.kafka.groupId");
}

#[test]
fn one_hold_has_one_answer_and_names_a_partition() {
    let answer = |partition: &str, hold: &str| json!({ "partition": partition, "hold": hold, "action": "Retry" });
    let found = |answers: Vec<Value>| violations(&[("/spec/resolutions", json!(answers))]);
    assert!(
        found(vec![
            answer("t/0", "a"),
            answer("t/1", "a"),
            answer("t/0", "b")
        ])
        .is_empty()
    );
    let twice = found(vec![answer("t/0", "a"), answer("t/0", "a")]);
    assert_eq!(twice.len(), 1);
    assert!(
        twice[0].starts_with("spec.resolutions[1]: ") && twice[0].contains("remove one"),
        "{twice:?}"
    );
    let wrong = found(vec![answer("events", "a")]);
    assert!(
        wrong[0].contains("expected a partition as `topic/number`"),
        "{wrong:?}"
    );
}
