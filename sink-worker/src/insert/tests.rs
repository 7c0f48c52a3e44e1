//! The order of a batch's steps against a scripted server: what is sent when, what is reported, what stops it.
//!
//! Must not be here: what a session declares, a real server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use self::scene::{Scene, rejected};
use self::server::Answer;
use super::Report;
use crate::batch::Batch;
use crate::kafka::TopicPartition;
use crate::session::ReplayMode;
use crate::session::position::Gap;
use crate::verify::Verdict;

mod scene;
mod server;

const BUSY: Answer = Answer::Refuse("Code: 252. DB::Exception: Too many parts (3000)");
const LOST: Answer = Answer::Refuse("Code: 210. DB::Exception: broken pipe");
const CONSTRAINT: Answer = Answer::Refuse("Code: 469. DB::Exception: Constraint c is violated");
const RANGE: (i64, i64) = (0, 8);
const ROWS: [i64; 4] = [0, 2, 4, 6];

fn whole(scene: &Scene) -> Batch {
    scene.batch(vec![scene.part(RANGE, &ROWS)])
}

fn replayed(scene: &Scene, mode: ReplayMode) -> Batch {
    Batch {
        replay: Some(mode),
        ..whole(scene)
    }
}

#[tokio::test]
async fn nothing_is_sent_before_the_range_is_declared_or_under_an_old_declaration() {
    let scene = Scene::start().await;
    scene.inserter.submit(whole(&scene));
    scene.expect_quiet().await;
    scene.declare(&[(0, 4), (4, 8)]);
    scene.expect_quiet().await;
    scene.publish(&[RANGE], Duration::ZERO);
    scene.expect_quiet().await;
    scene.declare(&[RANGE]);
    scene.expect_acknowledged(RANGE, true).await;
    let token = "cs1/g/0000000000000007/c/id/0/0-8".to_owned();
    assert_eq!(scene.seen()[0].token, Some(token));
    assert_eq!(scene.metrics.rows_inserted.get(), 4);
    assert_eq!(scene.metrics.ranges_replayed.get(), 0);
}

#[tokio::test]
async fn a_retry_has_the_same_bytes_and_the_same_token() {
    let scene = Scene::start().await;
    scene.on_inserts([BUSY, LOST, Answer::Take]);
    scene.declare(&[RANGE]);
    scene.inserter.submit(replayed(&scene, ReplayMode::Replay));
    scene.expect_acknowledged(RANGE, true).await;
    let seen = scene.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|other| *other == seen[0]));
    assert_eq!(scene.metrics.ranges_replayed.get(), 1);
}

#[tokio::test]
async fn a_retry_waits_for_a_refreshed_declaration() {
    let scene = Scene::start().await;
    let told = Arc::new(Notify::new());
    scene.on_inserts([BUSY]);
    scene.declare(&[RANGE]);
    scene.inserter.submit(whole(&scene));
    scene.wait_seen(1).await;
    scene.publish(&[RANGE], Duration::ZERO);
    scene.expect_quiet().await;
    scene.on_inserts([Answer::TakeWhen(Arc::clone(&told))]);
    scene.declare(&[RANGE]);
    scene.wait_seen(2).await;
    // An attempt that runs is not stopped by its declaration growing old.
    scene.publish(&[RANGE], Duration::ZERO);
    told.notify_one();
    scene.expect_acknowledged(RANGE, true).await;
}

#[tokio::test]
async fn a_closed_gate_ends_the_back_off() {
    let scene = Scene::start().await;
    scene.on_inserts([BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY]);
    scene.declare(&[RANGE]);
    scene.inserter.submit(whole(&scene));
    scene.wait_seen(2).await;
    scene.close();
    assert!(matches!(scene.report().await, Report::Dropped { batch: 1 }));
    scene.expect_quiet().await;
}

#[tokio::test]
async fn a_running_attempt_is_let_end_and_its_result_is_ignored() {
    let scene = Scene::start().await;
    let told = Arc::new(Notify::new());
    scene.on_inserts([Answer::TakeWhen(Arc::clone(&told))]);
    scene.declare(&[RANGE]);
    scene.inserter.submit(whole(&scene));
    scene.wait_seen(1).await;
    scene.close();
    scene.expect_quiet().await;
    told.notify_one();
    assert!(matches!(scene.report().await, Report::Dropped { batch: 1 }));
    assert_eq!(scene.metrics.rows_inserted.get(), 0);
}

#[tokio::test]
async fn a_partition_that_is_gone_is_a_closed_gate() {
    let mut scene = Scene::start().await;
    scene.declare(&[RANGE]);
    let batch = whole(&scene);
    let view = scene.gate.borrow().clone();
    scene.gate = tokio::sync::watch::Sender::new(view);
    scene.inserter.submit(batch);
    assert!(matches!(scene.report().await, Report::Dropped { batch: 1 }));
    assert_eq!(scene.seen(), []);
}

