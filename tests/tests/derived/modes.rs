//! What `validate` and `none` do with derived tables.

use clickhouse_sink_tests::wait::stays_eq;
use std::time::Duration;

use crate::support::{SOON, Scene, tags, wait_log};

const NAMES: &str = "SELECT arrayStringConcat(arraySort(groupArray(name)), ',') FROM system.tables WHERE database = currentDatabase() AND name != 'clickhouse_sink_catalog'";

#[test]
fn validate_makes_nothing_says_what_to_run_and_goes_on_once_it_is_there() {
    let scene = Scene::new("mode_validate", 1).set("derived", tags("one", "None"));
    // The tables as `auto` makes them, without derived ones.
    let mut maker = scene.local_on(&scene.sink.clone().unset("derived"));
    wait_log(&maker, "| Ready");
    assert_eq!(maker.program.term_and_wait(SOON).unwrap(), 0);
    let local = scene.local_on(&scene.with("table.ddl", "validate"));
    wait_log(&local, "create it: CREATE TABLE IF NOT EXISTS");
    wait_log(&local, "create it: CREATE MATERIALIZED VIEW IF NOT EXISTS");
    assert_eq!(scene.query(NAMES), "events,events_rejected");
    assert_eq!(local.workers().len(), 0);
    scene.query(
        "CREATE TABLE tags (id UInt64, at DateTime, tag String, rule String) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY id \
         SETTINGS non_replicated_deduplication_window = 100000",
    );
    scene.query("CREATE MATERIALIZED VIEW tags_mv TO tags AS SELECT id, at, arrayJoin(tags) AS tag, 'one' AS rule FROM events");
    scene.produce(0..50);
    scene.expect_exact(50);
}

#[test]
fn none_neither_makes_nor_changes() {
    let scene = Scene::new("mode_none", 1).set("derived", tags("one", "None"));
    let mut maker = scene.local();
    maker.wait_workers(1, SOON).unwrap();
    scene.produce(0..10);
    scene.expect_exact(10);
    assert_eq!(maker.program.term_and_wait(SOON).unwrap(), 0);
    let none = scene
        .with("table.ddl", "none")
        .set("derived", tags("other", "None"));
    let local = scene.local_on(&none);
    local.wait_workers(1, SOON).unwrap();
    scene.produce(10..20);
    scene.expect_exact(20);
    stays_eq(
        Duration::from_secs(3),
        "rows of the old SELECT",
        &40,
        || Ok(scene.made_by("one")),
    )
    .unwrap();
}
