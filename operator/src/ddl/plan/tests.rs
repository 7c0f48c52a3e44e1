//! What is allowed, refused and left alone.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use clickhouse_sink_crds::table::{ColumnDefinition, Engine, ObservedColumn};

use super::*;

fn column(name: &str, data_type: &str) -> ColumnDefinition {
    ColumnDefinition {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        default: None,
        comment: None,
        codec: None,
    }
}

fn expected(name: &str) -> TableDefinition {
    TableDefinition {
        database: "ops".to_owned(),
        name: name.to_owned(),
        engine: Engine::MergeTree,
        columns: vec![column("id", "String"), column("n", "UInt32")],
        order_by: vec!["id".to_owned()],
        partition_by: None,
        ttl: None,
        settings: BTreeMap::from([(
            "non_replicated_deduplication_window".to_owned(),
            "100000".to_owned(),
        )]),
        indexes: Vec::new(),
        cluster: None,
    }
}

fn found(name: &str, data_type: &str) -> ObservedColumn {
    ObservedColumn {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        default_kind: String::new(),
        default_expression: String::new(),
        comment: String::new(),
        compression_codec: String::new(),
    }
}

fn observed() -> ObservedTable {
    ObservedTable {
        uuid: String::new(),
        engine: "MergeTree".to_owned(),
        engine_full: "MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100000"
            .to_owned(),
        sorting_key: "id".to_owned(),
        partition_key: String::new(),
        comment: String::new(),
        columns: vec![found("id", "String"), found("n", "UInt32")],
        indexes: Vec::new(),
        views: Vec::new(),
    }
}

/// What is done in `auto`, what is held, what is warned of.
fn plan(
    policy: WideningPolicy,
    expected: &TableDefinition,
    observed: &ObservedTable,
) -> (Vec<String>, Vec<String>, Vec<String>) {
    let case = TableCase {
        expected,
        observed: Some(observed),
        was_there: true,
    };
    let plan = plan_tables(DdlMode::Auto, policy, true, &[case]);
    let subjects = |all: &[Difference]| all.iter().map(|one| one.subject.clone()).collect();
    (
        plan.steps.iter().map(DdlStep::render).collect(),
        subjects(&plan.held),
        subjects(&plan.warnings),
    )
}

#[test]
fn auto_makes_what_is_missing_and_the_database_first() {
    let (one, other, found) = (expected("a"), expected("b"), observed());
    let steps = |has_database, first, second| {
        let steps = plan_ddl(
            DdlMode::Auto,
            has_database,
            &[(&one, first), (&other, second)],
        );
        steps.iter().map(DdlStep::describe).collect::<Vec<_>>()
    };
    assert_eq!(
        steps(false, None, None),
        [
            "create database ops",
            "create table ops.a",
            "create table ops.b"
        ]
    );
    assert_eq!(steps(true, None, Some(&found)), ["create table ops.a"]);
    assert!(steps(true, Some(&found), Some(&found)).is_empty());
}

#[test]
fn the_other_modes_make_and_change_nothing() {
    let (table, mut found) = (expected("a"), observed());
    found.columns.pop();
    for mode in [DdlMode::Validate, DdlMode::None] {
        assert!(plan_ddl(mode, false, &[(&table, None)]).is_empty());
        assert!(plan_ddl(mode, true, &[(&table, Some(&found))]).is_empty());
    }
}

#[test]
fn a_table_that_was_there_is_made_again_and_said_to_be_gone() {
    let table = expected("a");
    let case = TableCase {
        expected: &table,
        observed: None,
        was_there: true,
    };
    let plan = plan_tables(DdlMode::Auto, WideningPolicy::Refuse, true, &[case]);
    assert_eq!(
        plan.steps[0].describe(),
        "create table ops.a again, which is gone"
    );
}

#[test]
fn widening_needs_consent_and_more_members_of_an_enum_do_not() {
    let (mut table, mut there) = (expected("a"), observed());
    there.columns[1].data_type = "UInt8".to_owned();
    let alter = "ALTER TABLE `ops`.`a` MODIFY COLUMN `n` UInt32";
    assert_eq!(
        plan(WideningPolicy::Refuse, &table, &there),
        (vec![], vec!["n".to_owned()], vec![])
    );
    assert_eq!(
        plan(WideningPolicy::Mutate, &table, &there),
        (vec![alter.to_owned()], vec![], vec![])
    );
    table.columns[1].data_type = "Enum8('a' = 1, 'b' = 2)".to_owned();
    there.columns[1].data_type = "Enum8('a' = 1)".to_owned();
    let (steps, held, _) = plan(WideningPolicy::Refuse, &table, &there);
    assert_eq!((steps.len(), held.len()), (1, 0));
}

#[test]
fn a_column_of_a_key_is_never_changed() {
    let (mut table, mut there) = (expected("a"), observed());
    table.partition_by = Some("intDiv(n, 10)".to_owned());
    there.partition_key = "intDiv(n, 10)".to_owned();
    there.columns[1].data_type = "UInt8".to_owned();
    assert_eq!(
        plan(WideningPolicy::Mutate, &table, &there).1,
        ["n".to_owned()]
    );
    there.columns[1].data_type = "UInt32".to_owned();
    table.columns[1].default = Some("7".to_owned());
    assert_eq!(
        plan(WideningPolicy::Mutate, &table, &there),
        (vec![], vec![], vec!["default of n".to_owned()])
    );
}

#[test]
fn a_table_of_another_shape_is_not_touched_at_all() {
    let (table, mut there) = (expected("a"), observed());
    there.columns.pop();
    there.sorting_key = "n".to_owned();
    let (steps, held, _) = plan(WideningPolicy::Mutate, &table, &there);
    assert_eq!((steps.len(), held.len()), (0, 2));
}

#[test]
fn a_smaller_window_that_is_declared_is_left_with_a_warning() {
    let (mut table, mut there) = (expected("a"), observed());
    let set = "non_replicated_deduplication_window";
    there.engine_full = format!("MergeTree ORDER BY id SETTINGS {set} = 7");
    let (steps, _, warnings) = plan(WideningPolicy::Refuse, &table, &there);
    assert_eq!((steps.len(), warnings.len()), (1, 0));
    table.settings.insert(set.to_owned(), "7".to_owned());
    let (steps, _, warnings) = plan(WideningPolicy::Refuse, &table, &there);
    assert_eq!((steps.len(), warnings.len()), (0, 1));
}
