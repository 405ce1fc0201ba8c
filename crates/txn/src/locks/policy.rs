//! Policies of waits: which requests wait for a lock, and which transactions are rolled back instead.

use std::time::Duration;

/// The rule by which a request in a conflicting mode waits, or a transaction is refused and rolled back.
///
/// A transaction that holds no lock may always wait: it is in no cycle. So may one that [`Store::transact`](crate::Store::transact) repeats
/// after four refusals. The older of two transactions is the one that began first. Whatever the policy, a request that would close a cycle
/// of waits is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Each request waits that closes no cycle of waits. Fewest transactions are rolled back.
    #[default]
    DetectCycles,
    /// No request waits. Transactions never wait in a chain, so a slow one delays few others; more are rolled back.
    NoWait,
    /// A request waits if its transaction is older than all that it would wait for. So the oldest is never refused ("wait-die":
    /// Rosenkrantz, Stearns and Lewis, *System Level Concurrency Control for Distributed Database Systems*, TODS 1978, §4).
    WaitDie,
    /// Each request waits. Younger transactions in its way are refused if they wait, now or later ("wound-wait", same source). So the
    /// oldest waits for no transaction that waits.
    WoundWait,
}

/// Options of [`PageLocks`](super::PageLocks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLockOptions {
    /// Number of distinct locks for the keys of one structure: fewer take less memory in transactions with millions of keys, but make
    /// more unrelated transactions wait for each other. 0 counts as 1.
    pub key_stripes: u64,
    /// Which requests wait.
    pub wait_policy: WaitPolicy,
    /// Maximum time of a wait, after which the request is refused; `None`: no limit.
    pub wait_max: Option<Duration>,
}

impl Default for PageLockOptions {
    /// 65,536 locks for the keys of a structure: a held lock takes about 150 bytes, so a transaction that locks all keys of a table
    /// takes at most about 10 MB.
    fn default() -> PageLockOptions {
        PageLockOptions { key_stripes: 1 << 16, wait_policy: WaitPolicy::default(), wait_max: None }
    }
}

#[cfg(test)]
mod tests {
    use cedrat_pages::PageId;
    use cedrat_sync::atomic::{AtomicBool, Ordering};
    use cedrat_sync::{Arc, explore, thread};
    use cedrat_wal::TxnId;

    use super::*;
    use crate::locks::{Deadlock, LockManager, LockMode, PageLocks, Refusal, Resource};

    const ALL: [WaitPolicy; 4] =
        [WaitPolicy::DetectCycles, WaitPolicy::NoWait, WaitPolicy::WaitDie, WaitPolicy::WoundWait];

    fn page(number: u64) -> Resource {
        Resource::Page(PageId::new(number))
    }

    fn locks(wait_policy: WaitPolicy) -> Arc<PageLocks> {
        // A wait that should have been refused ends. Schedules have no clock.
        let wait_max = (!cfg!(cedrat_shuttle)).then_some(Duration::from_secs(20));
        Arc::new(PageLocks::new(PageLockOptions { wait_policy, wait_max, ..PageLockOptions::default() }))
    }

    fn lock(locks: &PageLocks, txn: u64, number: u64) -> Result<(), Refusal> {
        locks.lock(TxnId(txn), page(number), LockMode::Exclusive).map_err(|Deadlock { refusal, .. }| refusal)
    }

    /// Requests a page in another thread, and ends the transaction there. Returns once it waits, or has ended.
    fn waiting(locks: &Arc<PageLocks>, txn: u64, number: u64) -> thread::JoinHandle<Result<(), Refusal>> {
        let (other, has_ended) = (Arc::clone(locks), Arc::new(AtomicBool::new(false)));
        let (before, ends) = (locks.counts().blocked, Arc::clone(&has_ended));
        let waits = thread::spawn(move || {
            let got = lock(&other, txn, number);
            other.ended(TxnId(txn));
            ends.store(true, Ordering::SeqCst);
            got
        });
        while locks.counts().blocked == before && !has_ended.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        waits
    }

    const REFUSED: Result<(), Refusal> = Err(Refusal::Policy);

    /// E15.8: the holder of a lock is refused, and a transaction without one waits.
    #[test]
    fn nowait_refuses_holders_alone() {
        explore(31, 100, || {
            let locks = locks(WaitPolicy::NoWait);
            assert_eq!([lock(&locks, 1, 1), lock(&locks, 2, 2)], [Ok(()); 2]);
            assert_eq!([lock(&locks, 1, 2), lock(&locks, 2, 1)], [REFUSED; 2], "E15.8");
            let waits = waiting(&locks, 3, 1);
            locks.ended(TxnId(1));
            locks.ended(TxnId(2));
            assert_eq!(waits.join().expect("no panic"), Ok(()), "E15.8");
            assert_eq!(locks.locked(), 0);
        });
    }

