//! `auto`: what is missing is made, what may be changed is changed, while records keep coming.

use clickhouse_sink_tests::wait::eventually_eq;
use serde_json::json;

use crate::scene::{SOON, Scene, WINDOW, columns, mark, wait_log};

#[test]
fn a_column_that_is_declared_while_workers_run_is_added_and_filled_and_no_record_is_lost() {
    let mut scene = Scene::new("auto_column");
    let mut local = scene.start();
    scene.produce(&[r#""n": 1"#, r#""n": 2, "zone": "early""#]);
    scene.wait_done();
    let columns = json!([
        { "name": "id", "type": "String" },
        { "name": "n", "type": "UInt8" },
        { "name": "zone", "type": "LowCardinality(String)", "default": "'none'", "comment": "it's; new", "codec": "ZSTD(3)" },
    ]);
    let sink = scene.sink.clone().set("table.columns", columns);
    let from = mark(&local);
    scene.rewrite(&local, sink);
    scene.produce(&[r#""n": 3, "zone": "dock""#, r#""n": 4"#]);
    wait_log(&local, from, &["add column zone", "| Ready"]);
    scene.produce(&[r#""n": 5, "zone": "gate""#]);
    scene.wait_done();
    assert_eq!(
        scene.column("zone"),
        "LowCardinality(String)|\\'none\\'|it\\'s; new|CODEC(ZSTD(3))"
    );
    assert_eq!(scene.offsets(), "0,1,2,3,4");
    assert_eq!(scene.query("SELECT zone FROM events WHERE n = 5"), "gate");
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn comments_codecs_defaults_ttl_settings_and_indexes_follow_the_declaration() {
    let mut scene = Scene::new("auto_attributes");
    let local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    let columns = json!([
        { "name": "id", "type": "String", "codec": "ZSTD(2)", "comment": "key" },
        { "name": "n", "type": "UInt8", "default": "3 + 4" },
    ]);
    let sink = scene.sink.clone().set("table.columns", columns);
    let sink = sink
        .set("table.ttl", "toDateTime(_timestamp) + INTERVAL 4000 DAY")
        .set("table.settings", json!({ "merge_with_ttl_timeout": "7200", WINDOW: "200000" }))
        .set("table.indexes", json!([{ "name": "by n", "expression": "n + 1", "type": "set(100)", "granularity": 2 }]));
    let from = mark(&local);
    scene.rewrite(&local, sink.clone());
    wait_log(&local, from, &["add index by n", "| Ready"]);
    assert_eq!(scene.column("id"), "String||key|CODEC(ZSTD(2))");
    assert_eq!(scene.column("n"), "UInt8|3 + 4||");
    let full = "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'events'";
    let engine = scene.query(full);
    for part in [
        "TTL toDateTime(_timestamp) + toIntervalDay(4000)",
        "merge_with_ttl_timeout = 7200",
        &format!("{WINDOW} = 200000"),
    ] {
        assert!(engine.contains(part), "{part} is not in {engine}");
    }
    let indexes = "SELECT concat(name, '|', expr, '|', type_full, '|', toString(granularity)) FROM system.data_skipping_indices \
        WHERE database = currentDatabase()";
    assert_eq!(scene.query(indexes), "by n|n + 1|set(100)|2");
    // What left the declaration: rows no longer expire, the rest stays.
    let from = mark(&local);
    scene.rewrite(&local, sink.unset("table.ttl").unset("table.indexes"));
    wait_log(&local, from, &["remove the TTL", "| Ready"]);
    assert!(!scene.query(full).contains("TTL toDateTime"));
    assert_eq!(scene.query(indexes), "by n|n + 1|set(100)|2");
    scene.produce(&[r#""n": 2"#]);
    scene.wait_done();
    assert_eq!(scene.offsets(), "0,1");
}

#[test]
fn a_column_that_is_dropped_by_hand_comes_back_and_the_worker_goes_on_by_itself() {
    let scene = Scene::new("auto_dropped_column").set("table.recheckPeriodSeconds", 3600);
    let mut local = scene.start();
    let workers = local.wait_workers(1, SOON).unwrap();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    let from = mark(&local);
    scene.query("ALTER TABLE events DROP COLUMN n");
    scene.produce(&[r#""n": 2"#]);
    // The worker finds it by its failing INSERT, long before the recheck, and the operator looks at once.
    wait_log(&local, from, &["add column n"]);
    scene.wait_done();
    assert_eq!(
        scene.query("SELECT groupArray(n) FROM (SELECT n FROM events ORDER BY id)"),
        "[0,2]"
    );
    assert_eq!(local.workers(), workers);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_table_that_is_dropped_by_hand_is_made_again_with_a_warning_and_gets_what_comes_then() {
    let scene = Scene::new("auto_dropped").set("table.recheckPeriodSeconds", 3600);
    let local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    let uuid =
        "SELECT uuid FROM system.tables WHERE database = currentDatabase() AND name = 'events'";
    let before = scene.query(uuid);
    let from = mark(&local);
    scene.query("DROP TABLE events SYNC");
    scene.produce(&[r#""n": 2"#, r#""n": 3"#]);
    let log = wait_log(&local, from, &["Table was gone and was made again"]);
    assert!(log.contains("WARN"), "{log}");
    scene.wait_done();
    assert_ne!(scene.query(uuid), before);
    assert_eq!(scene.offsets(), "1,2");
    wait_log(&local, from, &["| Ready"]);
}

#[test]
fn a_window_that_is_lowered_by_hand_is_raised_again_at_the_recheck() {
    let scene = Scene::new("auto_window").set("table.recheckPeriodSeconds", 1);
    let _local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    scene.query(&format!("ALTER TABLE events MODIFY SETTING {WINDOW} = 7"));
    let read = format!(
        "SELECT extract(engine_full, '{WINDOW} = ([0-9]+)') FROM system.tables WHERE database = currentDatabase() AND name = 'events'"
    );
    eventually_eq(SOON, "the window", &"100000".to_owned(), || {
        Ok(scene.query(&read))
    })
    .unwrap();
}

#[test]
fn a_column_is_widened_only_with_the_policy_and_takes_larger_values_then() {
    let mut scene = Scene::new("auto_widen");
    let local = scene.start();
    scene.produce(&[r#""n": 1"#]);
    scene.wait_done();
    let wider = scene.sink.clone().set("table.columns", columns("UInt32"));
    let from = mark(&local);
    scene.rewrite(&local, wider.clone());
    let database = scene.query("SELECT currentDatabase()");
    let alter = format!("ALTER TABLE `{database}`.`events` MODIFY COLUMN `n` UInt32");
    wait_log(
        &local,
        from,
        &[
            "TableNotAsDeclared: n: expected UInt32, found UInt8; set `table.wideningPolicy: Mutate`",
            &alter,
        ],
    );
    assert_eq!(scene.column("n"), "UInt8|||");
    let from = mark(&local);
    scene.rewrite(&local, wider.set("table.wideningPolicy", "Mutate"));
    wait_log(&local, from, &["widen column n to UInt32", "| Ready"]);
    scene.produce(&[r#""n": 70000"#]);
    scene.wait_done();
    assert_eq!(
        scene.query("SELECT groupArray(n) FROM (SELECT n FROM events ORDER BY id)"),
        "[1,70000]"
    );
}
