//! Owned handles of librdkafka: the client, its queues, its events, and plain calls on them.
//!
//! Every handle is destroyed once, by its `Drop`. Must not be here: what the calls are for.
#![allow(
    unsafe_code,
    reason = "librdkafka is C; the safe types of this module keep its rules"
)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka_sys as sys;

use super::errors::{ErrorCode, KafkaError};
use super::types::{Fault, Membership};

pub(super) use queue::Queue;

mod queue;

// Declared again with plain integers: a broker may answer with a code that the Rust enum of the bindings does not
// have, and such a value in an enum is undefined behaviour.
unsafe extern "C" {
    fn rd_kafka_event_error(event: *mut sys::rd_kafka_event_t) -> c_int;
    fn rd_kafka_error_code(error: *const sys::rd_kafka_error_t) -> c_int;
    fn rd_kafka_err2name(code: c_int) -> *const c_char;
    fn rd_kafka_err2str(code: c_int) -> *const c_char;
    fn rd_kafka_fatal_error(rk: *mut sys::rd_kafka_t, text: *mut c_char, size: usize) -> c_int;
}

/// Kafka's name of a code.
pub(super) fn code_name(code: i32) -> String {
    // SAFETY: any integer is allowed; the answer is static or thread-local and copied at once.
    unsafe { text(rd_kafka_err2name(code)) }
}

/// A code in words.
pub(super) fn code_text(code: i32) -> String {
    // SAFETY: as `code_name`.
    unsafe { text(rd_kafka_err2str(code)) }
}

/// Copies a C string; null becomes the empty text.
///
/// # Safety
/// `pointer` is null or a NUL-terminated string that lives during the call.
pub(super) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: not null, and terminated by the caller's promise.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}

/// A C string from text that may hold a NUL.
pub(super) fn c_string(value: &str, what: &str) -> Result<CString, KafkaError> {
    CString::new(value).map_err(|_| KafkaError::Impossible(format!("{what} has a NUL character")))
}

/// Reads and destroys an error object.
///
/// # Safety
/// `error` is null or an error object that nobody else destroys.
pub(super) unsafe fn take_error(error: *mut sys::rd_kafka_error_t) -> Option<Fault> {
    if error.is_null() {
        return None;
    }
    // SAFETY: a live error object, by the caller's promise.
    let fault = unsafe { borrow_error(error) };
    // SAFETY: ours to destroy, by the caller's promise.
    unsafe { sys::rd_kafka_error_destroy(error) };
    fault
}

/// Reads an error object of somebody else's; null or `NO_ERROR` is none.
///
/// # Safety
/// `error` is null or a live error object.
pub(super) unsafe fn borrow_error(error: *const sys::rd_kafka_error_t) -> Option<Fault> {
    if error.is_null() {
        return None;
    }
    // SAFETY: a live error object, by the caller's promise; the text is copied.
    let (code, text) = unsafe {
        (
            ErrorCode(rd_kafka_error_code(error)),
            text(sys::rd_kafka_error_string(error)),
        )
    };
    (code != ErrorCode::NO_ERROR).then_some(Fault { code, text })
}

/// Turns a fault into the error of a refused call.
pub(super) fn refused(what: &'static str, fault: Option<Fault>) -> Result<(), KafkaError> {
    match fault {
        None => Ok(()),
        Some(Fault { code, text }) => Err(KafkaError::Refused { what, code, text }),
    }
}

/// Turns a bare code into the error of a refused call.
pub(super) fn refused_code(
    what: &'static str,
    code: sys::rd_kafka_resp_err_t,
) -> Result<(), KafkaError> {
    let code = ErrorCode(code as i32);
    refused(
        what,
        (code != ErrorCode::NO_ERROR).then(|| Fault {
            code,
            text: code_text(code.0),
        }),
    )
}

const TEXT_BYTES: usize = 512;

/// A configuration that no client has taken yet.
struct Config(NonNull<sys::rd_kafka_conf_t>);

