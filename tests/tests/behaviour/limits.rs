//! Sizes, times and positions: when a batch is cut, what is read, where it starts, how long a stop takes.

use std::time::{Duration, Instant};

use clickhouse_sink_tests::produce::stat_event;
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::wait::{eventually, eventually_eq, stays_eq};
use serde_json::json;

use crate::support::{SOON, Scene, event_with, metric, wait_not_ready};

/// Nothing is cut by time while a test runs.
const NEVER_MS: u32 = 600_000;

#[test]
fn a_batch_is_cut_at_its_rows_and_what_is_left_waits_for_the_linger() {
    let scene = Scene::new("max_rows", 1)
        .set("batch.maxRows", 4)
        .set("batch.lingerMilliseconds", NEVER_MS);
    scene.produce_events(10);
    let mut worker = scene.start();
    scene.wait_committed(&[8]);
    stays_eq(Duration::from_secs(1), "count()", &8, || Ok(scene.count())).unwrap();
    assert_eq!(
        (
            metric(&worker, "batch_rows_count", &[]).unwrap(),
            scene.table_inserts().len()
        ),
        (2.0, 2)
    );
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!((scene.count(), scene.committed()), (10, vec![Some(10)]));
}

#[test]
fn a_batch_is_cut_at_its_bytes() {
    let scene = Scene::new("max_bytes", 1)
        .set("batch.maxBytes", "100k")
        .set("batch.lingerMilliseconds", NEVER_MS);
    let worker = scene.start_reading();
    let large = |index: u32| {
        event_with(
            "large",
            "event_id",
            &format!("\"{index}{}\"", "x".repeat(30_000)),
        )
    };
    scene.produce(0, (0..3).map(large));
    eventually_eq(SOON, "records read", &3.0, || {
        metric(&worker, "records_read_total", &[])
    })
    .unwrap();
    stays_eq(Duration::from_secs(1), "INSERTs", &0, || {
        Ok(scene.table_inserts().len())
    })
    .unwrap();
    scene.produce(0, [large(3)]);
    scene.wait_committed(&[4]);
    assert_eq!((scene.count(), scene.table_inserts().len()), (4, 1));
}

#[test]
fn the_first_record_of_a_batch_waits_for_others_as_long_as_the_linger_says() {
    let scene = Scene::new("linger", 1).set("batch.lingerMilliseconds", 1500);
    let _worker = scene.start_reading();
    let produced = Instant::now();
    scene.produce_events(2);
    scene.wait_table_inserts(1);
    assert!(
        produced.elapsed() >= Duration::from_millis(1450),
        "{:?}",
        produced.elapsed()
    );
    scene.wait_committed(&[2]);
    assert_eq!((scene.count(), scene.table_inserts().len()), (2, 1));
}

#[test]
fn without_a_linger_one_insert_flies_and_carries_what_came_meanwhile() {
    let scene = Scene::new("no_linger", 1).set("batch.lingerMilliseconds", 0);
    let worker = scene.start_reading();
    scene
        .proxy
        .fail_next(1, Fault::Delay(Duration::from_secs(2)), On::Inserts);
    scene.produce_events(1);
    scene.wait_table_inserts(1);
    scene.produce(0, (1..40).map(|index| stat_event(0, index)));
    eventually_eq(SOON, "records read", &40.0, || {
        metric(&worker, "records_read_total", &[])
    })
    .unwrap();
    scene.wait_committed(&[40]);
    assert_eq!(scene.count(), 40);
    // One that was slow, one with what came meanwhile; three where the machine was slower than the delay.
    let inserts = scene.table_inserts().len();
    assert!((2..=3).contains(&inserts), "{inserts}");
}

#[test]
fn each_compression_brings_the_same_rows_and_the_better_one_sends_fewer_bytes() {
    let plain = Scene::new("compression", 1).set("batch.compression", "None");
    let lz4 = Scene::of_topic("compression_lz4", &plain.topic).set("batch.compression", "LZ4");
    let zstd = Scene::of_topic("compression_zstd", &plain.topic).set("batch.compression", "ZSTD");
    plain.produce_events(5000);
    let sent = [&plain, &lz4, &zstd].map(|scene| {
        let worker = scene.start();
        scene.wait_committed(&[5000]);
        assert_eq!(
            scene.query("SELECT count(), uniqExact(event_id) FROM vision_events"),
            "5000\t5000"
        );
        metric(&worker, "sent_bytes_total", &[]).unwrap()
    });
    assert!(sent[0] > sent[1] && sent[1] > sent[2], "{sent:?}");
}

