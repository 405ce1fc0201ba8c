//! Crashes of every structure at every call that reaches the disk, and again during the recovery from that.

use std::collections::HashSet;
use std::fmt::Debug;

use cedrat_media::{Loss, SimDisk};
use cedrat_structures::{ArrayList, Catalogue, HashTable, List, PageList, Records, drop_named, increment::increment};
use cedrat_sync::Arc;
use cedrat_txn::{Result, Store, Txn};

use crate::common::{check_all, in_vain, open};

/// One transaction of a workload.
type Step<'w> = &'w dyn Fn(&mut Txn, usize) -> Result<()>;

/// The permitted states of the store after each number of transactions, and the function that reads the state.
struct Judge<'w, S> {
    states: Vec<S>,
    look: &'w dyn Fn(&Store) -> Result<S>,
}

impl<S: PartialEq + Debug> Judge<'_, S> {
    /// Checks that acknowledged changes are there, the running transaction is whole or absent, and every structure is
    /// sound.
    fn judge(&self, disk: &Arc<SimDisk>, acknowledged: usize, case: &dyn Fn() -> String) {
        let store = open(disk);
        let state = (self.look)(&store).unwrap();
        let possible = &self.states[acknowledged..self.states.len().min(acknowledged + 2)];
        assert!(possible.contains(&state), "{}: {state:?} is none of {possible:?}", case());
        check_all(&store);
    }
}

/// Runs `steps` transactions, each of them also once with a rollback, then opens the store after every crash.
///
/// A block of the log survives a crash as a whole or not at all, and here a transaction is usually one block. Crashes
/// between the steps of a split are tested with the splits (`hash/split.rs`); crashes of many threads, with several
/// partitions, in the tests of the whole system.
fn survives<S: PartialEq + Debug>(steps: usize, step: Step<'_>, look: &dyn Fn(&Store) -> Result<S>) {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk);
    store.transact(|txn| step(txn, 0)).unwrap();
    let begun = disk.journal_len();
    let mut judge = Judge { states: vec![look(&store).unwrap()], look };
    for n in 1..=steps {
        in_vain(&store, |txn| step(txn, n)).unwrap();
        store.transact(|txn| step(txn, n)).unwrap();
        disk.mark(n as u64);
        judge.states.push(look(&store).unwrap());
        if n % 3 == 0 {
            store.checkpoint().unwrap();
        }
    }
    drop(store);

    let journal = disk.journal();
    let mut images = HashSet::new();
    let mut cursor = journal.cursor();
    for at in begun..=journal.len() {
        cursor.advance_to(at);
        let acknowledged = journal.marks_before(at).last().map_or(0, |mark| mark.label as usize);
        for loss in [Loss::Everything, Loss::Nothing, Loss::Random(at as u64), Loss::Whole(at as u64)] {
            let image = cursor.image(loss);
            if !images.insert(image.hash()) {
                continue;
            }
            let crashed = Arc::new(SimDisk::from_image(image));
            let before = crashed.journal_len();
            judge.judge(&crashed, acknowledged, &|| format!("crash at {at}, {loss:?}"));
            if at % 7 == 0 {
                let recovery = crashed.journal();
                for again in (before..recovery.len()).step_by(5) {
                    let crashed = Arc::new(recovery.crash(again, Loss::Random(again as u64)));
                    let case = || format!("crash at {at}, {loss:?}, and in recovery at {again}");
                    judge.judge(&crashed, acknowledged, &case);
                }
            }
        }
    }
    assert!(images.len() > steps, "a workload without crashes tests nothing");
}

/// Entries of many lengths, so that buckets split, chain, and fold (S3, S4).
#[test]
fn hash_table() {
    let step = |txn: &mut Txn, n: usize| {
        let table = HashTable::<u32, Vec<u8>>::open_or_create(txn, "t")?;
        for k in 0..12_u32 {
            let key = n as u32 * 6 + k;
            table.insert(txn, &key, &vec![n as u8; 300 + (key as usize * 37 + n * 11) % 600])?;
            table.remove(txn, &(key / 3))?;
        }
        Ok(())
    };
    let look = |store: &Store| {
        store.transact(|txn| {
            let table = HashTable::<u32, Vec<u8>>::open(txn, "t")?;
            let mut all = table.iter(txn)?.collect::<Result<Vec<_>>>()?;
            all.sort();
            Ok(all)
        })
    };
    survives(24, &step, &look);
}

/// Entries of which one or two fill a page, so that buckets have several pages (S2, S3).
#[test]
fn hash_table_of_long_entries() {
    let step = |txn: &mut Txn, n: usize| {
        let table = HashTable::<u32, Vec<u8>>::open_or_create(txn, "t")?;
        for k in 0..6_u32 {
            let key = n as u32 * 5 + k;
            table.insert(txn, &key, &vec![n as u8; 1200 + (key as usize * 337 + n * 11) % 2500])?;
        }
        table.remove(txn, &(n as u32 * 3))?;
        Ok(())
    };
    let look = |store: &Store| {
        store.transact(|txn| {
            let table = HashTable::<u32, Vec<u8>>::open(txn, "t")?;
            let mut all = table.iter(txn)?.collect::<Result<Vec<_>>>()?;
            all.sort();
            Ok(all)
        })
    };
    survives(12, &step, &look);
}

