//! Declared ranges: what a commit says, when, and what may be sent after it.

use super::*;
use crate::session::gate::MaySend;

#[test]
fn a_range_is_declared_only_once_its_commit_is_acknowledged() {
    let (mut session, now) = running(10);
    session.on_cut(20);
    assert_eq!(may(&session, 10, 20, now), MaySend::NotYet, "cut");
    let request = session.next_commit(&context(), now).unwrap();
    assert_eq!(metadata(&request).ends, [20]);
    assert_eq!(may(&session, 10, 20, now), MaySend::NotYet, "sent");
    session.on_commit(CommitOutcome::Applied, now, 0);
    assert_eq!(may(&session, 10, 20, now), MaySend::Yes);
    for other in [(10, 19), (10, 21), (11, 20), (20, 30)] {
        assert_eq!(
            may(&session, other.0, other.1, now),
            MaySend::NotYet,
            "{other:?} is another range"
        );
    }
}

#[test]
fn one_commit_carries_the_acknowledgement_of_a_batch_and_the_declaration_of_the_next() {
    let (mut session, now) = running(10);
    session.on_cut(20);
    commit(&mut session, now);
    session.on_acknowledged(10, 20, now);
    session.on_cut(30);
    let metadata = commit(&mut session, now);
    assert_eq!((metadata.offset, metadata.ends.as_slice()), (20, &[30][..]));
    assert_eq!(session.committed(), Some(20));
}

#[test]
fn every_range_in_flight_stays_in_the_plan_and_the_offset_covers_a_prefix_only() {
    let (mut session, now) = running(0);
    for end in [10, 20, 30] {
        session.on_cut(end);
    }
    assert_eq!(commit(&mut session, now).ends, [10, 20, 30]);
    session.on_acknowledged(10, 20, now);
    session.on_cut(40);
    let metadata = commit(&mut session, now);
    assert_eq!(
        (metadata.offset, metadata.ends.as_slice()),
        (0, &[10, 20, 30, 40][..])
    );
    session.on_acknowledged(0, 10, now);
    assert_eq!(session.acknowledged(), 20);
    session.on_cut(50);
    let metadata = commit(&mut session, now);
    assert_eq!(
        (metadata.offset, metadata.ends.as_slice()),
        (20, &[30, 40, 50][..])
    );
}

#[test]
fn the_time_of_a_plan_is_that_of_its_oldest_range_and_stays_until_that_is_acknowledged() {
    let (mut session, now) = running(0);
    session.on_cut(10);
    assert_eq!(commit(&mut session, now).declared_at_s, 5000);
    let later = now.after(Duration::from_secs(7));
    session.on_cut(20);
    assert_eq!(commit(&mut session, later).declared_at_s, 5000);
    let refreshed = now.after(Duration::from_secs(50));
    assert_eq!(
        commit(&mut session, refreshed).declared_at_s,
        5000,
        "a refresh keeps it"
    );
    session.on_acknowledged(0, 10, refreshed);
    session.on_cut(30);
    assert_eq!(
        commit(&mut session, refreshed).declared_at_s,
        5007,
        "that of the second range"
    );
}

#[test]
fn a_time_that_was_unknown_at_the_declaration_stays_unknown() {
    let (mut session, now) = running(0);
    session.on_cut(10);
    let unknown = Now {
        server_s: None,
        ..now
    };
    assert_eq!(commit(&mut session, unknown).declared_at_s, 0);
    session.on_cut(20);
    assert_eq!(commit(&mut session, now).declared_at_s, 0);
}

#[test]
fn a_declaration_is_refreshed_before_it_is_too_old_for_a_retry() {
    let (mut session, now) = running(0);
    session.on_cut(10);
    let first = session.next_commit(&context(), now).unwrap();
    session.on_commit(CommitOutcome::Applied, now, 0);
    let half = now.after(AGE / 2);
    let early = now.after(Duration::from_secs(29));
    assert_eq!(session.next_commit(&context(), early), None);
    let again = session.next_commit(&context(), half).unwrap();
    let (first, again) = (metadata(&first), metadata(&again));
    assert_eq!(
        (again.sequence, &again.ends),
        (first.sequence + 1, &first.ends)
    );
    session.on_commit(CommitOutcome::Applied, half, 0);
    assert_eq!(may(&session, 0, 10, now.after(AGE)), MaySend::Yes);
    assert_eq!(
        may(&session, 0, 10, half.after(AGE)),
        MaySend::NotYet,
        "nor is this one good for ever"
    );
}

#[test]
fn a_declaration_ages_from_the_moment_it_was_sent_not_from_when_its_answer_was_looked_at() {
    let (mut session, now) = running(0);
    session.on_cut(10);
    session.next_commit(&context(), now).unwrap();
    // The process stood still in between; others may own the partition by now.
    let much_later = now.after(AGE * 10);
    session.on_commit(CommitOutcome::Applied, much_later, 0);
    assert_eq!(may(&session, 0, 10, much_later), MaySend::NotYet);
    commit(&mut session, much_later);
    assert_eq!(
        may(&session, 0, 10, much_later),
        MaySend::Yes,
        "once the broker takes another one"
    );
}

#[test]
fn at_most_eight_ranges_are_in_flight() {
    let (mut session, now) = running(0);
    for end in 1..=8 {
        assert!(session.may_cut());
        session.on_cut(end);
    }
    assert!(!session.may_cut());
    commit(&mut session, now);
    session.on_acknowledged(0, 1, now);
    assert!(session.may_cut());
}

#[test]
fn at_least_once_declares_nothing_and_waits_for_no_commit() {
    let (mut session, now) = began(Guarantee::AtLeastOnce, 0, &[]);
    session.on_cut(10);
    assert_eq!(may(&session, 0, 10, now), MaySend::Yes);
    assert_eq!(session.next_commit(&context(), now), None);
    session.on_acknowledged(0, 10, now);
    let metadata = commit(&mut session, now);
    assert_eq!(
        (metadata.offset, metadata.ends.len(), metadata.declared_at_s),
        (10, 0, 0)
    );
}
