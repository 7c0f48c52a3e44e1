//! The question before a replay: does the server still know the tokens of the plan?
//!
//! Must not be here: what the answer means (`crate::window`), verifying itself (`crate::verify`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::backoff::decide_backoff;
use super::class::Failure;
use super::run::InsertContext;
use super::{Inserter, Report};
use crate::kafka::TopicPartition;
use crate::session::gate::GateView;
use crate::verify::{TableName, fetch_window_use};
use crate::window::{ReplayMode, WindowSettings, WindowUse, decide_replay};

/// An answer serves others who ask within this time: little of a window is used in it.
const FRESH: Duration = Duration::from_secs(1);

/// The last answer. Whoever asks waits for it, so that a thousand partitions ask one after the other, and most of them
/// nothing at all: their plans are of the same few seconds.
#[derive(Debug, Default)]
pub struct WindowAnswers(tokio::sync::Mutex<Option<Answer>>);

/// What was used of the window between a moment and the question.
#[derive(Clone, Copy, Debug)]
struct Answer {
    since_s: u64,
    asked_at: Instant,
    used: WindowUse,
}

impl Answer {
    /// What it says about a plan of another moment. More was used since an earlier moment than since a later one, so that
    /// what is within half of the window then is so now; the contrary is not.
    fn decide(&self, since_s: u64, window: &WindowSettings, now: Instant) -> Option<ReplayMode> {
        let is_fresh = now.saturating_duration_since(self.asked_at) < FRESH;
        let mode = decide_replay(window, &self.used);
        let serves = since_s == self.since_s
            || (self.since_s > 0 && since_s > self.since_s && mode == ReplayMode::Replay);
        (is_fresh && serves).then_some(mode)
    }
}

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
        let (context, reports, waker) = (
            Arc::clone(&self.context),
            self.reports.clone(),
            self.waker.clone(),
        );
        let asked = Instant::now();
        self.runtime.spawn(async move {
            let Some(mode) = ask_until_answered(&context, &partition, since_s, gate).await else {
                return;
            };
            if mode == ReplayMode::Verify {
                let rest = wait.saturating_sub(asked.elapsed());
                tracing::info!(topic = %partition.topic, partition = partition.partition, wait_seconds = rest.as_secs(), "Declared ranges may be older than the deduplication window: the table is asked before they are sent.");
                tokio::time::sleep(rest).await;
            }
            // The shard is gone only at exit.
            let _ = reports.send(Report::Window { partition, mode });
            waker.wake();
        });
    }
}

/// `None` once the gate is closed.
async fn ask_until_answered(
    context: &InsertContext,
    partition: &TopicPartition,
    since_s: u64,
    gate: watch::Receiver<GateView>,
) -> Option<ReplayMode> {
    let mut failures = 0;
    while gate.borrow().open {
        match ask(context, since_s).await {
            Ok(mode) => return Some(mode),
            Err(failure) => {
                failures += 1;
                tracing::warn!(topic = %partition.topic, partition = partition.partition, error = %failure.message, "The use of the deduplication window is asked for again.");
                tokio::time::sleep(decide_backoff(failures, crate::random())).await;
            }
        }
    }
    None
}

async fn ask(context: &InsertContext, since_s: u64) -> Result<ReplayMode, Failure> {
    let report = context.table.report();
    let mut last = context.window_answers.0.lock().await;
    let asked_at = Instant::now();
    let known = last.and_then(|it| it.decide(since_s, &report.window, asked_at));
    if let Some(mode) = known {
        return Ok(mode);
    }
    let table = TableName {
        database: &context.database,
        table: &context.table_name,
    };
    let used = fetch_window_use(&context.client, table, since_s).await?;
    *last = Some(Answer {
        since_s,
        asked_at,
        used,
    });
    Ok(decide_replay(&report.window, &used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_serves_plans_of_its_moment_and_where_little_was_used_those_of_later_ones() {
        let window = WindowSettings {
            entries: 100,
            seconds: None,
        };
        let now = Instant::now();
        let answer = |entries| Answer {
            since_s: 10,
            asked_at: now,
            used: WindowUse {
                entries: Some(entries),
                seconds: Some(5),
            },
        };
        let decide = |entries, since_s, later: Duration| {
            answer(entries).decide(since_s, &window, now + later)
        };
        let none = Duration::ZERO;
        assert_eq!(decide(50, 10, none), Some(ReplayMode::Replay));
        assert_eq!(decide(50, 11, none), Some(ReplayMode::Replay));
        assert_eq!(decide(50, 9, none), None);
        assert_eq!(decide(50, 0, none), None);
        assert_eq!(decide(51, 10, none), Some(ReplayMode::Verify));
        assert_eq!(decide(51, 11, none), None);
        assert_eq!(decide(50, 10, FRESH), None);
    }

    #[test]
    fn what_is_not_known_of_an_unknown_moment_serves_that_alone() {
        let window = WindowSettings {
            entries: 100,
            seconds: None,
        };
        let now = Instant::now();
        let answer = Answer {
            since_s: 0,
            asked_at: now,
            used: WindowUse::default(),
        };
        assert_eq!(answer.decide(0, &window, now), Some(ReplayMode::Verify));
        assert_eq!(answer.decide(1, &window, now), None);
    }
}
