//! The broker's side of the consumer group: members, generations, connections, committed positions.
//!
//! Classic protocol, cooperative: a join blocks its connection until every member has joined or was expired.
//! Must not be here: what the clients do.

use std::collections::VecDeque;

use super::random::Random;

/// A member that does not show itself for so long is expired.
pub(super) const SESSION_MS: u64 = 12_000;
/// A member that does not join for so long is expired.
pub(super) const REBALANCE_MS: u64 = 60_000;

/// A commit on its way.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) session: u32,
    pub(super) op: u32,
    pub(super) partition: usize,
    pub(super) load: u16,
    /// Absent: the generation is -1.
    pub(super) member: Option<u32>,
    pub(super) generation: i32,
    pub(super) offset: i64,
    pub(super) metadata: String,
    pub(super) declares: Vec<(i64, i64)>,
    pub(super) sent_at: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Commit(Commit),
    /// Partitions owned, as bits.
    Join {
        member: u32,
        fresh: bool,
        owned: u8,
    },
    Leave {
        member: u32,
    },
}

/// A worker's connection to the coordinator: one request at a time, in order.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) worker: usize,
    pub(super) process: u32,
    pub(super) queue: VecDeque<Request>,
    /// A join waits for the others.
    pub(super) blocked: bool,
    pub(super) stalled_until: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: u32,
    pub(super) worker: usize,
    pub(super) process: u32,
    pub(super) seen: u64,
    pub(super) joined: bool,
    pub(super) owned: u8,
}

/// What a load of a position has to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// As `startFrom` says.
    First,
    /// All from here on.
    At(i64),
}

/// A committed position and the truth about it.
#[derive(Clone, Debug)]
pub(super) struct Position {
    pub(super) offset: Option<i64>,
    pub(super) metadata: String,
    /// Ranges that it declares, with the second of their first declaration.
    pub(super) plan: Vec<(i64, i64, u64)>,
    /// Counts the moves by somebody else.
    pub(super) load: u16,
    pub(super) begin: Begin,
    /// True once a session of this load has committed.
    pub(super) begun: bool,
    /// What a coordinator that has lost the last commit knows.
    pub(super) before: Option<Box<Self>>,
}

impl Position {
    pub(super) const fn new(begin: Begin, load: u16) -> Self {
        Self {
            offset: None,
            metadata: String::new(),
            plan: Vec::new(),
            load,
            begin,
            begun: false,
            before: None,
        }
    }
}

/// The answer to a join.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    pub(super) worker: usize,
    pub(super) process: u32,
    pub(super) member: u32,
    pub(super) generation: i32,
    /// Partitions, as bits.
    pub(super) assigned: u8,
}

/// Why a commit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    UnknownMember,
    IllegalGeneration,
}

/// The group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) members: Vec<Member>,
    pub(super) generation: i32,
    /// Since when a rebalance is on.
    pub(super) preparing: Option<u64>,
    pub(super) positions: Vec<Position>,
    pub(super) connections: Vec<Connection>,
}

