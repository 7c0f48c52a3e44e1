//! A worker dies at every step of a range: cut, declared, sent, landed, acknowledged, covered by the next commit.
//!
//! Must not be here: what changes between two workers (`changed.rs`), workers that live on (`members.rs`).

use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::{self, Classic, Consumer};
use clickhouse_sink_tests::proxy::{ApiKey, Fault, KafkaFault, On};
use clickhouse_sink_tests::wait::{eventually_eq, stays_eq};

use super::{Once, kill_with_kept_commit};
use crate::support::SOON;

/// Longer than any test: the server has the rows, and nobody hears of it.
const NEVER: Duration = Duration::from_mins(5);

#[test]
fn killed_before_its_declaration_reached_the_broker_nothing_was_sent_and_the_next_one_cuts_anew() {
    let (once, kafka) = Once::proxied("before_declared", 1, Classic);
    once.make_table();
    let mut worker = once.worker("killed");
    once.wait_plans(&[(0, &[])]);
    kafka.set(KafkaFault::HoldRequests(ApiKey::OFFSET_COMMIT));
    once.scene.produce_stats(0, 0, 3);
    kill_with_kept_commit(&kafka, &mut worker);
    assert_eq!((once.plans(), once.sent().len()), (vec![(0, vec![])], 0));
    let mut config = once.config();
    config.batch.max_rows = 1;
    once.finish_on("next", &config, &[3]);
    assert_eq!(once.ranges_sent(), ["0/0-1", "0/1-2", "0/2-3"]);
    once.assert_each_once(3);
}

