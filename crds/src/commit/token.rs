//! Deduplication tokens: the names under which ClickHouse knows an INSERT again.
//!
//! Must not be here: commit metadata.

use super::Epoch;
use crate::fingerprint::{push_prefixed, sha256_hex};

/// A half-open interval of offsets of one partition; a batch is a set of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// The topic's id, as Kafka prints it.
    pub topic_id: String,
    /// Partition.
    pub partition: i32,
    /// The epoch of the partition's position.
    pub epoch: Epoch,
    /// First offset.
    pub start: i64,
    /// The offset behind the last one.
    pub end: i64,
}

/// Token of an INSERT with the records of one range.
#[must_use]
pub fn range_token(group_id: &str, cluster_id: &str, range: &Range) -> String {
    let Range {
        topic_id,
        partition,
        epoch,
        start,
        end,
    } = range;
    format!("cs1/{group_id}/{epoch}/{cluster_id}/{topic_id}/{partition}/{start}-{end}")
}

/// Token of an INSERT with the records of several ranges; the order in which they are given does not matter.
///
/// It names the mapping: no plan does here, and another one may put a record into another table partition. A token of
/// before, of which one table partition has landed, would then take records for landed that are not.
#[must_use]
pub fn set_token(group_id: &str, cluster_id: &str, mapping: &str, ranges: &[Range]) -> String {
    let mut ordered: Vec<&Range> = ranges.iter().collect();
    ordered.sort();
    let mut bytes = Vec::new();
    push_prefixed(&mut bytes, cluster_id.as_bytes());
    push_prefixed(&mut bytes, mapping.as_bytes());
    for range in ordered {
        push_prefixed(&mut bytes, range.epoch.to_string().as_bytes());
        push_prefixed(&mut bytes, range.topic_id.as_bytes());
        push_prefixed(&mut bytes, &range.partition.to_le_bytes());
        push_prefixed(&mut bytes, &range.start.to_le_bytes());
        push_prefixed(&mut bytes, &range.end.to_le_bytes());
    }
    format!("cs1/{group_id}/set/{}", sha256_hex(&bytes))
}
