//! The stack of real components that tests and the demo run on: `ClickHouse` and Kafka of one run.
//!
//! Must not be here: how each component is configured (its own module), what the tests do with it.

pub mod clickhouse;
pub mod kafka;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::ProcessId;
use crate::run::{self, RunRecord};
use clickhouse::ClickHouse;
use kafka::Kafka;

/// Points at a `ClickHouse` server (`http://[user:password@]host:port`); set by a person to use their own.
pub const CLICKHOUSE_URL: &str = "CLICKHOUSE_URL";
/// Points at Kafka (`host:port,…`); set by a person to use their own.
pub const KAFKA_BROKERS: &str = "KAFKA_BROKERS";
/// File that lists the listeners for fault injection (see `proxy::kafka`).
pub const FAULT_PORTS: &str = "CHSINK_FAULT_PORTS";
/// Folder of the run, for what tests start and log themselves.
pub const RUN_DIR: &str = "CHSINK_RUN_DIR";
/// Process that owns the run, as JSON: tests end when it is gone.
pub const RUN_OWNER: &str = "CHSINK_RUN_OWNER";

/// The components of one run; dropping it ends those that it started.
#[derive(Debug)]
pub struct Stack {
    run_dir: PathBuf,
    env: Vec<(String, String)>,
    clickhouse: Option<ClickHouse>,
    kafka: Option<Kafka>,
}

impl Stack {
    /// Starts what the environment does not already point at, and waits until it is ready.
    ///
    /// # Errors
    /// Where a component cannot be set up or does not get ready; says which and shows its log's end.
    pub fn start() -> Result<Self> {
        let own_clickhouse = env::var(CLICKHOUSE_URL).ok();
        let own_kafka = env::var(KAFKA_BROKERS).ok();
        let run_dir = run::create_run()?;
        let kafka = match own_kafka {
            None => Some(Kafka::launch(&run_dir.join("kafka"))?),
            Some(_) => None,
        };
        let clickhouse = match own_clickhouse {
            None => Some(ClickHouse::start(&run_dir.join("clickhouse"))?),
            Some(_) => None,
        };
        let mut stack = Self {
            env: Vec::new(),
            run_dir,
            clickhouse,
            kafka,
        };
        stack.finish(own_clickhouse, own_kafka)?;
        Ok(stack)
    }

    fn finish(&mut self, own_clickhouse: Option<String>, own_kafka: Option<String>) -> Result<()> {
        if let Some(kafka) = &mut self.kafka {
            kafka.wait_until_ready()?;
        }
        let owner = ProcessId::current()?;
        let url = own_clickhouse.or_else(|| self.clickhouse.as_ref().map(ClickHouse::url));
        let brokers = own_kafka.or_else(|| self.kafka.as_ref().map(Kafka::brokers));
        let mut env = vec![
            (
                CLICKHOUSE_URL.to_owned(),
                url.context("no ClickHouse was started")?,
            ),
            (
                KAFKA_BROKERS.to_owned(),
                brokers.context("no Kafka was started")?,
            ),
            (
                RUN_DIR.to_owned(),
                self.run_dir.to_string_lossy().into_owned(),
            ),
            (RUN_OWNER.to_owned(), serde_json::to_string(&owner)?),
        ];
        if let Some(kafka) = &self.kafka {
            env.push((
                FAULT_PORTS.to_owned(),
                kafka.fault_ports_file().to_string_lossy().into_owned(),
            ));
        }
        self.env.clone_from(&env);
        run::write_record(&self.run_dir, &RunRecord { owner, env })
    }

    /// Variables that point tests at this stack.
    #[must_use]
    pub fn env(&self) -> &[(String, String)] {
        &self.env
    }

    /// Folder with logs and data of this run.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// The server that this stack started; `None` where the person's own is used.
    pub fn clickhouse(&mut self) -> Option<&mut ClickHouse> {
        self.clickhouse.as_mut()
    }

    /// The broker that this stack started; `None` where the person's own is used.
    pub fn kafka(&mut self) -> Option<&mut Kafka> {
        self.kafka.as_mut()
    }

    /// Name of the first component that this stack started and that has ended by itself.
    #[must_use]
    pub fn find_ended(&mut self) -> Option<&'static str> {
        if self.clickhouse.as_mut().is_some_and(ClickHouse::has_ended) {
            return Some("ClickHouse");
        }
        self.kafka
            .as_mut()
            .is_some_and(Kafka::has_ended)
            .then_some("Kafka")
    }
}
