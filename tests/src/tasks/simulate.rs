//! `cargo xtask simulate`: many simulated histories, what they have met, and planted bugs that must be found.
//!
//! Must not be here: the histories (`simulate.rs` of the crate).
#![allow(
    clippy::print_stdout,
    reason = "figures, tables and traces are what the command is for"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::simulate::{Bug, Coverage, Outcome, simulate};

/// Histories of a full run; from here on the coverage must be complete.
pub const FULL_RUN: u64 = 200_000;
/// A planted bug must be found within so many seeds.
const BUG_SEEDS: u64 = 20_000;
/// Each crash point must be met so often in a full run.
const CRASH_POINTS: u64 = 1_000;
/// Each fault must meet each state of a session so often in a full run.
const STATES: u64 = 50;
/// Half of the histories take at least so many steps.
const MEDIAN_STEPS: u32 = 300;

/// A run ends after so many histories that break a promise.
const MOST_FAILURES: usize = 20;

/// What to simulate.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Histories to play
    #[arg(long, default_value_t = FULL_RUN)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Play this one alone and print all of its steps
    #[arg(long)]
    seed: Option<u64>,
    /// Plant this bug; without it each bug is planted after the run, and must be found
    #[arg(long)]
    bug: Option<String>,
    /// Plant no bugs after the run
    #[arg(long)]
    no_bugs: bool,
}

/// Runs the command.
///
/// # Errors
/// A history that breaks a promise, coverage that is not reached, a planted bug that is not found.
pub fn run(args: &SimulateArgs) -> Result<ExitCode> {
    let bug = args.bug.as_deref().map(parse_bug).transpose()?;
    if let Some(seed) = args.seed {
        return Ok(replay(seed, bug));
    }
    if let Some(bug) = bug {
        find(bug, args.seeds)?;
        return Ok(ExitCode::SUCCESS);
    }
    run_all(args.from, args.seeds)?;
    if !args.no_bugs {
        find_all()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The run of `cargo xtask test`.
///
/// # Errors
/// As [`run`].
pub fn run_full() -> Result<()> {
    run_all(0, FULL_RUN)?;
    find_all()
}

fn parse_bug(name: &str) -> Result<Bug> {
    let names: Vec<&str> = Bug::ALL.into_iter().map(Bug::name).collect();
    Bug::parse(name)
        .with_context(|| format!("expected one of {}, found `{name}`", names.join(", ")))
}

fn replay(seed: u64, bug: Option<Bug>) -> ExitCode {
    let outcome = play(seed, bug, true, &mut Coverage::default());
    for line in &outcome.trace {
        println!("{line}");
    }
    let history = format!(
        "seed {seed}, {} steps, trace {:016x}",
        outcome.steps,
        outcome.trace_hash()
    );
    if let Some(violation) = &outcome.violation {
        println!("{history}: {violation}");
        return ExitCode::FAILURE;
    }
    println!("{history}: all promises were kept");
    ExitCode::SUCCESS
}

/// A panic in a history breaks a promise, too.
fn play(seed: u64, bug: Option<Bug>, trace: bool, coverage: &mut Coverage) -> Outcome {
    let played = catch_unwind(AssertUnwindSafe(|| simulate(seed, bug, trace, coverage)));
    played.unwrap_or_else(|_| Outcome {
        seed,
        steps: 0,
        violation: Some("it panicked".to_owned()),
        trace: Vec::new(),
    })
}

/// What many histories gave.
#[derive(Default)]
struct Sum {
    coverage: Coverage,
    steps: Vec<u32>,
    failures: Vec<Outcome>,
}

impl Sum {
    fn add(&mut self, mut other: Self) {
        self.coverage.add(&other.coverage);
        self.steps.append(&mut other.steps);
        self.failures.append(&mut other.failures);
        self.failures.sort_by_key(|failure| failure.seed);
    }

    fn median_steps(&mut self) -> u32 {
        self.steps.sort_unstable();
        self.steps.get(self.steps.len() / 2).copied().unwrap_or(0)
    }
}

/// Plays all seeds on all processors; ends after so many broken promises.
fn play_many(from: u64, seeds: u64, bug: Option<Bug>, most: usize) -> Sum {
    let (next, failed, sum) = (
        AtomicU64::new(from),
        AtomicUsize::new(0),
        Mutex::new(Sum::default()),
    );
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        let mut own = Sum::default();
        while failed.load(Ordering::Relaxed) < most {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + seeds {
                break;
            }
            let outcome = play(seed, bug, false, &mut own.coverage);
            own.steps.push(outcome.steps);
            if outcome.violation.is_some() {
                failed.fetch_add(1, Ordering::Relaxed);
                own.failures.push(outcome);
            }
        }
        if let Ok(mut sum) = sum.lock() {
            sum.add(own);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    sum.into_inner().unwrap_or_default()
}

fn run_all(from: u64, seeds: u64) -> Result<()> {
    let started = Instant::now();
    let mut sum = play_many(from, seeds, None, MOST_FAILURES);
    let (histories, median) = (sum.steps.len(), sum.median_steps());
    println!("{}", sum.coverage.render());
    println!(
        "seeds {from} to {}: {histories} histories, median {median} steps, {:.1} s, {} broken promises",
        from + seeds.saturating_sub(1),
        started.elapsed().as_secs_f64(),
        sum.failures.len()
    );
    for failure in &sum.failures {
        println!("{}", describe(failure));
    }
    ensure!(
        sum.failures.is_empty(),
        "expected that every history keeps what is promised, found {} that do not; the command beside each shows its steps",
        sum.failures.len()
    );
    ensure!(
        median >= MEDIAN_STEPS,
        "expected a median of at least {MEDIAN_STEPS} steps, found {median}: raise the steps of a scenario"
    );
    if seeds >= FULL_RUN {
        let missing = sum.coverage.missing(CRASH_POINTS, STATES);
        ensure!(
            missing.is_empty(),
            "the histories have met too little of: {}",
            missing.join("; ")
        );
    }
    Ok(())
}

fn describe(outcome: &Outcome) -> String {
    format!(
        "  cargo xtask simulate --seed {}: {}",
        outcome.seed,
        outcome.violation.as_deref().unwrap_or_default()
    )
}

fn find_all() -> Result<()> {
    for bug in Bug::ALL {
        find(bug, BUG_SEEDS)?;
    }
    Ok(())
}

fn find(bug: Bug, seeds: u64) -> Result<()> {
    let sum = play_many(0, seeds, Some(bug), 1);
    let name = bug.name();
    let failure = sum
        .failures
        .first()
        .with_context(|| format!("the planted bug `{name}` was not found within {seeds} seeds"))?;
    println!(
        "{name:<26} found by seed {:>5}: {}",
        failure.seed,
        failure.violation.as_deref().unwrap_or_default()
    );
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_failures_of_all_threads_are_told_in_the_order_of_their_seeds() {
        let failure = |seed| Sum {
            failures: vec![Outcome {
                seed,
                steps: 1,
                violation: Some("I1".to_owned()),
                trace: Vec::new(),
            }],
            ..Sum::default()
        };
        let mut sum = Sum::default();
        for seed in [7, 3, 5] {
            sum.add(failure(seed));
        }
        let told: Vec<String> = sum.failures.iter().map(describe).collect();
        assert_eq!(told[0], "  cargo xtask simulate --seed 3: I1");
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn every_bug_is_known_by_its_name() {
        for bug in Bug::ALL {
            assert_eq!(parse_bug(bug.name()).unwrap(), bug);
        }
        let error = parse_bug("none").unwrap_err().to_string();
        assert!(error.contains("gate-not-closed"), "{error}");
    }
}
