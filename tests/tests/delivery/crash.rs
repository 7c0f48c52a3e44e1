//! SIGKILL at the worst moments.
//!
//! Must not be here: stops in order (`stop.rs`), who starts a worker again (`supervisor.rs`).

use clickhouse_sink_tests::proxy::{ApiKey, Fault, KafkaFault, KafkaProxy, On};
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::eventually_eq;
use serde_json::json;

use crate::support::{SOON, Scene};

/// The night shift's table as a person makes it: no deduplication window, no metadata columns.
const TABLE_BY_HAND: &str = "CREATE TABLE vision_events (event_id String, site LowCardinality(String), \
    camera LowCardinality(String), app LowCardinality(String), kind LowCardinality(String), ts DateTime64(3, 'UTC'), \
    version UInt32, status LowCardinality(String)) ENGINE = ReplacingMergeTree(version) PARTITION BY toYYYYMM(ts) \
    ORDER BY (site, app, camera, ts, event_id)";

#[test]
fn a_worker_killed_while_clickhouse_hangs_on_its_insert_has_committed_nothing_and_the_next_one_inserts_all()
 {
    let scene = Scene::new("hang_kill", 2);
    let sink = scene.sink_of_sets(&scene.env.brokers, 6);
    scene.make_table(&sink);
    scene.proxy.set_on(Fault::Hang, On::Inserts);
    scene.produce_night_shift();
    let mut worker = scene.worker("killed", &sink);
    scene.wait_inserts(1);
    worker.program.kill().unwrap();
    assert_eq!(scene.committed(), [Some(0), Some(0)]);
    assert_eq!(scene.lags(), [3, 3]);
    assert_eq!(scene.rows(), (0, 0));
    scene.proxy.pass();
    let mut next = scene.worker("next", &sink);
    scene.wait_committed(&[3, 3]);
    assert_eq!(scene.rows(), (6, 5));
    assert_eq!(
        scene.acknowledged_alert(),
        json!({ "version": 2, "status": "acknowledged" })
    );
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
}

/// Runs a worker that has inserted the night shift and whose commit never reaches the broker, and kills it.
fn kill_between_insert_and_commit(scene: &Scene, kafka: &KafkaProxy, sink: &SinkBuilder) {
    let mut worker = scene.worker("killed", sink);
    // The first commits make the positions; only those after them are held.
    scene.wait_committed(&[0, 0]);
    kafka.set(KafkaFault::HoldRequests(ApiKey::OFFSET_COMMIT));
    scene.produce_night_shift();
    scene.wait_rows(6);
    let held = || Ok(kafka.held(ApiKey::OFFSET_COMMIT) > 0);
    eventually_eq(SOON, "a commit is held", &true, held).unwrap();
    worker.program.kill().unwrap();
    // The connection must be gone with what it held, before anything passes again.
    eventually_eq(SOON, "held commits", &0, || {
        Ok(kafka.held(ApiKey::OFFSET_COMMIT))
    })
    .unwrap();
    kafka.pass();
    assert_eq!(scene.committed(), [Some(0), Some(0)]);
    assert_eq!(scene.lags(), [3, 3]);
}

#[test]
fn a_worker_killed_between_insert_and_commit_leaves_copies_that_final_hides_in_a_table_without_a_window()
 {
    let scene = Scene::new("kill_by_hand", 2);
    let kafka = scene.env.kafka_proxy().unwrap();
    let sink = scene
        .sink_of_sets(kafka.bootstrap(), 6)
        .set("table.ddl", "none");
    let sink = sink.set("table.metadataColumns.mode", "None");
    scene.client().query(TABLE_BY_HAND).unwrap();
    scene.stop_merges();
    kill_between_insert_and_commit(&scene, &kafka, &sink);
    assert_eq!(scene.rows(), (6, 5));
    let mut next = scene.worker("next", &sink);
    scene.wait_committed(&[3, 3]);
    assert_eq!(scene.rows(), (12, 5));
    assert_eq!(
        scene.acknowledged_alert(),
        json!({ "version": 2, "status": "acknowledged" })
    );
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_set_that_is_cut_alike_after_a_crash_has_the_same_token_and_the_window_drops_it() {
    let scene = Scene::new("kill_window", 2);
    let kafka = scene.env.kafka_proxy().unwrap();
    let sink = scene.sink_of_sets(kafka.bootstrap(), 6);
    scene.make_table(&sink);
    kill_between_insert_and_commit(&scene, &kafka, &sink);
    let mut next = scene.worker("next", &sink);
    scene.wait_committed(&[3, 3]);
    let inserts = scene.proxy.inserts();
    let tokens: Vec<_> = inserts
        .iter()
        .map(|insert| insert.param("insert_deduplication_token").unwrap())
        .collect();
    assert_eq!(tokens.len(), 2);
    assert!(
        tokens[0].starts_with(&format!("cs1/{}/set/", scene.group)),
        "{}",
        tokens[0]
    );
    assert_eq!(tokens[0], tokens[1]);
    assert_eq!(
        inserts
            .iter()
            .map(|insert| insert.server_status)
            .collect::<Vec<_>>(),
        [Some(200), Some(200)]
    );
    assert_eq!(scene.rows(), (6, 5));
    assert_eq!(next.program.term_and_wait(SOON).unwrap(), 0);
}
