//! The developer's commands, one module each, and how their outcome becomes an exit code.
//!
//! Must not be here: the work of a command.
#![allow(clippy::print_stderr, reason = "messages are for the person at the terminal")]

pub mod stack;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer's commands of the repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A stack of ClickHouse and Kafka that stays up, for single tests and for trying things
    #[command(subcommand)]
    Stack(stack::StackCommand),
}

/// Runs the command that the arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Stack(command) => stack::run(&command),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
