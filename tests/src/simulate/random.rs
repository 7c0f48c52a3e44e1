//! Random numbers that a seed repeats: `SplitMix64`.
//!
//! Must not be here: any other source of chance.

/// A row of numbers that depends on nothing but its seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is below 2^32; 0 where `end` is 0.
    pub(super) const fn below(&mut self, end: u64) -> u64 {
        ((self.next() >> 32) * end) >> 32
    }

    pub(super) const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub(super) const fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_they_stay_below_their_end() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        let numbers: Vec<u64> = (0..1000).map(|_| one.below(10)).collect();
        assert!(numbers.iter().all(|number| *number < 10));
        assert!((0..10).all(|number| numbers.contains(&number)));
        assert_eq!(
            numbers,
            (0..1000).map(|_| two.below(10)).collect::<Vec<_>>()
        );
    }
}
