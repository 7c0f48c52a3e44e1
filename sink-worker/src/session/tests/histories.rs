//! Random histories of one session against a broker and a table that remember everything: I1 to I5 hold at each step.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::session::gate::MaySend;

#[derive(Clone, Debug)]
enum Step {
    Cut(i64),
    /// A range is sent where the gate lets it.
    Send(usize),
    /// A range that was sent is acknowledged.
    Acknowledge(usize),
    Split(usize, i64),
    Stop(usize),
    Commit,
    Answer(u8),
    ReadOn,
    Look,
    Wait(u64),
    Drain,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1_i64..40).prop_map(Step::Cut),
        8 => (0_usize..12).prop_map(Step::Send),
        8 => (0_usize..12).prop_map(Step::Acknowledge),
        2 => (0_usize..12, 1_i64..39).prop_map(|(range, at)| Step::Split(range, at)),
        1 => (0_usize..12).prop_map(Step::Stop),
        10 => Just(Step::Commit),
        10 => (0_u8..24).prop_map(Step::Answer),
        4 => Just(Step::ReadOn),
        4 => Just(Step::Look),
        3 => (1_u64..40).prop_map(Step::Wait),
        1 => Just(Step::Drain),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 0..160)
}

/// What happened outside of the session.
struct World {
    now: Now,
    /// What the broker holds, and since when it has held these ranges without a break.
    broker: CommitMetadata,
    outstanding: Option<(CommitRequest, Now)>,
    retried: Option<String>,
    /// Ranges that a commit of this session, acknowledged, declares; with the time at which it was sent.
    declared: BTreeSet<(i64, i64)>,
    declared_at: Option<Now>,
    sent: BTreeSet<(i64, i64)>,
    acknowledged: BTreeSet<(i64, i64)>,
    /// Offsets of refused ranges, which may be redrawn.
    redrawn: BTreeSet<(i64, i64)>,
}

impl World {
    fn new(now: Now, offset: i64, ends: &[i64]) -> Self {
        let broker = CommitMetadata {
            offset,
            table: context().table,
            topic_id: identity().topic_id,
            first_partitions: 2,
            epoch: identity().epoch,
            mapping: EARLIER.into(),
            declared_at_s: if ends.is_empty() { 0 } else { DECLARED_S },
            sequence: 4,
            ends: ends.to_vec(),
        };
        Self {
            now,
            broker,
            outstanding: None,
            retried: None,
            declared: BTreeSet::new(),
            declared_at: None,
            sent: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            redrawn: BTreeSet::new(),
        }
    }

    fn start(&self) -> Start {
        Start::Resume {
            offset: self.broker.offset,
            identity: identity(),
            sequence: self.broker.sequence,
            plan: Plan {
                ends: self.broker.ends.clone(),
                mapping: self.broker.mapping.clone(),
                declared_at_s: self.broker.declared_at_s,
            },
            skip_to: self.broker.offset,
            gaps: Vec::new(),
        }
    }

    /// Everything before it is acknowledged, by ranges that touch.
    fn covers(&self, from: i64, to: i64) -> bool {
        let mut at = from;
        while at < to {
            match self.acknowledged.iter().find(|range| range.0 == at) {
                Some(range) => at = range.1,
                None => return false,
            }
        }
        at == to
    }

    fn plan(metadata: &CommitMetadata) -> Vec<(i64, i64)> {
        let starts = std::iter::once(metadata.offset).chain(metadata.ends.iter().copied());
        starts.zip(metadata.ends.iter().copied()).collect()
    }

    fn check_commit(&self, request: &CommitRequest) -> Result<(), TestCaseError> {
        let metadata = metadata(request);
        prop_assert!(self.outstanding.is_none(), "I4: one outstanding commit");
        if let Some(retried) = &self.retried {
            prop_assert_eq!(retried, &request.metadata, "I4: a retry is the same bytes");
            return Ok(());
        }
        prop_assert!(metadata.sequence > self.broker.sequence, "I4: q grows");
        prop_assert!(
            self.covers(self.broker.offset, request.offset),
            "I2: the offset passes only what is acknowledged"
        );
        prop_assert!(
            metadata.ends.len() <= MAX_SPLITTING,
            "I3: at most 32 ranges"
        );
        let plan = Self::plan(&metadata);
        prop_assert_eq!(&plan, &request.declares);
        for old in Self::plan(&self.broker)
            .iter()
            .filter(|old| old.1 > request.offset)
        {
            prop_assert!(
                plan.contains(old) || self.redrawn.contains(old),
                "I3: {:?} was declared and is not any more",
                old
            );
        }
        if metadata.offset == self.broker.offset
            && !metadata.ends.is_empty()
            && !self.broker.ends.is_empty()
        {
            prop_assert_eq!(
                metadata.declared_at_s,
                self.broker.declared_at_s,
                "w stays while the oldest range does"
            );
        }
        Ok(())
    }

    fn apply(&mut self, request: &CommitRequest, sent_at: Now) {
        self.broker = metadata(request);
        self.declared = request.declares.iter().copied().collect();
        self.declared_at = Some(sent_at);
        self.retried = None;
    }

    fn answer(&mut self, session: &mut Session, kind: u8) {
        let Some((request, sent_at)) = self.outstanding.take() else {
            return;
        };
        let outcome = match kind {
            0..=14 => CommitOutcome::Applied,
            // A broker that may have taken these bytes does not find them too long.
            15..=16 if self.retried.is_none() => CommitOutcome::TooLarge,
            23 => CommitOutcome::Lost,
            _ => CommitOutcome::Again,
        };
        match outcome {
            CommitOutcome::Applied => self.apply(&request, sent_at),
            // Applied or not, the session cannot know.
            CommitOutcome::Again => {
                if kind.is_multiple_of(2) {
                    self.broker = metadata(&request);
                }
                self.retried = Some(request.metadata);
            }
            _ => self.retried = None,
        }
        session.on_commit(outcome, self.now, 1);
    }

