//! The guarantees of a transaction while the store is open.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_media::{Call, Fault, Media, SimDisk};
use cedrat_pages::{Damaged, LatchRank, PageMut, PageRef, Slot, StructureLatch};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{
    Commit, Error, Finish, LockMode, NoLocks, OpenError, Operation, Options, Refused, Registry, Resource, Result,
    Store, Txn, TxnOptions, Undo,
};
use serde::{Deserialize, Serialize};

use crate::common::*;

/// A store on a simulated disk, with one page of numbers.
fn store_with(options: Options) -> (Arc<SimDisk>, Store, cedrat_pages::PageId) {
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, options).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    (disk, store, page)
}

fn store() -> (Arc<SimDisk>, Store, cedrat_pages::PageId) {
    store_with(options())
}

fn add(txn: &mut Txn, page: cedrat_pages::PageId, slot: u16, amount: i64) -> Result<()> {
    txn.update(at(page, slot), &Add { amount })
}

#[test]
fn rollback_and_dropping_take_everything_back() {
    let (_disk, store, page) = store();
    let mut txn = store.begin();
    add(&mut txn, page, 0, 5).unwrap();
    add(&mut txn, page, 1, 6).unwrap();
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [0; 4]);

    let mut txn = store.begin();
    add(&mut txn, page, 0, 5).unwrap();
    drop(txn);
    assert_eq!(numbers(&store, page), [0; 4]);
    assert_eq!(store.running(), 0);
}

#[test]
fn application_error_rolls_back_and_is_returned() {
    let (_disk, store, page) = store();
    let error = store
        .transact(|txn| {
            add(txn, page, 0, 5)?;
            Err::<(), _>(Error::user("not today"))
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "not today");
    assert_eq!(numbers(&store, page), [0; 4]);
}

#[test]
fn refused_operation_lets_transaction_continue() {
    let (_disk, store, page) = store();
    store
        .transact(|txn| {
            add(txn, page, 0, i64::MAX)?;
            let refused = add(txn, page, 0, 1).unwrap_err();
            assert!(matches!(refused, Error::Refused(_)), "{refused}");
            add(txn, page, 1, 1)
        })
        .unwrap();
    assert_eq!(numbers(&store, page), [i64::MAX, 1, 0, 0]);
}

#[test]
fn savepoints_are_returned_to_again_and_again() {
    let (_disk, store, page) = store();
    let mut txn = store.begin();
    add(&mut txn, page, 0, 1).unwrap();
    let first = txn.savepoint();
    add(&mut txn, page, 0, 10).unwrap();
    let second = txn.savepoint();
    add(&mut txn, page, 1, 100).unwrap();
    txn.rollback_to(second).unwrap();
    assert_eq!(numbers(&store, page), [11, 0, 0, 0]);
    add(&mut txn, page, 2, 7).unwrap();
    txn.rollback_to(first).unwrap();
    assert_eq!(numbers(&store, page), [1, 0, 0, 0]);
    txn.rollback_to(first).unwrap();
    add(&mut txn, page, 3, 3).unwrap();
    let log_before = store.log().current_lsn();
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [0; 4]);
    // A compensated record is not compensated again: two undone, one end.
    assert_eq!(store.log().current_lsn().get() - log_before.get(), 3, "E5.4");
}

#[test]
fn a_savepoint_of_another_transaction_is_refused() {
    let (_disk, store, page) = store();
    let savepoint = store.begin().savepoint();
    let mut txn = store.begin();
    add(&mut txn, page, 0, 1).unwrap();
    assert!(matches!(txn.rollback_to(savepoint), Err(Error::Misuse(_))));
    let here = txn.savepoint();
    let inside = txn.nested_transaction(|txn| {
        assert!(matches!(txn.rollback_to(here), Err(Error::Misuse(_))), "its depth is another");
        Ok(txn.savepoint())
    });
    assert!(matches!(txn.rollback_to(inside.unwrap()), Err(Error::Misuse(_))));
}

