//! Commit metadata and tokens.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;

fn example() -> CommitMetadata {
    CommitMetadata {
        offset: 100,
        table: "0123abcd".into(),
        topic_id: "Kz3-9_aQTmq0vZb1c2d3eA".into(),
        first_partitions: 12,
        epoch: Epoch::new("00112233445566ff", true).unwrap(),
        mapping: "9f2c00aa".into(),
        declared_at_s: 1_790_000_000,
        sequence: 7,
        ends: vec![150, 200],
    }
}

const TEXT: &str = "cs1;s=100;d=0123abcd;t=Kz3-9_aQTmq0vZb1c2d3eA;n=12;e=00112233445566ffr;m=9f2c00aa;w=1790000000;q=7;p=150,200";

#[test]
fn metadata_has_the_documented_form() {
    assert_eq!(example().render().unwrap(), TEXT);
    assert_eq!(CommitMetadata::parse(TEXT.as_bytes()), Ok(example()));
}

#[test]
fn metadata_belongs_to_the_offset_that_it_was_written_with() {
    assert!(example().matches(100));
    assert!(!example().matches(99));
}

#[test]
fn a_plan_is_the_chain_of_ranges_from_the_offset_on() {
    let plan: Vec<_> = example()
        .plan(3)
        .into_iter()
        .map(|range| (range.partition, range.start, range.end))
        .collect();
    assert_eq!(plan, [(3, 100, 150), (3, 150, 200)]);
}

#[test]
fn keys_of_newer_versions_are_skipped() {
    let newer = format!("{TEXT};z=1;zone=x");
    assert_eq!(CommitMetadata::parse(newer.as_bytes()), Ok(example()));
}

#[test]
fn what_is_not_ours_is_named() {
    let without = |part: &str| TEXT.replace(part, "");
    let with = |from: &str, to: &str| TEXT.replace(from, to);
    let parse = |text: &str| CommitMetadata::parse(text.as_bytes()).unwrap_err();
    assert_eq!(parse(""), MetadataError::Foreign);
    assert_eq!(parse("NULL"), MetadataError::Foreign);
    assert_eq!(
        CommitMetadata::parse(b"cs1;\xff"),
        Err(MetadataError::Foreign)
    );
    assert_eq!(parse(&with("cs1", "cs2")), MetadataError::Foreign);
    assert_eq!(
        parse(&without(";q=7")),
        MetadataError::MissingKey { key: 'q' }
    );
    assert_eq!(
        parse(&with("q=7", "q=7;q=8")),
        MetadataError::DuplicateKey { key: 'q' }
    );
    for (from, to, key) in [
        ("s=100", "s=-1", 's'),
        ("s=100", "s=+100", 's'),
        ("d=0123abcd", "d=0123ABCD", 'd'),
        ("e=00112233445566ffr", "e=0011r", 'e'),
        ("m=9f2c00aa", "m=9f", 'm'),
        ("p=150,200", "p=200,150", 'p'),
        ("p=150,200", "p=100", 'p'),
        ("p=150,200", "p=150,", 'p'),
        ("t=Kz3", "t=/z3", 't'),
    ] {
        let error = parse(&with(from, to));
        assert!(
            matches!(error, MetadataError::BadValue { key: k, .. } if k == key),
            "{to}: {error}"
        );
    }
}

#[test]
fn a_plan_that_no_broker_may_take_is_refused_before_it_is_sent() {
    let ends = (0..32).map(|n| i64::MAX - 64 + n).collect();
    let fits = CommitMetadata { ends, ..example() };
    assert!(fits.render().unwrap().len() <= MAX_METADATA_BYTES);
    let too_many = CommitMetadata {
        ends: (101..134).collect(),
        ..example()
    };
    assert!(too_many.render().is_err());
    let long = CommitMetadata {
        ends: (0..64).map(|n| i64::MAX - 64 + n).collect(),
        ..example()
    };
    assert_eq!(
        long.render().unwrap_err().reason(),
        "BrokerLimitsCommitMetadata"
    );
}

#[test]
fn a_range_has_the_documented_token() {
    let range = &example().plan(3)[0];
    assert_eq!(
        range_token("ops", "cluster-1", range),
        "cs1/ops/00112233445566ffr/cluster-1/Kz3-9_aQTmq0vZb1c2d3eA/3/100-150"
    );
}

#[test]
fn the_token_of_a_set_depends_on_every_range_and_the_mapping_and_on_nothing_else() {
    let plan = example().plan(3);
    let token = set_token("ops", "c", "ab12cd34", &plan);
    assert!(token.starts_with("cs1/ops/set/"), "{token}");
    assert_eq!(token.len(), "cs1/ops/set/".len() + 64);
    let reversed: Vec<_> = plan.iter().rev().cloned().collect();
    assert_eq!(set_token("ops", "c", "ab12cd34", &reversed), token);
    for changed in [
        set_token("ops", "c2", "ab12cd34", &plan),
        set_token("ops", "c", "ab12cd35", &plan),
        set_token("ops", "c", "ab12cd34", &plan[..1]),
        set_token("ops", "c", "ab12cd34", &example().plan(4)),
        set_token(
            "ops",
            "c",
            "ab12cd34",
            &CommitMetadata {
                ends: vec![151, 200],
                ..example()
            }
            .plan(3),
        ),
        set_token(
            "ops",
            "c",
            "ab12cd34",
            &CommitMetadata {
                topic_id: "other".into(),
                ..example()
            }
            .plan(3),
        ),
        set_token(
            "ops",
            "c",
            "ab12cd34",
            &CommitMetadata {
                epoch: Epoch::from_random(1, false),
                ..example()
            }
            .plan(3),
        ),
    ] {
        assert_ne!(changed, token);
    }
}

fn metadata() -> impl Strategy<Value = CommitMetadata> {
    let numbers = (
        0..1i64 << 40,
        any::<u32>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<bool>(),
    );
    let texts = ("[0-9a-f]{8}", "[A-Za-z0-9_-]{1,22}", "[0-9a-f]{8,16}");
    (numbers, texts, btree_set(1..1i64 << 30, 0..8)).prop_map(
        |((offset, n, w, q, e, reset), (d, t, m), ends)| CommitMetadata {
            offset,
            table: d,
            topic_id: t,
            first_partitions: n,
            epoch: Epoch::from_random(e, reset),
            mapping: m,
            declared_at_s: w,
            sequence: q,
            ends: ends.into_iter().map(|end| offset + end).collect(),
        },
    )
}

proptest! {
    #[test]
    fn rendered_metadata_is_read_as_itself(metadata in metadata()) {
        let text = metadata.render().unwrap();
        prop_assert!(text.is_ascii());
        prop_assert_eq!(CommitMetadata::parse(text.as_bytes()), Ok(metadata));
    }

    #[test]
    fn any_bytes_are_metadata_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let _ = CommitMetadata::parse(&bytes);
    }

    #[test]
    fn metadata_with_one_byte_changed_is_metadata_or_an_error(at in 0..TEXT.len(), byte in any::<u8>()) {
        let mut bytes = TEXT.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(metadata) = CommitMetadata::parse(&bytes) {
            prop_assert!(metadata.render().is_ok());
        }
    }
}
