//! Random numbers and seeds for random histories, also those of the crates above.
#![allow(dead_code, unreachable_pub, reason = "each crate uses its own part")]

/// A small generator (xorshift).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `bound`, or 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }

    /// Returns a number from `from` on, up to `to`.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Returns the seeds of `count` random histories; `CEDRAT_SEED` selects others, and `CEDRAT_SEEDS` another number of them.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = number("CEDRAT_SEED").unwrap_or(0) << 20;
    first..first + number("CEDRAT_SEEDS").unwrap_or(count)
}
