//! `cargo xtask cost`: rows a second of `ExactlyOnce` beside those of `AtLeastOnce`, with batches of the same size.
//!
//! One worker works off the same topic in turns under either guarantee. Must not be here: what makes a worker fast.
#![allow(clippy::print_stdout, reason = "a person reads the figures")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clickhouse_sink_crds::worker_config::Guarantee;
use serde_json::json;

use crate::chaos::scene::Servers;
use crate::clickhouse::{ClickHouseClient, Database};
use crate::kafka::KafkaAdmin;
use crate::produce::{Producer, generated_event};
use crate::programs::{LocalProcess, WorkerProcess};
use crate::sink::SinkBuilder;
use crate::wait::{eventually, eventually_eq};

const TOPIC: &str = "cost";
const PARTITIONS: u64 = 4;
/// Both guarantees cut by rows only.
const BATCH_ROWS: u32 = 100_000;
/// The least share of the speed of `AtLeastOnce`, in percent.
const LEAST_PERCENT: u64 = 95;
const PATIENCE: Duration = Duration::from_mins(5);

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Records of the topic.
    pub records: u64,
    /// Runs under each guarantee, odd so that there is a median.
    pub rounds: usize,
}

/// Measures and prints; true where `ExactlyOnce` is fast enough.
///
/// # Errors
/// Where something does not start, or a run does not have every row once.
pub fn run(options: &Options) -> Result<bool> {
    let servers = Servers::start()?;
    let bench = Bench::prepare(&servers, options.records)?;
    let (mut once, mut least) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        // Whatever changes with time concerns both alike.
        let mut order = [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce];
        order.rotate_left(round % 2);
        for guarantee in order {
            let rate = bench.measure(guarantee, round)?;
            println!("  run {}: {guarantee:?} {rate} rows/s", round + 1);
            match guarantee {
                Guarantee::ExactlyOnce => once.push(rate),
                Guarantee::AtLeastOnce => least.push(rate),
            }
        }
    }
    let (once, least) = (median(once), median(least));
    let percent = once * 100 / least.max(1);
    let good = percent >= LEAST_PERCENT;
    println!(
        "cost: ExactlyOnce {once} rows/s, AtLeastOnce {least} rows/s, {percent} % (at least {LEAST_PERCENT} %): {}",
        if good { "good" } else { "TOO SLOW" }
    );
    Ok(good)
}

fn median(mut rates: Vec<u64>) -> u64 {
    rates.sort_unstable();
    rates.get(rates.len() / 2).copied().unwrap_or(0)
}

struct Bench {
    clickhouse: ClickHouseClient,
    url: String,
    kafka: KafkaAdmin,
    dir: PathBuf,
    records: u64,
}

impl Bench {
    fn prepare(servers: &Servers, records: u64) -> Result<Self> {
        let dir = servers.run_dir.join("cost");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let url = servers.clickhouse.url();
        let bench = Self {
            clickhouse: ClickHouseClient::new(&url)?,
            url,
            kafka: KafkaAdmin::new(&servers.kafka.brokers()),
            dir,
            records,
        };
        bench.produce()?;
        Ok(bench)
    }

    fn produce(&self) -> Result<()> {
        let partitions = i32::try_from(PARTITIONS)?;
        self.kafka.create_topic(TOPIC, partitions, &[])?;
        let producer = Producer::with(self.kafka.brokers(), &[("compression.type", "lz4")])?;
        for index in 0..self.records {
            let partition = i32::try_from(index % PARTITIONS)?;
            producer.send_json(TOPIC, partition, &generated_event(index))?;
            if index % 1_000 == 0 {
                producer.poll();
            }
        }
        producer.flush()?;
        println!("{} records are produced", self.records);
        Ok(())
    }

    /// Rows a second of one worker that works off the topic from its start, from its first record to its last row.
    fn measure(&self, guarantee: Guarantee, round: usize) -> Result<u64> {
        let name = format!("{guarantee:?}_{round}").to_lowercase();
        let database = Database::create(&self.clickhouse, &name)?;
        let sink = self.sink(&name);
        let code = LocalProcess::once(&self.dir, &format!("{name}_table"), &sink.yaml()?)?;
        ensure!(
            code == 0,
            "the table was not made, see {}",
            self.dir.display()
        );
        let mut config = sink.worker_config()?;
        config.delivery.guarantee = guarantee;
        let mut worker = WorkerProcess::start(&self.dir, &name, &config)?;
        let started = wait_first_record(&worker)?;
        let rows = || database.client().count("vision_events");
        eventually_eq(PATIENCE, "rows", &self.records, rows)?;
        let took = started.elapsed();
        self.check(&name, database.client())?;
        let code = worker.program.term_and_wait(Duration::from_mins(1))?;
        ensure!(code == 0, "the worker ended with {code}");
        let milliseconds = u64::try_from(took.as_millis())?.max(1);
        Ok(self.records * 1_000 / milliseconds)
    }

    /// Every row is there once, and committed.
    fn check(&self, group: &str, client: &ClickHouseClient) -> Result<()> {
        let lag = || Ok(self.kafka.lags(group, TOPIC)?.iter().sum());
        eventually_eq(PATIENCE, "lag", &0_i64, lag)?;
        let select = "SELECT count(), uniqExact(_partition, _offset) FROM vision_events";
        let found = client.query(select)?;
        let expected = format!("{0}\t{0}", self.records);
        ensure!(
            found == expected,
            "expected {expected} rows and places, found {found}"
        );
        Ok(())
    }

    fn sink(&self, name: &str) -> SinkBuilder {
        SinkBuilder::new("cost", self.kafka.brokers(), TOPIC, &self.url, name)
            .set("kafka.groupId", name)
            .set("table.engine", json!({ "mergeTree": {} }))
            .set("batch.maxRows", BATCH_ROWS)
    }
}

fn wait_first_record(worker: &WorkerProcess) -> Result<Instant> {
    eventually(PATIENCE, "the first record is read", || {
        let read = worker
            .metrics()?
            .sum("clickhouse_sink_worker_records_read_total", &[]);
        ensure!(read.unwrap_or(0.0) > 0.0, "none is read");
        Ok(Instant::now())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_that_was_disturbed_does_not_count() {
        assert_eq!(median(vec![100, 3, 101]), 100);
        assert_eq!(median(Vec::new()), 0);
    }
}
