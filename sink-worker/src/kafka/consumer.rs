//! One consumer: the group's events, the partitions' queues, and the end of it.
//!
//! Must not be here: requests whose answer comes later (`ops.rs`), what to do about an event.
#![allow(unsafe_code, reason = "thin calls into librdkafka")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka_sys as sys;

use super::errors::{ErrorCode, KafkaError};
use super::ffi::{Client, Event, Queue, c_string, refused, refused_code, take_error};
use super::lists::{PartitionList, read_partitions};
use super::question::Question;
use super::record::{Batch, Fetched, ReadOutcome};
use super::types::{Fault, MainEvent, Membership, TopicPartition};
use super::waker::Waker;
use event::{event_partition, stray_record, write_log};

mod event;

/// librdkafka's codes of the two kinds of rebalance event.
const ASSIGN_PARTITIONS: ErrorCode = ErrorCode(-175);
const REVOKE_PARTITIONS: ErrorCode = ErrorCode(-174);

/// A subscription names topics, not partitions.
const ANY_PARTITION: i32 = -1;

/// How many left-over records of a given-up partition are freed at once.
const SWEEP_RECORDS: usize = 1024;

/// How long a drop in the middle of a close goes on with it, and how long it waits for each of its events.
const LAST_CLOSE_WAIT: Duration = Duration::from_secs(1);
const LAST_CLOSE_POLL: Duration = Duration::from_millis(20);

/// Names one partition queue of one consumer; it stays valid for the life of the consumer, whoever owns the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionHandle(usize);

struct Slot {
    partition: TopicPartition,
    queue: Option<Queue>,
    assigned: bool,
}

/// One member of a consumer group, owned by one thread.
///
/// The loop around it: poll [`Self::poll_main`] and [`Self::poll_ops`] until they are empty, read the partitions until
/// nothing is left or the budget is used up, then park. The waker ends the park when anything new comes. `poll_main`
/// has to be called at least every half of `max.poll.interval.ms`, also while a rebalance is being answered.
///
/// Dropping it leaves the group to find out by itself (no `LeaveGroup`, no waiting for a coordinator; at most a second
/// where a close was begun); see [`Self::close_async`].
pub struct Consumer {
    // Fields are dropped in this order: queues before the client that they belong to.
    slots: Vec<Slot>,
    pub(super) ops: Queue,
    closing: Option<Queue>,
    main: Queue,
    pub(super) client: Client,
    by_partition: HashMap<TopicPartition, usize>,
    batch: Batch,
    pub(super) config: Vec<(String, String)>,
    pub(super) questions: Vec<Question>,
    pub(super) waker: Waker,
    pub(super) last_op: usize,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("partitions", &self.by_partition.keys())
            .finish_non_exhaustive()
    }
}

impl Consumer {
    /// Starts a client with the settings of [`super::render_config`]. The group is not joined yet; no broker is needed.
    ///
    /// # Errors
    /// A setting that librdkafka does not take, or threads that could not be started.
    pub fn open(config: &[(String, String)], waker: Waker) -> Result<Self, KafkaError> {
        let client = Client::new(config)?;
        client.join_main_queues()?;
        let mut main = Queue::of_group(&client)?;
        let mut ops = Queue::new(&client)?;
        main.wake_with(&waker);
        ops.wake_with(&waker);
        Ok(Self {
            slots: Vec::new(),
            ops,
            closing: None,
            main,
            client,
            by_partition: HashMap::new(),
            batch: Batch::default(),
            config: config.to_vec(),
            questions: Vec::new(),
            waker,
            last_op: 0,
        })
    }

    /// Joins the group for these topics; what follows comes as [`MainEvent`]s.
    ///
    /// # Errors
    /// A name that Kafka cannot take, or a consumer with a fatal error.
    pub fn subscribe(&self, topics: &[String]) -> Result<(), KafkaError> {
        let mut list = PartitionList::with_capacity(topics.len())?;
        for topic in topics {
            list.push(
                topic,
                ANY_PARTITION,
                i64::from(sys::RD_KAFKA_OFFSET_INVALID),
                b"",
            )?;
        }
        // SAFETY: client and list are alive; the list is copied.
        refused_code("subscribe", unsafe {
            sys::rd_kafka_subscribe(self.client.raw(), list.raw())
        })
    }