impl Group {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            members: Vec::with_capacity(4),
            generation: 0,
            preparing: None,
            positions: (0..partitions)
                .map(|_| Position::new(Begin::First, 0))
                .collect(),
            connections: Vec::with_capacity(4),
        }
    }

    pub(super) fn member(&mut self, id: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    pub(super) fn knows(&self, id: u32) -> bool {
        self.members.iter().any(|member| member.id == id)
    }

    pub(super) fn connection(&mut self, worker: usize, process: u32) -> &mut Connection {
        let found = self
            .connections
            .iter()
            .position(|one| (one.worker, one.process) == (worker, process));
        let index = found.unwrap_or_else(|| {
            self.connections.push(Connection {
                worker,
                process,
                queue: VecDeque::with_capacity(8),
                blocked: false,
                stalled_until: 0,
            });
            self.connections.len() - 1
        });
        &mut self.connections[index]
    }

    /// What the broker checks: member and generation, never the partition.
    pub(super) fn check_commit(&self, commit: &Commit) -> Result<(), Refusal> {
        let Some(id) = commit.member else {
            return if self.members.is_empty() {
                Ok(())
            } else {
                Err(Refusal::UnknownMember)
            };
        };
        if !self.knows(id) {
            return Err(Refusal::UnknownMember);
        }
        if commit.generation == self.generation {
            Ok(())
        } else {
            Err(Refusal::IllegalGeneration)
        }
    }

    /// False where the member is not known any more.
    pub(super) fn join(
        &mut self,
        id: u32,
        fresh: bool,
        owned: u8,
        from: (usize, u32),
        now: u64,
    ) -> bool {
        if fresh {
            self.members.push(Member {
                id,
                worker: from.0,
                process: from.1,
                seen: now,
                joined: false,
                owned: 0,
            });
        }
        let Some(member) = self.member(id) else {
            return false;
        };
        (member.joined, member.owned, member.seen) = (true, owned, now);
        self.preparing.get_or_insert(now);
        true
    }

    /// Members join again: one has left, or the topic has grown.
    pub(super) fn prepare(&mut self, now: u64) {
        if self.members.is_empty() {
            self.preparing = None;
        } else {
            self.preparing.get_or_insert(now);
        }
    }

    /// Removes a member; the connection that its join blocks, if any.
    pub(super) fn remove(&mut self, id: u32, now: u64) -> Option<(usize, u32)> {
        let place = self.members.iter().position(|member| member.id == id)?;
        let member = self.members.remove(place);
        self.prepare(now);
        member.joined.then_some((member.worker, member.process))
    }

    /// A member whose time is over.
    pub(super) fn expired(&self, now: u64) -> Option<u32> {
        let too_slow = self
            .preparing
            .is_some_and(|since| now > since + REBALANCE_MS);
        let expired =
            |member: &&Member| now > member.seen + SESSION_MS || (too_slow && !member.joined);
        self.members.iter().find(expired).map(|member| member.id)
    }

    pub(super) fn barrier_is_over(&self) -> bool {
        self.preparing.is_some()
            && !self.members.is_empty()
            && self.members.iter().all(|member| member.joined)
    }

    /// A new generation: what is owned stays where it may, and moves only once its owner has given it up.
    pub(super) fn complete(&mut self, random: &mut Random) -> Vec<Joined> {
        self.generation += 1;
        self.preparing = None;
        let partitions = self.positions.len();
        let wanted = self.wanted(partitions, random);
        let owned: u8 = self
            .members
            .iter()
            .fold(0, |sum, member| sum | member.owned);
        let answers = self.members.iter_mut().zip(wanted).map(|(member, wanted)| {
            let assigned = wanted & (member.owned | !owned);
            (member.joined, member.owned) = (false, assigned);
            Joined {
                worker: member.worker,
                process: member.process,
                member: member.id,
                generation: self.generation,
                assigned,
            }
        });
        let answers: Vec<Joined> = answers.collect();
        for joined in &answers {
            self.connection(joined.worker, joined.process).blocked = false;
        }
        answers
    }

    /// Sticky, and even; sometimes not sticky at all.
    fn wanted(&self, partitions: usize, random: &mut Random) -> Vec<u8> {
        let members = self.members.len();
        let most = partitions.div_ceil(members);
        let shift = random.percent(15).then(|| random.index(members));
        let mut wanted = vec![0_u8; members];
        for partition in 0..partitions {
            let owner = self
                .members
                .iter()
                .position(|member| member.owned & (1 << partition) != 0);
            let preferred = match shift {
                Some(shift) => Some((partition + shift) % members),
                None => owner,
            };
            let has_room = |index: usize| (wanted[index].count_ones() as usize) < most;
            let target = preferred.filter(|index| has_room(*index));
            let target =
                target.or_else(|| (0..members).min_by_key(|index| wanted[*index].count_ones()));
            wanted[target.unwrap_or(0)] |= 1 << partition;
        }
        wanted
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn commit(member: Option<u32>, generation: i32) -> Commit {
        Commit {
            session: 1,
            op: 1,
            partition: 0,
            load: 0,
            member,
            generation,
            offset: 0,
            metadata: String::new(),
            declares: Vec::new(),
            sent_at: 0,
        }
    }

    #[test]
    fn a_commit_without_a_member_passes_only_into_an_empty_group() {
        let mut group = Group::new(2);
        assert_eq!(group.check_commit(&commit(None, -1)), Ok(()));
        group.join(7, true, 0, (0, 1), 0);
        group.complete(&mut Random::new(1));
        assert_eq!(
            group.check_commit(&commit(None, -1)),
            Err(Refusal::UnknownMember)
        );
        assert_eq!(group.check_commit(&commit(Some(7), 1)), Ok(()));
        assert_eq!(
            group.check_commit(&commit(Some(7), 0)),
            Err(Refusal::IllegalGeneration)
        );
        assert_eq!(
            group.check_commit(&commit(Some(8), 1)),
            Err(Refusal::UnknownMember)
        );
    }

    #[test]
    fn a_partition_moves_only_after_its_owner_has_given_it_up() {
        let (mut group, mut random) = (Group::new(2), Random::new(2));
        group.join(1, true, 0, (0, 1), 0);
        assert_eq!(group.complete(&mut random)[0].assigned, 0b11);
        group.join(2, true, 0, (1, 1), 0);
        assert!(!group.barrier_is_over());
        group.join(1, false, 0b11, (0, 1), 0);
        let first = group.complete(&mut random);
        assert_eq!(
            first
                .iter()
                .map(|joined| joined.assigned.count_ones())
                .sum::<u32>(),
            1
        );
        group.join(1, false, first[0].assigned, (0, 1), 0);
        group.join(2, false, 0, (1, 1), 0);
        let second = group.complete(&mut random);
        assert_eq!(second[0].assigned | second[1].assigned, 0b11);
        assert_eq!(second[0].assigned & second[1].assigned, 0);
    }

    #[test]
    fn a_silent_member_is_expired_and_the_others_rebalance() {
        let mut group = Group::new(1);
        group.join(1, true, 0, (0, 1), 0);
        assert_eq!(group.expired(SESSION_MS), None);
        assert_eq!(group.expired(SESSION_MS + 1), Some(1));
        assert_eq!(group.remove(1, 0), Some((0, 1)));
        assert_eq!((group.members.len(), group.preparing), (0, None));
    }
}
