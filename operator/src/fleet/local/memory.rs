//! The files of a sink's folder that outlive its workers: `facts.json`, which these read, and `mappings.json`.
//!
//! Must not be here: what is remembered (`controller/memory.rs`).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clickhouse_sink_crds::facts::{FACTS_VERSION, Facts};
use clickhouse_sink_crds::worker_config::EarlierMapping;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::controller::memory::Memory;
use crate::fleet::FleetError;
use crate::fleet::local::files::write_private_file;

/// The newest version of `mappings.json` that this build reads and writes.
const MAPPINGS_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Mappings {
    version: u32,
    mappings: Vec<EarlierMapping>,
}

/// The document of facts.
pub(super) fn locate_facts(folder: &Path) -> PathBuf {
    folder.join("facts.json")
}

fn locate_mappings(folder: &Path) -> PathBuf {
    folder.join("mappings.json")
}

/// What was written last; nothing where nothing was. A file that cannot be read is never taken for none.
pub(super) fn read_memory(folder: &Path) -> Result<Memory, FleetError> {
    let facts: Option<Facts> =
        read_document(&locate_facts(folder), FACTS_VERSION, |facts: &Facts| {
            facts.version
        })?;
    let mappings: Option<Mappings> = read_document(
        &locate_mappings(folder),
        MAPPINGS_VERSION,
        |found: &Mappings| found.version,
    )?;
    Ok(Memory {
        facts: facts.unwrap_or_default(),
        mappings: mappings.map(|found| found.mappings).unwrap_or_default(),
    })
}

fn read_document<T: DeserializeOwned>(
    path: &Path,
    newest: u32,
    version: impl Fn(&T) -> u32,
) -> Result<Option<T>, FleetError> {
    let fail = |detail: String| FleetError::Memory {
        path: path.to_owned(),
        detail,
    };
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| fail(error.to_string()))?,
    };
    let document: T = serde_json::from_slice(&text).map_err(|error| fail(error.to_string()))?;
    match version(&document) {
        found if found == newest => Ok(Some(document)),
        found => Err(fail(format!("expected version {newest}, found {found}"))),
    }
}

/// Writes each file whole or not at all; the mappings first, since what workers run on must be known before.
pub(super) fn write_memory(folder: &Path, memory: &Memory) -> Result<(), FleetError> {
    let mappings = Mappings {
        version: MAPPINGS_VERSION,
        mappings: memory.mappings.clone(),
    };
    write_document(locate_mappings(folder), &mappings)?;
    write_document(locate_facts(folder), &memory.facts)
}

fn write_document(path: PathBuf, document: &impl Serialize) -> Result<(), FleetError> {
    let text = serde_json::to_vec_pretty(document)?;
    if fs::read(&path).is_ok_and(|written| written == text) {
        return Ok(());
    }
    write_private_file(&path, &text).map_err(|source| FleetError::File { path, source })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_nothing_is_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read_memory(root.path()).unwrap(), Memory::default());
        let mut memory = Memory::default();
        memory.facts.tables.push("a".to_owned());
        write_memory(root.path(), &memory).unwrap();
        assert_eq!(read_memory(root.path()).unwrap(), memory);
    }

    #[test]
    fn a_broken_or_newer_file_is_an_error_and_stays_as_it_is() {
        for text in ["{", r#"{ "version": 9 }"#] {
            let root = tempfile::tempdir().unwrap();
            let path = locate_facts(root.path());
            fs::write(&path, text).unwrap();
            let error = read_memory(root.path()).unwrap_err();
            assert_eq!(error.reason(), "FactsUnreadable");
            assert!(error.to_string().contains("restore the file"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
