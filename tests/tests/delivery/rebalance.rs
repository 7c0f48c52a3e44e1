//! Workers join and leave while records flow.
//!
//! Must not be here: members that freeze (`ownership.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::ensure;
use clickhouse_sink_tests::produce::generated_event;
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::{eventually, eventually_eq};

use crate::support::{SOON, Scene, pause, wait_read};

const PARTITIONS: i32 = 4;

/// Produces until the other side is gone; gives the records of each partition.
fn produce_until(scene: &Scene, stop: &Receiver<()>) -> i64 {
    let mut each = 0;
    while stop.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
        for partition in 0..PARTITIONS {
            for index in each..each + 5 {
                let event = generated_event(
                    u64::try_from(i64::from(partition) * 1_000_000 + index).unwrap(),
                );
                scene
                    .producer
                    .send_json(&scene.topic, partition, &event)
                    .unwrap();
            }
        }
        scene.producer.flush().unwrap();
        each += 5;
    }
    each
}

/// Looks all the time; gives how often.
fn check_until(scene: &Scene, stop: &AtomicBool) -> u32 {
    let mut looks = 0;
    while !stop.load(Ordering::Acquire) {
        scene.assert_committed_is_inserted();
        looks += 1;
    }
    looks
}

fn wait_assigned(worker: &WorkerProcess, partitions: usize) {
    let running = || {
        let state = worker.state()?;
        let sessions = state["sessions"].as_array().map_or(0, |all| {
            all.iter().filter(|it| it["state"] == "Running").count()
        });
        ensure!(sessions == partitions, "{state}");
        Ok(())
    };
    eventually(SOON, &format!("{partitions} running partitions"), running).unwrap();
}

fn wait_more_rows(scene: &Scene) {
    let target = scene.client().count("vision_events").unwrap() + 200;
    let grown = || {
        let rows = scene.client().count("vision_events")?;
        ensure!(rows >= target, "{rows} rows");
        Ok(())
    };
    eventually(SOON, &format!("{target} rows"), grown).unwrap();
}

/// A sink whose INSERTs take long enough that a rebalance always finds rows in flight.
fn busy_sink(scene: &Scene) -> SinkBuilder {
    let delay = Fault::Delay(Duration::from_millis(150));
    scene.proxy.set_on(delay, On::Inserts);
    let sink = scene.sink().set("batch.maxRows", 50);
    sink.set("batch.lingerMilliseconds", 100)
}

/// Runs a scenario while records flow and commits are looked at all the time, until everything is committed. Gives the
/// worker that is left, and how many records there are.
fn run_under_flow(scene: &Scene, scenario: impl FnOnce() -> WorkerProcess) -> (WorkerProcess, u64) {
    let done = AtomicBool::new(false);
    let (worker, each, looks) = std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        let producing = scope.spawn(move || produce_until(scene, &stopped));
        let checking = scope.spawn(|| check_until(scene, &done));
        // A failure must not leave the other two running for ever.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scenario));
        drop(stop);
        let each = producing.join().unwrap();
        if outcome.is_ok() {
            scene.wait_committed(&[each; 4]);
        }
        done.store(true, Ordering::Release);
        (outcome.unwrap(), each, checking.join().unwrap())
    });
    assert!(looks >= 10, "looked {looks} times only");
    scene.assert_committed_is_inserted();
    (worker, 4 * u64::try_from(each).unwrap())
}

fn distinct_rows(scene: &Scene) -> u64 {
    let select = "SELECT uniqExact(_partition, _offset) FROM vision_events";
    scene.client().scalar(select).unwrap()
}

/// Two workers join and leave, so that every partition changes its owner; gives the one that is left.
fn join_and_leave(scene: &Scene) -> WorkerProcess {
    let sink = busy_sink(scene);
    let mut first = scene.worker("first", &sink);
    wait_assigned(&first, 4);
    wait_more_rows(scene);
    let mut second = scene.worker("second", &sink);
    wait_assigned(&second, 2);
    wait_assigned(&first, 2);
    wait_more_rows(scene);
    assert_eq!(first.program.term_and_wait(SOON).unwrap(), 0);
    wait_assigned(&second, 4);
    wait_more_rows(scene);
    let third = scene.worker("third", &sink);
    wait_assigned(&third, 2);
    wait_more_rows(scene);
    assert_eq!(second.program.term_and_wait(SOON).unwrap(), 0);
    wait_assigned(&third, 4);
    wait_more_rows(scene);
    third
}

