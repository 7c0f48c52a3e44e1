//! What other writers and readers of the topic do: transactions, compaction.
//!
//! Must not be here: what workers do.

use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_tests::produce::{Transactions, stat_event};
use clickhouse_sink_tests::proxy::{Fault, On};

use super::Once;
use crate::support::SOON;

#[test]
fn a_range_with_holes_of_aborted_transactions_is_replayed_to_the_same_end() {
    let once = Once::new("aborted", 1, Classic);
    once.make_table();
    let transactions =
        Transactions::new(&once.scene.env.brokers, &once.scene.env.unique("tx")).unwrap();
    let produce = |from: u64, to: u64| {
        transactions.begin().unwrap();
        (from..to).for_each(|index| {
            transactions
                .send_json(&once.scene.topic, 0, &stat_event(0, index))
                .unwrap();
        });
    };
    // Offsets 0 and 1, a mark at 2; 3 to 6 are aborted, a mark at 7; 8, a mark at 9.
    produce(0, 2);
    transactions.commit().unwrap();
    produce(2, 6);
    transactions.abort().unwrap();
    produce(6, 7);
    transactions.commit().unwrap();
    once.scene
        .proxy
        .set_on(Fault::DelayReply(Duration::from_mins(5)), On::Inserts);
    let mut worker = once.worker("killed");
    once.scene.wait_rows(3);
    worker.program.kill().unwrap();
    once.scene.proxy.pass();
    let plan = once.plans().remove(0);
    assert_eq!(plan.0, 0);
    let end = plan.1[0];
    assert!(end == 9 || end == 10, "{plan:?}");
    let mut config = once.config();
    config.batch.linger_ms = 200;
    let mut next = once.worker_on("next", &config);
    let sent = || Ok(once.sent().get(&format!("0/0-{end}")).copied());
    clickhouse_sink_tests::wait::eventually_eq(SOON, "sent again", &Some(2), sent).unwrap();
    once.wait_plans(&[(10, &[])]);
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
    let offsets =
        "SELECT groupArray(_offset) FROM (SELECT _offset FROM vision_events ORDER BY ALL)";
    assert_eq!(
        once.scene.client().query(offsets).unwrap().trim_end(),
        "[0,1,8]"
    );
    assert_eq!(once.inserts_dropped(), 1);
}

/// A topic whose cleaner keeps the last record of each key.
fn compacted_topic(once: &mut Once) {
    let topic = once.scene.env.unique("compacted");
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "200"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("max.compaction.lag.ms", "200"),
    ];
    once.scene
        .env
        .kafka()
        .create_topic(&topic, 1, &settings)
        .unwrap();
    once.scene.topic.clone_from(&topic);
    once.sink = once
        .sink
        .clone()
        .set("kafka.topics", serde_json::json!([topic]));
}

fn send_keyed(once: &Once, key: &str, index: u64) {
    let event = stat_event(0, index);
    once.scene
        .producer
        .send(
            &once.scene.topic,
            0,
            Some(key.as_bytes()),
            Some(event.as_bytes()),
        )
        .unwrap();
    once.scene.producer.flush().unwrap();
}

/// The offsets that the topic still has, from its first record on.
fn offsets_left(once: &Once) -> Vec<i64> {
    use rdkafka::Message as _;
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    use rdkafka::{ClientConfig, Offset, TopicPartitionList};
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &once.scene.env.brokers)
        .set("group.id", "looks")
        .set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(&once.scene.topic, 0, Offset::Beginning)
        .unwrap();
    consumer.assign(&from).unwrap();
    let (_, end) = consumer
        .fetch_watermarks(&once.scene.topic, 0, SOON)
        .unwrap();
    let mut left = Vec::new();
    while left.last() != Some(&(end - 1)) {
        if let Some(record) = consumer.poll(Duration::from_secs(5)) {
            left.push(record.unwrap().offset());
        }
    }
    left
}

#[test]
fn a_declared_range_of_which_compaction_has_taken_records_is_replayed_without_them() {
    let mut once = Once::new("compaction", 1, Classic);
    compacted_topic(&mut once);
    once.make_table();
    for (index, key) in ["a", "a", "b"].iter().enumerate() {
        send_keyed(&once, key, index as u64);
    }
    once.scene.proxy.set_on(Fault::Hang, On::Inserts);
    let mut worker = once.worker("killed");
    once.scene.wait_inserts(1);
    worker.program.kill().unwrap();
    once.scene.proxy.pass();
    assert_eq!(once.plans(), [(0, vec![3])]);
    // The next record closes the segment of the range, and the cleaner comes by.
    crate::support::pause(Duration::from_millis(400));
    send_keyed(&once, "c", 3);
    let gone = || Ok(offsets_left(&once) == [1, 2, 3]);
    clickhouse_sink_tests::wait::eventually_eq(SOON, "offset 0 is gone", &true, gone).unwrap();
    let mut config = once.config();
    config.batch.linger_ms = 200;
    let mut next = once.worker_on("next", &config);
    once.wait_plans(&[(4, &[])]);
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(once.ranges_sent(), ["0/0-3", "0/3-4"]);
    once.assert_each_once(3);
}
