//! How a session begins: the first commit comes before the first record.

use super::*;

#[test]
fn nothing_is_read_before_the_first_position_is_committed() {
    let now = start();
    let mut session = exactly_once();
    let create = Start::Create {
        offset: 7,
        identity: identity(),
        gaps: Vec::new(),
    };
    assert!(session.on_start(create, now).is_empty());
    assert_eq!((session.reads(), session.reading()), (false, None));
    let request = session.next_commit(&context(), now).unwrap();
    let metadata = metadata(&request);
    assert_eq!((request.offset, metadata.ends.as_slice()), (7, &[][..]));
    assert_eq!(metadata.epoch, identity().epoch);
    assert_eq!((metadata.first_partitions, metadata.declared_at_s), (2, 0));
    assert_eq!(
        session.state(),
        &State::Creating,
        "until it is acknowledged"
    );
    session.on_commit(CommitOutcome::Applied, now, 0);
    assert_eq!(session.reading().unwrap().from, 7);
}

#[test]
fn the_plan_is_committed_as_it_was_read_before_anything_of_it_is_read() {
    let now = start();
    let mut session = exactly_once();
    session.on_start(found(10, &[20, 35]), now);
    assert_eq!(session.state(), &State::Checking);
    assert_eq!(session.reading(), None);
    let request = session.next_commit(&context(), now).unwrap();
    let metadata = metadata(&request);
    assert_eq!(
        (metadata.offset, metadata.ends.as_slice()),
        (10, &[20, 35][..])
    );
    assert_eq!(metadata.epoch, identity().epoch);
    assert_eq!(metadata.mapping, EARLIER, "not the mapping of now");
    assert_eq!(metadata.declared_at_s, DECLARED_S, "not the time of now");
    assert_eq!(metadata.sequence, 5, "one more than was found");
    assert_eq!(may(&session, 10, 20, now), gate::MaySend::NotYet);
    session.on_commit(CommitOutcome::Applied, now, 0);
    assert_eq!(session.state(), &State::Replaying);
    assert_eq!(may(&session, 10, 20, now), gate::MaySend::Yes);
}

#[test]
fn a_position_without_a_plan_is_committed_again_too() {
    let now = start();
    let mut session = exactly_once();
    session.on_start(found(10, &[]), now);
    assert_eq!(session.reading(), None);
    let metadata = commit(&mut session, now);
    assert_eq!((metadata.offset, metadata.sequence), (10, 5));
    assert_eq!(metadata.mapping, CURRENT);
    assert_eq!(session.state(), &State::Running);
}

#[test]
fn gaps_are_recorded_before_the_position_moves() {
    let now = start();
    let mut session = exactly_once();
    let gap = Gap {
        topic_id: identity().topic_id,
        epoch: identity().epoch.to_string(),
        start: 10,
        end: 100,
        cause: "RetentionPassed",
        maybe_inserted: false,
    };
    let Start::Resume {
        offset,
        identity,
        sequence,
        plan,
        ..
    } = found(10, &[])
    else {
        unreachable!("a resume")
    };
    let resume = Start::Resume {
        offset,
        identity,
        sequence,
        plan,
        skip_to: 100,
        gaps: vec![gap.clone()],
    };
    assert_eq!(session.on_start(resume, now), vec![gap]);
    assert_eq!(session.state(), &State::Recording);
    assert_eq!(
        session.next_commit(&context(), now),
        None,
        "the gap is not written yet"
    );
    session.on_gaps_recorded(now);
    assert_eq!(commit(&mut session, now).offset, 100);
    assert_eq!(session.reading().unwrap().from, 100);
}

fn reads_back() -> (Session, Now, CommitRequest) {
    let now = start();
    let settings = SessionSettings {
        read_back: true,
        ..settings(Guarantee::ExactlyOnce)
    };
    let mut session = Session::new(settings, now);
    session.on_start(found(10, &[20]), now);
    let request = session.next_commit(&context(), now).unwrap();
    session.on_commit(CommitOutcome::Applied, now, 0);
    (session, now, request)
}

#[test]
fn the_first_commit_is_read_back_before_the_broker_is_trusted() {
    let (mut session, now, request) = reads_back();
    assert!(session.wants_read_back());
    assert_eq!(
        (session.state(), session.reading()),
        (&State::Checking, None)
    );
    assert_eq!(session.next_commit(&context(), now), None);
    assert!(session.on_read_back(request.metadata.as_bytes(), now));
    assert_eq!(session.state(), &State::Replaying);
    assert!(!session.wants_read_back());
}

#[test]
fn a_broker_that_drops_metadata_is_refused() {
    for kept in ["", "cs1;s=10"] {
        let (mut session, now, _) = reads_back();
        assert!(!session.on_read_back(kept.as_bytes(), now));
        assert_eq!(reason(&session), "BrokerDropsCommitMetadata");
        assert!(!session.reads());
    }
}

#[test]
fn at_least_once_needs_no_proof_of_the_broker() {
    let now = start();
    let settings = SessionSettings {
        read_back: true,
        ..settings(Guarantee::AtLeastOnce)
    };
    let mut session = Session::new(settings, now);
    session.on_start(found(10, &[]), now);
    commit(&mut session, now);
    assert_eq!(session.state(), &State::Running);
}

#[test]
fn an_answer_that_comes_twice_does_not_begin_the_session_again() {
    let (mut session, now) = running(10);
    session.on_cut(20);
    session.on_start(found(0, &[]), now);
    assert_eq!((session.acknowledged(), session.cut_end()), (10, 20));
}