#[test]
fn workers_join_and_leave_under_flow_and_nothing_is_committed_before_it_is_inserted() {
    let scene = Scene::new("rebalance", PARTITIONS);
    scene.make_table(&scene.sink());
    let (mut last, records) = run_under_flow(&scene, || join_and_leave(&scene));
    assert_eq!(distinct_rows(&scene), records);
    // Every hand-over was drained, so nothing was read twice either.
    assert_eq!(scene.rows().0, records);
    assert_eq!(last.program.term_and_wait(SOON).unwrap(), 0);
}

/// Each of two workers is killed once; gives the one that is left.
fn kill_each(scene: &Scene) -> WorkerProcess {
    let sink = busy_sink(scene);
    let mut first = scene.worker("first", &sink);
    wait_assigned(&first, 4);
    let mut second = scene.worker("second", &sink);
    wait_assigned(&second, 2);
    wait_more_rows(scene);
    second.program.kill().unwrap();
    wait_assigned(&first, 4);
    wait_more_rows(scene);
    let third = scene.worker("third", &sink);
    wait_assigned(&third, 2);
    wait_more_rows(scene);
    first.program.kill().unwrap();
    wait_assigned(&third, 4);
    wait_more_rows(scene);
    third
}

#[test]
fn workers_are_killed_under_flow_and_every_record_is_in_the_table_at_least_once() {
    let scene = Scene::new("killed_flow", PARTITIONS);
    scene.make_table(&scene.sink());
    let (mut last, records) = run_under_flow(&scene, || kill_each(&scene));
    assert_eq!(distinct_rows(&scene), records);
    assert_eq!(last.program.term_and_wait(SOON).unwrap(), 0);
}

fn wait_log(worker: &WorkerProcess, text: &str) {
    let written = || {
        ensure!(worker.program.log().contains(text), "not in the log");
        Ok(())
    };
    eventually(SOON, text, written).unwrap();
}

#[test]
fn a_record_that_comes_while_a_rebalance_drains_is_read_from_the_partition_that_is_kept() {
    let scene = Scene::new("quiet", 2);
    let sink = scene.sink().set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    scene.produce_night_shift();
    let mut first = scene.worker("first", &sink);
    scene.wait_committed(&[3, 3]);
    // Both partitions are read to their ends, and the last rows of both are on their way, when the other worker joins.
    let delay = Fault::Delay(Duration::from_secs(6));
    scene.proxy.set_on(delay, On::Inserts);
    scene.produce_stats(0, 0, 1);
    scene.produce_stats(1, 0, 1);
    wait_read(&first, 8);
    // An end is told after a fetch that brought nothing, half a second.
    pause(Duration::from_millis(1500));
    let mut second = scene.worker("second", &sink);
    wait_log(&first, "Partitions are revoked and drained.");
    scene.produce_stats(0, 1, 2);
    scene.produce_stats(1, 1, 2);
    scene.proxy.pass();
    wait_assigned(&second, 1);
    wait_assigned(&first, 1);
    scene.wait_committed(&[5, 5]);
    assert_eq!(distinct_rows(&scene), 10);
    assert_eq!(scene.rows(), (10, 9));
    let log = first.program.log();
    assert!(!log.contains("A partition cannot be read on."), "{log}");
    assert_eq!(first.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(second.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_partition_that_is_added_is_read_from_its_first_record_also_by_a_sink_that_starts_at_the_end() {
    let mut scene = Scene::new("growth", 1);
    let sink = scene
        .sink()
        .set("kafka.startFrom", "Latest")
        .set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    scene.produce_stats(0, 0, 3);
    let mut worker = scene.worker("worker", &sink);
    scene.wait_committed(&[3]);
    scene.env.kafka().grow_topic(&scene.topic, 2).unwrap();
    // A producer that knows of the new partition before the worker does.
    scene.producer = scene.env.producer().unwrap();
    scene.produce_stats(1, 0, 5);
    scene.produce_stats(0, 3, 4);
    scene.wait_committed(&[4, 5]);
    let offsets = "SELECT groupArray((_partition, _offset)) FROM (SELECT _partition, _offset FROM vision_events ORDER BY ALL)";
    let found = || Ok(scene.client().query(offsets)?.trim_end().to_owned());
    eventually_eq(
        SOON,
        "rows",
        &"[(0,3),(1,0),(1,1),(1,2),(1,3),(1,4)]".to_owned(),
        found,
    )
    .unwrap();
    let partitions: Vec<u32> = scene
        .metadata()
        .iter()
        .map(|metadata| metadata.first_partitions)
        .collect();
    assert_eq!(partitions, [1, 1]);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}
