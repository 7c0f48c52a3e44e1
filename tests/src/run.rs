//! The folder of one run: its record, the processes it started, its logs; and what dead runs left behind.
//!
//! Must not be here: what the processes are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::paths;
use crate::process::ProcessId;

/// Dead runs whose logs are kept.
const KEPT_RUNS: usize = 5;
const RECORD: &str = "run.json";
const PROCESS_SUFFIX: &str = ".process.json";

/// What a run writes down about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The process that owns the run: the run is over when it is gone.
    pub owner: ProcessId,
    /// Variables that point the tests at this run's components; empty until all are ready.
    pub env: Vec<(String, String)>,
}

/// A process that a run started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProcessRecord {
    name: String,
    id: ProcessId,
}

/// Makes the folder of a new run and writes its record. Clears what dead runs left first.
///
/// # Errors
/// Where the target folder cannot be written.
pub fn create_run() -> Result<PathBuf> {
    let runs = paths::runs_dir()?;
    clear_dead_runs(&runs)?;
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock is before 1970")?
        .as_secs();
    let run = runs.join(format!("{seconds}-{}", std::process::id()));
    fs::create_dir_all(&run).with_context(|| format!("cannot make {}", run.display()))?;
    let owner = ProcessId::current()?;
    write_record(
        &run,
        &RunRecord {
            owner,
            env: Vec::new(),
        },
    )?;
    Ok(run)
}

/// Replaces the record of a run.
///
/// # Errors
/// Where it cannot be written.
pub fn write_record(run: &Path, record: &RunRecord) -> Result<()> {
    write_whole(&run.join(RECORD), &serde_json::to_vec_pretty(record)?)
}

/// Reads the record of a run; `None` where it has none.
#[must_use]
pub fn read_record(run: &Path) -> Option<RunRecord> {
    serde_json::from_slice(&fs::read(run.join(RECORD)).ok()?).ok()
}

/// Notes a started process in a folder of the run, so that a later run can end it.
///
/// # Errors
/// Where it cannot be written.
pub fn note_process(dir: &Path, name: &str, id: &ProcessId) -> Result<()> {
    let record = ProcessRecord {
        name: name.to_owned(),
        id: id.clone(),
    };
    write_whole(
        &dir.join(format!("{name}{PROCESS_SUFFIX}")),
        &serde_json::to_vec(&record)?,
    )
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, bytes)
        .with_context(|| format!("cannot write {}", temporary.display()))?;
    fs::rename(&temporary, path).with_context(|| format!("cannot write {}", path.display()))
}

/// Folders of runs, oldest first.
#[must_use]
pub fn list_runs(runs: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(runs)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(RECORD).is_file())
        .collect();
    found.sort();
    found
}

/// The newest run whose owner lives and whose components are ready.
#[must_use]
pub fn find_ready_run(runs: &Path) -> Option<(PathBuf, RunRecord)> {
    list_runs(runs).into_iter().rev().find_map(|run| {
        let record = read_record(&run)?;
        (record.owner.is_alive() && !record.env.is_empty()).then_some((run, record))
    })
}

/// Ends every process that runs without a living owner have recorded, drops their data and the oldest logs.
/// Gives the names of what was ended.
///
/// # Errors
/// Where a folder cannot be removed.
pub fn clear_dead_runs(runs: &Path) -> Result<Vec<String>> {
    let is_dead = |run: &PathBuf| read_record(run).is_none_or(|record| !record.owner.is_alive());
    let dead: Vec<PathBuf> = list_runs(runs).into_iter().filter(is_dead).collect();
    let mut ended = Vec::new();
    for (index, run) in dead.iter().enumerate() {
        clear_run(run, &mut ended)?;
        if index + KEPT_RUNS < dead.len() {
            fs::remove_dir_all(run).with_context(|| format!("cannot remove {}", run.display()))?;
        }
    }
    Ok(ended)
}

fn clear_run(dir: &Path, ended: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(PROCESS_SUFFIX) {
            ended.extend(end_recorded(&path));
        }
    }
    // Only now, when nothing writes there any more.
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("data") => fs::remove_dir_all(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?,
            _ if path.is_dir() => clear_run(&path, ended)?,
            _ => {}
        }
    }
    Ok(())
}

fn end_recorded(path: &Path) -> Option<String> {
    let record: ProcessRecord = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    if !record.id.is_alive() {
        return None;
    }
    record.id.end();
    Some(record.name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::process::{managed_command, spawn};

    fn dead_owner() -> ProcessId {
        let me = ProcessId::current().unwrap();
        ProcessId {
            started_ticks: me.started_ticks - 1,
            ..me
        }
    }

    fn make_run(runs: &Path, name: &str, owner: ProcessId, ready: bool) -> PathBuf {
        let run = runs.join(name);
        fs::create_dir_all(run.join("kafka/data")).unwrap();
        let env = if ready {
            vec![("A".into(), "b".into())]
        } else {
            Vec::new()
        };
        write_record(&run, &RunRecord { owner, env }).unwrap();
        run
    }

    #[test]
    fn what_a_dead_run_left_is_ended_and_what_a_living_one_has_is_not() {
        let runs = tempfile::tempdir().unwrap();
        let start = || {
            let mut command = managed_command("sleep");
            command.arg("600");
            spawn("sleep", command).unwrap()
        };
        let (mut orphan, mut wanted) = (start(), start());
        let dead = make_run(runs.path(), "1", dead_owner(), true);
        let living = make_run(runs.path(), "2", ProcessId::current().unwrap(), true);
        note_process(&dead.join("kafka"), "orphan", orphan.id()).unwrap();
        note_process(&living.join("kafka"), "wanted", wanted.id()).unwrap();
        assert_eq!(clear_dead_runs(runs.path()).unwrap(), ["orphan"]);
        assert!(
            orphan
                .wait_at_most(std::time::Duration::from_secs(5))
                .unwrap()
                .is_some()
        );
        assert!(wanted.try_wait().unwrap().is_none());
        assert!(!dead.join("kafka/data").exists() && living.join("kafka/data").exists());
    }

    #[test]
    fn only_the_logs_of_the_newest_dead_runs_are_kept() {
        let runs = tempfile::tempdir().unwrap();
        for name in ["1", "2", "3", "4", "5", "6", "7"] {
            make_run(runs.path(), name, dead_owner(), false);
        }
        clear_dead_runs(runs.path()).unwrap();
        assert_eq!(list_runs(runs.path()).len(), KEPT_RUNS);
        assert!(runs.path().join("7").exists() && !runs.path().join("2").exists());
    }

    #[test]
    fn the_newest_ready_run_with_a_living_owner_is_used() {
        let runs = tempfile::tempdir().unwrap();
        let me = ProcessId::current().unwrap();
        let ready = make_run(runs.path(), "1", me.clone(), true);
        make_run(runs.path(), "2", me, false);
        make_run(runs.path(), "3", dead_owner(), true);
        assert_eq!(find_ready_run(runs.path()).unwrap().0, ready);
    }
}
