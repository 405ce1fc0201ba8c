//! Contention in numbers: waits, wake-ups, searches and steps, with 2 to 400 threads.

use cedrat_pages::PageId;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, explore, spin_hint, thread};
use cedrat_wal::TxnId;

use super::LockMode::{
    Exclusive as X, IntentionExclusive as IX, IntentionShared as IS, Shared as S, SharedIntentionExclusive as SIX,
};
use super::lock::Hashed;
use super::table::{LockTable, Request};
use super::waiter::{Outcome, Waiter};
use super::{Deadlock, HasStopped, LockCounts, LockMode, NotGiven, Refusal, Resource};

const HOT: Resource = Resource::Structure(PageId::new(1));

fn page(number: u64) -> Resource {
    Resource::Page(PageId::new(number))
}

fn request(table: &LockTable, txn: u64, resource: Resource, mode: LockMode) -> Option<Arc<Waiter>> {
    match table.request(TxnId(txn), resource, mode, None).unwrap() {
        Request::Granted => None,
        Request::Blocked(waiter) => Some(waiter),
    }
}

fn granted(table: &LockTable, txn: u64, resource: Resource, mode: LockMode) {
    assert!(request(table, txn, resource, mode).is_none(), "transaction {txn} waits for {resource}");
}

fn blocked(table: &LockTable, txn: u64, resource: Resource, mode: LockMode) -> Arc<Waiter> {
    request(table, txn, resource, mode).unwrap_or_else(|| panic!("transaction {txn} does not wait for {resource}"))
}

/// Ends the waits that are decided. Returns the transactions that were granted their locks, and retains the other
/// waiters.
fn decided(table: &LockTable, waiters: &mut Vec<Arc<Waiter>>) -> Vec<u64> {
    let mut txns = Vec::new();
    waiters.retain(|waiter| {
        let waits = waiter.outcome() == Outcome::Waiting;
        if !waits {
            table.end_wait(waiter).unwrap();
            txns.push(waiter.txn.0);
        }
        waits
    });
    txns
}

fn release(table: &LockTable, txns: &[u64]) {
    txns.iter().for_each(|&txn| table.release_all(TxnId(txn)));
}

fn refused(txn: u64, resource: Resource) -> NotGiven {
    Deadlock::new(TxnId(txn), resource).into()
}

fn thread_counts() -> &'static [u64] {
    if cfg!(cedrat_shuttle) { &[2, 3, 5] } else { &[2, 50, 200, 400] }
}

/// Lets each thread take one lock exclusively, repeatedly, with or without another lock held.
fn hand_overs(threads: u64, rounds: u64, holds_another: bool) -> LockCounts {
    let (table, inside) = (Arc::new(LockTable::default()), Arc::new(AtomicU64::new(0)));
    let worker = |number: u64| {
        let (table, inside) = (Arc::clone(&table), Arc::clone(&inside));
        thread::spawn(move || {
            for round in 0..rounds {
                let txn = TxnId(round * threads + number + 1);
                if holds_another {
                    table.lock(txn, page(100 + number), X, None).unwrap();
                }
                table.lock(txn, HOT, X, None).unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two hold it");
                thread::yield_now();
                inside.fetch_sub(1, Ordering::Relaxed);
                table.release_all(txn);
            }
        })
    };
    let workers: Vec<_> = (0..threads).map(worker).collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!((table.len(), table.waiting_now()), (0, 0));
    table.counts()
}

/// E15.5: one wake-up per grant, whatever the number of threads; at most one search per wait, of few steps.
#[test]
fn hand_over_wakes_only_the_granted() {
    for &threads in thread_counts() {
        explore(threads, 30, move || {
            let rounds = if cfg!(cedrat_shuttle) { 2 } else { 2000 / threads };
            for holds_another in [false, true] {
                let counts = hand_overs(threads, rounds, holds_another);
                assert_eq!((counts.wake_ups, counts.granted), (counts.blocked, counts.blocked), "{counts:?}");
                assert_eq!(counts.searches, if holds_another { counts.blocked } else { 0 }, "{counts:?}");
                // The lock, the request itself or the first waiter, the next one after it, the holder.
                assert!(counts.search_steps <= 4 * counts.searches, "{counts:?} with {threads} threads");
                assert_eq!(counts.deadlocks, 0);
            }
        });
    }
}

