//! The lane of one partition: records are decoded into it in order, and ranges are cut off it.
//!
//! Must not be here: Kafka's client, sending, deciding when to cut.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use clickhouse_sink_crds::commit::Range;
use clickhouse_sink_crds::worker_config::Tombstones;

use crate::batch::{Fill, OffsetRuns, Part, Rows};
use crate::dead_letter::Rejected;
use crate::decode::{Decoder, RecordPosition, RejectCode, Rejection};
use crate::kafka::{Headers, TopicPartition};
use crate::mapping::Mapping;
use crate::native::BlockBuilder;
use crate::session::Reading;
use crate::session::position::Identity;

/// What a lane holds since the last cut.
pub struct Lane {
    topic: Arc<str>,
    partition: i32,
    identity: Identity,
    mapping: Arc<Mapping>,
    builder: BlockBuilder,
    offsets: OffsetRuns,
    rejected: Vec<Rejected>,
    rejected_bytes: u64,
    skipped: u64,
    fallbacks: u64,
    start: i64,
    next: i64,
    since: Option<Instant>,
    replay: Option<Replay>,
}

/// Ranges of an earlier session that a lane reads exactly as they were cut.
struct Replay {
    ends: VecDeque<i64>,
    ready: VecDeque<Part>,
}

/// Counts of what happened to records, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Records read.
    pub records: u64,
    /// Payload bytes read.
    pub bytes: u64,
}

impl Lane {
    /// An empty lane that reads what the session wants.
    #[must_use]
    pub fn new(
        key: &TopicPartition,
        identity: Identity,
        mapping: Arc<Mapping>,
        reading: &Reading,
    ) -> Self {
        Self {
            topic: Arc::clone(&key.topic),
            partition: key.partition,
            identity,
            builder: BlockBuilder::new(Arc::clone(&mapping.schema)),
            mapping,
            offsets: OffsetRuns::default(),
            rejected: Vec::new(),
            rejected_bytes: 0,
            skipped: 0,
            fallbacks: 0,
            start: reading.start,
            next: reading.from,
            since: None,
            replay: (!reading.ends.is_empty()).then(|| Replay {
                ends: reading.ends.iter().copied().collect(),
                ready: VecDeque::new(),
            }),
        }
    }

    /// The mapping that makes its rows.
    #[must_use]
    pub const fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// True while it reads ranges of an earlier session.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        self.replay.is_some()
    }

    /// True where every range of the replay was read.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.replay
            .as_ref()
            .is_some_and(|replay| replay.ends.is_empty() && replay.ready.is_empty())
    }

    /// A range of the replay that was read to its end.
    pub fn take_ready(&mut self) -> Option<Part> {
        self.replay.as_mut()?.ready.pop_front()
    }

    /// How full it is.
    #[must_use]
    pub fn fill(&self) -> Fill {
        Fill {
            rows: self.offsets.len(),
            bytes: self.builder.bytes() as u64 + self.rejected_bytes + self.ready_bytes(),
            covered: u64::try_from(self.next - self.start).unwrap_or(0),
            since: self.since,
        }
    }

    fn ready_bytes(&self) -> u64 {
        let ready = self.replay.iter().flat_map(|replay| replay.ready.iter());
        ready.map(Part::bytes).sum()
    }

    /// Takes a record: it becomes a row, a reject, or is skipped by rule. Offsets already covered are ignored.
    pub fn on_record(
        &mut self,
        record: &Record<'_>,
        decoder: &mut Decoder,
        tombstones: Tombstones,
        now: Instant,
    ) {
        if record.offset < self.next || !self.finish_ranges(record.offset) {
            return;
        }
        let at = RecordPosition {
            topic: &self.topic,
            partition: self.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
        };
        match record.payload {
            None if tombstones == Tombstones::Skip => self.skipped += 1,
            None => self.reject(record, &tombstone()),
            Some(payload) => match decoder.decode(payload, &at, &mut self.builder) {
                Ok(row) => {
                    self.offsets.push(record.offset);
                    self.fallbacks += u64::from(row.fallbacks);
                }
                Err(rejection) => self.reject(record, &rejection),
            },
        }
        self.cover(record.offset + 1, now);
    }

    /// The end of the partition was seen at this offset: what lies before it needs no row (control records, aborted ones).
    pub fn on_end(&mut self, offset: i64, now: Instant) {
        if self.finish_ranges(offset) && offset > self.next {
            self.cover(offset, now);
        }
    }

    /// Finishes the ranges of a replay that end at or before `offset`; false where nothing behind them is wanted.
    fn finish_ranges(&mut self, offset: i64) -> bool {
        while let Some(end) = self.next_end().filter(|end| *end <= offset) {
            self.next = end;
            let part = self.cut();
            if let (Some(replay), Some(part)) = (&mut self.replay, part) {
                replay.ends.pop_front();
                replay.ready.push_back(part);
            }
        }
        self.replay
            .as_ref()
            .is_none_or(|replay| !replay.ends.is_empty())
    }

    fn next_end(&self) -> Option<i64> {
        self.replay.as_ref()?.ends.front().copied()
    }

    fn cover(&mut self, next: i64, now: Instant) {
        self.next = next;
        self.since.get_or_insert(now);
    }

    fn reject(&mut self, record: &Record<'_>, rejection: &Rejection) {
        let rejected = Rejected {
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(<[u8]>::to_vec),
            payload: record.payload.unwrap_or_default().to_vec(),
            headers: owned_headers(record.headers),
            column: rejection.column.clone().unwrap_or_default(),
            code: rejection.code.as_str(),
            reason: rejection.message.clone(),
        };
        self.rejected_bytes += rejected.bytes();
        self.rejected.push(rejected);
    }

    /// Values replaced by a column's `onError` since the last call.
    pub fn take_fallbacks(&mut self) -> u64 {
        std::mem::take(&mut self.fallbacks)
    }

    /// Cuts everything that is covered as one range; `None` where nothing is.
    pub fn cut(&mut self) -> Option<Part> {
        if self.next == self.start {
            return None;
        }
        let range = Range {
            topic_id: self.identity.topic_id.clone(),
            partition: self.partition,
            epoch: self.identity.epoch.clone(),
            start: self.start,
            end: self.next,
        };
        self.start = self.next;
        self.since = None;
        self.rejected_bytes = 0;
        let offsets = std::mem::take(&mut self.offsets);
        let rows = (!offsets.is_empty()).then(|| Rows {
            block: Arc::new(self.builder.finish()),
            offsets,
        });
        Some(Part {
            topic: Arc::clone(&self.topic),
            range,
            rows,
            rejected: std::mem::take(&mut self.rejected),
            skipped: std::mem::take(&mut self.skipped),
        })
    }
}

/// A record as it was fetched, borrowed.
pub struct Record<'a> {
    /// Offset.
    pub offset: i64,
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// Key.
    pub key: Option<&'a [u8]>,
    /// Payload; `None` for a tombstone.
    pub payload: Option<&'a [u8]>,
    /// Headers, read only where a record is rejected.
    pub headers: Headers<'a>,
}

fn tombstone() -> Rejection {
    let message =
        "the record has no payload (a tombstone), and `format.tombstones` is Reject".to_owned();
    Rejection {
        column: None,
        code: RejectCode::Tombstone,
        message,
    }
}

fn owned_headers(headers: Headers<'_>) -> Vec<(String, Vec<u8>)> {
    headers
        .iter()
        .map(|(name, value)| (name.to_owned(), value.unwrap_or_default().to_vec()))
        .collect()
}

#[cfg(test)]
mod tests;
