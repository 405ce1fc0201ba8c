//! The default: pages are locked, readers shared and writers exclusive, with deadlock detection (Lemon §4.1).

use cedrat_wal::TxnId;

use super::table::LockTable;
use super::{Deadlock, LockManager, LockMode, NotGiven, Resource};

/// Two-phase locking of pages, and of whatever else is asked for by name: keys, structures in intention modes.
///
/// All locks are kept to the end of the transaction. Whoever would close a circle of waiting is refused; nobody else
/// is touched. Memory grows with the number of locks held, and for keys with the number of different hashes: names
/// of keys are folded to [`PageLocks::with_key_stripes`] many per structure. Pages and records have each their own.
#[derive(Debug)]
pub struct PageLocks {
    table: LockTable,
    key_stripes: u64,
}

/// How many different locks the keys of one structure have, unless chosen otherwise.
///
/// A lock held takes some 150 bytes, so a transaction that locks all keys of a table takes some 10 MB at most.
const KEY_STRIPES: u64 = 1 << 16;

impl Default for PageLocks {
    fn default() -> PageLocks {
        PageLocks::with_key_stripes(KEY_STRIPES)
    }
}

impl PageLocks {
    /// As the default, with so many different locks for the keys of one structure: fewer take less memory in
    /// transactions with millions of keys, and make more strangers wait for each other. 0 counts as 1.
    pub fn with_key_stripes(stripes: u64) -> PageLocks {
        PageLocks { table: LockTable::new(), key_stripes: stripes.max(1) }
    }

    /// How many resources are locked or waited for at the moment.
    pub fn locked(&self) -> usize {
        self.table.len()
    }

    fn folded(&self, resource: Resource) -> Resource {
        match resource {
            Resource::Key { structure, hash } => Resource::Key { structure, hash: hash % self.key_stripes },
            other => other,
        }
    }
}

impl LockManager for PageLocks {
    fn lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> Result<(), Deadlock> {
        self.table.lock(txn, self.folded(resource), mode, None).map_err(|not_given| match not_given {
            NotGiven::Deadlock(deadlock) => deadlock,
            NotGiven::Prepared(_) => unreachable!("nobody has asked for that"),
        })
    }

    fn lock_unless_prepared(
        &self,
        txn: TxnId,
        resource: Resource,
        mode: LockMode,
        is_prepared: &dyn Fn(TxnId) -> bool,
    ) -> Result<(), NotGiven> {
        self.table.lock(txn, self.folded(resource), mode, Some(is_prepared))
    }

    fn try_lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> bool {
        // Whoever is in the way is not waited for.
        self.table.lock(txn, self.folded(resource), mode, Some(&|_| true)).is_ok()
    }

    fn prepared(&self, txn: TxnId) {
        self.table.ring_for(txn);
    }

    fn ended(&self, txn: TxnId) {
        self.table.release_all(txn);
    }

    fn held(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        self.table.held_by(txn)
    }

    fn key_stripes(&self) -> u64 {
        self.key_stripes
    }

    fn restore(&self, txn: TxnId, resource: Resource, mode: LockMode) {
        self.table.grant(txn, self.folded(resource), mode);
    }
}

#[cfg(test)]
mod tests {
    use cedrat_pages::PageId;
    use cedrat_sync::{Arc, thread};

    use super::*;

    const A: Resource = Resource::Page(PageId::new(1));
    const B: Resource = Resource::Page(PageId::new(2));

    #[test]
    fn readers_share_and_a_writer_excludes() {
        cedrat_sync::explore(1, 1, || {
            let locks = PageLocks::default();
            locks.lock(TxnId(1), A, LockMode::Shared).unwrap();
            locks.lock(TxnId(2), A, LockMode::Shared).unwrap();
            assert_eq!(locks.locked(), 1);
            locks.lock(TxnId(3), A, LockMode::Shared).unwrap();
            locks.ended(TxnId(1));
            for txn in [2, 3] {
                assert_eq!(locks.held(TxnId(txn)), [(A, LockMode::Shared)], "they hold it still");
            }
            locks.ended(TxnId(3));
            locks.lock(TxnId(2), A, LockMode::Exclusive).unwrap();
            locks.ended(TxnId(2));
            assert_eq!(locks.locked(), 0, "nothing is left behind");
        });
    }

