//! Reading: from the partition queues into the lanes, within the budget, and cutting what is filled.
//!
//! Must not be here: the group, commits.

use std::time::Instant;

use clickhouse_sink_crds::commit::Range;
use clickhouse_sink_crds::worker_config::Tombstones;

use super::{Shard, ShardError, Slot};
use crate::batch::{Batch, Cut, Fill, Part, decide_cut, is_full};
use crate::decode::Decoder;
use crate::kafka::{Consumer, ErrorCode, Fault, Fetched, TopicPartition};
use crate::lane::{Record, Taken};

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
    pub(super) fn read_all(&mut self, now: Instant) -> Result<bool, ShardError> {
        let mut any = false;
        let mut faults = Vec::new();
        let keys: Vec<TopicPartition> = self.reading();
        for key in keys {
            let fill = self.fill();
            if !self.may_read(&fill) {
                break;
            }
            let Some(result) = self.read_slot(&key, &fill, now) else {
                continue;
            };
            any |= result.taken.records > 0 || result.more;
            self.count(&result.taken);
            faults.extend(result.fault.map(|fault| (key, fault)));
        }
        for (key, fault) in faults {
            self.hold_on_fault(&key, &fault, now)?;
        }
        Ok(any)
    }

    fn reading(&self) -> Vec<TopicPartition> {
        let reading = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.lane.is_some() && slot.session.reads());
        reading.map(|(key, _)| key.clone()).collect()
    }

    fn read_slot(&mut self, key: &TopicPartition, fill: &Fill, now: Instant) -> Option<ReadResult> {
        let room = (self.parts.config.batch.max_rows as usize)
            .saturating_sub(fill.rows)
            .clamp(1, RECORDS_PER_READ);
        let tombstones = self.parts.config.format.tombstones;
        let slot = self.slots.get_mut(key)?;
        Some(read_into(
            &mut self.consumer,
            slot,
            &mut self.decoder,
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
        now: Instant,
    ) -> Result<(), ShardError> {
        if fault.code.is_informational() {
            return Ok(());
        }
        tracing::warn!(topic = %key.topic, partition = key.partition, error = %fault, "A partition cannot be read on.");
        self.consumer
            .incremental_unassign(std::slice::from_ref(key))?;
        if let Some(slot) = self.slots.get_mut(key) {
            slot.lane = None;
            slot.session.hold(
                reason_of(fault.code),
                format!("the partition cannot be read on: {fault}"),
                now,
            );
        }
        Ok(())
    }

    /// How full the lanes are together.
    pub(super) fn fill(&self) -> Fill {
        let lanes = self.slots.values().filter_map(|slot| slot.lane.as_ref());
        lanes
            .map(crate::lane::Lane::fill)
            .fold(Fill::default(), |sum, lane| Fill {
                rows: sum.rows + lane.rows,
                bytes: sum.bytes + lane.bytes,
                covered: sum.covered + lane.covered,
                since: [sum.since, lane.since].into_iter().flatten().min(),
            })
    }

    /// Bytes buffered: what is filled, and what is in flight with its encoded copy.
    pub(super) fn buffered_bytes(&self, fill: &Fill) -> u64 {
        let in_flight: u64 = self.in_flight.values().sum();
        fill.bytes + in_flight + in_flight / 2
    }

    fn over_budget(&self, fill: &Fill) -> bool {
        self.buffered_bytes(fill) >= self.parts.budget_bytes
    }

    /// One batch may always be filled, however small the budget is.
    fn may_read(&self, fill: &Fill) -> bool {
        let nothing_held = fill.covered == 0 && self.in_flight.is_empty();
        !is_full(fill, &self.parts.config.batch) && (nothing_held || !self.over_budget(fill))
    }

    fn decide(&self, fill: &Fill, now: Instant) -> Cut {
        let must = self.stop.is_some()
            || self.revocation.is_some()
            || (self.over_budget(fill) && self.in_flight.is_empty());
        decide_cut(
            fill,
            &self.parts.config.batch,
            self.in_flight.len(),
            must,
            now,
        )
    }

    /// When the linger of what is filled ends.
    pub(super) fn cut_due(&self, now: Instant) -> Option<Instant> {
        match self.decide(&self.fill(), now) {
            Cut::Fill(due) => due,
            Cut::Now => Some(now),
            Cut::Full => None,
        }
    }

    /// Cuts the filled set and hands it over, where it is time.
    pub(super) fn cut_where_due(&mut self, now: Instant) -> bool {
        if self.decide(&self.fill(), now) != Cut::Now {
            return false;
        }
        let parts: Vec<Part> = self
            .slots
            .iter_mut()
            .filter_map(|(key, slot)| cut_slot(key, slot))
            .collect();
        let batch = Batch {
            id: self.next_batch,
            cluster_id: std::sync::Arc::clone(&self.cluster_id),
            parts,
        };
        self.next_batch += 1;
        self.hand_over(batch, now);
        true
    }

    fn hand_over(&mut self, batch: Batch, now: Instant) {
        let fallbacks: u64 = self
            .slots
            .values_mut()
            .filter_map(|slot| slot.lane.as_mut())
            .map(crate::lane::Lane::take_fallbacks)
            .sum();
        self.parts.metrics.values_replaced.inc_by(fallbacks);
        if batch.rows() == 0 && batch.rejected() == 0 {
            return self.skip_by_rule(&batch, now);
        }
        self.in_flight.insert(batch.id, batch.bytes());
        self.parts.inserter.submit(batch);
    }

    /// A set without rows and rejects needs nobody's acknowledgement.
    fn skip_by_rule(&mut self, batch: &Batch, now: Instant) {
        self.parts.metrics.records_skipped.inc_by(batch.skipped());
        for part in &batch.parts {
            let key = TopicPartition::new(part.topic.clone(), part.range.partition);
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.session
                    .on_acknowledged(part.range.start, part.range.end, now);
            }
        }
    }
}

fn cut_slot(key: &TopicPartition, slot: &mut Slot) -> Option<Part> {
    let identity = slot.session.identity()?.clone();
    let part = slot.lane.as_mut()?.cut(|start, end| Range {
        topic_id: identity.topic_id,
        partition: key.partition,
        epoch: identity.epoch,
        start,
        end,
    })?;
    slot.session.on_cut(part.range.end);
    Some(part)
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