#[test]
fn an_inner_transaction_fails_alone() {
    let (_disk, store, page) = store();
    store
        .transact(|txn| {
            add(txn, page, 0, 1)?;
            let inner = txn.nested_transaction(|txn| {
                add(txn, page, 1, 1)?;
                txn.nested_transaction(|txn| add(txn, page, 2, 1))?;
                Err::<(), _>(Error::user("inner"))
            });
            assert!(inner.is_err());
            txn.nested_transaction(|txn| add(txn, page, 3, 1))
        })
        .unwrap();
    assert_eq!(numbers(&store, page), [1, 0, 0, 1]);
}

#[test]
fn nested_top_action_is_undone_logically() {
    let (_disk, store, page) = store();
    let mut txn = store.begin();
    txn.nested((), |txn| {
        add(txn, page, 0, 5)?;
        add(txn, page, 1, 1)?;
        Ok(((), Undo::logical(&Subtract { page: page.get(), slot: 0, amount: 5 })))
    })
    .unwrap();
    // Others see it, and change the same number; an undo page by page would still be correct, a before-image would not.
    let mut other = store.begin();
    other.update_latched(at(page, 0), &Add { amount: 30 }).unwrap();
    other.commit(Commit::Sync).unwrap();
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [30, 1, 0, 0], "the shape stays, the meaning goes");
}

#[test]
fn failed_nested_action_is_undone_under_latches() {
    let (_disk, store, page) = store();
    let latch = StructureLatch::new(LatchRank(1));
    let mut txn = store.begin();
    add(&mut txn, page, 3, 1).unwrap();
    let failed = txn.nested(latch.exclusive(), |txn| {
        add(txn, page, 0, 5)?;
        Err::<((), Undo), _>(Error::user("no"))
    });
    assert!(failed.is_err());
    assert_eq!(numbers(&store, page), [0, 0, 0, 1]);

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        txn.nested(latch.exclusive(), |txn| -> Result<((), Undo)> {
            add(txn, page, 0, 5).unwrap();
            panic!("in the middle");
        })
    }));
    assert!(panicked.is_err());
    drop(latch.exclusive()); // free
    assert_eq!(numbers(&store, page), [0, 0, 0, 1], "E13.4");
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(numbers(&store, page), [0, 0, 0, 1]);
}

#[test]
fn lock_request_inside_nested_action_is_refused() {
    let (_disk, store, page) = store();
    store
        .transact(|txn| {
            txn.nested((), |txn| {
                let asked = txn.lock(Resource::Page(page), LockMode::Exclusive);
                assert!(matches!(asked, Err(Error::Misuse(_))), "E15.3");
                Ok(((), Undo::none()))
            })
        })
        .unwrap();
}

/// Moves ten from slot 0 to slot 1, in two steps that leave the page readable; finishing checks whether step two is
/// due.
#[derive(Debug, Serialize, Deserialize)]
struct Move {
    page: u64,
}

impl Finish for Move {
    const NAME: &'static str = "test.move";

    fn finish(&self, txn: &mut Txn) -> Result<()> {
        let page = cedrat_pages::PageId::new(self.page);
        let (from, to) = {
            let page = txn.read_latched(page)?;
            (number(&page, Slot(0))?, number(&page, Slot(1))?)
        };
        if from == -10 && to == 0 {
            add(txn, page, 1, 10)?;
        }
        Ok(())
    }
}

#[test]
fn ordered_sequence_completes_and_is_not_undone() {
    let disk = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = disk;
    let store = Store::open(media, options(), registry().finish::<Move>()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let mut txn = store.begin();
    let failed = txn.ordered((), &Move { page: page.get() }, |txn| {
        add(txn, page, 0, -10)?;
        Err::<(), _>(Error::user("half-way"))
    });
    assert!(failed.is_err());
    assert_eq!(numbers(&store, page), [-10, 10, 0, 0], "finished");
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [-10, 10, 0, 0], "and not undone");
}

