//! The network: answers reach workers, INSERTs reach the server, late, in any order, or never.
//!
//! Must not be here: what is sent, what the table keeps.

use super::table::Attempt;
use super::world::{Body, Inserted, World, say};

impl World<'_> {
    /// Delivers one answer that is due; false where there is none.
    pub(super) fn deliver_step(&mut self) -> bool {
        let count = self.network.len();
        let first = self.random.index(count);
        let due = (0..count).map(|k| (first + k) % count).find(|k| {
            let message = &self.network[*k];
            let worker = &self.workers[message.worker];
            message.due <= self.time && !(worker.frozen && worker.process == message.process)
        });
        let Some(k) = due else {
            return false;
        };
        let message = self.network.swap_remove(k);
        let worker = &self.workers[message.worker];
        if worker.process == message.process && worker.alive {
            self.receive(message.worker, message.body);
        }
        true
    }

    fn receive(&mut self, w: usize, body: Body) {
        match body {
            Body::Joined(joined) => self.on_joined(w, joined),
            Body::Removed { member } => {
                if self.workers[w].member == Some(member) {
                    self.lose(w);
                }
            }
            Body::Committed(answer) => self.on_committed(w, answer),
            Body::Position {
                session,
                op,
                answer,
            } => self.on_position(w, session, op, &answer),
            Body::ReadBack {
                session,
                op,
                metadata,
            } => self.on_read_back(w, session, op, &metadata),
            Body::GapsRecorded { session, op } => self.on_gaps_recorded(w, session, op),
            Body::DeadLetters { session, task, op } => self.on_dead_letters(w, session, task, op),
            Body::Inserted {
                session,
                task,
                attempt,
                result,
            } => self.on_inserted(w, session, task, attempt, result),
            Body::Looked {
                session,
                task,
                op,
                found,
                sees_before,
            } => self.on_looked(w, session, task, op, (found, sees_before)),
        }
    }

    fn on_read_back(&mut self, w: usize, session: u32, op: u32, metadata: &str) {
        let now = self.now(w);
        let worker = &mut self.workers[w];
        let Some(slot) = worker
            .slots
            .iter_mut()
            .find(|slot| slot.id == session && slot.asked.is_some_and(|(asked, _)| asked == op))
        else {
            return;
        };
        slot.asked = None;
        let kept = slot.session.on_read_back(metadata.as_bytes(), now);
        worker.proven |= kept;
        if !kept && self.scenario.metadata == super::scenario::Metadata::Dropped {
            self.cover.crash_point(24);
        }
    }

    fn on_gaps_recorded(&mut self, w: usize, session: u32, op: u32) {
        let now = self.now(w);
        let Some(slot) = self.workers[w]
            .slot(session)
            .filter(|slot| slot.asked.is_some_and(|(asked, _)| asked == op))
        else {
            return;
        };
        slot.asked = None;
        slot.gaps.clear();
        slot.session.on_gaps_recorded(now);
    }

    /// One INSERT reaches the server; false where none is due.
    pub(super) fn server_step(&mut self) -> bool {
        let count = self.table.inbox.len();
        let first = self.random.index(count);
        let due = (0..count)
            .map(|k| (first + k) % count)
            .find(|k| self.table.inbox[*k].due <= self.time);
        let Some(k) = due else {
            return false;
        };
        let attempt = self.table.inbox.swap_remove(k);
        if self.time <= attempt.expires {
            self.serve_attempt(&attempt);
        }
        true
    }

    fn serve_attempt(&mut self, attempt: &Attempt) {
        if self.table.down_until > self.time {
            return self.answer(attempt, Inserted::Failed, 100);
        }
        if attempt.poison != 0 {
            say!(
                self,
                "server: attempt {} is refused for a record",
                attempt.id
            );
            return self.answer(attempt, Inserted::Refused, 97);
        }
        self.cover_zombies(attempt);
        let luck = if self.calm { 0 } else { self.random.below(100) };
        match luck {
            0..78 => self.land(attempt, usize::MAX, Inserted::Done, 100),
            78..84 => self.land(attempt, usize::MAX, Inserted::Done, 0),
            84..88 => self.land(attempt, 0, Inserted::Failed, 90),
            88..94 => self.land(attempt, 1, Inserted::Failed, 90),
            94..97 => self.land(attempt, usize::MAX, Inserted::Failed, 90),
            _ => self.crash_server(attempt),
        }
    }

    fn crash_server(&mut self, attempt: &Attempt) {
        let parts = self.random.index(3);
        self.land(attempt, parts, Inserted::Failed, 30);
        self.fail_server();
    }

    pub(super) fn fail_server(&mut self) {
        self.table.down_until = self.time + 200 + self.random.below(15_000);
        say!(
            self,
            "the server is down until {} ms",
            self.table.down_until
        );
        for w in 0..self.workers.len() {
            self.cover_states(w, super::coverage::Fault::ClickHouseDown);
        }
    }

    fn land(&mut self, attempt: &Attempt, most: usize, result: Inserted, answered: u64) {
        let second = self.second();
        let mut landed = self.table.land(attempt, most, second);
        say!(
            self,
            "server: attempt {} of {}-{}: {} parts, {} dropped as copies, {result:?}",
            attempt.id,
            attempt.start,
            attempt.end,
            landed.parts,
            landed.dropped
        );
        if let Some(place) = landed.swallowed
            && self.settle_copy(attempt, place, landed.hidden)
        {
            landed.swallowed = None;
        }
        self.check_landed(attempt, landed);
        self.answer(attempt, result, answered);
    }

    fn answer(&mut self, attempt: &Attempt, result: Inserted, percent: u64) {
        if self.calm || self.random.percent(percent) {
            let body = Body::Inserted {
                session: attempt.session,
                task: attempt.task,
                attempt: attempt.id,
                result,
            };
            self.send(attempt.worker, attempt.process, body);
        }
    }
}
