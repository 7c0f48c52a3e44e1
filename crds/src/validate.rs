//! Everything that is wrong with a sink, at once: the schema and CEL as the API server has them, and what they cannot see.
//!
//! Must not be here: what needs a server (the table, the topics).

use serde_json::Value;

use crate::api::{ClickHouseSink, MAX_NAME_LENGTH};
use crate::schema::{check_cel, check_schema, resource_schema};
use crate::violation::Violation;

mod columns;
mod limits;
mod table;
pub mod views;

pub use limits::MAX_INSERT_BYTES;

/// All violations, in the order of their paths; none: the sink can be planned.
#[must_use]
pub fn validate(sink: &ClickHouseSink) -> Vec<Violation> {
    let value = to_value(sink);
    let mut violations = check_schema(
        &resource_schema()["properties"]["spec"],
        &value["spec"],
        "spec",
    );
    violations.extend(check_cel(&value, None));
    violations.extend(check_name(sink));
    violations.extend(columns::check_columns(&sink.spec.table));
    violations.extend(table::check_table_spec(&sink.spec.table));
    violations.extend(views::check_views(&sink.spec));
    violations.extend(limits::check_limits(&sink.spec));
    sort(violations)
}

/// What an update would break: all of [`validate`], and the rules about what cannot be changed.
#[must_use]
pub fn validate_update(sink: &ClickHouseSink, old: &ClickHouseSink) -> Vec<Violation> {
    let mut violations = validate(sink);
    violations.extend(check_cel(&to_value(sink), Some(&to_value(old))));
    sort(violations)
}

fn to_value(sink: &ClickHouseSink) -> Value {
    serde_json::to_value(sink).expect("a sink is plain data with text keys and always becomes JSON")
}

fn sort(mut violations: Vec<Violation>) -> Vec<Violation> {
    violations.sort();
    violations.dedup();
    violations
}

fn check_name(sink: &ClickHouseSink) -> Vec<Violation> {
    let name = sink.metadata.name.as_deref().unwrap_or_default();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.len() > MAX_NAME_LENGTH {
        // CEL has said so.
        return Vec::new();
    }
    if name.chars().all(plain) && name.starts_with(edges) && name.ends_with(edges) {
        return Vec::new();
    }
    let message = format!(
        "expected a name of lower-case letters, digits and `-`, found `{name}`; rename the sink"
    );
    vec![Violation::new("metadata.name", &message)]
}

#[cfg(test)]
mod tests;