#[test]
fn a_worker_has_a_member_of_the_group_for_each_thread() {
    let scene = Scene::new("threads", 3).set("workers.threads", 3);
    let _worker = scene.start();
    let members = || {
        let mut members = scene.env.kafka().group_members(&scene.group)?;
        members.sort();
        Ok(members)
    };
    let expected = ["default-events-0", "default-events-1", "default-events-2"]
        .map(str::to_owned)
        .to_vec();
    eventually_eq(SOON, "members", &expected, members).unwrap();
    (0..3).for_each(|partition| scene.produce(partition, [stat_event(0, 1)]));
    scene.wait_committed(&[1, 1, 1]);
    assert_eq!(scene.count(), 3);
}

#[test]
fn a_worker_reads_no_further_than_its_memory_budget_and_the_rest_waits_in_kafka() {
    let scene = Scene::new("memory_budget", 1).set("workers.memoryBudget", "32Mi");
    let scene = scene
        .set("batch.maxBytes", "2Mi")
        .set("format.maxRecordBytes", "1Mi");
    let worker = scene.start_reading();
    scene.proxy.set_on(Fault::Hang, On::Inserts);
    let large = |index: u32| {
        event_with(
            "large",
            "event_id",
            &format!("\"{index}{}\"", "x".repeat(100_000)),
        )
    };
    scene.produce(0, (0..800).map(large));
    let read = || metric(&worker, "records_read_total", &[]);
    eventually(SOON, "it reads and stops", || {
        let before = read()?;
        stays_eq(Duration::from_secs(2), "records read", &before, read)?;
        anyhow::ensure!(before > 0.0, "nothing is read");
        Ok(())
    })
    .unwrap();
    let buffered = metric(&worker, "buffered_bytes", &[]).unwrap();
    assert!(
        buffered > 1e6 && buffered <= f64::from(32 << 20),
        "{buffered}"
    );
    assert!(read().unwrap() < 400.0, "{:?}", read());
    assert_eq!(scene.committed(), [Some(0)]);
    scene.proxy.pass();
    scene.wait_committed(&[800]);
    assert_eq!(scene.count(), 800);
}

#[test]
fn a_property_reaches_the_kafka_client_and_one_that_it_does_not_know_is_named() {
    let slow = json!({ "fetch.min.bytes": "100000", "fetch.wait.max.ms": "5000" });
    let scene = Scene::new("properties", 1).set("kafka.properties", slow);
    let _worker = scene.start_reading();
    let waits: Vec<Duration> = (0..2)
        .map(|index| {
            let produced = Instant::now();
            scene.produce(0, [stat_event(0, index)]);
            scene.wait_count(index + 1);
            produced.elapsed()
        })
        .collect();
    // The broker keeps the fetch until so many bytes or so much time have come.
    assert!(waits[1] > Duration::from_millis(1500), "{waits:?}");
    let wrong = scene.set("kafka.properties", json!({ "no.such.property": "1" }));
    let mut worker = WorkerProcess::start(&wrong.dir, "wrong", &wrong.config()).unwrap();
    assert_eq!(worker.program.wait_exit(SOON).unwrap().code(), Some(1));
    assert!(
        worker.program.log().contains("no.such.property"),
        "{}",
        worker.program.log()
    );
}

#[test]
fn a_worker_that_cannot_flush_is_not_ready_and_ends_with_3_after_its_final_flush_timeout() {
    let scene = Scene::new("final_flush", 1).set("shutdown.finalFlushTimeoutSeconds", 3);
    let mut worker = scene.start_reading();
    scene.proxy.set_on(Fault::Hang, On::Inserts);
    scene.produce_events(5);
    scene.wait_table_inserts(1);
    let asked = Instant::now();
    worker.program.term().unwrap();
    wait_not_ready(&worker, "Draining");
    assert_eq!(worker.program.wait_exit(SOON).unwrap().code(), Some(3));
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_millis(2900) && took < Duration::from_secs(13),
        "{took:?}"
    );
    assert_eq!((scene.committed(), scene.count()), (vec![Some(0)], 0));
    scene.proxy.pass();
    let _next = scene.start();
    scene.wait_committed(&[5]);
    assert_eq!(scene.count(), 5);
}

#[test]
fn one_sink_reads_several_topics_into_its_table() {
    let first = Scene::new("topics", 1);
    let second = first.env.topic("topics_second", 1).unwrap();
    let topics = json!([first.topic, second]);
    let scene = first.set("kafka.topics", topics);
    scene.produce_events(2);
    let producer = scene.producer();
    (0..3).for_each(|index| {
        producer
            .send_json(&second, 0, &stat_event(1, index))
            .unwrap();
    });
    producer.flush().unwrap();
    let _worker = scene.start();
    scene.wait_count(5);
    let rows =
        scene.rows("SELECT _topic AS t, count() AS c FROM vision_events GROUP BY t ORDER BY c");
    assert_eq!(
        rows,
        [
            json!({ "t": scene.topic, "c": 2 }),
            json!({ "t": second, "c": 3 })
        ]
    );
}
