//! Space after failures: a disk that is full, that releases nothing, or that failed once.

use std::io::ErrorKind;

use cedrat_media::{Call, Fault, Loss, Media, SimDisk};
use cedrat_pages::{LayoutKind, PageId, PoolError};
use cedrat_sync::Arc;
use cedrat_txn::{
    Error, FormatFresh, GROUP_PAGES, LogicalUndo, OpenError, Options, REGION_PAGES_MAX, RecordId, Result,
    SCATTERED_PAGES, Store, Txn, UNDO_PAGES, Undo,
};
use serde::{Deserialize, Serialize};

use crate::common::*;

/// A skipped group has no space map of its own yet; the free pages before and after it can be allocated (E7).
#[test]
fn unused_group_blocks_no_allocation() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    store.transact(|txn| txn.allocate_region(GROUP_PAGES - 2)).unwrap();
    let mut txn = store.begin();
    txn.allocate_region(100).unwrap();
    let last = store.transact(|txn| txn.allocate_region(REGION_PAGES_MAX)).unwrap();
    assert_eq!(last.get(), 2 * GROUP_PAGES + 1);
    txn.rollback().unwrap(); // the group in between is empty
    drop(store);
    let store = open(&disk).unwrap();
    let first = store.transact(|txn| txn.allocate()).unwrap();
    assert_eq!(first.get(), GROUP_PAGES + 1);
    store.transact(|txn| txn.allocate_region(REGION_PAGES_MAX - 1)).unwrap();
    store.check().unwrap();
}

/// A disk that releases no space costs space, not checkpoints; the store retries later.
#[test]
fn unfreed_space_is_freed_later() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let region = store
        .transact(|txn| {
            let region = txn.allocate_region(64)?;
            for page in 0..64 {
                txn.update(RecordId::page(region.after(page)), &FormatFresh::new(LayoutKind::RAW))?;
            }
            Ok(region)
        })
        .unwrap();
    store.checkpoint().unwrap();
    let full = disk.space();
    store.transact(|txn| txn.free_region(region, 64)).unwrap();
    disk.inject(Fault::error(Call::Punch, ErrorKind::Other).of("pages"));
    store.checkpoint().unwrap();
    assert!(disk.space() >= full, "the disk refused");
    store.checkpoint().unwrap();
    assert!(full - disk.space() >= 64 * 4096, "{full} before, {} after", disk.space());
    assert_eq!(store.transact(|txn| txn.allocate_region(64)).unwrap(), region);
}

/// E22.3a: a crash within a punch leaves some sectors of a page; the page is allocated again, and not formatted.
#[test]
fn half_punched_page_is_no_damage() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let region = store
        .transact(|txn| {
            let region = txn.allocate_region(64)?;
            for page in (0..64).map(|number| region.after(number)) {
                txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
                txn.update(at(page, 100), &Add { amount: 1 })?;
            }
            Ok(region)
        })
        .unwrap();
    store.checkpoint().unwrap();
    store.transact(|txn| txn.free_region(region, 64)).unwrap();
    store.checkpoint().unwrap();
    let mut unreadable = 0;
    for seed in 0..10 {
        let crashed = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Random(seed)));
        let store = open(&crashed).unwrap();
        assert_eq!(store.transact(|txn| txn.allocate_region(64)).unwrap(), region);
        unreadable += (0..64).filter(|&number| store.read(region.after(number)).is_err()).count();
        store.check().expect("E22.3a");
        store.close().unwrap();
        open(&crashed).unwrap().check().expect("E22.3a");
    }
    assert!(unreadable > 0, "a half-punched page does not verify");
}

