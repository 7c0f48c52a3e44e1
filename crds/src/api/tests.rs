//! Every CEL rule with a resource that keeps it and one that breaks it; bounds and descriptions of every field.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};

use super::*;
use crate::schema::{check_cel, resource_schema, schema_leaves};

mod immutable;
mod views;

/// A sink with every optional immutable field set.
pub(crate) fn sink_value() -> Value {
    json!({
        "apiVersion": "clickhouse-sink.io/v1alpha1",
        "kind": "ClickHouseSink",
        "metadata": { "name": "events", "namespace": "analytics" },
        "spec": {
            "kafka": { "bootstrapServers": ["127.0.0.1:9092"], "topics": ["events"], "groupId": "ops" },
            "clickhouse": { "url": "http://127.0.0.1:8123", "database": "ops" },
            "table": {
                "name": "events",
                "engine": { "replacingMergeTree": { "versionColumn": "version" } },
                "partitionBy": "toYYYYMM(ts)",
                "orderBy": ["id"],
                "columns": [
                    { "name": "id", "type": "String" },
                    { "name": "version", "type": "UInt32" },
                    { "name": "ts", "type": "DateTime64(3, 'UTC')" },
                    { "name": "note", "type": "Nullable(String)" },
                ],
            },
        },
    })
}

/// The sink with the field at `pointer` set, or removed where the value is null; its parents must be there.
pub(crate) fn sink_with(changes: &[(&str, Value)]) -> Value {
    let mut value = sink_value();
    for (pointer, new) in changes {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = value
            .pointer_mut(parent)
            .unwrap_or_else(|| panic!("{pointer}"));
        match (parent, new) {
            (Value::Object(fields), Value::Null) => drop(fields.remove(field)),
            (Value::Object(fields), new) => drop(fields.insert(field.to_owned(), new.clone())),
            (Value::Array(items), new) => items[field.parse::<usize>().unwrap()] = new.clone(),
            _ => panic!("{pointer}"),
        }
    }
    value
}

/// With defaults filled in, as the API server does before it runs rules.
fn defaulted(value: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<ClickHouseSink>(value).unwrap()).unwrap()
}

fn broken(changes: &[(&str, Value)]) -> Vec<String> {
    check_cel(&defaulted(sink_with(changes)), None)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn broken_by_update(old: &[(&str, Value)], new: &[(&str, Value)]) -> Vec<String> {
    let (old, new) = (defaulted(sink_with(old)), defaulted(sink_with(new)));
    check_cel(&new, Some(&old))
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn refused(violations: &[String], message: &str) {
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert!(
        violations[0].contains(message),
        "{violations:?} does not say: {message}"
    );
}

#[test]
fn the_plain_sink_breaks_no_rule() {
    assert_eq!(broken(&[]), Vec::<String>::new());
    assert_eq!(broken_by_update(&[], &[]), Vec::<String>::new());
}

#[test]
fn a_name_may_have_52_characters_and_not_one_more() {
    assert!(broken(&[("/metadata/name", json!("a".repeat(52)))]).is_empty());
    refused(
        &broken(&[("/metadata/name", json!("a".repeat(53)))]),
        "at most 52 characters",
    );
}

#[test]
fn the_rejected_table_is_another_one() {
    let named = |name: &str| broken(&[("/spec/deadLetter", json!({ "table": { "name": name } }))]);
    assert!(named("other").is_empty());
    refused(&named("events"), "another table than `table.name`");
    assert!(broken(&[("/spec/deadLetter", json!({ "table": {} }))]).is_empty());
}

#[test]
fn a_start_timestamp_goes_with_timestamp_and_with_nothing_else() {
    let at = json!("2026-03-14T00:00:00Z");
    let both = [
        ("/spec/kafka/startFrom", json!("Timestamp")),
        ("/spec/kafka/startTimestamp", at.clone()),
    ];
    assert!(broken(&both).is_empty());
    refused(&broken(&both[..1]), "`startTimestamp` must be set if");
    refused(&broken(&both[1..]), "`startTimestamp` must be set if");
}

#[test]
fn properties_that_the_worker_owns_are_refused() {
    let with = |key: &str| broken(&[("/spec/kafka/properties", json!({ key: "1" }))]);
    for allowed in [
        "max.poll.interval.ms",
        "session.timeout.ms",
        "fetch.wait.max.ms",
        "statistics.interval.ms",
    ] {
        assert!(with(allowed).is_empty(), "{allowed}");
    }
    for key in REFUSED_PROPERTIES {
        refused(&with(key), "`properties` must not set what the worker owns");
    }
}

#[test]
fn where_the_broker_assigns_it_also_sets_session_and_heartbeat() {
    let with = |protocol: &str, key: &str| {
        broken(&[
            ("/spec/kafka/groupProtocol", json!(protocol)),
            ("/spec/kafka/properties", json!({ key: "1" })),
        ])
    };
    for key in REFUSED_WITH_CONSUMER {
        assert!(with("Auto", key).is_empty() && with("Classic", key).is_empty());
        refused(&with("Consumer", key), "the broker sets them");
    }
    assert!(with("Consumer", "fetch.wait.max.ms").is_empty());
    assert!(broken(&[("/spec/kafka/groupProtocol", json!("Consumer"))]).is_empty());
}

#[test]
fn a_table_has_exactly_one_engine() {
    let engine = |engine: Value| broken(&[("/spec/table/engine", engine)]);
    let replacing = json!({ "versionColumn": "version" });
    assert!(engine(json!({ "mergeTree": {} })).is_empty());
    assert!(engine(json!({ "replacingMergeTree": replacing })).is_empty());
    refused(&engine(json!({})), "exactly one of");
    refused(
        &engine(json!({ "mergeTree": {}, "replacingMergeTree": replacing })),
        "exactly one of",
    );
}

#[test]
fn the_sorting_key_names_declared_columns() {
    let key = |names: Value| broken(&[("/spec/table/orderBy", names)]);
    assert!(key(json!(["ts", "id"])).is_empty());
    assert!(key(json!(["id", "_offset"])).is_empty());
    refused(
        &key(json!(["id", "lower(id)"])),
        "`orderBy` must name declared columns",
    );
    let without_metadata = [
        ("/spec/table/orderBy", json!(["_offset"])),
        ("/spec/table/metadataColumns", json!({ "mode": "None" })),
    ];
    refused(
        &broken(&without_metadata),
        "`orderBy` must name declared columns",
    );
}

#[test]
fn a_replacing_table_has_a_key() {
    refused(
        &broken(&[("/spec/table/orderBy", json!([]))]),
        "at least one column",
    );
    refused(
        &broken(&[("/spec/table/orderBy", Value::Null)]),
        "at least one column",
    );
    let plain = [
        ("/spec/table/engine", json!({ "mergeTree": {} })),
        ("/spec/table/orderBy", Value::Null),
    ];
    assert!(broken(&plain).is_empty());
}

#[test]
fn the_version_column_is_declared() {
    let version = |name: &str| {
        broken(&[(
            "/spec/table/engine/replacingMergeTree/versionColumn",
            json!(name),
        )])
    };
    assert!(version("ts").is_empty());
    refused(
        &version("missing"),
        "`versionColumn` must name a declared column",
    );
}

#[test]
fn metadata_columns_are_not_declared_twice() {
    let named = |name: &str| {
        (
            "/spec/table/columns/3",
            json!({ "name": name, "type": "UInt64" }),
        )
    };
    for name in METADATA_COLUMNS {
        refused(&broken(&[named(name)]), "`columns` must not declare");
    }
    assert!(broken(&[named("_key")]).is_empty());
    assert!(
        broken(&[
            named("_offset"),
            ("/spec/table/metadataColumns", json!({ "mode": "None" }))
        ])
        .is_empty()
    );
}

fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        walk(inner, &format!("{path}.{name}"), visit);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            walk(&schema[inner], &format!("{path}[]"), visit);
        }
    }
}

