//! A broker that does not keep what it was given, loses it, or refuses to take it.
//!
//! Must not be here: brokers that are away (`kafka_outage.rs`), positions that a person moved (`moved.rs`).

use std::time::Duration;

use clickhouse_sink_crds::commit::CommitMetadata;
use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_tests::proxy::{Fault, KafkaFault};
use clickhouse_sink_tests::wait::stays_eq;

use super::{Once, wait_hold};
use crate::support::SOON;

const NEVER: Duration = Duration::from_mins(5);
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;

fn stays_without_insert(once: &Once, inserts: usize) {
    let sent = || Ok(once.scene.proxy.inserts().len());
    stays_eq(Duration::from_secs(3), "INSERTs", &inserts, sent).unwrap();
}

#[test]
fn where_metadata_does_not_come_back_as_it_was_committed_nothing_is_read_until_it_does() {
    let (once, kafka) = Once::proxied("spoilt", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    kafka.set(KafkaFault::SpoilMetadata);
    let mut worker = once.worker("worker");
    wait_hold(&worker, "BrokerDropsCommitMetadata");
    stays_without_insert(&once, 0);
    kafka.pass();
    once.wait_plans(&[(3, &[])]);
    once.assert_each_once(3);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_worker_whose_commits_are_refused_inserts_nothing_says_unauthorized_and_goes_on_by_itself() {
    let (once, kafka) = Once::proxied("refused", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    let mut worker = once.worker("worker");
    once.wait_plans(&[(3, &[])]);
    kafka.set(KafkaFault::RefuseCommits(TOPIC_AUTHORIZATION_FAILED));
    once.scene.produce_stats(0, 3, 6);
    let hold = wait_hold(&worker, "Unauthorized");
    let message = hold["message"].as_str().unwrap();
    assert!(message.contains("grant"), "{message}");
    stays_without_insert(&once, 1);
    kafka.pass();
    once.wait_plans(&[(6, &[])]);
    once.assert_each_once(6);
    assert_eq!(once.ranges_sent(), ["0/0-3", "0/3-6"]);
    let without_hold = || {
        let state = worker.state()?;
        Ok(state["holds"].as_array().map(Vec::len))
    };
    clickhouse_sink_tests::wait::eventually_eq(SOON, "holds", &Some(0), without_hold).unwrap();
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn where_kafka_has_lost_the_newest_commits_the_older_plan_is_replayed_and_nothing_is_lost() {
    let once = Once::new("older_commits", 1, Classic);
    once.make_table();
    once.kill_in_insert(Fault::DelayReply(NEVER), true);
    let kafka = once.scene.env.kafka();
    let (group, topic) = (&once.scene.group, &once.scene.topic);
    let older = kafka.group_offsets(group, topic).unwrap();
    once.finish("next", &[3]);
    once.scene.produce_stats(0, 3, 6);
    once.finish("further", &[6]);
    once.scene.wait_empty_group();
    kafka.restore_offsets(group, topic, &older).unwrap();
    assert_eq!(once.plans(), [(0, vec![3])]);
    // What the older plan declares is dropped by its token; so is what lies behind it, since it is cut the same.
    once.finish("after", &[6]);
    once.assert_each_once(6);
    assert_eq!(once.inserts_dropped(), 3);
    assert_eq!(once.sent()["0/0-3"], 3);
    assert_eq!(once.sent()["0/3-6"], 2);
}

#[test]
fn a_position_behind_the_end_of_the_log_is_held_and_nothing_is_read() {
    let once = Once::new("cut_log", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    once.finish("first", &[3]);
    once.scene.wait_empty_group();
    let kafka = once.scene.env.kafka();
    let (group, topic) = (&once.scene.group, &once.scene.topic);
    let mut beyond = kafka.group_offsets(group, topic).unwrap();
    // As after an election that has cut off the log's end: the group remembers more than there is.
    let metadata = CommitMetadata {
        offset: 9,
        ..CommitMetadata::parse(beyond[0].metadata.as_bytes()).unwrap()
    };
    beyond[0].committed = Some(9);
    beyond[0].metadata = metadata.render().unwrap();
    kafka.restore_offsets(group, topic, &beyond).unwrap();
    let mut worker = once.worker("worker");
    let hold = wait_hold(&worker, "OffsetBeyondEnd");
    assert!(
        hold["message"].as_str().unwrap().contains("ends at 3"),
        "{hold}"
    );
    stays_without_insert(&once, 1);
    once.assert_each_once(3);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}
