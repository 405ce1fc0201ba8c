//! Limits of a scheduled run, and the error of one that exceeds them.

use std::fmt;
use std::time::Duration;

/// Bounds of one scheduled run. A run that exceeds one fails with a [`Hang`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of steps: operations on atomics, locks and threads.
    pub steps_max: usize,
    /// The maximum duration.
    pub time_max: Duration,
}

/// Returns the first seed of a search: `seed`, moved by the environment variable `CEDRAT_SEED` if that is set.
///
/// So the same tests search other interleavings in each round of a soak.
#[cfg(any(cedrat_shuttle, feature = "scheduler"))]
pub(crate) fn first_seed(seed: u64) -> u64 {
    let Ok(text) = std::env::var("CEDRAT_SEED") else { return seed };
    let by: u64 = text.parse().unwrap_or_else(|_| panic!("CEDRAT_SEED='{text}' is not a number"));
    // The seed is spread, because searches of one test may use consecutive ones.
    seed.wrapping_add(by.wrapping_mul(1_000_003))
}

/// A scheduled run that did not end: the reason, and what its threads wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hang(pub(crate) String);

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hang {}
