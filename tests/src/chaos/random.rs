//! Numbers drawn from a seed: the same seed gives the same numbers on every machine.
//!
//! Must not be here: what is drawn.

/// `SplitMix64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 where the limit is 0.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }

    /// A number from `low` to below `high`.
    pub(crate) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    pub(crate) const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several; `None` where there is none.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = self.below(u64::try_from(items.len()).unwrap_or(u64::MAX));
        items.get(usize::try_from(index).unwrap_or(0))
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(u64::try_from(last + 1).unwrap_or(1));
            items.swap(last, usize::try_from(other).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_algorithm() {
        let mut random = Random::new(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_repeats_with_its_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u64> = (0..50).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        let mut sorted = shuffled(7);
        assert_eq!(sorted, shuffled(7));
        assert_ne!(sorted, shuffled(8));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }
}
