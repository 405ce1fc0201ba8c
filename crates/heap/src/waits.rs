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

use crate::memory::{Memory, Shared};

/// Time that a wait lasts before the search. A transaction may have been moved to another thread since its newest lock: then it
/// usually ends earlier.
pub(crate) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 10_000 });

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
        self.shared.wait_leads_here(self.wait.awaited.clone())
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

impl Waits {
    fn awaited_by(&self, thread: usize) -> Vec<usize> {
        let waits = self.0.lock();
        waits.iter().filter(|wait| wait.thread == thread).flat_map(|wait| wait.awaited.iter().copied()).collect()
    }
}

impl Shared {
    /// Returns whether one of these threads is the calling one, or waits for it, directly or through others.
    #[cold]
    pub(crate) fn wait_leads_here(&self, threads: Vec<usize>) -> bool {
        if planted!("wait_for_own_not_found") {
            return false;
        }
        let here = thread_number();
        let store = self.store_link();
        let (mut seen, mut open) = (HashSet::from([0]), threads);
        while let Some(thread) = open.pop() {
            if thread == here {
                return true;
            }
            if seen.insert(thread) {
                open.extend(self.slots.awaited_by(thread, &self.stripes));
                open.extend(self.waits.awaited_by(thread));
                open.extend(store.iter().flat_map(|store| store.awaited_by(thread)));
            }
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
    use crate::{Commit, Error, Heap, HeapOptions, Held, Locking, MemoryOptions, StoreLink};

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

        fn awaited_by(&self, thread: usize) -> Vec<usize> {
            let is_it = thread == self.waits.load(Ordering::SeqCst);
            if is_it { vec![0, self.awaited.load(Ordering::SeqCst)] } else { Vec::new() }
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
