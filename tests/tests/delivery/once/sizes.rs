//! Replays that are large, and many.
//!
//! Must not be here: how fast they are.

use std::time::Duration;

use clickhouse_sink_crds::worker_config::GroupProtocol::Classic;
use clickhouse_sink_tests::produce::stat_event;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::wait::eventually_eq;

use super::Once;
use crate::support::{SOON, metric};

const MIB: u64 = 1 << 20;
/// A thousand sessions begin and end within this time.
const PATIENCE: Duration = Duration::from_mins(3);

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
fn a_thousand_partitions_replay_in_turns_under_a_budget_that_holds_a_few_of_their_ranges() {
    const PARTITIONS: i32 = 1_000;
    const RECORDS: u64 = 4;
    let all = usize::try_from(PARTITIONS).unwrap();
    let once = Once::new("thousand", PARTITIONS, Classic);
    once.make_table();
    let filler = "x".repeat(16 << 10);
    for partition in 0..PARTITIONS {
        for index in 0..RECORDS {
            let event = stat_event(partition, index).replace("stat-", &format!("{filler}-"));
            let topic = &once.scene.topic;
            once.scene
                .producer
                .send_json(topic, partition, &event)
                .unwrap();
        }
        once.scene.producer.poll();
    }
    once.scene.producer.flush().unwrap();
    let mut config = once.config();
    config.batch.max_rows = u32::try_from(RECORDS).unwrap();
    once.scene.proxy.set_on(Fault::Hang, On::Inserts);
    let mut worker = once.worker_on("killed", &config);
    let declared = || {
        let state = worker.state()?;
        let sessions = state["sessions"].as_array().cloned().unwrap_or_default();
        Ok(sessions.iter().filter(|it| it["declared"] == 1).count())
    };
    eventually_eq(PATIENCE, "declared ranges", &all, declared).unwrap();
    worker.program.kill().unwrap();
    let end = i64::try_from(RECORDS).unwrap();
    assert!(once.plans().iter().all(|plan| *plan == (0, vec![end])));
    once.scene.proxy.pass();
    // A linger that never ends: what is sent is what was declared. All ranges together have 64 MiB.
    config.batch.max_rows = 1_000;
    config.memory_budget_bytes = 16 * MIB;
    let mut next = once.worker_on("next", &config);
    let mut most_buffered = 0;
    let committed = || {
        let state = next.state()?;
        most_buffered = most_buffered.max(state["buffered_bytes"].as_u64().unwrap_or(0));
        let sessions = state["sessions"].as_array().cloned().unwrap_or_default();
        Ok(sessions.iter().filter(|it| it["committed"] == end).count())
    };
    eventually_eq(PATIENCE, "committed ranges", &all, committed).unwrap();
    assert!(most_buffered < 16 * MIB, "{most_buffered}");
    assert_eq!(
        metric(&next, "ranges_replayed_total").unwrap(),
        u64::from(PARTITIONS.unsigned_abs())
    );
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
    once.assert_each_once(RECORDS * u64::from(PARTITIONS.unsigned_abs()));
    assert!(once.plans().iter().all(|plan| *plan == (end, Vec::new())));
}
