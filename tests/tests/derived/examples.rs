//! The two worked examples of the documentation, as they stand in `charts/examples`.

use std::fs;

use clickhouse_sink_tests::clickhouse::Database;
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::paths::workspace_dir;
use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::wait::eventually_eq;
use serde_json::{Value, json};

use crate::support::SOON;

struct Example {
    env: &'static Env,
    database: Database,
    topic: String,
    local: LocalProcess,
}

/// Runs an example with this run's addresses, and a topic, group and database of its own.
fn run(file: &str) -> Example {
    let env = Env::get().unwrap();
    let what = file.replace('-', "_");
    let database = env.database(&what).unwrap();
    let topic = env.topic(&what, 2).unwrap();
    let path = workspace_dir()
        .join("charts/examples")
        .join(format!("{file}.yaml"));
    let mut sink: Value = serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let brokers: Vec<_> = env.brokers.split(',').collect();
    sink["spec"]["kafka"] =
        json!({ "bootstrapServers": brokers, "topics": [topic], "groupId": env.unique(&what) });
    sink["spec"]["clickhouse"] = json!({ "url": env.clickhouse_url, "database": database.name() });
    sink["spec"]["batch"] = json!({ "lingerMilliseconds": 50 });
    let yaml = serde_yaml::to_string(&sink).unwrap();
    let dir = env.test_dir(&what).unwrap();
    Example {
        env,
        topic,
        local: LocalProcess::start(&dir, "sink", &yaml, &[]).unwrap(),
        database,
    }
}

impl Example {
    fn produce(&self, records: &[Value]) {
        let producer = self.env.producer().unwrap();
        for (partition, record) in (0..).zip(records) {
            let text = record.to_string();
            producer
                .send(&self.topic, partition % 2, None, Some(text.as_bytes()))
                .unwrap();
        }
        producer.flush().unwrap();
    }

    fn expect(&self, select: &str, expected: &[Value]) {
        eventually_eq(SOON, select, &expected.to_vec(), || {
            self.database.client().rows(select)
        })
        .unwrap();
    }
}

#[test]
fn the_current_state_of_each_alert_is_its_newest_version() {
    let mut example = run("current-state");
    let event = |id: &str, kind: &str, version: u32, status: &str| json!({ "event_id": id, "site": "s", "camera": "c", "kind": kind, "ts": "2026-03-14T00:00:00Z", "version": version, "status": status });
    example.produce(&[
        event("a", "alert", 1, "raised"),
        event("a", "alert", 2, "acknowledged"),
        event("b", "alert", 2, "acknowledged"),
        event("b", "alert", 1, "raised"),
        event("c", "stat", 1, "raised"),
    ]);
    example.expect(
        "SELECT count() AS rows FROM vision_history",
        &[json!({ "rows": 5 })],
    );
    let row = |id: &str| json!({ "event_id": id, "version": 2, "status": "acknowledged" });
    example.expect(
        "SELECT event_id, version, status FROM vision_alerts_current FINAL ORDER BY event_id",
        &[row("a"), row("b")],
    );
    assert_eq!(example.local.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn every_line_of_an_order_is_a_row() {
    let mut example = run("exploded-events");
    let line = |sku: &str, quantity: u32| json!({ "sku": sku, "quantity": quantity });
    let order = |id: &str, lines: Vec<Value>| json!({ "order_id": id, "placed_at": "2026-03-14T00:00:00Z", "version": 1, "lines": lines });
    example.produce(&[
        order("x", vec![line("p", 1), line("q", 2)]),
        order("y", vec![]),
        order("z", vec![line("p", 3)]),
        order("x", vec![line("p", 1), line("q", 2)]),
    ]);
    let row = |id: &str, number: u32, sku: &str, quantity: u32| json!({ "order_id": id, "line_no": number, "sku": sku, "quantity": quantity });
    example.expect(
        "SELECT count() AS rows FROM orders",
        &[json!({ "rows": 4 })],
    );
    example.expect(
        "SELECT order_id, line_no, sku, quantity FROM order_lines FINAL ORDER BY order_id, line_no",
        &[
            row("x", 1, "p", 1),
            row("x", 2, "q", 2),
            row("z", 1, "p", 3),
        ],
    );
    assert_eq!(example.local.program.term_and_wait(SOON).unwrap(), 0);
}
