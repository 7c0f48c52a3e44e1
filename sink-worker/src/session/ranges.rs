//! The ranges of a session that are not behind its position yet, in order and without holes.
//!
//! Must not be here: commits, positions.

use std::collections::VecDeque;

/// Most ranges in flight while running.
pub const MAX_RUNNING: usize = 8;
/// Most ranges in flight while one is split down to a refused record.
pub const MAX_SPLITTING: usize = 32;

/// How far a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No commit of this session declares it, or none was acknowledged.
    Cut,
    /// A commit of this session declares it.
    Declared,
    /// It waits for a person or for a cause to go away; it stays declared.
    Stopped,
    /// Its rows are in the table, or in the dead letters.
    Acknowledged,
}

/// One range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeState {
    /// First offset.
    pub start: i64,
    /// The offset behind the last one.
    pub end: i64,
    /// How far it is.
    pub stage: Stage,
    /// True once its rows were handed over to be sent.
    pub sent: bool,
    /// True where an earlier session declared it.
    pub replay: bool,
    /// When it was first declared, in `ClickHouse`'s seconds; 0: unknown, or not yet.
    pub declared_at_s: u64,
}

impl RangeState {
    fn is_open(&self) -> bool {
        self.sent && matches!(self.stage, Stage::Cut | Stage::Declared)
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    ranges: VecDeque<RangeState>,
}

impl Ranges {
    /// The ranges that an earlier session left in its plan.
    #[must_use]
    pub fn from_plan(start: i64, ends: &[i64], declared_at_s: u64) -> Self {
        let mut ranges = Self::default();
        let mut start = start;
        for &end in ends {
            ranges.ranges.push_back(RangeState {
                start,
                end,
                stage: Stage::Cut,
                sent: false,
                replay: true,
                declared_at_s,
            });
            start = end;
        }
        ranges
    }

    /// Adds a range that was just cut and handed over.
    pub fn push(&mut self, start: i64, end: i64) {
        self.ranges.push_back(RangeState {
            start,
            end,
            stage: Stage::Cut,
            sent: true,
            replay: false,
            declared_at_s: 0,
        });
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &RangeState> {
        self.ranges.iter()
    }

    /// In order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut RangeState> {
        self.ranges.iter_mut()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True where there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The range from `start` to `end`, exactly.
    pub fn find(&mut self, start: i64, end: i64) -> Option<&mut RangeState> {
        self.ranges
            .iter_mut()
            .find(|range| range.start == start && range.end == end)
    }

    /// Drops the acknowledged ranges at the front; the end of the last of them.
    pub fn take_acknowledged(&mut self) -> Option<i64> {
        let mut end = None;
        while self
            .ranges
            .front()
            .is_some_and(|range| range.stage == Stage::Acknowledged)
        {
            end = self.ranges.pop_front().map(|range| range.end);
        }
        end
    }

    /// How many of them, from the first on, the broker's plan may name: they stay in it until they are acknowledged.
    #[must_use]
    pub fn in_plan(&self) -> usize {
        let named = |range: &RangeState| range.stage != Stage::Cut;
        self.ranges
            .iter()
            .rposition(named)
            .map_or(0, |place| place + 1)
    }

    /// True where a range is on its way to `ClickHouse`.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.ranges.iter().any(RangeState::is_open)
    }

    /// True where a range of an earlier session is not acknowledged yet.
    #[must_use]
    pub fn has_replay(&self) -> bool {
        self.ranges.iter().any(|range| range.replay)
    }

    /// Replaces `[start, end)` by `[start, at)` and `[at, end)`, neither of them declared.
    ///
    /// False where there is no such range on its way, or `at` is not within it.
    pub fn split(&mut self, start: i64, end: i64, at: i64) -> bool {
        let place = self
            .ranges
            .iter()
            .position(|range| range.start == start && range.end == end && range.is_open());
        let Some(place) = place.filter(|_| start < at && at < end) else {
            return false;
        };
        let mut right = self.ranges[place].clone();
        right.stage = Stage::Cut;
        right.start = at;
        let left = RangeState {
            end: at,
            start,
            ..right.clone()
        };
        self.ranges[place] = left;
        self.ranges.insert(place + 1, right);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(ranges: &Ranges) -> Vec<(i64, i64)> {
        let bounds = ranges.iter().map(|range| (range.start, range.end));
        bounds.collect()
    }

    #[test]
    fn a_plan_becomes_ranges_that_touch() {
        let ranges = Ranges::from_plan(5, &[9, 30], 77);
        assert_eq!(bounds(&ranges), [(5, 9), (9, 30)]);
        assert!(ranges.has_replay() && !ranges.has_open());
        assert!(ranges.iter().all(|range| range.declared_at_s == 77));
    }

    #[test]
    fn only_a_prefix_of_acknowledged_ranges_is_dropped() {
        let mut ranges = Ranges::from_plan(0, &[1, 2, 3], 0);
        for (start, end) in [(0, 1), (2, 3)] {
            if let Some(range) = ranges.find(start, end) {
                range.stage = Stage::Acknowledged;
            }
        }
        assert_eq!(ranges.take_acknowledged(), Some(1));
        assert_eq!(ranges.take_acknowledged(), None);
        assert_eq!(bounds(&ranges), [(1, 2), (2, 3)]);
    }

    #[test]
    fn a_range_that_was_declared_keeps_all_before_it_in_the_plan() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.in_plan(), 0);
        (0..4).for_each(|start| ranges.push(start, start + 1));
        assert_eq!(ranges.in_plan(), 0);
        if let Some(range) = ranges.find(2, 3) {
            range.stage = Stage::Declared;
        }
        assert_eq!(ranges.in_plan(), 3);
    }

    #[test]
    fn halves_take_the_place_of_their_range() {
        let mut ranges = Ranges::default();
        [10, 20, 30].into_iter().fold(0, |start, end| {
            ranges.push(start, end);
            end
        });
        assert!(ranges.split(10, 20, 13));
        assert_eq!(bounds(&ranges), [(0, 10), (10, 13), (13, 20), (20, 30)]);
    }
}
