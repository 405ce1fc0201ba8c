//! Rollback on a full disk (E16): whatever closes blocks of the log meanwhile, there is room.

use cedrat_media::{Kill, Loss, Media, SimDisk};
use cedrat_pages::{PAGE_LEN, PageId};
use cedrat_sync::Arc;
use cedrat_txn::{Error, Options, Store, Txn, Vote};
use cedrat_wal::{LogFull, UNDO_RECORD_LEN_MIN};

use crate::common::*;

const KIND: &str = "test.filling";

fn is_disk_full(error: &Error) -> bool {
    matches!(error, Error::LogFull { full: LogFull::Disk { .. }, .. })
}

/// A store with a pool of so many frames, on a disk that has little space left.
fn nearly_full(frames: u64) -> (Arc<SimDisk>, Store) {
    let disk = Arc::new(SimDisk::new());
    let options = Options { pool_bytes: frames * PAGE_LEN as u64, log_limit_bytes: 1 << 30, ..options() };
    let options = Options { txn_log_limit_bytes: Some(u64::MAX), ..options };
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&disk);
    let store = Store::open(media, options, registry().record_kind(KIND)).unwrap();
    (disk, store)
}

/// Updates these pages in turn until the disk is full.
fn fill(txn: &mut Txn, pages: &[PageId], mut after_each: impl FnMut(&mut Txn)) {
    for &page in pages.iter().cycle() {
        if let Err(full) = txn.update(at(page, 0), &Add { amount: 1 }) {
            return assert!(is_disk_full(&full), "{full}");
        }
        after_each(txn);
    }
}

/// Each page that the rollback reads evicts others, whose records must be durable first.
#[test]
fn rollback_through_small_pool_has_room() {
    for (frames, pages) in [(8, 9), (8, 60), (16, 40), (32, 64), (64, 200), (256, 1000)] {
        let (disk, store) = nearly_full(frames);
        let pages: Vec<PageId> = (0..pages).map(|_| store.transact(page_with_zeros).unwrap()).collect();
        store.checkpoint().unwrap();
        disk.set_capacity(Some(disk.space() + (4 << 20)));
        let mut txn = store.begin();
        fill(&mut txn, &pages, |_| ());
        txn.rollback().expect("E16.1");
        assert_eq!(store.log().space().overdrawn.0, 0, "E16.1");
        disk.set_capacity(None);
        assert!(pages.iter().all(|&page| numbers(&store, page)[0] == 0));
        store.check().unwrap();
    }
}

/// Each refused transaction asks for a checkpoint, and a checkpoint forces the log.
#[test]
fn rollback_beside_refused_transactions_has_room() {
    let (disk, store) = nearly_full(256);
    let pages = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
    store.checkpoint().unwrap();
    disk.set_capacity(Some(disk.space() + (2 << 20)));
    let mut txn = store.begin();
    let mut savepoints = vec![txn.savepoint()];
    fill(&mut txn, &pages[..1], |txn| savepoints.push(txn.savepoint()));
    while let Some(savepoint) = savepoints.pop() {
        txn.rollback_to(savepoint).expect("E16.1");
        // It takes what is free, so the next one is refused at once.
        let much = |txn: &mut Txn| (0..100).try_for_each(|_| txn.log_record(KIND, &[7; 7000]).map(drop));
        let refused = store.transact(much).unwrap_err();
        assert!(is_disk_full(&refused), "{refused}");
    }
    txn.rollback().expect("E16.1");
    disk.set_capacity(None);
    store.transact(|txn| txn.update(at(pages[1], 0), &Add { amount: 1 })).expect("there is space again");
    assert_eq!(pages.map(|page| numbers(&store, page)[0]), [0, 1]);
    store.check().unwrap();
}

/// A10a: a full XFS refuses to allocate a range again, also one that has space.
#[test]
fn killed_store_opens_on_full_disk() {
    let (disk, store) = nearly_full(64);
    let page = store.transact(page_with_zeros).unwrap();
    store.checkpoint().unwrap();
    disk.set_capacity(Some(disk.space() + (1 << 20)));
    let mut txn = store.begin();
    fill(&mut txn, &[page], |_| ());
    store.log().force(store.log().current_lsn()).unwrap();
    let mut killed = disk.journal().cursor();
    killed.advance_to(disk.journal_len());
    let after = Arc::new(killed.kill(Kill::Process(1)));
    for _ in 0..3 {
        after.set_capacity(Some(after.space()));
        let options = Options { log_limit_bytes: 1 << 30, ..options() };
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&after);
        let store = Store::open(media, options, registry().record_kind(KIND)).expect("R1b");
        assert_eq!(numbers(&store, page)[0], 0);
    }
}

/// E16.1c: the run before has reserved space for the few forces of its large pool.
#[test]
fn opening_with_smaller_pool_has_room() {
    for (frames, pages) in [(64, 200), (256, 500), (2048, 1000)] {
        let (disk, store) = nearly_full(frames);
        let pages: Vec<PageId> = (0..pages).map(|_| store.transact(page_with_zeros).unwrap()).collect();
        store.checkpoint().unwrap();
        disk.set_capacity(Some(disk.space() + (1 << 20)));
        let mut txn = store.begin();
        fill(&mut txn, &pages, |_| ());
        store.log().force(store.log().current_lsn()).unwrap();
        let after = Arc::new(disk.cut_power(Loss::Everything));
        after.set_capacity(Some(after.space()));
        let smallest = Options { pool_bytes: 8 * PAGE_LEN as u64, log_limit_bytes: 1 << 30, ..options() };
        let store = Store::open(Arc::<SimDisk>::clone(&after), smallest, registry().record_kind(KIND)).expect("E16.1c");
        assert_eq!(store.recovery().losers, 1);
        assert!(pages.iter().all(|&page| numbers(&store, page)[0] == 0));
    }
}

/// E9.5a: the undo of a branch that was prepared before a crash is longer in all than a record may be in the short files of the
/// log, and the disk has no space for longer ones.
#[test]
fn restored_branch_keeps_its_space() {
    for updates in [100, 500, 2000] {
        let disk = Arc::new(SimDisk::new());
        let open =
            |disk| open_with(disk, Options { segment_len: 16 << 20, log_limit_bytes: 1 << 30, ..options() }).unwrap();
        let store = open(&disk);
        let page = store.transact(page_with_zeros).unwrap();
        let mut txn = store.begin();
        (0..updates).for_each(|_| txn.update(at(page, 0), &Add { amount: 1 }).unwrap());
        disk.set_capacity(Some(disk.space()));
        assert!(matches!(txn.prepare(b"branch"), Ok(Vote::Prepared(_))));
        drop(store);
        let disk = Arc::new(disk.cut_power(Loss::Everything));
        disk.set_capacity(Some(disk.space()));
        let store = open(&disk);
        assert!(store.log().space().reserved.0 >= updates * UNDO_RECORD_LEN_MIN, "E9.5a: {updates}");
        store.prepared(b"branch").unwrap().rollback().unwrap();
        assert_eq!(store.log().space().overdrawn.0, 0, "E9.5a: {updates}");
        assert_eq!(numbers(&store, page)[0], 0);
    }
}
