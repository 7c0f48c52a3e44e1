//! Who may commit: nobody before it is a member, and nobody else while a member lives.
//!
//! Must not be here: frozen members (`zombie.rs`).

use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::{self, Classic, Consumer};
use clickhouse_sink_tests::proxy::{ApiKey, KafkaFault};
use clickhouse_sink_tests::wait::{eventually_eq, stays_eq};

use super::Once;
use crate::support::SOON;

fn commits_nothing_before_it_joined(what: &str, protocol: GroupProtocol, join: ApiKey) {
    let (once, kafka) = Once::proxied(what, 1, protocol);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    kafka.set(KafkaFault::HoldReplies(join));
    let mut worker = once.worker("worker");
    let asked = || Ok(kafka.held(join) > 0);
    eventually_eq(SOON, "it asks to join", &true, asked).unwrap();
    let commits = || Ok(kafka.requests(ApiKey::OFFSET_COMMIT));
    stays_eq(Duration::from_secs(2), "commits", &0, commits).unwrap();
    assert_eq!(once.scene.committed(), [None]);
    kafka.pass();
    once.wait_plans(&[(3, &[])]);
    once.assert_each_once(3);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn an_empty_group_would_take_anybodys_commit_so_a_worker_sends_none_before_it_is_a_member() {
    commits_nothing_before_it_joined("not_joined", Classic, ApiKey::JOIN_GROUP);
}

#[test]
fn a_worker_sends_no_commit_before_the_broker_has_assigned_it_anything_under_the_consumer_protocol()
{
    let join = ApiKey::CONSUMER_GROUP_HEARTBEAT;
    commits_nothing_before_it_joined("not_joined_848", Consumer, join);
}

#[test]
fn the_broker_refuses_a_strangers_commit_while_a_worker_lives_and_takes_it_when_the_group_is_empty()
{
    let once = Once::new("stranger", 1, Classic);
    once.make_table();
    once.scene.produce_stats(0, 0, 3);
    let mut worker = once.worker("worker");
    once.wait_plans(&[(3, &[])]);
    let reset = || {
        let (group, topic) = (&once.scene.group, &once.scene.topic);
        once.scene
            .env
            .kafka()
            .reset_offsets(group, topic, &[(0, 1)])
    };
    assert!(reset().is_err());
    assert_eq!(once.plans(), [(3, vec![])]);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
    once.scene.wait_empty_group();
    reset().unwrap();
    assert_eq!(once.scene.committed(), [Some(1)]);
}
