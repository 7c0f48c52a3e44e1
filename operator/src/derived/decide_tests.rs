//! Every state of a derived table, its view, the fleet and the group, and what follows.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use clickhouse_sink_crds::api::{DerivedSpec, EngineSpec};
use clickhouse_sink_crds::group_plans::{GroupPlans, PartitionPlan};
use clickhouse_sink_crds::table::ObservedTable;

use super::*;
use crate::controller::observe::Unreachable;
use crate::derived::observe::SourceReading;
use crate::fleet::WorkerView;
use crate::warehouse::FoundView;

const SELECT: &str = "SELECT a FROM `d`.`ev`";

fn spec(backfill: BackfillMode) -> DerivedSpec {
    DerivedSpec {
        name: "cur".to_owned(),
        engine: EngineSpec {
            merge_tree: None,
            replacing_merge_tree: None,
        },
        partition_by: None,
        order_by: Vec::new(),
        ttl: None,
        settings: BTreeMap::new(),
        select: "SELECT a FROM ev".to_owned(),
        backfill,
    }
}

fn target() -> ObservedTable {
    ObservedTable {
        uuid: String::new(),
        engine: "MergeTree".to_owned(),
        engine_full: String::new(),
        sorting_key: String::new(),
        partition_key: String::new(),
        comment: String::new(),
        columns: Vec::new(),
        indexes: Vec::new(),
        views: Vec::new(),
    }
}

fn view(select: &str, comment: &str) -> FoundView {
    FoundView {
        uuid: "6d7c".to_owned(),
        engine: "MaterializedView".to_owned(),
        create_table_query: format!(
            "CREATE MATERIALIZED VIEW d.cur_mv TO d.cur (`a` String) DEFINER = default SQL SECURITY DEFINER AS {select}"
        ),
        select: select.to_owned(),
        comment: comment.to_owned(),
    }
}

fn reading(rows: Option<u64>, view: Option<FoundView>) -> DerivedReading {
    DerivedReading {
        shape: Err("not looked at here".to_owned()),
        target: rows.map(|_| target()),
        target_rows: rows.unwrap_or_default(),
        view,
    }
}

fn group(ranges: &[(i64, i64)], members: u32, beyond: u64) -> GroupReading {
    let partition = PartitionPlan {
        topic: "t".to_owned(),
        offset: 5,
        ranges: ranges.to_vec(),
        ..PartitionPlan::default()
    };
    GroupReading {
        is_fresh: true,
        plans: Reading::Known(GroupPlans {
            members,
            partitions: vec![partition],
        }),
        source: Some(Reading::Known(SourceReading {
            partitions: vec![("all".to_owned(), 9)],
            beyond,
        })),
    }
}

/// What was read when workers were stopped last.
fn last(group: GroupReading) -> GroupReading {
    GroupReading {
        is_fresh: false,
        source: None,
        ..group
    }
}

fn decide(
    (mode, backfill): (DdlMode, BackfillMode),
    reading: &DerivedReading,
    fleet: FleetPhase,
    group: Option<&GroupReading>,
) -> Decision {
    decide_derived_step(&Facts {
        mode,
        database: "d",
        spec: &spec(backfill),
        select: SELECT,
        has_source: true,
        reading,
        fleet,
        group,
        retry_s: 60,
    })
}

const AUTO: (DdlMode, BackfillMode) = (DdlMode::Auto, BackfillMode::None);
const ONCE: (DdlMode, BackfillMode) = (DdlMode::Auto, BackfillMode::Once);

fn create(backfill: Option<Backfill>, was_gone: bool, after_drain: bool) -> Decision {
    Decision::Create {
        backfill,
        was_gone,
        after_drain,
    }
}

