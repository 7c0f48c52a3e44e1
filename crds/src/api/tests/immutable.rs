//! What may be changed in a resource, and what may not.

use super::*;

/// Change, add, remove, and remove-then-add of a field that cannot be changed.
fn immutable(pointer: &str, first: &Value, second: &Value, message: &str) {
    let set = |value: &Value| [(pointer.to_owned(), value.clone())];
    let borrow = |changes: &[(String, Value)]| {
        changes
            .iter()
            .map(|(p, v)| (p.clone(), v.clone()))
            .collect::<Vec<_>>()
    };
    let update = |old: &Value, new: &Value| {
        let (old, new) = (borrow(&set(old)), borrow(&set(new)));
        let view = |changes: &'_ [(String, Value)]| {
            sink_with(
                &changes
                    .iter()
                    .map(|(p, v)| (p.as_str(), v.clone()))
                    .collect::<Vec<_>>(),
            )
        };
        check_cel(&defaulted(view(&new)), Some(&defaulted(view(&old))))
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        update(first, first),
        Vec::<String>::new(),
        "{pointer} unchanged"
    );
    assert!(
        update(first, second)
            .iter()
            .any(|text| text.contains(message)),
        "{pointer} changed"
    );
}

#[test]
fn what_cannot_be_changed_is_refused_in_a_change() {
    immutable(
        "/spec/clickhouse/database",
        &json!("ops"),
        &json!("other"),
        "`database` cannot be changed",
    );
    immutable(
        "/spec/table/name",
        &json!("events"),
        &json!("other"),
        "`name` cannot be changed",
    );
    immutable(
        "/spec/table/partitionBy",
        &json!("toYYYYMM(ts)"),
        &json!("toDate(ts)"),
        "`partitionBy` cannot be changed",
    );
    immutable(
        "/spec/table/orderBy",
        &json!(["id"]),
        &json!(["id", "ts"]),
        "`orderBy` cannot be changed",
    );
    immutable(
        "/spec/kafka/groupId",
        &json!("ops"),
        &json!("other"),
        "`groupId` cannot be changed",
    );
    let replacing = |column: &str| json!({ "replacingMergeTree": { "versionColumn": column } });
    immutable(
        "/spec/table/engine",
        &replacing("version"),
        &replacing("ts"),
        "`engine` cannot be changed",
    );
    immutable(
        "/spec/table/engine",
        &replacing("version"),
        &json!({ "mergeTree": {} }),
        "`engine` cannot be changed",
    );
}

#[test]
fn what_cannot_be_changed_cannot_be_removed_or_added_either() {
    // Remove-then-add is refused at its first step, add-then-remove too.
    let plain = ("/spec/table/engine", json!({ "mergeTree": {} }));
    for (pointer, value, message) in [
        (
            "/spec/kafka/groupId",
            json!("ops"),
            "`groupId` cannot be changed",
        ),
        (
            "/spec/table/partitionBy",
            json!("toYYYYMM(ts)"),
            "`partitionBy` cannot be changed",
        ),
        (
            "/spec/table/orderBy",
            json!(["id"]),
            "`orderBy` cannot be changed",
        ),
    ] {
        let with = [plain.clone(), (pointer, value)];
        let without = [plain.clone(), (pointer, Value::Null)];
        refused(&broken_by_update(&with, &without), message);
        refused(&broken_by_update(&without, &with), message);
        assert!(broken_by_update(&without, &without).is_empty(), "{pointer}");
    }
}

#[test]
fn what_may_be_changed_is_changed() {
    let new = [
        ("/spec/replicas", json!(3)),
        ("/spec/paused", json!(true)),
        ("/spec/kafka/topics", json!(["a", "b"])),
        ("/spec/table/ttl", json!("ts + INTERVAL 1 DAY")),
        ("/spec/clickhouse/url", json!("http://other:8123")),
    ];
    assert_eq!(broken_by_update(&[], &new), Vec::<String>::new());
}
