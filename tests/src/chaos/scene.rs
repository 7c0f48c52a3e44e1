//! What a run works on: servers of its own, a topic, a plain table, a view that sums, and the workers' configuration.
//!
//! Must not be here: what is done to them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clickhouse_sink_crds::commit::CommitMetadata;
use clickhouse_sink_crds::worker_config::{GroupProtocol, WorkerConfig};
use serde_json::json;

use super::{CLASSIC_SESSION, Options};
use crate::clickhouse::ClickHouseClient;
use crate::kafka::KafkaAdmin;
use crate::programs::LocalProcess;
use crate::run;
use crate::sink::SinkBuilder;
use crate::stack::clickhouse::ClickHouse;
use crate::stack::kafka::Kafka;

/// Partitions of the topic.
pub(crate) const PARTITIONS: i32 = 8;
/// Table partitions that the rows fall into; each block touches all of them.
pub(crate) const BUCKETS: u64 = 4;
/// Ids from here on belong to aborted records.
pub(crate) const ABORTED_FROM: u64 = 1 << 40;
/// The window of a table that is made for a sink.
pub(crate) const WINDOW: u32 = 100_000;

/// Topic, group and database: the servers are the run's own.
pub(crate) const NAME: &str = "chaos";
/// The sink's table.
pub(crate) const TABLE: &str = "records";

/// `ClickHouse` and Kafka of this run alone: they are killed on the way.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) clickhouse: ClickHouse,
    pub(crate) kafka: Kafka,
    pub(crate) run_dir: PathBuf,
}

impl Servers {
    pub(crate) fn start() -> Result<Self> {
        let run_dir = run::create_run()?;
        let mut kafka = Kafka::launch(&run_dir.join("kafka"))?;
        let clickhouse = ClickHouse::start(&run_dir.join("clickhouse"))?;
        kafka.wait_until_ready()?;
        Ok(Self {
            clickhouse,
            kafka,
            run_dir,
        })
    }
}

/// Topic, tables, and how workers reach them.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Client of the server itself, with the run's database.
    pub(crate) clickhouse: ClickHouseClient,
    pub(crate) kafka: KafkaAdmin,
    /// Folder of the workers' files and logs.
    pub(crate) dir: PathBuf,
}

impl Scene {
    /// Makes topic, tables and view.
    pub(crate) fn prepare(servers: &Servers) -> Result<Self> {
        let dir = servers.run_dir.join("workers");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let clickhouse = ClickHouseClient::new(&servers.clickhouse.url())?;
        clickhouse.query(&format!("CREATE DATABASE {NAME}"))?;
        let kafka = KafkaAdmin::new(&servers.kafka.brokers());
        kafka.create_topic(NAME, PARTITIONS, &[])?;
        let scene = Self {
            clickhouse: clickhouse.in_database(NAME),
            kafka,
            dir,
        };
        scene.make_tables(&servers.clickhouse.url())?;
        Ok(scene)
    }

    fn make_tables(&self, url: &str) -> Result<()> {
        let sink = build_sink(self.kafka.brokers(), url, GroupProtocol::Classic);
        let code = LocalProcess::once(&self.dir, "make_table", &sink.yaml()?)?;
        let log = self.dir.join("make_table.log");
        ensure!(code == 0, "the table was not made: {}", log.display());
        // The view's own window makes its total exact: a part that landed before a crash is known to it too.
        self.clickhouse.query(&format!(
            "CREATE TABLE totals (bucket UInt8, records UInt64, checksum UInt64) ENGINE = SummingMergeTree \
             ORDER BY bucket SETTINGS non_replicated_deduplication_window = {WINDOW}"
        ))?;
        self.clickhouse.query(&format!(
            "CREATE MATERIALIZED VIEW totals_view TO totals AS SELECT bucket, count() AS records, \
             sum(cityHash64(id)) AS checksum FROM {TABLE} GROUP BY bucket"
        ))?;
        Ok(())
    }

    /// Gives the table another window.
    pub(crate) fn set_window(&self, entries: u32) -> Result<()> {
        let setting = "non_replicated_deduplication_window";
        self.clickhouse
            .query(&format!(
                "ALTER TABLE {TABLE} MODIFY SETTING {setting} = {entries}"
            ))
            .map(drop)
    }
}

/// What a worker runs on that reaches Kafka and `ClickHouse` there.
pub(crate) fn worker_config(bootstrap: &str, url: &str, options: &Options) -> Result<WorkerConfig> {
    let mut config = build_sink(bootstrap, url, options.protocol).worker_config()?;
    config.delivery.guarantee = options.guarantee;
    config.kafka.group_protocol = options.protocol;
    config.batch.max_inserts_per_second = 20;
    Ok(config)
}

fn build_sink(bootstrap: &str, url: &str, protocol: GroupProtocol) -> SinkBuilder {
    let columns = json!([
        { "name": "id", "type": "UInt64" },
        { "name": "bucket", "type": "UInt8" },
        { "name": "note", "type": "String" },
    ]);
    let session = CLASSIC_SESSION.as_millis().to_string();
    let properties = match protocol {
        GroupProtocol::Classic => {
            json!({ "session.timeout.ms": session, "heartbeat.interval.ms": "500" })
        }
        // There the broker says.
        GroupProtocol::Consumer => json!({}),
    };
    SinkBuilder::new(NAME, bootstrap, NAME, url, NAME)
        .set("kafka.groupId", NAME)
        .set("kafka.properties", properties)
        .set("table.name", TABLE)
        .set("table.engine", json!({ "mergeTree": {} }))
        .set("table.partitionBy", "bucket")
        .set("table.orderBy", json!(["id"]))
        .set("table.columns", columns)
        .set("batch.maxRows", 2_000)
        .set("batch.lingerMilliseconds", 250)
        .set("delivery.insertTimeoutSeconds", 20)
        .set("shutdown.finalFlushTimeoutSeconds", 5)
        .set("workers.memoryBudget", "64Mi")
}

/// One record.
pub(crate) fn render_record(id: u64) -> String {
    let bucket = id % BUCKETS;
    format!("{{\"id\": {id}, \"bucket\": {bucket}, \"note\": \"record {id} of the chaos run\"}}")
}

/// Ranges that a commit declares; 0 where it is not ours.
pub(crate) fn count_ranges(metadata: Option<&CommitMetadata>) -> usize {
    metadata.map_or(0, |metadata| metadata.ends.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use clickhouse_sink_crds::worker_config::Guarantee;

    use super::*;

    #[test]
    fn workers_run_under_the_guarantee_and_the_protocol_that_were_asked_for() {
        for protocol in [GroupProtocol::Classic, GroupProtocol::Consumer] {
            let options = Options {
                guarantee: Guarantee::ExactlyOnce,
                protocol,
                ..Options::default()
            };
            let config = worker_config("127.0.0.1:1", "http://127.0.0.1:2", &options).unwrap();
            assert_eq!(config.delivery.guarantee, Guarantee::ExactlyOnce);
            assert_eq!(config.kafka.group_protocol, protocol);
            let has_session = config.kafka.properties.contains_key("session.timeout.ms");
            assert_eq!(has_session, protocol == GroupProtocol::Classic);
            assert!(config.table.metadata_columns);
        }
    }

    #[test]
    fn a_record_is_json_with_its_id_and_bucket() {
        let record: serde_json::Value = serde_json::from_str(&render_record(7)).unwrap();
        assert_eq!((&record["id"], &record["bucket"]), (&json!(7), &json!(3)));
    }
}
