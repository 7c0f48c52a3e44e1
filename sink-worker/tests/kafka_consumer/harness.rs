//! What the tests of the Kafka client share: topics, producers, and a member that reads what it is given.
//!
//! Must not be here: assertions about the client.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clickhouse_sink_worker::kafka::{
    CommitItem, Consumer, ConsumerSettings, Fault, Fetched, MainEvent, OpId, OpResult,
    PartitionHandle, TopicPartition, Waker, render_config,
};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn brokers() -> String {
    std::env::var("KAFKA_BROKERS")
        .expect("KAFKA_BROKERS is not set: run `cargo xtask test`, which starts a real broker")
}

/// A name that no other test and no earlier run has.
pub(crate) fn unique(what: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    format!("{what}-{}-{}-{number}", std::process::id(), now.as_millis())
}

fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .create()
        .unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) fn make_topic(name: &str, partitions: i32) {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let made = block_on(admin().create_topics([&topic], &AdminOptions::new())).unwrap();
    assert_eq!(made[0].as_ref().unwrap(), name);
}

pub(crate) fn new_topic(what: &str, partitions: i32) -> String {
    let name = unique(what);
    make_topic(&name, partitions);
    name
}

pub(crate) fn delete_topic(name: &str) {
    block_on(admin().delete_topics(&[name], &AdminOptions::new())).unwrap();
}

pub(crate) fn producer(extra: &[(&str, &str)]) -> BaseProducer {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers())
        .set("linger.ms", "0");
    for (name, value) in extra {
        config.set(*name, *value);
    }
    config.create().unwrap()
}

pub(crate) fn send(producer: &BaseProducer, topic: &str, partition: i32, count: usize) {
    for i in 0..count {
        let payload = format!("{{\"n\":{i}}}");
        producer
            .send(
                BaseRecord::<(), _>::to(topic)
                    .partition(partition)
                    .payload(&payload),
            )
            .map_err(|(error, _)| error)
            .unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

pub(crate) fn produce(topic: &str, partition: i32, count: usize) {
    send(&producer(&[]), topic, partition, count);
}

pub(crate) fn transactional() -> BaseProducer {
    let producer = producer(&[("transactional.id", &unique("txn"))]);
    producer.init_transactions(PATIENCE).unwrap();
    producer
}

pub(crate) fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

pub(crate) fn item(topic: &str, partition: i32, offset: i64, metadata: &str) -> CommitItem {
    CommitItem {
        topic: topic.into(),
        partition,
        offset,
        metadata: metadata.to_owned(),
    }
}

pub(crate) fn config(group: &str, properties: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut settings = ConsumerSettings::new(vec![brokers()], group, "test");
    settings
        .properties
        .insert("topic.metadata.refresh.interval.ms".into(), "1000".into());
    settings.properties.extend(
        properties
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned())),
    );
    render_config(&settings)
}

/// A consumer with everything that came out of it, driven by hand.
pub(crate) struct Member {
    pub(crate) consumer: Consumer,
    pub(crate) handles: BTreeMap<TopicPartition, PartitionHandle>,
    pub(crate) events: Vec<MainEvent>,
    pub(crate) revoked: Vec<TopicPartition>,
    pub(crate) results: BTreeMap<OpId, OpResult>,
    pub(crate) offsets: BTreeMap<TopicPartition, Vec<i64>>,
    pub(crate) ends: BTreeMap<TopicPartition, i64>,
    pub(crate) faults: Vec<(TopicPartition, Fault)>,
    /// Answer a revocation at once; else it waits in `revoked`.
    pub(crate) obeys: bool,
    /// Where a newly assigned partition is read from.
    pub(crate) start: i64,
    pub(crate) turns: usize,
}

impl Member {
    pub(crate) fn alone(group: &str) -> Self {
        Self::with(group, &[])
    }

    pub(crate) fn with(group: &str, properties: &[(&str, &str)]) -> Self {
        let consumer =
            Consumer::open(&config(group, properties), Waker::for_current_thread()).unwrap();
        Self {
            consumer,
            handles: BTreeMap::new(),
            events: Vec::new(),
            revoked: Vec::new(),
            results: BTreeMap::new(),
            offsets: BTreeMap::new(),
            ends: BTreeMap::new(),
            faults: Vec::new(),
            obeys: true,
            start: 0,
            turns: 0,
        }
    }

