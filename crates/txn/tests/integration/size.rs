//! The size of a store: small when it is empty, and level under a steady load.

use cedrat_heap::{Commit, HeapOptions};
use cedrat_media::{Media, RealDisk, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{Options, Store};
use cedrat_wal::{ByteLen, SEGMENT_LEN_MIN};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::*;

/// Returns the bytes that the files below a directory take on their file system.
fn taken(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata().unwrap() {
            metadata if metadata.is_dir() => taken(&entry.path()),
            metadata => metadata.blocks() * 512,
        })
        .sum()
}

/// With all its threads, and after it was closed.
#[test]
fn empty_store_takes_a_mebibyte() {
    let folder = tempfile::tempdir().unwrap();
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(folder.path()));
    let store = Store::open(media, Options::default(), registry()).unwrap();
    assert!(taken(folder.path()) <= 1 << 20, "{}", taken(folder.path()));
    let page = store.transact(page_with_zeros).unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    store.checkpoint().unwrap();
    assert!(taken(folder.path()) <= 1 << 20, "{}", taken(folder.path()));
    let heap = store.memory().create_heap("heap", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) }).unwrap();
    // The threads of the log may have prepared a segment file more.
    let more = (1 << 20) + SEGMENT_LEN_MIN;
    assert!(taken(folder.path()) <= more, "{}", taken(folder.path()));
    drop((heap, store));
    assert!(taken(folder.path()) <= more, "{}", taken(folder.path()));
}

/// Each commit writes a block of the log, as long as a page. A hundred times as much is written as there are pages.
#[test]
fn steady_updates_keep_size_level() {
    const PAGES: usize = 64;
    let disk = Arc::new(SimDisk::new());
    let log = Options::default();
    let options = Options { segment_len: log.segment_len, log_limit_bytes: log.log_limit_bytes, ..options() };
    let store = open_with(&disk, options).unwrap();
    let pages: Vec<PageId> = (0..PAGES).map(|_| store.transact(page_with_zeros).unwrap()).collect();
    let update_all = |times: usize| {
        for _ in 0..times {
            for &page in &pages {
                store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
            }
            store.checkpoint().unwrap();
        }
        disk.space()
    };
    let before = update_all(10);
    assert!(before < 4 << 20, "{before}");
    for round in 0..10 {
        assert_eq!(update_all(10), before, "in round {round}");
    }
}

/// E16.10: the space of a long record is there already, or nearly, from requests for short ones.
#[test]
fn pieced_reservation_makes_segments_longer() {
    const KIND: &str = "test.long";
    let options = || Options { segment_len: Options::default().segment_len, log_limit_bytes: 1 << 30, ..options() };
    let is_short = |store: &Store, len: u64| store.log().needs_longer_segments(ByteLen(len), ByteLen(0));
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let store = Store::open(media, options(), registry().record_kind(KIND)).unwrap();
    let mut txn = store.begin();
    for len in [100, 10_000] {
        assert!(is_short(&store, 10_000));
        txn.log_record(KIND, &vec![7; len]).unwrap();
    }
    assert!(!is_short(&store, 10_000), "E16.10");
    txn.commit(cedrat_txn::Commit::Sync).unwrap();

    let store = open_with(&Arc::new(SimDisk::new()), options()).unwrap();
    let heap =
        store.memory().create_heap("heap", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(1 << 20) }).unwrap();
    let mut session = store.memory().session().unwrap();
    let mut write = |words: u64| {
        let write_all = |tx: &mut cedrat_heap::Tx<'_>| (0..words).try_for_each(|word| tx.write(&heap, word * 8, word));
        session.run(Commit::Async, write_all).unwrap();
    };
    write(1);
    // A word takes at most 32 bytes.
    assert!(is_short(&store, 1200 * 32));
    write(1200);
    assert!(!is_short(&store, 1200 * 32), "E16.10");
}
