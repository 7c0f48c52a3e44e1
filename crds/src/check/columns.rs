//! Columns: what is declared must be there, what is not declared must do without us.
//!
//! Must not be here: which types are wider than others (`widening`).

use super::widening::{is_equal_or_wider, rewrites};
use super::{Consent, Finding, blocking, warning};
use crate::data_type::{DataType, quote_identifier};
use crate::ddl::{Alteration, render_table_name};
use crate::expression::volatile_function;
use crate::table::{ColumnDefinition, ObservedColumn, ObservedTable, TableDefinition};

pub(super) fn find_columns(expected: &TableDefinition, observed: &ObservedTable) -> Vec<Finding> {
    let declared = expected.columns.iter().filter_map(|column| {
        let found = observed
            .columns
            .iter()
            .find(|found| found.name == column.name);
        find_declared(expected, column, found)
    });
    let extra = observed.columns.iter().filter(|found| {
        expected
            .columns
            .iter()
            .all(|column| column.name != found.name)
    });
    let extra = extra.filter_map(|found| find_extra(expected, found));
    declared.chain(extra).collect()
}

fn find_declared(
    table: &TableDefinition,
    column: &ColumnDefinition,
    found: Option<&ObservedColumn>,
) -> Option<Finding> {
    let Some(found) = found else {
        let difference = blocking(&column.name, &column.data_type, "no such column", "");
        let add = Alteration::AddColumn(column.clone());
        return Some(Finding::mended_by(table, difference, add, Consent::None));
    };
    if !matches!(found.default_kind.as_str(), "" | "DEFAULT") {
        return Some(find_computed(table, found));
    }
    if is_equal_or_wider(&column.data_type, &found.data_type) {
        return None;
    }
    Some(find_type(table, column, &found.data_type))
}

/// The server fills the column by itself, and refuses a value for it.
fn find_computed(table: &TableDefinition, found: &ObservedColumn) -> Finding {
    let shown = format!("a column of kind {}", found.default_kind);
    let difference = |remedy: &str| {
        blocking(
            &found.name,
            "a column that can be inserted into",
            &shown,
            remedy,
        )
    };
    if !matches!(found.default_kind.as_str(), "MATERIALIZED" | "ALIAS") {
        let remedy =
            "make it an ordinary column, or leave it out of the sink: the server computes it";
        return Finding::of(difference(remedy));
    }
    let alteration = Alteration::MakeOrdinary {
        column: found.name.clone(),
        kind: found.default_kind.clone(),
    };
    let remedy = "leave it out of the sink, since the server computes it, or ";
    Finding::mended_by(table, difference(remedy), alteration, Consent::Person)
}

fn find_type(table: &TableDefinition, column: &ColumnDefinition, found: &str) -> Finding {
    let declared = column.data_type.as_str();
    let difference = |remedy: &str| blocking(&column.name, declared, found, remedy);
    if table.is_in_key(&column.name) {
        let remedy = format!(
            "declare `{found}` in the sink, or move the rows into a new table: a column of a key, or the version, cannot be changed"
        );
        return Finding::of(difference(&remedy));
    }
    if !is_equal_or_wider(found, declared) {
        let remedy = format!(
            "declare `{found}` in the sink, or declare a column of another name: a change to `{declared}` may lose values"
        );
        return Finding::of(difference(&remedy));
    }
    let alteration = Alteration::WidenColumn {
        column: column.name.clone(),
        data_type: declared.to_owned(),
    };
    if rewrites(found, declared) {
        let remedy = "set `table.wideningPolicy: Mutate`, or, since it rewrites the column's data, at a quiet time ";
        Finding::mended_by(table, difference(remedy), alteration, Consent::Rewrite)
    } else {
        Finding::mended_by(table, difference(""), alteration, Consent::None)
    }
}

/// A column that the sink does not send is filled by the server, in the same way for a replayed row.
fn find_extra(table: &TableDefinition, found: &ObservedColumn) -> Option<Finding> {
    if matches!(found.default_kind.as_str(), "ALIAS" | "EPHEMERAL") {
        return None;
    }
    let fill = Alteration::FillColumn {
        column: found.name.clone(),
        data_type: found.data_type.clone(),
    };
    if let Some(function) = volatile_function(&found.default_expression) {
        let shown = format!(
            "{} {} ({function} gives another value for a replayed row)",
            found.default_kind, found.default_expression
        );
        let expected = "a default with the same value every time";
        let remedy = "send the column from the record, or ";
        let difference = blocking(&found.name, expected, &shown, remedy);
        return Some(Finding::mended_by(table, difference, fill, Consent::Person));
    }
    let nullable = DataType::parse(&found.data_type).map_or_else(
        |_| found.data_type.starts_with("Nullable("),
        |data_type| data_type.is_nullable(),
    );
    if nullable || !found.default_kind.is_empty() {
        return Some(Finding::of(build_undeclared(table, found)));
    }
    let expected = "a default or a Nullable type for a column that is not declared";
    let remedy = "declare the column in the sink, or ";
    let difference = blocking(&found.name, expected, &found.data_type, remedy);
    Some(Finding::mended_by(table, difference, fill, Consent::Person))
}

/// A column that left the declaration, or that somebody added: it stays.
fn build_undeclared(table: &TableDefinition, found: &ObservedColumn) -> crate::table::Difference {
    let remedy = format!(
        "declare it, or leave it: the server fills it, and the sink never drops a column; by hand, with its data: ALTER TABLE {} DROP COLUMN {}",
        render_table_name(&table.database, &table.name),
        quote_identifier(&found.name)
    );
    let expected = "no column that is not declared";
    warning(&found.name, expected, &found.data_type, &remedy)
}
