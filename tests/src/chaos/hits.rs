//! Whom a kill hits, and what its commits declared.
//!
//! Must not be here: when.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use clickhouse_sink_crds::worker_config::Guarantee;

use super::crew::Mode;
use super::plan::Kill;
use super::random::Random;
use super::storm::{Due, LOOK_EVERY, Storm};

/// A kill waits so long for somebody with a declared range.
const VICTIM_WITHIN: Duration = Duration::from_secs(20);

impl Storm<'_> {
    /// A running worker, if possible one with a declared range.
    pub(super) fn choose(&mut self, random: &mut Random) -> Result<usize> {
        let give_up = Instant::now() + VICTIM_WITHIN;
        loop {
            self.look();
            self.crew.look(&mut self.tally);
            let victims = self.find_victims();
            if let Some(slot) = random.pick(&victims) {
                return Ok(*slot);
            }
            if Instant::now() > give_up {
                let running = self.crew.slots_in(Some(Mode::Runs));
                if let Some(slot) = random.pick(&running) {
                    return Ok(*slot);
                }
            }
            self.pump_for(LOOK_EVERY)?;
        }
    }

    pub(super) fn find_victims(&self) -> Vec<usize> {
        let once = self.options.guarantee == Guarantee::ExactlyOnce;
        let is_busy = |owned: &BTreeSet<usize>, in_flight: u64| {
            if once {
                self.count_declared(owned) > 0
            } else {
                in_flight > 0
            }
        };
        let owners = self.crew.owners();
        owners
            .into_iter()
            .filter(|(_, owned, in_flight)| is_busy(owned, *in_flight))
            .map(|(slot, _, _)| slot)
            .collect()
    }

    /// Ranges of these partitions that the group's metadata declares.
    fn count_declared(&self, partitions: &BTreeSet<usize>) -> usize {
        let positions = self.watch.positions().iter().enumerate();
        positions
            .filter(|(partition, _)| partitions.contains(partition))
            .map(|(_, position)| position.ranges())
            .sum()
    }

    pub(super) fn hit(&mut self, kill: Kill, slot: usize, lasting: Duration) -> Result<()> {
        let (owned, due, after) = match kill {
            Kill::Freeze => {
                let owned = self.crew.freeze(slot, &mut self.tally)?;
                (owned, Due::Resume(slot), self.options.session() + lasting)
            }
            Kill::Term => {
                let owned = self.crew.term(slot, &mut self.tally)?;
                self.note_hit(kill, &owned);
                return Ok(());
            }
            _ => {
                let owned = self.crew.kill(slot, &mut self.tally)?;
                (owned, Due::Start(slot), lasting)
            }
        };
        self.due.push((Instant::now() + after, due));
        self.note_hit(kill, &owned);
        Ok(())
    }

    /// Reads after the kill what the group's metadata declares.
    pub(super) fn note_hit(&mut self, kill: Kill, owned: &BTreeSet<usize>) {
        let declared = if self.look() {
            self.count_declared(owned)
        } else {
            0
        };
        self.tally.killed(kill, declared);
    }
}