/// Pages freed in one record among others are free if that is committed, and in use if it is undone (E7.1).
#[test]
fn scattered_pages_are_freed_together() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let region = store.transact(|txn| txn.allocate_region(SCATTERED_PAGES + 1)).unwrap();
    let in_use = || store.check().unwrap().pages_allocated;
    let before = in_use();
    let pages: Vec<PageId> = [0, 1, 3, 9, SCATTERED_PAGES - 1].map(|n| region.after(n)).to_vec();
    let mut txn = store.begin();
    let savepoint = txn.savepoint();
    txn.free_scattered(&pages).unwrap();
    assert!(matches!(txn.free(pages[3]), Err(Error::Refused(_))), "freed already");
    txn.rollback_to(savepoint).unwrap();
    txn.free(pages[3]).unwrap();
    assert!(matches!(txn.free_scattered(&pages), Err(Error::Refused(_))), "one of them is free");
    let too_far = [region, region.after(SCATTERED_PAGES)];
    assert!(matches!(txn.free_scattered(&too_far), Err(Error::RegionLength { .. })));
    assert!(matches!(txn.free_scattered(&[pages[1], pages[0]]), Err(Error::RegionLength { .. })), "not ascending");
    txn.free_scattered(&[]).unwrap();
    txn.rollback().unwrap();
    assert_eq!(in_use(), before);
    let next = store.transact(|txn| txn.allocate()).unwrap();
    assert!(next > region.after(SCATTERED_PAGES), "{next}: no page of the region is free");

    store.transact(|txn| txn.free_scattered(&pages)).unwrap();
    assert_eq!(in_use(), before + 1 - pages.len() as u64);
    let mut taken: Vec<PageId> = (0..5).map(|_| store.transact(|txn| txn.allocate()).unwrap()).collect();
    taken.sort_unstable();
    assert_eq!(taken, pages);
}

#[test]
fn scattered_pages_end_their_group() {
    let store = open(&Arc::new(SimDisk::new())).unwrap();
    let pages = GROUP_PAGES - 2;
    let region = store.transact(|txn| txn.allocate_region(pages)).unwrap();
    let last = [region.after(pages - 10), region.after(pages - 1)];
    assert_eq!(last[1].get(), GROUP_PAGES - 1);
    store.transact(|txn| txn.free_scattered(&last)).unwrap();
    let across = [last[0].after(1), PageId::new(GROUP_PAGES + 1)];
    let refused = store.transact(|txn| txn.free_scattered(&across));
    assert!(matches!(refused, Err(Error::RegionLength { .. })), "two groups");
    store.check().unwrap();
    assert_eq!(store.transact(|txn| txn.allocate()).unwrap(), last[0]);
    assert_eq!(store.transact(|txn| txn.allocate()).unwrap(), last[1]);
}

/// Needs a page for its undo, like a structure whose old place is occupied again.
#[derive(Debug, Serialize, Deserialize)]
struct SubtractElsewhere {
    page: u64,
    slot: u16,
}

impl LogicalUndo for SubtractElsewhere {
    const NAME: &'static str = "test.subtract_elsewhere";
    const LOG_BYTES_MAX: u32 = 1024;

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let page = page_with_zeros(txn)?;
        txn.update(at(page, 0), &Add { amount: 7 })?;
        txn.update(at(PageId::new(self.page), self.slot), &Add { amount: -1 })
    }
}

fn open_elsewhere(disk: &Arc<SimDisk>) -> Result<Store, OpenError> {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options(), registry().logical::<SubtractElsewhere>())
}

/// Allocates all pages available to forward work.
fn fill(store: &Store) -> u64 {
    let mut taken = 0;
    loop {
        match store.transact(|txn| txn.allocate()) {
            Ok(_) => taken += 1,
            Err(Error::Pages(PoolError::DiskFull { .. })) => return taken,
            Err(other) => panic!("{other}"),
        }
    }
}

/// Makes changes that need `pages` pages for their undo, durable but not committed.
fn begin_what_takes_pages_to_undo(store: &Store, page: PageId, pages: u64) -> Txn {
    let mut txn = store.begin();
    for n in 0..pages {
        let slot = (n % 100) as u16;
        let undo = Undo::logical(&SubtractElsewhere { page: page.get(), slot });
        txn.update_logical(at(page, slot), &Add { amount: 1 }, undo).unwrap();
    }
    store.log().force(store.log().current_lsn()).unwrap();
    txn
}

