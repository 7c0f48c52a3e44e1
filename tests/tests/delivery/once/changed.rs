//! What changes between a crash and the replay: the mapping, the resource, the number of partitions.
//!
//! Must not be here: the guarantee (`switched.rs`).

use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_crds::worker_config::{EarlierMapping, StartFrom, WorkerConfig};
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::stays_eq;
use serde_json::{Value, json};

use super::{Once, wait_hold};
use crate::support::SOON;

const NEVER: Duration = Duration::from_mins(5);

/// The sink with another member of one of its columns.
fn with_column(sink: SinkBuilder, name: &str, member: &str, value: Value) -> SinkBuilder {
    let mut columns = sink.value().pointer("/spec/table/columns").unwrap().clone();
    let all = columns.as_array_mut().unwrap();
    let column = all
        .iter_mut()
        .find(|column| column["name"] == name)
        .unwrap();
    column[member] = value;
    sink.set("table.columns", columns)
}

/// The configuration of a sink that was changed, with the one of before where it is still known.
fn changed(once: &Once, sink: &SinkBuilder, knows_the_one_before: bool) -> WorkerConfig {
    let before = once.config();
    let mut config = crate::support::worker_config(sink);
    config.kafka.group_protocol = before.kafka.group_protocol;
    if knows_the_one_before {
        config.earlier = vec![EarlierMapping {
            table: before.table,
            format: before.format,
        }];
    }
    config
}

/// Status of each row in order.
fn statuses(once: &Once) -> String {
    let select =
        "SELECT groupArray(status) FROM (SELECT status FROM vision_events ORDER BY _offset)";
    once.scene
        .client()
        .query(select)
        .unwrap()
        .trim_end()
        .to_owned()
}

fn mapping_changed(what: &str, fault: Fault, landed: bool) {
    let once = Once::new(what, 1, Classic);
    once.make_table();
    once.kill_in_insert(fault, landed);
    // From now on the status is read from another field.
    let sink = with_column(once.sink.clone(), "status", "from", json!("kind"));
    once.scene.produce_stats(0, 3, 6);
    once.finish_on("next", &changed(&once, &sink, true), &[6]);
    assert_eq!(once.ranges_sent(), ["0/0-3", "0/3-6"]);
    // What was declared under the old mapping is read under it; what was not is read under the new one.
    assert_eq!(
        statuses(&once),
        "['raised','raised','raised','stat','stat','stat']"
    );
    once.assert_each_once(6);
    assert_eq!(once.inserts_dropped(), u64::from(landed));
}

#[test]
fn a_range_that_had_not_landed_is_replayed_under_the_mapping_that_it_was_cut_under() {
    mapping_changed("mapping_lost", Fault::Hang, false);
}

#[test]
fn a_range_that_had_landed_is_replayed_under_the_mapping_that_it_was_cut_under() {
    mapping_changed("mapping_landed", Fault::DelayReply(NEVER), true);
}

