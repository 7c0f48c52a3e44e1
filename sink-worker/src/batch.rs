//! Batches: what is filled, when it is cut, and the set of ranges that one INSERT carries.
//!
//! Must not be here: I/O, clocks (time is passed in), Kafka or ClickHouse clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse_sink_crds::commit::Range;
use clickhouse_sink_crds::worker_config::BatchLimits;

use tokio::sync::watch;

use crate::dead_letter::Rejected;
use crate::mapping::Mapping;
use crate::native::Block;
use crate::session::ReplayMode;
use crate::session::gate::GateView;

/// What one INSERT carries: a set of ranges, each of one partition, with the rows and rejects found in it.
#[derive(Debug)]
pub struct Batch {
    /// Number of the batch within its shard, for logs and acknowledgements.
    pub id: u64,
    /// Id of the Kafka cluster, for the token.
    pub cluster_id: Arc<str>,
    /// The mapping that made the rows.
    pub mapping: Arc<Mapping>,
    /// The ranges in the order in which they are sent; exactly one where there is a gate.
    pub parts: Vec<Part>,
    /// Says when the one range may be sent; absent where several partitions share an INSERT.
    pub gate: Option<watch::Receiver<GateView>>,
    /// How a range of an earlier session is sent; absent for one that was just cut.
    pub replay: Option<ReplayMode>,
    /// When a range of an earlier session was first declared, in seconds of the server's clock, where it is known.
    pub declared_at_s: Option<u64>,
}

/// One range of one partition and what was found in it.
#[derive(Debug)]
pub struct Part {
    /// Topic of the partition.
    pub topic: Arc<str>,
    /// The half-open offset interval, with the identity that goes into the token.
    pub range: Range,
    /// The rows, absent where the range has none.
    pub rows: Option<Rows>,
    /// Records that made no row and must reach the dead letters before the INSERT.
    pub rejected: Vec<Rejected>,
    /// Records that made no row by rule (tombstones).
    pub skipped: u64,
}

/// Rows of one partition in offset order.
#[derive(Debug)]
pub struct Rows {
    /// The columns.
    pub block: Arc<Block>,
    /// Where each row comes from.
    pub offsets: OffsetRuns,
}

impl Batch {
    /// Rows in all parts.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.parts
            .iter()
            .filter_map(|part| part.rows.as_ref())
            .map(|rows| rows.block.rows())
            .sum()
    }

    /// Bytes that the batch holds, its rejects included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(Part::bytes).sum()
    }

    /// Rejected records in all parts.
    #[must_use]
    pub fn rejected(&self) -> usize {
        self.parts.iter().map(|part| part.rejected.len()).sum()
    }

    /// Records skipped by rule in all parts.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.parts.iter().map(|part| part.skipped).sum()
    }
}

impl Part {
    /// Records in the range that made a row, a reject, or nothing by rule.
    #[must_use]
    pub fn records(&self) -> u64 {
        let rows = self.rows.as_ref().map_or(0, |rows| rows.block.rows());
        rows as u64 + self.rejected.len() as u64 + self.skipped
    }

    /// Bytes that it holds, its rejects included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let rows = self
            .rows
            .as_ref()
            .map_or(0, |rows| rows.block.bytes() as u64);
        rows + self.rejected.iter().map(Rejected::bytes).sum::<u64>()
    }
}

/// The offset of every row, as runs of consecutive offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetRuns {
    /// First row of each run and its offset.
    runs: Vec<(usize, i64)>,
    rows: usize,
}

impl OffsetRuns {
    /// Adds the offset of the next row.
    pub fn push(&mut self, offset: i64) {
        if self.next_of_last_run() != Some(offset) {
            self.runs.push((self.rows, offset));
        }
        self.rows += 1;
    }

    fn next_of_last_run(&self) -> Option<i64> {
        let (row, offset) = self.runs.last()?;
        Some(offset + i64::try_from(self.rows - row).ok()?)
    }

    /// Offset of a row; `None` past the end.
    #[must_use]
    pub fn offset_of(&self, row: usize) -> Option<i64> {
        if row >= self.rows {
            return None;
        }
        let run = self
            .runs
            .partition_point(|(first, _)| *first <= row)
            .checked_sub(1)?;
        let (first, offset) = self.runs.get(run)?;
        Some(offset + i64::try_from(row - first).ok()?)
    }

    /// Number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows
    }

    /// True where no row was added.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

/// How full the filling set of a shard is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Rows.
    pub rows: usize,
    /// Bytes, rejects included.
    pub bytes: u64,
    /// Offsets covered beyond what is in flight, rows or not.
    pub covered: u64,
    /// When the first of them was read.
    pub since: Option<Instant>,
}

impl Fill {
    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            covered: self.covered + other.covered,
            since: [self.since, other.since].into_iter().flatten().min(),
        }
    }

    /// Without what another one holds of it; its time stays.
    #[must_use]
    pub const fn without(&self, other: &Self) -> Self {
        Self {
            rows: self.rows.saturating_sub(other.rows),
            bytes: self.bytes.saturating_sub(other.bytes),
            covered: self.covered.saturating_sub(other.covered),
            since: self.since,
        }
    }
}

