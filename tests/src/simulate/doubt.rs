//! What a worker does where a range cannot simply be sent again: splits, and questions to the table.
//!
//! Must not be here: attempts (`task.rs`).

use super::log::rows_of;
use super::scenario::Bug;
use super::table::{LostGap, offsets};
use super::token::token_of;
use super::worker::{Step, Task};
use super::world::{Body, World, say};

impl World<'_> {
    /// Down to the record at fault, which goes to the dead letters.
    pub(super) fn on_refused(&mut self, w: usize, i: usize, t: usize) {
        let slot = &mut self.workers[w].slots[i];
        let shares = slot.session.gate().declared.is_none();
        let task = &mut slot.tasks[t];
        if shares {
            return leave_out_refused(task);
        }
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
            doubt_since: None,
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
    pub(super) fn look(&mut self, w: usize, i: usize, t: usize) -> bool {
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
                (task.rows, task.step) = (missing, Step::Gate);
                (task.doubt_since, task.unknown_until) = (Some(second), 0);
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
        if task.refused {
            self.refused |= 1 << slot.place.partition;
        }
        slot.session
            .on_stopped(task.start, task.end, "WindowExceeded", String::new(), now);
        say!(self, "worker {w}: {}-{} is held", task.start, task.end);
    }

    /// A person wants the first declared range recorded as lost.
    pub(super) fn skip_first_range(&mut self, w: usize, i: usize) -> bool {
        let now = self.now(w);
        let slot = &mut self.workers[w].slots[i];
        let Some(range) = slot
            .session
            .ranges()
            .iter()
            .next()
            .map(|range| (range.start, range.end))
        else {
            return false;
        };
        let place = slot.place;
        slot.session.on_replay_sent(range.0, range.1);
        slot.session.on_acknowledged(range.0, range.1, now);
        self.table.gaps.push(LostGap {
            life: place.life,
            partition: place.partition,
            start: range.0,
            end: range.1,
            only: Some(place.load),
        });
        self.excuse(place.life, place.partition, range.0, range.1);
        let bit = 1 << place.partition;
        (self.skip_range, self.refused) = (self.skip_range & !bit, self.refused & !bit);
        true
    }
}

/// Without declarations the pieces have tokens of their own: what is refused goes to the dead letters, the rest is sent.
const fn leave_out_refused(task: &mut Task) {
    (task.rejected, task.rows) = (task.rejected | task.poison, task.rows & !task.poison);
    (task.poison, task.was_sent) = (0, false);
    task.token = task.token.wrapping_add(1);
    task.step = Step::DeadLetters;
}
