//! `CLOCK_BOOTTIME`: the monotonic clock that goes on while the machine sleeps.
//!
//! Must not be here: what is decided by it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine was started, its sleep included.
#[must_use]
pub fn boot_now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), nanos)
}
