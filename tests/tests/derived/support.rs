//! A sink with a derived table, its topic, database and proxy, and a stream of records that never rests.
//!
//! Must not be here: what a test expects.
#![allow(
    clippy::disallowed_methods,
    reason = "a stream of records is paced by sleeping"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, ensure};
use clickhouse_sink_tests::clickhouse::{ClickHouseClient, Database};
use clickhouse_sink_tests::env::Env;
use clickhouse_sink_tests::produce::Producer;
use clickhouse_sink_tests::programs::LocalProcess;
use clickhouse_sink_tests::proxy::ClickHouseProxy;
use clickhouse_sink_tests::sink::SinkBuilder;
use clickhouse_sink_tests::wait::{eventually, eventually_eq};
use serde_json::{Value, json};

/// Long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_mins(2);
/// Each record has so many tags, and so many rows in the derived table.
pub(crate) const TAGS: u64 = 2;

pub(crate) struct Scene {
    pub(crate) env: &'static Env,
    pub(crate) database: Database,
    pub(crate) topic: String,
    pub(crate) dir: PathBuf,
    pub(crate) proxy: ClickHouseProxy,
    pub(crate) sink: SinkBuilder,
    partitions: i32,
}

/// The tags of `events`, one row each, with the word that tells which SELECT made it.
pub(crate) fn tags(rule: &str, backfill: &str) -> Value {
    json!([{
        "name": "tags",
        "engine": { "mergeTree": {} },
        "partitionBy": "toYYYYMM(at)",
        "orderBy": ["id"],
        "select": format!("SELECT id, at, arrayJoin(tags) AS tag, '{rule}' AS rule FROM events"),
        "backfill": backfill,
    }])
}

/// A record; its month is one of twelve.
pub(crate) fn record(index: u64) -> String {
    let month = index % 12 + 1;
    format!(
        r#"{{"id": {index}, "at": "2026-{month:02}-03T00:00:00Z", "tags": ["a", "b"], "note": "n"}}"#
    )
}

impl Scene {
    /// A sink of plain tables, delivered exactly once.
    pub(crate) fn new(what: &str, partitions: i32) -> Self {
        let env = Env::get().unwrap();
        let database = env.database(what).unwrap();
        Self::on(what, partitions, database, env.clickhouse_proxy().unwrap())
    }

    /// As [`Self::new`], on another server.
    pub(crate) fn on(
        what: &str,
        partitions: i32,
        database: Database,
        proxy: ClickHouseProxy,
    ) -> Self {
        let env = Env::get().unwrap();
        let topic = env.topic(what, partitions).unwrap();
        let group = env.unique(what);
        let columns = json!([
            { "name": "id", "type": "UInt64" },
            { "name": "at", "type": "DateTime" },
            { "name": "tags", "type": "Array(String)" },
        ]);
        let table = json!({
            "name": "events",
            "engine": { "mergeTree": {} },
            "partitionBy": "toYYYYMM(at)",
            "orderBy": ["id"],
            "recheckPeriodSeconds": 2,
            "columns": columns,
        });
        let sink = SinkBuilder::new(
            "events",
            &env.brokers,
            &topic,
            &proxy.url(),
            database.name(),
        )
        .set("table", table)
        .set("kafka.groupId", group.as_str())
        .set("delivery.guarantee", "ExactlyOnce")
        .set("batch.lingerMilliseconds", 100)
        .set("batch.maxInsertsPerSecond", 50);
        let dir = env.test_dir(what).unwrap();
        Self {
            env,
            database,
            topic,
            dir,
            proxy,
            sink,
            partitions,
        }
    }

