//! Reproducible random numbers: everything random in a check comes from one printed seed.

/// The environment variable with the seed of randomised checks.
pub const SEED_VARIABLE: &str = "CEDRAT_SEED";

/// Returns the seed of the environment variable [`SEED_VARIABLE`], or `otherwise`.
///
/// # Panics
/// If the variable is set and is not a number: a default would hide the mistake.
pub fn seed(otherwise: u64) -> u64 {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE}='{text}' is not a number")),
        Err(_) => otherwise,
    }
}

/// A small generator (SplitMix64), not for secrets. A seed gives the same numbers on every machine, permanently, which is why
/// no crate's generator is used: a printed seed must still repeat its case next year.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Makes a generator for a part (a thread, a case), so that parts do not influence each other's numbers.
    pub fn part(&self, number: u64) -> Rng {
        let mut mixed = Rng(self.0 ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        mixed.next_u64();
        mixed
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        // The bias is below 2^-32 for every bound a test uses; repeatability matters more.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true once in `n` on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns any signed number, with increased probability of small numbers and of the two extremes, where arithmetic
    /// breaks.
    pub fn number(&mut self) -> i64 {
        match self.below(8) {
            0 => 0,
            1 => i64::MAX,
            2 => i64::MIN,
            3..=5 => self.below(2_001) as i64 - 1_000,
            _ => self.next_u64() as i64,
        }
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Returns `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// Returns one of `choices`.
    ///
    /// # Panics
    /// If there is no choice.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_repeats_its_sequence() {
        let mut rng = Rng::new(7);
        assert_eq!([rng.next_u64(), rng.next_u64()], [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c]);
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.index(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn parts_differ() {
        let rng = Rng::new(1);
        assert_ne!(rng.part(0).next_u64(), rng.part(1).next_u64());
    }
}