/// Waiters are granted in compatible groups, in order of arrival; a late reader stays behind the writer.
#[test]
fn compatible_waiters_are_granted_together() {
    explore(1, 1, || {
        let table = LockTable::default();
        granted(&table, 1, HOT, X);
        let modes = [S, S, IS, X, S, S, IX, IX, SIX, IS];
        let mut waiters: Vec<_> = (2..).zip(modes).map(|(txn, mode)| blocked(&table, txn, HOT, mode)).collect();
        table.release_all(TxnId(1));
        assert_eq!(decided(&table, &mut waiters), [2, 3, 4]);
        waiters.push(blocked(&table, 20, HOT, S));
        release(&table, &[2, 3, 4]);
        assert_eq!(decided(&table, &mut waiters), [5]);
        table.release_all(TxnId(5));
        assert_eq!(decided(&table, &mut waiters), [6, 7]);
        release(&table, &[6, 7]);
        assert_eq!(decided(&table, &mut waiters), [8, 9]);
        table.release_all(TxnId(8));
        assert_eq!(decided(&table, &mut waiters), [0; 0], "one that intends to write is still there");
        table.release_all(TxnId(9));
        assert_eq!(decided(&table, &mut waiters), [10, 11]);
        table.release_all(TxnId(10));
        assert_eq!(decided(&table, &mut waiters), [20]);
        release(&table, &[11, 20]);
        assert_eq!(table.len(), 0);
        let counts = table.counts();
        assert_eq!((counts.blocked, counts.wake_ups), (11, 11));
    });
}

/// An upgrade precedes all other waiters and blocks new readers; of two conflicting upgrades the second is refused.
#[test]
fn upgrade_goes_first_and_is_not_starved() {
    explore(1, 1, || {
        let table = LockTable::default();
        (1..=3).for_each(|txn| granted(&table, txn, HOT, S));
        let mut waiters = vec![blocked(&table, 4, HOT, X), blocked(&table, 1, HOT, X), blocked(&table, 5, HOT, IS)];
        assert_eq!(table.request(TxnId(2), HOT, X, None).unwrap_err(), refused(2, HOT));
        table.release_all(TxnId(2));
        assert_eq!(decided(&table, &mut waiters), [0; 0]);
        table.release_all(TxnId(3));
        assert_eq!(decided(&table, &mut waiters), [1]);
        assert_eq!(table.held_by(TxnId(1)), [(HOT, X)]);
        table.release_all(TxnId(1));
        assert_eq!(decided(&table, &mut waiters), [4]);
        // A holder whose request conflicts with no other holder is granted it before the waiters.
        table.release_all(TxnId(4));
        assert_eq!(decided(&table, &mut waiters), [5]);
        let mut waiters = vec![blocked(&table, 6, HOT, X)];
        granted(&table, 5, HOT, SIX);
        table.release_all(TxnId(5));
        assert_eq!(decided(&table, &mut waiters), [6]);
    });
}

