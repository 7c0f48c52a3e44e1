//! `cargo xtask lint` and `codegen`: what can be said about the sources without running them.
//!
//! Must not be here: the rules themselves (Cargo.toml, clippy.toml, deny.toml, rustfmt.toml).
#![allow(
    clippy::print_stderr,
    reason = "messages are for the person at the terminal"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clickhouse_sink_crds::codegen;

use super::stage::{Stages, cargo, run_command};
use crate::components::cargo_deny::ensure_cargo_deny;
use crate::paths;
use crate::process::managed_command;

/// Runs all checks of the sources.
///
/// # Errors
/// At the first that fails.
pub fn run(stages: &mut Stages) -> Result<()> {
    stages.run("format", 2, |deadline| {
        run_command(
            "cargo fmt",
            cargo(&["fmt", "--all", "--", "--check"]),
            deadline,
        )
    })?;
    stages.run("generated files", 1, |_| check_generated())?;
    stages.run("dependencies", 5, check_dependencies)?;
    let clippy = [
        "clippy",
        "--profile",
        "ci",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    stages.run("clippy", 30, |deadline| {
        run_command("cargo clippy", cargo(&clippy), deadline)
    })
}

fn check_dependencies(deadline: Instant) -> Result<()> {
    let program = ensure_cargo_deny()?;
    let deny = |args: &[&str]| {
        let mut command = managed_command(&program);
        command.args(args).current_dir(paths::workspace_dir());
        command
    };
    run_command(
        "cargo deny",
        deny(&["check", "licenses", "bans", "sources"]),
        deadline,
    )?;
    let soon = Instant::now() + Duration::from_mins(1);
    if run_command(
        "cargo deny",
        deny(&["--log-level", "off", "fetch", "db"]),
        soon,
    )
    .is_err()
    {
        eprintln!(
            "The advisory database cannot be reached from here: known holes of dependencies were NOT checked. \
             Licences, duplicates and sources were."
        );
        return Ok(());
    }
    run_command("cargo deny", deny(&["check", "advisories"]), deadline)
}

/// Files below the root whose text is not the generated one.
fn find_stale(root: &Path) -> Vec<(String, String)> {
    let is_stale = |(path, text): &(String, String)| {
        fs::read_to_string(root.join(path)).ok().as_ref() != Some(text)
    };
    codegen::render().into_iter().filter(is_stale).collect()
}

fn check_generated() -> Result<()> {
    let stale: Vec<String> = find_stale(&paths::workspace_dir())
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    ensure!(
        stale.is_empty(),
        "{} is stale: run `cargo xtask codegen`",
        stale.join(", ")
    );
    Ok(())
}

/// Writes the generated files, or only checks them.
///
/// # Errors
/// Where one cannot be written; with `check`, where one is stale.
pub fn generate(check: bool) -> Result<()> {
    if check {
        return check_generated();
    }
    let root = paths::workspace_dir();
    for (path, text) in find_stale(&root) {
        let full = root.join(&path);
        fs::create_dir_all(full.parent().unwrap_or(&root))?;
        fs::write(&full, text).with_context(|| format!("cannot write {path}"))?;
        eprintln!("Wrote {path}.");
    }
    Ok(())
}
