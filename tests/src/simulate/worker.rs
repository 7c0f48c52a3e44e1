//! A worker process: its membership, its sessions, and the batches that it is sending.
//!
//! Must not be here: what it does (`client.rs`, `shard.rs`, `task.rs`).

use clickhouse_sink_crds::worker_config::Guarantee;
use clickhouse_sink_worker::session::position::Gap;
use clickhouse_sink_worker::session::{ReplayMode, Session};

use super::table::Place;

/// Where the client stands with its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Out,
    Joining,
    In,
}

/// A process and its client.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Worker {
    /// Another one after each start.
    pub(super) process: u32,
    pub(super) alive: bool,
    /// Stopped by SIGSTOP.
    pub(super) frozen: bool,
    /// Cut off from Kafka until then.
    pub(super) cut_until: u64,
    pub(super) membership: Membership,
    pub(super) member: Option<u32>,
    pub(super) generation: i32,
    /// Partitions that are being given up, as bits.
    pub(super) revoking: u8,
    pub(super) revoke_by: u64,
    /// SIGTERM: gone by then.
    pub(super) stop_by: Option<u64>,
    pub(super) slots: Vec<Slot>,
    /// Number of the newest mapping that it knows; it knows all before, too.
    pub(super) mapping: usize,
    pub(super) guarantee: Guarantee,
    /// The broker keeps metadata: one session has proved it.
    pub(super) proven: bool,
    pub(super) knows_time: bool,
    /// Largest range that it cuts.
    pub(super) batch: i64,
    pub(super) topic_asked_at: u64,
}

impl Worker {
    pub(super) const fn new(guarantee: Guarantee) -> Self {
        Self {
            process: 0,
            alive: false,
            frozen: false,
            cut_until: 0,
            membership: Membership::Out,
            member: None,
            generation: -1,
            revoking: 0,
            revoke_by: 0,
            stop_by: None,
            slots: Vec::new(),
            mapping: 0,
            guarantee,
            proven: false,
            knows_time: true,
            batch: 8,
            topic_asked_at: 0,
        }
    }

    pub(super) const fn runs(&self) -> bool {
        self.alive && !self.frozen
    }

    pub(super) const fn is_settled(&self) -> bool {
        self.alive && self.stop_by.is_none() && self.revoking == 0
    }

    /// Partitions that it owns, as bits.
    pub(super) fn owned(&self) -> u8 {
        let owned = self.slots.iter().filter(|slot| slot.owned);
        owned.fold(0, |sum, slot| sum | (1 << slot.place.partition))
    }

    pub(super) fn slot(&mut self, session: u32) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.id == session)
    }
}

/// A session and what the shard keeps with it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: u32,
    /// False once the partition was given up or lost.
    pub(super) owned: bool,
    pub(super) session: Session,
    /// The truth about where its rows belong.
    pub(super) place: Place,
    pub(super) assigned_at: u64,
    /// Where the log ended when its position was asked for.
    pub(super) high: i64,
    /// A question that waits for its answer: position, read-back or gaps.
    pub(super) asked: Option<(u32, u64)>,
    pub(super) outstanding: Option<(u32, u64)>,
    /// A commit of unknown outcome: its retry is the same bytes.
    pub(super) again: Option<(i64, String)>,
    pub(super) gaps: Vec<Gap>,
    pub(super) tasks: Vec<Task>,
    /// The truth: what the last acknowledged commit declares, when the broker took it, under which mapping.
    pub(super) declared: Vec<(i64, i64)>,
    pub(super) declared_at: u64,
    pub(super) declared_mapping: usize,
    /// The plan that it found.
    pub(super) plan: Vec<(i64, i64)>,
    pub(super) reset: bool,
}

/// How far a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its rejects wait for the dead letters.
    DeadLetters,
    DeadLettersSent {
        op: u32,
        at: u64,
    },
    /// The table is asked, not before that time.
    Look {
        after: u64,
    },
    Looking {
        op: u32,
        at: u64,
    },
    /// It waits for the gate.
    Gate,
    /// The gate was asked; it is about to be sent.
    Checked,
    Sent {
        attempt: u32,
        at: u64,
    },
    Wait {
        until: u64,
    },
}

/// One range on its way to the table.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: u32,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) rows: u64,
    pub(super) poison: u64,
    pub(super) rejected: u64,
    pub(super) mapping: usize,
    pub(super) token: u64,
    pub(super) replay: Option<ReplayMode>,
    pub(super) step: Step,
    pub(super) failures: u32,
    /// Attempts of unknown outcome have ended by then; 0: there was none.
    pub(super) unknown_until: u64,
    /// Since that second a part of it may be in the table; 0: it is not known since when.
    pub(super) doubt_since: Option<u64>,
    /// The server has refused a record of it.
    pub(super) refused: bool,
    pub(super) was_sent: bool,
    /// The life of the topic that its records are of.
    pub(super) life: u8,
    /// The version of the log that they were read from.
    pub(super) version: u8,
    /// Only with a planted bug: the range whose declaration it goes under.
    pub(super) under: (i64, i64),
}
