//! Redo on demand: stores that open after a crash before all changes of the log are in their pages.

use std::sync::mpsc;
use std::time::Duration;

use cedrat_media::{Call, Fault, Loss, Media, SimDisk};
use cedrat_pages::{Damaged, PAGE_FILE, PAGE_LEN, PageId, PageMut, PageRef, PoolError, Slot};
use cedrat_sync::atomic::{AtomicUsize, Ordering};
use cedrat_sync::{Arc, Mutex, thread};
use cedrat_txn::{
    BackupOptions, Commit, Error, FormatFresh, Operation, Options, Pin, PinHolder, RecordId, Refused, Registry, Result,
    Store, Txn, Undo,
};
use cedrat_wal::{Log, Lsn};
use serde::{Deserialize, Serialize};

use crate::common::*;
use crate::rebuilt::after;

/// A pool of eight frames: a batch of redo has eight records.
pub(crate) fn tiny() -> Options {
    Options { pool_bytes: 32 << 10, checkpoint_when_opened: false, ..options() }
}

/// Returns a disk after a crash, and its pages: each of the `pages` has, in each of four slots, the sum of `rounds` changes, and
/// none of these is at home.
pub(crate) fn crashed(pages: usize, rounds: i64) -> (Arc<SimDisk>, Vec<PageId>) {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let pages: Vec<_> = store.transact(|txn| (0..pages).map(|_| page_with_zeros(txn)).collect()).unwrap();
    store.checkpoint().unwrap();
    // The double-write area has the image of this page alone, so no opening restores another.
    store.transact(page_with_zeros).unwrap();
    store.checkpoint().unwrap();
    for round in 0..rounds {
        let mut txn = store.begin();
        for &page in &pages {
            add_to(&mut txn, page, (round % 4) as u16, round + 1);
        }
        drop(txn.commit(Commit::Async).unwrap());
    }
    store.log().force(store.log().current_lsn()).unwrap();
    (Arc::new(after(&disk, Loss::Everything)), pages)
}

fn add_to(txn: &mut Txn, page: PageId, slot: u16, amount: i64) {
    txn.update(at(page, slot), &Add { amount }).unwrap();
}

/// The numbers of each page after so many rounds.
pub(crate) fn sums(rounds: i64) -> [i64; 4] {
    let mut sums = [0; 4];
    (0..rounds).for_each(|round| sums[(round % 4) as usize] += round + 1);
    sums
}

