//! SELECTs as the server reads them: what is refused, and that what is accepted is found again as it was declared.

use clickhouse_sink_tests::programs::LocalProcess;
use serde_json::json;

use crate::support::{SOON, Scene, wait_log};

fn derived(select: &str, order_by: &str) -> serde_json::Value {
    json!([{ "name": "tags", "engine": { "mergeTree": {} }, "orderBy": [order_by], "select": select }])
}

/// What `local` says of a sink with this SELECT at its start.
fn refused(scene: &Scene, name: &str, select: &str) -> String {
    let sink = scene.with("derived", derived(select, "id"));
    let mut local =
        LocalProcess::start(&scene.dir, name, &sink.yaml().unwrap(), &["--once"]).unwrap();
    let status = local.program.wait_exit(SOON).unwrap();
    assert_eq!(status.code(), Some(2), "{select}: {}", local.program.log());
    local.program.log()
}

#[test]
fn a_select_that_a_view_cannot_keep_is_refused_with_its_reason() {
    let scene = Scene::new("selects", 1);
    let cases = [
        (
            "aggregates",
            "SELECT max(id) AS id FROM events",
            "it aggregates",
        ),
        (
            "no_column",
            "SELECT at FROM events",
            "spec.derived[0].orderBy[0]",
        ),
        ("unknown", "SELECT id, nothing FROM events", "nothing"),
        (
            "nullable",
            "SELECT toNullable(id) AS id FROM events",
            "not Nullable",
        ),
        (
            "elsewhere",
            "SELECT id FROM system.tables",
            "`FROM events` once",
        ),
        ("two", "SELECT id FROM events, system.one", "alone"),
        (
            "statement",
            "SELECT id FROM events; DROP TABLE events",
            "a semicolon",
        ),
        ("syntax", "SELECT id FROM events WHERE", "Syntax error"),
    ];
    for (name, select, reason) in cases {
        let log = refused(&scene, name, select);
        assert!(log.contains(reason), "{select}: {log}");
    }
    let made = "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name != 'clickhouse_sink_catalog'";
    assert_eq!(scene.query(made), "0");
}

#[test]
fn a_select_in_any_spelling_is_found_again_as_declared() {
    let selects = [
        "select id, tag from events array join tags as tag where id >= 0 and length(tag) > 0",
        "WITH upper('x') AS u SELECT e.id, concat(u, '\\n''q`') AS tag FROM `events` AS e",
        "SELECT events.id, CASE WHEN id = 1 THEN 'a' ELSE id::String END AS tag, at + INTERVAL 1 DAY AS next FROM events",
        "SELECT id, x.1 AS tag, _partition, _offset FROM (SELECT *, arrayJoin(arrayZip(tags, tags)) AS x FROM events) WHERE id NOT IN (5, 6)",
        "SELECT * EXCEPT (tags), id BETWEEN 1 AND 2 AS `between`, arrayMap(x -> x || '!', tags)[1] AS tag FROM events",
    ];
    for select in selects {
        let scene = Scene::new("spelling", 1).set("derived", derived(select, "id"));
        let local = scene.local();
        scene.produce(0..3);
        scene.wait_rows("tags", 1);
        wait_log(&local, "| Ready");
        // Some rechecks later nothing was stopped or changed.
        scene.produce(3..4);
        scene.wait_rows("events", 4);
        clickhouse_sink_tests::wait::stays_eq(
            std::time::Duration::from_secs(5),
            "workers",
            &1,
            || Ok(local.workers().len()),
        )
        .unwrap();
        let log = local.program.log();
        assert!(
            !log.contains("change the SELECT") && !log.contains("ViewChang"),
            "{select}: {log}"
        );
    }
}