#[test]
fn isolation_declared_is_undone_with_the_transaction() {
    let (_disk, store, page) = store();
    let mut txn = store.begin();
    txn.isolated(page, |txn| {
        add(txn, page, 0, 5)?;
        add(txn, page, 1, 5)
    })
    .unwrap();
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [0; 4]);
}

#[test]
fn user_compensation_is_not_undone() {
    let (_disk, store, page) = store();
    let mut txn = store.begin();
    let before = txn.savepoint();
    add(&mut txn, page, 0, 5).unwrap();
    txn.update_compensating(at(page, 0), &Add { amount: -4 }, before).unwrap();
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [1, 0, 0, 0], "both were passed by");
}

#[test]
fn user_records_are_found_in_log() {
    let disk = Arc::new(SimDisk::new());
    let media: Arc<dyn Media> = disk;
    let store = Store::open(media, options(), registry().record_kind("test.note")).unwrap();
    let mut txn = store.begin();
    let lsn = txn.log_record("test.note", b"remember").unwrap();
    assert!(matches!(txn.log_record("test.other", b""), Err(Error::Unregistered { .. })));
    let id = txn.id();
    txn.commit(Commit::Sync).unwrap();
    let mut scan = store.log().scan(lsn).unwrap();
    let record = scan.next().unwrap().unwrap().record.to_record();
    assert_eq!((record.head.txn, &record.body[1..]), (id, &b"remember"[..]));
}

#[test]
fn partition_commits_are_refused_for_pages() {
    let (_disk, store, page) = store();
    let mut txn = store.begin();
    add(&mut txn, page, 0, 1).unwrap();
    assert!(matches!(txn.commit(Commit::Partition), Err(Error::PartitionCommit)), "E8.3");
    assert_eq!(numbers(&store, page), [0; 4], "and rolled back");
}

#[test]
fn reader_commit_waits_until_reads_are_durable() {
    let (_disk, store, page) = store_with(Options { locks: Arc::new(NoLocks), ..options() });
    let mut writer = store.begin();
    add(&mut writer, page, 0, 1).unwrap();
    let ticket = writer.commit(Commit::Async).unwrap();
    assert!(!ticket.is_stable(), "it was not forced");
    let reader = store.begin();
    assert_eq!(number(&reader.read(page).unwrap(), Slot(0)).unwrap(), 1);
    reader.commit(Commit::Sync).unwrap();
    assert!(ticket.is_stable(), "the null write");

    let idle = store.begin();
    let before = store.log().current_lsn();
    idle.commit(Commit::Sync).unwrap();
    assert_eq!(store.log().current_lsn(), before, "who did nothing leaves no record");
}

#[test]
fn no_flush_loses_at_most_the_newest() {
    let disk = Arc::new(SimDisk::new());
    let page;
    {
        let store = open_with(&disk, Options { no_flush: true, ..options() }).unwrap();
        page = store.transact(page_with_zeros).unwrap();
        store.log().force(store.log().current_lsn()).unwrap();
        store.transact(|txn| add(txn, page, 0, 1)).unwrap();
        assert!(!store.log().is_stable(store.log().current_lsn()));
        let crashed = Arc::new(disk.cut_power(cedrat_media::Loss::Everything));
        drop(store);
        let store = open(&crashed).unwrap();
        assert_eq!(numbers(&store, page), [0; 4]);
    }
}

#[test]
fn deadlock_victim_is_restarted() {
    let (_disk, store, first) = store();
    let second = store.transact(page_with_zeros).unwrap();
    let run = |from, to| {
        let store = store.clone();
        thread::spawn(move || {
            for _ in 0..50 {
                store
                    .transact(|txn| {
                        add(txn, from, 0, 1)?;
                        thread::yield_now();
                        add(txn, to, 0, 1)
                    })
                    .unwrap();
            }
        })
    };
    for thread in [run(first, second), run(second, first)] {
        thread.join().unwrap();
    }
    assert_eq!((numbers(&store, first)[0], numbers(&store, second)[0]), (100, 100));
}