pub(crate) fn assert_all(store: &Store, pages: &[PageId], expected: [i64; 4], name: &str) {
    for &page in pages {
        assert_eq!(numbers(store, page), expected, "R8: {name}, page {page}");
    }
    store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Opens the store with threads, and calls `meanwhile` while the `read`-th read of a page by the thread that redoes does not end.
/// Returns the store when redo is complete.
fn during_drain(disk: &Arc<SimDisk>, read: usize, meanwhile: impl FnOnce(&Store)) -> Store {
    let store = paused_drain(disk, read, meanwhile);
    store.complete_recovery().unwrap();
    store
}

/// Opens a store as [`during_drain`] does, and returns it when the thread goes on.
fn paused_drain(disk: &Arc<SimDisk>, read: usize, meanwhile: impl FnOnce(&Store)) -> Store {
    let (reached, is_reached) = mpsc::channel();
    let (resume, is_resumed) = mpsc::channel::<()>();
    let (reached, is_resumed) = (Mutex::new(reached), Mutex::new(is_resumed));
    let reads = AtomicUsize::new(0);
    disk.before_each_call(move |_, call, name| {
        let is_drain = std::thread::current().name() == Some("cedrat-drains");
        if is_drain && call == Call::Read && name == PAGE_FILE && reads.fetch_add(1, Ordering::SeqCst) + 1 == read {
            reached.lock().send(()).unwrap();
            let _ = is_resumed.lock().recv(); // an error: the test has failed
        }
    });
    let store = open_with(disk, Options { background: true, ..tiny() }).unwrap();
    let resume = resume; // dropped before the store, which waits for its threads
    is_reached.recv_timeout(Duration::from_secs(60)).expect("so many pages are read");
    meanwhile(&store);
    resume.send(()).unwrap();
    store
}

/// R8: a page is redone before it is read, and before any other change, and is not redone again.
#[test]
fn page_is_redone_before_its_first_use() {
    let (disk, pages) = crashed(20, 9);
    let disk = {
        let store = open_with(&disk, tiny()).unwrap();
        let mut loser = store.begin();
        pages.iter().step_by(5).for_each(|&page| add_to(&mut loser, page, 0, 1000));
        store.log().force(store.log().current_lsn()).unwrap();
        Arc::new(after(&disk, Loss::Everything))
    };
    let store = open_with(&disk, tiny()).unwrap();
    let report = store.recovery();
    assert!(report.pending_pages > 0 && report.pending_log_bytes > 0 && report.losers == 1, "{report:?}");
    assert_eq!(numbers(&store, pages[1]), sums(9), "R8");
    store.transact(|txn| txn.update(at(pages[2], 3), &Add { amount: -5 })).unwrap();
    let mut expected = sums(9);
    expected[3] -= 5;
    assert_eq!(numbers(&store, pages[2]), expected, "R8");
    let before = store.recovery();
    assert!(before.pending_pages < report.pending_pages && before.redone > 0);
    store.complete_recovery().unwrap();
    let report = store.recovery();
    assert_eq!((report.pending_pages, report.pending_log_bytes), (0, 0));
    assert!(report.redone > before.redone, "{report:?}");
    assert_eq!(numbers(&store, pages[2]), expected, "R8");
    store.transact(|txn| txn.update(at(pages[2], 3), &Add { amount: 5 })).unwrap();
    assert_all(&store, &pages, sums(9), "completed");
    store.close().unwrap();
    let store = open(&disk).unwrap();
    assert_eq!((store.recovery().redone, store.recovery().pending_pages), (0, 0), "closed");
}

/// R5, R9: a crash at any moment of redo, and of the redo after it, loses nothing.
#[test]
fn crashes_of_the_drain_lose_nothing() {
    let (disk, pages) = crashed(12, 7);
    let open =
        |disk: &Arc<SimDisk>, name: &str| open_with(disk, tiny()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let begin = disk.journal_len();
    let store = open(&disk, "first");
    numbers(&store, pages[7]);
    store.complete_recovery().unwrap();
    store.checkpoint().unwrap();
    assert_all(&store, &pages, sums(7), "first");
    drop(store);
    assert!(disk.journal_len() > begin + 20, "the pool is too small for what is redone");
    let mut count = 0;
    every_crash(&disk, 1, |crashed, _, name| {
        count += 1;
        let store = open(crashed, name);
        // Some read pages, and the others redo all of them in the order of the log.
        if count % 2 == 0 {
            store.complete_recovery().unwrap();
        }
        assert_all(&store, &pages, sums(7), name);
        drop(store);
        if count % 8 == 0 {
            every_crash(crashed, 1, |twice, _, second| {
                let store = open(twice, second);
                store.complete_recovery().unwrap();
                assert_all(&store, &pages, sums(7), &format!("{name}, then {second}"));
            });
        }
    });
    assert!(count > 40, "{count}");
}

/// R9: the redo point of a checkpoint beside the drain is not beyond a record that is not redone.
#[test]
fn checkpoint_beside_drain_keeps_redo_point() {
    let (disk, pages) = crashed(60, 8);
    for read in [1, 3, 9, 17, 25] {
        let disk = Arc::new(SimDisk::from_image(disk.image()));
        let mut crashed = None;
        let store = during_drain(&disk, read, |store| {
            let is_pending = |pin: &Pin| pin.holder == PinHolder::Redo;
            let redo = store.pins().unwrap().pins.into_iter().find(is_pending).expect("it is not complete");
            assert!(store.recovery().pending_pages > 0);
            store.checkpoint().unwrap();
            let control = store.log().control().checkpoint;
            assert!(control.redo_lsn <= redo.lsn, "R9: {control:?}, {redo:?}");
            crashed = Some(after(&disk, Loss::Everything));
        });
        assert_all(&store, &pages, sums(8), "drained");
        let store = open_with(&Arc::new(crashed.unwrap()), tiny()).unwrap();
        store.complete_recovery().unwrap();
        assert_all(&store, &pages, sums(8), "crashed");
    }
}

/// E7.1, R8: a page that was freed and is allocated again while its old records are pending has only what is written then.
#[test]
fn pending_page_is_freed_and_reused() {
    let (disk, pages) = crashed(10, 6);
    let store = open_with(&disk, Options { pool: options().pool, ..tiny() }).unwrap();
    store.transact(|txn| pages[..5].iter().try_for_each(|&page| txn.free(page))).unwrap();
    let reused: Vec<_> = store.transact(|txn| (0..5).map(|_| page_with_zeros(txn)).collect()).unwrap();
    assert!(reused.iter().any(|page| pages.contains(page)), "{reused:?}");
    store.transact(|txn| reused.iter().try_for_each(|&page| txn.update(at(page, 1), &Add { amount: 3 }))).unwrap();
    let crashed = Arc::new(after(&disk, Loss::Everything));
    for store in [store, open_with(&crashed, tiny()).unwrap()] {
        store.complete_recovery().unwrap();
        assert_all(&store, &reused, [0, 3, 0, 0], "reused");
        assert_all(&store, &pages[5..], sums(6), "kept");
    }
}

/// R2a: damage that only redo finds stops the store with its reason, and nothing is lost.
#[test]
fn damage_in_drain_stops_the_store() {
    let (disk, pages) = crashed(10, 6);
    let flip = || {
        let home = pages[3].get() * PAGE_LEN as u64 + 100;
        disk.corrupt(PAGE_FILE, home, cedrat_media::Damage::Flip { bit: 0 }).unwrap();
    };
    for _ in 0..2 {
        flip();
        let store = open_with(&disk, tiny()).expect("the page is not read");
        let refused = store.read(pages[3]).map(drop).expect_err("R2a");
        assert!(matches!(&refused, Error::Pages(PoolError::Damaged { .. })), "{refused}");
        assert_eq!(numbers(&store, pages[4]), sums(6), "R8");
        let failed = store.complete_recovery().expect_err("R2a");
        let reason = store.log().stopped().expect("it has stopped").to_string();
        assert!(reason.contains(&failed.to_string()) && reason.contains("redo of the log failed"), "{reason}");
        drop(store);
        flip();
    }
    let store = open_with(&disk, tiny()).unwrap();
    assert_all(&store, &pages, sums(6), "repaired");
}

/// E13.7: transactions that hold all frames for a time do not stop the store.
#[test]
fn held_frames_delay_the_drain() {
    let (disk, pages) = crashed(20, 6);
    let store = open_with(&disk, tiny()).unwrap();
    let held: Vec<_> = pages[..8].iter().map(|&page| store.read(page).unwrap()).collect();
    let drains = store.clone();
    let drain = thread::spawn(move || drains.complete_recovery());
    while !matches!(store.read(pages[9]).map(drop), Err(Error::Pages(PoolError::AllHeld { .. }))) {
        thread::yield_now();
    }
    assert!(store.log().stopped().is_none(), "E13.7");
    drop(held);
    drain.join().unwrap().unwrap();
    assert_all(&store, &pages, sums(6), "drained");
}

/// E18.1: a backup that is made while pages are pending has all of their changes.
#[test]
fn backup_beside_drain_is_complete() {
    let (disk, pages) = crashed(60, 6);
    let copy = Arc::new(SimDisk::new());
    during_drain(&disk, 9, |store| {
        assert!(store.recovery().pending_pages > 0);
        let to: Arc<dyn Media> = Arc::<SimDisk>::clone(&copy);
        store.backup(&to, BackupOptions::default()).unwrap();
    });
    let store = open_with(&copy, tiny()).unwrap();
    assert_all(&store, &pages, sums(6), "backup");
}

/// E16: a log that is full of records to be redone is redone, so that a checkpoint releases it.
#[test]
fn full_log_is_redone_and_released() {
    let (disk, pages) = crashed(20, 6);
    let small = || Options { log_limit_bytes: options().segment_len * 6, ..tiny() };
    let store = open_with(&disk, small()).unwrap();
    let from = store.log().control().checkpoint.redo_lsn;
    let mut amount = 0;
    while store.log().control().checkpoint.redo_lsn == from {
        store.transact(|txn| txn.update(at(pages[1], 0), &Add { amount: 1 })).expect("E16: there is space");
        amount += 1;
    }
    assert_eq!(store.recovery().pending_pages, 0, "R9");
    assert_eq!(numbers(&store, pages[1])[0], sums(6)[0] + amount);
    assert_all(&store, &pages[2..], sums(6), "after the checkpoint");
}

/// The thread of a store completes redo and requests a checkpoint; the end of the store does not wait for it.
#[test]
fn thread_of_the_store_completes_redo() {
    let (disk, pages) = crashed(40, 9);
    let threads = || Options { background: true, redo_threads: 2, checkpoint_when_opened: true, ..tiny() };
    drop(open_with(&disk, threads()).unwrap());
    let store = open_with(&disk, threads()).unwrap();
    let end = store.recovery().end;
    while store.recovery().pending_pages > 0 || store.log().control().checkpoint.redo_lsn < end {
        thread::yield_now();
    }
    assert_all(&store, &pages, sums(9), "completed");
    store.close().unwrap();
}

/// R8: a page whose first record formats it is not read at home, where it may be damaged.
#[test]
fn formatted_page_is_not_read_at_home() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    store.transact(|txn| txn.update(at(page, 2), &Add { amount: 4 })).unwrap();
    store.checkpoint().unwrap();
    store
        .transact(|txn| {
            txn.free(page)?;
            Ok(())
        })
        .unwrap();
    let again = store.transact(|txn| txn.allocate()).unwrap();
    assert_eq!(again, page, "the free page is used again");
    store.transact(|txn| txn.update(RecordId::page(page), &FormatFresh::new(cedrat_pages::LayoutKind::RAW))).unwrap();
    store.transact(|txn| txn.update(at(page, 1), &Add { amount: 6 })).unwrap();
    let crashed = Arc::new(after(&disk, Loss::Everything));
    let home = page.get() * PAGE_LEN as u64 + 100;
    crashed.corrupt(PAGE_FILE, home, cedrat_media::Damage::Flip { bit: 0 }).unwrap();
    let store = open_with(&crashed, tiny()).unwrap();
    assert_eq!(numbers(&store, page), [0, 6, 0, 0], "R8");
    store.complete_recovery().unwrap();
    assert_eq!(numbers(&store, page), [0, 6, 0, 0], "R8");
}

/// Changes half of its number, and panics.
#[derive(Debug, Serialize, Deserialize)]
struct Panicking {
    amount: i64,
}

impl Operation for Panicking {
    const NAME: &'static str = Add::NAME;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Panicking { amount: -self.amount }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        page.put(usize::from(at.0) * 8, &[77; 4])?;
        panic!("this redo panics");
    }
}

