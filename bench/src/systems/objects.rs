//! Stores of objects of a kilobyte, for the figure `object-cache`.

use std::ops::Range;
use std::path::Path;

use cedrat::objects::{ObjectDelta, ObjectId, Objects, Options, UndoPolicy, register_delta};
use cedrat::prelude::Refused;
use cedrat::structures::Records;
use cedrat::txn::{RecordId, SmallBytes, TxnOptions};
use cedrat::wal::PartitionId;
use cedrat::{Commit, Store, Txn};
use serde::{Deserialize, Serialize};

use super::Result;
use super::berkeley::{Berkeley, Shape};
use super::cedrat::options;
use crate::objects::{CACHED, OBJECT_LEN, OBJECTS, Place, Resident, Undo, Variant};

/// System that stores the objects.
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

/// A store of [`OBJECTS`] objects, and the application's cache in front of it.
pub(crate) trait ObjectStore {
    /// Fills an empty store: all objects have these bytes.
    fn load(&mut self, object: &[u8]) -> Result<()>;

    /// Runs one durable transaction: `len` bytes of each of these objects become `byte`.
    fn transaction(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()>;

    /// Runs the same without its commit. Its log records are durable on return; the store may not be used afterwards.
    fn leave_unfinished(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()>;

    fn log_bytes(&mut self) -> Result<u64>;

    fn read(&mut self, number: u32) -> Result<Vec<u8>>;
}

/// Creates an empty store in the existing, empty directory `dir`.
pub(crate) fn create(dir: &Path, place: &Place) -> Result<Box<dyn ObjectStore + Send>> {
    open(dir, place, true)
}

/// Opens the existing store, with recovery.
pub(crate) fn reopen(dir: &Path, place: &Place) -> Result<Box<dyn ObjectStore + Send>> {
    open(dir, place, false)
}

fn open(dir: &Path, place: &Place, fresh: bool) -> Result<Box<dyn ObjectStore + Send>> {
    let shape = match place.way.system {
        System::Cedrat => {
            let registry = cedrat::registry().with(register_delta::<Fill>).with(register_delta::<Whole>);
            let store = cedrat::open_with(dir, options(place.pool_bytes, true), registry)?;
            return Ok(match place.way.variant {
                Variant::Plain => Box::new(Plain::open(store, fresh)?),
                _ => Box::new(Cached::open(store, place)?),
            });
        }
        System::BdbBtree => Shape::Btree,
        System::BdbHash => Shape::Hash,
    };
    let is_cached = place.way.variant != Variant::Uncached;
    let (pool_bytes, page_len) = match is_cached {
        true => (place.pool_bytes, PEER_PAGE_LEN),
        false => (place.pool_bytes + CACHE_BYTES, PEER_PAGE_OF_ONE_LEN),
    };
    let berkeley = Berkeley::direct(dir, pool_bytes, page_len, shape, fresh)?;
    let app = is_cached.then(App::new);
    Ok(Box::new(Peer { berkeley, partial: place.way.variant != Variant::Full, app }))
}

/// Memory of the application's cache, in bytes: its objects, and the memory of a record in Cedrat's cache beside its
/// object, with its metadata and its header.
const CACHE_BYTES: u64 = CACHED as u64 * (OBJECT_LEN as u64 + 192 + 4);

/// Pages of seven objects and their keys.
const PEER_PAGE_LEN: u32 = 8192;

/// Pages of one object, so that no space is wasted on neighbours of hot ones.
const PEER_PAGE_OF_ONE_LEN: u32 = 2048;

/// Sets bytes of an object.
#[derive(Debug, Serialize, Deserialize)]
struct Fill {
    at: u16,
    bytes: SmallBytes,
}

impl ObjectDelta for Fill {
    const NAME: &'static str = "bench.fill.v1";

    fn apply(&self, object: &mut [u8]) -> std::result::Result<(), Refused> {
        let range = object.get_mut(usize::from(self.at)..).and_then(|rest| rest.get_mut(..self.bytes.len()));
        range.ok_or(Refused::new("the bytes do not lie in the object"))?.copy_from_slice(&self.bytes);
        Ok(())
    }

    fn changes(&self) -> Option<Range<usize>> {
        let at = usize::from(self.at);
        Some(at..at + self.bytes.len())
    }
}

/// Sets all bytes of an object.
#[derive(Debug, Serialize, Deserialize)]
struct Whole {
    bytes: SmallBytes,
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

/// Leaves a transaction unfinished, as a crash would.
fn leave(store: &Store, txn: Txn) -> Result<()> {
    std::mem::forget(txn);
    let log = store.log();
    log.force(log.current_lsn())?;
    Ok(())
}

/// Objects through Cedrat's cache.
struct Cached {
    store: Store,
    objects: Objects,
    ids: Vec<ObjectId>,
    deltas: bool,
    transactions: TxnOptions,
}

impl Cached {
    fn open(store: Store, place: &Place) -> Result<Cached> {
        let (undo, transactions) = match place.way.undo {
            Undo::Relaxed => (UndoPolicy::Relaxed, TxnOptions::default().without_atomicity()),
            Undo::CommittedOnly => (UndoPolicy::CommittedOnly, TxnOptions::default()),
            Undo::Inverses | Undo::Logged => (UndoPolicy::Inverses, TxnOptions::default()),
        };
        let objects = Objects::open_or_create(&store, "objects", Options { cache_bytes: CACHE_BYTES, undo })?;
        // They were inserted by one thread into an empty collection: in this order.
        let ids = store.transact(|txn| objects.ids(txn))?;
        Ok(Cached { store, objects, ids, deltas: place.way.variant == Variant::Delta, transactions })
    }

    fn changes(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<Txn> {
        let mut txn = self.store.begin_with(self.transactions);
        let all = [byte; OBJECT_LEN];
        for &Update { number, at } in updates {
            let id = self.ids[number as usize];
            if self.deltas {
                self.objects.update(&mut txn, id, Fill { at, bytes: all[..len].into() })?;
            } else {
                let mut bytes = self.objects.read_for_change(&mut txn, id, <[u8]>::to_vec)?;
                bytes[at.into()..][..len].fill(byte);
                self.objects.update(&mut txn, id, Whole { bytes: bytes.into() })?;
            }
        }
        Ok(txn)
    }
}

impl ObjectStore for Cached {
    fn load(&mut self, object: &[u8]) -> Result<()> {
        let mut txn = self.store.begin_with(self.transactions);
        for _ in 0..OBJECTS {
            self.ids.push(self.objects.insert(&mut txn, object)?);
        }
        txn.commit(Commit::Sync)?;
        Ok(self.store.checkpoint()?)
    }

    fn transaction(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        self.changes(updates, len, byte)?.commit(Commit::Sync)?;
        Ok(())
    }

    fn leave_unfinished(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        let txn = self.changes(updates, len, byte)?;
        leave(&self.store, txn)
    }

    fn log_bytes(&mut self) -> Result<u64> {
        log_bytes(&self.store)
    }

    fn read(&mut self, number: u32) -> Result<Vec<u8>> {
        let mut txn = self.store.begin();
        Ok(self.objects.read(&mut txn, self.ids[number as usize], <[u8]>::to_vec)?)
    }
}

/// An application that has some of its objects in memory, and writes the changed bytes.
struct App {
    resident: Resident,
    objects: Vec<Vec<u8>>,
}

impl App {
    fn new() -> App {
        App { resident: Resident::new(), objects: vec![Vec::new(); OBJECTS as usize] }
    }

    /// Returns an object to change; `read` reads one that is not present.
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
    fn open(store: Store, fresh: bool) -> Result<Plain> {
        let open = if fresh { Records::create } else { Records::open };
        let records = store.transact(|txn| open(txn, "objects"))?;
        // They were inserted by one thread into an empty collection: in this order.
        let all = store.transact(|txn| records.all(txn))?;
        let ids = all.into_iter().map(|(id, _)| id).collect();
        Ok(Plain { store, records, ids, app: App::new() })
    }

    fn changes(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<Txn> {
        let mut txn = self.store.begin();
        for &Update { number, at } in updates {
            let id = self.ids[number as usize];
            let records = &self.records;
            let object = self.app.object(number, || Ok(records.read(&mut txn, id)?))?;
            object[at.into()..][..len].fill(byte);
            self.records.update(&mut txn, id, object)?;
        }
        Ok(txn)
    }
}

impl ObjectStore for Plain {
    fn load(&mut self, object: &[u8]) -> Result<()> {
        let mut txn = self.store.begin();
        for _ in 0..OBJECTS {
            self.ids.push(self.records.insert(&mut txn, object)?);
        }
        txn.commit(Commit::Sync)?;
        Ok(self.store.checkpoint()?)
    }

    fn transaction(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        self.changes(updates, len, byte)?.commit(Commit::Sync)?;
        Ok(())
    }

    fn leave_unfinished(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        let txn = self.changes(updates, len, byte)?;
        leave(&self.store, txn)
    }

    fn log_bytes(&mut self) -> Result<u64> {
        log_bytes(&self.store)
    }

    fn read(&mut self, number: u32) -> Result<Vec<u8>> {
        let mut txn = self.store.begin();
        Ok(self.records.read(&mut txn, self.ids[number as usize])?)
    }
}

/// Berkeley DB.
struct Peer {
    berkeley: Berkeley,
    partial: bool,
    app: Option<App>,
}

impl Peer {
    fn changes(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<super::berkeley::Transaction> {
        let transaction = self.berkeley.begin()?;
        for &Update { number, at } in updates {
            let (berkeley, key) = (&self.berkeley, u64::from(number));
            let read = || berkeley.get_bytes(&transaction, key, OBJECT_LEN);
            let mut read_now;
            let object = match &mut self.app {
                Some(app) => app.object(number, read)?,
                None => {
                    read_now = read()?;
                    &mut read_now
                }
            };
            let changed = &mut object[at.into()..][..len];
            changed.fill(byte);
            match self.partial {
                true => self.berkeley.put_bytes(&transaction, key, changed, Some(at.into()))?,
                false => self.berkeley.put_bytes(&transaction, key, object, None)?,
            }
        }
        Ok(transaction)
    }
}

impl ObjectStore for Peer {
    fn load(&mut self, object: &[u8]) -> Result<()> {
        let transaction = self.berkeley.begin()?;
        for number in 0..OBJECTS {
            self.berkeley.put_bytes(&transaction, number.into(), object, None)?;
        }
        transaction.commit()
    }

    fn transaction(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        self.changes(updates, len, byte)?.commit()
    }

    fn leave_unfinished(&mut self, updates: &[Update], len: usize, byte: u8) -> Result<()> {
        let _unfinished = self.changes(updates, len, byte)?; // dropping it ends nothing
        self.berkeley.force_log()
    }

    fn log_bytes(&mut self) -> Result<u64> {
        super::System::log_bytes(&self.berkeley)?.ok_or_else(|| "Berkeley DB has a log".into())
    }

    fn read(&mut self, number: u32) -> Result<Vec<u8>> {
        let transaction = self.berkeley.begin()?;
        let object = self.berkeley.get_bytes(&transaction, number.into(), OBJECT_LEN)?;
        transaction.commit()?;
        Ok(object)
    }
}