#[test]
fn threads_update_one_page_without_locks() {
    let (_disk, store, page) = store_with(Options { locks: Arc::new(NoLocks), partitions: 3, ..options() });
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            thread::spawn(move || {
                for number in 0..100u32 {
                    let mut txn = store.begin();
                    add(&mut txn, page, 0, 1).unwrap();
                    if number.is_multiple_of(3) {
                        txn.rollback().unwrap()
                    } else {
                        drop(txn.commit(Commit::Async).unwrap())
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(numbers(&store, page)[0], 4 * 66);
}

#[test]
fn freed_pages_are_reused_after_commit() {
    let (_disk, store, page) = store();
    let mut txn = store.begin();
    txn.free(page).unwrap();
    let refused = txn.free(page).unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    let other = store.transact(|txn| txn.allocate()).unwrap();
    assert_ne!(other, page, "E7.1: its free may be undone");
    txn.rollback().unwrap();
    assert_ne!(store.transact(|txn| txn.allocate()).unwrap(), page, "it was undone");

    store.transact(|txn| txn.free(page)).unwrap();
    assert_eq!(store.transact(|txn| txn.allocate()).unwrap(), page);

    let mut txn = store.begin();
    let taken = txn.allocate_region(5).unwrap();
    txn.rollback().unwrap();
    assert_eq!(store.transact(|txn| txn.allocate_region(5)).unwrap(), taken, "an allocation undone is free");
    assert!(matches!(store.transact(|txn| txn.free(cedrat_txn::CATALOGUE)), Err(Error::Refused(_))));
    let report = store.check().unwrap();
    assert_eq!(report.pages_allocated, 2 + 1 + 2 + 5);
}

#[test]
fn space_comes_back_after_a_checkpoint() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let region = store
        .transact(|txn| {
            let region = txn.allocate_region(64)?;
            for page in 0..64 {
                let at = cedrat_txn::RecordId::page(region.after(page));
                txn.update(at, &cedrat_txn::FormatFresh::new(cedrat_pages::LayoutKind::RAW))?;
                txn.update(at, &Add { amount: 1 })?;
            }
            Ok(region)
        })
        .unwrap();
    store.checkpoint().unwrap();
    let full = disk.space();
    store.transact(|txn| txn.free_region(region, 64)).unwrap();
    store.checkpoint().unwrap();
    assert!(full - disk.space() >= 64 * 4096, "{full} before, {} after", disk.space());
    let again = store.transact(|txn| txn.allocate_region(64)).unwrap();
    assert_eq!(again, region);
    drop(store);
    let store = open(&disk).unwrap();
    store.check().unwrap();
}

#[test]
fn structure_state_is_freed_with_root() {
    let (_disk, store, page) = store();
    let first = store.resident(page, || Ok(7u32)).unwrap();
    let again = store.resident(page, || Ok(8u32)).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    store.transact(|txn| txn.free(page)).unwrap();
    assert_eq!(*store.resident(page, || Ok(9u32)).unwrap(), 9);
}

#[test]
fn one_opening_per_store_two_stores_fit() {
    let (disk, store, page) = store();
    assert!(matches!(open(&disk), Err(OpenError::InUse { .. })));
    let (_other_disk, other, other_page) = self::store();
    store.transact(|txn| add(txn, page, 0, 1)).unwrap();
    other.transact(|txn| add(txn, other_page, 0, 2)).unwrap();
    assert_eq!((numbers(&store, page)[0], numbers(&other, other_page)[0]), (1, 2));
    store.close().unwrap();
    let store = open(&disk).unwrap();
    let report = store.recovery();
    assert_eq!((report.redone, report.losers), (0, 0), "closed, so nothing is to be done: {report:?}");
}

#[test]
fn missing_operation_is_named_before_writing() {
    let (disk, store, page) = store();
    store.transact(|txn| add(txn, page, 0, 1)).unwrap();
    drop(store);
    let before = disk.image().hash();
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&disk);
    let error = Store::open(media, options(), Registry::new()).unwrap_err();
    assert!(error.to_string().contains("\"test.add\""), "R3: {error}");
    assert_eq!(disk.image().hash(), before, "R2");
    open(&disk).unwrap();
}

#[test]
fn two_things_under_one_name_are_refused() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Impostor;
    impl Operation for Impostor {
        const NAME: &'static str = Add::NAME;
        fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
            Ok(Undo::none())
        }
        fn redo(&self, _: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
            Ok(())
        }
    }
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let opened = Store::open(media, options(), registry().operation::<Impostor>());
    assert!(matches!(opened, Err(OpenError::RegisteredTwice { .. })));
}