fn assert_stops(store: &Store, name: &str, reasons: &[&str]) {
    while store.log().stopped().is_none() {
        thread::yield_now();
    }
    let reason = store.log().stopped().expect("it has stopped").to_string();
    reasons.iter().for_each(|expected| assert!(reason.contains(expected), "{name}: {reason}"));
    store.transact(page_with_zeros).expect_err("R8b: it has stopped");
}

/// R8b: a redo that panics, in whichever thread, stops the store, and another program finds everything.
#[test]
#[cfg(not(cedrat_shuttle))] // a panic ends a schedule
fn panic_of_redo_stops_store() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let (disk, pages) = crashed(12, 6);
    let broken = || Registry::new().operation::<Panicking>().logical::<Subtract>().logical::<SubtractTen>();
    for (name, redo_threads) in [("reader", 0), ("caller", 0), ("caller", 2), ("thread", 0), ("thread", 2)] {
        let options = Options { background: name == "thread", redo_threads, ..tiny() };
        let store = Store::open(media(&disk), options, broken()).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| match name {
            "reader" => store.read(pages[1]).map(drop),
            "caller" => store.complete_recovery(),
            _ => Ok(()),
        }));
        assert_eq!(panicked.is_err(), name != "thread", "{name}");
        assert_stops(&store, name, &["panicked"]);
        drop(store);
        let crashed = Arc::new(after(&disk, Loss::Everything));
        assert_all(&open_with(&crashed, tiny()).unwrap(), &pages, sums(6), name);
    }
    assert_all(&open_with(&disk, tiny()).unwrap(), &pages, sums(6), "mended");
}

