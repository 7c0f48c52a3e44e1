//! Each record once, whatever dies: the crash points of the contract on the real components, on a plain table that
//! hides nothing.
//!
//! Here: what these scenarios share. Must not be here: scenarios; the other guarantee (`crash.rs`).

use std::collections::BTreeMap;

use anyhow::ensure;
use clickhouse_sink_crds::worker_config::{GroupProtocol, WorkerConfig};
use clickhouse_sink_tests::programs::WorkerProcess;
use clickhouse_sink_tests::proxy::{ApiKey, Fault, KafkaFault, KafkaProxy, On};
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::{eventually, eventually_eq};
use serde_json::{Value, json};

use crate::support::{SOON, Scene, metric, worker_config};

mod broker;
mod changed;
mod declared;
mod late;
mod members;
mod moved;
mod others;
mod sizes;
mod switched;
mod window;

/// A sink with ranges of three rows, its plain table, and the way its workers join the group.
pub(crate) struct Once {
    pub(crate) scene: Scene,
    pub(crate) sink: SinkBuilder,
    protocol: GroupProtocol,
}

impl Once {
    pub(crate) fn new(what: &str, partitions: i32, protocol: GroupProtocol) -> Self {
        let scene = Scene::new(what, partitions);
        let brokers = scene.env.brokers.clone();
        Self::with(scene, &brokers, protocol)
    }

    /// The same with a proxy before Kafka.
    pub(crate) fn proxied(
        what: &str,
        partitions: i32,
        protocol: GroupProtocol,
    ) -> (Self, KafkaProxy) {
        let scene = Scene::new(what, partitions);
        let kafka = scene.env.kafka_proxy().unwrap();
        let once = Self::with(scene, kafka.bootstrap(), protocol);
        (once, kafka)
    }

    fn with(scene: Scene, bootstrap: &str, protocol: GroupProtocol) -> Self {
        let sink = scene
            .sink_of_sets(bootstrap, 3)
            .set("delivery.guarantee", "ExactlyOnce")
            .set("table.engine", json!({ "mergeTree": {} }));
        Self {
            scene,
            sink,
            protocol,
        }
    }

    /// With another sink, before the table is made.
    pub(crate) fn change(mut self, change: impl FnOnce(SinkBuilder) -> SinkBuilder) -> Self {
        self.sink = change(self.sink);
        self
    }

    pub(crate) fn make_table(&self) {
        self.scene.make_table(&self.sink);
    }

    pub(crate) fn config(&self) -> WorkerConfig {
        let mut config = worker_config(&self.sink);
        config.kafka.group_protocol = self.protocol;
        config
    }

    pub(crate) fn worker(&self, name: &str) -> WorkerProcess {
        self.worker_on(name, &self.config())
    }

    pub(crate) fn worker_on(&self, name: &str, config: &WorkerConfig) -> WorkerProcess {
        WorkerProcess::start(&self.scene.dir, name, config).unwrap()
    }

    /// Offset and declared ends of each partition, as the group's commits say.
    pub(crate) fn plans(&self) -> Vec<(i64, Vec<i64>)> {
        let metadata = self.scene.metadata().into_iter();
        metadata.map(|it| (it.offset, it.ends)).collect()
    }

    /// Waits until every position exists and the plans are these.
    pub(crate) fn wait_plans(&self, expected: &[(i64, &[i64])]) {
        let expected: Vec<(i64, Vec<i64>)> = expected
            .iter()
            .map(|(offset, ends)| (*offset, ends.to_vec()))
            .collect();
        eventually_eq(SOON, "plans", &expected, || {
            let all_made = self.scene.committed().iter().all(Option::is_some);
            ensure!(all_made, "not every position is made");
            let ours = self.scene.try_metadata()?.into_iter();
            Ok(ours.map(|it| (it.offset, it.ends)).collect())
        })
        .unwrap();
    }

    /// How often the INSERT of each range (`partition/start-end`) was sent.
    pub(crate) fn sent(&self) -> BTreeMap<String, usize> {
        let mut sent = BTreeMap::new();
        for insert in self.scene.proxy.inserts() {
            let Some(token) = insert.param("insert_deduplication_token") else {
                continue;
            };
            let range: Vec<&str> = token.rsplitn(3, '/').take(2).collect();
            *sent
                .entry(format!("{}/{}", range[1], range[0]))
                .or_default() += 1;
        }
        sent
    }

