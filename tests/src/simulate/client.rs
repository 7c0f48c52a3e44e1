//! The client of a worker: joining, revocation with its drain, loss, leaving.
//!
//! Must not be here: sessions' own work (`shard.rs`), the broker's answers (`broker.rs`).

use clickhouse_sink_crds::worker_config::Guarantee;

use super::coverage::Fault;
use super::group::{Joined, Request};
use super::scenario::Bug;
use super::table::Place;
use super::worker::{Membership, Slot, Worker};
use super::world::{DECLARATION_MS, World, say};
use clickhouse_sink_worker::session::{Session, SessionSettings};
use std::time::Duration;

/// What is left for a drain.
const DRAIN_MS: u64 = 20_000;

impl World<'_> {
    /// One turn of a worker's client; false where it has nothing to do.
    pub(super) fn client_step(&mut self, w: usize) -> bool {
        if self.workers[w].stop_by.is_some() {
            return self.serve_stop(w);
        }
        if self.workers[w].cut_until > self.time {
            return false;
        }
        match self.workers[w].membership {
            Membership::Out => {
                self.join(w, true);
                true
            }
            Membership::Joining => false,
            Membership::In => self.heartbeat(w) || self.serve_revocation(w),
        }
    }

    fn heartbeat(&mut self, w: usize) -> bool {
        let worker = &self.workers[w];
        let member = worker.member.and_then(|id| self.group.member(id));
        let Some(member) = member else {
            self.lose(w);
            return true;
        };
        let waits = !member.joined && worker.revoking == 0;
        if waits && self.group.preparing.is_some() {
            self.join(w, false);
            return true;
        }
        false
    }

    fn join(&mut self, w: usize, fresh: bool) {
        let id = if fresh {
            self.next_id()
        } else {
            self.workers[w].member.unwrap_or(0)
        };
        let worker = &mut self.workers[w];
        (worker.membership, worker.member) = (Membership::Joining, Some(id));
        let request = Request::Join {
            member: id,
            fresh,
            owned: worker.owned(),
        };
        let process = worker.process;
        say!(self, "worker {w} asks to join as member {id}");
        self.group.connection(w, process).queue.push_back(request);
    }

    /// A new generation: what is not assigned any more is drained, what is new begins.
    pub(super) fn on_joined(&mut self, w: usize, joined: Joined) {
        let worker = &mut self.workers[w];
        if worker.member != Some(joined.member) || worker.stop_by.is_some() {
            return;
        }
        (worker.membership, worker.generation) = (Membership::In, joined.generation);
        let owned = worker.owned();
        say!(
            self,
            "worker {w} in generation {} is assigned {:#b}, owned {owned:#b}",
            joined.generation,
            joined.assigned
        );
        self.assign(w, joined.assigned & !owned);
        let revoked = owned & !joined.assigned;
        if revoked != 0 {
            self.revoke(w, revoked);
        }
    }

    fn assign(&mut self, w: usize, partitions: u8) {
        for partition in (0..8).filter(|partition| partitions & (1 << partition) != 0) {
            let id = self.next_id();
            let (now, worker) = (self.now(w), &self.workers[w]);
            let settings = SessionSettings {
                guarantee: worker.guarantee,
                linger: Duration::from_secs(1),
                max_declaration_age: Duration::from_millis(DECLARATION_MS),
                read_back: !worker.proven && !self.bug(Bug::DeclaredTimeRefreshed),
            };
            let place = Place {
                life: self.topic.life,
                partition,
                load: 0,
            };
            let slot = Slot {
                id,
                owned: true,
                session: Session::new(settings, now),
                place,
                assigned_at: self.time,
                high: 0,
                asked: None,
                outstanding: None,
                again: None,
                gaps: Vec::new(),
                tasks: Vec::new(),
                declared: Vec::new(),
                declared_at: 0,
                declared_mapping: 0,
                plan: Vec::new(),
                reset: false,
            };
            self.workers[w].slots.push(slot);
        }
    }

    fn revoke(&mut self, w: usize, partitions: u8) {
        self.cover_states(w, Fault::Revoke);
        self.workers[w].revoking = partitions;
        self.workers[w].revoke_by = self.time + DRAIN_MS;
        self.drain(w, partitions);
    }

    /// What is filled is cut as a last range, sometimes.
    fn drain(&mut self, w: usize, partitions: u8) {
        for i in 0..self.workers[w].slots.len() {
            let slot = &mut self.workers[w].slots[i];
            if !slot.owned || partitions & (1 << slot.place.partition) == 0 {
                continue;
            }
            let filled = slot
                .session
                .reading()
                .is_some_and(|reading| reading.ends.is_empty());
            slot.session.start_drain();
            if filled && self.random.percent(50) {
                self.cut(w, i);
            }
        }
    }

    fn serve_revocation(&mut self, w: usize) -> bool {
        let worker = &self.workers[w];
        let revoking = worker.revoking;
        let going = |slot: &&Slot| slot.owned && revoking & (1 << slot.place.partition) != 0;
        let drained = worker
            .slots
            .iter()
            .filter(going)
            .all(|slot| slot.session.is_drained());
        if revoking == 0 || !(drained || self.time >= worker.revoke_by) {
            return false;
        }
        say!(self, "worker {w} gives up {revoking:#b}");
        self.give_up(w, revoking, false);
        self.workers[w].revoking = 0;
        self.join(w, false);
        true
    }

    /// Gates first.
    fn give_up(&mut self, w: usize, partitions: u8, lost: bool) {
        let (never, late) = (
            self.bug(Bug::GateNotClosed),
            self.bug(Bug::AcknowledgedAfterLoss) && lost,
        );
        let group_is_empty = self.group.members.is_empty();
        let context = self.contexts[self.workers[w].mapping].clone();
        let now = self.now(w);
        for slot in self.workers[w]
            .slots
            .iter_mut()
            .filter(|slot| slot.owned && partitions & (1 << slot.place.partition) != 0)
        {
            slot.owned = false;
            let wanted = slot.session.acknowledged() > slot.session.committed().unwrap_or(0)
                || !slot.session.ranges().is_empty();
            if slot.outstanding.is_some() {
                self.cover.crash_point(12);
            }
            let stays_open = never || (late && slot.outstanding.is_some());
            if !stays_open {
                slot.session.close();
            }
            if wanted && slot.session.clone().next_commit(&context, now).is_none() {
                self.cover
                    .crash_point(if lost && group_is_empty { 13 } else { 11 });
            }
        }
        self.sweep(w);
    }

    /// Drops sessions that have nothing left.
    pub(super) fn sweep(&mut self, w: usize) {
        self.workers[w]
            .slots
            .retain(|slot| slot.owned || slot.outstanding.is_some() || !slot.tasks.is_empty());
    }

    /// The broker does not know the member any more.
    pub(super) fn lose(&mut self, w: usize) {
        say!(self, "worker {w} has lost its partitions");
        self.cover_states(w, Fault::Lost);
        self.give_up(w, u8::MAX, true);
        let worker = &mut self.workers[w];
        (worker.membership, worker.member, worker.revoking) = (Membership::Out, None, 0);
    }

    /// SIGTERM.
    pub(super) fn stop(&mut self, w: usize) {
        say!(self, "worker {w} is told to stop");
        self.cover_states(w, Fault::Stop);
        self.workers[w].stop_by = Some(self.time + DRAIN_MS);
        self.drain(w, u8::MAX);
    }

    fn serve_stop(&mut self, w: usize) -> bool {
        let worker = &self.workers[w];
        let drained = worker
            .slots
            .iter()
            .filter(|slot| slot.owned)
            .all(|slot| slot.session.is_drained());
        if !drained && worker.stop_by.is_some_and(|by| self.time < by) {
            return false;
        }
        say!(self, "worker {w} has stopped, drained: {drained}");
        self.give_up(w, u8::MAX, false);
        let (process, member) = (self.workers[w].process, self.workers[w].member);
        if let (Some(member), Membership::In) = (member, self.workers[w].membership) {
            self.group
                .connection(w, process)
                .queue
                .push_back(Request::Leave { member });
        }
        self.end_process(w);
        true
    }

    /// The process is gone, with all that it knew; what it has sent is on its way.
    pub(super) fn end_process(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        (worker.alive, worker.frozen, worker.stop_by) = (false, false, None);
        (worker.membership, worker.member, worker.revoking) = (Membership::Out, None, 0);
        worker.slots.clear();
    }

    pub(super) fn start(&mut self, w: usize) {
        let process = self.next_id();
        let (batch, knows_time) = (1 + self.random.below(12) as i64, self.random.percent(95));
        let newest = self.newest_mapping;
        let guarantee = self.scenario.guarantee;
        self.shared |= guarantee == Guarantee::AtLeastOnce;
        let before = &self.workers[w];
        let mapping = if self.calm || self.random.percent(50) {
            newest
        } else {
            before.mapping
        };
        say!(
            self,
            "worker {w} starts as process {process} with mapping {mapping}, {guarantee:?}"
        );
        self.workers[w] = Worker {
            process,
            alive: true,
            mapping,
            batch,
            knows_time,
            ..Worker::new(guarantee)
        };
    }
}
