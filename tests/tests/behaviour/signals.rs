//! What a worker tells over HTTP: `/livez`, `/readyz`, `/metrics`, `/state`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{Canned, Fault, On};
use clickhouse_sink_tests::wait::{eventually_eq, stays_eq};
use serde_json::{Value, json};

use crate::support::{SOON, Scene, metric, wait_hold, wait_not_ready};

fn answer(worker: &WorkerProcess, path: &str) -> (u16, String) {
    let answer = worker.get(path).unwrap();
    (answer.status, answer.text())
}

#[test]
fn a_worker_is_alive_and_ready_and_says_so_in_words() {
    let scene = Scene::new("ready", 1);
    let worker = scene.start();
    worker.wait_ready(SOON).unwrap();
    assert_eq!(answer(&worker, "/livez"), (200, "alive".to_owned()));
    assert_eq!(
        answer(&worker, "/readyz"),
        (200, r#"{"ready":true,"reasons":[]}"#.to_owned())
    );
    assert_eq!(answer(&worker, "/nothing").0, 404);
}

#[test]
fn a_worker_that_reaches_no_broker_is_alive_but_not_ready_and_makes_no_position() {
    let scene = Scene::new("no_broker", 1).set("kafka.bootstrapServers", json!(["127.0.0.1:9"]));
    let mut worker = scene.start();
    let reasons = wait_not_ready(&worker, "NotAMember");
    assert!(reasons.contains(r#""ready":false"#), "{reasons}");
    assert_eq!(answer(&worker, "/livez").0, 200);
    stays_eq(Duration::from_secs(2), "ready", &false, || {
        Ok(worker.is_ready())
    })
    .unwrap();
    assert_eq!(scene.committed(), [None]);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_worker_without_a_server_is_not_ready_and_tells_where_it_looked_for_one() {
    let scene = Scene::new("no_server", 1);
    scene.create_tables();
    scene.proxy.set(Fault::Cut);
    let worker = scene.start_with(&scene.config());
    wait_not_ready(&worker, "ClickHouseUnreachable");
    scene.proxy.pass();
    worker.wait_ready(SOON).unwrap();
}

#[test]
fn a_worker_without_a_partition_is_ready_and_nobody_flaps_while_it_comes_and_goes() {
    let scene = Scene::new("empty_assignment", 1);
    let first = scene.start_reading();
    first.wait_ready(SOON).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut answers = 0;
            while !over.load(Ordering::Acquire) {
                let answer = first.get("/readyz").unwrap();
                assert_eq!(answer.status, 200, "{}", answer.text());
                answers += 1;
            }
            answers
        });
        let mut second = WorkerProcess::start(&scene.dir, "second", &scene.config()).unwrap();
        second.wait_ready(SOON).unwrap();
        let sessions = |worker: &WorkerProcess| {
            worker.state().unwrap()["sessions"]
                .as_array()
                .unwrap()
                .len()
        };
        eventually_eq(SOON, "sessions of both", &1, || {
            Ok(sessions(&first) + sessions(&second))
        })
        .unwrap();
        stays_eq(
            Duration::from_secs(2),
            "readiness of the second",
            &true,
            || Ok(second.is_ready()),
        )
        .unwrap();
        assert_eq!(second.program.term_and_wait(SOON).unwrap(), 0);
        eventually_eq(SOON, "sessions of the first", &1, || Ok(sessions(&first))).unwrap();
        over.store(true, Ordering::Release);
        assert!(watch.join().unwrap() > 20);
    });
}

#[test]
fn the_state_tells_each_session_each_hold_and_the_figures() {
    let scene = Scene::new("state", 2);
    let worker = scene.start_reading();
    scene.produce_events(3);
    scene.produce(1, ["bad"]);
    scene.wait_committed(&[3, 1]);
    let session = |partition: i32, offset: i64| {
        json!({
            "topic": scene.topic, "partition": partition, "state": "Running", "position": offset, "committed": offset,
            "end": offset, "lag": 0, "log_start_distance": offset, "stalled_seconds": 0.0, "epoch": 16,
            "declared": 0,
        })
    };
    let expected = json!({
        "sink": "default/events", "mapping": 16, "sessions": [session(0, 3), session(1, 1)], "holds": [], "rows_inserted": 3,
        "rejected": 1, "buffered_bytes": 0, "memory_budget_bytes": 268_435_456, "in_flight": 0, "draining": false,
        "topics": [{ "name": scene.topic, "id": 22, "partitions": 2 }],
    });
    eventually_eq(SOON, "/state", &expected, || {
        Ok(without_names(worker.state()?))
    })
    .unwrap();
    let refusal = Canned::error(404, 60, "Table vision_events_rejected does not exist");
    scene.proxy.set_on(
        Fault::Replace(refusal),
        On::Containing("vision_events_rejected".into()),
    );
    scene.produce(1, ["bad"]);
    let hold = wait_hold(&worker, "DeadLetterUnavailable");
    let mut fields: Vec<&str> = hold
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        ["id", "message", "partition", "reason", "since_seconds"]
    );
    assert_eq!(worker.state().unwrap()["in_flight"], 1);
}

/// Names that are made by chance, as their lengths.
fn without_names(mut state: Value) -> Value {
    let length = |value: &mut Value| *value = value.as_str().map_or(0, str::len).into();
    length(&mut state["mapping"]);
    length(&mut state["topics"][0]["id"]);
    state["sessions"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|session| length(&mut session["epoch"]));
    state
}

#[test]
fn the_metrics_count_what_was_read_inserted_rejected_and_committed() {
    let scene = Scene::new("metrics", 2);
    let worker = scene.start_reading();
    scene.produce_events(3);
    scene.produce(1, ["bad"]);
    scene.wait_committed(&[3, 1]);
    let figures = [
        ("rows_inserted_total", 3.0),
        ("records_read_total", 4.0),
        ("records_rejected_total", 1.0),
        ("insert_retries_total", 0.0),
        ("holds", 0.0),
        ("lag_records", 0.0),
        ("inserts_in_flight", 0.0),
        ("assigned_partitions", 2.0),
        ("draining", 0.0),
        ("memory_budget_bytes", 268_435_456.0),
        ("log_start_distance_records", 4.0),
        ("rebalances_total", 1.0),
    ];
    for (name, expected) in figures {
        eventually_eq(SOON, name, &expected, || metric(&worker, name, &[])).unwrap();
    }
    let page = worker.get("/metrics").unwrap();
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text"),
        "{page:?}"
    );
    let text = page.text();
    assert!(text.ends_with("# EOF"));
    let (metrics, partition) = (
        worker.metrics().unwrap(),
        format!("topic=\"{}\"", scene.topic),
    );
    let distance = metrics.sum(
        "clickhouse_sink_worker_log_start_distance_records",
        &[&partition, "partition=\"0\""],
    );
    assert_eq!(distance, Some(3.0));
    for name in [
        "insert_seconds_count",
        "attempt_seconds_count",
        "commit_seconds_count",
        "batch_rows_count",
        "commits_total",
        "sent_bytes_total",
    ] {
        assert!(metric(&worker, name, &[]).unwrap() > 0.0, "{name}\n{text}");
    }
}
