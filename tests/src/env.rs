//! What a scenario test runs on: the components that the environment points at, and names of its own.
//!
//! Must not be here: starting the stack (`cargo xtask test` and `cargo xtask stack up` do).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::clickhouse::{ClickHouseClient, Database};
use crate::kafka::KafkaAdmin;
use crate::paths;
use crate::process::ProcessId;
use crate::produce::Producer;
use crate::proxy::{ClickHouseProxy, KafkaProxy};
use crate::run::find_ready_run;
use crate::stack::{CLICKHOUSE_URL, FAULT_PORTS, KAFKA_BROKERS, RUN_DIR, RUN_OWNER};

/// The components and folders of this run.
#[derive(Debug)]
pub struct Env {
    /// `http://…` of `ClickHouse`.
    pub clickhouse_url: String,
    /// `host:port,…` of Kafka.
    pub brokers: String,
    /// Folder of the run.
    pub run_dir: PathBuf,
    fault_ports: Option<PathBuf>,
}

impl Env {
    /// The run's components: those that the environment names, else the stack that `cargo xtask stack up` keeps.
    ///
    /// # Errors
    /// Where there are none; says what to run.
    pub fn get() -> Result<&'static Self> {
        static ENV: OnceLock<Result<Env, String>> = OnceLock::new();
        ENV.get_or_init(|| Self::find().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|text| anyhow!("{text}"))
    }

    fn find() -> Result<Self> {
        if env::var_os(CLICKHOUSE_URL).is_some() && env::var_os(KAFKA_BROKERS).is_some() {
            return Self::build(|name| env::var(name).ok());
        }
        let (_, record) = find_ready_run(&paths::runs_dir()?).context(
            "expected ClickHouse and Kafka to run, found none: run `cargo xtask test` (everything), or \
             `cargo xtask stack up` first and then single tests",
        )?;
        Self::build(|name| {
            record
                .env
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value.clone())
        })
    }

    fn build(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let required = |name: &str| {
            lookup(name).with_context(|| format!("expected the variable {name} to be set"))
        };
        let own_dir = || Ok::<_, anyhow::Error>(paths::runs_dir()?.join("own"));
        if let Some(owner) = lookup(RUN_OWNER) {
            end_with(
                serde_json::from_str(&owner).with_context(|| format!("malformed {RUN_OWNER}"))?,
            );
        }
        Ok(Self {
            clickhouse_url: required(CLICKHOUSE_URL)?,
            brokers: required(KAFKA_BROKERS)?,
            run_dir: lookup(RUN_DIR).map_or_else(own_dir, |dir| Ok(dir.into()))?,
            fault_ports: lookup(FAULT_PORTS).map(PathBuf::from),
        })
    }

    /// A name that no other test has: `<what>_<pid>_<number>`, safe in SQL, topics and groups.
    #[must_use]
    pub fn unique(&self, what: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{what}_{}_{number}", std::process::id())
    }

    /// A fresh folder for the files and logs of a test; kept for a look after a failure.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn test_dir(&self, what: &str) -> Result<PathBuf> {
        let dir = self.run_dir.join("tests").join(self.unique(what));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(dir)
    }

    /// A client of `ClickHouse` with all rights.
    ///
    /// # Errors
    /// Where the URL is malformed.
    pub fn clickhouse(&self) -> Result<ClickHouseClient> {
        ClickHouseClient::new(&self.clickhouse_url)
    }

    /// A database of the test's own.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn database(&self, what: &str) -> Result<Database> {
        Database::create(&self.clickhouse()?, &self.unique(what))
    }

    /// An admin of Kafka.
    #[must_use]
    pub fn kafka(&self) -> KafkaAdmin {
        KafkaAdmin::new(&self.brokers)
    }

    /// A topic of the test's own; gives its name.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn topic(&self, what: &str, partitions: i32) -> Result<String> {
        let topic = self.unique(what);
        self.kafka().create_topic(&topic, partitions, &[])?;
        Ok(topic)
    }

    /// A producer.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn producer(&self) -> Result<Producer> {
        Producer::new(&self.brokers)
    }

    /// A proxy in front of `ClickHouse`, the test's own.
    ///
    /// # Errors
    /// Where no port is free.
    pub fn clickhouse_proxy(&self) -> Result<ClickHouseProxy> {
        ClickHouseProxy::start(self.clickhouse()?.address())
    }

    /// A proxy in front of a fault listener of Kafka, the test's own.
    ///
    /// # Errors
    /// Where all are in use, or where Kafka is the person's own and has no such listeners.
    pub fn kafka_proxy(&self) -> Result<KafkaProxy> {
        KafkaProxy::start(self.fault_ports()?)
    }

    fn fault_ports(&self) -> Result<&Path> {
        self.fault_ports.as_deref().with_context(|| {
            format!("this test needs a listener for fault injection, which your own Kafka has not: unset {KAFKA_BROKERS}")
        })
    }
}

/// Ends this process when the owner of the run is gone: there is nothing left to test on.
fn end_with(owner: ProcessId) {
    std::thread::spawn(move || {
        while owner.is_alive() {
            std::thread::sleep(Duration::from_millis(500));
        }
        std::process::exit(1);
    });
}