    /// The next event of the group or the client, without waiting. Logs go to `tracing` on the way.
    pub fn poll_main(&mut self) -> Option<MainEvent> {
        loop {
            let event = self
                .closing
                .as_ref()
                .unwrap_or(&self.main)
                .poll(Duration::ZERO)?;
            match event.kind() {
                sys::RD_KAFKA_EVENT_LOG => write_log(&event),
                sys::RD_KAFKA_EVENT_REBALANCE => return Some(self.read_rebalance(&event)),
                sys::RD_KAFKA_EVENT_ERROR => return Some(self.read_error(&event)),
                sys::RD_KAFKA_EVENT_FETCH => return Some(stray_record()),
                _ => {}
            }
        }
    }

    fn read_rebalance(&mut self, event: &Event) -> MainEvent {
        // SAFETY: the list belongs to the event, which outlives the call.
        let partitions =
            unsafe { read_partitions(sys::rd_kafka_event_topic_partition_list(event.raw())) };
        match event.code() {
            ASSIGN_PARTITIONS => MainEvent::Assign(partitions),
            REVOKE_PARTITIONS => MainEvent::Revoke {
                partitions,
                lost: self.client.is_assignment_lost(),
            },
            code => {
                // librdkafka asks for this after such an event.
                self.client.unassign_all();
                self.slots.iter_mut().for_each(|slot| slot.assigned = false);
                MainEvent::RebalanceFailed(Fault {
                    code,
                    text: super::describe_code(code),
                })
            }
        }
    }

    fn read_error(&self, event: &Event) -> MainEvent {
        let fallback = || Fault {
            code: ErrorCode::NO_ERROR,
            text: "error event without a code".into(),
        };
        let died = self.client.fatal_fault();
        let fatal = event.is_fatal() || died.is_some();
        let fault = died.or_else(|| event.fault()).unwrap_or_else(fallback);
        MainEvent::Error {
            fault,
            partition: event_partition(event),
            fatal,
        }
    }

    /// Gets the queue of one partition, cut off from the main queue and with its wake-up set.
    ///
    /// Call it before `incremental_assign` (which does it too): the first records would land in the main queue else.
    /// The handle is the same each time; the queue behind it is fetched anew while the partition is not assigned, since
    /// a topic that was deleted and made again has new queues.
    ///
    /// # Errors
    /// A topic name that Kafka cannot take.
    pub fn split(&mut self, partition: &TopicPartition) -> Result<PartitionHandle, KafkaError> {
        let index = self.slot_index(partition);
        if !self.slots[index].assigned {
            let name = c_string(&partition.topic, "a topic name")?;
            // The old reference goes first: it would switch off the wake-up of the queue that both name.
            self.slots[index].queue = None;
            let mut queue = Queue::of_partition(&self.client, &name, partition.partition)?;
            queue.wake_with(&self.waker);
            self.slots[index].queue = Some(queue);
        }
        Ok(PartitionHandle(index))
    }

    fn slot_index(&mut self, partition: &TopicPartition) -> usize {
        if let Some(&index) = self.by_partition.get(partition) {
            return index;
        }
        self.slots.push(Slot {
            partition: partition.clone(),
            queue: None,
            assigned: false,
        });
        self.by_partition
            .insert(partition.clone(), self.slots.len() - 1);
        self.slots.len() - 1
    }

    /// Answers an [`MainEvent::Assign`], or adds partitions again: fetching starts at the given offsets (at least 0).
    ///
    /// # Errors
    /// A partition that is assigned already, or an offset below 0; nothing is assigned then.
    pub fn incremental_assign(
        &mut self,
        partitions: &[(TopicPartition, i64)],
    ) -> Result<(), KafkaError> {
        let mut list = PartitionList::with_capacity(partitions.len())?;
        for (partition, offset) in partitions {
            check_offset(partition, *offset)?;
            self.split(partition)?;
            list.push(&partition.topic, partition.partition, *offset, b"")?;
        }
        // SAFETY: client and list are alive; the list is copied; the error is ours.
        let fault = unsafe {
            take_error(sys::rd_kafka_incremental_assign(
                self.client.raw(),
                list.raw(),
            ))
        };
        refused("assign partitions", fault)?;
        self.mark(partitions.iter().map(|(partition, _)| partition), true);
        Ok(())
    }

