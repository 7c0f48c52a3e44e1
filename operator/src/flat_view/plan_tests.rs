//! Plans of flat views: what is done when, and what people are told.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::flat_view::definition::Read;
use crate::fleet::{Health, WorkerView};

fn definition(column: &str) -> ViewDefinition {
    ViewDefinition {
        database: "ops".to_owned(),
        name: "flat".to_owned(),
        source: "events".to_owned(),
        read: Read::Final,
        columns: vec![(column.to_owned(), format!("`{column}`"))],
    }
}

fn reading(engine: &str, comment: &str) -> FlatReading {
    FlatReading {
        view: Some(FoundView {
            uuid: "7".to_owned(),
            engine: engine.to_owned(),
            create_table_query: String::new(),
            select: String::new(),
            comment: comment.to_owned(),
        }),
        now_s: 1_000,
    }
}

fn comment_of(definition: &ViewDefinition) -> String {
    let entry = Entry {
        owner: "c/ns/other".to_owned(),
        uid: "u-other".to_owned(),
        generation: 0,
        fp: definition.fp(),
        at: 1,
        promoted: None,
    };
    Lineage::new("ops.flat").with(entry).unwrap().render()
}

fn plan(mode: DdlMode, reading: &FlatReading, is_settled: bool, word: Option<&str>) -> FlatPlan {
    plan_flat(&FlatInputs {
        definition: &definition("new"),
        mode,
        reading,
        catalog: None,
        owner: "c/ns/me".to_owned(),
        uid: "u-me",
        generation: 0,
        word,
        is_settled,
        is_held: false,
    })
}

fn reason_of(plan: &FlatPlan) -> &'static str {
    assert!(plan.step.is_none());
    plan.note.as_ref().unwrap().reason
}

#[test]
fn a_missing_view_is_made_at_once_and_another_one_replaced_when_the_roll_is_over() {
    let missing = FlatReading::default();
    let made = plan(DdlMode::Auto, &missing, false, None);
    assert!(
        made.step
            .unwrap()
            .sql
            .starts_with("CREATE VIEW `ops`.`flat`")
    );
    let old = reading("View", &comment_of(&definition("old")));
    let waits = plan(DdlMode::Auto, &old, false, None);
    assert_eq!(reason_of(&waits), reason::FLAT_VIEW_WAITS);
    assert!(waits.requeue_ms.is_some());
    let promoted = plan(DdlMode::Auto, &old, true, None);
    let step = promoted.step.unwrap();
    assert_eq!(step.what, "promote flat view ops.flat");
    assert!(step.sql.starts_with("CREATE OR REPLACE VIEW `ops`.`flat`"));
}

#[test]
fn a_table_another_kind_of_view_and_an_edited_comment_are_left() {
    let ours = comment_of(&definition("old"));
    for (engine, comment, told) in [
        ("MergeTree", ours.as_str(), reason::NAME_TAKEN),
        ("MaterializedView", ours.as_str(), reason::NAME_TAKEN),
        ("View", "a person's", reason::NAME_TAKEN),
        ("View", &format!("{ours}!"), reason::LINEAGE_UNREADABLE),
    ] {
        for mode in [DdlMode::Auto, DdlMode::Validate] {
            let plan = plan(mode, &reading(engine, comment), true, None);
            assert_eq!(reason_of(&plan), told, "{engine} {comment}");
        }
    }
}

#[test]
fn validate_tells_what_differs_and_none_does_nothing() {
    let missing = plan(DdlMode::Validate, &FlatReading::default(), true, None);
    assert_eq!(reason_of(&missing), reason::FLAT_VIEW_MISSING);
    let old = reading("View", &comment_of(&definition("old")));
    assert_eq!(
        reason_of(&plan(DdlMode::Validate, &old, true, None)),
        reason::FLAT_VIEW_DIFFERS
    );
    let current = reading("View", &comment_of(&definition("new")));
    for mode in [DdlMode::Validate, DdlMode::None, DdlMode::Auto] {
        assert_eq!(plan(mode, &current, true, None), FlatPlan::default());
    }
    assert_eq!(plan(DdlMode::None, &old, true, None), FlatPlan::default());
}

#[test]
fn an_old_file_never_wins_and_is_told_how_to_promote() {
    let before = Lineage::new("ops.flat");
    let entry = |column: &str| Entry {
        owner: "c/ns/me".to_owned(),
        uid: "u-me".to_owned(),
        generation: 0,
        fp: definition(column).fp(),
        at: 1,
        promoted: None,
    };
    let lineage = before
        .with(entry("new"))
        .unwrap()
        .with(entry("newest"))
        .unwrap();
    let there = reading("View", &lineage.render());
    let left = plan(DdlMode::Auto, &there, true, None);
    assert_eq!(reason_of(&left), reason::FLAT_VIEW_REPLACED);
    let fp = definition("new").fp();
    assert!(
        left.note
            .unwrap()
            .message
            .contains(&format!("promote-view: \"{fp}\""))
    );
    for word in [fp.clone(), format!("{fp}/2")] {
        let promoted = plan(DdlMode::Auto, &there, true, Some(&word));
        assert!(promoted.step.is_some(), "{word}");
    }
    assert!(plan(DdlMode::Auto, &there, true, Some("0")).step.is_none());
}

#[test]
fn a_roll_is_over_when_no_worker_of_another_revision_lives() {
    let worker = |phase, revision: Option<&str>| WorkerView {
        index: 0,
        phase,
        revision: revision.map(str::to_owned),
        port: None,
        health: Health::default(),
        message: None,
    };
    let fleet = |workers| FleetState {
        wanted_revision: Some("new".to_owned()),
        workers,
        ..FleetState::default()
    };
    assert!(is_rolled(&FleetState::default()));
    assert!(is_rolled(&fleet(vec![
        worker(WorkerPhase::Running, Some("new")),
        worker(WorkerPhase::Stopped, None),
    ])));
    for (phase, revision) in [
        (WorkerPhase::Running, Some("old")),
        (WorkerPhase::Draining, None),
    ] {
        let both = vec![
            worker(WorkerPhase::Running, Some("new")),
            worker(phase, revision),
        ];
        assert!(!is_rolled(&fleet(both)), "{phase:?}");
    }
}