/// Its redo panics, or finds damage.
#[derive(Debug, Serialize, Deserialize)]
struct Break {
    panics: bool,
}

impl Operation for Break {
    const NAME: &'static str = "test.break";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        assert!(!self.panics, "this redo panics");
        Err(Damaged::in_body(page.id(), 0, "planted"))
    }
}

#[test]
fn failing_redo_stops_the_store() {
    for panics in [false, true] {
        let disk = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&disk);
        let store = Store::open(media, options(), registry().operation::<Break>()).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let mut txn = store.begin();
        let broke = catch_unwind(AssertUnwindSafe(|| txn.update(at(page, 0), &Break { panics })));
        match broke {
            Ok(result) => assert!(matches!(result, Err(Error::Pages(_))), "{result:?}"),
            Err(_) => assert!(panics),
        }
        assert!(matches!(txn.update(at(page, 0), &Add { amount: 1 }), Err(Error::Stopped(_))), "E6.3");
        drop(txn);
        assert!(matches!(store.transact(|txn| add(txn, page, 0, 1)), Err(Error::Stopped(_))));
        drop(store.read(page)); // the latch is free
    }
}

#[test]
fn failed_sync_stops_store_until_reopened() {
    let (disk, store, page) = store();
    store.transact(|txn| add(txn, page, 0, 1)).unwrap();
    disk.inject(Fault::error(Call::Write, std::io::ErrorKind::Other).of("log/").permanent());
    let failed = store.transact(|txn| add(txn, page, 0, 10)).unwrap_err();
    assert!(matches!(failed, Error::Stopped(_)), "{failed}");
    assert!(matches!(store.transact(|txn| add(txn, page, 0, 10)), Err(Error::Stopped(_))), "E16.5");
    assert!(store.checkpoint().is_err());
    drop(store);
    disk.clear_faults();
    let store = open(&disk).unwrap();
    assert_eq!(numbers(&store, page)[0] % 10, 1, "acknowledged");
}

#[test]
fn log_pinning_transaction_is_rolled_back() {
    let (_disk, store, page) = store();
    let mut txn = store.begin();
    let id = txn.id();
    let error = loop {
        match add(&mut txn, page, 0, 1) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::PinsLog { txn, .. } if txn == id), "E16.3: {error}");
    assert_eq!(numbers(&store, page), [0; 4], "rolled back already");
    drop(txn);
    store.transact(|txn| add(txn, page, 0, 1)).unwrap();
    store.check().unwrap();
}

#[test]
fn log_stays_bounded_over_many_transactions() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let limit = options().log_limit_bytes;
    for _ in 0..200_000 {
        let mut txn = store.begin();
        add(&mut txn, page, 0, 1).unwrap();
        txn.commit(Commit::Async).unwrap();
    }
    assert!(store.log().space().segments * options().segment_len <= limit);
    assert_eq!(numbers(&store, page)[0], 200_000);
}