#[tokio::test]
async fn an_insert_waits_for_a_place_and_asks_the_gate_again_after_it() {
    let scene = Scene::start().await;
    let all = Arc::clone(&scene.places).acquire_many_owned(16).await;
    scene.declare(&[RANGE]);
    scene.inserter.submit(whole(&scene));
    scene.expect_quiet().await;
    scene.publish(&[RANGE], Duration::ZERO);
    drop(all);
    scene.expect_quiet().await;
    assert_eq!(scene.places.available_permits(), 16);
    scene.declare(&[RANGE]);
    scene.expect_acknowledged(RANGE, true).await;
}

#[tokio::test]
async fn dead_letters_are_acknowledged_before_the_insert_is_sent() {
    let scene = Scene::start().await;
    scene.on_rejects([BUSY, LOST]);
    scene.declare(&[RANGE]);
    let mut part = scene.part(RANGE, &ROWS);
    part.rejected = vec![rejected(1, "bad")];
    scene.inserter.submit(scene.batch(vec![part]));
    scene.expect_acknowledged(RANGE, true).await;
    let order: Vec<bool> = scene.seen().iter().map(|seen| seen.rejected).collect();
    assert_eq!(order, [true, true, true, false]);
    assert_eq!(scene.metrics.rejected_total(), 1);
}

#[tokio::test]
async fn dead_letters_may_go_before_the_declaration_but_are_not_acknowledged_before_it() {
    let scene = Scene::start().await;
    let mut part = scene.part(RANGE, &[]);
    part.rejected = vec![rejected(1, "bad")];
    scene.inserter.submit(scene.batch(vec![part]));
    scene.wait_seen(1).await;
    scene.expect_quiet().await;
    scene.declare(&[RANGE]);
    scene.expect_acknowledged(RANGE, true).await;
    assert_eq!(scene.seen().len(), 1);
}

#[tokio::test]
async fn dead_letters_are_not_tried_on_behind_a_closed_gate() {
    let scene = Scene::start().await;
    scene.on_rejects([BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY]);
    let mut part = scene.part(RANGE, &ROWS);
    part.rejected = vec![rejected(1, "bad")];
    scene.inserter.submit(scene.batch(vec![part]));
    scene.wait_seen(2).await;
    scene.close();
    assert!(matches!(scene.report().await, Report::Dropped { batch: 1 }));
    scene.expect_quiet().await;
}

#[tokio::test]
async fn a_split_is_sent_when_its_halves_are_declared_the_left_first() {
    let scene = Scene::start().await;
    // Definite refusals leave no doubt: the table is not asked.
    scene.on_inserts([CONSTRAINT]);
    scene.declare(&[RANGE]);
    scene.inserter.submit(whole(&scene));
    scene.expect_split(RANGE, 4).await;
    scene.expect_quiet().await;
    scene.declare(&[(0, 4), (4, 8)]);
    scene.expect_acknowledged((0, 4), false).await;
    scene.expect_acknowledged((4, 8), true).await;
    assert_eq!(scene.ranges_seen(), ["0-8", "0-4", "4-8"]);
    assert_eq!(*scene.table.counted.lock().unwrap(), []);
    assert_eq!(scene.metrics.ranges_split.get(), 1);
    assert_eq!(scene.metrics.rows_inserted.get(), 4);
}

#[tokio::test]
async fn a_refused_record_alone_goes_to_the_dead_letters_and_its_range_is_acknowledged() {
    let scene = Scene::start().await;
    scene.on_inserts([CONSTRAINT]);
    scene.declare(&[RANGE]);
    let batch = scene.batch(vec![scene.part(RANGE, &[5])]);
    scene.inserter.submit(batch);
    scene.expect_acknowledged(RANGE, true).await;
    let seen = scene.seen();
    assert!(seen[1].rejected);
    let payload = b"payload of 5";
    assert!(seen[1].body.windows(12).any(|bytes| bytes == payload));
    assert_eq!(scene.metrics.rows_inserted.get(), 0);
}

#[tokio::test]
async fn after_an_attempt_of_unknown_outcome_the_table_is_asked_before_a_split() {
    let scene = Scene::start().await;
    scene.on_inserts([LOST, CONSTRAINT]);
    scene.declare(&[RANGE]);
    scene.inserter.submit(whole(&scene));
    scene.expect_split(RANGE, 4).await;
    assert_eq!(*scene.table.counted.lock().unwrap(), [RANGE]);
}

#[tokio::test]
async fn a_replayed_range_is_not_split_without_asking_the_table() {
    let scene = Scene::start().await;
    *scene.table.count.lock().unwrap() = 3;
    scene.on_inserts([CONSTRAINT]);
    scene.declare(&[RANGE]);
    scene.inserter.submit(replayed(&scene, ReplayMode::Replay));
    let message = scene.expect_held(RANGE).await;
    assert!(message.contains("found 3"), "{message}");
    scene.expect_quiet().await;
}

