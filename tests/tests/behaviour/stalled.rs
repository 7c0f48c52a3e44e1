//! The one signal of silent loss: seconds without acknowledged progress while the log is ahead.

use std::time::{Duration, Instant};

use clickhouse_sink_tests::produce::{Transactions, stat_event};
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::wait::{eventually, eventually_eq, stays_eq};

use crate::support::{SOON, Scene, metric};

/// The rise must show within this time.
const WITHIN: Duration = Duration::from_secs(2);

fn stalled(worker: &WorkerProcess) -> anyhow::Result<f64> {
    metric(worker, "stalled_seconds", &[])
}

#[test]
fn the_signal_rises_within_two_seconds_where_the_log_moves_and_nothing_is_acknowledged() {
    let scene = Scene::new("stalled", 1);
    let worker = scene.start_reading();
    scene.produce_events(2);
    scene.wait_committed(&[2]);
    eventually_eq(SOON, "stalled_seconds", &0.0, || stalled(&worker)).unwrap();
    scene.proxy.set_on(Fault::Hang, On::Inserts);
    scene.produce_events(5);
    let produced = Instant::now();
    eventually(WITHIN, "the signal rises", || {
        let seconds = stalled(&worker)?;
        anyhow::ensure!(seconds > 0.0, "{seconds}");
        Ok(())
    })
    .unwrap();
    eventually(SOON, "the signal goes on rising", || {
        let seconds = stalled(&worker)?;
        anyhow::ensure!(seconds > 3.0, "{seconds}");
        Ok(())
    })
    .unwrap();
    assert!(stalled(&worker).unwrap() <= produced.elapsed().as_secs_f64() + 0.5);
    assert_eq!(scene.committed(), [Some(2)]);
    scene.proxy.pass();
    scene.wait_committed(&[7]);
    eventually_eq(SOON, "stalled_seconds", &0.0, || stalled(&worker)).unwrap();
}

#[test]
fn a_quiet_topic_does_not_raise_the_signal() {
    let scene = Scene::new("stalled_quiet", 2);
    let worker = scene.start_reading();
    scene.produce_events(3);
    scene.wait_committed(&[3, 0]);
    eventually_eq(SOON, "stalled_seconds", &0.0, || stalled(&worker)).unwrap();
    stays_eq(Duration::from_secs(4), "stalled_seconds", &0.0, || {
        stalled(&worker)
    })
    .unwrap();
}

#[test]
fn an_open_transaction_does_not_raise_the_signal_and_an_aborted_one_is_passed_over() {
    let scene = Scene::new("stalled_transaction", 1);
    let worker = scene.start_reading();
    let transactions = Transactions::new(&scene.env.brokers, &scene.topic).unwrap();
    transactions.begin().unwrap();
    (0..3).for_each(|index| {
        transactions
            .send_json(&scene.topic, 0, &stat_event(0, index))
            .unwrap();
    });
    transactions.flush().unwrap();
    stays_eq(Duration::from_secs(4), "stalled_seconds", &0.0, || {
        stalled(&worker)
    })
    .unwrap();
    assert_eq!(scene.count(), 0);
    transactions.commit().unwrap();
    scene.wait_count(3);
    transactions.begin().unwrap();
    (3..5).for_each(|index| {
        transactions
            .send_json(&scene.topic, 0, &stat_event(0, index))
            .unwrap();
    });
    transactions.abort().unwrap();
    // Three rows and a marker, two records that do not count and a marker.
    scene.wait_committed(&[7]);
    eventually_eq(SOON, "stalled_seconds", &0.0, || stalled(&worker)).unwrap();
    assert_eq!(scene.count(), 3);
}

/// Sends a record every 50 ms for four seconds; the signal never says that nothing moves.
fn a_run_of(what: &str, payload: Option<&[u8]>) -> (Scene, i64) {
    let scene = Scene::new(what, 1);
    let worker = scene.start_reading();
    let producer = scene.producer();
    let (started, mut sent, mut worst) = (Instant::now(), 0, 0.0_f64);
    while started.elapsed() < Duration::from_secs(4) {
        producer
            .send(&scene.topic, 0, Some(b"key"), payload)
            .unwrap();
        producer.flush().unwrap();
        sent += 1;
        worst = worst.max(stalled(&worker).unwrap());
        let (_keep, wait) = std::sync::mpsc::channel::<()>();
        let _ = wait.recv_timeout(Duration::from_millis(50));
    }
    assert!(worst < 2.0, "{worst}");
    scene.wait_committed(&[sent]);
    eventually_eq(SOON, "stalled_seconds", &0.0, || stalled(&worker)).unwrap();
    (scene, sent)
}

#[test]
fn a_run_of_tombstones_does_not_raise_the_signal() {
    let (scene, _) = a_run_of("stalled_tombstones", None);
    assert_eq!(scene.count(), 0);
}

#[test]
fn a_run_of_rejected_records_does_not_raise_the_signal() {
    let (scene, sent) = a_run_of("stalled_rejected", Some(b"not json"));
    let rejected = scene
        .database
        .client()
        .count("vision_events_rejected")
        .unwrap();
    assert_eq!(i64::try_from(rejected).unwrap(), sent);
}
