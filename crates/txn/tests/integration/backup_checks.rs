//! Checks of backups: each byte of one counts.

use cedrat_heap::HeapOptions;
use cedrat_media::{Durability, Media, OpenMode, SimDisk};
use cedrat_pages::{PAGE_FILE, PAGE_LEN};
use cedrat_sync::Arc;
use cedrat_txn::{BackupCheck, BackupOptions, Error, Options, Result, Store, check_backup};
use cedrat_wal::LogError;

use crate::common::*;

/// A backup with pages, free ones too, heaps, and a log that was recycled; and an archive that continues it.
fn backed_up() -> (SimDisk, SimDisk) {
    let (backup, archive) = (SimDisk::new(), SimDisk::new());
    let options = Options { archive: Some(media(&archive)), ..options() };
    let store = Store::open(Arc::new(SimDisk::new()), options, registry()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let freed = store.transact(page_with_zeros).unwrap();
    let words = HeapOptions { chunk_len: 4096, size: 1 << 15, ..HeapOptions::raw(1 << 16) };
    let heap = store.memory().create_heap("words", &words).unwrap();
    let add = || store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    for _ in 0..6 {
        (0..60).for_each(|_| add());
        store.checkpoint().unwrap();
    }
    heap.atomically(|tx| tx.write(&heap, 8, 5)).unwrap();
    store.transact(|txn| txn.free(freed)).unwrap();
    store.backup(&media(&backup), BackupOptions::default()).unwrap();
    store.memory().create_heap("later", &words).unwrap();
    (0..60).for_each(|_| add());
    store.extend_archive().unwrap();
    (backup, archive)
}

fn checked(backup: &SimDisk, archive: Option<&SimDisk>) -> Result<BackupCheck> {
    check_backup(&media(backup), archive.map(media).as_ref())
}

/// Returns what a check says of a disk with one bit flipped.
fn with_flipped_bit(disk: &SimDisk, name: &str, bit: u64) -> SimDisk {
    let disk = SimDisk::from_image(disk.image());
    let file = disk.open(name, OpenMode::ReadWrite).unwrap();
    let mut byte = [0];
    disk.read_at(file, bit / 8, &mut byte).unwrap();
    disk.write_at(file, bit / 8, &[byte[0] ^ 1 << (bit % 8)], Durability::Durable).unwrap();
    disk
}

/// Returns bits of a file: some at random, and those of the first bytes and of the last ones.
fn bits(random: &mut Random, len: u64) -> Vec<u64> {
    let count = if cfg!(miri) { 2 } else { 30 };
    let mut bits: Vec<u64> = (0..count).map(|_| random.below(len * 8)).collect();
    bits.extend((0..len.min(200) * 8).step_by(37));
    bits.extend([len * 8 - 1]);
    bits
}

/// Whether a problem names an offset in its file.
fn has_place(problem: &str) -> bool {
    problem.contains("byte ") || problem.contains("offset ")
}

/// E18.14: a bit is flipped anywhere.
#[test]
fn each_flipped_bit_is_named() {
    let (backup, _) = backed_up();
    let whole = checked(&backup, None).unwrap();
    assert!(whole.problems.is_empty() && !whole.was_opened && whole.pages > 0, "E18.14: {whole:?}");
    let image = backup.image();
    let (mut random, mut missed, mut cases) = (Random::new(7), Vec::new(), 0);
    for name in image.names() {
        let len = image.file(name).unwrap().len() as u64;
        for bit in bits(&mut random, len.max(1)).into_iter().filter(|_| len > 0) {
            cases += 1;
            let problems = match checked(&with_flipped_bit(&backup, name, bit), None) {
                Ok(check) => check.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                Err(error) => error.to_string(),
            };
            // The header of a segment names the part of the log that is missing without it.
            let is_named = problems.contains(name) || name.starts_with("log/") && problems.contains("no file");
            if !is_named || !has_place(&problems) {
                missed.push((name.to_owned(), bit, problems));
            }
        }
    }
    assert!(missed.is_empty(), "E18.14: {} of {cases}: {:?}", missed.len(), &missed[..missed.len().min(5)]);
}

/// E18.14: a file is missing, or has lost its end.
#[test]
fn missing_and_shortened_files_are_named() {
    let (backup, _) = backed_up();
    let image = backup.image();
    for name in image.names() {
        let len = image.file(name).unwrap().len() as u64;
        let last_used = image.file(name).unwrap().iter().rposition(|&byte| byte != 0);
        let lens =
            [None, last_used.map(|last| last as u64), last_used.map(|_| 0), last_used.map(|_| len.min(4096) / 2)];
        for len in lens.into_iter().enumerate().filter_map(|(at, len)| (at == 0 || len.is_some()).then_some(len)) {
            let damaged = SimDisk::from_image(backup.image());
            match len {
                None => damaged.remove(name).unwrap(),
                Some(len) => {
                    let file = damaged.open(name, OpenMode::ReadWrite).unwrap();
                    damaged.set_len(file, len).unwrap();
                }
            }
            let problems = checked(&damaged, None).map_or(1, |check| check.problems.len());
            let is_whole = len.is_none() && last_used.is_none();
            assert!(problems > 0 || is_whole, "E18.14: {name}, of {len:?} bytes");
        }
    }
}

/// E18.14: also pages that were allocated and never written.
#[test]
fn each_shorter_page_file_is_named() {
    let store = Store::open(Arc::new(SimDisk::new()), options(), registry()).unwrap();
    store.transact(page_with_zeros).unwrap();
    let last = store.transact(|txn| txn.allocate()).unwrap();
    for is_home in [false, true] {
        if is_home {
            store.checkpoint().unwrap();
        }
        let backup = SimDisk::new();
        store.backup(&media(&backup), BackupOptions::default()).unwrap();
        assert!(checked(&backup, None).unwrap().problems.is_empty());
        for pages in 0..=last.get() {
            let shorter = SimDisk::from_image(backup.image());
            let file = shorter.open(PAGE_FILE, OpenMode::ReadWrite).unwrap();
            shorter.set_len(file, pages * PAGE_LEN as u64).unwrap();
            let problems = checked(&shorter, None).unwrap().problems;
            let is_named = problems.iter().any(|problem| problem.to_string().contains(PAGE_FILE));
            assert!(is_named, "E18.14: {pages} pages of {last}: {problems:?}");
        }
    }
}

/// E18.14a: a bit of a record of the archive is flipped.
#[test]
fn flipped_bit_of_archive_is_named() {
    let (backup, archive) = backed_up();
    assert!(checked(&backup, Some(&archive)).unwrap().problems.is_empty(), "E18.14a");
    let image = archive.image();
    let mut found = 0;
    for name in image.names().filter(|name| name.starts_with("log/")) {
        let bytes = image.file(name).unwrap();
        for place in (4096..bytes.len() as u64).step_by(641).filter(|&place| bytes[place as usize] != 0) {
            match checked(&backup, Some(&with_flipped_bit(&archive, name, place * 8))) {
                Ok(check) => {
                    let problem = check.problems.first().expect("E18.14a").to_string();
                    assert!(problem.contains(name) && has_place(&problem), "E18.14a: {problem}");
                }
                Err(error) => assert!(error.to_string().contains(name), "E18.14a: {error}"),
            }
            found += 1;
        }
    }
    assert!(found > 10, "{found}");
}

/// An opening changes a backup: what is in use is checked then.
#[test]
fn opened_backup_is_checked_as_store() {
    let (backup, archive) = backed_up();
    let store = open(&Arc::new(backup.clone())).unwrap();
    assert!(matches!(checked(&backup, None), Err(Error::Open(_))), "it is open");
    let page = store.transact(page_with_zeros).unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    drop(store);
    let check = checked(&backup, None).unwrap();
    assert!(check.was_opened && check.problems.is_empty(), "{check:?}");
    let error = checked(&archive, None).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::Foreign { .. })), "{error}");
}
