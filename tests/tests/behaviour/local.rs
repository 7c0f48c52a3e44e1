//! Local mode from its start to its stop: the status line, several files, accounts, signals, exit codes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::ensure;
use clickhouse_sink_tests::produce::{produce_night_shift, stat_event};
use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::stack::clickhouse::WRITER;
use clickhouse_sink_tests::wait::{eventually, eventually_eq};
use serde_json::json;

use crate::support::{SOON, Scene, run_local};

/// Waits until the output holds this text.
pub(crate) fn wait_log(local: &LocalProcess, text: &str) {
    eventually(SOON, &format!("the output says {text:?}"), || {
        let log = local.program.log();
        ensure!(log.contains(text), "{log}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn local_makes_the_tables_moves_the_night_shift_and_shows_it_in_one_status_line() {
    let scene = Scene::new("local", 2);
    produce_night_shift(&scene.producer(), &scene.topic).unwrap();
    let mut local = scene.local(&[]);
    let workers = local.wait_workers(1, SOON).unwrap();
    scene.wait_committed(&[3, 3]);
    assert_eq!(
        scene.query("SELECT count(), (SELECT count() FROM vision_events FINAL) FROM vision_events"),
        "6\t5"
    );
    let line = format!(
        "default/events -> {}.vision_events | workers 1/1 | 6 rows, ",
        scene.database.name()
    );
    eventually(SOON, "the status line", || {
        let log = local.program.log();
        let found = log
            .lines()
            .any(|text| text.starts_with(&line) && text.ends_with("/s | lag 0 | Ready"));
        ensure!(found, "{log}");
        Ok(())
    })
    .unwrap();
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    assert!(!workers[0].is_alive());
    assert_eq!(scene.committed(), [Some(3), Some(3)]);
}

#[test]
fn a_rejected_record_is_counted_in_the_status_line() {
    let scene = Scene::new("local_rejected", 1);
    scene.produce(0, [stat_event(0, 0), "bad".to_owned(), "bad".to_owned()]);
    let local = scene.local(&[]);
    wait_log(&local, "| lag 0 | rejected 2 | Ready");
    let rejected = scene.rows("SELECT offset, code FROM vision_events_rejected ORDER BY offset");
    assert_eq!(
        rejected,
        [
            json!({ "offset": 1, "code": "NotJson" }),
            json!({ "offset": 2, "code": "NotJson" })
        ]
    );
}

#[test]
fn a_missing_field_takes_the_default_that_the_server_made_of_its_expression() {
    let scene = Scene::new("local_default", 1).columns(json!([
        { "name": "id", "type": "String" },
        { "name": "status", "type": "LowCardinality(String)", "default": "concat('ra', 'ised')" },
        { "name": "at", "type": "DateTime64(3, 'UTC')", "default": "toDateTime64('2026-03-14 01:02:03.004', 3, 'UTC')" },
        { "name": "count", "type": "UInt8", "default": "1 + 1", "onError": "Default" },
    ]));
    scene.produce(
        0,
        [
            r#"{"id": "a"}"#,
            r#"{"id": "b", "status": "s", "at": "2026-01-01T00:00:00Z", "count": 256}"#,
        ],
    );
    let _local = scene.local(&[]);
    scene.wait_committed(&[2]);
    let row =
        |id, status, at, count| json!({ "id": id, "status": status, "at": at, "count": count });
    let expected = [
        row("a", "raised", "2026-03-14 01:02:03.004", 2),
        row("b", "s", "2026-01-01 00:00:00.000", 2),
    ];
    assert_eq!(
        scene.rows("SELECT id, status, at, count FROM vision_events ORDER BY id"),
        expected
    );
}

#[test]
fn several_files_and_a_folder_run_each_their_sink_and_one_of_them_is_enough_to_stop_for() {
    let first = Scene::new("local_files", 1);
    let second = Scene::new("local_files_second", 1);
    let folder = first.dir.join("more");
    std::fs::create_dir_all(&folder).unwrap();
    let yaml = second
        .sink
        .yaml()
        .unwrap()
        .replace("name: events\n", "name: others\n");
    assert!(yaml.contains("name: others\n"), "{yaml}");
    std::fs::write(folder.join("others.yaml"), &yaml).unwrap();
    std::fs::write(folder.join("notes.txt"), "no YAML: [").unwrap();
    let mut local = first.local(&["-f", folder.to_str().unwrap()]);
    first.produce_events(2);
    second.produce_events(3);
    local.wait_workers(2, SOON).unwrap();
    first.wait_count(2);
    second.wait_count(3);
    wait_log(&local, "default/others -> ");
    std::fs::remove_file(folder.join("others.yaml")).unwrap();
    local.wait_workers(1, SOON).unwrap();
    first.produce(0, [stat_event(0, 2)]);
    first.wait_count(3);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn two_sinks_of_one_group_are_refused_with_2() {
    let scene = Scene::new("local_group", 1);
    let yaml = scene.sink.yaml().unwrap();
    let twin = yaml.replace("name: events\n", "name: twin\n");
    let (code, log) = run_local(
        &scene.dir,
        "sink",
        &format!("{yaml}---\n{twin}"),
        &["--once"],
    );
    assert_eq!(code, 2);
    assert!(
        log.contains("spec.kafka.groupId") && log.contains(&scene.group),
        "{log}"
    );
}

#[test]
fn an_account_comes_from_the_secret_and_a_wrong_one_is_mended_in_the_file() {
    let scene = Scene::new("local_account", 1);
    scene.create_tables();
    scene.produce_events(4);
    let wrong = scene
        .sink
        .clone()
        .credentials("account", (WRITER.0, "wrong-password"));
    let local = scene.local_on(&wrong, &[]);
    wait_log(&local, "ClickHouseUnauthenticated");
    assert_eq!(
        (local.workers().len(), scene.count(), scene.committed()),
        (0, 0, vec![None])
    );
    local
        .rewrite(
            &scene
                .sink
                .clone()
                .credentials("account", WRITER)
                .yaml()
                .unwrap(),
        )
        .unwrap();
    scene.wait_committed(&[4]);
    assert_eq!(scene.count(), 4);
    let user = "SELECT any(user) FROM system.query_log WHERE query_kind = 'Insert' AND has(databases, currentDatabase())";
    eventually_eq(SOON, "who has inserted", &WRITER.0.to_owned(), || {
        scene.database.client().flush_logs()?;
        scene.database.client().query(user)
    })
    .unwrap();
    let log = local.program.log();
    assert!(
        !log.contains("wrong-password") && !log.contains(WRITER.1),
        "{log}"
    );
    check_files(&local.state_dir);
}

/// Nobody else can read what is in the folder, and the password is in its own file alone.
fn check_files(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert!(
            mode.trailing_zeros() >= 6 || path.ends_with("lock"),
            "{}",
            path.display()
        );
        if path.is_dir() {
            check_files(&path);
        } else if path.file_name().is_some_and(|name| name != "password") {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains(WRITER.1), "{}", path.display());
        }
    }
}

#[test]
fn a_wrong_kafka_address_is_told_and_mended_in_the_file() {
    let scene = Scene::new("local_brokers", 1);
    scene.produce_events(2);
    let wrong = scene
        .sink
        .clone()
        .set("kafka.bootstrapServers", json!(["127.0.0.1:9"]));
    let local = scene.local_on(&wrong, &[]);
    wait_log(&local, "WorkersStarting: NotAMember");
    local.rewrite(&scene.sink.yaml().unwrap()).unwrap();
    scene.wait_committed(&[2]);
    assert_eq!(scene.count(), 2);
}

#[test]
fn a_stop_while_the_server_hangs_ends_with_3_and_the_next_start_inserts_what_was_left() {
    let scene = Scene::new("local_left", 1).set("shutdown.finalFlushTimeoutSeconds", 1);
    let mut local = scene.local(&[]);
    local.wait_workers(1, SOON).unwrap();
    scene.produce_events(1);
    scene.wait_committed(&[1]);
    scene.proxy.set_on(Fault::Hang, On::Inserts);
    let before = scene.table_inserts().len();
    scene.produce(0, [stat_event(0, 1), stat_event(0, 2)]);
    scene.wait_table_inserts(before + 1);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 3);
    assert_eq!(scene.committed(), [Some(1)]);
    scene.proxy.pass();
    let mut again = scene.local(&[]);
    scene.wait_committed(&[3]);
    assert_eq!(scene.count(), 3);
    assert_eq!(again.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn workers_end_in_order_when_local_is_killed() {
    let scene = Scene::new("local_killed", 1)
        .set("replicas", 2)
        .set("batch.lingerMilliseconds", 600_000);
    let mut local = scene.local(&[]);
    let workers = local.wait_workers(2, SOON).unwrap();
    eventually_eq(SOON, "position", &vec![Some(0)], || {
        scene.env.kafka().committed(&scene.group, &scene.topic)
    })
    .unwrap();
    scene.produce_events(3);
    local.program.kill().unwrap();
    eventually_eq(SOON, "workers that run", &0, || {
        Ok(workers.iter().filter(|worker| worker.is_alive()).count())
    })
    .unwrap();
    let rows = scene.count();
    // What they had read is flushed as at SIGTERM; what they had not is still in Kafka.
    assert_eq!(scene.committed(), [Some(i64::try_from(rows).unwrap())]);
}

#[test]
fn a_second_local_on_the_same_state_folder_is_refused_with_2() {
    let scene = Scene::new("local_twice", 1);
    let first = scene.local(&[]);
    first.wait_workers(1, SOON).unwrap();
    let (code, log) = run_local(&scene.dir, "sink", &scene.sink.yaml().unwrap(), &[]);
    assert_eq!(code, 2);
    assert!(log.contains("is in use by another process"), "{log}");
    assert_eq!(first.workers().len(), 1);
}
