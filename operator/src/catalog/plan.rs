//! Which rows the catalog lacks, and what its table needs first. Pure.
//!
//! Must not be here: statements' text (`rows.rs`), clients.

use clickhouse_sink_crds::api::{DdlMode, WideningPolicy};
use clickhouse_sink_crds::names::reason;
use clickhouse_sink_crds::table::ObservedTable;
use serde::Serialize;

use crate::catalog::rows::{CatalogRow, Made, TABLE_NAME, catalog_table, render_insert};
use crate::controller::declaration::Declaration;
use crate::ddl::{DdlStep, TableCase, plan_tables};
use crate::derived::Note;

/// What is there of the catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CatalogReading {
    /// The table; none: it is missing.
    pub table: Option<ObservedTable>,
    /// The latest row of each name that matters here, or why there are none.
    pub rows: Option<Result<Vec<CatalogRow>, String>>,
}

impl CatalogReading {
    /// The latest row of a name.
    #[must_use]
    pub fn find(&self, database: &str, name: &str) -> Option<&CatalogRow> {
        let rows = self.rows.as_ref()?.as_ref().ok()?;
        rows.iter()
            .find(|row| row.database == database && row.name == name)
    }
}

/// What happens to the catalog, behind everything else.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogPlan {
    /// What its table needs.
    pub steps: Vec<DdlStep>,
    /// Rows to be added.
    pub rows: Vec<Made>,
    /// The INSERT of these rows.
    pub insert: Option<String>,
    /// What people should know; data flows all the same.
    pub note: Option<Note>,
}

/// What the catalog lacks.
#[must_use]
pub fn plan_catalog(
    declaration: &Declaration,
    reading: &CatalogReading,
    made: Vec<Made>,
) -> CatalogPlan {
    let ddl = declaration.mode();
    let expected = catalog_table(declaration);
    let case = TableCase {
        expected: &expected,
        observed: reading.table.as_ref(),
        was_there: false,
    };
    let lacks = lacking_columns(&expected.columns, reading.table.as_ref());
    let is_usable = reading.table.is_some() && lacks.is_empty();
    let steps = match ddl {
        DdlMode::Auto => plan_tables(ddl, WideningPolicy::Refuse, true, &[case]).steps,
        DdlMode::Validate | DdlMode::None => Vec::new(),
    };
    let is_written = is_usable || ddl == DdlMode::Auto;
    let rows: Vec<_> = made
        .into_iter()
        .filter(|made| is_written && is_news(made, reading, declaration))
        .collect();
    CatalogPlan {
        steps,
        insert: (!rows.is_empty()).then(|| render_insert(declaration, &rows)),
        rows,
        note: explain(declaration, reading, &lacks),
    }
}

fn lacking_columns(
    expected: &[clickhouse_sink_crds::table::ColumnDefinition],
    found: Option<&ObservedTable>,
) -> Vec<String> {
    let Some(found) = found else {
        return Vec::new();
    };
    let has = |name: &str| found.columns.iter().any(|column| column.name == name);
    let names = expected.iter().map(|column| column.name.clone());
    names.filter(|name| !has(name)).collect()
}

/// A table whose uuid cannot be read may be another one each time: it gets no row.
fn is_news(made: &Made, reading: &CatalogReading, declaration: &Declaration) -> bool {
    let is_readable = made.uuid.chars().any(|c| !matches!(c, '0' | '-'));
    let says_so = |row: &CatalogRow| {
        row.uuid == made.uuid
            && row.definition_fingerprint == made.fingerprint
            && row.sink_uid == declaration.uid
            && row.kind == made.kind
    };
    is_readable
        && !reading
            .find(&made.database, &made.name)
            .is_some_and(says_so)
}

fn explain(declaration: &Declaration, reading: &CatalogReading, lacks: &[String]) -> Option<Note> {
    let note = |reason, message| {
        Some(Note {
            table: format!("{}.{TABLE_NAME}", declaration.expected.database),
            reason,
            message,
        })
    };
    if let Some(Err(why)) = &reading.rows {
        return note(
            reason::CATALOG_UNWRITABLE,
            format!("it cannot be read: {why}"),
        );
    }
    if declaration.mode() == DdlMode::Validate && !lacks.is_empty() {
        let message = format!(
            "expected the columns {}, found none of these; nothing is written until they are added, or with `ddl: auto`",
            lacks.join(", ")
        );
        return note(reason::CATALOG_OUTDATED, message);
    }
    None
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
