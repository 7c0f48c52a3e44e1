//! A sink in local mode with a topic and a database of its own.
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
use serde_json::{Value, json};

/// Long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(90);
/// The setting that makes a table know an INSERT again.
pub(crate) const WINDOW: &str = "non_replicated_deduplication_window";

/// A sink of `id` and `n`, keyed by `id`.
pub(crate) struct Scene {
    env: &'static Env,
    database: Database,
    topic: String,
    group: String,
    dir: PathBuf,
    producer: Producer,
    pub(crate) sink: SinkBuilder,
    produced: std::cell::Cell<u64>,
}

impl Scene {
    pub(crate) fn new(what: &str) -> Self {
        let env = Env::get().unwrap();
        let database = env.database(what).unwrap();
        let (topic, group) = (env.topic(what, 1).unwrap(), env.unique(what));
        let url = format!("http://{}", env.clickhouse().unwrap().address());
        let sink = SinkBuilder::new("events", &env.brokers, &topic, &url, database.name())
            .set("kafka.groupId", group.as_str())
            .set("batch.lingerMilliseconds", 100)
            .set("delivery.guarantee", "ExactlyOnce")
            .set("table.name", "events")
            .set("table.engine", json!({ "mergeTree": {} }))
            .set("table.orderBy", json!(["id"]))
            .set("table.columns", columns("UInt8"))
            .unset("table.partitionBy");
        Self {
            env,
            database,
            topic,
            group,
            dir: env.test_dir(what).unwrap(),
            producer: env.producer().unwrap(),
            sink,
            produced: std::cell::Cell::new(0),
        }
    }

    pub(crate) fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        self.sink = self.sink.set(path, value);
        self
    }

    pub(crate) fn query(&self, sql: &str) -> String {
        self.database.client().query(sql).unwrap()
    }

    pub(crate) fn start(&self) -> LocalProcess {
        LocalProcess::start(&self.dir, "local", &self.sink.yaml().unwrap(), &[]).unwrap()
    }

    /// Declares the sink otherwise from now on.
    pub(crate) fn rewrite(&mut self, local: &LocalProcess, sink: SinkBuilder) {
        self.sink = sink;
        local.rewrite(&self.sink.yaml().unwrap()).unwrap();
    }

    /// Produces records with these bodies: `"n": 1, "more": 2`.
    pub(crate) fn produce(&self, bodies: &[&str]) {
        for body in bodies {
            let number = self.produced.get();
            let record = format!(r#"{{"id": "{number:04}", {body}}}"#);
            self.producer.send_json(&self.topic, 0, &record).unwrap();
            self.produced.set(number + 1);
        }
        self.producer.flush().unwrap();
    }

    /// Waits until everything that was produced is committed.
    pub(crate) fn wait_done(&self) {
        let wanted = vec![Some(i64::try_from(self.produced.get()).unwrap())];
        eventually_eq(SOON, "committed offsets", &wanted, || {
            self.env.kafka().committed(&self.group, &self.topic)
        })
        .unwrap();
    }

    pub(crate) fn committed(&self) -> Option<i64> {
        self.env
            .kafka()
            .committed(&self.group, &self.topic)
            .unwrap()[0]
    }

    /// The `_offset`s in the table, in order.
    pub(crate) fn offsets(&self) -> String {
        self.query(
            "SELECT arrayStringConcat(arraySort(groupArray(toString(_offset))), ',') FROM events",
        )
    }

    /// A column as the server shows it: type, default, comment, codec.
    pub(crate) fn column(&self, name: &str) -> String {
        self.query(&format!(
            "SELECT concat(type, '|', default_expression, '|', comment, '|', compression_codec) FROM system.columns \
             WHERE database = currentDatabase() AND table = 'events' AND name = '{name}'"
        ))
    }
}

/// `id`, and `n` of a type.
pub(crate) fn columns(of_n: &str) -> Value {
    json!([{ "name": "id", "type": "String" }, { "name": "n", "type": of_n }])
}

/// Waits until what local mode has written from a place on holds all of these; gives it.
pub(crate) fn wait_log(local: &LocalProcess, from: usize, parts: &[&str]) -> String {
    eventually(SOON, &format!("the output says {parts:?}"), || {
        let log = local.program.log();
        let rest = log.get(from..).unwrap_or_default();
        for part in parts {
            ensure!(rest.contains(part), "{part} is not in {rest}");
        }
        Ok(rest.to_owned())
    })
    .unwrap()
}

/// Where the output ends now.
pub(crate) fn mark(local: &LocalProcess) -> usize {
    local.program.log().len()
}
