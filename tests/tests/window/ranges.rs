//! What of a range is sent when its token may be forgotten: exactly what the table does not have.
//!
//! Must not be here: keys of every form (`keys.rs`), tables that prove nothing (`doubts.rs`).

use std::time::Instant;

use clickhouse_sink_tests::env::Env;
use clickhouse_sink_worker::verify::{Verdict, count_rows_of};

use crate::support::{Case, PARTITION, START, TOPIC};

const COLUMNS: [(&str, &str); 2] = [("n", "UInt32"), ("site", "String")];
const ENGINE: &str = "ENGINE = MergeTree PARTITION BY n % 20 ORDER BY n";

fn record(number: usize) -> String {
    format!(r#"{{"n": {number}, "site": "s{}"}}"#, number % 7)
}

fn case(what: &str, window: u64) -> Case {
    let engine = format!("{ENGINE} SETTINGS non_replicated_deduplication_window = {window}");
    Case::new(what, &COLUMNS, &engine)
}

#[tokio::test]
async fn a_block_over_twenty_table_partitions_is_never_there_twice_with_a_window_of_ten() {
    let case = case("window_ten", 10);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..200).map(record));
    let all: Vec<usize> = (0..200).collect();
    // Nothing is there yet.
    assert_eq!(
        case.verify(&rows).await,
        Verdict::Send { rows: all.clone() }
    );
    case.send_rows(&rows, &all).await;
    assert_eq!(case.stored(), (200, 200));
    // The token alone would add all of them again: each that is forgotten pushes out one that is still known.
    assert_eq!(case.verify(&rows).await, Verdict::AllThere);
    case.send_rows(&rows, &all).await;
    assert_eq!(case.stored(), (400, 200));
}

#[tokio::test]
async fn of_a_block_that_landed_in_part_exactly_the_rest_is_sent() {
    let case = case("window_part", 10);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..200).map(record));
    let landed: Vec<usize> = (0..200).filter(|row| row % 20 < 13).collect();
    case.send_rows(&rows, &landed).await;
    let Verdict::Send { rows: rest } = case.verify(&rows).await else {
        panic!("expected something to send");
    };
    let want: Vec<usize> = (0..200).filter(|row| row % 20 >= 13).collect();
    assert_eq!(rest, want);
    case.send_rows(&rows, &rest).await;
    assert_eq!(case.stored(), (200, 200));
    assert_eq!(case.verify(&rows).await, Verdict::AllThere);
}

#[tokio::test]
async fn a_part_of_a_block_is_known_by_the_token_of_the_whole() {
    let case = case("window_token", 1000);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..200).map(record));
    case.send_rows(&rows, &(0..200).collect::<Vec<_>>()).await;
    let some: Vec<usize> = (0..200).filter(|row| row % 20 < 4).collect();
    case.send_rows(&rows, &some).await;
    assert_eq!(case.stored(), (200, 200));
}

#[tokio::test]
async fn a_row_of_another_timestamp_is_not_taken_for_the_record() {
    let case = case("window_time", 10);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..20).map(record));
    case.run(&format!(
        "INSERT INTO {{}} SELECT number, 'old', '{TOPIC}', {PARTITION}, {START} + number, \
         fromUnixTimestamp64Milli(1600000000000 + number) FROM numbers(60)"
    ));
    let all = Verdict::Send {
        rows: (0..20).collect(),
    };
    assert_eq!(case.verify(&rows).await, all);
    case.send_rows(&rows, &(0..20).collect::<Vec<_>>()).await;
    assert_eq!(case.verify(&rows).await, Verdict::AllThere);
}

#[tokio::test]
async fn rows_of_another_partition_or_topic_are_not_the_ranges() {
    let case = case("window_other", 10);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..20).map(record));
    case.send_rows(&rows, &(0..20).collect::<Vec<_>>()).await;
    case.run("ALTER TABLE {} UPDATE _partition = 4 WHERE n % 2 = 0 SETTINGS mutations_sync = 1");
    case.run("ALTER TABLE {} UPDATE _topic = 'other' WHERE n % 3 = 0 SETTINGS mutations_sync = 1");
    let count = count_rows_of(
        &case.client,
        case.name(),
        &case.known_settings,
        TOPIC,
        PARTITION,
        (START, START + 1000),
    );
    // Of 0 to 19, those that are divided by neither 2 nor 3.
    assert_eq!(count.await.unwrap(), 7);
}

#[tokio::test]
async fn rows_are_counted_between_start_and_end() {
    let case = case("window_count", 10);
    let rows = case.rows((0..20).map(record));
    case.send_rows(&rows, &(0..20).collect::<Vec<_>>()).await;
    let count = async |start, end| {
        let name = case.name();
        count_rows_of(
            &case.client,
            name,
            &case.known_settings,
            TOPIC,
            PARTITION,
            (start, end),
        )
        .await
        .unwrap()
    };
    let middle = rows.offsets.offset_of(10).unwrap();
    assert_eq!(count(START, middle).await, 10);
    assert_eq!(count(middle, middle + 1).await, 1);
    assert_eq!(count(START + 500, START + 900).await, 0);
}

#[tokio::test]
async fn a_table_of_any_name_is_asked() {
    let database = Env::get().unwrap().database("window_name").unwrap();
    let engine = "ENGINE = MergeTree PARTITION BY `the 'site'` ORDER BY n";
    let columns = [("n", "UInt32"), ("the 'site'", "String")];
    let case = Case::named(database, "it's `a` t\\able?", &columns, engine);
    let record =
        |number: usize| format!(r#"{{"n": {number}, "the 'site'": "?'\\{}"}}"#, number % 4);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..40).map(record));
    let landed: Vec<usize> = (0..40).filter(|row| row % 4 == 1).collect();
    case.send_rows(&rows, &landed).await;
    let want = (0..40).filter(|row| row % 4 != 1).collect();
    assert_eq!(case.verify(&rows).await, Verdict::Send { rows: want });
}

#[tokio::test]
async fn two_hundred_thousand_rows_are_verified_in_seconds() {
    let engine = "ENGINE = MergeTree PARTITION BY (site, n % 10) ORDER BY n";
    let case = Case::new("window_many", &COLUMNS, engine);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..200_000).map(record));
    let landed: Vec<usize> = (0..200_000).filter(|row| row % 7 != 2).collect();
    case.send_rows(&rows, &landed).await;
    let started = Instant::now();
    let verdict = case.verify(&rows).await;
    let took = started.elapsed();
    println!("200,000 rows over 70 table partitions were verified in {took:?}");
    let want = (0..200_000).filter(|row| row % 7 == 2).collect();
    assert_eq!(verdict, Verdict::Send { rows: want });
    assert!(took.as_secs() < 60, "{took:?}");
}
