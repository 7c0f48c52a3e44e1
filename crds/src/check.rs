//! How an observed table differs from what is declared; the operator and every worker judge by this.
//!
//! Must not be here: repairs, clients.

use std::collections::BTreeMap;

use crate::ddl::Alteration;
use crate::expression::normalise_key;
use crate::resolve::DEDUPLICATION_WINDOW_SETTING;
use crate::table::{Difference, Engine, ObservedTable, TableDefinition};

use attributes::{find_attributes, find_indexes, find_ttl};
use columns::find_columns;
mod attributes;
mod columns;
mod engine_text;
mod views;
mod widening;
mod window;

pub use engine_text::EngineText;
pub use widening::is_equal_or_wider;
pub use window::check_window;

/// A difference, and what would mend it without losing anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What differs.
    pub difference: Difference,
    /// The change that mends it; none: only a person can.
    pub mend: Option<Mend>,
}

/// A change that mends a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// The change.
    pub alteration: Alteration,
    /// What must be asked before it is made.
    pub consent: Consent,
}

/// What must be asked before a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Nothing.
    None,
    /// It rewrites data: `wideningPolicy: Mutate`.
    Rewrite,
    /// A person runs it.
    Person,
}

/// All differences at once; empty: the table is as declared.
#[must_use]
pub fn check_table(expected: &TableDefinition, observed: &ObservedTable) -> Vec<Difference> {
    let findings = find_differences(expected, observed).into_iter();
    findings.map(|finding| finding.difference).collect()
}

/// All differences at once, each with what would mend it.
#[must_use]
pub fn find_differences(expected: &TableDefinition, observed: &ObservedTable) -> Vec<Finding> {
    let text = EngineText::read(&observed.engine_full);
    let mut findings = Vec::new();
    let keys = [
        check_engine(&expected.engine, observed, &text),
        check_key(
            "sorting key",
            &expected.order_by.join(", "),
            &observed.sorting_key,
        ),
        check_key(
            "partition key",
            expected.partition_by.as_deref().unwrap_or_default(),
            &observed.partition_key,
        ),
    ];
    findings.extend(keys.into_iter().flatten().map(Finding::of));
    findings.extend(find_columns(expected, observed));
    findings.extend(find_attributes(expected, observed));
    findings.extend(find_ttl(expected, &text));
    findings.extend(find_settings(expected, &text));
    findings.extend(window::find_window(expected, observed));
    findings.extend(find_indexes(expected, observed));
    findings.extend(views::check_views(observed).into_iter().map(Finding::of));
    findings
}

impl Finding {
    /// What no statement mends.
    const fn of(difference: Difference) -> Self {
        Self {
            difference,
            mend: None,
        }
    }

    /// What the statement mends; a remedy of `""` is the statement itself.
    fn mended_by(
        table: &TableDefinition,
        mut difference: Difference,
        alteration: Alteration,
        consent: Consent,
    ) -> Self {
        let statement = format!("run {}", alteration.render(table));
        difference.remedy = if difference.remedy.is_empty() {
            statement
        } else {
            format!("{}{statement}", difference.remedy)
        };
        Self {
            difference,
            mend: Some(Mend {
                alteration,
                consent,
            }),
        }
    }
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

fn warning(subject: &str, expected: &str, found: &str, remedy: &str) -> Difference {
    Difference {
        blocks_writes: false,
        ..blocking(subject, expected, found, remedy)
    }
}

/// Settings that the server keeps as they were when the table was made.
const FIXED: [&str; 6] = [
    "index_granularity",
    "index_granularity_bytes",
    "enable_mixed_granularity_parts",
    "share_nested_offsets",
    "allow_tuple_element_aggregation",
    "table_disk",
];

/// Settings never stop writes. The deduplication window is looked at by [`check_window`].
fn find_settings(expected: &TableDefinition, text: &EngineText) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, wanted) in &expected.settings {
        let found = text.setting(name);
        let is_same = found.is_some_and(|found| is_same_value(wanted, found));
        if name == DEDUPLICATION_WINDOW_SETTING || window::is_raised(expected, name) || is_same {
            continue;
        }
        let found = found.unwrap_or("the server's default");
        let difference = warning(&format!("setting {name}"), wanted, found, "");
        findings.push(if FIXED.contains(&name.as_str()) {
            let remedy = format!(
                "declare what the table has, or make a new table: {name} cannot be changed"
            );
            Finding::of(Difference {
                remedy,
                ..difference
            })
        } else {
            let settings = BTreeMap::from([(name.clone(), wanted.clone())]);
            let alteration = Alteration::SetSettings(settings);
            Finding::mended_by(expected, difference, alteration, Consent::None)
        });
    }
    findings
}

/// Two spellings of one value: the server writes `0.9` for `0.90` and keeps `true` beside `1`.
fn is_same_value(wanted: &str, found: &str) -> bool {
    let number = |text: &str| match text.to_ascii_lowercase().as_str() {
        "true" => Some(1.0),
        "false" => Some(0.0),
        other => other.parse::<f64>().ok(),
    };
    let wanted = wanted.trim_matches('\'');
    wanted == found
        || matches!((number(wanted), number(found)), (Some(a), Some(b)) if a.total_cmp(&b).is_eq())
}

#[cfg(test)]
mod tests;
