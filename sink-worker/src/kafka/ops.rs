//! Requests whose answer comes later: commits and look-ups, with their results as values.
//!
//! Answers come on one queue of the consumer's own, each with the number that its request carried; those about the group's
//! offsets come from clients of their own (`question.rs`).
//! Must not be here: retries, what a result means for a partition.
#![allow(unsafe_code, reason = "thin calls into librdkafka")]

use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use rdkafka_sys as sys;

use super::consumer::Consumer;
use super::errors::KafkaError;
use super::ffi::{Client, Event, borrow_error, c_string, refused_code, text};
use super::groups::read_members;
use super::lists::{Element, PartitionList, read_element, read_list};
use super::question::{Heard, Question};
use super::types::{
    CommitItem, Fault, GroupOffset, OffsetResult, OffsetSpec, OpId, OpResult, TopicInfo,
    TopicPartition,
};

/// How long a look-up may take before its result is `_TIMED_OUT`, milliseconds.
pub(super) const LOOK_UP_TIMEOUT_MS: c_int = 10_000;

impl Consumer {
    /// Sends one commit for these partitions; the result is an [`OpResult::CommitDone`].
    ///
    /// librdkafka stamps it with the member and generation of the moment it goes out, may hold it back for up to
    /// `session.timeout.ms` while there is no coordinator, and does not look at who owns the partitions: that is the
    /// caller's gate. During a rebalance its answer may take as long as the slowest member.
    ///
    /// # Errors
    /// [`KafkaError::NotAMember`] outside of a membership (a broker accepts such a commit while the group is empty),
    /// an empty list, an offset below 0 (left out in silence else), a name or metadata with a NUL.
    pub fn commit(&mut self, items: &[CommitItem]) -> Result<OpId, KafkaError> {
        let list = build_commit(items)?;
        let membership = self.membership();
        if !membership.is_member() {
            return Err(KafkaError::NotAMember {
                generation: membership.generation,
            });
        }
        let id = self.next_op();
        // SAFETY: client, list and queue are alive; the list is copied; the opaque is a number.
        let code = unsafe {
            sys::rd_kafka_commit_queue(
                self.client.raw(),
                list.raw(),
                self.ops.raw(),
                None,
                opaque(id),
            )
        };
        refused_code("commit", code)?;
        Ok(id)
    }

    /// Asks for what a group has committed: of these partitions, or of all that it has offsets for; the result is an
    /// [`OpResult::GroupOffsets`], after ten seconds at the latest. It does not use the connection that a rebalance
    /// blocks, but one of its own (`question.rs` says why), so it is for rare questions.
    ///
    /// # Errors
    /// A name that Kafka cannot take, or a client that cannot be started.
    pub fn list_group_offsets(
        &mut self,
        group_id: &str,
        partitions: Option<&[TopicPartition]>,
    ) -> Result<OpId, KafkaError> {
        let id = self.next_op();
        let question = Question::ask(&self.config, group_id, partitions, id, &self.waker)?;
        self.questions.push(question);
        Ok(id)
    }

    /// Asks for id and partition count of topics; the result is an [`OpResult::Topics`].
    ///
    /// # Errors
    /// A name that Kafka cannot take.
    pub fn describe_topics(&mut self, topics: &[impl AsRef<str>]) -> Result<OpId, KafkaError> {
        let names: Vec<CString> = topics
            .iter()
            .map(|topic| c_string(topic.as_ref(), "a topic name"))
            .collect::<Result<_, _>>()?;
        let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let id = self.next_op();
        let options = Options::new(
            &self.client,
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            id,
            LOOK_UP_TIMEOUT_MS,
        );
        // SAFETY: the names are alive and copied by the first call; the collection is destroyed once.
        unsafe {
            let collection =
                sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
            sys::rd_kafka_DescribeTopics(self.client.raw(), collection, options.0, self.ops.raw());
            sys::rd_kafka_TopicCollection_destroy(collection);
        }
        Ok(id)
    }

    /// Asks for log starts, ends or offsets by time; the result is an [`OpResult::Offsets`]. With `read_committed`,
    /// [`OffsetSpec::Latest`] is the last stable offset: an open transaction ends what can be read. A partition may be
    /// asked about once per request.
    ///
    /// # Errors
    /// A name that Kafka cannot take, a time below 0, or the same partition twice.
    pub fn list_offsets(
        &mut self,
        partitions: &[(TopicPartition, OffsetSpec)],
        read_committed: bool,
    ) -> Result<OpId, KafkaError> {
        let list = build_offset_specs(partitions)?;
        let id = self.next_op();
        let options = Options::new(
            &self.client,
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            id,
            LOOK_UP_TIMEOUT_MS,
        );
        options.set_read_committed(read_committed);
        // SAFETY: all arguments are alive; the list is copied.
        unsafe {
            sys::rd_kafka_ListOffsets(self.client.raw(), list.raw(), options.0, self.ops.raw());
        };
        Ok(id)
    }

