//! Positions of which Kafka has lost something: held, or skipped and recorded.

use super::*;

fn gap(start: i64, end: i64, cause: &'static str, maybe_inserted: bool) -> Gap {
    Gap {
        topic_id: TOPIC.into(),
        epoch: Epoch::from_random(0xab, false).to_string(),
        start,
        end,
        cause,
        maybe_inserted,
    }
}

/// A gap of a position that is not ours.
fn foreign_gap(start: i64, end: i64, cause: &'static str) -> Gap {
    Gap {
        epoch: String::new(),
        ..gap(start, end, cause, true)
    }
}

fn moved(offset: i64) -> Committed {
    Committed {
        partition: 0,
        offset: Some(offset),
        metadata: Vec::new(),
    }
}

#[test]
fn records_that_retention_took_are_named_exactly() {
    for position in [committed(0, &ours(40)), moved(40)] {
        let start = Case::of(0, vec![position]).decide();
        let (reason, message) = held(&start);
        assert_eq!(reason, "RetentionPassed");
        assert!(message.contains("records 40 to 99 are gone"), "{message}");
    }
}

#[test]
fn a_hold_keeps_its_name_while_retention_goes_on() {
    let about = |low: i64| {
        let case = Case {
            low,
            ..Case::of(0, vec![committed(0, &ours(40))])
        };
        match case.decide() {
            Start::Hold { about, .. } => about,
            other => panic!("expected a hold, got {other:?}"),
        }
    };
    assert_eq!(about(100), about(700));
}

#[test]
fn what_retention_took_is_skipped_under_the_same_epoch_and_recorded() {
    let start = Case::of(0, vec![committed(0, &ours(40))])
        .skipping()
        .decide();
    assert!(matches!(
        start,
        Start::Resume {
            offset: 40,
            skip_to: 100,
            ..
        }
    ));
    assert_eq!(gaps(&start), [gap(40, 100, "RetentionPassed", false)]);
}

#[test]
fn what_was_declared_of_it_may_have_been_inserted() {
    let start = Case::of(0, vec![committed(0, &with_plan(40, &[60, 80]))])
        .skipping()
        .decide();
    let expected = [
        gap(40, 80, "RetentionPassed", true),
        gap(80, 100, "RetentionPassed", false),
    ];
    assert_eq!(gaps(&start), expected);
}

#[test]
fn a_declared_range_that_retention_cut_through_is_recorded_up_to_the_cut() {
    let start = Case::of(0, vec![committed(0, &with_plan(40, &[60, 300]))])
        .skipping()
        .decide();
    assert_eq!(gaps(&start), [gap(40, 100, "RetentionPassed", true)]);
    assert!(matches!(
        start,
        Start::Resume {
            offset: 40,
            skip_to: 100,
            ..
        }
    ));
}

#[test]
fn a_moved_position_before_the_log_is_skipped_under_a_new_epoch() {
    let start = Case::of(0, vec![moved(40)]).skipping().decide();
    assert_eq!(created(&start).0, 100);
    assert_eq!(created(&start).1, RESET);
    assert_eq!(gaps(&start), [foreign_gap(40, 100, "RetentionPassed")]);
}

#[test]
fn a_position_or_a_plan_beyond_the_end_is_held() {
    for position in [
        committed(0, &ours(901)),
        committed(0, &with_plan(890, &[950])),
        moved(901),
    ] {
        let start = Case::of(0, vec![position]).decide();
        assert_eq!(held(&start).0, "OffsetBeyondEnd");
    }
    let at_end = Case::of(0, vec![committed(0, &with_plan(890, &[900]))]);
    assert!(matches!(at_end.decide(), Start::Resume { offset: 890, .. }));
}

#[test]
fn a_log_that_was_cut_off_is_read_from_its_end_under_a_new_epoch() {
    for (position, from, end) in [
        (committed(0, &with_plan(910, &[950])), 900, 950),
        (moved(901), 900, 901),
    ] {
        let start = Case::of(0, vec![position]).skipping().decide();
        assert_eq!(created(&start).0, from);
        assert_eq!(created(&start).1, RESET);
        assert_eq!(gaps(&start), [foreign_gap(900, end, "OffsetBeyondEnd")]);
    }
}

