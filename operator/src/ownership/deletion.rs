//! What is dropped with a sink: only what the catalog and the comment say that it made, the last first. Pure.
//!
//! Must not be here: clients; whether the sink is to be deleted.

use clickhouse_sink_crds::api::DeletionPolicy;

use crate::catalog::rows::{CatalogRow, kind};
use crate::controller::declaration::Declaration;
use crate::controller::observe::ServerReading;
use crate::flat_view::lineage::{Mark, read_mark};
use crate::ownership::record::{Recorded, read_owner};
use crate::sql::render_table_name;
use clickhouse_sink_crds::validate::views::view_name;

/// What is dropped, and what is left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeletionPlan {
    /// Statements, in order.
    pub drops: Vec<String>,
    /// Names that are left although they are declared, with the reason.
    pub left: Vec<String>,
}

struct Candidate<'a> {
    name: String,
    kind: &'static str,
    uuid: &'a str,
    /// The comment says that this sink made it.
    is_made: bool,
}

/// What a sink takes with it.
#[must_use]
pub fn plan_deletion(declaration: &Declaration, server: &ServerReading) -> DeletionPlan {
    let mut plan = DeletionPlan::default();
    if declaration.sink.spec.deletion_policy == DeletionPolicy::Retain {
        return plan;
    }
    let database = &declaration.expected.database;
    for candidate in list_candidates(declaration, server) {
        let row = server.catalog.find(database, &candidate.name);
        if candidate.is_made && is_recorded(declaration, &candidate, row) {
            let verb = match candidate.kind {
                kind::FLAT_VIEW | kind::MATERIALIZED_VIEW => "VIEW",
                _ => "TABLE",
            };
            let name = render_table_name(database, &candidate.name);
            plan.drops
                .push(format!("DROP {verb} IF EXISTS {name} SYNC"));
        } else {
            plan.left.push(format!(
                "{database}.{}: its comment and the catalog do not both say that this sink made it",
                candidate.name
            ));
        }
    }
    plan
}

fn is_recorded(
    declaration: &Declaration,
    candidate: &Candidate<'_>,
    row: Option<&CatalogRow>,
) -> bool {
    row.is_some_and(|row| {
        row.sink_uid == declaration.uid && row.kind == candidate.kind && row.uuid == candidate.uuid
    })
}

/// What is there of what is declared: views, what fills derived tables, these, the table, the rejected one.
fn list_candidates<'a>(declaration: &Declaration, server: &'a ServerReading) -> Vec<Candidate<'a>> {
    let spec = &declaration.sink.spec;
    let is_mine = |comment: &str| match read_owner(comment) {
        Recorded::Owner(owner) => owner.uid == declaration.uid && !owner.adopted,
        Recorded::Nobody | Recorded::Unreadable => false,
    };
    let mut all = Vec::new();
    if let (Some(declared), Some(view)) = (&spec.flat_view, &server.flat.view) {
        all.push(Candidate {
            name: declared.name.clone(),
            kind: kind::FLAT_VIEW,
            uuid: &view.uuid,
            is_made: shows_mine(declaration, &view.comment),
        });
    }
    let derived = || spec.derived.iter().zip(&server.derived);
    all.extend(derived().filter_map(|(declared, reading)| {
        Some(Candidate {
            name: view_name(&declared.name),
            kind: kind::MATERIALIZED_VIEW,
            uuid: &reading.view.as_ref()?.uuid,
            // Its comment holds the progress of its filling; what it fills says whose it is.
            is_made: is_mine(&reading.target.as_ref()?.comment),
        })
    }));
    let mut table =
        |name: &str, kind, found: Option<&'a clickhouse_sink_crds::table::ObservedTable>| {
            all.extend(found.map(|found| Candidate {
                name: name.to_owned(),
                kind,
                uuid: &found.uuid,
                is_made: is_mine(&found.comment),
            }));
        };
    for (declared, reading) in derived() {
        table(&declared.name, kind::DERIVED, reading.target.as_ref());
    }
    table(
        &declaration.expected.name,
        kind::TABLE,
        server.table.as_ref(),
    );
    table(
        &declaration.rejected.name,
        kind::DEAD_LETTERS,
        server.rejected.as_ref(),
    );
    all
}

fn shows_mine(declaration: &Declaration, comment: &str) -> bool {
    match read_mark(comment) {
        Mark::Lineage(lineage) => lineage
            .last()
            .is_some_and(|last| last.uid == declaration.uid),
        Mark::None | Mark::Unreadable => false,
    }
}

#[cfg(test)]
#[path = "deletion_tests.rs"]
mod tests;
