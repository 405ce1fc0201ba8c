//! The measured systems behind one interface: a durable table of 8-byte keys and values.

use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::keys::{Keys, Picks};

mod berkeley;
pub(crate) mod cedrat;
mod lmdb;
mod memory;
pub(crate) mod objects;

/// Error of a measured system, in readable form.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A system, and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Which {
    /// Cedrat with latches alone, as the paper runs both systems.
    Cedrat,
    /// Cedrat with its default lock manager.
    CedratLocked,
    /// Cedrat with latches alone and encrypted files.
    CedratEncrypted,
    /// Berkeley DB's hash, without the lock manager; a mutex serialises concurrent puts, because without the lock manager
    /// its pages have no other guard.
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
    /// Name in reports. Configurations of one system share it.
    pub(crate) fn system(self) -> &'static str {
        match self {
            Which::Cedrat | Which::CedratLocked | Which::CedratEncrypted => "cedrat",
            Which::BdbHash | Which::BdbHashLocked => "bdb-hash",
            Which::BdbBtree | Which::BdbBtreeLocked => "bdb-btree",
            Which::Lmdb => "lmdb",
            Which::Memory => "ceiling",
        }
    }
}

impl Which {
    /// Name of its configuration, if there is a choice.
    pub(crate) fn way(self) -> &'static str {
        match self {
            Which::Cedrat => "no lock manager, latches alone",
            Which::CedratLocked => "lock manager",
            Which::CedratEncrypted => "no lock manager, latches alone, encrypted",
            Which::BdbHash | Which::BdbBtree => "no lock manager, a mutex around each put",
            Which::BdbHashLocked | Which::BdbBtreeLocked => "lock manager",
            Which::Lmdb | Which::Memory => "",
        }
    }
}

/// Expected size of a store.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sizing {
    /// Bytes of the buffer pool, for systems that have one.
    pub(crate) pool_bytes: u64,
    /// Records to presize for; 0 = start small. Cedrat never uses it.
    pub(crate) presize_records: u64,
}

/// Creates an empty store of `which` in the existing, empty directory `dir`.
pub(crate) fn create(which: Which, dir: &Path, sizing: Sizing) -> Result<Box<dyn System>> {
    use berkeley::{Berkeley, Guard, Shape};
    Ok(match which {
        Which::Cedrat => Box::new(cedrat::Cedrat::create(dir, sizing, cedrat::Guard::Latches)?),
        Which::CedratEncrypted => Box::new(cedrat::Cedrat::create(dir, sizing, cedrat::Guard::Encryption)?),
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

    /// Brings the store into its steady state, if a fresh one differs.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the bytes of log written since the store was created, if it has a log.
    fn log_bytes(&self) -> Result<Option<u64>>;
}

/// One thread's use of a store.
pub(crate) trait Session {
    /// Runs one transaction that inserts the key with its value; durable on return.
    fn insert_durably(&mut self, key: u64) -> Result<()>;

    /// Repeats [`Session::insert_durably`] with `outstanding` transactions in flight. Passes the number of further durable
    /// ones to `go_on` and ends when it returns `false`.
    fn insert_outstanding(
        &mut self,
        _outstanding: u32,
        _next: &mut dyn FnMut() -> u64,
        _go_on: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        Err("this system cannot have commits outstanding".into())
    }

    /// Runs one transaction that inserts all keys with their values; durable on return.
    fn load(&mut self, keys: Keys) -> Result<()>;

    /// Looks all keys up; returns an error if one is missing or has a wrong value.
    fn get_all(&mut self, keys: Picks) -> Result<()>;
}

/// Returns the error of [`Session::get_all`].
fn wrong_answer(key: u64, found: Option<u64>) -> Error {
    format!("key {key:#x} should have the value {:#x}, found {found:x?}", crate::keys::value(key)).into()
}