    pub(crate) fn of(group: &str, topic: &str) -> Self {
        let member = Self::alone(group);
        member.consumer.subscribe(&[topic.to_owned()]).unwrap();
        member
    }

    /// Everything that is there now; waits for nothing.
    pub(crate) fn turn(&mut self) {
        self.turns += 1;
        while let Some(event) = self.consumer.poll_main() {
            self.answer(&event);
            self.events.push(event);
        }
        while let Some((id, result)) = self.consumer.poll_ops() {
            assert!(
                self.results.insert(id, result).is_none(),
                "one request, two answers"
            );
        }
        let handles: Vec<_> = self.handles.iter().map(|(p, h)| (p.clone(), *h)).collect();
        for (partition, handle) in handles {
            while self.read(&partition, handle, 100) {}
        }
    }

    fn answer(&mut self, event: &MainEvent) {
        match event {
            MainEvent::Assign(partitions) => self.assign(partitions),
            MainEvent::Revoke { partitions, .. } if self.obeys => self.unassign(partitions),
            MainEvent::Revoke { partitions, .. } => self.revoked.extend_from_slice(partitions),
            _ => {}
        }
    }

    pub(crate) fn assign(&mut self, partitions: &[TopicPartition]) {
        for partition in partitions {
            self.handles
                .insert(partition.clone(), self.consumer.split(partition).unwrap());
        }
        let at: Vec<_> = partitions.iter().map(|p| (p.clone(), self.start)).collect();
        self.consumer.incremental_assign(&at).unwrap();
    }

    pub(crate) fn unassign(&mut self, partitions: &[TopicPartition]) {
        self.consumer.incremental_unassign(partitions).unwrap();
        for partition in partitions {
            self.handles.remove(partition);
        }
    }

    pub(crate) fn read(
        &mut self,
        partition: &TopicPartition,
        handle: PartitionHandle,
        max: usize,
    ) -> bool {
        let offsets = self.offsets.entry(partition.clone()).or_default();
        let (ends, faults) = (&mut self.ends, &mut self.faults);
        let outcome = self
            .consumer
            .read_batch(handle, max, |fetched| match fetched {
                Fetched::Record { offset, .. } => offsets.push(offset),
                Fetched::Eof { offset } => drop(ends.insert(partition.clone(), offset)),
                Fetched::Error { fault, .. } => faults.push((partition.clone(), fault)),
            });
        outcome.more
    }

    /// Turns and parks until `done`, woken by the waker (and each 200 ms, for conditions outside).
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.turn();
            if done(self) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "not in time: {what}; saw {:?} {:?}",
                self.events,
                self.ends
            );
            std::thread::park_timeout(Duration::from_millis(200));
        }
    }

    pub(crate) fn wait(&mut self, id: OpId) -> OpResult {
        self.until("an answer", |member| member.results.contains_key(&id));
        self.results.remove(&id).unwrap()
    }

    pub(crate) fn join(&mut self, partitions: usize) {
        self.until("assigned", |member| member.handles.len() == partitions);
    }

    pub(crate) fn read_to(&mut self, partition: &TopicPartition, end: i64) {
        self.until("read to the end", |member| {
            member.ends.get(partition) == Some(&end)
        });
    }

    pub(crate) fn commit(&mut self, items: &[CommitItem]) -> OpResult {
        let id = self.consumer.commit(items).unwrap();
        self.wait(id)
    }

    /// What `group` has committed for `partition`: offset and metadata.
    pub(crate) fn committed(
        &mut self,
        group: &str,
        partition: &TopicPartition,
    ) -> (Option<i64>, Vec<u8>) {
        loop {
            let asked = std::slice::from_ref(partition);
            let id = self
                .consumer
                .list_group_offsets(group, Some(asked))
                .unwrap();
            match self.wait(id) {
                OpResult::GroupOffsets(Ok(mut offsets)) => {
                    assert_eq!((offsets.len(), &offsets[0].fault), (1, &None));
                    let found = offsets.remove(0);
                    return (found.offset, found.metadata);
                }
                OpResult::GroupOffsets(Err(fault)) if fault.code.is_transient() => {}
                other => panic!("expected offsets, found {other:?}"),
            }
        }
    }

    pub(crate) fn take_offsets(&mut self, partition: &TopicPartition) -> Vec<i64> {
        self.ends.remove(partition);
        self.offsets.remove(partition).unwrap_or_default()
    }
}
