//! Where things are: the cache folder, the target folder, the folders of runs, the workspace's binaries.
//!
//! Must not be here: what is in them.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folder of downloaded components: `$XDG_CACHE_HOME/clickhouse-sink` or `~/.cache/clickhouse-sink`.
///
/// # Errors
/// Where neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache_dir() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => {
            PathBuf::from(env::var_os("HOME").context("expected HOME or XDG_CACHE_HOME to be set")?)
                .join(".cache")
        }
    };
    Ok(base.join("clickhouse-sink"))
}

/// Root of the checkout.
#[must_use]
pub fn workspace_dir() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Folder with the binaries of the profile that the running program was built with (`target/ci`).
///
/// # Errors
/// Where the running program is not in a target folder.
pub fn profile_dir() -> Result<PathBuf> {
    let exe = env::current_exe().context("cannot tell which program is running")?;
    let dir = exe.parent().context("the running program has no folder")?;
    // Test binaries are one level deeper, in `deps`.
    let is_deps = dir.file_name().is_some_and(|name| name == "deps");
    let profile = if is_deps { dir.parent() } else { Some(dir) };
    Ok(profile
        .context("the running program is not in a target folder")?
        .to_owned())
}

/// A binary of the workspace, built with the same profile.
///
/// # Errors
/// Where it is not built; says how to build it.
pub fn binary(name: &str) -> Result<PathBuf> {
    let path = profile_dir()?.join(name);
    anyhow::ensure!(
        path.is_file(),
        "expected {} to be built: run `cargo build --profile ci --workspace --bins`",
        path.display()
    );
    Ok(path)
}

/// Folder of all runs of the stack, `target/stack`.
///
/// # Errors
/// As [`profile_dir`].
pub fn runs_dir() -> Result<PathBuf> {
    let profile = profile_dir()?;
    Ok(profile.parent().unwrap_or(&profile).join("stack"))
}
