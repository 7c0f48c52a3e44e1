//! Splits: the one way in which a declared range is redrawn.

use super::*;
use crate::session::gate::MaySend;

/// Ranges of 16 offsets from 0 on, declared.
fn sent(ranges: i64) -> (Session, Now) {
    let (mut session, now) = running(0);
    (1..=ranges).for_each(|range| session.on_cut(16 * range));
    commit(&mut session, now);
    (session, now)
}

#[test]
fn a_split_range_may_be_sent_no_more_and_its_halves_only_once_they_are_declared() {
    let (mut session, now) = sent(2);
    session.on_split(0, 16, 8);
    assert_eq!(may(&session, 0, 16, now), MaySend::NotYet);
    assert_eq!(may(&session, 0, 8, now), MaySend::NotYet);
    assert_eq!(commit(&mut session, now).ends, [8, 16, 32]);
    for half in [(0, 8), (8, 16), (16, 32)] {
        assert_eq!(may(&session, half.0, half.1, now), MaySend::Yes);
    }
    assert_eq!(may(&session, 0, 16, now), MaySend::NotYet);
}

#[test]
fn a_split_keeps_the_time_and_the_mapping_of_its_range() {
    let (mut session, now) = replaying(0, &[16]);
    session.on_replay_sent(0, 16);
    session.on_split(0, 16, 8);
    let metadata = commit(&mut session, now);
    assert_eq!(metadata.ends, [8, 16]);
    assert_eq!(
        (metadata.mapping.as_str(), metadata.declared_at_s),
        (EARLIER, DECLARED_S)
    );
}

#[test]
fn nothing_new_is_cut_while_a_range_is_refined() {
    let (mut session, now) = sent(1);
    session.on_split(0, 16, 8);
    commit(&mut session, now);
    assert!(!session.may_cut());
    session.on_acknowledged(0, 8, now);
    assert!(!session.may_cut());
    session.on_acknowledged(8, 16, now);
    assert!(session.may_cut());
}

#[test]
fn one_range_is_refined_at_a_time() {
    let (mut session, now) = sent(2);
    session.on_split(0, 16, 8);
    session.on_split(16, 32, 24);
    assert_eq!(
        commit(&mut session, now).ends,
        [8, 16, 32],
        "the second one waits"
    );
    session.on_split(0, 8, 4);
    assert_eq!(
        commit(&mut session, now).ends,
        [4, 8, 16, 32],
        "within the first one"
    );
    for (start, end) in [(0, 4), (4, 8), (8, 16)] {
        session.on_acknowledged(start, end, now);
    }
    let metadata = commit(&mut session, now);
    assert_eq!(
        (metadata.offset, metadata.ends.as_slice()),
        (16, &[24, 32][..])
    );
}

#[test]
fn an_answer_to_a_commit_from_before_the_split_declares_neither_half() {
    let (mut session, now) = sent(1);
    let half = now.after(AGE / 2);
    session.next_commit(&context(), half).unwrap();
    session.on_split(0, 16, 8);
    session.on_commit(CommitOutcome::Applied, half, 0);
    assert_eq!(may(&session, 0, 16, half), MaySend::NotYet);
    assert_eq!(may(&session, 0, 8, half), MaySend::NotYet);
    assert_eq!(commit(&mut session, half).ends, [8, 16]);
}

#[test]
fn a_million_records_are_halved_down_to_one_within_the_limit() {
    let (mut session, now) = running(0);
    (1..=8).for_each(|range| session.on_cut(1_000_000 * range));
    commit(&mut session, now);
    let mut end = 1_000_000;
    while end > 1 {
        session.on_split(0, end, end / 2);
        end /= 2;
        let metadata = commit(&mut session, now);
        assert!(metadata.ends.len() <= MAX_SPLITTING && metadata.ends.first() == Some(&end));
    }
    assert_eq!(may(&session, 0, 1, now), MaySend::Yes);
}

#[test]
fn a_split_beyond_the_limit_waits_until_there_is_room() {
    let (mut session, now) = running(0);
    session.on_cut(64);
    commit(&mut session, now);
    (33..=63)
        .rev()
        .for_each(|at| session.on_split(0, at + 1, at));
    assert_eq!(session.ranges().len(), MAX_SPLITTING);
    session.on_split(0, 33, 32);
    assert_eq!(commit(&mut session, now).ends.len(), MAX_SPLITTING);
    session.on_acknowledged(33, 34, now);
    assert_eq!(session.ranges().len(), MAX_SPLITTING, "33 is not the first");
    session.on_acknowledged(0, 33, now);
    assert_eq!(session.acknowledged(), 34);
    assert!(session.ranges().len() < MAX_SPLITTING);
}

#[test]
fn what_was_declared_stays_in_the_plan_when_the_refining_has_ended() {
    let (mut session, now) = sent(2);
    session.on_split(16, 32, 24);
    let mut end = 24;
    while end > 17 {
        session.on_split(16, end, end - 1);
        end -= 1;
    }
    let pieces = commit(&mut session, now).ends.len();
    assert_eq!(pieces, 10);
    session.on_acknowledged(24, 32, now);
    (16..24).for_each(|at| session.on_acknowledged(at, at + 1, now));
    let refreshed = commit(&mut session, now.after(AGE / 2));
    assert_eq!(
        (refreshed.offset, refreshed.ends.len()),
        (0, 10),
        "the first range is still on its way"
    );
}

#[test]
fn a_split_of_something_else_than_a_range_on_its_way_changes_nothing() {
    let (mut session, now) = sent(2);
    let before = session.ranges().clone();
    for (start, end, at) in [(0, 16, 0), (0, 16, 16), (0, 15, 8), (16, 33, 20)] {
        session.on_split(start, end, at);
    }
    session.on_acknowledged(16, 32, now);
    session.on_split(16, 32, 20);
    assert_eq!(session.ranges().len(), before.len());
    assert!(session.may_cut());
}

#[test]
fn a_piece_that_stops_ends_the_whole_refining_and_keeps_its_pieces_declared() {
    let (mut session, now) = sent(1);
    session.on_split(0, 16, 8);
    commit(&mut session, now);
    session.on_stopped(0, 8, "WindowExceeded", "x".into(), now);
    assert_eq!(reason(&session), "WindowExceeded");
    let later = now.after(HOLD_RETRY);
    assert!(
        session.wants_position(later),
        "the right half is not waited for: nobody sends it"
    );
    assert_eq!((session.acknowledged(), session.ranges().len()), (0, 2));
}
