//! Runs the plan: one thread that does what is due, looks at everything in between, and goes on.
//!
//! Must not be here: the plan itself, single faults of the network (`network`), the end (`finish`).
#![allow(clippy::print_stdout, reason = "a person watches the run go by")]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::crew::{Crew, Mode};
use super::flow::{Flow, Produced};
use super::network::Network;
use super::plan::{Action, FIRST_WORKERS, Kill, Step, Trouble};
use super::random::Random;
use super::scene::{Scene, Servers};
use super::tally::Tally;
use super::watch::Watch;
use super::{Options, server};

const TURN: Duration = Duration::from_millis(40);
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_AT_CREW_EVERY: Duration = Duration::from_secs(1);

/// What is to be done at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Start(usize),
    Resume(usize),
    End(Trouble, usize),
}

/// Everything of a run that goes on.
pub(crate) struct Storm<'a> {
    pub(super) options: &'a Options,
    pub(crate) servers: Servers,
    pub(crate) scene: Scene,
    pub(crate) crew: Crew,
    pub(crate) network: Network,
    pub(crate) watch: Watch,
    flow: Option<Flow>,
    pub(crate) tally: Tally,
    wanted: usize,
    pub(super) due: Vec<(Instant, Due)>,
    server_life: u64,
    looked: Instant,
    looked_at_crew: Instant,
}

impl<'a> Storm<'a> {
    pub(crate) fn new(
        options: &'a Options,
        servers: Servers,
        scene: Scene,
        crew: Crew,
        network: Network,
    ) -> Result<Self> {
        let brokers = servers.kafka.brokers();
        Ok(Self {
            options,
            watch: Watch::new(&brokers)?,
            flow: Some(Flow::start(&brokers, options.records)?),
            servers,
            scene,
            crew,
            network,
            tally: Tally::default(),
            wanted: FIRST_WORKERS,
            due: Vec::new(),
            server_life: 1,
            looked: Instant::now(),
            looked_at_crew: Instant::now(),
        })
    }

