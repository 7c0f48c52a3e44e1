//! The session's machine, by examples and by random histories.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use clickhouse_sink_crds::commit::Epoch;
use proptest::prelude::*;

use super::*;

fn identity() -> Identity {
    Identity {
        topic_id: "dG9waWMtaWQtMQ".into(),
        epoch: Epoch::from_random(0xab, false),
        first_partitions: 2,
    }
}

fn context() -> CommitContext {
    CommitContext {
        table: "0a1b2c3d".into(),
        mapping: "ab12cd34".into(),
    }
}

fn running(offset: i64) -> (Session, Instant) {
    let now = Instant::now();
    let mut session = Session::new(now);
    let read = session.on_start(
        Start::Resume {
            offset,
            identity: identity(),
            sequence: 4,
        },
        now,
    );
    assert_eq!(read, Some(offset));
    (session, now)
}

#[test]
fn nothing_is_read_before_the_first_position_is_committed() {
    let now = Instant::now();
    let mut session = Session::new(now);
    assert_eq!(
        session.on_start(
            Start::Create {
                offset: 7,
                identity: identity()
            },
            now
        ),
        None
    );
    assert!(!session.reads());
    let commit = session.next_commit(&context(), now).unwrap();
    assert_eq!(commit.offset, 7);
    let metadata = CommitMetadata::parse(commit.metadata.as_bytes()).unwrap();
    assert_eq!((metadata.offset, metadata.ends.len()), (7, 0));
    assert_eq!(metadata.epoch, Epoch::from_random(0xab, false));
    assert_eq!(session.on_commit(CommitOutcome::Applied, now, 0), Some(7));
    assert!(session.reads());
}

#[test]
fn the_offset_moves_only_over_a_prefix_of_acknowledged_ranges() {
    let (mut session, now) = running(10);
    session.on_cut(20);
    session.on_cut(30);
    session.on_acknowledged(20, 30, now);
    assert_eq!(session.acknowledged(), 10);
    assert_eq!(session.next_commit(&context(), now), None);
    session.on_acknowledged(10, 20, now);
    assert_eq!(session.acknowledged(), 30);
    assert_eq!(session.next_commit(&context(), now).unwrap().offset, 30);
}

#[test]
fn a_commit_of_unknown_outcome_is_sent_again_with_the_same_bytes_and_alone() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.on_acknowledged(0, 5, now);
    let first = session.next_commit(&context(), now).unwrap();
    session.on_cut(9);
    session.on_acknowledged(5, 9, now);
    assert_eq!(
        session.next_commit(&context(), now),
        None,
        "one outstanding commit"
    );
    session.on_commit(CommitOutcome::Again, now, 0);
    let due = session.commit_due().unwrap();
    assert_eq!(
        session.next_commit(&context(), now),
        None,
        "not before its time"
    );
    let again = session.next_commit(&context(), due).unwrap();
    assert_eq!(
        (again.offset, &again.metadata, again.alone),
        (first.offset, &first.metadata, true)
    );
    session.on_commit(CommitOutcome::Applied, due, 0);
    assert_eq!(session.next_commit(&context(), due).unwrap().offset, 9);
}

#[test]
fn nothing_passes_a_closed_gate() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.close();
    session.on_acknowledged(0, 5, now);
    assert_eq!(session.acknowledged(), 0);
    assert_eq!(session.next_commit(&context(), now), None);
    assert_eq!(
        session.on_start(
            Start::Resume {
                offset: 3,
                identity: identity(),
                sequence: 1
            },
            now
        ),
        None
    );
    assert!(session.is_drained());
}

#[test]
fn an_answer_that_comes_after_the_gate_was_closed_changes_nothing() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.on_acknowledged(0, 5, now);
    session.next_commit(&context(), now).unwrap();
    session.close();
    assert_eq!(session.on_commit(CommitOutcome::Applied, now, 0), None);
    assert_eq!(session.committed(), Some(0));
}

