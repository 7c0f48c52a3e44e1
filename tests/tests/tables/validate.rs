//! `validate` changes nothing and waits; `none` neither looks nor touches.

use std::time::Duration;

use clickhouse_sink_tests::wait::stays_eq;

use crate::scene::{SOON, Scene, WINDOW, mark, wait_log};

/// The table as `auto` would make it.
const CREATE: &str = "CREATE TABLE events (id String, n UInt8, _topic LowCardinality(String), _partition UInt32, _offset UInt64, \
    _timestamp DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100000";

/// Makes the tables as they are declared, then lets the sink only look.
fn validating(what: &str) -> Scene {
    let scene = Scene::new(what).set("table.recheckPeriodSeconds", 1);
    let mut local = scene.start();
    wait_log(&local, 0, &["| Ready"]);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    scene.set("table.ddl", "validate")
}

#[test]
fn a_table_that_is_dropped_is_held_by_operator_and_worker_and_goes_on_when_a_person_makes_it() {
    let scene = validating("validate_dropped");
    let local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    let from = mark(&local);
    scene.query("DROP TABLE events SYNC");
    scene.produce(&[r#""n": 2"#]);
    wait_log(
        &local,
        from,
        &[
            "TableNotAsDeclared: table ",
            "create it: CREATE TABLE IF NOT EXISTS",
        ],
    );
    stays_eq(Duration::from_secs(3), "the tables", &String::new(), || {
        Ok(scene.query("SHOW TABLES LIKE 'events'"))
    })
    .unwrap();
    assert_eq!(scene.committed(), Some(1));
    scene.query(CREATE);
    scene.wait_done();
    assert_eq!(scene.offsets(), "1");
    wait_log(&local, mark(&local), &["| Ready"]);
}

#[test]
fn a_column_that_is_dropped_is_told_with_the_statement_and_not_added() {
    let scene = validating("validate_column");
    let local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    let from = mark(&local);
    scene.query("ALTER TABLE events DROP COLUMN n");
    scene.produce(&[r#""n": 2"#]);
    let database = scene.query("SELECT currentDatabase()");
    let add = format!("ALTER TABLE `{database}`.`events` ADD COLUMN IF NOT EXISTS `n` UInt8");
    wait_log(
        &local,
        from,
        &["n: expected UInt8, found no such column", &add],
    );
    stays_eq(Duration::from_secs(3), "the column", &String::new(), || {
        Ok(scene.column("n"))
    })
    .unwrap();
    scene.query(&add);
    scene.wait_done();
    assert_eq!(scene.offsets(), "0,1");
}

#[test]
fn without_ddl_nothing_is_changed_and_a_window_that_is_too_small_is_told() {
    let scene = Scene::new("none_changes");
    scene.query(&CREATE.replace("100000", "5"));
    let before = scene.query("SHOW CREATE TABLE events");
    let scene = scene
        .set("table.ddl", "none")
        .set("table.ttl", "toDateTime(_timestamp) + INTERVAL 1 DAY")
        .set("table.recheckPeriodSeconds", 1);
    let local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    wait_log(
        &local,
        0,
        &[
            "DedupWindowTooSmall",
            &format!("MODIFY SETTING {WINDOW} = 100000"),
        ],
    );
    assert_eq!(scene.query("SHOW CREATE TABLE events"), before);
}
