//! Local mode: the sinks of YAML files on one machine, without a cluster.
//!
//! Must not be here: what is done about a sink (`controller`), how workers are kept running (`fleet/local.rs`).

pub mod delete;
pub mod input;
pub mod line;
pub mod replay;
pub mod replay_place;
pub mod runner;
pub mod screen;
pub mod show_plan;
pub mod sink_task;
pub mod state_folder;

use std::path::{Path, PathBuf};

use crate::cli::{EXIT_HELD, EXIT_INVALID, EXIT_WAREHOUSE, Files, LocalArgs};
use crate::controller::apply::apply;
use crate::controller::declaration::Declaration;
use crate::controller::plan::{FleetStep, Plan};
use crate::controller::preview;
use crate::controller::status::Outcome;
use crate::controller::validate::Validation;
use crate::fleet::dry::DryFleet;
use crate::local::input::{InputError, is_standard_input, read_declarations};
use crate::local::runner::Runner;
use crate::local::screen::Screen;
use crate::local::state_folder::{StateFolder, StateFolderError};
use crate::warehouse::ClickHouse;

/// Why local mode could not start.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// Files or declarations that are wrong, all of them.
    #[error("{}", render_errors(.0))]
    Input(Vec<InputError>),
    /// The state folder.
    #[error(transparent)]
    StateFolder(#[from] StateFolderError),
    /// Our own program's place.
    #[error("cannot tell where this program is: {0}; set --worker-bin")]
    OwnPath(std::io::Error),
    /// A time that cannot be read.
    #[error(
        "--since: expected a time in RFC 3339, found {0:?}; write for example 2026-03-14T00:00:00Z"
    )]
    Since(String),
    /// No sink of that name.
    #[error("--sink: expected one of {known}, found {name:?}")]
    NoSuchSink {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A sink that cannot be replayed now.
    #[error("{sink}: {reason}: {message}")]
    NotNow {
        /// `namespace/name`.
        sink: String,
        /// A stable word.
        reason: &'static str,
        /// What was expected, what was found, what to do.
        message: String,
    },
    /// A file or a process of a replay.
    #[error("{sink}: cannot run the replay: {source}")]
    Replay {
        /// `namespace/name`.
        sink: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Standard input, where files are followed.
    #[error(
        "-f -: `local` follows its files, and standard input cannot be read again: write the documents into a file, or add --once"
    )]
    StandardInput,
    /// No worker program.
    #[error("expected the worker program at {}, found no file: build it, or set --worker-bin", .0.display())]
    NoWorker(PathBuf),
}

impl LocalError {
    /// The exit code that tells a script.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotNow { .. } => EXIT_WAREHOUSE,
            _ => EXIT_INVALID,
        }
    }
}

fn render_errors(errors: &[InputError]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Runs `local` to its end; the exit code.
///
/// # Errors
/// What keeps it from starting.
pub async fn run_local(args: &LocalArgs, screen: Screen) -> Result<u8, LocalError> {
    if !args.once && args.files.files.iter().any(|file| is_standard_input(file)) {
        return Err(LocalError::StandardInput);
    }
    let folder = StateFolder::open(&locate_state_folder(&args.files))?;
    let declarations = read_declarations(&args.files.files, &folder).map_err(LocalError::Input)?;
    if args.once {
        return Ok(run_once(&declarations).await);
    }
    let worker_bin = find_worker_bin(args.worker_bin.as_deref())?;
    Ok(Runner::new(args, folder, worker_bin, screen)
        .run(declarations)
        .await)
}

/// The warehouse of a declaration.
#[must_use]
pub fn build_warehouse(declaration: &Declaration) -> ClickHouse {
    ClickHouse::new(
        &declaration.sink.spec.clickhouse.url,
        declaration.account.as_ref(),
    )
}

async fn run_once(declarations: &[Declaration]) -> u8 {
    let mut code = 0;
    for declaration in declarations {
        let warehouse = build_warehouse(declaration);
        let (_, validation, plan) = preview(&warehouse, &DryFleet, declaration).await;
        let plan = Plan {
            fleet: FleetStep::Keep,
            ..plan
        };
        let applied = apply(&warehouse, &DryFleet, None, &plan).await;
        code = code.max(decide_exit_code(
            &validation,
            &plan,
            applied.failed.is_some(),
        ));
        let outcome = Outcome {
            validation: Some(validation),
            plan: Some(plan),
            applied,
            refused: None,
            catalog_failures: 0,
        };
        print_once(declaration, &outcome);
    }
    code
}

#[allow(
    clippy::print_stdout,
    reason = "--once prints its result for people and scripts"
)]
fn print_once(declaration: &Declaration, outcome: &Outcome) {
    let name = declaration.qualified_name();
    for step in &outcome.applied.done {
        println!("{name}: {step}: done");
    }
    match outcome.trouble() {
        None => println!("{name}: tables are as declared"),
        Some((reason, message)) => print_problem(&format!("{name}: {reason}: {message}")),
    }
}

#[allow(
    clippy::print_stderr,
    reason = "a script reads why a command failed from standard error"
)]
fn print_problem(text: &str) {
    eprintln!("{text}");
}

fn decide_exit_code(validation: &Validation, plan: &Plan, failed: bool) -> u8 {
    match validation {
        Validation::Invalid(_) => EXIT_INVALID,
        Validation::Unknown(_) => EXIT_WAREHOUSE,
        Validation::Valid(_) if failed => EXIT_WAREHOUSE,
        Validation::Valid(_) if !plan.held.is_empty() => EXIT_HELD,
        Validation::Valid(_) => 0,
    }
}

fn locate_state_folder(files: &Files) -> PathBuf {
    files.state_dir.clone().unwrap_or_else(|| {
        let first = files.files.first().map_or(Path::new("."), PathBuf::as_path);
        let folder = if first.is_dir() {
            first
        } else {
            first.parent().unwrap_or(Path::new(""))
        };
        folder.join(".clickhouse-sink")
    })
}

/// The worker stands beside us, wherever we were installed or built.
fn find_worker_bin(given: Option<&Path>) -> Result<PathBuf, LocalError> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()
            .map_err(LocalError::OwnPath)?
            .with_file_name("clickhouse-sink-worker"),
    };
    if path.is_file() {
        Ok(path)
    } else {
        Err(LocalError::NoWorker(path))
    }
}
