//! What goes with a sink, and what stays.

use std::time::{Duration, Instant};

use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::wait::eventually_eq;
use serde_json::json;

use crate::scene::{SOON, Scene, mark, wait_log, yaml};

const ALL: &str = "events,events_rejected,flat,other,other_rejected,twice,twice_mv";

/// A sink with everything, beside another one that stays in the file.
fn start(scene: &Scene, policy: &str) -> clickhouse_sink_tests::programs::LocalProcess {
    let derived = json!([{
        "name": "twice", "engine": { "mergeTree": {} }, "orderBy": ["id"], "select": "SELECT id, n * 2 AS twice FROM events",
    }]);
    let sink = scene
        .sink
        .clone()
        .set("derived", derived)
        .set("flatView", json!({ "name": "flat" }))
        .set("deletionPolicy", policy);
    let other = scene.another("other").set("table.name", "other");
    let local = scene.start("local", &[&sink, &other]);
    for name in [
        "events",
        "events_rejected",
        "twice",
        "twice_mv",
        "flat",
        "other_rejected",
    ] {
        scene.wait_rows(name, 1);
    }
    assert_eq!(scene.tables(), ALL);
    scene.produce(10);
    scene.expect_all();
    local.rewrite(&yaml(&[&other])).unwrap();
    local
}

#[test]
fn delete_drops_exactly_what_the_sink_made() {
    let scene = Scene::new("delete_all");
    let local = start(&scene, "Delete");
    let tables = || Ok(scene.tables());
    eventually_eq(SOON, "tables", &"other,other_rejected".to_owned(), tables).unwrap();
    let log = local.program.log();
    let at = |what: &str| {
        log.find(what)
            .unwrap_or_else(|| panic!("{what} is not in {log}"))
    };
    let names = [
        "`flat`",
        "`twice_mv`",
        "`twice`",
        "`events`",
        "`events_rejected`",
    ];
    let order = names.map(|name| at(&format!("{name} SYNC")));
    assert!(order.is_sorted(), "views before tables: {log}");
}

#[test]
fn retain_touches_nothing_and_neither_does_a_stop() {
    let scene = Scene::new("delete_retain");
    let mut local = start(&scene, "Retain");
    wait_log(&local, 0, &["Sink is gone from the files"]);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(scene.tables(), ALL);
    let scene = Scene::new("delete_stop");
    let sink = scene.sink.clone().set("deletionPolicy", "Delete");
    let mut local = scene.start("local", &[&sink]);
    scene.wait_rows("events", 1);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(scene.tables(), "events,events_rejected");
}

#[test]
fn an_adopted_table_is_never_dropped() {
    let scene = Scene::new("delete_adopted");
    scene.query(
        "CREATE TABLE events (id String, n UInt32, _topic LowCardinality(String), _partition UInt32, _offset UInt64, \
         _timestamp DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100000",
    );
    let sink = scene.sink.clone().set("deletionPolicy", "Delete");
    let other = scene.another("other").set("table.name", "other");
    let local = scene.start("local", &[&sink, &other]);
    scene.wait_rows("events_rejected", 1);
    scene.wait_rows("other", 1);
    local.rewrite(&yaml(&[&other])).unwrap();
    wait_log(&local, 0, &["A table is left."]);
    let tables = || Ok(scene.tables());
    eventually_eq(
        SOON,
        "tables",
        &"events,other,other_rejected".to_owned(),
        tables,
    )
    .unwrap();
}

#[test]
fn a_server_that_is_away_keeps_its_tables_and_the_sink_goes_all_the_same() {
    let scene = Scene::new("delete_away");
    let proxy = scene.env.clickhouse_proxy().unwrap();
    let sink = scene
        .sink
        .clone()
        .set("clickhouse.url", proxy.url())
        .set("deletionPolicy", "Delete");
    let other = scene.another("other").set("table.name", "other");
    let local = scene.start("local", &[&sink, &other]);
    scene.wait_rows("events", 1);
    proxy.set_on(Fault::Cut, On::All);
    let from = mark(&local);
    let started = Instant::now();
    local.rewrite(&yaml(&[&other])).unwrap();
    wait_log(&local, from, &["what this sink made is left"]);
    assert!(started.elapsed() < Duration::from_secs(80));
    assert!(scene.tables().starts_with("events,"));
}
