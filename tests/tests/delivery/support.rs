//! What the scenarios share: a topic, a table and a group of their own, and the sink between them.
//!
//! Must not be here: scenarios.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clickhouse_sink_crds::commit::CommitMetadata;
use clickhouse_sink_crds::manifest::{Manifest, parse_manifests};
use clickhouse_sink_crds::resolve::{ResolveInputs, resolve};
use clickhouse_sink_crds::worker_config::WorkerConfig;
use clickhouse_sink_tests::clickhouse::{ClickHouseClient, Database};
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::produce::{Producer, produce_night_shift, stat_event};
use clickhouse_sink_tests::programs::{LocalProcess, WorkerProcess};
use clickhouse_sink_tests::proxy::{ClickHouseProxy, Seen};
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::{eventually, eventually_eq};
use serde_json::{Value, json};

/// What becomes true, does so within this time, on a machine that is busy with other things too.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// A topic, a table, a group and the servers between which a sink stands.
pub(crate) struct Scene {
    pub(crate) env: &'static Env,
    pub(crate) database: Database,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) dir: PathBuf,
    pub(crate) proxy: ClickHouseProxy,
    pub(crate) producer: Producer,
}

impl Scene {
    pub(crate) fn new(what: &str, partitions: i32) -> Self {
        let env = Env::get().unwrap();
        Self {
            env,
            database: env.database(what).unwrap(),
            topic: env.topic(what, partitions).unwrap(),
            group: env.unique(what),
            dir: env.test_dir(what).unwrap(),
            proxy: env.clickhouse_proxy().unwrap(),
            producer: env.producer().unwrap(),
        }
    }

    /// A sink from the topic to the table, through the proxy of `ClickHouse`.
    pub(crate) fn sink(&self) -> SinkBuilder {
        self.sink_through(&self.env.brokers)
    }

    /// The same, through a proxy of Kafka too.
    pub(crate) fn sink_through(&self, bootstrap: &str) -> SinkBuilder {
        SinkBuilder::new(
            "scenario",
            bootstrap,
            &self.topic,
            &self.proxy.url(),
            self.database.name(),
        )
        .set("kafka.groupId", self.group.as_str())
        .set("kafka.properties", properties(&[]))
    }

    /// A sink that cuts one set of exactly so many rows, as long as no more are there.
    pub(crate) fn sink_of_sets(&self, bootstrap: &str, rows: u32) -> SinkBuilder {
        self.sink_through(bootstrap)
            .set("batch.maxRows", rows)
            .set("batch.lingerMilliseconds", 600_000)
    }

    /// Has the operator make the tables; parts are not merged, so that copies stay to be counted.
    pub(crate) fn make_table(&self, sink: &SinkBuilder) {
        let code = LocalProcess::once(&self.dir, "make_table", &sink.yaml().unwrap()).unwrap();
        assert_eq!(
            code,
            0,
            "the log is {}",
            self.dir.join("make_table.log").display()
        );
        self.stop_merges();
    }

    /// Has the operator make the table of another sink in the same database.
    pub(crate) fn make_table_of(&self, sink: &SinkBuilder) {
        let code = LocalProcess::once(&self.dir, "make_other", &sink.yaml().unwrap()).unwrap();
        assert_eq!(code, 0);
    }

    pub(crate) fn stop_merges(&self) {
        self.client()
            .query(&format!(
                "SYSTEM STOP MERGES {}.vision_events",
                self.database.name()
            ))
            .unwrap();
    }

    pub(crate) fn client(&self) -> &ClickHouseClient {
        self.database.client()
    }

    pub(crate) fn worker(&self, name: &str, sink: &SinkBuilder) -> WorkerProcess {
        WorkerProcess::start(&self.dir, name, &worker_config(sink)).unwrap()
    }

    pub(crate) fn produce_night_shift(&self) {
        produce_night_shift(&self.producer, &self.topic).unwrap();
    }

    /// Produces stat events `from..to` to a partition.
    pub(crate) fn produce_stats(&self, partition: i32, from: u64, to: u64) {
        (from..to).for_each(|index| {
            self.producer
                .send_json(&self.topic, partition, &stat_event(partition, index))
                .unwrap();
        });
        self.producer.flush().unwrap();
    }

    pub(crate) fn committed(&self) -> Vec<Option<i64>> {
        self.env
            .kafka()
            .committed(&self.group, &self.topic)
            .unwrap()
    }

    pub(crate) fn lags(&self) -> Vec<i64> {
        self.env.kafka().lags(&self.group, &self.topic).unwrap()
    }

    /// Waits until the group stands exactly there.
    pub(crate) fn wait_committed(&self, offsets: &[i64]) {
        let expected: Vec<Option<i64>> = offsets.iter().copied().map(Some).collect();
        eventually_eq(SOON, "committed offsets", &expected, || {
            self.env.kafka().committed(&self.group, &self.topic)
        })
        .unwrap();
    }

