//! Where a sink starts, and what moves it afterwards.
//!
//! Must not be here: growth of topics (`rebalance.rs`).

use std::time::Duration;

use anyhow::ensure;
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::{eventually, stays_eq};
use serde_json::Value;

use crate::support::{SOON, Scene, pause};

/// Runs a worker until the group stands there, and ends it in order.
fn run_to(scene: &Scene, name: &str, sink: &SinkBuilder, offsets: &[i64]) {
    let mut worker = scene.worker(name, sink);
    scene.wait_committed(offsets);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
    scene.wait_empty_group();
}

#[test]
fn a_sink_that_starts_at_the_earliest_record_reads_all_that_kafka_still_has() {
    let scene = Scene::new("earliest", 2);
    let sink = scene
        .sink()
        .set("kafka.startFrom", "Earliest")
        .set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    scene.produce_night_shift();
    scene
        .env
        .kafka()
        .delete_records(&scene.topic, 0, 1)
        .unwrap();
    run_to(&scene, "worker", &sink, &[3, 3]);
    let lowest = "SELECT groupArray(low) FROM (SELECT min(_offset) AS low FROM vision_events GROUP BY _partition ORDER BY _partition)";
    assert_eq!(scene.client().query(lowest).unwrap().trim_end(), "[1,0]");
    assert_eq!(scene.rows().0, 5);
}