/// What to do with the filling set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Cut it now.
    Now,
    /// Go on filling; look again at this time at the latest (`None`: when something changes).
    Fill(Option<Instant>),
    /// It is full but may not be sent yet: stop reading.
    Full,
}

/// INSERTs of a shard, or of one partition where each has its own, that may be in flight where the linger is not 0: enough
/// to hide a round trip and a slow part write.
pub const MAX_IN_FLIGHT: usize = 4;

/// Decides whether the filling set is cut.
///
/// A linger of 0 means single flight: whatever was queued when no INSERT is in flight. `pace_at` is when a batch that is
/// not full may go at the earliest.
#[must_use]
pub fn decide_cut(
    fill: &Fill,
    limits: &BatchLimits,
    in_flight: usize,
    drain: bool,
    pace_at: Instant,
    now: Instant,
) -> Cut {
    if fill.covered == 0 {
        return Cut::Fill(None);
    }
    let is_filled = is_full(fill, limits);
    let allowed = if limits.linger_ms == 0 {
        1
    } else {
        MAX_IN_FLIGHT
    };
    if in_flight >= allowed && !drain {
        return if is_filled {
            Cut::Full
        } else {
            Cut::Fill(None)
        };
    }
    if is_filled || drain {
        return Cut::Now;
    }
    let linger = Duration::from_millis(u64::from(limits.linger_ms));
    let due = fill.since.unwrap_or(now) + linger;
    let due = due.max(pace_at);
    if due <= now {
        Cut::Now
    } else {
        Cut::Fill(Some(due))
    }
}

/// True where the set has reached its rows or bytes.
#[must_use]
pub fn is_full(fill: &Fill, limits: &BatchLimits) -> bool {
    fill.rows >= limits.max_rows as usize || fill.bytes >= limits.max_bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clickhouse_sink_crds::worker_config::Compression;
    use proptest::prelude::*;

    use super::*;

    fn limits(linger_ms: u32) -> BatchLimits {
        BatchLimits {
            max_rows: 10,
            max_bytes: 1000,
            linger_ms,
            max_inserts_per_second: 50,
            compression: Compression::Lz4,
        }
    }

    fn fill(rows: usize, since: Instant) -> Fill {
        Fill {
            rows,
            bytes: 1,
            covered: rows as u64,
            since: Some(since),
        }
    }

    #[test]
    fn nothing_read_is_never_cut_even_at_a_drain() {
        let now = Instant::now();
        assert_eq!(
            decide_cut(&Fill::default(), &limits(0), 0, true, now, now),
            Cut::Fill(None)
        );
    }

    #[test]
    fn without_a_linger_one_insert_flies_and_the_rest_waits_for_it() {
        let now = Instant::now();
        assert_eq!(
            decide_cut(&fill(1, now), &limits(0), 0, false, now, now),
            Cut::Now
        );
        assert_eq!(
            decide_cut(&fill(9, now), &limits(0), 1, false, now, now),
            Cut::Fill(None)
        );
        assert_eq!(
            decide_cut(&fill(10, now), &limits(0), 1, false, now, now),
            Cut::Full
        );
    }

    #[test]
    fn a_linger_is_counted_from_the_first_record() {
        let since = Instant::now();
        let due = since + Duration::from_millis(50);
        assert_eq!(
            decide_cut(&fill(1, since), &limits(50), 0, false, since, since),
            Cut::Fill(Some(due))
        );
        assert_eq!(
            decide_cut(&fill(1, since), &limits(50), 0, false, since, due),
            Cut::Now
        );
    }

    #[test]
    fn the_pace_stretches_the_linger_but_holds_no_full_batch_and_no_drain() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let cut = |rows, drain| decide_cut(&fill(rows, now), &limits(0), 0, drain, later, now);
        assert_eq!(cut(9, false), Cut::Fill(Some(later)));
        assert_eq!(cut(10, false), Cut::Now);
        assert_eq!(cut(9, true), Cut::Now);
    }

    #[test]
    fn a_full_batch_does_not_wait_for_the_linger_but_for_a_free_place() {
        let now = Instant::now();
        assert_eq!(
            decide_cut(&fill(10, now), &limits(5000), 3, false, now, now),
            Cut::Now
        );
        assert_eq!(
            decide_cut(&fill(10, now), &limits(5000), 4, false, now, now),
            Cut::Full
        );
        assert_eq!(
            decide_cut(&fill(10, now), &limits(5000), 4, true, now, now),
            Cut::Now
        );
    }

    proptest! {
        #[test]
        fn runs_give_back_every_offset(steps in prop::collection::vec(1_i64..4, 0..200), first in 0_i64..1000) {
            let mut runs = OffsetRuns::default();
            let offsets: Vec<i64> = steps.iter().scan(first, |at, step| { *at += step; Some(*at) }).collect();
            for offset in &offsets { runs.push(*offset); }
            prop_assert_eq!(runs.len(), offsets.len());
            for (row, offset) in offsets.iter().enumerate() { prop_assert_eq!(runs.offset_of(row), Some(*offset)); }
            prop_assert_eq!(runs.offset_of(offsets.len()), None);
        }
    }
}
