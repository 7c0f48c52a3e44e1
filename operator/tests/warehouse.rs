//! The warehouse port and the DDL text against a real ClickHouse.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use clickhouse_sink_crds::check::check_table;
use clickhouse_sink_crds::table::{ColumnDefinition, Engine, TableDefinition};
use clickhouse_sink_operator::ddl::{DdlStep, render_create_table};
use clickhouse_sink_operator::sql::{render_identifier, render_literal};
use clickhouse_sink_operator::warehouse::{Account, ClickHouse, Warehouse as _, WarehouseError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use uuid::Uuid;

fn url() -> String {
    std::env::var("CLICKHOUSE_URL").expect("CLICKHOUSE_URL is not set: run cargo xtask test")
}

fn warehouse() -> ClickHouse {
    ClickHouse::new(&url(), None)
}

/// A database of this test's own, dropped at its end.
struct Scratch {
    database: String,
}

impl Scratch {
    async fn new() -> Self {
        let database = format!("operator_{}", Uuid::new_v4().simple());
        warehouse()
            .apply_statement(&format!("CREATE DATABASE {database}"))
            .await
            .unwrap();
        Self { database }
    }

    async fn drop(self) {
        warehouse()
            .apply_statement(&format!("DROP DATABASE {} SYNC", self.database))
            .await
            .unwrap();
    }
}

fn column(
    name: &str,
    data_type: &str,
    default: Option<&str>,
    comment: Option<&str>,
) -> ColumnDefinition {
    ColumnDefinition {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        default: default.map(str::to_owned),
        comment: comment.map(str::to_owned),
        codec: None,
    }
}

fn table(database: &str, name: &str, columns: Vec<ColumnDefinition>) -> TableDefinition {
    TableDefinition {
        database: database.to_owned(),
        name: name.to_owned(),
        engine: Engine::MergeTree,
        columns,
        order_by: Vec::new(),
        indexes: Vec::new(),
        cluster: None,
        partition_by: None,
        ttl: None,
        settings: BTreeMap::from([(
            "non_replicated_deduplication_window".to_owned(),
            "100000".to_owned(),
        )]),
    }
}

#[tokio::test]
async fn the_server_tells_its_version_and_what_is_missing() {
    assert!(warehouse().fetch_version().await.unwrap().contains('.'));
    assert!(
        !warehouse()
            .fetch_database_exists("no such 'database`")
            .await
            .unwrap()
    );
    assert_eq!(
        warehouse()
            .fetch_table("no such 'database`", "x")
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn a_created_table_reads_back_as_it_was_declared() {
    let scratch = Scratch::new().await;
    let mut wanted = table(
        &scratch.database,
        "events",
        vec![
            column("event_id", "String", None, None),
            column("ts", "DateTime64(3, 'UTC')", None, Some("event time")),
            column("version", "UInt32", None, None),
            column(
                "status",
                "LowCardinality(String)",
                Some("'raised'"),
                Some("it's"),
            ),
        ],
    );
    wanted.engine = Engine::ReplacingMergeTree {
        version_column: "version".to_owned(),
    };
    wanted.order_by = vec!["ts".to_owned(), "event_id".to_owned()];
    wanted.partition_by = Some("toYYYYMM(ts)".to_owned());
    wanted.ttl = Some("ts + toIntervalDay(400)".to_owned());
    let step = DdlStep::CreateTable {
        definition: Box::new(wanted),
        comment: Some("it's".to_owned()),
    };
    warehouse().apply_statement(&step.render()).await.unwrap();
    warehouse().apply_statement(&step.render()).await.unwrap();
    let found = warehouse()
        .fetch_table(&scratch.database, "events")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.comment, "it's");
    assert_eq!(found.engine, "ReplacingMergeTree");
    assert_eq!(found.sorting_key, "ts, event_id");
    assert_eq!(found.partition_key, "toYYYYMM(ts)");
    assert!(
        found.engine_full.contains("TTL ts + toIntervalDay(400)"),
        "{}",
        found.engine_full
    );
    assert!(
        found
            .engine_full
            .contains("non_replicated_deduplication_window = 100000"),
        "{}",
        found.engine_full
    );
    let status = &found.columns[3];
    assert_eq!(
        (
            status.default_kind.as_str(),
            status.default_expression.as_str(),
            status.comment.as_str()
        ),
        ("DEFAULT", "'raised'", "it's")
    );
    scratch.drop().await;
}

#[tokio::test]
async fn columns_named_like_keywords_can_be_keys() {
    let scratch = Scratch::new().await;
    for name in [
        "true", "null", "index", "from", "select", "interval", "offset",
    ] {
        let mut wanted = table(
            &scratch.database,
            name,
            vec![column(name, "String", None, None)],
        );
        wanted.order_by = vec![name.to_owned()];
        warehouse()
            .apply_statement(&render_create_table(&wanted))
            .await
            .unwrap();
        let found = warehouse()
            .fetch_table(&scratch.database, name)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(check_table(&wanted, &found), Vec::new(), "{name}");
    }
    scratch.drop().await;
}

#[test]
fn hostile_names_and_comments_reach_the_server_as_they_are() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scratch = runtime.block_on(Scratch::new());
    let database = scratch.database.clone();
    let hostile = "[a`'\"\\\\;\\n\\t\\r \\x00-éü—😀(){}$#-]{1,12}";
    let mut runner = TestRunner::new(Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&(hostile, hostile), |(name, comment)| {
            let id = Uuid::new_v4().simple().to_string();
            let mut wanted = table(
                &database,
                &id,
                vec![column(&name, "String", None, Some(&comment))],
            );
            wanted.order_by = vec![name.clone()];
            let found = runtime.block_on(async {
                warehouse()
                    .apply_statement(&render_create_table(&wanted))
                    .await
                    .unwrap();
                warehouse()
                    .fetch_table(&database, &id)
                    .await
                    .unwrap()
                    .unwrap()
            });
            let quoted = render_identifier(&name);
            wanted.order_by = vec![
                runtime
                    .block_on(warehouse().fetch_canonical(&quoted))
                    .unwrap()
                    .unwrap(),
            ];
            prop_assert_eq!(found.columns.len(), 1);
            prop_assert_eq!(&found.columns[0].name, &name);
            prop_assert_eq!(&found.columns[0].comment, &comment);
            let blocking: Vec<_> = check_table(&wanted, &found)
                .into_iter()
                .filter(|one| one.blocks_writes)
                .collect();
            prop_assert_eq!(blocking, Vec::new());
            Ok(())
        })
        .unwrap();
    runtime.block_on(scratch.drop());
}

#[test]
fn any_text_reaches_the_server_as_a_literal_and_as_a_value() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&any::<String>(), |text| {
            let literal = render_literal(&text);
            let seen = runtime
                .block_on(warehouse().fetch_constant(&literal, "String"))
                .unwrap()
                .unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&seen).unwrap(), text.clone());
            let canonical = runtime
                .block_on(warehouse().fetch_canonical(&literal))
                .unwrap()
                .unwrap();
            let again = runtime
                .block_on(warehouse().fetch_constant(&canonical, "String"))
                .unwrap()
                .unwrap();
            prop_assert_eq!(seen, again);
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn expressions_become_canonical_and_everything_else_is_refused() {
    let canonical = async |text: &str| warehouse().fetch_canonical(text).await.unwrap();
    assert_eq!(
        canonical("ts+INTERVAL 400 DAY").await.unwrap(),
        "ts + toIntervalDay(400)"
    );
    assert_eq!(canonical("toYYYYMM( ts )").await.unwrap(), "toYYYYMM(ts)");
    assert_eq!(canonical("(a,b)").await.unwrap(), "(a, b)");
    for text in [
        "1 FROM t", "SELECT 1", "1 AS x", "a DESC", "1), (2", "", "f(",
    ] {
        assert!(canonical(text).await.is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_default_is_a_constant_of_its_type_or_the_server_says_why_not() {
    let constant = async |text: &str, data_type: &str| {
        warehouse().fetch_constant(text, data_type).await.unwrap()
    };
    for (text, data_type, json) in [
        ("'raised'", "LowCardinality(String)", "\"raised\""),
        ("1 + 1", "UInt8", "2"),
        ("NULL", "Nullable(String)", "null"),
        ("'18446744073709551616'", "UInt128", "18446744073709551616"),
        (
            "toDateTime64('2026-01-02 03:04:05.678', 3, 'UTC')",
            "DateTime64(3, 'Asia/Tokyo')",
            "\"2026-01-02T03:04:05.678Z\"",
        ),
        ("[1, 2]", "Array(UInt8)", "[1,2]"),
        ("map('a', 1)", "Map(String, UInt8)", "{\"a\":1}"),
        ("'a'", "Enum8('a' = 1, 'b' = 2)", "\"a\""),
        ("true", "Bool", "true"),
        ("1.25", "Decimal(9, 2)", "1.25"),
    ] {
        assert_eq!(
            constant(text, data_type).await.as_deref(),
            Ok(json),
            "{text} {data_type}"
        );
    }
    for (text, data_type, why) in [
        ("300", "UInt8", "UInt8"),
        ("'x'", "UInt32", "UInt32"),
        ("status", "String", "status"),
        ("rand()", "UInt32", "not the same"),
        ("no_such_function(1)", "String", "no_such_function"),
    ] {
        let said = constant(text, data_type).await.unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[tokio::test]
async fn a_wrong_password_says_so_without_the_password() {
    let account = Account {
        username: "nobody".to_owned(),
        password: "hunter2-secret".to_owned().into(),
    };
    let error = ClickHouse::new(&url(), Some(&account))
        .fetch_version()
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "ClickHouseUnauthenticated");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(error.to_string().contains("nobody"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let error = ClickHouse::new("http://127.0.0.1:1", None)
        .fetch_version()
        .await
        .unwrap_err();
    assert!(
        matches!(&error, WarehouseError::Unreachable { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("refused"), "{error}");
}
