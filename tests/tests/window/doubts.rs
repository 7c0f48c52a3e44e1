//! Tables and moments in which "nothing found" proves nothing: nothing may be sent then.
//!
//! Must not be here: what is sent where nothing stands against it (`ranges.rs`).

use clickhouse_sink_crds::commit::Epoch;
use clickhouse_sink_tests::clickhouse::{ClickHouseClient, Database};
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::stack::clickhouse::{ClickHouse, FILTERED};
use clickhouse_sink_worker::batch::Rows;
use clickhouse_sink_worker::insert::class::FailureClass;
use clickhouse_sink_worker::verify::{Verdict, count_rows_of};

use crate::support::{Case, PARTITION, START, TOPIC, unprovable, worker_client};

const COLUMNS: [(&str, &str); 3] = [
    ("n", "UInt32"),
    ("site", "String"),
    ("ts", "DateTime('UTC')"),
];

fn record(number: usize) -> String {
    let site = if number.is_multiple_of(2) {
        "seen"
    } else {
        "hidden"
    };
    format!(r#"{{"n": {number}, "site": "{site}", "ts": "2100-01-01 00:00:00"}}"#)
}

/// A table of two table partitions, one of which has its rows of the range; a row before the range is there.
async fn half_landed(engine: &str) -> (Case, Rows) {
    let case = Case::new("window_doubt", &COLUMNS, engine);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..20).map(record));
    case.send_rows(&rows, &(0..20).step_by(2).collect::<Vec<_>>())
        .await;
    (case, rows)
}

fn plain(settings: &str) -> String {
    format!("ENGINE = MergeTree PARTITION BY site ORDER BY n SETTINGS {settings}")
}

const BARE: &str = "ENGINE = MergeTree PARTITION BY site ORDER BY n";

/// Nothing is sent, for this reason; and where all is there, nothing is asked of the reason.
async fn check_doubt(case: &Case, rows: &Rows, reason: &str) {
    let (declared, found, missing, message) = unprovable(case.verify(rows).await);
    assert_eq!((declared, found, missing), (20, 10, 10), "{message}");
    assert!(message.contains(reason), "{message}");
    assert!(
        message.contains(&format!("{TOPIC}/{PARTITION} offsets {START} to ")),
        "{message}"
    );
    case.send_rows(rows, &(1..20).step_by(2).collect::<Vec<_>>())
        .await;
    assert_eq!(case.verify(rows).await, Verdict::AllThere);
}

fn odd_rows() -> Verdict {
    Verdict::Send {
        rows: (1..20).step_by(2).collect(),
    }
}

#[tokio::test]
async fn without_a_doubt_the_other_half_is_sent() {
    let (case, rows) = half_landed(BARE).await;
    assert_eq!(case.verify(&rows).await, odd_rows());
}

#[tokio::test]
async fn engines_that_take_rows_away() {
    for engine in [
        "ReplacingMergeTree",
        "SummingMergeTree",
        "AggregatingMergeTree",
        "CoalescingMergeTree",
    ] {
        let (case, rows) =
            half_landed(&format!("ENGINE = {engine} PARTITION BY site ORDER BY n")).await;
        check_doubt(
            &case,
            &rows,
            &format!("the engine {engine} takes rows away"),
        )
        .await;
    }
}

#[tokio::test]
async fn an_engine_without_table_partitions() {
    let case = Case::new("window_memory", &COLUMNS, "ENGINE = Memory");
    let rows = case.rows((0..20).map(record));
    let (declared, found, missing, message) = unprovable(case.verify(&rows).await);
    assert_eq!((declared, found, missing), (20, 0, 20));
    assert!(
        message.contains("the engine Memory has no table partitions"),
        "{message}"
    );
}

#[tokio::test]
async fn a_ttl_of_rows_but_not_one_that_moves_parts() {
    let (case, rows) = half_landed(&format!("{BARE} TTL ts + INTERVAL 1 DAY")).await;
    check_doubt(&case, &rows, "the table has a TTL").await;
    let (case, rows) = half_landed(&format!("{BARE} TTL ts TO VOLUME 'default'")).await;
    assert_eq!(case.verify(&rows).await, odd_rows());
}

#[tokio::test]
async fn a_mutation_since_the_declaration_but_not_one_before() {
    let (mut case, rows) = half_landed(BARE).await;
    case.run("ALTER TABLE {} DELETE WHERE n = 4 SETTINGS mutations_sync = 1");
    let mutated_at: u64 = case
        .database
        .client()
        .scalar(&format!(
            "SELECT max(toUnixTimestamp(create_time)) FROM system.mutations WHERE database = '{}'",
            case.database.name()
        ))
        .unwrap();
    // A minute more, for clocks.
    case.declared_at_s = Some(mutated_at + 61);
    assert_eq!(case.verify(&rows).await, odd_rows());
    case.declared_at_s = Some(mutated_at + 60);
    let (_, found, _, message) = unprovable(case.verify(&rows).await);
    assert_eq!(found, 9);
    assert!(message.contains("(mutations mutation_"), "{message}");
}

