//! Records that make no row: where each ends, with its bytes, and in which order.

use std::time::Duration;

use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::produce::stat_event;
use clickhouse_sink_tests::proxy::{Fault, On};
use clickhouse_sink_tests::wait::{eventually_eq, stays_eq};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};

use crate::support::{SOON, Scene, event_with, hex, metric, wait_hold};

const REJECTED: &str = "SELECT offset, code, column, hex(payload) AS payload FROM vision_events_rejected ORDER BY partition, offset";

fn rejected(offset: i64, code: &str, column: &str, payload: &[u8]) -> Value {
    json!({ "offset": offset, "code": code, "column": column, "payload": hex(payload) })
}

#[test]
fn every_kind_of_bad_record_ends_in_the_rejected_table_with_its_bytes_and_its_reason() {
    let scene = Scene::new("bad_records", 1);
    let bad: Vec<(&str, &str, Vec<u8>)> = vec![
        ("NotJson", "", br#"{"event_id": "cut"#.to_vec()),
        ("NotJson", "", b"".to_vec()),
        ("NotJson", "", br#"{"event_id": "a"} {"event_id": "b"}"#.to_vec()),
        ("WrongType", "", b"[1, 2]".to_vec()),
        ("InvalidUtf8", "", b"{\"event_id\": \"\xff\xfe\"}".to_vec()),
        ("DuplicateKey", "", br#"{"event_id": "a", "event_id": "b"}"#.to_vec()),
        ("WrongType", "version", event_with("x", "version", "\"two\"").into_bytes()),
        ("OutOfRange", "version", event_with("x", "version", "4294967296").into_bytes()),
        ("Inexact", "version", event_with("x", "version", "1.5").into_bytes()),
        ("Null", "version", event_with("x", "version", "null").into_bytes()),
        ("BadTimestamp", "ts", event_with("x", "ts", "\"yesterday\"").into_bytes()),
        ("WrongType", "ts", event_with("x", "ts", "1773446400").into_bytes()),
        ("Missing", "ts", br#"{"event_id": "x", "site": "s", "camera": "c", "app": "a", "kind": "k", "version": 1, "status": "z"}"#.to_vec()),
    ];
    let payloads = bad.iter().map(|(_, _, payload)| payload.clone());
    let good = |index| std::iter::once(stat_event(0, index).into_bytes());
    scene.produce(0, good(0).chain(payloads).chain(good(1)));
    let worker = scene.start();
    scene.wait_committed(&[15]);
    let expected: Vec<Value> = bad
        .iter()
        .zip(1..)
        .map(|((code, column, payload), offset)| rejected(offset, code, column, payload))
        .collect();
    assert_eq!(scene.rows(REJECTED), expected);
    assert_eq!(
        scene.rows("SELECT _offset FROM vision_events ORDER BY _offset"),
        [json!({ "_offset": 0 }), json!({ "_offset": 14 })]
    );
    assert_eq!(
        metric(&worker, "records_rejected_total", &[]).unwrap(),
        13.0
    );
    assert_eq!(
        metric(&worker, "records_rejected_total", &["reason=\"NotJson\""]).unwrap(),
        3.0
    );
}

#[test]
fn a_rejected_record_keeps_its_key_headers_time_and_place() {
    let scene = Scene::new("bad_record_whole", 1);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &scene.env.brokers)
        .create()
        .unwrap();
    let value: &[u8] = &[0, 0xff];
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "trace",
            value: Some("abc"),
        })
        .insert(Header {
            key: "trace",
            value: Some(value),
        });
    let record = BaseRecord::to(&scene.topic)
        .partition(0)
        .key(&[0_u8, 0xfe][..])
        .payload(&b"not json \x00"[..]);
    producer
        .send(record.headers(headers).timestamp(1_773_446_400_123))
        .unwrap();
    producer.flush(SOON).unwrap();
    let _worker = scene.start();
    scene.wait_committed(&[1]);
    let select = "SELECT topic, length(topic_id) > 10 AS has_topic_id, partition, offset, length(epoch) AS epoch, kind, end_offset, cause, lost, \
        hex(key) AS key, hex(payload) AS payload, arrayMap(h -> (h.1, hex(h.2)), headers) AS headers, toUnixTimestamp64Milli(timestamp) AS at, \
        column, reason, code, length(mapping) > 0 AS has_mapping, abs(now() - rejected_at) < 120 AS is_recent, replayed_at \
        FROM vision_events_rejected";
    let expected = json!({
        "topic": scene.topic, "has_topic_id": 1, "partition": 0, "offset": 0, "epoch": 16, "kind": "record", "end_offset": 1,
        "cause": "", "lost": "", "key": "00FE", "payload": hex(b"not json \x00"),
        "headers": [["trace", hex(b"abc")], ["trace", "00FF"]], "at": 1_773_446_400_123_i64,
        "column": "", "reason": "the payload is not valid JSON", "code": "NotJson", "has_mapping": 1, "is_recent": 1, "replayed_at": null,
    });
    assert_eq!(scene.rows(select), [expected]);
}

#[test]
fn rejected_records_are_acknowledged_before_the_insert_that_leaves_them_out_is_sent() {
    let scene = Scene::new("rejected_first", 1);
    scene.proxy.set_on(
        Fault::DropReply,
        On::Containing("vision_events_rejected".into()),
    );
    scene.produce(0, [stat_event(0, 0), "bad".to_owned(), stat_event(0, 1)]);
    let _worker = scene.start();
    let tried = |at_least| {
        eventually_eq(SOON, "tries are many", &true, || {
            Ok(scene.rejected_inserts().len() >= at_least)
        })
    };
    tried(3).unwrap();
    stays_eq(Duration::from_secs(2), "INSERTs into the table", &0, || {
        Ok(scene.table_inserts().len())
    })
    .unwrap();
    assert_eq!(scene.committed(), [Some(0)]);
    scene.proxy.pass();
    scene.wait_committed(&[3]);
    assert_eq!(scene.count(), 2);
    let (last_rejected, first_row) = (
        scene.rejected_inserts().pop().unwrap(),
        scene.table_inserts().remove(0),
    );
    assert!(last_rejected.at < first_row.at);
    assert_eq!(last_rejected.server_status, Some(200));
    assert_eq!(
        scene
            .database
            .client()
            .count("vision_events_rejected FINAL")
            .unwrap(),
        1
    );
}

#[test]
fn a_rejected_table_that_is_missing_holds_the_records_and_goes_on_when_it_is_made() {
    let scene = Scene::new("rejected_missing", 1).set("deadLetter.table.name", "bad_ones");
    scene.create_tables();
    let create = scene.query("SHOW CREATE TABLE bad_ones FORMAT TSVRaw");
    scene.query("DROP TABLE bad_ones SYNC");
    let worker = scene.start_with(&scene.config());
    scene.produce(0, ["bad".to_owned(), stat_event(0, 1)]);
    let hold = wait_hold(&worker, "DeadLetterUnavailable");
    assert_eq!(hold["partition"], format!("{}/0", scene.topic));
    assert!(
        hold["message"].as_str().unwrap().contains("Code: 60"),
        "{hold}"
    );
    assert_eq!((scene.count(), scene.committed()), (0, vec![Some(0)]));
    scene.query(&create);
    scene.wait_committed(&[2]);
    assert_eq!(
        (
            scene.count(),
            scene.database.client().count("bad_ones").unwrap()
        ),
        (1, 1)
    );
}

/// 10 MB of JSON: a good event with a long `kind`.
fn huge_event() -> String {
    event_with("huge", "kind", &format!("\"{}\"", "k".repeat(10_000_000)))
}

fn huge_topic(what: &str) -> String {
    let env = Env::get().unwrap();
    let topic = env.unique(what);
    env.kafka()
        .create_topic(&topic, 1, &[("max.message.bytes", "20000000")])
        .unwrap();
    topic
}

#[test]
fn a_record_of_ten_megabytes_is_a_row_where_the_limit_allows_it() {
    let scene =
        Scene::of_topic("huge_row", &huge_topic("huge_row")).set("table.columns", huge_columns());
    scene.produce(0, [stat_event(0, 0), huge_event(), stat_event(0, 1)]);
    let _worker = scene.start();
    scene.wait_committed(&[3]);
    let lengths =
        scene.rows("SELECT _offset AS at, length(kind) AS bytes FROM vision_events ORDER BY at");
    let row = |at, bytes| json!({ "at": at, "bytes": bytes });
    assert_eq!(lengths, [row(0, 4), row(1, 10_000_000), row(2, 4)]);
    assert_eq!(
        scene
            .database
            .client()
            .count("vision_events_rejected")
            .unwrap(),
        0
    );
}

/// The night shift's columns with a plain `kind`: 10 MB are no dictionary entry.
fn huge_columns() -> Value {
    let names = ["event_id", "site", "camera", "app", "kind", "status"];
    let mut columns: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name, "type": "String" }))
        .collect();
    columns.push(json!({ "name": "ts", "type": "DateTime64(3, 'UTC')" }));
    columns.push(json!({ "name": "version", "type": "UInt32" }));
    columns.into()
}

