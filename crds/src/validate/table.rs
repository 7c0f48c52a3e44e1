//! Keys, version column, partition key, TTL, settings.
//!
//! Must not be here: single columns (`columns`).

use std::collections::BTreeMap;

use super::columns::{check_arguments, check_expression};
use crate::api::{IndexSpec, TableSpec};
use crate::clause::parse_index_type;
use crate::data_type::DataType;
use crate::lint::names::NULLABLE_IN_KEY;
use crate::violation::Violation;

pub(super) fn check_table_spec(table: &TableSpec) -> Vec<Violation> {
    let mut violations = check_sorting_key(table);
    violations.extend(check_version_column(table));
    if let Some(partition_by) = &table.partition_by {
        violations.extend(check_expression(partition_by, "spec.table.partitionBy"));
    }
    let ttl = table.ttl.as_deref();
    violations.extend(ttl.and_then(|ttl| check_arguments(ttl, "spec.table.ttl")));
    violations.extend(check_settings(&table.settings, "spec.table.settings"));
    violations.extend(check_indexes(&table.indexes));
    violations
}

fn type_of(table: &TableSpec, name: &str) -> Option<DataType> {
    let column = table.columns.iter().find(|column| column.name == name)?;
    DataType::parse(&column.data_type).ok()
}

fn check_sorting_key(table: &TableSpec) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, name) in table.order_by.iter().enumerate() {
        let path = format!("spec.table.orderBy[{index}]");
        if table.order_by[..index].contains(name) {
            let message =
                format!("expected each column of the key once, found `{name}` again; remove one");
            violations.push(Violation::new(&path, &message));
        }
        if let Some(data_type) = type_of(table, name).filter(DataType::is_nullable) {
            let message = format!(
                "expected a column that is not Nullable in the sorting key, found `{name}` of `{data_type}`; drop Nullable and give it a default"
            );
            violations.push(Violation::new(&path, &message).of_rule(NULLABLE_IN_KEY));
        }
    }
    violations
}

fn check_version_column(table: &TableSpec) -> Option<Violation> {
    let name = &table.engine.replacing_merge_tree.as_ref()?.version_column;
    let data_type = type_of(table, name)?;
    let allowed = match &data_type {
        DataType::UInt(_) => true,
        other => other.is_date_or_time() && !other.is_nullable(),
    };
    if allowed {
        return None;
    }
    let message = format!(
        "expected an unsigned integer, a date or a time as version, found `{name}` of `{data_type}`; choose another column or type"
    );
    Some(Violation::new(
        "spec.table.engine.replacingMergeTree.versionColumn",
        &message,
    ))
}

pub(super) fn check_settings(settings: &BTreeMap<String, String>, path: &str) -> Vec<Violation> {
    let plain = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let wrong = settings.keys().filter(|name| !plain(name));
    wrong
        .map(|name| {
            let path = crate::schema::field_path(path, name);
            Violation::new(&path, &format!("expected the name of a MergeTree setting, found `{name}`; write for example index_granularity"))
        })
        .collect()
}

fn check_indexes(indexes: &[IndexSpec]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, index) in indexes.iter().enumerate() {
        let path = format!("spec.table.indexes[{number}]");
        violations.extend(check_expression(
            &index.expression,
            &format!("{path}.expression"),
        ));
        if let Err(error) = parse_index_type(&index.index_type) {
            violations.push(Violation::new(&format!("{path}.type"), &error.to_string()));
        }
    }
    violations
}
