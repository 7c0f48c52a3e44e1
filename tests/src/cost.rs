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

/// What one run took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    rows_per_second: u64,
    /// For each second of processor time of the worker, which other programs on the machine do not touch.
    rows_per_cpu_second: u64,
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
            let run = bench.measure(guarantee, round)?;
            println!(
                "  run {}: {guarantee:?} {} rows/s, {} rows per CPU-second of the worker",
                round + 1,
                run.rows_per_second,
                run.rows_per_cpu_second
            );
            match guarantee {
                Guarantee::ExactlyOnce => once.push(run),
                Guarantee::AtLeastOnce => least.push(run),
            }
        }
    }
    let wall = compare("rows/s", &once, &least, |run| run.rows_per_second);
    let cpu = compare("rows per CPU-second", &once, &least, |run| {
        run.rows_per_cpu_second
    });
    let good = is_good(&wall, &cpu);
    println!(
        "cost: at least {LEAST_PERCENT} % wanted: {}",
        if good { "good" } else { "TOO SLOW" }
    );
    Ok(good)
}

/// One figure under both guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Comparison {
    once: Spread,
    least: Spread,
}

/// Least, middle and greatest of some runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    min: u64,
    median: u64,
    max: u64,
}

impl Spread {
    fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let at = |index: usize| values.get(index).copied().unwrap_or(0);
        Self {
            min: at(0),
            median: at(values.len() / 2),
            max: at(values.len().saturating_sub(1)),
        }
    }

    /// True where the runs differ by more than a tenth: something else was going on.
    const fn is_wide(&self) -> bool {
        (self.max - self.min) * 10 > self.median
    }
}

impl Comparison {
    /// The middle run of `ExactlyOnce` as a share of that of `AtLeastOnce`.
    fn percent(&self) -> u64 {
        self.once.median * 100 / self.least.median.max(1)
    }
}

fn compare(label: &str, once: &[Run], least: &[Run], figure: impl Fn(&Run) -> u64) -> Comparison {
    let spread = |runs: &[Run]| Spread::of(runs.iter().map(&figure).collect());
    let comparison = Comparison {
        once: spread(once),
        least: spread(least),
    };
    for (guarantee, it) in [
        ("ExactlyOnce", comparison.once),
        ("AtLeastOnce", comparison.least),
    ] {
        println!(
            "{label}, {guarantee}: min {}, median {}, max {}",
            it.min, it.median, it.max
        );
    }
    println!("{label}: {} %", comparison.percent());
    comparison
}

/// Time on the clock decides; where it was disturbed, the worker's own processor time does.
fn is_good(wall: &Comparison, cpu: &Comparison) -> bool {
    let disturbed = wall.once.is_wide() || wall.least.is_wide();
    wall.percent() >= LEAST_PERCENT || (disturbed && cpu.percent() >= LEAST_PERCENT)
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

    /// One worker works off the topic from its start; measured from its first record to its last row.
    fn measure(&self, guarantee: Guarantee, round: usize) -> Result<Run> {
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
        let cpu = worker.program.id().cpu_time();
        self.check(&name, database.client())?;
        let code = worker.program.term_and_wait(Duration::from_mins(1))?;
        ensure!(code == 0, "the worker ended with {code}");
        Ok(Run {
            rows_per_second: self.rate(took)?,
            rows_per_cpu_second: self.rate(cpu.context("the worker's processor time")?)?,
        })
    }

    fn rate(&self, time: Duration) -> Result<u64> {
        Ok(self.records * 1_000 / u64::try_from(time.as_millis())?.max(1))
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

    const fn exact(median: u64) -> Spread {
        Spread {
            min: median,
            median,
            max: median,
        }
    }

    #[test]
    fn one_run_that_was_disturbed_does_not_count() {
        let spread = Spread::of(vec![100, 3, 101]);
        assert_eq!((spread.min, spread.median, spread.max), (3, 100, 101));
        assert!(spread.is_wide() && !exact(100).is_wide());
        assert_eq!(Spread::of(Vec::new()), exact(0));
    }

    #[test]
    fn processor_time_decides_only_where_the_clock_was_disturbed() {
        let least = exact(100);
        let slow = Comparison {
            once: exact(94),
            least,
        };
        let good = Comparison {
            once: exact(95),
            least,
        };
        let disturbed = Comparison {
            once: Spread {
                max: 110,
                ..exact(90)
            },
            least,
        };
        assert!(is_good(&good, &slow) && !is_good(&slow, &good));
        assert!(is_good(&disturbed, &good) && !is_good(&disturbed, &slow));
    }
}
