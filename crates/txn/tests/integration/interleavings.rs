//! Interleavings of transactions. Run again with `RUSTFLAGS="--cfg cedrat_shuttle"`, which chooses the schedules.

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, Media, SimDisk};
use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use cedrat_sync::{Arc, explore, thread};
use cedrat_txn::object_cache::UnflushedRecords;
use cedrat_txn::{Commit, Error, NoLocks, Operation, Options, PageLocks, Refused, Registry, Store, Undo, Vote};

use crate::common::*;
use crate::kept::{self, Back, Mixed, TestCache, in_page, page_of_records};
use crate::on_demand::{assert_all, crashed, sums, tiny};

const SCHEDULES: usize = 40;

/// A change that fails half-way, against E6.3.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Fails;

impl Operation for Fails {
    const NAME: &'static str = "test.fails";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        page.put_u64(usize::from(at.0) * 8, 7)?;
        Err(Damaged::in_body(page.page_ref().id(), 0, "it is damaged"))
    }
}

/// E6.3b: a thread that writes pages home sees the half change only after the stop.
#[test]
fn half_change_is_seen_only_stopped() {
    explore(15, SCHEDULES, || {
        let (store, page) = store_with(options(), registry().operation::<Fails>());
        let changing = {
            let store = store.clone();
            thread::spawn(move || store.begin().update(at(page, 0), &Fails).expect_err("it is damaged"))
        };
        loop {
            let latched = store.read(page).unwrap();
            if number(&latched, Slot(0)).unwrap() == 7 {
                assert!(store.log().stopped().is_some(), "E6.3b");
                break;
            }
            drop(latched);
            thread::yield_now();
        }
        changing.join().unwrap();
    });
}

/// Two pages, two threads, opposite orders, and a concurrent checkpoint: the victim of the deadlock runs again, so in
/// the end each change was made once.
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

/// Commuting changes of one page by concurrent winners and losers; then the power fails. Acknowledged changes survive,
/// rolled-back ones do not, and the pages that the checkpoint wrote in between make no difference (E3, E5, E11).
#[test]
fn acknowledged_changes_survive_interleaved_crashes() {
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

/// Two threads defer changes of their own records of one page, commit and flush, beside a checkpoint. Wherever a change
/// currently is, in its transaction, with its keeper or in its page, redo begins no later (E19.4).
#[test]
fn checkpoint_during_flushes_keeps_deferred_changes() {
    explore(13, 20 * SCHEDULES, || {
        let open = |disk: &Arc<SimDisk>| {
            let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
            let options = Options { locks: Arc::new(NoLocks), partitions: 2, ..options() };
            Store::open(media, options, Registry::new().with(kept::register)).unwrap()
        };
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk);
        let page = store.transact(|txn| page_of_records(txn, 2)).unwrap();
        store.checkpoint().unwrap();
        let cache = TestCache::new(1);
        let keeper = store.keep_log_for(cache.clone());
        let run = |own: u16| {
            let (store, cache, keeper) = (store.clone(), cache.clone(), keeper.clone());
            thread::spawn(move || {
                for by in 1..=2 {
                    let mut txn = store.begin();
                    let back = if own == 0 { Back::CommittedOnly } else { Back::Inverse };
                    cache.change(&mut txn, &keeper, at(page, own), by, back).unwrap();
                    txn.commit(Commit::Sync).unwrap();
                    if by == 1 {
                        cache.flush_one(at(page, own), |kept| store.flush_record(kept)).unwrap();
                    }
                }
            })
        };
        let threads = [run(0), run(1)];
        store.checkpoint().unwrap();
        store.checkpoint().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let crashed = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
        let recovered = open(&crashed);
        let mut expected = Mixed::default();
        (1..=2).for_each(|by| expected.mix(by));
        for own in 0..2 {
            assert_eq!(in_page(&recovered, at(page, own)).unwrap().0, Some(expected), "thread {own}");
        }
    });
}

/// E9.3: a transaction that needs the written pages waits, in this opening and in the next, and finds the outcome. A
/// page that the branch has only read is free after a restart.
#[test]
fn locks_last_until_outcome_across_restart() {
    explore(17, SCHEDULES, || {
        for was_restored in [false, true] {
            let disk = Arc::new(SimDisk::new());
            let store = open(&disk).unwrap();
            let page = store.transact(page_with_zeros).unwrap();
            let read = store.transact(page_with_zeros).unwrap();
            let mut txn = store.begin();
            drop(txn.read(read).unwrap());
            txn.update(at(page, 0), &Add { amount: 5 }).unwrap();
            drop(txn.prepare(b"branch").unwrap());
            let store = match was_restored {
                true => open(&Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything))).unwrap(),
                false => store,
            };
            if was_restored {
                store.transact(|txn| txn.update(at(read, 0), &Add { amount: 1 })).unwrap();
            }
            let other = {
                let store = store.clone();
                thread::spawn(move || {
                    let txn = store.begin();
                    let found = number(&txn.read(page).unwrap(), cedrat_pages::Slot(0)).unwrap();
                    (found, store.in_doubt().unwrap().len())
                })
            };
            thread::yield_now();
            store.prepared(b"branch").unwrap().rollback().unwrap();
            let (found, in_doubt) = other.join().unwrap();
            assert_eq!((found, in_doubt), (0, 0), "E9.3");
        }
    });
}

