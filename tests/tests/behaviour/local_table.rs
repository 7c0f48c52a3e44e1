//! Local mode and the tables: what `auto`, `validate` and `none` do, and the exit codes of `--once`.

use std::path::PathBuf;

use clickhouse_sink_tests::clickhouse::Database;
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::stack::clickhouse::{READER, WRITER};
use serde_json::json;

use crate::support::run_local;

/// A declaration that no worker runs on.
struct Paper {
    env: &'static Env,
    database: Database,
    dir: PathBuf,
    sink: SinkBuilder,
}

impl Paper {
    fn new(what: &str) -> Self {
        let env = Env::get().unwrap();
        let database = env.database(what).unwrap();
        let url = format!("http://{}", env.clickhouse().unwrap().address());
        let sink = SinkBuilder::new("events", &env.brokers, "never-read", &url, database.name());
        Self {
            env,
            dir: env.test_dir(what).unwrap(),
            database,
            sink,
        }
    }

    fn tables(&self) -> String {
        self.query("SELECT arrayStringConcat(groupArray(name), ',') FROM (SELECT name FROM system.tables WHERE database = currentDatabase() AND name != 'clickhouse_sink_catalog' ORDER BY name)")
    }

    fn query(&self, sql: &str) -> String {
        self.database.client().query(sql).unwrap()
    }

    /// Runs `--once`; the exit code and all that was written.
    fn once(&self, yaml: &str) -> (i32, String) {
        self.run(yaml, &["--once"])
    }

    fn run(&self, yaml: &str, args: &[&str]) -> (i32, String) {
        // One place for all runs: the tables of another one would be refused.
        run_local(&self.dir, "once", yaml, args)
    }
}

fn columns() -> serde_json::Value {
    json!([
        { "name": "event_id", "type": "String" },
        { "name": "ts", "type": "DateTime64(3,'UTC')" },
        { "name": "version", "type": "UInt32" },
        { "name": "status", "type": "LowCardinality(String)", "default": "'raised'", "comment": "raised, or acknowledged; it's one" },
        { "name": "zone", "type": "Nullable(FixedString(2))", "from": "location.zone" },
    ])
}

#[test]
fn local_makes_the_table_as_it_is_declared_and_a_second_run_changes_nothing() {
    let paper = Paper::new("local_table");
    let sink = paper
        .sink
        .clone()
        .set("table.columns", columns())
        .set("table.orderBy", json!(["ts", "event_id"]));
    let sink = sink
        .set("table.ttl", "ts + INTERVAL 400 DAY")
        .set("table.partitionBy", "toYYYYMM( ts )");
    let sink = sink.set(
        "table.settings",
        json!({ "min_age_to_force_merge_seconds": "3600", "merge_with_ttl_timeout": "7200" }),
    );
    let yaml = sink
        .set("deadLetter.table.name", "bad_ones")
        .yaml()
        .unwrap();
    let (code, log) = paper.once(&yaml);
    let database = paper.database.name();
    assert_eq!(code, 0, "{log}");
    assert!(
        log.contains(&format!(
            "default/events: create table {database}.vision_events: done"
        )),
        "{log}"
    );
    assert_eq!(paper.tables(), "bad_ones,vision_events");
    let expected = format!(
        "CREATE TABLE {database}.vision_events\n(\n    `event_id` String,\n    `ts` DateTime64(3, 'UTC'),\n    `version` UInt32,\n    \
         `status` LowCardinality(String) DEFAULT 'raised' COMMENT 'raised, or acknowledged; it\\'s one',\n    \
         `zone` Nullable(FixedString(2)),\n    `_topic` LowCardinality(String) COMMENT 'Kafka topic of the record',\n    \
         `_partition` UInt32 COMMENT 'Kafka partition of the record',\n    `_offset` UInt64 COMMENT 'Kafka offset of the record',\n    \
         `_timestamp` DateTime64(3, 'UTC') COMMENT 'Kafka timestamp of the record'\n)\nENGINE = ReplacingMergeTree(version)\n\
         PARTITION BY toYYYYMM(ts)\nORDER BY (ts, event_id)\nTTL ts + toIntervalDay(400)\n\
         SETTINGS merge_with_ttl_timeout = 7200, min_age_to_force_merge_seconds = 3600, non_replicated_deduplication_window = 100000, \
         index_granularity = 8192"
    );
    let shown = paper.query("SHOW CREATE TABLE vision_events FORMAT TSVRaw");
    let (created, owner) = shown.split_once("\nCOMMENT '").unwrap();
    assert_eq!(created, expected);
    assert!(owner.contains("default/events"), "{owner}");
    let rejected = paper.query("SHOW CREATE TABLE bad_ones FORMAT TSVRaw");
    assert!(rejected.contains("ENGINE = ReplacingMergeTree(rejected_at)\nORDER BY (topic, topic_id, partition, offset, epoch, kind)"), "{rejected}");
    let uuids = "SELECT groupArray(uuid) FROM (SELECT uuid FROM system.tables WHERE database = currentDatabase() AND name != 'clickhouse_sink_catalog' ORDER BY name)";
    let before = paper.query(uuids);
    let (code, log) = paper.once(&yaml);
    assert_eq!(
        (code, log.trim()),
        (0, "default/events: tables are as declared")
    );
    assert_eq!(paper.query(uuids), before);
}

