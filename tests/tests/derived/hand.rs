//! Tables and views that a person drops.

use serde_json::json;

use crate::support::{SOON, Scene, tags, wait_log};

#[test]
fn a_view_that_was_dropped_is_made_again_and_what_is_missing_is_told() {
    let scene = Scene::new("hand_view", 1).set("derived", tags("one", "None"));
    let local = scene.local();
    scene.produce(0..100);
    scene.expect_exact(100);
    scene.query("DROP TABLE tags_mv SYNC");
    wait_log(&local, "create materialized view");
    wait_log(&local, "again: it was gone");
    wait_log(
        &local,
        "rows that came while the view was gone are not in tags",
    );
    scene.wait_view("'one'");
    scene.produce(100..200);
    scene.expect_exact(200);
}

#[test]
fn a_table_that_was_dropped_is_made_again_and_rows_flow_on() {
    let scene = Scene::new("hand_table", 1).set("derived", tags("one", "None"));
    let local = scene.local();
    scene.produce(0..100);
    scene.expect_exact(100);
    scene.query("DROP TABLE tags SYNC");
    wait_log(&local, "derived table tags was gone");
    scene.produce(100..200);
    scene.wait_rows("tags", 200);
    let counts = "SELECT (SELECT count() FROM tags), (SELECT uniqExact(id, tag) FROM tags), (SELECT count() FROM events)";
    assert_eq!(scene.query(counts), "200\t200\t200");
}

#[test]
fn a_table_and_view_that_were_both_dropped_are_filled_anew() {
    let scene = Scene::new("hand_both", 1).set("derived", tags("one", "Once"));
    let local = scene.local();
    scene.produce(0..100);
    scene.expect_exact(100);
    scene.query("DROP TABLE tags_mv SYNC");
    scene.query("DROP TABLE tags SYNC");
    scene.wait_filled();
    scene.produce(100..200);
    scene.expect_exact(200);
    drop(local);
}

#[test]
fn what_has_the_name_of_the_view_is_left_and_told() {
    let scene = Scene::new("hand_taken", 1).set("derived", tags("one", "None"));
    scene.query("CREATE TABLE tags_mv (x UInt8) ENGINE = MergeTree ORDER BY x");
    scene.query("INSERT INTO tags_mv VALUES (7)");
    let local = scene.local();
    wait_log(&local, "NameTaken");
    assert_eq!(scene.query("SELECT x FROM tags_mv"), "7");
    assert_eq!(local.workers().len(), 0);
}

#[test]
fn a_derived_table_has_the_key_the_settings_and_the_ttl_that_are_declared() {
    let derived = json!([{
        "name": "tags",
        "engine": { "mergeTree": {} },
        "partitionBy": "toYYYYMM(at)",
        "orderBy": ["tag", "id"],
        "ttl": "at + INTERVAL 400 DAY",
        "settings": { "index_granularity": "1024" },
        "select": "SELECT id, at, arrayJoin(tags) AS tag, 'one' AS rule FROM events",
    }]);
    let scene = Scene::new("derived_attributes", 1).set("derived", derived);
    let local = scene.local();
    local.wait_workers(1, SOON).unwrap();
    assert_eq!(
        scene.query("SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'tags' FORMAT TSVRaw"),
        "MergeTree PARTITION BY toYYYYMM(at) ORDER BY (tag, id) TTL at + toIntervalDay(400) \
         SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 100000"
    );
}
