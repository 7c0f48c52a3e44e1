//! Decisions of single rules; each rule's pair of files is the command's test.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};

use super::*;
use crate::api::tests::sink_with;

/// Rules that the sink breaks, the missing flat view and infos aside.
fn rules(changes: &[(&str, Value)]) -> Vec<&'static str> {
    let sink = serde_json::from_value(sink_with(changes)).unwrap();
    let findings = lint(&sink).into_iter();
    findings
        .filter(|finding| finding.severity == Severity::Warning)
        .map(|finding| finding.rule)
        .filter(|rule| *rule != names::REPLACING_WITHOUT_FLAT_VIEW)
        .collect()
}

fn columns(columns: &[(&str, &str)]) -> (&'static str, Value) {
    let columns = columns
        .iter()
        .map(|(name, data_type)| json!({ "name": name, "type": data_type }));
    ("/spec/table/columns", columns.collect())
}

const PLAIN: (&str, Value) = ("/spec/table/partitionBy", Value::Null);

fn key(names: &[&str]) -> (&'static str, Value) {
    ("/spec/table/orderBy", json!(names))
}

#[test]
fn names_are_unique_and_in_camel_case() {
    for (index, rule) in RULES.iter().enumerate() {
        assert!(RULES[..index].iter().all(|other| other.name != rule.name));
        assert!(
            rule.name.chars().all(char::is_alphanumeric),
            "{}",
            rule.name
        );
        assert!(rule.name.starts_with(char::is_uppercase), "{}", rule.name);
        assert!(
            !rule.why.is_empty() && !rule.why.ends_with('.'),
            "{}",
            rule.name
        );
    }
}

#[test]
fn a_key_holds_the_record_s_own_id_or_something_with_many_values() {
    let metrics = [
        ("sensor", "String"),
        ("ts", "DateTime64(3)"),
        ("version", "UInt32"),
    ];
    assert!(rules(&[PLAIN, columns(&metrics), key(&["sensor", "ts"])]).is_empty());
    let camera = [
        ("camera", "LowCardinality(String)"),
        ("ts", "DateTime64(3)"),
        ("version", "UInt32"),
    ];
    let found = rules(&[PLAIN, columns(&camera), key(&["camera", "ts"])]);
    assert_eq!(found, [names::KEY_WITHOUT_IDENTITY]);
    // The customer has an id; the order is what is to be told apart.
    let orders = [
        ("id", "UUID"),
        ("customer_id", "UInt64"),
        ("version", "UInt32"),
    ];
    let found = rules(&[PLAIN, columns(&orders), key(&["customer_id"])]);
    assert_eq!(found, [names::KEY_WITHOUT_IDENTITY]);
    assert!(rules(&[PLAIN, columns(&orders), key(&["customer_id", "id"])]).is_empty());
}

#[test]
fn the_table_s_own_id_is_known_by_the_table_s_name_and_by_its_field() {
    let events = [
        ("event_id", "String"),
        ("site_id", "String"),
        ("version", "UInt32"),
    ];
    let found = rules(&[PLAIN, columns(&events), key(&["site_id"])]);
    assert_eq!(found, [names::KEY_WITHOUT_IDENTITY]);
    let from = json!([
        { "name": "ref", "type": "String", "from": "id" },
        { "name": "site_id", "type": "String" },
        { "name": "version", "type": "UInt32" },
    ]);
    let found = rules(&[PLAIN, ("/spec/table/columns", from), key(&["site_id"])]);
    assert_eq!(found, [names::KEY_WITHOUT_IDENTITY]);
}

#[test]
fn a_version_in_the_key_is_a_history_where_a_derived_table_keeps_the_newest() {
    let history = [PLAIN, key(&["id", "version"])];
    assert_eq!(rules(&history), [names::VERSION_IN_KEY]);
    let derived = json!([{
        "name": "current",
        "engine": { "replacingMergeTree": { "versionColumn": "version" } },
        "orderBy": ["id"],
        "select": "SELECT id, version FROM events",
    }]);
    let [plain, key] = history;
    assert!(rules(&[plain, key, ("/spec/derived", derived)]).is_empty());
}

#[test]
fn a_plain_merge_tree_has_no_key_to_be_wrong() {
    let plain = ("/spec/table/engine", json!({ "mergeTree": {} }));
    assert!(rules(&[plain, key(&["ts", "_offset"])]).is_empty());
}

#[test]
fn versions_tie_by_their_type_by_their_default_or_by_what_replaces_them() {
    let version = |extra: Value| {
        let mut column = json!({ "name": "version", "type": "UInt32" });
        column
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        rules(&[PLAIN, ("/spec/table/columns/1", column)])
    };
    for good in [
        json!({}),
        json!({ "type": "DateTime64(3)" }),
        json!({ "default": "1", "onMissing": "Reject" }),
    ] {
        assert!(version(good.clone()).is_empty(), "{good}");
    }
    for bad in [
        json!({ "type": "Date" }),
        json!({ "type": "DateTime('UTC')" }),
        json!({ "type": "DateTime64(2)" }),
        json!({ "type": "UInt16" }),
        json!({ "default": "1" }),
        json!({ "onMissing": "Default" }),
        json!({ "onError": "Clamp" }),
    ] {
        assert_eq!(version(bad.clone()), [names::VERSION_NOT_STRICT], "{bad}");
    }
}

#[test]
fn a_batch_of_few_rows_has_few_partitions() {
    let by_day = [
        ("/spec/table/partitionBy", json!("toYYYYMMDD(ts)")),
        key(&["id", "ts"]),
    ];
    assert_eq!(rules(&by_day), [names::MANY_PARTITIONS]);
    let [partition_by, order_by] = by_day;
    assert!(
        rules(&[
            partition_by,
            order_by,
            ("/spec/batch", json!({ "maxRows": 100 }))
        ])
        .is_empty()
    );
}

#[test]
fn a_rule_is_silenced_by_its_name_and_never_where_the_sink_is_refused() {
    assert_eq!(check_allowed("VersionInKey"), Ok(()));
    assert_eq!(check_allowed("NoSink"), Ok(()));
    assert!(
        check_allowed("VersionInKeys")
            .unwrap_err()
            .contains("did you mean `VersionInKey`?")
    );
    assert!(
        check_allowed("NullableInKey")
            .unwrap_err()
            .contains("mend what it reports")
    );
}
