//! One question to the group's coordinator, asked with a client of its own that ends with the answer.
//!
//! librdkafka (up to 2.12.1 at least) ends the process where such a request times out while the coordinator is away: the
//! request is freed, and the search for the coordinator, which goes on, uses it again as soon as one is there
//! (`rd_kafka_enq_once_del_source_return: Assertion eonce->refcnt > 0`). So the request itself never times out here; who
//! asks gives up before that, and the client is ended in order, with its search.
//! Must not be here: other requests (`ops.rs`), what an answer means.
#![allow(unsafe_code, reason = "thin calls into librdkafka")]

use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};

use rdkafka_sys as sys;

use super::errors::{ErrorCode, KafkaError};
use super::ffi::{Client, Event, Queue, c_string};
use super::lists::PartitionList;
use super::ops::Options;
use super::types::{Fault, OpId, TopicPartition};
use super::waker::Waker;

/// The longest that librdkafka takes, milliseconds; see above why it must not be reached.
const NEVER_MS: c_int = 3_600_000;
/// An answer that has not come by then is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Settings of a group's member that a client outside of any group cannot take, or would only warn about.
const MEMBERS_OWN: &[&str] = &[
    "auto.offset.reset",
    "group.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "log.queue",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
];

/// A question on its way.
pub(super) struct Question {
    line: Option<Line>,
    pub(super) op: OpId,
    since: Instant,
}

/// The client of one question; dropped in this order.
struct Line {
    answer: Queue,
    _client: Client,
}

/// What a question says when it is looked at.
pub(super) enum Heard {
    Nothing,
    Answer(Event),
    /// Nothing came in time.
    TimedOut(Fault),
}

impl Question {
    /// Asks for what the group has committed: of these partitions, or of all that it has offsets for.
    pub(super) fn ask(
        config: &[(String, String)],
        group_id: &str,
        partitions: Option<&[TopicPartition]>,
        op: OpId,
        waker: &Waker,
    ) -> Result<Self, KafkaError> {
        let group = c_string(group_id, "a group id")?;
        let list = partitions
            .map(|partitions| PartitionList::of(partitions.iter()))
            .transpose()?;
        let client = Client::new(&outsider(config))?;
        let mut answer = Queue::new(&client)?;
        answer.wake_with(waker);
        let options = Options::new(
            &client,
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
            op,
            NEVER_MS,
        );
        let list = list.as_ref().map_or(ptr::null_mut(), PartitionList::raw);
        // SAFETY: all arguments are alive and copied by the calls; the request object is destroyed once.
        unsafe {
            let mut request = sys::rd_kafka_ListConsumerGroupOffsets_new(group.as_ptr(), list);
            sys::rd_kafka_ListConsumerGroupOffsets(
                client.raw(),
                &raw mut request,
                1,
                options.raw(),
                answer.raw(),
            );
            sys::rd_kafka_ListConsumerGroupOffsets_destroy(request);
        }
        drop(options);
        Ok(Self {
            line: Some(Line {
                answer,
                _client: client,
            }),
            op,
            since: Instant::now(),
        })
    }

    /// Looks for the answer, without waiting.
    pub(super) fn listen(&self) -> Heard {
        let line = self.line.as_ref();
        let event = line.and_then(|line| line.answer.poll(Duration::ZERO));
        match event {
            Some(event) => Heard::Answer(event),
            None if self.since.elapsed() < PATIENCE => Heard::Nothing,
            None => Heard::TimedOut(Fault {
                code: ErrorCode::TIMED_OUT,
                text: format!(
                    "the group's coordinator has not answered within {} s",
                    PATIENCE.as_secs()
                ),
            }),
        }
    }
}

impl Drop for Question {
    /// Ending a client waits for its threads, one of which may be looking a name up; nobody else should wait for that.
    fn drop(&mut self) {
        let line = self.line.take();
        let thread = std::thread::Builder::new().name("kafka-question".to_owned());
        if let Err(error) = thread.spawn(move || drop(line)) {
            tracing::debug!(%error, "A client of one question was ended by the one who asked.");
        }
    }
}

/// The settings of a client that reaches the same brokers with the same rights and joins nothing.
fn outsider(config: &[(String, String)]) -> Vec<(String, String)> {
    let reach = config
        .iter()
        .filter(|(name, _)| !MEMBERS_OWN.contains(&name.as_str()));
    // Its troubles are those of the consumer beside it, which tells them.
    let quiet = ("log_level".to_owned(), "0".to_owned());
    reach.cloned().chain([quiet]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::{ConsumerSettings, render_config};

    #[test]
    fn the_one_who_asks_has_the_consumers_brokers_and_rights_and_no_group() {
        let mut settings = ConsumerSettings::new(vec!["a:9092".into()], "g", "worker-0");
        settings
            .properties
            .insert("sasl.username".into(), "u".into());
        let config = outsider(&render_config(&settings));
        let has = |name: &str| config.iter().any(|(other, _)| other == name);
        assert!(has("bootstrap.servers") && has("sasl.username") && has("client.id"));
        assert!(!has("group.id") && !has("session.timeout.ms") && !has("log.queue"));
    }
}
