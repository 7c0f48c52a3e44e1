//! A member that freezes loses its partitions, and must know it when it wakes up.
//!
//! Must not be here: members that leave in order (`rebalance.rs`).

use anyhow::ensure;
use clickhouse_sink_tests::wait::eventually;

use crate::support::{SOON, Scene, wait_read};

#[test]
fn a_worker_that_was_frozen_beyond_its_session_drops_what_it_held_without_a_commit_and_joins_again()
{
    let scene = Scene::new("frozen", 2);
    let sink = scene.sink().set("batch.lingerMilliseconds", 600_000);
    scene.make_table(&sink);
    scene.produce_night_shift();
    let mut frozen = scene.worker("frozen", &sink);
    wait_read(&frozen, 6);
    frozen.program.stop_hang().unwrap();
    scene.wait_empty_group();
    let mut other = scene.worker("other", &scene.sink().set("batch.lingerMilliseconds", 0));
    scene.wait_committed(&[3, 3]);
    let (epochs, rows): (Vec<_>, _) = (
        scene.metadata().into_iter().map(|it| it.epoch).collect(),
        scene.rows(),
    );
    assert_eq!(rows, (6, 5));
    frozen.program.resume().unwrap();
    let joined = || {
        let state = frozen.state()?;
        let sessions = state["sessions"].as_array().cloned().unwrap_or_default();
        let positions: Vec<_> = sessions
            .iter()
            .map(|it| (it["state"].as_str(), it["committed"].as_i64()))
            .collect();
        ensure!(positions == [(Some("Running"), Some(3))], "{state}");
        Ok(())
    };
    eventually(SOON, "one partition each", joined).unwrap();
    // Its six rows are dropped: they were inserted by the other one, and offsets never go back.
    assert_eq!(scene.rows(), (6, 5));
    scene.produce_stats(0, 0, 4);
    scene.produce_stats(1, 0, 4);
    wait_read(&frozen, 10);
    assert_eq!(frozen.program.term_and_wait(SOON).unwrap(), 0);
    scene.wait_committed(&[7, 7]);
    assert_eq!(scene.rows(), (14, 13));
    let now: Vec<_> = scene.metadata().into_iter().map(|it| it.epoch).collect();
    assert_eq!(now, epochs);
    assert_eq!(other.program.term_and_wait(SOON).unwrap(), 0);
}
