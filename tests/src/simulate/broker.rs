//! The broker at work: requests in the order of their connection, answers that may be late or lost.
//!
//! Must not be here: the rules of the group (`group.rs`).

use clickhouse_sink_crds::facts::TopicFact;
use clickhouse_sink_worker::session::CommitOutcome;

use super::coverage::Fault;
use super::group::{Begin, Commit, Refusal, Request};
use super::scenario::Metadata;
use super::world::{Body, Committed, TOPIC, TOPIC_IDS, World, say};

impl World<'_> {
    /// One thing that the broker does; false where there is nothing.
    pub(super) fn broker_step(&mut self) -> bool {
        if let Some(member) = self.group.expired(self.time) {
            self.expire(member);
            return true;
        }
        if self.group.barrier_is_over() && self.random.percent(40) {
            self.complete_rebalance();
            return true;
        }
        self.handle_request() || self.complete_late()
    }

    fn complete_late(&mut self) -> bool {
        let over = self.group.barrier_is_over();
        if over {
            self.complete_rebalance();
        }
        over
    }

    fn complete_rebalance(&mut self) {
        let answers = self.group.complete(&mut self.random);
        say!(
            self,
            "generation {} begins with {} members",
            self.group.generation,
            answers.len()
        );
        for joined in answers {
            self.send(joined.worker, joined.process, Body::Joined(joined));
        }
    }

    fn expire(&mut self, member: u32) {
        say!(self, "member {member} is expired");
        if let Some((worker, process)) = self.group.remove(member, self.time) {
            self.group.connection(worker, process).blocked = false;
            self.send(worker, process, Body::Removed { member });
        }
    }

    fn handle_request(&mut self) -> bool {
        let count = self.group.connections.len();
        if count == 0 {
            return false;
        }
        let first = self.random.index(count);
        for i in (first..count).chain(0..first) {
            let connection = &mut self.group.connections[i];
            if connection.blocked || connection.stalled_until > self.time {
                continue;
            }
            let (worker, process) = (connection.worker, connection.process);
            if let Some(request) = connection.queue.pop_front() {
                self.serve(worker, process, request);
                return true;
            }
            if self.workers[worker].process != process || !self.workers[worker].alive {
                self.group.connections.remove(i);
                return true;
            }
        }
        false
    }

    fn serve(&mut self, worker: usize, process: u32, request: Request) {
        match request {
            Request::Commit(commit) => self.serve_commit(worker, process, commit),
            Request::Leave { member } => {
                say!(self, "member {member} leaves");
                self.group.remove(member, self.time);
            }
            Request::Join {
                member,
                fresh,
                owned,
            } => {
                if self
                    .group
                    .join(member, fresh, owned, (worker, process), self.time)
                {
                    self.group.connection(worker, process).blocked = true;
                } else {
                    self.send(worker, process, Body::Removed { member });
                }
            }
        }
    }

    fn serve_commit(&mut self, worker: usize, process: u32, commit: Commit) {
        let outcome = self.decide_commit(&commit);
        say!(
            self,
            "broker: commit of session {} at {} {:?}: {outcome:?}",
            commit.session,
            commit.offset,
            commit.declares
        );
        let answer = Committed {
            session: commit.session,
            op: commit.op,
            outcome,
            declares: commit.declares.clone(),
            mapping: mapping_of(&commit.metadata),
            applied_at: self.time,
        };
        if outcome == CommitOutcome::Applied {
            self.apply(commit);
        }
        if !self.calm && self.random.percent(4) {
            return self.lose_answer(worker, &answer);
        }
        self.send(worker, process, Body::Committed(answer));
    }

    fn lose_answer(&mut self, worker: usize, answer: &Committed) {
        say!(self, "the answer to session {} is lost", answer.session);
        let alive = self.workers[worker].alive;
        let Some(slot) = self.workers[worker].slot(answer.session) else {
            return;
        };
        self.cover.state(slot.session.state(), Fault::AnswerLost);
        if alive && answer.outcome == CommitOutcome::Applied {
            self.cover.crash_point(2);
        }
    }

    fn decide_commit(&mut self, commit: &Commit) -> CommitOutcome {
        match self.group.check_commit(commit) {
            Err(Refusal::UnknownMember) => return CommitOutcome::Lost,
            Err(Refusal::IllegalGeneration) => return CommitOutcome::Again,
            Ok(()) => {}
        }
        if matches!(self.scenario.metadata, Metadata::Limited(most) if commit.metadata.len() > most)
        {
            return CommitOutcome::TooLarge;
        }
        if !self.calm && self.random.percent(2) {
            return CommitOutcome::Again;
        }
        CommitOutcome::Applied
    }

    fn apply(&mut self, commit: Commit) {
        self.check_applied(&commit);
        let (second, high) = (
            Self::second_of(commit.sent_at),
            self.topic.logs[commit.partition].high(),
        );
        let position = &mut self.group.positions[commit.partition];
        let before = position.clone();
        let known = |range: &(i64, i64)| {
            before
                .plan
                .iter()
                .find(|(start, end, _)| *start <= range.0 && range.1 <= *end)
        };
        position.plan = commit
            .declares
            .iter()
            .map(|range| {
                (
                    range.0,
                    range.1,
                    known(range).map_or(second, |found| found.2),
                )
            })
            .collect();
        position.offset = Some(commit.offset);
        if commit.load == position.load && !position.begun {
            position.begun = true;
            if position.begin == Begin::First {
                position.begin = Begin::At(commit.offset);
            }
        }
        if before.load == position.load && before.begun && high > 0 {
            position.before = Some(Box::new(super::group::Position {
                before: None,
                ..before
            }));
        }
        position.metadata = if self.scenario.metadata == Metadata::Dropped {
            String::new()
        } else {
            commit.metadata
        };
        self.note_facts();
    }

    /// The operator notes which topics the sink has read.
    fn note_facts(&mut self) {
        let id = TOPIC_IDS[usize::from(self.topic.life)];
        if !self.facts.iter().any(|fact| fact.id == id) {
            self.facts.push(TopicFact {
                name: TOPIC.to_owned(),
                id: id.to_owned(),
                partitions: self.topic.logs.len() as u32,
            });
        }
    }
}

/// The number of the mapping that metadata names.
pub(super) fn mapping_of(metadata: &str) -> usize {
    let hash = metadata
        .split(";m=")
        .nth(1)
        .and_then(|rest| rest.split(';').next());
    hash.and_then(|hash| hash.bytes().last())
        .map_or(0, |digit| usize::from(digit - b'0'))
}

/// The second of the first declaration that metadata names.
pub(super) fn declared_at_of(metadata: &str) -> u64 {
    let text = metadata
        .split(";w=")
        .nth(1)
        .and_then(|rest| rest.split(';').next());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_by_its_keys() {
        let text = "cs1;s=1;d=0a1b2c3d;m=ab12cd32;w=77;q=1;p=";
        assert_eq!((mapping_of(text), declared_at_of(text)), (2, 77));
        assert_eq!((mapping_of(""), declared_at_of("")), (0, 0));
    }
}
