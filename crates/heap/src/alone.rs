//! Sessions that are open, and locking without atomic exchanges while there is only one.
//!
//! ```text
//! the only session                             another one opens
//! 1. state: 1 session → 1 session, marking     1. waits while the state is marking
//! 2. loads and stores locks, one by one        2. state: 1 session → 2 sessions
//! 3. state: 1 session
//! ```
//!
//! An exchange of a lock takes as long as all other work on it. It is needed only where two sessions may find the same lock
//! free. A session that opens later sees in step 2 all that the other one has stored before step 3, and from then on both
//! exchange locks (H7).

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{planted, spin_hint, thread};

use crate::stripes::Look;
use crate::tx::Tx;
use crate::view::Stop;

/// Set while the only session locks.
const MARKING: u64 = 1;

/// One session, in the other bits.
const ONE: u64 = 2;

/// Number of open sessions.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Alone {
    state: AtomicU64,
}

/// The right of the only session to lock without exchanges. No other session opens until it is dropped.
#[derive(Debug)]
pub(crate) struct Marking<'a> {
    state: &'a AtomicU64,
}

impl Alone {
    /// Counts a session that opens. The caller lets it lock nothing before.
    pub(crate) fn enter(&self) {
        /// The only session locks some hundred words at most.
        const SPINS: u32 = 1000;
        let mut turns = 0;
        loop {
            let seen = self.state.load(Ordering::Relaxed);
            let free = seen & MARKING == 0;
            if free && self.state.compare_exchange(seen, seen + ONE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
            turns += 1;
            if turns % SPINS == 0 { thread::yield_now() } else { spin_hint() }
        }
    }

    /// Counts a session that closes. It holds no lock.
    pub(crate) fn leave(&self) {
        self.state.fetch_sub(ONE, Ordering::AcqRel);
    }

    /// Begins locking without exchanges; `None` if there is another session.
    #[inline(always)]
    pub(crate) fn mark(&self) -> Option<Marking<'_>> {
        let seen = self.state.load(Ordering::Relaxed);
        if seen != ONE && !planted!("sessions_not_counted") {
            return None;
        }
        let begun = self.state.compare_exchange(seen, seen | MARKING, Ordering::Acquire, Ordering::Relaxed);
        // Not made before it is begun: dropping it changes the state.
        begun.is_ok().then(|| Marking { state: &self.state })
    }
}

impl Drop for Marking<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Nothing changes the state while it is marking.
        self.state.store(ONE, Ordering::Release);
    }
}

impl Tx<'_> {
    /// Locks the written stripes, from an index of the write set on, and then those of blocks. Returns the index of the first
    /// written one that cannot be locked at once.
    #[inline(always)]
    pub(crate) fn lock_free_ones(&mut self, from: usize, blocks_left: &mut bool) -> Option<usize> {
        /// A session that opens waits for as many.
        const ALONE_MAX: usize = 1024;
        let few = self.this.writes.all().len() <= ALONE_MAX;
        match if few { self.shared.alone.mark() } else { None } {
            Some(alone) => self.lock_with(from, blocks_left, |seen, lock, own| {
                seen.take_alone(lock, own, &alone);
                true
            }),
            None => self.lock_with(from, blocks_left, Look::take),
        }
    }

    #[inline(always)]
    fn lock_with(
        &mut self,
        from: usize,
        blocks_left: &mut bool,
        take: impl Fn(Look, &AtomicU64, Look) -> bool,
    ) -> Option<usize> {
        let met = self.lock_each(from, &take);
        if *blocks_left && met.is_none() {
            *blocks_left = !self.lock_free_blocks(take);
        }
        met
    }

    #[inline(always)]
    fn lock_each(&mut self, from: usize, take: impl Fn(Look, &AtomicU64, Look) -> bool) -> Option<usize> {
        let this = &mut *self.this;
        let (own, snapshot) = (Look::owned_by(this.number), this.snapshot);
        let locks = self.shared.stripes.locks();
        let writes = this.writes.all();
        let left = this.locked.extend_while(&writes[from..], |write| {
            let lock = locks.of(write.stripe);
            let seen = Look::first(lock);
            if seen.belongs_to(snapshot) && take(seen, lock, own) {
                return Ok(Some((write.stripe, seen)));
            }
            // Its own lock, taken for another word of the stripe. If the stripe was newer than the snapshot then, the word
            // that was read here may be newer as well.
            if seen != own || write.read && this.locked_newer { Err(Stop) } else { Ok(None) }
        });
        (left > 0).then(|| writes.len() - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_sync::{Arc, explore, thread};

    #[test]
    fn sessions_beside_others_exchange_locks() {
        explore(1, 1, || {
            let alone = Alone::default();
            alone.enter();
            assert!(alone.mark().is_some(), "the only one");
            alone.enter();
            assert!(alone.mark().is_none(), "H7");
            alone.leave();
            assert!(alone.mark().is_some(), "the only one again");
        });
    }

    /// A lock that its only session loads and stores, and that a session which opens meanwhile exchanges.
    #[test]
    fn session_that_opens_sees_locks_of_other() {
        explore(0xa10e, 2_000, || {
            let (alone, lock) = (Arc::new(Alone::default()), Arc::new(AtomicU64::new(0)));
            let add = |alone: &Alone, lock: &AtomicU64| {
                if let Some(_marking) = alone.mark() {
                    lock.store(lock.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                } else {
                    lock.fetch_add(1, Ordering::Relaxed);
                }
            };
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (alone, lock) = (Arc::clone(&alone), Arc::clone(&lock));
                    thread::spawn(move || {
                        alone.enter();
                        (0..2).for_each(|_| add(&alone, &lock));
                        alone.leave();
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert_eq!(lock.load(Ordering::Relaxed), 4, "H7");
        });
    }
}
