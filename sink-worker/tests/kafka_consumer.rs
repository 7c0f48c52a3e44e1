//! The Kafka client against a real broker.
//!
//! Must not be here: what the worker does with records; that is the pipeline's.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test waits for what gives no sign, and names its topics by the wall clock"
)]

#[path = "kafka_consumer/harness.rs"]
mod harness;

use std::time::{Duration, Instant};

use clickhouse_sink_worker::kafka::{
    CommitErrorClass, ErrorCode, KafkaError, MainEvent, OffsetSpec, OpResult, TopicPartition,
    commit_error_class, fetch_record,
};
use harness::{
    Member, PATIENCE, config, delete_topic, item, make_topic, new_topic, produce, producer, send,
    tp, transactional, unique,
};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer};

#[test]
fn the_first_records_come_after_every_assignment_of_the_same_partition() {
    let topic = new_topic("mute", 2);
    let (p0, p1) = (tp(&topic, 0), tp(&topic, 1));
    produce(&topic, 0, 1000);
    produce(&topic, 1, 1000);
    let mut member = Member::of(&unique("g"), &topic);
    member.join(2);
    member.read_to(&p0, 1000);
    member.read_to(&p1, 1000);
    let all: Vec<i64> = (0..1000).collect();
    assert_eq!(member.take_offsets(&p0), all);
    assert_eq!(member.take_offsets(&p1), all);
    for round in 1..=3 {
        member.unassign(std::slice::from_ref(&p0));
        produce(&topic, 0, 100);
        member.start = 990;
        member.assign(std::slice::from_ref(&p0));
        let end = 1000 + 100 * round;
        member.read_to(&p0, end);
        assert_eq!(
            member.take_offsets(&p0),
            (990..end).collect::<Vec<_>>(),
            "round {round}"
        );
    }
    assert_eq!(
        member.take_offsets(&p1),
        Vec::<i64>::new(),
        "the other partition went on from where it was"
    );
}

#[test]
fn records_of_a_given_up_partition_are_not_delivered_any_more() {
    let topic = new_topic("given-up", 1);
    let p0 = tp(&topic, 0);
    produce(&topic, 0, 5000);
    let mut member = Member::of(&unique("g"), &topic);
    member.join(1);
    let handle = member.handles[&p0];
    member.until("some records", |m| {
        m.offsets.get(&p0).is_some_and(|o| !o.is_empty())
    });
    member.unassign(std::slice::from_ref(&p0));
    std::thread::sleep(Duration::from_millis(300));
    member.offsets.clear();
    assert!(!member.read(&p0, handle, 100));
    assert_eq!(member.take_offsets(&p0), Vec::<i64>::new());
    member.start = 0;
    member.assign(std::slice::from_ref(&p0));
    assert_eq!(member.handles[&p0], handle, "the handle stays");
    member.read_to(&p0, 5000);
    assert_eq!(member.take_offsets(&p0), (0..5000).collect::<Vec<_>>());
}

#[test]
fn the_end_is_told_behind_control_records_and_aborted_transactions() {
    let topic = new_topic("eof", 1);
    let p0 = tp(&topic, 0);
    let producer = transactional();
    for (count, commit) in [(3, true), (4, false)] {
        producer.begin_transaction().unwrap();
        send(&producer, &topic, 0, count);
        if commit {
            producer.commit_transaction(PATIENCE).unwrap();
        } else {
            producer.abort_transaction(PATIENCE).unwrap();
        }
    }
    let mut member = Member::of(&unique("g"), &topic);
    member.join(1);
    member.read_to(&p0, 9);
    assert_eq!(member.take_offsets(&p0), [0, 1, 2]);
}

