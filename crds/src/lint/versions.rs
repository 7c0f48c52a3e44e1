//! Version columns: whether they grow with every change of a record.
//!
//! Must not be here: a version in the sorting key (`keys`).

use super::Hit;
use super::target::{Target, targets};
use crate::api::{ClickHouseSink, ColumnSpec};
use crate::data_type::{DataType, IntWidth};
use crate::worker_config::{OnError, OnMissing};

/// Two changes of one record must not have one version.
pub(super) fn check_strict(sink: &ClickHouseSink) -> Vec<Hit> {
    let targets = targets(sink);
    let hits = targets.iter().filter_map(|target| {
        let version = target.version?;
        let path = format!("{}.engine.replacingMergeTree.versionColumn", target.path);
        if version == "_timestamp" {
            let message = "`_timestamp` is the version: records of one millisecond tie, and a producer that sends again moves it".to_owned();
            return Some(Hit::new(&path, message, HELP));
        }
        let why = find_weakness(target, version)?;
        Some(Hit::new(&path, format!("the version `{version}` {why}"), HELP))
    });
    hits.collect()
}

const HELP: &str = "take a number that the source raises with every change of the record (UInt32 or wider), or a time of milliseconds or finer; where two changes cannot fall together, allow this";

fn find_weakness(target: &Target<'_>, version: &str) -> Option<String> {
    let data_type = target.type_of(version)?;
    let weakness = match &data_type {
        DataType::Date | DataType::Date32 => "is a date: changes of one day tie",
        DataType::DateTime { .. } => "counts whole seconds: changes within one second tie",
        DataType::DateTime64 {
            precision: 0..=2, ..
        } => "counts less than milliseconds: changes close to each other tie",
        DataType::UInt(IntWidth::W8) => "is a UInt8: it ends at 255, and smaller ones lose",
        DataType::UInt(IntWidth::W16) => "is a UInt16: it ends at 65535, and smaller ones lose",
        _ => return target.column(version).and_then(find_filler),
    };
    Some(weakness.to_owned())
}

/// A value that several records get because they lack one of their own.
fn find_filler(column: &ColumnSpec) -> Option<String> {
    let is_default = match column.on_missing {
        Some(choice) => choice == OnMissing::Default,
        None => column.default.is_some(),
    };
    if is_default {
        let default = column.default.as_deref().unwrap_or("the type's default");
        return Some(format!(
            "is {default} in every record without one: these tie"
        ));
    }
    matches!(column.on_error, Some(OnError::Default | OnError::Clamp)).then(|| {
        "gets one and the same value in all records whose own does not fit: these tie".to_owned()
    })
}
