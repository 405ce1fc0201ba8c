//! Repeatable random numbers.

/// A random number generator, SplitMix64 (Steele, Lea, Flood 2014): any seed is good, and nearby seeds give unrelated
/// sequences.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number less than `bound`, which is small compared to 2⁶⁴: the bias of the remainder does not matter.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