#[test]
fn the_end_is_the_last_stable_offset_while_a_transaction_is_open() {
    let topic = new_topic("lso", 1);
    let p0 = tp(&topic, 0);
    produce(&topic, 0, 5);
    let open = transactional();
    open.begin_transaction().unwrap();
    send(&open, &topic, 0, 7);
    let mut member = Member::of(&unique("g"), &topic);
    let mut ask = |spec, committed| {
        let id = member
            .consumer
            .list_offsets(&[(p0.clone(), spec)], committed)
            .unwrap();
        match member.wait(id) {
            OpResult::Offsets(Ok(found)) => {
                assert_eq!((found.len(), &found[0].partition), (1, &p0));
                found[0].offset
            }
            other => panic!("expected offsets, found {other:?}"),
        }
    };
    assert_eq!(ask(OffsetSpec::Latest, true), Some(5));
    assert_eq!(ask(OffsetSpec::Latest, false), Some(12));
    assert_eq!(ask(OffsetSpec::Earliest, true), Some(0));
    assert_eq!(ask(OffsetSpec::TimestampMs(0), false), Some(0));
    assert_eq!(ask(OffsetSpec::TimestampMs(4_102_444_800_000), false), None);
    member.join(1);
    member.read_to(&p0, 5);
    open.abort_transaction(PATIENCE).unwrap();
    member.read_to(&p0, 13);
    assert_eq!(member.take_offsets(&p0), (0..5).collect::<Vec<_>>());
}

#[test]
fn a_commit_is_read_back_with_its_metadata() {
    let topic = new_topic("commit", 3);
    let group = unique("g");
    let mut member = Member::of(&group, &topic);
    member.join(3);
    assert_eq!(member.committed(&group, &tp(&topic, 0)), (None, Vec::new()));
    let result = member.commit(&[item(&topic, 0, 7, "cs1;s=7;p=9,12"), item(&topic, 1, 0, "")]);
    let OpResult::CommitDone {
        error: None,
        elements,
    } = result
    else {
        panic!("{result:?}")
    };
    assert_eq!(elements, [(tp(&topic, 0), None), (tp(&topic, 1), None)]);
    assert_eq!(
        member.committed(&group, &tp(&topic, 0)),
        (Some(7), b"cs1;s=7;p=9,12".to_vec())
    );
    assert_eq!(
        member.committed(&group, &tp(&topic, 1)),
        (Some(0), Vec::new())
    );
    let id = member.consumer.list_group_offsets(&group, None).unwrap();
    let OpResult::GroupOffsets(Ok(all)) = member.wait(id) else {
        panic!("expected offsets")
    };
    let mut partitions: Vec<_> = all
        .iter()
        .map(|offset| offset.partition.partition)
        .collect();
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1], "only what is committed is listed");
}

#[test]
fn each_of_many_commits_in_flight_gets_its_own_answer() {
    let topic = new_topic("ids", 4);
    let group = unique("g");
    let mut member = Member::of(&group, &topic);
    member.join(4);
    let sent: Vec<_> = (0..200)
        .map(|i| {
            let commit = item(&topic, i % 4, i64::from(i), &format!("m{i}"));
            (member.consumer.commit(&[commit]).unwrap(), i % 4)
        })
        .collect();
    for (id, partition) in sent {
        let OpResult::CommitDone {
            error: None,
            elements,
        } = member.wait(id)
        else {
            panic!("refused")
        };
        assert_eq!(elements, [(tp(&topic, partition), None)]);
    }
    assert_eq!(
        member.committed(&group, &tp(&topic, 3)),
        (Some(199), b"m199".to_vec())
    );
}

#[test]
fn a_commit_before_the_group_is_joined_is_refused_and_not_sent() {
    let topic = new_topic("unjoined", 1);
    let group = unique("g");
    let mut member = Member::alone(&group);
    let refused = member.consumer.commit(&[item(&topic, 0, 3, "x")]);
    assert!(
        matches!(refused, Err(KafkaError::NotAMember { generation }) if generation < 0),
        "{refused:?}"
    );
    assert_eq!(member.committed(&group, &tp(&topic, 0)), (None, Vec::new()));
    assert!(matches!(
        member.consumer.commit(&[]),
        Err(KafkaError::Impossible(_))
    ));
    assert!(matches!(
        member.consumer.commit(&[item(&topic, 0, -1, "")]),
        Err(KafkaError::Impossible(_))
    ));
}

