//! The structures, each with a model in plain memory.

use std::collections::BTreeMap;

use cedrat::check::{Outcome, Rng};
use cedrat::pages::{PageId, Slot};
use cedrat::txn::{FormatFixed, RecordId, Txn};
use cedrat_structures::{
    Checked, HashTable, Increment, RawArrayList, RawHashTable, RawList, RawPageList, Records, increment,
};

use super::{Effect, Subject};

type Bytes = Vec<u8>;

/// Returns an error if a structure's check has found a problem.
fn sound(checked: &Checked) -> Outcome {
    match checked.is_sound() {
        true => Ok(()),
        false => Err(checked.problems.join("; ").into()),
    }
}

/// Makes a few bytes, now and then many.
fn value(chance: &mut Rng) -> Bytes {
    let len = match chance.below(8) {
        0 => chance.index(1_500),
        _ => chance.index(60),
    };
    chance.bytes(len)
}

/// Returns one of two hundred keys of different lengths.
fn key(chance: &mut Rng) -> Bytes {
    let number = chance.below(200) as u8;
    vec![number; 1 + usize::from(number) % 40]
}

/// [`RawHashTable`], small values, keys of several lengths; grows and splits.
pub(crate) struct Hash;

impl Subject for Hash {
    type Model = BTreeMap<Bytes, Bytes>;
    type Root = PageId;

    fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
        Ok(RawHashTable::create(txn)?.root())
    }

    fn step(&self, txn: &mut Txn, root: &PageId, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
        let table = RawHashTable::open(txn.store(), *root)?;
        let key = key(chance);
        if chance.one_in(3) {
            table.remove(txn, &key)?;
            return Ok(Box::new(move |model| drop(model.remove(&key))));
        }
        let value = value(chance);
        table.put(txn, &key, &value)?;
        Ok(Box::new(move |model| drop(model.insert(key.clone(), value.clone()))))
    }

    fn read(&self, txn: &mut Txn, root: &PageId) -> Outcome<Self::Model> {
        let table = RawHashTable::open(txn.store(), *root)?;
        let mut model = BTreeMap::new();
        for pair in table.iter(txn)? {
            let (key, value) = pair?;
            model.insert(key, value);
        }
        Ok(model)
    }

    fn check(&self, txn: &mut Txn, root: &PageId) -> Outcome {
        sound(&RawHashTable::open(txn.store(), *root)?.check(txn)?)
    }
}

/// [`RawHashTable`], many keys at a time, more of which are removed than put: checkpoints merge buckets and fold chains.
pub(crate) struct ShrinkingHash;

impl Subject for ShrinkingHash {
    type Model = BTreeMap<Bytes, Bytes>;
    type Root = PageId;

    fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
        let table = RawHashTable::create(txn)?;
        for key in 0..160_u8 {
            table.put(txn, &[key], &[key; 180])?;
        }
        Ok(table.root())
    }

    fn step(&self, txn: &mut Txn, root: &PageId, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
        let table = RawHashTable::open(txn.store(), *root)?;
        let first = chance.below(160) as u8;
        let keys = first..first.saturating_add(1 + chance.below(24) as u8);
        if chance.one_in(3) {
            let value = chance.bytes(180);
            keys.clone().try_for_each(|key| table.put(txn, &[key], &value).map(drop))?;
            return Ok(Box::new(move |model| {
                keys.clone().for_each(|key| drop(model.insert(vec![key], value.clone())))
            }));
        }
        keys.clone().try_for_each(|key| table.remove(txn, &[key]).map(drop))?;
        Ok(Box::new(move |model| keys.clone().for_each(|key| drop(model.remove(&vec![key])))))
    }

    fn read(&self, txn: &mut Txn, root: &PageId) -> Outcome<Self::Model> {
        Hash.read(txn, root)
    }

    fn check(&self, txn: &mut Txn, root: &PageId) -> Outcome {
        Hash.check(txn, root)
    }
}

/// [`RawArrayList`].
pub(crate) struct Array;

/// Length of an element.
const ELEMENT_LEN: usize = 40;

impl Subject for Array {
    type Model = Vec<Bytes>;
    type Root = PageId;

    fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
        Ok(RawArrayList::create(txn, ELEMENT_LEN as u16)?.root())
    }

    fn step(&self, txn: &mut Txn, root: &PageId, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
        let array = RawArrayList::open(txn.store(), *root)?;
        let len = array.len(txn)?;
        let element = chance.bytes(ELEMENT_LEN);
        match chance.below(5) {
            0 if len > 0 => {
                array.pop(txn)?;
                Ok(Box::new(|model| drop(model.pop())))
            }
            1 if len > 0 => {
                let index = chance.below(len);
                array.set(txn, index, &element)?;
                Ok(Box::new(move |model| model[index as usize].clone_from(&element)))
            }
            _ => {
                array.push(txn, &element)?;
                Ok(Box::new(move |model| model.push(element.clone())))
            }
        }
    }

    fn read(&self, txn: &mut Txn, root: &PageId) -> Outcome<Self::Model> {
        let array = RawArrayList::open(txn.store(), *root)?;
        Ok(array.iter(txn)?.collect::<Result<_, _>>()?)
    }

    fn check(&self, txn: &mut Txn, root: &PageId) -> Outcome {
        sound(&RawArrayList::open(txn.store(), *root)?.check(txn)?)
    }
}

/// The workload of both lists, which have the same interface.
macro_rules! list {
    ($name:ident, $list:ident, $doc:literal) => {
        #[doc = $doc]
        pub(crate) struct $name;

        impl Subject for $name {
            type Model = Vec<Bytes>;
            type Root = PageId;

            fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
                Ok($list::create(txn)?.root())
            }

            fn step(&self, txn: &mut Txn, root: &PageId, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
                let list = $list::open(txn.store(), *root)?;
                let len = list.len(txn)?;
                let element = value(chance);
                let index = chance.below(len.max(1));
                let at = index as usize;
                match chance.below(8) {
                    0 if len > 0 => {
                        list.remove(txn, index)?;
                        Ok(Box::new(move |model| drop(model.remove(at))))
                    }
                    1 if len > 0 => {
                        list.pop_front(txn)?;
                        Ok(Box::new(|model| drop(model.remove(0))))
                    }
                    2 if len > 0 => {
                        list.set(txn, index, &element)?;
                        Ok(Box::new(move |model| model[at].clone_from(&element)))
                    }
                    3 => {
                        list.push_front(txn, &element)?;
                        Ok(Box::new(move |model| model.insert(0, element.clone())))
                    }
                    4 => {
                        list.insert(txn, index, &element)?;
                        Ok(Box::new(move |model| model.insert(at, element.clone())))
                    }
                    _ => {
                        list.push_back(txn, &element)?;
                        Ok(Box::new(move |model| model.push(element.clone())))
                    }
                }
            }

            fn read(&self, txn: &mut Txn, root: &PageId) -> Outcome<Self::Model> {
                let list = $list::open(txn.store(), *root)?;
                Ok(list.iter(txn)?.collect::<Result<_, _>>()?)
            }

            fn check(&self, txn: &mut Txn, root: &PageId) -> Outcome {
                sound(&$list::open(txn.store(), *root)?.check(txn)?)
            }
        }
    };
}

list!(LinkedList, RawList, "[`RawList`].");
list!(LinkedPages, RawPageList, "[`RawPageList`].");

/// [`Records`]: insert, update, delete.
pub(crate) struct RecordsOfAnyLength;

impl Subject for RecordsOfAnyLength {
    type Model = BTreeMap<RecordId, Bytes>;
    type Root = PageId;

    fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
        Ok(Records::create(txn, "records")?.root())
    }

    fn step(&self, txn: &mut Txn, root: &PageId, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
        let records = Records::open_root(txn.store(), *root)?;
        let all = records.all(txn)?;
        let record = value(chance);
        let some = (!all.is_empty()).then(|| chance.pick(&all).0);
        match (chance.below(4), some) {
            (0, Some(at)) => {
                records.delete(txn, at)?;
                Ok(Box::new(move |model| drop(model.remove(&at))))
            }
            (1, Some(at)) => match records.update(txn, at, &record) {
                Ok(()) => Ok(Box::new(move |model| drop(model.insert(at, record.clone())))),
                // The page has no space for a longer one.
                Err(cedrat::Error::Refused(_)) => Ok(Box::new(|_| ())),
                Err(error) => Err(error.into()),
            },
            _ => {
                let at = records.insert(txn, &record)?;
                Ok(Box::new(move |model| drop(model.insert(at, record.clone()))))
            }
        }
    }

    fn read(&self, txn: &mut Txn, root: &PageId) -> Outcome<Self::Model> {
        Ok(Records::open_root(txn.store(), *root)?.all(txn)?.into_iter().collect())
    }

    fn check(&self, txn: &mut Txn, root: &PageId) -> Outcome {
        sound(&Records::open_root(txn.store(), *root)?.check(txn)?)
    }
}

/// [`Increment`] on records of a page, with and without a lock on the page.
pub(crate) struct Counters;

/// Number of counters on a page.
const COUNTERS: u16 = 6;

impl Subject for Counters {
    type Model = Vec<i64>;
    type Root = PageId;

    fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
        let page = txn.allocate()?;
        // Long records, so that a torn page matters.
        txn.update(RecordId::page(page), &FormatFixed { record_len: 500, count: COUNTERS })?;
        Ok(page)
    }

    fn step(&self, txn: &mut Txn, page: &PageId, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
        let counter = chance.below(COUNTERS.into()) as u16;
        let amount = chance.below(200) as i64 - 100;
        let at = RecordId::new(*page, Slot(counter));
        if chance.one_in(2) {
            increment::increment(txn, at, amount)?;
        } else {
            txn.update_latched(at, &Increment { amount })?;
        }
        Ok(Box::new(move |model| model[usize::from(counter)] += amount))
    }

    fn read(&self, txn: &mut Txn, page: &PageId) -> Outcome<Self::Model> {
        (0..COUNTERS).map(|counter| Ok(increment::increment(txn, RecordId::new(*page, Slot(counter)), 0)?)).collect()
    }

    fn check(&self, _: &mut Txn, _: &PageId) -> Outcome {
        Ok(())
    }
}

/// Names: structures are created, filled, dropped, and their pages reused.
pub(crate) struct Names;

impl Subject for Names {
    type Model = BTreeMap<String, BTreeMap<u32, u64>>;
    type Root = ();

    fn create(&self, _: &mut Txn) -> Outcome {
        Ok(())
    }

    fn step(&self, txn: &mut Txn, (): &(), chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
        let name = format!("table {}", chance.below(6));
        let catalogue = cedrat::structures::Catalogue::open(txn.store())?;
        let is_there = catalogue.find(txn, &name)?.is_some();
        if is_there && chance.one_in(3) {
            cedrat::structures::drop_named(txn, &name)?;
            return Ok(Box::new(move |model| drop(model.remove(&name))));
        }
        let table: HashTable<u32, u64> = HashTable::open_or_create(txn, &name)?;
        let (key, value) = (chance.below(30) as u32, chance.next_u64());
        table.insert(txn, &key, &value)?;
        Ok(Box::new(move |model| {
            model.entry(name.clone()).or_default().insert(key, value);
        }))
    }

    fn read(&self, txn: &mut Txn, (): &()) -> Outcome<Self::Model> {
        let catalogue = cedrat::structures::Catalogue::open(txn.store())?;
        let mut model = BTreeMap::new();
        for named in catalogue.list(txn)? {
            let table: HashTable<u32, u64> = HashTable::at(txn.store(), named.root)?;
            let pairs = table.iter(txn)?.collect::<Result<_, _>>()?;
            model.insert(named.name, pairs);
        }
        Ok(model)
    }

    fn check(&self, txn: &mut Txn, (): &()) -> Outcome {
        let catalogue = cedrat::structures::Catalogue::open(txn.store())?;
        sound(&catalogue.check(txn)?)?;
        for named in catalogue.list(txn)? {
            if let Some(checked) = cedrat::structures::check_named(txn, &named)? {
                sound(&checked)?;
            }
        }
        Ok(())
    }
}
