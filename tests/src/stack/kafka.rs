//! One Kafka broker process (KRaft, broker and controller in one) with listeners for fault injection.
//!
//! Must not be here: topics, records, groups (`kafka` module), faults of the network (`proxy`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::components::kafka::ensure_kafka;
use crate::ports::PortLease;
use crate::process::{Managed, managed_command, read_tail, spawn};
use crate::run;

const READY_WITHIN: Duration = Duration::from_mins(2);
const PROPERTIES: &str = include_str!("kafka/server.properties");
/// Clients under test that can have a proxy of their own at the same time.
const FAULT_LISTENERS: usize = 10;
const FAULT_PORTS: &str = "fault-ports.json";

/// A listener whose advertised address is a port that a proxy of the harness binds: all connections of a client
/// that starts from there go through the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultPort {
    /// Where the broker listens.
    pub broker: u16,
    /// What the broker tells clients; nothing listens there but a proxy.
    pub advertised: u16,
}

/// Ports of one broker.
#[derive(Debug)]
struct Ports {
    plain: PortLease,
    controller: PortLease,
    /// Broker's and advertised port.
    fault: Vec<(PortLease, PortLease)>,
}

/// A broker and its data folder; dropping it kills the broker.
#[derive(Debug)]
pub struct Kafka {
    dir: PathBuf,
    libs: PathBuf,
    ports: Ports,
    process: Option<Managed>,
}

impl Kafka {
    /// Starts a broker with its data, configuration and logs in `dir`, and waits until it answers.
    ///
    /// # Errors
    /// Where the component cannot be set up, or the broker ends or does not answer within two minutes.
    pub fn start(dir: &Path) -> Result<Self> {
        let mut broker = Self::launch(dir)?;
        broker.wait_until_ready()?;
        Ok(broker)
    }