#[tokio::test]
async fn a_held_half_takes_the_ranges_behind_it_along() {
    let scene = Scene::start().await;
    *scene.table.count.lock().unwrap() = 1;
    scene.on_inserts([CONSTRAINT, LOST, CONSTRAINT]);
    scene.declare(&[RANGE]);
    scene.inserter.submit(whole(&scene));
    scene.expect_split(RANGE, 4).await;
    scene.declare(&[(0, 4), (4, 8)]);
    scene.expect_held((4, 8)).await;
    scene.expect_held((0, 4)).await;
    assert_eq!(*scene.table.counted.lock().unwrap(), [(0, 4)]);
}

#[tokio::test]
async fn what_the_table_has_is_acknowledged_without_an_insert() {
    let scene = Scene::start().await;
    *scene.table.verdict.lock().unwrap() = Some(Verdict::AllThere);
    scene.inserter.submit(replayed(&scene, ReplayMode::Verify));
    scene.expect_quiet().await;
    scene.declare(&[RANGE]);
    scene.expect_acknowledged(RANGE, true).await;
    assert_eq!(scene.seen(), []);
    assert_eq!(scene.metrics.ranges_verified.get(), 1);
}

#[tokio::test]
async fn what_the_table_lacks_is_sent_under_the_original_token() {
    let scene = Scene::start().await;
    let verdict = Verdict::Send { rows: vec![1, 3] };
    *scene.table.verdict.lock().unwrap() = Some(verdict);
    scene.declare(&[RANGE]);
    scene.inserter.submit(replayed(&scene, ReplayMode::Verify));
    scene.expect_acknowledged(RANGE, true).await;
    assert_eq!(scene.ranges_seen(), ["0-8"]);
    assert_eq!(scene.metrics.rows_inserted.get(), 2);
    let other = Scene::start().await;
    other.declare(&[RANGE]);
    let same_rows = other.batch(vec![other.part(RANGE, &[2, 6])]);
    other.inserter.submit(same_rows);
    other.expect_acknowledged(RANGE, true).await;
    assert_eq!(scene.seen()[0].body, other.seen()[0].body);
}

#[tokio::test]
async fn what_cannot_be_proved_is_held() {
    let scene = Scene::start().await;
    *scene.table.verdict.lock().unwrap() = Some(Verdict::Unprovable {
        declared: 4,
        found: 0,
        missing: 4,
        message: "a doubt".into(),
    });
    scene.declare(&[RANGE]);
    scene.inserter.submit(replayed(&scene, ReplayMode::Verify));
    let message = scene.expect_held(RANGE).await;
    assert!(message.starts_with("a doubt; answer with"), "{message}");
    assert_eq!(scene.seen(), []);
}

#[tokio::test]
async fn a_shared_insert_is_split_at_once_and_a_refused_record_is_no_inserted_row() {
    let scene = Scene::start().await;
    // The whole, its first part, and the first row of that.
    scene.on_inserts([CONSTRAINT, CONSTRAINT, CONSTRAINT]);
    let parts = vec![scene.part((0, 2), &[0, 1]), scene.part((5, 7), &[5, 6])];
    let batch = Batch {
        gate: None,
        ..scene.batch(parts)
    };
    scene.inserter.submit(batch);
    let Report::Acknowledged { ranges, last, .. } = scene.report().await else {
        panic!("not acknowledged");
    };
    let ranges: Vec<_> = ranges.iter().map(|range| (range.1, range.2)).collect();
    assert_eq!((ranges, last), (vec![(0, 2), (5, 7)], true));
    assert_eq!(scene.metrics.rows_inserted.get(), 3);
    assert_eq!(scene.metrics.rejected_total(), 1);
    let tokens = scene.seen().into_iter().filter_map(|seen| seen.token);
    assert!(
        tokens
            .into_iter()
            .all(|token| token.starts_with("cs1/g/set/"))
    );
}

#[tokio::test]
async fn gaps_are_written_for_as_long_as_it_takes() {
    let scene = Scene::start().await;
    scene.on_rejects([BUSY, LOST]);
    let gap = Gap {
        topic_id: "id".into(),
        epoch: "e".into(),
        start: 3,
        end: 9,
        cause: "RetentionPassed",
        maybe_inserted: false,
    };
    let partition = TopicPartition::new("t", 4);
    scene.inserter.record_gaps(partition.clone(), vec![gap]);
    match scene.report().await {
        Report::GapsRecorded { partition: told } => assert_eq!(told, partition),
        other => panic!("{other:?}"),
    }
    let seen = scene.seen();
    assert_eq!(seen.len(), 3);
    assert!(
        seen.iter()
            .all(|other| other.rejected && other.body == seen[0].body)
    );
}