#[test]
fn store_threads_start_and_end() {
    let disk = Arc::new(SimDisk::new());
    let lively = || Options { background: true, checkpoint_every_bytes: 20_000, redo_threads: 2, ..options() };
    let store = open_with(&disk, lively()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    for _ in 0..3_000 {
        let mut txn = store.begin();
        add(&mut txn, page, 0, 1).unwrap();
        txn.commit(Commit::Async).unwrap();
    }
    drop(store);
    let store = open_with(&disk, lively()).unwrap();
    assert_eq!(numbers(&store, page)[0], 3_000, "closing forced what was asynchronous");
    store.close().unwrap();
}

/// `u64::MAX` stands for never; explicit checkpoints are taken nevertheless.
#[test]
fn manual_checkpoints_work_when_never_due() {
    let disk = Arc::new(SimDisk::new());
    let never = Options { background: true, checkpoint_every_bytes: u64::MAX, ..options() };
    let store = open_with(&disk, never).unwrap();
    for number in 1..=3 {
        let page = store.transact(page_with_zeros).unwrap();
        store.transact(|txn| add(txn, page, 0, number)).unwrap();
        store.checkpoint().unwrap();
        assert_eq!(numbers(&store, page)[0], number);
    }
    store.close().unwrap();
}

#[test]
fn parallel_redo_matches_sequential_redo() {
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, Options { partitions: 2, ..options() }).unwrap();
    let pages: Vec<_> = store.transact(|txn| (0..40).map(|_| page_with_zeros(txn)).collect()).unwrap();
    for number in 0..4_000u64 {
        let mut txn = store.begin();
        add(&mut txn, pages[(number * 7 % 40) as usize], (number % 4) as u16, number as i64).unwrap();
        if number.is_multiple_of(9) { txn.rollback().unwrap() } else { drop(txn.commit(Commit::Async).unwrap()) }
    }
    store.log().force(store.log().current_lsn()).unwrap();
    let expected: Vec<_> = pages.iter().map(|&page| numbers(&store, page)).collect();
    let mut reports = Vec::new();
    for (redo_threads, redo_on_demand_bytes) in
        [0, 1, 3].into_iter().flat_map(|threads| [(threads, 0), (threads, u64::MAX)])
    {
        let crashed = Arc::new(disk.cut_power(cedrat_media::Loss::Everything));
        let store = open_with(&crashed, Options { redo_threads, redo_on_demand_bytes, ..options() }).unwrap();
        store.complete_recovery().unwrap();
        let found: Vec<_> = pages.iter().map(|&page| numbers(&store, page)).collect();
        assert_eq!(found, expected, "{redo_threads} threads, on demand from {redo_on_demand_bytes} bytes on, R4");
        reports.push((store.recovery().redone, store.recovery().pages));
    }
    assert!(reports[0].0 > 4_000 && reports.windows(2).all(|pair| pair[0] == pair[1]), "{reports:?}");
}

/// A lock manager that counts its requests, and records the callbacks of recovery.
#[derive(Debug, Default)]
struct Clerk {
    asked: cedrat_sync::atomic::AtomicUsize,
    recovered: cedrat_sync::Mutex<Vec<(u64, u64)>>,
}

