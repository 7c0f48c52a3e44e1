//! The window forgets: ranges are replayed whose tokens the server no longer knows, so their owners must ask the table.
//!
//! Must not be here: other kills (`hits`, `storm`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::crew::Mode;
use super::plan::Kill;
use super::scene::{Scene, WINDOW};
use super::storm::Storm;
use super::watch::Position;
use super::{SMALL_WINDOW, server};

/// A machine that is so busy that INSERTs time out makes copies here that no real window would: then the run proves
/// nothing about them.
const RETRIED: &str = "INSERTs tried again in the small window";

impl Storm<'_> {
    /// Kills everybody who has declared a range, and makes the window so small that it has forgotten when the next owners
    /// come: they must ask the table. Nothing else is broken meanwhile, for a retry would need the window.
    pub(super) fn forget_window(&mut self) -> Result<()> {
        self.calm_down()?;
        self.network.set_calm(true);
        let calm = server_seconds(&self.scene)?;
        self.pump_until(
            Duration::from_mins(2),
            "every plan is younger than the calm",
            |storm| storm.plans_are_younger(calm) && !storm.find_victims().is_empty(),
        )?;
        self.crew.look(&mut self.tally);
        let killed = Instant::now();
        for slot in self.crew.slots_in(Some(Mode::Runs)) {
            let owned = self.crew.kill(slot, &mut self.tally)?;
            self.note_hit(Kill::Window, &owned);
        }
        let ends: Vec<i64> = self
            .watch
            .positions()
            .iter()
            .map(Position::plan_end)
            .collect();
        self.pump_until(
            Duration::from_mins(1),
            "no INSERT of the killed runs",
            |storm| {
                let since = killed.elapsed().as_secs_f64();
                server::count_older_inserts(&storm.scene.clickhouse, since)
                    .is_ok_and(|count| count == 0)
            },
        )?;
        let retried = self.tally.insert_retries.sum();
        self.scene.set_window(SMALL_WINDOW)?;
        self.fill_up();
        self.pump_until(
            Duration::from_mins(3),
            "the plans of the killed are done",
            |storm| {
                let pairs = storm.watch.positions().iter().zip(&ends);
                pairs
                    .into_iter()
                    .all(|(position, end)| position.offset >= Some(*end))
            },
        )?;
        self.crew.look(&mut self.tally);
        let retried = self.tally.insert_retries.sum() - retried;
        self.tally.troubled(RETRIED, retried);
        self.scene.set_window(WINDOW)?;
        // What was pushed out of the small window does not come back: no range of that time may need its token now.
        let large = server_seconds(&self.scene)?;
        self.pump_until(
            Duration::from_mins(2),
            "every plan is younger than the large window",
            |storm| storm.plans_are_younger(large),
        )?;
        self.network.set_calm(false);
        Ok(())
    }

    fn plans_are_younger(&self, than_s: u64) -> bool {
        let mut plans = self
            .watch
            .positions()
            .iter()
            .filter_map(|it| it.metadata.as_ref());
        plans.all(|plan| plan.ends.is_empty() || plan.declared_at_s > than_s)
    }
}

fn server_seconds(scene: &Scene) -> Result<u64> {
    let now = scene.clickhouse.scalar("SELECT toUnixTimestamp(now())");
    now.context("the server's time")
}
