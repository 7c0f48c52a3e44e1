//! The settings that every INSERT pins, cut to what the server knows.
//!
//! Pure. Must not be here: asking the server.

use std::collections::BTreeSet;

/// Rows above which ClickHouse would cut a block; batches stay below it.
const BLOCK_ROWS: &str = "1048576";

/// Settings that make a retry the same insert, with the value that is pinned.
///
/// `optimize_on_insert=0`: with 1 the server collapses equal keys inside a block, and a delivered offset could not be
/// found again. `async_insert=0`: batches are ours, and an answer means that the part is written. A block is never cut by
/// its bytes, and an INSERT that takes too long fails as a whole (`timeout_overflow_mode`).
const PINNED: [(&str, &str); 18] = [
    ("async_insert", "0"),
    ("insert_deduplicate", "1"),
    ("deduplicate_insert", "enable"),
    ("deduplicate_blocks_in_dependent_materialized_views", "1"),
    ("max_insert_threads", "1"),
    ("max_insert_block_size", BLOCK_ROWS),
    ("min_insert_block_size_rows", BLOCK_ROWS),
    ("min_insert_block_size_bytes", "0"),
    ("max_insert_block_size_bytes", "0"),
    ("use_strict_insert_block_limits", "0"),
    ("input_format_parallel_parsing", "0"),
    ("input_format_skip_unknown_fields", "0"),
    ("input_format_null_as_default", "0"),
    ("materialized_views_ignore_errors", "0"),
    ("optimize_on_insert", "0"),
    ("throw_on_max_partitions_per_insert_block", "0"),
    ("insert_quorum_parallel", "1"),
    ("timeout_overflow_mode", "throw"),
];

/// Whether the server converts types that differ. It does so without a check (300 into `UInt8` is 44), so it may only
/// where the table's types are known to hold every value; else the INSERT is refused and the table looked at again.
const CONVERSION: &str = "input_format_native_allow_types_conversion";

/// The pinned settings that the server knows, in a fixed order; `converts` where the table has wider types than ours.
///
/// `wait_end_of_query` belongs to the HTTP interface and is in no server's list.
#[must_use]
pub fn plan_settings(
    known: &BTreeSet<String>,
    insert_timeout_seconds: u32,
    converts: bool,
) -> Vec<(String, String)> {
    let pinned = PINNED.iter().filter(|(name, _)| known.contains(*name));
    let mut settings: Vec<_> = pinned
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    if known.contains(CONVERSION) {
        settings.push((CONVERSION.into(), u8::from(converts).to_string()));
    }
    settings.push((
        "max_execution_time".into(),
        insert_timeout_seconds.to_string(),
    ));
    settings.push(("wait_end_of_query".into(), "1".into()));
    settings.push(("decompress".into(), "1".into()));
    settings
}

/// The replicas that must have an INSERT before it counts; none where the sink does not say, or the server cannot.
#[must_use]
pub fn plan_quorum(known: &BTreeSet<String>, quorum: u32) -> Option<(String, String)> {
    const QUORUM: &str = "insert_quorum";
    (quorum > 0 && known.contains(QUORUM)).then(|| (QUORUM.to_owned(), quorum.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_is_not_sent_what_it_does_not_know() {
        let known = BTreeSet::from(["async_insert".to_owned(), "optimize_on_insert".to_owned()]);
        let names: Vec<String> = plan_settings(&known, 30, false)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "async_insert",
                "optimize_on_insert",
                "max_execution_time",
                "wait_end_of_query",
                "decompress"
            ]
        );
    }

    #[test]
    fn the_server_converts_only_where_it_is_asked_to() {
        let known = BTreeSet::from([CONVERSION.to_owned()]);
        let value = |converts| {
            plan_settings(&known, 1, converts)
                .into_iter()
                .find(|(name, _)| name == CONVERSION)
        };
        assert_eq!(value(false), Some((CONVERSION.to_owned(), "0".to_owned())));
        assert_eq!(value(true), Some((CONVERSION.to_owned(), "1".to_owned())));
    }

    #[test]
    fn a_quorum_is_asked_for_only_where_the_sink_says_so() {
        let known = BTreeSet::from(["insert_quorum".to_owned()]);
        assert_eq!(plan_quorum(&known, 0), None);
        assert_eq!(
            plan_quorum(&known, 2),
            Some(("insert_quorum".to_owned(), "2".to_owned()))
        );
        assert_eq!(plan_quorum(&BTreeSet::new(), 2), None);
    }

    #[test]
    fn equal_keys_in_one_block_are_all_stored() {
        let known = PINNED.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert!(
            plan_settings(&known, 1, false).contains(&("optimize_on_insert".into(), "0".into()))
        );
    }
}
