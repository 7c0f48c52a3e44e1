//! The statements of a verification and the settings that they are read with.
//!
//! Pure. Values travel as parameters, only names are written into the text. Must not be here: sending them.

use std::collections::BTreeSet;

use super::TableName;
use crate::mapping::quote_identifier;

/// Settings that a profile may have set and that would change an answer, with the value that is pinned.
///
/// `apply_deleted_mask=0`, `apply_patch_parts=0`: a row that somebody deleted was there, and is not sent again.
const READ_SETTINGS: [(&str, &str); 28] = [
    ("additional_result_filter", ""),
    ("additional_table_filters", "{}"),
    ("apply_deleted_mask", "0"),
    ("apply_mutations_on_fly", "0"),
    ("apply_patch_parts", "0"),
    ("enable_parallel_replicas", "0"),
    ("extremes", "0"),
    ("final", "0"),
    ("force_index_by_date", "0"),
    ("force_primary_key", "0"),
    ("group_by_overflow_mode", "throw"),
    ("limit", "0"),
    ("max_bytes_to_read", "0"),
    ("max_execution_time", "0"),
    ("max_result_bytes", "0"),
    ("max_result_rows", "0"),
    ("max_rows_to_group_by", "0"),
    ("max_rows_to_read", "0"),
    ("max_rows_to_read_leaf", "0"),
    ("offset", "0"),
    ("partial_result_on_first_cancel", "0"),
    ("read_overflow_mode", "throw"),
    ("read_overflow_mode_leaf", "throw"),
    ("result_overflow_mode", "throw"),
    ("skip_unavailable_shards", "0"),
    ("timeout_overflow_mode", "throw"),
    ("use_query_cache", "0"),
    ("use_query_condition_cache", "0"),
];

/// The pinned settings that the server knows; a replicated table must also have all that was acknowledged anywhere.
pub(super) fn plan_read_settings(
    known: &BTreeSet<String>,
    replicated: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let sequential = replicated.then_some(("select_sequential_consistency", "1"));
    READ_SETTINGS
        .into_iter()
        .chain(sequential)
        .filter(|(name, _)| known.contains(*name))
}

/// The table's name in a statement.
pub(super) fn render_name(table: TableName<'_>) -> String {
    format!(
        "{}.{}",
        quote_identifier(table.database),
        quote_identifier(table.table)
    )
}

/// Rows of `[start, end)` of a partition: offset, timestamp, table partition.
pub(super) fn render_found(table: TableName<'_>) -> String {
    format!(
        "SELECT _offset AS row_offset, toUnixTimestamp64Milli(_timestamp) AS timestamp_ms, toString(_partition_id) AS table_partition FROM {} \
         WHERE {OF_RANGE}",
        render_name(table)
    )
}

/// How many rows of `[start, end)` of a partition there are.
pub(super) fn render_count(table: TableName<'_>) -> String {
    format!(
        "SELECT count() FROM {} WHERE {OF_RANGE}",
        render_name(table)
    )
}

/// 1 where a row of `[start, end)` of a partition is seen, else 0.
pub(super) fn render_witness(table: TableName<'_>) -> String {
    format!(
        "SELECT count() FROM (SELECT 1 FROM {} WHERE {OF_RANGE} LIMIT 1)",
        render_name(table)
    )
}

const OF_RANGE: &str = "_topic = {topic:String} AND _partition = {partition:Int64} \
     AND _offset >= {start:Int64} AND _offset < {end:Int64}";

/// All rows that this user sees.
pub(super) fn render_count_all(table: TableName<'_>) -> String {
    format!("SELECT count() FROM {}", render_name(table))
}

/// Engine, its text, partition key.
pub(super) const FACTS: &str = "SELECT engine, engine_full, partition_key FROM system.tables \
     WHERE database = {database:String} AND name = {table:String}";

/// Columns that the partition key is made of, and their types.
pub(super) const KEY_COLUMNS: &str = "SELECT name, type AS data_type FROM system.columns \
     WHERE database = {database:String} AND table = {table:String} AND is_in_partition_key ORDER BY position";

/// 1 where this replica has every part that was written anywhere.
pub(super) const CAUGHT_UP: &str = "SELECT toUInt8(inserts_in_queue = 0 AND log_pointer > log_max_index \
     AND NOT is_readonly AND NOT is_session_expired) FROM system.replicas \
     WHERE database = {database:String} AND table = {table:String}";

