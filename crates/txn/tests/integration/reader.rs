//! Readers beside the process that has the store open.

use cedrat_heap::HeapOptions;
use cedrat_media::{FileId, ForwardMedia, Loss, Media, SimDisk};
use cedrat_pages::{LayoutKind, PAGE_FILE, PAGE_LEN, PageId};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{Commit, Error, FormatFresh, OpenError, Options, Reader, ReaderFiles, RecordId, Store, Vote};
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

/// A disk whose pages are passed to a function after each read. Before the read it gets none.
struct Hooked {
    disk: SimDisk,
    hook: Mutex<Hook>,
}

type Hook = Box<dyn FnMut(PageId, &mut [u8]) + Send>;

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.disk.fmt(f)
    }
}

impl ForwardMedia for Hooked {
    fn target(&self) -> &dyn Media {
        &self.disk
    }

    fn forward_read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !self.disk.path(file).ends_with(PAGE_FILE) {
            return self.disk.read_at(file, offset, buffer);
        }
        let (page, mut hook) = (PageId::new(offset / PAGE_LEN as u64), self.hook.lock());
        hook(page, &mut []);
        let read = self.disk.read_at(file, offset, buffer)?;
        hook(page, &mut buffer[..read]);
        Ok(read)
    }
}

fn hooked(disk: &SimDisk, hook: impl FnMut(PageId, &mut [u8]) + Send + 'static) -> ReaderFiles {
    let hooked: Arc<dyn Media> = Arc::new(Hooked { disk: disk.clone(), hook: Mutex::new(Box::new(hook)) });
    ReaderFiles { store: Arc::new(move || Ok(Arc::clone(&hooked))), ..files(disk) }
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
    assert_eq!(reader.lsn(), world.store.log().current_lsn(), "E26.1");
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
fn reader_changes_no_file_of_store() {
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
fn open_transaction_stays_hidden() {
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

/// E26.4. The log of the view has later LSNs than the view: those of its undo.
#[test]
fn page_that_has_changed_since_is_refused() {
    let world = World::new();
    let pages: Vec<_> = (0..40).map(|_| world.store.transact(page_with_zeros).unwrap()).collect();
    let mut open = world.store.begin();
    (0..80).for_each(|_| open.update(at(pages[0], 1), &Add { amount: 1 }).unwrap());
    world.store.checkpoint().unwrap();
    let reader = reader(&world.disk);
    let old = reader.store();
    for &page in &pages[1..] {
        world.store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    }
    world.store.checkpoint().unwrap();
    let mut refused = 0;
    for &page in &pages[1..] {
        match read_number(&old, at(page, 0)) {
            Ok(value) => assert_eq!(value, 0, "E26.4"),
            Err(error) => {
                assert!(error.to_string().contains("refresh the reader"), "E26.4: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "pages have gone home");
    for &page in &pages[1..] {
        assert_eq!(reader.transact(|txn| read_number(txn.store(), at(page, 0))).unwrap(), 1, "E26.4: it has moved on");
    }
}

/// E26.4a: the writer is within the write of the page.
#[test]
fn torn_page_is_read_again() {
    let world = World::new();
    let page = world.store.transact(page_with_zeros).unwrap();
    world.store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    world.store.checkpoint().unwrap();
    // The log does not name the page any more, and it has left the double-write area.
    world.add();
    world.store.checkpoint().unwrap();
    let torn = Arc::new(Mutex::new(0));
    let is_torn = Arc::clone(&torn);
    let files = hooked(&world.disk, move |first, bytes| {
        let at = (page.get() - first.get()) as usize * PAGE_LEN;
        if *is_torn.lock() > 0 && at < bytes.len() {
            *is_torn.lock() -= 1;
            bytes[at + 512..at + 1024].fill(0xee);
        }
    });
    let reader = Reader::open(files, small(), registry()).unwrap();
    *torn.lock() = 2;
    assert_eq!(read_number(&reader.store(), at(page, 0)).unwrap(), 1, "E26.4a");
    assert_eq!(*torn.lock(), 0, "the page was read");
}

/// E26.4b: the file of written pages is that of the view.
#[test]
fn page_punched_since_is_refused() {
    let world = World::new();
    let first = world
        .store
        .transact(|txn| {
            let first = txn.allocate_region(64)?;
            for page in 0..64 {
                txn.update(RecordId::page(first.after(page)), &FormatFresh::new(LayoutKind::RAW))?;
                txn.update(at(first.after(page), 0), &Add { amount: 1 })?;
            }
            Ok(first)
        })
        .unwrap();
    world.store.checkpoint().unwrap();
    world.store.checkpoint().unwrap();
    let reader = reader(&world.disk);
    let old = reader.store();
    world.store.transact(|txn| txn.free_region(first, 64)).unwrap();
    world.store.checkpoint().unwrap();
    world.store.checkpoint().unwrap();
    let bytes = world.disk.image().file(PAGE_FILE).unwrap();
    let is_punched = |page: PageId| bytes[page.file_offset() as usize..][..PAGE_LEN].iter().all(|&byte| byte == 0);
    assert!((0..64).all(|page| is_punched(first.after(page))), "it is punched");
    for page in 0..64 {
        assert!(!matches!(read_number(&old, at(first.after(page), 0)), Ok(0)), "E26.4b");
    }
}

/// E26.8: pages change while they are copied.
#[test]
fn copied_pages_are_of_one_moment() {
    let world = World::new();
    let pages: Vec<_> = (0..40).map(|_| world.store.transact(page_with_zeros).unwrap()).collect();
    world.store.checkpoint().unwrap();
    // The log does not name these pages any more, and they have left the double-write area: no opening of a view reads them.
    world.add();
    world.store.checkpoint().unwrap();
    let (store, changed) = (world.store.clone(), pages[39]);
    let mut changes = 0;
    let files = hooked(&world.disk, move |_, bytes| {
        if bytes.is_empty() && changes < 2 {
            changes += 1;
            store.transact(|txn| txn.update(at(changed, 0), &Add { amount: 1 })).unwrap();
            store.checkpoint().unwrap();
        }
    });
    let reader = Reader::open(ReaderFiles { copies_pages: true, ..files }, small(), registry()).unwrap();
    let old = reader.store();
    world.store.transact(|txn| txn.update(at(pages[0], 0), &Add { amount: 1 })).unwrap();
    world.store.checkpoint().unwrap();
    for &page in &pages[..39] {
        assert_eq!(read_number(&old, at(page, 0)).expect("E26.8"), 0, "E26.1");
    }
    assert!(read_number(&old, at(changed, 0)).expect("E26.8") > 0, "E26.1a");
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
