//! Stores of objects of a kilobyte, for the figure `object-cache`.

use std::path::Path;

use cedrat::objects::{ObjectDelta, ObjectId, Objects, Options, UndoPolicy, register_delta};
use cedrat::prelude::Refused;
use cedrat::structures::Records;
use cedrat::txn::{RecordId, TxnOptions};
use cedrat::wal::PartitionId;
use cedrat::{Commit, Store};
use serde::{Deserialize, Serialize};

use super::Result;
use super::berkeley::{Berkeley, Guard, Shape};
use super::cedrat::options;
use crate::objects::{CACHED, OBJECT_LEN, OBJECTS, Resident, Variant, Way};

/// Who keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum System {
    Cedrat,
    BdbBtree,
    BdbHash,
}

impl System {
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Cedrat => "cedrat",
            System::BdbBtree => "bdb-btree",
            System::BdbHash => "bdb-hash",
        }
    }
}

/// Bytes of an object change, from `at` on.
#[derive(Clone, Copy)]
pub(crate) struct Update {
    pub(crate) number: u32,
    pub(crate) at: u16,
}

/// A store of [`OBJECTS`] objects, and the application's cache before it.
pub(crate) trait ObjectStore {
    fn load(&mut self, objects: &[Vec<u8>]) -> Result<()>;

    /// One durable transaction: `len` bytes of each of these objects become `byte`.
    fn transaction(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()>;

    fn log_bytes(&mut self) -> Result<u64>;

    /// Complains unless the objects are these.
    fn check(&mut self, objects: &[Vec<u8>]) -> Result<()>;
}

/// Makes an empty store in the existing, empty directory `dir`.
pub(crate) fn create(way: Way, dir: &Path, pool_bytes: u64) -> Result<Box<dyn ObjectStore + Send>> {
    let shape = match way.system {
        System::Cedrat => {
            let registry = cedrat::registry().with(register_delta::<Fill>).with(register_delta::<Whole>);
            let store = cedrat::open_with(dir, options(pool_bytes, true), registry)?;
            return Ok(match way.variant {
                Variant::Plain => Box::new(Plain::create(store)?),
                variant => Box::new(Cached::create(store, variant)?),
            });
        }
        System::BdbBtree => Shape::Btree,
        System::BdbHash => Shape::Hash,
    };
    // Four objects and their keys on a page, as in a page of twice Cedrat's length.
    let berkeley = Berkeley::create_with(dir, pool_bytes, 0, 8192, shape, Guard::Mutex)?;
    Ok(Box::new(Peer { berkeley, partial: way.variant == Variant::Partial, app: App::new() }))
}

/// Sets bytes of an object.
#[derive(Debug, Serialize, Deserialize)]
struct Fill {
    at: u16,
    len: u16,
    bytes: Vec<u8>,
}

impl ObjectDelta for Fill {
    const NAME: &'static str = "bench.fill.v1";

    fn apply(&self, object: &mut [u8]) -> std::result::Result<(), Refused> {
        let range = object.get_mut(usize::from(self.at)..).and_then(|rest| rest.get_mut(..usize::from(self.len)));
        range.ok_or(Refused::new("the bytes do not lie in the object"))?.copy_from_slice(&self.bytes);
        Ok(())
    }
}

/// Sets all of it.
#[derive(Debug, Serialize, Deserialize)]
struct Whole {
    bytes: Vec<u8>,
}

impl ObjectDelta for Whole {
    const NAME: &'static str = "bench.whole.v1";

    fn apply(&self, object: &mut [u8]) -> std::result::Result<(), Refused> {
        if object.len() != self.bytes.len() {
            return Err(Refused::new("the object has another length"));
        }
        object.copy_from_slice(&self.bytes);
        Ok(())
    }
}

fn log_bytes(store: &Store) -> Result<u64> {
    let log = store.log();
    log.force(log.current_lsn())?;
    Ok((0..log.partitions()).map(|partition| log.flushed(PartitionId(partition)).get()).sum())
}

fn wrong(number: usize) -> super::Error {
    format!("object {number} is not what was written last").into()
}

/// Objects through Cedrat's cache, undo relaxed as in the paper.
struct Cached {
    store: Store,
    objects: Objects,
    ids: Vec<ObjectId>,
    deltas: bool,
}

/// What a record of the cache takes beside its object: what it says of itself, and its header.
const BESIDE: u64 = 192 + 4;

impl Cached {
    fn create(store: Store, variant: Variant) -> Result<Cached> {
        let cache_bytes = u64::from(CACHED) * (OBJECT_LEN as u64 + BESIDE);
        let options = Options { cache_bytes, undo: UndoPolicy::Relaxed };
        let objects = Objects::create(&store, "objects", options)?;
        Ok(Cached { store, objects, ids: Vec::new(), deltas: variant == Variant::Delta })
    }
}

impl ObjectStore for Cached {
    fn load(&mut self, objects: &[Vec<u8>]) -> Result<()> {
        let mut txn = self.store.begin_with(TxnOptions::default().without_atomicity());
        for object in objects {
            self.ids.push(self.objects.insert(&mut txn, object)?);
        }
        txn.commit(Commit::Sync)?;
        Ok(self.store.checkpoint()?)
    }