#[test]
fn a_mixed_commit_says_error_for_all_though_one_was_applied() {
    let topic = new_topic("mixed", 1);
    let group = unique("g");
    let mut member = Member::of(&group, &topic);
    member.join(1);
    let result = member.commit(&[item(&topic, 0, 5, "ok"), item(&topic, 99, 5, "none")]);
    let OpResult::CommitDone {
        error: Some(error), ..
    } = result
    else {
        panic!("{result:?}")
    };
    assert_eq!(commit_error_class(error.code), CommitErrorClass::Config);
    assert_eq!(
        member.committed(&group, &tp(&topic, 0)),
        (Some(5), b"ok".to_vec())
    );
    let large = member.commit(&[item(&topic, 0, 6, &"x".repeat(4097))]);
    let OpResult::CommitDone {
        error: Some(error), ..
    } = large
    else {
        panic!("{large:?}")
    };
    assert_eq!(error.code, ErrorCode::OFFSET_METADATA_TOO_LARGE);
}

#[test]
fn a_topic_that_is_made_again_has_another_id_and_is_read_from_its_start() {
    let topic = new_topic("again", 2);
    let p0 = tp(&topic, 0);
    produce(&topic, 0, 50);
    let mut member = Member::of(&unique("g"), &topic);
    member.join(2);
    member.read_to(&p0, 50);
    member.take_offsets(&p0);
    let first = topic_id(&mut member, &topic).unwrap();
    delete_topic(&topic);
    member.until("lost", |m| m.handles.is_empty());
    assert_eq!(
        topic_id(&mut member, &topic),
        Err(ErrorCode::UNKNOWN_TOPIC_OR_PART)
    );
    make_topic(&topic, 2);
    produce(&topic, 0, 20);
    member.join(2);
    member.read_to(&p0, 20);
    assert_eq!(member.take_offsets(&p0), (0..20).collect::<Vec<_>>());
    let second = topic_id(&mut member, &topic).unwrap();
    assert_ne!(first, second);
    assert_eq!((first.len(), second.len()), (22, 22));
}

fn topic_id(member: &mut Member, topic: &str) -> Result<String, ErrorCode> {
    let id = member.consumer.describe_topics(&[topic]).unwrap();
    let OpResult::Topics(Ok(mut topics)) = member.wait(id) else {
        panic!("expected topics")
    };
    let found = topics.remove(0);
    assert_eq!(&*found.topic, topic);
    if let Some(fault) = found.fault {
        return Err(fault.code);
    }
    assert_eq!(found.partitions, 2);
    Ok(found.topic_id)
}

#[test]
fn a_partition_is_drained_while_the_group_waits_and_its_next_owner_reads_the_last_commit() {
    let topic = new_topic("drain", 2);
    let group = unique("g");
    produce(&topic, 0, 10);
    produce(&topic, 1, 10);
    let mut a = Member::of(&group, &topic);
    a.join(2);
    a.obeys = false;
    let mut b = Member::of(&group, &topic);
    let drained = Instant::now();
    a.until("a revocation", |m| {
        b.turn();
        m.revoked.len() == 1
    });
    let moved = a.revoked[0].clone();
    let began = Instant::now();
    a.until("the drain", |_| {
        b.turn();
        began.elapsed() > Duration::from_secs(2)
    });
    assert!(
        b.handles.is_empty(),
        "nothing is handed over before it is given up"
    );
    let OpResult::CommitDone { error: None, .. } =
        a.commit(&[item(&topic, moved.partition, 10, "drained")])
    else {
        panic!("the owner's commit is taken while its revocation waits")
    };
    a.unassign(std::slice::from_ref(&moved));
    b.until("the hand-over", |m| {
        a.turn();
        m.handles.contains_key(&moved)
    });
    assert_eq!(b.committed(&group, &moved), (Some(10), b"drained".to_vec()));
    b.until("the rest", |m| {
        a.turn();
        m.ends.get(&moved) == Some(&10)
    });
    assert!(
        !a.events
            .iter()
            .any(|e| matches!(e, MainEvent::Revoke { lost: true, .. }))
    );
    assert!(drained.elapsed() < PATIENCE);
}

