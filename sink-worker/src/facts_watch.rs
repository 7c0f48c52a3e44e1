//! The document of facts, read again while the worker runs.
//!
//! Must not be here: what the facts are used for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clickhouse_sink_crds::facts::Facts;
use tokio::sync::watch;

/// How often the file is read.
const PERIOD: Duration = Duration::from_secs(1);

/// Starts to watch the file; without one the facts stay empty.
#[must_use]
pub fn run_facts_watch(path: Option<PathBuf>) -> watch::Receiver<Arc<Facts>> {
    let first = path.as_deref().and_then(read).unwrap_or_default();
    let (sender, receiver) = watch::channel(Arc::new(first));
    if let Some(path) = path {
        tokio::spawn(run(path, sender));
    }
    receiver
}

async fn run(path: PathBuf, facts: watch::Sender<Arc<Facts>>) {
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        let Some(read) = read(&path) else {
            continue;
        };
        facts.send_if_modified(|known| {
            let changed = **known != read;
            if changed {
                tracing::info!(
                    topics = read.topics.len(),
                    tables = read.tables.len(),
                    resolutions = read.resolutions.len(),
                    "The facts have changed."
                );
                *known = Arc::new(read.clone());
            }
            changed
        });
    }
}

/// `None` where the file cannot be read: what was known before stays.
fn read(path: &Path) -> Option<Facts> {
    let text = std::fs::read(path).ok()?;
    match serde_json::from_slice(&text) {
        Ok(facts) => Some(facts),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "The facts cannot be read; what was known before stays.");
            None
        }
    }
}
