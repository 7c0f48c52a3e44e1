//! Asks the worker program what the sink's consumer group has committed.
//!
//! Must not be here: what follows from it.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use clickhouse_sink_crds::group_plans::GroupPlans;
use clickhouse_sink_crds::worker_config::WorkerConfig;
use tokio::process::Command;
use tokio::time::timeout;

use crate::fleet::FleetError;
use crate::fleet::local::files::write_private_file;

/// The program itself gives up earlier.
const DEADLINE: Duration = Duration::from_secs(30);
/// How much of its last line is shown, in characters.
const LINE_CHARS: usize = 300;

/// Runs `plans` to its end.
pub(super) async fn run_plans(
    worker_bin: &Path,
    folder: &Path,
    config: &WorkerConfig,
) -> Result<GroupPlans, FleetError> {
    let path = folder.join("plans.json");
    let text = serde_json::to_vec(config)?;
    write_private_file(&path, &text).map_err(|source| FleetError::File {
        path: path.clone(),
        source,
    })?;
    let output = run(worker_bin, &path).await;
    // It may name an account of Kafka's.
    let _ = std::fs::remove_file(&path);
    read_output(&output?)
}

async fn run(worker_bin: &Path, config: &Path) -> Result<Output, FleetError> {
    let fail = |detail: String| FleetError::Plans { detail };
    let mut command = Command::new(worker_bin);
    command.arg("plans").arg("--config").arg(config);
    command.stdin(Stdio::null()).kill_on_drop(true);
    match timeout(DEADLINE, command.output()).await {
        Ok(output) => output.map_err(|error| fail(format!("{}: {error}", worker_bin.display()))),
        Err(_) => Err(fail(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

fn read_output(output: &Output) -> Result<GroupPlans, FleetError> {
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).map_err(|error| FleetError::Plans {
            detail: format!("the worker program's answer cannot be read: {error}"),
        });
    }
    let log = String::from_utf8_lossy(&output.stderr);
    let last = log.trim_end().lines().next_back().unwrap_or_default();
    Err(FleetError::Plans {
        detail: last.chars().take(LINE_CHARS).collect(),
    })
}
