//! Rejected records on their way back: after the mapping is mended, once, whatever happens in between.

use std::fs;
use std::process::Output;

use clickhouse_sink_tests::paths;
use clickhouse_sink_tests::process::managed_command;
use clickhouse_sink_tests::produce::stat_event;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::eventually;
use serde_json::{Value, json};

use crate::support::{SOON, Scene, event_with};

/// A record whose version is text: rejected, until the column is mended with `onError: Clamp` or another path.
fn wrong(id: &str) -> String {
    event_with(id, "version", "\"two\"")
}

/// A scene with two good records and so many wrong ones behind them, all settled, and no worker left.
fn rejected_scene(what: &str, wrong_records: i64) -> Scene {
    let scene = Scene::new(what, 1).set("deadLetter.maxRejectedPercent", 100);
    let good = [stat_event(0, 0), stat_event(0, 1)];
    scene.produce(
        0,
        good.into_iter()
            .chain((0..wrong_records).map(|index| wrong(&format!("w{index}")))),
    );
    let mut worker = scene.start();
    scene.wait_committed(&[2 + wrong_records]);
    worker.program.term_and_wait(SOON).unwrap();
    assert_eq!(scene.count(), 2);
    scene
}

/// The sink with a version that takes its default where the value does not fit.
fn mended(scene: &Scene) -> SinkBuilder {
    let mut columns = scene.sink.value()["spec"]["table"]["columns"].clone();
    for column in columns.as_array_mut().unwrap() {
        if column["name"] == "version" {
            column["onError"] = json!("Default");
        }
    }
    scene.sink.clone().set("table.columns", columns)
}

fn replay(scene: &Scene, sink: &SinkBuilder, args: &[&str]) -> Output {
    let file = scene.dir.join("replay.yaml");
    fs::write(&file, sink.yaml().unwrap()).unwrap();
    let mut command = managed_command(paths::binary("clickhouse-sink-operator").unwrap());
    command.arg("replay").arg("-f").arg(&file).args(args);
    command.arg("--state-dir").arg(scene.dir.join("state"));
    let worker = paths::binary("clickhouse-sink-worker").unwrap();
    command.arg("--worker-bin").arg(worker);
    command.output().unwrap()
}

