//! The termination budget: one pure function that the pod template and the worker both use.
//!
//! Must not be here: clocks; a deadline is computed by whoever holds one.

use serde::{Deserialize, Serialize};

/// Seconds to commit, leave the group and close, after the final flush.
pub const CLOSE_SECONDS: u32 = 5;
/// Seconds kept back so that the kubelet never reaches its SIGKILL.
pub const MARGIN_SECONDS: u32 = 5;

/// How long each step of a stop may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShutdownBudget {
    /// Seconds the pod's preStop hook waits before SIGTERM.
    pub pre_stop_seconds: u32,
    /// Seconds from SIGTERM for the insert in flight and the last flush.
    pub final_flush_timeout_seconds: u32,
    /// Seconds for the last commit, leaving the group and closing.
    pub close_seconds: u32,
    /// Seconds kept back.
    pub margin_seconds: u32,
}

impl ShutdownBudget {
    /// The budget for a declared final flush and preStop wait, both in seconds.
    #[must_use]
    pub const fn new(final_flush_timeout_seconds: u32, pre_stop_seconds: u32) -> Self {
        Self {
            pre_stop_seconds,
            final_flush_timeout_seconds,
            close_seconds: CLOSE_SECONDS,
            margin_seconds: MARGIN_SECONDS,
        }
    }

    /// `terminationGracePeriodSeconds` of the pod: the sum of all steps.
    #[must_use]
    pub const fn termination_grace_period_seconds(&self) -> u32 {
        self.pre_stop_seconds
            .saturating_add(self.final_flush_timeout_seconds)
            .saturating_add(self.close_seconds)
            .saturating_add(self.margin_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_the_thirty_seconds_that_kubernetes_gives() {
        assert_eq!(
            ShutdownBudget::new(20, 0).termination_grace_period_seconds(),
            30
        );
    }

    #[test]
    fn a_huge_declaration_saturates_instead_of_wrapping() {
        assert_eq!(
            ShutdownBudget::new(u32::MAX, 7).termination_grace_period_seconds(),
            u32::MAX
        );
    }
}
