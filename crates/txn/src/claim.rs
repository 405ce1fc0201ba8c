//! Access to the state of a running transaction: its owner has it during a call, and the store may take it between two
//! calls (E16.8).
//!
//! ```text
//!          a call begins            the call ends
//!   Idle ────────────────▶ InCall ────────────────▶ Idle
//!    │                       │
//!    │ over its limit        │ over its limit: doomed; its owner rolls back in this call or the next,
//!    ▼                       ▼ unless the store takes it in between
//!   Taken ──▶ Undone: rolled back by the store; the owner's next call says so
//! ```
//!
//! An owner begins a call with one exchange and ends it with one store. While no call runs, the entry of the
//! transaction has all that the store needs for a rollback. A nested top action is one call: while its latches are held
//! the store takes nothing. A wait for a lock is not part of a call.

use std::fmt;
use std::time::Duration;

use cedrat_sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use cedrat_sync::{Mutex, planted};
use cedrat_wal::{LogOffset, Outstanding};

use crate::deferred::Deferred;
use crate::transaction::Freed;

const IDLE: u8 = 0;
const IN_CALL: u8 = 1;
const TAKEN: u8 = 2;
const UNDONE: u8 = 3;

/// The reason why a transaction is rolled back by a thread other than its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// It holds `pinned` bytes of the log, more than the limit.
    Bytes { pinned: u64, limit: u64 },
    /// It has run for `age`, longer than the limit.
    Time { age: Duration, limit: Duration },
}

/// State that an owner leaves between two calls for a rollback by the store, besides the numbers in [`Claim`].
#[derive(Debug, Default)]
pub(crate) struct Deposit {
    pub(crate) freed: Vec<Freed>,
    pub(crate) deferred: Deferred,
}

impl Deposit {
    fn is_empty(&self) -> bool {
        self.freed.capacity() == 0 && self.deferred.memory_len() == 0 && !self.deferred.is_any()
    }
}

/// The right to access a transaction, and the state that is needed to do so between calls.
pub(crate) struct Claim {
    state: AtomicU8,
    /// Whether it is over its limit and must roll back (E16.3).
    doomed: AtomicBool,
    /// The position of its newest record, plus one; 0 for none.
    last: AtomicU64,
    left: AtomicU64,
    padding: AtomicU64,
    used: AtomicU64,
    excess: Mutex<Option<Excess>>,
    pub(crate) deposit: Mutex<Deposit>,
}

impl Claim {
    /// Creates a claim that is held by its creator.
    pub(crate) fn new() -> Claim {
        Claim {
            state: AtomicU8::new(IN_CALL),
            doomed: AtomicBool::new(false),
            last: AtomicU64::new(0),
            left: AtomicU64::new(0),
            padding: AtomicU64::new(0),
            used: AtomicU64::new(0),
            excess: Mutex::new(None),
            deposit: Mutex::default(),
        }
    }

    /// Makes it the claim of another transaction, as a [`new`](Claim::new) one.
    #[inline]
    pub(crate) fn begin(&mut self) {
        let Claim { state, doomed, last, left, padding, used, excess, deposit } = self;
        state.store(IN_CALL, Ordering::Relaxed);
        doomed.store(false, Ordering::Relaxed);
        for number in [last, left, padding, used] {
            number.store(0, Ordering::Relaxed);
        }
        *excess.get_mut() = None;
        if !deposit.get_mut().is_empty() {
            *deposit.get_mut() = Deposit::default();
        }
    }

    /// Begins a call of the owner; `false` if the store has taken the transaction.
    #[inline]
    pub(crate) fn begin_call(&self) -> bool {
        self.state.compare_exchange(IDLE, IN_CALL, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Ends a call of the owner, and deposits the position of the newest record and the remaining reservation.
    #[inline]
    pub(crate) fn end_call(&self, last: Option<LogOffset>, reservation: Outstanding) {
        self.last.store(last.map_or(0, |last| last.get() + 1), Ordering::Relaxed);
        self.left.store(reservation.left, Ordering::Relaxed);
        self.padding.store(reservation.padding, Ordering::Relaxed);
        self.used.store(reservation.used, Ordering::Relaxed);
        self.state.store(IDLE, Ordering::Release);
    }

    /// Takes the transaction for the store, if no call runs.
    pub(crate) fn take(&self) -> bool {
        if planted!("taken_during_a_call") {
            return self.state.swap(TAKEN, Ordering::Acquire) != TAKEN;
        }
        self.state.compare_exchange(IDLE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether the store has taken the transaction.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.state.load(Ordering::Acquire) >= TAKEN
    }

    /// Notes that the store has undone the transaction, if it has taken it, and is about to release its locks.
    #[inline]
    pub(crate) fn end_taken(&self) {
        if self.is_taken() {
            self.state.store(UNDONE, Ordering::Release);
        }
    }

    /// Whether the store has undone the transaction. If not, the store releases the locks granted so far.
    pub(crate) fn is_undone(&self) -> bool {
        self.state.load(Ordering::Acquire) == UNDONE
    }

    /// Returns the position of the newest record and the remaining reservation, for the store that has taken the transaction.
    pub(crate) fn left(&self) -> (Option<LogOffset>, Outstanding) {
        let last = self.last.load(Ordering::Relaxed).checked_sub(1).map(LogOffset::new);
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (left, padding, used) = (number(&self.left), number(&self.padding), number(&self.used));
        (last, Outstanding { left, padding, used })
    }

    /// Requires the owner to roll back. The first reason is kept.
    pub(crate) fn doom(&self, excess: Excess) {
        self.excess.lock().get_or_insert(excess);
        self.doomed.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::Relaxed)
    }

    /// Returns the reason why it was doomed or taken, if it was.
    pub(crate) fn excess(&self) -> Option<Excess> {
        *self.excess.lock()
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load(Ordering::Relaxed);
        f.debug_struct("Claim").field("state", &state).field("doomed", &self.is_doomed()).finish_non_exhaustive()
    }
}
