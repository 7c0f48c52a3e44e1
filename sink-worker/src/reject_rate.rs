//! The share of rejected records of a partition: over the limit it is the mapping that is wrong, not the records.
//!
//! Must not be here: dead letters.

use std::collections::VecDeque;

/// Records that are looked back on, besides the range that is judged.
const LOOK_BACK: u64 = 10_000;
/// Fewer rejected records are never too many.
const AT_LEAST: u64 = 100;

/// What became of the last records of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectRate {
    ranges: VecDeque<(u64, u64)>,
    records: u64,
    rejected: u64,
}

impl RejectRate {
    /// True where a range with so many records, so many of them rejected, goes over `max_percent`.
    #[must_use]
    pub fn is_over(&self, records: u64, rejected: u64, max_percent: u32) -> bool {
        let (all, bad) = (self.records + records, self.rejected + rejected);
        rejected > 0 && bad >= AT_LEAST && bad * 100 > all * u64::from(max_percent)
    }

    /// A range went through.
    pub fn on_range(&mut self, records: u64, rejected: u64) {
        self.ranges.push_back((records, rejected));
        self.records += records;
        self.rejected += rejected;
        while let Some(&(first, bad)) = self
            .ranges
            .front()
            .filter(|(first, _)| self.records - first >= LOOK_BACK)
        {
            self.records -= first;
            self.rejected -= bad;
            self.ranges.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_rejects_are_never_too_many_and_a_wrong_mapping_always_is() {
        let rate = RejectRate::default();
        assert!(!rate.is_over(99, 99, 5));
        assert!(rate.is_over(100, 100, 5));
        assert!(!rate.is_over(2000, 100, 5));
        assert!(rate.is_over(1999, 100, 5));
        assert!(!rate.is_over(100, 100, 100));
    }

    #[test]
    fn a_slow_trickle_adds_up_over_ranges_and_is_forgotten_behind_ten_thousand_records() {
        let mut rate = RejectRate::default();
        for _ in 0..9 {
            rate.on_range(100, 10);
        }
        assert!(rate.is_over(100, 10, 5));
        for _ in 0..10 {
            rate.on_range(1000, 0);
        }
        assert!(!rate.is_over(100, 99, 5));
    }

    #[test]
    fn a_clean_range_is_never_held_for_what_came_before() {
        let mut rate = RejectRate::default();
        rate.on_range(200, 200);
        assert!(!rate.is_over(10, 0, 5));
    }
}
