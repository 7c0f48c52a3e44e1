//! What a worker tells about itself: `/state`, `/readyz`, and the gauges of `/metrics`.
//!
//! Must not be here: the shards' own state; they publish copies of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// A shard loop that has not turned for this long is stuck: liveness fails.
const STUCK_AFTER: Duration = Duration::from_mins(1);

/// One partition, as `/state` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionView {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// State of the session.
    pub state: &'static str,
    /// Everything before it is acknowledged.
    pub position: i64,
    /// Committed offset.
    pub committed: Option<i64>,
    /// Last stable offset.
    pub end: Option<i64>,
    /// Records between the committed and the last stable offset.
    pub lag: Option<i64>,
    /// Records between the log start and the committed offset.
    pub log_start_distance: Option<i64>,
    /// Seconds without acknowledged progress while the last stable offset is ahead of the position.
    pub stalled_seconds: f64,
    /// Epoch of the session.
    pub epoch: Option<String>,
    /// Declared ranges that are not acknowledged yet.
    pub declared: usize,
}

/// A topic that a position of this sink exists on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TopicView {
    /// Its name.
    pub name: String,
    /// Its id, as Kafka prints it.
    pub id: String,
    /// Its partitions.
    pub partitions: u32,
}

/// A held partition, or partitions whose batch waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HoldView {
    /// `topic/partition`, several joined by commas.
    pub partition: String,
    /// CamelCase reason.
    pub reason: &'static str,
    /// Names this hold as long as it lasts.
    pub id: String,
    /// Seconds that it lasts.
    pub since_seconds: u64,
    /// What was expected, what was found, what to do.
    pub message: String,
}

/// What one shard published last.
#[derive(Clone, Debug, Default)]
pub struct ShardView {
    /// Its partitions.
    pub sessions: Vec<SessionView>,
    /// Its held partitions.
    pub holds: Vec<HoldView>,
    /// Bytes buffered or in flight.
    pub buffered_bytes: u64,
    /// Batches in flight.
    pub in_flight: usize,
    /// True once it has joined the group.
    pub member: bool,
    /// When its loop last turned.
    pub turned_at: Option<Instant>,
    /// Topics that it has positions on.
    pub topics: Vec<TopicView>,
}

/// The whole worker at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkerView {
    /// Namespace and name of the sink.
    pub sink: String,
    /// Hash of the mapping in use.
    pub mapping: String,
    /// All partitions.
    pub sessions: Vec<SessionView>,
    /// Topics that the sink has positions on, with their ids.
    pub topics: Vec<TopicView>,
    /// All holds.
    pub holds: Vec<HoldView>,
    /// Rows acknowledged since the start.
    pub rows_inserted: u64,
    /// Records in the dead letters since the start.
    pub rejected: u64,
    /// Bytes buffered or in flight.
    pub buffered_bytes: u64,
    /// Ceiling of all that is buffered.
    pub memory_budget_bytes: u64,
    /// Batches in flight.
    pub in_flight: usize,
    /// True while the worker stops.
    pub draining: bool,
}

/// The shards' published views and the flags of the process.
#[derive(Debug)]
pub struct WorkerState {
    shards: Vec<Mutex<ShardView>>,
    draining: AtomicBool,
}

impl WorkerState {
    /// State of a worker with so many shards.
    #[must_use]
    pub fn new(shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            draining: AtomicBool::new(false),
        }
    }

    /// Replaces what a shard tells.
    pub fn publish(&self, shard: usize, view: ShardView) {
        if let Some(slot) = self.shards.get(shard) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = view;
        }
    }

    /// What every shard told last.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardView> {
        self.shards
            .iter()
            .map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect()
    }

    /// The worker begins to stop.
    pub fn set_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// True while the worker stops.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

/// Reasons why the worker is not ready, none where it is.
///
/// Ready: every shard is a member of the group, the table was checked and is as declared, not draining. An empty
/// assignment is ready; a rebalance does not change it.
#[must_use]
pub fn decide_readiness(
    shards: &[ShardView],
    draining: bool,
    table: Option<(&str, &str)>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if draining {
        reasons.push("Draining: the worker is stopping".to_owned());
    }
    if shards.iter().any(|shard| !shard.member) {
        reasons.push("NotAMember: the consumer group was not joined yet".to_owned());
    }
    reasons.extend(table.map(|(reason, message)| format!("{reason}: {message}")));
    reasons
}

/// True while every shard's loop turns.
#[must_use]
pub fn decide_liveness(shards: &[ShardView], now: Instant) -> bool {
    let stuck = |at: Instant| now.saturating_duration_since(at) > STUCK_AFTER;
    !shards
        .iter()
        .any(|shard| shard.turned_at.is_some_and(stuck))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> ShardView {
        ShardView {
            member: true,
            turned_at: Some(Instant::now()),
            ..ShardView::default()
        }
    }

    #[test]
    fn an_empty_assignment_is_ready() {
        assert_eq!(
            decide_readiness(&[member()], false, None),
            Vec::<String>::new()
        );
    }

    #[test]
    fn every_reason_is_told_at_once() {
        let reasons = decide_readiness(
            &[ShardView::default()],
            true,
            Some(("TableNotAsDeclared", "no such table")),
        );
        assert_eq!(reasons.len(), 3);
        assert!(reasons[2].contains("no such table"));
    }

    #[test]
    fn a_loop_that_does_not_turn_is_not_alive() {
        let now = Instant::now();
        assert!(decide_liveness(&[member()], now));
        assert!(!decide_liveness(&[member()], now + STUCK_AFTER * 2));
    }
}