    /// The next result, without waiting.
    pub fn poll_ops(&mut self) -> Option<(OpId, OpResult)> {
        while let Some(event) = self.ops.poll(Duration::ZERO) {
            if let Some(result) = read_result(&event) {
                return Some((OpId(event.request()), result));
            }
        }
        self.poll_questions()
    }

    fn poll_questions(&mut self) -> Option<(OpId, OpResult)> {
        let heard = self
            .questions
            .iter()
            .enumerate()
            .find_map(|(at, question)| {
                let result = match question.listen() {
                    Heard::Nothing => None,
                    Heard::Answer(event) => read_result(&event),
                    Heard::TimedOut(fault) => Some(OpResult::GroupOffsets(Err(fault))),
                };
                Some((at, result?))
            });
        let (at, result) = heard?;
        Some((self.questions.swap_remove(at).op, result))
    }

    pub(super) fn next_op(&mut self) -> OpId {
        self.last_op = self.last_op.wrapping_add(1);
        OpId(self.last_op)
    }
}

/// A request's number, where C keeps a pointer for us.
fn opaque(id: OpId) -> *mut c_void {
    ptr::without_provenance_mut(id.0)
}

fn build_commit(items: &[CommitItem]) -> Result<PartitionList, KafkaError> {
    if items.is_empty() {
        return Err(KafkaError::Impossible("a commit of no partition".into()));
    }
    let mut list = PartitionList::with_capacity(items.len())?;
    for item in items {
        if item.offset < 0 {
            let CommitItem {
                topic,
                partition,
                offset,
                ..
            } = item;
            return Err(KafkaError::Impossible(format!(
                "commit of offset {offset} for {topic}/{partition}, below 0"
            )));
        }
        list.push(
            &item.topic,
            item.partition,
            item.offset,
            item.metadata.as_bytes(),
        )?;
    }
    Ok(list)
}

fn build_offset_specs(
    partitions: &[(TopicPartition, OffsetSpec)],
) -> Result<PartitionList, KafkaError> {
    let mut list = PartitionList::with_capacity(partitions.len())?;
    for (partition, spec) in partitions {
        let offset = match *spec {
            OffsetSpec::Earliest => {
                sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_EARLIEST as i64
            }
            OffsetSpec::Latest => sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64,
            OffsetSpec::TimestampMs(ms) if ms >= 0 => ms,
            OffsetSpec::TimestampMs(ms) => {
                return Err(KafkaError::Impossible(format!(
                    "time {ms} ms for {partition} is before 1970"
                )));
            }
        };
        list.push(&partition.topic, partition.partition, offset, b"")?;
    }
    Ok(list)
}

/// Options of one look-up.
pub(super) struct Options(*mut sys::rd_kafka_AdminOptions_t);

impl Options {
    pub(super) fn new(
        client: &Client,
        kind: sys::rd_kafka_admin_op_t,
        id: OpId,
        timeout_ms: c_int,
    ) -> Self {
        // SAFETY: the client is alive; the object is ours; without a text buffer the size is 0. The time-out is in range.
        unsafe {
            let options = sys::rd_kafka_AdminOptions_new(client.raw(), kind);
            sys::rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, ptr::null_mut(), 0);
            sys::rd_kafka_AdminOptions_set_opaque(options, opaque(id));
            Self(options)
        }
    }

    pub(super) const fn raw(&self) -> *mut sys::rd_kafka_AdminOptions_t {
        self.0
    }

    fn set_read_committed(&self, read_committed: bool) {
        let level = if read_committed {
            sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED
        } else {
            sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED
        };
        // SAFETY: the options are alive and for a request that has this option, so the answer is null.
        drop(unsafe {
            super::ffi::take_error(sys::rd_kafka_AdminOptions_set_isolation_level(
                self.0, level,
            ))
        });
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.0) };
    }
}

