//! The owned handle of a queue, and its wake-up.
//!
//! Must not be here: what comes out of queues.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka_sys as sys;

use super::{Client, Event, millis};
use crate::kafka::errors::KafkaError;
use crate::kafka::waker::Waker;

/// A reference to one queue of a client.
pub(in crate::kafka) struct Queue {
    pointer: NonNull<sys::rd_kafka_queue_t>,
    // What the queue's wake-up points at; freed only after the wake-up is off.
    waker: Option<Box<Waker>>,
}

// SAFETY: as `Client`: the queue is locked inside, and the boxed waker is `Send` and only read.
unsafe impl Send for Queue {}

impl Queue {
    /// Takes over a queue reference; `None` where librdkafka gave none.
    ///
    /// # Safety
    /// `pointer` is null or a queue reference that nobody else destroys, of a client that outlives the result.
    pub(in crate::kafka) unsafe fn from_raw(pointer: *mut sys::rd_kafka_queue_t) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self {
            pointer,
            waker: None,
        })
    }

    /// A new queue of the client's.
    pub(in crate::kafka) fn new(client: &Client) -> Result<Self, KafkaError> {
        // SAFETY: the client is alive; the reference is new.
        unsafe { Self::from_raw(sys::rd_kafka_queue_new(client.raw())) }
            .ok_or_else(|| KafkaError::Impossible("no queue of the client".into()))
    }

    /// The queue of the group's events.
    pub(in crate::kafka) fn of_group(client: &Client) -> Result<Self, KafkaError> {
        // SAFETY: the client is alive; the reference is new.
        unsafe { Self::from_raw(sys::rd_kafka_queue_get_consumer(client.raw())) }
            .ok_or_else(|| KafkaError::Impossible("`group.id` is not set".into()))
    }

    /// The queue that one partition is fetched into, cut off from the group's queue.
    pub(in crate::kafka) fn of_partition(
        client: &Client,
        topic: &CStr,
        partition: i32,
    ) -> Result<Self, KafkaError> {
        // SAFETY: the client and the name are alive; the reference is new.
        let queue = unsafe {
            Self::from_raw(sys::rd_kafka_queue_get_partition(
                client.raw(),
                topic.as_ptr(),
                partition,
            ))
        }
        .ok_or_else(|| {
            KafkaError::Impossible(format!(
                "no queue for partition {partition} of {}",
                topic.to_string_lossy()
            ))
        })?;
        // SAFETY: the queue is alive; null ends forwarding.
        unsafe { sys::rd_kafka_queue_forward(queue.raw(), ptr::null_mut()) };
        Ok(queue)
    }

    pub(in crate::kafka) fn raw(&self) -> *mut sys::rd_kafka_queue_t {
        self.pointer.as_ptr()
    }

    /// Wakes the thread whenever something comes into the empty queue.
    pub(in crate::kafka) fn wake_with(&mut self, waker: &Waker) {
        self.stop_waking();
        let waker = self.waker.insert(Box::new(waker.clone()));
        let opaque = ptr::from_ref::<Waker>(waker).cast_mut().cast::<c_void>();
        // SAFETY: the opaque is boxed and stays until `stop_waking`, which takes the queue's lock first.
        unsafe { sys::rd_kafka_queue_cb_event_enable(self.raw(), Some(on_event), opaque) };
    }

    fn stop_waking(&mut self) {
        if self.waker.is_some() {
            // SAFETY: the queue is alive; after this call, made under the queue's lock, no callback runs.
            unsafe { sys::rd_kafka_queue_cb_event_enable(self.raw(), None, ptr::null_mut()) };
            self.waker = None;
        }
    }

    /// The next event, waiting at most `timeout` for it.
    pub(in crate::kafka) fn poll(&self, timeout: Duration) -> Option<Event> {
        // SAFETY: the queue is alive; the event is ours.
        NonNull::new(unsafe { sys::rd_kafka_queue_poll(self.raw(), millis(timeout)) }).map(Event)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.stop_waking();
        // SAFETY: the last use of this reference.
        unsafe { sys::rd_kafka_queue_destroy(self.raw()) };
    }
}

/// Runs on librdkafka's threads with the queue locked.
unsafe extern "C" fn on_event(_client: *mut sys::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: the opaque of `wake_with`, alive while the callback is set; `wake` neither blocks nor panics.
    unsafe { (*opaque.cast::<Waker>()).wake() };
}
