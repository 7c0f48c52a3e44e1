//! The guarantee is switched on a live sink, both ways, while records flow.
//!
//! Must not be here: copies that `AtLeastOnce` alone makes (`crash.rs`).

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_crds::worker_config::Guarantee;
use clickhouse_sink_tests::proxy::Fault;

use super::Once;
use crate::support::{SOON, pause};

/// Produces to both partitions until the other side is gone; gives the records of each.
fn produce_until(once: &Once, stop: &Receiver<()>) -> u64 {
    let mut each = 0;
    while stop.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
        once.scene.produce_stats(0, each, each + 7);
        once.scene.produce_stats(1, each, each + 7);
        each += 7;
    }
    each
}

#[test]
fn a_guarantee_that_is_switched_under_flow_leaves_each_record_in_the_table_once() {
    let once = Once::new("switched", 2, Classic).change(|sink| {
        let sink = sink.set("batch.maxRows", 100);
        let sink = sink.set("batch.lingerMilliseconds", 100);
        // A stop in order is what is looked at, however busy the machine is.
        sink.set("shutdown.finalFlushTimeoutSeconds", 60)
    });
    once.make_table();
    let (stop, stopped) = channel::<()>();
    let produced = std::thread::scope(|scope| {
        let scene = &once;
        let producing = scope.spawn(move || produce_until(scene, &stopped));
        for turn in 0..5 {
            let mut config = once.config();
            config.delivery.guarantee = if turn % 2 == 0 {
                Guarantee::AtLeastOnce
            } else {
                Guarantee::ExactlyOnce
            };
            let before = once.scene.rows_in_table();
            let mut worker = once.worker_on(&format!("worker_{turn}"), &config);
            clickhouse_sink_tests::wait::eventually(SOON, "rows flow", || {
                anyhow::ensure!(once.scene.rows_in_table() > before + 50);
                Ok(())
            })
            .unwrap();
            pause(Duration::from_millis(300));
            assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
        }
        drop(stop);
        producing.join().unwrap()
    });
    let end = i64::try_from(produced).unwrap();
    once.finish("last", &[end, end]);
    once.assert_each_once(2 * produced);
    let epochs = once.scene.metadata();
    assert!(epochs.iter().all(|it| !it.epoch.is_reset()));
}

#[test]
fn at_least_once_replays_the_ranges_that_exactly_once_had_declared_before_it_reads_on() {
    let once = Once::new("switched_plan", 1, Classic);
    once.make_table();
    once.kill_in_insert(Fault::DelayReply(Duration::from_mins(5)), true);
    once.scene.produce_stats(0, 3, 9);
    let mut config = once.config();
    config.delivery.guarantee = Guarantee::AtLeastOnce;
    once.finish_on("next", &config, &[9]);
    assert_eq!(once.sent()["0/0-3"], 2);
    once.assert_each_once(9);
    assert_eq!(once.inserts_dropped(), 1);
}
