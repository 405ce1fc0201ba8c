//! Pages are rebuilt from what archive and backup have at that time: carried branches, forgotten log, failing disks.

use cedrat_media::{Call, Damage, Durability, Fault, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{PAGE_FILE, PAGE_LEN, PageId};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::thread;
use cedrat_txn::{BackupOptions, Commit, ForgetBefore, Options, Store, Txn, Vote};
use std::io::ErrorKind;

use crate::common::*;
use crate::rebuilt::*;

fn add(store: &Store, page: PageId, amount: i64) {
    store.transact(|txn| txn.update(at(page, 0), &Add { amount })).unwrap();
}

/// Returns a transaction whose records are in this one of two partitions.
fn begin_in(store: &Store, partition: u64) -> Txn {
    loop {
        let txn = store.begin();
        if txn.id().0 % 2 == partition {
            return txn;
        }
    }
}

fn back_up(store: &Store) -> SimDisk {
    let to = SimDisk::new();
    store.backup(&media(&to), BackupOptions::default()).unwrap();
    to
}

/// Returns the number of a page that is damaged at home, and not in memory.
fn number_of_damaged(disk: &SimDisk, store: &Store, page: PageId, others: &[PageId]) -> Result<i64, String> {
    evict(store, page, others);
    flip_a_bit(disk, page);
    read_number(store, at(page, 0)).map_err(|error| error.to_string())
}

/// E18.17: the newest record that formats the page is not the copy of it, which was carried forward.
#[test]
fn page_of_carried_branch_is_rebuilt() {
    let to = SimDisk::new();
    let options = Options { carry_forward_bytes: Some(1), ..options_of(&to, None) };
    let (disk, store, others) = many_pages(options, 40);
    let mut txn = store.begin();
    let page = page_with_zeros(&mut txn).unwrap();
    txn.update(at(page, 0), &Add { amount: 5 }).unwrap();
    let Vote::Prepared(branch) = txn.prepare(b"branch").unwrap() else { panic!("it has changed") };
    drop(branch);
    let prepared = store.log().current_lsn();
    (0..200).for_each(|_| add(&store, others[0], 1));
    store.checkpoint().unwrap();
    assert!(store.log().control().checkpoint.scan_lsn > prepared, "it is carried forward");
    store.prepared(b"branch").unwrap().commit(Commit::Sync).unwrap();
    assert_eq!(number_of_damaged(&disk, &store, page, &others), Ok(5), "E18.17");
}

/// E18.17c: the archive has continued the backup until it forgot what follows it.
#[test]
fn page_of_forgotten_log_is_refused() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 40);
    let backup = back_up(&store);
    drop(store);
    let store = opened(&disk, options_of(&to, Some(&backup))).unwrap();
    assert_eq!(number_of_damaged(&disk, &store, pages[3], &pages), Ok(3));
    add(&store, pages[4], 100);
    store.checkpoint().unwrap();
    let younger = media(&back_up(&store));
    store.extend_archive().unwrap();
    store.forget_archive(ForgetBefore::Backup(&younger)).unwrap();
    let error = number_of_damaged(&disk, &store, pages[4], &pages).expect_err("E18.17c");
    assert!(error.contains("a backup that the archive does not continue"), "E18.17c: {error}");
}

/// E18.17: one partition of the archive begins with the record that formats the page, another one behind its next change.
#[test]
fn page_with_forgotten_change_is_refused() {
    let to = SimDisk::new();
    let options = Options { archive_run_bytes: 1 << 20, ..options_of(&to, None) };
    let (disk, store, others) = many_pages(options, 40);
    let mut txn = begin_in(&store, 0);
    let page = page_with_zeros(&mut txn).unwrap();
    txn.commit(Commit::Sync).unwrap();
    for number in 0..3000 {
        let mut txn = begin_in(&store, 1);
        let of = if number < 10 { page } else { others[0] };
        txn.update(at(of, 0), &Add { amount: 1 }).unwrap();
        txn.commit(Commit::Async).unwrap();
    }
    store.checkpoint().unwrap();
    assert_eq!(number_of_damaged(&disk, &store, others[1], &others), Ok(1));
    let first = store.extend_archive().unwrap();
    store.forget_archive(ForgetBefore::Lsn(first)).unwrap();
    let error = number_of_damaged(&disk, &store, page, &others).expect_err("E18.17");
    assert!(error.contains("the archive begins at LSN"), "E18.17: {error}");
}

/// The backup has a damaged page, and the archive all records of the store.
#[test]
fn page_damaged_in_backup_is_rebuilt() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 40);
    let backup = back_up(&store);
    drop(store);
    backup.corrupt(PAGE_FILE, pages[3].get() * PAGE_LEN as u64 + 900, Damage::Flip { bit: 3 }).unwrap();
    let store = opened(&disk, options_of(&to, Some(&backup))).unwrap();
    assert_eq!(number_of_damaged(&disk, &store, pages[3], &pages), Ok(3), "E18.17");
}

/// E18.17: the thread holds another page, beside which it may read pages, and change none.
#[test]
fn page_is_rebuilt_beside_held_page() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 40);
    evict(&store, pages[3], &pages);
    flip_a_bit(&disk, pages[3]);
    let held = store.read(pages[5]).unwrap();
    assert_eq!(read_number(&store, at(pages[3], 0)).unwrap(), 3, "E18.17");
    drop(held);
}