    pub(crate) fn ranges_sent(&self) -> Vec<String> {
        self.sent().into_keys().collect()
    }

    /// INSERTs of which the server has dropped a block because it knew their token.
    pub(crate) fn inserts_dropped(&self) -> u64 {
        let client = self.scene.client();
        client.flush_logs().unwrap();
        let table = format!("{}.vision_events", self.scene.database.name());
        client
            .scalar(&format!(
                "SELECT countIf(ProfileEvents['DuplicatedInsertedBlocks'] > 0) FROM system.query_log \
                 WHERE type = 'QueryFinish' AND query_kind = 'Insert' AND has(tables, '{table}')"
            ))
            .unwrap()
    }

    /// Every produced record is in the table, and no record twice.
    pub(crate) fn assert_each_once(&self, produced: u64) {
        let select =
            "SELECT count() AS rows, uniqExact(_partition, _offset) AS offsets FROM vision_events";
        let found = self.scene.client().rows(select).unwrap();
        assert_eq!(found, [json!({ "rows": produced, "offsets": produced })]);
    }

    /// A worker on this configuration brings the group to these offsets, with nothing declared, and ends in order.
    pub(crate) fn finish_on(&self, name: &str, config: &WorkerConfig, offsets: &[i64]) {
        let mut worker = self.worker_on(name, config);
        let expected: Vec<(i64, &[i64])> = offsets.iter().map(|it| (*it, &[][..])).collect();
        self.wait_plans(&expected);
        assert_eq!(worker.program.term_and_wait(SOON).unwrap(), 0);
    }

    pub(crate) fn finish(&self, name: &str, offsets: &[i64]) {
        self.finish_on(name, &self.config(), offsets);
    }

    /// A worker declares and sends `[0, 3)` of partition 0, this becomes of its INSERTs, and it is killed. `landed`: the
    /// rows are in the table by then.
    pub(crate) fn kill_in_insert(&self, fault: Fault, landed: bool) {
        self.scene.proxy.set_on(fault, On::Inserts);
        self.scene.produce_stats(0, 0, 3);
        let mut worker = self.worker("killed");
        self.scene.wait_inserts(1);
        if landed {
            self.scene.wait_rows(3);
        }
        worker.program.kill().unwrap();
        self.scene.proxy.pass();
        assert_eq!(self.plans()[0], (0, vec![3]));
        assert_eq!(self.scene.rows_in_table(), if landed { 3 } else { 0 });
    }
}

impl Scene {
    pub(crate) fn rows_in_table(&self) -> u64 {
        self.client().count("vision_events").unwrap()
    }
}

/// Waits until commits are kept by the proxy, kills the worker, and lets everything pass once its connections are gone.
pub(crate) fn kill_with_kept_commit(kafka: &KafkaProxy, worker: &mut WorkerProcess) {
    let kept = || Ok(kafka.held(ApiKey::OFFSET_COMMIT) > 0);
    eventually_eq(SOON, "a commit is kept", &true, kept).unwrap();
    worker.program.kill().unwrap();
    let kept = || Ok(kafka.held(ApiKey::OFFSET_COMMIT));
    eventually_eq(SOON, "kept commits", &0, kept).unwrap();
    kafka.set(KafkaFault::Pass);
}

pub(crate) fn wait_hold(worker: &WorkerProcess, reason: &str) -> Value {
    let held = || {
        let state = worker.state()?;
        let holds = state["holds"].as_array().cloned().unwrap_or_default();
        let hold = holds.into_iter().find(|hold| hold["reason"] == reason);
        ensure!(hold.is_some(), "{state}");
        Ok(hold.unwrap_or_default())
    };
    eventually(SOON, &format!("held with {reason}"), held).unwrap()
}

pub(crate) fn wait_metric(worker: &WorkerProcess, name: &str, at_least: u64) {
    let found = || {
        let value = metric(worker, name)?;
        ensure!(value >= at_least, "{value}");
        Ok(())
    };
    eventually(SOON, &format!("{name} is {at_least}"), found).unwrap();
}
