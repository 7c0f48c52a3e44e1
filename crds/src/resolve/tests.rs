//! The resolved configuration and tables.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::api::tests::sink_with;
use crate::table::Engine;
use crate::worker_config::OnDataLoss;

fn sink(changes: &[(&str, serde_json::Value)]) -> ClickHouseSink {
    serde_json::from_value(sink_with(changes)).unwrap()
}

fn inputs() -> ResolveInputs {
    ResolveInputs {
        uid: "6b1f0000-0000-5000-8000-000000000001".into(),
        default_group_id: "local.analytics.events".into(),
        ..ResolveInputs::default()
    }
}

#[test]
fn every_default_is_filled_in() {
    insta::assert_yaml_snapshot!(resolve(&sink(&[]), &inputs()));
}

#[test]
fn the_document_is_read_back_as_itself() {
    let config = resolve(&sink(&[]), &inputs());
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<WorkerConfig>(&text).unwrap(), config);
}

#[test]
fn a_sink_without_a_group_takes_the_one_it_is_given() {
    let config = resolve(
        &sink(&[("/spec/kafka/groupId", serde_json::Value::Null)]),
        &inputs(),
    );
    assert_eq!(config.kafka.group_id, "local.analytics.events");
}

#[test]
fn a_missing_value_becomes_the_default_null_or_a_reject() {
    let config = resolve(
        &sink(&[
            (
                "/spec/table/columns/0",
                json!({ "name": "id", "type": "String", "default": "'x'" }),
            ),
            (
                "/spec/table/columns/2",
                json!({ "name": "ts", "type": "Date", "onMissing": "Default" }),
            ),
        ]),
        &ResolveInputs {
            defaults_json: [("id".to_owned(), "\"x\"".to_owned())].into(),
            ..inputs()
        },
    );
    let found: Vec<_> = config
        .table
        .mapping
        .iter()
        .map(|m| (m.column.as_str(), m.on_missing))
        .collect();
    let expected = [
        ("id", OnMissing::Default),
        ("version", OnMissing::Reject),
        ("ts", OnMissing::Default),
        ("note", OnMissing::Null),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        config.table.mapping[0].default_json.as_deref(),
        Some("\"x\"")
    );
}

#[test]
fn a_path_and_an_alias_are_resolved() {
    let column = json!({ "name": "id", "type": "DECIMAL64(2)", "from": "a.\"b.c\"" });
    let config = resolve(&sink(&[("/spec/table/columns/0", column)]), &inputs());
    assert_eq!(config.table.mapping[0].path, ["a", "b.c"]);
    assert_eq!(config.table.mapping[0].data_type, "Decimal(18, 2)");
    assert_eq!(config.table.expected.columns[0].data_type, "Decimal(18, 2)");
}

#[test]
fn a_start_timestamp_becomes_milliseconds() {
    let at = [
        ("/spec/kafka/startFrom", json!("Timestamp")),
        (
            "/spec/kafka/startTimestamp",
            json!("1970-01-01T00:00:01.5Z"),
        ),
    ];
    assert_eq!(
        resolve(&sink(&at), &inputs()).kafka.start_from,
        StartFrom::TimestampMs(1500)
    );
}

#[test]
fn what_happens_at_a_loss_and_who_assigns_partitions_are_as_declared() {
    let kafka = |changes: &[(&str, serde_json::Value)]| resolve(&sink(changes), &inputs()).kafka;
    let plain = kafka(&[]);
    assert_eq!(
        (plain.on_data_loss, plain.group_protocol),
        (OnDataLoss::Hold, GroupProtocol::Classic)
    );
    let own = kafka(&[
        ("/spec/kafka/onDataLoss", json!("SkipAndRecord")),
        ("/spec/kafka/groupProtocol", json!("Consumer")),
    ]);
    assert_eq!(
        (own.on_data_loss, own.group_protocol),
        (OnDataLoss::SkipAndRecord, GroupProtocol::Consumer)
    );
    let classic = kafka(&[("/spec/kafka/groupProtocol", json!("Classic"))]);
    assert_eq!(classic.group_protocol, GroupProtocol::Classic);
}

#[test]
fn the_pace_keeps_parts_few_unless_there_is_no_linger() {
    let pace = |batch: serde_json::Value| {
        resolve(&sink(&[("/spec/batch", batch)]), &inputs())
            .batch
            .max_inserts_per_second
    };
    assert_eq!(pace(json!({})), 4);
    assert_eq!(pace(json!({ "lingerMilliseconds": 0 })), 50);
    assert_eq!(
        pace(json!({ "lingerMilliseconds": 0, "maxInsertsPerSecond": 7 })),
        7
    );
}

#[test]
fn the_share_of_rejected_records_is_as_declared() {
    let share = |value: serde_json::Value| {
        resolve(&sink(&[("/spec/deadLetter", value)]), &inputs())
            .dead_letter
            .max_rejected_percent
    };
    assert_eq!(
        (
            share(json!({})),
            share(json!({ "maxRejectedPercent": 100 }))
        ),
        (5, 100)
    );
}

#[test]
fn an_answer_to_a_hold_changes_nothing_that_workers_are_started_with() {
    let answer = json!([{ "partition": "events/0", "hold": "h", "action": "Retry" }]);
    let with = resolve(&sink(&[("/spec/resolutions", answer)]), &inputs());
    assert_eq!(with, resolve(&sink(&[]), &inputs()));
}

#[test]
fn a_table_without_checks_is_not_checked() {
    assert!(
        !resolve(&sink(&[("/spec/table/ddl", json!("none"))]), &inputs())
            .table
            .check
    );
    assert!(
        resolve(&sink(&[("/spec/table/ddl", json!("validate"))]), &inputs())
            .table
            .check
    );
}

#[test]
fn metadata_columns_come_last_or_not_at_all() {
    let with = expected_table(&sink(&[]));
    let names: Vec<_> = with
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "id",
            "version",
            "ts",
            "note",
            "_topic",
            "_partition",
            "_offset",
            "_timestamp"
        ]
    );
    let without = expected_table(&sink(&[(
        "/spec/table/metadataColumns",
        json!({ "mode": "None" }),
    )]));
    assert_eq!(without.columns.len(), 4);
}

#[test]
fn the_deduplication_window_is_ours_unless_the_sink_sets_one() {
    let window =
        |sink: &ClickHouseSink| expected_table(sink).settings[DEDUPLICATION_WINDOW_SETTING].clone();
    assert_eq!(window(&sink(&[])), "100000");
    let own = json!({ DEDUPLICATION_WINDOW_SETTING: "7" });
    assert_eq!(window(&sink(&[("/spec/table/settings", own)])), "7");
}

#[test]
fn the_rejected_table_has_a_name_of_its_own_and_readable_types() {
    let table = rejected_table(&sink(&[]));
    assert_eq!(table.name, "events_rejected");
    assert_eq!(
        table.engine,
        Engine::ReplacingMergeTree {
            version_column: "rejected_at".into()
        }
    );
    for column in &table.columns {
        assert_eq!(
            DataType::parse(&column.data_type).unwrap().to_string(),
            column.data_type
        );
    }
    for key in &table.order_by {
        assert!(
            table.columns.iter().any(|column| column.name == *key),
            "{key}"
        );
    }
    let named = sink(&[("/spec/deadLetter", json!({ "table": { "name": "bad" } }))]);
    assert_eq!(rejected_table(&named).name, "bad");
}
