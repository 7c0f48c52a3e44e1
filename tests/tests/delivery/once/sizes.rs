//! Replays that are large, and many.
//!
//! Must not be here: how fast they are.

use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_tests::produce::stat_event;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::wait::eventually_eq;

use super::Once;
use crate::support::SOON;

const MIB: u64 = 1 << 20;

#[test]
fn a_range_of_64_mib_is_replayed_under_a_budget_of_16_mib() {
    let records = 128_u64;
    let once = Once::new("large", 1, Classic);
    once.make_table();
    let mut config = once.config();
    config.batch.max_rows = u32::try_from(records).unwrap();
    config.batch.max_bytes = 512 * MIB;
    config.memory_budget_bytes = 1024 * MIB;
    config.format.max_record_bytes = 2 * MIB;
    let filler = "x".repeat(512 << 10);
    for index in 0..records {
        let event = stat_event(0, index).replace("stat-", &format!("{filler}-"));
        once.scene
            .producer
            .send_json(&once.scene.topic, 0, &event)
            .unwrap();
    }
    once.scene.producer.flush().unwrap();
    once.scene.proxy.set_on(Fault::Hang, On::Inserts);
    let mut worker = once.worker_on("killed", &config);
    once.scene.wait_inserts(1);
    worker.program.kill().unwrap();
    let end = i64::try_from(records).unwrap();
    assert_eq!(once.plans(), [(0, vec![end])]);
    once.scene.proxy.pass();
    config.memory_budget_bytes = 16 * MIB;
    config.batch.max_bytes = 4 * MIB;
    once.finish_on("next", &config, &[end]);
    assert_eq!(once.ranges_sent(), [format!("0/0-{end}")]);
    once.assert_each_once(records);
}

#[test]
fn hundreds_of_partitions_replay_in_turns() {
    let partitions = 300;
    let once = Once::new("many", partitions, Classic);
    once.make_table();
    for partition in 0..partitions {
        once.scene
            .producer
            .send_json(&once.scene.topic, partition, &stat_event(partition, 0))
            .unwrap();
    }
    once.scene.producer.flush().unwrap();
    let mut config = once.config();
    config.batch.max_rows = 1;
    once.scene.proxy.set_on(Fault::Hang, On::Inserts);
    let mut worker = once.worker_on("killed", &config);
    let declared = || {
        let state = worker.state()?;
        let sessions = state["sessions"].as_array().cloned().unwrap_or_default();
        Ok(sessions.iter().filter(|it| it["declared"] == 1).count())
    };
    let all = usize::try_from(partitions).unwrap();
    eventually_eq(SOON, "declared ranges", &all, declared).unwrap();
    worker.program.kill().unwrap();
    assert!(once.plans().iter().all(|plan| *plan == (0, vec![1])));
    once.scene.proxy.pass();
    // A linger that never ends: what is sent is what was declared.
    config.batch.max_rows = 1000;
    once.finish_on("next", &config, &vec![1; all]);
    once.assert_each_once(u64::try_from(partitions).unwrap());
}
