//! Reading: from the partition queues into the lanes, within the budget.
//!
//! Must not be here: the group, commits, cutting.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use clickhouse_sink_crds::worker_config::{Tombstones, WorkerConfig};

use super::{Shard, ShardError, Slot};
use crate::batch::{Fill, is_full};
use crate::decode::Decoder;
use crate::kafka::{Consumer, ErrorCode, Fault, Fetched, PartitionHandle, TopicPartition};
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

/// One reading of all partitions: what it goes by, and what came of it so far.
struct Reader<'a> {
    consumer: &'a mut Consumer,
    decoders: &'a mut HashMap<String, Decoder>,
    config: &'a WorkerConfig,
    declares: bool,
    /// Bytes that the lanes may hold together.
    budget: u64,
    none_in_flight: bool,
    /// The replay that may go on above the budget.
    privileged: Option<TopicPartition>,
    /// How full the lanes are together by now.
    sum: Fill,
    taken: Taken,
    more: bool,
    now: Instant,
    troubles: Vec<(TopicPartition, Trouble)>,
}

/// Why a partition is not read on.
enum Trouble {
    Fault(Fault),
    /// A replayed range holds so many bytes already.
    TooLarge(u64),
}

impl Shard {
    /// Reads every partition once, from another one each turn: where the budget ends, it ends for all in turn. True where
    /// records came.
    pub(super) fn read_all(&mut self, now: Now) -> Result<bool, ShardError> {
        let (declares, sum) = (self.declares(), self.fill());
        let privileged = self.privileged_replay();
        let mut reader = Reader {
            consumer: &mut self.consumer,
            decoders: &mut self.decoders,
            config: &self.parts.config,
            declares,
            budget: self
                .parts
                .budget_bytes
                .saturating_sub(self.in_flight.bytes()),
            none_in_flight: self.in_flight.is_empty(),
            privileged,
            sum,
            taken: Taken::default(),
            more: false,
            now: now.instant,
            troubles: Vec::new(),
        };
        let first = self.turns % self.slots.len().max(1);
        for (key, slot) in self.slots.iter_mut().skip(first) {
            reader.read_slot(key, slot);
        }
        for (key, slot) in self.slots.iter_mut().take(first) {
            reader.read_slot(key, slot);
        }
        let (taken, more, troubles) = (reader.taken, reader.more, reader.troubles);
        self.count(&taken);
        for (key, trouble) in troubles {
            self.hold_on(&key, &trouble, now)?;
        }
        Ok(taken.records > 0 || more)
    }

    fn count(&mut self, taken: &Taken) {
        self.parts.metrics.records_read.inc_by(taken.records);
        self.parts.metrics.bytes_read.inc_by(taken.bytes);
    }

    /// A partition that cannot be read on keeps its place and says why; it is looked at again by itself.
    fn hold_on(
        &mut self,
        key: &TopicPartition,
        trouble: &Trouble,
        now: Now,
    ) -> Result<(), ShardError> {
        let (reason, message) = match trouble {
            Trouble::Fault(fault) => (
                reason_of(fault.code),
                format!("the partition cannot be read on: {fault}"),
            ),
            Trouble::TooLarge(needed) => (
                "RangeLargerThanMemory",
                too_large(*needed, self.parts.config.memory_limit_bytes),
            ),
        };
        tracing::warn!(topic = %key.topic, partition = key.partition, reason, %message, "A partition cannot be read on.");
        if let Some(slot) = self.slots.get_mut(key) {
            slot.session.hold(reason, String::new(), message, now);
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
        fill.bytes + self.in_flight.bytes()
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
}

impl Reader<'_> {
    fn read_slot(&mut self, key: &TopicPartition, slot: &mut Slot) {
        let Some(lane) = slot.lane.as_ref() else {
            return;
        };
        let before = lane.fill();
        let reads = slot.session.reads() && !lane.is_replayed();
        if !reads || !self.may_read(key, lane, &before) {
            return;
        }
        let result = self.read_into(slot, self.room(&before));
        self.taken.records += result.taken.records;
        self.taken.bytes += result.taken.bytes;
        self.more |= result.more;
        if let Some(fault) = result.fault.filter(|it| !it.code.is_informational()) {
            self.troubles.push((key.clone(), Trouble::Fault(fault)));
            return;
        }
        let Some(lane) = slot.lane.as_ref() else {
            return;
        };
        let after = lane.fill();
        self.sum = self.sum.without(&before).with(&after);
        // A replayed range ignores the budget, but not what the process may use at all.
        let needed = after.bytes + after.bytes / 2;
        let limit = self.config.memory_limit_bytes.unwrap_or(u64::MAX);
        if lane.is_replay() && needed > limit {
            let trouble = Trouble::TooLarge(needed);
            self.troubles.push((key.clone(), trouble));
        }
    }

    /// One batch may always be filled, however small the budget is.
    fn may_read(&self, key: &TopicPartition, lane: &Lane, own: &Fill) -> bool {
        let over = self.sum.bytes >= self.budget;
        if lane.is_replay() {
            return !over || self.privileged.as_ref() == Some(key);
        }
        let full = is_full(self.filled_by(own), &self.config.batch);
        let nothing_held = self.sum.covered == 0 && self.none_in_flight;
        !full && (nothing_held || !over)
    }

    /// The set that a record of this partition fills: the partition's own, or that of all.
    const fn filled_by<'a>(&'a self, lane: &'a Fill) -> &'a Fill {
        if self.declares { lane } else { &self.sum }
    }

    fn room(&self, lane: &Fill) -> usize {
        (self.config.batch.max_rows as usize)
            .saturating_sub(self.filled_by(lane).rows)
            .clamp(1, RECORDS_PER_READ)
    }

    fn read_into(&mut self, slot: &mut Slot, max: usize) -> ReadResult {
        let Some(lane) = slot.lane.as_mut() else {
            return ReadResult::default();
        };
        let mapping = lane.mapping();
        if !self.decoders.contains_key(&mapping.hash) {
            let decoder = Decoder::new(Arc::clone(&mapping.schema));
            self.decoders.insert(mapping.hash.clone(), decoder);
        }
        let Some(decoder) = self.decoders.get_mut(&mapping.hash) else {
            return ReadResult::default();
        };
        let tombstones = self.config.format.tombstones;
        read_into(
            self.consumer,
            slot.handle,
            (lane, decoder),
            tombstones,
            max,
            self.now,
        )
    }
}

fn too_large(needed: u64, limit: Option<u64>) -> String {
    format!(
        "expected a declared range that fits the memory limit of {} bytes, found one that needs more than {needed}; raise the limit \
         of the workers; it is read again by itself",
        limit.unwrap_or(u64::MAX)
    )
}

fn read_into(
    consumer: &mut Consumer,
    handle: PartitionHandle,
    (lane, decoder): (&mut Lane, &mut Decoder),
    tombstones: Tombstones,
    max: usize,
    now: Instant,
) -> ReadResult {
    let mut result = ReadResult::default();
    let outcome = consumer.read_batch(handle, max, |fetched| match fetched {
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
