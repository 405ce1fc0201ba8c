//! The hash table against a map in memory: commits, rollbacks, savepoints, reopening.

use std::collections::BTreeMap;

use cedrat_media::SimDisk;
use cedrat_structures::{Catalogue, ENTRY_LEN_MAX, HashTable, RawHashTable, StructureError, drop_named};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Error, GROUP_PAGES, NoLocks, Options, Result, Txn, TxnOptions};
use proptest::prelude::*;

use crate::common::{Bench, check_all, in_vain, open_with};

type Table = HashTable<Vec<u8>, Vec<u8>>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn put_entries_are_found_removed_are_not() -> Result<()> {
    let bench = Bench::new();
    let store = bench.store();
    store.transact(|txn| {
        let table = HashTable::<u64, String>::create(txn, "numbers")?;
        for n in 0..1000 {
            assert!(!table.insert(txn, &n, &n.to_string())?);
        }
        for n in 0..1000 {
            assert_eq!(table.get(txn, &n)?, Some(n.to_string()));
        }
        assert_eq!(table.get(txn, &1000)?, None);
        for n in (0..1000).step_by(3) {
            assert!(table.remove(txn, &n)?);
            assert!(!table.remove(txn, &n)?);
        }
        for n in 0..1000 {
            assert_eq!(table.get(txn, &n)?.is_some(), n % 3 != 0);
        }
        assert_eq!(table.len(txn)?, 666);
        Ok(())
    })?;
    check_all(store);
    Ok(())
}

#[test]
fn reopening_finds_only_committed_tables() -> Result<()> {
    let mut bench = Bench::new();
    bench.store().transact(|txn| {
        let table = HashTable::<String, u32>::create(txn, "kept")?;
        table.insert(txn, "a", &1)?;
        Ok(())
    })?;
    in_vain(bench.store(), |txn| {
        let table = HashTable::<String, u32>::create(txn, "never")?;
        for n in 0..2000 {
            table.insert(txn, &n.to_string(), &n)?;
        }
        HashTable::<String, u32>::open(txn, "kept")?.insert(txn, "b", &2)
    })?;
    for _ in 0..2 {
        bench.store().transact(|txn| {
            let table = HashTable::<String, u32>::open(txn, "kept")?;
            assert_eq!(table.get(txn, "a")?, Some(1));
            assert_eq!(table.get(txn, "b")?, None);
            let error = HashTable::<String, u32>::open(txn, "never").unwrap_err();
            assert!(matches!(StructureError::of(&error), Some(StructureError::NoSuchName { .. })), "{error}");
            Ok(())
        })?;
        check_all(bench.store());
        bench.reopen();
    }
    Ok(())
}

/// Without atomicity a creation keeps its name, and a drop removes it.
#[test]
fn names_stay_valid_without_atomicity() -> Result<()> {
    let bench = Bench::new();
    let store = bench.store();
    let without = || store.begin_with(TxnOptions::default().without_atomicity());
    let mut txn = without();
    HashTable::<u64, u64>::create(&mut txn, "t")?.insert(&mut txn, &1, &2)?;
    txn.rollback()?;
    check_all(store);
    store.transact(|txn| {
        assert_eq!(HashTable::<u64, u64>::open(txn, "t")?.get(txn, &1)?, Some(2));
        Ok(())
    })?;
    let mut txn = without();
    drop_named(&mut txn, "t")?;
    txn.rollback()?;
    check_all(store);
    let mut txn = store.begin();
    assert!(HashTable::<u64, u64>::open(&mut txn, "t").is_err());
    Ok(())
}

#[test]
fn too_large_entry_is_refused_with_limit() -> Result<()> {
    let bench = Bench::new();
    bench.store().transact(|txn| {
        let table = RawHashTable::create(txn)?;
        for (key, value) in [(8, ENTRY_LEN_MAX - 8), (ENTRY_LEN_MAX, 0), (0, 0), (0, ENTRY_LEN_MAX), (127, 128)] {
            table.put(txn, &vec![1; key], &vec![2; value])?;
            assert_eq!(table.get(txn, &vec![1; key])?, Some(vec![2; value]));
        }
        let error = table.put(txn, &[1; 9], &vec![2; ENTRY_LEN_MAX - 8]).unwrap_err();
        assert!(error.to_string().contains("3800"), "{error}");
        table.check(txn)?.expect_sound();
        Ok(())
    })
}

