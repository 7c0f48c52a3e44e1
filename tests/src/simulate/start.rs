//! From an assignment to a start: positions, read-backs, gaps.
//!
//! Must not be here: decisions (`decide_start` is the worker's own), reading.

use clickhouse_sink_crds::worker_config::{Guarantee, OnDataLoss};
use clickhouse_sink_worker::session::State;
use clickhouse_sink_worker::session::position::{Committed, Known, Start, decide_start};

use super::scenario::Bug;
use super::table::Place;
use super::world::{Answer, Body, TOPIC, TOPIC_IDS, World, say};

impl World<'_> {
    pub(super) fn ask(&mut self, w: usize, i: usize) -> bool {
        let (now, cut_off) = (self.now(w), self.workers[w].cut_until > self.time);
        let slot = &self.workers[w].slots[i];
        if !slot.owned || slot.asked.is_some() || cut_off {
            return false;
        }
        if slot.session.wants_read_back() {
            return self.ask_read_back(w, i);
        }
        if !slot.gaps.is_empty() && *slot.session.state() == State::Recording {
            return self.record_gaps(w, i);
        }
        slot.session.wants_position(now) && self.ask_position(w, i)
    }

    fn question(&mut self, w: usize, i: usize) -> (u32, u32, u32) {
        let op = self.next_id();
        let worker = &mut self.workers[w];
        worker.slots[i].asked = Some((op, self.time));
        (op, worker.process, worker.slots[i].id)
    }

    fn ask_read_back(&mut self, w: usize, i: usize) -> bool {
        let (op, process, session) = self.question(w, i);
        let metadata = self.group.positions[self.workers[w].slots[i].place.partition]
            .metadata
            .clone();
        self.send(
            w,
            process,
            Body::ReadBack {
                session,
                op,
                metadata,
            },
        );
        true
    }

    fn ask_position(&mut self, w: usize, i: usize) -> bool {
        let (op, process, session) = self.question(w, i);
        let p = self.workers[w].slots[i].place.partition;
        let log = &self.topic.logs[p];
        let committed = |(partition, position): (usize, &super::group::Position)| Committed {
            partition: partition as i32,
            offset: position.offset,
            metadata: position.metadata.clone().into_bytes(),
        };
        let answer = Answer {
            group: self
                .group
                .positions
                .iter()
                .enumerate()
                .map(committed)
                .collect(),
            life: self.topic.life,
            load: self.group.positions[p].load,
            low: log.low,
            high: log.high(),
        };
        let worker = &self.workers[w];
        // An expired member may ask, too; what it hears is worth nothing.
        if worker.member.is_some_and(|id| self.group.knows(id)) {
            self.readers[p] = session;
        }
        self.send(
            w,
            process,
            Body::Position {
                session,
                op,
                answer: Box::new(answer),
            },
        );
        true
    }

    pub(super) fn on_position(&mut self, w: usize, session: u32, op: u32, answer: &Answer) {
        let (now, random) = (self.now(w), self.random.next());
        let Some(i) = self.workers[w].slots.iter().position(|slot| {
            slot.id == session && slot.asked.is_some_and(|(asked, _)| asked == op)
        }) else {
            return;
        };
        let p = self.workers[w].slots[i].place.partition;
        let start = self.plant_start(w, p, decide_start(&self.known(p, answer, random)));
        say!(
            self,
            "worker {w}: session {session} of partition {p} starts: {start:?}"
        );
        if !matches!(start, Start::Hold { .. }) {
            self.skip &= !(1 << p);
        }
        self.answered &= !(1 << p);
        if let Some(cut) = &mut self.cuts[p]
            && cut.load == answer.load
            && !self.group.positions[p].begun
        {
            cut.begin(&start, answer.high);
        }
        self.cover_start(&start, answer, p);
        let slot = &mut self.workers[w].slots[i];
        (slot.asked, slot.high) = (None, answer.high);
        slot.place = Place {
            life: answer.life,
            partition: p,
            load: answer.load,
        };
        slot.reset = matches!(&start, Start::Resume { identity, .. } | Start::Create { identity, .. } if identity.epoch.is_reset());
        slot.plan = plan_of(&start);
        slot.gaps = slot.session.on_start(start, now);
    }

    fn known<'k>(&'k self, p: usize, answer: &'k Answer, random: u64) -> Known<'k> {
        let skip = self.skip & (1 << p) != 0;
        Known {
            topic: TOPIC,
            partition: p as i32,
            topic_id: TOPIC_IDS[usize::from(answer.life)],
            partitions: self.topic.logs.len() as u32,
            group: &answer.group,
            low: answer.low,
            high: answer.high,
            at_timestamp: None,
            start_from: self.scenario.start_from,
            tables: &self.tables,
            topics: &self.facts,
            on_loss: if skip {
                OnDataLoss::SkipAndRecord
            } else {
                self.scenario.on_loss
            },
            random,
        }
    }

    /// The planted bugs of a start.
    fn plant_start(&mut self, w: usize, p: usize, mut start: Start) -> Start {
        let (reuses, forgets) = (self.bug(Bug::EpochReused), self.bug(Bug::PlanForgotten));
        match &mut start {
            Start::Create { identity, .. } => {
                if let Some(epoch) = self.epochs[p].clone().filter(|_| reuses) {
                    identity.epoch = epoch;
                }
                self.epochs[p] = Some(identity.epoch.clone());
            }
            Start::Resume { plan, .. }
                if forgets && self.workers[w].guarantee == Guarantee::AtLeastOnce =>
            {
                plan.ends.clear();
            }
            _ => {}
        }
        start
    }

    fn record_gaps(&mut self, w: usize, i: usize) -> bool {
        let (op, process, session) = self.question(w, i);
        let lands = self.calm || self.random.percent(50);
        if lands {
            self.land_gaps(w, i);
            self.send(w, process, Body::GapsRecorded { session, op });
        }
        true
    }
}

fn plan_of(start: &Start) -> Vec<(i64, i64)> {
    let Start::Resume { offset, plan, .. } = start else {
        return Vec::new();
    };
    let starts = std::iter::once(*offset).chain(plan.ends.iter().copied());
    starts.zip(plan.ends.iter().copied()).collect()
}