#[test]
fn a_sink_that_starts_at_the_latest_record_reads_what_comes_after_its_start() {
    let scene = Scene::new("latest", 2);
    let sink = scene
        .sink()
        .set("kafka.startFrom", "Latest")
        .set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    scene.produce_night_shift();
    let mut worker = scene.worker("worker", &sink);
    scene.wait_committed(&[3, 3]);
    assert_eq!(scene.rows(), (0, 0));
    scene.produce_stats(0, 0, 1);
    scene.produce_stats(1, 0, 2);
    scene.wait_committed(&[4, 5]);
    assert_eq!(scene.rows(), (3, 3));
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

/// The time now, as the resource takes it.
fn now(scene: &Scene) -> String {
    let text = scene
        .client()
        .query("SELECT formatDateTime(now64(3, 'UTC'), '%Y-%m-%dT%H:%i:%S.%fZ', 'UTC')")
        .unwrap();
    text.trim_end().to_owned()
}

#[test]
fn a_sink_that_starts_at_a_time_reads_the_first_record_at_or_after_it() {
    let scene = Scene::new("timestamp", 3);
    scene.produce_night_shift();
    scene.produce_stats(2, 0, 1);
    pause(Duration::from_millis(20));
    let start = now(&scene);
    pause(Duration::from_millis(20));
    scene.produce_stats(0, 1, 3);
    scene.produce_stats(1, 1, 2);
    let sink = scene
        .sink()
        .set("kafka.startFrom", "Timestamp")
        .set("kafka.startTimestamp", start);
    let sink = sink.set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    run_to(&scene, "worker", &sink, &[5, 4, 1]);
    let offsets = "SELECT groupArray((_partition, _offset)) FROM (SELECT _partition, _offset FROM vision_events ORDER BY ALL)";
    assert_eq!(
        scene.client().query(offsets).unwrap().trim_end(),
        "[(0,3),(0,4),(1,3)]"
    );
}

fn table_digits(scene: &Scene) -> String {
    let select = "SELECT substring(toString(uuid), 1, 8) FROM system.tables WHERE database = currentDatabase() AND name = 'vision_events'";
    scene.client().query(select).unwrap().trim_end().to_owned()
}

#[test]
fn a_position_is_made_once_and_says_whose_it_is() {
    let scene = Scene::new("once", 2);
    let sink = scene
        .sink()
        .set("kafka.startFrom", "Latest")
        .set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    scene.produce_night_shift();
    run_to(&scene, "first", &sink, &[3, 3]);
    let made = scene.metadata();
    let table = table_digits(&scene);
    for metadata in &made {
        assert_eq!(
            (
                metadata.offset,
                metadata.first_partitions,
                metadata.sequence
            ),
            (3, 2, 1)
        );
        assert_eq!(
            (
                &metadata.table,
                metadata.ends.len(),
                metadata.epoch.is_reset()
            ),
            (&table, 0, false)
        );
    }
    assert_ne!(made[0].epoch, made[1].epoch);
    // Another `startFrom` is for partitions that were never seen: these go on where they were.
    scene.produce_stats(0, 0, 1);
    run_to(
        &scene,
        "second",
        &sink.set("kafka.startFrom", "Earliest"),
        &[4, 3],
    );
    assert_eq!(scene.rows(), (1, 1));
    let later = scene.metadata();
    // Every session begins by committing the position as it was read.
    assert_eq!(
        (&later[1].epoch, later[1].offset),
        (&made[1].epoch, made[1].offset)
    );
    assert_eq!(later[1].sequence, made[1].sequence + 1);
    assert_eq!(&later[0].epoch, &made[0].epoch);
    assert!(later[0].sequence > made[0].sequence + 1);
}

#[test]
fn records_that_an_admin_has_the_group_read_again_are_inserted_again_under_a_new_epoch() {
    let scene = Scene::new("reset", 2);
    let sink = scene.sink_of_sets(&scene.env.brokers, 6);
    scene.make_table(&sink);
    scene.produce_night_shift();
    run_to(&scene, "first", &sink, &[3, 3]);
    let before = scene.metadata();
    scene
        .env
        .kafka()
        .reset_offsets(&scene.group, &scene.topic, &[(0, 0), (1, 0)])
        .unwrap();
    run_to(&scene, "second", &sink, &[3, 3]);
    // The same six records, cut alike, in a table with a window: only another token brings them in again.
    assert_eq!(scene.rows(), (12, 5));
    for (before, after) in before.iter().zip(scene.metadata()) {
        assert!(
            !before.epoch.is_reset() && after.epoch.is_reset(),
            "{} → {}",
            before.epoch,
            after.epoch
        );
        assert_ne!(
            before.epoch.to_string(),
            after.epoch.to_string().trim_end_matches('r')
        );
        assert_eq!(
            (before.first_partitions, &before.topic_id),
            (after.first_partitions, &after.topic_id)
        );
    }
}

fn wait_hold(worker: &WorkerProcess, reason: &str) -> Value {
    let held = || {
        let state = worker.state()?;
        let hold = state["holds"]
            .as_array()
            .and_then(|holds| holds.iter().find(|hold| hold["reason"] == reason).cloned());
        ensure!(hold.is_some(), "{state}");
        Ok(hold.unwrap_or_default())
    };
    eventually(SOON, &format!("held with {reason}"), held).unwrap()
}

#[test]
fn a_partition_whose_records_are_gone_is_held_with_the_interval_until_an_admin_moves_it() {
    let scene = Scene::new("retention", 2);
    let sink = scene.sink().set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    run_to(&scene, "first", &sink, &[0, 0]);
    scene.produce_night_shift();
    scene
        .env
        .kafka()
        .delete_records(&scene.topic, 0, 2)
        .unwrap();
    let mut held = scene.worker("held", &sink);
    let told = wait_hold(&held, "RetentionPassed");
    let message = told["message"].as_str().unwrap();
    assert_eq!(told["partition"], format!("{}/0", scene.topic));
    assert!(
        message.starts_with(
            "the position is 0, but Kafka's first record is 2: records 0 to 1 are gone"
        ),
        "{message}"
    );
    // The other partition goes on, and this one stays where it is.
    scene.wait_committed(&[0, 3]);
    stays_eq(
        Duration::from_secs(3),
        "offsets",
        &vec![Some(0), Some(3)],
        || Ok(scene.committed()),
    )
    .unwrap();
    assert_eq!(held.program.term_and_wait(SOON).unwrap(), 0);
    scene.wait_empty_group();
    scene
        .env
        .kafka()
        .reset_offsets(&scene.group, &scene.topic, &[(0, 2)])
        .unwrap();
    run_to(&scene, "moved", &sink, &[3, 3]);
    assert_eq!(scene.rows().0, 4);
}