/// R2a, R8b: the thread of a store finds damage that no transaction meets, in a page or in the log, and stops the store with its place.
/// The next opening refuses a damaged log; after a repair nothing is lost, nor is a commit since the opening.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn thread_of_store_finds_damage() {
    let (disk, pages) = crashed(60, 8);
    let page_offset = pages[55].get() * PAGE_LEN as u64 + 100;
    let of_log = {
        let found = Log::look(&media(&disk)).unwrap();
        let begin = found.control().checkpoint.redo_lsn;
        let mut scan = found.scan(begin).unwrap();
        let mut place = None;
        while let Some(scanned) = scan.next().unwrap() {
            // In the middle of what is redone.
            if scanned.record.lsn == Lsn::new(begin.get() + 400) {
                place = Some(found.place(scanned.record.position));
            }
        }
        place.expect("there are more records")
    };
    for (file, offset) in [(PAGE_FILE, page_offset), (of_log.0.as_str(), of_log.1 + 6)] {
        let disk = Arc::new(SimDisk::from_image(disk.image()));
        let flip = |disk: &SimDisk| disk.corrupt(file, offset, cedrat_media::Damage::Flip { bit: 0 }).unwrap();
        let harm = |store: &Store| {
            flip(&disk);
            // Acknowledged while pages are pending.
            store.transact(|txn| txn.update(at(pages[0], 0), &Add { amount: 100 })).unwrap();
        };
        let store = if file == PAGE_FILE {
            paused_drain(&disk, 2, harm)
        } else {
            // The drain reads so short a log at once, before a thread could be paused.
            let store = open_with(&disk, tiny()).unwrap();
            store.read(pages[0]).map(drop).unwrap();
            harm(&store);
            let error = store.complete_recovery().expect_err("R8b").to_string();
            assert!(error.contains(file), "{error}");
            store
        };
        assert_stops(&store, file, &["redo of the log failed", file]);
        drop(store);
        let crashed = Arc::new(after(&disk, Loss::Everything));
        if file == PAGE_FILE {
            let store = open_with(&crashed, tiny()).expect("R2a: the page is not read");
            let error = store.complete_recovery().expect_err("R2a").to_string();
            assert!(
                error.contains(file) && error.contains(&(pages[55].get() * PAGE_LEN as u64).to_string()),
                "{error}"
            );
        } else {
            let error = open_with(&crashed, tiny()).map(drop).expect_err("R2").to_string();
            assert!(error.contains(file), "{error}");
        }
        flip(&crashed);
        let store = open_with(&crashed, tiny()).unwrap();
        store.complete_recovery().unwrap();
        assert_all(&store, &pages[1..], sums(8), file);
        let mut first = sums(8);
        first[0] += 100;
        assert_eq!(numbers(&store, pages[0]), first, "R9: {file}");
    }
}