    /// E15.8: an older transaction waits for a younger one, and the younger one is refused.
    #[test]
    fn younger_dies_and_older_waits() {
        explore(32, 100, || {
            let locks = locks(WaitPolicy::WaitDie);
            for txn in [1, 2, 3] {
                assert_eq!(lock(&locks, txn, txn), Ok(()));
            }
            let waits = waiting(&locks, 1, 2);
            assert_eq!(lock(&locks, 3, 2), REFUSED, "E15.8: the second is older");
            assert_eq!(lock(&locks, 3, 1), REFUSED, "E15.8");
            locks.ended(TxnId(3));
            locks.ended(TxnId(2));
            assert_eq!(waits.join().expect("no panic"), Ok(()), "E15.8");
            assert_eq!(locks.locked(), 0);
        });
    }

    /// E15.8a: a younger transaction that waits is refused when an older one needs its lock, and one that does not wait at its
    /// next wait.
    #[test]
    fn older_wounds_younger() {
        explore(33, 100, || {
            let locks = locks(WaitPolicy::WoundWait);
            for txn in [1, 2, 3, 4] {
                assert_eq!(lock(&locks, txn, txn), Ok(()));
            }
            let younger = waiting(&locks, 3, 2);
            let older = waiting(&locks, 1, 3);
            assert_eq!(younger.join().expect("no panic"), REFUSED, "E15.8a: it waited");
            assert_eq!(older.join().expect("no panic"), Ok(()), "E15.8a");
            let oldest = waiting(&locks, 2, 4);
            assert_eq!(lock(&locks, 4, 9), Ok(()), "it need not wait");
            assert_eq!(lock(&locks, 5, 8), Ok(()));
            assert_eq!(lock(&locks, 4, 8), REFUSED, "E15.8a: it would wait");
            locks.ended(TxnId(5));
            locks.ended(TxnId(4));
            assert_eq!(oldest.join().expect("no panic"), Ok(()), "E15.8a");
            assert_eq!(locks.locked(), 0);
        });
    }

    /// E15.8c: a transaction that was refused often waits, also if an older one needs its lock meanwhile.
    #[test]
    fn often_refused_transaction_waits() {
        for (seed, policy) in (50..).zip(ALL) {
            explore(seed, 30, move || {
                let locks = locks(policy);
                locks.repeats(TxnId(3), 4);
                assert_eq!([lock(&locks, 2, 2), lock(&locks, 3, 3)], [Ok(()); 2]);
                let patient = waiting(&locks, 3, 2);
                let older = waiting(&locks, 1, 3);
                locks.ended(TxnId(2));
                assert_eq!(patient.join().expect("no panic"), Ok(()), "E15.8c: {policy:?}");
                assert_eq!(older.join().expect("no panic"), Ok(()), "{policy:?}");
                assert_eq!(locks.locked(), 0);
            });
        }
    }

    /// E15.8, E15.6: whatever the policy, threads that lock pages in random orders all end, and each is granted some.
    #[test]
    fn each_policy_ends_all_waits() {
        for (seed, policy) in (40..).zip(ALL) {
            explore(seed, 60, move || {
                let locks = locks(policy);
                let threads: Vec<_> = (1..=4)
                    .map(|txn| {
                        let locks = Arc::clone(&locks);
                        thread::spawn(move || {
                            let numbers = [txn % 3, (txn + 1) % 3, (txn * 2) % 3];
                            let granted =
                                numbers.iter().take_while(|&&number| lock(&locks, txn, number).is_ok()).count();
                            locks.ended(TxnId(txn));
                            granted
                        })
                    })
                    .collect();
                let granted = threads.into_iter().map(|thread| thread.join().expect("no panic"));
                assert!(granted.min() >= Some(1), "E15.8: a transaction without a lock may wait");
                assert_eq!(locks.locked(), 0);
            });
        }
    }

    /// E15.8b: a wait ends after its time, and the lock is granted to others then.
    #[test]
    #[cfg_attr(cedrat_shuttle, ignore = "needs the clock of the system")]
    fn wait_has_maximum_time() {
        let options = PageLockOptions { wait_max: Some(Duration::from_millis(1)), ..PageLockOptions::default() };
        let locks = PageLocks::new(options);
        assert_eq!(lock(&locks, 1, 1), Ok(()));
        assert_eq!(lock(&locks, 2, 1), Err(Refusal::Timeout), "E15.8b");
        locks.ended(TxnId(1));
        assert_eq!(lock(&locks, 2, 1), Ok(()), "nothing of the wait is left");
        locks.ended(TxnId(2));
        assert_eq!(locks.locked(), 0);
    }
}
