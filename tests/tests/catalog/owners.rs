//! Whose a table is.
#![allow(
    clippy::disallowed_methods,
    reason = "what must not happen is watched for a while"
)]

use std::time::Duration;

use crate::scene::{SOON, Scene, wait_log, yaml};

#[test]
fn a_second_sink_on_the_table_is_refused_with_the_others_name_and_touches_nothing() {
    let scene = Scene::new("owner_second");
    let first = scene.start("first", &[&scene.sink]);
    wait_log(&first, 0, &["| Ready"]);
    let comment = scene.comment("events");
    let other = scene.another("others").set("deletionPolicy", "Delete");
    let second = scene.start("second", &[&other]);
    wait_log(&second, 0, &["TableOwnedByOther", "default/events"]);
    assert_eq!(second.workers().len(), 0);
    scene.produce(20);
    scene.expect_all();
    // It is removed, and drops nothing.
    let elsewhere = scene.another("third").set("table.name", "elsewhere");
    second.rewrite(&yaml(&[&elsewhere])).unwrap();
    wait_log(&second, 0, &["Sink is gone from the files"]);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(scene.comment("events"), comment);
    let tables = scene.tables();
    assert!(tables.ends_with("events,events_rejected"), "{tables}");
    scene.produce(5);
    scene.expect_all();
}

#[test]
fn a_sink_of_the_same_place_takes_over_once_the_other_is_gone_from_the_files() {
    let scene = Scene::new("owner_successor");
    let mut local = scene.start("local", &[&scene.sink]);
    wait_log(&local, 0, &["| Ready"]);
    let other = scene.another("others");
    // Both in one file: the second is refused.
    local.rewrite(&yaml(&[&scene.sink, &other])).unwrap();
    wait_log(&local, 0, &["TableOwnedByOther"]);
    local.rewrite(&yaml(&[&other])).unwrap();
    wait_log(
        &local,
        0,
        &["default/others -> ", "record its owner in its comment"],
    );
    clickhouse_sink_tests::wait::eventually(SOON, "the successor is recorded", || {
        let comment = scene.comment("events");
        anyhow::ensure!(comment.contains("\"sink\":\"default/others\""), "{comment}");
        Ok(())
    })
    .unwrap();
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn another_place_takes_over_only_by_a_persons_word() {
    let scene = Scene::new("owner_adopt");
    let mut first = scene.start("first", &[&scene.sink]);
    wait_log(&first, 0, &["| Ready"]);
    assert_eq!(first.program.term_and_wait(SOON).unwrap(), 0);
    let mut second = scene.start("second", &[&scene.sink]);
    wait_log(
        &second,
        0,
        &["TableOwnedByOther", "clickhouse-sink.io/adopt"],
    );
    let log = second.program.log();
    let uid = log.split("clickhouse-sink.io/adopt: \"").nth(1).unwrap();
    let uid = uid.split('"').next().unwrap();
    let mut adopting = scene.sink.value().clone();
    adopting["metadata"]["annotations"] = serde_json::json!({ "clickhouse-sink.io/adopt": uid });
    second
        .rewrite(&serde_yaml::to_string(&adopting).unwrap())
        .unwrap();
    wait_log(&second, 0, &["workers 1/1", "| Ready"]);
    assert!(!scene.comment("events").contains(uid));
    scene.produce(10);
    scene.expect_all();
    assert_eq!(second.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_table_that_nobody_owns_is_adopted_and_the_users_text_stays() {
    let scene = Scene::new("owner_nobody");
    scene.query(
        "CREATE TABLE events (id String, n UInt32, _topic LowCardinality(String), _partition UInt32, _offset UInt64, \
         _timestamp DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100000 \
         COMMENT 'Ask Jo, it''s hers.'",
    );
    let local = scene.start("local", &[&scene.sink]);
    wait_log(&local, 0, &["record its owner", "| Ready"]);
    let comment = scene.comment("events");
    assert!(
        comment.starts_with("Ask Jo, it's hers.\n{\"clickhouse-sink\":"),
        "{comment}"
    );
    assert!(comment.contains("\"adopted\":true"), "{comment}");
}