/// Replays to a good end; what it prints.
fn replayed(scene: &Scene, sink: &SinkBuilder, args: &[&str]) -> String {
    let output = replay(scene, sink, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn open(scene: &Scene) -> Vec<Value> {
    scene.rows(
        "SELECT offset, code FROM vision_events_rejected FINAL WHERE replayed_at IS NULL ORDER BY offset",
    )
}

#[test]
fn rejected_records_are_rows_once_their_mapping_is_mended_and_twice_changes_nothing() {
    let scene = rejected_scene("replay", 3);
    let sink = mended(&scene);
    assert_eq!(
        replayed(&scene, &sink, &[]),
        "3 replayed, 0 already there, 0 still rejected"
    );
    let offsets =
        "SELECT groupArray(_offset) FROM (SELECT _offset FROM vision_events ORDER BY _offset)";
    assert_eq!(scene.query(offsets), "[0,1,2,3,4]");
    assert_eq!(open(&scene), Vec::<Value>::new());
    // Nothing of what was rejected is lost: payload, key, headers and reason are as before.
    let kept = "SELECT count(), countIf(replayed_at >= rejected_at), uniq(code), countIf(payload LIKE '%\"two\"%') FROM vision_events_rejected FINAL";
    assert_eq!(scene.query(kept), "3\t3\t1\t3");
    assert_eq!(
        replayed(&scene, &sink, &[]),
        "0 replayed, 0 already there, 0 still rejected"
    );
    assert_eq!(scene.query(offsets), "[0,1,2,3,4]");
    assert!(
        fs::read_dir(scene.dir.join("state/default.events"))
            .unwrap()
            .next()
            .is_none(),
        "a replay leaves no files behind"
    );
}

#[test]
fn a_record_that_is_still_no_row_stays_open_with_its_new_reason() {
    let scene = rejected_scene("replay_again", 1);
    scene.produce(0, [event_with("late", "ts", "\"yesterday\"")]);
    let mut worker = scene.start();
    scene.wait_committed(&[4]);
    worker.program.term_and_wait(SOON).unwrap();
    let before =
        json!([{ "offset": 2, "code": "WrongType" }, { "offset": 3, "code": "BadTimestamp" }]);
    assert_eq!(json!(open(&scene)), before);
    let strict = scene.sink.clone().set("format.maxRecordBytes", "10");
    assert_eq!(
        replayed(&scene, &strict, &[]),
        "0 replayed, 0 already there, 2 still rejected"
    );
    let larger = json!([{ "offset": 2, "code": "TooLarge" }, { "offset": 3, "code": "TooLarge" }]);
    assert_eq!(json!(open(&scene)), larger);
    assert_eq!(
        replayed(&scene, &mended(&scene), &[]),
        "1 replayed, 0 already there, 1 still rejected"
    );
    assert_eq!(
        json!(open(&scene)),
        json!([{ "offset": 3, "code": "BadTimestamp" }])
    );
    assert_eq!(scene.count(), 3);
}

#[test]
fn only_the_reason_and_the_time_that_are_asked_for_are_replayed() {
    let scene = rejected_scene("replay_filter", 2);
    let sink = mended(&scene);
    let nothing = "0 replayed, 0 already there, 0 still rejected";
    assert_eq!(
        replayed(&scene, &sink, &["--reason", "BadTimestamp"]),
        nothing
    );
    assert_eq!(
        replayed(&scene, &sink, &["--since", "2999-01-01T00:00:00Z"]),
        nothing
    );
    let since = ["--reason", "WrongType", "--since", "2020-01-01T00:00:00Z"];
    assert_eq!(
        replayed(&scene, &sink, &since),
        "2 replayed, 0 already there, 0 still rejected"
    );
    let wrong = replay(&scene, &sink, &["--since", "yesterday"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("RFC 3339"));
}

#[test]
fn a_record_that_the_table_has_is_marked_and_not_inserted_again() {
    let scene = rejected_scene("replay_there", 2);
    scene.query(
        "INSERT INTO vision_events SELECT * REPLACE (2 AS _offset, assumeNotNull((SELECT timestamp FROM vision_events_rejected \
         WHERE offset = 2)) AS _timestamp) FROM (SELECT * FROM vision_events WHERE _offset = 0)",
    );
    assert_eq!(
        replayed(&scene, &mended(&scene), &[]),
        "1 replayed, 1 already there, 0 still rejected"
    );
    assert_eq!(
        scene.query("SELECT count(), uniqExact(_offset) FROM vision_events"),
        "4\t4"
    );
    assert_eq!(open(&scene), Vec::<Value>::new());
}

#[test]
fn a_replay_that_is_killed_in_the_middle_goes_on_and_every_record_is_one_row() {
    let scene = rejected_scene("replay_killed", 6);
    let sink = mended(&scene);
    // The server takes a row and the answer is lost: the worst moment to die at.
    let insert = format!("INSERT INTO `{}`.`vision_events` ", scene.database.name());
    scene.proxy.set_on(Fault::DropReply, On::Containing(insert));
    let before = scene.table_inserts().len();
    let file = scene.dir.join("killed.yaml");
    fs::write(&file, sink.yaml().unwrap()).unwrap();
    let mut command = managed_command(paths::binary("clickhouse-sink-operator").unwrap());
    command.arg("replay").arg("-f").arg(&file);
    command.arg("--state-dir").arg(scene.dir.join("state"));
    let worker = paths::binary("clickhouse-sink-worker").unwrap();
    command.arg("--worker-bin").arg(worker);
    let child = clickhouse_sink_tests::process::spawn("replay", command).unwrap();
    eventually(SOON, "an INSERT of the replay", || {
        anyhow::ensure!(scene.table_inserts().len() > before);
        Ok(())
    })
    .unwrap();
    child.id().end();
    scene.proxy.pass();
    let text = replayed(&scene, &sink, &[]);
    assert!(text.ends_with(", 0 still rejected"), "{text}");
    assert_eq!(
        scene.query("SELECT count(), uniqExact(_offset) FROM vision_events"),
        "8\t8"
    );
    assert_eq!(open(&scene), Vec::<Value>::new());
}

#[test]
fn without_metadata_columns_nothing_is_replayed_and_it_says_why() {
    let scene = Scene::new("replay_blind", 1).set("table.metadataColumns.mode", "None");
    scene.create_tables();
    assert_eq!(
        replayed(&scene, &scene.sink, &[]),
        "0 replayed, 0 already there, 0 still rejected"
    );
    scene.query(
        "INSERT INTO vision_events_rejected (topic, kind, payload) VALUES ('t', 'record', '{}')",
    );
    let output = replay(&scene, &scene.sink, &[]);
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(log.contains("metadataColumns.mode: None"), "{log}");
}
