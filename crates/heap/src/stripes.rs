//! Versioned write locks: the right to write a word, and the version of its last write (Hathi §4; DESIGN of TL2 and
//! TinySTM).
//!
//! Words share the locks of one striped table. A lock is a number:
//!
//! ```text
//! version          free; the newest commit that wrote a word of the stripe has this LSN
//! 2^63 + owner     locked; the owner knows the version before
//! ```
//!
//! A reader loads the lock, reads the word, and loads the lock again: if both loads gave the same free version, not newer
//! than its snapshot, the word belongs to the snapshot.

use std::io;

use cedrat_sync::atomic::{AtomicU64, Ordering};

use crate::alone::Marking;
use crate::region::{Table, TableView};

/// Set in a locked stripe. No LSN is so large.
const LOCKED: u64 = 1 << 63;

/// Observed state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look(u64);

impl Look {
    /// Loads the lock before the word is read.
    #[inline(always)]
    pub(crate) fn first(lock: &AtomicU64) -> Look {
        Look(lock.load(Ordering::SeqCst))
    }

    /// Loads the lock after the word was read with `Acquire`.
    #[inline(always)]
    pub(crate) fn again(lock: &AtomicU64) -> Look {
        Look(lock.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) const fn version(version: u64) -> Look {
        Look(version)
    }

    #[inline(always)]
    pub(crate) const fn owned_by(owner: u32) -> Look {
        Look(LOCKED | owner as u64)
    }

    #[inline(always)]
    pub(crate) fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Returns the owner, if the stripe is locked.
    pub(crate) fn owner(self) -> Option<u32> {
        self.is_locked().then_some(self.0 as u32)
    }

    /// Returns the version, if the stripe is free.
    #[inline(always)]
    pub(crate) fn free_version(self) -> Option<u64> {
        if self.is_locked() { None } else { Some(self.0) }
    }

    /// Acquires the lock for `owner` if it still has this state, which is free.
    #[inline(always)]
    pub(crate) fn take(self, lock: &AtomicU64, owner: Look) -> bool {
        // Sequentially consistent: a waiting transaction (`retry`) registers and then checks the stripes, a committer locks
        // and then checks for waiters.
        lock.compare_exchange(self.0, owner.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Acquires the lock for `owner`, the only session: nothing else changes a lock that is free.
    #[inline(always)]
    pub(crate) fn take_alone(self, lock: &AtomicU64, owner: Look, _alone: &Marking<'_>) {
        debug_assert!(!self.is_locked());
        lock.store(owner.0, Ordering::Relaxed);
    }

    /// Returns whether it is free and not newer than the snapshot. One comparison: a locked state is a larger number than
    /// any version.
    #[inline(always)]
    pub(crate) fn belongs_to(self, snapshot: u64) -> bool {
        debug_assert!(snapshot < LOCKED);
        self.0 <= snapshot
    }
}

/// Table of all stripes.
#[derive(Debug)]
pub(crate) struct Stripes {
    table: Table,
    /// Words in a stripe, as a power of two.
    words_shift: u32,
}

impl Stripes {
    /// Creates a table of `2^count_log2` stripes of `2^words_log2` words.
    pub(crate) fn new(count_log2: u32, words_log2: u32, huge: bool) -> io::Result<Stripes> {
        Ok(Stripes { table: Table::new(count_log2, huge)?, words_shift: words_log2 })
    }

    /// Returns the number of stripes.
    pub(crate) fn count(&self) -> usize {
        self.table.count()
    }

    /// Returns the address of the table.
    pub(crate) fn address(&self) -> usize {
        self.table.address()
    }

    /// Returns the number of words in a stripe.
    pub(crate) fn stripe_words(&self) -> u64 {
        1 << self.words_shift
    }

    /// Returns the stripe of a word. Neighbouring words share a stripe or have neighbouring ones; a salt separates heaps.
    #[inline(always)]
    pub(crate) fn of(&self, salt: u64, word: u64) -> u32 {
        self.table.cut((word >> self.words_shift).wrapping_add(salt) as usize) as u32
    }

    /// Returns the stripes of this many words, at least one, each once.
    #[inline(always)]
    pub(crate) fn of_words(&self, salt: u64, first: u64, words: u64) -> impl Iterator<Item = u32> + use<> {
        let mask = self.table.count() as u64 - 1;
        let (from, last) = (first >> self.words_shift, (first + words - 1) >> self.words_shift);
        (0..(last - from).min(mask) + 1).map(move |at| (from.wrapping_add(salt).wrapping_add(at) & mask) as u32)
    }

    /// Returns the stripes of this many words, in a table of `2^count_log2` stripes of `2^words_log2` words.
    pub(crate) fn of_range(
        count_log2: u32,
        words_log2: u32,
        salt: u64,
        first: u64,
        words: u64,
    ) -> impl Iterator<Item = u32> {
        let (count, end) = (1u64 << count_log2, first + words);
        let indices = first >> words_log2..(end + (1 << words_log2) - 1) >> words_log2;
        indices.take(count as usize).map(move |index| (index.wrapping_add(salt) & (count - 1)) as u32)
    }

    /// Returns a view of all locks.
    #[inline(always)]
    pub(crate) fn locks(&self) -> Locks<'_> {
        Locks(self.table.view())
    }

    /// Returns the lock itself, for [`Look::first`] and [`Look::again`].
    #[inline(always)]
    pub(crate) fn lock(&self, stripe: u32) -> &AtomicU64 {
        self.table.at(stripe as usize)
    }

    /// Returns the current state of a stripe's lock.
    #[inline(always)]
    pub(crate) fn look(&self, stripe: u32) -> Look {
        Look::first(self.lock(stripe))
    }

    /// Acquires the lock if it still has the state `seen`, which is free.
    #[inline(always)]
    pub(crate) fn try_lock(&self, stripe: u32, seen: Look, owner: u32) -> bool {
        seen.take(self.lock(stripe), Look::owned_by(owner))
    }

    /// Releases the lock; the words of the stripe were last written at `version`.
    #[inline(always)]
    pub(crate) fn unlock(&self, stripe: u32, version: Look) {
        self.locks().let_go(stripe, version);
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, stripe: u32) {
        self.table.prefetch(stripe as usize);
    }
}

/// View of the locks for loops over several of them: the table's address stays in registers although locks are written
/// meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locks<'a>(TableView<'a>);

impl<'a> Locks<'a> {
    /// Returns the lock of a stripe.
    #[inline(always)]
    pub(crate) fn of(self, stripe: u32) -> &'a AtomicU64 {
        self.0.at(stripe as usize)
    }

    /// Releases a lock; the words of its stripe were last written at `version`.
    #[inline(always)]
    pub(crate) fn let_go(self, stripe: u32, version: Look) {
        debug_assert!(!version.is_locked());
        self.of(stripe).store(version.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_sync::explore;

    #[test]
    fn lock_is_taken_once_with_owner() {
        explore(1, 1, || {
            let stripes = Stripes::new(4, 2, false).expect("memory");
            let stripe = stripes.of(7, 5);
            assert_eq!(stripe, stripes.of(7, 6), "words 4 to 7 share a stripe");
            assert_ne!(stripe, stripes.of(7, 8));
            let range: Vec<u32> = Stripes::of_range(4, 2, 7, 5, 8).collect();
            assert_eq!(range, [5, 8, 12].map(|word| stripes.of(7, word)));
            assert_eq!(Stripes::of_range(4, 2, 7, 5, 1000).count(), 16);
            let seen = stripes.look(stripe);
            assert_eq!(seen.free_version(), Some(0));
            assert!(stripes.try_lock(stripe, seen, 3));
            assert!(!stripes.try_lock(stripe, seen, 4));
            assert_eq!(stripes.look(stripe), Look::owned_by(3));
            assert!(!stripes.look(stripe).belongs_to(u64::MAX >> 1));
            stripes.unlock(stripe, Look::version(9));
            assert!(stripes.look(stripe).belongs_to(9) && !stripes.look(stripe).belongs_to(8));
        });
    }
}
