//! Where sessions start.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

const TOPIC: &str = "dG9waWMtaWQtMQ";

fn metadata(offset: i64, topic_id: &str, partitions: u32) -> Vec<u8> {
    let metadata = CommitMetadata {
        offset,
        table: "0a1b2c3d".into(),
        topic_id: topic_id.into(),
        first_partitions: partitions,
        epoch: Epoch::from_random(0xab, false),
        mapping: "ab12cd34".into(),
        declared_at_s: 0,
        sequence: 9,
        ends: Vec::new(),
    };
    metadata.render().unwrap().into_bytes()
}

fn committed(partition: i32, offset: i64, metadata: Vec<u8>) -> Committed {
    Committed {
        partition,
        offset: Some(offset),
        metadata,
    }
}

fn facts(group: &[Committed], partition: i32) -> Facts<'_> {
    Facts {
        partition,
        topic_id: TOPIC,
        partitions: 4,
        group,
        low: 100,
        high: 900,
        at_timestamp: None,
        start_from: StartFrom::Latest,
        random: 0xfeed,
    }
}

fn created(start: &Start) -> (i64, &Identity) {
    match start {
        Start::Create { offset, identity } => (*offset, identity),
        other => panic!("expected a new position, got {other:?}"),
    }
}

fn held(start: &Start) -> (&'static str, &str) {
    match start {
        Start::Hold { reason, message } => (reason, message),
        other => panic!("expected a hold, got {other:?}"),
    }
}

#[test]
fn a_first_start_begins_where_the_user_said_and_remembers_the_partition_count() {
    let start = decide_start(&facts(&[], 1));
    let (offset, identity) = created(&start);
    assert_eq!((offset, identity.first_partitions), (900, 4));
    assert_eq!(identity.epoch.to_string(), "000000000000feed");
    let earliest = Facts {
        start_from: StartFrom::Earliest,
        ..facts(&[], 1)
    };
    assert_eq!(created(&decide_start(&earliest)).0, 100);
    let timestamp = Facts {
        start_from: StartFrom::TimestampMs(5),
        at_timestamp: Some(300),
        ..facts(&[], 1)
    };
    assert_eq!(created(&decide_start(&timestamp)).0, 300);
}

#[test]
fn a_timestamp_after_the_last_record_starts_at_the_end() {
    let timestamp = Facts {
        start_from: StartFrom::TimestampMs(5),
        ..facts(&[], 1)
    };
    assert_eq!(created(&decide_start(&timestamp)).0, 900);
}

#[test]
fn a_partition_that_grew_starts_at_its_first_record_also_under_latest() {
    let group = [
        committed(0, 500, metadata(500, TOPIC, 2)),
        committed(1, 600, metadata(600, TOPIC, 2)),
    ];
    let start = decide_start(&facts(&group, 2));
    let (offset, identity) = created(&start);
    assert_eq!((offset, identity.first_partitions), (100, 2));
}

#[test]
fn a_first_start_that_was_cut_short_goes_on_as_the_user_said() {
    let group = [committed(0, 500, metadata(500, TOPIC, 4))];
    assert_eq!(created(&decide_start(&facts(&group, 3))).0, 900);
}

#[test]
fn our_own_position_keeps_its_epoch() {
    let group = [committed(0, 500, metadata(500, TOPIC, 2))];
    let Start::Resume {
        offset,
        identity,
        sequence,
    } = decide_start(&facts(&group, 0))
    else {
        panic!("resume")
    };
    assert_eq!(
        (offset, sequence, identity.epoch.to_string().as_str()),
        (500, 9, "00000000000000ab")
    );
}

#[test]
fn a_position_that_an_admin_moved_starts_a_new_epoch_so_that_a_reload_is_not_swallowed() {
    for moved in [
        Vec::new(),
        b"somebody else's".to_vec(),
        metadata(500, TOPIC, 2),
        vec![0xff, 0xfe],
    ] {
        let group = [committed(0, 200, moved)];
        let start = decide_start(&facts(&group, 0));
        let (offset, identity) = created(&start);
        assert_eq!(
            (offset, identity.epoch.to_string().as_str()),
            (200, "000000000000feedr")
        );
    }
}

#[test]
fn a_topic_made_again_is_held_and_both_ids_are_named() {
    let group = [committed(0, 500, metadata(500, "b3RoZXItdG9waWM", 2))];
    let start = decide_start(&facts(&group, 0));
    let (reason, message) = held(&start);
    assert_eq!(reason, "TopicRecreated");
    assert!(message.contains("b3RoZXItdG9waWM") && message.contains(TOPIC));
}

#[test]
fn records_that_retention_took_are_named_exactly() {
    let group = [committed(0, 40, metadata(40, TOPIC, 2))];
    let start = decide_start(&facts(&group, 0));
    let (reason, message) = held(&start);
    assert_eq!(reason, "RetentionPassed");
    assert!(message.contains("records 40 to 99 are gone"), "{message}");
}

#[test]
fn a_position_beyond_the_end_is_held() {
    let group = [committed(0, 901, metadata(901, TOPIC, 2))];
    assert_eq!(held(&decide_start(&facts(&group, 0))).0, "OffsetBeyondEnd");
    let at_end = [committed(0, 900, metadata(900, TOPIC, 2))];
    assert!(matches!(
        decide_start(&facts(&at_end, 0)),
        Start::Resume { offset: 900, .. }
    ));
}
