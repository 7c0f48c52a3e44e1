//! Every sentence about the catalog.
#![allow(
    clippy::disallowed_methods,
    reason = "what must not happen is watched for a while"
)]

use std::time::Duration;

use serde_json::json;

use crate::scene::{SOON, Scene, mark, wait_log};

/// Several rechecks.
const WATCHED: Duration = Duration::from_secs(4);

#[test]
fn each_table_and_view_has_a_row_with_its_uuid_and_an_unchanged_sink_adds_none() {
    let scene = Scene::new("catalog_rows");
    let derived = json!([{
        "name": "twice", "engine": { "mergeTree": {} }, "orderBy": ["id"], "select": "SELECT id, n * 2 AS twice FROM events",
    }]);
    let sink = scene
        .sink
        .clone()
        .set("derived", derived)
        .set("flatView", json!({ "name": "flat" }));
    let local = scene.start("local", &[&sink]);
    wait_log(&local, 0, &["| Ready"]);
    for name in ["events", "events_rejected", "twice", "twice_mv", "flat"] {
        scene.wait_rows(name, 1);
    }
    let kinds = "SELECT arrayStringConcat(groupArray(concat(name, ':', kind)), ',') FROM \
        (SELECT name, kind FROM clickhouse_sink_catalog WHERE kind != 'topic' ORDER BY name)";
    assert_eq!(
        scene.query(kinds),
        "events:table,events_rejected:dead letters,flat:flat view,twice:derived,twice_mv:materialized view"
    );
    let wrong = "SELECT count() FROM clickhouse_sink_catalog AS c JOIN system.tables AS t ON t.database = c.database AND t.name = c.name \
        WHERE c.uuid != toString(t.uuid) OR c.sink_name != 'events' OR c.definition = ''";
    assert_eq!(scene.query(wrong), "0");
    std::thread::sleep(WATCHED);
    for name in ["events", "events_rejected", "twice", "twice_mv", "flat"] {
        assert_eq!(scene.rows(name), 1, "{name}");
    }
    // Topics are told by the workers.
    scene.produce(3);
    scene.expect_all();
    let topics = "SELECT count() FROM clickhouse_sink_catalog WHERE kind = 'topic' AND uuid != '' AND definition = '1 partitions'";
    clickhouse_sink_tests::wait::eventually_eq(SOON, "rows of the topic", &"1".to_owned(), || {
        Ok(scene.query(topics))
    })
    .unwrap();
}

#[test]
fn a_table_that_is_dropped_and_made_again_shows_by_its_uuid() {
    let scene = Scene::new("catalog_again");
    let local = scene.start("local", &[&scene.sink]);
    scene.wait_rows("events", 1);
    scene.query("DROP TABLE events SYNC");
    wait_log(&local, 0, &["create table", "again, which is gone"]);
    scene.wait_rows("events", 2);
    assert_eq!(
        scene.query("SELECT uniqExact(uuid) FROM clickhouse_sink_catalog WHERE name = 'events' AND kind = 'table'"),
        "2"
    );
    // A change of the definition is a row too, of the same table.
    let zone = json!([
        { "name": "id", "type": "String" }, { "name": "n", "type": "UInt32" },
        { "name": "zone", "type": "String", "default": "'none'" },
    ]);
    let wider = scene.sink.clone().set("table.columns", zone);
    local.rewrite(&wider.yaml().unwrap()).unwrap();
    scene.wait_rows("events", 3);
}

#[test]
fn writes_that_are_refused_are_told_and_counted_while_rows_flow() {
    let scene = Scene::new("catalog_refused");
    let local = scene.start("local", &[&scene.sink]);
    scene.wait_rows("events", 1);
    scene.produce(50);
    scene.query("ALTER TABLE clickhouse_sink_catalog ADD CONSTRAINT shut CHECK name = ''");
    let zone = json!([
        { "name": "id", "type": "String" }, { "name": "n", "type": "UInt32" },
        { "name": "zone", "type": "String", "default": "'none'" },
    ]);
    let wider = scene.sink.clone().set("table.columns", zone);
    let from = mark(&local);
    local.rewrite(&wider.yaml().unwrap()).unwrap();
    scene.produce(50);
    let told = [
        "CatalogUnwritable",
        "2 writes into the catalog failed",
        "| Ready",
    ];
    wait_log(&local, from, &told);
    scene.produce(50);
    scene.expect_all();
    assert_eq!(scene.rows("events"), 1);
    scene.query("ALTER TABLE clickhouse_sink_catalog DROP CONSTRAINT shut");
    scene.wait_rows("events", 2);
}

#[test]
fn an_older_catalog_is_mended_by_auto_refused_by_validate_and_used_by_none() {
    let scene = Scene::new("catalog_older");
    scene.query(
        "CREATE TABLE clickhouse_sink_catalog (database String, name String, kind LowCardinality(String), uuid String, \
         sink_namespace String, sink_name String, sink_uid String, definition_fingerprint String, definition String, \
         recorded_at DateTime64(3, 'UTC')) ENGINE = ReplacingMergeTree(recorded_at) ORDER BY (database, name, uuid, definition_fingerprint)",
    );
    scene.query(
        "CREATE TABLE events (id String, n UInt32, _topic LowCardinality(String), _partition UInt32, _offset UInt64, \
         _timestamp DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100000",
    );
    let none = scene.sink.clone().set("table.ddl", "none");
    let validate = scene.sink.clone().set("table.ddl", "validate");
    let mut local = scene.start("local", &[&none]);
    wait_log(&local, 0, &["workers 1/1"]);
    std::thread::sleep(WATCHED);
    assert_eq!(
        scene.rows("events"),
        0,
        "none writes nothing into an older shape"
    );
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    let mut local = scene.start("local", &[&validate]);
    wait_log(&local, 0, &["CatalogOutdated"]);
    assert_eq!(scene.rows("events"), 0);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    let mut local = scene.start("local", &[&scene.sink]);
    scene.wait_rows("events", 1);
    let version = "SELECT operator_version != '' AND generation = 0 FROM clickhouse_sink_catalog WHERE name = 'events' LIMIT 1";
    assert_eq!(scene.query(version), "1");
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    scene.query("TRUNCATE TABLE clickhouse_sink_catalog");
    let _none = scene.start("local", &[&none]);
    scene.wait_rows("events", 1);
}
