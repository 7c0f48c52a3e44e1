//! Columns: what is declared must be there, what is not declared must do without us.
//!
//! Must not be here: which types are wider than others (`widening`).

use super::blocking;
use super::widening::is_equal_or_wider;
use crate::data_type::DataType;
use crate::expression::volatile_function;
use crate::table::{ColumnDefinition, Difference, ObservedColumn, ObservedTable, TableDefinition};

pub(super) fn check_columns(
    expected: &TableDefinition,
    observed: &ObservedTable,
) -> Vec<Difference> {
    let declared = expected.columns.iter().filter_map(|column| {
        let found = observed
            .columns
            .iter()
            .find(|found| found.name == column.name);
        check_declared(column, found)
    });
    let extra = observed.columns.iter().filter(|found| {
        expected
            .columns
            .iter()
            .all(|column| column.name != found.name)
    });
    declared.chain(extra.filter_map(check_extra)).collect()
}

fn check_declared(column: &ColumnDefinition, found: Option<&ObservedColumn>) -> Option<Difference> {
    let Some(found) = found else {
        let add = format!(
            "run ALTER TABLE … ADD COLUMN {} {}",
            column.name, column.data_type
        );
        return Some(blocking(
            &column.name,
            &column.data_type,
            "no such column",
            &add,
        ));
    };
    if !matches!(found.default_kind.as_str(), "" | "DEFAULT") {
        let shown = format!("a column of kind {}", found.default_kind);
        let remedy =
            "make it an ordinary column, or leave it out of the sink: the server computes it";
        return Some(blocking(
            &column.name,
            "a column that can be inserted into",
            &shown,
            remedy,
        ));
    }
    if is_equal_or_wider(&column.data_type, &found.data_type) {
        return None;
    }
    let remedy = format!(
        "declare `{}` in the sink, or change the column by hand",
        found.data_type
    );
    Some(blocking(
        &column.name,
        &column.data_type,
        &found.data_type,
        &remedy,
    ))
}

/// A column that the sink does not send is filled by the server, in the same way for a replayed row.
fn check_extra(found: &ObservedColumn) -> Option<Difference> {
    if matches!(found.default_kind.as_str(), "ALIAS" | "EPHEMERAL") {
        return None;
    }
    if let Some(function) = volatile_function(&found.default_expression) {
        let shown = format!(
            "{} {} ({function} gives another value for a replayed row)",
            found.default_kind, found.default_expression
        );
        let remedy = "send the column from the record, or drop its default";
        return Some(blocking(
            &found.name,
            "a default with the same value every time",
            &shown,
            remedy,
        ));
    }
    let nullable = DataType::parse(&found.data_type).map_or_else(
        |_| found.data_type.starts_with("Nullable("),
        |data_type| data_type.is_nullable(),
    );
    if nullable || !found.default_kind.is_empty() {
        return None;
    }
    let remedy = "declare the column in the sink, give it a default, or make it Nullable";
    Some(blocking(
        &found.name,
        "a default or a Nullable type for a column that is not declared",
        &found.data_type,
        remedy,
    ))
}
