//! Reading one record again, outside of any group.
//!
//! Only for rare paths that need the bytes of a record whose batch is long gone. Must not be here: batches, commits.
#![allow(unsafe_code, reason = "thin calls into librdkafka")]

use std::time::{Duration, Instant};

use rdkafka_sys as sys;

use super::errors::KafkaError;
use super::ffi::{Client, Queue, c_string, refused_code};
use super::lists::PartitionList;
use super::record::{Batch, Fetched};
use super::types::{Fault, TopicPartition};
use super::waker::Waker;

/// A record that was copied out of librdkafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Its offset.
    pub offset: i64,
    /// Its time, milliseconds since the epoch; -1 where it has none.
    pub timestamp_ms: i64,
    /// The key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// The payload; `None` is null.
    pub payload: Option<Vec<u8>>,
    /// The headers in the record's order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// How long the thread sleeps at most before it looks at the clock again.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Reads the record at exactly `offset` with a short-lived client that joins no group and commits nothing.
///
/// `Ok(None)`: there is no such record (compacted away, aborted, a control record, or not written yet). Blocks until
/// then, at most until `deadline`. `config` is that of [`super::render_config`].
///
/// # Errors
/// A refused setting, an error of the partition (such as an offset that retention took, or one beyond the end), or the deadline.
pub fn fetch_record(
    config: &[(String, String)],
    partition: &TopicPartition,
    offset: i64,
    deadline: Instant,
) -> Result<Option<OwnedRecord>, KafkaError> {
    let client = Client::new(config)?;
    client.join_main_queues()?;
    let main = Queue::of_group(&client)?;
    let topic = c_string(&partition.topic, "a topic name")?;
    let mut queue = Queue::of_partition(&client, &topic, partition.partition)?;
    queue.wake_with(&Waker::for_current_thread());
    assign(&client, partition, offset)?;
    let mut batch = Batch::default();
    while Instant::now() < deadline {
        while main.poll(Duration::ZERO).is_some() {}
        let mut found = None;
        batch.read(&queue, 1, |fetched| found = Some(look(&fetched, offset)));
        match found {
            Some(answer) => return answer,
            None => std::thread::park_timeout(
                LONGEST_WAIT.min(deadline.saturating_duration_since(Instant::now())),
            ),
        }
    }
    Err(KafkaError::TimedOut {
        what: "read one record",
    })
}

/// Asks for the id of the cluster with a short-lived client that joins no group. Blocks until then, at most until `deadline`.
///
/// # Errors
/// A refused setting, or the deadline.
pub fn fetch_cluster_id(
    config: &[(String, String)],
    deadline: Instant,
) -> Result<String, KafkaError> {
    let client = Client::new(config)?;
    while Instant::now() < deadline {
        if let Some(id) = client.cluster_id(Duration::from_secs(1)) {
            return Ok(id);
        }
    }
    Err(KafkaError::TimedOut {
        what: "ask for the cluster's id",
    })
}

fn assign(client: &Client, partition: &TopicPartition, offset: i64) -> Result<(), KafkaError> {
    let mut list = PartitionList::with_capacity(1)?;
    list.push(&partition.topic, partition.partition, offset.max(0), b"")?;
    // SAFETY: client and list are alive; the list is copied.
    refused_code("read one record", unsafe {
        sys::rd_kafka_assign(client.raw(), list.raw())
    })
}

/// What the first thing that came out of the queue says about `wanted`.
fn look(fetched: &Fetched<'_>, wanted: i64) -> Result<Option<OwnedRecord>, KafkaError> {
    match fetched {
        Fetched::Record {
            offset,
            timestamp_ms,
            key,
            payload,
            headers,
        } => {
            let headers = || {
                headers
                    .iter()
                    .map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)))
            };
            Ok((*offset == wanted).then(|| OwnedRecord {
                offset: *offset,
                timestamp_ms: *timestamp_ms,
                key: key.map(<[u8]>::to_vec),
                payload: payload.map(<[u8]>::to_vec),
                headers: headers().collect(),
            }))
        }
        Fetched::Eof { .. } => Ok(None),
        Fetched::Error {
            fault: Fault { code, text },
            ..
        } => Err(KafkaError::Refused {
            what: "read one record",
            code: *code,
            text: text.clone(),
        }),
    }
}
