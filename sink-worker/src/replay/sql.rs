//! The statements of a replay. Pure; values travel as parameters, only names are written into the text.
//!
//! Must not be here: sending them.

use crate::mapping::quote_identifier;

/// A table's full name, quoted.
pub(super) fn render_name(database: &str, table: &str) -> String {
    format!("{}.{}", quote_identifier(database), quote_identifier(table))
}

/// What is open, and what the filter leaves of it; an empty code and time 0 leave all.
const OPEN: &str = "kind = 'record' AND replayed_at IS NULL AND ({code:String} = '' OR code = {code:String}) \
     AND toUnixTimestamp64Milli(rejected_at) >= {since:Int64}";

/// How many records are open.
pub(super) fn render_count(rejected: &str) -> String {
    format!("SELECT count() FROM {rejected} FINAL WHERE {OPEN}")
}

/// Open records behind the cursor, in the table's own order.
pub(super) fn render_page(rejected: &str) -> String {
    format!(
        "SELECT toString(r.topic) AS record_topic, toString(r.topic_id) AS record_topic_id, r.partition AS record_partition, \
         toString(r.epoch) AS record_epoch, r.offset AS record_offset, toUnixTimestamp64Milli(r.timestamp) AS record_timestamp_ms, \
         r.payload AS record_payload, toString(r.column) AS record_column, r.reason AS record_reason, \
         toString(r.code) AS record_code, toString(r.mapping) AS record_mapping \
         FROM {rejected} AS r FINAL WHERE {OPEN} AND (r.topic, r.topic_id, r.partition, r.offset, r.epoch) > \
         ({{topic:String}}, {{topic_id:String}}, {{partition:UInt32}}, {{offset:UInt64}}, {{epoch:String}}) \
         ORDER BY r.topic, r.topic_id, r.partition, r.offset, r.epoch LIMIT {{limit:UInt64}}"
    )
}

/// Which of these offsets the table has, with their timestamps.
pub(super) fn render_there(table: &str) -> String {
    format!(
        "SELECT _offset AS row_offset, toUnixTimestamp64Milli(_timestamp) AS timestamp_ms FROM {table} \
         WHERE _topic = {{topic:String}} AND _partition = {{partition:UInt32}} AND _offset IN {{offsets:Array(UInt64)}}"
    )
}

/// Columns of the rejected table that are copied as they are.
const COPIED: &str = "topic, topic_id, partition, offset, epoch, kind, end_offset, cause, lost, key, payload, headers, timestamp";

const OF_GROUP: &str = "kind = 'record' AND replayed_at IS NULL AND topic = {topic:String} AND topic_id = {topic_id:String} \
     AND partition = {partition:UInt32} AND epoch = {epoch:String} AND offset IN {offsets:Array(UInt64)}";

/// Marks records as replayed: the same row with `replayed_at`; of rows with equal `rejected_at` the last one stays.
pub(super) fn render_mark(rejected: &str) -> String {
    format!(
        "INSERT INTO {rejected} ({COPIED}, column, reason, code, mapping, rejected_at, replayed_at) \
         SELECT {COPIED}, column, reason, code, mapping, rejected_at, now64(3, 'UTC') FROM {rejected} FINAL WHERE {OF_GROUP}"
    )
}

/// Rejects records anew: the same row with another reason and a later `rejected_at`.
pub(super) fn render_reject(rejected: &str) -> String {
    format!(
        "INSERT INTO {rejected} ({COPIED}, column, reason, code, mapping, rejected_at, replayed_at) \
         SELECT {COPIED}, {{new_column:String}}, {{new_reason:String}}, {{new_code:String}}, {{new_mapping:String}}, \
         greatest(now64(3, 'UTC'), addMilliseconds(rejected_at, 1)), NULL FROM {rejected} FINAL WHERE {OF_GROUP}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_values_stay_out_of_the_text() {
        let name = render_name("a`b", "t; DROP TABLE x");
        assert_eq!(name, "`a\\`b`.`t; DROP TABLE x`");
        for text in [
            render_count(&name),
            render_page(&name),
            render_there(&name),
            render_mark(&name),
            render_reject(&name),
        ] {
            assert!(text.contains(&name), "{text}");
            assert_eq!(
                text.matches('{').count(),
                text.matches('}').count(),
                "{text}"
            );
        }
    }
}
