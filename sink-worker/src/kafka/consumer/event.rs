//! What events of the main queue say beside their kind.
//!
//! Must not be here: what follows from them.
#![allow(unsafe_code, reason = "thin calls into librdkafka")]

use std::ffi::c_char;
use std::ptr;

use rdkafka_sys as sys;

use crate::kafka::errors::ErrorCode;
use crate::kafka::ffi::{Event, text};
use crate::kafka::lists::read_element;
use crate::kafka::types::{Fault, MainEvent, TopicPartition};

/// The partition that an error event names.
pub(super) fn event_partition(event: &Event) -> Option<TopicPartition> {
    // SAFETY: the event is alive; the answer is null or ours.
    let element = unsafe { sys::rd_kafka_event_topic_partition(event.raw()) };
    if element.is_null() {
        return None;
    }
    // SAFETY: alive until the next line destroys it.
    unsafe {
        let partition = read_element(element, &mut "".into()).partition;
        sys::rd_kafka_topic_partition_destroy(element);
        Some(partition)
    }
}

/// Hands one log line of librdkafka's to `tracing`, by its syslog level.
pub(super) fn write_log(event: &Event) {
    let (mut facility, mut line, mut level): (*const c_char, *const c_char, i32) =
        (ptr::null(), ptr::null(), 7);
    // SAFETY: the event is a log event and alive; both texts belong to it and are copied.
    let (facility, line) = unsafe {
        sys::rd_kafka_event_log(
            event.raw(),
            &raw mut facility,
            &raw mut line,
            &raw mut level,
        );
        (text(facility), text(line))
    };
    match level {
        ..=3 => tracing::error!(facility, text = line, "Kafka client reported."),
        4 => tracing::warn!(facility, text = line, "Kafka client reported."),
        5 | 6 => tracing::info!(facility, text = line, "Kafka client reported."),
        _ => tracing::debug!(facility, text = line, "Kafka client reported."),
    }
}

/// A record outside of its partition's queue is one that nobody will count: the consumer cannot be gone on with.
pub(super) fn stray_record() -> MainEvent {
    let text = "a record came on the main queue; its partition was not split".to_owned();
    MainEvent::Error {
        fault: Fault {
            code: ErrorCode::STATE,
            text,
        },
        partition: None,
        fatal: true,
    }
}
