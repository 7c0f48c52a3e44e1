//! A sink with a topic, a database and a proxy of its own, and what tests ask about it.
//!
//! Must not be here: what a test expects.
#![allow(
    clippy::disallowed_methods,
    reason = "a test waits for what gives no sign, and names its topics by the wall clock"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clickhouse_sink_crds::api::ClickHouseSink;
use clickhouse_sink_crds::manifest::{Manifest, parse_manifests};
use clickhouse_sink_crds::resolve::{ResolveInputs, expected_table, rejected_table, resolve};
use clickhouse_sink_crds::worker_config::WorkerConfig;
use clickhouse_sink_operator::ddl::render_create_table;
use clickhouse_sink_tests::clickhouse::Database;
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::paths;
use clickhouse_sink_tests::process::managed_command;
use clickhouse_sink_tests::produce::{Producer, stat_event};
use clickhouse_sink_tests::programs::{LocalProcess, WorkerProcess};
use clickhouse_sink_tests::proxy::ClickHouseProxy;
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::{eventually, eventually_eq};
use serde_json::{Value, json};

/// Long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// A sink with what it works on; partitions start at 0.
pub(crate) struct Scene {
    pub(crate) env: &'static Env,
    pub(crate) database: Database,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) dir: PathBuf,
    pub(crate) proxy: ClickHouseProxy,
    pub(crate) sink: SinkBuilder,
}

impl Scene {
    /// A sink of a fresh topic; its batches wait 100 ms.
    pub(crate) fn new(what: &str, partitions: i32) -> Self {
        Self::of_topic(what, &Env::get().unwrap().topic(what, partitions).unwrap())
    }

    /// As [`Self::new`], of a topic that is there.
    pub(crate) fn of_topic(what: &str, topic: &str) -> Self {
        let env = Env::get().unwrap();
        let database = env.database(what).unwrap();
        let proxy = env.clickhouse_proxy().unwrap();
        let group = env.unique(what);
        let sink = SinkBuilder::new("events", &env.brokers, topic, &proxy.url(), database.name())
            .set("kafka.groupId", group.as_str())
            .set("batch.lingerMilliseconds", 100);
        let (topic, dir) = (topic.to_owned(), env.test_dir(what).unwrap());
        Self {
            env,
            database,
            topic,
            group,
            dir,
            proxy,
            sink,
        }
    }

