//! What stands between a batch and its acknowledgement, for `/readyz`, `/state` and the log.
//!
//! Must not be here: decisions; this is what is told about them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::class::{Failure, FailureClass};

/// Why a batch is not acknowledged yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of failure.
    pub class: FailureClass,
    /// CamelCase reason.
    pub reason: &'static str,
    /// What happened and what to do.
    pub message: String,
    /// Since when this class lasts.
    pub since: Instant,
    /// Partitions whose ranges wait.
    pub partitions: Vec<String>,
}

/// The troubles of all batches of a worker, by batch.
#[derive(Debug, Default)]
pub struct Troubles {
    by_batch: Mutex<BTreeMap<(usize, u64), Trouble>>,
}

impl Troubles {
    /// Notes a failure; returns true where its class is new for the batch (then it is worth a log line).
    pub fn note(
        &self,
        key: (usize, u64),
        failure: &Failure,
        reason: &'static str,
        partitions: &[String],
        now: Instant,
    ) -> bool {
        let mut troubles = self.by_batch.lock().unwrap_or_else(PoisonError::into_inner);
        let before = troubles
            .get(&key)
            .filter(|trouble| trouble.class == failure.class && trouble.reason == reason);
        let since = before.map_or(now, |trouble| trouble.since);
        let is_new = before.is_none();
        let message = failure.message.clone();
        let partitions = partitions.to_vec();
        troubles.insert(
            key,
            Trouble {
                class: failure.class,
                reason,
                message,
                since,
                partitions,
            },
        );
        is_new
    }

    /// The batch is through; returns true where it was in trouble.
    pub fn clear(&self, key: (usize, u64)) -> bool {
        self.by_batch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key)
            .is_some()
    }

    /// All troubles, oldest batch first.
    #[must_use]
    pub fn list(&self) -> Vec<Trouble> {
        self.by_batch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}
