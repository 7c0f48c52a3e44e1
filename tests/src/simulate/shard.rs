//! A worker's shard at work: what it asks, reads, cuts and commits for its sessions.
//!
//! Must not be here: decisions (the real session makes them), batches on their way (`task.rs`).

use clickhouse_sink_worker::session::{CommitOutcome, ReplayMode, State};

use super::broker::mapping_of;
use super::group::{Commit, Request};
use super::scenario::Bug;
use super::world::{QUESTION_MS, TOPIC_IDS, World, say};

impl World<'_> {
    /// One thing that a worker does for one of its sessions; false where there is nothing.
    pub(super) fn slot_step(&mut self, w: usize) -> bool {
        let count = self.workers[w].slots.len();
        if count == 0 {
            return false;
        }
        let (i, first) = (self.random.index(count), self.random.index(8));
        (0..8).any(|k| self.slot_action(w, i, (first + k) % 8))
    }

    fn slot_action(&mut self, w: usize, i: usize, action: usize) -> bool {
        match action {
            0 | 1 => self.commit(w, i),
            2 => self.read(w, i),
            3..=5 => self.task_step(w, i),
            6 => self.ask(w, i) || self.watch_topic(w),
            _ => self.time_out(w, i) || self.ask_window(w, i),
        }
    }

    fn commit(&mut self, w: usize, i: usize) -> bool {
        let (now, op) = (self.now(w), self.next_id());
        let worker = &mut self.workers[w];
        let slot = &mut worker.slots[i];
        let context = &self.contexts[worker.mapping];
        let Some(mut request) = slot.session.next_commit(context, now) else {
            return false;
        };
        if self.scenario.bug == Some(Bug::DeclaredTimeRefreshed) {
            let fresh = || refresh_declared(&request.metadata, now.server_s.unwrap_or(0));
            request.metadata = slot
                .again
                .as_ref()
                .map_or_else(fresh, |again| again.1.clone());
        }
        let commit = Commit {
            session: slot.id,
            op,
            partition: slot.place.partition,
            load: slot.place.load,
            member: worker.member,
            generation: worker.generation,
            offset: request.offset,
            metadata: request.metadata,
            declares: request.declares,
            sent_at: self.time,
        };
        let process = worker.process;
        self.check_commit_sent(w, i, &commit);
        say!(
            self,
            "worker {w}: session {} commits {} declaring {:?}",
            commit.session,
            commit.offset,
            commit.declares
        );
        let slot = &mut self.workers[w].slots[i];
        slot.outstanding = Some((op, self.time));
        slot.again = Some((commit.offset, commit.metadata.clone()));
        self.group
            .connection(w, process)
            .queue
            .push_back(Request::Commit(commit));
        true
    }

    /// The answer to a commit, or its absence.
    pub(super) fn on_committed(&mut self, w: usize, answer: super::world::Committed) {
        let Some(slot) = self.workers[w].slot(answer.session) else {
            return;
        };
        if slot.outstanding.is_none_or(|(op, _)| op != answer.op) {
            return;
        }
        let (session, outcome) = (answer.session, answer.outcome);
        if outcome == CommitOutcome::Applied {
            slot.declared = answer.declares;
            (slot.declared_at, slot.declared_mapping) = (answer.applied_at, answer.mapping);
        }
        self.settle_commit(w, session, outcome);
    }

    fn settle_commit(&mut self, w: usize, session: u32, outcome: CommitOutcome) {
        let (now, random) = (self.now(w), self.random.next());
        let Some(slot) = self.workers[w].slot(session) else {
            return;
        };
        slot.outstanding = None;
        if outcome != CommitOutcome::Again {
            slot.again = None;
        }
        let was_open = slot.session.gate_open();
        slot.session.on_commit(outcome, now, random);
        let opened = !was_open && slot.session.gate_open();
        if opened {
            self.violate(|| format!("an answer has opened the closed gate of session {session}"));
        }
        self.sweep(w);
    }

    /// Questions and commits that were not answered.
    fn time_out(&mut self, w: usize, i: usize) -> bool {
        let slot = &mut self.workers[w].slots[i];
        let late = |at: u64| self.time >= at + QUESTION_MS;
        if slot.asked.is_some_and(|(_, at)| late(at)) {
            slot.asked = None;
            return true;
        }
        if slot.outstanding.is_some_and(|(_, at)| late(at)) {
            let session = slot.id;
            say!(
                self,
                "worker {w}: the commit of session {session} was not answered"
            );
            self.settle_commit(w, session, CommitOutcome::Again);
            return true;
        }
        false
    }

    /// Reads on: a declared range to its end, or as far as it likes.
    fn read(&mut self, w: usize, i: usize) -> bool {
        let now = self.now(w);
        let worker = &mut self.workers[w];
        let slot = &mut worker.slots[i];
        let Some(reading) = slot.session.reading().filter(|_| slot.owned) else {
            return false;
        };
        let log = &self.topic.logs[slot.place.partition];
        if reading.from < log.low || reading.from > log.high() {
            slot.session
                .hold("OffsetUnavailable", String::new(), String::new(), now);
            say!(self, "worker {w}: offset {} cannot be read", reading.from);
            return true;
        }
        let Some(&end) = reading.ends.first() else {
            return self.cut(w, i);
        };
        let mapping = slot.session.plan_mapping().map_or(0, mapping_number);
        if mapping > worker.mapping {
            slot.session
                .hold("MappingUnknown", String::new(), String::new(), now);
            say!(self, "worker {w}: mapping {mapping} is not known");
            return true;
        }
        if end > log.high() {
            return false;
        }
        self.replay(w, i, (reading.start, end), reading.from, mapping);
        true
    }

    fn replay(&mut self, w: usize, i: usize, range: (i64, i64), from: i64, mapping: usize) {
        self.cover_replay(w, i, range, mapping);
        let own = self.workers[w].mapping;
        let mapping = if self.bug(Bug::ReplayWithNewMapping) {
            own
        } else {
            mapping
        };
        let slot = &mut self.workers[w].slots[i];
        slot.session.on_replay_sent(range.0, range.1);
        let mode = slot.session.replay_mode();
        self.add_task(w, i, range, from, mapping, mode);
    }

    /// Cuts a range of any size.
    pub(super) fn cut(&mut self, w: usize, i: usize) -> bool {
        let slot = &self.workers[w].slots[i];
        let (start, high) = (
            slot.session.cut_end(),
            self.topic.logs[slot.place.partition].high(),
        );
        if start >= high || !slot.session.may_cut() {
            return false;
        }
        let most = (high - start).min(self.workers[w].batch);
        let end = start + 1 + self.random.below(most as u64) as i64;
        let mapping = self.workers[w].mapping;
        self.workers[w].slots[i].session.on_cut(end);
        self.add_task(w, i, (start, end), start, mapping, None);
        true
    }

    /// A topic that was made again shows only in its id.
    fn watch_topic(&mut self, w: usize) -> bool {
        let now = self.now(w);
        let worker = &mut self.workers[w];
        if self.time < worker.topic_asked_at + 2_000 || worker.cut_until > self.time {
            return false;
        }
        worker.topic_asked_at = self.time;
        let id = TOPIC_IDS[usize::from(self.topic.life)];
        for slot in &mut worker.slots {
            let reads = matches!(slot.session.state(), State::Running | State::Replaying);
            let other = slot
                .session
                .identity()
                .is_some_and(|identity| identity.topic_id != id);
            if reads && other {
                slot.session
                    .hold("TopicRecreated", id.to_owned(), String::new(), now);
            }
        }
        true
    }

    /// Whether the server still knows the tokens of a plan.
    fn ask_window(&mut self, w: usize, i: usize) -> bool {
        let slot = &mut self.workers[w].slots[i];
        let Some(since) = slot.session.wants_window() else {
            return false;
        };
        let p = slot.place.partition;
        if self.skip_range & (1 << p) != 0 {
            return self.skip_first_range(w, i);
        }
        let again = self.insert_again & (1 << p) != 0;
        let unknown = since == 0 || self.table.used_since(since) > self.scenario.window / 2;
        let mode = if unknown && !again {
            ReplayMode::Verify
        } else {
            ReplayMode::Replay
        };
        slot.session.on_window(mode);
        let (life, plan) = (slot.place.life, slot.plan.clone());
        if again {
            self.insert_again &= !(1 << p);
            self.answered |= 1 << p;
            for (start, end) in plan {
                self.excuse(life, p, start, end);
            }
        }
        if unknown {
            self.cover.crash_point(23);
        }
        true
    }
}

fn mapping_number(hash: &str) -> usize {
    mapping_of(&format!(";m={hash}"))
}

fn refresh_declared(metadata: &str, second: u64) -> String {
    match (metadata.split_once(";w="), metadata.split_once(";q=")) {
        (Some((before, _)), Some((_, after))) => format!("{before};w={second};q={after}"),
        _ => metadata.to_owned(),
    }
}
