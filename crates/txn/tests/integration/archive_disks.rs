//! Archives on disks that hang, or whose medium panics.
#![cfg(not(cedrat_shuttle))] // a panic ends a schedule

use cedrat_media::{Call, Fault, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::thread::{self, ThreadId};
use cedrat_sync::{Arc, Condvar, Mutex};
use cedrat_txn::{BackupOptions, Commit, Error, Options, RestoreTarget, Store, restore};
use std::time::Duration;

use crate::common::*;

/// Options with an archiver that extends the archive only on request.
fn archived(to: &SimDisk) -> Options {
    let archive_period = Duration::from_secs(1 << 30);
    let txn_log_limit_bytes = Some(u64::MAX);
    Options { archive: Some(media(to)), archive_period, background: true, txn_log_limit_bytes, ..options() }
}

fn add(store: &Store, page: PageId) -> cedrat_txn::Result<()> {
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 }))
}

/// A gate before each call of a disk. A closed one holds up the calls.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn of(disk: &SimDisk) -> Arc<Gate> {
        Gate::passed_by(disk, None)
    }

    /// Makes a gate that one thread always passes.
    fn passed_by(disk: &SimDisk, free: Option<ThreadId>) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        let passed = Arc::clone(&gate);
        disk.before_each_call(move |_, _, _| {
            let mut is_closed = passed.is_closed.lock();
            while *is_closed && free != Some(thread::current().id()) {
                passed.changed.wait(&mut is_closed);
            }
        });
        gate
    }

    /// Closes the gate until the guard is dropped, also by a panic: the drop of a store waits for its archiver.
    fn close(&self) -> Closed<'_> {
        *self.is_closed.lock() = true;
        Closed(self)
    }
}

struct Closed<'a>(&'a Gate);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        *self.0.is_closed.lock() = false;
        self.0.changed.notify_all();
    }
}

/// E18.11a.
#[test]
fn panic_of_archive_is_reported() {
    let (disk, to, backup) = (SimDisk::new(), SimDisk::new(), SimDisk::new());
    let store = Store::open(media(&disk), archived(&to), registry()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    store.backup(&media(&backup), BackupOptions::default()).unwrap();
    add(&store, page).unwrap();
    to.inject(Fault::panic(Call::Write).of("log/"));
    store.checkpoint().expect("E18.11a: the store goes on");
    let failure = store.archive_status().unwrap().failure.expect("E18.11a");
    assert!(failure.contains("panicked") && failure.contains("open the store again"), "E18.11a: {failure}");
    assert_eq!(store.checkpoint_failure(), Some(failure), "E18.11a");
    let error = store.extend_archive().expect_err("E18.11a: the archive may be half extended");
    assert!(matches!(error, Error::ArchivePanicked { .. }), "E18.11a: {error}");
    let refused = loop {
        match add(&store, page) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    let Error::LogFull { checkpoint: Some(why), .. } = &refused else { panic!("E18.11: {refused}") };
    assert!(why.contains("archive"), "E18.11: {why}");
    let sum = read_number(&store, at(page, 0)).unwrap();
    drop(store);
    let store = Store::open(media(&disk), archived(&to), registry()).expect("E18.11a: the next opening goes on");
    store.extend_archive().expect("E18.9d");
    let restored = SimDisk::new();
    restore(&media(&backup), Some(&media(&to)), &media(&restored), RestoreTarget::Newest).expect("E18.9");
    assert_eq!(read_number(&open(&Arc::new(restored)).unwrap(), at(page, 0)).unwrap(), sum, "E18.9");
}

/// E18.11b: a disk of an archive that does not answer holds up no checkpoint and no transaction; a full log names it.
#[test]
fn hanging_archive_is_named() {
    let to = SimDisk::new();
    let options = Options { archive_wait_max: Duration::ZERO, ..archived(&to) };
    let store = Store::open(media(&SimDisk::new()), options, registry()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    store.extend_archive().unwrap();
    assert_eq!(store.archive_status().unwrap().waits_since, None, "E18.11b");
    let gate = Gate::of(&to);
    let closed = gate.close();
    let mut loser = store.begin();
    let other = page_with_zeros(&mut loser).unwrap();
    let refused = loop {
        match add(&store, page) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    let Error::LogFull { checkpoint: Some(why), .. } = &refused else { panic!("E18.11b: {refused}") };
    assert!(why.contains("archive") && why.contains("not answered"), "E18.11b: {why}");
    assert!(store.archive_status().unwrap().waits_since.is_some(), "E18.11b");
    assert_eq!(store.checkpoint_failure().map(|why| why.contains("not answered")), Some(true), "E18.11b");
    loser.update(at(other, 0), &Add { amount: 1 }).expect("E18.11: it was not rolled back");
    drop(closed);
    loser.commit(Commit::Sync).unwrap();
    store.extend_archive().unwrap();
    assert_eq!(store.checkpoint_failure(), None, "E18.11b");
    add(&store, page).expect("the archive lets the log be recycled");
}

/// E18.11b: the disk of the backup hangs, which is only read so as to rebuild pages.
#[test]
fn hanging_backup_holds_up_no_checkpoint() {
    let (disk, to, backup) = (SimDisk::new(), SimDisk::new(), SimDisk::new());
    let store = Store::open(media(&disk), archived(&to), registry()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let mut loser = store.begin();
    page_with_zeros(&mut loser).unwrap();
    (0..20).for_each(|_| add(&store, page).unwrap());
    store.backup(&media(&backup), BackupOptions::default()).unwrap();
    drop((loser, store));
    let gate = Gate::passed_by(&backup, Some(thread::current().id()));
    let _closed_before = gate.close();
    let archive_wait_max = Duration::from_secs(5);
    let options = Options { backup: Some(media(&backup)), archive_wait_max, ..archived(&to) };
    let store = Store::open(media(&disk), options, registry()).unwrap();
    let closed = gate.close();
    let checkpoint = || {
        add(&store, page).unwrap();
        let lsn = store.log().current_lsn();
        store.checkpoint().unwrap();
        (lsn, store.archive_status().unwrap())
    };
    let checkpoints = [(); 3].map(|()| checkpoint());
    drop(closed);
    for (lsn, status) in checkpoints {
        assert!(status.up_to >= lsn && status.failure.is_none(), "E18.11b: {lsn} {status:?}");
    }
}
