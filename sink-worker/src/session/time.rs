//! The moments that a session is given: it has no clock of its own.
//!
//! Must not be here: reading clocks.

use std::time::{Duration, Instant};

/// One moment on the three clocks that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic clock of the process, for waits.
    pub instant: Instant,
    /// `CLOCK_BOOTTIME`, for the age of declarations: it goes on while the machine sleeps.
    pub boot: Duration,
    /// `ClickHouse`'s time in seconds since 1970; absent while it is not known, or cannot be trusted.
    pub server_s: Option<u64>,
}

impl Now {
    /// A moment this much later on every clock.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self {
            instant: self.instant + duration,
            boot: self.boot + duration,
            server_s: self.server_s.map(|seconds| seconds + duration.as_secs()),
        }
    }
}
