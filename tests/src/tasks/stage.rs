//! A developer's command as a row of stages, each with a budget of time, each shown with what it took.
//!
//! Must not be here: what the stages do.
#![allow(clippy::print_stderr, reason = "a person watches the stages go by")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::paths;
use crate::process::{Managed, managed_command, spawn};

/// Stages that ran, with their times.
#[derive(Debug, Default)]
pub struct Stages {
    done: Vec<(&'static str, Duration, Duration)>,
}

impl Stages {
    /// Runs one stage; it fails where it takes longer than its budget.
    ///
    /// # Errors
    /// Those of the stage, and a budget that is used up.
    pub fn run<T>(
        &mut self,
        name: &'static str,
        budget_minutes: u64,
        stage: impl FnOnce(Instant) -> Result<T>,
    ) -> Result<T> {
        let budget = Duration::from_secs(60 * budget_minutes);
        let started = Instant::now();
        eprintln!("== {name} (budget {budget_minutes} min)");
        let outcome = stage(started + budget);
        let took = started.elapsed();
        eprintln!("== {name}: {}", render_minutes(took));
        self.done.push((name, took, budget));
        let value = outcome.with_context(|| format!("stage `{name}` failed"))?;
        ensure!(
            took <= budget,
            "stage `{name}` took {}, over its budget of {budget_minutes} min",
            render_minutes(took)
        );
        Ok(value)
    }

    /// A table of all stages.
    #[must_use]
    pub fn render(&self) -> String {
        let line = |(name, took, budget): &(&str, Duration, Duration)| {
            format!(
                "  {name:<22} {:>12}  of {}\n",
                render_minutes(*took),
                render_minutes(*budget)
            )
        };
        self.done.iter().map(line).collect()
    }
}

/// `3 min 07 s`.
#[must_use]
pub fn render_minutes(time: Duration) -> String {
    format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
}

/// `cargo` with arguments, at the root of the checkout, without what the outer `cargo run` put into the environment.
#[must_use]
pub fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = managed_command(program);
    command.args(args).current_dir(paths::workspace_dir());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let of_this_package = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
        ];
        if of_this_package
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    command
}

/// Builds all programs as a stage of its own.
///
/// # Errors
/// Where the build fails or takes too long.
pub fn build_programs() -> Result<()> {
    let build = [
        "build",
        "--profile",
        "ci",
        "--workspace",
        "--bins",
        "--locked",
    ];
    Stages::default().run("build", 35, |deadline| {
        run_command("cargo build", cargo(&build), deadline)
    })
}

/// Runs a command with its output to the terminal; ends it at `deadline`.
///
/// # Errors
/// Where it fails, or does not end in time.
pub fn run_command(name: &str, mut command: Command, deadline: Instant) -> Result<()> {
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let process = spawn(name, command)?;
    finish(name, process, deadline)
}

/// Waits for a command that was started; ends it at `deadline`.
///
/// # Errors
/// As [`run_command`].
pub fn finish(name: &str, mut process: Managed, deadline: Instant) -> Result<()> {
    let patience = deadline.saturating_duration_since(Instant::now());
    match process.wait_at_most(patience)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("{name}: {status}"),
        None => bail!("{name} did not end within the stage's budget"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_outlives_its_budget_is_ended_and_fails() {
        let mut command = managed_command("sleep");
        command.arg("600");
        let started = Instant::now();
        let error =
            run_command("sleep", command, started + Duration::from_millis(100)).unwrap_err();
        assert!(
            error.to_string().contains("budget") && started.elapsed() < Duration::from_secs(10)
        );
    }

    #[test]
    fn stages_are_listed_with_what_they_took() {
        let mut stages = Stages::default();
        stages.run("first", 1, |_| Ok(())).unwrap();
        stages.run("second", 0, |_| Ok(())).unwrap_err();
        assert!(stages.render().contains("first") && stages.render().contains("second"));
        assert_eq!(render_minutes(Duration::from_secs(187)), "3 min 07 s");
    }
}
