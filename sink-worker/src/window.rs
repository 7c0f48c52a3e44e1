//! The deduplication window: how many INSERTs a table remembers, how many were made since a range was declared, and
//! what follows for sending that range again.
//!
//! Pure. Must not be here: asking the server (`verify.rs`), the table's rows.

use std::collections::BTreeMap;

use clickhouse_sink_crds::check::EngineText;

const PLAIN_ENTRIES: &str = "non_replicated_deduplication_window";
const REPLICATED_ENTRIES: &str = "replicated_deduplication_window";
const REPLICATED_SECONDS: &str = "replicated_deduplication_window_seconds";

/// What a current server takes where a table's settings do not say and the server's own cannot be read.
const DEFAULTS: [(&str, u64); 3] = [
    (PLAIN_ENTRIES, 0),
    (REPLICATED_ENTRIES, 10_000),
    (REPLICATED_SECONDS, 3600),
];

/// Names of the settings that make the window.
pub const WINDOW_SETTINGS: [&str; 3] = [PLAIN_ENTRIES, REPLICATED_ENTRIES, REPLICATED_SECONDS];

/// How many INSERTs a table recognises, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowSettings {
    /// Entries that are remembered, one for each table partition that an INSERT touches; 0: none.
    pub entries: u64,
    /// Seconds for which they are remembered; `None`: as long as they are not pushed out by newer ones.
    pub seconds: Option<u64>,
}

/// What was used of the window since a range was declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowUse {
    /// Entries that any writer made; `None`: not known.
    pub entries: Option<u64>,
    /// Seconds that have passed; `None`: not known, or clocks cannot be trusted.
    pub seconds: Option<u64>,
}

/// How declared ranges of an earlier session are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayMode {
    /// At once: the server still knows their tokens.
    Replay,
    /// Only what the table does not have: the server may have forgotten their tokens.
    Verify,
}

/// True for an engine whose table shares its window with other replicas.
#[must_use]
pub fn is_replicated(engine: &str) -> bool {
    engine.starts_with("Replicated") || engine.starts_with("Shared")
}

/// The window of a table: its own settings first, then the server's (`system.merge_tree_settings`), then the defaults.
#[must_use]
pub fn read_window(
    engine: &str,
    text: &EngineText,
    server: &BTreeMap<String, u64>,
) -> WindowSettings {
    let value = |name: &str| match text.setting(name) {
        // A value that cannot be read is no window: verification is slower, never wrong.
        Some(own) => own.parse().unwrap_or(0),
        None => server.get(name).copied().unwrap_or_else(|| default(name)),
    };
    if is_replicated(engine) {
        return WindowSettings {
            entries: value(REPLICATED_ENTRIES),
            seconds: Some(value(REPLICATED_SECONDS)),
        };
    }
    WindowSettings {
        entries: value(PLAIN_ENTRIES),
        seconds: None,
    }
}

fn default(name: &str) -> u64 {
    DEFAULTS
        .iter()
        .find(|(other, _)| *other == name)
        .map_or(0, |(_, value)| *value)
}

/// Entries that this sink can have used at most, where nobody counted them: `seconds` times its most INSERTs per
/// second times the most table partitions in one block. Other writers are not in it.
#[must_use]
pub const fn bound_entries(
    seconds: u64,
    max_inserts_per_second: u32,
    most_table_partitions: u64,
) -> u64 {
    // The second that has begun counts.
    seconds
        .saturating_add(1)
        .saturating_mul(max_inserts_per_second as u64)
        .saturating_mul(most_table_partitions)
}

