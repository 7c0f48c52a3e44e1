//! Commits: one at a time, the same bytes again, in portions that the broker takes, and none too late.

use super::*;
use crate::session::gate::MaySend;

#[test]
fn a_commit_of_unknown_outcome_is_sent_again_with_the_same_bytes_and_alone() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    let first = session.next_commit(&context(), now).unwrap();
    assert!(!first.alone);
    session.on_cut(9);
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
    let due = now.after(due - now.instant);
    let again = session.next_commit(&context(), due).unwrap();
    assert_eq!(
        (again.offset, &again.metadata, again.alone),
        (first.offset, &first.metadata, true)
    );
    session.on_commit(CommitOutcome::Applied, due, 0);
    assert_eq!(
        (may(&session, 0, 5, due), may(&session, 5, 9, due)),
        (MaySend::Yes, MaySend::NotYet)
    );
    assert_eq!(commit(&mut session, due).ends, [5, 9]);
}

#[test]
fn the_tail_is_committed_with_an_empty_plan_after_one_linger() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    commit(&mut session, now);
    session.on_acknowledged(0, 5, now);
    assert_eq!(
        session.next_commit(&context(), now),
        None,
        "the next declaration may carry it"
    );
    assert_eq!(session.commit_due(), Some(now.instant + LINGER));
    let metadata = commit(&mut session, now.after(LINGER));
    assert_eq!(
        (metadata.offset, metadata.ends.len(), metadata.declared_at_s),
        (5, 0, 0)
    );
    assert_eq!(session.commit_due(), None);
}

#[test]
fn a_long_linger_does_not_keep_the_tail_from_lag_tools() {
    let now = start();
    let linger = Duration::from_hours(1);
    let mut session = Session::new(
        SessionSettings {
            linger,
            ..settings(Guarantee::ExactlyOnce)
        },
        now,
    );
    session.on_start(found(0, &[]), now);
    commit(&mut session, now);
    session.on_cut(5);
    commit(&mut session, now);
    session.on_acknowledged(0, 5, now);
    assert_eq!(session.commit_due(), Some(now.instant + LONGEST_TAIL));
}

#[test]
fn the_tail_of_a_held_or_draining_session_is_committed_at_once() {
    for drains in [true, false] {
        let (mut session, now) = running(0);
        session.on_cut(5);
        commit(&mut session, now);
        if drains {
            session.start_drain();
        } else {
            session.hold("UnknownError", String::new(), String::new(), now);
        }
        session.on_acknowledged(0, 5, now);
        assert_eq!(commit(&mut session, now).offset, 5);
    }
}

#[test]
fn a_lost_member_closes_the_gate_by_itself() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.next_commit(&context(), now).unwrap();
    session.on_commit(CommitOutcome::Lost, now, 0);
    assert!(!session.gate_open());
    assert_eq!(may(&session, 0, 5, now), MaySend::Never);
}

#[test]
fn too_much_metadata_halves_what_is_declared_at_once() {
    let (mut session, now) = running(0);
    (1..=8).for_each(|end| session.on_cut(end));
    assert_eq!(
        session.next_commit(&context(), now).unwrap().declares.len(),
        8
    );
    session.on_commit(CommitOutcome::TooLarge, now, 0);
    assert_eq!(
        session.next_commit(&context(), now).unwrap().declares.len(),
        4
    );
    session.on_commit(CommitOutcome::TooLarge, now, 0);
    assert_eq!(commit(&mut session, now).ends, [1, 2]);
    assert_eq!(
        (may(&session, 1, 2, now), may(&session, 2, 3, now)),
        (MaySend::Yes, MaySend::NotYet)
    );
    assert_eq!(
        session.next_commit(&context(), now),
        None,
        "the others wait"
    );
    session.on_acknowledged(0, 1, now);
    assert_eq!(commit(&mut session, now).ends, [2, 3]);
}

#[test]
fn a_declared_range_stays_in_the_plan_when_the_broker_takes_no_longer_one() {
    let (mut session, now) = running(0);
    (1..=4).for_each(|end| session.on_cut(end));
    commit(&mut session, now);
    session.on_cut(5);
    assert_eq!(
        session.next_commit(&context(), now).unwrap().declares.len(),
        5
    );
    session.on_commit(CommitOutcome::TooLarge, now, 0);
    session.on_acknowledged(1, 2, now);
    assert_eq!(session.next_commit(&context(), now), None);
    let refreshed = commit(&mut session, now.after(AGE / 2));
    assert_eq!(
        refreshed.ends,
        [1, 2, 3, 4],
        "the four that may have been sent"
    );
}

#[test]
fn a_single_range_that_is_too_much_is_held_and_tried_now_and_then() {
    let (mut session, mut now) = running(0);
    session.on_cut(5);
    session.next_commit(&context(), now).unwrap();
    session.on_commit(CommitOutcome::TooLarge, now, 0);
    assert_eq!(reason(&session), "BrokerLimitsCommitMetadata");
    assert_eq!(
        session.next_commit(&context(), now),
        None,
        "not at once again"
    );
    now = now.after(Duration::from_secs(6));
    assert_eq!(
        commit(&mut session, now).ends,
        [5],
        "the broker's limit was raised"
    );
    session.on_acknowledged(0, 5, now);
    commit(&mut session, now);
    assert!(session.wants_position(now));
}

#[test]
fn a_missing_right_is_held_and_heals_by_itself() {
    let (mut session, mut now) = running(0);
    session.on_cut(5);
    let first = session.next_commit(&context(), now).unwrap();
    session.on_commit(CommitOutcome::Refused("Unauthorized"), now, 0);
    assert_eq!(reason(&session), "Unauthorized");
    now = now.after(Duration::from_secs(6));
    let again = session.next_commit(&context(), now).unwrap();
    assert_eq!(again.metadata, first.metadata);
    session.on_commit(CommitOutcome::Applied, now, 0);
    session.on_acknowledged(0, 5, now);
    commit(&mut session, now);
    assert!(session.wants_position(now));
}

#[test]
fn a_commit_that_is_answered_twice_counts_once() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    commit(&mut session, now);
    session.on_commit(CommitOutcome::Lost, now, 0);
    assert!(session.gate_open(), "there was nothing outstanding");
}
