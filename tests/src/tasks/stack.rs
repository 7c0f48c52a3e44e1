//! `cargo xtask stack up|down|status|env|logs`: a stack that outlives the command.
//!
//! A keeper process owns the components; `up` starts it and waits, `down` ends it. Must not be here: how a component
//! is started (`stack`).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is asked for goes to stdout, the rest to the person on stderr"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use rustix::process::Signal;

use crate::components::{clickhouse::ensure_clickhouse, kafka::ensure_kafka};
use crate::paths;
use crate::process::{end_all_on_signal, read_tail};
use crate::run::{RunRecord, clear_dead_runs, find_ready_run, list_runs, read_record};
use crate::stack::Stack;

/// What to do with the stack.
#[derive(Debug, Subcommand)]
pub enum StackCommand {
    /// Start it and leave it running
    Up {
        /// Stay in front and end the stack on Ctrl-C
        #[arg(long)]
        foreground: bool,
    },
    /// End it
    Down,
    /// Say whether it runs and where
    Status,
    /// Print the variables that point tests at it, for `eval "$(cargo xtask stack env)"`
    Env,
    /// Print the last lines of its logs
    Logs {
        /// Lines of each log
        #[arg(long, default_value_t = 40)]
        lines: usize,
    },
}

/// Runs the command.
///
/// # Errors
/// Where the stack does not start or does not end; `status` and `env` fail where none runs.
pub fn run(command: &StackCommand) -> Result<ExitCode> {
    match command {
        StackCommand::Up { foreground: true } => keep(),
        StackCommand::Up { foreground: false } => up(),
        StackCommand::Down => down(),
        StackCommand::Status => status(),
        StackCommand::Env => print_env(),
        StackCommand::Logs { lines } => logs(*lines),
    }
}

fn ready_run() -> Result<Option<(PathBuf, RunRecord)>> {
    Ok(find_ready_run(&paths::runs_dir()?))
}

/// Owns the stack until a signal comes or a component ends.
fn keep() -> Result<ExitCode> {
    end_all_on_signal(|| eprintln!("Stopped."))?;
    let mut stack = Stack::start()?;
    eprint!("{}", render_ready(stack.run_dir(), stack.env()));
    loop {
        std::thread::sleep(Duration::from_millis(500));
        if let Some(name) = stack.find_ended() {
            bail!(
                "{name} ended by itself; its log is in {}",
                stack.run_dir().display()
            );
        }
    }
}

fn up() -> Result<ExitCode> {
    if let Some((dir, record)) = ready_run()? {
        eprint!("It runs already.\n{}", render_ready(&dir, &record.env));
        return Ok(ExitCode::SUCCESS);
    }
    // Here, where the person sees the progress.
    ensure_clickhouse()?;
    ensure_kafka()?;
    let (mut keeper, log) = start_keeper()?;
    eprintln!("Starting ClickHouse and Kafka …");
    let started = Instant::now();
    loop {
        if let Some((dir, record)) = ready_run()? {
            eprintln!("Ready after {} s.", started.elapsed().as_secs());
            eprint!("{}", render_ready(&dir, &record.env));
            return Ok(ExitCode::SUCCESS);
        }
        if keeper.try_wait()?.is_some() {
            bail!("the stack did not start:\n{}", read_tail(&log, 30));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Starts this program once more, in a group of its own so that a Ctrl-C here does not reach it.
fn start_keeper() -> Result<(std::process::Child, PathBuf)> {
    use std::os::unix::process::CommandExt;
    let runs = paths::runs_dir()?;
    fs::create_dir_all(&runs)?;
    let log = runs.join("keeper.log");
    let output = File::create(&log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["stack", "up", "--foreground"])
        .process_group(0)
        .stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output);
    Ok((
        command
            .spawn()
            .context("cannot start the keeper of the stack")?,
        log,
    ))
}

fn down() -> Result<ExitCode> {
    let runs = paths::runs_dir()?;
    for run in list_runs(&runs) {
        let Some(record) = read_record(&run).filter(|record| record.owner.is_alive()) else {
            continue;
        };
        if record.env.is_empty() || is_keeper(record.owner.pid) {
            let _ = record.owner.signal(Signal::TERM);
            wait_for_end(&record)?;
        }
    }
    for name in clear_dead_runs(&runs)? {
        eprintln!("Ended {name}, which a killed run had left.");
    }
    eprintln!("Nothing runs.");
    Ok(ExitCode::SUCCESS)
}

/// Runs of `cargo xtask test` and `demo` are recorded too, and are not ours to end.
fn is_keeper(pid: i32) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments
        .split(|byte| *byte == 0)
        .any(|argument| argument == b"--foreground")
}

fn wait_for_end(record: &RunRecord) -> Result<()> {
    let give_up = Instant::now() + Duration::from_secs(20);
    while record.owner.is_alive() {
        if Instant::now() > give_up {
            bail!(
                "the keeper of the stack (pid {}) does not end",
                record.owner.pid
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn status() -> Result<ExitCode> {
    let Some((dir, record)) = ready_run()? else {
        eprintln!("Nothing runs: start it with `cargo xtask stack up`.");
        return Ok(ExitCode::FAILURE);
    };
    println!("It runs (keeper's pid {}).", record.owner.pid);
    print!("{}", render_ready(&dir, &record.env));
    Ok(ExitCode::SUCCESS)
}

fn print_env() -> Result<ExitCode> {
    let (_, record) = ready_run()?.context("nothing runs: start it with `cargo xtask stack up`")?;
    for (name, value) in &record.env {
        println!("export {name}='{value}'");
    }
    Ok(ExitCode::SUCCESS)
}

fn logs(lines: usize) -> Result<ExitCode> {
    let run = list_runs(&paths::runs_dir()?)
        .pop()
        .context("no run of the stack has left logs")?;
    for log in [
        "clickhouse/output.log",
        "clickhouse/clickhouse.log",
        "kafka/kafka.log",
    ] {
        let path = run.join(log);
        println!("{}\n{}", path.display(), read_tail(&path, lines));
    }
    Ok(ExitCode::SUCCESS)
}

fn render_ready(dir: &Path, env: &[(String, String)]) -> String {
    let variables = env.iter().map(|(name, value)| format!("  {name}={value}"));
    let folder = format!("  logs and data: {}\n", dir.display());
    variables.chain([folder]).collect::<Vec<_>>().join("\n")
}
