//! Stores whose lock managers have other policies of waits.

use cedrat_sync::{Arc, thread};
use cedrat_txn::{Error, Options, PageLockOptions, PageLocks, Refusal, Store, WaitPolicy};
use std::time::Duration;

use crate::common::{Add, at, numbers, open_with, options, page_with_zeros};
use cedrat_media::SimDisk;
use cedrat_pages::PageId;

const PAGES: usize = 4;

fn store_with(locks: PageLockOptions) -> (Store, Vec<PageId>) {
    let options = Options { locks: Arc::new(PageLocks::new(locks)), ..options() };
    let store = open_with(&Arc::new(SimDisk::new()), options).unwrap();
    let pages = (0..PAGES).map(|_| store.transact(page_with_zeros).unwrap()).collect();
    (store, pages)
}

/// E15.8: transfers between random pages in threads all commit, under each policy, and no amount is lost.
#[test]
fn transfers_commit_under_each_policy() {
    for wait_policy in [WaitPolicy::DetectCycles, WaitPolicy::NoWait, WaitPolicy::WaitDie, WaitPolicy::WoundWait] {
        let (store, pages) = store_with(PageLockOptions { wait_policy, ..PageLockOptions::default() });
        thread::scope(|scope| {
            for number in 0..4 {
                let (store, pages) = (&store, &pages);
                scope.spawn(move || {
                    for turn in 0..100 {
                        let (from, to) = (pages[(number + turn) % PAGES], pages[(number * 3 + turn * 7 + 1) % PAGES]);
                        let moved = store.transact(|txn| {
                            txn.update(at(from, 0), &Add { amount: -1 })?;
                            thread::yield_now();
                            txn.update(at(to, 0), &Add { amount: 1 })
                        });
                        moved.unwrap_or_else(|error| panic!("E15.8: {wait_policy:?}: {error}"));
                    }
                });
            }
        });
        let sum: i64 = pages.iter().map(|&page| numbers(&store, page)[0]).sum();
        assert_eq!((sum, store.locks().locks()), (0, Vec::new()), "{wait_policy:?}");
    }
}

/// E15.8b: the error of a wait that was too long is not repeated.
#[test]
fn long_wait_is_refused_once() {
    let wait_max = Some(Duration::from_millis(1));
    let (store, pages) = store_with(PageLockOptions { wait_max, ..PageLockOptions::default() });
    let mut holder = store.begin();
    holder.update(at(pages[0], 0), &Add { amount: 1 }).unwrap();
    let mut runs = 0;
    let waits = thread::scope(|scope| {
        let work = || {
            store.transact(|txn| {
                runs += 1;
                txn.update(at(pages[0], 0), &Add { amount: 1 })
            })
        };
        scope.spawn(work).join().unwrap()
    });
    let is_named = matches!(&waits, Err(Error::Deadlock(why)) if why.refusal == Refusal::Timeout);
    assert!(is_named && runs == 1, "E15.8b: {waits:?} after {runs} runs");
    holder.rollback().unwrap();
}
