//! The async side of a worker: dead letters, the gate, attempts, verification, splits.
//!
//! Must not be here: the server (`deliver.rs`), what a session makes of the reports.

use clickhouse_sink_worker::session::gate::MaySend;
use clickhouse_sink_worker::session::{ReplayMode, State};

use super::scenario::Bug;
use super::table::{Attempt, Place};
use super::token::{shared_token_of, token_of};
use super::worker::{Step, Task};
use super::world::{Body, DECLARATION_MS, INSERT_MS, Inserted, World, say};

/// Attempts of an earlier session have ended this long after the assignment.
const EARLIER_MS: u64 = DECLARATION_MS + INSERT_MS + 5_000;

impl World<'_> {
    pub(super) fn add_task(
        &mut self,
        w: usize,
        i: usize,
        range: (i64, i64),
        from: i64,
        mapping: usize,
        replay: Option<ReplayMode>,
    ) {
        let id = self.next_id();
        let slot = &self.workers[w].slots[i];
        let (p, life) = (slot.place.partition, self.topic.life);
        let block = self.topic.logs[p].read(range.0, range.1, from, mapping);
        if slot.place.life != life {
            self.excuse(life, p, range.0, range.1);
        }
        let slot = &self.workers[w].slots[i];
        let token = if slot.session.gate().declared.is_none() {
            shared_token_of(slot, range, &self.contexts[mapping].mapping)
        } else {
            token_of(slot, range)
        };
        let again = self.answered & (1 << p) != 0;
        let doubt_since = replay.map(|_| {
            if again {
                self.second()
            } else {
                slot.session.plan_declared_at_s()
            }
        });
        let mut task = Task {
            id,
            start: range.0,
            end: range.1,
            rows: block.rows,
            poison: block.poison,
            rejected: block.rejected,
            mapping,
            token,
            replay,
            step: Step::DeadLetters,
            failures: 0,
            unknown_until: 0,
            doubt_since,
            refused: false,
            was_sent: false,
            life,
            version: self.topic.logs[p].version,
            under: range,
        };
        if task.rejected == 0 || self.bug(Bug::DeadLetterAfterInsert) {
            task.step = self.after_dead_letters(w, i, &task);
        }
        say!(
            self,
            "worker {w}: range {range:?} of partition {p}, rows {:#b}, rejected {:#b}, {replay:?}",
            task.rows,
            task.rejected
        );
        self.workers[w].slots[i].tasks.push(task);
    }

    fn after_dead_letters(&self, w: usize, i: usize, task: &Task) -> Step {
        if task.replay == Some(ReplayMode::Verify) && task.rows != 0 {
            let after = self.workers[w].slots[i].assigned_at + EARLIER_MS;
            return Step::Look { after };
        }
        Step::Gate
    }

    /// One step of one batch; false where all of them wait.
    pub(super) fn task_step(&mut self, w: usize, i: usize) -> bool {
        let count = self.workers[w].slots[i].tasks.len();
        if count == 0 {
            return false;
        }
        let first = self.random.index(count);
        (0..count).any(|k| self.step_of(w, i, (first + k) % count))
    }

    fn step_of(&mut self, w: usize, i: usize, t: usize) -> bool {
        let time = self.time;
        match self.workers[w].slots[i].tasks[t].step {
            Step::DeadLetters => self.send_dead_letters(w, i, t),
            Step::Look { after } if time >= after => self.look(w, i, t),
            Step::Gate => self.ask_gate(w, i, t),
            Step::Checked => self.attempt(w, i, t),
            Step::Sent { at, .. } if time >= at + INSERT_MS => self.on_unknown(w, i, t),
            Step::DeadLettersSent { at, .. } if time >= at + INSERT_MS => {
                self.set_step(w, i, t, Step::DeadLetters)
            }
            Step::Looking { at, .. } if time >= at + INSERT_MS => {
                self.set_step(w, i, t, Step::Look { after: 0 })
            }
            Step::Wait { until } if time >= until => self.set_step(w, i, t, Step::Gate),
            _ => self.drop_where_closed(w, i, t),
        }
    }

    /// A wait ends with the gate; an attempt is let end.
    fn drop_where_closed(&mut self, w: usize, i: usize, t: usize) -> bool {
        let slot = &mut self.workers[w].slots[i];
        let waits = matches!(slot.tasks[t].step, Step::Look { .. } | Step::Wait { .. });
        if slot.session.gate_open() || !waits {
            return false;
        }
        slot.tasks.remove(t);
        self.sweep(w);
        true
    }

    pub(super) fn set_step(&mut self, w: usize, i: usize, t: usize, step: Step) -> bool {
        self.workers[w].slots[i].tasks[t].step = step;
        true
    }

    fn send_dead_letters(&mut self, w: usize, i: usize, t: usize) -> bool {
        let op = self.next_id();
        let lands = self.calm || self.random.percent(92);
        let answers = lands && (self.calm || self.random.percent(92));
        let process = self.workers[w].process;
        let slot = &mut self.workers[w].slots[i];
        let (session, task) = (slot.id, &mut slot.tasks[t]);
        task.step = Step::DeadLettersSent { op, at: self.time };
        let (id, start, bits) = (task.id, task.start, task.rejected);
        let place = Place {
            life: task.life,
            ..slot.place
        };
        if lands {
            self.table.add_dead(place, start, bits);
            self.check_dead(place, start, bits);
        }
        if answers {
            self.send(
                w,
                process,
                Body::DeadLetters {
                    session,
                    task: id,
                    op,
                },
            );
        }
        true
    }

    pub(super) fn on_dead_letters(&mut self, w: usize, session: u32, task: u32, op: u32) {
        let Some((i, t)) = self.find_task(w, session, task) else {
            return;
        };
        let found = &self.workers[w].slots[i].tasks[t];
        if !matches!(found.step, Step::DeadLettersSent { op: sent, .. } if sent == op) {
            return;
        }
        if found.refused || found.was_sent {
            return self.acknowledge(w, i, t);
        }
        let step = self.after_dead_letters(w, i, found);
        self.set_step(w, i, t, step);
    }

    fn ask_gate(&mut self, w: usize, i: usize, t: usize) -> bool {
        if self.is_too_old(w, i, t) {
            let later = self.look_later(w, i, t);
            return self.set_step(w, i, t, later);
        }
        let boot = self.now(w).boot;
        let slot = &mut self.workers[w].slots[i];
        let task = &slot.tasks[t];
        match slot
            .session
            .gate()
            .may_send(task.under.0, task.under.1, boot)
        {
            MaySend::NotYet => return false,
            MaySend::Never => {
                slot.tasks.remove(t);
                self.sweep(w);
            }
            MaySend::Yes if task.rows == 0 => self.acknowledge(w, i, t),
            MaySend::Yes => {
                self.check_send(w, i, t);
                self.set_step(w, i, t, Step::Checked);
            }
        }
        true
    }

    fn attempt(&mut self, w: usize, i: usize, t: usize) -> bool {
        self.check_dead_letters_first(w, i, t);
        let (id, second) = (self.next_id(), self.second());
        let delay = if self.calm {
            1
        } else {
            self.draw_attempt_delay()
        };
        let declares = self.workers[w].slots[i].session.gate().declared.is_some();
        let process = self.workers[w].process;
        let slot = &mut self.workers[w].slots[i];
        let task = &mut slot.tasks[t];
        (task.step, task.was_sent) = (
            Step::Sent {
                attempt: id,
                at: self.time,
            },
            true,
        );
        task.doubt_since.get_or_insert(second);
        let attempt = Attempt {
            id,
            task: task.id,
            session: slot.id,
            worker: w,
            process,
            place: Place {
                life: task.life,
                ..slot.place
            },
            start: task.start,
            end: task.end,
            rows: task.rows,
            poison: task.poison,
            mapping: task.mapping,
            token: task.token,
            version: task.version,
            stale: task.life != slot.place.life,
            due: self.time + delay,
            expires: self.time + INSERT_MS,
        };
        say!(
            self,
            "worker {w}: session {} sends {}-{} as attempt {id}",
            attempt.session,
            attempt.start,
            attempt.end
        );
        if !declares {
            self.excuse(
                attempt.place.life,
                attempt.place.partition,
                attempt.start,
                attempt.end,
            );
        }
        self.table.inbox.push(attempt);
        if self.bug(Bug::CommitBeforeInsert) {
            let (now, slot) = (self.now(w), &mut self.workers[w].slots[i]);
            let (start, end) = (slot.tasks[t].start, slot.tasks[t].end);
            slot.session.on_acknowledged(start, end, now);
        }
        true
    }

    fn draw_attempt_delay(&mut self) -> u64 {
        match self.random.below(100) {
            0..70 => self.random.below(20),
            70..86 => self.random.below(2_000),
            _ => self.random.below(INSERT_MS),
        }
    }

    pub(super) fn on_inserted(
        &mut self,
        w: usize,
        session: u32,
        task: u32,
        attempt: u32,
        result: Inserted,
    ) {
        let Some((i, t)) = self.find_task(w, session, task) else {
            return;
        };
        let found = &self.workers[w].slots[i].tasks[t];
        if !matches!(found.step, Step::Sent { attempt: sent, .. } if sent == attempt) {
            return;
        }
        match result {
            Inserted::Done if found.rejected != 0 && self.bug(Bug::DeadLetterAfterInsert) => {
                self.set_step(w, i, t, Step::DeadLetters);
            }
            Inserted::Done => self.acknowledge(w, i, t),
            Inserted::Failed => {
                self.on_unknown(w, i, t);
            }
            Inserted::Refused => self.on_refused(w, i, t),
        }
    }

    /// It may have landed, or may still land.
    fn on_unknown(&mut self, w: usize, i: usize, t: usize) -> bool {
        let wait = if self.calm {
            100
        } else {
            50 + self.random.below(5_000)
        };
        let time = self.time;
        let task = &mut self.workers[w].slots[i].tasks[t];
        task.failures += 1;
        task.unknown_until = task.unknown_until.max(time + INSERT_MS);
        task.step = Step::Wait { until: time + wait };
        true
    }

    /// True where the server may have forgotten the token of something that may have landed.
    fn is_too_old(&self, w: usize, i: usize, t: usize) -> bool {
        let slot = &self.workers[w].slots[i];
        let task = &slot.tasks[t];
        let declares = slot.session.gate().declared.is_some();
        let old =
            |since: u64| since == 0 || self.table.used_since(since) > self.scenario.window / 2;
        declares
            && task.rows != 0
            && !self.bug(Bug::RepeatedAfterWindow)
            && task.doubt_since.is_some_and(old)
    }

    /// Not before every earlier attempt has ended.
    fn look_later(&self, w: usize, i: usize, t: usize) -> Step {
        let slot = &self.workers[w].slots[i];
        let task = &slot.tasks[t];
        let earlier = if task.replay.is_some() {
            slot.assigned_at + EARLIER_MS
        } else {
            0
        };
        Step::Look {
            after: task.unknown_until.max(earlier),
        }
    }

    pub(super) fn acknowledge(&mut self, w: usize, i: usize, t: usize) {
        let (now, twice) = (self.now(w), self.random.percent(5));
        let slot = &mut self.workers[w].slots[i];
        let task = slot.tasks.remove(t);
        let before = slot.session.acknowledged();
        slot.session.on_acknowledged(task.start, task.end, now);
        if twice {
            slot.session.on_acknowledged(task.start, task.end, now);
        }
        let (closed, after) = (
            *slot.session.state() == State::Closed,
            slot.session.acknowledged(),
        );
        say!(
            self,
            "worker {w}: {}-{} is acknowledged, position {before} to {after}",
            task.start,
            task.end
        );
        if closed && after != before {
            self.violate(|| {
                format!(
                    "{}-{} was acknowledged behind a closed gate",
                    task.start, task.end
                )
            });
        }
        self.sweep(w);
    }

    pub(super) fn find_task(&self, w: usize, session: u32, task: u32) -> Option<(usize, usize)> {
        let slots = &self.workers[w].slots;
        let i = slots.iter().position(|slot| slot.id == session)?;
        let t = slots[i].tasks.iter().position(|other| other.id == task)?;
        Some((i, t))
    }
}
