//! Derived tables, the flat view, indexes and codecs, and the rule that each violation names.

use super::*;

fn derived(extra: Value) -> (&'static str, Value) {
    let mut derived = json!({
        "name": "current",
        "engine": { "replacingMergeTree": { "versionColumn": "version" } },
        "orderBy": ["id"],
        "select": "SELECT id, version, ts FROM events",
    });
    for (key, value) in extra.as_object().unwrap() {
        derived[key] = value.clone();
    }
    ("/spec/derived", json!([derived]))
}

#[test]
fn what_a_sink_makes_has_names_of_its_own() {
    let view = |name: &str| ("/spec/flatView", json!({ "name": name }));
    accepted(&[derived(json!({})), view("events_flat")]);
    for name in ["events", "current", "current_mv"] {
        let found = violations(&[derived(json!({})), view(name)]);
        assert_eq!(found.len(), 1, "once, by CEL: {found:?}");
    }
    refused(
        &[derived(json!({})), view("events_rejected")],
        &["spec.flatView.name", "`events_rejected`", "rename one"],
    );
    refused(&[derived(json!({ "name": "events" }))], &["spec.derived: "]);
    for name in ["events_rejected", "clickhouse_sink_catalog"] {
        refused(
            &[derived(json!({ "name": name }))],
            &["spec.derived[0].name", &format!("`{name}`")],
        );
    }
}

#[test]
fn a_select_is_one_and_reads_the_table() {
    for select in [
        "WITH 1 AS one SELECT id, version, one FROM `events`",
        "select * from events",
    ] {
        accepted(&[derived(json!({ "select": select }))]);
    }
    for (select, part) in [
        (
            "SELECT id, version FROM events; DROP TABLE x",
            "a semicolon",
        ),
        ("SELECT id, version FROM events -- x", "a comment"),
        (
            "INSERT INTO events SELECT id, version",
            "begin it with SELECT",
        ),
        ("SELECT id, version FROM other", "`FROM events` once"),
    ] {
        refused(
            &[derived(json!({ "select": select }))],
            &["spec.derived[0].select", part],
        );
    }
}

#[test]
fn keys_of_a_derived_table_are_columns_of_its_select() {
    accepted(&[derived(
        json!({ "orderBy": ["ts", "id"], "partitionBy": "toYYYYMM(ts)" }),
    )]);
    refused(
        &[derived(json!({ "orderBy": ["id", "note"] }))],
        &["spec.derived[0].orderBy[1]", "`note`"],
    );
    refused(
        &[derived(json!({ "partitionBy": "toYYYYMM(at)" }))],
        &["spec.derived[0].partitionBy", "`at`"],
    );
    refused(
        &[derived(json!({ "select": "SELECT id FROM events" }))],
        &["spec.derived[0].engine.replacingMergeTree.versionColumn"],
    );
    refused(
        &[derived(json!({ "orderBy": ["id", "id"] }))],
        &["spec.derived[0].orderBy[1]", "again"],
    );
}

#[test]
fn texts_of_a_derived_table_cannot_leave_their_place() {
    accepted(&[derived(
        json!({ "ttl": "ts + INTERVAL 1 DAY", "settings": { "index_granularity": "1024" } }),
    )]);
    refused(
        &[derived(json!({ "ttl": "ts) SETTINGS (a" }))],
        &["spec.derived[0].ttl"],
    );
    refused(
        &[derived(json!({ "partitionBy": "toYYYYMM(now())" }))],
        &["spec.derived[0].partitionBy", "`now()`"],
    );
    refused(
        &[derived(json!({ "settings": { "A": "1" } }))],
        &["spec.derived[0].settings.A"],
    );
}

#[test]
fn columns_of_a_flat_view_are_those_of_its_source_or_expressions() {
    let view = |source: Value, columns: Value| {
        let view = json!({ "name": "flat", "source": source, "columns": columns });
        [derived(json!({})), ("/spec/flatView", view)]
    };
    let age = json!([{ "name": "age", "expression": "now() - ts" }]);
    accepted(&view(json!("events"), age));
    accepted(&view(json!("current"), json!([{ "name": "version" }])));
    accepted(&view(
        json!("events"),
        json!([{ "name": "note" }, { "name": "_offset" }]),
    ));
    refused(
        &view(json!("events"), json!([{ "name": "nothing" }])),
        &["spec.flatView.columns[0].name", "a column of `events`"],
    );
    refused(
        &view(json!("current"), json!([{ "name": "note" }])),
        &["a column of `current`"],
    );
    let two = json!([{ "name": "x", "expression": "1; SELECT 2" }]);
    refused(
        &view(json!("events"), two),
        &["spec.flatView.columns[0].expression", "a semicolon"],
    );
}

#[test]
fn indexes_and_codecs_are_screened() {
    let index = |expression: &str, index_type: &str| {
        let index = json!({ "name": "i", "expression": expression, "type": index_type });
        ("/spec/table/indexes", json!([index]))
    };
    for index_type in [
        "minmax",
        "set(100)",
        "tokenbf_v1(256, 2, 0)",
        "text(tokenizer = 'default')",
    ] {
        accepted(&[index("lower(id)", index_type)]);
    }
    refused(
        &[index("id", "set(100), x")],
        &["spec.table.indexes[0].type"],
    );
    refused(
        &[index("id", "set(1)) x (2)")],
        &["spec.table.indexes[0].type"],
    );
    refused(
        &[index("now()", "minmax")],
        &["spec.table.indexes[0].expression", "`now()`"],
    );
    let twice = json!([
        { "name": "i", "expression": "id", "type": "minmax" },
        { "name": "i", "expression": "ts", "type": "minmax" },
    ]);
    refused(&[("/spec/table/indexes", twice)], &["`i` again"]);
    for codec in [
        "ZSTD(1)",
        "Delta(8), ZSTD(1)",
        "NONE",
        "T64('bit'),LZ4HC(9)",
    ] {
        accepted(&[column(json!({ "codec": codec }))]);
    }
    for codec in [
        "ZSTD(1); DROP",
        "ZSTD(1)) TTL (ts",
        "ZSTD(",
        "1",
        "ZSTD(1) DEFAULT 1",
    ] {
        refused(&[column(json!({ "codec": codec }))], &["columns[3].codec"]);
    }
}

#[test]
fn each_violation_names_its_rule() {
    let rule = |changes: &[(&str, Value)]| {
        let sink = serde_json::from_value(sink_with(changes)).unwrap();
        let rules = validate(&sink)
            .iter()
            .map(|violation| violation.rule)
            .collect::<Vec<_>>();
        rules.join(",")
    };
    assert_eq!(rule(&[("/spec/replicas", json!(101))]), "Schema");
    assert_eq!(rule(&[("/spec/table/orderBy", json!(["nope"]))]), "CelRule");
    assert_eq!(
        rule(&[("/spec/table/orderBy", json!(["id", "note"]))]),
        "NullableInKey"
    );
    assert_eq!(
        rule(&[column(json!({ "default": "now()" }))]),
        "VolatileDefault"
    );
    let volatile = json!("toYYYYMM(today())");
    assert_eq!(
        rule(&[("/spec/table/partitionBy", volatile)]),
        "VolatileExpression"
    );
    assert_eq!(rule(&[column(json!({ "type": "Strin" }))]), "InvalidValue");
}
