//! Draining: the end of a session that knows of its end.

use super::*;
use crate::session::gate::MaySend;

#[test]
fn a_session_is_drained_when_all_is_acknowledged_and_committed() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.start_drain();
    commit(&mut session, now);
    assert!(!session.is_drained());
    session.on_acknowledged(0, 5, now);
    assert!(!session.is_drained(), "not committed yet");
    session.next_commit(&context(), now).unwrap();
    assert!(!session.is_drained(), "not answered yet");
    session.on_commit(CommitOutcome::Applied, now, 0);
    assert!(session.is_drained());
}

#[test]
fn what_is_filled_becomes_a_last_range_that_is_declared_like_any_other() {
    let (mut session, now) = running(0);
    session.start_drain();
    assert!(!session.reads() && session.may_cut());
    session.on_cut(5);
    assert_eq!(may(&session, 0, 5, now), MaySend::NotYet);
    assert_eq!(commit(&mut session, now).ends, [5]);
    assert_eq!(may(&session, 0, 5, now), MaySend::Yes);
}

#[test]
fn a_drain_in_the_middle_of_a_replay_leaves_the_rest_in_the_plan() {
    let (mut session, now) = replaying(0, &[10, 20, 30]);
    session.on_replay_sent(0, 10);
    session.start_drain();
    assert!(
        !session.may_cut(),
        "nothing new is declared while a plan is left"
    );
    assert!(!session.is_drained());
    session.on_acknowledged(0, 10, now);
    let metadata = commit(&mut session, now);
    assert_eq!(
        (metadata.offset, metadata.ends.as_slice()),
        (10, &[20, 30][..])
    );
    assert_eq!(
        (metadata.mapping.as_str(), metadata.declared_at_s),
        (EARLIER, DECLARED_S)
    );
    assert!(session.is_drained());
}

#[test]
fn a_session_without_a_position_has_nothing_to_drain() {
    let mut session = exactly_once();
    session.start_drain();
    assert!(session.is_drained());
    assert!(session.on_start(found(0, &[5]), start()).is_empty());
    assert_eq!(session.state(), &State::Draining);
}

#[test]
fn a_stopped_range_does_not_keep_a_drain_waiting() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.on_cut(9);
    commit(&mut session, now);
    session.on_stopped(0, 5, "WindowExceeded", "x".into(), now);
    session.start_drain();
    session.on_acknowledged(5, 9, now);
    assert!(
        session.is_drained(),
        "both stay in the plan that is committed"
    );
    assert_eq!(session.committed(), Some(0));
}