#[test]
fn a_record_over_max_record_bytes_is_rejected_whole_and_its_neighbours_are_rows() {
    let huge = huge_event();
    let limit = huge.len() - 1;
    let scene = Scene::of_topic("huge_reject", &huge_topic("huge_reject"))
        .set("format.maxRecordBytes", limit.to_string());
    let barely = huge.replacen("kk", "k", 1);
    scene.produce(
        0,
        [stat_event(0, 0), huge.clone(), barely, stat_event(0, 1)],
    );
    let _worker = scene.start();
    scene.wait_committed(&[4]);
    let select = "SELECT offset, code, column, length(payload) AS bytes, payload LIKE '{%kkkk%}' AS is_whole FROM vision_events_rejected";
    let expected = json!({ "offset": 1, "code": "TooLarge", "column": "", "bytes": huge.len(), "is_whole": 1 });
    assert_eq!(scene.rows(select), [expected]);
    assert_eq!(scene.count(), 3);
}

#[test]
fn tombstones_are_skipped_and_their_offsets_count_as_done() {
    let scene = Scene::new("tombstones", 1);
    send_tombstones(&scene);
    let worker = scene.start();
    scene.wait_committed(&[4]);
    assert_eq!((scene.count(), scene.rows(REJECTED).len()), (1, 0));
    let skipped = || metric(&worker, "records_skipped_total", &[]);
    eventually_eq(SOON, "records skipped", &3.0, skipped).unwrap();
}