/// R8b: calls that fail in the drain, once or for good, lose nothing.
#[test]
fn failed_calls_in_drain_lose_nothing() {
    let (disk, pages) = crashed(20, 6);
    let mut failed = 0;
    for call in [Call::Read, Call::Write, Call::Sync] {
        for nth in (1..40).step_by(3) {
            let disk = Arc::new(SimDisk::from_image(disk.image()));
            let store = open_with(&disk, tiny()).unwrap();
            store.transact(|txn| txn.update(at(pages[0], 1), &Add { amount: 7 })).unwrap();
            disk.inject(Fault::error(call, std::io::ErrorKind::Other).nth(nth));
            let completed = store.complete_recovery();
            failed += usize::from(completed.is_err());
            assert_eq!(completed.is_err(), store.log().stopped().is_some(), "R8b: {call:?} {nth}");
            disk.clear_faults();
            let crashed = Arc::new(after(&disk, Loss::Everything));
            drop(store);
            let store = open_with(&crashed, tiny()).unwrap();
            store.complete_recovery().unwrap();
            let mut first = sums(6);
            first[1] += 7;
            assert_eq!(numbers(&store, pages[0]), first, "R9: {call:?} {nth}");
            assert_all(&store, &pages[1..], sums(6), "after a failed call");
        }
    }
    assert!(failed > 10, "{failed}");
}
