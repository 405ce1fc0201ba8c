//! Transactions at every step of each other. Run again with `RUSTFLAGS="--cfg cedrat_shuttle"`, which chooses the
//! interleavings.

mod common;

use cedrat_media::{Loss, SimDisk};
use cedrat_sync::{Arc, explore, thread};
use cedrat_txn::{Commit, NoLocks, Options, Undo};
use common::*;

const SCHEDULES: usize = 40;

/// Two pages, two threads, opposite orders, and a checkpoint meanwhile: whoever loses the deadlock runs again, so that
/// in the end everything was done once.
#[test]
fn deadlocks_are_resolved_whatever_the_order() {
    explore(11, SCHEDULES, || {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let pages: Vec<_> = store.transact(|txn| (0..2).map(|_| page_with_zeros(txn)).collect()).unwrap();
        let run = |from: usize, to: usize| {
            let (store, pages) = (store.clone(), pages.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    store
                        .transact(|txn| {
                            txn.update(at(pages[from], 0), &Add { amount: 1 })?;
                            txn.update(at(pages[to], 0), &Add { amount: 1 })
                        })
                        .unwrap();
                }
            })
        };
        let threads = [run(0, 1), run(1, 0)];
        store.checkpoint().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for &page in &pages {
            assert_eq!(read_number(&store, at(page, 0)).unwrap(), 4);
        }
        assert_eq!(store.running(), 0);
    });
}

/// Changes that commute, on one page, by winners and losers at once; then the power fails. What was acknowledged is there, what
/// was rolled back is not, and what the checkpoint took home in between does not matter (E3, E5, E11).
#[test]
fn a_crash_after_any_interleaving_finds_what_was_acknowledged() {
    explore(12, SCHEDULES, || {
        let options = || Options { locks: Arc::new(NoLocks), partitions: 2, ..options() };
        let disk = Arc::new(SimDisk::new());
        let store = open_with(&disk, options()).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let run = |own: u16| {
            let store = store.clone();
            thread::spawn(move || {
                let mut txn = store.begin();
                txn.update(at(page, own), &Add { amount: 1 }).unwrap();
                txn.commit(Commit::Sync).unwrap();
                let mut loser = store.begin();
                loser
                    .nested((), |txn| {
                        txn.update(at(page, own), &Add { amount: 10 })?;
                        let undo = Subtract { page: page.get(), slot: own, amount: 10 };
                        Ok(((), Undo::logical(&undo)))
                    })
                    .unwrap();
                if own == 0 { loser.rollback().unwrap() } else { std::mem::forget(loser) }
            })
        };
        let threads = [run(0), run(1)];
        store.checkpoint().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let crashed = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
        let recovered = open_with(&crashed, options()).unwrap();
        for own in 0..2 {
            assert_eq!(read_number(&recovered, at(page, own)).unwrap(), 1, "thread {own}");
        }
        recovered.check().unwrap();
    });
}