    /// I1 and I5: only a range that an acknowledged commit declares exactly, while that is young and the gate is open.
    fn send(&mut self, session: &Session, range: (i64, i64)) -> Result<(), TestCaseError> {
        if may(session, range.0, range.1, self.now) != MaySend::Yes {
            return Ok(());
        }
        prop_assert!(session.gate_open(), "I1: the gate is open");
        prop_assert!(
            self.declared.contains(&range),
            "I1: {:?} is declared",
            range
        );
        let at = self.declared_at.unwrap();
        prop_assert!(
            self.now.boot < at.boot + AGE,
            "I1: the declaration is young"
        );
        let within = |other: &(i64, i64)| *other != range && other.0 < range.1 && range.0 < other.1;
        prop_assert!(
            !self
                .sent
                .iter()
                .filter(|other| !self.redrawn.contains(other))
                .any(within),
            "I5: {:?} overlaps",
            range
        );
        self.sent.insert(range);
        Ok(())
    }
}

fn open_range(session: &Session, index: usize) -> Option<(i64, i64)> {
    let handed_over: Vec<_> = session.ranges().iter().filter(|range| range.sent).collect();
    let range = handed_over.get(index)?;
    Some((range.start, range.end))
}

fn step(session: &mut Session, world: &mut World, step: &Step) -> Result<(), TestCaseError> {
    match *step {
        Step::Cut(size) if session.may_cut() => session.on_cut(session.cut_end() + size),
        Step::Cut(_) => {}
        Step::Send(index) => {
            if let Some(range) = open_range(session, index) {
                world.send(session, range)?;
            }
        }
        Step::Acknowledge(index) => {
            if let Some(range) =
                open_range(session, index).filter(|range| world.sent.contains(range))
            {
                world.acknowledged.insert(range);
                session.on_acknowledged(range.0, range.1, world.now);
            }
        }
        Step::Split(index, at) => refuse(session, world, index, at),
        Step::Stop(index) => {
            if let Some((start, end)) = open_range(session, index) {
                session.on_stopped(start, end, "WindowExceeded", String::new(), world.now);
            }
        }
        Step::Commit => {
            if let Some(request) = session.next_commit(&context(), world.now) {
                world.check_commit(&request)?;
                world.outstanding = Some((request, world.now));
            }
        }
        Step::Answer(kind) => world.answer(session, kind),
        Step::ReadOn => read_on(session),
        Step::Look => {
            if session.wants_position(world.now) {
                session.on_start(world.start(), world.now);
                world.declared.clear();
            }
        }
        Step::Wait(seconds) => world.now = world.now.after(Duration::from_secs(seconds)),
        Step::Drain => session.start_drain(),
        Step::Close => session.close(),
    }
    Ok(())
}

/// A record of the range is refused: it may be redrawn, since nothing of it is in the table.
fn refuse(session: &mut Session, world: &mut World, index: usize, at: i64) {
    let Some(range) = open_range(session, index) else {
        return;
    };
    if world.sent.contains(&range) && !world.acknowledged.contains(&range) && range.0 + at < range.1
    {
        world.redrawn.insert(range);
        session.on_split(range.0, range.1, range.0 + at);
    }
}

/// The next range of a replay was read to its end.
fn read_on(session: &mut Session) {
    if session.wants_window().is_some() {
        session.on_window(ReplayMode::Replay);
    }
    let reading = session.reading().filter(|reading| !reading.ends.is_empty());
    if let Some(reading) = reading {
        session.on_replay_sent(reading.start, reading.ends[0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn in_any_history_the_invariants_hold_at_every_step(ends in prop::collection::btree_set(11_i64..90, 0..5), steps in steps()) {
        let ends: Vec<i64> = ends.into_iter().collect();
        let now = start();
        let mut session = exactly_once();
        let mut world = World::new(now, 10, &ends);
        session.on_start(world.start(), now);
        for next in &steps {
            let was_open = session.gate_open();
            step(&mut session, &mut world, next)?;
            prop_assert!(was_open || !session.gate_open(), "a closed gate stays closed");
            prop_assert!(session.ranges().len() <= MAX_SPLITTING);
        }
    }

    #[test]
    fn after_any_history_a_calm_broker_brings_the_session_to_its_end(steps in steps()) {
        let now = start();
        let mut session = exactly_once();
        let mut world = World::new(now, 10, &[20, 40]);
        session.on_start(world.start(), now);
        for next in &steps {
            step(&mut session, &mut world, next)?;
        }
        for _ in 0..400 {
            world.now = world.now.after(Duration::from_secs(1));
            for calm in [Step::Commit, Step::Answer(0), Step::ReadOn] {
                step(&mut session, &mut world, &calm)?;
            }
            for index in (0..MAX_SPLITTING).rev() {
                step(&mut session, &mut world, &Step::Send(index))?;
                step(&mut session, &mut world, &Step::Acknowledge(index))?;
            }
            step(&mut session, &mut world, &Step::Look)?;
        }
        let end = session.cut_end();
        let draining = matches!(session.state(), State::Draining | State::Closed);
        prop_assert!(session.is_drained(), "{:?}", session);
        prop_assert!(draining || (session.state() == &State::Running && session.committed() == Some(end)), "{:?}", session);
    }
}
