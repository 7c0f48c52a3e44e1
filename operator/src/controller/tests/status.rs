//! What a sink's status says.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::steps::{SINK, declare, observe, server_with_tables, unreachable};
use crate::controller::apply::{Applied, Failure};
use crate::controller::declaration::Declaration;
use crate::controller::plan::{Places, build_plan};
use crate::controller::status::{Outcome, build_status};
use crate::controller::validate::{Validation, validate};
use crate::fleet::{FleetState, Health, Hold, WorkerPhase, WorkerView};

fn worker(phase: WorkerPhase, ready: bool) -> WorkerView {
    let reasons = if ready {
        Vec::new()
    } else {
        vec!["NotAMember: the consumer group was not joined yet".to_owned()]
    };
    WorkerView {
        index: 0,
        phase,
        revision: Some("a".to_owned()),
        port: Some(1),
        health: Health {
            ready,
            reasons,
            lag: 3,
            ..Health::default()
        },
        message: None,
    }
}

fn fleet(workers: Vec<WorkerView>) -> FleetState {
    FleetState {
        workers,
        rows_inserted: 9,
        ..FleetState::default()
    }
}

fn outcome(declaration: &Declaration) -> Outcome {
    let observation = observe(server_with_tables(declaration));
    let validation = validate(declaration, &observation);
    let plan = build_plan(declaration, &observation, &validation, Places::default());
    Outcome {
        validation: Some(validation),
        plan: Some(plan),
        applied: Applied::default(),
        refused: None,
        catalog_failures: 0,
    }
}

#[test]
fn a_sink_is_ready_only_while_every_worker_is() {
    let declaration = declare(SINK);
    let outcome = outcome(&declaration);
    let both = fleet(vec![
        worker(WorkerPhase::Running, true),
        worker(WorkerPhase::Running, true),
    ]);
    let status = build_status(&declaration, &outcome, &both);
    assert_eq!(
        (
            status.reason,
            status.ready,
            status.workers_ready,
            status.lag
        ),
        ("Ready", true, 2, 6)
    );
    let one = fleet(vec![
        worker(WorkerPhase::Running, true),
        worker(WorkerPhase::Running, false),
    ]);
    let status = build_status(&declaration, &outcome, &one);
    assert_eq!(
        (status.reason, status.ready, status.workers_ready),
        ("WorkersStarting", false, 1)
    );
    assert!(
        status.message.starts_with("NotAMember"),
        "{}",
        status.message
    );
}

#[test]
fn the_reason_nearest_to_the_users_hand_is_told_first() {
    let declaration = declare(SINK);
    let mut crashed = worker(WorkerPhase::BackingOff, false);
    crashed.message = Some("ended by itself".to_owned());
    let mut held = worker(WorkerPhase::Running, true);
    held.health.holds = vec![Hold {
        partition: "events/0".to_owned(),
        reason: "TopicRecreated".to_owned(),
        id: "TopicRecreated-1".to_owned(),
        message: "m".to_owned(),
    }];
    let workers = fleet(vec![crashed, held.clone()]);
    let reason = |outcome: &Outcome, fleet: &FleetState| {
        let status = build_status(&declaration, outcome, fleet);
        (status.reason, status.message)
    };
    let mut outcome = outcome(&declaration);
    let held_only = fleet(vec![held.clone(), held]);
    assert_eq!(
        reason(&outcome, &held_only),
        ("PartitionHeld", "events/0 TopicRecreated: m".to_owned())
    );
    assert_eq!(
        reason(&outcome, &workers),
        ("WorkersCrashing", "worker 0: ended by itself".to_owned())
    );
    outcome.applied.failed = Some(Failure {
        step: "create table ops.events".to_owned(),
        why: unreachable(),
    });
    let (failed, message) = reason(&outcome, &workers);
    assert_eq!(
        (failed, message.as_str()),
        (
            "ClickHouseUnreachable",
            "cannot create table ops.events: it cannot be reached"
        )
    );
    outcome.validation = Some(Validation::Unknown(unreachable()));
    assert_eq!(reason(&outcome, &workers).1, "it cannot be reached");
    outcome.refused = Some("spec.table.orderBy: cannot be changed".to_owned());
    assert_eq!(reason(&outcome, &workers).0, "ChangeRefused");
}

#[test]
fn a_paused_sink_says_so_and_how_many_still_drain() {
    let declaration = declare(&SINK.replace("replicas: 2", "paused: true"));
    let outcome = outcome(&declaration);
    let draining = build_status(
        &declaration,
        &outcome,
        &fleet(vec![worker(WorkerPhase::Draining, false)]),
    );
    assert_eq!(
        (draining.reason, draining.message.as_str()),
        ("Paused", "1 workers are draining")
    );
    assert_eq!(
        build_status(&declaration, &outcome, &fleet(Vec::new())).message,
        ""
    );
}

#[test]
fn before_the_first_reconcile_a_sink_is_pending() {
    let declaration = declare(SINK);
    assert_eq!(
        build_status(&declaration, &Outcome::default(), &FleetState::default()).reason,
        "Pending"
    );
}
