//! A random generator that costs next to nothing compared with a cache miss. Depends on no part of Cedrat: the ceilings use
//! the same one as the systems measured beside them.

/// Marsaglia's xorshift: three shifts per number.
pub(crate) struct Random(u64);

impl Random {
    /// Returns a generator whose numbers depend on `seed`.
    pub(crate) fn new(seed: u64) -> Random {
        Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `bound`: by multiplication, because a division would cost more than all the rest.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns numbers below `bound`.
    #[inline]
    pub(crate) fn several<const COUNT: usize>(&mut self, bound: u64) -> [u64; COUNT] {
        std::array::from_fn(|_| self.below(bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_cover_exactly_their_range() {
        let mut random = Random::new(0);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 800), "{seen:?}");
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(Random::new(0).several::<4>(1 << 40), Random::new(1).several::<4>(1 << 40));
    }
}
