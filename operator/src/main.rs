//! The program: arguments, logs, exit code.
//!
//! Must not be here: anything else.

use std::process::ExitCode;

use clap::Parser as _;
use clickhouse_sink_operator::cli::{Cli, Command, EXIT_WAREHOUSE, LogFormat};
use clickhouse_sink_operator::lint::run_lint;
use clickhouse_sink_operator::local::replay::run_replay;
use clickhouse_sink_operator::local::run_local;
use clickhouse_sink_operator::local::screen::Screen;
use clickhouse_sink_operator::local::show_plan::run_plan;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let screen = Screen::new();
    let log_format = match &cli.command {
        Command::Local(args) => args.log_format,
        // Neither a server nor a runtime is needed.
        Command::Lint(args) => return ExitCode::from(run_lint(args)),
        Command::Plan(_) | Command::Replay(_) => LogFormat::Text,
    };
    start_logs(log_format, screen.clone());
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(EXIT_WAREHOUSE, &format!("cannot start: {error}")),
    };
    let result = match &cli.command {
        Command::Local(args) => runtime.block_on(run_local(args, screen)),
        Command::Plan(args) => runtime.block_on(run_plan(args)),
        Command::Replay(args) => runtime.block_on(run_replay(args)),
        // It has ended before.
        Command::Lint(args) => Ok(run_lint(args)),
    };
    result.map_or_else(
        |error| fail(error.exit_code(), &error.to_string()),
        ExitCode::from,
    )
}

#[allow(
    clippy::print_stderr,
    reason = "a script reads why the program did not start from standard error"
)]
fn fail(code: u8, message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(code)
}

fn start_logs(format: LogFormat, screen: Screen) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(screen)
        .with_target(false);
    match format {
        LogFormat::Text => logs.with_ansi(false).init(),
        LogFormat::Json => logs.json().init(),
    }
}