/// E15.4: the cost of a request does not depend on the number of holders of its lock.
#[test]
fn intention_beside_many_holders_takes_constant_steps() {
    explore(1, 1, || {
        let table = LockTable::default();
        let of = Hashed::new(HOT);
        let many = if cfg!(cedrat_shuttle) { 500 } else { 20_000 };
        granted(&table, 1, HOT, IX); // idle
        table.grant(TxnId(2), HOT, IX); // prepared
        (3..=many).for_each(|txn| table.grant(TxnId(txn), HOT, IX));
        let looked_at = || table.shard(of).lock().find(of).unwrap().holders().looked_at.get();
        let before = looked_at();
        const REQUESTS: u64 = 100;
        for txn in many + 1..=many + REQUESTS {
            granted(&table, txn, HOT, IX);
            granted(&table, txn, HOT, IS);
            granted(&table, txn, page(7), X);
            assert!(!table.try_lock(TxnId(txn), HOT, X), "not beside others");
            table.release_all(TxnId(txn));
        }
        // Each of three requests compares with the first holder, and with entries of the same tag in a hash table.
        let steps = looked_at() - before;
        assert!(steps <= 10 * REQUESTS, "{steps} steps for {REQUESTS} transactions beside {many} holders");

        // A request that waits for all of them searches the waiters, not the holders.
        granted(&table, 1, page(8), X);
        granted(&table, many + 1, page(9), X);
        let mut waiters = vec![blocked(&table, 3, page(8), X), blocked(&table, many + 1, HOT, S)];
        let counts = table.counts();
        assert!((1..20).contains(&counts.search_steps), "{counts:?}");
        assert_eq!(counts.deadlocks, 0);
        table.release_all(TxnId(1));
        assert_eq!(decided(&table, &mut waiters), [3]);
        // The wait of another holder would close a cycle.
        assert_eq!(table.request(TxnId(4), page(9), S, None).unwrap_err(), refused(4, page(9)));
    });
}

/// An idle transaction, a prepared one, and one that others queue for: a transaction that needs none of their locks
/// does not wait, wakes no thread, and finds its shard unchanged.
#[test]
fn strangers_are_unaffected_by_contention() {
    explore(3, 20, || {
        let table = Arc::new(LockTable::default());
        let (idle, prepared, slow) = (TxnId(1), TxnId(2), TxnId(3));
        table.lock(idle, HOT, IX, None).unwrap();
        table.lock(idle, page(1), X, None).unwrap();
        table.grant(prepared, HOT, IX);
        table.grant(prepared, page(2), X);
        table.lock(slow, page(3), X, None).unwrap();
        let in_shard = |resource: Resource| std::ptr::from_ref(table.shard(Hashed::new(resource)));
        let (queued, strangers) = if cfg!(cedrat_shuttle) { (2, 2) } else { (100, 8) };
        let own: Vec<_> = (100..).map(page).filter(|&own| in_shard(own) != in_shard(page(3))).take(strangers).collect();
        let wait = |number: u64| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.lock(TxnId(10 + number), page(3), X, None).unwrap();
                table.release_all(TxnId(10 + number));
            })
        };
        let waits: Vec<_> = (0..queued).map(wait).collect();
        while table.counts().blocked < queued {
            spin_hint();
            thread::yield_now();
        }
        let before = table.counts();
        const ROUNDS: u64 = 20;
        let operations = |resource: Resource| table.shard(Hashed::new(resource)).lock().operations;
        let operations_before: u64 = own.iter().map(|&own| operations(own)).sum();
        let work = |(number, &own): (usize, &Resource)| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let txn = TxnId(1000 + number as u64 * ROUNDS + round);
                    table.lock(txn, HOT, IX, None).unwrap();
                    table.lock(txn, own, X, None).unwrap();
                    table.release_all(txn);
                }
            })
        };
        let workers: Vec<_> = own.iter().enumerate().map(work).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(table.counts(), before, "none of them has waited, or woken another");
        let distinct: std::collections::BTreeSet<_> = own.iter().map(|&own| in_shard(own)).collect();
        if distinct.len() == own.len() && !distinct.contains(&in_shard(HOT)) {
            let done: u64 = own.iter().map(|&own| operations(own)).sum::<u64>() - operations_before;
            assert_eq!(done, 2 * ROUNDS * strangers as u64, "one to lock and one to release");
        }
        release(&table, &[1, 2, 3]);
        waits.into_iter().for_each(|wait| wait.join().unwrap());
        assert_eq!(table.len(), 0);
        assert_eq!(table.counts().wake_ups, queued);
    });
}