    /// Runs all steps. At the end everybody who is wanted runs and nothing is broken any more.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<()> {
        for slot in 0..self.wanted {
            self.crew.start(slot, &mut self.tally)?;
        }
        let kills = steps
            .iter()
            .filter(|step| matches!(step.action, Action::Kill(_)))
            .count();
        let mut done = 0;
        self.flow()?.allow(1, kills + 1);
        self.wait_for_flow()?;
        for step in steps {
            self.pump_for(step.after)?;
            self.act(step)?;
            if matches!(step.action, Action::Kill(_)) {
                done += 1;
                self.flow()?.allow(done + 1, kills + 1);
                self.show(done, kills);
            }
        }
        self.calm_down()
    }

    fn flow(&self) -> Result<&Flow> {
        self.flow.as_ref().context("the flow has ended")
    }

    /// Produces what is left and waits until the broker has it all.
    pub(crate) fn finish_flow(&mut self) -> Result<Produced> {
        let flow = self.flow.take().context("the flow has ended")?;
        flow.finish().context("the producer failed")
    }

    /// Reads every counter once more.
    pub(crate) fn look_at_all(&mut self) {
        self.look();
        self.crew.look(&mut self.tally);
        self.look_at_server();
        self.network.count(&mut self.tally);
    }

    /// The first kill is to hit somebody who works.
    fn wait_for_flow(&mut self) -> Result<()> {
        self.pump_until(Duration::from_mins(1), "every position is made", |storm| {
            storm.watch.positions().iter().all(|it| it.offset.is_some())
        })
    }

    fn show(&self, done: usize, kills: usize) {
        if done.is_multiple_of(10) || done == kills {
            println!(
                "  {done}/{kills} steps, {} kills, {} on a declared range, {} records sent, {} offsets committed",
                self.tally.kill_count(),
                self.tally.kills_on_declared,
                self.flow.as_ref().map_or(0, Flow::sent),
                self.committed()
            );
        }
    }

    /// Sum of all committed offsets.
    pub(crate) fn committed(&self) -> i64 {
        let offsets = self.watch.positions().iter();
        offsets.map(|it| it.offset.unwrap_or(0)).sum()
    }

    fn act(&mut self, step: &Step) -> Result<()> {
        let mut random = Random::new(step.pick);
        match step.action {
            Action::Trouble(trouble) => self.begin_trouble(trouble, step.lasting, &mut random),
            Action::Scale(workers) => self.scale(workers, &mut random),
            Action::Kill(Kill::ClickHouse) => self.kill_clickhouse(step.lasting),
            Action::Kill(Kill::Kafka) => self.kill_kafka(),
            Action::Kill(Kill::Window) => self.forget_window(),
            Action::Kill(kill) => {
                let slot = self.choose(&mut random)?;
                self.hit(kill, slot, step.lasting)
            }
        }
    }

    fn begin_trouble(
        &mut self,
        trouble: Trouble,
        lasting: Duration,
        random: &mut Random,
    ) -> Result<()> {
        let running = self.crew.slots_in(Some(Mode::Runs));
        let slot = random.pick(&running).copied().unwrap_or(0);
        self.network
            .begin(trouble, slot, &self.crew, &self.servers)?;
        self.tally.troubled(trouble.label(), 1);
        self.due
            .push((Instant::now() + lasting, Due::End(trouble, slot)));
        Ok(())
    }

    fn scale(&mut self, workers: usize, random: &mut Random) -> Result<()> {
        self.wanted = workers;
        let mut running = self.crew.slots_in(Some(Mode::Runs));
        random.shuffle(&mut running);
        for slot in running.into_iter().skip(workers) {
            self.crew.term(slot, &mut self.tally)?;
            self.tally.scaled_down += 1;
        }
        self.fill_up();
        Ok(())
    }

    /// Has workers started until as many live, or are about to, as are wanted.
    pub(super) fn fill_up(&mut self) {
        let is_due = |slot: &usize| self.due.iter().any(|(_, due)| *due == Due::Start(*slot));
        let empty = self.crew.slots_in(None);
        let free: Vec<usize> = empty.iter().copied().filter(|slot| !is_due(slot)).collect();
        let leaving = self.crew.count_leaving();
        let present = self.crew.size() - free.len() - leaving;
        let missing = self.wanted.saturating_sub(present);
        let now = Instant::now();
        let starts = free.into_iter().take(missing);
        self.due.extend(starts.map(|slot| (now, Due::Start(slot))));
    }

    fn kill_clickhouse(&mut self, down: Duration) -> Result<()> {
        // One that stands still would be killed all the same, and its end could not be undone.
        self.end_troubles(|trouble| trouble == Trouble::ClickHouseHangs)?;
        self.look_at_server();
        self.servers.clickhouse.kill();
        self.tally.killed(Kill::ClickHouse, 0);
        self.pump_for(down)?;
        self.server_life += 1;
        self.servers.clickhouse.restart()
    }

    fn kill_kafka(&mut self) -> Result<()> {
        self.flow()?.pause_transactions()?;
        self.tally.killed(Kill::Kafka, 0);
        self.servers.kafka.restart()?;
        self.flow()?.resume_transactions();
        Ok(())
    }

    /// Waits until all troubles are over, everybody frozen is awake, and all that are wanted run.
    pub(super) fn calm_down(&mut self) -> Result<()> {
        self.pump_until(Duration::from_mins(2), "everybody runs", |storm| {
            storm.fill_up();
            let running = storm.crew.slots_in(Some(Mode::Runs)).len();
            storm.due.is_empty() && storm.crew.count_leaving() == 0 && running >= storm.wanted
        })
    }

    fn end_troubles(&mut self, which: impl Fn(Trouble) -> bool) -> Result<()> {
        for (at, due) in &mut self.due {
            if matches!(due, Due::End(trouble, _) if which(*trouble)) {
                *at = Instant::now();
            }
        }
        self.do_what_is_due()
    }

    /// Lets things go on for a while.
    pub(super) fn pump_for(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.pump()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::park_timeout(left.min(TURN));
        }
    }

    /// Lets things go on until something is true.
    pub(crate) fn pump_until(
        &mut self,
        patience: Duration,
        what: &str,
        mut is_true: impl FnMut(&mut Self) -> bool,
    ) -> Result<()> {
        let give_up = Instant::now() + patience;
        while !is_true(self) {
            if Instant::now() > give_up {
                let positions = self.watch.positions();
                bail!(
                    "expected within {} s: {what}; positions: {positions:?}; holds seen: {:?}",
                    patience.as_secs(),
                    self.tally.holds
                );
            }
            self.pump_for(TURN)?;
        }
        Ok(())
    }

    fn pump(&mut self) -> Result<()> {
        self.do_what_is_due()?;
        let ended = self.crew.reap(&mut self.tally)?;
        if !ended.is_empty() {
            self.fill_up();
        }
        if self.looked.elapsed() > LOOK_EVERY {
            self.look();
        }
        if self.looked_at_crew.elapsed() > LOOK_AT_CREW_EVERY {
            self.looked_at_crew = Instant::now();
            self.crew.look(&mut self.tally);
            self.look_at_server();
            self.network.count(&mut self.tally);
        }
        let is_early = |flow: &Flow| flow.has_ended() && flow.sent() < self.options.records;
        if self.flow.as_ref().is_some_and(is_early) {
            self.finish_flow()?;
            bail!("the producer has ended early");
        }
        Ok(())
    }

    fn do_what_is_due(&mut self) -> Result<()> {
        let now = Instant::now();
        let due: Vec<(Instant, Due)> = self.due.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, due) in due {
            match due {
                Due::Start(slot) => self.crew.start(slot, &mut self.tally)?,
                Due::Resume(slot) => self.crew.resume(slot)?,
                Due::End(trouble, slot) => {
                    self.network.end(trouble, slot, &self.crew, &self.servers)?;
                }
            }
        }
        Ok(())
    }

    /// Looks at the group; false where the broker does not answer.
    pub(super) fn look(&mut self) -> bool {
        self.looked = Instant::now();
        match self.watch.look(Duration::from_secs(2)) {
            Ok(back) => {
                self.tally.went_back.extend(back);
                true
            }
            Err(_) => false,
        }
    }

    fn look_at_server(&mut self) {
        let stands_still = |due: &Due| matches!(due, Due::End(Trouble::ClickHouseHangs, _));
        if self.due.iter().any(|(_, due)| stands_still(due)) {
            // It would not answer before it is woken up, and nobody would wake it up meanwhile.
            return;
        }
        // A server that is away is looked at again later.
        let _ = server::look(&self.scene.clickhouse, self.server_life, &mut self.tally);
    }
}
