//! `backfill: Once`: every row once, whatever is killed in the middle.

use std::time::Duration;

use anyhow::ensure;
use clickhouse_sink_tests::clickhouse::{ClickHouseClient, Database};
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::proxy::{ClickHouseProxy, Fault, On};
use clickhouse_sink_tests::stack::clickhouse::ClickHouse;
use clickhouse_sink_tests::wait::eventually;

use crate::support::{SOON, Scene, TAGS, tags, wait_log};

const FILL: &str = "cs1/backfill";

fn wait_fills(scene: &Scene, at_least: usize) {
    eventually(SOON, "pieces that were sent", || {
        let seen = scene.proxy.inserts();
        let found = seen
            .iter()
            .filter(|one| one.statement.contains(FILL))
            .count();
        ensure!(found >= at_least, "{found}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_new_derived_table_is_filled_from_what_is_there_while_records_flow() {
    let scene = Scene::new("fill", 4).set("replicas", 2);
    let local = scene.local();
    let flow = scene.flow(0);
    scene.wait_rows("events", 2_000);
    local
        .rewrite(&scene.with("derived", tags("one", "Once")).yaml().unwrap())
        .unwrap();
    scene.wait_filled();
    wait_log(&local, "fill tags, piece 12 of 12");
    local.wait_workers(2, SOON).unwrap();
    let seen = scene.client().count("events").unwrap();
    scene.wait_rows("events", seen + 500);
    scene.expect_exact(flow.end());
}

#[test]
fn a_sink_that_is_new_needs_no_backfill_and_stops_no_worker() {
    let scene = Scene::new("fill_new", 1).set("derived", tags("one", "Once"));
    let local = scene.local();
    scene.produce(0..50);
    scene.expect_exact(50);
    let log = local.program.log();
    assert!(
        !log.contains("ViewChanging") && !log.contains("fill tags"),
        "{log}"
    );
}

#[test]
fn an_operator_that_is_killed_behind_each_insert_fills_every_row_once() {
    let scene = Scene::new("fill_killed", 2).set("replicas", 2);
    let mut local = scene.local();
    let flow = scene.flow(0);
    scene.wait_rows("events", 1_500);
    let filled = scene.with("derived", tags("one", "Once"));
    local.rewrite(&filled.yaml().unwrap()).unwrap();
    for round in 0..3 {
        // The server has the rows of a piece, and the operator dies before it has noted them.
        scene.proxy.clear_seen();
        scene.proxy.set_on(
            Fault::DelayReply(Duration::from_secs(30)),
            On::Containing(FILL.to_owned()),
        );
        wait_fills(&scene, 1);
        scene.wait_rows("tags", 1 + round);
        local.program.kill().unwrap();
        scene.proxy.pass();
        local = scene.local_on(&filled);
    }
    scene.wait_filled();
    scene.expect_exact(flow.end());
}

#[test]
fn answers_that_are_lost_double_nothing() {
    let scene = Scene::new("fill_lost", 1);
    let local = scene.local();
    scene.produce(0..1_000);
    scene.wait_rows("events", 1_000);
    scene
        .proxy
        .fail_next(5, Fault::DropReply, On::Containing(FILL.to_owned()));
    local
        .rewrite(&scene.with("derived", tags("one", "Once")).yaml().unwrap())
        .unwrap();
    scene.wait_filled();
    scene.expect_exact(1_000);
}

#[test]
fn a_server_that_is_killed_in_the_middle_has_every_row_once() {
    let env = Env::get().unwrap();
    let mut server = ClickHouse::start(&env.test_dir("fill_server").unwrap()).unwrap();
    let client = ClickHouseClient::new(&server.url()).unwrap();
    let database = Database::create(&client, &env.unique("fill_server")).unwrap();
    let proxy = ClickHouseProxy::start(&server.address()).unwrap();
    let scene = Scene::on("fill_server", 1, database, proxy);
    let local = scene.local();
    scene.produce(0..1_200);
    scene.wait_rows("events", 1_200);
    // More of the same offsets: pieces that take their time.
    scene.query(
        "INSERT INTO events SELECT 1000000 + number * 1200 + id AS id, at, tags, _topic, _partition, _offset, _timestamp \
         FROM events CROSS JOIN numbers(2500) AS n",
    );
    let rows = scene.client().count("events").unwrap();
    assert_eq!(rows, 1_200 * 2_501);
    local
        .rewrite(&scene.with("derived", tags("one", "Once")).yaml().unwrap())
        .unwrap();
    for round in 1..=3 {
        wait_fills(&scene, round * 4);
        server.restart().unwrap();
    }
    scene.wait_filled();
    scene.expect_exact(rows);
    scene.produce(1_200..1_300);
    scene.wait_rows("tags", (rows + 100) * TAGS);
}

#[test]
fn rows_that_no_offset_tells_apart_refuse_the_backfill_and_data_flows() {
    let scene = Scene::new("fill_refused", 1);
    let local = scene.local();
    scene.produce(0..100);
    scene.wait_rows("events", 100);
    scene.query("INSERT INTO events (id, at, tags, _topic) VALUES (1000, '2026-01-01 00:00:00', [], 'by hand')");
    local
        .rewrite(&scene.with("derived", tags("one", "Once")).yaml().unwrap())
        .unwrap();
    wait_log(
        &local,
        "BackfillRefused: tags: expected every row of the table below the committed offsets, found 1",
    );
    scene.produce(100..200);
    scene.wait_rows("events", 201);
    assert_eq!(scene.view_select().unwrap(), "");
}