/// E15.6: each transaction holds a lock and requests that of the next: exactly one is refused, whatever the schedule.
#[test]
fn ring_of_waits_has_one_victim() {
    for members in [2, 3, 4] {
        explore(members, 200, move || {
            let table = Arc::new(LockTable::default());
            (0..members).for_each(|member| table.lock(TxnId(member + 1), page(member), X, None).unwrap());
            let ask = |member: u64| {
                let table = Arc::clone(&table);
                thread::spawn(move || {
                    let txn = TxnId(member + 1);
                    let answer = table.lock(txn, page((member + 1) % members), X, None);
                    table.release_all(txn);
                    answer.is_ok()
                })
            };
            let asked: Vec<_> = (0..members).map(ask).collect();
            let refused = asked.into_iter().map(|ask| ask.join().unwrap()).filter(|ok| !ok).count();
            let counts = table.counts();
            assert_eq!((refused, counts.deadlocks), (1, 1), "{counts:?}");
            assert!(counts.searches <= counts.blocked);
            assert_eq!((table.len(), table.waiting_now()), (0, 0));
        });
    }
}

/// The store releases the locks of a transaction that waits for a stronger one, and that has noted others meanwhile: its batch of
/// requests does so before it waits.
#[test]
fn released_upgrade_is_noted_when_granted() {
    explore(9, 1, || {
        let table = LockTable::default();
        [1, 2].into_iter().for_each(|txn| granted(&table, txn, HOT, S));
        let waiter = blocked(&table, 1, HOT, X);
        release(&table, &[1]);
        granted(&table, 1, page(7), X);
        release(&table, &[2]);
        table.end_wait(&waiter).unwrap();
        release(&table, &[1]);
        assert_eq!(table.len(), 0, "E16.3: a lock that no list contains is never released");
    });
}

/// A deadlock is found through waiting requests that hold nothing, and through upgrades that were queued first.
#[test]
fn cycle_through_queue_is_found() {
    explore(1, 1, || {
        let table = LockTable::default();
        granted(&table, 1, page(1), S);
        granted(&table, 2, page(2), X);
        let waiters = [blocked(&table, 3, page(1), X), blocked(&table, 2, page(1), S)];
        // A read is compatible with the holder, but not with the writer queued before it.
        assert_eq!(table.request(TxnId(1), page(2), S, None).unwrap_err(), refused(1, page(2)));
        assert!(waiters.iter().all(|waiter| waiter.outcome() == Outcome::Waiting));

        // An intention lock queued behind a shared request does not wait for a holder of intention shared: no false
        // victim.
        let table = LockTable::default();
        granted(&table, 1, page(1), IS);
        granted(&table, 2, page(1), IX);
        granted(&table, 3, page(2), X);
        let mut waiters = vec![blocked(&table, 4, page(1), S), blocked(&table, 3, page(1), IS)];
        waiters.push(blocked(&table, 1, page(2), X));
        assert_eq!(table.counts().deadlocks, 0);
        table.release_all(TxnId(2));
        assert_eq!(decided(&table, &mut waiters), [4, 3]);
    });
}

