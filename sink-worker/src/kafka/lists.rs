//! Lists of partitions as librdkafka takes and gives them.
//!
//! Must not be here: what the lists are for.
#![allow(
    unsafe_code,
    reason = "the lists are C structures, read and written in place"
)]

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdkafka_sys as sys;

use super::errors::{ErrorCode, KafkaError};
use super::ffi::{c_string, code_text, text};
use super::types::{Fault, TopicPartition};

/// A list that we own.
pub(super) struct PartitionList(NonNull<sys::rd_kafka_topic_partition_list_t>);

impl PartitionList {
    pub(super) fn with_capacity(capacity: usize) -> Result<Self, KafkaError> {
        let capacity = c_int::try_from(capacity)
            .map_err(|_| KafkaError::Impossible("too many partitions".into()))?;
        // SAFETY: the capacity is not negative.
        NonNull::new(unsafe { sys::rd_kafka_topic_partition_list_new(capacity) })
            .map(Self)
            .ok_or_else(|| KafkaError::Impossible("out of memory".into()))
    }

    /// A list of partitions without offsets.
    pub(super) fn of<'a>(
        partitions: impl ExactSizeIterator<Item = &'a TopicPartition>,
    ) -> Result<Self, KafkaError> {
        let mut list = Self::with_capacity(partitions.len())?;
        for partition in partitions {
            list.push(
                &partition.topic,
                partition.partition,
                i64::from(sys::RD_KAFKA_OFFSET_INVALID),
                b"",
            )?;
        }
        Ok(list)
    }

    pub(super) fn push(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        metadata: &[u8],
    ) -> Result<(), KafkaError> {
        let name = c_string(topic, "a topic name")?;
        // SAFETY: list and name are alive; the name is copied; the element stays valid until the next push.
        unsafe {
            let element =
                sys::rd_kafka_topic_partition_list_add(self.raw(), name.as_ptr(), partition);
            (*element).offset = offset;
            if !metadata.is_empty() {
                // The list frees it with the same allocator.
                let copy = sys::rd_kafka_mem_malloc(ptr::null_mut(), metadata.len());
                ptr::copy_nonoverlapping(metadata.as_ptr(), copy.cast(), metadata.len());
                (*element).metadata = copy;
                (*element).metadata_size = metadata.len();
            }
        }
        Ok(())
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }
}

impl Drop for PartitionList {
    fn drop(&mut self) {
        // SAFETY: the last use; the list owns its names and metadata.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.raw()) };
    }
}

/// One element of a list, copied out of it.
pub(super) struct Element {
    pub(super) partition: TopicPartition,
    pub(super) offset: i64,
    pub(super) metadata: Vec<u8>,
    pub(super) fault: Option<Fault>,
}

/// Copies a list; null is empty.
///
/// # Safety
/// `list` is null or a live list that does not change during the call.
pub(super) unsafe fn read_list(list: *const sys::rd_kafka_topic_partition_list_t) -> Vec<Element> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: alive, by the caller's promise.
    let (elements, count) = unsafe { ((*list).elems, usize::try_from((*list).cnt).unwrap_or(0)) };
    // SAFETY: the list has `count` elements; the topic's name is shared between neighbours.
    let mut topic: Arc<str> = Arc::from("");
    (0..count)
        .map(|i| unsafe { read_element(elements.add(i), &mut topic) })
        .collect()
}

/// Copies the partitions of a list.
///
/// # Safety
/// As [`read_list`].
pub(super) unsafe fn read_partitions(
    list: *const sys::rd_kafka_topic_partition_list_t,
) -> Vec<TopicPartition> {
    // SAFETY: the caller's promise.
    unsafe { read_list(list) }
        .into_iter()
        .map(|element| element.partition)
        .collect()
}

/// Copies one element.
///
/// # Safety
/// `element` points at a live element.
pub(super) unsafe fn read_element(
    element: *const sys::rd_kafka_topic_partition_t,
    topic: &mut Arc<str>,
) -> Element {
    // SAFETY: alive, by the caller's promise. The code is read as a number: it may be one that the enum does not have.
    unsafe {
        let name = text((*element).topic);
        if **topic != *name {
            *topic = Arc::from(name);
        }
        let code = ErrorCode((&raw const (*element).err).cast::<i32>().read());
        Element {
            partition: TopicPartition {
                topic: Arc::clone(topic),
                partition: (*element).partition,
            },
            offset: (*element).offset,
            metadata: bytes((*element).metadata.cast(), (*element).metadata_size)
                .unwrap_or_default()
                .to_vec(),
            fault: (code != ErrorCode::NO_ERROR).then(|| Fault {
                code,
                text: code_text(code.0),
            }),
        }
    }
}

/// Bytes that C owns; null is none.
///
/// # Safety
/// `pointer` is null or points at `length` bytes that live and do not change for `'a`.
pub(super) unsafe fn bytes<'a>(pointer: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!pointer.is_null()).then(|| unsafe { std::slice::from_raw_parts(pointer, length) })
}
