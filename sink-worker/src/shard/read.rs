//! Reading: from the partition queues into the lanes, within the budget.
//!
//! Must not be here: the group, commits, cutting.

use std::time::Instant;

use clickhouse_sink_crds::worker_config::Tombstones;

use super::{Shard, ShardError, Slot};
use crate::batch::{Fill, is_full};
use crate::decode::Decoder;
use crate::kafka::{Consumer, ErrorCode, Fault, Fetched, TopicPartition};
use crate::lane::{Lane, Record, Taken};
use crate::session::Now;

/// Records read from one partition before the next one has its turn.
const RECORDS_PER_READ: usize = 2048;

/// What one read of a partition brought.
#[derive(Default)]
struct ReadResult {
    taken: Taken,
    more: bool,
    fault: Option<Fault>,
}

impl Shard {
    /// Reads every partition once; true where records came.
    pub(super) fn read_all(&mut self, now: Now) -> Result<bool, ShardError> {
        let mut any = false;
        let mut sum = self.fill();
        let privileged = self.privileged_replay();
        for key in self.reading() {
            let Some(before) = self.lane_fill(&key) else {
                continue;
            };
            if !self.may_read(&key, &before, &sum, privileged.as_ref()) {
                continue;
            }
            let Some(result) = self.read_slot(&key, &before, &sum, now.instant) else {
                continue;
            };
            any |= result.taken.records > 0 || result.more;
            self.count(&result.taken);
            if let Some(fault) = &result.fault {
                self.hold_on_fault(&key, fault, now)?;
            }
            let after = self.lane_fill(&key).unwrap_or_default();
            sum = sum.without(&before).with(&after);
            self.hold_where_too_large(&key, &after, now)?;
        }
        Ok(any)
    }

    /// Partitions that are read, from another one each turn: where the budget ends, it ends for all in turn.
    fn reading(&self) -> Vec<TopicPartition> {
        let reads = |slot: &Slot| {
            let lane = slot.lane.as_ref();
            slot.session.reads() && lane.is_some_and(|lane| !lane.is_replayed())
        };
        let reading = self.slots.iter().filter(|(_, slot)| reads(slot));
        let mut keys: Vec<TopicPartition> = reading.map(|(key, _)| key.clone()).collect();
        if !keys.is_empty() {
            let first = self.turns % keys.len();
            keys.rotate_left(first);
        }
        keys
    }

    fn lane_fill(&self, key: &TopicPartition) -> Option<Fill> {
        self.slots.get(key)?.lane.as_ref().map(Lane::fill)
    }

    fn read_slot(
        &mut self,
        key: &TopicPartition,
        lane: &Fill,
        sum: &Fill,
        now: Instant,
    ) -> Option<ReadResult> {
        let rows = if self.declares() { lane.rows } else { sum.rows };
        let room = (self.parts.config.batch.max_rows as usize)
            .saturating_sub(rows)
            .clamp(1, RECORDS_PER_READ);
        let tombstones = self.parts.config.format.tombstones;
        let slot = self.slots.get_mut(key)?;
        let mapping = slot.lane.as_ref()?.mapping();
        let decoder = self
            .decoders
            .entry(mapping.hash.clone())
            .or_insert_with(|| Decoder::new(std::sync::Arc::clone(&mapping.schema)));
        Some(read_into(
            &mut self.consumer,
            slot,
            decoder,
            tombstones,
            room,
            now,
        ))
    }

    fn count(&mut self, taken: &Taken) {
        self.parts.metrics.records_read.inc_by(taken.records);
        self.parts.metrics.bytes_read.inc_by(taken.bytes);
    }

    /// A partition that cannot be read on keeps its place and says why; it is looked at again by itself.
    fn hold_on_fault(
        &mut self,
        key: &TopicPartition,
        fault: &Fault,
        now: Now,
    ) -> Result<(), ShardError> {
        if fault.code.is_informational() {
            return Ok(());
        }
        tracing::warn!(topic = %key.topic, partition = key.partition, error = %fault, "A partition cannot be read on.");
        if let Some(slot) = self.slots.get_mut(key) {
            let message = format!("the partition cannot be read on: {fault}");
            slot.session
                .hold(reason_of(fault.code), String::new(), message, now);
        }
        self.stop_reading(key)
    }

