//! Interleavings of threads at one bucket with several pages, under the seeded scheduler (S2, S3).

use cedrat_media::{Media, SimDisk};
use cedrat_sync::{Arc, explore, thread};
use cedrat_txn::{Commit, NoLocks, Options, Registry, Result, Store, Txn};

use super::bucket::KeyHash;
use super::ops::Insert;
use super::table::RawHashTable;

const SCHEDULES: usize = 300;

/// Length at which two values fill a page.
const VALUE_LEN: usize = 1800;

fn open() -> Store {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let options = Options { locks: Arc::new(NoLocks), ..Options::simulated() };
    Store::open(media, options, Registry::new().with(crate::register)).expect("it opens")
}

/// Creates a table of one bucket with these keys: no insert has split it.
fn one_bucket(store: &Store, keys: &[&[u8]]) -> RawHashTable {
    let put = |table: &RawHashTable, txn: &mut Txn, key: &[u8]| {
        let hash = KeyHash::of(key, table.seed);
        let value = vec![0; VALUE_LEN].into();
        let insert = Insert { root: table.root.get(), key: key.into(), value, hash: Some(hash), chain_known: true };
        let _shape = table.resident.latch.exclusive();
        table.put_anywhere(txn, &insert, hash, 0)
    };
    let made = store.transact(|txn| {
        let table = RawHashTable::create(txn)?;
        keys.iter().try_for_each(|key| put(&table, txn, key).map(drop))?;
        Ok(table)
    });
    made.expect("a table")
}

/// Runs each of `works` in a separate transaction on a separate thread, and checks the resulting number of elements.
fn meet(keys: &'static [&'static [u8]], works: &'static [fn(&RawHashTable, &mut Txn) -> Result<()>], elements: u64) {
    meet_in(|store| one_bucket(store, keys), works, elements);
}

/// As [`meet`], in a table that `make` creates.
fn meet_in(
    make: impl Fn(&Store) -> RawHashTable + Send + Sync + 'static,
    works: &'static [fn(&RawHashTable, &mut Txn) -> Result<()>],
    elements: u64,
) {
    explore(11, SCHEDULES, move || {
        let store = open();
        let table = make(&store);
        let threads: Vec<_> = works
            .iter()
            .map(|work| {
                let (store, table) = (store.clone(), table.clone());
                thread::spawn(move || {
                    let mut txn = store.begin();
                    work(&table, &mut txn).expect("it works");
                    txn.commit(Commit::NoFlush).expect("it commits");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        let checked = table.check(&store.begin()).expect("it can be looked at");
        assert!(checked.is_sound(), "{:?}", checked.problems);
        assert_eq!(checked.elements, elements);
    });
}

fn put(table: &RawHashTable, txn: &mut Txn, key: &[u8]) -> Result<()> {
    table.put(txn, key, &[7; VALUE_LEN]).map(drop)
}

#[test]
fn concurrent_puts_store_key_once() {
    meet(&[b"a", b"b", b"c"], &[|table, txn| put(table, txn, b"new"), |table, txn| put(table, txn, b"new")], 4);
}

#[test]
fn concurrent_puts_into_full_page_succeed() {
    meet(&[b"a", b"b"], &[|table, txn| put(table, txn, b"c"), |table, txn| put(table, txn, b"d")], 4);
}

#[test]
fn one_removes_what_another_puts_again() {
    let works: &[fn(&RawHashTable, &mut Txn) -> Result<()>] = &[
        |table, txn| table.remove(txn, b"c").map(drop),
        |table, txn| table.remove(txn, b"b").map(drop),
        |table, txn| put(table, txn, b"d").and_then(|()| put(table, txn, b"e")),
    ];
    meet(&[b"a", b"b", b"c"], works, 3);
}

#[test]
fn insert_is_undone_during_concurrent_puts() {
    let works: &[fn(&RawHashTable, &mut Txn) -> Result<()>] = &[
        |table, txn| {
            let before = txn.savepoint();
            put(table, txn, b"gone")?;
            table.remove(txn, b"a")?;
            txn.rollback_to(before)
        },
        |table, txn| put(table, txn, b"d").and_then(|()| put(table, txn, b"e")),
    ];
    meet(&[b"a", b"b", b"c"], works, 5);
}

/// Creates a table of several buckets, with few entries.
fn many_buckets(store: &Store) -> RawHashTable {
    let made = store.transact(|txn| {
        let table = RawHashTable::create(txn)?;
        (0..24_u8).try_for_each(|key| table.put(txn, &[key], &[key; 600]).map(drop))?;
        (8..24_u8).try_for_each(|key| table.remove(txn, &[key]).map(drop))?;
        Ok(table)
    });
    let table = made.expect("a table");
    assert!(table.resident.buckets() > 3, "{} buckets", table.resident.buckets());
    table
}

fn shrink(table: &RawHashTable, txn: &mut Txn) -> Result<()> {
    for _ in 0..4 {
        table.shrink(txn.store())?;
    }
    Ok(())
}

/// Readers, writers, a rollback and a walk beside merges: each entry that stays is found, and returned once (S10b).
#[test]
fn merges_disturb_no_other_thread() {
    let works: &[fn(&RawHashTable, &mut Txn) -> Result<()>] = &[
        shrink,
        |table, txn| {
            assert!((2..8_u8).all(|key| table.get(txn, &[key]).expect("it works") == Some(vec![key; 600])));
            Ok(())
        },
        |table, txn| {
            let before = txn.savepoint();
            table.remove(txn, &[0])?;
            table.put(txn, &[100], &[1; 600])?;
            txn.rollback_to(before)?;
            table.remove(txn, &[1])?;
            table.put(txn, &[101], &[1; 600]).map(drop)
        },
        |table, txn| {
            let mut keys = Vec::new();
            for pair in table.iter(txn)? {
                let (key, _) = pair?;
                keys.extend((2..8).contains(&key[0]).then_some(key[0]));
            }
            keys.sort_unstable();
            assert_eq!(keys, [2, 3, 4, 5, 6, 7], "S10b");
            Ok(())
        },
    ];
    meet_in(many_buckets, works, 8);
}

/// Two threads shrink a table, and a third one lets it grow.
#[test]
fn table_shrinks_and_grows_at_once() {
    let works: &[fn(&RawHashTable, &mut Txn) -> Result<()>] =
        &[shrink, shrink, |table, txn| (200..212_u8).try_for_each(|key| put(table, txn, &[key]))];
    meet_in(many_buckets, works, 20);
}