/// E15.7: directly, behind another waiter, and through another thread that waits itself.
#[test]
fn wait_for_own_thread_is_refused() {
    explore(1, 1, || {
        let on_other_thread = |table: &Arc<LockTable>, work: fn(&LockTable)| {
            let table = Arc::clone(table);
            thread::spawn(move || work(&table)).join().unwrap();
        };
        let refused = |table: &LockTable, waiter: &Arc<Waiter>| {
            table.refuse_wait_for_own(waiter).map_err(|deadlock| deadlock.refusal)
        };
        let table = Arc::new(LockTable::default());
        granted(&table, 1, page(1), S);
        on_other_thread(&table, |table| {
            granted(table, 2, page(2), X);
            drop(blocked(table, 3, page(1), X));
        });
        for waiter in [blocked(&table, 4, page(1), S), blocked(&table, 5, page(2), X)] {
            assert_eq!(refused(&table, &waiter), Err(Refusal::OwnThread(TxnId(1))), "E15.7");
            assert_eq!(waiter.outcome(), Outcome::Withdrawn);
        }
        assert_eq!(table.waiting_now(), 1, "the one of the other thread");

        // Any thread may end a prepared transaction.
        let table = Arc::new(LockTable::default());
        granted(&table, 6, page(6), X);
        let waits = blocked(&table, 7, page(6), X);
        table.prepared(TxnId(6));
        assert_eq!(refused(&table, &waits), Ok(()));
        // A transaction is of the thread to which it was moved.
        granted(&table, 8, page(8), X);
        on_other_thread(&table, |table| granted(table, 8, page(9), X));
        let waits = blocked(&table, 10, page(8), X);
        assert_eq!(refused(&table, &waits), Ok(()));
        // This thread rolls them back: their locks are released by no other.
        [6, 8].into_iter().for_each(|txn| table.rolls_back(TxnId(txn), true));
        for (txn, of) in [(6, 6), (8, 8)] {
            let waits = blocked(&table, 10 + txn, page(of), X);
            assert_eq!(refused(&table, &waits), Err(Refusal::OwnThread(TxnId(txn))), "E15.7a");
        }
        // The thread from which the store has taken it gets a lock late.
        on_other_thread(&table, |table| granted(table, 8, page(10), X));
        let waits = blocked(&table, 19, page(8), X);
        assert_eq!(refused(&table, &waits), Err(Refusal::OwnThread(TxnId(8))), "E15.7a");
        // After a rollback to a savepoint, it may be moved.
        table.rolls_back(TxnId(8), false);
        on_other_thread(&table, |table| granted(table, 8, page(11), X));
        let waits = blocked(&table, 20, page(8), X);
        assert_eq!(refused(&table, &waits), Ok(()));
    });
}

/// E15.7: a thread that waits for its own transaction gets an error: no other thread would wake it.
#[cfg(not(cedrat_shuttle))] // no time passes under the scheduler
#[test]
fn thread_waits_for_itself_with_patience() {
    let table = LockTable::with_patience(std::time::Duration::from_millis(1));
    table.lock(TxnId(1), HOT, X, None).unwrap();
    let deadlock = Deadlock { refusal: Refusal::OwnThread(TxnId(1)), ..Deadlock::new(TxnId(2), HOT) };
    assert_eq!(table.lock(TxnId(2), HOT, S, None), Err(deadlock.into()));
    release(&table, &[1, 2]);
    assert_eq!((table.len(), table.waiting_now()), (0, 0));
}

/// A branch in doubt ends by a call that a store which has stopped refuses: otherwise a request for its locks waits without end.
#[test]
fn wait_ends_when_the_store_stops() {
    explore(1, 1, || {
        let table = LockTable::default();
        table.grant(TxnId(1), HOT, X);
        let waits = blocked(&table, 2, HOT, S);
        assert_eq!(table.refuse_if_stopped(&waits), Ok(()));
        table.serves(HasStopped::new(|| true));
        assert_eq!(table.refuse_if_stopped(&waits).map_err(NotGiven::from), Err(refused(2, HOT)));
        release(&table, &[1, 2]);
        assert_eq!((table.len(), table.waiting_now()), (0, 0));
    });
}

/// The thread that waits checks that itself.
#[cfg(not(cedrat_shuttle))] // no time passes under the scheduler
#[test]
fn thread_notices_stop_with_patience() {
    let table = LockTable::with_patience(std::time::Duration::from_millis(1));
    table.grant(TxnId(1), HOT, X);
    table.serves(HasStopped::new(|| true));
    assert_eq!(table.lock(TxnId(2), HOT, S, None), Err(refused(2, HOT)));
    release(&table, &[1, 2]);
    assert_eq!((table.len(), table.waiting_now()), (0, 0));
}

