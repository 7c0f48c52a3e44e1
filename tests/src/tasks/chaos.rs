//! `cargo xtask chaos`: builds what the chaos needs and runs it, on servers of its own.
//!
//! Must not be here: what the chaos does (`chaos`).
#![allow(
    clippy::print_stderr,
    reason = "messages are for the person at the terminal"
)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use clickhouse_sink_crds::worker_config::{GroupProtocol, Guarantee};

use super::stage::build_programs;
use crate::chaos::{self, Options};
use crate::process::end_all_on_signal;

/// How much, and of what kind.
#[derive(Clone, Debug, Args)]
pub struct ChaosArgs {
    /// Records to produce
    #[arg(long, default_value_t = 10_000_000)]
    pub records: u64,
    /// Processes to kill or stop
    #[arg(long, default_value_t = 1_000)]
    pub kills: usize,
    /// Repeats the plan of an earlier run; by default a new one is drawn
    #[arg(long)]
    pub seed: Option<u64>,
    /// How workers share the partitions
    #[arg(long, value_enum, default_value = "classic")]
    pub protocol: Protocol,
    /// What workers promise; with `at-least-once` the run must show copies, else the chaos is too weak
    #[arg(long, value_enum, default_value = "exactly-once")]
    pub guarantee: Promise,
    /// Use the programs as they are built
    #[arg(long)]
    pub no_build: bool,
}

/// `--protocol`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Protocol {
    /// The client's assignor.
    Classic,
    /// The broker's assignor (KIP-848).
    Consumer,
}

/// `--guarantee`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Promise {
    /// Each record once.
    ExactlyOnce,
    /// Nothing lost.
    AtLeastOnce,
}

/// Runs the command.
///
/// # Errors
/// Where the build or a server fails, or the backlog is not worked off.
pub fn run(args: &ChaosArgs) -> Result<ExitCode> {
    end_all_on_signal(|| eprintln!("Stopped."))?;
    if !args.no_build {
        build_programs()?;
    }
    let good = chaos::run(&read_options(args))?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn read_options(args: &ChaosArgs) -> Options {
    Options {
        records: args.records,
        kills: args.kills,
        seed: args.seed.unwrap_or_else(draw_seed),
        protocol: match args.protocol {
            Protocol::Classic => GroupProtocol::Classic,
            Protocol::Consumer => GroupProtocol::Consumer,
        },
        guarantee: match args.guarantee {
            Promise::ExactlyOnce => Guarantee::ExactlyOnce,
            Promise::AtLeastOnce => Guarantee::AtLeastOnce,
        },
    }
}

/// A short number, easy to type again.
pub(super) fn draw_seed() -> u64 {
    let random = uuid::Uuid::new_v4().as_u128() % 1_000_000;
    u64::try_from(random).unwrap_or(1)
}
