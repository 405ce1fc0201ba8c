//! A refused opening has written nothing (R2), and inconsistent files are refused.

use cedrat_heap::HeapOptions;
use cedrat_media::{Durability, FileId, ForwardMedia, Loss, Media, OpenMode, SimDisk, write_all_at};
use cedrat_pages::{Damaged, PAGE_FILE, PAGE_LEN, PageMut, PageRef, PoolError, Slot};
use cedrat_sync::Arc;
use cedrat_txn::object_cache::{Delta, UnflushedRecords};
use cedrat_txn::{Commit, Error, OpenError, Operation, Options, Refused, Registry, Store, Undo};
use cedrat_wal::{LogError, Lsn};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};

use crate::common::*;
use crate::kept::{self, Back, Mix, TestCache, page_of_records};

/// Creates a store with a few pages, some of them only in the log; it is not closed.
fn written(checkpoint: bool) -> (Arc<SimDisk>, u64) {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let mut last = 0;
    for _ in 0..5 {
        last = store.transact(page_with_zeros).unwrap().get();
    }
    if checkpoint {
        store.checkpoint().unwrap();
    }
    let mut unfinished = store.begin();
    unfinished.update(at(cedrat_pages::PageId::new(last - 1), 0), &Add { amount: 1 }).unwrap();
    store.transact(|txn| txn.update(at(cedrat_pages::PageId::new(last), 1), &Add { amount: 1 })).unwrap();
    let image = disk.image();
    drop(unfinished);
    store.begin().commit(Commit::Sync).unwrap();
    (Arc::new(SimDisk::from_image(image)), last)
}

/// Opens the store, and checks that the refusal changed nothing.
fn refused(disk: &Arc<SimDisk>, options: Options) -> Error {
    let before = disk.image().hash();
    let error: Error = open_with(disk, options).map(|_| ()).expect_err("it refuses").into();
    assert_eq!(disk.image().hash(), before, "R2: {error}");
    error
}

fn cut(disk: &SimDisk, len: u64) -> Arc<SimDisk> {
    let cut = SimDisk::from_image(disk.image());
    let file = cut.open(PAGE_FILE, OpenMode::ReadWrite).unwrap();
    cut.set_len(file, len).unwrap();
    Arc::new(cut)
}

#[test]
fn mismatched_options_are_refused_before_writing() {
    let (disk, _) = written(false);
    let few_frames = refused(&disk, Options { pool_bytes: 4 * PAGE_LEN as u64, ..options() });
    assert!(matches!(few_frames, Error::Pages(PoolError::Options { option: "capacity_pages", .. })), "{few_frames}");
    let mut small = options();
    small.pool.pages_max = 100;
    let too_small = refused(&disk, small);
    assert!(matches!(too_small, Error::Pages(PoolError::Limit { limit: 100, .. })), "{too_small}");
    open(&disk).unwrap();
}

/// Space for a page is durable before the record that allocates it, so after any crash the file is as long as the log
/// and the space maps require. If it were extended again, the missing pages would read as zeros.
#[test]
fn short_page_file_names_file_and_offset() {
    for checkpoint in [false, true] {
        let (disk, last) = written(checkpoint);
        let in_use = (last + 1) * PAGE_LEN as u64;
        for len in [0, PAGE_LEN as u64, in_use - PAGE_LEN as u64, in_use - 1] {
            let error = refused(&cut(&disk, len), options());
            let whole = len - len % PAGE_LEN as u64;
            assert!(
                matches!(&error, Error::Pages(PoolError::Foreign { file, offset, .. })
                    if file == PAGE_FILE && *offset == whole),
                "cut to {len}, {checkpoint}: {error}"
            );
        }
        open(&cut(&disk, in_use)).expect("beyond it nothing was in use");
        open(&disk).unwrap();
    }
}

#[test]
fn missing_page_file_is_refused() {
    let (disk, _) = written(true);
    disk.remove(PAGE_FILE).unwrap();
    let error = refused(&disk, options());
    assert!(matches!(&error, Error::Pages(PoolError::Foreign { .. })), "{error}");
}

