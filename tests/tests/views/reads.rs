//! What people read: one row for each key, typed columns out of tuples, derived tables.

use clickhouse_sink_tests::wait::eventually_eq;
use serde_json::json;

use crate::scene::{SOON, Scene, columns, wait_log};

fn produce_versions(scene: &Scene) {
    for (id, version, n) in [("a", 1, 10), ("a", 3, 30), ("a", 2, 20), ("b", 1, 5)] {
        let record = format!(
            r#"{{"id": "{id}", "version": {version}, "n": {n}, "box": {{"x": {n}, "size": {{"w": 1}}}}}}"#
        );
        scene.produce(0, &record);
        // An INSERT of its own for each, so that nothing is merged before it is read.
        scene.producer.flush().unwrap();
        let query = format!("SELECT count() FROM events WHERE id = '{id}' AND version = {version}");
        let count = || scene.database.client().scalar::<u64>(&query);
        eventually_eq(SOON, "the row", &1, count).unwrap();
    }
}

#[test]
fn final_and_latest_by_give_the_newest_version_of_each_key_and_plain_gives_all() {
    for (read, expected) in [
        ("Final", "a,3,30\nb,1,5"),
        ("LatestBy", "a,3,30\nb,1,5"),
        ("Plain", "a,1,10\na,2,20\na,3,30\nb,1,5"),
    ] {
        let scene = Scene::new("view_read", 1);
        scene.query("SELECT 1");
        let sink = scene
            .sink
            .clone()
            .set("flatView", json!({ "name": "flat", "read": read }));
        let local = scene.start("local", &sink);
        wait_log(&local, 0, &["create flat view", "| Ready"]);
        scene.query("SYSTEM STOP MERGES events");
        produce_versions(&scene);
        let found = scene.query(
            "SELECT concat(id, ',', toString(version), ',', toString(n)) FROM flat ORDER BY id, version",
        );
        assert_eq!(found, expected, "{read}");
    }
}

#[test]
fn elements_of_tuples_are_columns_and_expressions_are_computed() {
    let scene = Scene::new("view_tuple", 1);
    let tuple = json!({ "name": "box", "type": "Tuple(x Int32, size Tuple(w UInt8))" });
    let sink = scene
        .sink
        .clone()
        .set("table.columns", columns(&[tuple]))
        .set("table.metadataColumns", json!({ "mode": "None" }))
        .set("delivery.guarantee", "AtLeastOnce");
    let local = scene.start("local", &sink);
    wait_log(&local, 0, &["create flat view", "| Ready"]);
    scene.wait_columns("id,version,n,box_x,box_size_w");
    produce_versions(&scene);
    assert_eq!(
        scene.query("SELECT box_x, box_size_w, toTypeName(box_x) FROM flat WHERE id = 'a'"),
        "30\t1\tInt32"
    );
    let doubled = sink.set(
        "flatView.columns",
        json!([{ "name": "id" }, { "name": "double", "expression": "n*2" }]),
    );
    local.rewrite(&doubled.yaml().unwrap()).unwrap();
    scene.wait_columns("id,double");
    assert_eq!(scene.query("SELECT double FROM flat WHERE id = 'b'"), "10");
}

#[test]
fn a_view_may_read_a_derived_table() {
    let scene = Scene::new("view_derived", 1);
    let derived = json!([{
        "name": "current",
        "engine": { "replacingMergeTree": { "versionColumn": "version" } },
        "orderBy": ["id"],
        "select": "SELECT id, version, n * 2 AS twice FROM events",
    }]);
    let sink = scene
        .sink
        .clone()
        .set("derived", derived)
        .set("flatView", json!({ "name": "flat", "source": "current" }));
    let local = scene.start("local", &sink);
    wait_log(&local, 0, &["create flat view", "| Ready"]);
    scene.wait_columns("id,version,twice");
    produce_versions(&scene);
    let rows = || Ok(scene.query("SELECT twice FROM flat ORDER BY id"));
    eventually_eq(SOON, "rows", &"60\n10".to_owned(), rows).unwrap();
}

#[test]
fn an_expression_that_is_none_is_refused_before_it_gets_into_a_statement() {
    let scene = Scene::new("view_expression", 1);
    let sink = scene.sink.clone().set(
        "flatView.columns",
        json!([{ "name": "id", "expression": "id) FROM system.one UNION ALL SELECT (1" }]),
    );
    let mut local = scene.start("local", &sink);
    let status = local.program.wait_exit(SOON).unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(
        local
            .program
            .log()
            .contains("spec.flatView.columns[0].expression")
    );
    let odd = scene.sink.clone().set(
        "flatView.columns",
        json!([{ "name": "id", "expression": "id + + (" }]),
    );
    let mut local = scene.start("odd", &odd);
    let status = local.program.wait_exit(SOON).unwrap();
    assert_eq!(status.code(), Some(2));
}
