//! The sorting key is the event's identity: what collapses and what never does.
//!
//! Must not be here: copies that a crash makes (`crash.rs`).

use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::sink::SinkBuilder;
use serde_json::{Value, json};

use crate::support::{SOON, Scene};

fn event(event_id: &str, ts: &str) -> String {
    let event = json!({
        "event_id": event_id, "site": "plant-a", "camera": "gate-3", "app": "intrusion", "kind": "alert",
        "ts": ts, "version": 1, "status": "raised",
    });
    event.to_string()
}

#[test]
fn a_resend_collapses_but_a_re_minted_id_and_a_restamped_time_stay_rows_of_their_own_for_ever() {
    let scene = Scene::new("keys", 1);
    let sink = scene.sink().set("batch.lingerMilliseconds", 0);
    scene.make_table(&sink);
    let original = event("evt-a1", "2026-03-14T02:11:07.412Z");
    let re_minted = event("f3b1", "2026-03-14T02:11:07.412Z");
    let restamped = event("evt-a1", "2026-03-14T02:11:07.413Z");
    for record in [&original, &original, &re_minted, &restamped] {
        scene.producer.send_json(&scene.topic, 0, record).unwrap();
    }
    scene.producer.flush().unwrap();
    let mut worker = scene.worker("worker", &sink);
    scene.wait_committed(&[4]);
    assert_eq!(scene.rows(), (4, 3));
    let table = format!("{}.vision_events", scene.database.name());
    scene
        .client()
        .query(&format!("SYSTEM START MERGES {table}"))
        .unwrap();
    scene
        .client()
        .query(&format!("OPTIMIZE TABLE {table} FINAL"))
        .unwrap();
    assert_eq!(scene.rows(), (3, 3));
    let rows = scene.client().rows(
        "SELECT event_id, toUnixTimestamp64Milli(ts) % 1000 AS ms FROM vision_events ORDER BY ALL",
    );
    let expected = [("evt-a1", 412), ("evt-a1", 413), ("f3b1", 412)];
    assert_eq!(
        rows.unwrap(),
        expected.map(|(event_id, ms)| json!({ "event_id": event_id, "ms": ms }))
    );
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

/// The sink with a default for the event's time, which is in the sorting key.
fn with_default_of_ts(sink: SinkBuilder, default: &str) -> SinkBuilder {
    let mut columns = sink.value().pointer("/spec/table/columns").unwrap().clone();
    let is_ts = |column: &&mut Value| column["name"] == "ts";
    columns
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .find(is_ts)
        .unwrap()["default"] = json!(default);
    sink.set("table.columns", columns)
}

#[test]
fn a_key_column_whose_default_is_the_time_of_arrival_is_refused() {
    let scene = Scene::new("now_key", 1);
    for default in ["now64(3)", "toDateTime64(NOW(), 3)"] {
        let yaml = with_default_of_ts(scene.sink(), default).yaml().unwrap();
        let mut local = LocalProcess::start(&scene.dir, "refused", &yaml, &["--once"]).unwrap();
        assert_eq!(local.program.wait_exit(SOON).unwrap().code(), Some(2));
        let log = local.program.log();
        assert!(log.contains("spec.table.columns[5].default"), "{log}");
    }
    let tables: u64 = scene
        .client()
        .count("system.tables WHERE database = currentDatabase() AND name != 'clickhouse_sink_catalog'")
        .unwrap();
    assert_eq!(tables, 0);
}
