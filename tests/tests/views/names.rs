//! Something else has the view's name, or its comment was edited: it is left as it is, and data flows.

use clickhouse_sink_tests::wait::eventually_eq;

use crate::scene::{SOON, Scene, mark, wait_log};

fn produce_one(scene: &Scene) {
    scene.produce(0, r#"{"id": "a", "version": 1, "n": 7}"#);
    scene.producer.flush().unwrap();
    let count = || scene.database.client().count("events");
    eventually_eq(SOON, "rows", &1, count).unwrap();
}

#[test]
fn a_table_of_that_name_survives_with_its_rows_and_data_flows() {
    let scene = Scene::new("view_taken", 1);
    scene.query("CREATE TABLE flat (a UInt8) ENGINE = MergeTree ORDER BY a");
    scene.query("INSERT INTO flat VALUES (1), (2), (3)");
    let local = scene.start("local", &scene.sink);
    wait_log(&local, 0, &["| Ready", "NameTaken"]);
    produce_one(&scene);
    assert_eq!(scene.query("SELECT sum(a) FROM flat"), "6");
}

#[test]
fn a_foreign_view_and_a_materialized_view_are_left_alone() {
    let scene = Scene::new("view_foreign", 1);
    scene.query("CREATE VIEW flat AS SELECT 42 AS answer COMMENT 'a person''s'");
    let mut local = scene.start("local", &scene.sink);
    wait_log(&local, 0, &["| Ready", "NameTaken"]);
    produce_one(&scene);
    assert_eq!(scene.query("SELECT answer FROM flat"), "42");
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    scene.query("DROP VIEW flat");
    scene.query(
        "CREATE MATERIALIZED VIEW flat ENGINE = MergeTree ORDER BY n POPULATE AS SELECT n FROM events",
    );
    let local = scene.start("local", &scene.sink);
    wait_log(&local, 0, &["| Ready", "NameTaken"]);
    assert_eq!(scene.query("SELECT n FROM flat"), "7");
}

#[test]
fn a_comment_that_a_person_edited_is_left_until_the_view_is_dropped() {
    let scene = Scene::new("view_edited", 1);
    let local = scene.start("local", &scene.sink);
    wait_log(&local, 0, &["create flat view", "| Ready"]);
    let edited = format!("{} (ask Jo)", scene.comment());
    scene.query(&format!(
        "ALTER TABLE flat MODIFY COMMENT '{}'",
        edited.replace('\'', "\\'")
    ));
    wait_log(&local, 0, &["LineageUnreadable"]);
    produce_one(&scene);
    assert_eq!(scene.comment(), edited);
    let from = mark(&local);
    scene.query("DROP VIEW flat");
    wait_log(&local, from, &["create flat view"]);
    // What the catalog remembers goes on.
    assert!(
        scene
            .comment()
            .starts_with("{\"clickhouse-sink\":{\"view\":1,")
    );
}