    fn transaction(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        let mut txn = self.store.begin_with(TxnOptions::default().without_atomicity());
        for &Update { number, at } in updates {
            let id = self.ids[number as usize];
            if self.deltas {
                self.objects.update(&mut txn, id, Fill { at, len: len as u16, bytes: vec![byte; len] })?;
            } else {
                let mut bytes = self.objects.read(&mut txn, id, <[u8]>::to_vec)?;
                bytes[at.into()..][..len].fill(byte);
                self.objects.update(&mut txn, id, Whole { bytes })?;
            }
        }
        txn.commit(Commit::Sync)?;
        Ok(())
    }

    fn log_bytes(&mut self) -> Result<u64> {
        log_bytes(&self.store)
    }

    fn check(&mut self, objects: &[Vec<u8>]) -> Result<()> {
        let mut txn = self.store.begin();
        for (number, (&id, object)) in self.ids.iter().zip(objects).enumerate() {
            if !self.objects.read(&mut txn, id, |bytes| bytes == object)? {
                return Err(wrong(number));
            }
        }
        Ok(())
    }
}

/// An application that has some of its objects in memory, and writes each whole.
struct App {
    resident: Resident,
    objects: Vec<Vec<u8>>,
}

impl App {
    fn new() -> App {
        App { resident: Resident::new(), objects: vec![Vec::new(); OBJECTS as usize] }
    }

    /// An object to change; one that is not there is read by `read`.
    fn object(&mut self, number: u32, read: impl FnOnce() -> Result<Vec<u8>>) -> Result<&mut Vec<u8>> {
        if !self.resident.touch(number) {
            self.objects[number as usize] = read()?;
        }
        Ok(&mut self.objects[number as usize])
    }
}

/// Records of Cedrat's pages.
struct Plain {
    store: Store,
    records: Records,
    ids: Vec<RecordId>,
    app: App,
}

impl Plain {
    fn create(store: Store) -> Result<Plain> {
        let records = store.transact(|txn| Records::create(txn, "objects"))?;
        Ok(Plain { store, records, ids: Vec::new(), app: App::new() })
    }
}

impl ObjectStore for Plain {
    fn load(&mut self, objects: &[Vec<u8>]) -> Result<()> {
        let mut txn = self.store.begin();
        for object in objects {
            self.ids.push(self.records.insert(&mut txn, object)?);
        }
        txn.commit(Commit::Sync)?;
        Ok(self.store.checkpoint()?)
    }

    fn transaction(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        let mut txn = self.store.begin();
        for &Update { number, at } in updates {
            let id = self.ids[number as usize];
            let records = &self.records;
            let object = self.app.object(number, || Ok(records.read(&mut txn, id)?))?;
            object[at.into()..][..len].fill(byte);
            self.records.update(&mut txn, id, object)?;
        }
        txn.commit(Commit::Sync)?;
        Ok(())
    }

    fn log_bytes(&mut self) -> Result<u64> {
        log_bytes(&self.store)
    }

    fn check(&mut self, objects: &[Vec<u8>]) -> Result<()> {
        let mut txn = self.store.begin();
        for (number, (&id, object)) in self.ids.iter().zip(objects).enumerate() {
            if self.records.read(&mut txn, id)? != *object {
                return Err(wrong(number));
            }
        }
        Ok(())
    }
}

/// Berkeley DB.
struct Peer {
    berkeley: Berkeley,
    partial: bool,
    app: App,
}

impl ObjectStore for Peer {
    fn load(&mut self, objects: &[Vec<u8>]) -> Result<()> {
        let transaction = self.berkeley.begin()?;
        for (number, object) in objects.iter().enumerate() {
            self.berkeley.put_bytes(&transaction, number as u64, object, None)?;
        }
        transaction.commit()
    }

    fn transaction(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        let transaction = self.berkeley.begin()?;
        for &Update { number, at } in updates {
            let (berkeley, key) = (&self.berkeley, u64::from(number));
            let object = self.app.object(number, || berkeley.get_bytes(&transaction, key, OBJECT_LEN))?;
            let changed = &mut object[at.into()..][..len];
            changed.fill(byte);
            if self.partial {
                self.berkeley.put_bytes(&transaction, key, changed, Some(at.into()))?;
            } else {
                self.berkeley.put_bytes(&transaction, key, object, None)?;
            }
        }
        transaction.commit()
    }

    fn log_bytes(&mut self) -> Result<u64> {
        super::System::log_bytes(&self.berkeley)?.ok_or_else(|| "Berkeley DB has a log".into())
    }

    fn check(&mut self, objects: &[Vec<u8>]) -> Result<()> {
        let transaction = self.berkeley.begin()?;
        for (number, object) in objects.iter().enumerate() {
            if self.berkeley.get_bytes(&transaction, number as u64, OBJECT_LEN)? != *object {
                return Err(wrong(number));
            }
        }
        transaction.commit()
    }
}
