//! Waits between threads that end only when the other thread goes on, and the search for one that leads back (E15.7b).
//!
//! A transaction that takes locks when it writes may wait, while it has them, for a lock of the store, or at a gate of a
//! structure. A thread that repeats its own transaction until it gets these words waits as well. No edges of such a cycle are
//! stored, except those of structures: they follow from the stripes that repeated transactions have met, and from the store's
//! lock manager. Each thread that waits outside the lock manager searches from itself, so one of them finds the cycle.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use cedrat_sync::{Arc, Mutex, planted, thread_number};
use cedrat_wal::TxnId;

use crate::memory::{Memory, Shared};
use crate::tx::Tx;

/// Time that a wait lasts before the search. A transaction may have been moved to another thread since its newest lock: then it
/// usually ends earlier.
pub(crate) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 10_000 });

/// Reason why a thread is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Via {
    /// Its transaction in this slot has a word.
    Slot(u32),
    /// Its transaction of this number has a lock.
    Txn(TxnId),
    /// A structure has said so.
    Structure,
}

/// A thread for which another one waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Awaited {
    pub(crate) thread: usize,
    pub(crate) via: Via,
}

/// Waits that structures have registered.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Vec<Arc<Wait>>>);

/// A wait of a thread for any of others.
#[derive(Debug)]
struct Wait {
    thread: usize,
    awaited: Vec<usize>,
}

/// A registered wait of the thread that has created it. Dropping it ends the registration.
pub struct ThreadWait<'m> {
    shared: &'m Shared,
    wait: Arc<Wait>,
}

impl Memory {
    /// Registers that the calling thread waits for these threads ([`cedrat_sync::thread_number`]), at something that neither the
    /// memory nor the lock manager of its store knows.
    pub fn waits_for(&self, awaited: Vec<usize>) -> ThreadWait<'_> {
        let (shared, wait) = (self.shared(), Arc::new(Wait { thread: thread_number(), awaited }));
        shared.waits.0.lock().push(Arc::clone(&wait));
        ThreadWait { shared, wait }
    }
}

impl ThreadWait<'_> {
    /// Returns whether one of the awaited threads waits, directly or through others, for this one. Then the wait does not end,
    /// unless this thread ends another of its transactions.
    pub fn is_endless(&self) -> bool {
        self.shared.wait_leads_here(self.wait.awaited().collect(), &[])
    }
}

impl Drop for ThreadWait<'_> {
    fn drop(&mut self) {
        self.shared.waits.0.lock().retain(|wait| !Arc::ptr_eq(wait, &self.wait));
    }
}

impl fmt::Debug for ThreadWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadWait").field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl Wait {
    fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.awaited.iter().map(|&thread| Awaited { thread, via: Via::Structure })
    }
}

impl Waits {
    fn awaited_by(&self, thread: usize) -> Vec<Awaited> {
        let waits = self.0.lock();
        waits.iter().filter(|wait| wait.thread == thread).flat_map(|wait| wait.awaited()).collect()
    }
}

impl Tx<'_> {
    /// Returns whether the owner of a word that this transaction needs waits, directly or through others, for another transaction
    /// of this thread. This one is about to be rolled back, so it is no obstacle.
    #[cold]
    pub(crate) fn is_awaited_by(&self, owner: u32) -> bool {
        let own = [Some(Via::Slot(self.this.number)), self.slot().repeated_txn().map(Via::Txn)];
        let own: Vec<Via> = own.into_iter().flatten().filter(|_| !planted!("own_attempt_is_obstacle")).collect();
        let owner = Awaited { thread: self.shared.slots.slot(owner).thread(), via: Via::Slot(owner) };
        self.shared.wait_leads_here(vec![owner], &own)
    }
}

impl Shared {
    /// Returns whether one of these threads is the calling one or waits for it, directly or through others, for a transaction
    /// that is not in `but`. Also true if the calling thread holds latches, for which one of them may wait.
    /// that is none of `but`, or may wait for latches of the calling one.
    fn wait_leads_here(&self, awaited: Vec<Awaited>, but: &[Via]) -> bool {
        if planted!("wait_for_own_not_found") {
            return false;
        }
        let (here, store) = (thread_number(), self.store_link());
        if store.as_ref().is_some_and(|store| store.holds_latches()) {
            return true; // no search finds the threads that wait for latches
        }
        let (mut seen, mut open) = (HashSet::new(), awaited);
        while let Some(awaited) = open.pop() {
            let Awaited { thread, via } = awaited;
            if thread == here && !but.contains(&via) {
                return true;
            }
            if thread == here || thread == 0 || !seen.insert(awaited) {
                continue;
            }
            // A repeated transaction releases its locks each time: only its other waits keep them.
            open.extend(self.slots.awaited_by(thread, via, &self.stripes));
            open.extend(self.waits.awaited_by(thread));
            let locks = store.iter().flat_map(|store| store.awaited_by(thread));
            open.extend(locks.map(|(txn, thread)| Awaited { thread, via: Via::Txn(txn) }));
        }
        false
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use std::sync::mpsc;

    use cedrat_sync::atomic::{AtomicUsize, Ordering};
    use cedrat_sync::thread;

    use super::*;
    use crate::{Commit, Error, Heap, HeapOptions, Held, Joined, Locking, MemoryOptions, StoreLink};

    fn heap() -> Heap {
        let options = MemoryOptions { locking: Locking::EncounterTime, ..MemoryOptions::small() };
        let memory = Memory::volatile(options).expect("memory");
        memory.create_heap("heap", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(8192) }).expect("a heap")
    }