#[test]
fn dropped_table_fails_handles_frees_pages() -> Result<()> {
    let bench = Bench::new();
    let store = bench.store();
    let fill = |txn: &mut Txn| -> Result<HashTable<u32, [u8; 8]>> {
        let table = HashTable::create(txn, "t")?;
        for n in 0..3000 {
            table.insert(txn, &n, &[7; 8])?;
        }
        Ok(table)
    };
    let mut table = store.transact(fill)?;
    in_vain(store, |txn| cedrat_structures::drop_named(txn, "t"))?;
    assert_eq!(store.transact(|txn| table.len(txn))?, 3000, "the drop was rolled back");
    let mut lengths = Vec::new();
    for _ in 0..5 {
        store.transact(|txn| cedrat_structures::drop_named(txn, "t"))?;
        let error = store.transact(|txn| table.get(txn, &1)).unwrap_err();
        assert!(matches!(StructureError::of(&error), Some(StructureError::Gone { .. })), "{error}");
        let error = store.transact(|txn| table.insert(txn, &1, &[0; 8])).unwrap_err();
        assert!(matches!(StructureError::of(&error), Some(StructureError::Gone { .. })), "{error}");
        table = store.transact(fill)?;
        check_all(store);
        lengths.push(store.pool().len_pages());
    }
    assert_eq!(lengths[1], lengths[4], "no page leaks: {lengths:?}");
    Ok(())
}

/// S3: pages that an insertion has added stay if its transaction rolls back, because others may have entries in them.
#[test]
fn rolled_back_insertions_leave_pages_of_others() -> Result<()> {
    let bench = Bench::new();
    let store = bench.store();
    let table = store.transact(RawHashTable::create)?;
    let put = |txn: &mut Txn, keys: std::ops::Range<u32>| {
        keys.into_iter().try_for_each(|key| table.put(txn, &key.to_le_bytes(), &[7; 700]).map(drop))
    };
    for round in 0..20 {
        let mut rolls_back = store.begin();
        put(&mut rolls_back, 1_000..1_010 + round)?;
        store.transact(|txn| put(txn, round * 10..round * 10 + 10))?;
        rolls_back.rollback()?;
        let mut txn = store.begin();
        for key in 0..round * 10 + 10 {
            assert!(table.contains(&mut txn, &key.to_le_bytes())?, "S3: key {key}, round {round}");
        }
        let checked = table.check(&txn)?;
        assert!(checked.is_sound() && checked.elements == u64::from(round * 10 + 10), "S3: {:?}", checked.problems);
    }
    Ok(())
}

/// S5.
#[test]
fn handle_of_rolled_back_table_is_refused() -> Result<()> {
    let bench = Bench::new();
    let store = bench.store();
    let table = in_vain(store, |txn| HashTable::<u32, u32>::create(txn, "t"))?;
    let error = store.transact(|txn| table.insert(txn, &1, &1)).unwrap_err();
    assert!(matches!(StructureError::of(&error), Some(StructureError::Gone { .. })), "{error}");
    Ok(())
}

#[test]
fn walk_beside_splits_sees_entries_once() -> Result<()> {
    let bench = Bench::new();
    let store = bench.store();
    let table = store.transact(|txn| {
        let table = HashTable::<u32, u32>::create(txn, "t")?;
        for n in 0..2000 {
            table.insert(txn, &n, &n)?;
        }
        Ok(table)
    })?;
    // Without locks: another transaction splits buckets during the walk.
    let mut walker = store.begin();
    let mut seen = Vec::new();
    for (step, pair) in table.iter(&mut walker)?.enumerate() {
        let (key, value) = pair?;
        assert_eq!(key, value);
        if key < 2000 {
            seen.push(key);
        }
        if step % 10 == 0 {
            let more = 10_000 + 20 * step as u32;
            store.transact(|txn| (more..more + 20).try_for_each(|n| table.insert(txn, &n, &n).map(|_| ())))?;
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..2000).collect::<Vec<_>>());
    walker.commit(Commit::NoFlush)?;
    check_all(store);
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Put(u16, usize, u8),
    Remove(u16),
    Get(u16),
    Walk,
}

#[derive(Clone, Debug)]
enum Ending {
    Commit,
    RollBack,
    /// Rolls back the steps from this one on, and commits the rest.
    ToSavepoint(usize),
    /// The store ends without a rollback.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![8 => 0_usize..20, 2 => 100_usize..700, 1 => 2000_usize..3760];
    prop_oneof![
        10 => (0_u16..600, len, any::<u8>()).prop_map(|(key, len, fill)| Step::Put(key, len, fill)),
        4 => (0_u16..600).prop_map(Step::Remove),
        2 => (0_u16..600).prop_map(Step::Get),
        1 => Just(Step::Walk),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        4 => Just(Ending::Commit),
        2 => Just(Ending::RollBack),
        2 => (0_usize..60).prop_map(Ending::ToSavepoint),
        1 => Just(Ending::Crash),
    ]
}

