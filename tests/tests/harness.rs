//! The harness on the real components: what the scenario tests rely on is shown here first.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::{Duration, Instant};

use clickhouse_sink_tests::clickhouse::ClickHouseClient;
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::produce::{Producer, Transactions, produce_night_shift};
use clickhouse_sink_tests::proxy::{ApiKey, Fault, KafkaFault, On};
use clickhouse_sink_tests::stack::clickhouse::{ClickHouse, READER, WRITER};
use clickhouse_sink_tests::wait::eventually_eq;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Message};

const SOON: Duration = Duration::from_secs(20);

/// A consumer of a group through `bootstrap` that has read `count` records and committed nothing.
fn consume(bootstrap: &str, group: &str, topic: &str, count: usize) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("session.timeout.ms", "6000");
    config
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("heartbeat.interval.ms", "500");
    let consumer: BaseConsumer = config.create().unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let give_up = Instant::now() + SOON;
    let mut read = 0;
    while read < count {
        assert!(Instant::now() < give_up, "read {read} of {count} records");
        if let Some(record) = consumer.poll(Duration::from_millis(100)) {
            assert!(record.unwrap().payload().is_some());
            read += 1;
        }
    }
    consumer
}

#[test]
fn the_night_shift_lies_in_its_partitions_and_a_group_without_commits_lags_by_all_of_it() {
    let env = Env::get().unwrap();
    let topic = env.topic("night_shift", 2).unwrap();
    produce_night_shift(&env.producer().unwrap(), &topic).unwrap();
    let group = env.unique("group");
    assert_eq!(env.kafka().committed(&group, &topic).unwrap(), [None, None]);
    assert_eq!(env.kafka().lags(&group, &topic).unwrap(), [3, 3]);
}

#[test]
fn a_commit_that_the_proxy_holds_is_not_there_until_it_is_let_go_and_the_member_stays() {
    let env = Env::get().unwrap();
    let proxy = env.kafka_proxy().unwrap();
    let topic = env.topic("held_commit", 2).unwrap();
    produce_night_shift(&env.producer().unwrap(), &topic).unwrap();
    let group = env.unique("group");
    let consumer = consume(proxy.bootstrap(), &group, &topic, 6);
    proxy.set(KafkaFault::HoldRequests(ApiKey::OFFSET_COMMIT));
    consumer.commit_consumer_state(CommitMode::Async).unwrap();
    eventually_eq(SOON, "held commits", &1, || {
        Ok(proxy.held(ApiKey::OFFSET_COMMIT))
    })
    .unwrap();
    let heartbeats = proxy.requests(ApiKey::HEARTBEAT);
    let some_later = || {
        consumer.poll(Duration::from_millis(50));
        Ok(proxy.requests(ApiKey::HEARTBEAT) > heartbeats + 2)
    };
    eventually_eq(SOON, "heartbeats pass", &true, some_later).unwrap();
    assert_eq!(env.kafka().committed(&group, &topic).unwrap(), [None, None]);
    assert_eq!(env.kafka().group_members(&group).unwrap().len(), 1);
    proxy.pass();
    let committed = || env.kafka().committed(&group, &topic);
    eventually_eq(SOON, "offsets", &vec![Some(3), Some(3)], committed).unwrap();
}

#[test]
fn topics_grow_lose_their_oldest_records_and_groups_are_reset() {
    let env = Env::get().unwrap();
    let topic = env.topic("grown", 1).unwrap();
    let producer = env.producer().unwrap();
    (0..5).for_each(|number| producer.send_json(&topic, 0, &number.to_string()).unwrap());
    producer.flush().unwrap();
    env.kafka().grow_topic(&topic, 2).unwrap();
    env.kafka().delete_records(&topic, 0, 2).unwrap();
    let group = env.unique("group");
    env.kafka()
        .reset_offsets(&group, &topic, &[(0, 4)])
        .unwrap();
    let offsets = env.kafka().group_offsets(&group, &topic).unwrap();
    let seen: Vec<_> = offsets
        .iter()
        .map(|it| (it.low, it.end, it.committed, it.lag()))
        .collect();
    assert_eq!(seen, [(2, 5, Some(4), 1), (0, 0, None, 0)]);
    env.kafka().delete_topic(&topic).unwrap();
}

#[test]
fn an_aborted_transaction_leaves_offsets_but_no_records() {
    let env = Env::get().unwrap();
    let topic = env.topic("transactions", 1).unwrap();
    let transactions = Transactions::new(&env.brokers, &topic).unwrap();
    for (json, commits) in [("1", true), ("2", false)] {
        transactions.begin().unwrap();
        transactions.send_json(&topic, 0, json).unwrap();
        if commits {
            transactions.commit().unwrap();
        } else {
            transactions.abort().unwrap();
        }
    }
    let end = || {
        Ok(env
            .kafka()
            .group_offsets("none", &topic)?
            .first()
            .map(|it| it.end))
    };
    eventually_eq(SOON, "end with two records and two markers", &Some(4), end).unwrap();
    consume(&env.brokers, &env.unique("group"), &topic, 1);
}