    /// Waits until nobody is in the group: its offsets can be moved then.
    pub(crate) fn wait_empty_group(&self) {
        let members = || self.env.kafka().group_members(&self.group);
        eventually_eq(SOON, "members", &Vec::<String>::new(), members).unwrap();
    }

    /// What the group's commits say about each partition.
    pub(crate) fn metadata(&self) -> Vec<CommitMetadata> {
        self.try_metadata().unwrap()
    }

    /// The same, where a position may still be somebody else's.
    pub(crate) fn try_metadata(&self) -> Result<Vec<CommitMetadata>> {
        let offsets = self.env.kafka().group_offsets(&self.group, &self.topic)?;
        let parsed = offsets
            .iter()
            .map(|offset| CommitMetadata::parse(offset.metadata.as_bytes()));
        Ok(parsed.collect::<Result<_, _>>()?)
    }

    /// `count()` and `count() … FINAL`.
    pub(crate) fn rows(&self) -> (u64, u64) {
        let count = |from: &str| self.client().count(from).unwrap();
        (count("vision_events"), count("vision_events FINAL"))
    }

    pub(crate) fn wait_rows(&self, rows: u64) {
        eventually_eq(SOON, "rows", &rows, || self.client().count("vision_events")).unwrap();
    }

    /// Waits until `ClickHouse` (or its proxy) has been sent so many INSERTs.
    pub(crate) fn wait_inserts(&self, count: usize) -> Vec<Seen> {
        let sent = || {
            let inserts = self.proxy.inserts();
            ensure!(inserts.len() >= count, "{} INSERTs", inserts.len());
            Ok(inserts)
        };
        eventually(SOON, &format!("{count} INSERTs"), sent).unwrap()
    }

    /// What the alert that was acknowledged reads as.
    pub(crate) fn acknowledged_alert(&self) -> Value {
        let select = "SELECT version, status FROM vision_events FINAL WHERE event_id = 'evt-a1'";
        let rows = self.client().rows(select).unwrap();
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.into_iter().next().unwrap()
    }

    /// Fails where an offset is committed and a record before it is not in the table.
    pub(crate) fn assert_committed_is_inserted(&self) {
        // The offsets first: the table may only be ahead of them.
        let committed: Vec<i64> = self.committed().iter().map(|it| it.unwrap_or(0)).collect();
        let before = committed.iter().enumerate().map(|(partition, offset)| {
            format!("uniqExactIf(_offset, _partition = {partition} AND _offset < {offset})")
        });
        let columns: Vec<String> = before.collect();
        let select = format!("SELECT [{}] FROM vision_events", columns.join(", "));
        let inserted = self.client().query(&select).unwrap();
        let inserted: Vec<i64> = serde_json::from_str(&inserted).unwrap();
        assert_eq!(inserted, committed, "records before each committed offset");
    }
}

/// librdkafka settings of the scenarios: a member that is gone is missed soon. `others` come on top.
pub(crate) fn properties(others: &[(&str, &str)]) -> Value {
    let mut all = json!({
        "session.timeout.ms": "4000",
        "heartbeat.interval.ms": "500",
        "topic.metadata.refresh.interval.ms": "1000",
    });
    for (name, value) in others {
        all[*name] = json!(value);
    }
    all
}

/// What a worker of the sink runs on.
pub(crate) fn worker_config(sink: &SinkBuilder) -> WorkerConfig {
    let manifests = parse_manifests(&sink.yaml().unwrap(), "scenario.yaml").unwrap();
    let is_sink = |manifest| match manifest {
        Manifest::Sink(sink) => Some(sink),
        Manifest::Secret(_) => None,
    };
    let sink = manifests.into_iter().find_map(is_sink).unwrap();
    resolve(
        &sink,
        &ResolveInputs {
            uid: "scenario".to_owned(),
            ..ResolveInputs::default()
        },
    )
}

/// Records that a worker has read so far.
pub(crate) fn records_read(worker: &WorkerProcess) -> Result<u64> {
    metric(worker, "records_read_total")
}

/// A metric of the worker's own, whole and over all labels.
pub(crate) fn metric(worker: &WorkerProcess, name: &str) -> Result<u64> {
    let sum = worker
        .metrics()?
        .sum(&format!("clickhouse_sink_worker_{name}"), &[]);
    // Counts are far below the limit of whole numbers in a float.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(sum.unwrap_or(0.0) as u64)
}

pub(crate) fn wait_read(worker: &WorkerProcess, records: u64) {
    eventually_eq(SOON, "records read", &records, || records_read(worker)).unwrap();
}

/// Lets time pass in which nothing is to be seen.
pub(crate) fn pause(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::thread::park_timeout(end.saturating_duration_since(Instant::now()));
    }
}
