//! Replies that are no acknowledgement, and accounts that may not insert: retried or held, never passed.

use std::time::Duration;

use anyhow::ensure;
use clickhouse_sink_tests::produce::stat_event;
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{Canned, Fault, On, Seen};
use clickhouse_sink_tests::stack::clickhouse::{ClickHouse, READER, WRITER};
use clickhouse_sink_tests::wait::{eventually, stays_eq};

use crate::support::{SOON, Scene, metric, wait_hold, wait_not_ready};

/// Five records, one batch each try: what the fault does is never taken for an acknowledgement, and each try is the
/// same insert. Afterwards each row is there once.
fn is_retried_until_it_passes(what: &str, fault: Fault, class: &str) -> (Scene, WorkerProcess) {
    let scene = Scene::new(what, 1);
    scene.proxy.set_on(fault, On::Inserts);
    scene.produce_events(5);
    let worker = scene.start();
    scene.wait_table_inserts(3);
    assert_eq!(scene.committed(), [Some(0)]);
    assert_eq!(metric(&worker, "rows_inserted_total", &[]).unwrap(), 0.0);
    eventually(SOON, "the class of the failure is counted", || {
        let count = metric(
            &worker,
            "insert_retries_total",
            &[&format!("class=\"{class}\"")],
        )?;
        ensure!(count >= 2.0, "{count} of {class}");
        Ok(())
    })
    .unwrap();
    scene.proxy.pass();
    scene.wait_committed(&[5]);
    assert_eq!(scene.count(), 5);
    let inserts = scene.table_inserts();
    let different = |name: &str| {
        inserts
            .iter()
            .filter_map(|seen| seen.param(name))
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    };
    assert_eq!(different("insert_deduplication_token"), 1);
    assert_eq!(different("query_id"), inserts.len());
    (scene, worker)
}

#[test]
fn a_reply_of_200_with_an_exception_in_its_header_is_no_acknowledgement() {
    let reply = Canned::exception_in_header(241);
    is_retried_until_it_passes(
        "exception_in_header",
        Fault::Replace(reply),
        "ClickHouseBusy",
    );
}

#[test]
fn a_reply_of_200_with_a_tagged_exception_in_its_body_is_no_acknowledgement() {
    let text = "Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED) (version 26.7.2.1)\n";
    let tag = "daxofqodvertrcju";
    let body = format!(
        "\r\n__exception__\r\n{tag}\r\n{text}{} {tag}\r\n__exception__\r\n",
        text.len()
    );
    let headers = vec![("X-ClickHouse-Exception-Tag".to_owned(), tag.to_owned())];
    let reply = Canned {
        status: 200,
        headers,
        body: body.into_bytes(),
    };
    is_retried_until_it_passes("exception_tagged", Fault::Replace(reply), "ClickHouseBusy");
}

#[test]
fn a_reply_of_200_with_an_exception_in_its_body_as_older_servers_write_it_is_no_acknowledgement() {
    let text = "Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED) (version 24.8.4.13 (official build))\n";
    let reply = Canned {
        status: 200,
        headers: Vec::new(),
        body: text.into(),
    };
    is_retried_until_it_passes("exception_in_body", Fault::Replace(reply), "ClickHouseBusy");
}

#[test]
fn a_refusal_without_an_error_code_leaves_the_outcome_open_and_is_retried() {
    let reply = Canned {
        status: 502,
        headers: Vec::new(),
        body: b"Bad Gateway".to_vec(),
    };
    is_retried_until_it_passes("bad_gateway", Fault::Replace(reply), "InsertOutcomeUnknown");
}

#[test]
fn a_truncated_reply_is_no_acknowledgement_and_the_rows_are_there_once() {
    let (scene, _worker) = is_retried_until_it_passes(
        "truncated_reply",
        Fault::TruncateReply(0),
        "InsertOutcomeUnknown",
    );
    let answered = scene
        .table_inserts()
        .iter()
        .filter(|seen| seen.server_status == Some(200))
        .count();
    assert!(answered >= 3, "{answered}");
}

#[test]
fn a_reply_that_is_lost_after_the_rows_were_written_does_not_double_them() {
    let (scene, _worker) =
        is_retried_until_it_passes("lost_reply", Fault::DropReply, "InsertOutcomeUnknown");
    let first = scene.table_inserts().remove(0);
    assert_eq!(
        (first.server_status, first.fault),
        (Some(200), Fault::DropReply)
    );
}

#[test]
fn a_request_that_breaks_off_in_the_middle_writes_nothing_and_is_sent_again() {
    is_retried_until_it_passes(
        "truncated_request",
        Fault::TruncateRequest(60),
        "InsertOutcomeUnknown",
    );
}