#[test]
fn every_number_list_map_and_text_is_bounded() {
    let mut unbounded = Vec::new();
    walk(
        &resource_schema()["properties"]["spec"],
        "spec",
        &mut |path, schema| {
            let needs: &[&str] = match schema["type"].as_str() {
                Some("integer") => &["minimum", "maximum"],
                Some("array") => &["maxItems", "x-kubernetes-list-type"],
                Some("string") if schema["enum"].is_null() => &["maxLength"],
                Some("object") if schema["additionalProperties"].is_object() => &["maxProperties"],
                _ => &[],
            };
            unbounded.extend(
                needs
                    .iter()
                    .filter(|key| schema[**key].is_null())
                    .map(|key| format!("{path}: {key}")),
            );
        },
    );
    assert_eq!(unbounded, Vec::<String>::new());
}

#[test]
fn every_field_has_a_sentence() {
    let mut silent = Vec::new();
    walk(
        &resource_schema()["properties"]["spec"],
        "spec",
        &mut |path, schema| {
            if !path.ends_with("[]")
                && !schema["description"]
                    .as_str()
                    .is_some_and(|text| text.ends_with('.'))
            {
                silent.push(path.to_owned());
            }
        },
    );
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn no_field_is_nullable_so_that_a_null_is_an_absent_field() {
    assert!(!resource_schema().to_string().contains("nullable"));
}

#[test]
fn every_rule_is_cheap_enough_for_the_api_server() {
    use kube::core::cel::{compile_schema, estimate_rule_cost};
    // What the API server allows one rule to cost by its estimate; the crate warns at a tenth of it.
    let limit = 10_000_000;
    let mut expensive = Vec::new();
    walk(resource_schema(), "", &mut |path, schema| {
        let compiled = compile_schema(schema);
        assert!(
            !compiled.has_errors(),
            "{path}: {:?}",
            compiled.compilation_errors()
        );
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            for warning in estimate_rule_cost(rule["rule"].as_str().unwrap(), &compiled) {
                let cost = warning
                    .message
                    .split(' ')
                    .nth(2)
                    .and_then(|word| word.parse::<u64>().ok());
                if cost.is_none_or(|cost| cost > limit) {
                    expensive.push(format!("{path}: {}", warning.message));
                }
            }
        }
    });
    assert_eq!(expensive, Vec::<String>::new());
}

#[test]
fn the_leaves_of_the_schema_are_listed() {
    insta::assert_snapshot!(schema_leaves().join("\n"));
}
