//! `cargo xtask demo`: builds what the demo needs, starts the stack, and hands over to the demo.
//!
//! Must not be here: what the demo shows (`demo`).
#![allow(
    clippy::print_stderr,
    reason = "messages are for the person at the terminal"
)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::stage::{Stages, cargo, run_command};
use crate::demo;
use crate::process::end_all_on_signal;
use crate::stack::Stack;

/// How long and how much.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Leave everything running at the end, until Ctrl-C
    #[arg(long)]
    pub keep: bool,
    /// Events of the stream after the night shift
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
}

/// Runs the command.
///
/// # Errors
/// Where the build, the stack or the demo fails.
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    end_all_on_signal(|| eprintln!("Stopped."))?;
    let mut stages = Stages::default();
    let build = [
        "build",
        "--profile",
        "ci",
        "--workspace",
        "--bins",
        "--locked",
    ];
    stages.run("build", 35, |deadline| {
        run_command("cargo build", cargo(&build), deadline)
    })?;
    let mut stack = stages.run("stack", 15, |_| Stack::start())?;
    demo::run(args, &mut stack)
}
