//! Numbers that depend only on the seed.

/// A generator of numbers (SplitMix64): small, and the same on every machine.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }

    /// Returns whether a random event happened, with a chance of one in `of`.
    pub(super) fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// Picks one; the list must not be empty.
    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(from.len());
        &from[at]
    }

    /// Picks one, by weight.
    pub(super) fn weigh<'a, T>(&mut self, from: &'a [(usize, T)]) -> &'a T {
        let total = from.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for (weight, what) in from {
            if at < *weight {
                return what;
            }
            at -= weight;
        }
        &from[from.len() - 1].1
    }
}