/// E18.16b: a file of the index cannot be read.
#[test]
fn unreadable_index_is_made_again() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 60);
    assert_eq!(number_of_damaged(&disk, &store, pages[50], &pages), Ok(50));
    to.inject(Fault::error(Call::Read, ErrorKind::Other).of("index/"));
    assert_eq!(number_of_damaged(&disk, &store, pages[3], &pages), Ok(3), "E18.16b");
    drop(store);
    let store = opened(&disk, options_of(&to, None)).unwrap();
    to.inject(Fault::error(Call::Read, ErrorKind::Other).of("index/"));
    assert_eq!(number_of_damaged(&disk, &store, pages[4], &pages), Ok(4), "E18.16b: as it is opened");
}

/// The archive forgets its beginning while the page is read that needs younger records alone.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn page_is_rebuilt_while_archive_forgets() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 40);
    (0..1000).for_each(|_| add(&store, pages[0], 1));
    store.checkpoint().unwrap();
    let first = store.extend_archive().unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    add(&store, page, 7);
    evict(&store, page, &pages);
    flip_a_bit(&disk, page);
    let forgets = AtomicBool::new(true);
    let of_hook = store.clone();
    to.before_each_call(move |_, call, name| {
        if call == Call::Read && name.starts_with("log/") && forgets.swap(false, Ordering::SeqCst) {
            let store = of_hook.clone();
            thread::spawn(move || store.forget_archive(ForgetBefore::Lsn(first)).unwrap()).join().unwrap();
        }
    });
    assert_eq!(read_number(&store, at(page, 0)).unwrap(), 7, "E18.17");
}

/// The disk of the archive is full, and has all log: the newest part of the index stays in memory.
#[test]
fn page_is_rebuilt_beside_full_disk() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(Options { archive_run_bytes: 64 << 10, ..options_of(&to, None) }, 40);
    assert_eq!(number_of_damaged(&disk, &store, pages[3], &pages), Ok(3));
    for changes in 1..20 {
        (0..changes).for_each(|_| add(&store, pages[0], 1));
        evict(&store, pages[3], &pages);
        store.extend_archive().unwrap();
        to.set_capacity(Some(to.space()));
        assert_eq!(number_of_damaged(&disk, &store, pages[3], &pages), Ok(3), "E18.17: after {changes} changes");
        to.set_capacity(None);
        // The next one writes what was left.
        add(&store, pages[0], 1);
        assert_eq!(number_of_damaged(&disk, &store, pages[3], &pages), Ok(3));
    }
}

/// An archive begins in an empty directory: the index of a removed one may be of another history.
#[test]
fn archive_beside_foreign_index_is_refused() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(options_of(&to, None), 40);
    assert_eq!(number_of_damaged(&disk, &store, pages[3], &pages), Ok(3));
    drop(store);
    for directory in ["log/", ""] {
        let names = to.list(directory.trim_end_matches('/')).unwrap();
        names.iter().for_each(|name| to.remove(&format!("{directory}{name}")).unwrap());
    }
    let error = opened(&disk, options_of(&to, None)).expect_err("it has an index").to_string();
    assert!(error.contains("index/"), "{error}");
}

/// E18.17b: the store opens without its backup, and only a page that needs it is refused.
#[test]
fn store_opens_beside_unreadable_backup() {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(Options { archive: None, ..options_of(&to, None) }, 40);
    store.close().unwrap();
    let store = opened(&disk, options_of(&to, Some(&SimDisk::new()))).expect("E18.17b");
    let page = store.transact(page_with_zeros).unwrap();
    assert_eq!(number_of_damaged(&disk, &store, page, &pages), Ok(0), "the archive has it from its beginning");
    let error = number_of_damaged(&disk, &store, pages[3], &pages).expect_err("E18.17b");
    assert!(error.contains("the backup from which damaged pages are rebuilt cannot be read"), "E18.17b: {error}");
    assert_eq!(read_number(&store, at(pages[4], 0)).unwrap(), 4);
}

/// A store whose archive begins after its backup has the pages, and the backup.
fn late_archive() -> (SimDisk, SimDisk, SimDisk, Vec<PageId>) {
    let to = SimDisk::new();
    let (disk, store, pages) = many_pages(Options { archive: None, ..options_of(&to, None) }, 40);
    store.close().unwrap();
    let store = opened(&disk, options_of(&to, None)).unwrap();
    let backup = back_up(&store);
    add(&store, pages[3], 100);
    store.close().unwrap();
    (disk, to, backup, pages)
}

/// E18.17e: the backup's copy of the page is lost: it reads as zeros, or the file ends before it.
#[test]
fn page_lost_in_backup_is_refused() {
    let (disk, to, backup, pages) = late_archive();
    let lost = pages[3].get() * PAGE_LEN as u64;
    let rebuilt = |backup: &SimDisk| {
        let (disk, to) = (after(&disk, Loss::Everything), after(&to, Loss::Everything));
        let store = opened(&disk, options_of(&to, Some(backup))).unwrap();
        number_of_damaged(&disk, &store, pages[3], &pages)
    };
    assert_eq!(rebuilt(&backup), Ok(103), "E18.17");
    let file = |backup: &SimDisk| backup.open(PAGE_FILE, OpenMode::ReadWrite).unwrap();
    let zeroed = after(&backup, Loss::Everything);
    zeroed.write_at(file(&zeroed), lost, &[0; PAGE_LEN], Durability::Durable).unwrap();
    let error = rebuilt(&zeroed).expect_err("E18.17e");
    assert!(error.contains("the write was lost"), "E18.17e: {error}");
    let short = after(&backup, Loss::Everything);
    short.set_len(file(&short), lost).unwrap();
    let error = rebuilt(&short).expect_err("E18.17e");
    assert!(error.contains("does not exist"), "E18.17e: {error}");
}
