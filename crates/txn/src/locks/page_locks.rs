//! The default lock manager: page locks, shared for readers and exclusive for writers, with deadlock detection (Lemon
//! §4.1).

use cedrat_sync::Arc;
use cedrat_wal::TxnId;

use super::policy::PageLockOptions;
use super::table::LockTable;
use super::{Deadlock, HasStopped, LockCounts, LockManager, LockMode, LockState, NotGiven, Resource};

/// Two-phase locking of pages and of explicitly requested resources: keys, records, and structures in intention modes.
///
/// All locks are held to the end of the transaction. Requests for one resource are granted in order of arrival, except
/// that holders which request a stronger mode come first. So a stream of readers never overtakes a waiting writer. Only
/// the request whose wait would close a cycle is refused; and, after ten seconds, one that waits for a transaction of its
/// own thread ([`Refusal::OwnThread`](super::Refusal::OwnThread)), or whose store has stopped. Other [policies](super::WaitPolicy) refuse
/// more.
///
/// Memory grows with the number of locks held. For keys it is bounded by the number of stripes: hashes are folded to
/// [`PageLockOptions::key_stripes`] values per structure. Each page and each record has a lock of its own.
#[derive(Debug)]
pub struct PageLocks {
    table: LockTable,
    options: PageLockOptions,
}

impl Default for PageLocks {
    fn default() -> PageLocks {
        PageLocks::new(PageLockOptions::default())
    }
}

impl PageLocks {
    /// Returns a lock manager without any locks.
    pub fn new(mut options: PageLockOptions) -> PageLocks {
        options.key_stripes = options.key_stripes.max(1);
        PageLocks { table: LockTable::new(options.wait_policy, options.wait_max), options }
    }

    /// Returns the number of resources that are currently locked or waited for.
    pub fn locked(&self) -> usize {
        self.table.len()
    }

    /// Returns the counters of waits and their cost.
    pub fn counts(&self) -> LockCounts {
        self.table.counts()
    }

    fn folded(&self, resource: Resource) -> Resource {
        match resource {
            Resource::Key { structure, hash } => Resource::Key { structure, hash: hash % self.options.key_stripes },
            other => other,
        }
    }
}

