//! Rules about derived tables and the flat view.

use super::*;

fn derived(changes: &[(&str, Value)]) -> (&'static str, Value) {
    let mut derived = json!({
        "name": "current",
        "engine": { "replacingMergeTree": { "versionColumn": "version" } },
        "orderBy": ["id"],
        "select": "SELECT id, version FROM events",
    });
    for (field, value) in changes {
        derived[*field] = value.clone();
    }
    ("/spec/derived", json!([derived]))
}

#[test]
fn derived_tables_and_the_view_have_other_names_than_the_table() {
    assert!(broken(&[derived(&[])]).is_empty());
    refused(
        &broken(&[derived(&[("name", json!("events"))])]),
        "must be others than `table.name`",
    );
    let of_view = [
        derived(&[("name", json!("live"))]),
        ("/spec/table/name", json!("live_mv")),
    ];
    refused(&broken(&of_view), "must be others than `table.name`");
    let view = |name: &str| broken(&[derived(&[]), ("/spec/flatView", json!({ "name": name }))]);
    assert!(view("flat").is_empty());
    for name in ["events", "current", "current_mv"] {
        refused(&view(name), "`flatView.name` must be another name");
    }
}

#[test]
fn a_backfill_needs_the_metadata_columns() {
    let with = |backfill: &str, mode: &str| {
        broken(&[
            derived(&[("backfill", json!(backfill))]),
            ("/spec/table/metadataColumns", json!({ "mode": mode })),
        ])
    };
    assert!(with("Once", "All").is_empty() && with("None", "None").is_empty());
    refused(&with("Once", "None"), "`backfill: Once` needs");
}

#[test]
fn a_flat_view_reads_a_table_of_the_sink_that_has_versions() {
    let plain = json!({ "mergeTree": {} });
    let view = |view: Value| {
        let mut view = view;
        view["name"] = json!("flat");
        broken(&[
            derived(&[("engine", plain.clone())]),
            ("/spec/flatView", view),
        ])
    };
    for accepted in [
        json!({}),
        json!({ "source": "events", "read": "LatestBy" }),
        json!({ "source": "current" }),
        json!({ "source": "current", "read": "Plain" }),
    ] {
        assert_eq!(view(accepted.clone()), Vec::<String>::new(), "{accepted}");
    }
    refused(
        &view(json!({ "source": "other" })),
        "`flatView.source` must be",
    );
    for read in ["Final", "LatestBy"] {
        refused(
            &view(json!({ "source": "current", "read": read })),
            "need a source with",
        );
    }
    let of_plain_table = [
        ("/spec/table/engine", plain.clone()),
        ("/spec/flatView", json!({ "name": "flat", "read": "Final" })),
    ];
    refused(&broken(&of_plain_table), "need a source with");
}

#[test]
fn what_a_derived_table_is_cannot_be_changed() {
    let update = |field: &str, value: Value| {
        broken_by_update(&[derived(&[])], &[derived(&[(field, value)])])
    };
    let message = "of a derived table cannot be changed";
    refused(&update("engine", json!({ "mergeTree": {} })), message);
    refused(&update("orderBy", json!(["id", "version"])), message);
    refused(&update("partitionBy", json!("version % 10")), message);
    assert!(update("select", json!("SELECT id, version, ts FROM events")).is_empty());
    assert!(update("name", json!("other")).is_empty());
    assert!(broken_by_update(&[derived(&[])], &[]).is_empty());
    assert!(broken_by_update(&[], &[derived(&[])]).is_empty());
}
