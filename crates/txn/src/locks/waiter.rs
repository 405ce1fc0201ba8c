//! A transaction that waits for a lock, and the word on which its thread blocks.

use std::time::{Duration, Instant};

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, WaitWord, thread_number};
use cedrat_wal::TxnId;

use super::LockMode;
use super::lock::Hashed;

const WAITING: u32 = 0;
const GRANTED: u32 = 1;
const REFUSED: u32 = 2;
const WITHDRAWN: u32 = 3;
const STRENGTHENED: u32 = 4;

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Waiting,
    /// `first`: the transaction did not hold the lock, also if it did when it requested a stronger mode.
    Granted {
        first: bool,
    },
    /// A conflicting holder has prepared.
    Prepared(TxnId),
    /// Its wait would have closed a cycle, or an older transaction waits for it.
    Withdrawn,
}

/// A blocked request.
///
/// Its outcome changes once, under the mutex of its lock's shard, set by the transaction that releases or prepares. The
/// thread then wakes up once and finds its request decided: it never competes for the lock again.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) txn: TxnId,
    pub(super) of: Hashed,
    /// The mode it will hold: its current mode joined with the requested one.
    pub(super) wanted: LockMode,
    /// Whether it holds the lock already, in a weaker mode.
    pub(super) upgrades: bool,
    /// Whether it is refused when a transaction in its way prepares.
    pub(super) unless_prepared: bool,
    /// Its number among all waiters of the lock.
    pub(super) arrival: u64,
    /// The thread that waits.
    pub(super) thread: usize,
    outcome: WaitWord,
    prepared: AtomicU64,
}

impl Waiter {
    pub(super) fn new(
        txn: TxnId,
        of: Hashed,
        wanted: LockMode,
        upgrades: bool,
        unless_prepared: bool,
        arrival: u64,
    ) -> Waiter {
        let (outcome, prepared) = (WaitWord::new(WAITING), AtomicU64::new(0));
        Waiter { txn, of, wanted, upgrades, unless_prepared, arrival, thread: thread_number(), outcome, prepared }
    }

    /// Whether it precedes `other` in the queue of their lock: upgrades first, then by arrival.
    pub(super) fn is_before(&self, other: &Waiter) -> bool {
        (!self.upgrades, self.arrival) < (!other.upgrades, other.arrival)
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self.outcome.load() {
            WAITING => Outcome::Waiting,
            GRANTED => Outcome::Granted { first: true },
            STRENGTHENED => Outcome::Granted { first: false },
            WITHDRAWN => Outcome::Withdrawn,
            _ => Outcome::Prepared(TxnId(self.prepared.load(Ordering::Relaxed))),
        }
    }

    /// Grants the request; `first`: its transaction does not hold the lock. The caller holds the mutex of the shard, and calls
    /// [`Waiter::wake`] after releasing it.
    pub(super) fn grant(&self, first: bool) {
        self.outcome.store(if first { GRANTED } else { STRENGTHENED });
    }

    /// As [`Waiter::grant`], but refuses the request because `prepared` has prepared.
    pub(super) fn refuse(&self, prepared: TxnId) {
        // Published by the release store that follows.
        self.prepared.store(prepared.0, Ordering::Relaxed);
        self.outcome.store(REFUSED);
    }

    /// As [`Waiter::grant`], but withdraws the request. A search that still finds it registered sees that it no longer waits.
    pub(super) fn withdraw(&self) {
        self.outcome.store(WITHDRAWN);
    }

    pub(super) fn wake(self: &Arc<Waiter>) {
        self.outcome.wake_one();
    }

    /// Blocks until the wait is decided, for at most `patience`.
    pub(super) fn park(&self, patience: Duration) -> Outcome {
        let begun = Instant::now();
        while self.outcome.load() == WAITING {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            self.outcome.wait(WAITING, Some(left));
        }
        self.outcome()
    }
}