    /// As [`Self::start`], without the waiting: call [`Self::wait_until_ready`] later.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn launch(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let mut broker = Self {
            dir: dir.to_owned(),
            libs: ensure_kafka()?,
            ports: take_ports()?,
            process: None,
        };
        fs::write(dir.join("server.properties"), broker.render_properties())?;
        broker.write_fault_ports()?;
        broker.format_storage()?;
        broker.run()?;
        Ok(broker)
    }

    /// `127.0.0.1:<port>`; the same after a restart.
    #[must_use]
    pub fn brokers(&self) -> String {
        self.ports.plain.address()
    }

    /// File that lists the [`FaultPort`]s.
    #[must_use]
    pub fn fault_ports_file(&self) -> PathBuf {
        self.dir.join(FAULT_PORTS)
    }

    /// The broker's log file.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.dir.join("kafka.log")
    }

    /// SIGKILL, as in a crash.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGSTOP: the broker keeps its connections and answers nothing, until [`Self::resume`].
    ///
    /// # Errors
    /// Where it does not run.
    pub fn stop_hang(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT after [`Self::stop_hang`].
    ///
    /// # Errors
    /// Where it does not run.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let sent = self
            .process
            .as_ref()
            .is_some_and(|process| process.signal(signal));
        anyhow::ensure!(
            sent,
            "the Kafka broker of {} does not run",
            self.dir.display()
        );
        Ok(())
    }

    /// Starts the broker on its data, after killing it where it runs, and waits until it answers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.run()?;
        self.wait_until_ready()
    }

    /// True where the process ended without being asked to.
    pub fn has_ended(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|process| !matches!(process.try_wait(), Ok(None)))
    }

    fn java(&self, jvm: &[&str], main: &str) -> Result<std::process::Command> {
        let output = File::options().create(true).append(true).open(self.log())?;
        let mut command = managed_command("java");
        command
            .args([
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            ])
            .args(jvm)
            .arg("-cp")
            .arg(self.libs.join("*"))
            .arg(main)
            .current_dir(&self.dir)
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(command)
    }

    fn format_storage(&self) -> Result<()> {
        let mut command = self.java(&[], "kafka.tools.StorageTool")?;
        command.args(["format", "-t", &cluster_id(), "-c", "server.properties"]);
        let mut format = spawn("kafka-storage", command)?;
        let status = format.wait_at_most(READY_WITHIN)?;
        if !status.is_some_and(|status| status.success()) {
            bail!(
                "Kafka's data folder could not be made:\n{}",
                read_tail(&self.log(), 15)
            );
        }
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        let mut command = self.java(&["-Xmx512m"], "kafka.Kafka")?;
        command.arg("server.properties");
        let process = spawn("kafka", command)?;
        run::note_process(&self.dir, "kafka", process.id())?;
        self.process = Some(process);
        Ok(())
    }

    /// Waits until the broker answers.
    ///
    /// # Errors
    /// Where it ends or does not answer within two minutes; shows its log's end.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let give_up = Instant::now() + READY_WITHIN;
        while !answers(&self.brokers()) {
            if self.has_ended() || Instant::now() > give_up {
                bail!(
                    "Kafka did not get ready; the end of its log:\n{}",
                    read_tail(&self.log(), 20)
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn write_fault_ports(&self) -> Result<()> {
        let ports = self
            .ports
            .fault
            .iter()
            .map(|(broker, advertised)| FaultPort {
                broker: broker.port(),
                advertised: advertised.port(),
            });
        let list: Vec<FaultPort> = ports.collect();
        fs::write(self.fault_ports_file(), serde_json::to_vec(&list)?)?;
        Ok(())
    }

    fn render_properties(&self) -> String {
        let (plain, controller) = (&self.ports.plain, &self.ports.controller);
        let fault = |render: fn(usize, &(PortLease, PortLease)) -> String| {
            let listeners = self.ports.fault.iter().enumerate();
            listeners
                .map(|(index, ports)| render(index, ports))
                .collect::<String>()
        };
        let listeners = fault(|index, (broker, _)| format!(",FAULT{index}://{}", broker.address()));
        let advertised = fault(|index, (_, proxy)| format!(",FAULT{index}://{}", proxy.address()));
        let names = fault(|index, _| format!(",FAULT{index}:PLAINTEXT"));
        PROPERTIES
            .replace("@PLAIN@", &plain.address())
            .replace("@CONTROLLER@", &controller.address())
            .replace("@FAULT_LISTENERS@", &listeners)
            .replace("@FAULT_ADVERTISED@", &advertised)
            .replace("@FAULT_NAMES@", &names)
            .replace("@DATA@", &self.dir.join("data").to_string_lossy())
    }
}

fn take_ports() -> Result<Ports> {
    let fault = (0..FAULT_LISTENERS).map(|_| Ok((PortLease::take()?, PortLease::take()?)));
    Ok(Ports {
        plain: PortLease::take()?,
        controller: PortLease::take()?,
        fault: fault.collect::<Result<_>>()?,
    })
}

/// A new cluster's id: 16 random bytes in URL-safe base64, which must not look like an option.
fn cluster_id() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let random = uuid::Uuid::new_v4().as_u128();
    let digit = |index: u32| {
        let six_bits = usize::try_from((random >> (6 * index)) & 63).unwrap_or(0);
        char::from(DIGITS.get(six_bits).copied().unwrap_or(b'A'))
    };
    // The last digit stands for two bits only; `A` is zero.
    std::iter::once('k')
        .chain((0..20).map(digit))
        .chain(['A'])
        .collect()
}

fn answers(brokers: &str) -> bool {
    if std::net::TcpStream::connect(brokers).is_err() {
        return false;
    }
    let consumer: Result<BaseConsumer, _> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("log_level", "0")
        .create();
    consumer.is_ok_and(|consumer| {
        consumer
            .fetch_metadata(None, Duration::from_secs(5))
            .is_ok()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_has_22_characters_and_is_never_an_option() {
        let id = cluster_id();
        assert_eq!(id.len(), 22);
        assert!(!id.starts_with('-'));
        assert_ne!(id, cluster_id());
    }
}