/// E9.9, H2: words move between two places by two-phase commits, beside readers: each reader sees a whole transfer or
/// none, or gets an error that it is in doubt.
#[test]
fn readers_beside_two_phases_see_whole_transfers() {
    explore(18, SCHEDULES, || {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(8192) };
        let words = store.memory().create_heap("words", &options).unwrap();
        words.atomically(|tx| tx.write(&words, 0, 100)).unwrap();
        let reader = {
            let (store, words) = (store.clone(), words.clone());
            thread::spawn(move || {
                let mut session = store.memory().session().unwrap();
                for _ in 0..6 {
                    let sum = session.run(Commit::Async, |tx| Ok(tx.read(&words, 0)? + tx.read(&words, 4096)?));
                    match sum {
                        Ok(sum) => assert_eq!(sum.value, 100, "H2"),
                        Err(cedrat_heap::Error::InDoubt { .. }) => thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        };
        for round in 0..4 {
            let mut txn = store.begin();
            txn.heap(|tx| {
                tx.update(&words, 0, |value| value - 10)?;
                tx.update(&words, 4096, |value| value + 10).map(drop)
            })
            .unwrap();
            let Vote::Prepared(prepared) = txn.prepare(b"branch").unwrap() else { panic!("it writes") };
            thread::yield_now();
            if round % 2 == 0 { drop(prepared.commit(Commit::Async).unwrap()) } else { prepared.rollback().unwrap() }
        }
        reader.join().unwrap();
        assert_eq!(words.atomically(|tx| tx.read(&words, 4096)).unwrap(), 20);
    });
}

/// E16.8: an owner's calls beside the store's rollback. A commit survives as a whole; nothing remains of a rolled-back
/// transaction, and its locks are free.
#[test]
fn owner_and_store_use_transaction_exclusively() {
    explore(19, 5 * SCHEDULES, || {
        let locks = Arc::new(PageLocks::default());
        let disk = Arc::new(SimDisk::new());
        let options = Options { txn_log_limit_bytes: Some(1), locks: Arc::<PageLocks>::clone(&locks), ..options() };
        let store = open_with(&disk, options).unwrap();
        let pages: Vec<_> = (0..2).map(|_| store.transact(page_with_zeros).unwrap()).collect();
        let owner = {
            let (store, pages) = (store.clone(), pages.clone());
            thread::spawn(move || {
                let mut txn = store.begin();
                txn.update(at(pages[0], 0), &Add { amount: 1 })?;
                let undo = Undo::logical(&Subtract { page: pages[1].get(), slot: 0, amount: 1 });
                txn.nested((), |txn| {
                    txn.update(at(pages[1], 0), &Add { amount: 1 })?;
                    Ok(((), undo))
                })?;
                txn.nested_transaction(|txn| txn.update(at(pages[0], 1), &Add { amount: 1 }))?;
                let savepoint = txn.savepoint();
                txn.update(at(pages[1], 1), &Add { amount: 1 })?;
                txn.rollback_to(savepoint)?;
                txn.commit(Commit::Sync)
            })
        };
        let rolled_back: usize = (0..3).map(|_| store.enforce_limits().unwrap()).sum();
        let done = owner.join().unwrap();
        let committed = i64::from(done.is_ok());
        if let Err(error) = done {
            assert!(matches!(error, Error::PinsLog { .. }), "{error}");
        } else {
            assert_eq!(rolled_back, 0);
        }
        let found =
            [0, 1].map(|slot| pages.iter().map(|&page| read_number(&store, at(page, slot)).unwrap()).sum::<i64>());
        assert_eq!(found, [2 * committed, committed]);
        assert_eq!((store.running(), locks.locked()), (0, 0));
        let crashed = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Nothing));
        let recovered = open(&crashed).unwrap();
        let found =
            [0, 1].map(|slot| pages.iter().map(|&page| read_number(&recovered, at(page, slot)).unwrap()).sum::<i64>());
        assert_eq!(found, [2 * committed, committed]);
    });
}

/// R8: readers and writers meet the drain in any order.
#[test]
fn readers_and_writers_meet_the_drain() {
    explore(23, 60, || {
        let (disk, pages) = crashed(if cedrat_sync::is_scheduled() { 4 } else { 60 }, 5);
        let store = open_with(&disk, tiny()).unwrap();
        let drain = {
            let store = store.clone();
            thread::spawn(move || store.complete_recovery().unwrap())
        };
        let write = {
            let (store, pages) = (store.clone(), pages.clone());
            thread::spawn(move || {
                for &page in pages.iter().rev() {
                    store.transact(|txn| txn.update(at(page, 3), &Add { amount: 100 })).unwrap();
                }
            })
        };
        for &page in &pages {
            let found = [0, 1, 2].map(|slot| read_number(&store, at(page, slot)).unwrap());
            assert_eq!(found, sums(5)[..3], "R8: page {page}");
        }
        write.join().unwrap();
        drain.join().unwrap();
        let mut expected = sums(5);
        expected[3] += 100;
        assert_all(&store, &pages, expected, "drained");
    });
}