    pub(crate) fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        self.sink = self.sink.set(path, value);
        self
    }

    /// Gives the sink's table these columns, keyed by the first.
    pub(crate) fn columns(self, columns: Value) -> Self {
        let key = columns[0]["name"].clone();
        let mut scene = self
            .set("table.columns", columns)
            .set("table.orderBy", json!([key]));
        scene.sink = scene
            .sink
            .set("table.engine", json!({ "mergeTree": {} }))
            .unset("table.partitionBy");
        scene
    }

    pub(crate) fn declared(&self) -> ClickHouseSink {
        let yaml = self.sink.yaml().unwrap();
        let manifests = parse_manifests(&yaml, "test.yaml").unwrap();
        let mut sinks = manifests.into_iter().filter_map(|manifest| match manifest {
            Manifest::Sink(sink) => Some(*sink),
            Manifest::Secret(_) => None,
        });
        sinks.next_back().unwrap()
    }

    pub(crate) fn config(&self) -> WorkerConfig {
        resolve(
            &self.declared(),
            &ResolveInputs {
                uid: self.group.clone(),
                ..ResolveInputs::default()
            },
        )
    }

    pub(crate) fn create_tables(&self) {
        let sink = self.declared();
        for table in [expected_table(&sink), rejected_table(&sink)] {
            self.query(&render_create_table(&table));
        }
    }

    /// Makes the tables where they are missing and starts a worker.
    pub(crate) fn start(&self) -> WorkerProcess {
        self.create_tables();
        self.start_with(&self.config())
    }

    pub(crate) fn start_with(&self, config: &WorkerConfig) -> WorkerProcess {
        WorkerProcess::start(&self.dir, "worker", config).unwrap()
    }

    /// A worker that has made its positions: what is produced from now on is read by it.
    pub(crate) fn start_reading(&self) -> WorkerProcess {
        let worker = self.start();
        self.wait_reading(&worker);
        worker
    }

    #[allow(clippy::unused_self, reason = "reads as what the scene does")]
    pub(crate) fn wait_reading(&self, worker: &WorkerProcess) {
        eventually(SOON, "every session runs", || {
            let state = worker.state()?;
            let sessions = state["sessions"].as_array().cloned().unwrap_or_default();
            let running = sessions.iter().all(|session| session["state"] == "Running");
            ensure!(!sessions.is_empty() && running, "{state}");
            Ok(())
        })
        .unwrap();
    }

    /// A worker with an account of its own.
    pub(crate) fn config_as(&self, (user, password): (&str, &str)) -> WorkerConfig {
        let folder = self.dir.join(format!("credentials-{user}-{password}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("username"), user).unwrap();
        std::fs::write(folder.join("password"), password).unwrap();
        let mut config = self.config();
        config.clickhouse.credentials_dir = Some(folder);
        config
    }

    pub(crate) fn local(&self, args: &[&str]) -> LocalProcess {
        self.local_on(&self.sink, args)
    }

    pub(crate) fn local_on(&self, sink: &SinkBuilder, args: &[&str]) -> LocalProcess {
        LocalProcess::start(&self.dir, "sink", &sink.yaml().unwrap(), args).unwrap()
    }

    pub(crate) fn producer(&self) -> Producer {
        self.env.producer().unwrap()
    }

    /// Produces texts to one partition, in order.
    pub(crate) fn produce<T: AsRef<[u8]>>(
        &self,
        partition: i32,
        payloads: impl IntoIterator<Item = T>,
    ) {
        let producer = self.producer();
        for payload in payloads {
            producer
                .send(&self.topic, partition, None, Some(payload.as_ref()))
                .unwrap();
        }
        producer.flush().unwrap();
    }

    /// Produces so many good events to partition 0.
    pub(crate) fn produce_events(&self, count: u64) {
        self.produce(0, (0..count).map(|index| stat_event(0, index)));
    }

    pub(crate) fn query(&self, sql: &str) -> String {
        self.database.client().query(sql).unwrap()
    }

    pub(crate) fn rows(&self, select: &str) -> Vec<Value> {
        self.database.client().rows(select).unwrap()
    }

    pub(crate) fn count(&self) -> u64 {
        self.database.client().count("vision_events").unwrap()
    }

    pub(crate) fn committed(&self) -> Vec<Option<i64>> {
        self.env
            .kafka()
            .committed(&self.group, &self.topic)
            .unwrap()
    }

    pub(crate) fn wait_count(&self, count: u64) {
        eventually_eq(SOON, "count()", &count, || {
            self.database.client().count("vision_events")
        })
        .unwrap();
    }

    pub(crate) fn wait_committed(&self, offsets: &[i64]) {
        let expected: Vec<Option<i64>> = offsets.iter().copied().map(Some).collect();
        eventually_eq(SOON, "committed offsets", &expected, || {
            self.env.kafka().committed(&self.group, &self.topic)
        })
        .unwrap();
    }

    /// INSERTs that went to the sink's table, in order.
    pub(crate) fn table_inserts(&self) -> Vec<clickhouse_sink_tests::proxy::Seen> {
        let inserts = self.proxy.inserts();
        inserts
            .into_iter()
            .filter(|seen| seen.statement.contains(".`vision_events` "))
            .collect()
    }

    /// INSERTs that went to the rejected table, in order.
    pub(crate) fn rejected_inserts(&self) -> Vec<clickhouse_sink_tests::proxy::Seen> {
        let inserts = self.proxy.inserts();
        inserts
            .into_iter()
            .filter(|seen| seen.statement.contains(".`vision_events_rejected` "))
            .collect()
    }

    pub(crate) fn wait_table_inserts(&self, at_least: usize) {
        eventually(SOON, "attempts to insert", || {
            let found = self.table_inserts().len();
            ensure!(found >= at_least, "{found} of {at_least}");
            Ok(())
        })
        .unwrap();
    }
}

/// Runs local mode to its end on a file of this text; gives its exit code and all that it wrote.
pub(crate) fn run_local(dir: &Path, name: &str, yaml: &str, args: &[&str]) -> (i32, String) {
    let file = dir.join(format!("{name}.yaml"));
    std::fs::write(&file, yaml).unwrap();
    let mut command = managed_command(paths::binary("clickhouse-sink-operator").unwrap());
    command.arg("local").arg("-f").arg(&file).args(args);
    command
        .arg("--state-dir")
        .arg(dir.join(format!("{name}-state")));
    let output = command.output().unwrap();
    let written = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(written).unwrap(),
    )
}

/// A metric of a worker, 0 where it has no sample yet.
pub(crate) fn metric(worker: &WorkerProcess, name: &str, labels: &[&str]) -> Result<f64> {
    Ok(worker
        .metrics()?
        .sum(&format!("clickhouse_sink_worker_{name}"), labels)
        .unwrap_or(0.0))
}

/// Waits until a worker is held (or a batch of it waits) for this reason; gives the hold.
pub(crate) fn wait_hold(worker: &WorkerProcess, reason: &str) -> Value {
    eventually(SOON, &format!("a hold {reason}"), || {
        let state = worker.state()?;
        let holds = state["holds"].as_array().cloned().unwrap_or_default();
        let found = holds.into_iter().find(|hold| hold["reason"] == reason);
        found.ok_or_else(|| anyhow::anyhow!("{state}"))
    })
    .unwrap()
}

/// Waits until `/readyz` answers 503 with a reason that holds this text; gives the reasons.
pub(crate) fn wait_not_ready(worker: &WorkerProcess, text: &str) -> String {
    eventually(SOON, &format!("not ready: {text}"), || {
        let answer = worker.get("/readyz")?;
        ensure!(
            answer.status == 503 && answer.text().contains(text),
            "{} {}",
            answer.status,
            answer.text()
        );
        Ok(answer.text())
    })
    .unwrap()
}

/// Upper-case hex as the server's `hex()` writes it.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02X}"))
}

/// A good event with one field replaced by raw JSON text.
pub(crate) fn event_with(id: &str, field: &str, json: &str) -> String {
    let mut event: Value = serde_json::from_str(&stat_event(0, 1)).unwrap();
    event["event_id"] = id.into();
    event[field] = "@".into();
    event.to_string().replace("\"@\"", json)
}