#[test]
fn a_parked_thread_is_woken_by_a_record_and_by_nothing_else() {
    let topic = new_topic("wake", 1);
    let p0 = tp(&topic, 0);
    produce(&topic, 0, 1);
    let mut member = Member::of(&unique("g"), &topic);
    member.join(1);
    member.read_to(&p0, 1);
    let (idle, turns) = (Instant::now(), member.turns);
    while idle.elapsed() < Duration::from_secs(2) {
        std::thread::park_timeout(Duration::from_secs(2).saturating_sub(idle.elapsed()));
        member.turn();
    }
    assert!(
        member.turns - turns < 10,
        "{} turns in two idle seconds",
        member.turns - turns
    );
    let producer = producer(&[]);
    let mut woken = Vec::new();
    for n in 1..=9 {
        let began = Instant::now();
        let record: BaseRecord<'_, (), str> = BaseRecord::to(&topic).partition(0).payload("{}");
        producer.send(record).map_err(|(error, _)| error).unwrap();
        while member.offsets[&p0].len() <= n {
            assert!(began.elapsed() < PATIENCE);
            std::thread::park_timeout(PATIENCE);
            member.turn();
        }
        woken.push(began.elapsed());
    }
    // The machine may be busy: what is shown is that nothing in the way waits by itself.
    let fastest = woken.iter().min().unwrap();
    assert!(
        *fastest < Duration::from_millis(50),
        "produced, fetched and woken in {woken:?}"
    );
}

#[test]
fn a_position_that_does_not_exist_is_told_on_the_partition() {
    let topic = new_topic("beyond", 1);
    produce(&topic, 0, 3);
    let mut member = Member::of(&unique("g"), &topic);
    member.start = 500;
    member.join(1);
    member.until("the error", |m| !m.faults.is_empty());
    let (partition, fault) = &member.faults[0];
    assert_eq!(
        (partition, fault.code),
        (&tp(&topic, 0), ErrorCode::AUTO_OFFSET_RESET)
    );
    let refused = member.consumer.incremental_assign(&[(tp(&topic, 0), -1)]);
    assert!(matches!(refused, Err(KafkaError::Impossible(_))));
}

#[test]
fn one_record_is_read_again_without_touching_the_group() {
    let topic = new_topic("single", 1);
    let group = unique("g");
    let plain = producer(&[]);
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "trace",
            value: Some("t-1"),
        })
        .insert(Header {
            key: "none",
            value: None::<&str>,
        });
    let record = BaseRecord::to(&topic)
        .partition(0)
        .key("k")
        .payload("first")
        .timestamp(1_700_000_000_123)
        .headers(headers);
    plain.send(record).map_err(|(error, _)| error).unwrap();
    let null: BaseRecord<'_, (), ()> = BaseRecord::to(&topic).partition(0);
    plain.send(null).map_err(|(error, _)| error).unwrap();
    plain.flush(PATIENCE).unwrap();
    let aborted = transactional();
    aborted.begin_transaction().unwrap();
    send(&aborted, &topic, 0, 2);
    aborted.abort_transaction(PATIENCE).unwrap();

    let fetch = |offset| {
        fetch_record(
            &config(&group, &[]),
            &tp(&topic, 0),
            offset,
            Instant::now() + PATIENCE,
        )
    };
    let first = fetch(0).unwrap().unwrap();
    assert_eq!((first.offset, first.timestamp_ms), (0, 1_700_000_000_123));
    assert_eq!(
        (first.key.as_deref(), first.payload.as_deref()),
        (Some(&b"k"[..]), Some(&b"first"[..]))
    );
    assert_eq!(
        first.headers,
        [
            ("trace".to_owned(), Some(b"t-1".to_vec())),
            ("none".to_owned(), None)
        ]
    );
    let tombstone = fetch(1).unwrap().unwrap();
    assert_eq!((tombstone.key, tombstone.payload), (None, None));
    assert_eq!(fetch(2), Ok(None), "aborted");
    assert!(matches!(
        fetch(99),
        Err(KafkaError::Refused {
            code: ErrorCode::AUTO_OFFSET_RESET,
            ..
        })
    ));
    let now = Instant::now();
    let late = fetch_record(&config(&group, &[]), &tp(&topic, 0), 0, now);
    assert_eq!(
        late,
        Err(KafkaError::TimedOut {
            what: "read one record"
        })
    );
    let mut member = Member::alone(&group);
    assert_eq!(member.committed(&group, &tp(&topic, 0)), (None, Vec::new()));
}