fn key(number: u16) -> Vec<u8> {
    let mut key = number.to_le_bytes().to_vec();
    key.resize(2 + usize::from(number % 7) * 3, b'k');
    key
}

fn apply(txn: &mut Txn, table: &Table, model: &mut Model, step: &Step) -> Result<()> {
    match step {
        Step::Put(number, len, fill) => {
            let had = table.insert(txn, &key(*number), &vec![*fill; *len])?;
            assert_eq!(had, model.insert(key(*number), vec![*fill; *len]).is_some());
        }
        Step::Remove(number) => assert_eq!(table.remove(txn, &key(*number))?, model.remove(&key(*number)).is_some()),
        Step::Get(number) => assert_eq!(table.get(txn, &key(*number))?, model.get(&key(*number)).cloned()),
        Step::Walk => compare(txn, table, model)?,
    }
    Ok(())
}

fn compare(txn: &mut Txn, table: &Table, model: &Model) -> Result<()> {
    let mut seen = Model::new();
    for pair in table.iter(txn)? {
        let (key, value) = pair?;
        assert!(seen.insert(key, value).is_none(), "seen twice");
    }
    assert_eq!(&seen, model);
    Ok(())
}

fn run(transactions: &[(Vec<Step>, Ending)]) -> Result<()> {
    let mut bench = Bench::new();
    bench.store().transact(|txn| Table::create(txn, "t"))?;
    let mut model = Model::new();
    for (steps, ending) in transactions {
        let store = bench.store().clone();
        let mut txn = store.begin();
        let table = Table::open(&mut txn, "t")?;
        let mut now = model.clone();
        let mut savepoint = None;
        for (n, step) in steps.iter().enumerate() {
            if let Ending::ToSavepoint(at) = ending
                && n == at % steps.len()
            {
                savepoint = Some((txn.savepoint(), now.clone()));
            }
            apply(&mut txn, &table, &mut now, step)?;
        }
        if let Some((savepoint, then)) = savepoint {
            txn.rollback_to(savepoint)?;
            now = then;
            compare(&mut txn, &table, &now)?;
        }
        match ending {
            Ending::Commit | Ending::ToSavepoint(_) => {
                txn.commit(Commit::Sync)?;
                model = now;
            }
            Ending::RollBack => txn.rollback()?,
            Ending::Crash => {
                // The current content of the disk is the crash's image; the running store is irrelevant from here on.
                store.log().force(store.log().current_lsn())?;
                let disk = bench.disk.cut_power(cedrat_media::Loss::Everything);
                drop((txn, table, store));
                bench.disk = cedrat_sync::Arc::new(disk);
                bench.reopen();
            }
        }
        let store = bench.store();
        store.transact(|txn| {
            let table = Table::open(txn, "t")?;
            compare(txn, &table, &model)
        })?;
        check_all(store);
    }
    bench.reopen();
    bench.store().transact(|txn| {
        let table = Table::open(txn, "t")?;
        compare(txn, &table, &model)
    })?;
    check_all(bench.store());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn a_table_does_what_a_map_does(
        transactions in prop::collection::vec((prop::collection::vec(step(), 1..60), ending()), 1..12)
    ) {
        if let Err(error) = run(&transactions) {
            let error: Error = error;
            panic!("{error}");
        }
    }
}

/// S7: a handle has the number of buckets from the end of its opening.
#[test]
fn handle_of_another_opening_is_refused() -> Result<()> {
    let mut bench = Bench::new();
    let old = bench.store().transact(|txn| {
        let table = HashTable::<u64, u64>::create(txn, "table")?;
        table.insert(txn, &1, &1)?;
        Ok(table)
    })?;
    bench.reopen();
    let store = bench.store();
    // Buckets split, which the old handle does not see.
    let new = store.transact(|txn| {
        let table = HashTable::<u64, u64>::open(txn, "table")?;
        (0..5_000).try_for_each(|key| table.insert(txn, &key, &key).map(drop))?;
        Ok(table)
    })?;
    let is_misuse = |error: Option<Error>| matches!(error, Some(Error::Misuse(_)));
    let mut txn = store.begin();
    assert!(is_misuse(old.get(&mut txn, &1).err()), "S7");
    assert!(is_misuse(old.insert(&mut txn, &9_999, &1).err()), "S7");
    assert!(is_misuse(old.remove(&mut txn, &1).err()), "S7");
    assert!(is_misuse(old.len(&mut txn).err()), "S7");
    assert!(is_misuse(old.check(&txn).err()), "S7");
    assert!(is_misuse(old.raw().clone().drop(&mut txn).err()), "S7");
    txn.commit(Commit::Sync)?;
    store.transact(|txn| {
        assert_eq!((new.get(txn, &9_999)?, new.len(txn)?), (None, 5_000));
        Ok(())
    })?;
    check_all(store);
    Ok(())
}