#[test]
fn tombstones_that_are_to_be_rejected_are_rejected_with_their_keys() {
    let scene = Scene::new("tombstones_rejected", 1).set("format.tombstones", "Reject");
    send_tombstones(&scene);
    let _worker = scene.start();
    scene.wait_committed(&[4]);
    let found =
        scene.rows("SELECT offset, code, payload, key FROM vision_events_rejected ORDER BY offset");
    let row =
        |offset, key| json!({ "offset": offset, "code": "Tombstone", "payload": "", "key": key });
    assert_eq!(
        found,
        [row(0, json!("a")), row(2, json!("b")), row(3, Value::Null)]
    );
    assert_eq!(scene.count(), 1);
}

/// Offsets 0, 2 and 3 have no payload.
fn send_tombstones(scene: &Scene) {
    let producer = scene.producer();
    producer.send(&scene.topic, 0, Some(b"a"), None).unwrap();
    producer
        .send_json(&scene.topic, 0, &stat_event(0, 0))
        .unwrap();
    producer.send(&scene.topic, 0, Some(b"b"), None).unwrap();
    producer.send(&scene.topic, 0, None, None).unwrap();
    producer.flush().unwrap();
}

#[test]
fn a_record_that_a_constraint_refuses_is_rejected_alone_and_all_others_are_rows() {
    let scene = Scene::new("constraint", 2).set("batch.lingerMilliseconds", 1000);
    scene.create_tables();
    scene.query("ALTER TABLE vision_events ADD CONSTRAINT no_ghosts CHECK kind != 'ghost'");
    let ghost = event_with("ghost", "kind", "\"ghost\"");
    let producer = scene.producer();
    for index in 0..50 {
        let payload = if index == 31 {
            ghost.clone()
        } else {
            stat_event(1, index)
        };
        producer
            .send(&scene.topic, 1, Some(b"key"), Some(payload.as_bytes()))
            .unwrap();
        producer
            .send_json(&scene.topic, 0, &stat_event(0, index))
            .unwrap();
    }
    producer.flush().unwrap();
    let worker = scene.start_with(&scene.config());
    scene.wait_committed(&[50, 50]);
    let found = scene.rows(
        "SELECT partition, offset, code, key, hex(payload) AS payload FROM vision_events_rejected",
    );
    let expected = json!({ "partition": 1, "offset": 31, "code": "RefusedByServer", "key": "key", "payload": hex(ghost.as_bytes()) });
    assert_eq!(found, [expected]);
    assert_eq!(scene.count(), 99);
    let places = "SELECT _partition AS p, count() AS c, uniqExact(_offset) AS u FROM vision_events GROUP BY p ORDER BY p";
    assert_eq!(
        scene.rows(places),
        [
            json!({ "p": 0, "c": 50, "u": 50 }),
            json!({ "p": 1, "c": 49, "u": 49 })
        ]
    );
    let reason = scene.query("SELECT reason FROM vision_events_rejected");
    assert!(
        reason.contains("469") && reason.contains("no_ghosts"),
        "{reason}"
    );
    assert_eq!(
        metric(&worker, "records_rejected_total", &["RefusedByServer"]).unwrap(),
        1.0
    );
}
