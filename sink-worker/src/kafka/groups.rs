//! How many members a consumer group has.
//!
//! Must not be here: joining a group, what follows from its members.
#![allow(unsafe_code, reason = "thin calls into librdkafka")]

use rdkafka_sys as sys;

use super::consumer::Consumer;
use super::errors::{ErrorCode, KafkaError};
use super::ffi::{Event, borrow_error, c_string};
use super::ops::{LOOK_UP_TIMEOUT_MS, Options};
use super::types::{Fault, OpId};

/// The broker knows no group of that name: it has no members either.
const NOT_FOUND: ErrorCode =
    ErrorCode(sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND as i32);

impl Consumer {
    /// Asks how many members a group has; the result is an [`super::OpResult::GroupMembers`].
    ///
    /// # Errors
    /// A name that Kafka cannot take.
    pub fn describe_group(&mut self, group_id: &str) -> Result<OpId, KafkaError> {
        let group = c_string(group_id, "a group id")?;
        let id = self.next_op();
        let options = Options::new(
            &self.client,
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
            id,
            LOOK_UP_TIMEOUT_MS,
        );
        let mut names = [group.as_ptr()];
        // SAFETY: all arguments are alive and copied by the call.
        unsafe {
            sys::rd_kafka_DescribeConsumerGroups(
                self.client.raw(),
                names.as_mut_ptr(),
                names.len(),
                options.raw(),
                self.ops.raw(),
            );
        }
        Ok(id)
    }
}

/// # Safety
/// The event is an answer to a description of groups.
pub(super) unsafe fn read_members(event: &Event) -> Result<u32, Fault> {
    let mut count = 0;
    // SAFETY: the answer and all that it points at belong to the event; exactly one group was asked for.
    unsafe {
        let answer = sys::rd_kafka_event_DescribeConsumerGroups_result(event.raw());
        let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(answer, &raw mut count);
        if count == 0 {
            return Ok(0);
        }
        match borrow_error(sys::rd_kafka_ConsumerGroupDescription_error(*groups)) {
            Some(fault) if fault.code == NOT_FOUND => Ok(0),
            Some(fault) => Err(fault),
            None => {
                let members = sys::rd_kafka_ConsumerGroupDescription_member_count(*groups);
                Ok(u32::try_from(members).unwrap_or(u32::MAX))
            }
        }
    }
}