fn reason_of(decision: &Decision) -> &'static str {
    match decision {
        Decision::Wait(note) => note.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_view_as_declared_needs_nothing_whatever_the_fleet_does() {
    let same = reading(Some(3), Some(view("SELECT a FROM d.ev", "")));
    for fleet in [
        FleetPhase::Running(0),
        FleetPhase::Stopping,
        FleetPhase::Stopped(0),
    ] {
        assert_eq!(decide(AUTO, &same, fleet, None), Decision::Leave);
        assert_eq!(
            decide((DdlMode::Validate, BackfillMode::None), &same, fleet, None),
            Decision::Leave
        );
    }
}

#[test]
fn a_missing_view_is_made_while_workers_run_and_one_that_was_there_is_told() {
    let run = FleetPhase::Running(0);
    assert_eq!(
        decide(AUTO, &reading(None, None), run, None),
        create(None, false, false)
    );
    assert_eq!(
        decide(AUTO, &reading(Some(0), None), run, None),
        create(None, false, false)
    );
    assert_eq!(
        decide(AUTO, &reading(Some(4), None), run, None),
        create(None, true, false)
    );
    assert_eq!(
        decide(ONCE, &reading(Some(4), None), run, None),
        create(None, true, false)
    );
}

#[test]
fn a_changed_select_waits_for_a_stop_with_nothing_open() {
    let other = reading(Some(3), Some(view("SELECT b AS a FROM d.ev", "")));
    let at = |fleet, group: Option<&GroupReading>| decide(AUTO, &other, fleet, group);
    assert_eq!(
        reason_of(&at(FleetPhase::Running(59), None)),
        reason::VIEW_CHANGE_WAITS
    );
    assert_eq!(at(FleetPhase::Running(60), None), Decision::Drain);
    assert_eq!(at(FleetPhase::Stopping, None), Decision::Drain);
    assert_eq!(at(FleetPhase::Stopped(0), None), Decision::Ask);
    assert_eq!(
        at(FleetPhase::Stopped(0), Some(&group(&[], 0, 0))),
        Decision::Change
    );
}

#[test]
fn an_open_plan_keeps_the_old_select_and_workers_are_started_again() {
    let other = reading(Some(3), Some(view("SELECT b AS a FROM d.ev", "")));
    let open = group(&[(5, 9)], 0, 0);
    let decision = decide(AUTO, &other, FleetPhase::Stopped(0), Some(&open));
    let Decision::Wait(note) = decision else {
        panic!("{decision:?}")
    };
    assert_eq!(note.reason, reason::PLAN_NOT_EMPTY);
    assert!(note.message.contains("t/0 [5, 9)"), "{}", note.message);
    let open = last(open);
    let running = decide(AUTO, &other, FleetPhase::Running(3), Some(&open));
    assert_eq!(reason_of(&running), reason::PLAN_NOT_EMPTY);
    assert_eq!(
        decide(AUTO, &other, FleetPhase::Running(60), Some(&open)),
        Decision::Drain
    );
}

#[test]
fn members_are_waited_for_but_not_for_ever() {
    let other = reading(Some(3), Some(view("SELECT b AS a FROM d.ev", "")));
    let used = group(&[], 1, 0);
    assert_eq!(
        decide(AUTO, &other, FleetPhase::Stopped(44), Some(&used)),
        Decision::Drain
    );
    let over = decide(AUTO, &other, FleetPhase::Stopped(45), Some(&used));
    assert_eq!(reason_of(&over), reason::GROUP_NOT_EMPTY);
}

#[test]
fn without_an_answer_from_kafka_workers_are_started_again() {
    let other = reading(Some(3), Some(view("SELECT b AS a FROM d.ev", "")));
    let silent = GroupReading {
        is_fresh: true,
        plans: Reading::Unreachable(Unreachable {
            reason: "PlansUnreadable",
            message: "no broker".to_owned(),
        }),
        source: None,
    };
    let decision = decide(AUTO, &other, FleetPhase::Stopped(0), Some(&silent));
    assert_eq!(reason_of(&decision), reason::PLANS_UNREADABLE);
}

#[test]
fn a_backfill_begins_where_nothing_is_open_and_goes_on_until_all_is_done() {
    let new = reading(Some(0), None);
    assert_eq!(
        decide(ONCE, &new, FleetPhase::Running(60), None),
        Decision::Drain
    );
    assert_eq!(
        decide(ONCE, &new, FleetPhase::Stopped(0), None),
        Decision::Ask
    );
    let backfill = Backfill {
        bounds: BTreeMap::from([("t/0".to_owned(), 5)]),
        parts: vec![("all".to_owned(), 1)],
        done: 0,
    };
    let quiet = group(&[], 0, 0);
    let begun = decide(ONCE, &new, FleetPhase::Stopped(0), Some(&quiet));
    assert_eq!(begun, create(Some(backfill.clone()), false, true));
    let filling = reading(
        Some(9),
        Some(view("SELECT a FROM d.ev", &backfill.render())),
    );
    let next = decide(ONCE, &filling, FleetPhase::Running(0), None);
    assert_eq!(next, Decision::Fill(backfill.clone()));
    let done = reading(
        Some(9),
        Some(view("SELECT a FROM d.ev", &backfill.with_done(1).render())),
    );
    assert_eq!(
        decide(ONCE, &done, FleetPhase::Running(0), None),
        Decision::Leave
    );
}

#[test]
fn rows_that_no_offset_tells_apart_refuse_a_backfill_and_it_is_rarely_tried_again() {
    let new = reading(None, None);
    let beyond = group(&[], 0, 7);
    let refused = decide(ONCE, &new, FleetPhase::Stopped(0), Some(&beyond));
    assert_eq!(reason_of(&refused), reason::BACKFILL_REFUSED);
    let beyond = last(beyond);
    let at = |settled_s| decide(ONCE, &new, FleetPhase::Running(settled_s), Some(&beyond));
    assert_eq!(reason_of(&at(3_599)), reason::BACKFILL_REFUSED);
    assert_eq!(at(3_600), Decision::Drain);
}

#[test]
fn a_source_without_a_table_needs_no_backfill() {
    let new = reading(None, None);
    let facts = Facts {
        mode: DdlMode::Auto,
        database: "d",
        spec: &spec(BackfillMode::Once),
        select: SELECT,
        has_source: false,
        reading: &new,
        fleet: FleetPhase::Running(0),
        group: None,
        retry_s: 60,
    };
    assert_eq!(decide_derived_step(&facts), create(None, false, false));
}

#[test]
fn what_is_not_our_view_is_left_and_told() {
    let mut table = view(SELECT, "");
    table.engine = "View".to_owned();
    let mut elsewhere = view(SELECT, "");
    elsewhere.create_table_query = elsewhere
        .create_table_query
        .replace("TO d.cur ", "TO d.other ");
    for taken in [table, elsewhere] {
        let decision = decide(
            AUTO,
            &reading(Some(1), Some(taken)),
            FleetPhase::Running(99),
            None,
        );
        let Decision::Hold(difference) = decision else {
            panic!("{decision:?}")
        };
        assert!(difference.remedy.contains("NameTaken"), "{difference:?}");
    }
}

#[test]
fn validate_only_tells_and_none_does_not_look() {
    let missing = reading(Some(1), None);
    let validate = (DdlMode::Validate, BackfillMode::Once);
    let Decision::Hold(difference) = decide(validate, &missing, FleetPhase::Stopped(0), None)
    else {
        panic!("it is not held")
    };
    assert!(
        difference
            .remedy
            .starts_with("create it: CREATE MATERIALIZED VIEW")
    );
    let other = reading(Some(3), Some(view("SELECT b AS a FROM d.ev", "")));
    let told = decide(validate, &other, FleetPhase::Running(99), None);
    assert!(matches!(told, Decision::Hold(_)), "{told:?}");
    let none = (DdlMode::None, BackfillMode::Once);
    assert_eq!(
        decide(none, &missing, FleetPhase::Stopped(0), None),
        Decision::Leave
    );
}

#[test]
fn a_fleet_is_stopped_only_when_none_was_asked_for_and_none_lives() {
    let worker = |phase| WorkerView {
        index: 0,
        phase,
        revision: None,
        port: None,
        health: crate::fleet::Health::default(),
        message: None,
    };
    let fleet = |replicas, workers: Vec<WorkerView>| FleetState {
        wanted_revision: Some("a".to_owned()),
        wanted_replicas: replicas,
        workers,
        settled_s: 7,
        ..FleetState::default()
    };
    assert_eq!(read_phase(&FleetState::default()), FleetPhase::Stopped(0));
    assert_eq!(read_phase(&fleet(0, Vec::new())), FleetPhase::Stopped(7));
    assert_eq!(
        read_phase(&fleet(0, vec![worker(WorkerPhase::Draining)])),
        FleetPhase::Stopping
    );
    assert_eq!(
        read_phase(&fleet(1, vec![worker(WorkerPhase::Stopped)])),
        FleetPhase::Running(7)
    );
}
