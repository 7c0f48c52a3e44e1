//! The gate: nothing passes it once the partition was given up.

use super::*;
use crate::session::gate::{GateView, MaySend, decide_declaration_age};

#[test]
fn nothing_passes_a_closed_gate() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    commit(&mut session, now);
    session.close();
    assert_eq!(may(&session, 0, 5, now), MaySend::Never);
    session.on_acknowledged(0, 5, now);
    assert_eq!(
        session.acknowledged(),
        0,
        "an acknowledgement after the loss"
    );
    assert_eq!(session.next_commit(&context(), now.after(AGE)), None);
    assert!(session.on_start(found(3, &[]), now).is_empty());
    assert_eq!(session.state(), &State::Closed);
    assert!(session.is_drained() && !session.may_cut() && !session.reads());
}

#[test]
fn an_answer_that_comes_after_the_gate_was_closed_opens_nothing() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    session.next_commit(&context(), now).unwrap();
    session.close();
    session.on_commit(CommitOutcome::Applied, now, 0);
    assert_eq!(session.committed(), Some(0));
    assert_eq!(may(&session, 0, 5, now), MaySend::Never);
}

#[test]
fn nothing_that_comes_late_opens_a_closed_session_again() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    commit(&mut session, now);
    session.close();
    session.on_stopped(0, 5, "WindowExceeded", String::new(), now);
    session.on_split(0, 5, 2);
    session.hold("TopicRecreated", String::new(), String::new(), now);
    session.start_drain();
    session.on_gaps_recorded(now);
    assert_eq!(session.state(), &State::Closed);
}

#[test]
fn a_gate_that_was_never_opened_lets_nothing_pass_but_may_open() {
    assert_eq!(
        GateView::shut().may_send(0, 1, Duration::ZERO),
        MaySend::NotYet
    );
    assert_eq!(
        GateView::closed().may_send(0, 1, Duration::ZERO),
        MaySend::Never
    );
}

#[test]
fn a_gate_without_declarations_asks_only_whether_it_is_open() {
    let open = GateView {
        open: true,
        declared: None,
    };
    assert_eq!(open.may_send(3, 9, Duration::MAX), MaySend::Yes);
    assert_eq!(
        GateView {
            open: false,
            ..open
        }
        .may_send(3, 9, Duration::ZERO),
        MaySend::Never
    );
}

#[test]
fn a_declaration_is_good_for_two_attempts_within_bounds() {
    let seconds = |timeout: u64| decide_declaration_age(Duration::from_secs(timeout)).as_secs();
    assert_eq!((seconds(1), seconds(20), seconds(300)), (15, 40, 60));
}
