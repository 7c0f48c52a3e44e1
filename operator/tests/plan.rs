//! The command `plan` against a real ClickHouse: both forms, what it finds, and that it makes nothing.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::process::{Command, Output};

use clickhouse_sink_operator::warehouse::{ClickHouse, Warehouse as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// A file of its own, and a database of its own, which goes with it.
struct Paper {
    folder: TempDir,
    database: String,
}

fn url() -> String {
    std::env::var("CLICKHOUSE_URL").expect("CLICKHOUSE_URL is not set: run cargo xtask test")
}

fn run_statement(sql: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let warehouse = ClickHouse::new(&url(), None);
    runtime.block_on(warehouse.apply_statement(sql)).unwrap();
}

fn document(database: &str, name: &str, partition_by: &str) -> String {
    format!(
        "apiVersion: clickhouse-sink.io/v1alpha1
kind: ClickHouseSink
metadata: {{ name: {name}, namespace: test }}
spec:
  kafka: {{ bootstrapServers: ['127.0.0.1:1'], topics: [events] }}
  clickhouse: {{ url: '{}', database: {database} }}
  table:
    name: {name}
    engine: {{ mergeTree: {{}} }}
    partitionBy: {partition_by}
    orderBy: [id]
    columns: [{{ name: id, type: UInt64 }}, {{ name: ts, type: DateTime }}]
",
        url()
    )
}

impl Paper {
    fn new(partition_by: &str) -> Self {
        let paper = Self {
            folder: tempfile::tempdir().unwrap(),
            database: format!("plan_{}", Uuid::new_v4().simple()),
        };
        let text = document(&paper.database, "events", partition_by);
        fs::write(paper.folder.path().join("sink.yaml"), text).unwrap();
        paper
    }

    fn run(&self, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_clickhouse-sink-operator"))
            .args(["plan", "-f"])
            .arg(self.folder.path().join("sink.yaml"))
            .args(more)
            .output()
            .unwrap()
    }

    fn text(&self) -> (Option<i32>, String) {
        let output = self.run(&[]);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        (
            output.status.code(),
            text.replace(&self.database, "DATABASE"),
        )
    }

    fn json(&self) -> (Option<i32>, Value) {
        let output = self.run(&["--output", "json"]);
        (
            output.status.code(),
            serde_json::from_slice(&output.stdout).unwrap(),
        )
    }

    fn has_database(&self) -> bool {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let warehouse = ClickHouse::new(&url(), None);
        runtime
            .block_on(warehouse.fetch_database_exists(&self.database))
            .unwrap()
    }
}

impl Drop for Paper {
    fn drop(&mut self) {
        // Where it is not set, the test has failed with that message already.
        if std::env::var("CLICKHOUSE_URL").is_ok() {
            run_statement(&format!("DROP DATABASE IF EXISTS {} SYNC", self.database));
        }
    }
}

/// Of each statement the first line, and without the revision, which is a hash of the whole configuration.
fn outline(text: &str) -> String {
    let is_inside = |line: &&str| line.starts_with("    ") && !line.starts_with("    CREATE ");
    let lines = text.lines().filter(|line| !is_inside(line));
    let lines = lines.map(|line| match line.rsplit_once(' ') {
        Some((before, _)) if line.starts_with("workers: ") => format!("{before} REVISION\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[test]
fn a_plan_shows_its_steps_with_their_sql_and_makes_nothing() {
    let paper = Paper::new("toYYYYMM(ts)");
    let (code, text) = paper.text();
    assert_eq!(code, Some(0), "{text}");
    insta::assert_snapshot!("steps", outline(&text));
    let (code, plans) = paper.json();
    assert_eq!(code, Some(0), "{plans}");
    let plan = &plans["plans"][0];
    assert_eq!(plan["sink"], "test/events");
    assert_eq!(plan["outcome"], "Planned");
    assert_eq!(plan["steps"].as_array().unwrap().len(), 3, "{plan}");
    assert!(
        plan["steps"][1]["sql"]
            .as_str()
            .unwrap()
            .starts_with("CREATE TABLE "),
        "{plan}"
    );
    assert_eq!(plan["workers"]["replicas"], 1);
    let members: Vec<&String> = plan.as_object().unwrap().keys().collect();
    let stable = [
        "held",
        "message",
        "outcome",
        "reason",
        "sink",
        "steps",
        "violations",
        "warnings",
        "workers",
    ];
    assert_eq!(members, stable);
    assert!(!paper.has_database());
    assert_eq!(fs::read_dir(paper.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_table_that_is_not_as_declared_is_held_with_its_remedy_and_ends_with_five() {
    let paper = Paper::new("toYYYYMM(ts)");
    let database = &paper.database;
    run_statement(&format!("CREATE DATABASE {database}"));
    run_statement(&format!(
        "CREATE TABLE {database}.events (id UInt8, ts DateTime) ENGINE = MergeTree ORDER BY id"
    ));
    let (code, text) = paper.text();
    assert_eq!(code, Some(5), "{text}");
    for part in [
        "held: partition key\n",
        "    expected: toYYYYMM(ts)\n",
        "    remedy:   ",
        "workers: none ",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let (code, plans) = paper.json();
    assert_eq!(
        (code, &plans["plans"][0]["outcome"]),
        (Some(5), &json!("Held")),
        "{plans}"
    );
    let held = plans["plans"][0]["held"].as_array().unwrap();
    for member in ["subject", "expected", "found", "remedy"] {
        assert!(held.iter().all(|held| held[member].is_string()), "{held:?}");
    }
    assert_eq!(plans["plans"][0]["workers"], Value::Null);
}

#[test]
fn an_expression_that_clickhouse_cannot_read_is_invalid_and_the_other_sink_is_planned() {
    let paper = Paper::new("toYYYYMM(ts) +");
    let file = paper.folder.path().join("sink.yaml");
    let first = fs::read_to_string(&file).unwrap();
    let second = document(&paper.database, "others", "toYYYYMM(ts)");
    fs::write(&file, format!("{first}---\n{second}")).unwrap();
    let (code, text) = paper.text();
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.starts_with("# test/others\n1. create database "),
        "{text}"
    );
    assert!(
        text.contains("\ntest/events: spec.table.partitionBy: "),
        "{text}"
    );
    let (code, plans) = paper.json();
    assert_eq!(code, Some(2), "{plans}");
    let plan = &plans["plans"][0];
    assert_eq!(
        (&plan["outcome"], &plan["reason"]),
        (&json!("Invalid"), &json!("InvalidSpec"))
    );
    assert_eq!(plan["violations"][0]["path"], "spec.table.partitionBy");
    assert_eq!(plans["plans"][1]["outcome"], "Planned");
}
