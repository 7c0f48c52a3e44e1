//! The server's clock, asked now and then and carried on by the monotonic clock in between.
//!
//! Must not be here: asking the server, what an age means for a range.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Clocks that are further apart than this are not trusted: nobody knows which one is wrong.
pub const MAX_CLOCK_SKEW_S: u64 = 60;
/// How far a time that another worker wrote down may seem to be in the future: an answer takes up to ten seconds.
const MAX_AHEAD_S: u64 = 10;

/// What the server's clock said, and when it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerClock {
    /// The server's time, seconds since 1970.
    pub server_now_s: u64,
    /// When it was asked, on the monotonic clock.
    pub asked_at: Instant,
    /// This host's wall clock at that time, seconds since 1970.
    pub host_now_s: u64,
}

impl ServerClock {
    /// The server's answer beside this host's wall clock.
    #[must_use]
    pub fn answered(server_now_s: u64, asked_at: Instant) -> Self {
        Self {
            server_now_s,
            asked_at,
            host_now_s: unix_s(),
        }
    }

    /// True where server and host are more than [`MAX_CLOCK_SKEW_S`] apart.
    #[must_use]
    pub const fn is_skewed(&self) -> bool {
        self.server_now_s.abs_diff(self.host_now_s) > MAX_CLOCK_SKEW_S
    }

    /// The server's time at `now`, seconds since 1970; `None` where the clocks cannot be trusted.
    #[must_use]
    pub fn now_s(&self, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.asked_at).as_secs();
        (!self.is_skewed()).then(|| self.server_now_s.saturating_add(passed))
    }
}

/// Seconds from `declared_at_s` to `now_s`; `None` where the time was never written down (0) or lies in the future.
#[must_use]
pub const fn age_s(now_s: u64, declared_at_s: u64) -> Option<u64> {
    if declared_at_s == 0 || declared_at_s > now_s.saturating_add(MAX_AHEAD_S) {
        return None;
    }
    Some(now_s.saturating_sub(declared_at_s))
}

#[allow(
    clippy::disallowed_methods,
    reason = "the wall clock is compared with the server's; nothing else is decided by it"
)]
fn unix_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_answer_is_carried_on_by_the_monotonic_clock() {
        let asked_at = Instant::now();
        let clock = ServerClock {
            server_now_s: 1000,
            asked_at,
            host_now_s: 1060,
        };
        assert_eq!(clock.now_s(asked_at), Some(1000));
        assert_eq!(clock.now_s(asked_at + Duration::from_secs(90)), Some(1090));
    }

    #[test]
    fn clocks_over_a_minute_apart_tell_no_time() {
        let asked_at = Instant::now();
        for host_now_s in [939, 1061, 0] {
            let clock = ServerClock {
                server_now_s: 1000,
                asked_at,
                host_now_s,
            };
            assert_eq!(clock.now_s(asked_at), None, "{host_now_s}");
        }
        assert!(!ServerClock::answered(unix_s(), asked_at).is_skewed());
    }

    #[test]
    fn an_age_is_known_only_for_a_time_in_the_past() {
        assert_eq!(age_s(1000, 400), Some(600));
        assert_eq!(age_s(1000, 1010), Some(0));
        assert_eq!(age_s(1000, 1011), None);
        assert_eq!(age_s(1000, 0), None);
    }
}