    /// Answers an [`MainEvent::Revoke`], or gives partitions up by itself. Close their gates first: what is committed
    /// after this call can overwrite the next owner's commit. Those that are not assigned are left out.
    ///
    /// # Errors
    /// librdkafka's refusal; the partitions then stay assigned.
    pub fn incremental_unassign(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<(), KafkaError> {
        let ours: Vec<_> = partitions
            .iter()
            .filter(|partition| self.is_assigned(partition))
            .collect();
        let list = PartitionList::of(ours.iter().copied())?;
        // SAFETY: client and list are alive; the list is copied; the error is ours.
        let fault = unsafe {
            take_error(sys::rd_kafka_incremental_unassign(
                self.client.raw(),
                list.raw(),
            ))
        };
        refused("give partitions up", fault)?;
        self.mark(ours.into_iter(), false);
        self.sweep();
        Ok(())
    }

    /// Whether the partition is assigned by us at the moment.
    #[must_use]
    pub fn is_assigned(&self, partition: &TopicPartition) -> bool {
        self.by_partition
            .get(partition)
            .is_some_and(|&index| self.slots[index].assigned)
    }

    fn mark<'a>(&mut self, partitions: impl Iterator<Item = &'a TopicPartition>, assigned: bool) {
        for partition in partitions {
            let index = self.slot_index(partition);
            self.slots[index].assigned = assigned;
        }
    }

    /// Frees what is left in the queues of partitions that are not ours any more; they hold memory until then.
    fn sweep(&mut self) {
        for slot in self.slots.iter().filter(|slot| !slot.assigned) {
            if let Some(queue) = &slot.queue {
                while self.batch.read(queue, SWEEP_RECORDS, |_| {}).more {}
            }
        }
    }

    /// Lends at most `max` records (and ends and errors) of one partition to `f`, in order, without waiting.
    ///
    /// Not reading a partition is how it is held back: librdkafka then stops fetching it. Nothing comes from a partition
    /// that is not assigned.
    pub fn read_batch(
        &mut self,
        handle: PartitionHandle,
        max: usize,
        f: impl FnMut(Fetched<'_>),
    ) -> ReadOutcome {
        match self.slots.get(handle.0) {
            Some(Slot {
                queue: Some(queue),
                assigned: true,
                ..
            }) if max > 0 => self.batch.read(queue, max, f),
            _ => ReadOutcome::default(),
        }
    }

    /// Which partition a handle names; `None` for another consumer's handle.
    #[must_use]
    pub fn partition_of(&self, handle: PartitionHandle) -> Option<&TopicPartition> {
        self.slots.get(handle.0).map(|slot| &slot.partition)
    }

    /// Member id and generation, asked of librdkafka's main thread (some ten microseconds).
    #[must_use]
    pub fn membership(&self) -> Membership {
        self.client.membership()
    }

    /// Id of the cluster. With a time-out of zero only what is known already; blocks at most `timeout`.
    #[must_use]
    pub fn cluster_id(&self, timeout: Duration) -> Option<String> {
        self.client.cluster_id(timeout)
    }

    /// Begins to leave the group. Go on with `poll_main` (a last revocation may come and has to be answered) and
    /// `poll_ops` until [`Self::poll_closed`] says so, for as long as you can wait; then drop or [`Self::abandon`] it.
    ///
    /// Only call it while the coordinator answers: librdkafka 2.12.1 can crash when it goes away during the close.
    ///
    /// # Errors
    /// A consumer with a fatal error, or one that is closing already.
    pub fn close_async(&mut self) -> Result<(), KafkaError> {
        let mut queue = Queue::new(&self.client)?;
        queue.wake_with(&self.waker);
        // SAFETY: client and queue are alive; the error is ours.
        let fault = unsafe {
            take_error(sys::rd_kafka_consumer_close_queue(
                self.client.raw(),
                queue.raw(),
            ))
        };
        refused("leave the group", fault)?;
        self.closing = Some(queue);
        Ok(())
    }

    /// Whether the close has ended; serve `poll_main` until it returns nothing before each call.
    #[must_use]
    pub fn poll_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Leaves everything as it is, threads and memory included, for a process that is about to exit.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for Consumer {
    /// A close that was begun has to end before the client can be destroyed: librdkafka would wait for the answer to
    /// its last revocation for ever. Where it does not end soon, the client is left alive instead.
    fn drop(&mut self) {
        let Some(closing) = &self.closing else { return };
        let deadline = Instant::now() + LAST_CLOSE_WAIT;
        while !self.client.is_closed() {
            if Instant::now() >= deadline {
                self.client.leak();
                return;
            }
            if let Some(event) = closing.poll(LAST_CLOSE_POLL)
                && event.kind() == sys::RD_KAFKA_EVENT_REBALANCE
            {
                self.client.unassign_all();
            }
        }
    }
}

fn check_offset(partition: &TopicPartition, offset: i64) -> Result<(), KafkaError> {
    if offset < 0 {
        return Err(KafkaError::Impossible(format!(
            "offset {offset} of {partition} is below 0; expected a position"
        )));
    }
    Ok(())
}
