//! Sizes, times, and what has to fit together.
//!
//! Must not be here: tables and columns.

use std::str::FromStr;

use k8s_openapi::jiff::Timestamp;

use crate::api::{ClickHouseSinkSpec, METADATA_COLUMNS, MetadataColumnsMode};
use crate::facts::Resolution;
use crate::quantity::parse_bytes;
use crate::violation::Violation;

/// Longest INSERT statement with its settings, in percent-encoded bytes: it travels in the URL.
pub const MAX_INSERT_BYTES: usize = 60_000;
/// Bytes kept for the settings and ids of an INSERT.
const SETTINGS_BYTES: usize = 4_000;
const MIB: u64 = 1 << 20;

pub(super) fn check_limits(spec: &ClickHouseSinkSpec) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(check_sizes(spec));
    violations.extend(check_start_timestamp(spec));
    violations.extend(check_insert_size(spec));
    violations.extend(check_resolutions(spec));
    violations
}

fn check_sizes(spec: &ClickHouseSinkSpec) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut size = |path: &str, text: &str, min: u64, max: u64| match parse_bytes(text) {
        Ok(bytes) if (min..=max).contains(&bytes) => Some(bytes),
        Ok(_) => {
            let message =
                format!("expected {min} to {max} bytes, found `{text}`; choose a size between");
            violations.push(Violation::new(path, &message));
            None
        }
        Err(error) => {
            violations.push(Violation::new(path, &error.to_string()));
            None
        }
    };
    let record = size(
        "spec.format.maxRecordBytes",
        &spec.format.max_record_bytes,
        1,
        128 * MIB,
    );
    let batch = size(
        "spec.batch.maxBytes",
        &spec.batch.max_bytes,
        1,
        200 * MIB - 1,
    );
    let budget = size(
        "spec.workers.memoryBudget",
        &spec.workers.memory_budget,
        32 * MIB,
        1 << 40,
    );
    if let (Some(record), Some(batch), Some(budget)) = (record, batch, budget)
        && budget < record.max(batch)
    {
        let message = format!(
            "expected at least as much as `batch.maxBytes` and `format.maxRecordBytes`, found `{}`; raise it or lower those",
            spec.workers.memory_budget
        );
        violations.push(Violation::new("spec.workers.memoryBudget", &message));
    }
    violations
}

fn check_start_timestamp(spec: &ClickHouseSinkSpec) -> Option<Violation> {
    let text = spec.kafka.start_timestamp.as_deref()?;
    if Timestamp::from_str(text).is_ok() {
        return None;
    }
    let message = format!(
        "expected a time in RFC 3339, found `{text}`; write for example 2026-03-14T00:00:00Z"
    );
    Some(Violation::new("spec.kafka.startTimestamp", &message))
}

/// Two answers to one hold would leave it open which of them counts.
fn check_resolutions(spec: &ClickHouseSinkSpec) -> Vec<Violation> {
    let answers = &spec.resolutions;
    let mut violations = Vec::new();
    for (index, answer) in answers.iter().enumerate() {
        let is_same =
            |other: &&Resolution| other.partition == answer.partition && other.hold == answer.hold;
        if answers[..index].iter().any(|other| is_same(&other)) {
            let message = format!(
                "expected one answer to the hold {} of {}, found a second one; remove one",
                answer.hold, answer.partition
            );
            violations.push(Violation::new(
                &format!("spec.resolutions[{index}]"),
                &message,
            ));
        }
        if !is_partition(&answer.partition) {
            let message = format!(
                "expected a partition as `topic/number`, found `{}`; copy it from the hold",
                answer.partition
            );
            let path = format!("spec.resolutions[{index}].partition");
            violations.push(Violation::new(&path, &message));
        }
    }
    violations
}

fn is_partition(text: &str) -> bool {
    text.rsplit_once('/')
        .is_some_and(|(topic, partition)| !topic.is_empty() && partition.parse::<u32>().is_ok())
}

fn check_insert_size(spec: &ClickHouseSinkSpec) -> Option<Violation> {
    let table = &spec.table;
    // A name in backquotes, a comma and a space, percent-encoded.
    let named = |name: &str| percent_encoded_length(name) + 12;
    let metadata: usize = match table.metadata_columns.mode {
        MetadataColumnsMode::All => METADATA_COLUMNS.iter().map(|name| named(name)).sum(),
        MetadataColumnsMode::None => 0,
    };
    let columns: usize = table.columns.iter().map(|column| named(&column.name)).sum();
    let bytes =
        SETTINGS_BYTES + named(&spec.clickhouse.database) + named(&table.name) + columns + metadata;
    if bytes <= MAX_INSERT_BYTES {
        return None;
    }
    let message = format!(
        "expected columns whose INSERT takes at most {MAX_INSERT_BYTES} bytes in a URL, found {bytes}; use shorter or fewer names"
    );
    Some(Violation::new("spec.table.columns", &message))
}

fn percent_encoded_length(text: &str) -> usize {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|b| if plain(b) { 1 } else { 3 }).sum()
}