    pub(crate) fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        self.sink = self.sink.set(path, value);
        self
    }

    pub(crate) fn local(&self) -> LocalProcess {
        self.local_on(&self.sink)
    }

    pub(crate) fn local_on(&self, sink: &SinkBuilder) -> LocalProcess {
        LocalProcess::start(&self.dir, "sink", &sink.yaml().unwrap(), &[]).unwrap()
    }

    /// The same sink with another member.
    pub(crate) fn with(&self, path: &str, value: impl Into<Value>) -> SinkBuilder {
        self.sink.clone().set(path, value)
    }

    pub(crate) fn client(&self) -> &ClickHouseClient {
        self.database.client()
    }

    pub(crate) fn query(&self, sql: &str) -> String {
        self.client().query(sql).unwrap()
    }

    /// One that writes each record once, also on a machine so busy that it has to send it again.
    fn producer(&self) -> Producer {
        Producer::with(&self.env.brokers, &[("enable.idempotence", "true")]).unwrap()
    }

    /// Records of these numbers, over all partitions.
    pub(crate) fn produce(&self, numbers: std::ops::Range<u64>) {
        let producer = self.producer();
        for index in numbers {
            let partition = i32::try_from(index % u64::try_from(self.partitions).unwrap()).unwrap();
            producer
                .send(&self.topic, partition, None, Some(record(index).as_bytes()))
                .unwrap();
        }
        producer.flush().unwrap();
    }

    /// A stream of records from `first` on until it is told to end.
    pub(crate) fn flow(&self, first: u64) -> Flow {
        let (stop, next) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(first)),
        );
        let producer = self.producer();
        let (topic, partitions) = (self.topic.clone(), self.partitions);
        let (told, number) = (Arc::clone(&stop), Arc::clone(&next));
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    let index = number.fetch_add(1, Ordering::Relaxed);
                    let partition =
                        i32::try_from(index % u64::try_from(partitions).unwrap()).unwrap();
                    producer
                        .send(&topic, partition, None, Some(record(index).as_bytes()))
                        .unwrap();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            producer.flush().unwrap();
        });
        Flow { stop, next, thread }
    }

    pub(crate) fn wait_rows(&self, table: &str, at_least: u64) {
        eventually(SOON, &format!("{at_least} rows of {table}"), || {
            let found = self.client().count(table)?;
            ensure!(found >= at_least, "{found}");
            Ok(())
        })
        .unwrap();
    }

    /// Every record once in the table, and each of its tags once in the derived table.
    pub(crate) fn expect_exact(&self, produced: u64) {
        let count = "SELECT concat(toString((SELECT count() FROM events)), ' ', toString((SELECT uniqExact(id) FROM events)), ' ', \
            toString((SELECT count() FROM tags)), ' ', toString((SELECT uniqExact(id, tag) FROM tags)))";
        let derived = produced * TAGS;
        let expected = format!("{produced} {produced} {derived} {derived}");
        eventually_eq(SOON, "rows", &expected, || self.client().query(count)).unwrap();
    }

    /// Rows of the derived table that a SELECT with this word made.
    pub(crate) fn made_by(&self, rule: &str) -> u64 {
        self.client()
            .count(&format!("tags WHERE rule = '{rule}'"))
            .unwrap()
    }

    pub(crate) fn view_select(&self) -> Result<String> {
        self.client().query(
            "SELECT as_select FROM system.tables WHERE database = currentDatabase() AND name = 'tags_mv' FORMAT TSVRaw",
        )
    }

    /// Waits until the view's SELECT holds this text.
    pub(crate) fn wait_view(&self, text: &str) {
        eventually(SOON, &format!("a view with {text}"), || {
            let select = self.view_select()?;
            ensure!(select.contains(text), "{select}");
            Ok(())
        })
        .unwrap();
    }

    /// Waits until the backfill is over: every piece is noted as done.
    pub(crate) fn wait_filled(&self) {
        let done = "SELECT JSONExtractUInt(comment, 'clickhouse-sink', 'backfill', 'done') AS done, \
            arraySum(arrayMap(part -> part.2, JSONExtract(comment, 'clickhouse-sink', 'backfill', 'parts', 'Array(Tuple(String, UInt32))'))) AS pieces, \
            pieces > 0 AND done = pieces FROM system.tables WHERE database = currentDatabase() AND name = 'tags_mv'";
        eventually(SOON, "a backfill that is over", || {
            let found = self.client().query(done)?;
            ensure!(found.ends_with("\t1"), "{found}");
            Ok(())
        })
        .unwrap();
    }
}

/// Waits until the output holds this text.
pub(crate) fn wait_log(local: &LocalProcess, text: &str) {
    eventually(SOON, &format!("the output says {text:?}"), || {
        let log = local.program.log();
        ensure!(log.contains(text), "{log}");
        Ok(())
    })
    .unwrap();
}

/// Records that are produced all the time.
pub(crate) struct Flow {
    stop: Arc<AtomicBool>,
    next: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Flow {
    /// Ends it; how many records there are in all.
    pub(crate) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.next.load(Ordering::Relaxed)
    }
}
