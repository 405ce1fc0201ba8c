//! Readers beside the process that has the store open.

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Error, OpenError, Options, Reader, ReaderFiles, Store, Vote};
use cedrat_wal::{LogError, Lsn};

use crate::common::*;

/// A store in which a word and a number of a page are changed together.
struct World {
    disk: SimDisk,
    store: Store,
    page: PageId,
}

fn small() -> Options {
    Options { pool_bytes: 32 * 4096, ..options() }
}

fn files(disk: &SimDisk) -> ReaderFiles {
    let disk = disk.clone();
    ReaderFiles {
        store: Arc::new(move || Ok(media(&disk))),
        scratch: Arc::new(|| Ok(media(&SimDisk::new()))),
        copies_pages: false,
    }
}

fn reader(disk: &SimDisk) -> Reader {
    Reader::open(files(disk), small(), registry()).unwrap()
}

/// Returns the number that word and page of a store have.
fn sum(store: &Store, page: PageId) -> Result<i64, Error> {
    let on_page = read_number(store, at(page, 0))?;
    let heap = store.memory().heap("words").unwrap();
    let word = store.memory().run(Commit::Async, |tx| tx.read(&heap, 0)).unwrap().value;
    assert_eq!(word, on_page as u64, "E26.1: of one moment");
    Ok(on_page)
}

impl World {
    fn new() -> World {
        let disk = SimDisk::new();
        let store = Store::open(media(&disk), small(), registry()).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let words = HeapOptions { chunk_len: 4096, size: 4096, ..HeapOptions::raw(1 << 16) };
        store.memory().create_heap("words", &words).unwrap();
        World { disk, store, page }
    }

    fn add(&self) -> Lsn {
        let heap = self.store.memory().heap("words").unwrap();
        self.store
            .transact(|txn| {
                txn.heap(|tx| tx.update(&heap, 0, |value| value + 1))?;
                txn.update(at(self.page, 0), &Add { amount: 1 })
            })
            .unwrap();
        self.store.log().durable_lsn()
    }

    fn sum(&self, reader: &Reader) -> i64 {
        reader.transact(|txn| sum(txn.store(), self.page)).unwrap()
    }
}

/// E26.1, E26.1a.
#[test]
fn reader_shows_commits_and_moves_on() {
    let world = World::new();
    let first = world.add();
    let reader = reader(&world.disk);
    assert!(reader.lsn() >= first, "E26.1a");
    assert_eq!(world.sum(&reader), 1, "E26.1");
    let old = reader.store();
    for more in 2..20 {
        let lsn = world.add();
        if more % 5 == 0 {
            world.store.checkpoint().unwrap();
        }
        assert!(reader.lsn() < lsn);
        assert!(reader.refresh().unwrap() >= lsn, "E26.1a");
        assert_eq!(world.sum(&reader), more, "E26.1");
    }
    assert_eq!(sum(&old, world.page).unwrap(), 1, "E26.1: a view stays as it is");
    let lsn = reader.lsn();
    assert_eq!(reader.refresh().unwrap(), lsn, "nothing has happened");
}

/// E26.3.
#[test]
fn reader_changes_no_file_and_takes_no_change() {
    let world = World::new();
    world.add();
    let before = world.disk.image().hash();
    let reader = reader(&world.disk);
    let store = reader.store();
    let refused = store.transact(|txn| txn.update(at(world.page, 0), &Add { amount: 1 }));
    assert!(matches!(refused, Err(Error::ReadOnly)), "E26.3: {refused:?}");
    let heap = store.memory().heap("words").unwrap();
    assert!(store.memory().run(Commit::Async, |tx| tx.update(&heap, 8, |value| value + 1)).is_err(), "E26.3");
    reader.refresh().unwrap();
    drop((heap, store, reader));
    assert_eq!(world.disk.image().hash(), before, "E26.3");
    world.add();
}

