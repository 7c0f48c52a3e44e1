//! Who starts a worker again: `clickhouse-sink-operator local`.
//!
//! Must not be here: what the worker itself does about its end (`crash.rs`, `stop.rs`).

use std::time::{Duration, Instant};

use anyhow::ensure;
use clickhouse_sink_tests::process::ProcessId;
use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::wait::eventually;
use rustix::process::Signal;

use crate::support::{SOON, Scene};

/// Kills the one worker and waits for the next; gives it and how long that took.
fn kill_and_wait(local: &LocalProcess, worker: &ProcessId) -> (ProcessId, Duration) {
    assert!(worker.signal(Signal::KILL));
    let killed = Instant::now();
    let next = || {
        let workers = local.workers();
        let next = workers.into_iter().find(|other| other != worker);
        ensure!(next.is_some(), "no other worker runs");
        Ok(next)
    };
    let next = eventually(SOON, "another worker", next).unwrap().unwrap();
    (next, killed.elapsed())
}

#[test]
fn a_worker_that_is_killed_is_started_again_each_time_a_little_later_and_nothing_is_lost() {
    let scene = Scene::new("supervisor", 2);
    let sink = scene.sink().set("batch.lingerMilliseconds", 0);
    let mut local = LocalProcess::start(&scene.dir, "local", &sink.yaml().unwrap(), &[]).unwrap();
    let first = local.wait_workers(1, SOON).unwrap().remove(0);
    scene.wait_committed(&[0, 0]);
    scene.stop_merges();
    scene.produce_night_shift();
    scene.wait_committed(&[3, 3]);
    let (second, after) = kill_and_wait(&local, &first);
    assert!(
        after >= Duration::from_secs(1),
        "started again after {after:?}"
    );
    scene.produce_stats(0, 0, 4);
    let (third, later) = kill_and_wait(&local, &second);
    assert!(
        later >= Duration::from_secs(2),
        "started again after {later:?}"
    );
    scene.produce_stats(1, 0, 4);
    scene.wait_committed(&[7, 7]);
    let distinct: u64 = scene
        .client()
        .scalar("SELECT uniqExact(_partition, _offset) FROM vision_events")
        .unwrap();
    assert_eq!((distinct, scene.rows().1), (14, 13));
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    assert!(!third.is_alive());
}
