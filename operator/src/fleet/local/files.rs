//! The files of local mode that no other account may read: folders 0700, files 0600, written whole or not at all.
//!
//! Must not be here: what is in them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Makes a folder, and those above it, for this account alone.
///
/// # Errors
/// What the system says.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file for this account alone, under a temporary name first, so that nobody reads half of it.
///
/// # Errors
/// What the system says.
pub fn write_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// Removes configurations and credentials other than those to keep; what cannot be removed is tried the next time.
pub fn remove_old_files(folder: &Path, keep: &[PathBuf]) {
    for path in list_old_files(folder, keep) {
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), %error, "Old file cannot be removed.");
        }
    }
}

fn list_old_files(folder: &Path, keep: &[PathBuf]) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        name.starts_with("config-") || name.starts_with("credentials-")
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| is_ours(path) && !keep.contains(path))
        .collect()
}

/// The last part of a text file, at most `max_bytes` of it; empty where it cannot be read.
#[must_use]
pub fn read_tail(path: &Path, max_bytes: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let start = bytes.len().saturating_sub(max_bytes);
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_this_account_can_read_what_is_written() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        make_private_folder(&folder).unwrap();
        write_private_file(&folder.join("password"), b"secret").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("password")), 0o600);
        assert_eq!(fs::read(folder.join("password")).unwrap(), b"secret");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn only_configurations_and_credentials_that_nobody_needs_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for folder in ["credentials-a", "credentials-b"] {
            make_private_folder(&path(folder)).unwrap();
            write_private_file(&path(folder).join("password"), b"x").unwrap();
        }
        for file in ["config-a.json", "config-b.json", "worker-0.log"] {
            write_private_file(&path(file), b"x").unwrap();
        }
        remove_old_files(root.path(), &[path("config-b.json"), path("credentials-b")]);
        let mut left: Vec<_> = fs::read_dir(root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["config-b.json", "credentials-b", "worker-0.log"]);
    }

    #[test]
    fn a_tail_is_the_end_and_a_missing_file_has_none() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log");
        fs::write(&path, "one\ntwo").unwrap();
        assert_eq!(read_tail(&path, 3), "two");
        assert_eq!(read_tail(&root.path().join("none"), 3), "");
    }
}
