//! What people read, what derived tables are filled from, and the annotation that silences rules.
//!
//! Must not be here: tables by themselves.

use super::{Hit, allowed_by, check_allowed};
use crate::api::{ClickHouseSink, EngineSpec, ReadMode};
use crate::expression::volatile_function;
use crate::names::ANNOTATION_LINT_ALLOW;
use crate::schema::field_path;

/// A `ReplacingMergeTree` is read through a view.
pub(super) fn check_flat_view(sink: &ClickHouseSink) -> Vec<Hit> {
    let spec = &sink.spec;
    if spec.flat_view.is_some() || spec.table.engine.replacing_merge_tree.is_none() {
        return Vec::new();
    }
    vec![Hit::new(
        "spec.table.engine.replacingMergeTree",
        format!(
            "the ReplacingMergeTree `{}` has no flat view",
            spec.table.name
        ),
        &format!(
            "add `flatView: {{ name: {}_flat }}` (it reads FINAL), or allow this and read the table with FINAL",
            spec.table.name
        ),
    )]
}

/// A flat view over a `ReplacingMergeTree` that does not collapse copies.
pub(super) fn check_plain_read(sink: &ClickHouseSink) -> Vec<Hit> {
    let spec = &sink.spec;
    let Some(view) = &spec.flat_view else {
        return Vec::new();
    };
    let source = view.source.as_deref().unwrap_or(&spec.table.name);
    let derived = spec.derived.iter().find(|derived| derived.name == source);
    let engine: &EngineSpec = derived.map_or(&spec.table.engine, |derived| &derived.engine);
    if view.read != Some(ReadMode::Plain) || engine.replacing_merge_tree.is_none() {
        return Vec::new();
    }
    vec![Hit::new(
        "spec.flatView.read",
        format!("`Plain` reads the ReplacingMergeTree `{source}` as it is"),
        "write `Final` (the default) or `LatestBy`",
    )]
}

/// A derived table's rows are a function of the record.
pub(super) fn check_select(sink: &ClickHouseSink) -> Vec<Hit> {
    let derived = sink.spec.derived.iter().enumerate();
    let hits = derived.filter_map(|(index, derived)| {
        let function = volatile_function(&derived.select)?;
        Some(Hit::new(
            &format!("spec.derived[{index}].select"),
            format!("`{function}()` gives another value at each call"),
            "take the value from the record, or from `_timestamp`",
        ))
    });
    hits.collect()
}

/// Names in the annotation that silence nothing.
pub(super) fn check_annotation(sink: &ClickHouseSink) -> Vec<Hit> {
    let path = field_path("metadata.annotations", ANNOTATION_LINT_ALLOW);
    let wrong = allowed_by(sink)
        .into_iter()
        .filter_map(|name| check_allowed(&name).err());
    wrong
        .map(|message| Hit::new(&path, message, "correct the name, or remove it"))
        .collect()
}