/// E26.1: what has not committed is not shown, also if its pages are at home.
#[test]
fn open_transaction_is_not_shown() {
    let world = World::new();
    let other = world.store.transact(page_with_zeros).unwrap();
    let mut open = world.store.begin();
    open.update(at(other, 0), &Add { amount: 7 }).unwrap();
    world.store.checkpoint().unwrap();
    let reader = reader(&world.disk);
    let shown = |reader: &Reader| reader.transact(|txn| read_number(txn.store(), at(other, 0))).unwrap();
    assert_eq!(shown(&reader), 0, "E26.1");
    world.add();
    reader.refresh().unwrap();
    assert_eq!(shown(&reader), 0, "E26.1");
    let Vote::Prepared(prepared) = open.prepare(b"branch").unwrap() else { panic!("it has changed something") };
    reader.refresh().unwrap();
    assert_eq!(shown(&reader), 0, "E26.1: it may not commit");
    prepared.commit(Commit::Sync).unwrap();
    reader.refresh().unwrap();
    assert_eq!(shown(&reader), 7, "E26.1");
}

/// E26.4.
#[test]
fn page_that_has_changed_since_is_refused() {
    let world = World::new();
    let pages: Vec<_> = (0..40).map(|_| world.store.transact(page_with_zeros).unwrap()).collect();
    world.store.checkpoint().unwrap();
    world.store.checkpoint().unwrap();
    let reader = reader(&world.disk);
    let old = reader.store();
    for &page in &pages {
        world.store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    }
    world.store.checkpoint().unwrap();
    let refused = pages.iter().filter(|&&page| match read_number(&old, at(page, 0)) {
        Ok(value) => {
            assert_eq!(value, 0, "E26.4");
            false
        }
        Err(error) => {
            assert!(error.to_string().contains("refresh the reader"), "E26.4: {error}");
            true
        }
    });
    assert!(refused.count() > 0, "pages have gone home");
    for &page in &pages {
        assert_eq!(reader.transact(|txn| read_number(txn.store(), at(page, 0))).unwrap(), 1, "E26.4: it has moved on");
    }
}

/// E26.5: a store that no process has open.
#[test]
fn crashed_store_is_shown_as_recovered() {
    let world = World::new();
    world.add();
    world.add();
    let crashed = world.disk.journal().crash(world.disk.journal_len(), Loss::Everything);
    let before = crashed.image().hash();
    let reader = reader(&crashed);
    assert_eq!(world.sum(&reader), 2, "E26.5");
    assert_eq!(crashed.image().hash(), before, "E26.5: it is not recovered");
    let store = Store::open(media(&crashed), small(), registry()).unwrap();
    assert!(store.recovery().end > reader.lsn(), "E26.2");
    assert_eq!(sum(&store, world.page).unwrap(), 2);
    assert!(reader.refresh().unwrap() >= store.log().durable_lsn(), "E26.6: another opening");
    assert_eq!(world.sum(&reader), 2, "E26.6");
}

/// E26.6.
#[test]
fn reader_goes_on_after_another_opening() {
    let World { disk, store, page } = World::new();
    let reader = reader(&disk);
    let mut world = World { disk, store, page };
    for more in 1..6 {
        let lsn = world.add();
        assert!(reader.refresh().unwrap() >= lsn, "E26.6");
        assert_eq!(world.sum(&reader), more, "E26.6");
        let World { disk, store, page } = world;
        if more % 2 == 0 {
            store.close().unwrap();
        } else {
            drop(store);
        }
        let store = Store::open(media(&disk), small(), registry()).unwrap();
        world = World { disk, store, page };
    }
}

#[test]
fn directory_without_store_is_refused() {
    let refused = Reader::open(files(&SimDisk::new()), small(), registry());
    assert!(matches!(refused, Err(OpenError::Failed(Error::Log(LogError::Absent { .. })))), "{refused:?}");
    let archive = Options { archive: Some(media(&SimDisk::new())), ..small() };
    let refused = Reader::open(files(&SimDisk::new()), archive, registry());
    assert!(matches!(refused, Err(OpenError::Failed(Error::Misuse(_)))), "{refused:?}");
}
