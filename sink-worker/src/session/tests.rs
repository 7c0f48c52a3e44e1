//! The session's machine: what each test file shares.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use clickhouse_sink_crds::commit::{CommitMetadata, Epoch};

use super::position::Plan;
use super::ranges::MAX_SPLITTING;
use super::*;

mod begin;
mod commits;
mod declared;
mod drain;
mod gates;
mod histories;
mod holds;
mod replay;
mod splits;

/// The mapping that the worker has now.
const CURRENT: &str = "ab12cd34";
/// The mapping that earlier sessions have cut under.
const EARLIER: &str = "0123beef";
/// When the plans of earlier sessions were declared, in `ClickHouse`'s seconds.
const DECLARED_S: u64 = 4000;
const LINGER: Duration = Duration::from_millis(500);
const AGE: Duration = Duration::from_mins(1);

fn start() -> Now {
    Now {
        instant: Instant::now(),
        boot: Duration::from_secs(1000),
        server_s: Some(5000),
    }
}

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
        mapping: CURRENT.into(),
    }
}

const fn settings(guarantee: Guarantee) -> SessionSettings {
    SessionSettings {
        guarantee,
        linger: LINGER,
        max_declaration_age: AGE,
        read_back: false,
    }
}

fn exactly_once() -> Session {
    Session::new(settings(Guarantee::ExactlyOnce), start())
}

/// A position of ours with this plan.
fn found(offset: i64, ends: &[i64]) -> Start {
    Start::Resume {
        offset,
        identity: identity(),
        sequence: 4,
        plan: Plan {
            ends: ends.to_vec(),
            mapping: EARLIER.into(),
            declared_at_s: if ends.is_empty() { 0 } else { DECLARED_S },
        },
        skip_to: offset,
        gaps: Vec::new(),
    }
}

fn metadata(request: &CommitRequest) -> CommitMetadata {
    let metadata = CommitMetadata::parse(request.metadata.as_bytes()).unwrap();
    assert!(metadata.matches(request.offset));
    metadata
}

/// The commit that is due, applied by the broker.
fn commit(session: &mut Session, now: Now) -> CommitMetadata {
    let request = session
        .next_commit(&context(), now)
        .expect("a commit is due");
    session.on_commit(CommitOutcome::Applied, now, 0);
    metadata(&request)
}

/// A session of this guarantee that has found this plan and committed it as it was read.
fn began(guarantee: Guarantee, offset: i64, ends: &[i64]) -> (Session, Now) {
    let now = start();
    let mut session = Session::new(settings(guarantee), now);
    assert!(session.on_start(found(offset, ends), now).is_empty());
    commit(&mut session, now);
    (session, now)
}

/// A session that reads freely from `offset`.
fn running(offset: i64) -> (Session, Now) {
    let (session, now) = began(Guarantee::ExactlyOnce, offset, &[]);
    assert_eq!(session.state(), &State::Running);
    (session, now)
}

/// A session that replays, asked of the window already.
fn replaying(offset: i64, ends: &[i64]) -> (Session, Now) {
    let (mut session, now) = began(Guarantee::ExactlyOnce, offset, ends);
    session.on_window(ReplayMode::Replay);
    (session, now)
}

fn may(session: &Session, start: i64, end: i64, now: Now) -> gate::MaySend {
    session.gate().may_send(start, end, now.boot)
}

fn reason(session: &Session) -> &'static str {
    match session.state() {
        State::Held(hold) => hold.reason,
        other => panic!("expected a hold, got {other:?}"),
    }
}
