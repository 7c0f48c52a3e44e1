//! What one seed plays: sizes, settings, the faults that it may have, and the bugs that can be planted.
//!
//! Must not be here: steps.

use clickhouse_sink_crds::worker_config::{Guarantee, OnDataLoss, StartFrom};

use super::random::Random;

/// A mistake in what surrounds the session, planted to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A partition is given up without closing its gate.
    GateNotClosed,
    /// A range is acknowledged when it is sent.
    CommitBeforeInsert,
    /// Every commit says that its ranges were declared just now.
    DeclaredTimeRefreshed,
    /// Halves of a range are sent under the declaration of the whole.
    SplitNotDeclared,
    /// Rejected records are written after the INSERT.
    DeadLetterAfterInsert,
    /// A replay uses the worker's own mapping, not the plan's.
    ReplayWithNewMapping,
    /// After an admin moved the position the old epoch goes on.
    EpochReused,
    /// A worker of the other guarantee does not look at the plan.
    PlanForgotten,
    /// The answer to a commit counts although the partition was lost.
    AcknowledgedAfterLoss,
    /// An attempt of unknown outcome is repeated however much of the window was used since.
    RepeatedAfterWindow,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::GateNotClosed,
        Self::CommitBeforeInsert,
        Self::DeclaredTimeRefreshed,
        Self::SplitNotDeclared,
        Self::DeadLetterAfterInsert,
        Self::ReplayWithNewMapping,
        Self::EpochReused,
        Self::PlanForgotten,
        Self::AcknowledgedAfterLoss,
        Self::RepeatedAfterWindow,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GateNotClosed => "gate-not-closed",
            Self::CommitBeforeInsert => "commit-before-insert",
            Self::DeclaredTimeRefreshed => "declared-time-refreshed",
            Self::SplitNotDeclared => "split-not-declared",
            Self::DeadLetterAfterInsert => "dead-letter-after-insert",
            Self::ReplayWithNewMapping => "replay-with-new-mapping",
            Self::EpochReused => "epoch-reused",
            Self::PlanForgotten => "plan-forgotten",
            Self::AcknowledgedAfterLoss => "acknowledged-after-loss",
            Self::RepeatedAfterWindow => "repeated-after-window",
        }
    }

    /// The bug of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }
}

/// Rare events, of which a seed has a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rare {
    AdminReset,
    OffsetsExpired,
    TopicRecreated,
    Retention,
    Truncation,
    Compaction,
    MappingChanged,
    GuaranteeChanged,
    PartitionsGrow,
    CoordinatorRollback,
    LongPause,
    RowsHidden,
}

impl Rare {
    /// As often as they are drawn.
    pub(super) const ALL: [Self; 13] = [
        Self::AdminReset,
        Self::OffsetsExpired,
        Self::TopicRecreated,
        Self::Retention,
        Self::Retention,
        Self::Truncation,
        Self::Compaction,
        Self::MappingChanged,
        Self::GuaranteeChanged,
        Self::PartitionsGrow,
        Self::CoordinatorRollback,
        Self::LongPause,
        Self::RowsHidden,
    ];
}

/// What a broker does with the metadata of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metadata {
    Kept,
    Dropped,
    /// At most so many bytes.
    Limited(usize),
}

/// What one seed plays.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) workers: usize,
    pub(super) partitions: usize,
    pub(super) table_partitions: u8,
    /// Entries of the deduplication window.
    pub(super) window: u64,
    pub(super) guarantee: Guarantee,
    pub(super) start_from: StartFrom,
    pub(super) on_loss: OnDataLoss,
    pub(super) metadata: Metadata,
    pub(super) faulty_records: bool,
    /// Steps with faults; after them everything runs to rest.
    pub(super) steps: u32,
    pub(super) rare: Vec<Rare>,
    pub(super) bug: Option<Bug>,
}

impl Scenario {
    pub(super) fn draw(random: &mut Random, bug: Option<Bug>) -> Self {
        Self {
            workers: 1 + random.index(3),
            partitions: 1 + random.index(3),
            table_partitions: 1 + random.below(3) as u8,
            window: 1000,
            guarantee: if random.percent(12) {
                Guarantee::AtLeastOnce
            } else {
                Guarantee::ExactlyOnce
            },
            start_from: if random.percent(25) {
                StartFrom::Latest
            } else {
                StartFrom::Earliest
            },
            on_loss: if random.percent(50) {
                OnDataLoss::Hold
            } else {
                OnDataLoss::SkipAndRecord
            },
            metadata: draw_metadata(random),
            faulty_records: random.percent(60),
            steps: 180 + random.below(170) as u32,
            rare: draw_rare(random),
            bug,
        }
    }
}

const fn draw_metadata(random: &mut Random) -> Metadata {
    match random.below(100) {
        0..2 => Metadata::Dropped,
        2..6 => Metadata::Limited(120 + random.index(40)),
        _ => Metadata::Kept,
    }
}

fn draw_rare(random: &mut Random) -> Vec<Rare> {
    let count = random.index(5);
    (0..count)
        .map(|_| Rare::ALL[random.index(Rare::ALL.len())])
        .collect()
}
