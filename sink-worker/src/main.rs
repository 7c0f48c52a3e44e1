//! The worker's process: arguments, logs, signals, exit code.
//!
//! Exit codes: 0 drained, 1 the worker ended by itself, 2 bad usage or configuration, 3 rows were left for replay.
//! Must not be here: anything that a library user would need.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use clickhouse_sink_crds::worker_config::{WORKER_CONFIG_VERSION, WorkerConfig};
use clickhouse_sink_worker::pipeline::{Pipeline, run_pipeline};
use clickhouse_sink_worker::plans::fetch_plans;
use clickhouse_sink_worker::replay::{Filter, run_replay};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

/// How often the shards are looked at for one that ended by itself.
const LOOK: Duration = Duration::from_millis(50);

/// Moves records from Kafka topics into a ClickHouse table, as its configuration says.
#[derive(Parser)]
#[command(
    version,
    after_help = "`clickhouse-sink-worker replay --help`: rejected records again, under the present mapping.\n\
        `clickhouse-sink-worker plans --help`: what the consumer group has committed."
)]
struct Arguments {
    /// The configuration that the operator wrote (JSON).
    #[arg(long, env = "CLICKHOUSE_SINK_CONFIG")]
    config: PathBuf,
    /// Address of /livez, /readyz, /metrics and /state.
    #[arg(long, env = "CLICKHOUSE_SINK_LISTEN", default_value = "[::]:8080")]
    listen: String,
    /// How log lines are written.
    #[arg(
        long,
        env = "CLICKHOUSE_SINK_LOG_FORMAT",
        value_enum,
        default_value = "text"
    )]
    log_format: LogFormat,
    /// Stop, as at SIGTERM, when standard input ends: a worker must not outlive what started it.
    #[arg(long)]
    exit_with_parent: bool,
}

/// Inserts rejected records that the present mapping can read, and marks them in the rejected table.
#[derive(Parser)]
#[command(name = "clickhouse-sink-worker replay")]
struct ReplayArguments {
    /// The configuration that the operator wrote (JSON).
    #[arg(long)]
    config: PathBuf,
    /// Only records that were rejected with this code, for example `BadTimestamp`.
    #[arg(long, value_name = "CODE")]
    reason: Option<String>,
    /// Only records that were rejected at or after this time, in milliseconds since 1970.
    #[arg(long, value_name = "MILLISECONDS", allow_negative_numbers = true)]
    since: Option<i64>,
}

/// Prints the committed offset and the declared ranges of each partition as JSON; changes nothing and joins no group.
#[derive(Parser)]
#[command(name = "clickhouse-sink-worker plans")]
struct PlansArguments {
    /// The configuration that the operator wrote (JSON).
    #[arg(long)]
    config: PathBuf,
    /// Give up after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    timeout: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = || std::iter::once("clickhouse-sink-worker".into());
    match words.nth(1) {
        Some(word) if word == "replay" => {
            return replay(ReplayArguments::parse_from(program().chain(words)));
        }
        Some(word) if word == "plans" => {
            return print_plans(&PlansArguments::parse_from(program().chain(words)));
        }
        _ => {}
    }
    let arguments = Arguments::parse();
    init_logs(arguments.log_format);
    exit_on_panic();
    let config = match read_config(&arguments.config) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(
                error = format!("{error:#}"),
                "The configuration cannot be used."
            );
            return ExitCode::from(2);
        }
    };
    match run_on_runtime(config, &arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "The worker ends.");
            ExitCode::from(1)
        }
    }
}

/// Exit code 1: it ended early, and can be run again.
fn replay(arguments: ReplayArguments) -> ExitCode {
    init_logs(LogFormat::Text);
    exit_on_panic();
    let config = match read_config(&arguments.config) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(
                error = format!("{error:#}"),
                "The configuration cannot be used."
            );
            return ExitCode::from(2);
        }
    };
    let filter = Filter {
        code: arguments.reason,
        since_ms: arguments.since,
    };
    match replay_on_runtime(&config, &filter) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "The replay ends early.");
            ExitCode::from(1)
        }
    }
}