impl cedrat_txn::LockManager for Clerk {
    fn lock(&self, _: cedrat_wal::TxnId, _: Resource, _: LockMode) -> Result<(), cedrat_txn::Deadlock> {
        self.asked.fetch_add(1, cedrat_sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn ended(&self, _: cedrat_wal::TxnId) {}

    fn restores_locks(&self) -> bool {
        true
    }

    fn recovered(&self, txn: cedrat_wal::TxnId, page: cedrat_pages::PageId) {
        self.recovered.lock().push((txn.0, page.get()));
    }
}

#[test]
fn undo_needs_no_lock_recovery_restores_them() {
    let clerk = Arc::new(Clerk::default());
    let asked = |clerk: &Clerk| clerk.asked.load(cedrat_sync::atomic::Ordering::Relaxed);
    let (disk, store, page) = store_with(Options { locks: Arc::<Clerk>::clone(&clerk), ..options() });
    let mut txn = store.begin();
    add(&mut txn, page, 0, 1).unwrap();
    txn.nested((), |txn| {
        add(txn, page, 1, 5)?;
        Ok(((), Undo::logical(&Subtract { page: page.get(), slot: 1, amount: 5 })))
    })
    .unwrap();
    store.log().force(store.log().current_lsn()).unwrap();
    let before = asked(&clerk);
    assert!(before > 0);
    let id = txn.id().0;
    let crashed = Arc::new(disk.journal().crash(disk.journal_len(), cedrat_media::Loss::Everything));
    txn.rollback().unwrap();
    assert_eq!(asked(&clerk), before, "E15.1");
    let store = open_with(&crashed, Options { locks: Arc::<Clerk>::clone(&clerk), ..options() }).unwrap();
    assert_eq!(asked(&clerk), before, "E15.1, in recovery");
    assert_eq!(*clerk.recovered.lock(), [(id, page.get()), (id, page.get())]);
    assert_eq!(numbers(&store, page), [0; 4]);
}

/// E15.2: nothing of a loser is left when an opening returns.
#[test]
fn store_opens_after_undo_of_losers() {
    let (disk, store, page) = store();
    let mut loser = store.begin();
    (0..200).for_each(|number| add(&mut loser, page, number % 4, 1).unwrap());
    store.log().force(store.log().current_lsn()).unwrap();
    let reopened = open(&Arc::new(disk.cut_power(cedrat_media::Loss::Everything))).unwrap();
    assert_eq!(reopened.recovery().undone, 200, "E15.2");
    assert_eq!(numbers(&reopened, page), [0; 4], "E15.2");
}

#[test]
fn options_disable_atomicity_isolation_and_durability() {
    let clerk = Arc::new(Clerk::default());
    let (_disk, store, page) = store_with(Options { locks: Arc::<Clerk>::clone(&clerk), ..options() });
    let before = clerk.asked.load(cedrat_sync::atomic::Ordering::Relaxed);
    let neither = TxnOptions::default().without_isolation().without_durability();
    let mut txn = store.begin_with(neither.without_atomicity());
    add(&mut txn, page, 0, 1).unwrap();
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page)[0], 1, "no atomicity");
    assert_eq!(clerk.asked.load(cedrat_sync::atomic::Ordering::Relaxed), before, "no isolation");
    let mut txn = store.begin_with(neither);
    add(&mut txn, page, 0, 1).unwrap();
    assert!(!txn.commit(Commit::Sync).unwrap().is_stable(), "no durability");
}

#[test]
fn full_disk_fails_only_the_transaction() {
    let (disk, store, page) = store();
    disk.set_capacity(Some(disk.space() + (64 << 10)));
    let mut txn = store.begin();
    add(&mut txn, page, 0, 1).unwrap();
    let error = loop {
        match txn.allocate_region(100) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Pages(cedrat_pages::PoolError::DiskFull { .. })), "{error}");
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [0; 4]);
    store.transact(|txn| add(txn, page, 0, 1)).unwrap();
    disk.set_capacity(None);
    store.transact(|txn| txn.allocate_region(100)).unwrap();
    store.check().unwrap();
}

#[test]
fn full_disk_under_log_fails_only_transaction() {
    let (disk, store, page) = store();
    disk.set_capacity(Some(disk.space()));
    let mut txn = store.begin();
    let error = loop {
        match add(&mut txn, page, 0, 1) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::LogFull { .. }), "{error}");
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [0; 4], "E16.1");
    disk.set_capacity(None);
    store.transact(|txn| add(txn, page, 0, 1)).unwrap();
    drop(store);
    assert_eq!(numbers(&open(&disk).unwrap(), page)[0], 1);
}