/// A disk with one file that may be read, and not changed.
#[derive(Debug)]
struct OneForReading(SimDisk, &'static str);

impl ForwardMedia for OneForReading {
    fn target(&self) -> &dyn Media {
        &self.0
    }

    fn forward_open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        match mode {
            OpenMode::ReadWrite if name == self.1 => Err(io::Error::new(ErrorKind::PermissionDenied, name)),
            _ => self.0.open(name, mode),
        }
    }
}

/// A file may be missing in a copy of the store, or belong to another user.
#[test]
fn inaccessible_file_is_refused_before_writing() {
    let (disk, _) = written(true);
    let store = open(&disk).unwrap();
    store.memory().create_heap("heap", &HeapOptions::raw(1 << 16)).unwrap();
    store.checkpoint().unwrap();
    store.close().unwrap();
    let files = disk.image();
    let mut names: Vec<&'static str> = vec!["control", "pages", "double-write", "written", "heaps.root", "log/000000"];
    for heap in ["heaps/heap.0", "heaps/heap.1"] {
        names.push(heap);
        let file = Arc::new(SimDisk::from_image(files.clone()));
        file.remove(heap).unwrap();
        let error = refused(&file, options());
        assert!(error.to_string().contains(heap), "{error}");
    }
    for name in names {
        let file = SimDisk::from_image(files.clone());
        let before = file.image().hash();
        let media = Arc::new(OneForReading(file.clone(), name));
        let error = Store::open(media, options(), registry()).map(drop).expect_err("R2: it cannot be written");
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(file.image().hash(), before, "R2: {error}");
    }
    open(&disk).unwrap();
}

/// Creating the store creates the log first: a crash in between leaves a log without records and no page file, or an
/// empty one.
#[test]
fn crash_leaves_consistent_files() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    store.transact(|txn| txn.allocate_region(600)).unwrap();
    store.checkpoint().unwrap();
    store.transact(page_with_zeros).unwrap();
    every_crash(&disk, 2, |image, _, name| {
        let store = open(image).unwrap_or_else(|error| panic!("{name}: {error}"));
        drop(store);
        open(image).unwrap_or_else(|error| panic!("{name}, again: {error}"));
    });
}

/// An operation with the name of a delta.
#[derive(Debug, Serialize, Deserialize)]
struct NoDelta {
    by: u64,
}

impl Operation for NoDelta {
    const NAME: &'static str = Mix::NAME;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, _: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        Ok(())
    }
}

/// E19.15, E19.5: changes that count only if their transaction commits are redone by the version of the record. The
/// error names the position of the log record, and nothing was written (R2).
#[test]
fn committed_only_change_must_be_delta() {
    for in_commit_record in [true, false] {
        let disk = Arc::new(SimDisk::new());
        let open = |disk: &Arc<SimDisk>, registry: Registry| {
            let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
            Store::open(media, options(), registry)
        };
        let store = open(&disk, registry().with(kept::register)).unwrap();
        let page = store.transact(|txn| page_of_records(txn, 1)).unwrap();
        let cache = TestCache::new(0);
        let keeper = store.keep_log_for(cache.clone());
        let mut txn = store.begin();
        let ticket = if in_commit_record {
            cache.commit(&mut txn, &keeper, &[(at(page, 0), 1)]).unwrap().unwrap()
        } else {
            cache.change(&mut txn, &keeper, at(page, 0), 1, Back::CommittedOnly).unwrap();
            txn.commit(Commit::Async).unwrap()
        };
        ticket.wait().unwrap();
        let crashed = Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything));
        let before = crashed.image().hash();
        match open(&crashed, registry().operation::<NoDelta>()).map(|_| ()) {
            Err(OpenError::Failed(Error::Log(LogError::Damaged { file, offset, what }))) => {
                assert!(file.starts_with("log/") && offset > 0, "{file}, byte {offset}");
                let record = if in_commit_record { ticket.lsn() } else { Lsn::new(ticket.lsn().get() - 1) };
                assert!(what.starts_with(&format!("record {record} is corrupt")), "{what}");
                assert!(what.contains("by \"test.mix\"") && what.contains(&at(page, 0).to_string()), "{what}");
            }
            other => panic!("a change by what is no delta, and the store says {other:?}"),
        }
        assert_eq!(crashed.image().hash(), before, "R2");
        open(&crashed, registry().with(kept::register)).unwrap();
    }
}