impl Config {
    fn new(settings: &[(String, String)]) -> Result<Self, KafkaError> {
        // SAFETY: no arguments; never null but when memory is out.
        let pointer = unsafe { sys::rd_kafka_conf_new() };
        let config = Self(
            NonNull::new(pointer).ok_or_else(|| KafkaError::Impossible("out of memory".into()))?,
        );
        for (name, value) in settings {
            config.set(name, value)?;
        }
        let events = sys::RD_KAFKA_EVENT_REBALANCE
            | sys::RD_KAFKA_EVENT_ERROR
            | sys::RD_KAFKA_EVENT_LOG
            | sys::RD_KAFKA_EVENT_OFFSET_COMMIT;
        // SAFETY: the configuration is alive and ours.
        unsafe { sys::rd_kafka_conf_set_events(config.0.as_ptr(), events) };
        Ok(config)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), KafkaError> {
        let refuse = |text: &str| KafkaError::Setting {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let (c_name, c_value) = (
            c_string(name, "a setting")?,
            c_string(value, "a setting's value")?,
        );
        let mut buffer = [0; TEXT_BYTES];
        // SAFETY: both strings are terminated and copied by the call; the buffer has the size that is given.
        let result = unsafe {
            sys::rd_kafka_conf_set(
                self.0.as_ptr(),
                c_name.as_ptr(),
                c_value.as_ptr(),
                buffer.as_mut_ptr(),
                TEXT_BYTES,
            )
        };
        match result {
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK => Ok(()),
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_UNKNOWN => {
                Err(refuse("librdkafka has no such setting"))
            }
            // librdkafka's text repeats the value, which may be a secret.
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_INVALID => Err(refuse(
                "its value is not valid, or this build of librdkafka does not have the feature",
            )),
        }
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: still ours: a client that took it made us forget it.
        unsafe { sys::rd_kafka_conf_destroy(self.0.as_ptr()) };
    }
}

/// One librdkafka client of the consumer kind.
///
/// Queues must be dropped before it; the owners of this module's types keep that order by the order of their fields.
pub(super) struct Client {
    pointer: NonNull<sys::rd_kafka_t>,
    leaked: bool,
}

// SAFETY: librdkafka's handle may be used from any thread; nothing in it is bound to the thread that made it.
unsafe impl Send for Client {}

impl Client {
    /// Makes the client; its threads start, nothing is joined.
    pub(super) fn new(settings: &[(String, String)]) -> Result<Self, KafkaError> {
        let config = Config::new(settings)?;
        let mut buffer = [0; TEXT_BYTES];
        // SAFETY: the configuration is alive; on success the client owns it, on failure it stays ours.
        let pointer = unsafe {
            sys::rd_kafka_new(
                sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
                config.0.as_ptr(),
                buffer.as_mut_ptr(),
                TEXT_BYTES,
            )
        };
        let Some(pointer) = NonNull::new(pointer) else {
            // SAFETY: the buffer is zeroed and librdkafka terminates what it writes.
            let text = unsafe { text(buffer.as_ptr()) };
            return Err(KafkaError::Refused {
                what: "start a consumer",
                code: ErrorCode(-186),
                text,
            });
        };
        std::mem::forget(config);
        Ok(Self {
            pointer,
            leaked: false,
        })
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_t {
        self.pointer.as_ptr()
    }

    /// Lets the client live on when this handle is dropped, since destroying it would not come back.
    pub(super) fn leak(&mut self) {
        self.leaked = true;
    }

    /// Gives every partition up, which answers any rebalance event.
    pub(super) fn unassign_all(&self) {
        // SAFETY: the client is alive; null means none.
        unsafe { sys::rd_kafka_assign(self.raw(), ptr::null()) };
    }

    /// Sends errors and logs where the group's events are, so that one queue tells all.
    pub(super) fn join_main_queues(&self) -> Result<(), KafkaError> {
        // SAFETY: the client is alive.
        refused_code("read events", unsafe {
            sys::rd_kafka_poll_set_consumer(self.raw())
        })?;
        // SAFETY: as above; a null queue means the main one, which now goes to the group's.
        refused_code("read logs", unsafe {
            sys::rd_kafka_set_log_queue(self.raw(), ptr::null_mut())
        })
    }

    /// The cluster's id: known at once after any metadata answer, else waited for.
    pub(super) fn cluster_id(&self, timeout: Duration) -> Option<String> {
        // SAFETY: the client is alive; the answer is ours to free, with librdkafka's own function.
        unsafe {
            let pointer = sys::rd_kafka_clusterid(self.raw(), millis(timeout));
            let id = (!pointer.is_null()).then(|| text(pointer));
            sys::rd_kafka_mem_free(self.raw(), pointer.cast());
            id
        }
    }

    /// How the client stands in its group, asked of librdkafka's main thread.
    pub(super) fn membership(&self) -> Membership {
        // SAFETY: the client is alive; the answer is ours, its text is copied before it is destroyed.
        unsafe {
            let answer = sys::rd_kafka_consumer_group_metadata(self.raw());
            if answer.is_null() {
                return Membership {
                    member_id: String::new(),
                    generation: -1,
                };
            }
            let membership = Membership {
                member_id: text(sys::rd_kafka_consumer_group_metadata_member_id(answer)),
                generation: sys::rd_kafka_consumer_group_metadata_generation_id(answer),
            };
            sys::rd_kafka_consumer_group_metadata_destroy(answer);
            membership
        }
    }

    /// Whether the present assignment was lost.
    pub(super) fn is_assignment_lost(&self) -> bool {
        // SAFETY: the client is alive.
        unsafe { sys::rd_kafka_assignment_lost(self.raw()) != 0 }
    }

    /// The fatal error that ended this client, if one did.
    pub(super) fn fatal_fault(&self) -> Option<Fault> {
        let mut buffer = [0; TEXT_BYTES];
        // SAFETY: the client is alive; the buffer has the size that is given and is terminated by the call.
        let (code, text) = unsafe {
            let code = rd_kafka_fatal_error(self.raw(), buffer.as_mut_ptr(), TEXT_BYTES);
            (ErrorCode(code), text(buffer.as_ptr()))
        };
        (code != ErrorCode::NO_ERROR).then_some(Fault { code, text })
    }

    /// Whether a close that was begun has ended.
    pub(super) fn is_closed(&self) -> bool {
        // SAFETY: the client is alive.
        unsafe { sys::rd_kafka_consumer_closed(self.raw()) != 0 }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        let flags = if self.is_closed() {
            0
        } else {
            sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE
        };
        // SAFETY: the last use; queues and events are gone. Not closing keeps this from waiting for a coordinator.
        unsafe { sys::rd_kafka_destroy_flags(self.raw(), flags) };
    }
}

/// Milliseconds as C takes them, at most about 24 days.
pub(super) fn millis(duration: Duration) -> c_int {
    c_int::try_from(duration.as_millis()).unwrap_or(c_int::MAX)
}

/// One event, destroyed when dropped.
pub(super) struct Event(NonNull<sys::rd_kafka_event_t>);

impl Event {
    pub(super) fn raw(&self) -> *mut sys::rd_kafka_event_t {
        self.0.as_ptr()
    }

