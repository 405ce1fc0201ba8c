//! Reproducible random numbers.

/// The seed of all random tests: `CEDRAT_SEED`, or 1.
pub fn from_environment() -> u64 {
    cedrat::check::seed(1)
}

/// Returns the seeds of `count` random histories, which follow from the seed of all tests; `CEDRAT_SEEDS` is another number of them.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = from_environment() << 20;
    let other = std::env::var("CEDRAT_SEEDS").ok().map(|text| text.parse().expect("CEDRAT_SEEDS is a number"));
    first..first + other.unwrap_or(count)
}

/// Numbers that follow from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes the generator of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) % bound
    }
}
