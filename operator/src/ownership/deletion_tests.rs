//! What is dropped with a sink.
#![allow(clippy::unwrap_used, clippy::panic)]

use clickhouse_sink_crds::table::ObservedTable;

use super::*;
use crate::controller::tests::steps::{SINK, declare, found, server};
use crate::ownership::record::{Owner, render_comment};

fn declared(policy: &str) -> Declaration {
    declare(&format!("{SINK}  deletionPolicy: {policy}\n"))
}

fn owned(declaration: &Declaration, table: &str, adopted: bool, uid: &str) -> ObservedTable {
    let expected = if table == declaration.expected.name {
        &declaration.expected
    } else {
        &declaration.rejected
    };
    let owner = Owner {
        uid: uid.to_owned(),
        sink: declaration.qualified_name(),
        cluster: declaration.cluster.clone(),
        fingerprint: String::new(),
        adopted,
        read_instead: None,
    };
    ObservedTable {
        uuid: format!("uuid of {table}"),
        comment: render_comment("", &owner),
        ..found(expected, "MergeTree")
    }
}

fn row(declaration: &Declaration, name: &str, kind: &str) -> CatalogRow {
    CatalogRow {
        database: declaration.expected.database.clone(),
        name: name.to_owned(),
        kind: kind.to_owned(),
        uuid: format!("uuid of {name}"),
        sink_uid: declaration.uid.clone(),
        sink: declaration.qualified_name(),
        definition_fingerprint: String::new(),
        definition: String::new(),
    }
}

fn reading(declaration: &Declaration, adopted: bool, uid: &str) -> ServerReading {
    let mut reading = server();
    reading.table = Some(owned(declaration, "events", adopted, uid));
    reading.rejected = Some(owned(declaration, "events_rejected", false, uid));
    reading.catalog.rows = Some(Ok(vec![
        row(declaration, "events", kind::TABLE),
        row(declaration, "events_rejected", kind::DEAD_LETTERS),
    ]));
    reading
}

#[test]
fn delete_takes_what_catalog_and_comment_say_was_made_and_retain_nothing() {
    let declaration = declared("Delete");
    let plan = plan_deletion(
        &declaration,
        &reading(&declaration, false, &declaration.uid),
    );
    let expected = [
        "DROP TABLE IF EXISTS `ops`.`events` SYNC",
        "DROP TABLE IF EXISTS `ops`.`events_rejected` SYNC",
    ];
    assert_eq!(
        (plan.drops.as_slice(), plan.left.len()),
        (&expected.map(str::to_owned)[..], 0)
    );
    let retained = declared("Retain");
    let plan = plan_deletion(&retained, &reading(&retained, false, &retained.uid));
    assert_eq!(plan, DeletionPlan::default());
}

#[test]
fn what_was_adopted_is_another_ones_or_is_not_in_the_catalog_is_left() {
    let declaration = declared("Delete");
    let drops = |reading: &ServerReading| plan_deletion(&declaration, reading).drops.len();
    assert_eq!(drops(&reading(&declaration, true, &declaration.uid)), 1);
    assert_eq!(drops(&reading(&declaration, false, "u-other")), 0);
    let mut unlisted = reading(&declaration, false, &declaration.uid);
    unlisted.catalog.rows = Some(Ok(Vec::new()));
    assert_eq!(drops(&unlisted), 0);
    unlisted.catalog.rows = Some(Err("no rights".to_owned()));
    assert_eq!(drops(&unlisted), 0);
    let mut again = reading(&declaration, false, &declaration.uid);
    again.table.as_mut().unwrap().uuid = "made again by hand".to_owned();
    assert_eq!(drops(&again), 1);
}
