//! Reading the records of one partition queue in batches.
//!
//! A record's bytes belong to librdkafka and pin the whole fetched buffer: they are lent to a closure and given back
//! right after it. Must not be here: what a record means.
#![allow(unsafe_code, reason = "records are read in place, without a copy")]

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr;

use rdkafka_sys as sys;

use super::errors::ErrorCode;
use super::ffi::{Queue, code_text};
use super::lists::bytes;
use super::types::Fault;

/// One thing that came out of a partition queue.
#[derive(Debug)]
pub enum Fetched<'a> {
    /// A record.
    Record {
        /// Its offset.
        offset: i64,
        /// Its time, milliseconds since the epoch; -1 where it has none.
        timestamp_ms: i64,
        /// The key; `None` is null, which is not empty.
        key: Option<&'a [u8]>,
        /// The payload; `None` is null (a tombstone), which is not empty.
        payload: Option<&'a [u8]>,
        /// The headers, parsed when asked for.
        headers: Headers<'a>,
    },
    /// The end of what can be read now: every record before `offset` was delivered, compacted, aborted or a control
    /// record. With an open transaction it is the last stable offset.
    Eof {
        /// The next offset.
        offset: i64,
    },
    /// This partition cannot be read on; fetching it stopped, but for what librdkafka retries by itself.
    Error {
        /// What was reported.
        fault: Fault,
        /// The offset that it is about; below 0 where there is none.
        offset: i64,
    },
}

/// What one call of `read_batch` found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOutcome {
    /// How many times the closure was called.
    pub count: usize,
    /// True: the queue may hold more, so read again before parking (no wake-up comes for what is already there).
    pub more: bool,
}

/// The headers of one record, lent like its bytes.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    message: *const sys::rd_kafka_message_t,
    lent: PhantomData<&'a ()>,
}

impl std::fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|(name, _)| name))
            .finish()
    }
}

impl<'a> Headers<'a> {
    /// Those of a record that has none.
    #[cfg(test)]
    #[must_use]
    pub const fn none() -> Self {
        Self {
            message: ptr::null(),
            lent: PhantomData,
        }
    }

    /// Names and values in the record's order, names not always unique; a value of `None` is null.
    ///
    /// A name that is not UTF-8 is left out as empty.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> + use<'a> {
        let mut list = ptr::null_mut();
        let found = if self.message.is_null() {
            sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__NOENT
        } else {
            // SAFETY: the message is alive for 'a, and keeps the list that it parses here.
            unsafe { sys::rd_kafka_message_headers(self.message.cast_mut(), &raw mut list) }
        };
        let list = if found == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            list
        } else {
            ptr::null_mut()
        };
        // SAFETY: null, or the message's own list, alive for 'a.
        (0..).map_while(move |index| unsafe { read_header(list, index) })
    }
}

/// Reads header `index`.
///
/// # Safety
/// `list` is null or a list that lives and does not change for `'a`.
unsafe fn read_header<'a>(
    list: *const sys::rd_kafka_headers_t,
    index: usize,
) -> Option<(&'a str, Option<&'a [u8]>)> {
    if list.is_null() {
        return None;
    }
    let (mut name, mut value, mut size): (*const c_char, *const c_void, usize) =
        (ptr::null(), ptr::null(), 0);
    // SAFETY: the list is alive; the pointers that come back are its own, the name is terminated.
    unsafe {
        let found =
            sys::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut size);
        (found == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| {
            (
                CStr::from_ptr(name).to_str().unwrap_or_default(),
                bytes(value.cast(), size),
            )
        })
    }
}

/// The pointers of one batch, kept from batch to batch so that reading allocates nothing.
#[derive(Default)]
pub(super) struct Batch {
    messages: Vec<*mut sys::rd_kafka_message_t>,
}

// SAFETY: empty between calls; within a call it is used by one thread.
unsafe impl Send for Batch {}

impl Batch {
    /// Reads at most `max` from `queue` without waiting, lends each to `f`, and gives it back.
    pub(super) fn read(
        &mut self,
        queue: &Queue,
        max: usize,
        mut f: impl FnMut(Fetched<'_>),
    ) -> ReadOutcome {
        let count = self.fill(queue, max);
        let lent = Lent {
            messages: &self.messages[..count],
            next: 0,
        };
        lent.for_each(&mut f);
        ReadOutcome {
            count,
            more: count == max,
        }
    }

    fn fill(&mut self, queue: &Queue, max: usize) -> usize {
        if self.messages.len() < max {
            self.messages.resize(max, ptr::null_mut());
        }
        let mut count = 0;
        while count < max {
            // One by one: `rd_kafka_consume_batch_queue` takes the end of a partition for a record and moves the position
            // past it, so that after a rebalance, which goes back to that position, the next record would be skipped.
            // SAFETY: the queue is alive and read by this thread alone (`&mut Consumer`); the message is ours.
            let message = unsafe { sys::rd_kafka_consume_queue(queue.raw(), 0) };
            if message.is_null() {
                break;
            }
            self.messages[count] = message;
            count += 1;
        }
        count
    }
}

/// Messages that are not given back yet; what the closure did not see is given back even when it panics.
struct Lent<'a> {
    messages: &'a [*mut sys::rd_kafka_message_t],
    next: usize,
}

impl Lent<'_> {
    fn for_each(mut self, f: &mut impl FnMut(Fetched<'_>)) {
        while let Some(&message) = self.messages.get(self.next) {
            // SAFETY: a message of this batch that was not given back; what `f` gets cannot outlive the call.
            f(unsafe { read_message(message) });
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        // SAFETY: each message is given back once, as `next` only grows.
        unsafe { sys::rd_kafka_message_destroy(self.messages[self.next]) };
        self.next += 1;
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        while self.next < self.messages.len() {
            self.give_back();
        }
    }
}

/// Looks at one message in place.
///
/// # Safety
/// `message` is alive for `'a`.
unsafe fn read_message<'a>(message: *mut sys::rd_kafka_message_t) -> Fetched<'a> {
    // SAFETY: alive, by the caller's promise. The code is read as a number: it may be one that the enum does not have.
    unsafe {
        let code = ErrorCode((&raw const (*message).err).cast::<i32>().read());
        let payload = bytes((*message).payload.cast(), (*message).len);
        let offset = (*message).offset;
        match code {
            ErrorCode::NO_ERROR => Fetched::Record {
                offset,
                timestamp_ms: sys::rd_kafka_message_timestamp(message, ptr::null_mut()),
                key: bytes((*message).key.cast(), (*message).key_len),
                payload,
                headers: Headers {
                    message,
                    lent: PhantomData,
                },
            },
            ErrorCode::PARTITION_EOF => Fetched::Eof { offset },
            code => Fetched::Error {
                fault: Fault {
                    code,
                    text: fault_text(code, payload),
                },
                offset,
            },
        }
    }
}

/// librdkafka puts an error's text where the payload would be.
fn fault_text(code: ErrorCode, payload: Option<&[u8]>) -> String {
    match payload {
        Some(text) if !text.is_empty() => String::from_utf8_lossy(text)
            .trim_end_matches('\0')
            .to_owned(),
        _ => code_text(code.0),
    }
}