#[test]
fn what_is_left_of_a_plan_that_was_cut_off_is_read_again() {
    let start = Case::of(0, vec![committed(0, &with_plan(890, &[950]))])
        .skipping()
        .decide();
    assert_eq!(created(&start), (890, RESET.into(), 2));
    assert_eq!(gaps(&start), [foreign_gap(900, 950, "OffsetBeyondEnd")]);
    let start = Case::of(0, vec![committed(0, &with_plan(40, &[950]))])
        .skipping()
        .decide();
    assert_eq!(created(&start).0, 100);
    let expected = [
        foreign_gap(40, 100, "OffsetBeyondEnd"),
        foreign_gap(900, 950, "OffsetBeyondEnd"),
    ];
    assert_eq!(gaps(&start), expected);
}

fn of_other_topic() -> CommitMetadata {
    CommitMetadata {
        topic_id: OTHER_TOPIC.into(),
        ..with_plan(500, &[520])
    }
}

#[test]
fn a_topic_made_again_is_held_and_both_ids_are_named() {
    let start = Case::of(0, vec![committed(0, &of_other_topic())]).decide();
    let (reason, message) = held(&start);
    assert_eq!(reason, "TopicRecreated");
    assert!(
        message.contains(OTHER_TOPIC) && message.contains(TOPIC),
        "{message}"
    );
}

#[test]
fn a_topic_made_again_is_read_from_its_start_under_a_new_epoch() {
    let start = Case::of(0, vec![committed(0, &of_other_topic())])
        .skipping()
        .decide();
    assert_eq!(created(&start), (100, RESET.into(), 4));
    let old = Gap {
        topic_id: OTHER_TOPIC.into(),
        ..gap(500, 520, "TopicRecreated", true)
    };
    let new = foreign_gap(0, 100, "TopicRecreated");
    assert_eq!(
        gaps(&start),
        [old, new],
        "retention has taken some of it, too"
    );
}

#[test]
fn a_topic_made_again_shows_in_the_facts_where_its_positions_went_with_it() {
    let case = Case::of(0, Vec::new()).knowing(OTHER_TOPIC);
    assert_eq!(held(&case.decide()).0, "TopicRecreated");
    let start = case.skipping().decide();
    assert_eq!(created(&start), (100, RESET.into(), 4));
    assert_eq!(gaps(&start), [foreign_gap(0, 100, "TopicRecreated")]);
}

#[test]
fn positions_that_are_gone_are_not_a_first_start() {
    let case = Case::of(0, Vec::new()).knowing(OTHER_TOPIC).knowing(TOPIC);
    let start = case.decide();
    let (reason, message) = held(&start);
    assert_eq!(reason, "OffsetsGone");
    assert!(message.contains("orders"), "{message}");
}

#[test]
fn positions_that_are_gone_are_read_again_under_a_new_epoch() {
    let start = Case::of(0, Vec::new()).knowing(TOPIC).skipping().decide();
    assert_eq!(created(&start), (100, RESET.into(), 4));
    assert_eq!(gaps(&start), [foreign_gap(0, 100, "OffsetsGone")]);
    let whole = Case {
        low: 0,
        ..Case::of(0, Vec::new()).knowing(TOPIC).skipping()
    };
    assert!(
        gaps(&whole.decide()).is_empty(),
        "nothing is lost where the log begins at 0"
    );
}

#[test]
fn one_partition_without_a_position_beside_others_is_no_loss() {
    let case = Case::of(1, vec![committed(0, &ours(500))]).knowing(TOPIC);
    assert_eq!(created(&case.decide()).1, FRESH);
}

#[test]
fn a_position_that_is_missing_beside_some_made_after_a_loss_was_lost_with_them() {
    let remade = |first_partitions| CommitMetadata {
        epoch: Epoch::from_random(0xab, true),
        first_partitions,
        ..ours(500)
    };
    let case = Case::of(1, vec![committed(0, &remade(2))]);
    assert_eq!(held(&case.knowing(TOPIC).decide()).0, "OffsetsGone");
    let case = Case::of(1, vec![committed(0, &remade(2))]);
    assert_eq!(
        held(&case.knowing(OTHER_TOPIC).decide()).0,
        "TopicRecreated"
    );
    let grown = Case::of(1, vec![committed(0, &remade(1))]).knowing(TOPIC);
    assert_eq!(created(&grown.decide()), (100, FRESH.into(), 1));
    let one_was_not = vec![committed(0, &remade(2)), committed(2, &ours(500))];
    let case = Case::of(1, one_was_not).knowing(TOPIC);
    assert_eq!(created(&case.decide()).0, 900, "as `startFrom` says");
}
