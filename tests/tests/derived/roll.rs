//! How a changed configuration reaches the workers: one at a time, the next only once the one before is ready.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::wait::stays_eq;
use serde_json::{Value, json};

use crate::support::{SOON, Scene, wait_log};

fn with_note(scene: &Scene) -> Value {
    let mut columns = scene.sink.value()["spec"]["table"]["columns"].clone();
    let note = json!({ "name": "note", "type": "String", "default": "'none'" });
    columns.as_array_mut().unwrap().push(note);
    columns
}

fn pids(local: &LocalProcess) -> BTreeSet<i32> {
    local.workers().iter().map(|worker| worker.pid).collect()
}

/// Watches the workers until none of the old ones is left; how many there were at the least.
fn watch_roll(local: &LocalProcess, old: &BTreeSet<i32>) -> usize {
    let give_up = Instant::now() + SOON;
    let mut least = usize::MAX;
    loop {
        let now = pids(local);
        least = least.min(now.len());
        if now.len() == old.len() && now.is_disjoint(old) {
            return least;
        }
        assert!(Instant::now() < give_up, "{now:?} still has of {old:?}");
    }
}

#[test]
fn a_new_column_reaches_two_workers_one_by_one_under_flow_and_no_row_is_missed() {
    let scene = Scene::new("roll", 4).set("replicas", 2);
    let local = scene.local();
    local.wait_workers(2, SOON).unwrap();
    let flow = scene.flow(0);
    scene.wait_rows("events", 1_000);
    wait_log(&local, "workers 2/2");
    // Expand: old workers name their columns, so they are not disturbed.
    scene.query("ALTER TABLE events ADD COLUMN note String DEFAULT 'none' AFTER tags");
    let old = pids(&local);
    local
        .rewrite(
            &scene
                .with("table.columns", with_note(&scene))
                .yaml()
                .unwrap(),
        )
        .unwrap();
    assert!(watch_roll(&local, &old) >= 1);
    wait_log(&local, "workers 2/2");
    scene.wait_rows("events WHERE note = 'n'", 500);
    let before = flow.end();
    scene.wait_rows("events", before);
    // All that comes from now on was written by new workers.
    scene.produce(before..before + 100);
    scene.wait_rows("events", before + 100);
    let counts = format!(
        "SELECT count(), uniqExact(id), countIf(id >= {before} AND note = 'n'), countIf(note NOT IN ('n', 'none')) FROM events"
    );
    let all = before + 100;
    assert_eq!(scene.query(&counts), format!("{all}\t{all}\t100\t0"));
}

#[test]
fn an_unsafe_change_moves_nothing() {
    let scene = Scene::new("roll_unsafe", 2).set("replicas", 2);
    let local = scene.local();
    local.wait_workers(2, SOON).unwrap();
    scene.produce(0..100);
    scene.wait_rows("events", 100);
    let old = pids(&local);
    let mut columns = scene.sink.value()["spec"]["table"]["columns"].clone();
    columns[0]["type"] = "Int16".into();
    local
        .rewrite(&scene.with("table.columns", columns).yaml().unwrap())
        .unwrap();
    wait_log(&local, "TableNotAsDeclared");
    stays_eq(Duration::from_secs(3), "workers", &old, || Ok(pids(&local))).unwrap();
    scene.produce(100..200);
    scene.wait_rows("events", 200);
    assert_eq!(scene.query("SELECT type FROM system.columns WHERE database = currentDatabase() AND table = 'events' AND name = 'id'"), "UInt64");
}
