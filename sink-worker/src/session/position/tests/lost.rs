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
    let start = Case::of(0, vec![committed(0, &with_plan(890, &[950]))])
        .skipping()
        .decide();
    assert_eq!(created(&start), (900, RESET.into(), 2));
    assert_eq!(gaps(&start), [foreign_gap(900, 950, "OffsetBeyondEnd")]);
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
    let expected = Gap {
        topic_id: OTHER_TOPIC.into(),
        ..gap(500, 520, "TopicRecreated", true)
    };
    assert_eq!(gaps(&start), [expected]);
}

#[test]
fn a_topic_made_again_shows_in_the_facts_where_its_positions_went_with_it() {
    let case = Case::of(0, Vec::new()).knowing(OTHER_TOPIC);
    assert_eq!(held(&case.decide()).0, "TopicRecreated");
    let start = case.skipping().decide();
    assert_eq!(created(&start), (100, RESET.into(), 4));
    assert!(gaps(&start).is_empty());
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
