//! Reads `system.tables.engine_full`: the engine's arguments and the table's settings.
//!
//! Must not be here: what they should be.

use std::collections::BTreeMap;

use crate::expression::normalise;

/// Arguments, TTL and settings of an engine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EngineText {
    arguments: Vec<String>,
    ttl: Vec<String>,
    settings: BTreeMap<String, String>,
}

impl EngineText {
    /// Reads for example `ReplacingMergeTree(v) ORDER BY id SETTINGS index_granularity = 8192`.
    #[must_use]
    pub fn read(engine_full: &str) -> Self {
        let end = engine_full
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(engine_full.len());
        let (_, rest) = engine_full.split_at(end);
        let arguments = rest
            .strip_prefix('(')
            .map(|inside| split_top_level(&inside[..closing(inside)]));
        Self {
            arguments: arguments.unwrap_or_default(),
            ttl: read_ttl(rest),
            settings: read_settings(rest),
        }
    }

    /// The version column of a Replacing engine; the path and replica name of a replicated one come before it.
    pub(super) fn version_column(&self, engine: &str) -> Option<String> {
        if !engine.ends_with("ReplacingMergeTree") {
            return None;
        }
        let column = self
            .arguments
            .iter()
            .find(|argument| !argument.starts_with('\''))?;
        Some(normalise(column)).filter(|column| !column.is_empty())
    }

    /// The value of a setting, without quotes.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// The TTL as the server prints it; empty: none.
    #[must_use]
    pub fn ttl(&self) -> String {
        self.ttl.join(", ")
    }

    /// True where rows leave the table, or are merged into others, when they get old; moves and recompression keep them.
    #[must_use]
    pub fn has_row_ttl(&self) -> bool {
        const KEEPING: [&str; 3] = [" TO DISK ", " TO VOLUME ", " RECOMPRESS "];
        let keeps = |element: &String| {
            KEEPING
                .iter()
                .any(|word| find_top_level(element, word).is_some())
        };
        !self.ttl.iter().all(keeps)
    }
}

/// Where the bracket that was open closes.
fn closing(inside: &str) -> usize {
    let mut depth = 0;
    for (index, c, quoted) in signs(inside) {
        match c {
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth == 0 => return index,
            ')' => depth -= 1,
            _ => {}
        }
    }
    inside.len()
}

fn split_top_level(text: &str) -> Vec<String> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (index, c, quoted) in signs(text) {
        match c {
            _ if quoted => {}
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..index].trim().to_owned());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim().to_owned());
    parts
}

/// Every character, and whether it stands inside quotes.
fn signs(text: &str) -> impl Iterator<Item = (usize, char, bool)> {
    let (mut mark, mut escaped) = (None, false);
    text.char_indices().map(move |(index, c)| {
        let quoted = mark.is_some();
        match (mark, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => mark = None,
            (None, '\'' | '`' | '"') => mark = Some(c),
            _ => {}
        }
        (index, c, quoted)
    })
}

/// Where a word, spaces around it included, stands outside quotes and brackets.
fn find_top_level(text: &str, word: &str) -> Option<usize> {
    let mut depth = 0;
    signs(text).find_map(|(index, c, quoted)| {
        match c {
            _ if quoted => {}
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 && text[index..].starts_with(word) => return Some(index),
            _ => {}
        }
        None
    })
}

fn read_ttl(rest: &str) -> Vec<String> {
    const WORD: &str = " TTL ";
    let Some(start) = find_top_level(rest, WORD) else {
        return Vec::new();
    };
    let clause = &rest[start + WORD.len()..];
    let end = find_top_level(clause, " SETTINGS ").unwrap_or(clause.len());
    split_top_level(&clause[..end])
}

fn read_settings(rest: &str) -> BTreeMap<String, String> {
    const WORD: &str = " SETTINGS ";
    let Some(start) = find_top_level(rest, WORD) else {
        return BTreeMap::new();
    };
    let pairs = split_top_level(&rest[start + WORD.len()..]);
    pairs
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| {
            (
                name.trim().to_owned(),
                value.trim().trim_matches('\'').to_owned(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_behind_path_and_replica() {
        let version = |engine: &str, full: &str| EngineText::read(full).version_column(engine);
        assert_eq!(
            version(
                "ReplacingMergeTree",
                "ReplacingMergeTree(v) ORDER BY (a, b)"
            )
            .as_deref(),
            Some("v")
        );
        let replicated = "ReplicatedReplacingMergeTree('/t/{shard}', '{replica}', `v`) ORDER BY id";
        assert_eq!(
            version("ReplicatedReplacingMergeTree", replicated).as_deref(),
            Some("v")
        );
        assert_eq!(
            version("ReplacingMergeTree", "ReplacingMergeTree ORDER BY tuple()"),
            None
        );
        assert_eq!(version("MergeTree", "MergeTree ORDER BY (x)"), None);
    }

    #[test]
    fn settings_are_read_with_and_without_quotes() {
        let text = EngineText::read(
            "MergeTree ORDER BY f('a, SETTINGS') SETTINGS a = 1, storage_policy = 'hot, cold'",
        );
        assert_eq!(text.setting("a"), Some("1"));
        assert_eq!(text.setting("storage_policy"), Some("hot, cold"));
        assert_eq!(text.setting("b"), None);
    }

    #[test]
    fn a_ttl_that_takes_rows_is_told_from_one_that_only_moves_them() {
        let has = |full: &str| EngineText::read(full).has_row_ttl();
        assert!(!has(
            "MergeTree PARTITION BY toDate(ts) ORDER BY f(' TTL ') SETTINGS a = 1"
        ));
        assert!(has(
            "MergeTree ORDER BY a TTL ts + toIntervalDay(1) SETTINGS a = 1"
        ));
        assert!(has(
            "MergeTree ORDER BY a TTL ts DELETE WHERE a = ' TO DISK '"
        ));
        assert!(has(
            "MergeTree ORDER BY a TTL ts GROUP BY a SET b = max(b), c = any(c)"
        ));
        let moves = "MergeTree ORDER BY a TTL ts + toIntervalDay(2) TO VOLUME 'cold', ts TO DISK 'd', ts RECOMPRESS CODEC(ZSTD(1))";
        assert!(!has(moves));
        assert!(has(&format!("{moves}, ts + toIntervalDay(9)")));
    }
}
