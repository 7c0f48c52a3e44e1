//! What of a sink is there as declared, for the catalog; and what happens to its flat view. Pure.
//!
//! Must not be here: tables (`ddl`), what the catalog lacks (`catalog`).

use clickhouse_sink_crds::api::DdlMode;
use clickhouse_sink_crds::ddl::render_create_table;
use clickhouse_sink_crds::fingerprint::fingerprint;
use clickhouse_sink_crds::names::ANNOTATION_PROMOTE_VIEW;
use clickhouse_sink_crds::table::{ObservedTable, TableDefinition};
use clickhouse_sink_crds::validate::views::view_name;

use crate::catalog::Made;
use crate::catalog::rows::kind;
use crate::controller::declaration::Declaration;
use crate::controller::observe::{Observation, ServerReading};
use crate::controller::validate::Validated;
use crate::derived::sql::render_create_view;
use crate::flat_view::decide::Found;
use crate::flat_view::plan::{FlatInputs, is_rolled, plan_flat, read_found};
use crate::flat_view::sql::{read_lineage, render_create};
use crate::flat_view::{FlatPlan, ViewDefinition};

/// How far the rest of the plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// A difference holds the sink.
    pub is_held: bool,
    /// Nothing is left to be done to tables and workers.
    pub is_done: bool,
}

/// What happens to the flat view; nothing where the sink has none.
#[must_use]
pub fn plan_view(
    declaration: &Declaration,
    validated: &Validated,
    server: &ServerReading,
    observation: &Observation,
    progress: Progress,
) -> FlatPlan {
    let Some(definition) = &validated.view else {
        return FlatPlan::default();
    };
    let row = server.catalog.find(&definition.database, &definition.name);
    plan_flat(&FlatInputs {
        definition,
        mode: declaration.mode(),
        reading: &server.flat,
        catalog: row
            .filter(|row| row.kind == kind::FLAT_VIEW)
            .and_then(|row| read_lineage(&row.definition))
            .filter(|lineage| lineage.of() == definition.of()),
        owner: format!("{}/{}", declaration.cluster, declaration.qualified_name()),
        uid: &declaration.uid,
        generation: declaration.generation(),
        word: declaration.annotation(ANNOTATION_PROMOTE_VIEW),
        is_settled: progress.is_done && is_rolled(&observation.fleet),
        is_held: progress.is_held,
    })
}

/// Everything that is there as declared. In `none` nothing is checked: what is there is taken for it.
#[must_use]
pub fn list_made(
    declaration: &Declaration,
    validated: &Validated,
    server: &ServerReading,
    observation: &Observation,
) -> Vec<Made> {
    let mut all = Vec::new();
    all.extend(table(
        kind::TABLE,
        &validated.expected,
        server.table.as_ref(),
    ));
    all.extend(table(
        kind::DEAD_LETTERS,
        &validated.rejected,
        server.rejected.as_ref(),
    ));
    for (derived, reading) in validated.derived.iter().zip(&server.derived) {
        all.extend(table(
            kind::DERIVED,
            &derived.expected,
            reading.target.as_ref(),
        ));
        let view = view_name(&derived.expected.name);
        let definition = render_create_view(
            &derived.expected.database,
            &derived.expected.name,
            &view,
            &derived.select,
            None,
        );
        all.extend(reading.view.as_ref().map(|found| Made {
            database: derived.expected.database.clone(),
            name: view,
            kind: kind::MATERIALIZED_VIEW,
            uuid: found.uuid.clone(),
            fingerprint: fingerprint(definition.as_bytes()),
            definition,
        }));
    }
    all.extend(
        validated
            .view
            .as_ref()
            .and_then(|view| made_view(view, server)),
    );
    all.extend(observation.fleet.topics.iter().map(|topic| {
        let definition = format!("{} partitions", topic.partitions);
        Made {
            database: String::new(),
            name: topic.name.clone(),
            kind: kind::TOPIC,
            uuid: topic.id.clone(),
            fingerprint: fingerprint(definition.as_bytes()),
            definition,
        }
    }));
    let names = declaration.list_names();
    all.retain(|made| names.contains(&made.name));
    all
}

fn table(
    kind: &'static str,
    expected: &TableDefinition,
    found: Option<&ObservedTable>,
) -> Option<Made> {
    let definition = render_create_table(expected);
    Some(Made {
        database: expected.database.clone(),
        name: expected.name.clone(),
        kind,
        uuid: found?.uuid.clone(),
        fingerprint: fingerprint(definition.as_bytes()),
        definition,
    })
}

/// With the lineage that it has, so that a view that is dropped by hand can be made again where it was.
fn made_view(view: &ViewDefinition, server: &ServerReading) -> Option<Made> {
    let found = server.flat.view.as_ref()?;
    let Found::Ours(lineage) = read_found(Some(found)) else {
        return None;
    };
    (lineage.last()?.fp == view.fp()).then(|| Made {
        database: view.database.clone(),
        name: view.name.clone(),
        kind: kind::FLAT_VIEW,
        uuid: found.uuid.clone(),
        fingerprint: view.fp(),
        definition: render_create(view, &lineage),
    })
}

/// True where what is there may be written down: it was checked, or nothing is to be checked.
#[must_use]
pub fn may_record(declaration: &Declaration, is_held: bool) -> bool {
    !is_held || declaration.mode() == DdlMode::None
}
