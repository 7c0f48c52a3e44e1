//! Columns: types, paths, defaults, and what may be done with values that are missing or do not fit.
//!
//! Must not be here: keys and engine (`table`).

use std::collections::BTreeSet;

use crate::api::{ColumnSpec, TableSpec};
use crate::clause::parse_codec;
use crate::data_type::DataType;
use crate::expression::{not_one_expression, volatile_function};
use crate::lint::names::{VOLATILE_DEFAULT, VOLATILE_EXPRESSION};
use crate::path::parse_path;
use crate::violation::Violation;
use crate::worker_config::{OnError, OnMissing};

pub(super) fn check_columns(table: &TableSpec) -> Vec<Violation> {
    let mut names = BTreeSet::new();
    let mut violations = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        let path = format!("spec.table.columns[{index}]");
        if !names.insert(column.name.as_str()) {
            let message = format!(
                "expected each column once, found `{}` again; rename one",
                column.name
            );
            violations.push(Violation::new(&format!("{path}.name"), &message));
        }
        violations.extend(check_column(column, &path));
    }
    violations
}

fn check_column(column: &ColumnSpec, path: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    match DataType::parse(&column.data_type) {
        Ok(data_type) => violations.extend(check_choices(column, &data_type, path)),
        Err(error) => violations.push(Violation::new(&format!("{path}.type"), &error.to_string())),
    }
    if let Some(Err(error)) = column.from.as_deref().map(parse_path) {
        violations.push(Violation::new(&format!("{path}.from"), &error.to_string()));
    }
    if let Some(default) = &column.default {
        let found = check_expression(default, &format!("{path}.default"));
        violations.extend(found.map(|violation| match violation.rule {
            VOLATILE_EXPRESSION => violation.of_rule(VOLATILE_DEFAULT),
            _ => violation,
        }));
    }
    if let Some(Err(error)) = column.codec.as_deref().map(parse_codec) {
        let path = format!("{path}.codec");
        violations.push(Violation::new(&path, &error.to_string()));
    }
    violations
}

/// An expression must be one, and give the same value when a batch is replayed.
pub(super) fn check_expression(expression: &str, path: &str) -> Option<Violation> {
    if let Some(found) = not_one_expression(expression) {
        let message = format!("expected one ClickHouse expression, found {found}; remove it");
        return Some(Violation::new(path, &message));
    }
    let function = volatile_function(expression)?;
    let message = format!(
        "expected an expression with the same value every time, found `{function}()`; a replayed row would differ and never collapse, so take the value from the record"
    );
    Some(Violation::new(path, &message).of_rule(VOLATILE_EXPRESSION))
}

/// Text that stands where neither an expression nor a name does (codecs, types of indexes, TTL): it must not be able to
/// leave its place.
pub(super) fn check_arguments(text: &str, path: &str) -> Option<Violation> {
    let found = not_one_expression(text)?;
    let message = format!("expected one ClickHouse expression, found {found}; remove it");
    Some(Violation::new(path, &message))
}

fn check_choices(column: &ColumnSpec, data_type: &DataType, path: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut refuse = |field: &str, message: &str| {
        violations.push(Violation::new(&format!("{path}.{field}"), message));
    };
    if column.on_missing == Some(OnMissing::Null) && !data_type.is_nullable() {
        refuse("onMissing", &needs_nullable(column));
    }
    if column.on_error == Some(OnError::Null) && !data_type.is_nullable() {
        refuse("onError", &needs_nullable(column));
    }
    if column.on_error == Some(OnError::Clamp)
        && !data_type.is_number()
        && !data_type.is_date_or_time()
    {
        let found = &column.data_type;
        refuse(
            "onError",
            &format!(
                "expected a number, date or time for `Clamp`, found `{found}`; use `Reject` or `Default`"
            ),
        );
    }
    if column.unit.is_some() && !data_type.is_date_or_time() {
        let found = &column.data_type;
        refuse(
            "unit",
            &format!("expected a date or time type with `unit`, found `{found}`; remove `unit`"),
        );
    }
    violations
}

fn needs_nullable(column: &ColumnSpec) -> String {
    let found = &column.data_type;
    format!(
        "expected a Nullable type for `Null`, found `{found}`; write Nullable({found}) or choose `Default` or `Reject`"
    )
}