/// Mutations since a moment, a minute more for clocks; the log keeps the newest 100 that are done.
pub(super) const MUTATIONS: &str = "SELECT mutation_id FROM system.mutations \
     WHERE database = {database:String} AND table = {table:String} \
     AND toUnixTimestamp(create_time) + 60 >= {since:UInt64} ORDER BY create_time DESC LIMIT 3";

/// Rows in the table's parts, whoever may see them.
pub(super) const STORED_ROWS: &str = "SELECT sum(rows) FROM system.parts \
     WHERE database = {database:String} AND table = {table:String} AND active AND NOT startsWith(name, 'patch-')";

/// Parts of lightweight updates and deletes that are still there.
pub(super) const PATCHES: &str = "SELECT count() FROM system.parts \
     WHERE database = {database:String} AND table = {table:String} AND startsWith(name, 'patch-')";

/// Parts of lightweight updates and deletes since a moment.
pub(super) const LOGGED_PATCHES: &str = "SELECT count() FROM system.part_log \
     WHERE database = {database:String} AND table = {table:String} AND startsWith(part_name, 'patch-') \
     AND toUnixTimestamp(event_time) + 60 >= {since:UInt64}";

/// The server's time.
pub(super) const SERVER_NOW: &str = "SELECT toUInt64(toUnixTimestamp(now()))";

/// Whether the log reaches back to `since` and is still written (0 where not), and the entries of the window used from then on.
///
/// Parts that are written but not logged yet are taken from `system.parts`; one fetched from another replica may hold
/// several INSERTs, as many as it has block numbers.
pub(super) const ENTRIES: &str = "SELECT \
     ifNull((SELECT toUInt8(count() > 0 AND min(toUnixTimestamp(event_time)) <= {since:UInt64} \
         AND max(toUnixTimestamp(event_time)) + 60 >= ifNull((SELECT max(toUnixTimestamp(modification_time)) FROM system.parts \
             WHERE database = {database:String} AND table = {table:String}), 0)) FROM system.part_log), 0) AS reaches, \
     ifNull((SELECT toUInt64(sum(blocks)) FROM (SELECT part, max(blocks) AS blocks FROM ( \
         SELECT part_name AS part, if(event_type = 'DownloadPart', 1 + toUInt64OrZero(splitByChar('_', part_name)[3]) \
             - toUInt64OrZero(splitByChar('_', part_name)[2]), 1) AS blocks FROM system.part_log \
         WHERE event_type IN ('NewPart', 'DownloadPart') AND error = 0 \
             AND event_date >= toDate(toDateTime({since:UInt64})) - 1 AND toUnixTimestamp(event_time) >= {since:UInt64} \
             AND table_uuid IN (SELECT uuid FROM system.tables WHERE database = {database:String} AND name = {table:String}) \
         UNION ALL SELECT name AS part, 1 AS blocks FROM system.parts \
         WHERE database = {database:String} AND table = {table:String} AND level = 0 \
             AND toUnixTimestamp(modification_time) >= {since:UInt64}) GROUP BY part)), 0) AS entries";

/// What any writer can have used at most since the table was made: each entry of a table without replicas has a block number
/// of its own, and these only grow (what was written to table partitions that are dropped since is not seen). Nothing for
/// other tables, which count blocks for each table partition.
pub(super) const EVER: &str = "SELECT toUInt64(max(greatest(max_block_number, 0))) FROM system.parts \
     WHERE database = {database:String} AND table = {table:String} HAVING \
     (SELECT count() FROM system.tables WHERE database = {database:String} AND name = {table:String} \
         AND endsWith(engine, 'MergeTree') AND NOT match(engine, '^(Replicated|Shared)')) = 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_values_stay_out_of_the_text() {
        let table = TableName {
            database: "a`b",
            table: "t; DROP TABLE x",
        };
        assert_eq!(
            render_count(table),
            "SELECT count() FROM `a\\`b`.`t; DROP TABLE x` WHERE _topic = {topic:String} AND \
             _partition = {partition:Int64} AND _offset >= {start:Int64} AND _offset < {end:Int64}"
        );
    }

    #[test]
    fn an_older_server_is_not_sent_what_it_does_not_know() {
        let known = BTreeSet::from([
            "final".to_owned(),
            "select_sequential_consistency".to_owned(),
        ]);
        let names = |replicated| plan_read_settings(&known, replicated).collect::<Vec<_>>();
        assert_eq!(names(false), [("final", "0")]);
        assert_eq!(
            names(true),
            [("final", "0"), ("select_sequential_consistency", "1")]
        );
    }
}
