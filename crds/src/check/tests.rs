//! Each rule of the table check with a table that keeps it and one that breaks it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use super::*;
use crate::table::{ColumnDefinition, ObservedColumn};

fn column(name: &str, data_type: &str) -> ColumnDefinition {
    ColumnDefinition {
        name: name.into(),
        data_type: data_type.into(),
        default: None,
        comment: None,
        codec: None,
    }
}

fn expected() -> TableDefinition {
    TableDefinition {
        database: "ops".into(),
        name: "events".into(),
        engine: Engine::ReplacingMergeTree {
            version_column: "version".into(),
        },
        columns: vec![column("id", "String"), column("version", "UInt32")],
        order_by: vec!["id".into(), "version".into()],
        indexes: Vec::new(),
        cluster: None,
        partition_by: Some("toYYYYMM(ts)".into()),
        ttl: None,
        settings: BTreeMap::from([(DEDUPLICATION_WINDOW_SETTING.into(), "100000".into())]),
    }
}

fn found(name: &str, data_type: &str) -> ObservedColumn {
    ObservedColumn {
        name: name.into(),
        data_type: data_type.into(),
        default_kind: String::new(),
        default_expression: String::new(),
        comment: String::new(),
        compression_codec: String::new(),
    }
}

fn observed() -> ObservedTable {
    ObservedTable {
        uuid: "00000000-0000-0000-0000-000000000001".into(),
        engine: "ReplacingMergeTree".into(),
        engine_full: "ReplacingMergeTree(version) PARTITION BY toYYYYMM(ts) ORDER BY (id, version) SETTINGS non_replicated_deduplication_window = 100000, index_granularity = 8192".into(),
        sorting_key: "id, version".into(),
        partition_key: "toYYYYMM(ts)".into(),
        comment: String::new(),
        columns: vec![found("id", "String"), found("version", "UInt32")],
        indexes: Vec::new(),
        views: Vec::new(),
    }
}

/// The subjects of what differs, with `!` before those that stop writes.
fn subjects(change: impl FnOnce(&mut ObservedTable)) -> Vec<String> {
    let mut table = observed();
    change(&mut table);
    let differences = check_table(&expected(), &table);
    assert_eq!(
        may_write(&differences),
        differences.iter().all(|d| !d.blocks_writes)
    );
    differences
        .into_iter()
        .map(|d| format!("{}{}", if d.blocks_writes { "!" } else { "" }, d.subject))
        .collect()
}

#[test]
fn the_declared_table_has_no_difference() {
    assert!(check_table(&expected(), &observed()).is_empty());
}

#[test]
fn a_replicated_table_counts_as_its_plain_kind() {
    let replicated = subjects(|table| {
        table.engine = "ReplicatedReplacingMergeTree".into();
        table.engine_full = "ReplicatedReplacingMergeTree('/a', 'b', version) ORDER BY id SETTINGS \
            replicated_deduplication_window = 20000, replicated_deduplication_window_seconds = 604800"
            .into();
    });
    assert!(replicated.is_empty(), "{replicated:?}");
}

#[test]
fn another_engine_or_version_column_stops_writes() {
    assert_eq!(
        subjects(|table| table.engine = "MergeTree".into()),
        ["!engine"]
    );
    let other = subjects(|table| {
        table.engine_full = table.engine_full.replace("Tree(version)", "Tree(other)");
    });
    assert_eq!(other, ["!engine"]);
    let none =
        subjects(|table| table.engine_full = table.engine_full.replace("Tree(version)", "Tree"));
    assert_eq!(none, ["!engine"]);
}

#[test]
fn keys_are_compared_without_regard_to_spelling() {
    assert!(subjects(|table| table.sorting_key = "`id`,version".into()).is_empty());
    assert_eq!(
        subjects(|table| table.sorting_key = "version, id".into()),
        ["!sorting key"]
    );
    assert_eq!(
        subjects(|table| table.partition_key = String::new()),
        ["!partition key"]
    );
    assert!(subjects(|table| table.partition_key = "toYYYYMM( ts )".into()).is_empty());
}

#[test]
fn a_declared_column_must_be_there_with_its_type_or_a_wider_one() {
    assert!(subjects(|table| table.columns[1].data_type = "UInt64".into()).is_empty());
    assert_eq!(
        subjects(|table| table.columns[1].data_type = "UInt16".into()),
        ["!version"]
    );
    assert_eq!(subjects(|table| drop(table.columns.remove(0))), ["!id"]);
    assert_eq!(
        subjects(|table| table.columns[0].default_kind = "MATERIALIZED".into()),
        ["!id"]
    );
    assert!(subjects(|table| table.columns[0].default_kind = "DEFAULT".into()).is_empty());
}

#[test]
fn an_extra_column_must_do_without_us() {
    let with = |data_type: &str, kind: &str, expression: &str| {
        let mut extra = found("extra", data_type);
        extra.default_kind = kind.into();
        extra.default_expression = expression.into();
        subjects(|table| table.columns.push(extra))
    };
    assert_eq!(with("String", "", ""), ["!extra"]);
    // What does without us stays, and is told.
    assert_eq!(with("Nullable(String)", "", ""), ["extra"]);
    assert_eq!(with("String", "DEFAULT", "'x'"), ["extra"]);
    assert_eq!(with("Nullable(JSON)", "", ""), ["extra"]);
    assert_eq!(with("DateTime", "DEFAULT", "now()"), ["!extra"]);
    assert_eq!(with("UUID", "MATERIALIZED", "generateUUIDv4()"), ["!extra"]);
    assert!(with("DateTime", "ALIAS", "now()").is_empty());
}

#[test]
fn a_small_deduplication_window_is_a_warning() {
    let subject = "setting non_replicated_deduplication_window";
    let window = |text: &str| {
        subjects(|table| table.engine_full = table.engine_full.replace("= 100000", text))
    };
    assert_eq!(window("= 100"), [subject]);
    assert!(window("= 200000").is_empty());
    assert_eq!(
        subjects(|table| table.engine_full = "ReplacingMergeTree(version) ORDER BY id".into()),
        [subject]
    );
}

#[test]
fn everything_is_reported_at_once_with_what_to_do() {
    let mut table = observed();
    table.engine = "MergeTree".into();
    table.sorting_key = "id".into();
    table.columns[1].data_type = "Int32".into();
    table.columns.push(found("extra", "String"));
    insta::assert_yaml_snapshot!(check_table(&expected(), &table));
}
