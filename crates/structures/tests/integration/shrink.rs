//! Structures that shrink: the space of a store after most of its elements were removed, and under a steady load.

use std::io::ErrorKind;

use cedrat_media::{Call, Fault, SimDisk};
use cedrat_structures::{RawHashTable, RawList, RawPageList};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, NoLocks, Options, Result, Store};

use crate::common::{check_all, open_with};

const VALUE_LEN: usize = 200;

fn store_on(disk: &Arc<SimDisk>) -> Store {
    let options = Options { locks: Arc::new(NoLocks), log_limit_bytes: 16 << 20, ..Options::simulated() };
    open_with(disk, options)
}

fn pages_in_use(store: &Store) -> u64 {
    store.check().unwrap().pages_allocated
}

/// Puts these keys, some hundred in each transaction.
fn fill(store: &Store, table: &RawHashTable, keys: impl Iterator<Item = u64>) {
    let keys: Vec<u64> = keys.collect();
    for some in keys.chunks(500) {
        let put = |key: &u64, txn: &mut _| table.put(txn, &key.to_le_bytes(), &[1; VALUE_LEN]).map(drop);
        store.transact(|txn| some.iter().try_for_each(|key| put(key, txn))).unwrap();
    }
}

fn remove(store: &Store, table: &RawHashTable, keys: impl Iterator<Item = u64>) {
    let keys: Vec<u64> = keys.collect();
    for some in keys.chunks(500) {
        store.transact(|txn| some.iter().try_for_each(|key| table.remove(txn, &key.to_le_bytes()).map(drop))).unwrap();
    }
}

/// After nine tenths were removed, a table takes at most 1.3 times the pages of one that never had more, whatever the number of
/// its entries was.
#[test]
fn table_shrinks_with_its_entries() -> Result<()> {
    for entries in [3_000, 10_000, 14_000, 20_000] {
        let store = store_on(&Arc::new(SimDisk::new()));
        let empty = pages_in_use(&store);
        let table = store.transact(RawHashTable::create)?;
        fill(&store, &table, (0..entries).step_by(10));
        let fresh = pages_in_use(&store) - empty;
        fill(&store, &table, 0..entries);
        let full = pages_in_use(&store) - empty;
        remove(&store, &table, (0..entries).filter(|key| key % 10 != 0));
        store.checkpoint()?;
        let shrunk = pages_in_use(&store) - empty;
        assert!(shrunk * 10 <= fresh * 13, "{entries} entries: {shrunk} pages of {full}, {fresh} before");
        let checked = table.check(&store.begin())?;
        checked.expect_sound();
        assert_eq!(checked.elements, entries / 10);
    }
    Ok(())
}

/// Removals from a table that stays as large free the pages of chains.
#[test]
fn sparse_chains_are_folded() -> Result<()> {
    let store = store_on(&Arc::new(SimDisk::new()));
    let table = store.transact(RawHashTable::create)?;
    fill(&store, &table, 0..9_700);
    let before = table.check(&store.begin())?.overflow;
    remove(&store, &table, (0..9_700).filter(|key| key % 3 == 0));
    store.checkpoint()?;
    let checked = table.check(&store.begin())?;
    checked.expect_sound();
    assert!(checked.overflow * 3 < before, "{} overflow pages of {before}", checked.overflow);
    Ok(())
}

/// An open transaction has removed most entries. Its rollback finds the pages that it needs on a full disk, because the table
/// does not shrink before (S10a, E16.6).
#[test]
fn full_disk_restores_removed_entries() -> Result<()> {
    let disk = Arc::new(SimDisk::new());
    let store = store_on(&disk);
    let table = store.transact(RawHashTable::create)?;
    fill(&store, &table, 0..3_000);
    let mut txn = store.begin();
    (0..3_000_u64).try_for_each(|key| table.remove(&mut txn, &key.to_le_bytes()).map(drop))?;
    let before = pages_in_use(&store);
    store.checkpoint()?;
    assert_eq!(pages_in_use(&store), before, "S10a");
    disk.inject(Fault::error(Call::Allocate, ErrorKind::StorageFull).of("pages").permanent());
    while store.transact(|txn| txn.allocate()).is_ok() {}
    txn.rollback()?;
    let checked = table.check(&store.begin())?;
    checked.expect_sound();
    assert_eq!(checked.elements, 3_000);
    Ok(())
}

