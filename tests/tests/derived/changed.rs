//! A changed SELECT: under flow, with a server that hangs, with an operator that is killed.

use std::time::Duration;

use anyhow::ensure;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::wait::{eventually, stays_eq};

use crate::support::{SOON, Scene, tags, wait_log};

#[test]
fn a_changed_select_under_flow_of_two_workers_misses_and_doubles_no_row() {
    let scene = Scene::new("derived_changed", 4)
        .set("replicas", 2)
        .set("derived", tags("old", "None"));
    let mut local = scene.local();
    local.wait_workers(2, SOON).unwrap();
    let flow = scene.flow(0);
    scene.wait_rows("tags", 2_000);
    for (rule, before) in [("new", "old"), ("newest", "new")] {
        local
            .rewrite(&scene.with("derived", tags(rule, "None")).yaml().unwrap())
            .unwrap();
        scene.wait_view(&format!("'{rule}'"));
        let old = scene.made_by(before);
        scene.wait_rows(&format!("tags WHERE rule = '{rule}'"), 1_000);
        assert_eq!(
            scene.made_by(before),
            old,
            "rows of the old SELECT after the change"
        );
    }
    let produced = flow.end();
    scene.expect_exact(produced);
    wait_log(&local, "change the SELECT of materialized view");
    assert_eq!(local.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_server_that_hangs_at_the_drain_keeps_the_old_select_until_nothing_is_open() {
    let scene = Scene::new("derived_hung", 2)
        .set("replicas", 2)
        .set("shutdown.finalFlushTimeoutSeconds", 1)
        .set("derived", tags("old", "None"));
    let local = scene.local();
    local.wait_workers(2, SOON).unwrap();
    let flow = scene.flow(0);
    scene.wait_rows("tags", 500);
    wait_log(&local, "workers 2/2");
    // The server gets the rows, and nobody learns that it has them.
    scene.proxy.set_on(Fault::DropReply, On::Inserts);
    local
        .rewrite(&scene.with("derived", tags("new", "None")).yaml().unwrap())
        .unwrap();
    wait_log(
        &local,
        "PlanNotEmpty: tags: expected that workers stop with every insert acknowledged",
    );
    assert!(scene.view_select().unwrap().contains("'old'"));
    local.wait_workers(2, SOON).unwrap();
    stays_eq(Duration::from_secs(1), "rows of the new SELECT", &0, || {
        Ok(scene.made_by("new"))
    })
    .unwrap();
    scene.proxy.pass();
    scene.wait_view("'new'");
    scene.wait_rows("tags WHERE rule = 'new'", 500);
    scene.expect_exact(flow.end());
}

#[test]
fn an_operator_that_is_killed_at_the_drain_changes_the_view_when_it_is_back() {
    let scene = Scene::new("derived_killed", 2)
        .set("replicas", 2)
        .set("derived", tags("old", "None"));
    let mut local = scene.local();
    local.wait_workers(2, SOON).unwrap();
    let flow = scene.flow(0);
    scene.wait_rows("tags", 500);
    let changed = scene.with("derived", tags("new", "None"));
    local.rewrite(&changed.yaml().unwrap()).unwrap();
    wait_log(&local, "Worker is asked to stop.");
    local.program.kill().unwrap();
    let again = scene.local_on(&changed);
    scene.wait_view("'new'");
    again.wait_workers(2, SOON).unwrap();
    scene.wait_rows("tags WHERE rule = 'new'", 500);
    scene.expect_exact(flow.end());
}

#[test]
fn a_server_that_is_gone_at_the_drain_leaves_workers_running() {
    let scene = Scene::new("derived_away", 2)
        .set("shutdown.finalFlushTimeoutSeconds", 1)
        .set("derived", tags("old", "None"));
    let local = scene.local();
    local.wait_workers(1, SOON).unwrap();
    let flow = scene.flow(0);
    scene.wait_rows("tags", 200);
    wait_log(&local, "| Ready");
    local
        .rewrite(&scene.with("derived", tags("new", "None")).yaml().unwrap())
        .unwrap();
    wait_log(&local, "Worker is asked to stop.");
    scene.proxy.set(Fault::Cut);
    eventually(SOON, "a worker that runs again", || {
        ensure!(local.workers().len() == 1, "{:?}", local.workers());
        ensure!(
            local.program.log().contains("ClickHouseUnreachable"),
            "not seen yet"
        );
        Ok(())
    })
    .unwrap();
    scene.proxy.pass();
    scene.wait_view("'new'");
    scene.wait_rows("tags WHERE rule = 'new'", 200);
    scene.expect_exact(flow.end());
}
