//! Counters that only the metrics of a store read. In builds without the feature `metrics` they have no fields, and the functions
//! that count do nothing.

use std::time::Duration;

use cedrat_wal::Log;

use crate::transaction::Commit;

#[cfg(feature = "metrics")]
use cedrat_sync::atomic::{AtomicU64, Ordering};

/// Stripes of the counters of commits. Each has its own cache lines.
#[cfg(feature = "metrics")]
const STRIPES: usize = 16;

/// The number of counters in a stripe: one per [`Commit`] mode, and one for rollbacks.
#[cfg(feature = "metrics")]
const ENDS: usize = 5;

/// The counter of rollbacks in a stripe.
#[cfg(feature = "metrics")]
const ROLLBACKS: usize = 4;

/// One stripe of the counters that every transaction changes.
#[cfg(feature = "metrics")]
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; ENDS]);

/// Events since a store was opened.
#[derive(Debug)]
pub(crate) struct Counts {
    #[cfg(feature = "metrics")]
    stripes: [Stripe; STRIPES],
    #[cfg(feature = "metrics")]
    pub(crate) deadlocks: AtomicU64,
    #[cfg(feature = "metrics")]
    pub(crate) checkpoints: AtomicU64,
    #[cfg(feature = "metrics")]
    pub(crate) checkpoint_nanos: AtomicU64,
    #[cfg(feature = "metrics")]
    pub(crate) backup_bytes: AtomicU64,
    #[cfg(feature = "metrics")]
    pub(crate) published: crate::metrics::Published,
}

#[cfg(feature = "metrics")]
impl Counts {
    pub(crate) fn new(log: &Log) -> Counts {
        Counts {
            stripes: Default::default(),
            deadlocks: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            checkpoint_nanos: AtomicU64::new(0),
            backup_bytes: AtomicU64::new(0),
            published: crate::metrics::Published::since(log),
        }
    }

    fn count(&self, end: usize) {
        // A thread's number is the address of one of its variables: the lowest bits are the same in all threads.
        let stripe = (cedrat_sync::thread_number() >> 12) % STRIPES;
        self.stripes[stripe].0[end].fetch_add(1, Ordering::Relaxed);
    }

    fn sum(&self, end: usize) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0[end].load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn commits(&self, mode: Commit) -> u64 {
        self.sum(mode as usize)
    }

    pub(crate) fn rollbacks(&self) -> u64 {
        self.sum(ROLLBACKS)
    }

    /// Counts a commit that was requested in this mode.
    pub(crate) fn committed(&self, mode: Commit) {
        self.count(mode as usize);
    }

    pub(crate) fn rolled_back(&self) {
        self.count(ROLLBACKS);
    }

    /// Counts a request for a lock that was refused because its wait would not end.
    pub(crate) fn refused_deadlock(&self) {
        self.deadlocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a completed checkpoint.
    pub(crate) fn checkpointed(&self, took: Duration) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.checkpoint_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts bytes that a backup has read.
    pub(crate) fn backed_up(&self, bytes: u64) {
        self.backup_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(not(feature = "metrics"))]
impl Counts {
    pub(crate) fn new(_log: &Log) -> Counts {
        Counts {}
    }

    pub(crate) fn committed(&self, _mode: Commit) {}

    pub(crate) fn rolled_back(&self) {}

    pub(crate) fn refused_deadlock(&self) {}

    pub(crate) fn checkpointed(&self, _took: Duration) {}

    pub(crate) fn backed_up(&self, _bytes: u64) {}
}