/// Undo finds pages when forward work finds none: on a full disk, while the store runs and at recovery (E16.6).
#[test]
fn undo_finds_pages_on_a_full_disk() {
    let disk = Arc::new(SimDisk::new());
    let store = open_elsewhere(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    disk.set_capacity(Some(disk.space() + (2 << 20)));
    assert!(fill(&store) > 0);
    assert_eq!(fill(&store), 0);
    begin_what_takes_pages_to_undo(&store, page, UNDO_PAGES / 2).rollback().unwrap();
    assert_eq!(fill(&store), 0, "E16.2");

    // The power fails; the log may grow, but not the page file.
    let txn = begin_what_takes_pages_to_undo(&store, page, UNDO_PAGES / 2);
    let crashed = Arc::new(disk.cut_power(Loss::Everything));
    drop(txn);
    crashed.inject(Fault::error(Call::Allocate, ErrorKind::StorageFull).of("pages").permanent());
    let store = open_elsewhere(&crashed).unwrap();
    assert_eq!(read_number(&store, at(page, 0)).unwrap(), 0);
    let report = store.check().unwrap();
    assert_eq!(fill(&store), 0, "E16.2");

    // Once there is space again, the reserve is restored before anything else.
    crashed.clear_faults();
    store.transact(|txn| txn.allocate()).unwrap();
    assert!(store.pool().len_pages() >= report.pages_allocated + 1 + UNDO_PAGES);
    store.check().unwrap();
}

/// Freed pages near the end of a full disk's page file are reused, and those before them first.
#[test]
fn full_disk_reuses_free_pages() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    disk.set_capacity(Some(disk.space() + (2 << 20)));
    let taken = fill(&store);
    let pages: Vec<PageId> = (0..taken).map(|n| PageId::new(2 + n)).collect();
    store.transact(|txn| pages.iter().try_for_each(|&page| txn.free(page))).unwrap();
    let segments = || store.log().space().segments;
    let before = segments();
    let again = fill(&store);
    // Pages whose space the log has got since are not used: they could not be written (E7.5).
    let by_log = (segments() - before) * options().segment_len / 4096;
    assert!(again + by_log >= taken, "{again} pages, {by_log} of the log, and {taken} before");
}

