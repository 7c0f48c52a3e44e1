//! Positions that somebody moved, and records that Kafka no longer has.
//!
//! Must not be here: what a worker does about its own crash (`declared.rs`).

use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_crds::worker_config::OnDataLoss;
use clickhouse_sink_tests::proxy::Fault;
use clickhouse_sink_tests::wait::stays_eq;
use serde_json::{Value, json};

use super::{Once, wait_hold};
use crate::support::SOON;

const NEVER: Duration = Duration::from_mins(5);

fn reset(once: &Once, offset: i64) {
    once.scene.wait_empty_group();
    let (group, topic) = (&once.scene.group, &once.scene.topic);
    let kafka = once.scene.env.kafka();
    kafka.reset_offsets(group, topic, &[(0, offset)]).unwrap();
}

#[test]
fn an_admins_reset_begins_a_new_epoch_and_the_reload_arrives_in_full() {
    let once = Once::new("admin_reset", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 6);
    once.finish("first", &[6]);
    once.assert_each_once(6);
    let before = once.scene.metadata().remove(0).epoch;
    reset(&once, 0);
    once.finish("second", &[6]);
    let after = once.scene.metadata().remove(0).epoch;
    assert!(
        !before.is_reset() && after.is_reset() && before != after,
        "{before} {after}"
    );
    // The person wanted them again: six more, under tokens that the first load did not have.
    let select =
        "SELECT count() AS rows, uniqExact(_partition, _offset) AS offsets FROM vision_events";
    let found = once.scene.client().rows(select).unwrap();
    assert_eq!(found, [json!({ "rows": 12, "offsets": 6 })]);
    assert_eq!(once.inserts_dropped(), 0);
}

#[test]
fn a_table_that_was_emptied_and_whose_offsets_were_reset_is_filled_again_in_full() {
    let once = Once::new("truncated", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 6);
    once.finish("first", &[6]);
    once.scene
        .client()
        .query("TRUNCATE TABLE vision_events")
        .unwrap();
    reset(&once, 0);
    once.finish("second", &[6]);
    once.assert_each_once(6);
}

/// Gaps in the rejected table.
fn gaps(once: &Once) -> Vec<Value> {
    let select = "SELECT offset, end_offset, code FROM vision_events_rejected FINAL WHERE kind = 'gap' ORDER BY ALL";
    once.scene.client().rows(select).unwrap()
}

fn retention_took_a_part(what: &str, fault: Fault, landed: bool) {
    let once = Once::new(what, 1, Classic);
    once.make_table();
    once.kill_in_insert(fault, landed);
    let kafka = once.scene.env.kafka();
    kafka.delete_records(&once.scene.topic, 0, 1).unwrap();
    let mut held = once.worker("held");
    wait_hold(&held, "RetentionPassed");
    assert_eq!(held.program.term_and_wait(SOON).unwrap(), 0);
    let mut config = once.config();
    config.kafka.on_data_loss = OnDataLoss::SkipAndRecord;
    once.finish_on("skips", &config, &[3]);
    // What is left of the range goes under the token of the whole range.
    assert_eq!(once.ranges_sent(), ["0/0-3"]);
    assert_eq!(
        gaps(&once),
        [json!({ "offset": 0, "end_offset": 1, "code": "RetentionPassed" })]
    );
    once.assert_each_once(if landed { 3 } else { 2 });
    assert_eq!(once.inserts_dropped(), u64::from(landed));
}

#[test]
fn retention_took_a_part_of_a_declared_range_that_had_not_landed_the_rest_is_sent_and_the_gap_recorded()
 {
    retention_took_a_part("retention_lost", Fault::Hang, false);
}

#[test]
fn retention_took_a_part_of_a_declared_range_that_had_landed_the_rest_is_dropped() {
    retention_took_a_part("retention_landed", Fault::DelayReply(NEVER), true);
}

fn facts(once: &Once, topic_id: &str) -> std::path::PathBuf {
    let topics = json!([{ "name": once.scene.topic, "id": topic_id, "partitions": 1 }]);
    let facts = json!({ "version": 1, "topics": topics, "tables": [], "resolutions": [] });
    let path = once.scene.dir.join("facts.json");
    std::fs::write(&path, facts.to_string()).unwrap();
    path
}