    /// Returns a transaction of this thread that has locked a word.
    fn owner_of(heap: &Heap, word: u64) -> Held {
        let mut held = Held::new(heap.memory()).expect("a place");
        held.begin().expect("it goes on");
        held.run(|tx| tx.write(heap, word, 1)).expect("no other transaction has it");
        held
    }

    /// Runs `work` in another thread, and returns its result, unless it takes much too long.
    fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = mpsc::channel();
        let running = thread::spawn(move || done.send(work()));
        let Ok(value) = result.recv_timeout(Duration::from_secs(30)) else {
            match running.is_finished() {
                true => std::panic::resume_unwind(running.join().expect_err("it has sent nothing")),
                false => panic!("E15.7b: no wait without end"),
            }
        };
        value
    }

    #[track_caller]
    fn assert_refused<T: fmt::Debug>(done: &Result<T, Error>) {
        assert!(matches!(done, Err(Error::Misuse(what)) if what.contains("waits for another")), "E15.7b: {done:?}");
    }

    /// Two threads each have a word that the other one repeats a transaction for.
    #[test]
    fn one_of_two_repeated_transactions_is_refused() {
        let heap = heap();
        let (sender, ready) = mpsc::channel();
        let [first, second] = [(0, 4096), (4096, 0)].map(|(own, other)| {
            let (heap, sender) = (heap.clone(), sender.clone());
            let (go, goes) = mpsc::channel();
            let work = move || {
                let held = owner_of(&heap, own);
                sender.send(()).expect("it is awaited");
                goes.recv().expect("both have their words");
                let done = heap.atomically(|tx| tx.update(&heap, other, |value| value + 1));
                drop(held);
                done.map(drop)
            };
            (go, thread::spawn(work))
        });
        (0..2).for_each(|_| ready.recv().expect("they have their words"));
        [&first.0, &second.0].into_iter().for_each(|go| go.send(()).expect("it is awaited"));
        let done = in_time(|| [first.1, second.1].map(|thread| thread.join().expect("no panic")));
        let refused: Vec<_> = done.into_iter().filter(Result::is_err).collect();
        assert!(!refused.is_empty(), "E15.7b");
        refused.iter().for_each(assert_refused);
    }

    /// A lock manager in which `waits` waits for `awaited`.
    #[derive(Default)]
    struct Locks {
        waits: AtomicUsize,
        awaited: AtomicUsize,
    }

    impl StoreLink for Locks {
        fn taken(&self, _: u64) {}

        fn free_log_space(&self) {}

        fn awaited_by(&self, thread: usize) -> Vec<(TxnId, usize)> {
            let is_it = thread == self.waits.load(Ordering::SeqCst);
            let awaited = [(TxnId(1), 0), (TxnId(2), self.awaited.load(Ordering::SeqCst))];
            if is_it { awaited.into() } else { Vec::new() }
        }

        fn holds_latches(&self) -> bool {
            false
        }
    }

    /// The owner of the word is in another thread, and waits for a lock of this one, directly or through a structure.
    #[test]
    fn repeated_transaction_finds_lock_of_own_thread() {
        for through_structure in [false, true] {
            let heap = heap();
            let locks = Arc::new(Locks::default());
            let link = Arc::<Locks>::clone(&locks);
            heap.memory().set_store_link(link);
            let (sender, ready) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            let owner = {
                let (heap, locks) = (heap.clone(), Arc::clone(&locks));
                thread::spawn(move || {
                    let held = owner_of(&heap, 0);
                    const OTHER: usize = 1; // no address of a thread
                    let here = thread_number();
                    locks.waits.store(if through_structure { OTHER } else { here }, Ordering::SeqCst);
                    let _wait = through_structure.then(|| heap.memory().waits_for(vec![OTHER]));
                    sender.send(()).expect("it is awaited");
                    let _ = ended.recv();
                    drop(held);
                })
            };
            ready.recv().expect("it has the word");
            let other = heap.clone();
            in_time(move || {
                locks.awaited.store(thread_number(), Ordering::SeqCst);
                assert_refused(&other.atomically(|tx| tx.read(&other, 0)));
                let mut session = other.memory().session().expect("a place");
                let batch = session.run_batch(1, Commit::Async, |_| (), |_, tx| tx.write(&other, 0, 2));
                assert_refused(&batch.map_err(Error::from));
                let mut held = Held::new(other.memory()).expect("a place");
                let done = loop {
                    held.begin().expect("it goes on");
                    match held.read(&other, 0) {
                        Err(Error::Conflict) => {}
                        done => break done,
                    }
                };
                assert_refused(&done);
                assert!(held.is_running(), "the program ends it");
            });
            drop(end);
            owner.join().expect("no panic");
            assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("the word is free"), 0);
        }
    }

    /// A transaction that has moved to another thread does not obstruct the thread that has begun it.
    #[test]
    fn moved_transaction_belongs_to_new_thread() {
        let heap = heap();
        let mut held = owner_of(&heap, 0);
        let (sender, ready) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let other = heap.clone();
        let owner = thread::spawn(move || {
            held.run(|tx| tx.read(&other, 4096)).expect("no other transaction writes");
            sender.send(()).expect("it is awaited");
            let _ = ended.recv();
            held.commit(Commit::Async).expect("no other transaction writes");
        });
        ready.recv().expect("the transaction has moved");
        let done = heap.atomically(|tx| {
            if heap.memory().shared().slots.awaits_any() {
                let _ = end.send(());
            }
            tx.update(&heap, 0, |value| value + 1)
        });
        drop(end);
        owner.join().expect("no panic");
        assert_eq!(done.expect("E15.7e: its owner goes on"), 1);
    }

    fn long_ago() -> std::time::Instant {
        std::time::Instant::now() - 2 * PATIENCE
    }

    /// Two transactions are repeated, and each attempt has a word that the other one needs.
    #[test]
    fn crossing_transactions_only_conflict() {
        let heap = heap();
        let mut first = owner_of(&heap, 0);
        first.tx().slot().repeats(long_ago(), None);
        let other = heap.clone();
        let second = thread::spawn(move || {
            let mut second = owner_of(&other, 4096);
            second.tx().slot().repeats(long_ago(), None);
            assert!(matches!(second.read(&other, 0), Err(Error::Conflict)), "the first one releases it");
            second.begin().expect("it goes on");
            second.run(|tx| tx.write(&other, 4096, 1)).expect("its attempt before has released it");
            second
        });
        let _second = second.join().expect("no panic");
        assert!(matches!(first.read(&heap, 4096), Err(Error::Conflict)), "the second one releases it");
    }

    /// The lock for which the owner waits is one of the repeated transaction, which releases it.
    #[test]
    fn repeated_transaction_is_no_obstacle_itself() {
        let heap = heap();
        let locks = Arc::new(Locks::default());
        heap.memory().set_store_link(Arc::<Locks>::clone(&locks) as Arc<dyn StoreLink>);
        let owner = heap.clone();
        let held = thread::spawn(move || {
            locks.waits.store(thread_number(), Ordering::SeqCst);
            (owner_of(&owner, 0), locks)
        });
        let (_held, locks) = held.join().expect("no panic");
        // The thread of the owner has ended: its number must not be that of this one.
        assert_ne!(locks.waits.load(Ordering::SeqCst), thread_number());
        locks.awaited.store(thread_number(), Ordering::SeqCst);
        let read = |txn: u64| {
            let mut joined = Joined::begin(heap.memory()).expect("a place");
            joined.set_repeated_since(long_ago(), TxnId(txn));
            joined.run(|tx| tx.read(&heap, 0))
        };
        assert!(matches!(read(2), Err(Error::Conflict)), "it is rolled back");
        assert_refused(&read(3));
    }

    /// A wait for a thread that goes on is none without end.
    #[test]
    fn unrelated_waits_are_not_refused() {
        let heap = heap();
        let wait = heap.memory().waits_for(vec![1]);
        assert!(!wait.is_endless());
        drop(wait);
        assert!(heap.memory().waits_for(vec![thread_number()]).is_endless(), "E15.7b");
        let held = owner_of(&heap, 0);
        let other = heap.clone();
        let repeated = thread::spawn(move || other.atomically(|tx| tx.update(&other, 0, |value| value + 1)));
        let looked_for = || heap.memory().shared().slots.awaits_any();
        while !looked_for() {
            thread::yield_now(); // it has not been repeated for long
        }
        drop(held);
        assert_eq!(in_time(|| repeated.join().expect("no panic")).expect("it waited"), 0);
    }
}