#[test]
fn a_record_that_the_broker_refuses_is_an_error_of_flush() {
    let env = Env::get().unwrap();
    let topic = env.unique("small");
    env.kafka()
        .create_topic(&topic, 1, &[("max.message.bytes", "1000")])
        .unwrap();
    let producer = Producer::new(&env.brokers).unwrap();
    producer.send(&topic, 0, None, Some(&[b'x'; 5000])).unwrap();
    let error = producer.flush().unwrap_err().to_string();
    assert!(error.starts_with("1 records were not delivered"), "{error}");
}

#[test]
fn the_writer_may_insert_and_the_reader_may_not() {
    let env = Env::get().unwrap();
    let database = env.database("rights").unwrap();
    let client = database.client();
    client
        .query("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
        .unwrap();
    client
        .as_user(WRITER)
        .query("INSERT INTO t VALUES (18446744073709551615)")
        .unwrap();
    let refused = client
        .as_user(READER)
        .query_with("INSERT INTO t VALUES (1)", &[])
        .unwrap_err();
    assert!(refused.to_string().starts_with("Code: 164"), "{refused}");
    let unknown = client
        .as_user((WRITER.0, "wrong"))
        .query("SELECT 1")
        .unwrap_err();
    assert!(unknown.to_string().starts_with("Code: 516"), "{unknown}");
    let rows = client.rows("SELECT a FROM t").unwrap();
    assert_eq!(
        rows.first()
            .and_then(|row| row.get("a"))
            .and_then(serde_json::Value::as_u64),
        Some(u64::MAX)
    );
    assert_eq!(client.count("t WHERE a > 0").unwrap(), 1);
}

#[test]
fn a_reply_that_is_lost_after_the_insert_leaves_its_rows_and_its_entry_in_the_query_log() {
    let env = Env::get().unwrap();
    let database = env.database("lost_reply").unwrap();
    let client = database.client();
    client
        .query("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
        .unwrap();
    let proxy = env.clickhouse_proxy().unwrap();
    let through = ClickHouseClient::new(&proxy.url())
        .unwrap()
        .in_database(database.name());
    proxy.fail_next(1, Fault::DropReply, On::Inserts);
    let query_id = env.unique("insert");
    through
        .query_with("INSERT INTO t VALUES (1), (2)", &[("query_id", &query_id)])
        .unwrap_err();
    assert_eq!(client.count("t").unwrap(), 2);
    let inserts = proxy.inserts();
    assert_eq!(
        inserts
            .iter()
            .map(|it| it.param("query_id"))
            .collect::<Vec<_>>(),
        [Some(query_id.as_str())]
    );
    client.flush_logs().unwrap();
    let logged = format!("system.query_log WHERE type = 'QueryFinish' AND query_id = '{query_id}'");
    assert_eq!(client.count(&logged).unwrap(), 1);
}

#[test]
fn a_server_of_its_own_is_killed_hung_and_started_again_with_its_rows() {
    let env = Env::get().unwrap();
    let mut server = ClickHouse::start(&env.test_dir("own_server").unwrap()).unwrap();
    let client = ClickHouseClient::new(&server.url()).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    client
        .query("CREATE TABLE d.t (a Int32) ENGINE = MergeTree ORDER BY a")
        .unwrap();
    client.query("INSERT INTO d.t VALUES (7)").unwrap();
    client.flush_logs().unwrap();
    server.kill();
    assert!(client.query("SELECT 1").is_err());
    server.restart().unwrap();
    assert_eq!(client.count("d.t").unwrap(), 1);
    // Its logs have begun anew, and go on.
    client.query("INSERT INTO d.t VALUES (7)").unwrap();
    client.flush_logs().unwrap();
    let logged = "system.part_log WHERE database = 'd' AND event_type = 'NewPart'";
    assert_eq!(client.count(logged).unwrap(), 1);
    server.stop_hang().unwrap();
    let address = server.address();
    let ping = || clickhouse_sink_tests::http::get(&address, "/ping", Duration::from_millis(300));
    eventually_eq(SOON, "no answer to /ping", &true, || Ok(ping().is_err())).unwrap();
    server.resume().unwrap();
    eventually_eq(SOON, "status of /ping", &200, || Ok(ping()?.status)).unwrap();
    server.stop();
    assert!(!server.has_ended());
}
