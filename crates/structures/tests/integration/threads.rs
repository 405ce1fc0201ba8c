//! Many threads at one hash table and one catalogue.

use cedrat_structures::{Catalogue, HashTable, RawHashTable, StructureError};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Error, PageLocks, Result, Store};

use crate::common::{Bench, check_all};

/// Random-looking numbers, the same each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn on_threads(threads: u64, work: impl Fn(u64) -> Result<()> + Send + Sync + 'static) {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..threads)
        .map(|thread| {
            let work = Arc::clone(&work);
            thread::spawn(move || work(thread))
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread panics").expect("no thread fails");
    }
}

/// Money moves between accounts, some transfers are rolled back, and the total stays: keys are locked, deadlocks are
/// resolved.
#[test]
fn transfers_keep_the_total() -> Result<()> {
    const ACCOUNTS: u64 = 300;
    let mut bench = Bench::with(Arc::new(PageLocks::default()));
    bench.store().transact(|txn| {
        let accounts = HashTable::<u64, i64>::create(txn, "accounts")?;
        (0..ACCOUNTS).try_for_each(|account| accounts.insert(txn, &account, &1000).map(|_| ()))
    })?;
    let store = bench.store().clone();
    on_threads(4, move |thread| {
        let mut numbers = Numbers(thread);
        for n in 0..300 {
            let (from, to, amount) = (numbers.below(ACCOUNTS), numbers.below(ACCOUNTS), numbers.below(50) as i64);
            let done = store.transact(|txn| {
                let accounts = HashTable::<u64, i64>::open(txn, "accounts")?;
                accounts.change(txn, &from, |balance| balance.map(|balance| balance - amount))?;
                // Fills pages, so that buckets split and chain concurrently.
                accounts.insert(txn, &(1_000_000 + thread * 1000 + n), &0)?;
                accounts.change(txn, &to, |balance| balance.map(|balance| balance + amount))?;
                if n % 5 == 0 { Err(Error::user("changed my mind")) } else { Ok(()) }
            });
            assert_eq!(done.is_err(), n % 5 == 0, "{done:?}");
        }
        Ok(())
    });
    for _ in 0..2 {
        bench.store().transact(|txn| {
            let accounts = HashTable::<u64, i64>::open(txn, "accounts")?;
            let all = accounts.iter(txn)?.collect::<Result<Vec<_>>>()?;
            assert_eq!(all.iter().map(|(_, balance)| balance).sum::<i64>(), 1000 * ACCOUNTS as i64);
            assert_eq!(all.len() as u64, ACCOUNTS + 4 * 300 * 4 / 5);
            Ok(())
        })?;
        check_all(bench.store());
        bench.reopen();
    }
    Ok(())
}

/// Writers with keys of their own make buckets split, chain and fold; readers without locks or latches see every
/// permanent key with its value (E12.2, S1).
#[test]
fn readers_are_not_misled_by_splits() -> Result<()> {
    const KEPT: u64 = 2000;
    let value = |key: u64| vec![key as u8; (key % 60) as usize];
    let bench = Bench::new();
    let store = bench.store().clone();
    let table = store.transact(|txn| {
        let table = RawHashTable::create(txn)?;
        for key in 0..KEPT {
            table.put(txn, &key.to_le_bytes(), &value(key))?;
        }
        Ok(table)
    })?;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2_u64)
        .map(|reader| {
            let (store, table, done) = (store.clone(), table.clone(), Arc::clone(&done));
            thread::spawn(move || -> Result<u64> {
                let mut numbers = Numbers(reader);
                let mut txn = store.begin();
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) || reads < 1000 {
                    let key = numbers.below(KEPT);
                    let seen = table.get(&mut txn, &key.to_le_bytes())?;
                    assert_eq!(seen, Some(value(key)), "key {key}");
                    reads += 1;
                }
                Ok(reads)
            })
        })
        .collect();
    let (writing, written) = (store.clone(), table.clone());
    on_threads(2, move |writer| {
        for round in 0..6_u64 {
            let mut txn = writing.begin();
            for n in 0..700_u64 {
                let key = ((writer + 1) << 32 | n).to_le_bytes();
                if round % 3 == 2 {
                    written.remove(&mut txn, &key)?;
                } else {
                    written.put(&mut txn, &key, &vec![7; (n * (round + 1) % 90) as usize])?;
                }
            }
            if round % 2 == 0 {
                txn.commit(Commit::NoFlush)?;
            } else {
                txn.rollback()?;
            }
        }
        Ok(())
    });
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().expect("no reader panics")?;
    }
    let txn = store.begin();
    table.check(&txn)?.expect_sound();
    Ok(())
}

/// S2: two transactions that insert one key concurrently leave one entry, even without locks.
#[test]
fn a_key_is_never_there_twice() -> Result<()> {
    let bench = Bench::new();
    let store = bench.store().clone();
    let table = store.transact(RawHashTable::create)?;
    let (putting, into) = (store.clone(), table.clone());
    on_threads(4, move |_| {
        for key in 0..1500_u64 {
            let mut txn = putting.begin();
            into.put(&mut txn, &key.to_le_bytes(), &[9; 100])?;
            txn.commit(Commit::NoFlush)?;
        }
        Ok(())
    });
    let txn = store.begin();
    let checked = table.check(&txn)?;
    checked.expect_sound();
    assert_eq!(checked.elements, 1500);
    Ok(())
}

/// Several threads create the same name in a store without a catalogue: the catalogue is created once, and one thread
/// gets the name.
#[test]
fn a_name_is_given_once() -> Result<()> {
    let bench = Bench::with(Arc::new(PageLocks::default()));
    let store = bench.store().clone();
    let creating = store.clone();
    on_threads(4, move |_| {
        for n in 0..20 {
            let created = creating.transact(|txn| HashTable::<u8, u8>::create(txn, &format!("{n}")));
            if let Err(error) = created {
                assert!(matches!(StructureError::of(&error), Some(StructureError::NameTaken { .. })), "{error}");
            }
            creating.transact(|txn| {
                let counts = HashTable::<String, u32>::open_or_create(txn, "counts")?;
                counts.change(txn, "all", |count| Some(count.unwrap_or(0) + 1))
            })?;
        }
        Ok(())
    });
    let count = |store: &Store| store.transact(|txn| HashTable::<String, u32>::open(txn, "counts")?.get(txn, "all"));
    assert_eq!(count(&store)?, Some(80));
    assert_eq!(store.transact(|txn| Catalogue::open(&txn.store().clone())?.list(txn))?.len(), 21);
    check_all(&store);
    Ok(())
}
