//! One `ClickHouse` server process that a test may kill, stop, resume and start again on the same data.
//!
//! Must not be here: queries (`clickhouse` module), faults of the network (`proxy`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::components::clickhouse::ensure_clickhouse;
use crate::ports::PortLease;
use crate::process::{Managed, managed_command, read_tail, spawn};
use crate::{http, paths, run};

const READY_WITHIN: Duration = Duration::from_mins(1);
const USERS: &str = include_str!("clickhouse/users.xml");
const CONFIG: &str = include_str!("clickhouse/config.xml");
/// Opens the ports, then keeps the program busy for ever.
const SERVE: &str = "SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; \
    SELECT sleepEachRow(1) FROM numbers(1000000000) \
    SETTINGS function_sleep_max_microseconds_per_block=100000000000000, max_block_size=1 FORMAT Null";

/// Logs that the server keeps as tables.
const LOG_TABLES: [&str; 2] = ["query_log", "part_log"];

/// User with the rights `INSERT` and `SELECT` only.
pub const WRITER: (&str, &str) = ("writer", "writer-password");
/// User that may only read.
pub const READER: (&str, &str) = ("reader", "reader-password");

/// A user from whom a row policy hides rows of one table: those whose `site` is not `seen`.
pub const FILTERED: Filtered = Filtered {
    user: ("filtered", "filtered-password"),
    database: "filtered",
    table: "events",
};

/// A user and the table that a row policy filters for them.
#[derive(Clone, Copy, Debug)]
pub struct Filtered {
    /// Name and password.
    pub user: (&'static str, &'static str),
    /// Database of the table.
    pub database: &'static str,
    /// The table.
    pub table: &'static str,
}

/// A server and its data folder; dropping it kills the server.
#[derive(Debug)]
pub struct ClickHouse {
    dir: PathBuf,
    http: PortLease,
    tcp: PortLease,
    process: Option<Managed>,
}

impl ClickHouse {
    /// Starts a server with its data, configuration and logs in `dir`, and waits until it answers.
    ///
    /// # Errors
    /// Where the component cannot be set up, or the server ends or does not answer within a minute.
    pub fn start(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir.join("data"))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        fs::write(dir.join("users.xml"), USERS)?;
        fs::write(dir.join("config.xml"), render_config(dir))?;
        let mut server = Self {
            dir: dir.to_owned(),
            http: PortLease::take()?,
            tcp: PortLease::take()?,
            process: None,
        };
        server.restart()?;
        Ok(server)
    }

    /// The logs begin anew: this server forgets all tables of `system` when it ends, and then finds their folders in its
    /// way. Workers that count in `system.part_log` then see that it does not reach back.
    fn remove_logs(&self) -> Result<()> {
        for table in LOG_TABLES {
            match fs::remove_dir_all(self.dir.join("data/data/system").join(table)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `http://127.0.0.1:<port>`; the same after a restart.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// `127.0.0.1:<port>` of the HTTP interface.
    #[must_use]
    pub fn address(&self) -> String {
        self.http.address()
    }

    /// Port of the native protocol.
    #[must_use]
    pub fn tcp_port(&self) -> u16 {
        self.tcp.port()
    }

    /// The server's log file.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.dir.join("clickhouse.log")
    }

    /// SIGKILL, as in a crash.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGTERM, and SIGKILL after ten seconds.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(Duration::from_secs(10));
        }
    }

    /// SIGSTOP: the server keeps its connections and answers nothing, until [`Self::resume`].
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
            "the ClickHouse server of {} does not run",
            self.dir.display()
        );
        Ok(())
    }

    /// Starts the server on its data, after killing it where it runs, and waits until it answers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.remove_logs()?;
        let process = spawn("clickhouse", self.build_command()?)?;
        run::note_process(&self.dir, "clickhouse", process.id())?;
        self.process = Some(process);
        self.wait_until_ready()
    }

    /// True where the process ended without being asked to.
    pub fn has_ended(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|process| !matches!(process.try_wait(), Ok(None)))
    }

    fn build_command(&self) -> Result<std::process::Command> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("output.log"))?;
        let mut command = managed_command(paths::binary("clickhouse-host")?);
        command
            .arg(ensure_clickhouse()?)
            .arg(format!(
                "--config-file={}",
                self.dir.join("config.xml").display()
            ))
            .arg(format!("--path={}", self.dir.join("data").display()))
            .arg(format!("--http_port={}", self.http.port()))
            .arg(format!("--tcp_port={}", self.tcp.port()))
            .args(["--listen_host=127.0.0.1", "--log-level=error"])
            .arg(format!("--query={SERVE}"))
            .current_dir(&self.dir)
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(command)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            let answer = http::get(&self.address(), "/ping", Duration::from_secs(1));
            if answer.is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            if self.has_ended() || Instant::now() > give_up {
                bail!(
                    "ClickHouse did not get ready within {} s; the end of its output:\n{}{}",
                    READY_WITHIN.as_secs(),
                    read_tail(&self.dir.join("output.log"), 15),
                    read_tail(&self.log(), 15)
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn render_config(dir: &Path) -> String {
    CONFIG.replace("@DIR@", &dir.to_string_lossy())
}
