//! Expand, roll, promote: a column comes while two workers write, and the view shows it last.
#![allow(
    clippy::disallowed_methods,
    reason = "a stream is paced, and what must not happen is watched, by sleeping"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clickhouse_sink_tests::wait::eventually_eq;
use serde_json::json;

use crate::scene::{SOON, Scene, columns, mark, wait_log};

/// Produces from now on to both partitions, each record with its zone, until told to stop; gives how many.
fn flow(scene: &Scene) -> (Arc<AtomicBool>, Arc<AtomicU64>, std::thread::JoinHandle<()>) {
    let (stop, count) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let producer = scene.env.producer().unwrap();
    let topic = scene.topic.clone();
    let (told, counted) = (Arc::clone(&stop), Arc::clone(&count));
    let thread = std::thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            let index = counted.load(Ordering::Relaxed);
            let record = format!(
                r#"{{"id": "{index:08}", "version": 1, "n": {index}, "zone": "z{index}"}}"#
            );
            let partition = i32::try_from(index % 2).unwrap();
            producer.send_json(&topic, partition, &record).unwrap();
            counted.store(index + 1, Ordering::Relaxed);
            if index % 50 == 0 {
                producer.flush().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        producer.flush().unwrap();
    });
    (stop, count, thread)
}

#[test]
fn a_column_with_a_default_comes_under_flow_and_the_view_shows_it_when_both_workers_write_it() {
    let scene = Scene::new("view_roll", 2);
    let sink = scene.sink.clone().set("replicas", 2);
    let local = scene.start("local", &sink);
    wait_log(&local, 0, &["create flat view", "workers 2/2", "| Ready"]);
    let before = scene.columns();
    let (stop, count, thread) = flow(&scene);
    std::thread::sleep(Duration::from_secs(3));
    let zone = json!({ "name": "zone", "type": "String", "default": "'none'" });
    let wider = sink.set("table.columns", columns(&[zone]));
    let old_workers = local.workers();
    local.rewrite(&wider.yaml().unwrap()).unwrap();
    // As long as one worker of before is there, the view is what it was.
    let give_up = Instant::now() + SOON;
    let mut seen_side_by_side = false;
    while scene.columns() == before {
        let workers = local.workers();
        let old = workers
            .iter()
            .filter(|worker| old_workers.contains(worker))
            .count();
        seen_side_by_side |= old == 1 && workers.len() == 2;
        assert!(
            Instant::now() < give_up,
            "the view was not promoted: {}",
            local.program.log()
        );
    }
    let left = old_workers
        .iter()
        .filter(|worker| worker.is_alive())
        .count();
    assert_eq!(
        left, 0,
        "the view was promoted while a worker of before was there"
    );
    assert!(scene.columns().contains(",zone"));
    assert!(
        seen_side_by_side,
        "the workers were not replaced one by one"
    );
    let from_here = count.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs(2));
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let produced = count.load(Ordering::Relaxed);
    let rows = || scene.database.client().count("flat");
    eventually_eq(SOON, "rows of the view", &produced, rows).unwrap();
    assert_eq!(
        scene.query("SELECT count() FROM events"),
        produced.to_string()
    );
    // Where a new worker wrote, every row has its value; where an old one did, the default.
    let wrong = format!(
        "SELECT count() FROM flat WHERE zone != concat('z', toString(n)) AND (zone != 'none' OR n >= {from_here})"
    );
    assert_eq!(scene.query(&wrong), "0");
    assert_ne!(
        scene.query("SELECT count() FROM flat WHERE zone = 'none'"),
        "0"
    );
}

#[test]
fn a_change_that_could_lose_something_moves_nothing() {
    let scene = Scene::new("view_unsafe", 1);
    let local = scene.start("local", &scene.sink);
    wait_log(&local, 0, &["create flat view", "| Ready"]);
    let (before, workers) = (scene.comment(), local.workers());
    let from = mark(&local);
    let narrower = json!([
        { "name": "id", "type": "String" },
        { "name": "version", "type": "UInt32" },
        { "name": "n", "type": "UInt8" },
        { "name": "zone", "type": "String", "default": "'none'" },
    ]);
    // A type that the table's is wider than is no change of the table; another kind of type is one that loses.
    let unsafe_one = narrower.to_string().replace("UInt8", "Date");
    let unsafe_one: serde_json::Value = serde_json::from_str(&unsafe_one).unwrap();
    let sink = scene.sink.clone().set("table.columns", unsafe_one);
    local.rewrite(&sink.yaml().unwrap()).unwrap();
    wait_log(&local, from, &["TableNotAsDeclared"]);
    scene.assert_quiet(Duration::from_secs(4));
    assert_eq!(scene.comment(), before);
    assert_eq!(local.workers(), workers);
    assert!(!scene.query("DESCRIBE events").contains("zone"));
}
