//! Data of all figures: random 8-byte keys and values that are computed from their number, so that no system's memory is
//! charged with a list of them and every answer can be checked.

/// A bijection of 64-bit words with random-looking results (the finaliser of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut word = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Returns the key of record `number`; all keys are distinct.
pub(crate) fn key(number: u64) -> u64 {
    mix(number)
}

/// Returns the value of `key`.
pub(crate) fn value(key: u64) -> u64 {
    mix(key ^ 0x5DEE_CE66)
}

/// The keys of records `first..end`, in order of number.
#[derive(Clone)]
pub(crate) struct Keys {
    next: u64,
    end: u64,
}

impl Keys {
    pub(crate) fn new(first: u64, end: u64) -> Keys {
        Keys { next: first, end }
    }
}

impl Iterator for Keys {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        (self.next < self.end).then(|| {
            self.next += 1;
            key(self.next - 1)
        })
    }
}

/// `count` keys of records below `records`, picked at random with repetition.
#[derive(Clone)]
pub(crate) struct Picks {
    state: u64,
    left: u64,
    records: u64,
}

impl Picks {
    pub(crate) fn new(seed: u64, count: u64, records: u64) -> Picks {
        Picks { state: mix(seed ^ 0xA5A5), left: count, records }
    }
}

impl Iterator for Picks {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let random = mix(self.state);
        Some(key(((u128::from(random) * u128::from(self.records)) >> 64) as u64))
    }
}
