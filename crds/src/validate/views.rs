//! Derived tables and the flat view: names, keys, and what can be said of a SELECT without a server.
//!
//! Must not be here: what CEL says already (sources, backfill, engines).

use std::collections::BTreeMap;

use super::columns::{check_arguments, check_expression};
use super::table::check_settings;
use crate::api::{
    ClickHouseSinkSpec, DerivedSpec, FlatViewSpec, METADATA_COLUMNS, MetadataColumnsMode,
};
use crate::expression::{identifiers, words};
use crate::resolve::rejected_table_name;
use crate::select::check_select;
use crate::violation::Violation;

/// Tables of our own that a sink cannot take: where the operator notes what it made.
const RESERVED: [&str; 1] = ["clickhouse_sink_catalog"];

/// Name of a derived table's materialized view.
#[must_use]
pub fn view_name(derived: &str) -> String {
    format!("{derived}_mv")
}

pub(super) fn check_views(spec: &ClickHouseSinkSpec) -> Vec<Violation> {
    let mut violations = check_names(spec);
    for (index, derived) in spec.derived.iter().enumerate() {
        let path = format!("spec.derived[{index}]");
        violations.extend(check_derived(spec, derived, &path));
    }
    if let Some(view) = &spec.flat_view {
        violations.extend(check_flat_view(spec, view));
    }
    violations
}

/// Everything that a sink makes has a name of its own.
fn check_names(spec: &ClickHouseSinkSpec) -> Vec<Violation> {
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    let mut violations = Vec::new();
    for (path, name, what) in list_names(spec) {
        let message = if RESERVED.contains(&name.as_str()) {
            format!(
                "expected another name, found `{name}`, where the operator notes what it made; rename it"
            )
        } else if let Some(other) = taken.get(&name) {
            if is_told_by_cel(what, other) {
                continue;
            }
            format!(
                "expected a name of its own for {what}, found `{name}`, the name of {other}; rename one"
            )
        } else {
            taken.insert(name, what);
            continue;
        };
        violations.push(Violation::new(&path, &message));
    }
    violations
}

/// Pairs of names that the CRD's own rules compare.
fn is_told_by_cel(what: &str, other: &str) -> bool {
    other == "the table" || (what == "the flat view" && other != "the rejected table")
}

/// Path, name, and what it is the name of.
fn list_names(spec: &ClickHouseSinkSpec) -> Vec<(String, String, &'static str)> {
    let mut names = vec![
        (
            "spec.table.name".to_owned(),
            spec.table.name.clone(),
            "the table",
        ),
        (
            "spec.deadLetter.table.name".to_owned(),
            rejected_table_name(spec),
            "the rejected table",
        ),
    ];
    for (index, derived) in spec.derived.iter().enumerate() {
        let path = format!("spec.derived[{index}].name");
        let view = view_name(&derived.name);
        names.push((path.clone(), derived.name.clone(), "a derived table"));
        names.push((path, view, "a materialized view"));
    }
    let view = spec.flat_view.as_ref();
    names.extend(view.map(|view| {
        (
            "spec.flatView.name".to_owned(),
            view.name.clone(),
            "the flat view",
        )
    }));
    names
}

fn check_derived(spec: &ClickHouseSinkSpec, derived: &DerivedSpec, path: &str) -> Vec<Violation> {
    let select_path = format!("{path}.select");
    let mut violations = Vec::new();
    match check_select(&derived.select, &spec.table.name) {
        Err(message) => violations.push(Violation::new(&select_path, &message)),
        Ok(()) => violations.extend(check_selected(derived, path)),
    }
    for (index, name) in derived.order_by.iter().enumerate() {
        if derived.order_by[..index].contains(name) {
            let message =
                format!("expected each column of the key once, found `{name}` again; remove one");
            violations.push(Violation::new(
                &format!("{path}.orderBy[{index}]"),
                &message,
            ));
        }
    }
    if let Some(partition_by) = &derived.partition_by {
        violations.extend(check_expression(
            partition_by,
            &format!("{path}.partitionBy"),
        ));
    }
    let ttl = derived.ttl.as_deref();
    violations.extend(ttl.and_then(|ttl| check_arguments(ttl, &format!("{path}.ttl"))));
    violations.extend(check_settings(
        &derived.settings,
        &format!("{path}.settings"),
    ));
    violations
}

/// Keys of a derived table must be columns that its SELECT gives; a star may give any.
fn check_selected(derived: &DerivedSpec, path: &str) -> Vec<Violation> {
    let words = words(&derived.select);
    let gives = |name: &str| gives(&derived.select, &words, name);
    let mut named: Vec<(String, String)> = Vec::new();
    let order_by = derived.order_by.iter().enumerate();
    named.extend(order_by.map(|(index, name)| (format!("{path}.orderBy[{index}]"), name.clone())));
    if let Some(replacing) = &derived.engine.replacing_merge_tree {
        let path = format!("{path}.engine.replacingMergeTree.versionColumn");
        named.push((path, replacing.version_column.clone()));
    }
    let partition_by = derived.partition_by.as_deref().map(identifiers);
    let columns = partition_by.unwrap_or_default().into_iter();
    named.extend(columns.map(|name| (format!("{path}.partitionBy"), name)));
    named.retain(|(_, name)| !gives(name));
    let violations = named.into_iter().map(|(path, name)| {
        let message = format!(
            "expected a column that `select` gives, found `{name}`; add it to the SELECT, or correct the name"
        );
        Violation::new(&path, &message)
    });
    violations.collect()
}

/// A name that the text does not mention at all cannot be a column of its result, unless a star brings it in.
fn gives(select: &str, words: &[String], name: &str) -> bool {
    let opens =
        |word: &String| ["columns", "untuple"].contains(&word.to_ascii_lowercase().as_str());
    select.contains('*') || words.iter().any(|word| word == name || opens(word))
}

fn check_flat_view(spec: &ClickHouseSinkSpec, view: &FlatViewSpec) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, column) in view.columns.iter().enumerate() {
        let path = format!("spec.flatView.columns[{index}]");
        let found = match &column.expression {
            // A view may well say `now()`: it is computed when it is read.
            Some(expression) => check_arguments(expression, &format!("{path}.expression")),
            None => check_source_column(spec, view, &column.name, &format!("{path}.name")),
        };
        violations.extend(found);
    }
    violations
}

fn check_source_column(
    spec: &ClickHouseSinkSpec,
    view: &FlatViewSpec,
    name: &str,
    path: &str,
) -> Option<Violation> {
    let source = view.source.as_deref().unwrap_or(&spec.table.name);
    let derived = spec.derived.iter().find(|derived| derived.name == source);
    let is_there = match derived {
        Some(derived) => gives(&derived.select, &words(&derived.select), name),
        None if source == spec.table.name => is_column(spec, name),
        // CEL has said so.
        None => true,
    };
    if is_there {
        return None;
    }
    let message = format!(
        "expected a column of `{source}`, found `{name}`; correct the name, or give it an `expression`"
    );
    Some(Violation::new(path, &message))
}

fn is_column(spec: &ClickHouseSinkSpec, name: &str) -> bool {
    let has_metadata = spec.table.metadata_columns.mode == MetadataColumnsMode::All;
    spec.table.columns.iter().any(|column| column.name == name)
        || (has_metadata && METADATA_COLUMNS.contains(&name))
}