#[allow(clippy::print_stdout, reason = "the result is for people and scripts")]
fn replay_on_runtime(config: &WorkerConfig, filter: &Filter) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let totals = runtime.block_on(run_replay(config, filter));
    runtime.shutdown_background();
    println!("{}", totals?);
    Ok(())
}

/// Exit code 1: Kafka did not tell.
fn print_plans(arguments: &PlansArguments) -> ExitCode {
    init_logs(LogFormat::Text);
    exit_on_panic();
    let config = match read_config(&arguments.config) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(
                error = format!("{error:#}"),
                "The configuration cannot be used."
            );
            return ExitCode::from(2);
        }
    };
    match write_plans(&config, Duration::from_secs(arguments.timeout)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(
                error = format!("{error:#}"),
                "The group's plans cannot be read."
            );
            ExitCode::from(1)
        }
    }
}

#[allow(
    clippy::print_stdout,
    reason = "the result is for the operator and for scripts"
)]
fn write_plans(config: &WorkerConfig, timeout: Duration) -> anyhow::Result<()> {
    let plans = fetch_plans(config, Instant::now() + timeout)?;
    println!("{}", serde_json::to_string(&plans)?);
    Ok(())
}

fn init_logs(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}

/// A panic is a bug; the process ends at once and what was not committed is replayed, rather than a part of it going on.
fn exit_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::exit(1);
    }));
}

fn read_config(path: &Path) -> anyhow::Result<WorkerConfig> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut config: WorkerConfig =
        serde_json::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))?;
    if config.version != WORKER_CONFIG_VERSION {
        bail!(
            "the configuration has version {}, this worker reads {WORKER_CONFIG_VERSION}",
            config.version
        );
    }
    config.memory_limit_bytes = config.memory_limit_bytes.or_else(read_memory_limit);
    Ok(config)
}

/// What the container may use; `None` without a limit, and where there is no container.
fn read_memory_limit() -> Option<u64> {
    let text = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?;
    text.trim().parse().ok()
}

fn run_on_runtime(config: WorkerConfig, arguments: &Arguments) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let result = runtime.block_on(run(config, arguments));
    // Not waited for: batches that were left are replayed, and a read of standard input never ends.
    runtime.shutdown_background();
    result
}

async fn run(config: WorkerConfig, arguments: &Arguments) -> anyhow::Result<bool> {
    // Signals first: one that comes while we start must not kill us in the middle.
    let mut stops = Stops::new(arguments.exit_with_parent)?;
    let listener = TcpListener::bind(&arguments.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let pipeline = run_pipeline(config, listener)?;
    wait(&pipeline, &mut stops).await;
    Ok(pipeline.join()?)
}

async fn wait(pipeline: &Pipeline, stops: &mut Stops) {
    while !pipeline.has_ended() {
        tokio::select! {
            () = stops.next() => {
                tracing::info!("The worker was told to stop.");
                pipeline.stop();
            }
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    // One shard that ended takes the others with it; each within its budget.
    pipeline.stop_once();
}

/// Everything that tells the worker to stop.
struct Stops {
    terminate: Signal,
    interrupt: Signal,
    parent: Option<oneshot::Receiver<()>>,
}

impl Stops {
    fn new(exit_with_parent: bool) -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            parent: exit_with_parent.then(watch_parent),
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = ended(&mut self.parent) => self.parent = None,
        }
    }
}

/// Answers when standard input ends: its other side is held by the process that started this one.
fn watch_parent() -> oneshot::Receiver<()> {
    let (ended, parent) = oneshot::channel();
    std::thread::spawn(move || {
        // Whatever ends it, an error included, the parent is gone.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        ended.send(())
    });
    parent
}

/// Ends when the parent does; never where it is not watched.
async fn ended(parent: &mut Option<oneshot::Receiver<()>>) {
    match parent {
        Some(parent) => drop(parent.await),
        None => std::future::pending().await,
    }
}
