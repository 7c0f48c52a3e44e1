//! The command line.
//!
//! Must not be here: what the commands do.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Exit code: a YAML file, or the declaration in it, is wrong; also wrong usage.
pub const EXIT_INVALID: u8 = 2;
/// Exit code: a worker left rows for replay; nothing is lost, the next start inserts them.
pub const EXIT_LEFT_ROWS: u8 = 3;
/// Exit code: ClickHouse cannot be reached, or refuses.
pub const EXIT_WAREHOUSE: u8 = 4;
/// Exit code: with `--once` or `plan`, a table is not as declared.
pub const EXIT_HELD: u8 = 5;

/// Moves the records of Kafka topics into ClickHouse tables, as `ClickHouseSink` resources declare it.
#[derive(Debug, Parser)]
#[command(
    name = "clickhouse-sink-operator",
    version,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the sinks of YAML files on this machine: tables are made or checked, workers are child processes
    #[command(after_help = LOCAL_HELP)]
    Local(LocalArgs),
    /// Insert rejected records again, under the present mapping; also while `local` runs
    Replay(ReplayArgs),
    /// Show what `local` would do to the tables and workers; change nothing
    #[command(after_help = PLAN_HELP)]
    Plan(PlanArgs),
    /// Check the sinks of YAML files without any server: errors, and what is allowed but will surprise
    #[command(after_help = LINT_HELP)]
    Lint(LintArgs),
}

const LOCAL_HELP: &str = "\
Files are read again when they change: a changed sink is drained and started with the new configuration, an invalid
one is reported while the old one goes on, a sink that is gone from the files is drained.

Exit codes:
  0  stopped in order (SIGTERM or SIGINT; a second one hurries the workers)
  2  wrong usage, or a file or declaration is invalid at the start
  3  a worker left rows for replay: nothing is lost, the next start inserts them
  4  ClickHouse cannot be reached, or refuses, within --startup-timeout (or at all with --once)
  5  a table is not as declared (with --once)";

const PLAN_HELP: &str = "\
Nothing is made or changed, in ClickHouse or on this machine; a `local` that runs is not disturbed.

Exit codes:
  0  nothing is in the way (whether or not there is something to do)
  2  wrong usage, or a file or declaration is invalid
  4  ClickHouse cannot be reached, or refuses
  5  a table is not as declared";

const LINT_HELP: &str = "\
A rule is silenced for one sink by its annotation `clickhouse-sink.io/lint-allow: \"RuleA,RuleB\"`, and everywhere by
--allow. Errors cannot be silenced: the API server or `local` refuses such a sink. docs/guide.md lists the rules.

Exit codes:
  0  no errors (warnings are printed)
  2  errors; with --deny-warnings also warnings; wrong usage";

/// Where sinks are declared.
#[derive(Debug, Clone, Args)]
pub struct Files {
    /// YAML files, or folders of them, with ClickHouseSink and Secret documents; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Folder for ids, configurations, credentials and worker logs [default: .clickhouse-sink beside the first file]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `local`.
#[derive(Debug, Clone, Args)]
pub struct LocalArgs {
    /// Where sinks are declared.
    #[command(flatten)]
    pub files: Files,
    /// The worker program [default: clickhouse-sink-worker beside this program]
    #[arg(long, value_name = "FILE")]
    pub worker_bin: Option<PathBuf>,
    /// Form of log lines on standard error; the level comes from `RUST_LOG`
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Give up where ClickHouse cannot be reached, or refuses, for so many seconds from the start [default: never]
    #[arg(long, value_name = "SECONDS")]
    pub startup_timeout: Option<u64>,
    /// Make or check the tables, print what was done, and exit; no worker is started
    #[arg(long)]
    pub once: bool,
}

/// Arguments of `plan`.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Where sinks are declared.
    #[command(flatten)]
    pub files: Files,
    /// Form of the plan
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Arguments of `lint`.
#[derive(Debug, Clone, Args)]
pub struct LintArgs {
    /// YAML files, or folders of them; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Exit with 2 where there are warnings
    #[arg(long)]
    pub deny_warnings: bool,
    /// Do not report this rule; may be repeated, or name several with commas
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub allow: Vec<String>,
}

/// Arguments of `replay`.
#[derive(Debug, Clone, Args)]
pub struct ReplayArgs {
    /// Where sinks are declared.
    #[command(flatten)]
    pub files: Files,
    /// Only this sink, as `namespace/name` [default: all of the files]
    #[arg(long, value_name = "NAME")]
    pub sink: Option<String>,
    /// Only records that were rejected with this code, for example `BadTimestamp`
    #[arg(long, value_name = "CODE")]
    pub reason: Option<String>,
    /// Only records that were rejected at or after this time, in RFC 3339 (`2026-03-14T00:00:00Z`)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// The worker program [default: clickhouse-sink-worker beside this program]
    #[arg(long, value_name = "FILE")]
    pub worker_bin: Option<PathBuf>,
}

/// Form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}
