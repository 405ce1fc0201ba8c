//! What an opening leaves alone.

mod common;

use cedrat_media::{Media, RealDisk, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{Error, LOCK_FILE, Options, Store};
use common::*;

/// Where no store is, and none is to be made, nothing is changed (R2).
#[test]
fn looking_for_a_store_that_is_not_there_leaves_nothing_behind() {
    let looking = || Options { create: false, ..options() };
    let disk = Arc::new(SimDisk::new());
    let error = open_with(&disk, looking()).unwrap_err();
    assert!(is_before_creation(&error), "{error}");
    assert_eq!(disk.journal_len(), 0);

    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("store");
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(&directory));
    assert!(Store::open(Arc::clone(&media), looking(), registry()).is_err());
    assert!(!directory.exists());
}

/// A store that was copied without its lock file opens all the same, and is locked.
#[test]
fn a_store_without_a_lock_file_gets_one() {
    let disk = Arc::new(SimDisk::new());
    drop(open(&disk).unwrap());
    disk.remove(LOCK_FILE).unwrap();
    let store = open_with(&disk, Options { create: false, ..options() }).unwrap();
    assert!(matches!(open(&disk), Err(Error::InUse { .. })));
    drop(store);
}
