//! What was done and seen during a run, counted.
//!
//! Must not be here: what must be true of it (`verdict`), I/O.

use std::collections::BTreeMap;

use super::plan::Kill;

/// A counter of processes that die: each life starts at 0 again, and the last look at a life is what counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lives {
    seen: BTreeMap<u64, u64>,
}

impl Lives {
    /// Notes what a life shows now.
    pub(crate) fn note(&mut self, life: u64, value: u64) {
        let seen = self.seen.entry(life).or_default();
        *seen = value.max(*seen);
    }

    /// Over all lives.
    pub(crate) fn sum(&self) -> u64 {
        self.seen.values().sum()
    }
}

/// The counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) kills: BTreeMap<Kill, u64>,
    /// Kills that hit a worker with a declared range that was not acknowledged.
    pub(crate) kills_on_declared: u64,
    /// Ranges that were declared by workers when they were hit.
    pub(crate) ranges_hit: u64,
    pub(crate) troubles: BTreeMap<&'static str, u64>,
    /// Workers that were asked to go because there were too many.
    pub(crate) scaled_down: u64,
    /// Workers that were started in all.
    pub(crate) started: u64,
    /// Ends of workers that nobody asked for, and ends by SIGTERM with an unexpected code.
    pub(crate) odd_ends: Vec<String>,
    pub(crate) replayed: Lives,
    pub(crate) verified: Lives,
    pub(crate) rows_inserted: Lives,
    pub(crate) insert_retries: Lives,
    /// The server's `DuplicatedInsertedBlocks`.
    pub(crate) duplicated_blocks: Lives,
    /// Committed offsets that went back.
    pub(crate) went_back: Vec<String>,
    /// Reasons of holds that were seen, each once.
    pub(crate) holds: BTreeMap<String, String>,
}

impl Tally {
    pub(crate) fn killed(&mut self, kill: Kill, declared_ranges: usize) {
        *self.kills.entry(kill).or_default() += 1;
        if declared_ranges > 0 {
            self.kills_on_declared += 1;
            self.ranges_hit += u64::try_from(declared_ranges).unwrap_or(0);
        }
    }

    pub(crate) fn troubled(&mut self, label: &'static str, times: u64) {
        if times > 0 {
            *self.troubles.entry(label).or_default() += times;
        }
    }

    pub(crate) fn kill_count(&self) -> u64 {
        self.kills.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_summed_over_the_lives_of_its_process() {
        let mut lives = Lives::default();
        lives.note(1, 3);
        lives.note(1, 5);
        lives.note(2, 4);
        // A page that was asked for before and came late.
        lives.note(1, 4);
        assert_eq!(lives.sum(), 9);
    }

    #[test]
    fn a_kill_without_a_declared_range_is_counted_as_such() {
        let mut tally = Tally::default();
        tally.killed(Kill::Worker, 2);
        tally.killed(Kill::Worker, 0);
        tally.killed(Kill::Kafka, 0);
        assert_eq!(
            (
                tally.kill_count(),
                tally.kills_on_declared,
                tally.ranges_hit
            ),
            (3, 1, 2)
        );
    }
}