/// A table from which a committed transaction has removed all has one bucket left, and grows again.
#[test]
fn emptied_table_grows_again() -> Result<()> {
    let store = store_on(&Arc::new(SimDisk::new()));
    let table = store.transact(RawHashTable::create)?;
    check_all(&store);
    let empty = pages_in_use(&store);
    for _ in 0..3 {
        fill(&store, &table, 0..3_000);
        let mut txn = store.begin();
        (0..3_000_u64).try_for_each(|key| table.remove(&mut txn, &key.to_le_bytes()).map(drop))?;
        txn.commit(Commit::NoFlush)?;
        store.checkpoint()?;
        let checked = table.check(&store.begin())?;
        assert_eq!(pages_in_use(&store), empty, "{checked:?}");
        check_all(&store);
    }
    Ok(())
}

/// Lists free the pages whose elements were removed.
#[test]
fn lists_shrink_with_their_elements() -> Result<()> {
    const ELEMENTS: u64 = 4_000;
    let store = store_on(&Arc::new(SimDisk::new()));
    let empty = pages_in_use(&store);
    let (list, pages) = store.transact(|txn| Ok((RawList::create(txn)?, RawPageList::create(txn)?)))?;
    for _ in 0..ELEMENTS / 100 {
        store.transact(|txn| {
            (0..100_u8).try_for_each(|n| list.push_back(txn, &[n; 100]).and_then(|()| pages.push_back(txn, &[n; 100])))
        })?;
    }
    let full = pages_in_use(&store) - empty;
    for _ in 0..ELEMENTS * 9 / 1000 {
        store.transact(|txn| {
            (0..100).try_for_each(|_| list.pop_front(txn).map(drop).and_then(|()| pages.pop_front(txn).map(drop)))
        })?;
    }
    let shrunk = pages_in_use(&store) - empty;
    assert!(shrunk * 100 <= full * 13, "{shrunk} pages of {full}");
    Ok(())
}

/// A steady load of inserts, updates and removals writes a hundred times the data. The store does not grow meanwhile, and does not
/// split and merge buckets by turns.
#[test]
fn steady_load_keeps_size_level() -> Result<()> {
    const LIVE: u64 = 2_000;
    let disk = Arc::new(SimDisk::new());
    let store = store_on(&disk);
    let table = store.transact(RawHashTable::create)?;
    fill(&store, &table, 0..LIVE);
    let mut sizes = Vec::new();
    for round in 0..100 {
        let first = round * LIVE / 2;
        for some in (0..LIVE / 2).step_by(100) {
            store.transact(|txn| {
                for n in some..some + 100 {
                    table.remove(txn, &(first + n).to_le_bytes())?;
                    table.put(txn, &(first + LIVE + n).to_le_bytes(), &[round as u8; VALUE_LEN])?;
                    table.put(txn, &(first + LIVE + n / 2).to_le_bytes(), &[n as u8; VALUE_LEN / 2])?;
                }
                Ok(())
            })?;
        }
        store.checkpoint()?;
        sizes.push((pages_in_use(&store), disk.space()));
    }
    let (early, late) = sizes.split_at(20);
    let most = |sizes: &[(u64, u64)]| (sizes.iter().map(|size| size.0).max(), sizes.iter().map(|size| size.1).max());
    assert!(most(late) <= most(early), "{:?} after {:?}", most(late), most(early));
    let checked = table.check(&store.begin())?;
    checked.expect_sound();
    assert_eq!(checked.elements, LIVE);
    Ok(())
}
