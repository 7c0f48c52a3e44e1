//! `cargo xtask test`: everything that must hold before a change lands.
//!
//! Must not be here: the tests; what the single checks of the sources are (`lint`).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the sum goes to stdout for CI, the rest to the person"
)]

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use clickhouse_sink_crds::worker_config::{GroupProtocol, Guarantee};

use super::chaos::draw_seed;
use super::lint;
use super::simulate;
use super::stage::{Stages, cargo, finish, run_command};
use crate::chaos::{self, Options};
use crate::process::{end_all_on_signal, spawn};
use crate::stack::Stack;

/// What to test.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Leave the checks of the sources out
    #[arg(long)]
    no_lint: bool,
    /// Arguments for `cargo test` instead of `--workspace`, such as `-p clickhouse-sink-tests --test delivery`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Tests counted from the output of test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

/// Runs the command; prints `N passed, N failed` as its last line.
///
/// # Errors
/// Where a stage fails before tests have run.
pub fn run(args: &TestArgs) -> Result<ExitCode> {
    end_all_on_signal(|| eprintln!("Stopped."))?;
    let mut stages = Stages::default();
    let outcome = run_stages(args, &mut stages);
    eprint!("{}", stages.render());
    let (counts, succeeded) = outcome?;
    println!("{} passed, {} failed", counts.passed, counts.failed);
    let good = succeeded && counts.failed == 0 && counts.passed > 0;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Gives the counts, and whether `cargo test` itself was content.
fn run_stages(args: &TestArgs, stages: &mut Stages) -> Result<(Counts, bool)> {
    if !args.no_lint {
        lint::run(stages)?;
    }
    let selection = select_tests(&args.args);
    stages.run("build", 35, |deadline| {
        run_command(
            "cargo build",
            cargo(&[
                "build",
                "--profile",
                "ci",
                "--workspace",
                "--bins",
                "--locked",
            ]),
            deadline,
        )?;
        run_command(
            "cargo test",
            build_test_command(&selection, &["--no-run"]),
            deadline,
        )
    })?;
    if args.args.is_empty() {
        stages.run("simulation", 4, |_| simulate::run_full())?;
    }
    let stack = stages.run("stack", 15, |_| Stack::start())?;
    eprintln!("Logs of this run: {}", stack.run_dir().display());
    let mut command = build_test_command(&selection, &["--no-fail-fast"]);
    command.envs(stack.env().iter().map(|(name, value)| (name, value)));
    let mut counts = Counts::default();
    let outcome = stages.run("tests", 40, |deadline| {
        run_tests(command, deadline, &mut counts)
    });
    drop(stack);
    let chaos = if args.args.is_empty() {
        stages.run("chaos", 15, |_| run_chaos())
    } else {
        Ok(())
    };
    let faults = [&outcome, &chaos].map(|outcome| outcome.as_ref().err());
    for error in faults.into_iter().flatten() {
        eprintln!("error: {error:#}");
    }
    Ok((counts, outcome.is_ok() && chaos.is_ok()))
}

/// Both group protocols, and the control that shows that the same chaos makes copies without the promise.
fn run_chaos() -> Result<()> {
    let once = Options {
        seed: draw_seed(),
        ..Options::default()
    };
    // The copies show soon enough: a shorter run of the same seed.
    let control = Options {
        guarantee: Guarantee::AtLeastOnce,
        records: 100_000,
        kills: 12,
        ..once
    };
    let consumer = Options {
        records: 200_000,
        kills: 15,
        protocol: GroupProtocol::Consumer,
        ..once
    };
    for options in [once, control, consumer] {
        ensure!(
            chaos::run(&options)?,
            "the chaos found a fault: {options:?}"
        );
    }
    Ok(())
}

fn select_tests(args: &[String]) -> Vec<String> {
    if args.is_empty() {
        vec!["--workspace".to_owned()]
    } else {
        args.to_vec()
    }
}

/// `cargo test` with options before the selection, which may end with arguments for the test programs.
fn build_test_command(selection: &[String], options: &[&str]) -> Command {
    let mut command = cargo(&["test", "--profile", "ci", "--locked"]);
    command.args(options).args(selection);
    command
}

fn run_tests(mut command: Command, deadline: Instant, counts: &mut Counts) -> Result<()> {
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut process = spawn("cargo test", command)?;
    let output = process
        .child_mut()
        .stdout
        .take()
        .context("cargo test has no output")?;
    // The pipe ends when the process does, at the deadline at the latest.
    let reader = std::thread::spawn(move || show_and_count(output));
    let outcome = finish("cargo test", process, deadline);
    *counts = reader.join().unwrap_or_default();
    outcome
}

fn show_and_count(output: ChildStdout) -> Counts {
    let mut counts = Counts::default();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some(found) = parse_result_line(&line) {
            counts.passed += found.passed;
            counts.failed += found.failed;
        }
    }
    counts
}

/// Reads `test result: ok. 3 passed; 0 failed; …`.
fn parse_result_line(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("test result: ")?;
    let rest = rest.split_once(". ")?.1;
    let count = |word: &str| {
        let part = rest
            .split(';')
            .map(str::trim)
            .find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse().ok()
    };
    Some(Counts {
        passed: count("passed")?,
        failed: count("failed")?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_counted_and_other_lines_are_not() {
        let line = "test result: FAILED. 28 passed; 7 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.67s";
        assert_eq!(
            parse_result_line(line),
            Some(Counts {
                passed: 28,
                failed: 7
            })
        );
        assert_eq!(parse_result_line("test a ... ok"), None);
        assert_eq!(parse_result_line("test result: ok."), None);
    }

    #[test]
    fn without_arguments_the_whole_workspace_is_tested() {
        assert_eq!(select_tests(&[]), ["--workspace"]);
        assert_eq!(select_tests(&["-p".into(), "x".into()]), ["-p", "x"]);
    }
}
