//! Kafka is away, or its answers are.
//!
//! Must not be here: `ClickHouse` that is away (`outage.rs`).

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clickhouse_sink_tests::proxy::{ApiKey, KafkaFault};
use clickhouse_sink_tests::wait::{eventually, eventually_eq};
use clickhouse_sink_worker::kafka::{
    Consumer, ConsumerSettings, ErrorCode, OpResult, Waker, render_config,
};

use crate::support::{SOON, Scene, metric, wait_read};

#[test]
fn a_commit_whose_answer_is_lost_is_sent_again_and_nothing_is_inserted_twice() {
    let scene = Scene::new("lost_answer", 2);
    let kafka = scene.env.kafka_proxy().unwrap();
    let sink = scene.sink_of_sets(kafka.bootstrap(), 6);
    scene.make_table(&sink);
    let mut worker = scene.worker("worker", &sink);
    scene.wait_committed(&[0, 0]);
    kafka.set(KafkaFault::HoldReplies(ApiKey::OFFSET_COMMIT));
    scene.produce_night_shift();
    scene.wait_committed(&[3, 3]);
    let held = || Ok(kafka.held(ApiKey::OFFSET_COMMIT) > 0);
    eventually_eq(SOON, "an answer is held", &true, held).unwrap();
    let sent = kafka.requests(ApiKey::OFFSET_COMMIT);
    kafka.set(KafkaFault::Cut);
    kafka.pass();
    let again = || Ok(kafka.requests(ApiKey::OFFSET_COMMIT) > sent);
    eventually_eq(SOON, "the commit is sent again", &true, again).unwrap();
    scene.produce_stats(0, 0, 3);
    scene.produce_stats(1, 0, 3);
    scene.wait_committed(&[6, 6]);
    assert_eq!(scene.rows(), (12, 11));
    assert_eq!(scene.proxy.inserts().len(), 2);
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
}

#[test]
fn a_worker_that_was_cut_off_beyond_its_session_joins_again_and_reads_again_what_it_had_not_inserted()
 {
    let scene = Scene::new("cut_off", 2);
    let kafka = scene.env.kafka_proxy().unwrap();
    let sink = scene.sink_of_sets(kafka.bootstrap(), 600);
    scene.make_table(&sink);
    scene.produce_night_shift();
    let mut worker = scene.worker("worker", &sink);
    wait_read(&worker, 6);
    let rebalances = metric(&worker, "rebalances_total").unwrap();
    kafka.set(KafkaFault::Cut);
    scene.wait_empty_group();
    kafka.pass();
    wait_read(&worker, 12);
    assert!(metric(&worker, "rebalances_total").unwrap() > rebalances);
    assert_eq!(scene.committed(), [Some(0), Some(0)]);
    assert_eq!(scene.rows(), (0, 0));
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
    scene.wait_committed(&[3, 3]);
    assert_eq!(scene.rows(), (6, 5));
}

#[test]
fn a_question_that_nobody_answered_in_time_does_not_end_the_process_when_the_coordinator_is_back() {
    let scene = Scene::new("late_coordinator", 1);
    let kafka = scene.env.kafka_proxy().unwrap();
    kafka.set(KafkaFault::Cut);
    let settings = ConsumerSettings::new(
        vec![kafka.bootstrap().to_owned()],
        &scene.group,
        "asks_late",
    );
    let mut consumer =
        Consumer::open(&render_config(&settings), Waker::for_current_thread()).unwrap();
    let mut ask = || {
        let asked = consumer.list_group_offsets(&scene.group, None).unwrap();
        let answer = || {
            let (op, answer) = consumer.poll_ops().context("no answer yet")?;
            ensure!(op == asked, "the answer to another question");
            Ok(answer)
        };
        eventually(SOON, "an answer", answer).unwrap()
    };
    let unanswered = ask();
    let timed_out =
        matches!(&unanswered, OpResult::GroupOffsets(Err(fault)) if fault.code == ErrorCode(-185));
    assert!(timed_out, "{unanswered:?}");
    kafka.pass();
    // The coordinator is found and the connection to it is up: what was asked for then must not be waiting any more.
    let answered = ask();
    assert!(
        matches!(&answered, OpResult::GroupOffsets(Ok(_))),
        "{answered:?}"
    );
    let later = Instant::now() + Duration::from_secs(3);
    while Instant::now() < later {
        assert!(matches!(ask(), OpResult::GroupOffsets(Ok(_))));
        std::thread::park_timeout(Duration::from_millis(100));
    }
}