#[test]
fn a_session_is_drained_when_all_is_acknowledged_and_committed() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.start_drain();
    assert!(!session.is_drained());
    session.on_acknowledged(0, 5, now);
    assert!(!session.is_drained(), "not committed yet");
    session.next_commit(&context(), now).unwrap();
    assert!(!session.is_drained(), "not answered yet");
    session.on_commit(CommitOutcome::Applied, now, 0);
    assert!(session.is_drained());
}

#[test]
fn a_lost_member_closes_the_gate_by_itself() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.on_acknowledged(0, 5, now);
    session.next_commit(&context(), now).unwrap();
    session.on_commit(CommitOutcome::Lost, now, 0);
    assert!(!session.gate_open());
}

#[test]
fn a_hold_keeps_its_beginning_while_its_reason_stays() {
    let (mut session, now) = running(0);
    session.hold("RetentionPassed", "gone".into(), now);
    let later = now + HOLD_RETRY;
    assert!(!session.wants_position(now));
    assert!(session.wants_position(later));
    session.hold("RetentionPassed", "still gone".into(), later);
    let State::Held(hold) = session.state() else {
        panic!("held")
    };
    assert_eq!(hold.since, now);
    assert_eq!(
        session.on_start(
            Start::Resume {
                offset: 0,
                identity: identity(),
                sequence: 1
            },
            later
        ),
        Some(0)
    );
    assert!(session.reads());
}

#[test]
fn a_held_session_waits_for_what_is_in_flight_before_it_looks_again() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.hold("UnknownError", "x".into(), now);
    assert!(!session.wants_position(now + HOLD_RETRY));
    session.on_acknowledged(0, 5, now);
    assert!(session.wants_position(now + HOLD_RETRY));
}

#[derive(Clone, Debug)]
enum Step {
    Cut(i64),
    Acknowledge(usize),
    Commit,
    Answer(u8),
    Drain,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_i64..5).prop_map(Step::Cut),
        4 => (0_usize..6).prop_map(Step::Acknowledge),
        4 => Just(Step::Commit),
        4 => (0_u8..10).prop_map(Step::Answer),
        1 => Just(Step::Drain),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn in_any_history_the_committed_offset_never_passes_an_unacknowledged_range(steps in steps()) {
        let (mut session, mut now) = running(0);
        let mut ranges: Vec<(i64, i64, bool)> = Vec::new();
        let mut outstanding: Option<CommitRequest> = None;
        let mut highest = 0;
        for step in steps {
            now += Duration::from_millis(400);
            let open = session.gate_open();
            match step {
                Step::Cut(size) if session.reads() => {
                    ranges.push((session.cut_end(), session.cut_end() + size, false));
                    session.on_cut(session.cut_end() + size);
                }
                Step::Acknowledge(index) => if let Some(range) = ranges.get_mut(index) {
                    session.on_acknowledged(range.0, range.1, now);
                    range.2 |= open;
                },
                Step::Commit => if let Some(request) = session.next_commit(&context(), now) {
                    prop_assert!(open, "no commit through a closed gate");
                    prop_assert!(outstanding.is_none(), "one outstanding commit");
                    let prefix = ranges.iter().take_while(|range| range.2).last().map_or(0, |range| range.1);
                    prop_assert!(request.offset <= prefix, "committed {} of {}", request.offset, prefix);
                    prop_assert!(request.offset >= highest, "an offset goes back");
                    let metadata = CommitMetadata::parse(request.metadata.as_bytes()).unwrap();
                    prop_assert_eq!(metadata.offset, request.offset);
                    outstanding = Some(request);
                },
                Step::Answer(kind) => if let Some(request) = outstanding.take() {
                    let outcome = match kind { 0..6 => CommitOutcome::Applied, 6..9 => CommitOutcome::Again, _ => CommitOutcome::Lost };
                    if outcome == CommitOutcome::Applied && open { highest = request.offset; }
                    session.on_commit(outcome, now, 1);
                },
                Step::Drain => session.start_drain(),
                Step::Close => session.close(),
                Step::Cut(_) => {}
            }
        }
    }
}
