//! The table under flow: dropped, changed, mended; what readiness says meanwhile.

use std::time::Duration;

use clickhouse_sink_tests::produce::stat_event;
use clickhouse_sink_tests::wait::{eventually_eq, stays_eq};

use serde_json::json;

use crate::support::{SOON, Scene, wait_hold, wait_not_ready};

#[test]
fn a_table_dropped_under_flow_is_waited_for_and_gets_every_record_when_it_is_made_again() {
    let scene = Scene::new("dropped", 1);
    let worker = scene.start();
    scene.produce_events(3);
    scene.wait_committed(&[3]);
    scene.query("DROP TABLE vision_events SYNC");
    scene.produce(0, (3..8).map(|index| stat_event(0, index)));
    let hold = wait_hold(&worker, "TableNotAsDeclared");
    assert_eq!(hold["partition"], format!("{}/0", scene.topic));
    let reasons = wait_not_ready(&worker, "TableNotAsDeclared");
    assert!(
        reasons.contains("no such table") && reasons.contains("create it"),
        "{reasons}"
    );
    let committed = || scene.env.kafka().committed(&scene.group, &scene.topic);
    stays_eq(Duration::from_secs(2), "offsets", &vec![Some(3)], committed).unwrap();
    scene.create_tables();
    scene.wait_committed(&[8]);
    let offsets =
        "SELECT groupArray(_offset) FROM (SELECT _offset FROM vision_events ORDER BY _offset)";
    assert_eq!(scene.query(offsets), "[3,4,5,6,7]");
    worker.wait_ready(SOON).unwrap();
    assert!(
        worker.state().unwrap()["holds"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn commits_name_the_table_that_the_rows_are_in_also_after_it_was_made_again() {
    let scene = Scene::new("table_uuid", 1);
    let worker = scene.start();
    let named = || {
        let offsets = scene
            .env
            .kafka()
            .group_offsets(&scene.group, &scene.topic)?;
        let metadata = offsets[0].metadata.clone();
        Ok(metadata
            .split(';')
            .find_map(|part| part.strip_prefix("d="))
            .unwrap_or_default()
            .to_owned())
    };
    let uuid = || {
        scene.query("SELECT left(toString(uuid), 8) FROM system.tables WHERE database = currentDatabase() AND name = 'vision_events'")
    };
    scene.produce_events(1);
    scene.wait_committed(&[1]);
    let first = uuid();
    eventually_eq(SOON, "table in the commit", &first, named).unwrap();
    scene.query("DROP TABLE vision_events SYNC");
    scene.produce_events(1);
    wait_hold(&worker, "TableNotAsDeclared");
    scene.create_tables();
    scene.wait_committed(&[2]);
    assert_ne!(uuid(), first);
    eventually_eq(SOON, "table in the commit", &uuid(), named).unwrap();
}

#[test]
fn a_column_that_changes_its_type_holds_the_rows_until_it_is_changed_back() {
    let scene = Scene::new("drifted", 1);
    let worker = scene.start();
    scene.produce_events(3);
    scene.wait_committed(&[3]);
    scene.query("ALTER TABLE vision_events MODIFY COLUMN kind FixedString(8) SETTINGS mutations_sync = 2, alter_sync = 2");
    scene.produce(0, (3..5).map(|index| stat_event(0, index)));
    wait_hold(&worker, "TableNotAsDeclared");
    wait_not_ready(
        &worker,
        "kind: expected LowCardinality(String), found FixedString(8)",
    );
    assert_eq!((scene.committed(), scene.count()), (vec![Some(3)], 3));
    assert_eq!(
        scene
            .database
            .client()
            .count("vision_events_rejected")
            .unwrap(),
        0
    );
    scene.query("ALTER TABLE vision_events MODIFY COLUMN kind LowCardinality(String) SETTINGS mutations_sync = 2, alter_sync = 2");
    scene.wait_committed(&[5]);
    assert_eq!(scene.count(), 5);
}

#[test]
fn a_quiet_worker_looks_at_its_table_again_after_the_recheck_period() {
    let scene = Scene::new("recheck", 1).set("table.recheckPeriodSeconds", 1);
    let patient =
        Scene::of_topic("recheck_later", &scene.topic).set("table.recheckPeriodSeconds", 3600);
    let (worker, patient_worker) = (scene.start_reading(), patient.start_reading());
    for scene in [&scene, &patient] {
        scene.query("DROP TABLE vision_events SYNC");
    }
    wait_not_ready(&worker, "TableNotAsDeclared");
    stays_eq(
        Duration::from_secs(3),
        "readiness of the patient one",
        &true,
        || Ok(patient_worker.is_ready()),
    )
    .unwrap();
    scene.create_tables();
    worker.wait_ready(SOON).unwrap();
}

/// 300 does not fit into `UInt8`, and a server that may convert makes 44 of it.
#[test]
fn a_column_that_is_narrowed_under_flow_holds_the_rows_and_a_wider_one_takes_them() {
    let columns = json!([{ "name": "id", "type": "String" }, { "name": "n", "type": "UInt32" }]);
    let scene = Scene::new("narrowed", 1)
        .columns(columns)
        .set("table.recheckPeriodSeconds", 3600);
    let worker = scene.start_reading();
    scene.produce(0, [r#"{"id": "a", "n": 7}"#]);
    scene.wait_committed(&[1]);
    scene.query("ALTER TABLE vision_events MODIFY COLUMN n UInt8 SETTINGS mutations_sync = 2, alter_sync = 2");
    scene.produce(0, [r#"{"id": "b", "n": 300}"#]);
    wait_hold(&worker, "TableNotAsDeclared");
    wait_not_ready(&worker, "n: expected UInt32, found UInt8");
    assert_eq!((scene.committed(), scene.count()), (vec![Some(1)], 1));
    scene.query("ALTER TABLE vision_events MODIFY COLUMN n UInt64 SETTINGS mutations_sync = 2, alter_sync = 2");
    scene.wait_committed(&[2]);
    assert_eq!(
        scene.query("SELECT groupArray(n) FROM (SELECT n FROM vision_events ORDER BY id)"),
        "[7,300]"
    );
}

#[test]
fn without_ddl_a_table_of_another_shape_is_written_as_it_is() {
    let scene = Scene::new("ddl_none", 1).set("table.ddl", "none");
    scene.create_tables();
    scene.query(
        "ALTER TABLE vision_events ADD COLUMN extra UInt8 DEFAULT 7 SETTINGS alter_sync = 2",
    );
    scene.query("ALTER TABLE vision_events MODIFY COLUMN version UInt64 SETTINGS mutations_sync = 2, alter_sync = 2");
    let _worker = scene.start_with(&scene.config());
    scene.produce_events(4);
    scene.wait_committed(&[4]);
    assert_eq!(
        scene.query("SELECT count(), sum(version), sum(extra) FROM vision_events"),
        "4\t4\t28"
    );
}
