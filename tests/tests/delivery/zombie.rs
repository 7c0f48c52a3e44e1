//! A worker stands still while its INSERT is declared, another one takes its partitions over, and then it goes on.
//!
//! Must not be here: members that freeze with nothing declared (`ownership.rs`).

use std::time::Duration;

use anyhow::ensure;
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{Fault, On, Seen};
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::{eventually, eventually_eq};

use crate::support::{SOON, Scene, wait_read};

/// One INSERT with three rows for each partition; merges are stopped, so every copy would be counted.
fn once_sink(scene: &Scene) -> SinkBuilder {
    scene
        .sink_of_sets(&scene.env.brokers, 3)
        .set("delivery.guarantee", "ExactlyOnce")
}

/// Freezes a worker whose two INSERTs were sent, are declared and have no answer.
fn freeze_with_declared_ranges(scene: &Scene, sink: &SinkBuilder) -> WorkerProcess {
    scene.make_table(sink);
    scene.produce_night_shift();
    let zombie = scene.worker("zombie", sink);
    scene.wait_inserts(2);
    zombie.program.stop_hang().unwrap();
    let plans: Vec<(i64, Vec<i64>)> = scene
        .metadata()
        .into_iter()
        .map(|it| (it.offset, it.ends))
        .collect();
    assert_eq!(plans, [(0, vec![3]), (0, vec![3])]);
    zombie
}

/// Tokens of the INSERTs so far, each with how often it was sent.
fn tokens(inserts: &[Seen]) -> Vec<(String, usize)> {
    let mut tokens: Vec<String> = inserts
        .iter()
        .map(|insert| insert.param("insert_deduplication_token").unwrap())
        .map(str::to_owned)
        .collect();
    tokens.sort();
    let mut counted: Vec<(String, usize)> = Vec::new();
    for token in tokens {
        match counted.last_mut() {
            Some((last, count)) if *last == token => *count += 1,
            _ => counted.push((token, 1)),
        }
    }
    counted
}

/// The woken worker has lost its partitions, gets one again, and both work on: each row is there once.
fn assert_it_rejoins(scene: &Scene, mut zombie: WorkerProcess, mut other: WorkerProcess) {
    let epochs = || -> Vec<_> { scene.metadata().into_iter().map(|it| it.epoch).collect() };
    let before = epochs();
    let joined = || {
        let state = zombie.state()?;
        let sessions = state["sessions"].as_array().cloned().unwrap_or_default();
        let positions: Vec<_> = sessions
            .iter()
            .map(|it| (it["state"].as_str(), it["committed"].as_i64()))
            .collect();
        ensure!(positions == [(Some("Running"), Some(3))], "{state}");
        Ok(())
    };
    eventually(SOON, "one partition each", joined).unwrap();
    assert_eq!(scene.rows(), (6, 5));
    assert_eq!(scene.committed(), [Some(3), Some(3)]);
    scene.produce_stats(0, 0, 3);
    scene.produce_stats(1, 0, 3);
    scene.wait_committed(&[6, 6]);
    assert_eq!(scene.rows(), (12, 11));
    // The positions are the ones of before: nobody has started them anew.
    assert_eq!(epochs(), before);
    wait_read(&zombie, 9);
    assert_eq!(zombie.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(other.program.term_and_wait(SOON).unwrap(), 0);
    assert_eq!(scene.rows(), (12, 11));
}

#[test]
fn an_insert_of_a_frozen_worker_that_lands_after_its_partition_was_taken_over_adds_no_row() {
    let scene = Scene::new("zombie_late", 2);
    let sink = once_sink(&scene);
    // Long enough that another worker has the partitions and has inserted their ranges.
    let late = Fault::Delay(Duration::from_secs(15));
    scene.proxy.fail_next(2, late, On::Inserts);
    let zombie = freeze_with_declared_ranges(&scene, &sink);
    scene.wait_empty_group();
    let other = scene.worker("other", &sink);
    scene.wait_committed(&[3, 3]);
    assert_eq!(scene.rows(), (6, 5));
    // Now the two that were late reach the server, under the tokens of those that were replayed.
    let landed = || {
        let inserts = scene.proxy.inserts();
        ensure!(
            inserts.iter().all(|it| it.server_status.is_some()),
            "late ones are on their way"
        );
        Ok(inserts)
    };
    let inserts = eventually(SOON, "every INSERT is answered", landed).unwrap();
    let counts: Vec<usize> = tokens(&inserts)
        .into_iter()
        .map(|(_, count)| count)
        .collect();
    assert_eq!(counts, [2, 2]);
    assert_eq!(scene.rows(), (6, 5));
    zombie.program.resume().unwrap();
    assert_it_rejoins(&scene, zombie, other);
}

#[test]
fn a_worker_that_wakes_up_with_an_unanswered_insert_adds_no_row_and_moves_no_offset() {
    let scene = Scene::new("zombie_wakes", 2);
    let sink = once_sink(&scene);
    scene.proxy.set_on(Fault::Hang, On::Inserts);
    let zombie = freeze_with_declared_ranges(&scene, &sink);
    scene.wait_empty_group();
    // The connections of its INSERTs are closed: it will find that out when it wakes up, and may try again.
    scene.proxy.pass();
    let other = scene.worker("other", &sink);
    scene.wait_committed(&[3, 3]);
    zombie.program.resume().unwrap();
    let ready = || Ok(zombie.is_ready());
    eventually_eq(SOON, "it answers again", &true, ready).unwrap();
    assert_it_rejoins(&scene, zombie, other);
}
