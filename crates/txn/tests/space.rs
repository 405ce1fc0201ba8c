//! Space when something fails: a disk that is full, that gives nothing back, or that failed once.

mod common;

use std::io::ErrorKind;

use cedrat_media::{Call, Fault, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{FormatFresh, GROUP_PAGES, REGION_PAGES_MAX, RecordId};
use common::*;

/// A group that was passed over has no space map of its own yet; what is free before and behind its place is (E7).
#[test]
fn a_group_that_nothing_was_allocated_of_does_not_keep_others_from_allocating() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    store.transact(|txn| txn.allocate_region(GROUP_PAGES - 2)).unwrap();
    disk.inject(Fault::error(Call::Allocate, ErrorKind::Other).of("pages"));
    store.transact(|txn| txn.allocate_region(100)).unwrap_err();
    let last = store.transact(|txn| txn.allocate_region(REGION_PAGES_MAX)).unwrap();
    assert_eq!(last.get(), 2 * GROUP_PAGES + 1, "the group between is empty");
    drop(store);
    let store = open(&disk).unwrap();
    let first = store.transact(|txn| txn.allocate()).unwrap();
    assert_eq!(first.get(), GROUP_PAGES + 1);
    store.transact(|txn| txn.allocate_region(REGION_PAGES_MAX - 1)).unwrap();
    store.check().unwrap();
}

/// A disk that gives no space back costs space, not checkpoints; and it is asked again.
#[test]
fn space_that_was_not_given_back_is_given_back_later() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let region = store
        .transact(|txn| {
            let region = txn.allocate_region(64)?;
            for page in 0..64 {
                txn.update(RecordId::page(region.after(page)), &FormatFresh::new(cedrat_pages::LayoutKind::RAW))?;
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