/// Returns the bytes in pages per byte of data, for a table with this many entries; the store is opened again after each
/// `per_opening` of them.
fn bytes_per_byte(entries: u64, len: usize, per_opening: usize) -> Result<f64> {
    let mut bench = Bench::new();
    bench.store().transact(|txn| Table::create(txn, "table").map(drop))?;
    let numbers: Vec<u64> = (0..entries).collect();
    for of_opening in numbers.chunks(per_opening) {
        let store = bench.store();
        for some in of_opening.chunks(100) {
            store.transact(|txn| {
                let table = RawHashTable::open(store, Catalogue::open(store)?.list(txn)?[0].root)?;
                some.iter().try_for_each(|number| table.put(txn, &number.to_be_bytes(), &vec![7; len - 8]).map(drop))
            })?;
            store.checkpoint()?;
        }
        bench.reopen();
    }
    let store = bench.store();
    let mut txn = store.begin();
    let root = Catalogue::open(store)?.list(&mut txn)?[0].root;
    let checked = RawHashTable::open(store, root)?.check(&txn)?;
    checked.expect_sound();
    assert_eq!(checked.elements, entries);
    txn.rollback()?;
    Ok(checked.pages.len() as f64 * 4096.0 / (entries as f64 * len as f64))
}

/// Two entries of 2,108 bytes do not fit on a page: 1.94 is the least there.
#[test]
fn table_takes_few_pages_for_its_data() -> Result<()> {
    let shapes = [(2_600, 3_000, 1.6), (3_000, 2_108, 2.3), (5_000, 700, 1.6), (5_000, 508, 1.6), (20_000, 100, 1.65)];
    for (entries, len, most) in shapes {
        let taken = bytes_per_byte(entries, len, entries as usize)?;
        println!("{entries} entries of {len} bytes: {taken:.2} bytes in pages for each byte of data");
        assert!(taken <= most, "{entries} entries of {len} bytes: {taken:.2}");
    }
    Ok(())
}

/// The number of overflow pages is estimated after an opening.
#[test]
fn reopened_table_takes_few_pages() -> Result<()> {
    for (entries, len, most) in [(2_600, 3_000, 1.65), (20_000, 100, 1.7)] {
        let taken = bytes_per_byte(entries, len, 200)?;
        println!("{entries} entries of {len} bytes: {taken:.2} bytes in pages for each byte of data");
        assert!(taken <= most, "{entries} entries of {len} bytes: {taken:.2}");
    }
    Ok(())
}

/// The pages of long entries' chains are freed with the table, however many there are: splits have freed single pages
/// between them.
#[test]
fn rolled_back_table_keeps_no_page() -> Result<()> {
    for entries in [4_000_u64, 20_000] {
        let options = Options { log_limit_bytes: 512 << 20, locks: Arc::new(NoLocks), ..Options::simulated() };
        let store = open_with(&Arc::new(SimDisk::new()), options);
        store.transact(|txn| Table::create(txn, "table").map(drop))?;
        let before = store.check()?.pages_allocated;
        let mut txn = store.begin();
        let table = RawHashTable::create(&mut txn)?;
        (0..entries).try_for_each(|number| table.put(&mut txn, &number.to_be_bytes(), &[7; 3000]).map(drop))?;
        assert!(table.check(&txn)?.pages.len() as u64 > entries);
        txn.rollback()?;
        let maps = store.pool().len_pages().div_ceil(GROUP_PAGES); // those of the groups that it began stay
        let leaked = store.check()?.pages_allocated + 1 - before - maps;
        assert_eq!(leaked, 0, "pages of no table after {entries} entries");
        assert_eq!(store.log().space().overdrawn.0, 0, "E16.1");
        check_all(&store);
    }
    Ok(())
}
