//! The async side of a worker: dead letters, the gate, attempts, verification, splits.
//!
//! Must not be here: the server (`deliver.rs`), what a session makes of the reports.

use clickhouse_sink_crds::commit::{Range, range_token};
use clickhouse_sink_worker::session::gate::MaySend;
use clickhouse_sink_worker::session::{ReplayMode, State};

use super::log::rows_of;
use super::scenario::Bug;
use super::table::{Attempt, Place, offsets};
use super::worker::{Step, Task};
use super::world::{Body, CLUSTER, DECLARATION_MS, GROUP, INSERT_MS, Inserted, World, say};

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
        let mut task = Task {
            id,
            start: range.0,
            end: range.1,
            rows: block.rows,
            poison: block.poison,
            rejected: block.rejected,
            mapping,
            token: token_of(slot, range),
            replay,
            step: Step::DeadLetters,
            failures: 0,
            unknown_until: 0,
            first_sent_s: 0,
            refused: false,
            was_sent: false,
            life,
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
            Step::Wait { until } if time >= until => self.try_again(w, i, t),
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

    fn set_step(&mut self, w: usize, i: usize, t: usize, step: Step) -> bool {
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
        if task.first_sent_s == 0 {
            task.first_sent_s = second;
        }
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
            0..75 => self.random.below(20),
            75..92 => self.random.below(2_000),
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

    /// The same bytes under the same token, as long as the server surely knows it.
    fn try_again(&mut self, w: usize, i: usize, t: usize) -> bool {
        let task = &self.workers[w].slots[i].tasks[t];
        let known = self.table.used_since(task.first_sent_s) <= self.scenario.window / 2;
        let step = if known {
            Step::Gate
        } else {
            Step::Look {
                after: task.unknown_until,
            }
        };
        self.set_step(w, i, t, step)
    }

    /// Down to the record at fault, which goes to the dead letters.
    fn on_refused(&mut self, w: usize, i: usize, t: usize) {
        let task = &mut self.workers[w].slots[i].tasks[t];
        task.refused = true;
        if task.rows.is_power_of_two() {
            task.rejected = task.rows;
            (task.rows, task.poison) = (0, 0);
            task.step = Step::DeadLetters;
        } else if task.replay.is_some() || task.unknown_until > 0 {
            task.step = Step::Look {
                after: task.unknown_until,
            };
        } else {
            self.split(w, i, t);
        }
    }

    fn split(&mut self, w: usize, i: usize, t: usize) {
        let (left_id, right_id) = (self.next_id(), self.next_id());
        let undeclared = self.bug(Bug::SplitNotDeclared);
        let slot = &mut self.workers[w].slots[i];
        let task = slot.tasks.remove(t);
        let half = task.rows.count_ones() as usize / 2;
        let at = offsets(task.rows, task.start).nth(half).unwrap_or(task.end);
        let low = (1_u64 << (at - task.start)) - 1;
        let shift = at - task.start;
        let under = |range| if undeclared { task.under } else { range };
        let fresh = Task {
            step: Step::Gate,
            replay: None,
            refused: false,
            was_sent: false,
            unknown_until: 0,
            first_sent_s: 0,
            rejected: 0,
            ..task.clone()
        };
        let left = Task {
            id: left_id,
            end: at,
            rows: task.rows & low,
            poison: task.poison & low,
            token: token_of(slot, (task.start, at)),
            under: under((task.start, at)),
            ..fresh.clone()
        };
        let right = Task {
            id: right_id,
            start: at,
            rows: (task.rows & !low) >> shift,
            poison: (task.poison & !low) >> shift,
            token: token_of(slot, (at, task.end)),
            under: under((at, task.end)),
            ..fresh
        };
        slot.tasks.extend([left, right]);
        if !undeclared {
            slot.session.on_split(task.start, task.end, at);
        }
        say!(
            self,
            "worker {w}: {}-{} is split at {at}",
            task.start,
            task.end
        );
    }

    /// Asks the table what it has of a range.
    fn look(&mut self, w: usize, i: usize, t: usize) -> bool {
        if self.table.down_until > self.time {
            return false;
        }
        let op = self.next_id();
        let process = self.workers[w].process;
        let slot = &mut self.workers[w].slots[i];
        let (session, place) = (slot.id, slot.place);
        let task = &mut slot.tasks[t];
        task.step = Step::Looking { op, at: self.time };
        let found = self
            .table
            .find(task.life, place.partition, task.start, task.rows);
        let sees_before = self
            .table
            .sees_before(task.life, place.partition, task.start);
        let task = task.id;
        self.send(
            w,
            process,
            Body::Looked {
                session,
                task,
                op,
                found,
                sees_before,
            },
        );
        true
    }

    pub(super) fn on_looked(
        &mut self,
        w: usize,
        session: u32,
        task: u32,
        op: u32,
        (found, sees_before): (u64, bool),
    ) {
        let Some((i, t)) = self.find_task(w, session, task) else {
            return;
        };
        let slot = &self.workers[w].slots[i];
        let task = &slot.tasks[t];
        if !matches!(task.step, Step::Looking { op: sent, .. } if sent == op) {
            return;
        }
        let missing = self.missing_parts(task, found);
        let provable = !slot.reset && (missing == 0 || sees_before);
        say!(
            self,
            "worker {w}: of {}-{} the table has {found:#b}, missing {missing:#b}, provable {provable}",
            task.start,
            task.end
        );
        match task.refused {
            true if found == 0 => self.split(w, i, t),
            true => self.hold_range(w, i, t),
            false if !provable => self.hold_range(w, i, t),
            false if missing == 0 => self.acknowledge(w, i, t),
            false => {
                let second = self.second();
                let task = &mut self.workers[w].slots[i].tasks[t];
                (task.rows, task.step, task.first_sent_s) = (missing, Step::Gate, second);
            }
        }
    }

    /// Rows of the table partitions of which nothing was found: a block is atomic in each.
    fn missing_parts(&self, task: &Task, found: u64) -> u64 {
        let parts = self.scenario.table_partitions;
        (0..parts)
            .map(|part| rows_of(task.rows, task.start, task.mapping, part, parts))
            .filter(|rows| rows & found == 0)
            .fold(0, |sum, rows| sum | rows)
    }

    fn hold_range(&mut self, w: usize, i: usize, t: usize) {
        let now = self.now(w);
        let slot = &mut self.workers[w].slots[i];
        let task = slot.tasks.remove(t);
        slot.session
            .on_stopped(task.start, task.end, "WindowExceeded", String::new(), now);
        say!(self, "worker {w}: {}-{} is held", task.start, task.end);
    }

    fn acknowledge(&mut self, w: usize, i: usize, t: usize) {
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

    fn find_task(&self, w: usize, session: u32, task: u32) -> Option<(usize, usize)> {
        let slots = &self.workers[w].slots;
        let i = slots.iter().position(|slot| slot.id == session)?;
        let t = slots[i].tasks.iter().position(|other| other.id == task)?;
        Some((i, t))
    }
}

/// The real token, shortened to a number.
fn token_of(slot: &super::worker::Slot, (start, end): (i64, i64)) -> u64 {
    let Some(identity) = slot.session.identity() else {
        return 0;
    };
    let range = Range {
        topic_id: identity.topic_id.clone(),
        partition: slot.place.partition as i32,
        epoch: identity.epoch.clone(),
        start,
        end,
    };
    let token = range_token(GROUP, CLUSTER, &range);
    token.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