#[tokio::test]
async fn a_lightweight_delete_whose_rows_are_still_counted_as_there() {
    let (case, rows) = half_landed(BARE).await;
    case.run("DELETE FROM {} WHERE site = 'seen' AND n < 20");
    check_doubt(&case, &rows, "rows were changed or deleted since").await;
}

#[tokio::test]
async fn a_lightweight_update_that_is_no_mutation() {
    let on = "enable_block_number_column = 1, enable_block_offset_column = 1";
    let (case, rows) = half_landed(&plain(on)).await;
    case.run(
        "DELETE FROM {} WHERE n = 4 SETTINGS lightweight_delete_mode = 'lightweight_update_force'",
    );
    check_doubt(&case, &rows, "lightweight updates").await;
}

#[tokio::test]
async fn a_position_that_was_moved() {
    let (mut case, rows) = half_landed(BARE).await;
    case.epoch = Epoch::new("0123456789abcdef", true).unwrap();
    check_doubt(&case, &rows, "the position was moved before this range").await;
}

#[tokio::test]
async fn a_range_of_which_nobody_knows_when_it_was_declared() {
    let (mut case, rows) = half_landed(BARE).await;
    case.declared_at_s = None;
    check_doubt(&case, &rows, "not known when the range was declared").await;
}

#[tokio::test]
async fn a_partition_of_which_nothing_before_the_range_is_seen() {
    let case = Case::new("window_witness", &COLUMNS, BARE);
    let rows = case.rows((0..20).map(record));
    let (declared, found, missing, message) = unprovable(case.verify(&rows).await);
    assert_eq!((declared, found, missing), (20, 0, 20));
    assert!(
        message.contains("no row of this partition before the range is seen"),
        "{message}"
    );
    case.send_rows(&rows, &(0..20).step_by(2).collect::<Vec<_>>())
        .await;
    check_doubt(&case, &rows, "no row of this partition before the range").await;
}

#[tokio::test]
async fn rows_without_metadata_columns() {
    let (case, _) = half_landed(BARE).await;
    let case = case.without_metadata();
    let rows = case.rows((0..20).map(record));
    let (declared, found, missing, message) = unprovable(case.verify(&rows).await);
    assert_eq!((declared, found, missing), (20, 0, 20));
    assert!(message.contains("no metadata columns"), "{message}");
}

#[tokio::test]
async fn a_row_policy_that_hides_rows_from_the_sink() {
    let env = Env::get().unwrap();
    let server = ClickHouse::start(&env.test_dir("window_policy").unwrap()).unwrap();
    let client = ClickHouseClient::new(&server.url()).unwrap();
    let database = Database::create(&client, FILTERED.database).unwrap();
    let case = Case::named(database, FILTERED.table, &COLUMNS, BARE);
    case.acknowledge_before(record(0)).await;
    let rows = case.rows((0..20).map(record));
    case.send_rows(&rows, &(0..20).collect::<Vec<_>>()).await;
    assert_eq!(case.verify(&rows).await, Verdict::AllThere);
    // The same rows, asked for by a user from whom a policy hides the half of them.
    let (name, password) = FILTERED.user;
    let filtered = worker_client(case.database.client(), case.database.name())
        .with_user(name)
        .with_password(password);
    let (declared, found, missing, message) = unprovable(case.verify_as(&filtered, &rows).await);
    assert_eq!((declared, found, missing), (20, 10, 10));
    assert!(
        message.contains("holds 21 rows and this user sees 11"),
        "{message}"
    );
}

#[tokio::test]
async fn a_table_that_is_gone_or_a_column_that_is_missing_is_no_answer() {
    let (case, rows) = half_landed(BARE).await;
    case.run("DROP TABLE {} SYNC");
    let count = async || {
        let name = case.name();
        let offsets = (START, START + 1);
        count_rows_of(
            &case.client,
            name,
            &case.known_settings,
            TOPIC,
            PARTITION,
            offsets,
        )
        .await
    };
    assert_eq!(count().await.unwrap_err().class, FailureClass::TableCheck);
    case.run("CREATE TABLE {} (n UInt32) ENGINE = MergeTree ORDER BY n");
    assert_eq!(count().await.unwrap_err().code, Some(47));
    drop(rows);
}