#[test]
fn an_insert_without_an_answer_is_tried_again_after_its_timeout() {
    let scene = Scene::new("insert_timeout", 1).set("delivery.insertTimeoutSeconds", 2);
    scene.proxy.fail_next(2, Fault::Hang, On::Inserts);
    scene.produce_events(5);
    let _worker = scene.start();
    scene.wait_count(5);
    let inserts: Vec<Seen> = scene.table_inserts();
    let gaps: Vec<f64> = inserts
        .windows(2)
        .map(|pair| (pair[1].at - pair[0].at).as_secs_f64())
        .collect();
    assert_eq!(gaps.len(), 2);
    assert!(gaps.iter().all(|gap| (2.0..10.0).contains(gap)), "{gaps:?}");
    assert_eq!(inserts[0].param("max_execution_time"), Some("2"));
    scene.wait_committed(&[5]);
}

#[test]
fn a_wrong_password_is_told_and_nothing_is_read_until_the_right_one_is_there() {
    let scene = Scene::new("wrong_password", 1);
    scene.create_tables();
    scene.produce_events(5);
    let mut worker = scene.start_with(&scene.config_as((WRITER.0, "wrong-password")));
    let reasons = wait_not_ready(&worker, "Unauthorized");
    assert!(
        reasons.contains("516") && !reasons.contains("wrong-password"),
        "{reasons}"
    );
    stays_eq(
        Duration::from_secs(2),
        "committed offsets",
        &vec![None],
        || scene.env.kafka().committed(&scene.group, &scene.topic),
    )
    .unwrap();
    assert!(!worker.program.log().contains("wrong-password"));
    assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
    let worker = scene.start_with(&scene.config_as(WRITER));
    scene.wait_committed(&[5]);
    assert_eq!(scene.count(), 5);
    worker.wait_ready(SOON).unwrap();
}

#[test]
fn a_read_only_account_is_held_and_every_row_is_there_once_it_may_insert() {
    let scene = Scene::new("read_only", 1);
    scene.create_tables();
    scene.produce_events(5);
    let mut worker = scene.start_with(&scene.config_as(READER));
    let hold = wait_hold(&worker, "InsertRefused");
    assert!(
        hold["message"].as_str().unwrap().contains("Code: 164"),
        "{hold}"
    );
    assert_eq!(
        metric(&worker, "holds", &["reason=\"InsertRefused\""]).unwrap(),
        1.0
    );
    assert_eq!((scene.committed(), scene.count()), (vec![Some(0)], 0));
    worker.program.kill().unwrap();
    let _worker = scene.start_with(&scene.config_as(WRITER));
    scene.wait_committed(&[5]);
    assert_eq!(scene.count(), 5);
}

#[test]
fn a_password_that_changes_under_flow_holds_the_batch_until_it_is_mended() {
    let scene = Scene::new("password_changed", 1);
    let dir = scene.dir.join("clickhouse");
    let mut server = ClickHouse::start(&dir).unwrap();
    let admin = clickhouse_sink_tests::clickhouse::ClickHouseClient::new(&server.url()).unwrap();
    let scene = scene.set("clickhouse.url", server.url());
    let database = scene.database.name().to_owned();
    admin.query(&format!("CREATE DATABASE {database}")).unwrap();
    let own = admin.in_database(&database);
    for table in [
        clickhouse_sink_crds::resolve::expected_table(&scene.declared()),
        clickhouse_sink_crds::resolve::rejected_table(&scene.declared()),
    ] {
        own.query(&clickhouse_sink_operator::ddl::render_create_table(&table))
            .unwrap();
    }
    let worker = scene.start_with(&scene.config_as(WRITER));
    scene.produce_events(3);
    scene.wait_committed(&[3]);
    let users = std::fs::read_to_string(dir.join("users.xml")).unwrap();
    std::fs::write(dir.join("users.xml"), users.replace(WRITER.1, "another")).unwrap();
    server.restart().unwrap();
    scene.produce(0, (3..7).map(|index| stat_event(0, index)));
    let hold = wait_hold(&worker, "Unauthorized");
    assert!(
        hold["message"].as_str().unwrap().contains("Code: 516"),
        "{hold}"
    );
    assert_eq!(scene.committed(), [Some(3)]);
    std::fs::write(dir.join("users.xml"), users).unwrap();
    server.restart().unwrap();
    scene.wait_committed(&[7]);
    assert_eq!(own.count("vision_events").unwrap(), 7);
}