    /// Each transaction takes two pages in the opposite order. Somebody always gets through, nobody waits for ever.
    #[test]
    fn a_deadlock_has_one_victim_and_one_survivor() {
        cedrat_sync::explore(4, 200, || {
            let locks = Arc::new(PageLocks::default());
            let walk = |txn: u64, first: Resource, second: Resource| {
                let locks = Arc::clone(&locks);
                thread::spawn(move || {
                    let mut got = locks.lock(TxnId(txn), first, LockMode::Exclusive);
                    if got.is_ok() {
                        got = locks.lock(TxnId(txn), second, LockMode::Exclusive);
                    }
                    locks.ended(TxnId(txn));
                    got.is_ok()
                })
            };
            let threads = [walk(1, A, B), walk(2, B, A), walk(3, A, B)];
            let through = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|ok| *ok).count();
            assert!(through >= 1);
            assert_eq!(locks.locked(), 0);
        });
    }

    /// Transactions of very many locks come and go.
    #[test]
    fn memory_of_locks_is_given_back() {
        let locks = PageLocks::default();
        let lock = |txn, number: u64| locks.lock(TxnId(txn), Resource::Page(PageId::new(number)), LockMode::Shared);
        lock(1, 0).unwrap();
        (1..200_000).for_each(|number| lock(2, number).unwrap());
        let many = locks.table.capacity();
        locks.ended(TxnId(2));
        assert!(locks.table.capacity() < many / 2, "{} of {many}", locks.table.capacity());
        assert_eq!(locks.locked(), 1);
    }

    /// Two readers that both want to write wait for each other: one is refused.
    #[test]
    fn two_upgrades_are_a_deadlock() {
        cedrat_sync::explore(5, 200, || {
            let locks = Arc::new(PageLocks::default());
            for txn in [1, 2] {
                locks.lock(TxnId(txn), A, LockMode::Shared).unwrap();
            }
            let upgrade = |txn: u64| {
                let locks = Arc::clone(&locks);
                thread::spawn(move || {
                    let got = locks.lock(TxnId(txn), A, LockMode::Exclusive).is_ok();
                    locks.ended(TxnId(txn));
                    got
                })
            };
            let threads = [upgrade(1), upgrade(2)];
            let through = threads.map(|thread| thread.join().unwrap());
            assert_eq!(through.iter().filter(|ok| **ok).count(), 1, "{through:?}");
        });
    }

    /// E9.12: whoever waits when the holder prepares is told so; its lock is never given.
    #[test]
    fn who_does_not_wait_for_the_prepared_is_told() {
        use cedrat_sync::atomic::{AtomicBool, Ordering};
        cedrat_sync::explore(6, 200, || {
            let (locks, prepared) = (Arc::new(PageLocks::default()), Arc::new(AtomicBool::new(false)));
            locks.lock(TxnId(1), A, LockMode::Exclusive).unwrap();
            let asks = {
                let (locks, prepared) = (Arc::clone(&locks), Arc::clone(&prepared));
                thread::spawn(move || {
                    let is_prepared = |txn: TxnId| txn == TxnId(1) && prepared.load(Ordering::SeqCst);
                    locks.lock_unless_prepared(TxnId(2), A, LockMode::Shared, &is_prepared)
                })
            };
            prepared.store(true, Ordering::SeqCst);
            locks.prepared(TxnId(1));
            assert_eq!(asks.join().unwrap(), Err(NotGiven::Prepared(TxnId(1))));
            locks.lock_unless_prepared(TxnId(2), B, LockMode::Exclusive, &|_| true).unwrap();
            locks.ended(TxnId(1));
            locks.ended(TxnId(2));
            assert_eq!(locks.locked(), 0);
        });
    }

    /// Nothing is given, or wanted any longer, where somebody is in the way: who has it, or who waits for it.
    #[test]
    fn who_tries_waits_for_nobody() {
        cedrat_sync::explore(7, 200, || {
            let locks = Arc::new(PageLocks::default());
            assert!(locks.try_lock(TxnId(1), A, LockMode::IntentionExclusive));
            assert!(locks.try_lock(TxnId(1), A, LockMode::Exclusive), "its own is not in the way");
            assert!(!locks.try_lock(TxnId(2), A, LockMode::IntentionShared));
            assert_eq!(locks.held(TxnId(2)), []);
            locks.ended(TxnId(1));
            assert_eq!(locks.locked(), 0);

            locks.lock(TxnId(1), A, LockMode::Shared).unwrap();
            let waits = {
                let locks = Arc::clone(&locks);
                thread::spawn(move || {
                    locks.lock(TxnId(2), A, LockMode::Exclusive).unwrap();
                    locks.ended(TxnId(2));
                })
            };
            // Before or behind the one that waits: it goes on either way.
            if locks.try_lock(TxnId(3), A, LockMode::Shared) {
                locks.ended(TxnId(3));
            }
            locks.ended(TxnId(1));
            waits.join().unwrap();
            assert_eq!(locks.locked(), 0);
        });
    }

    #[test]
    fn keys_are_folded_to_a_bounded_number_of_locks() {
        cedrat_sync::explore(1, 1, || {
            let locks = PageLocks::with_key_stripes(8);
            for hash in 0..1000 {
                let key = Resource::Key { structure: PageId::new(9), hash };
                locks.lock(TxnId(1), key, LockMode::Exclusive).unwrap();
            }
            assert_eq!(locks.locked(), 8);
        });
    }
}