    /// A replayed range ignores the budget, but not what the process may use at all.
    fn hold_where_too_large(
        &mut self,
        key: &TopicPartition,
        fill: &Fill,
        now: Now,
    ) -> Result<(), ShardError> {
        let limit = self.parts.config.memory_limit_bytes.unwrap_or(u64::MAX);
        let needed = fill.bytes + fill.bytes / 2;
        if !self.replays(key) || needed <= limit {
            return Ok(());
        }
        if let Some(slot) = self.slots.get_mut(key) {
            let message = format!(
                "expected a declared range that fits the memory limit of {limit} bytes, found one that needs more than {needed}; raise \
                 the limit of the workers; it is read again by itself"
            );
            slot.session
                .hold("RangeLargerThanMemory", String::new(), message, now);
        }
        self.stop_reading(key)
    }

    /// How full the lanes are together.
    pub(super) fn fill(&self) -> Fill {
        let lanes = self.slots.values().filter_map(|slot| slot.lane.as_ref());
        lanes
            .map(Lane::fill)
            .fold(Fill::default(), |sum, lane| sum.with(&lane))
    }

    /// Bytes buffered: what is filled, and what is in flight with its encoded copy.
    pub(super) fn buffered_bytes(&self, fill: &Fill) -> u64 {
        let in_flight: u64 = self.in_flight.values().sum();
        fill.bytes + in_flight + in_flight / 2
    }

    pub(super) fn over_budget(&self, fill: &Fill) -> bool {
        self.buffered_bytes(fill) >= self.parts.budget_bytes
    }

    /// The replay that may go on above the budget: one always may, or none would ever end.
    fn privileged_replay(&self) -> Option<TopicPartition> {
        let replays = |slot: &Slot| {
            slot.lane
                .as_ref()
                .is_some_and(|lane| lane.is_replay() && !lane.is_replayed())
        };
        self.slots
            .iter()
            .find(|(_, slot)| replays(slot))
            .map(|(key, _)| key.clone())
    }

    /// One batch may always be filled, however small the budget is.
    fn may_read(
        &self,
        key: &TopicPartition,
        lane: &Fill,
        sum: &Fill,
        privileged: Option<&TopicPartition>,
    ) -> bool {
        let over = self.over_budget(sum);
        if self.replays(key) {
            return !over || privileged == Some(key);
        }
        let full = is_full(
            if self.declares() { lane } else { sum },
            &self.parts.config.batch,
        );
        let nothing_held = sum.covered == 0 && self.in_flight.is_empty();
        !full && (nothing_held || !over)
    }

    fn replays(&self, key: &TopicPartition) -> bool {
        let lane = self.slots.get(key).and_then(|slot| slot.lane.as_ref());
        lane.is_some_and(Lane::is_replay)
    }
}

fn read_into(
    consumer: &mut Consumer,
    slot: &mut Slot,
    decoder: &mut Decoder,
    tombstones: Tombstones,
    max: usize,
    now: Instant,
) -> ReadResult {
    let mut result = ReadResult::default();
    let Some(lane) = slot.lane.as_mut() else {
        return result;
    };
    let outcome = consumer.read_batch(slot.handle, max, |fetched| match fetched {
        Fetched::Record {
            offset,
            timestamp_ms,
            key,
            payload,
            headers,
        } => {
            result.taken.records += 1;
            result.taken.bytes += payload.map_or(0, |payload| payload.len() as u64);
            lane.on_record(
                &Record {
                    offset,
                    timestamp_ms,
                    key,
                    payload,
                    headers,
                },
                decoder,
                tombstones,
                now,
            );
        }
        Fetched::Eof { offset } => lane.on_end(offset, now),
        Fetched::Error { fault, .. } => result.fault = Some(fault),
    });
    result.more = outcome.more;
    result
}

/// The hold's reason for an error on a partition's queue.
fn reason_of(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::AUTO_OFFSET_RESET | ErrorCode::OFFSET_OUT_OF_RANGE => "OffsetUnavailable",
        ErrorCode::NOT_IMPLEMENTED | ErrorCode::BAD_COMPRESSION => "UnsupportedCompression",
        ErrorCode::TOPIC_AUTHORIZATION_FAILED | ErrorCode::GROUP_AUTHORIZATION_FAILED => {
            "Unauthorized"
        }
        _ => "UnknownError",
    }
}