#[test]
fn local_makes_the_database_that_is_missing() {
    let paper = Paper::new("local_database");
    let name = paper.env.unique("made_by_local");
    let (code, log) = paper.once(
        &paper
            .sink
            .clone()
            .set("clickhouse.database", name.as_str())
            .yaml()
            .unwrap(),
    );
    assert_eq!(code, 0, "{log}");
    assert_eq!(
        paper.query(&format!(
            "SELECT count() FROM system.tables WHERE database = '{name}' AND name != 'clickhouse_sink_catalog'"
        )),
        "2"
    );
    paper.query(&format!("DROP DATABASE {name} SYNC"));
}

#[test]
fn a_plain_merge_tree_without_a_key_is_made_without_metadata_columns_where_they_are_off() {
    let paper = Paper::new("local_plain");
    let sink = paper
        .sink
        .clone()
        .set("table.engine", json!({ "mergeTree": {} }))
        .set("table.metadataColumns.mode", "None");
    let (code, log) = paper.once(
        &sink
            .unset("table.orderBy")
            .unset("table.partitionBy")
            .yaml()
            .unwrap(),
    );
    assert_eq!(code, 0, "{log}");
    let create = paper.query("SHOW CREATE TABLE vision_events FORMAT TSVRaw");
    assert!(
        create.contains("ENGINE = MergeTree\nORDER BY tuple()\nSETTINGS"),
        "{create}"
    );
    assert!(!create.contains("_offset"), "{create}");
}

#[test]
fn validate_makes_nothing_and_says_which_statement_would_make_it() {
    let paper = Paper::new("local_validate");
    let yaml = paper
        .sink
        .clone()
        .set("table.ddl", "validate")
        .yaml()
        .unwrap();
    let (code, log) = paper.once(&yaml);
    assert_eq!((code, paper.tables().as_str()), (5, ""), "{log}");
    assert!(
        log.contains("TableNotAsDeclared") && log.contains("create it: CREATE TABLE IF NOT EXISTS"),
        "{log}"
    );
    assert_eq!(paper.once(&paper.sink.yaml().unwrap()).0, 0);
    assert_eq!(paper.once(&yaml).0, 0);
}

#[test]
fn a_table_of_another_shape_is_told_and_never_touched() {
    let paper = Paper::new("local_differs");
    let declared = "(event_id String, site LowCardinality(String), camera LowCardinality(String), app LowCardinality(String), kind UInt8, \
        ts DateTime64(3, 'UTC'), version UInt32)";
    paper.query(&format!("CREATE TABLE vision_events {declared} ENGINE = ReplacingMergeTree(version) ORDER BY (site, ts)"));
    let before = paper.query("SHOW CREATE TABLE vision_events FORMAT TSVRaw");
    for mode in ["auto", "validate"] {
        let (code, log) = paper.once(&paper.sink.clone().set("table.ddl", mode).yaml().unwrap());
        assert_eq!(code, 5, "{log}");
        for part in [
            "kind: expected LowCardinality(String), found UInt8",
            "sorting key: expected",
            "partition key: expected",
            "status",
        ] {
            assert!(log.contains(part), "{part} is not in {log}");
        }
    }
    assert_eq!(
        paper.query("SHOW CREATE TABLE vision_events FORMAT TSVRaw"),
        before
    );
}

#[test]
fn without_ddl_nothing_is_made_and_nothing_is_checked() {
    let paper = Paper::new("local_none");
    let (code, log) = paper.once(&paper.sink.clone().set("table.ddl", "none").yaml().unwrap());
    assert_eq!((code, paper.tables().as_str()), (0, ""), "{log}");
}

