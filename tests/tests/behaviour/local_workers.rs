//! Local mode while it runs: changed files, pauses, more and fewer workers.

use std::time::Duration;

use clickhouse_sink_tests::produce::stat_event;
use clickhouse_sink_tests::wait::{eventually_eq, stays_eq};
use serde_json::json;

use crate::local::wait_log;
use crate::support::{SOON, Scene};

fn wait_position(scene: &Scene) {
    eventually_eq(SOON, "position", &vec![Some(0)], || {
        scene.env.kafka().committed(&scene.group, &scene.topic)
    })
    .unwrap();
}

#[test]
fn a_changed_file_drains_the_worker_and_starts_it_with_the_new_configuration() {
    let scene = Scene::new("local_changed", 1).set("batch.lingerMilliseconds", 600_000);
    let mut local = scene.local(&[]);
    let before = local.wait_workers(1, SOON).unwrap();
    wait_log(&local, "| Ready");
    wait_position(&scene);
    scene.produce_events(3);
    wait_log(&local, "| lag 3 | Ready");
    stays_eq(Duration::from_secs(1), "count()", &0, || Ok(scene.count())).unwrap();
    let changed = scene
        .sink
        .clone()
        .set("batch.lingerMilliseconds", 50)
        .set("format.json.unknownFields", "Reject");
    local.rewrite(&changed.yaml().unwrap()).unwrap();
    scene.wait_committed(&[3]);
    eventually_eq(SOON, "the old worker is gone", &false, || {
        Ok(before[0].is_alive())
    })
    .unwrap();
    let after = local.wait_workers(1, SOON).unwrap();
    assert_ne!(after[0].pid, before[0].pid);
    scene.produce(
        0,
        [
            stat_event(0, 3),
            stat_event(0, 4).replacen('{', "{\"extra\": 1, ", 1),
        ],
    );
    scene.wait_committed(&[5]);
    assert_eq!(
        (
            scene.count(),
            scene.query("SELECT code FROM vision_events_rejected")
        ),
        (4, "UnknownField".to_owned())
    );
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_file_that_becomes_invalid_is_told_and_what_ran_before_goes_on() {
    let scene = Scene::new("local_broken", 1);
    let local = scene.local(&[]);
    let before = local.wait_workers(1, SOON).unwrap();
    wait_log(&local, "| Ready");
    local
        .rewrite(
            &scene
                .sink
                .yaml()
                .unwrap()
                .replace("lingerMilliseconds", "lingerMillisecond"),
        )
        .unwrap();
    wait_log(
        &local,
        "Changed files are invalid: what ran before goes on.",
    );
    wait_log(&local, "did you mean `lingerMilliseconds`?");
    scene.produce_events(2);
    scene.wait_committed(&[2]);
    let moved = scene
        .sink
        .clone()
        .set("table.name", "elsewhere")
        .set("table.engine", json!({ "mergeTree": {} }));
    local.rewrite(&moved.yaml().unwrap()).unwrap();
    wait_log(&local, "| ChangeRefused: ");
    wait_log(&local, "`name` cannot be changed");
    scene.produce(0, [stat_event(0, 2)]);
    scene.wait_count(3);
    assert_eq!(local.workers()[0].pid, before[0].pid);
    local.rewrite(&scene.sink.yaml().unwrap()).unwrap();
    let tables = "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name != 'clickhouse_sink_catalog'";
    assert_eq!(scene.query(tables), "2");
}

#[test]
fn a_paused_sink_drains_its_workers_and_goes_on_where_it_was() {
    let scene = Scene::new("local_paused", 1).set("batch.lingerMilliseconds", 600_000);
    let local = scene.local(&[]);
    local.wait_workers(1, SOON).unwrap();
    wait_position(&scene);
    scene.produce_events(3);
    wait_log(&local, "| lag 3 | Ready");
    local
        .rewrite(&scene.sink.clone().set("paused", true).yaml().unwrap())
        .unwrap();
    wait_log(&local, "workers 0/0");
    local.wait_workers(0, SOON).unwrap();
    wait_log(&local, "| Paused");
    assert_eq!((scene.count(), scene.committed()), (3, vec![Some(3)]));
    scene.produce(0, [stat_event(0, 3)]);
    stays_eq(Duration::from_secs(2), "workers", &0, || {
        Ok(local.workers().len())
    })
    .unwrap();
    local
        .rewrite(
            &scene
                .sink
                .clone()
                .set("batch.lingerMilliseconds", 100)
                .yaml()
                .unwrap(),
        )
        .unwrap();
    scene.wait_committed(&[4]);
    assert_eq!(scene.count(), 4);
}

#[test]
fn more_and_fewer_replicas_start_and_drain_workers_and_the_others_stay() {
    let scene = Scene::new("local_replicas", 2).set("replicas", 2);
    let mut local = scene.local(&[]);
    local.wait_workers(2, SOON).unwrap();
    wait_log(&local, "workers 2/2");
    eventually_eq(SOON, "members", &2, || {
        Ok(scene.env.kafka().group_members(&scene.group)?.len())
    })
    .unwrap();
    (0..2).for_each(|partition| scene.produce(partition, [stat_event(0, 0)]));
    scene.wait_committed(&[1, 1]);
    let before = local.workers();
    local
        .rewrite(&scene.sink.clone().set("replicas", 1).yaml().unwrap())
        .unwrap();
    let left = local.wait_workers(1, SOON).unwrap();
    assert!(
        before.iter().any(|worker| worker.pid == left[0].pid),
        "{before:?} {left:?}"
    );
    eventually_eq(SOON, "members", &1, || {
        Ok(scene.env.kafka().group_members(&scene.group)?.len())
    })
    .unwrap();
    (0..2).for_each(|partition| scene.produce(partition, [stat_event(0, 1)]));
    scene.wait_committed(&[2, 2]);
    local
        .rewrite(&scene.sink.clone().set("replicas", 0).yaml().unwrap())
        .unwrap();
    local.wait_workers(0, SOON).unwrap();
    wait_log(&local, "| ScaledToZero");
    assert_eq!(scene.count(), 4);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
}
