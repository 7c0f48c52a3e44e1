//! The pace of a shard: how often the linger alone may cause an INSERT.
//!
//! `maxInsertsPerSecond` is the sink's; each shard has the share of its partitions. Must not be here: when a batch is cut.

use std::time::{Duration, Instant};

/// When the next batch that is not full may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    next_at: Instant,
}

impl Pace {
    /// The first batch may go at once.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self { next_at: now }
    }

    /// The earliest moment of the next one.
    #[must_use]
    pub const fn next_at(&self) -> Instant {
        self.next_at
    }

    /// A batch that was not full has gone.
    pub fn on_insert(&mut self, interval: Duration, now: Instant) {
        self.next_at = self.next_at.max(now) + interval;
    }
}

/// Time between two INSERTs of a shard with `own` of the sink's `all` partitions.
#[must_use]
pub fn decide_interval(max_inserts_per_second: u32, own: usize, all: usize) -> Duration {
    let own = own.max(1) as u64;
    let rate = own * u64::from(max_inserts_per_second.max(1));
    Duration::from_nanos(1_000_000_000 * own.max(all as u64) / rate)
}

/// How long a record waits where so many streams of INSERTs have some all the time: the linger, or a round of them all.
#[must_use]
pub fn decide_effective_linger(linger: Duration, interval: Duration, streams: usize) -> Duration {
    let round = interval * u32::try_from(streams.max(1)).unwrap_or(u32::MAX);
    linger.max(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_the_share_of_its_partitions() {
        assert_eq!(decide_interval(4, 8, 8), Duration::from_millis(250));
        assert_eq!(decide_interval(4, 2, 8), Duration::from_secs(1));
        assert_eq!(decide_interval(50, 3, 0), Duration::from_millis(20));
    }

    #[test]
    fn eight_partitions_at_four_inserts_a_second_linger_two_seconds() {
        let linger = |own| {
            let interval = decide_interval(4, own, 8);
            decide_effective_linger(Duration::from_millis(500), interval, own)
        };
        assert_eq!(linger(8), Duration::from_secs(2));
        assert_eq!(linger(2), Duration::from_secs(2));
        let long = Duration::from_secs(5);
        assert_eq!(
            decide_effective_linger(long, Duration::from_millis(250), 8),
            long
        );
    }

    #[test]
    fn what_was_not_used_is_not_saved_up() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        let later = now + Duration::from_mins(1);
        pace.on_insert(Duration::from_secs(1), later);
        assert_eq!(pace.next_at(), later + Duration::from_secs(1));
    }
}