/// Whether tokens that were sent before that use are still known: only where it is sure.
#[must_use]
pub fn decide_replay(window: &WindowSettings, used: &WindowUse) -> ReplayMode {
    let within_half = |used: Option<u64>, whole: u64| used.is_some_and(|used| used <= whole / 2);
    let is_within = window.entries > 0
        && within_half(used.entries, window.entries)
        && used.seconds.is_some()
        && window
            .seconds
            .is_none_or(|seconds| seconds > 0 && within_half(used.seconds, seconds));
    if is_within {
        ReplayMode::Replay
    } else {
        ReplayMode::Verify
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(entries: u64, seconds: Option<u64>) -> WindowSettings {
        WindowSettings { entries, seconds }
    }

    fn used(entries: impl Into<Option<u64>>, seconds: impl Into<Option<u64>>) -> WindowUse {
        WindowUse {
            entries: entries.into(),
            seconds: seconds.into(),
        }
    }

    #[test]
    fn half_of_the_window_is_still_within_it() {
        let plain = window(10, None);
        assert_eq!(
            decide_replay(&plain, &used(5, 1_000_000)),
            ReplayMode::Replay
        );
        assert_eq!(decide_replay(&plain, &used(6, 0)), ReplayMode::Verify);
        let replicated = window(10, Some(100));
        assert_eq!(decide_replay(&replicated, &used(5, 50)), ReplayMode::Replay);
        assert_eq!(decide_replay(&replicated, &used(5, 51)), ReplayMode::Verify);
        assert_eq!(decide_replay(&replicated, &used(6, 50)), ReplayMode::Verify);
    }

    #[test]
    fn what_is_not_known_is_verified() {
        let plain = window(100_000, None);
        assert_eq!(decide_replay(&plain, &used(None, 1)), ReplayMode::Verify);
        assert_eq!(decide_replay(&plain, &used(1, None)), ReplayMode::Verify);
    }

    #[test]
    fn without_a_window_everything_is_verified() {
        for none in [window(0, None), window(0, Some(9)), window(9, Some(0))] {
            assert_eq!(
                decide_replay(&none, &used(0, 0)),
                ReplayMode::Verify,
                "{none:?}"
            );
        }
    }

    #[test]
    fn a_window_is_read_from_the_table_then_the_server_then_the_defaults() {
        let text = |settings: &str| EngineText::read(&format!("MergeTree ORDER BY a{settings}"));
        let server = BTreeMap::from([
            (REPLICATED_ENTRIES.to_owned(), 1000),
            (PLAIN_ENTRIES.to_owned(), 7),
        ]);
        let (bare, own) = (
            text(""),
            text(
                " SETTINGS non_replicated_deduplication_window = 10, replicated_deduplication_window = 20, replicated_deduplication_window_seconds = 30",
            ),
        );
        for (engine, text, server, want) in [
            ("MergeTree", &bare, &BTreeMap::new(), window(0, None)),
            ("MergeTree", &bare, &server, window(7, None)),
            ("ReplacingMergeTree", &own, &server, window(10, None)),
            (
                "ReplicatedMergeTree",
                &bare,
                &BTreeMap::new(),
                window(10_000, Some(3600)),
            ),
            (
                "ReplicatedMergeTree",
                &bare,
                &server,
                window(1000, Some(3600)),
            ),
            (
                "SharedReplacingMergeTree",
                &own,
                &server,
                window(20, Some(30)),
            ),
        ] {
            assert_eq!(read_window(engine, text, server), want, "{engine}");
        }
        let odd = text(" SETTINGS non_replicated_deduplication_window = many");
        assert_eq!(read_window("MergeTree", &odd, &server).entries, 0);
    }

    #[test]
    fn a_bound_never_wraps_around() {
        assert_eq!(bound_entries(9, 50, 20), 10_000);
        assert_eq!(bound_entries(u64::MAX, u32::MAX, 3), u64::MAX);
        assert_eq!(bound_entries(0, 50, 1), 50);
    }

    proptest! {
        #[test]
        fn a_token_is_trusted_only_within_half_of_the_window(
            entries in 0_u64..50, seconds in prop::option::of(0_u64..50),
            used_entries in prop::option::of(0_u64..50), used_seconds in prop::option::of(0_u64..50),
        ) {
            let mode = decide_replay(&window(entries, seconds), &used(used_entries, used_seconds));
            if mode == ReplayMode::Replay {
                prop_assert!(entries > 0 && used_entries.unwrap() * 2 <= entries);
                prop_assert!(seconds.is_none_or(|seconds| used_seconds.unwrap() * 2 <= seconds));
            } else if let (Some(used_entries), Some(used_seconds)) = (used_entries, used_seconds) {
                let over_entries = entries == 0 || used_entries * 2 > entries;
                let over_seconds = seconds.is_some_and(|seconds| seconds == 0 || used_seconds * 2 > seconds);
                prop_assert!(over_entries || over_seconds);
            }
        }
    }
}
