//! Several definitions of one view: it moves forward once, and never flaps.
#![allow(
    clippy::disallowed_methods,
    reason = "a stream is paced, and what must not happen is watched, by sleeping"
)]

use std::time::Duration;

use crate::scene::{Scene, mark, view, wait_log};

/// Longer than several rechecks of everybody.
const WATCHED: Duration = Duration::from_secs(10);

#[test]
fn an_old_file_never_wins_and_a_person_promotes_it_once() {
    let scene = Scene::new("view_old_file", 1);
    let old = scene.sink.clone().set("flatView", view(&["id", "n"]));
    let new = scene
        .sink
        .clone()
        .set("flatView", view(&["id", "n", "version"]));
    let local = scene.start("local", &old);
    scene.wait_columns("id,n");
    local.rewrite(&new.yaml().unwrap()).unwrap();
    scene.wait_columns("id,n,version");
    // The old manifest is applied again, as by a controller that lags behind.
    let from = mark(&local);
    local.rewrite(&old.yaml().unwrap()).unwrap();
    wait_log(&local, from, &["FlatViewReplaced"]);
    scene.assert_quiet(WATCHED);
    assert_eq!(scene.columns(), "id,n,version");
    let log = local.program.log();
    let word = log[from..].split("promote-view: \"").nth(1).unwrap();
    let word = word.split('"').next().unwrap();
    let mut promoted = old.value().clone();
    promoted["metadata"]["annotations"] =
        serde_json::json!({ "clickhouse-sink.io/promote-view": word });
    let text = serde_yaml::to_string(&promoted).unwrap();
    local.rewrite(&text).unwrap();
    scene.wait_columns("id,n");
    scene.assert_quiet(WATCHED);
    // The word has acted: the newer definition may come back, and stays.
    local
        .rewrite(&new.set("flatView", view(&["version"])).yaml().unwrap())
        .unwrap();
    scene.wait_columns("version");
    local.rewrite(&text).unwrap();
    scene.assert_quiet(WATCHED);
    assert_eq!(scene.columns(), "version");
}

#[test]
fn two_sinks_with_one_view_settle_on_the_one_that_came_last() {
    let scene = Scene::new("view_two_sinks", 1);
    let first = scene.sink.clone().set("flatView", view(&["id", "n"]));
    let second = scene.another("others").set("flatView", view(&["n"]));
    let local = scene.start("local", &first);
    scene.wait_columns("id,n");
    let other = scene.start("other", &second);
    scene.wait_columns("n");
    wait_log(&local, 0, &["FlatViewReplaced"]);
    scene.assert_quiet(WATCHED);
    assert!(!other.program.log().contains("FlatViewReplaced"));
    // Neither an older instance that starts again nor the newer one moves it.
    drop(local);
    let again = scene.start("local", &first);
    wait_log(&again, 0, &["FlatViewReplaced"]);
    scene.assert_quiet(WATCHED);
    assert_eq!(scene.columns(), "n");
}

#[test]
fn two_definitions_that_race_for_a_new_view_settle() {
    let scene = Scene::new("view_race", 1);
    let first = scene.sink.clone().set("flatView", view(&["id", "n"]));
    let second = scene.another("others").set("flatView", view(&["n"]));
    let locals = [scene.start("local", &first), scene.start("other", &second)];
    for local in &locals {
        wait_log(local, 0, &["| Ready"]);
    }
    std::thread::sleep(Duration::from_secs(5));
    scene.assert_quiet(WATCHED);
    let stands = scene.columns();
    assert!(["id,n", "n"].contains(&stands.as_str()), "{stands}");
    let lineage: serde_json::Value = serde_json::from_str(&scene.comment()).unwrap();
    let entries = lineage["clickhouse-sink"]["lineage"].as_array().unwrap();
    assert!((1..=3).contains(&entries.len()), "{lineage}");
    // Each of them says whose definition stands, or that its own does.
    let replaced = locals
        .iter()
        .filter(|local| local.program.log().contains("FlatViewReplaced"));
    assert_eq!(replaced.count(), 1);
}

#[test]
fn two_writers_that_replace_each_other_by_promotion_are_stopped() {
    let scene = Scene::new("view_fight", 1);
    let local = scene.start("local", &scene.sink.clone().set("flatView", view(&["id"])));
    scene.wait_columns("id");
    // The same definition comes back by a new word each time.
    let from = mark(&local);
    for (round, names) in [["n"], ["version"]].iter().enumerate() {
        let other = scene.sink.clone().set("flatView", view(names));
        local.rewrite(&other.yaml().unwrap()).unwrap();
        scene.wait_columns(names[0]);
        let mut back = scene
            .sink
            .clone()
            .set("flatView", view(&["id"]))
            .value()
            .clone();
        let fp = first_fp(&scene);
        let word = format!("{fp}/{round}");
        back["metadata"]["annotations"] =
            serde_json::json!({ "clickhouse-sink.io/promote-view": word });
        local
            .rewrite(&serde_yaml::to_string(&back).unwrap())
            .unwrap();
        if round == 0 {
            scene.wait_columns("id");
        }
    }
    wait_log(&local, from, &["DefinitionsFighting"]);
    scene.assert_quiet(WATCHED);
    assert_eq!(scene.columns(), "version");
}

fn first_fp(scene: &Scene) -> String {
    let lineage: serde_json::Value = serde_json::from_str(&scene.comment()).unwrap();
    let first = &lineage["clickhouse-sink"]["lineage"][0]["fp"];
    first.as_str().unwrap().to_owned()
}
