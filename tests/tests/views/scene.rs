//! Sinks in local mode with a flat view, on a topic and a database of their own.
//!
//! Must not be here: what a test expects.
#![allow(
    clippy::disallowed_methods,
    reason = "what must not happen is watched for a while"
)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clickhouse_sink_tests::clickhouse::Database;
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::produce::Producer;
use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::eventually;
use serde_json::{Value, json};

/// Long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// A sink of `id`, `version` and `n`, replaced by version, with a view `flat`.
pub(crate) struct Scene {
    pub(crate) env: &'static Env,
    pub(crate) database: Database,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) producer: Producer,
    dir: PathBuf,
    pub(crate) sink: SinkBuilder,
}

impl Scene {
    pub(crate) fn new(what: &str, partitions: i32) -> Self {
        let env = Env::get().unwrap();
        let database = env.database(what).unwrap();
        let (topic, group) = (env.topic(what, partitions).unwrap(), env.unique(what));
        let url = format!("http://{}", env.clickhouse().unwrap().address());
        let sink = SinkBuilder::new("events", &env.brokers, &topic, &url, database.name())
            .set("kafka.groupId", group.as_str())
            .set("batch.lingerMilliseconds", 100)
            .set("delivery.guarantee", "ExactlyOnce")
            .set("table.name", "events")
            .set("table.orderBy", json!(["id"]))
            .set("table.columns", columns(&[]))
            .set("table.recheckPeriodSeconds", 1)
            .set("flatView", json!({ "name": "flat" }))
            .unset("table.partitionBy");
        Self {
            env,
            database,
            topic,
            group,
            producer: env.producer().unwrap(),
            dir: env.test_dir(what).unwrap(),
            sink,
        }
    }

    pub(crate) fn query(&self, sql: &str) -> String {
        self.database.client().query(sql).unwrap()
    }

    /// Runs local mode on a sink, with a state folder of that name.
    pub(crate) fn start(&self, name: &str, sink: &SinkBuilder) -> LocalProcess {
        LocalProcess::start(&self.dir, name, &sink.yaml().unwrap(), &[]).unwrap()
    }

    /// The sink with another name and group, which reads the same topic into another table.
    pub(crate) fn another(&self, name: &str) -> SinkBuilder {
        let group = format!("{}-{name}", self.group);
        let url = format!("http://{}", self.env.clickhouse().unwrap().address());
        SinkBuilder::new(
            name,
            &self.env.brokers,
            &self.topic,
            &url,
            self.database.name(),
        )
        .set("kafka.groupId", group.as_str())
        .set("batch.lingerMilliseconds", 100)
        .set("table.name", name)
        .set("table.orderBy", json!(["id"]))
        .set("table.columns", columns(&[]))
        .set("table.recheckPeriodSeconds", 1)
        .set("flatView", json!({ "name": "flat" }))
        .unset("table.partitionBy")
    }

    /// Comment of the view.
    pub(crate) fn comment(&self) -> String {
        self.query("SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = 'flat' FORMAT TSVRaw")
    }

    /// Columns of the view.
    pub(crate) fn columns(&self) -> String {
        self.query(
            "SELECT arrayStringConcat(groupArray(name), ',') FROM (SELECT name FROM system.columns \
             WHERE database = currentDatabase() AND table = 'flat' ORDER BY position)",
        )
    }

    pub(crate) fn wait_columns(&self, wanted: &str) {
        eventually(SOON, &format!("the view's columns are {wanted}"), || {
            let found = self.columns();
            ensure!(found == wanted, "they are {found}");
            Ok(())
        })
        .unwrap();
    }

    /// The comment does not change for so long.
    pub(crate) fn assert_quiet(&self, time: Duration) {
        let (before, until) = (self.comment(), Instant::now() + time);
        while Instant::now() < until {
            assert_eq!(self.comment(), before);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn produce(&self, partition: i32, record: &str) {
        self.producer
            .send_json(&self.topic, partition, record)
            .unwrap();
    }
}

/// `id`, `version`, `n`, and more.
pub(crate) fn columns(more: &[Value]) -> Value {
    let mut all = vec![
        json!({ "name": "id", "type": "String" }),
        json!({ "name": "version", "type": "UInt32" }),
        json!({ "name": "n", "type": "UInt32" }),
    ];
    all.extend(more.iter().cloned());
    Value::Array(all)
}

/// A view of these columns.
pub(crate) fn view(names: &[&str]) -> Value {
    let columns: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    json!({ "name": "flat", "columns": columns })
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