#[test]
fn records_of_each_layout_change_and_undo() {
    use cedrat_pages::LayoutKind;
    use cedrat_pages::layout::{Fixed, Slotted, Versioned};
    use cedrat_txn::*;

    let (disk, store, _) = store();
    let bytes = |text: &str| SmallBytes::from(text.as_bytes());
    let [fixed, slotted, versioned] = store
        .transact(|txn| {
            let pages = [txn.allocate()?, txn.allocate()?, txn.allocate()?];
            txn.update(RecordId::page(pages[0]), &FormatFixed { record_len: 8, count: 4 })?;
            txn.update(RecordId::page(pages[1]), &FormatFresh::new(LayoutKind::SLOTTED))?;
            txn.update(RecordId::page(pages[2]), &FormatFresh::new(LayoutKind::VERSIONED))?;
            txn.update(at(pages[0], 2), &FixedSet { record: bytes("two") })?;
            txn.update(at(pages[1], 0), &SlottedInsert { record: bytes("a record") })?;
            txn.update(at(pages[2], 0), &VersionedInsert { record: bytes("a record") })?;
            Ok(pages)
        })
        .unwrap();
    let look = |store: &Store| {
        let (f, s, v) = (store.read(fixed).unwrap(), store.read(slotted).unwrap(), store.read(versioned).unwrap());
        let f = Fixed::of(&f).unwrap();
        let rows: Vec<Vec<u8>> = f.iter().map(|(_, record)| record.to_vec()).collect();
        let s: Vec<_> = Slotted::of(&s).unwrap().iter().map(|row| row.unwrap().1.to_vec()).collect();
        let v: Vec<_> = Versioned::of(&v).unwrap().iter().map(|row| row.unwrap().2.to_vec()).collect();
        (rows, s, v)
    };
    let before = look(&store);
    let version_before = Versioned::of(&store.read(versioned).unwrap()).unwrap().version(Slot(0)).unwrap();
    let mut txn = store.begin();
    txn.update(at(fixed, 2), &FixedSet { record: bytes("other") }).unwrap();
    txn.update(at(fixed, 0), &FixedSetCount { count: 1 }).unwrap();
    txn.update(at(slotted, 0), &SlottedUpdate { record: bytes("a longer record") }).unwrap();
    txn.update(at(slotted, 1), &SlottedInsert { record: bytes("second") }).unwrap();
    txn.update(at(slotted, 0), &SlottedDelete {}).unwrap();
    txn.update(at(versioned, 0), &VersionedUpdate { record: bytes("v2") }).unwrap();
    txn.update(at(versioned, 0), &VersionedDelete {}).unwrap();
    for refused in [
        txn.update(at(fixed, 7), &FixedSet { record: bytes("x") }),
        txn.update(at(slotted, 1), &SlottedInsert { record: bytes("x") }),
        txn.update(at(slotted, 9), &SlottedUpdate { record: bytes("x") }),
        txn.update(at(slotted, 1), &SlottedUpdate { record: vec![0; 5000].into() }),
        txn.update(at(versioned, 0), &VersionedDelete {}),
    ] {
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    assert_ne!(look(&store), before);
    store.log().force(store.log().current_lsn()).unwrap();
    let crashed = Arc::new(disk.journal().crash(disk.journal_len(), cedrat_media::Loss::Everything));
    txn.rollback().unwrap();
    assert_eq!(look(&store), before);
    let store = open(&crashed).unwrap();
    assert_eq!(look(&store), before);
    let version = Versioned::of(&store.read(versioned).unwrap()).unwrap().version(Slot(0)).unwrap();
    assert!(version > version_before, "E19.1: a version never goes back");
    store.check().unwrap();
}

#[test]
fn transactions_are_send_and_stores_sync() {
    fn require_send<T: Send>() {}
    fn require_sync<T: Send + Sync>() {}
    require_send::<Txn>();
    require_sync::<Store>();
}
