//! What a consumer group has committed and what its plans still name, as a document: the worker's program asks Kafka
//! for it, the operator reads it.
//!
//! Must not be here: asking Kafka, decisions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A group at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupPlans {
    /// Members that the group has now; with any, all else may change at once.
    pub members: u32,
    /// Partitions with a committed offset, by topic and number.
    pub partitions: Vec<PartitionPlan>,
}

/// What is committed for one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionPlan {
    /// Name of the topic.
    pub topic: String,
    /// Its id at the commit; empty where the position is not ours (it was moved: no plan goes with it).
    pub topic_id: String,
    /// Number of the partition.
    pub partition: i32,
    /// The committed offset.
    pub offset: i64,
    /// Declared ranges, `[from, to)` each: their rows may be in the table, and will be sent again.
    pub ranges: Vec<(i64, i64)>,
}

impl GroupPlans {
    /// Partitions whose plan still names ranges, for people; none: every row of the table is acknowledged.
    #[must_use]
    pub fn describe_open(&self) -> Option<String> {
        let open = self.partitions.iter().filter(|at| !at.ranges.is_empty());
        let texts: Vec<_> = open.map(describe_partition).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// The committed offset of each partition, by `topic/partition`.
    #[must_use]
    pub fn bounds(&self) -> BTreeMap<String, u64> {
        let partitions = self.partitions.iter();
        partitions
            .map(|at| {
                let name = format!("{}/{}", at.topic, at.partition);
                (name, u64::try_from(at.offset).unwrap_or_default())
            })
            .collect()
    }
}

fn describe_partition(at: &PartitionPlan) -> String {
    let ranges: Vec<_> = at
        .ranges
        .iter()
        .map(|(from, to)| format!("[{from}, {to})"))
        .collect();
    format!("{}/{} {}", at.topic, at.partition, ranges.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32, ranges: &[(i64, i64)]) -> PartitionPlan {
        PartitionPlan {
            topic: "t".to_owned(),
            topic_id: "x".to_owned(),
            partition,
            offset: 7,
            ranges: ranges.to_vec(),
        }
    }

    #[test]
    fn open_plans_are_named_and_empty_ones_are_not() {
        let mut plans = GroupPlans {
            members: 0,
            partitions: vec![at(0, &[]), at(1, &[(7, 9), (9, 12)])],
        };
        assert_eq!(plans.describe_open().as_deref(), Some("t/1 [7, 9) [9, 12)"));
        plans.partitions.pop();
        assert_eq!(plans.describe_open(), None);
        assert_eq!(plans.bounds(), BTreeMap::from([("t/0".to_owned(), 7)]));
    }
}
