//! `auto`: what could lose something is refused, with what a person can do, and nothing is lost meanwhile.

use std::time::Duration;

use clickhouse_sink_tests::wait::stays_eq;

use crate::scene::{SOON, Scene, columns, mark, wait_log};

#[test]
fn a_column_that_is_narrowed_by_hand_holds_the_rows_until_it_is_mended_by_the_statement_that_is_told()
 {
    let scene = Scene::new("refused_narrow")
        .set("table.columns", columns("UInt32"))
        .set("table.recheckPeriodSeconds", 1);
    let mut local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    scene.query("ALTER TABLE events MODIFY COLUMN n UInt8 SETTINGS mutations_sync = 2");
    let from = mark(&local);
    scene.produce(&[r#""n": 300"#]);
    let log = wait_log(
        &local,
        from,
        &[
            "TableNotAsDeclared: n: expected UInt32, found UInt8",
            "run ALTER TABLE",
        ],
    );
    stays_eq(Duration::from_secs(3), "the position", &Some(1), || {
        Ok(scene.committed())
    })
    .unwrap();
    assert_eq!(scene.column("n"), "UInt8|||");
    let at = log.find("run ALTER TABLE").unwrap() + 4;
    let statement = log[at..].split(['"', '\n']).next().unwrap();
    scene.query(statement.split(" | ").next().unwrap().trim());
    scene.wait_done();
    assert_eq!(
        scene.query("SELECT groupArray(n) FROM (SELECT n FROM events ORDER BY id)"),
        "[1,300]"
    );
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn another_sorting_key_is_refused_the_table_is_not_touched_and_the_sink_goes_on_when_it_is_replaced()
 {
    let scene = Scene::new("refused_key").set("table.recheckPeriodSeconds", 1);
    scene.query("CREATE TABLE events (id String, n UInt8) ENGINE = MergeTree ORDER BY (n, id)");
    let before = scene.query("SHOW CREATE TABLE events");
    let local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    wait_log(
        &local,
        0,
        &[
            "sorting key: expected id, found n, id",
            "a key cannot be changed",
            "_offset: expected UInt64, found no such column",
        ],
    );
    stays_eq(Duration::from_secs(3), "the table", &before, || {
        Ok(scene.query("SHOW CREATE TABLE events"))
    })
    .unwrap();
    scene.query("RENAME TABLE events TO events_of_before");
    scene.wait_done();
    assert_eq!(scene.offsets(), "0");
    assert_eq!(
        scene.query("SHOW TABLES LIKE 'events_of_before'"),
        "events_of_before"
    );
}