#[test]
fn a_group_that_has_lost_its_offsets_is_held_where_the_facts_know_the_topic() {
    let once = Once::new("offsets_gone", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    once.finish("first", &[3]);
    let topic_id = once.scene.metadata().remove(0).topic_id;
    let mut config = once.config();
    // A group whose offsets have expired looks like one that never was.
    config.kafka.group_id = once.scene.env.unique("expired");
    config.facts_path = Some(facts(&once, &topic_id));
    let mut held = once.worker_on("held", &config);
    let told = wait_hold(&held, "OffsetsGone");
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .contains(&once.scene.topic),
        "{told}"
    );
    stays_eq(Duration::from_secs(2), "rows", &3, || {
        Ok(once.scene.rows_in_table())
    })
    .unwrap();
    assert_eq!(held.program.term_and_wait(SOON).unwrap(), 0);
    let committed = once
        .scene
        .env
        .kafka()
        .committed(&config.kafka.group_id, &once.scene.topic);
    assert_eq!(committed.unwrap(), [None]);
}

#[test]
fn a_topic_that_was_made_again_is_held_and_the_facts_tell_it_from_a_first_start() {
    let once = Once::new("recreated", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    let mut worker = once.worker("worker");
    once.wait_plans(&[(3, &[])]);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
    let (kafka, topic) = (once.scene.env.kafka(), &once.scene.topic);
    let old_id = once.scene.metadata().remove(0).topic_id;
    kafka.delete_topic(topic).unwrap();
    kafka.create_topic(topic, 1, &[]).unwrap();
    once.scene.produce_stats(0, 3, 9);
    let mut config = once.config();
    config.facts_path = Some(facts(&once, &old_id));
    let mut held = once.worker_on("held", &config);
    wait_hold(&held, "TopicRecreated");
    once.assert_each_once(3);
    assert_eq!(held.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_live_worker_holds_a_topic_that_was_made_again_under_it() {
    let once = Once::new("recreated_live", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    let mut worker = once.worker("worker");
    once.wait_plans(&[(3, &[])]);
    let epoch = once.scene.metadata().remove(0).epoch;
    let (kafka, topic) = (once.scene.env.kafka(), &once.scene.topic);
    kafka.delete_topic(topic).unwrap();
    kafka.create_topic(topic, 1, &[]).unwrap();
    once.scene.produce_stats(0, 3, 4);
    // Held, or (where the broker has dropped the positions before the worker asked) never read under the old epoch.
    let noticed = || {
        let state = worker.state()?;
        let held = state["holds"]
            .as_array()
            .is_some_and(|holds| holds.iter().any(|it| it["reason"] == "TopicRecreated"));
        let anew = state["sessions"].as_array().is_some_and(|all| {
            all.iter()
                .any(|it| it["epoch"].is_string() && it["epoch"] != epoch.to_string())
        });
        anyhow::ensure!(held || anew, "{state}");
        Ok(())
    };
    clickhouse_sink_tests::wait::eventually(SOON, "the worker notices", noticed).unwrap();
    once.scene
        .proxy
        .inserts()
        .iter()
        .skip(1)
        .for_each(|insert| {
            let token = insert.param("insert_deduplication_token").unwrap();
            assert!(!token.contains(&epoch.to_string()), "{token}");
        });
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_live_worker_that_may_skip_reads_a_topic_that_was_made_again_from_its_start_and_records_the_gap()
 {
    let once = Once::new("recreated_skip", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 6);
    let mut config = once.config();
    config.kafka.on_data_loss = OnDataLoss::SkipAndRecord;
    let topic_id = {
        once.finish_on("first", &config, &[6]);
        once.scene.metadata().remove(0).topic_id
    };
    // The facts tell a topic that was made again from one that is new, where the broker has dropped the positions too.
    config.facts_path = Some(facts(&once, &topic_id));
    let mut worker = once.worker_on("worker", &config);
    once.scene.produce_stats(0, 6, 9);
    once.wait_plans(&[(9, &[])]);
    let epoch = once.scene.metadata().remove(0).epoch;
    let (kafka, topic) = (once.scene.env.kafka(), &once.scene.topic);
    kafka.delete_topic(topic).unwrap();
    kafka.create_topic(topic, 1, &[]).unwrap();
    once.scene.produce_stats(0, 9, 12);
    once.wait_plans(&[(3, &[])]);
    let after = once.scene.metadata().remove(0);
    assert_ne!((after.epoch, after.topic_id), (epoch, topic_id));
    // Nine records of the old topic and three of the new one, each once.
    let select = "SELECT count() AS rows, uniqExact(event_id) AS events FROM vision_events";
    let found = once.scene.client().rows(select).unwrap();
    assert_eq!(found, [json!({ "rows": 12, "events": 12 })]);
    assert_eq!(once.inserts_dropped(), 0);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}
