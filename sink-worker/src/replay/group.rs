//! Rejected records as they are read back, and in groups of one partition and epoch.
//!
//! Must not be here: I/O.

use std::collections::BTreeMap;

/// A rejected record that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// Whose it is.
    pub(super) place: Place,
    /// Its offset.
    pub(super) offset: u64,
    /// Kafka's timestamp, milliseconds since 1970.
    pub(super) timestamp_ms: i64,
    /// The payload.
    pub(super) payload: Vec<u8>,
    /// Why it was rejected, and under which mapping.
    pub(super) cause: Cause,
}

/// A partition in one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) topic_id: String,
    pub(super) partition: u32,
    pub(super) epoch: String,
}

/// Why a record makes no row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    pub(super) column: String,
    pub(super) reason: String,
    pub(super) code: String,
    pub(super) mapping: String,
}

/// Records of one place, by offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) place: Place,
    pub(super) records: Vec<Open>,
}

/// What became of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupOutcome {
    /// Offsets that are rows of the table now, or need none.
    pub(super) done: Vec<u64>,
    /// Offsets that are rejected for another reason than before.
    pub(super) rejected: BTreeMap<Cause, Vec<u64>>,
    pub(super) replayed: u64,
    pub(super) already_there: u64,
    pub(super) skipped: u64,
    pub(super) still_rejected: u64,
}

impl GroupOutcome {
    /// Notes a record that makes no row; what is rejected for the very same reason stays as it is.
    pub(super) fn reject(&mut self, record: &Open, cause: Cause) {
        self.still_rejected += 1;
        if cause != record.cause {
            self.rejected.entry(cause).or_default().push(record.offset);
        }
    }
}

/// Splits a page, whose order is by place, into groups.
pub(super) fn split_groups(page: Vec<Open>) -> Vec<Group> {
    let mut groups: BTreeMap<Place, Vec<Open>> = BTreeMap::new();
    for record in page {
        groups.entry(record.place.clone()).or_default().push(record);
    }
    groups
        .into_iter()
        .map(|(place, records)| Group { place, records })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(partition: u32, offset: u64, reason: &str) -> Open {
        Open {
            place: Place {
                partition,
                ..Place::default()
            },
            offset,
            timestamp_ms: 0,
            payload: Vec::new(),
            cause: cause(reason),
        }
    }

    fn cause(reason: &str) -> Cause {
        Cause {
            column: String::new(),
            reason: reason.to_owned(),
            code: String::new(),
            mapping: String::new(),
        }
    }

    #[test]
    fn a_page_is_split_by_place_and_keeps_its_order_there() {
        let page = vec![open(0, 1, ""), open(0, 2, ""), open(1, 1, "")];
        let groups = split_groups(page);
        let shape: Vec<(u32, usize)> = groups
            .iter()
            .map(|group| (group.place.partition, group.records.len()))
            .collect();
        assert_eq!(shape, [(0, 2), (1, 1)]);
        assert_eq!(groups[0].records[1].offset, 2);
    }

    #[test]
    fn the_same_reason_again_writes_nothing_and_another_one_does() {
        let mut outcome = GroupOutcome::default();
        outcome.reject(&open(0, 1, "a"), cause("a"));
        outcome.reject(&open(0, 2, "a"), cause("b"));
        assert_eq!(outcome.still_rejected, 2);
        assert_eq!(
            outcome.rejected.into_iter().collect::<Vec<_>>(),
            [(cause("b"), vec![2])]
        );
    }
}
