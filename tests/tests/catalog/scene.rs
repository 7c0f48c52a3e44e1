//! Sinks in local mode on a topic and a database of their own.
//!
//! Must not be here: what a test expects.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clickhouse_sink_tests::clickhouse::Database;
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::produce::Producer;
use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::{eventually, eventually_eq};
use serde_json::json;

/// Long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(90);

pub(crate) struct Scene {
    pub(crate) env: &'static Env,
    pub(crate) database: Database,
    topic: String,
    dir: PathBuf,
    producer: Producer,
    pub(crate) sink: SinkBuilder,
    produced: std::cell::Cell<u64>,
}

impl Scene {
    pub(crate) fn new(what: &str) -> Self {
        let env = Env::get().unwrap();
        let database = env.database(what).unwrap();
        let topic = env.topic(what, 1).unwrap();
        let url = format!("http://{}", env.clickhouse().unwrap().address());
        let sink = build_sink("events", env, &topic, &url, database.name());
        Self {
            env,
            database,
            topic,
            dir: env.test_dir(what).unwrap(),
            producer: env.producer().unwrap(),
            sink,
            produced: std::cell::Cell::new(0),
        }
    }

    /// A sink of another name and group on the same topic and table.
    pub(crate) fn another(&self, name: &str) -> SinkBuilder {
        let url = format!("http://{}", self.env.clickhouse().unwrap().address());
        build_sink(name, self.env, &self.topic, &url, self.database.name())
    }

    pub(crate) fn query(&self, sql: &str) -> String {
        self.database.client().query(sql).unwrap()
    }

    /// Runs local mode with a state folder of that name.
    pub(crate) fn start(&self, name: &str, sinks: &[&SinkBuilder]) -> LocalProcess {
        LocalProcess::start(&self.dir, name, &yaml(sinks), &[]).unwrap()
    }

    pub(crate) fn produce(&self, count: u64) {
        for _ in 0..count {
            let number = self.produced.get();
            let record = format!(r#"{{"id": "{number:06}", "n": {number}}}"#);
            self.producer.send_json(&self.topic, 0, &record).unwrap();
            self.produced.set(number + 1);
        }
        self.producer.flush().unwrap();
    }

    /// Every record that was produced is a row, once.
    pub(crate) fn expect_all(&self) {
        let rows = || self.database.client().count("events");
        eventually_eq(SOON, "rows", &self.produced.get(), rows).unwrap();
    }

    /// Rows of the catalog about a name.
    pub(crate) fn rows(&self, name: &str) -> u64 {
        let from = format!("clickhouse_sink_catalog WHERE name = '{name}' AND kind != 'topic'");
        self.database.client().count(&from).unwrap()
    }

    pub(crate) fn wait_rows(&self, name: &str, count: u64) {
        eventually(SOON, &format!("{count} rows about {name}"), || {
            let from = format!("clickhouse_sink_catalog WHERE name = '{name}' AND kind != 'topic'");
            let found = self.database.client().count(&from)?;
            ensure!(found == count, "there are {found}");
            Ok(())
        })
        .unwrap();
    }

    pub(crate) fn comment(&self, table: &str) -> String {
        self.query(&format!(
            "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = '{table}' FORMAT TSVRaw"
        ))
    }

    pub(crate) fn tables(&self) -> String {
        self.query(
            "SELECT arrayStringConcat(groupArray(name), ',') FROM (SELECT name FROM system.tables \
             WHERE database = currentDatabase() AND name != 'clickhouse_sink_catalog' ORDER BY name)",
        )
    }
}

fn build_sink(name: &str, env: &Env, topic: &str, url: &str, database: &str) -> SinkBuilder {
    SinkBuilder::new(name, &env.brokers, topic, url, database)
        .set("kafka.groupId", env.unique(name))
        .set("batch.lingerMilliseconds", 100)
        .set("delivery.guarantee", "ExactlyOnce")
        .set("table.name", "events")
        .set("table.engine", json!({ "mergeTree": {} }))
        .set("table.orderBy", json!(["id"]))
        .set(
            "table.columns",
            json!([{ "name": "id", "type": "String" }, { "name": "n", "type": "UInt32" }]),
        )
        .set("table.recheckPeriodSeconds", 1)
        .unset("table.partitionBy")
}

/// The documents of some sinks as one file.
pub(crate) fn yaml(sinks: &[&SinkBuilder]) -> String {
    let texts: Vec<_> = sinks.iter().map(|sink| sink.yaml().unwrap()).collect();
    texts.join("---\n")
}

/// Waits until what local mode has written holds all of these.
pub(crate) fn wait_log(local: &LocalProcess, from: usize, parts: &[&str]) {
    eventually(SOON, &format!("the output says {parts:?}"), || {
        let log = local.program.log();
        let rest = log.get(from..).unwrap_or_default();
        for part in parts {
            ensure!(rest.contains(part), "{part} is not in {rest}");
        }
        Ok(())
    })
    .unwrap();
}

/// Where the output ends now.
pub(crate) fn mark(local: &LocalProcess) -> usize {
    local.program.log().len()
}
