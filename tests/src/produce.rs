//! Records of tests and of the demo: producers with explicit partitions, transactions, the night shift, generators.
//!
//! Must not be here: topics and groups (`kafka`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::{ClientConfig, Message as _};

use crate::proxy::lock;

const TIMEOUT: Duration = Duration::from_mins(1);
const NIGHT_SHIFT: &str = include_str!("../data/vision-events.ndjson");

/// Collects what could not be delivered.
#[derive(Clone, Debug, Default)]
struct Failures(Arc<Mutex<Vec<String>>>);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            lock(&self.0).push(format!(
                "{}/{}: {error}",
                message.topic(),
                message.partition()
            ));
        }
    }
}

/// A producer with `acks=all` that writes where it is told.
pub struct Producer {
    inner: BaseProducer<Failures>,
    failures: Failures,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Producer")
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl Producer {
    /// Producer for the cluster at `host:port,…`.
    ///
    /// # Errors
    /// Where the client cannot be made.
    pub fn new(brokers: &str) -> Result<Self> {
        Self::with(brokers, &[])
    }

    /// As [`Self::new`], with librdkafka settings of its own (`compression.type`, `message.max.bytes`, …).
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with(brokers: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", brokers)
            .set("acks", "all")
            .set("linger.ms", "5")
            .set("log_level", "3");
        config
            .set("message.max.bytes", "33554432")
            .set("queue.buffering.max.messages", "500000");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        let failures = Failures::default();
        let inner = config
            .create_with_context(failures.clone())
            .context("cannot make a producer")?;
        Ok(Self { inner, failures })
    }

    /// Queues a record; waits where the queue is full. `None` as payload is a tombstone.
    ///
    /// # Errors
    /// Where the client refuses the record.
    pub fn send(
        &self,
        topic: &str,
        partition: i32,
        key: Option<&[u8]>,
        payload: Option<&[u8]>,
    ) -> Result<()> {
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(partition);
        record.key = key;
        record.payload = payload;
        loop {
            match self.inner.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    self.inner.poll(Duration::from_millis(20));
                    record = back;
                }
                Err((error, _)) => bail!("cannot produce to {topic}/{partition}: {error}"),
            }
        }
    }

    /// Queues JSON text without a key.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_json(&self, topic: &str, partition: i32, json: &str) -> Result<()> {
        self.send(topic, partition, None, Some(json.as_bytes()))
    }

    /// Lets the client report deliveries; for long runs between two sends.
    pub fn poll(&self) {
        self.inner.poll(Duration::ZERO);
    }

    /// Waits until the broker has acknowledged every record.
    ///
    /// # Errors
    /// Where one was not delivered; names up to five.
    pub fn flush(&self) -> Result<()> {
        self.inner
            .flush(TIMEOUT)
            .context("the broker did not acknowledge everything in time")?;
        let failures = std::mem::take(&mut *lock(&self.failures.0));
        if failures.is_empty() {
            return Ok(());
        }
        let shown: Vec<&str> = failures.iter().take(5).map(String::as_str).collect();
        bail!(
            "{} records were not delivered: {}",
            failures.len(),
            shown.join("; ")
        )
    }
}

/// A transactional producer.
#[derive(Debug)]
pub struct Transactions {
    producer: Producer,
}

impl Transactions {
    /// Producer with this transactional id; an open transaction of an earlier one is aborted.
    ///
    /// # Errors
    /// Where the coordinator does not answer.
    pub fn new(brokers: &str, id: &str) -> Result<Self> {
        let producer = Producer::with(brokers, &[("transactional.id", id)])?;
        producer.inner.init_transactions(TIMEOUT)?;
        Ok(Self { producer })
    }

    /// Opens a transaction.
    ///
    /// # Errors
    /// Where one is open.
    pub fn begin(&self) -> Result<()> {
        Ok(self.producer.inner.begin_transaction()?)
    }

    /// Queues JSON text within the transaction.
    ///
    /// # Errors
    /// As [`Producer::send`].
    pub fn send_json(&self, topic: &str, partition: i32, json: &str) -> Result<()> {
        self.producer.send_json(topic, partition, json)
    }

