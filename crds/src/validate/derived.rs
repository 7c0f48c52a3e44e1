//! Derived tables: names, keys, SELECT.
//!
//! Must not be here: the columns that a SELECT gives (the server knows them).

use super::columns::check_expression;
use crate::api::{Backfill, ClickHouseSinkSpec, DerivedSpec, MetadataColumnsMode};
use crate::expression::not_one_expression;
use crate::resolve::rejected_table_name;
use crate::select::check_select;
use crate::violation::Violation;

/// Name of a derived table's materialized view.
#[must_use]
pub fn view_name(derived: &str) -> String {
    format!("{derived}_mv")
}

pub(super) fn check_derived(spec: &ClickHouseSinkSpec) -> Vec<Violation> {
    let mut violations = check_names(spec);
    for (index, derived) in spec.derived.iter().enumerate() {
        violations.extend(check_one(spec, derived, &format!("spec.derived[{index}]")));
    }
    violations
}

fn check_names(spec: &ClickHouseSinkSpec) -> Vec<Violation> {
    let mut taken = vec![spec.table.name.clone(), rejected_table_name(spec)];
    taken.extend(spec.flat_view.as_ref().map(|view| view.name.clone()));
    let mut violations = Vec::new();
    for (index, derived) in spec.derived.iter().enumerate() {
        let names = [derived.name.clone(), view_name(&derived.name)];
        if let Some(name) = names.iter().find(|name| taken.contains(name)) {
            let message = format!(
                "expected names of its own for the table and its view, found `{name}` taken by another table or view of this sink; rename it"
            );
            violations.push(Violation::new(
                &format!("spec.derived[{index}].name"),
                &message,
            ));
        }
        taken.extend(names);
    }
    violations
}

fn check_one(spec: &ClickHouseSinkSpec, derived: &DerivedSpec, path: &str) -> Vec<Violation> {
    let at = |field: &str| format!("{path}.{field}");
    let mut violations = Vec::new();
    if let Err(message) = check_select(&derived.select, &spec.table.name) {
        violations.push(Violation::new(&at("select"), &message));
    }
    let partition_by = derived.partition_by.as_ref();
    violations.extend(partition_by.and_then(|key| check_expression(key, &at("partitionBy"))));
    if let Some(found) = derived.ttl.as_deref().and_then(not_one_expression) {
        let message = format!("expected one ClickHouse expression, found {found}; remove it");
        violations.push(Violation::new(&at("ttl"), &message));
    }
    for (index, name) in derived.order_by.iter().enumerate() {
        if derived.order_by[..index].contains(name) {
            let message =
                format!("expected each column of the key once, found `{name}` again; remove one");
            violations.push(Violation::new(&at(&format!("orderBy[{index}]")), &message));
        }
    }
    let has_metadata = spec.table.metadata_columns.mode == MetadataColumnsMode::All;
    if derived.backfill == Backfill::Once && !has_metadata {
        let message = "expected `table.metadataColumns.mode: All` with `Once`: by `_topic`, `_partition` and `_offset` the rows that \
             are there are told from those that come; add the columns, or choose `None`";
        violations.push(Violation::new(&at("backfill"), message));
    }
    violations
}
