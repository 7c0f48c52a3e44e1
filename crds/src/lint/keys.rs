//! Sorting keys: whether they identify the record, and what they hold that they should not.
//!
//! Must not be here: partition keys (`partitions`), version columns by themselves (`versions`).

use super::Hit;
use super::identity::{can_identify, is_id, is_own_id};
use super::target::{Target, is_metadata, targets};
use crate::api::{ClickHouseSink, MetadataColumnsMode};
use crate::data_type::DataType;

/// The key of the sink's own `ReplacingMergeTree` must tell records apart.
pub(super) fn check_identity(sink: &ClickHouseSink) -> Vec<Hit> {
    let targets = targets(sink);
    let Some(target) = targets.iter().find(|target| target.path == "spec.table") else {
        return Vec::new();
    };
    let has_no_key = target.version.is_none() || target.order_by.is_empty();
    if has_no_key || target.key_index("_offset").is_some() {
        return Vec::new();
    }
    find_id_outside(sink, target)
        .or_else(|| find_no_identity(target))
        .into_iter()
        .collect()
}

/// The record has an id of its own, and it is not in the key.
fn find_id_outside(sink: &ClickHouseSink, target: &Target<'_>) -> Option<Hit> {
    let table = &sink.spec.table;
    let mut own = table
        .columns
        .iter()
        .filter(|column| is_own_id(table, column));
    if own.clone().any(|id| target.key_index(&id.name).is_some()) {
        return None;
    }
    let id = &own.next()?.name;
    Some(Hit::new(
        "spec.table.orderBy",
        format!(
            "the column `{id}` looks like the record's own id, and is not in the key ({})",
            target.key()
        ),
        &format!(
            "add `{id}` to `orderBy` (it cannot be changed once the table is made), or say that the key identifies the record without it"
        ),
    ))
}

/// Nothing in the key can tell many records apart.
fn find_no_identity(target: &Target<'_>) -> Option<Hit> {
    let can = |name: &String| {
        is_id(name)
            || Some(name.as_str()) != target.version
                && target
                    .type_of(name)
                    .is_none_or(|data_type| can_identify(&data_type))
    };
    if target.order_by.iter().any(can) {
        return None;
    }
    Some(Hit::new(
        "spec.table.orderBy",
        format!(
            "no column of the key ({}) looks like the record's identity: times, dictionaries and small numbers are shared by many records",
            target.key()
        ),
        "add the column that identifies the record (it cannot be changed once the table is made)",
    ))
}

/// A version in the key; meant where a derived table keeps the newest of each record.
pub(super) fn check_version_in_key(sink: &ClickHouseSink) -> Vec<Hit> {
    let targets = targets(sink);
    let is_history = targets
        .iter()
        .skip(1)
        .any(|derived| is_current_state(derived));
    let versions = targets.iter().filter_map(|target| {
        let version = target.version?;
        let index = target.key_index(version)?;
        Some((target, version, index))
    });
    let meant = |target: &Target<'_>| is_history && target.path == "spec.table";
    versions
        .filter(|(target, ..)| !meant(target))
        .map(|(target, version, index)| {
            Hit::new(
                &target.key_path(index),
                format!("`{version}` is the version column and part of the key ({})", target.key()),
                "take it out of `orderBy`; for a history of all versions, add a derived table for the newest ones, or allow this",
            )
        })
        .collect()
}

fn is_current_state(target: &Target<'_>) -> bool {
    target
        .version
        .is_some_and(|version| target.key_index(version).is_none())
}

/// A place in Kafka in the key.
pub(super) fn check_offset_in_key(sink: &ClickHouseSink) -> Vec<Hit> {
    let mut hits = Vec::new();
    for target in targets(sink)
        .iter()
        .filter(|target| target.version.is_some())
    {
        for (index, name) in target.order_by.iter().enumerate() {
            if ["_offset", "_timestamp"].contains(&name.as_str()) && is_metadata(sink, name) {
                hits.push(Hit::new(
                    &target.key_path(index),
                    format!("`{name}` is part of the key ({})", target.key()),
                    "use the record's own id; where it has none, and its producer is idempotent, allow this",
                ));
            }
        }
    }
    hits
}

/// A dictionary for an id.
pub(super) fn check_low_cardinality(sink: &ClickHouseSink) -> Vec<Hit> {
    let table = &sink.spec.table;
    let mut hits = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        let data_type = DataType::parse(&column.data_type);
        let Ok(DataType::LowCardinality(inner)) = data_type else {
            continue;
        };
        if table.order_by.contains(&column.name) && is_id(&column.name) {
            hits.push(Hit::new(
                &format!("spec.table.columns[{index}].type"),
                format!("`{}`, an id in the key, is `{}`", column.name, column.data_type),
                &format!("write `{inner}`; where there are at most some ten thousand different ones, allow this"),
            ));
        }
    }
    hits
}

/// Rows that do not say where they came from.
pub(super) fn check_metadata_columns(sink: &ClickHouseSink) -> Vec<Hit> {
    if sink.spec.table.metadata_columns.mode == MetadataColumnsMode::All {
        return Vec::new();
    }
    vec![Hit::new(
        "spec.table.metadataColumns.mode",
        "the table has no metadata columns".to_owned(),
        "write `mode: All`, the default, unless the space matters more",
    )]
}
