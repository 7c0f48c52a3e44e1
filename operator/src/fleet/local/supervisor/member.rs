//! One worker as the supervisor keeps it, and as others see it.
//!
//! Must not be here: when it is started and stopped.

use std::process::ExitStatus;

use crate::fleet::local::decide::Slot;
use crate::fleet::local::process::Process;
use crate::fleet::{Health, WorkerPhase, WorkerView};

/// Exit code of a worker that left rows for replay.
const LEFT_ROWS: i32 = 3;

#[derive(Debug)]
pub(super) struct Member {
    pub(super) slot: Slot,
    pub(super) process: Option<Process>,
    pub(super) counted: Health,
    pub(super) left_rows: bool,
    pub(super) message: Option<String>,
}

impl Member {
    pub(super) const fn new() -> Self {
        let counted = Health {
            ready: false,
            reasons: Vec::new(),
            lag: 0,
            rows_inserted: 0,
            rejected: 0,
            holds: Vec::new(),
            topics: Vec::new(),
        };
        Self {
            slot: Slot::NEW,
            process: None,
            counted,
            left_rows: false,
            message: None,
        }
    }
}

pub(super) fn build_view(index: usize, member: &Member) -> WorkerView {
    let (phase, revision) = match &member.slot {
        Slot::Running { revision, .. } => (WorkerPhase::Running, Some(revision.clone())),
        Slot::Draining { .. } => (WorkerPhase::Draining, None),
        Slot::Empty { failures: 0, .. } => (WorkerPhase::Stopped, None),
        Slot::Empty { .. } => (WorkerPhase::BackingOff, None),
    };
    WorkerView {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        phase,
        revision,
        port: member.process.as_ref().map(Process::port),
        health: member.counted.clone(),
        message: member.message.clone(),
    }
}

/// None: it stopped in order, as asked.
pub(super) fn describe_end(status: ExitStatus, was_asked: bool, last_line: &str) -> Option<String> {
    match (status.code(), was_asked) {
        (Some(0), true) => None,
        (Some(LEFT_ROWS), true) => Some("rows were left for replay by the next start".to_owned()),
        (_, true) => Some(format!(
            "ended with {status} while stopping, what was not committed is replayed"
        )),
        (_, false) => Some(format!("ended by itself with {status}: {last_line}")),
    }
}