/// Reads an answer; `None` for events that answer nothing.
fn read_result(event: &Event) -> Option<OpResult> {
    let whole = event.fault();
    // SAFETY: each reader gets an event of its kind.
    unsafe {
        match event.kind() {
            sys::RD_KAFKA_EVENT_OFFSET_COMMIT => Some(read_commit(event, whole)),
            sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT => Some(OpResult::GroupOffsets(
                whole.map_or_else(|| read_group_offsets(event), Err),
            )),
            sys::RD_KAFKA_EVENT_DESCRIBECONSUMERGROUPS_RESULT => Some(OpResult::GroupMembers(
                whole.map_or_else(|| read_members(event), Err),
            )),
            sys::RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT => Some(OpResult::Topics(
                whole.map_or_else(|| Ok(read_topics(event)), Err),
            )),
            sys::RD_KAFKA_EVENT_LISTOFFSETS_RESULT => Some(OpResult::Offsets(
                whole.map_or_else(|| Ok(read_offsets(event)), Err),
            )),
            _ => None,
        }
    }
}

/// # Safety
/// The event is an answer to a commit.
unsafe fn read_commit(event: &Event, error: Option<Fault>) -> OpResult {
    // SAFETY: the list belongs to the event.
    let list = unsafe { read_list(sys::rd_kafka_event_topic_partition_list(event.raw())) };
    OpResult::CommitDone {
        error,
        elements: list.into_iter().map(|e| (e.partition, e.fault)).collect(),
    }
}

/// # Safety
/// The event is an answer to a look-up of group offsets.
unsafe fn read_group_offsets(event: &Event) -> Result<Vec<GroupOffset>, Fault> {
    let mut count = 0;
    // SAFETY: the answer and all that it points at belong to the event; exactly one group was asked for.
    unsafe {
        let answer = sys::rd_kafka_event_ListConsumerGroupOffsets_result(event.raw());
        let groups = sys::rd_kafka_ListConsumerGroupOffsets_result_groups(answer, &raw mut count);
        if count == 0 {
            return Ok(Vec::new());
        }
        match borrow_error(sys::rd_kafka_group_result_error(*groups)) {
            Some(fault) => Err(fault),
            None => Ok(read_list(sys::rd_kafka_group_result_partitions(*groups))
                .into_iter()
                .map(group_offset)
                .collect()),
        }
    }
}

fn group_offset(element: Element) -> GroupOffset {
    let offset = (element.offset >= 0).then_some(element.offset);
    GroupOffset {
        partition: element.partition,
        offset,
        metadata: element.metadata,
        fault: element.fault,
    }
}

/// # Safety
/// The event is an answer to a description of topics.
unsafe fn read_topics(event: &Event) -> Vec<TopicInfo> {
    let mut count = 0;
    // SAFETY: the answer and all that it points at belong to the event; the array has `count` elements.
    unsafe {
        let answer = sys::rd_kafka_event_DescribeTopics_result(event.raw());
        let topics = sys::rd_kafka_DescribeTopics_result_topics(answer, &raw mut count);
        (0..count).map(|i| read_topic(*topics.add(i))).collect()
    }
}

/// # Safety
/// `topic` is alive.
unsafe fn read_topic(topic: *const sys::rd_kafka_TopicDescription_t) -> TopicInfo {
    let mut partitions = 0;
    // SAFETY: alive, by the caller's promise; texts are copied.
    unsafe {
        let name: Arc<str> = text(sys::rd_kafka_TopicDescription_name(topic)).into();
        if let Some(fault) = borrow_error(sys::rd_kafka_TopicDescription_error(topic)) {
            return TopicInfo {
                topic: name,
                topic_id: String::new(),
                partitions: 0,
                fault: Some(fault),
            };
        }
        sys::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
        // librdkafka prints the plain alphabet; Kafka itself, its tools and its logs the one that is safe in a URL.
        let topic_id = text(sys::rd_kafka_Uuid_base64str(
            sys::rd_kafka_TopicDescription_topic_id(topic),
        ));
        TopicInfo {
            topic: name,
            topic_id: topic_id.replace('+', "-").replace('/', "_"),
            partitions: u32::try_from(partitions).unwrap_or(u32::MAX),
            fault: None,
        }
    }
}

/// # Safety
/// The event is an answer to a look-up of offsets.
unsafe fn read_offsets(event: &Event) -> Vec<OffsetResult> {
    let mut count = 0;
    let mut topic: Arc<str> = "".into();
    // SAFETY: the answer and all that it points at belong to the event; the array has `count` elements.
    unsafe {
        let answer = sys::rd_kafka_event_ListOffsets_result(event.raw());
        let infos = sys::rd_kafka_ListOffsets_result_infos(answer, &raw mut count);
        (0..count)
            .map(|i| {
                read_element(
                    sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*infos.add(i)),
                    &mut topic,
                )
            })
            .map(offset_result)
            .collect()
    }
}

fn offset_result(element: Element) -> OffsetResult {
    let offset = (element.fault.is_none() && element.offset >= 0).then_some(element.offset);
    OffsetResult {
        partition: element.partition,
        offset,
        fault: element.fault,
    }
}
