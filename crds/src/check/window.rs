//! Whether a table remembers its INSERTs long enough to know a replay again.
//!
//! Must not be here: what follows where it does not (rows still arrive; a late replay is compared with the table, or held).

use super::engine_text::EngineText;
use super::{Consent, Finding, warning};
use crate::ddl::Alteration;
use crate::resolve::{DEDUPLICATION_WINDOW, DEDUPLICATION_WINDOW_SETTING, REPLICATED_WINDOW};
use crate::table::{Difference, ObservedTable, TableDefinition};

/// Least window of a plain table.
const PLAIN: [(&str, &str); 1] = [(DEDUPLICATION_WINDOW_SETTING, DEDUPLICATION_WINDOW)];
/// What the window lacks, with the statement that mends it; never stops writes.
///
/// A setting that the table does not have itself counts as lacking: the server's own value is smaller in every version
/// so far, and may differ between replicas.
#[must_use]
pub fn check_window(expected: &TableDefinition, observed: &ObservedTable) -> Option<Difference> {
    find_window(expected, observed).map(|finding| finding.difference)
}

/// As [`check_window`]; a sink that asks for less than the least has said so, and is only warned.
pub(super) fn find_window(expected: &TableDefinition, observed: &ObservedTable) -> Option<Finding> {
    let replicated = ["Replicated", "Shared"]
        .iter()
        .any(|prefix| observed.engine.starts_with(prefix));
    let least: &[(&str, &str)] = if replicated {
        &REPLICATED_WINDOW
    } else {
        &PLAIN
    };
    let text = EngineText::read(&observed.engine_full);
    let wanted = least
        .iter()
        .map(|(name, least)| (*name, raise(expected, name, least)));
    let lacking: Vec<(&str, &str)> = wanted
        .filter(|(name, wanted)| number(text.setting(name)) < number(Some(wanted)))
        .collect();
    let (first, _) = lacking.first()?;
    let pairs = lacking.iter();
    let wanted = join(pairs.map(|(name, wanted)| format!("{name} = {wanted}")));
    let found = join(lacking.iter().map(|(name, _)| {
        text.setting(name)
            .map_or_else(|| "the server's default".to_owned(), str::to_owned)
    }));
    let is_wanted = |(name, wanted): &(&str, &str)| {
        expected
            .settings
            .get(*name)
            .is_none_or(|declared| declared == wanted)
    };
    let consent = if lacking.iter().all(is_wanted) {
        Consent::None
    } else {
        Consent::Person
    };
    let settings = lacking.iter();
    let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let alteration = Alteration::SetSettings(settings.collect());
    let difference = warning(&format!("setting {first}"), &wanted, &found, "");
    Some(Finding::mended_by(
        expected, difference, alteration, consent,
    ))
}

/// True where the setting is one of a window's: more than what is declared is no difference.
pub(super) fn is_raised(expected: &TableDefinition, name: &str) -> bool {
    expected.cluster.is_some()
        && REPLICATED_WINDOW
            .iter()
            .any(|(setting, _)| *setting == name)
}

/// A sink may ask for more than the least.
fn raise<'a>(expected: &'a TableDefinition, name: &str, least: &'a str) -> &'a str {
    let declared = expected.settings.get(name).map_or(least, String::as_str);
    if number(Some(declared)) > number(Some(least)) {
        declared
    } else {
        least
    }
}

fn number(text: Option<&str>) -> Option<u64> {
    text.and_then(|text| text.parse().ok())
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::table::Engine;

    fn table(window: Option<&str>) -> TableDefinition {
        TableDefinition {
            database: "ops".to_owned(),
            name: "events".to_owned(),
            engine: Engine::MergeTree,
            columns: Vec::new(),
            order_by: Vec::new(),
            indexes: Vec::new(),
            cluster: None,
            partition_by: None,
            ttl: None,
            settings: window
                .map(|window| (DEDUPLICATION_WINDOW_SETTING.to_owned(), window.to_owned()))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
        }
    }

    fn observed(engine: &str, settings: &str) -> ObservedTable {
        ObservedTable {
            uuid: String::new(),
            engine: engine.to_owned(),
            engine_full: format!("{engine} ORDER BY tuple() SETTINGS {settings}"),
            sorting_key: String::new(),
            partition_key: String::new(),
            comment: String::new(),
            columns: Vec::new(),
            indexes: Vec::new(),
            views: Vec::new(),
        }
    }

    #[test]
    fn a_plain_table_needs_100000_unless_the_sink_asks_for_more() {
        let lacks = |declared, found: &str| {
            check_window(&table(declared), &observed("MergeTree", found)).is_some()
        };
        let set = |window: u32| format!("non_replicated_deduplication_window = {window}");
        assert!(!lacks(None, &set(100_000)));
        assert!(lacks(None, &set(99_999)));
        assert!(lacks(None, "index_granularity = 8192"));
        assert!(lacks(Some("7"), &set(7)));
        assert!(lacks(Some("200000"), &set(100_000)));
        assert!(!lacks(Some("200000"), &set(200_000)));
    }

    #[test]
    fn a_replicated_table_needs_20000_for_a_week() {
        let lack =
            |found: &str| check_window(&table(None), &observed("ReplicatedMergeTree", found));
        let both = "replicated_deduplication_window = 20000, replicated_deduplication_window_seconds = 604800";
        assert_eq!(lack(both), None);
        let difference = lack("replicated_deduplication_window = 10000").unwrap();
        assert_eq!(
            difference.remedy,
            "run ALTER TABLE `ops`.`events` MODIFY SETTING replicated_deduplication_window = 20000, \
             replicated_deduplication_window_seconds = 604800"
        );
        assert_eq!(difference.found, "10000, the server's default");
        assert!(!difference.blocks_writes);
    }
}
