//! Back-off between attempts: 100 ms to 30 s with full jitter.
//!
//! Pure: the random number is passed in. Must not be here: sleeping.

use std::time::Duration;

/// First wait.
const FIRST_MS: u64 = 100;
/// Longest wait.
const LONGEST_MS: u64 = 30_000;

/// The wait after `failures` attempts in a row (from 1), between half and all of the doubled step.
///
/// `random` is any number; the same one gives the same wait.
#[must_use]
pub fn decide_backoff(failures: u32, random: u64) -> Duration {
    let step = FIRST_MS
        .saturating_mul(1 << failures.saturating_sub(1).min(20))
        .min(LONGEST_MS);
    let half = step / 2;
    Duration::from_millis(half + random % (step - half + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_from_a_tenth_of_a_second_to_half_a_minute() {
        assert!(decide_backoff(1, u64::MAX) <= Duration::from_millis(100));
        assert!(decide_backoff(1, 0) >= Duration::from_millis(50));
        assert!(decide_backoff(1000, 0) >= Duration::from_secs(15));
        for random in [0, 7, u64::MAX] {
            assert!(decide_backoff(u32::MAX, random) <= Duration::from_secs(30));
        }
    }
}
