//! Holds: the place is kept, the cause is looked at again.

use super::*;

fn hold_of(session: &Session) -> &Hold {
    match session.state() {
        State::Held(hold) => hold,
        other => panic!("expected a hold, got {other:?}"),
    }
}

#[test]
fn a_hold_keeps_its_beginning_while_its_reason_stays() {
    let (mut session, now) = running(0);
    session.hold("RetentionPassed", "t:0".into(), "gone".into(), now);
    let later = now.after(HOLD_RETRY);
    assert!(!session.wants_position(now));
    assert!(session.wants_position(later));
    session.hold("RetentionPassed", "t:0".into(), "still gone".into(), later);
    assert_eq!(hold_of(&session).since, now.instant);
    session.hold("TopicRecreated", "u".into(), "another".into(), later);
    assert_eq!(hold_of(&session).since, later.instant);
}

#[test]
fn a_held_session_goes_on_by_itself_when_the_cause_is_gone() {
    let now = start();
    let mut session = exactly_once();
    let hold = Start::Hold {
        reason: "RetentionPassed",
        about: "t:3".into(),
        message: "gone".into(),
    };
    session.on_start(hold, now);
    assert_eq!(
        (reason(&session), hold_of(&session).about.as_str()),
        ("RetentionPassed", "t:3")
    );
    assert_eq!(
        session.next_commit(&context(), now),
        None,
        "nothing is committed"
    );
    let later = now.after(HOLD_RETRY);
    assert!(session.wants_position(later));
    session.on_start(found(3, &[]), later);
    commit(&mut session, later);
    assert_eq!(session.reading().unwrap().from, 3);
}

#[test]
fn an_answer_of_a_person_is_looked_at_at_once() {
    let (mut session, now) = running(0);
    session.hold("OffsetsGone", String::new(), String::new(), now);
    session.retry_now(now);
    assert!(session.wants_position(now));
}

#[test]
fn a_held_session_waits_for_what_is_in_flight_before_it_looks_again() {
    let (mut session, now) = running(0);
    session.on_cut(5);
    commit(&mut session, now);
    session.hold("UnknownError", String::new(), "x".into(), now);
    let later = now.after(HOLD_RETRY);
    assert!(!session.wants_position(later));
    session.on_acknowledged(0, 5, later);
    assert!(!session.wants_position(later), "not committed yet");
    commit(&mut session, later);
    assert!(session.wants_position(later));
}

#[test]
fn a_range_that_stops_stays_declared_and_the_others_go_on() {
    let (mut session, now) = running(0);
    (1..=3).for_each(|end| session.on_cut(end * 10));
    commit(&mut session, now);
    session.on_acknowledged(0, 10, now);
    session.on_stopped(10, 20, "WindowExceeded", "x".into(), now);
    assert_eq!(hold_of(&session).about, "10-20");
    let metadata = commit(&mut session, now);
    assert_eq!(
        (metadata.offset, metadata.ends.as_slice()),
        (10, &[20, 30][..])
    );
    assert_eq!(
        may(&session, 10, 20, now),
        gate::MaySend::NotYet,
        "it is not sent any more"
    );
    assert_eq!(may(&session, 20, 30, now), gate::MaySend::Yes);
    assert!(!session.may_cut() && !session.reads());
    session.on_acknowledged(20, 30, now);
    assert_eq!(session.acknowledged(), 10);
    let later = now.after(HOLD_RETRY);
    assert!(session.wants_position(later));
    session.on_start(found(10, &[20, 30]), later);
    let metadata = commit(&mut session, later);
    assert_eq!(metadata.ends, [20, 30], "the same plan is tried again");
}

#[test]
fn a_draining_session_is_not_held_any_more() {
    let (mut session, now) = running(0);
    session.start_drain();
    session.hold("TopicRecreated", String::new(), String::new(), now);
    assert_eq!(session.state(), &State::Draining);
}

#[test]
fn progress_is_an_acknowledgement_and_nothing_else() {
    let (mut session, now) = running(0);
    let later = now.after(Duration::from_secs(9));
    session.on_cut(5);
    commit(&mut session, later);
    assert_eq!(session.progress_at(), now.instant);
    session.on_acknowledged(0, 5, later);
    assert_eq!(session.progress_at(), later.instant);
}
