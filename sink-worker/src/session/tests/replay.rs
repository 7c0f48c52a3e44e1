//! Replays: ranges of an earlier session, exactly as they were cut.

use super::*;
use crate::session::gate::MaySend;

#[test]
fn a_replay_reads_the_exact_ends_and_only_once_the_window_was_asked_for() {
    let (mut session, _) = began(Guarantee::ExactlyOnce, 10, &[20, 35]);
    assert_eq!(session.wants_window(), Some(DECLARED_S));
    assert_eq!(session.reading(), None);
    session.on_window(ReplayMode::Verify);
    assert_eq!(
        (session.wants_window(), session.replay_mode()),
        (None, Some(ReplayMode::Verify))
    );
    let reading = session.reading().unwrap();
    assert_eq!(
        (reading.start, reading.from, reading.ends),
        (10, 10, vec![20, 35])
    );
    assert_eq!(session.plan_mapping(), Some(EARLIER));
}

#[test]
fn nothing_new_is_cut_before_the_plan_is_empty_and_then_from_its_end() {
    let (mut session, now) = replaying(10, &[20, 35]);
    assert!(!session.may_cut());
    session.on_replay_sent(10, 20);
    session.on_replay_sent(20, 35);
    session.on_acknowledged(20, 35, now);
    assert_eq!(
        (session.state(), session.may_cut()),
        (&State::Replaying, false)
    );
    session.on_acknowledged(10, 20, now);
    assert_eq!(
        (session.state(), session.may_cut()),
        (&State::Running, true)
    );
    assert_eq!(
        session.reading().unwrap(),
        Reading {
            start: 35,
            from: 35,
            ends: Vec::new()
        }
    );
    session.on_cut(50);
    let metadata = commit(&mut session, now);
    assert_eq!((metadata.offset, metadata.ends.as_slice()), (35, &[50][..]));
    assert_eq!(
        (metadata.mapping.as_str(), metadata.declared_at_s),
        (CURRENT, 5000)
    );
}

#[test]
fn the_mapping_and_the_time_of_the_plan_stay_while_any_of_it_is_left() {
    let (mut session, now) = replaying(10, &[20, 35]);
    session.on_replay_sent(10, 20);
    session.on_acknowledged(10, 20, now);
    let metadata = commit(&mut session, now.after(LINGER));
    assert_eq!((metadata.offset, metadata.ends.as_slice()), (20, &[35][..]));
    assert_eq!(
        (metadata.mapping.as_str(), metadata.declared_at_s),
        (EARLIER, DECLARED_S)
    );
}

#[test]
fn a_replay_that_waits_for_its_turn_is_declared_again_before_it_is_sent() {
    let (mut session, now) = replaying(10, &[20]);
    let late = now.after(AGE * 3);
    assert_eq!(
        session.next_commit(&context(), late),
        None,
        "nothing is on its way"
    );
    session.on_replay_sent(10, 20);
    assert_eq!(may(&session, 10, 20, late), MaySend::NotYet);
    let metadata = commit(&mut session, late);
    assert_eq!(
        (metadata.ends.as_slice(), metadata.declared_at_s),
        (&[20][..], DECLARED_S)
    );
    assert_eq!(may(&session, 10, 20, late), MaySend::Yes);
}

#[test]
fn at_least_once_replays_a_plan_that_it_finds_before_anything_else() {
    let (mut session, now) = began(Guarantee::AtLeastOnce, 10, &[20]);
    session.on_window(ReplayMode::Replay);
    assert_eq!(session.reading().unwrap().ends, [20]);
    assert!(!session.may_cut());
    assert_eq!(
        may(&session, 10, 20, now),
        MaySend::Yes,
        "declared by this session's first commit"
    );
    assert_eq!(
        may(&session, 10, 20, now.after(AGE)),
        MaySend::NotYet,
        "for no longer than any other"
    );
    session.on_replay_sent(10, 20);
    session.on_acknowledged(10, 20, now);
    let metadata = commit(&mut session, now);
    assert_eq!((metadata.offset, metadata.ends.len()), (20, 0));
    assert!(session.may_cut());
    session.on_cut(30);
    assert_eq!(may(&session, 20, 30, now), MaySend::Yes);
    assert_eq!(session.next_commit(&context(), now), None);
}

#[test]
fn records_that_retention_took_from_a_declared_range_are_left_out_of_it() {
    let now = start();
    let mut session = exactly_once();
    let Start::Resume {
        offset,
        identity,
        sequence,
        plan,
        gaps,
        ..
    } = found(10, &[20, 35, 50])
    else {
        unreachable!("a resume")
    };
    session.on_start(
        Start::Resume {
            offset,
            identity,
            sequence,
            plan,
            gaps,
            skip_to: 30,
        },
        now,
    );
    let first = commit(&mut session, now);
    assert_eq!(
        (first.offset, first.ends.as_slice()),
        (10, &[20, 35, 50][..]),
        "the plan as it was read"
    );
    session.on_window(ReplayMode::Replay);
    let reading = session.reading().unwrap();
    assert_eq!(
        (reading.start, reading.from, reading.ends),
        (20, 30, vec![35, 50]),
        "under the tokens of before"
    );
    let tail = commit(&mut session, now.after(LINGER));
    assert_eq!((tail.offset, tail.ends.as_slice()), (20, &[35, 50][..]));
}

#[test]
fn a_plan_that_retention_took_as_a_whole_is_done_with() {
    let now = start();
    let mut session = exactly_once();
    let Start::Resume {
        offset,
        identity,
        sequence,
        plan,
        gaps,
        ..
    } = found(10, &[20])
    else {
        unreachable!("a resume")
    };
    session.on_start(
        Start::Resume {
            offset,
            identity,
            sequence,
            plan,
            gaps,
            skip_to: 70,
        },
        now,
    );
    let metadata = commit(&mut session, now);
    assert_eq!(
        (
            metadata.offset,
            metadata.ends.len(),
            metadata.mapping.as_str()
        ),
        (70, 0, CURRENT)
    );
    assert_eq!(
        session.reading().unwrap(),
        Reading {
            start: 70,
            from: 70,
            ends: Vec::new()
        }
    );
}
