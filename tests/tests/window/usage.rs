//! How much of the window was used, by whomever, and how the table's report tells the window.
//!
//! Must not be here: what is done then.

use std::time::{Duration, Instant};

use anyhow::ensure;
use clickhouse_sink_tests::wait::eventually;
use clickhouse_sink_worker::verify::fetch_window_use;
use clickhouse_sink_worker::window::{
    ReplayMode, WindowSettings, WindowUse, bound_entries, decide_replay,
};

use crate::support::Case;

const SOON: Duration = Duration::from_mins(1);
const ENGINE: &str = "ENGINE = MergeTree PARTITION BY n % 4 ORDER BY n \
    SETTINGS non_replicated_deduplication_window = 30";

fn record(number: usize) -> String {
    format!(r#"{{"n": {number}}}"#)
}

/// The server's time, once its log of parts reaches back to it.
fn logged_moment(case: &Case) -> u64 {
    case.run("INSERT INTO {} (n) VALUES (1)");
    let client = case.database.client();
    eventually(SOON, "a log of parts that has begun", || {
        client.flush_logs()?;
        let logged = client.count("system.part_log WHERE event_time < now()")?;
        ensure!(logged > 0, "nothing logged before this second");
        Ok(())
    })
    .unwrap();
    client.scalar("SELECT toUnixTimestamp(now())").unwrap()
}

#[tokio::test]
async fn every_writer_uses_one_entry_for_each_table_partition_and_a_repeat_uses_none() {
    let case = Case::new("window_use", &[("n", "UInt32")], ENGINE);
    let since = logged_moment(&case);
    let started = Instant::now();
    let used = || fetch_window_use(&case.client, case.name(), since);
    // The moment is a whole second, which the first row may be in.
    let before = used().await.unwrap().entries.unwrap();
    assert!(before <= 1);
    for batch in 0..3 {
        let rows = case.rows((0..8).map(record));
        case.send(&rows.block, &format!("token {}", batch % 2))
            .await;
    }
    case.run("INSERT INTO {} (n) VALUES (2), (3)");
    let expected = before + 4 + 4 + 2;
    assert_eq!(used().await.unwrap().entries, Some(expected));
    // The same, once all is logged and the parts are merged away.
    case.run("OPTIMIZE TABLE {} FINAL");
    case.database.client().flush_logs().unwrap();
    let used = used().await.unwrap();
    assert_eq!(used.entries, Some(expected));
    assert!(used.seconds.unwrap() <= started.elapsed().as_secs() + 2);
    let window = |entries| WindowSettings {
        entries,
        seconds: None,
    };
    assert_eq!(decide_replay(&window(30), &used), ReplayMode::Replay);
    assert_eq!(decide_replay(&window(10), &used), ReplayMode::Verify);
    assert!(bound_entries(used.seconds.unwrap(), 50, 4) >= expected);
}

#[tokio::test]
async fn what_the_log_does_not_reach_back_to_is_all_that_was_ever_used() {
    let case = Case::new("window_log", &[("n", "UInt32")], ENGINE);
    let now = logged_moment(&case);
    let used = async |since| {
        fetch_window_use(&case.client, case.name(), since)
            .await
            .unwrap()
    };
    case.run("INSERT INTO {} (n) VALUES (2), (3)");
    case.run("INSERT INTO {} (n) VALUES (6), (7)");
    // Merges take nothing away.
    case.run("OPTIMIZE TABLE {} FINAL");
    let long_ago = used(now - 3_000_000).await;
    assert_eq!(long_ago.entries, Some(1 + 4));
    assert!(long_ago.seconds.unwrap() >= 3_000_000);
    assert_eq!(used(now + 1000).await, WindowUse::default());
    assert_eq!(used(0).await, WindowUse::default());
}
