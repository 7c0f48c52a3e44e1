//! The folder of one `replay`, which holds a password: gone with the process that needed it, or with the next start.
//!
//! A process holds a lock beside its folder for as long as it lives, so a folder whose lock is free is nobody's any more,
//! whatever has ended its process. Must not be here: what a replay does.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::fleet::local::files::make_private_folder;

const PREFIX: &str = "replay-";

/// The folder of this process for one sink; removed when dropped.
#[derive(Debug)]
pub struct ReplayPlace {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl ReplayPlace {
    /// Makes it, in the folder of a sink.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(sink: &Path) -> io::Result<Self> {
        make_private_folder(sink)?;
        let path = sink.join(format!("{PREFIX}{}", std::process::id()));
        let lock_path = path.with_extension("lock");
        // The lock is there before the folder: nobody finds a folder whose owner has no lock yet.
        let lock = open_lock(&lock_path)?;
        lock.try_lock().map_err(io::Error::from)?;
        make_private_folder(&path)?;
        Ok(Self {
            path,
            lock_path,
            _lock: lock,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ReplayPlace {
    fn drop(&mut self) {
        remove(&self.path, &self.lock_path);
    }
}

/// Removes what replays have left in the folders of sinks whose processes were killed.
pub fn clear_dead_replays(state: &Path) {
    for sink in list(state).filter(|path| path.is_dir()) {
        for path in list(&sink).filter(|path| is_replay(path)) {
            let lock_path = path.with_extension("lock");
            // Held until the folder is gone.
            let lock = open_lock(&lock_path);
            if lock.as_ref().is_ok_and(|lock| lock.try_lock().is_ok()) {
                remove(&path, &lock_path);
            }
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

fn list(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn is_replay(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.is_dir() && name.is_some_and(|name| name.starts_with(PREFIX))
}

fn remove(path: &Path, lock_path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "The folder of a replay cannot be removed; it holds a password.");
        return;
    }
    // Without its folder nobody looks at it.
    let _ = fs::remove_file(lock_path);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_replay_leaves_nothing_and_its_folder_is_for_this_account_alone() {
        let state = tempfile::tempdir().unwrap();
        let sink = state.path().join("shop.events");
        let place = ReplayPlace::make(&sink).unwrap();
        fs::write(place.path().join("password"), "p").unwrap();
        let mode = fs::metadata(place.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(place);
        assert_eq!(list(&sink).count(), 0);
    }

    #[test]
    fn the_folder_of_a_killed_replay_goes_with_the_next_start_and_that_of_a_living_one_stays() {
        let state = tempfile::tempdir().unwrap();
        let sink = state.path().join("shop.events");
        let living = ReplayPlace::make(&sink).unwrap();
        let dead = sink.join("replay-0");
        fs::create_dir_all(dead.join("credentials")).unwrap();
        fs::write(dead.join("credentials/password"), "p").unwrap();
        fs::write(sink.join("config-1.json"), "{}").unwrap();
        clear_dead_replays(state.path());
        assert!(!dead.exists() && living.path().exists());
        drop(living);
        let left: Vec<PathBuf> = list(&sink).collect();
        assert_eq!(left, [sink.join("config-1.json")]);
    }
}