/// Tables are created and dropped.
#[test]
fn catalogue() {
    let step = |txn: &mut Txn, n: usize| {
        let store = txn.store().clone();
        let name = |n: usize| format!("table {}", n % 5);
        if Catalogue::open(&store)?.find(txn, &name(n))?.is_some() {
            drop_named(txn, &name(n))?;
        }
        let table = HashTable::<u32, Vec<u8>>::create(txn, &name(n))?;
        for key in 0..8 {
            table.insert(txn, &key, &vec![n as u8; 700])?;
        }
        if n > 2 {
            drop_named(txn, &name(n - 2))?;
        }
        Ok(())
    };
    let look = |store: &Store| {
        store.transact(|txn| {
            let names = Catalogue::open(&txn.store().clone())?.list(txn)?;
            let mut all = Vec::new();
            for named in names {
                let table = HashTable::<u32, Vec<u8>>::open(txn, &named.name)?;
                all.push((named.name, table.get(txn, &7)?));
            }
            Ok(all)
        })
    };
    survives(15, &step, &look);
}

#[test]
fn array_list() {
    let step = |txn: &mut Txn, n: usize| {
        let array = ArrayList::<u64>::open_or_create(txn, "a", 600)?;
        for k in 0..7 {
            array.push(txn, &((n * 10 + k) as u64))?;
        }
        let len = array.len(txn)?;
        array.set(txn, (n as u64 * 7) % len, &(n as u64))?;
        for _ in 0..n % 4 {
            array.pop(txn)?;
        }
        Ok(())
    };
    let look = |store: &Store| {
        store.transact(|txn| {
            let array = ArrayList::<u64>::open(txn, "a")?;
            array.iter(txn)?.collect::<Result<Vec<_>>>()
        })
    };
    survives(20, &step, &look);
}

#[test]
fn list() {
    let step = |txn: &mut Txn, n: usize| {
        let list = List::<Vec<u8>>::open_or_create(txn, "l")?;
        list.push_back(txn, &vec![n as u8; n * 40])?;
        list.push_front(txn, &vec![n as u8; 10 + n])?;
        let len = list.len(txn)?;
        list.insert(txn, len / 2, &vec![1; 500])?;
        list.set(txn, len / 3, &vec![2; 100 * (n % 9)])?;
        if n % 2 == 1 {
            list.pop_front(txn)?;
            list.remove(txn, (n as u64 * 3) % len)?;
        }
        Ok(())
    };
    let look =
        |store: &Store| store.transact(|txn| List::<Vec<u8>>::open(txn, "l")?.iter(txn)?.collect::<Result<Vec<_>>>());
    survives(16, &step, &look);
}

#[test]
fn page_list() {
    let step = |txn: &mut Txn, n: usize| {
        let list = PageList::<Vec<u8>>::open_or_create(txn, "p")?;
        list.push_back(txn, &vec![n as u8; n * 40])?;
        list.push_front(txn, &vec![n as u8; 10 + n])?;
        let len = list.len(txn)?;
        list.insert(txn, len / 2, &vec![1; 1300])?;
        list.set(txn, len / 3, &vec![2; 200 * (n % 9)])?;
        if n % 2 == 1 {
            list.pop_front(txn)?;
            list.pop_back(txn)?;
            list.remove(txn, (n as u64 * 3) % (len - 1))?;
        }
        Ok(())
    };
    let look = |store: &Store| {
        store.transact(|txn| PageList::<Vec<u8>>::open(txn, "p")?.iter(txn)?.collect::<Result<Vec<_>>>())
    };
    survives(20, &step, &look);
}

#[test]
fn records() {
    let step = |txn: &mut Txn, n: usize| {
        let store = txn.store().clone();
        let is_new = Catalogue::open(&store)?.find(txn, "r")?.is_none();
        let records = if is_new { Records::create(txn, "r")? } else { Records::open(txn, "r")? };
        for k in 0..4 {
            records.insert(txn, &vec![k; 300 + n * 20])?;
        }
        let all = records.all(txn)?;
        records.update(txn, all[n % all.len()].0, b"shorter")?;
        if n % 2 == 1 {
            records.delete(txn, all[(n * 3) % all.len()].0)?;
        }
        Ok(())
    };
    let look = |store: &Store| store.transact(|txn| Records::open(txn, "r")?.all(txn));
    survives(16, &step, &look);
}

#[test]
fn increments() {
    let step = |txn: &mut Txn, n: usize| {
        let array = ArrayList::<[u8; 8]>::open_or_create(txn, "counters", 8)?;
        if n == 0 {
            for _ in 0..4 {
                array.push(txn, &[0; 8])?;
            }
        }
        let at = array.record(txn, n as u64 % 4)?;
        increment(txn, at, n as i64 - 3)?;
        Ok(())
    };
    let look = |store: &Store| {
        store.transact(|txn| {
            let array = ArrayList::<[u8; 8]>::open(txn, "counters")?;
            array.iter(txn)?.map(|number| Ok(i64::from_le_bytes(number?))).collect::<Result<Vec<_>>>()
        })
    };
    survives(30, &step, &look);
}
