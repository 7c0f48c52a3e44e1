//! What must hold at every step, and at the end: the invariants of the design, against the truth.
//!
//! Must not be here: anything that changes the world.

use clickhouse_sink_crds::worker_config::{Guarantee, StartFrom};
use clickhouse_sink_worker::session::State;

use super::broker::declared_at_of;
use super::group::{Begin, Commit};
use super::log::Record;
use super::scenario::Metadata;
use super::table::{Attempt, Landed, Place, offsets};
use super::world::{DECLARATION_MS, TOPIC_IDS, World};

impl World<'_> {
    /// I1: declared exactly, in this session, by a young commit, behind an open gate, under the plan's mapping.
    pub(super) fn check_send(&mut self, w: usize, i: usize, t: usize) {
        let time = self.time;
        let slot = &self.workers[w].slots[i];
        let task = &slot.tasks[t];
        let (session, range, mapping) = (slot.id, (task.start, task.end), task.mapping);
        if !slot.owned {
            return self.violate(|| {
                format!("I1: session {session} sends {range:?} after its partition was given up")
            });
        }
        if slot.session.gate().declared.is_none() {
            return;
        }
        if !slot.declared.contains(&range) {
            return self.violate(|| format!("I1: session {session} sends {range:?}, which no acknowledged commit of it declares"));
        }
        let (at, declared) = (slot.declared_at, slot.declared_mapping);
        if time >= at + DECLARATION_MS {
            return self.violate(|| {
                format!(
                    "I1: session {session} sends {range:?}, declared {} ms ago",
                    time - at
                )
            });
        }
        if declared != mapping {
            self.violate(|| format!("session {session} sends {range:?} under mapping {mapping}, declared under {declared}"));
        }
    }

    /// I7: rejects are in the dead letters before the INSERT is sent.
    pub(super) fn check_dead_letters_first(&mut self, w: usize, i: usize, t: usize) {
        let slot = &self.workers[w].slots[i];
        let task = &slot.tasks[t];
        let place = Place {
            life: task.life,
            ..slot.place
        };
        let (start, end) = (task.start, task.end);
        if !self.table.has_dead(place, start, task.rejected) {
            self.violate(|| {
                format!("I7: {start}-{end} is sent before its rejects are in the dead letters")
            });
        }
    }

    /// Only a record with a fault may go to the dead letters.
    pub(super) fn check_dead(&mut self, place: Place, start: i64, bits: u64) {
        if place.life != self.topic.life || place.load != self.group.positions[place.partition].load
        {
            return;
        }
        let log = &self.topic.logs[place.partition];
        let good = offsets(bits, start).find(|offset| log.record(*offset) == Record::Row);
        if let Some(offset) = good {
            self.violate(|| format!("offset {offset} has no fault and went to the dead letters"));
        }
    }

    /// I2 and I4, when a commit leaves the session.
    pub(super) fn check_commit_sent(&mut self, w: usize, i: usize, commit: &Commit) {
        let slot = &self.workers[w].slots[i];
        let (session, offset) = (slot.id, commit.offset);
        if slot.outstanding.is_some() {
            return self.violate(|| format!("I4: session {session} has two commits outstanding"));
        }
        let same = slot
            .again
            .as_ref()
            .is_none_or(|again| (again.0, &again.1) == (offset, &commit.metadata));
        if !same {
            return self.violate(|| {
                format!("I4: session {session} sends other bytes after an unknown outcome")
            });
        }
        let place = slot.place;
        let position = &self.group.positions[place.partition];
        let foreign = place.load != position.load || place.life != self.topic.life;
        if foreign || slot.session.committed().is_none() {
            return;
        }
        if let Some(missing) = self.missing_before(place, offset) {
            self.violate(|| {
                format!("I2: session {session} commits {offset}, but offset {missing} is nowhere")
            });
        }
    }

    /// The first offset below `end` that this load has to bring and has not brought.
    fn missing_before(&self, place: Place, end: i64) -> Option<i64> {
        let Begin::At(begin) = self.group.positions[place.partition].begin else {
            return None;
        };
        (begin..end).find(|offset| !self.is_brought(place, *offset))
    }

    fn is_brought(&self, place: Place, offset: i64) -> bool {
        let nothing = matches!(
            self.topic.logs[place.partition].record(offset),
            Record::Hole | Record::Compacted
        );
        nothing
            || self.table.count(place, offset) > 0
            || self.table.is_dead(place, offset)
            || self.table.in_gap(place, offset)
            || self.is_left_of_cut(place, offset)
    }

    /// What the broker has taken: nobody else's, never back, no range redrawn, the first declaration's time kept.
    pub(super) fn check_applied(&mut self, commit: &Commit) {
        let p = commit.partition;
        let (session, reader) = (commit.session, self.readers[p]);
        if reader != session && commit.load == self.group.positions[p].load {
            return self.violate(|| format!("a commit of session {session} was taken after session {reader} had read the position"));
        }
        let position = &self.group.positions[p];
        if commit.load != position.load {
            return;
        }
        if !position.begun {
            return self.check_begin(commit);
        }
        self.check_reached(commit);
        let position = &self.group.positions[p];
        let before = position.offset.unwrap_or(0);
        if commit.offset < before {
            return self.violate(|| {
                format!(
                    "session {session} has moved the position back from {before} to {}",
                    commit.offset
                )
            });
        }
        let kept =
            |end: i64| end <= commit.offset || commit.declares.iter().any(|range| range.1 == end);
        if let Some(&(start, end, _)) = position.plan.iter().find(|range| !kept(range.1)) {
            return self.violate(|| {
                format!("I3: session {session} has redrawn the declared range {start}-{end}")
            });
        }
        let oldest = commit.declares.first().and_then(|range| {
            position
                .plan
                .iter()
                .find(|old| old.0 <= range.0 && range.1 <= old.1)
        });
        let said = declared_at_of(&commit.metadata);
        if let Some(first) = oldest.map(|old| old.2).filter(|first| said > *first) {
            self.violate(|| {
                format!(
                    "session {session} says that its plan was declared at {said}, it was at {first}"
                )
            });
        }
    }

    /// I2, when a commit is taken.
    fn check_reached(&mut self, commit: &Commit) {
        let place = Place {
            life: self.topic.life,
            partition: commit.partition,
            load: commit.load,
        };
        let (session, offset) = (commit.session, commit.offset);
        if let Some(missing) = self.missing_before(place, offset) {
            self.violate(|| format!("I2: a commit of session {session} at {offset} was taken, but offset {missing} is nowhere"));
        }
    }

    /// A position begins where it has to: nothing is left out.
    fn check_begin(&mut self, commit: &Commit) {
        let (p, offset, session) = (commit.partition, commit.offset, commit.session);
        let (log, first) = (&self.topic.logs[p], self.topic.first_partitions);
        let grown = p >= first;
        let latest = self.scenario.start_from == StartFrom::Latest && !grown;
        if let Begin::At(_) = self.group.positions[p].begin {
            return self.check_reached(commit);
        }
        if !latest && offset > log.low {
            self.violate(|| format!("session {session} begins partition {p} at {offset}, records before that are left out"));
        }
    }

    /// Nothing is there twice, nothing was dropped because of an earlier load.
    pub(super) fn check_landed(&mut self, attempt: &Attempt, landed: Landed) {
        let (id, place) = (attempt.id, attempt.place);
        let twice = landed
            .twice
            .filter(|offset| !self.is_excused(place.life, place.partition, *offset));
        if let Some(offset) = twice {
            self.violate(|| {
                format!(
                    "attempt {id} has brought offset {offset} of partition {} a second time",
                    place.partition
                )
            });
        }
        if !attempt.stale && landed.swallowed.is_some() {
            self.violate(|| {
                format!(
                    "attempt {id} was dropped as a copy of rows of an earlier load of its partition"
                )
            });
        }
    }

    /// At rest: every partition is read to its end, everything is there.
    pub(super) fn check_end(&mut self) {
        if !self.shared
            && self.scenario.metadata == Metadata::Dropped
            && self.table.rows.iter().any(|rows| !rows.counts.is_empty())
        {
            self.violate(|| "rows were inserted although the broker drops metadata".to_owned());
        }
        for p in 0..self.topic.logs.len() {
            let place = Place {
                life: self.topic.life,
                partition: p,
                load: self.group.positions[p].load,
            };
            let high = self.topic.logs[p].high();
            let missing = self
                .missing_before(place, high)
                .filter(|_| !self.is_held_for_good(p));
            if let Some(missing) = missing {
                self.violate(|| format!("at the end offset {missing} of partition {p} is nowhere"));
            }
        }
    }

    /// A broker that does not keep metadata, or not enough of it.
    fn is_held_for_good(&self, p: usize) -> bool {
        if self.drops_what_it_needs() {
            return true;
        }
        let limits = matches!(self.scenario.metadata, Metadata::Limited(_));
        let mut slots = self.workers.iter().flat_map(|worker| &worker.slots);
        limits
            && slots.any(|slot| {
                slot.owned && slot.place.partition == p && holds_for_good(slot.session.state())
            })
    }

    /// It is found out again and again, and nothing is ever read.
    pub(super) fn drops_what_it_needs(&self) -> bool {
        self.scenario.metadata == Metadata::Dropped
            && self.scenario.guarantee == Guarantee::ExactlyOnce
    }

    /// True where nothing is left to do.
    pub(super) fn is_at_rest(&self) -> bool {
        let partitions = 0..self.topic.logs.len();
        self.network.is_empty()
            && self.table.inbox.is_empty()
            && self.group.preparing.is_none()
            && self
                .workers
                .iter()
                .all(|worker| worker.is_settled() && worker.guarantee == self.scenario.guarantee)
            && partitions.into_iter().all(|p| self.partition_is_at_rest(p))
    }

    fn partition_is_at_rest(&self, p: usize) -> bool {
        let mut owners = self
            .workers
            .iter()
            .flat_map(|worker| &worker.slots)
            .filter(|slot| slot.owned && slot.place.partition == p);
        let (Some(slot), None) = (owners.next(), owners.next()) else {
            return false;
        };
        let id = TOPIC_IDS[usize::from(self.topic.life)];
        if slot
            .session
            .identity()
            .is_some_and(|identity| identity.topic_id != id)
        {
            return false;
        }
        let done = Some(self.topic.logs[p].high());
        let committed = (self.group.positions[p].offset == done
            || self.rolled_back & (1 << p) != 0)
            && slot.session.committed() == done
            && slot.outstanding.is_none();
        match slot.session.state() {
            State::Running => {
                committed && slot.tasks.is_empty() && slot.session.ranges().is_empty()
            }
            state => !matches!(self.scenario.metadata, Metadata::Kept) && holds_for_good(state),
        }
    }

    /// Says what is not at rest.
    pub(super) fn describe_unrest(&self) -> String {
        let slots = self
            .workers
            .iter()
            .enumerate()
            .flat_map(|(w, worker)| worker.slots.iter().map(move |slot| (w, slot)));
        let states = slots.map(|(w, slot)| {
            format!(
                "worker {w} partition {} session {} {:?} owned {} at {} cut {} ranges {:?} tasks {:?}",
                slot.place.partition,
                slot.id,
                slot.session.state(),
                slot.owned,
                slot.session.acknowledged(),
                slot.session.cut_end(),
                slot.session.ranges(),
                slot.tasks
            )
        });
        states.collect::<Vec<_>>().join("; ")
    }
}

fn holds_for_good(state: &State) -> bool {
    let reasons = ["BrokerDropsCommitMetadata", "BrokerLimitsCommitMetadata"];
    matches!(state, State::Held(hold) if reasons.contains(&hold.reason))
}
