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

/// A scheduled run that did not end: the reason, and what its threads wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hang(pub(crate) String);

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hang {}
