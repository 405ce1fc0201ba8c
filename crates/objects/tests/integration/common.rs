//! Shared code of this crate's tests: stores on simulated disks, and a delta of an application's own.
#![cfg_attr(cedrat_shuttle, allow(dead_code, reason = "most tests are not there"))]

use std::collections::BTreeMap;
use std::ops::Range;

use cedrat_check::Outcome;
use cedrat_media::{Loss, Media, SimDisk};
use cedrat_objects::{ObjectDelta, ObjectError, ObjectId, Objects, Options, UndoPolicy, register_delta};
use cedrat_sync::Arc;
use cedrat_txn::{Error, Refused, Registry, Result, Store, Txn, TxnOptions};
use serde::{Deserialize, Serialize};

pub(crate) const POLICIES: [UndoPolicy; 3] = [UndoPolicy::CommittedOnly, UndoPolicy::Inverses, UndoPolicy::Relaxed];

/// Adds to the number in an object's first eight bytes, and increments the counter in the byte behind them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Add {
    pub(crate) amount: u64,
}

impl ObjectDelta for Add {
    const NAME: &'static str = "test.add";

    fn apply(&self, object: &mut [u8]) -> Result<(), Refused> {
        add(object, self.amount, 1)
    }

    fn changes(&self) -> Option<Range<usize>> {
        Some(0..9)
    }
}

/// Inverse of an addition.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Subtract {
    pub(crate) amount: u64,
}

impl ObjectDelta for Subtract {
    const NAME: &'static str = "test.subtract";

    fn apply(&self, object: &mut [u8]) -> Result<(), Refused> {
        add(object, self.amount.wrapping_neg(), u8::MAX)
    }
}

/// Violates the contract: it changes the object, and then refuses, or panics.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HalfWay {
    pub(crate) panics: bool,
    /// Part of the object that it changes and declares, if any.
    pub(crate) part: Option<(u16, u16)>,
}

impl ObjectDelta for HalfWay {
    const NAME: &'static str = "test.half_way";

    fn apply(&self, object: &mut [u8]) -> Result<(), Refused> {
        let part = self.changes().unwrap_or(0..object.len());
        let part = part.start..part.end.min(object.len());
        object[part].fill(99);
        assert!(!self.panics, "half-way");
        Err(Refused::new("half-way"))
    }

    fn changes(&self) -> Option<Range<usize>> {
        self.part.map(|(from, to)| from.into()..to.into())
    }
}

fn add(object: &mut [u8], amount: u64, times: u8) -> Result<(), Refused> {
    let Some((number, [count, ..])) = object.split_first_chunk_mut() else {
        return Err(Refused::new("the object is no number with a count"));
    };
    *number = u64::from_le_bytes(*number).wrapping_add(amount).to_le_bytes();
    *count = count.wrapping_add(times);
    Ok(())
}

pub(crate) fn registry() -> Registry {
    Registry::new()
        .with(cedrat_structures::register)
        .with(cedrat_objects::register)
        .with(register_delta::<Add>)
        .with(register_delta::<Subtract>)
        .with(register_delta::<HalfWay>)
}

/// A store on a simulated disk, with a collection.
pub(crate) struct Place {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) store: Store,
    pub(crate) objects: Objects,
    pub(crate) options: Options,
}

pub(crate) fn place_with(options: Options, of_store: cedrat_txn::Options) -> Place {
    let disk = Arc::new(SimDisk::new());
    let store = open_on(&disk, of_store);
    let objects = Objects::create(&store, "objects", options).unwrap();
    Place { disk, store, objects, options }
}

pub(crate) fn place(undo: UndoPolicy) -> Place {
    place_with(Options { undo, ..Options::default() }, cedrat_txn::Options::simulated())
}

pub(crate) fn open_on(disk: &Arc<SimDisk>, options: cedrat_txn::Options) -> Store {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options, registry()).unwrap()
}

impl Place {
    /// Begins a transaction as the policy requires.
    pub(crate) fn begin(&self) -> Txn {
        match self.options.undo {
            UndoPolicy::Relaxed => self.store.begin_with(TxnOptions::default().without_atomicity()),
            _ => self.store.begin(),
        }
    }

    /// Runs a closure in a transaction of its own.
    pub(crate) fn transact<T>(&self, work: impl FnOnce(&mut Txn) -> Result<T>) -> T {
        let mut txn = self.begin();
        let value = work(&mut txn).unwrap();
        txn.commit(cedrat_txn::Commit::Sync).unwrap();
        value
    }

    pub(crate) fn insert(&self, bytes: &[u8]) -> ObjectId {
        self.transact(|txn| self.objects.insert(txn, bytes))
    }

    pub(crate) fn get(&self, id: ObjectId) -> Option<Vec<u8>> {
        get(&self.store, &self.objects, id)
    }

    /// Returns the store of the next opening, after a crash that loses everything that was not durable.
    pub(crate) fn crashed(&self) -> Place {
        let disk = Arc::new(self.disk.journal().crash(self.disk.journal_len(), Loss::Everything));
        let of_store = cedrat_txn::Options { checkpoint_when_opened: false, ..cedrat_txn::Options::simulated() };
        let store = open_on(&disk, of_store);
        let objects = Objects::open(&store, "objects", self.options).unwrap();
        Place { disk, store, objects, options: self.options }
    }

    pub(crate) fn check(&self) {
        self.objects.check(&self.store.begin()).unwrap().expect_sound();
        self.store.check().unwrap();
    }
}

pub(crate) fn get(store: &Store, objects: &Objects, id: ObjectId) -> Option<Vec<u8>> {
    match objects.read(&mut store.begin(), id, <[u8]>::to_vec) {
        Ok(bytes) => Some(bytes),
        Err(error) if is_absent(&error) => None,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn is_absent(error: &Error) -> bool {
    matches!(ObjectError::of(error), Some(ObjectError::NoSuchObject { .. }))
}

/// Makes an object of a number, a counter and a name.
pub(crate) fn number(value: u64, count: u8, name: &str) -> Vec<u8> {
    [&value.to_le_bytes()[..], &[count], name.as_bytes()].concat()
}

/// Returns all objects by the numbers in their first eight bytes.
pub(crate) fn read_all(store: &Store, objects: &Objects) -> Outcome<BTreeMap<u64, (ObjectId, Vec<u8>)>> {
    let mut txn = store.begin();
    let mut all = BTreeMap::new();
    for id in objects.ids(&mut txn)? {
        let bytes = objects.read(&mut txn, id, <[u8]>::to_vec)?;
        let number = u64::from_le_bytes(*bytes.first_chunk().ok_or("an object without a number")?);
        if all.insert(number, (id, bytes)).is_some() {
            return Err(format!("object {number} is there twice").into());
        }
    }
    Ok(all)
}
