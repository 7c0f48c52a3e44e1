//! What local mode remembers, and people's answers to holds.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::wait::{eventually, stays_eq};
use serde_json::{Value, json};

use crate::local::wait_log;
use crate::support::{SOON, Scene, event_with, metric, wait_hold};

fn facts_path(local: &LocalProcess) -> PathBuf {
    local.state_dir.join("default.events/facts.json")
}

/// Waits until the facts are as this says.
fn wait_facts(local: &LocalProcess, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(SOON, what, || {
        let text = fs::read(facts_path(local)).context("no facts yet")?;
        let facts: Value = serde_json::from_slice(&text)?;
        ensure!(is_so(&facts), "{facts}");
        Ok(facts)
    })
    .unwrap()
}

#[test]
fn an_answer_to_a_hold_reaches_the_facts_and_restarts_no_worker() {
    let scene = Scene::new("answers", 1);
    let local = scene.local(&[]);
    let before = local.wait_workers(1, SOON).unwrap();
    wait_log(&local, "| Ready");
    let answer = json!([{ "partition": format!("{}/0", scene.topic), "hold": "RetentionPassed-1", "action": "SkipAndRecord" }]);
    let answered = scene.sink.clone().set("resolutions", answer.clone());
    local.rewrite(&answered.yaml().unwrap()).unwrap();
    wait_facts(&local, "the answer", |facts| facts["resolutions"] == answer);
    local.rewrite(&scene.sink.yaml().unwrap()).unwrap();
    wait_facts(&local, "no answer", |facts| {
        facts["resolutions"] == json!([])
    });
    stays_eq(
        Duration::from_secs(2),
        "the worker's process",
        &before[0].pid,
        || Ok(local.wait_workers(1, SOON)?[0].pid),
    )
    .unwrap();
    assert_eq!(local.program.log().matches("Worker started.").count(), 1);
}

#[test]
fn facts_keep_the_topic_and_every_table_over_a_restart_and_a_broken_file_is_told() {
    let scene = Scene::new("facts", 2);
    let mut local = scene.local(&[]);
    let known = wait_facts(&local, "topic and table", |facts| {
        facts["topics"][0]["partitions"] == 2 && facts["tables"][0].is_string()
    });
    assert_eq!(known["topics"][0]["name"], scene.topic.as_str());
    let configs = |local: &LocalProcess| {
        let entries = fs::read_dir(local.state_dir.join("default.events")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with("config-"))
            .collect::<Vec<_>>()
    };
    let revision = configs(&local);
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
    scene.query("DROP TABLE vision_events SYNC");
    let mut again = scene.local(&[]);
    let both = wait_facts(&again, "a second table", |facts| {
        facts["tables"]
            .as_array()
            .is_some_and(|tables| tables.len() == 2)
    });
    assert_eq!(both["tables"][0], known["tables"][0]);
    assert_eq!(both["topics"], known["topics"]);
    // What was not changed in the file is the same configuration after a restart.
    assert_eq!(configs(&again), revision);
    assert_eq!(again.program.term_and_wait(SOON).unwrap(), 0);
    fs::write(facts_path(&again), "{").unwrap();
    let third = scene.local(&[]);
    wait_log(&third, "FactsUnreadable: cannot read");
    assert_eq!(third.workers().len(), 0);
    assert_eq!(fs::read_to_string(facts_path(&third)).unwrap(), "{");
}

#[test]
fn a_changed_mapping_leaves_the_one_before_to_workers_and_a_restart_keeps_it() {
    let scene = Scene::new("mappings", 1);
    let mut local = scene.local(&[]);
    wait_log(&local, "| Ready");
    let changed = scene
        .sink
        .clone()
        .set("format.json.unknownFields", "Reject");
    local.rewrite(&changed.yaml().unwrap()).unwrap();
    let config = |local: &LocalProcess| {
        let folder = local.state_dir.join("default.events");
        let entries = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let configs: Vec<PathBuf> = entries
            .filter(|path| path.to_string_lossy().contains("/config-"))
            .collect();
        ensure!(configs.len() == 1, "{configs:?}");
        Ok(fs::read_to_string(&configs[0])?)
    };
    let text = eventually(SOON, "the earlier mapping", || {
        let text = config(&local)?;
        let value: Value = serde_json::from_str(&text)?;
        ensure!(
            value["earlier"][0]["format"]["unknownFields"] == "Ignore",
            "{text}"
        );
        Ok(text)
    })
    .unwrap();
    // A worker that has just been started may be stopped before it listens to signals; nothing was read by it.
    local.program.term_and_wait(SOON).unwrap();
    let again = scene.local_on(&changed, &[]);
    wait_log(&again, "| Ready");
    assert_eq!(config(&again).unwrap(), text);
}

