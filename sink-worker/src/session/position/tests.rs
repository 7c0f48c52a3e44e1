//! Where sessions start: what every test of it shares, and positions that lost nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

mod lost;

const TOPIC: &str = "dG9waWMtaWQtMQ";
const OTHER_TOPIC: &str = "b3RoZXItdG9waWM";

fn ours(offset: i64) -> CommitMetadata {
    CommitMetadata {
        offset,
        table: "0a1b2c3d".into(),
        topic_id: TOPIC.into(),
        first_partitions: 2,
        epoch: Epoch::from_random(0xab, false),
        mapping: "ab12cd34".into(),
        declared_at_s: 0,
        sequence: 9,
        ends: Vec::new(),
    }
}

fn with_plan(offset: i64, ends: &[i64]) -> CommitMetadata {
    CommitMetadata {
        ends: ends.to_vec(),
        declared_at_s: 4000,
        ..ours(offset)
    }
}

fn committed(partition: i32, metadata: &CommitMetadata) -> Committed {
    Committed {
        partition,
        offset: Some(metadata.offset),
        metadata: metadata.render().unwrap().into_bytes(),
    }
}

struct Case {
    group: Vec<Committed>,
    partition: i32,
    tables: Vec<String>,
    topics: Vec<TopicFact>,
    start_from: StartFrom,
    at_timestamp: Option<i64>,
    on_loss: OnDataLoss,
    low: i64,
}

impl Case {
    fn of(partition: i32, group: Vec<Committed>) -> Self {
        Self {
            group,
            partition,
            tables: vec!["0a1b2c3d".into()],
            topics: Vec::new(),
            start_from: StartFrom::Latest,
            at_timestamp: None,
            on_loss: OnDataLoss::Hold,
            low: 100,
        }
    }

    fn skipping(self) -> Self {
        Self {
            on_loss: OnDataLoss::SkipAndRecord,
            ..self
        }
    }

    fn knowing(mut self, topic_id: &str) -> Self {
        self.topics.push(TopicFact {
            name: "orders".into(),
            id: topic_id.into(),
            partitions: 4,
        });
        self
    }

    fn decide(&self) -> Start {
        decide_start(&Known {
            topic: "orders",
            partition: self.partition,
            topic_id: TOPIC,
            partitions: 4,
            group: &self.group,
            low: self.low,
            high: 900,
            at_timestamp: self.at_timestamp,
            start_from: self.start_from,
            tables: &self.tables,
            topics: &self.topics,
            on_loss: self.on_loss,
            random: 0xfeed,
        })
    }
}

/// Offset, epoch and remembered partition count of a position that is made.
fn created(start: &Start) -> (i64, String, u32) {
    match start {
        Start::Create {
            offset, identity, ..
        } => (
            *offset,
            identity.epoch.to_string(),
            identity.first_partitions,
        ),
        other => panic!("expected a new position, got {other:?}"),
    }
}

fn held(start: &Start) -> (&'static str, &str) {
    match start {
        Start::Hold {
            reason, message, ..
        } => (reason, message),
        other => panic!("expected a hold, got {other:?}"),
    }
}

fn gaps(start: &Start) -> &[Gap] {
    match start {
        Start::Create { gaps, .. } | Start::Resume { gaps, .. } => gaps,
        Start::Hold { .. } => panic!("expected gaps, got {start:?}"),
    }
}

const FRESH: &str = "000000000000feed";
const RESET: &str = "000000000000feedr";

#[test]
fn a_first_start_begins_where_the_user_said_and_remembers_the_partition_count() {
    for (start_from, at_timestamp, expected) in [
        (StartFrom::Latest, None, 900),
        (StartFrom::Earliest, None, 100),
        (StartFrom::TimestampMs(5), Some(300), 300),
        (StartFrom::TimestampMs(5), None, 900),
    ] {
        let case = Case {
            start_from,
            at_timestamp,
            ..Case::of(1, Vec::new())
        };
        assert_eq!(created(&case.decide()), (expected, FRESH.into(), 4));
    }
}

#[test]
fn a_partition_that_grew_starts_at_its_first_record_also_under_latest() {
    let group = vec![committed(0, &ours(500)), committed(1, &ours(600))];
    assert_eq!(
        created(&Case::of(2, group).decide()),
        (100, FRESH.into(), 2)
    );
}

#[test]
fn a_first_start_that_was_cut_short_goes_on_as_the_user_said() {
    let metadata = CommitMetadata {
        first_partitions: 4,
        ..ours(500)
    };
    let case = Case::of(3, vec![committed(0, &metadata)]);
    assert_eq!(created(&case.decide()).0, 900);
}

#[test]
fn our_own_position_keeps_its_epoch_its_sequence_and_its_plan() {
    let case = Case::of(0, vec![committed(0, &with_plan(500, &[510, 533]))]);
    let Start::Resume {
        offset,
        identity,
        sequence,
        plan,
        skip_to,
        gaps,
    } = case.decide()
    else {
        panic!("resume")
    };
    assert_eq!((offset, sequence, skip_to), (500, 9, 500));
    assert_eq!(identity.epoch, Epoch::from_random(0xab, false));
    assert_eq!(
        plan,
        Plan {
            ends: vec![510, 533],
            mapping: "ab12cd34".into(),
            declared_at_s: 4000
        }
    );
    assert!(gaps.is_empty());
}

#[test]
fn a_position_that_an_admin_moved_starts_a_new_epoch_so_that_a_reload_is_not_swallowed() {
    let stale = ours(500).render().unwrap().into_bytes();
    for (metadata, partitions) in [
        (Vec::new(), 4),
        (b"somebody else's".to_vec(), 4),
        (vec![0xff], 4),
        (stale, 2),
    ] {
        let moved = Committed {
            partition: 0,
            offset: Some(200),
            metadata,
        };
        assert_eq!(
            created(&Case::of(0, vec![moved]).decide()),
            (200, RESET.into(), partitions)
        );
    }
}

#[test]
fn a_position_that_was_moved_remembers_how_many_partitions_the_others_began_with() {
    let moved = Committed {
        partition: 0,
        offset: Some(200),
        metadata: Vec::new(),
    };
    let case = Case::of(0, vec![moved, committed(1, &ours(500))]);
    assert_eq!(created(&case.decide()), (200, RESET.into(), 2));
}

#[test]
fn the_group_of_another_tables_sink_is_not_touched() {
    let other = CommitMetadata {
        table: "ffffffff".into(),
        ..ours(500)
    };
    for partition in [0, 3] {
        let case = Case::of(partition, vec![committed(0, &other)]);
        let start = case.decide();
        let (reason, message) = held(&start);
        assert_eq!(reason, "GroupUsedByOther", "partition {partition}");
        assert!(message.contains("ffffffff"), "{message}");
    }
}

#[test]
fn a_table_that_was_made_again_is_still_this_sinks() {
    let mut case = Case::of(0, vec![committed(0, &ours(500))]);
    case.tables = vec!["ffffffff".into(), "0a1b2c3d".into()];
    assert!(matches!(case.decide(), Start::Resume { offset: 500, .. }));
}

#[test]
fn a_topic_of_another_name_in_the_facts_says_nothing_about_this_one() {
    let mut case = Case::of(0, Vec::new()).knowing(TOPIC);
    case.topics[0].name = "payments".into();
    assert_eq!(created(&case.decide()).0, 900);
}