/// E9.12: the request behind a refused one gets its turn, and a request behind one that waits for a prepared
/// transaction is refused with it.
#[test]
fn preparing_refuses_and_hands_over() {
    explore(1, 1, || {
        let table = LockTable::default();
        let unless = |txn: u64, resource: Resource, mode: LockMode, prepared: u64| {
            table.request(TxnId(txn), resource, mode, Some(&move |txn: TxnId| txn.0 == prepared))
        };
        let waits = |asked: Result<Request, NotGiven>| match asked.unwrap() {
            Request::Blocked(waiter) => waiter,
            Request::Granted => panic!("granted at once"),
        };
        granted(&table, 1, HOT, S);
        let first = waits(unless(2, HOT, X, 0));
        let mut behind = vec![blocked(&table, 3, HOT, S)];
        table.prepared(TxnId(1));
        assert_eq!(table.end_wait(&first), Err(NotGiven::Prepared(TxnId(1))));
        assert_eq!(decided(&table, &mut behind), [3]);
        assert_eq!((table.counts().wake_ups, table.counts().granted), (2, 1));

        let _waits = blocked(&table, 4, HOT, X);
        assert_eq!(unless(5, HOT, S, 1).unwrap_err(), NotGiven::Prepared(TxnId(1)));
        let behind = waits(unless(5, HOT, S, 0));
        table.prepared(TxnId(3));
        assert_eq!(table.end_wait(&behind), Err(NotGiven::Prepared(TxnId(3))));
        assert_eq!(table.waiting_now(), 1, "the one that waits for prepared transactions");
    });
}

/// E9.12: an upgrade that waits for a prepared transaction overtakes a request that did not wait for that one before.
#[test]
fn upgrade_leaves_no_waiter_behind_prepared() {
    explore(1, 1, || {
        let table = LockTable::default();
        [(1, IS), (2, IS), (3, IX)].into_iter().for_each(|(txn, mode)| granted(&table, txn, HOT, mode));
        table.prepared(TxnId(1));
        let is_prepared = |txn: TxnId| txn == TxnId(1);
        let Request::Blocked(reader) = table.request(TxnId(4), HOT, S, Some(&is_prepared)).unwrap() else {
            panic!("it waits for the writer");
        };
        let upgrade = blocked(&table, 2, HOT, X);
        assert_eq!(reader.outcome(), Outcome::Prepared(TxnId(1)));
        assert_eq!(table.end_wait(&reader), Err(NotGiven::Prepared(TxnId(1))));
        release(&table, &[3, 1]);
        table.end_wait(&upgrade).unwrap();
        release(&table, &[2]);
        assert_eq!((table.len(), table.waiting_now()), (0, 0));
    });
}

/// Random requests of several threads: conflicting locks are never held together, every wait ends, and no lock is left
/// over.
#[test]
fn random_requests_exclude_and_end() {
    explore(9, 300, || {
        let table = Arc::new(LockTable::default());
        let held: Arc<Mutex<Vec<(TxnId, u64, LockMode)>>> = Arc::default();
        let (threads, rounds) = if cfg!(cedrat_shuttle) { (4, 3) } else { (8, 2000) };
        let work = |number: u64| {
            let (table, held) = (Arc::clone(&table), Arc::clone(&held));
            thread::spawn(move || {
                let mut state = number + 1;
                let mut below = |bound: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) % bound
                };
                for round in 0..rounds {
                    let txn = TxnId(1 + number + round * threads);
                    for _ in 0..3 {
                        let (number, mode) = (below(3), LockMode::ALL[below(5) as usize]);
                        if table.lock(txn, page(number), mode, None).is_err() {
                            break;
                        }
                        let mut held = held.lock();
                        let conflict = |&&(other, at, held): &&(TxnId, u64, LockMode)| {
                            other != txn && at == number && !held.agrees_with(mode)
                        };
                        assert_eq!(held.iter().find(conflict), None, "{txn} has {number} in {mode:?}");
                        held.push((txn, number, mode));
                    }
                    held.lock().retain(|(holder, ..)| *holder != txn);
                    table.release_all(txn);
                }
            })
        };
        let workers: Vec<_> = (0..threads).map(work).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let counts = table.counts();
        assert_eq!(counts.granted + counts.deadlocks, counts.blocked, "{counts:?}");
        assert_eq!(counts.wake_ups, counts.granted);
        assert!(counts.searches <= counts.blocked);
        assert_eq!((table.len(), table.waiting_now()), (0, 0));
    });
}
