//! What ownership means for one reconcile: who is refused, and which comments are written. Pure.
//!
//! Must not be here: the decision itself (`decide.rs`), clients.

use std::collections::BTreeMap;

use clickhouse_sink_crds::api::DdlMode;
use clickhouse_sink_crds::ddl::{Alteration, render_create_table};
use clickhouse_sink_crds::fingerprint::fingerprint;
use clickhouse_sink_crds::names::{ANNOTATION_ADOPT, reason};
use clickhouse_sink_crds::table::{Engine, ObservedTable, TableDefinition};

use crate::catalog::CatalogReading;
use crate::controller::declaration::Declaration;
use crate::controller::observe::ServerReading;
use crate::controller::validate::Validated;
use crate::ddl::DdlStep;
use crate::derived::Note;
use crate::ownership::decide::{OwnerDecision, OwnerFacts, decide_owner};
use crate::ownership::record::{Owner, Recorded, read_owner, render_comment};

/// What follows for the tables of a sink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnershipPlan {
    /// Tables of another one; none where all are ours.
    pub refused: Option<String>,
    /// Comments of tables that are there.
    pub steps: Vec<DdlStep>,
    /// Comments of tables that are to be made, by name.
    pub comments: BTreeMap<String, String>,
    /// What people should know.
    pub notes: Vec<Note>,
}

/// What follows from the records in the tables' comments, or, where those may not be written, from the catalog.
#[must_use]
pub fn plan_ownership(
    declaration: &Declaration,
    validated: &Validated,
    server: &ServerReading,
) -> OwnershipPlan {
    let catalog = &server.catalog;
    let mut tables = vec![
        (&validated.expected, server.table.as_ref()),
        (&validated.rejected, server.rejected.as_ref()),
    ];
    let derived = validated.derived.iter().zip(&server.derived);
    tables.extend(derived.map(|(derived, reading)| (&derived.expected, reading.target.as_ref())));
    let mut plan = OwnershipPlan::default();
    let mut refused = Vec::new();
    for (expected, found) in tables {
        let mine = build_owner(declaration, expected);
        let Some(found) = found else {
            plan.comments
                .insert(expected.name.clone(), render_comment("", &mine));
            continue;
        };
        match decide(declaration, catalog, expected, found, &mine) {
            OwnerDecision::Keep => {}
            OwnerDecision::Record(owner) => {
                plan.steps
                    .extend(build_step(declaration, expected, found, &owner));
            }
            OwnerDecision::LeaveUnreadable => plan.notes.push(note_unreadable(expected)),
            OwnerDecision::Refuse(other) => refused.push(explain_refusal(expected, &other)),
        }
    }
    plan.refused = (!refused.is_empty()).then(|| refused.join("; "));
    plan
}

fn decide(
    declaration: &Declaration,
    catalog: &CatalogReading,
    expected: &TableDefinition,
    found: &ObservedTable,
    mine: &Owner,
) -> OwnerDecision {
    let recorded = match read_owner(&found.comment) {
        Recorded::Nobody if declaration.mode() != DdlMode::Auto => {
            read_catalog(catalog, expected, found, mine)
        }
        recorded => recorded,
    };
    let other_is_there = match &recorded {
        Recorded::Owner(owner) => declaration.siblings.contains(&owner.sink),
        Recorded::Nobody | Recorded::Unreadable => false,
    };
    decide_owner(&OwnerFacts {
        recorded: &recorded,
        mine,
        other_is_there,
        adopt: declaration.annotation(ANNOTATION_ADOPT),
    })
}

/// The catalog is the record where the mode forbids comments. It knows no cluster: it is in this one's database.
fn read_catalog(
    catalog: &CatalogReading,
    expected: &TableDefinition,
    found: &ObservedTable,
    mine: &Owner,
) -> Recorded {
    let row = catalog.find(&expected.database, &expected.name);
    match row.filter(|row| row.uuid == found.uuid) {
        None => Recorded::Nobody,
        Some(row) => Recorded::Owner(Owner {
            uid: row.sink_uid.clone(),
            sink: row.sink.clone(),
            adopted: true,
            ..mine.clone()
        }),
    }
}

fn build_owner(declaration: &Declaration, expected: &TableDefinition) -> Owner {
    let spec = &declaration.sink.spec;
    let reads =
        |source: &Option<String>| source.as_deref().unwrap_or(&spec.table.name) == expected.name;
    let view = spec.flat_view.as_ref().filter(|view| reads(&view.source));
    let is_merged_late = matches!(expected.engine, Engine::ReplacingMergeTree { .. });
    Owner {
        uid: declaration.uid.clone(),
        sink: declaration.qualified_name(),
        cluster: declaration.cluster.clone(),
        fingerprint: fingerprint(render_create_table(expected).as_bytes()),
        adopted: false,
        read_instead: view
            .filter(|_| is_merged_late)
            .map(|view| view.name.clone()),
    }
}

fn build_step(
    declaration: &Declaration,
    expected: &TableDefinition,
    found: &ObservedTable,
    owner: &Owner,
) -> Option<DdlStep> {
    if declaration.mode() != DdlMode::Auto {
        return None;
    }
    Some(DdlStep::AlterTable {
        definition: Box::new(expected.clone()),
        change: Alteration::SetTableComment(render_comment(&found.comment, owner)),
        needed: false,
    })
}

fn note_unreadable(expected: &TableDefinition) -> Note {
    Note {
        table: format!("{}.{}", expected.database, expected.name),
        reason: reason::OWNER_UNREADABLE,
        message: "expected the record of its owner at the end of its comment, found one that was edited; it is used, and never dropped: \
                  remove what is left of the record to have it written anew"
            .to_owned(),
    }
}

fn explain_refusal(expected: &TableDefinition, other: &Owner) -> String {
    format!(
        "expected a table of this sink, found {}.{} of sink {} (uid {}, cluster {}); nothing is touched: give this sink another table, or, \
         where that sink is gone, set the annotation {ANNOTATION_ADOPT}: \"{}\"",
        expected.database, expected.name, other.sink, other.uid, other.cluster, other.uid
    )
}
