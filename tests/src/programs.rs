//! The product's programs as child processes of a test: started, watched, signalled, and waited for.
//!
//! Must not be here: what a test expects of them.
#![allow(
    clippy::print_stderr,
    reason = "a failed test shows the end of the programs' logs"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde::Serialize;
use serde_json::Value;

use crate::metrics::Metrics;
use crate::ports::PortLease;
use crate::process::{Managed, ProcessId, managed_command, read_tail, spawn};
use crate::wait::eventually;
use crate::{http, paths, run};

const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A started program and its log.
#[derive(Debug)]
pub struct Program {
    name: String,
    process: Managed,
    log: PathBuf,
}

impl Program {
    /// Starts a command with its output in `<dir>/<name>.log` (appended).
    fn start(name: &str, dir: &Path, mut command: Command) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        command.stdout(output.try_clone()?).stderr(output);
        let process = spawn(name, command)?;
        run::note_process(dir, name, process.id())?;
        Ok(Self {
            name: name.to_owned(),
            process,
            log,
        })
    }

    /// Which process it is.
    #[must_use]
    pub fn id(&self) -> &ProcessId {
        self.process.id()
    }

    /// Everything it has written.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// SIGKILL to it alone, as in a crash, and waits until it is gone. Its children are left to notice by themselves.
    ///
    /// # Errors
    /// Where it does not run or does not go.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.wait_exit(Duration::from_secs(10)).map(drop)
    }

    /// SIGTERM.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn term(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGSTOP: it stands still until [`Self::resume`].
    ///
    /// # Errors
    /// Where it does not run.
    pub fn stop_hang(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Any signal.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(
            self.process.signal(signal),
            "{} does not run; its log ends:\n{}",
            self.name,
            read_tail(&self.log, 20)
        );
        Ok(())
    }

    /// True while it runs.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Where it still runs after `deadline`.
    pub fn wait_exit(&mut self, deadline: Duration) -> Result<ExitStatus> {
        match self.process.wait_at_most(deadline)? {
            Some(status) => Ok(status),
            None => bail!(
                "expected {} to end within {} s, but it runs; its log ends:\n{}",
                self.name,
                deadline.as_secs_f64(),
                read_tail(&self.log, 20)
            ),
        }
    }

    /// SIGTERM, then waits for its end; gives the exit code.
    ///
    /// # Errors
    /// Where it does not end in time, or ends by a signal.
    pub fn term_and_wait(&mut self, deadline: Duration) -> Result<i32> {
        self.term()?;
        let status = self.wait_exit(deadline)?;
        status
            .code()
            .with_context(|| format!("{} ended by a signal: {status}", self.name))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "--- end of {} ---\n{}",
                self.log.display(),
                read_tail(&self.log, 60)
            );
        }
    }
}

/// A `clickhouse-sink-worker`.
#[derive(Debug)]
pub struct WorkerProcess {
    /// The process.
    pub program: Program,
    port: PortLease,
}

impl WorkerProcess {
    /// Starts a worker on a configuration (`WorkerConfig`), with files and log in `dir`. `name` must be the worker's
    /// own in that folder; a second start under it appends to the log.
    ///
    /// # Errors
    /// Where the binary is not built or cannot be started.
    pub fn start(dir: &Path, name: &str, config: &impl Serialize) -> Result<Self> {
        let path = dir.join(format!("{name}.json"));
        fs::write(&path, serde_json::to_vec_pretty(config)?)?;
        let port = PortLease::take()?;
        let mut command = managed_command(paths::binary("clickhouse-sink-worker")?);
        command
            .arg("--config")
            .arg(&path)
            .args(["--listen", &port.address()]);
        Ok(Self {
            program: Program::start(name, dir, command)?,
            port,
        })
    }

    /// `GET` of one of its HTTP paths.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn get(&self, path: &str) -> Result<http::Response> {
        http::get(&self.port.address(), path, ANSWER_WITHIN)
            .with_context(|| format!("{} does not answer at {path}", self.program.name))
    }

    /// `/readyz`: true where it answers 200.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.get("/readyz").is_ok_and(|answer| answer.status == 200)
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// Where it is not in time; shows its reasons.
    pub fn wait_ready(&self, deadline: Duration) -> Result<()> {
        eventually(deadline, "the worker is ready", || {
            let answer = self.get("/readyz")?;
            ensure!(answer.status == 200, "{}", answer.text());
            Ok(())
        })
    }

    /// `/metrics`.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn metrics(&self) -> Result<Metrics> {
        Ok(Metrics::parse(&self.get("/metrics")?.text()))
    }

    /// `/state`.
    ///
    /// # Errors
    /// Where it does not answer with JSON.
    pub fn state(&self) -> Result<Value> {
        serde_json::from_slice(&self.get("/state")?.body).context("/state is not JSON")
    }
}

/// A `clickhouse-sink-operator local`.
#[derive(Debug)]
pub struct LocalProcess {
    /// The process.
    pub program: Program,
    /// Its state folder.
    pub state_dir: PathBuf,
}

impl LocalProcess {
    /// Writes `yaml` to `<dir>/<name>.yaml` and runs `local` on it, with further arguments.
    ///
    /// # Errors
    /// Where a binary is not built or cannot be started.
    pub fn start(dir: &Path, name: &str, yaml: &str, args: &[&str]) -> Result<Self> {
        let file = dir.join(format!("{name}.yaml"));
        fs::write(&file, yaml)?;
        let state_dir = dir.join(format!("{name}-state"));
        let mut command = managed_command(paths::binary("clickhouse-sink-operator")?);
        command
            .arg("local")
            .arg("-f")
            .arg(&file)
            .arg("--state-dir")
            .arg(&state_dir);
        command
            .arg("--worker-bin")
            .arg(paths::binary("clickhouse-sink-worker")?)
            .args(args);
        Ok(Self {
            program: Program::start(name, dir, command)?,
            state_dir,
        })
    }

    /// Runs `local --once` to its end: tables are made or checked, no worker is started. Gives the exit code.
    ///
    /// # Errors
    /// Where it does not end within a minute.
    pub fn once(dir: &Path, name: &str, yaml: &str) -> Result<i32> {
        let mut local = Self::start(dir, name, yaml, &["--once"])?;
        let status = local.program.wait_exit(Duration::from_mins(1))?;
        status.code().context("local ended by a signal")
    }

    /// Replaces the YAML file, as a person's editor does.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn rewrite(&self, yaml: &str) -> Result<()> {
        let file = self
            .state_dir
            .with_file_name(format!("{}.yaml", self.program.name));
        let temporary = file.with_extension("new");
        fs::write(&temporary, yaml)?;
        Ok(fs::rename(temporary, file)?)
    }

    /// Its workers that run now.
    #[must_use]
    pub fn workers(&self) -> Vec<ProcessId> {
        self.program
            .id()
            .children_of_program("clickhouse-sink-worker")
    }

    /// Waits until so many workers run.
    ///
    /// # Errors
    /// Where they do not in time.
    pub fn wait_workers(&self, count: usize, deadline: Duration) -> Result<Vec<ProcessId>> {
        let give_up = Instant::now() + deadline;
        loop {
            let workers = self.workers();
            if workers.len() == count {
                return Ok(workers);
            }
            ensure!(
                Instant::now() < give_up,
                "expected {count} workers, found {}; log:\n{}",
                workers.len(),
                read_tail(&self.program.log, 20)
            );
            std::thread::sleep(Duration::from_millis(25));
        }
    }
}
