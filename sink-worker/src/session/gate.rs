//! The gate of a session: what may be sent for its partition at this moment.
//!
//! A value that the shard publishes on every change; each attempt asks it just before it sends. Must not be here: sending.

use std::time::Duration;

/// The longest that an acknowledged declaration is good for.
pub const MAX_DECLARATION_AGE: Duration = Duration::from_mins(1);
/// The shortest: a rebalance may keep commits waiting for a session timeout.
const MIN_DECLARATION_AGE: Duration = Duration::from_secs(15);

/// How long an acknowledged declaration is good for: two attempts, within bounds.
#[must_use]
pub fn decide_declaration_age(insert_timeout: Duration) -> Duration {
    (insert_timeout * 2).clamp(MIN_DECLARATION_AGE, MAX_DECLARATION_AGE)
}

/// What may be sent for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateView {
    /// False once the partition was given up or lost.
    pub open: bool,
    /// Ranges that a commit of this session declares, acknowledged by the broker; `None`: no range needs a declaration.
    pub declared: Option<Declared>,
}

/// Declared ranges and how long their declaration is good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Start and end of each.
    pub ranges: Vec<(i64, i64)>,
    /// `CLOCK_BOOTTIME` up to which attempts may be sent.
    pub valid_until: Duration,
}

/// Answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaySend {
    /// Now.
    Yes,
    /// Not before the gate changes.
    NotYet,
    /// Never again: the partition is somebody else's.
    Never,
}

impl GateView {
    /// A gate that lets nothing pass yet.
    #[must_use]
    pub fn shut() -> Self {
        Self {
            open: true,
            declared: Some(Declared::default()),
        }
    }

    /// A gate that never opens again.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            open: false,
            declared: Some(Declared::default()),
        }
    }

    /// Whether the INSERT of `[start, end)` may be sent at this moment of `CLOCK_BOOTTIME`.
    #[must_use]
    pub fn may_send(&self, start: i64, end: i64, boot: Duration) -> MaySend {
        if !self.open {
            return MaySend::Never;
        }
        let Some(declared) = &self.declared else {
            return MaySend::Yes;
        };
        if declared.ranges.contains(&(start, end)) && boot < declared.valid_until {
            MaySend::Yes
        } else {
            MaySend::NotYet
        }
    }
}
