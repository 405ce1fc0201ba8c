//! Waits for locks or heap words whose owner waits for the waiting thread.
#![cfg(not(cedrat_shuttle))]

use std::sync::mpsc;
use std::time::Duration;

use cedrat_heap::{Heap, HeapOptions, Locking};
use cedrat_pages::{LatchRank, PageId, StructureLatch};
use cedrat_sync::{Arc, thread};
use cedrat_txn::locks::PageLocks;
use cedrat_txn::{Commit, Error, Options, Result, Store, Txn, Undo};

use crate::common::{Add, at, options, registry, store_with};

struct Cycle {
    store: Store,
    page: PageId,
    words: Heap,
    locks: Arc<PageLocks>,
}

fn cycle() -> Cycle {
    let locks = Arc::new(PageLocks::default());
    let mut options = Options { locks: Arc::<PageLocks>::clone(&locks), ..options() };
    options.memory.locking = Locking::EncounterTime;
    let (store, page) = store_with(options, registry());
    let words = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) };
    let words = store.memory().create_heap("words", &words).unwrap();
    Cycle { store, page, words, locks }
}

impl Cycle {
    /// Begins a transaction that has a lock, for which the owner of a word waits in another thread.
    fn awaited(&self) -> (Txn, thread::JoinHandle<Result<u64, cedrat_heap::Error>>) {
        let mut awaited = self.store.begin();
        awaited.update(at(self.page, 0), &Add { amount: 1 }).unwrap();
        let (store, page, words) = (self.store.clone(), self.page, self.words.clone());
        let owner = thread::spawn(move || {
            words.atomically(|tx| {
                let before = tx.update(&words, 0, |value| value + 1)?;
                let add = |txn: &mut Txn| txn.update(at(page, 1), &Add { amount: 1 });
                store.transact(add).expect("the lock is released");
                Ok(before)
            })
        });
        while self.locks.counts().blocked == 0 {
            thread::yield_now();
        }
        (awaited, owner)
    }

    /// Repeats a transaction in the thread that has the lock, and returns its error after the other one has gone on.
    fn refused(self, repeated: impl Fn(&Store, &Heap) -> Result<u64> + Send + 'static) -> Error {
        let (done, result) = mpsc::channel();
        thread::spawn(move || {
            let (awaited, owner) = self.awaited();
            let refused = repeated(&self.store, &self.words).expect_err("E15.7b: the word is locked");
            awaited.commit(Commit::Sync).unwrap();
            assert_eq!(owner.join().unwrap().unwrap(), 0, "it goes on");
            assert_eq!(repeated(&self.store, &self.words).unwrap(), 1);
            done.send(refused)
        });
        result.recv_timeout(Duration::from_secs(40)).expect("E15.7b: no wait without end")
    }
}

/// E15.7b: the lock table sees no wait for a word.
#[test]
fn transact_is_refused_word_behind_own_lock() {
    let refused =
        cycle().refused(|store, words| store.transact(|txn| txn.heap(|tx| tx.update(words, 0, |value| value + 1))));
    let is_clear =
        matches!(refused, Error::Heap(cedrat_heap::Error::Misuse(what)) if what.contains("end that one first"));
    assert!(is_clear, "{refused}");
}

/// E15.7b: as above, for transactions over heaps alone.
#[test]
fn session_is_refused_word_behind_own_lock() {
    let refused = cycle().refused(|_, words| Ok(words.atomically(|tx| tx.update(words, 0, |value| value + 1))?));
    let is_clear =
        matches!(refused, Error::Heap(cedrat_heap::Error::Misuse(what)) if what.contains("end that one first"));
    assert!(is_clear, "{refused}");
}

/// E15.7b: a transaction of the same thread has the word, and the call would return only when that has ended.
#[test]
fn transact_is_refused_word_of_own_thread() {
    let Cycle { store, words, .. } = cycle();
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        let mut held = cedrat_heap::Held::new(&store.memory()).unwrap();
        held.begin().unwrap();
        held.run(|tx| tx.write(&words, 0, 1)).unwrap();
        done.send(store.transact(|txn| txn.heap(|tx| tx.read(&words, 0))))
    });
    let refused = result.recv_timeout(Duration::from_secs(40)).expect("E15.7b: no wait without end");
    assert!(matches!(refused, Err(Error::Heap(cedrat_heap::Error::Misuse(_)))), "{refused:?}");
}

/// Runs `waiting` within a nested top action. The owner of a page lock and of a heap word waits for the latch of the action.
/// Returns the error of `waiting`, and the transaction of the action.
fn refused_under_latch(waiting: impl Fn(&Cycle) -> Result<()> + Send + 'static) -> (Error, cedrat_wal::TxnId) {
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        let cycle = cycle();
        let latch = Arc::new(StructureLatch::new(LatchRank(1)));
        let (ready, is_ready) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let owner = {
            let (store, page, words, latch) =
                (cycle.store.clone(), cycle.page, cycle.words.clone(), Arc::clone(&latch));
            thread::spawn(move || {
                let mut txn = store.begin();
                txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
                let mut held = cedrat_heap::Held::new(&store.memory()).unwrap();
                held.begin().unwrap();
                held.run(|tx| tx.write(&words, 0, 1)).unwrap();
                ready.send(()).unwrap();
                goes.recv().unwrap();
                drop(latch.exclusive());
                held.commit(Commit::Sync).unwrap();
                txn.commit(Commit::Sync).unwrap();
            })
        };
        is_ready.recv().unwrap();
        let mut outer = cycle.store.begin();
        let refused = outer.nested(latch.exclusive_owned(), |_| {
            go.send(()).unwrap();
            Ok((waiting(&cycle).expect_err("E15.7d: its owner waits for the latch"), Undo::none()))
        });
        owner.join().unwrap();
        waiting(&cycle).expect("without latches it goes on");
        done.send((refused.unwrap(), outer.id()))
    });
    result.recv_timeout(Duration::from_secs(40)).expect("E15.7d: no wait without end")
}

/// E15.7d.
#[test]
fn lock_is_not_awaited_under_latch() {
    let (refused, outer) =
        refused_under_latch(|cycle| cycle.store.transact(|txn| txn.update(at(cycle.page, 1), &Add { amount: 1 })));
    assert!(
        matches!(&refused, Error::Deadlock(why) if why.refusal == cedrat_txn::Refusal::OwnThread(outer)),
        "{refused}"
    );
}

/// E15.7d: as above, for a word.
#[test]
fn word_is_not_awaited_under_latch() {
    let (refused, _) = refused_under_latch(|cycle| {
        Ok(cycle.words.atomically(|tx| tx.update(&cycle.words, 0, |value| value + 1)).map(drop)?)
    });
    let is_clear =
        matches!(refused, Error::Heap(cedrat_heap::Error::Misuse(what)) if what.contains("end that one first"));
    assert!(is_clear, "{refused}");
}
