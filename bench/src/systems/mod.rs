//! What is measured, behind one face: a table of 8-byte keys and values that survives.

use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::keys::{Keys, Picks};

mod berkeley;
pub(crate) mod cedrat;
mod lmdb;
mod memory;
pub(crate) mod objects;

/// What went wrong in a measured system, for a person to read.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A system, and how it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Which {
    /// Cedrat with latches alone, as the paper runs both systems.
    Cedrat,
    /// Cedrat with its default lock manager.
    CedratLocked,
    /// Berkeley DB's hash, without the lock manager; concurrent puts take turns at a mutex, because
    /// without the lock manager its pages have no other guard.
    BdbHash,
    /// Berkeley DB's btree, likewise.
    BdbBtree,
    /// Berkeley DB's hash with its lock manager.
    BdbHashLocked,
    /// Berkeley DB's btree with its lock manager.
    BdbBtreeLocked,
    Lmdb,
    /// A hash map in memory: the ceiling of `load`.
    Memory,
}

impl Which {
    /// The name that reports use. Ways of setting up one system share it.
    pub(crate) fn system(self) -> &'static str {
        match self {
            Which::Cedrat | Which::CedratLocked => "cedrat",
            Which::BdbHash | Which::BdbHashLocked => "bdb-hash",
            Which::BdbBtree | Which::BdbBtreeLocked => "bdb-btree",
            Which::Lmdb => "lmdb",
            Which::Memory => "ceiling",
        }
    }
}

impl Which {
    /// How it is set up, where there is a choice.
    pub(crate) fn way(self) -> &'static str {
        match self {
            Which::Cedrat => "no lock manager, latches alone",
            Which::CedratLocked => "lock manager",
            Which::BdbHash | Which::BdbBtree => "no lock manager, a mutex around each put",
            Which::BdbHashLocked | Which::BdbBtreeLocked => "lock manager",
            Which::Lmdb | Which::Memory => "",
        }
    }
}

/// How large a store will become.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sizing {
    /// Bytes of the buffer pool, for those that have one.
    pub(crate) pool_bytes: u64,
    /// Records to presize for; 0 = start small. Cedrat never uses it.
    pub(crate) presize_records: u64,
}

/// Makes an empty store of `which` in the existing, empty directory `dir`.
pub(crate) fn create(which: Which, dir: &Path, sizing: Sizing) -> Result<Box<dyn System>> {
    use berkeley::{Berkeley, Guard, Shape};
    Ok(match which {
        Which::Cedrat => Box::new(cedrat::Cedrat::create(dir, sizing, cedrat::Guard::Latches)?),
        Which::CedratLocked => Box::new(cedrat::Cedrat::create(dir, sizing, cedrat::Guard::LockManager)?),
        Which::BdbHash => Box::new(Berkeley::create(dir, sizing, Shape::Hash, Guard::Mutex)?),
        Which::BdbBtree => Box::new(Berkeley::create(dir, sizing, Shape::Btree, Guard::Mutex)?),
        Which::BdbHashLocked => Box::new(Berkeley::create(dir, sizing, Shape::Hash, Guard::LockManager)?),
        Which::BdbBtreeLocked => Box::new(Berkeley::create(dir, sizing, Shape::Btree, Guard::LockManager)?),
        Which::Lmdb => Box::new(lmdb::Lmdb::create(dir)?),
        Which::Memory => Box::new(memory::Memory::default()),
    })
}

/// An open store. Any thread may use it through a session of its own.
pub(crate) trait System: Sync {
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Puts the store where it is after running for a while, if a fresh one differs.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Bytes of log written since the store was made, if it has a log.
    fn log_bytes(&self) -> Result<Option<u64>>;
}

/// One thread's use of a store.
pub(crate) trait Session {
    /// One transaction: inserts the key with the value that belongs to it; durable on return.
    fn insert_durably(&mut self, key: u64) -> Result<()>;

    /// As [`Session::insert_durably`], again and again, without waiting for one before beginning the next: so
    /// many are outstanding. Tells `go_on` how many more are durable and ends when it says no.
    fn insert_outstanding(
        &mut self,
        _outstanding: u32,
        _next: &mut dyn FnMut() -> u64,
        _go_on: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        Err("this system cannot have commits outstanding".into())
    }

    /// One transaction: inserts all keys with the value that belongs to each; durable on return.
    fn load(&mut self, keys: Keys) -> Result<()>;

    /// Looks all keys up and complains when one is missing or has a value that is not its own.
    fn get_all(&mut self, keys: Picks) -> Result<()>;
}

/// The complaint of [`Session::get_all`].
fn wrong_answer(key: u64, found: Option<u64>) -> Error {
    format!("key {key:#x} should have the value {:#x}, found {found:x?}", crate::keys::value(key)).into()
}
