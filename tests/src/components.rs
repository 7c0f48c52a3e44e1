//! Downloaded components: one folder per component and version, complete or not there at all.
//!
//! Each is fetched with its registry's ordinary client, checked against a digest that is pinned here, made under a
//! temporary name and renamed. Must not be here: how a component is configured or run.
#![allow(
    clippy::print_stderr,
    reason = "a set-up takes minutes on a new machine, and a person watches it"
)]

pub mod cargo_deny;
pub mod clickhouse;
pub mod kafka;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256, Sha512};

use crate::paths;
use crate::process::{managed_command, read_tail, spawn};

/// A component and the version we use.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Name of its folder, with the version.
    pub folder: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// How large the download is, for people.
    pub size: &'static str,
}

/// Gives the component's folder; calls `make` with an empty temporary folder first where it is not there.
///
/// # Errors
/// Where `make` fails; the next call starts anew.
pub fn ensure_component(
    component: Component,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let cache = paths::cache_dir()?;
    let ready = cache.join(component.folder);
    if ready.is_dir() {
        return Ok(ready);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = File::create(cache.join(format!("{}.lock", component.folder)))?;
    lock.lock().context("cannot lock the cache folder")?;
    if !ready.is_dir() {
        make_component(component, &cache, &ready, make)?;
    }
    Ok(ready)
}

fn make_component(
    component: Component,
    cache: &Path,
    ready: &Path,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let started = Instant::now();
    eprintln!(
        "Setting up {} ({}), once on this machine.",
        component.title, component.size
    );
    // We hold the lock: a folder of this name was left by a set-up that was interrupted.
    let temporary = cache.join(format!("tmp-{}", component.folder));
    if temporary.exists() {
        fs::remove_dir_all(&temporary)?;
    }
    fs::create_dir_all(&temporary)?;
    make(&temporary).with_context(|| format!("cannot set up {}", component.title))?;
    fs::rename(&temporary, ready).context("cannot give the finished folder its name")?;
    eprintln!(
        "{} is ready after {} s.",
        component.title,
        started.elapsed().as_secs()
    );
    Ok(())
}

/// Fails where a program is not on the `PATH`, with the command that installs it.
///
/// # Errors
/// Names the program and the Debian packages that bring it.
pub fn ensure_tool(program: &str, packages: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    ensure!(
        found,
        "expected the program `{program}`, found none: install it with `apt-get install --no-install-recommends {packages}`"
    );
    Ok(())
}

/// A step of a set-up: runs `program`, says every few seconds that it still does, shows its last lines where it fails.
pub(crate) fn run_step(what: &str, program: &str, args: &[&str], dir: &Path) -> Result<()> {
    let log = dir.join("set-up.log");
    let output = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)?;
    let mut command: Command = managed_command(program);
    command
        .args(args)
        .current_dir(dir)
        .stdout(output.try_clone()?)
        .stderr(Stdio::from(output));
    let started = Instant::now();
    eprintln!("  {what} …");
    let mut step = spawn(program, command)?;
    let status = loop {
        match step.wait_at_most(Duration::from_secs(5))? {
            Some(status) => break status,
            None => eprintln!("  {what} … {} s so far", started.elapsed().as_secs()),
        }
    };
    if !status.success() {
        bail!(
            "{what}: `{program}` ended with {status}; its last lines:\n{}",
            read_tail(&log, 15)
        );
    }
    Ok(())
}

/// Digest of a file's bytes as lower-case hex.
pub(crate) fn digest_file<D: Digest>(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut hasher = D::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(render_hex(&hasher.finalize()));
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}

pub(crate) fn render_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Fails where a file's SHA-512 is not the pinned one.
pub(crate) fn check_sha512(path: &Path, expected: &str) -> Result<()> {
    check_digest(path, expected, &digest_file::<Sha512>(path)?)
}

/// Fails where a file's SHA-256 is not the pinned one.
pub(crate) fn check_sha256(path: &Path, expected: &str) -> Result<()> {
    check_digest(path, expected, &digest_file::<Sha256>(path)?)
}

fn check_digest(path: &Path, expected: &str, found: &str) -> Result<()> {
    ensure!(
        found == expected,
        "{} is not what was published: expected digest {expected}, found {found}; remove it and try again",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_altered_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "abc").unwrap();
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        check_sha256(&path, right).unwrap();
        fs::write(&path, "abd").unwrap();
        let error = check_sha256(&path, right).unwrap_err().to_string();
        assert!(
            error.contains(right) && error.contains("remove it"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_tool_is_named_with_the_command_that_installs_it() {
        let error = ensure_tool("no-such-tool-here", "no-such-package")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("apt-get install --no-install-recommends no-such-package"),
            "{error}"
        );
        ensure_tool("sh", "dash").unwrap();
    }

    #[test]
    fn a_failing_step_shows_its_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let error = run_step(
            "trying",
            "sh",
            &["-c", "echo broken >&2; exit 3"],
            dir.path(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
    }
}