#[test]
fn a_topic_of_mostly_bad_records_is_held_before_any_is_rejected_and_goes_on_when_it_is_answered() {
    let scene = Scene::new("too_many", 1).set("deadLetter.maxRejectedPercent", 50);
    scene.produce(
        0,
        (0..200).map(|index| event_with(&format!("b{index}"), "version", "\"x\"")),
    );
    let local = scene.local(&[]);
    wait_log(
        &local,
        &format!("held {}/0: TooManyRejected: ", scene.topic),
    );
    let rejected = || scene.query("SELECT count() FROM vision_events_rejected");
    assert_eq!(rejected(), "0");
    let log = local.program.log();
    let line = log
        .lines()
        .find(|line| line.contains("TooManyRejected") && line.contains("hold: "))
        .unwrap();
    let id = line
        .split("hold: ")
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    let answer =
        json!([{ "partition": format!("{}/0", scene.topic), "hold": id, "action": "InsertAgain" }]);
    local
        .rewrite(
            &scene
                .sink
                .clone()
                .set("resolutions", answer)
                .yaml()
                .unwrap(),
        )
        .unwrap();
    scene.wait_committed(&[200]);
    assert_eq!(rejected(), "200");
    assert_eq!(log.matches("Worker started.").count(), 1);
}

#[test]
fn a_worker_without_a_limit_of_rejects_takes_them_all() {
    let scene = Scene::new("all_rejected", 1).set("deadLetter.maxRejectedPercent", 100);
    scene.produce(0, (0..200).map(|_| "bad"));
    let worker = scene.start();
    scene.wait_committed(&[200]);
    assert_eq!(
        metric(&worker, "records_rejected_total", &[]).unwrap(),
        200.0
    );
}

#[test]
fn inserts_that_the_linger_causes_are_no_more_a_second_than_the_sink_allows() {
    let scene = Scene::new("paced", 1)
        .set("batch.lingerMilliseconds", 10)
        .set("batch.maxInsertsPerSecond", 1);
    let _worker = scene.start_reading();
    let began = Instant::now();
    let mut produced = 0;
    stays_eq(Duration::from_secs(3), "the producer", &true, || {
        scene.produce(0, [clickhouse_sink_tests::produce::stat_event(0, produced)]);
        produced += 1;
        Ok(true)
    })
    .unwrap();
    scene.wait_count(produced);
    let inserts = scene.table_inserts().len();
    let most = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    assert!(
        (2..=most).contains(&inserts),
        "{inserts} INSERTs, at most {most}"
    );
}

#[test]
fn the_broker_assigns_the_partitions_where_the_sink_says_so() {
    let scene = Scene::new("consumer_protocol", 1).set("kafka.groupProtocol", "Consumer");
    let config = scene.config();
    assert_eq!(
        config.kafka.group_protocol,
        clickhouse_sink_crds::worker_config::GroupProtocol::Consumer
    );
    scene.produce_events(3);
    let _worker = scene.start();
    scene.wait_committed(&[3]);
    assert_eq!(scene.count(), 3);
}

#[test]
fn records_that_kafka_deleted_hold_the_partition_or_are_skipped_and_recorded() {
    let scene = Scene::new("data_loss", 1);
    scene.produce_events(5);
    let mut worker = scene.start();
    scene.wait_committed(&[5]);
    worker.program.term_and_wait(SOON).unwrap();
    scene.produce(
        0,
        (5..9).map(|index| clickhouse_sink_tests::produce::stat_event(0, index)),
    );
    scene
        .env
        .kafka()
        .delete_records(&scene.topic, 0, 7)
        .unwrap();
    let mut held = scene.start();
    wait_hold(&held, "RetentionPassed");
    held.program.term_and_wait(SOON).unwrap();
    let skipping = scene.set("kafka.onDataLoss", "SkipAndRecord");
    let _worker = skipping.start();
    skipping.wait_committed(&[9]);
    assert_eq!(skipping.count(), 7);
    assert_eq!(
        skipping.query("SELECT kind, offset, end_offset, cause FROM vision_events_rejected FINAL"),
        "gap\t5\t7\tRetentionPassed"
    );
}
