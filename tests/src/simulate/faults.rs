//! What goes wrong: processes, networks, servers; and what is met when it does.
//!
//! Must not be here: rare events of topics and groups (`rare.rs`).

use clickhouse_sink_worker::session::position::Start;
use clickhouse_sink_worker::session::ranges::Stage;
use clickhouse_sink_worker::session::{ReplayMode, State};

use super::coverage::Fault;
use super::table::{Attempt, LostGap, Place};
use super::worker::{Slot, Step};
use super::world::{Answer, World, say};

impl World<'_> {
    /// One fault, or the end of one; false where the drawn one has no victim.
    pub(super) fn fault_step(&mut self) -> bool {
        let w = self.random.index(self.workers.len());
        let worker = &self.workers[w];
        if !worker.alive {
            return self.may_start(w);
        }
        if worker.frozen {
            return self.thaw(w);
        }
        match self.random.below(100) {
            0..20 => self.crash(w),
            20..38 => self.freeze(w),
            38..46 => self.may_stop(w),
            46..54 => self.cut_off(w),
            54..60 => self.fail_server(),
            60..70 => return self.lose_message(),
            70..76 => self.answer_holds(),
            _ => return self.rare_step(),
        }
        true
    }

    fn may_start(&mut self, w: usize) -> bool {
        let may = self.time >= self.paused_until;
        if may {
            self.start(w);
        }
        may
    }

    pub(super) fn may_stop(&mut self, w: usize) {
        if self.workers[w].stop_by.is_none() {
            self.stop(w);
        }
    }

    pub(super) fn crash(&mut self, w: usize) {
        say!(self, "worker {w} is killed");
        self.cover_states(w, Fault::Crash);
        for i in 0..self.workers[w].slots.len() {
            self.cover_crash(w, i);
        }
        self.end_process(w);
    }

    pub(super) fn freeze(&mut self, w: usize) {
        say!(self, "worker {w} is frozen");
        self.cover_states(w, Fault::Freeze);
        self.workers[w].frozen = true;
    }

    /// A stop that was long enough for others to take over is the interesting one.
    fn thaw(&mut self, w: usize) -> bool {
        let (member, empty) = (self.workers[w].member, self.group.members.is_empty());
        let taken_over = member.is_none_or(|id| !self.group.knows(id));
        let may = taken_over && !empty || self.random.percent(25);
        if may {
            say!(self, "worker {w} goes on");
            self.workers[w].frozen = false;
        }
        may
    }

    fn cut_off(&mut self, w: usize) {
        let until = self.time + 500 + self.random.below(30_000);
        say!(self, "worker {w} is cut off from Kafka until {until} ms");
        self.cover_states(w, Fault::KafkaCut);
        let worker = &mut self.workers[w];
        worker.cut_until = until;
        let process = worker.process;
        self.group.connection(w, process).stalled_until = until;
    }

    fn lose_message(&mut self) -> bool {
        use super::world::Body;
        let count = self.network.len();
        let first = self.random.index(count);
        let mut order = (0..count).map(|k| (first + k) % count);
        let losable = order.find(|k| {
            !matches!(
                self.network[*k].body,
                Body::Joined(_) | Body::Removed { .. }
            )
        });
        let Some(k) = losable else {
            return false;
        };
        let lost = self.network.swap_remove(k);
        say!(
            self,
            "lost on the way to worker {}: {:?}",
            lost.worker,
            lost.body
        );
        self.cover_states(lost.worker, Fault::AnswerLost);
        true
    }

    fn cover_crash(&mut self, w: usize, i: usize) {
        let slot = &self.workers[w].slots[i];
        if !slot.owned {
            return;
        }
        let (session, p) = (&slot.session, slot.place.partition);
        let is_new = |stage: Stage| {
            session
                .ranges()
                .iter()
                .any(|range| range.stage == stage && !range.replay)
        };
        let unsent = slot.tasks.iter().any(|task| {
            matches!(task.step, Step::Gate | Step::Checked)
                && !task.was_sent
                && slot.declared.contains(&(task.start, task.end))
        });
        let sent = slot
            .tasks
            .iter()
            .any(|task| matches!(task.step, Step::Sent { .. }));
        let ahead = self.group.positions[p]
            .offset
            .is_some_and(|offset| offset < session.acknowledged());
        let settled = session.ranges().is_empty()
            && session.acknowledged() > 0
            && session.committed() == Some(session.acknowledged());
        let points = [
            (1, is_new(Stage::Cut)),
            (3, unsent),
            (4, sent),
            (5, ahead),
            (6, settled && *session.state() == State::Running),
            (7, self.landed_partly(slot)),
            (8, *session.state() == State::Replaying),
        ];
        for (row, _) in points.into_iter().filter(|(_, met)| *met) {
            self.cover.crash_point(row);
        }
    }

    /// Several ranges are declared; of some the rows are there, of some not.
    fn landed_partly(&self, slot: &Slot) -> bool {
        let has_rows = |task: &&super::worker::Task| {
            let place = Place {
                life: task.life,
                ..slot.place
            };
            (task.start..task.end).any(|offset| self.table.count(place, offset) > 0)
        };
        let declared = || {
            slot.tasks
                .iter()
                .filter(|task| task.rows != 0 && slot.declared.contains(&(task.start, task.end)))
        };
        let landed = declared().filter(has_rows).count();
        landed > 0 && landed < declared().count()
            || (landed == 0
                && declared().count() > 1
                && slot
                    .session
                    .ranges()
                    .iter()
                    .any(|range| range.stage == Stage::Acknowledged))
    }

    pub(super) fn cover_zombies(&mut self, attempt: &Attempt) {
        let worker = &self.workers[attempt.worker];
        let same = worker.process == attempt.process && worker.alive;
        let owns = same
            && worker.slots.iter().any(|slot| {
                slot.id == attempt.session
                    && slot.owned
                    && self.readers[attempt.place.partition] == slot.id
            });
        if !owns && self.table.knows_token(attempt.token) {
            self.cover.crash_point(9);
        }
        if self
            .table
            .inbox
            .iter()
            .any(|other| other.token == attempt.token && other.session != attempt.session)
        {
            self.cover.crash_point(10);
        }
    }

    pub(super) fn cover_start(&mut self, start: &Start, answer: &Answer, p: usize) {
        match start {
            Start::Hold { reason, .. } => self.cover.hold(reason),
            Start::Create { identity, .. } => {
                if identity.epoch.is_reset()
                    && self.group.positions[p].load == answer.load
                    && answer.group[p].metadata.is_empty()
                    && answer.group[p].offset.is_some()
                {
                    self.cover.crash_point(15);
                }
                if p >= self.topic.first_partitions {
                    self.cover.crash_point(25);
                }
            }
            Start::Resume {
                offset,
                plan,
                skip_to,
                ..
            } => {
                let in_plan = plan.ends.last().is_some_and(|end| skip_to < end);
                if skip_to > offset && in_plan && !plan.ends.contains(skip_to) {
                    self.cover.crash_point(16);
                }
            }
        }
    }

    pub(super) fn cover_replay(&mut self, w: usize, i: usize, range: (i64, i64), mapping: usize) {
        let worker = &self.workers[w];
        let slot = &worker.slots[i];
        let newer = worker.mapping > mapping;
        let dead = (range.0..range.1).any(|offset| {
            self.table.is_dead(slot.place, offset) && self.table.count(slot.place, offset) == 0
        });
        let other_size = range.1 - range.0 > worker.batch;
        for (row, _) in [(21, newer), (26, newer && dead), (22, other_size)]
            .into_iter()
            .filter(|(_, met)| *met)
        {
            self.cover.crash_point(row);
        }
        if slot.session.replay_mode() == Some(ReplayMode::Verify) {
            self.cover.hold("(verified)");
        }
    }

    /// The gaps that a session wants recorded are recorded.
    pub(super) fn land_gaps(&mut self, w: usize, i: usize) {
        let slot = &self.workers[w].slots[i];
        let (p, life, session) = (slot.place.partition, self.topic.life, slot.id);
        let id = super::world::TOPIC_IDS[usize::from(life)];
        let gaps: Vec<LostGap> = slot
            .gaps
            .iter()
            .filter(|gap| gap.topic_id == id)
            .map(|gap| LostGap {
                life,
                partition: p,
                start: gap.start,
                end: gap.end,
                only: None,
            })
            .collect();
        let (low, high) = (self.topic.logs[p].low, slot.high);
        let readable = gaps
            .iter()
            .find(|gap| gap.start.max(low) < gap.end.min(high));
        if let Some(gap) = readable.copied() {
            self.violate(|| {
                format!(
                    "session {session} records {}-{} as lost, which Kafka still has in part",
                    gap.start, gap.end
                )
            });
        }
        // What lies behind the end of the log may be written again.
        let gone = gaps.into_iter().map(|gap| LostGap {
            end: gap.end.min(low),
            ..gap
        });
        self.table.gaps.extend(gone);
    }

    /// A person answers holds, as they have to be answered for the records to go on.
    pub(super) fn answer_holds(&mut self) {
        for w in 0..self.workers.len() {
            for i in 0..self.workers[w].slots.len() {
                self.answer_hold(w, i);
            }
        }
    }

    fn answer_hold(&mut self, w: usize, i: usize) {
        let now = self.now(w);
        let slot = &mut self.workers[w].slots[i];
        let State::Held(hold) = slot.session.state() else {
            return;
        };
        let (reason, bit) = (hold.reason, 1 << slot.place.partition);
        match reason {
            "OffsetsGone" | "RetentionPassed" | "OffsetBeyondEnd" | "TopicRecreated" => {
                self.skip |= bit;
            }
            "WindowExceeded" if self.refused & bit != 0 => self.skip_range |= bit,
            "WindowExceeded" => self.insert_again |= bit,
            _ => {}
        }
        slot.session.retry_now(now);
    }
}