#[test]
fn a_member_that_drained_leaves_at_once_and_the_next_one_takes_over() {
    let topic = new_topic("close", 2);
    let group = unique("g");
    let mut a = Member::of(&group, &topic);
    a.join(2);
    let all: Vec<TopicPartition> = a.handles.keys().cloned().collect();
    a.unassign(&all);
    close(a);
    let mut b = Member::of(&group, &topic);
    let began = Instant::now();
    b.join(2);
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "the session timeout is 12 s: {:?}",
        began.elapsed()
    );
    close(b);
}

fn close(mut member: Member) {
    let began = Instant::now();
    member.consumer.close_async().unwrap();
    member.until("closed", |m| m.consumer.poll_closed());
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_consumer_that_is_dropped_in_the_middle_of_anything_is_gone_soon() {
    let topic = new_topic("drop", 2);
    let group = unique("g");
    produce(&topic, 0, 20_000);
    let mut reading = Member::of(&group, &topic);
    reading.until("some records", |m| {
        m.offsets.values().any(|o| !o.is_empty())
    });
    let mut closing = Member::of(&unique("g"), &topic);
    closing.join(2);
    closing.consumer.commit(&[item(&topic, 0, 1, "")]).unwrap();
    closing.consumer.close_async().unwrap();
    for member in [
        reading,
        closing,
        Member::alone(&group),
        Member::of(&group, &topic),
    ] {
        let began = Instant::now();
        drop(member);
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{:?}",
            began.elapsed()
        );
    }
}

#[test]
fn a_member_that_did_not_poll_is_told_and_can_not_commit() {
    let topic = new_topic("stall", 1);
    let group = unique("g");
    let quick = [
        ("session.timeout.ms", "1500"),
        ("heartbeat.interval.ms", "300"),
        ("max.poll.interval.ms", "2000"),
    ];
    let mut member = Member::with(&group, &quick);
    member
        .consumer
        .subscribe(std::slice::from_ref(&topic))
        .unwrap();
    member.join(1);
    std::thread::sleep(Duration::from_secs(4));
    let refused = member.consumer.commit(&[item(&topic, 0, 1, "late")]);
    assert!(
        matches!(refused, Err(KafkaError::NotAMember { .. })),
        "{refused:?}"
    );
    member.until("told", |m| {
        m.events.iter().any(|event| {
            matches!(event, MainEvent::Error { fault, fatal: false, .. } if fault.code == ErrorCode::MAX_POLL_EXCEEDED)
        })
    });
    let revoked = |m: &mut Member| {
        m.events
            .iter()
            .any(|event| matches!(event, MainEvent::Revoke { .. }))
    };
    member.until("revoked", revoked);
    member.join(1);
    assert_eq!(member.committed(&group, &tp(&topic, 0)), (None, Vec::new()));
}

#[test]
fn a_member_says_who_it_is_and_where() {
    let topic = new_topic("who", 1);
    let mut member = Member::of(&unique("g"), &topic);
    assert!(!member.consumer.membership().is_member());
    member.join(1);
    assert!(member.consumer.membership().is_member());
    assert_eq!(
        member
            .consumer
            .cluster_id(Duration::from_secs(5))
            .map(|id| id.len()),
        Some(22)
    );
}

#[test]
fn a_bad_setting_is_named_without_its_value() {
    let open = |name: &str, value: &str| {
        let waker = clickhouse_sink_worker::kafka::Waker::for_current_thread();
        clickhouse_sink_worker::kafka::Consumer::open(&config("g", &[(name, value)]), waker)
            .unwrap_err()
    };
    let error = open("session.timeout.ms", "hunter2");
    assert!(
        error.to_string().contains("`session.timeout.ms`")
            && !error.to_string().contains("hunter2")
    );
    assert_eq!(open("no.such.setting", "1").reason(), "KafkaSettingRefused");
}
