//! How an observed table differs from what is declared; the operator and every worker judge by this.
//!
//! Must not be here: repairs, clients.

use crate::expression::normalise_key;
use crate::resolve::DEDUPLICATION_WINDOW_SETTING;
use crate::table::{Difference, Engine, ObservedTable, TableDefinition};

use columns::check_columns;
mod columns;
mod engine_text;
mod widening;
mod window;

pub use engine_text::EngineText;
pub use widening::is_equal_or_wider;
pub use window::check_window;

/// All differences at once; empty: the table is as declared.
#[must_use]
pub fn check_table(expected: &TableDefinition, observed: &ObservedTable) -> Vec<Difference> {
    let text = EngineText::read(&observed.engine_full);
    let mut differences = Vec::new();
    differences.extend(check_engine(&expected.engine, observed, &text));
    differences.extend(check_key(
        "sorting key",
        &expected.order_by.join(", "),
        &observed.sorting_key,
    ));
    let partition_by = expected.partition_by.as_deref().unwrap_or_default();
    differences.extend(check_key(
        "partition key",
        partition_by,
        &observed.partition_key,
    ));
    differences.extend(check_columns(expected, observed));
    differences.extend(check_settings(expected, &text));
    differences.extend(check_window(expected, observed));
    differences
}

/// True where no difference stops writes.
#[must_use]
pub fn may_write(differences: &[Difference]) -> bool {
    !differences
        .iter()
        .any(|difference| difference.blocks_writes)
}

fn blocking(subject: &str, expected: &str, found: &str, remedy: &str) -> Difference {
    Difference {
        subject: subject.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
        remedy: remedy.to_owned(),
        blocks_writes: true,
    }
}

fn check_engine(
    expected: &Engine,
    observed: &ObservedTable,
    text: &EngineText,
) -> Option<Difference> {
    let (kind, version) = match expected {
        Engine::MergeTree => ("MergeTree", None),
        Engine::ReplacingMergeTree { version_column } => {
            ("ReplacingMergeTree", Some(version_column.as_str()))
        }
    };
    let plain = ["Replicated", "Shared"]
        .iter()
        .find_map(|prefix| observed.engine.strip_prefix(prefix));
    let found_version = text.version_column(&observed.engine);
    if plain.unwrap_or(&observed.engine) == kind
        && (kind == "MergeTree" || found_version.as_deref() == version)
    {
        return None;
    }
    let expected = version.map_or(kind.to_owned(), |version| format!("{kind}({version})"));
    let found = found_version.map_or(observed.engine.clone(), |version| {
        format!("{}({version})", observed.engine)
    });
    let remedy = "declare the engine that the table has, or move its rows into a new table: an engine cannot be changed";
    Some(blocking("engine", &expected, &found, remedy))
}

fn check_key(subject: &str, expected: &str, found: &str) -> Option<Difference> {
    if normalise_key(expected) == normalise_key(found) {
        return None;
    }
    let shown = |key: &str| {
        if key.is_empty() {
            "none".to_owned()
        } else {
            key.to_owned()
        }
    };
    let remedy = "declare the key that the table has, or move its rows into a new table: a key cannot be changed";
    Some(blocking(subject, &shown(expected), &shown(found), remedy))
}

/// Settings never stop writes. The deduplication window is looked at by [`check_window`].
fn check_settings(expected: &TableDefinition, text: &EngineText) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, wanted) in &expected.settings {
        let found = text.setting(name);
        let is_same = found == Some(wanted.trim_matches('\''));
        if name == DEDUPLICATION_WINDOW_SETTING || is_same {
            continue;
        }
        differences.push(Difference {
            subject: format!("setting {name}"),
            expected: wanted.clone(),
            found: found.unwrap_or("the server's default").to_owned(),
            remedy: format!("run {}", window::render_alter(expected, &[(name, wanted)])),
            blocks_writes: false,
        });
    }
    differences
}

#[cfg(test)]
mod tests;
