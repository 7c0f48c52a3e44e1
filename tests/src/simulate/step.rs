//! The scheduler: which of all the things that can happen happens next.
//!
//! Must not be here: what happens.

use super::world::{World, say};

/// Steps to rest, at most.
const MAX_CALM_STEPS: u32 = 6_000;
/// Steps after which it is plain that nothing more will happen.
const HOPELESS_STEPS: u32 = 300;
/// Records of one partition, at most.
const MAX_RECORDS: i64 = 56;

impl World<'_> {
    /// Plays the whole history.
    pub(super) fn play_all(&mut self) {
        for w in 0..self.workers.len() {
            self.start(w);
        }
        while self.steps < self.scenario.steps && self.violation.is_none() {
            self.step();
        }
        self.calm_down();
        let end = self.steps + MAX_CALM_STEPS;
        let mut wait = 50;
        while self.violation.is_none() && !self.is_over(end) {
            wait = if self.calm_step() {
                50
            } else {
                self.wait(wait)
            };
        }
        if self.violation.is_none() {
            self.check_end();
        }
    }

    fn is_over(&mut self, end: u32) -> bool {
        self.over |= self.is_hopeless(end);
        if self.over || self.steps < end {
            return self.over;
        }
        if !self.is_at_rest() {
            let unrest = self.describe_unrest();
            self.violate(|| format!("it did not come to rest: {unrest}"));
        }
        true
    }

    fn step(&mut self) {
        self.steps += 1;
        let first = match self.random.below(1000) {
            0..330 => 0,
            330..530 => 1,
            530..700 => 2,
            700..800 => 3,
            800..850 => 4,
            850..870 => 5,
            870..915 => 6,
            _ => 7,
        };
        // Where the drawn kind has nothing to do, the work goes on; faults and time come by themselves only.
        let done = self.take(first) || (0..5).any(|kind| self.take(kind));
        if !done {
            self.jump();
        }
    }

    fn take(&mut self, kind: u32) -> bool {
        let w = self.random.index(self.workers.len());
        match kind {
            0 => self.workers[w].runs() && self.slot_step(w),
            1 => self.deliver_step(),
            2 => self.broker_step(),
            3 => self.server_step(),
            4 => self.workers[w].runs() && self.client_step(w),
            5 => self.fault_step(),
            6 => self.produce(),
            _ => {
                self.jump();
                true
            }
        }
    }

    fn produce(&mut self) -> bool {
        let p = self.random.index(self.topic.logs.len());
        let faulty = self.scenario.faulty_records;
        let log = &mut self.topic.logs[p];
        if log.high() >= MAX_RECORDS {
            return false;
        }
        let count = 1 + self.random.below(6);
        log.append(&mut self.random, count, faulty);
        true
    }

    fn jump(&mut self) {
        let ms = match self.random.below(100) {
            0..62 => 1 + self.random.below(60),
            62..86 => self.random.below(2_500),
            86..97 => self.random.below(13_000),
            _ => self.random.below(90_000),
        };
        self.advance(ms);
        self.write_others(ms);
        self.rare_that_waits();
    }

    /// No more faults: everybody runs, everything answers.
    fn calm_down(&mut self) {
        say!(self, "no more faults from here on");
        self.calm = true;
        (self.table.visible, self.table.down_until, self.paused_until) = (true, 0, 0);
        for worker in &mut self.workers {
            (worker.frozen, worker.cut_until) = (false, 0);
        }
        for connection in &mut self.group.connections {
            connection.stalled_until = 0;
        }
    }

    /// Anything that can be done; false where all wait for time to pass.
    fn calm_step(&mut self) -> bool {
        self.steps += 1;
        let count = self.workers.len();
        let first = self.random.index(count);
        let done = self.deliver_step() || self.broker_step() || self.server_step();
        done || (first..count)
            .chain(0..first)
            .any(|w| self.calm_worker_step(w))
    }

    fn calm_worker_step(&mut self, w: usize) -> bool {
        if !self.workers[w].alive {
            self.start(w);
            return true;
        }
        self.client_step(w) || (0..4).any(|_| self.slot_step(w))
    }

    /// A broker that drops metadata is looked at again and again, and nothing ever comes of it.
    fn is_hopeless(&self, end: u32) -> bool {
        self.drops_what_it_needs() && self.steps > end - MAX_CALM_STEPS + HOPELESS_STEPS
    }

    /// Nothing to do: time passes, longer and longer; people look after holds and old versions.
    fn wait(&mut self, wait: u64) -> u64 {
        if self.is_at_rest() {
            self.over = true;
            return wait;
        }
        self.advance(wait);
        if wait >= 400 {
            self.answer_holds();
            self.roll();
        }
        (wait * 2).min(20_000)
    }

    fn roll(&mut self) {
        let (newest, guarantee) = (self.newest_mapping, self.scenario.guarantee);
        let old = self.workers.iter().position(|worker| {
            worker.alive && (worker.mapping, worker.guarantee) != (newest, guarantee)
        });
        if let Some(w) = old {
            self.may_stop(w);
        }
    }
}