/// Returns the same disk with one page of the store replaced by zeros.
fn lost(disk: &SimDisk, page: u64) -> Arc<SimDisk> {
    let lost = SimDisk::from_image(disk.image());
    let file = lost.open(PAGE_FILE, OpenMode::ReadWrite).unwrap();
    write_all_at(&lost, file, page * PAGE_LEN as u64, &[0; PAGE_LEN], Durability::Durable).unwrap();
    Arc::new(lost)
}

/// E22.3.
#[test]
fn lost_page_and_space_map_are_named() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let (page, other) = store.transact(|txn| Ok((page_with_zeros(txn)?, page_with_zeros(txn)?))).unwrap();
    store.checkpoint().unwrap();
    // Another batch overwrites their images in the double-write area.
    store.transact(|txn| txn.update(at(other, 1), &Add { amount: 1 })).unwrap();
    store.close().unwrap();

    let is_named = |error: &Error, page: u64| {
        matches!(error, Error::Pages(PoolError::Damaged { offset, damage, .. })
            if *offset == page * PAGE_LEN as u64 && damage.what.contains("zeros"))
    };
    let store = open(&lost(&disk, page.get())).unwrap();
    let error = store.check().unwrap_err();
    assert!(is_named(&error, page.get()), "{error}");
    let error = open(&lost(&disk, 0)).map(drop).expect_err("the space map is lost").into();
    assert!(is_named(&error, 0), "{error}");
    open(&disk).unwrap().check().unwrap();
}

/// As [`Add`] in the log, with a redo that changes half of its number and then finds the page damaged.
#[derive(Debug, Serialize, Deserialize)]
struct HalfAdd {
    amount: i64,
}

impl Operation for HalfAdd {
    const NAME: &'static str = Add::NAME;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(HalfAdd { amount: -self.amount }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        page.put(usize::from(at.0) * 8, &[77; 4])?;
        Err(Damaged::in_body(page.page_ref().id(), 0, "it is damaged"))
    }
}

/// R2a: what such openings write changes nothing for the next one, which finds the same damage, or none after a repair.
#[test]
fn damage_in_redo_is_found_again() {
    let options = |redo_threads| Options { redo_threads, redo_on_demand_bytes: u64::MAX, ..options() };
    let (page, disk) = {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let [page, other] = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
        store.checkpoint().unwrap();
        store.transact(|txn| txn.update(at(other, 0), &Add { amount: 1 })).unwrap();
        store.checkpoint().unwrap(); // its image is in the double-write area, in place of that of the first page
        store.transact(|txn| txn.update(at(page, 1), &Add { amount: 1 })).unwrap();
        (page, Arc::new(SimDisk::from_image(disk.image())))
    };
    let home = page.get() * PAGE_LEN as u64 + 100;
    let flip = || disk.corrupt(PAGE_FILE, home, cedrat_media::Damage::Flip { bit: 0 }).unwrap();
    let broken = || Registry::new().operation::<HalfAdd>().logical::<Subtract>().logical::<SubtractTen>();
    for redo_threads in [0, 2, 0, 2] {
        flip();
        let refused: Error = open_with(&disk, options(redo_threads)).map(drop).expect_err("R2a").into();
        assert!(matches!(&refused, Error::Pages(PoolError::Damaged { file, .. }) if file == PAGE_FILE), "{refused}");
        flip();
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&disk);
        let refused: Error = Store::open(media, options(redo_threads), broken()).map(drop).expect_err("R2a").into();
        assert!(refused.to_string().contains("it is damaged"), "{refused}");
    }
    let store = open_with(&disk, options(2)).expect("R2a: it is repaired");
    assert_eq!(numbers(&store, page), [0, 1, 0, 0], "E6.3b");
    store.check().unwrap();
}
