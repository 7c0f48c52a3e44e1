//! The state folder of local mode: the cluster id, the salt, the lock, and a folder for each sink.
//!
//! Must not be here: what the fleet keeps in a sink's folder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use crate::fleet::local::files::{make_private_folder, write_private_file};
use crate::local::replay_place::clear_dead_replays;

/// Why the state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFolderError {
    /// A file or folder in it.
    #[error("cannot use {path} in the state folder: {source}; choose another with --state-dir")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process runs on it.
    #[error(
        "{path} is in use by another process: stop it, or choose another folder with --state-dir"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Its path cannot be written into a configuration.
    #[error("expected a path of UTF-8 text, found {path:?}; choose another with --state-dir")]
    NotUtf8 {
        /// The folder.
        path: PathBuf,
    },
    /// The cluster id is not one.
    #[error("expected a UUID in {path}: restore it, or delete the file to become a new cluster")]
    ClusterId {
        /// The file.
        path: PathBuf,
    },
}

/// An open state folder. It is ours until this value is dropped.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    cluster_id: Uuid,
    salt: Arc<[u8]>,
    _lock: Option<File>,
}

impl StateFolder {
    /// Opens or makes the folder, for this account and this process alone.
    ///
    /// # Errors
    /// Where it cannot be written, or another process has it.
    pub fn open(path: &Path) -> Result<Self, StateFolderError> {
        Self::open_with(path, true)
    }

    /// Opens or makes the folder beside another process that may run on it: for what only adds files of its own.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn open_beside(path: &Path) -> Result<Self, StateFolderError> {
        Self::open_with(path, false)
    }

    /// Looks at the folder beside another process that may run on it, and makes nothing: where there is none, ids are
    /// those of no cluster. For what shows and changes nothing.
    ///
    /// # Errors
    /// Where it is there and cannot be read.
    pub fn peek(path: &Path) -> Result<Self, StateFolderError> {
        let file = path.join("cluster-id");
        let cluster_id = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Uuid::nil(),
            Err(source) => return Err(StateFolderError::File { path: file, source }),
            Ok(text) => Uuid::try_parse(text.trim())
                .map_err(|_| StateFolderError::ClusterId { path: file })?,
        };
        Ok(Self {
            path: path.to_owned(),
            cluster_id,
            salt: Arc::from([]),
            _lock: None,
        })
    }

    fn open_with(path: &Path, alone: bool) -> Result<Self, StateFolderError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| StateFolderError::File { path, source }
        };
        make_private_folder(path).map_err(fail(path))?;
        let path = path.canonicalize().map_err(fail(path))?;
        if path.to_str().is_none() {
            return Err(StateFolderError::NotUtf8 { path });
        }
        clear_dead_replays(&path);
        let lock = if alone {
            Some(lock_folder(&path)?)
        } else {
            None
        };
        let cluster_id = read_or_make(&path.join("cluster-id")).map_err(fail(&path))?;
        let cluster_id =
            Uuid::try_parse(cluster_id.trim()).map_err(|_| StateFolderError::ClusterId {
                path: path.join("cluster-id"),
            })?;
        let salt = read_or_make(&path.join("salt")).map_err(fail(&path))?;
        Ok(Self {
            path,
            cluster_id,
            salt: salt.into_bytes().into(),
            _lock: lock,
        })
    }

    /// Names this folder as a cluster.
    #[must_use]
    pub fn cluster_id(&self) -> String {
        self.cluster_id.to_string()
    }

    /// `metadata.uid` of a sink here: a `UUIDv5` of cluster id, namespace and name.
    #[must_use]
    pub fn build_uid(&self, namespace: &str, name: &str) -> String {
        build_uid(&self.cluster_id, namespace, name)
    }

    /// The folder of one sink.
    #[must_use]
    pub fn locate_sink(&self, namespace: &str, name: &str) -> PathBuf {
        self.path.join(format!("{namespace}.{name}"))
    }

    /// What makes the names of credential folders unguessable.
    #[must_use]
    pub fn salt(&self) -> Arc<[u8]> {
        Arc::clone(&self.salt)
    }
}

fn build_uid(cluster_id: &Uuid, namespace: &str, name: &str) -> String {
    Uuid::new_v5(cluster_id, format!("{namespace}/{name}").as_bytes()).to_string()
}

fn lock_folder(path: &Path) -> Result<File, StateFolderError> {
    let lock_path = path.join("lock");
    let fail = |source| StateFolderError::File {
        path: lock_path.clone(),
        source,
    };
    let file = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&lock_path)
        .map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StateFolderError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// A random id that is made once.
fn read_or_make(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = Uuid::new_v4().to_string();
            write_private_file(path, id.as_bytes())?;
            Ok(id)
        }
        read => read,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_sink_keeps_its_uid_as_long_as_the_folder_lives() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        let uid = || StateFolder::open(&path).unwrap().build_uid("a", "b");
        assert_eq!(uid(), uid());
        let folder = StateFolder::open(&path).unwrap();
        assert_ne!(folder.build_uid("a", "b"), folder.build_uid("a", "c"));
        assert_eq!(
            Uuid::try_parse(&folder.build_uid("a", "b"))
                .unwrap()
                .get_version_num(),
            5
        );
    }

    #[test]
    fn a_second_process_is_kept_out() {
        let root = tempfile::tempdir().unwrap();
        let first = StateFolder::open(root.path()).unwrap();
        let second = StateFolder::open(root.path()).unwrap_err();
        assert!(matches!(second, StateFolderError::InUse { .. }), "{second}");
        drop(first);
        StateFolder::open(root.path()).unwrap();
    }

    #[test]
    fn a_look_makes_nothing_and_sees_the_ids_that_are_there() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        let nothing = StateFolder::peek(&path).unwrap().build_uid("a", "b");
        assert!(!path.exists());
        let folder = StateFolder::open(&path).unwrap();
        // While the other one runs.
        let seen = StateFolder::peek(&path).unwrap().build_uid("a", "b");
        assert_eq!(seen, folder.build_uid("a", "b"));
        assert_ne!(seen, nothing);
    }

    #[test]
    fn a_broken_cluster_id_is_never_replaced_in_silence() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cluster-id"), "x").unwrap();
        let error = StateFolder::open(root.path()).unwrap_err();
        assert!(error.to_string().contains("expected a UUID"), "{error}");
    }
}