#[test]
fn a_range_whose_mapping_nobody_knows_is_held_until_somebody_does() {
    let once = Once::new("mapping_unknown", 1, Classic);
    once.make_table();
    once.kill_in_insert(Fault::Hang, false);
    let sink = with_column(once.sink.clone(), "status", "from", json!("kind"));
    let mut held = once.worker_on("held", &changed(&once, &sink, false));
    wait_hold(&held, "MappingUnknown");
    // The roll goes on: another worker with the configuration of before ends the range.
    assert!(held.is_ready());
    assert_eq!(once.scene.rows_in_table(), 0);
    assert_eq!(held.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(once.plans(), [(0, vec![3])]);
    once.finish("before", &[3]);
    once.assert_each_once(3);
}

#[test]
fn a_record_that_was_rejected_before_the_crash_is_in_the_dead_letters_although_the_mapping_was_mended()
 {
    let once = Once::new("mended", 1, Classic);
    once.make_table();
    once.scene
        .proxy
        .set_on(Fault::Hang, On::Containing("0-4".into()));
    once.scene.produce_stats(0, 0, 2);
    let bad = clickhouse_sink_tests::produce::stat_event(0, 2)
        .replace("\"version\": 1", "\"version\": \"x\"");
    once.scene
        .producer
        .send_json(&once.scene.topic, 0, &bad)
        .unwrap();
    once.scene.produce_stats(0, 3, 4);
    let mut worker = once.worker("killed");
    let sent = || Ok(once.sent().contains_key("0/0-4"));
    clickhouse_sink_tests::wait::eventually_eq(SOON, "the INSERT is sent", &true, sent).unwrap();
    worker.program.kill().unwrap();
    once.scene.proxy.pass();
    let rejected = || {
        once.scene
            .client()
            .query("SELECT groupArray(offset) FROM vision_events_rejected FINAL")
    };
    assert_eq!(rejected().unwrap().trim_end(), "[2]");
    assert_eq!(
        (once.plans(), once.scene.rows_in_table()),
        (vec![(0, vec![4])], 0)
    );
    let sink = with_column(once.sink.clone(), "version", "onError", json!("Default"));
    once.finish_on("next", &changed(&once, &sink, true), &[4]);
    // Offset 2 is in the dead letters, the others are in the table: none in neither, none in the table twice.
    assert_eq!(rejected().unwrap().trim_end(), "[2]");
    let offsets =
        "SELECT groupArray(_offset) FROM (SELECT _offset FROM vision_events ORDER BY ALL)";
    assert_eq!(
        once.scene.client().query(offsets).unwrap().trim_end(),
        "[0,1,3]"
    );
}

#[test]
fn a_sink_that_was_deleted_and_made_again_goes_on_with_the_tokens_of_before() {
    let once = Once::new("made_again", 1, Classic);
    once.make_table();
    once.kill_in_insert(Fault::DelayReply(NEVER), true);
    let mut config = once.config();
    config.sink.uid = "another".into();
    once.finish_on("next", &config, &[3]);
    assert_eq!(once.sent()["0/0-3"], 2);
    once.assert_each_once(3);
    assert_eq!(once.inserts_dropped(), 1);
}

#[test]
fn partitions_that_are_added_under_flow_are_read_from_their_first_record_also_under_latest() {
    let mut once = Once::new("grown", 1, Classic);
    once.make_table();
    let mut config = once.config();
    config.kafka.start_from = StartFrom::Latest;
    let mut worker = once.worker_on("worker", &config);
    once.wait_plans(&[(0, &[])]);
    once.scene.produce_stats(0, 0, 3);
    let kafka = once.scene.env.kafka();
    kafka.grow_topic(&once.scene.topic, 3).unwrap();
    // The producer of before does not know the new partitions yet.
    once.scene.producer = once.scene.env.producer().unwrap();
    once.scene.produce_stats(1, 0, 6);
    once.scene.produce_stats(2, 0, 3);
    once.wait_plans(&[(3, &[]), (6, &[]), (3, &[])]);
    once.assert_each_once(12);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn the_group_of_another_tables_sink_is_left_alone() {
    let once = Once::new("other_table", 1, Classic);
    once.make_table();
    once.kill_in_insert(Fault::Hang, false);
    let other = once.sink.clone().set("table.name", "other_events");
    once.scene.make_table_of(&other);
    let before = once.scene.metadata();
    let mut held = once.worker_on("held", &changed(&once, &other, false));
    let told = wait_hold(&held, "GroupUsedByOther");
    assert!(
        told["message"].as_str().unwrap().contains(&before[0].table),
        "{told}"
    );
    let state = || {
        Ok((
            once.scene.metadata(),
            once.scene.client().count("other_events").unwrap(),
        ))
    };
    stays_eq(
        Duration::from_secs(2),
        "commits and rows",
        &(before, 0),
        state,
    )
    .unwrap();
    assert_eq!(held.program.term_and_wait(SOON).unwrap(), 0);
    once.finish("owner", &[3]);
    once.assert_each_once(3);
}