#[test]
fn a_file_that_is_wrong_ends_with_2_and_every_mistake_with_its_place_and_remedy() {
    let paper = Paper::new("local_invalid");
    let yaml = "apiVersion: clickhouse-sink.io/v1alpha1\nkind: ClickHouseSink\nmetadata: { name: events }\nspec:\n  replica: 2\n  kafka:\n    \
        bootstrapServers: [\"k:9092\"]\n    topics: [a]\n    properties: { enable.auto.commit: \"true\" }\n  clickhouse: { url: \"http://c:8123\", database: d }\n  \
        table:\n    name: t\n    engine: { mergeTree: {} }\n    columns:\n      - { name: a, type: Strin }\n      - name: b\n        type: Date\n        unit: Weeks\n";
    let (code, log) = paper.once(yaml);
    assert_eq!(code, 2, "{log}");
    assert!(log.contains("yaml:5:3: spec.replica: expected a known field, found `replica`; did you mean `replicas`?"), "{log}");
    assert!(
        log.contains("yaml:18:9: spec.table.columns[1].unit: expected one of"),
        "{log}"
    );
    let mended = yaml
        .replace("  replica: 2\n", "")
        .replace("        unit: Weeks\n", "");
    let (code, log) = paper.once(&mended);
    assert_eq!(code, 2, "{log}");
    assert!(
        log.contains("yaml:14:20: spec.table.columns[0].type: ") && log.contains("String"),
        "{log}"
    );
    assert!(
        log.contains(
            "yaml:8:5: spec.kafka.properties: `properties` must not set what the worker owns"
        ),
        "{log}"
    );
    for (broken, part) in [
        ("spec: [", "expected YAML, found an error"),
        ("", "found none"),
        ("kind: Pod\n", "expected kind `ClickHouseSink`"),
    ] {
        let (code, log) = paper.once(broken);
        assert!(code == 2 && log.contains(part), "{code} {log}");
    }
    assert_eq!(paper.tables(), "");
}

#[test]
fn a_default_or_key_that_the_server_refuses_ends_with_2_and_the_servers_words() {
    let paper = Paper::new("local_refused");
    let mut columns = columns();
    columns[2]["default"] = json!("'many'");
    let (code, log) = paper.once(
        &paper
            .sink
            .clone()
            .set("table.columns", columns)
            .set("table.orderBy", json!(["event_id"]))
            .yaml()
            .unwrap(),
    );
    assert_eq!(code, 2, "{log}");
    assert!(
        log.contains("spec.table.columns[2].default: expected a constant of type UInt32"),
        "{log}"
    );
    let (code, log) = paper.once(
        &paper
            .sink
            .clone()
            .set("table.partitionBy", "noSuchFunction(ts) +")
            .yaml()
            .unwrap(),
    );
    assert_eq!(code, 2, "{log}");
    assert!(log.contains("spec.table.partitionBy"), "{log}");
    assert_eq!(paper.tables(), "");
}

#[test]
fn a_server_that_cannot_be_reached_or_refuses_the_account_ends_with_4_and_no_secret_is_shown() {
    let paper = Paper::new("local_unreachable");
    let (code, log) = paper.once(
        &paper
            .sink
            .clone()
            .set("clickhouse.url", "http://127.0.0.1:9")
            .yaml()
            .unwrap(),
    );
    assert_eq!(code, 4, "{log}");
    assert!(
        log.contains("ClickHouseUnreachable") && log.contains("http://127.0.0.1:9"),
        "{log}"
    );
    let wrong = paper
        .sink
        .clone()
        .credentials("account", (WRITER.0, "wrong-password"));
    let (code, log) = paper.once(&wrong.yaml().unwrap());
    assert_eq!(code, 4, "{log}");
    assert!(
        log.contains("ClickHouseUnauthenticated") && !log.contains("wrong-password"),
        "{log}"
    );
    let reader = paper.sink.clone().credentials("account", READER);
    let (code, log) = paper.once(&reader.yaml().unwrap());
    assert_eq!(code, 4, "{log}");
    assert!(log.contains("ClickHouseAccessDenied"), "{log}");
    let (code, log) = paper.run(&wrong.yaml().unwrap(), &["--startup-timeout", "2"]);
    assert_eq!(code, 4, "{log}");
    assert_eq!(paper.tables(), "");
}

#[test]
fn a_secret_that_is_not_in_the_files_is_named() {
    let paper = Paper::new("local_no_secret");
    let sink = paper.sink.clone().set(
        "clickhouse.credentialsSecretRef",
        json!({ "name": "nowhere" }),
    );
    let (code, log) = paper.once(&sink.yaml().unwrap());
    assert_eq!(code, 2, "{log}");
    assert!(
        log.contains("spec.clickhouse.credentialsSecretRef") && log.contains("nowhere"),
        "{log}"
    );
}