    /// Which kind of event it is, one of the `RD_KAFKA_EVENT_…` constants.
    pub(super) fn kind(&self) -> i32 {
        // SAFETY: the event is alive.
        unsafe { sys::rd_kafka_event_type(self.raw()) }
    }

    pub(super) fn code(&self) -> ErrorCode {
        // SAFETY: the event is alive.
        ErrorCode(unsafe { rd_kafka_event_error(self.raw()) })
    }

    /// The event's error with its text, if it has one.
    pub(super) fn fault(&self) -> Option<Fault> {
        let code = self.code();
        // SAFETY: the event is alive; the text is copied.
        (code != ErrorCode::NO_ERROR).then(|| Fault {
            code,
            text: unsafe { text(sys::rd_kafka_event_error_string(self.raw())) },
        })
    }

    /// Only for error events.
    pub(super) fn is_fatal(&self) -> bool {
        // SAFETY: the event is alive.
        unsafe { sys::rd_kafka_event_error_is_fatal(self.raw()) != 0 }
    }

    /// The number that the request carried.
    pub(super) fn request(&self) -> usize {
        // SAFETY: the event is alive; the opaque is a number that was never dereferenced.
        unsafe { sys::rd_kafka_event_opaque(self.raw()) }.addr()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the last use; nothing that borrows from the event outlives it.
        unsafe { sys::rd_kafka_event_destroy(self.raw()) };
    }
}
