//! Commits and answers that come after their partition has gone to another worker.
//!
//! Must not be here: workers that stand still (`zombie.rs`).

use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_crds::worker_config::WorkerConfig;
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{ApiKey, Fault, KafkaFault, On};
use clickhouse_sink_tests::wait::{eventually, eventually_eq, stays_eq};

use super::{Once, wait_hold};
use crate::support::{SOON, wait_read};

/// A drain that has to wait for an answer is over soon.
fn with_short_drain(mut config: WorkerConfig) -> WorkerConfig {
    config.shutdown.final_flush_timeout_seconds = 2;
    config
}

#[test]
fn a_commit_that_was_on_its_way_when_its_partition_went_to_another_worker_moves_no_offset() {
    let (once, kafka) = Once::proxied("late_commit", 2, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    once.scene.produce_stats(1, 0, 3);
    let config = with_short_drain(once.config());
    let mut first = once.worker_on("first", &config);
    once.wait_plans(&[(3, &[]), (3, &[])]);
    kafka.set(KafkaFault::HoldRequests(ApiKey::OFFSET_COMMIT));
    once.scene.produce_stats(0, 3, 6);
    once.scene.produce_stats(1, 3, 6);
    let kept = || Ok(kafka.held(ApiKey::OFFSET_COMMIT) > 0);
    eventually_eq(SOON, "a commit is kept", &true, kept).unwrap();
    // Its way to Kafka is free: it becomes a member, gets one of the two, and inserts what was not declared yet.
    let mut direct = config.clone();
    direct.kafka.bootstrap_servers = vec![once.scene.env.brokers.clone()];
    let mut second = once.worker_on("second", &direct);
    let taken_over = || {
        let committed = once.scene.committed();
        anyhow::ensure!(committed.contains(&Some(6)), "{committed:?}");
        Ok(())
    };
    eventually(SOON, "the other worker has committed", taken_over).unwrap();
    let commits = kafka.requests(ApiKey::OFFSET_COMMIT);
    kafka.pass();
    let retried = || Ok(kafka.requests(ApiKey::OFFSET_COMMIT) > commits);
    eventually_eq(SOON, "the first one commits again", &true, retried).unwrap();
    once.wait_plans(&[(6, &[]), (6, &[])]);
    stays_eq(Duration::from_secs(2), "plans", &2, || {
        Ok(once
            .plans()
            .iter()
            .filter(|plan| **plan == (6, Vec::new()))
            .count())
    })
    .unwrap();
    once.assert_each_once(12);
    assert_eq!(once.sent().values().copied().collect::<Vec<_>>(), [1; 4]);
    assert_eq!(first.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(second.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn an_answer_to_an_insert_that_comes_after_its_partition_was_given_up_moves_no_offset() {
    let once = Once::new("late_answer", 2, Classic);
    once.make_table();
    let late = Fault::DelayReply(Duration::from_secs(20));
    once.scene.proxy.fail_next(2, late, On::Inserts);
    once.scene.produce_stats(0, 0, 3);
    once.scene.produce_stats(1, 0, 3);
    let config = with_short_drain(once.config());
    let mut first = once.worker_on("first", &config);
    once.scene.wait_inserts(2);
    once.scene.wait_rows(6);
    assert_eq!(once.plans(), [(0, vec![3]), (0, vec![3])]);
    let mut second = once.worker_on("second", &config);
    let taken_over = || {
        let committed = once.scene.committed();
        anyhow::ensure!(committed.contains(&Some(3)), "{committed:?}");
        Ok(committed)
    };
    let committed = eventually(SOON, "the other worker has replayed one", taken_over).unwrap();
    assert!(committed.contains(&Some(0)), "{committed:?}");
    // The new owner goes on; then the old one hears that its INSERT is done.
    once.scene.produce_stats(0, 3, 6);
    once.scene.produce_stats(1, 3, 6);
    once.wait_plans(&[(6, &[]), (6, &[])]);
    let answered = || {
        let inserts = once.scene.proxy.inserts();
        Ok(inserts
            .iter()
            .filter(|it| it.server_status.is_some())
            .count())
    };
    eventually_eq(SOON, "answered INSERTs", &5, answered).unwrap();
    stays_eq(Duration::from_secs(2), "plans", &2, || {
        Ok(once
            .plans()
            .iter()
            .filter(|plan| **plan == (6, Vec::new()))
            .count())
    })
    .unwrap();
    once.assert_each_once(12);
    assert_eq!(once.inserts_dropped(), 1);
    assert_eq!(first.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(second.program.term_and_wait(SOON).unwrap(), 0);
}

/// Partitions whose session is in this state.
fn partitions_in(worker: &WorkerProcess, state: &str) -> anyhow::Result<Vec<i64>> {
    let found = worker.state()?;
    let sessions = found["sessions"].as_array().cloned().unwrap_or_default();
    let ours = sessions.iter().filter(|it| it["state"] == state);
    Ok(ours.filter_map(|it| it["partition"].as_i64()).collect())
}

#[test]
fn a_worker_that_stops_reading_while_it_drains_a_partition_does_not_give_it_away_early() {
    let once = Once::new("stops_in_drain", 2, Classic);
    once.make_table();
    for partition in 0..2 {
        once.scene.produce_stats(partition, 0, 3);
        // They wait in the batch that is filled: it is cut when a drain begins, and is held then.
        for _ in 0..150 {
            let producer = &once.scene.producer;
            let topic = &once.scene.topic;
            producer.send_json(topic, partition, "no event").unwrap();
        }
    }
    once.scene.producer.flush().unwrap();
    let late = Fault::DelayReply(Duration::from_secs(20));
    once.scene.proxy.fail_next(2, late, On::Inserts);
    let mut config = once.config();
    config.shutdown.final_flush_timeout_seconds = 50;
    config.dead_letter.max_rejected_percent = 5;
    let mut first = once.worker_on("first", &config);
    once.scene.wait_rows(6);
    wait_read(&first, 306);
    let mut second = once.worker_on("second", &config);
    wait_hold(&first, "TooManyRejected");
    let drained = partitions_in(&first, "Draining").unwrap();
    assert_eq!(drained.len(), 1);
    // Until it has given the partition up nobody else has it.
    let owned = || Ok(second.state()?["sessions"].as_array().map(Vec::len));
    let five = Duration::from_secs(5);
    stays_eq(five, "partitions of the other", &Some(0), owned).unwrap();
    assert_eq!(partitions_in(&first, "Draining").unwrap(), drained);
    eventually_eq(SOON, "partitions of the other", &Some(1), owned).unwrap();
    let drained = usize::try_from(drained[0]).unwrap();
    assert_eq!(once.plans()[drained], (3, vec![]));
    assert_eq!(once.sent().values().copied().collect::<Vec<_>>(), [1, 1]);
    once.assert_each_once(6);
    second.program.kill().unwrap();
    first.program.kill().unwrap();
}