/// A page that a loser has freed belongs to it again when recovery has ended: no undo may take it meanwhile, though the
/// space map marks it as free and no page after it is in use (E7.3).
#[test]
fn recovery_undo_reuses_no_freed_page() {
    let disk = Arc::new(SimDisk::new());
    let store = open_elsewhere(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let last = store.transact(page_with_zeros).unwrap();
    store.transact(|txn| txn.update(at(last, 0), &Add { amount: 5 })).unwrap();
    store.checkpoint().unwrap();
    let mut loser = store.begin();
    loser.free(last).unwrap();
    let undo = Undo::logical(&SubtractElsewhere { page: page.get(), slot: 0 });
    loser.update_logical(at(page, 0), &Add { amount: 1 }, undo).unwrap();
    store.log().force(store.log().current_lsn()).unwrap();
    let crashed = Arc::new(disk.cut_power(Loss::Everything));
    drop(loser);
    let store = open_elsewhere(&crashed).unwrap();
    assert_eq!(read_number(&store, at(last, 0)).unwrap(), 5);
    assert_eq!(store.check().unwrap().pages_allocated, 2 + 3);
}

/// A full disk's page file has more free pages than undo's reserve: recovery takes them, as a rollback would (E7.3,
/// E16.6).
#[test]
fn recovery_on_full_disk_uses_free_pages() {
    let disk = Arc::new(SimDisk::new());
    let store = open_elsewhere(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    disk.set_capacity(Some(disk.space() + (2 << 20)));
    let taken = fill(&store);
    // From here on the log may grow, but not the page file.
    disk.set_capacity(None);
    disk.inject(Fault::error(Call::Allocate, ErrorKind::StorageFull).of("pages").permanent());
    let freed: Vec<PageId> = (0..taken).step_by(2).map(|n| PageId::new(page.get() + 1 + n)).collect();
    store.transact(|txn| freed.iter().try_for_each(|&page| txn.free(page))).unwrap();
    // The frees of other transactions are still to be undone: these pages are not available.
    let kept = store.transact(page_with_zeros).unwrap();
    store.transact(|txn| txn.update(at(kept, 0), &Add { amount: 5 })).unwrap();
    let mut other = store.begin();
    other.free(kept).unwrap();
    let loser = begin_what_takes_pages_to_undo(&store, page, UNDO_PAGES + 10);
    assert!(freed.len() as u64 > UNDO_PAGES + 10, "{} pages are free", freed.len());
    let crashed = Arc::new(disk.cut_power(Loss::Everything));
    drop((loser, other));
    crashed.inject(Fault::error(Call::Allocate, ErrorKind::StorageFull).of("pages").permanent());
    // Interrupted after each call, recovery takes them nevertheless.
    let calls = {
        let whole = Arc::new(SimDisk::from_image(crashed.image()));
        drop(open_elsewhere(&whole).unwrap());
        whole.calls()
    };
    for cut in (1..calls).step_by(7) {
        let cut_short = Arc::new(SimDisk::from_image(crashed.image()));
        cut_short.inject(Fault::error(Call::Allocate, ErrorKind::StorageFull).of("pages").permanent());
        cut_short.inject(Fault::error(Call::Any, ErrorKind::Other).nth(cut));
        let opened = open_elsewhere(&cut_short);
        drop(opened);
        cut_short.clear_faults();
        cut_short.inject(Fault::error(Call::Allocate, ErrorKind::StorageFull).of("pages").permanent());
        let store = open_elsewhere(&cut_short).unwrap();
        assert_eq!(numbers(&store, page), [0; 4]);
        assert_eq!(read_number(&store, at(kept, 0)).unwrap(), 5);
        store.check().unwrap();
    }
    let store = open_elsewhere(&crashed).unwrap();
    assert_eq!(numbers(&store, page), [0; 4]);
    assert_eq!(read_number(&store, at(kept, 0)).unwrap(), 5);
    store.check().unwrap();
}

/// E7.5.
/// Another program takes the space of pages that a checkpoint has punched. An allocation fails, if it needs that space, and no
/// later write of a page does: that would stop the store, and each later opening.
#[test]
fn punched_pages_get_space_before_use() {
    let disk = Arc::new(SimDisk::new());
    let open_with_room =
        |disk: &Arc<SimDisk>| open_with(disk, Options { log_limit_bytes: 64 << 20, pool_bytes: 16 << 20, ..options() });
    let store = open_with_room(&disk).unwrap();
    let use_region = |txn: &mut Txn, pages: u64| {
        let first = txn.allocate_region(pages)?;
        let mut format = |page| txn.update(RecordId::page(first.after(page)), &FormatFresh::new(LayoutKind::RAW));
        (0..pages).try_for_each(&mut format).map(|()| first)
    };
    let first = store.transact(|txn| use_region(txn, 2000)).unwrap();
    store.checkpoint().unwrap();
    store.transact(|txn| txn.free_region(first, 2000)).unwrap();
    let before = disk.space();
    store.checkpoint().unwrap();
    let freed = before - disk.space();
    assert!(freed >= 2000 * 4096, "{freed} bytes were punched");
    drop(store);
    for was_opened in [false, true] {
        let disk = Arc::new(SimDisk::from_image(disk.image()));
        let mut store = open_with_room(&disk).unwrap();
        if !was_opened {
            store.transact(|txn| use_region(txn, 1900).and_then(|first| txn.free_region(first, 1900))).unwrap();
            store.checkpoint().unwrap();
        }
        disk.set_capacity(Some(disk.space() + 500 * 4096));
        let mut used = 0;
        let mut txn = store.begin();
        let full = loop {
            match use_region(&mut txn, 10) {
                Ok(_) => used += 10,
                Err(full) => break full,
            }
        };
        assert!(matches!(full, Error::Pages(PoolError::DiskFull { .. }) | Error::LogFull { .. }), "{full}");
        assert!(used > 100, "{used}");
        txn.commit(cedrat_txn::Commit::Sync).unwrap();
        store.checkpoint().expect("E16.4: no page lacks space");
        drop(store);
        store = open_with_room(&disk).expect("the disk is full, and it opens");
        store.transact(|txn| use_region(txn, 1)).unwrap_err();
        disk.set_capacity(None);
        store.transact(|txn| use_region(txn, 2000)).unwrap();
        store.check().unwrap();
    }
}
