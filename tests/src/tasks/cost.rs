//! `cargo xtask cost`: builds what is measured and measures it, on servers of its own.
//!
//! Must not be here: how it is measured (`cost`).
#![allow(
    clippy::print_stderr,
    reason = "messages are for the person at the terminal"
)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::stage::build_programs;
use crate::cost::{self, Options};
use crate::process::end_all_on_signal;

/// How much is measured.
#[derive(Clone, Debug, Args)]
pub struct CostArgs {
    /// Records that each run works off; a multiple of 400,000 leaves no batch that only the linger ends
    #[arg(long, default_value_t = 3_200_000)]
    pub records: u64,
    /// Runs under each guarantee
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Use the programs as they are built
    #[arg(long)]
    pub no_build: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the build or a server fails, or a run does not have every row once.
pub fn run(args: &CostArgs) -> Result<ExitCode> {
    end_all_on_signal(|| eprintln!("Stopped."))?;
    if !args.no_build {
        build_programs()?;
    }
    let good = cost::run(&Options {
        records: args.records,
        rounds: args.rounds,
    })?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
