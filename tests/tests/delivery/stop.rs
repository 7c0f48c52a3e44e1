//! SIGTERM: with rows in hand, with a server that hangs, twice, and while the worker starts.
//!
//! Must not be here: SIGKILL (`crash.rs`), handing partitions over (`rebalance.rs`).

use std::time::{Duration, Instant};

use anyhow::ensure;
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{Fault, KafkaFault};
use clickhouse_sink_tests::wait::eventually;

use crate::support::{SOON, Scene, pause, wait_read};

#[test]
fn sigterm_flushes_what_is_buffered_commits_it_and_exits_with_0() {
    let scene = Scene::new("term", 2);
    let sink = scene.sink().set("batch.lingerMilliseconds", 600_000);
    scene.make_table(&sink);
    scene.produce_night_shift();
    let mut worker = scene.worker("worker", &sink);
    wait_read(&worker, 6);
    assert_eq!(
        (scene.rows(), scene.committed()),
        ((0, 0), vec![Some(0), Some(0)])
    );
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(scene.rows(), (6, 5));
    assert_eq!(scene.committed(), [Some(3), Some(3)]);
    assert_eq!(scene.proxy.inserts().len(), 1);
    // It has left the group: the next one need not wait for its session to end.
    assert_eq!(
        scene.env.kafka().group_members(&scene.group).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn sigterm_while_clickhouse_hangs_ends_within_the_budget_with_3_and_the_next_start_replays() {
    let scene = Scene::new("term_hung", 2);
    let sink = scene
        .sink()
        .set("batch.lingerMilliseconds", 600_000)
        .set("shutdown.finalFlushTimeoutSeconds", 3);
    scene.make_table(&sink);
    scene.produce_night_shift();
    let mut worker = scene.worker("hung", &sink);
    wait_read(&worker, 6);
    scene.proxy.set(Fault::Hang);
    let asked = Instant::now();
    // The flush (3 s), closing (5 s) and the margin (5 s): then the kubelet would send SIGKILL.
    assert_eq!(
        worker
            .program
            .term_and_wait(Duration::from_secs(13))
            .unwrap(),
        3
    );
    assert!(
        asked.elapsed() >= Duration::from_secs(3),
        "the flush had only {:?}",
        asked.elapsed()
    );
    assert_eq!(scene.committed(), [Some(0), Some(0)]);
    scene.proxy.pass();
    let mut next = scene.worker("next", &sink.set("batch.maxRows", 6));
    scene.wait_committed(&[3, 3]);
    assert_eq!(scene.rows(), (6, 5));
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
}

fn wait_draining(worker: &WorkerProcess) {
    let draining = || {
        let answer = worker.get("/readyz")?;
        ensure!(
            answer.status == 503 && answer.text().contains("Draining"),
            "{} {}",
            answer.status,
            answer.text()
        );
        Ok(())
    };
    eventually(SOON, "the worker drains", draining).unwrap();
}

#[test]
fn a_second_sigterm_ends_a_drain_that_hangs_and_nothing_is_lost() {
    let scene = Scene::new("term_twice", 2);
    let sink = scene
        .sink_of_sets(&scene.env.brokers, 600)
        .set("shutdown.finalFlushTimeoutSeconds", 600);
    scene.make_table(&sink);
    scene.produce_night_shift();
    let mut worker = scene.worker("hurried", &sink);
    wait_read(&worker, 6);
    scene.proxy.set(Fault::Hang);
    worker.program.term().unwrap();
    wait_draining(&worker);
    assert_eq!(
        worker
            .program
            .term_and_wait(Duration::from_secs(15))
            .unwrap(),
        3
    );
    assert_eq!(scene.committed(), [Some(0), Some(0)]);
    scene.proxy.pass();
    let mut next = scene.worker("next", &sink);
    wait_read(&next, 6);
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(scene.rows(), (6, 5));
    assert_eq!(scene.committed(), [Some(3), Some(3)]);
}

#[test]
fn two_sigterms_at_once_end_an_idle_worker_with_0() {
    let scene = Scene::new("term_idle", 2);
    let sink = scene.sink();
    scene.make_table(&sink);
    let mut worker = scene.worker("worker", &sink);
    scene.wait_committed(&[0, 0]);
    worker.program.term().unwrap();
    // The first one may have ended it already.
    let _ = worker.program.term();
    assert_eq!(worker.program.wait_exit(SOON).unwrap().code(), Some(0));
}

/// From its first breath: the signals are listened for before the port is.
fn wait_breath(worker: &WorkerProcess) {
    eventually(SOON, "the worker listens", || worker.get("/livez")).unwrap();
}

#[test]
fn sigterm_while_neither_server_answers_ends_a_starting_worker_with_0() {
    let scene = Scene::new("term_alone", 2);
    let kafka = scene.env.kafka_proxy().unwrap();
    let sink = scene.sink_through(kafka.bootstrap());
    kafka.set(KafkaFault::Hang);
    scene.proxy.set(Fault::Hang);
    let mut worker = scene.worker("alone", &sink);
    wait_breath(&worker);
    assert_eq!(
        worker
            .program
            .term_and_wait(Duration::from_secs(15))
            .unwrap(),
        0
    );
}

#[test]
fn sigterm_at_any_moment_of_the_start_loses_nothing() {
    let scene = Scene::new("term_start", 2);
    let sink = scene.sink().set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    scene.produce_night_shift();
    for after_ms in [0, 50, 200, 500, 1000, 2000] {
        let mut worker = scene.worker("starting", &sink);
        wait_breath(&worker);
        pause(Duration::from_millis(after_ms));
        assert_eq!(
            worker.program.term_and_wait(SOON).unwrap(),
            0,
            "after {after_ms} ms"
        );
        scene.assert_committed_is_inserted();
    }
    let mut last = scene.worker("last", &sink);
    scene.wait_committed(&[3, 3]);
    assert_eq!(scene.rows(), (6, 5));
    assert_eq!(last.program.term_and_wait(SOON).unwrap(), 0);
}