impl LockManager for PageLocks {
    fn lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> Result<(), Deadlock> {
        self.table.lock(txn, self.folded(resource), mode, None).map_err(|not_given| match not_given {
            NotGiven::Deadlock(deadlock) => deadlock,
            NotGiven::Prepared(_) => unreachable!("this request waits for prepared transactions"),
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

    fn lock_all(
        &self,
        txn: TxnId,
        resources: &mut dyn Iterator<Item = (Resource, LockMode)>,
        is_prepared: Option<&dyn Fn(TxnId) -> bool>,
    ) -> Result<(), NotGiven> {
        let folded = resources.map(|(resource, mode)| (self.folded(resource), mode));
        self.table.lock_all(txn, folded, is_prepared)
    }

    fn try_lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> bool {
        self.table.try_lock(txn, self.folded(resource), mode)
    }

    fn repeats(&self, txn: TxnId, refusals: u32) {
        self.table.repeats(txn, refusals);
    }

    fn rolls_back(&self, txn: TxnId, ends: bool) {
        self.table.rolls_back(txn, ends);
    }

    fn prepared(&self, txn: TxnId) {
        self.table.prepared(txn);
    }

    fn ended(&self, txn: TxnId) {
        self.table.release_all(txn);
    }

    fn held(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        self.table.held_by(txn)
    }

    fn locks(&self) -> Vec<LockState> {
        self.table.all()
    }

    fn key_stripes(&self) -> u64 {
        self.options.key_stripes
    }

    fn restore(&self, txn: TxnId, resource: Resource, mode: LockMode) {
        self.table.grant(txn, self.folded(resource), mode);
    }

    fn serves(&self, has_stopped: HasStopped) {
        self.table.serves(has_stopped);
    }

    fn awaited_by(&self, thread: usize) -> Vec<(TxnId, usize)> {
        self.table.awaited_by(thread)
    }

    fn for_another_store(&self) -> Option<Arc<dyn LockManager>> {
        Some(Arc::new(PageLocks::new(self.options)))
    }
}

#[cfg(test)]
mod tests {
    use cedrat_pages::PageId;
    use cedrat_sync::{explore, thread};

    use super::*;

    const A: Resource = Resource::Page(PageId::new(1));
    const B: Resource = Resource::Page(PageId::new(2));

    #[test]
    fn readers_share_and_a_writer_excludes() {
        explore(1, 1, || {
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

    /// Each transaction takes two pages in opposite order: at least one always succeeds, and none waits without end.
    #[test]
    fn deadlock_has_one_victim_and_one_survivor() {
        explore(4, 200, || {
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

    /// The memory of transactions with very many locks is freed.
    #[test]
    fn memory_of_locks_is_given_back() {
        explore(1, 1, || {
            let locks = PageLocks::default();
            let lock = |txn, number: u64| locks.lock(TxnId(txn), Resource::Page(PageId::new(number)), LockMode::Shared);
            lock(1, 0).unwrap();
            (1..200_000).for_each(|number| lock(2, number).unwrap());
            let many = locks.table.capacity();
            locks.ended(TxnId(2));
            assert!(locks.table.capacity() < many / 2, "{} of {many}", locks.table.capacity());
            assert_eq!(locks.locked(), 1);
        });
    }

    /// Two readers that both upgrade to writing wait for each other: one is refused.
    #[test]
    fn two_upgrades_are_a_deadlock() {
        explore(5, 200, || {
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

    /// E9.12: a request that waits when the holder prepares is refused; its lock is never granted.
    #[test]
    fn lock_request_reports_prepared_holder() {
        use cedrat_sync::atomic::{AtomicBool, Ordering};
        explore(6, 200, || {
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

    /// `try_lock` grants nothing, and leaves no request behind, if another transaction holds the lock or waits for it.
    #[test]
    fn attempt_never_waits() {
        explore(7, 200, || {
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
            // Before or after the waiter: it continues either way.
            if locks.try_lock(TxnId(3), A, LockMode::Shared) {
                locks.ended(TxnId(3));
            }
            locks.ended(TxnId(1));
            waits.join().unwrap();
            assert_eq!(locks.locked(), 0);
        });
    }

    /// The report names holders and waiters of a lock, in the place beside the table as well as in it.
    #[test]
    fn report_names_holders_and_waiters() {
        explore(9, 100, || {
            let locks = Arc::new(PageLocks::default());
            locks.lock(TxnId(1), A, LockMode::Shared).unwrap();
            locks.lock(TxnId(2), A, LockMode::Shared).unwrap();
            locks.lock(TxnId(2), B, LockMode::Exclusive).unwrap();
            let waits = [3, 4].map(|txn| {
                let other = Arc::clone(&locks);
                let waits = thread::spawn(move || {
                    other.lock(TxnId(txn), A, LockMode::Exclusive).unwrap();
                    other.ended(TxnId(txn));
                });
                while locks.table.waiting_now() < txn as usize - 2 {
                    thread::yield_now();
                }
                waits
            });
            let all = locks.locks();
            let [LockState { resource: A, holders, waiters }, of_b] = &all[..] else { panic!("{all:?}") };
            assert_eq!(*holders, [(TxnId(1), LockMode::Shared), (TxnId(2), LockMode::Shared)]);
            assert_eq!(waiters.iter().map(|waiter| waiter.txn).collect::<Vec<_>>(), [TxnId(3), TxnId(4)]);
            assert!(waiters.iter().all(|waiter| waiter.waits_for == [TxnId(1), TxnId(2)]), "{waiters:?}");
            assert_eq!((of_b.resource, &of_b.holders[..]), (B, &[(TxnId(2), LockMode::Exclusive)][..]));
            locks.ended(TxnId(1));
            locks.ended(TxnId(2));
            waits.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(locks.locks(), []);
        });
    }

    /// A batch notes the locks that it was granted before it waits: otherwise no search would follow a cycle through them.
    #[test]
    fn batch_of_locks_closes_cycles() {
        explore(8, 200, || {
            let locks = Arc::new(PageLocks::default());
            locks.lock(TxnId(1), B, LockMode::Exclusive).unwrap();
            let mut waits = None;
            let both = [A, B].map(|resource| (resource, LockMode::Exclusive));
            let mut resources = both.into_iter().inspect(|&(resource, _)| {
                if resource == B {
                    // A is granted to the batch.
                    let other = Arc::clone(&locks);
                    waits = Some(thread::spawn(move || {
                        let got = other.lock(TxnId(1), A, LockMode::Exclusive);
                        other.ended(TxnId(1));
                        got.is_ok()
                    }));
                    while locks.table.waiting_now() == 0 {
                        thread::yield_now();
                    }
                }
            });
            let got = locks.lock_all(TxnId(2), &mut resources, None);
            locks.ended(TxnId(2));
            assert_ne!(got.is_ok(), waits.unwrap().join().unwrap(), "one is refused, and the other goes on");
            assert_eq!(locks.locked(), 0);
        });
    }

    #[test]
    fn keys_fold_to_bounded_number_of_locks() {
        explore(1, 1, || {
            let locks = PageLocks::new(PageLockOptions { key_stripes: 8, ..PageLockOptions::default() });
            for hash in 0..1000 {
                let key = Resource::Key { structure: PageId::new(9), hash };
                locks.lock(TxnId(1), key, LockMode::Exclusive).unwrap();
            }
            assert_eq!(locks.locked(), 8);
        });
    }
}
