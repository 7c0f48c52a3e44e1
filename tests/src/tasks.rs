//! The developer's commands, one module each, and how their outcome becomes an exit code.
//!
//! Must not be here: the work of a command.
#![allow(
    clippy::print_stderr,
    reason = "messages are for the person at the terminal"
)]

pub mod chaos;
pub mod cost;
pub mod demo;
pub mod lint;
pub mod simulate;
pub mod stack;
pub mod stage;
pub mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use stage::Stages;

/// Developer's commands of the repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Records flow: from a Kafka topic into a ClickHouse table, with failures on the way
    Demo(demo::DemoArgs),
    /// Each record once, while workers, servers and the network fail at random
    Chaos(chaos::ChaosArgs),
    /// What each record once costs, in rows a second
    Cost(cost::CostArgs),
    /// Each record once, in simulated histories that a seed repeats
    Simulate(simulate::SimulateArgs),
    /// All checks and all tests, on real components
    Test(test::TestArgs),
    /// A stack of ClickHouse and Kafka that stays up, for single tests and for trying things
    #[command(subcommand)]
    Stack(stack::StackCommand),
    /// Write the CRD and the field reference
    Codegen {
        /// Only fail where one is stale
        #[arg(long)]
        check: bool,
    },
    /// The checks of the sources: format, generated files, dependencies, clippy
    Lint,
}

/// Runs the command that the arguments name.
#[must_use]
pub fn run() -> ExitCode {
    match run_command(&Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_command(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Chaos(args) => chaos::run(args),
        Command::Cost(args) => cost::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Test(args) => test::run(args),
        Command::Stack(command) => stack::run(command),
        Command::Codegen { check } => lint::generate(*check).map(|()| ExitCode::SUCCESS),
        Command::Lint => lint::run(&mut Stages::default()).map(|()| ExitCode::SUCCESS),
    }
}