#[test]
fn a_declaration_that_was_applied_and_whose_answer_is_lost_is_repeated_before_anything_is_sent() {
    let (once, kafka) = Once::proxied("lost_answer", 1, Classic);
    once.make_table();
    let mut worker = once.worker("worker");
    once.wait_plans(&[(0, &[])]);
    kafka.set(KafkaFault::HoldReplies(ApiKey::OFFSET_COMMIT));
    once.scene.produce_stats(0, 0, 3);
    once.wait_plans(&[(0, &[3])]);
    let applied = once.scene.metadata();
    stays_eq(Duration::from_secs(1), "INSERTs", &0, || {
        Ok(once.sent().len())
    })
    .unwrap();
    // The answer is lost with its connection.
    kafka.set(KafkaFault::Cut);
    kafka.pass();
    once.wait_plans(&[(3, &[])]);
    let after = once.scene.metadata();
    assert_eq!(after[0].epoch, applied[0].epoch);
    assert!(after[0].sequence > applied[0].sequence);
    assert_eq!(
        once.sent().into_iter().collect::<Vec<_>>(),
        [("0/0-3".to_owned(), 1)]
    );
    once.assert_each_once(3);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

fn declared_and_not_sent(what: &str, protocol: GroupProtocol) {
    let (once, kafka) = Once::proxied(what, 1, protocol);
    once.make_table();
    let mut worker = once.worker("killed");
    once.wait_plans(&[(0, &[])]);
    kafka.set(KafkaFault::HoldReplies(ApiKey::OFFSET_COMMIT));
    once.scene.produce_stats(0, 0, 3);
    once.wait_plans(&[(0, &[3])]);
    kill_with_kept_commit(&kafka, &mut worker);
    assert_eq!(once.sent().len(), 0);
    // More records are there than the range has: it is still the range that was declared.
    once.scene.produce_stats(0, 3, 6);
    let mut config = once.config();
    config.batch.max_rows = 3;
    let mut next = once.worker_on("next", &config);
    once.wait_plans(&[(6, &[])]);
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(once.ranges_sent(), ["0/0-3", "0/3-6"]);
    once.assert_each_once(6);
}

#[test]
fn killed_with_a_range_declared_and_not_sent_the_next_one_sends_exactly_that_range() {
    declared_and_not_sent("not_sent", Classic);
}

#[test]
fn killed_with_a_range_declared_and_not_sent_the_next_one_sends_exactly_that_range_under_the_consumer_protocol()
 {
    declared_and_not_sent("not_sent_848", Consumer);
}

fn sent_and_not_landed(what: &str, fault: Fault) {
    let once = Once::new(what, 1, Classic);
    once.make_table();
    once.kill_in_insert(fault, false);
    once.finish("next", &[3]);
    assert_eq!(once.ranges_sent(), ["0/0-3"]);
    once.assert_each_once(3);
    assert_eq!(once.inserts_dropped(), 0);
}

#[test]
fn killed_with_an_insert_that_never_reached_the_server_it_is_sent_by_the_next_one() {
    sent_and_not_landed("hang", Fault::Hang);
}

#[test]
fn killed_with_an_insert_of_which_the_server_got_a_part_it_is_sent_by_the_next_one() {
    sent_and_not_landed("half", Fault::TruncateRequest(100));
}

fn landed_and_not_heard(what: &str, protocol: GroupProtocol) {
    let once = Once::new(what, 1, protocol);
    once.make_table();
    once.kill_in_insert(Fault::DelayReply(NEVER), true);
    // Other settings of the batch do not redraw a declared range.
    let mut config = once.config();
    (config.batch.max_rows, config.batch.linger_ms) = (1, 0);
    once.finish_on("next", &config, &[3]);
    assert_eq!(once.sent()["0/0-3"], 2);
    assert_eq!(once.ranges_sent(), ["0/0-3"]);
    once.assert_each_once(3);
    assert_eq!(once.inserts_dropped(), 1);
}

#[test]
fn killed_after_the_server_committed_the_insert_the_next_ones_is_dropped_whatever_its_batch_settings()
 {
    landed_and_not_heard("landed", Classic);
}

#[test]
fn killed_after_the_server_committed_the_insert_the_next_ones_is_dropped_under_the_consumer_protocol()
 {
    landed_and_not_heard("landed_848", Consumer);
}

#[test]
fn a_reply_that_is_lost_is_asked_for_again_with_the_same_token_by_the_same_worker() {
    let once = Once::new("lost_reply", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    once.scene.proxy.fail_next(2, Fault::DropReply, On::Inserts);
    once.finish("worker", &[3]);
    assert_eq!(
        once.sent().into_iter().collect::<Vec<_>>(),
        [("0/0-3".to_owned(), 3)]
    );
    once.assert_each_once(3);
    assert_eq!(once.inserts_dropped(), 2);
}

fn acknowledged_and_not_committed(what: &str, protocol: GroupProtocol) {
    let (once, kafka) = Once::proxied(what, 1, protocol);
    once.make_table();
    once.scene
        .proxy
        .set_on(Fault::DelayReply(Duration::from_secs(2)), On::Inserts);
    once.scene.produce_stats(0, 0, 3);
    let mut worker = once.worker("killed");
    once.scene.wait_inserts(1);
    kafka.set(KafkaFault::HoldRequests(ApiKey::OFFSET_COMMIT));
    once.scene.produce_stats(0, 3, 6);
    kill_with_kept_commit(&kafka, &mut worker);
    once.scene.proxy.pass();
    assert_eq!(
        (once.plans(), once.scene.rows_in_table()),
        (vec![(0, vec![3])], 3)
    );
    once.finish("next", &[6]);
    assert_eq!(once.ranges_sent(), ["0/0-3", "0/3-6"]);
    once.assert_each_once(6);
    assert_eq!(once.inserts_dropped(), 1);
}

#[test]
fn killed_between_acknowledgement_and_commit_the_range_is_sent_again_and_dropped() {
    acknowledged_and_not_committed("not_committed", Classic);
}

#[test]
fn killed_between_acknowledgement_and_commit_the_range_is_dropped_under_the_consumer_protocol() {
    acknowledged_and_not_committed("not_committed_848", Consumer);
}

#[test]
fn killed_after_its_commit_nothing_is_sent_again() {
    let once = Once::new("committed", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    let mut worker = once.worker("killed");
    once.wait_plans(&[(3, &[])]);
    worker.program.kill().unwrap();
    once.scene.produce_stats(0, 3, 6);
    once.finish("next", &[6]);
    assert_eq!(once.sent().into_values().collect::<Vec<_>>(), [1, 1]);
    once.assert_each_once(6);
}

/// A worker is killed with four ranges declared: the second never reached the server, the others are in the table.
fn kill_with_four_in_flight(once: &Once) {
    once.scene
        .proxy
        .set_on(Fault::Hang, On::Containing("3-6".into()));
    once.scene.produce_stats(0, 0, 12);
    let mut worker = once.worker("killed");
    once.scene.wait_inserts(4);
    once.scene.wait_rows(9);
    worker.program.kill().unwrap();
    let plan = once.plans().remove(0);
    assert!(plan.0 <= 3 && plan.1.ends_with(&[6, 9, 12]), "{plan:?}");
}

#[test]
fn killed_with_several_ranges_in_flight_of_which_some_have_landed_all_are_sent_again_under_their_tokens()
 {
    let once = Once::new("several", 1, Classic);
    once.make_table();
    kill_with_four_in_flight(&once);
    once.scene.proxy.pass();
    once.finish("next", &[12]);
    assert_eq!(once.ranges_sent(), ["0/0-3", "0/3-6", "0/6-9", "0/9-12"]);
    once.assert_each_once(12);
    assert!(once.inserts_dropped() >= 2);
}

fn killed_while_replaying(what: &str, protocol: GroupProtocol) {
    let once = Once::new(what, 1, protocol);
    once.make_table();
    kill_with_four_in_flight(&once);
    let hung = || Ok(once.sent().get("0/3-6").copied());
    for worker in 2..4 {
        let mut replaying = once.worker(&format!("killed_{worker}"));
        eventually_eq(SOON, "the replay hangs too", &Some(worker), hung).unwrap();
        replaying.program.kill().unwrap();
        assert!(once.plans()[0].1.ends_with(&[6, 9, 12]));
        assert_eq!(once.scene.rows_in_table(), 9);
    }
    once.scene.proxy.pass();
    once.finish("last", &[12]);
    assert_eq!(once.ranges_sent(), ["0/0-3", "0/3-6", "0/6-9", "0/9-12"]);
    once.assert_each_once(12);
    assert!(once.inserts_dropped() >= 4);
}

#[test]
fn killed_while_replaying_and_again_the_plan_stays_what_it_was() {
    killed_while_replaying("replaying", Classic);
}

#[test]
fn killed_while_replaying_and_again_the_plan_stays_what_it_was_under_the_consumer_protocol() {
    killed_while_replaying("replaying_848", Consumer);
}

#[test]
fn the_night_shift_is_in_the_table_once_with_one_insert_for_each_partition() {
    let (once, kafka) = Once::proxied("example", 2, Classic);
    let engine = serde_json::json!({ "replacingMergeTree": { "versionColumn": "version" } });
    let once = once.change(|sink| sink.set("table.engine", engine));
    once.make_table();
    once.scene
        .proxy
        .set_on(Fault::DelayReply(Duration::from_secs(2)), On::Inserts);
    once.scene.produce_night_shift();
    let mut worker = once.worker("killed");
    once.scene.wait_inserts(2);
    kafka.set(KafkaFault::HoldRequests(ApiKey::OFFSET_COMMIT));
    kill_with_kept_commit(&kafka, &mut worker);
    once.scene.proxy.pass();
    assert_eq!(once.scene.rows(), (6, 5));
    once.finish("next", &[3, 3]);
    // AtLeastOnce counts twelve here.
    assert_eq!(once.scene.rows(), (6, 5));
    assert_eq!(
        once.sent().into_iter().collect::<Vec<_>>(),
        [("0/0-3".to_owned(), 2), ("1/0-3".to_owned(), 2)]
    );
    assert_eq!(once.scene.acknowledged_alert()["version"], 2);
    assert_eq!(once.inserts_dropped(), 2);
}