    /// Waits until the broker has the records so far; the transaction stays open.
    ///
    /// # Errors
    /// As [`Producer::flush`].
    pub fn flush(&self) -> Result<()> {
        self.producer.flush()
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// Where the coordinator refuses.
    pub fn commit(&self) -> Result<()> {
        Ok(self.producer.inner.commit_transaction(TIMEOUT)?)
    }

    /// Aborts the transaction.
    ///
    /// # Errors
    /// Where the coordinator refuses.
    pub fn abort(&self) -> Result<()> {
        // Records still in the queue are purged by an abort and are no failures.
        self.producer.flush()?;
        Ok(self.producer.inner.abort_transaction(TIMEOUT)?)
    }
}

/// The six messages of the night shift with their partitions: camera `gate-3` → 0, `dock-1` → 1.
#[must_use]
pub fn night_shift() -> Vec<(i32, String)> {
    let lines = NIGHT_SHIFT.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| (i32::from(line.contains("\"dock-1\"")), line.to_owned()))
        .collect()
}

/// Produces the night shift to a topic of at least two partitions and waits for the broker.
///
/// # Errors
/// As [`Producer::flush`].
pub fn produce_night_shift(producer: &Producer, topic: &str) -> Result<()> {
    for (partition, line) in night_shift() {
        producer.send_json(topic, partition, &line)?;
    }
    producer.flush()
}

/// A stat event of one of the two cameras (`partition` 0 or 1); each `index` is an event of its own.
#[must_use]
pub fn stat_event(partition: i32, index: u64) -> String {
    let camera = if partition == 0 { "gate-3" } else { "dock-1" };
    render_event(
        &format!("stat-{partition}-{index}"),
        camera,
        "stat",
        index,
        1,
        "raised",
    )
}

/// Event `index` of an endless stream of alerts; the same for the same index. Every fourth one is the
/// acknowledgement (version 2) of the one before it.
#[must_use]
pub fn generated_event(index: u64) -> String {
    let acknowledges = index % 4 == 3;
    let subject = if acknowledges { index - 1 } else { index };
    let camera = format!("cam-{}", subject % 64);
    let (version, status) = if acknowledges {
        (2, "acknowledged")
    } else {
        (1, "raised")
    };
    render_event(
        &format!("gen-{subject}"),
        &camera,
        "alert",
        subject,
        version,
        status,
    )
}

/// Distinct events among the first `count` of [`generated_event`].
#[must_use]
pub fn distinct_generated(count: u64) -> u64 {
    count - count / 4
}

fn render_event(
    id: &str,
    camera: &str,
    kind: &str,
    index: u64,
    version: u32,
    status: &str,
) -> String {
    let (second, millisecond) = (index / 1000 % 60, index % 1000);
    let (minute, hour) = (index / 60_000 % 60, index / 3_600_000 % 24);
    format!(
        "{{\"event_id\": \"{id}\", \"site\": \"plant-a\", \"camera\": \"{camera}\", \"app\": \"intrusion\", \"kind\": \"{kind}\", \
         \"ts\": \"2026-03-14T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z\", \"version\": {version}, \"status\": \"{status}\"}}"
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_night_shift_has_three_messages_for_each_partition() {
        let partitions: Vec<i32> = night_shift()
            .into_iter()
            .map(|(partition, _)| partition)
            .collect();
        assert_eq!(partitions, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn generated_events_are_json_and_as_distinct_as_stated() {
        let ids: BTreeSet<String> = (0..1001)
            .map(|index| {
                serde_json::from_str::<serde_json::Value>(&generated_event(index)).unwrap()
            })
            .map(|event| event.get("event_id").unwrap().to_string())
            .collect();
        assert_eq!(ids.len() as u64, distinct_generated(1001));
    }

    #[test]
    fn an_acknowledgement_has_the_key_of_the_alert_that_it_acknowledges() {
        let fields = |index| {
            let event: serde_json::Value = serde_json::from_str(&generated_event(index)).unwrap();
            ["event_id", "camera", "ts", "site", "app"].map(|name| event.get(name).unwrap().clone())
        };
        assert_eq!(fields(3), fields(2));
    }
}
