//! Cedrat, through its public interface.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use cedrat::media::{Encryption, Key};
use cedrat::structures::RawHashTable;
use cedrat::txn::NoLocks;
use cedrat::wal::{ByteLen, PartitionId};
use cedrat::{Commit, Options, Store, Txn};

use super::{Result, Session, Sizing, System, wrong_answer};
use crate::keys::{Keys, Picks, value};

/// Log space prepared before commits are counted: as much as a point of a few seconds writes.
const SEGMENTS_READY_BYTES: u64 = 256 << 20;

/// Guard of concurrent transactions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// Latches alone, as the paper runs both systems.
    Latches,
    /// The default lock manager.
    LockManager,
    /// Latches alone, and encrypted files.
    Encryption,
}

/// A store with one hash table.
pub(crate) struct Cedrat {
    store: Store,
    table: RawHashTable,
}

/// Returns the options of the figures' stores. `background`: whether pages may be written back while the store runs.
pub(crate) fn options(pool_bytes: u64, background: bool) -> Options {
    let mut options = Options { pool_bytes, background, locks: Arc::new(NoLocks), ..Options::default() };
    if !background {
        // No page is written back, so the log keeps all records.
        options.checkpoint_every_bytes = u64::MAX;
        options.log_limit_bytes = 16 << 30;
    }
    options
}

impl Cedrat {
    pub(super) fn create(dir: &Path, sizing: Sizing, guard: Guard) -> Result<Cedrat> {
        let mut options = options(sizing.pool_bytes, true);
        if guard == Guard::LockManager {
            options.locks = Options::default().locks;
        }
        if guard == Guard::Encryption {
            options.encryption = Some(Encryption::with_key(Key::random()?));
        }
        Cedrat::create_with(dir, options)
    }

    pub(crate) fn create_with(dir: &Path, options: Options) -> Result<Cedrat> {
        let store = cedrat::open_with(dir, options, cedrat::registry())?;
        let table = store.transact(RawHashTable::create)?;
        Ok(Cedrat { store, table })
    }

    /// Opens an existing store, with recovery.
    pub(crate) fn reopen(dir: &Path, options: Options, root: u64) -> Result<Cedrat> {
        let store = cedrat::open_with(dir, options, cedrat::registry())?;
        let table = RawHashTable::open(&store, cedrat::pages::PageId::new(root))?;
        Ok(Cedrat { store, table })
    }

    /// Closes the store: all pages are written back.
    pub(crate) fn close(self) -> Result<()> {
        drop(self.table);
        Ok(self.store.close()?)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the root for [`Cedrat::reopen`].
    pub(crate) fn root(&self) -> u64 {
        self.table.root().get()
    }

    pub(crate) fn insert(&self, txn: &mut Txn, key: u64) -> Result<()> {
        self.table.put(txn, &key.to_le_bytes(), &value(key).to_le_bytes())?;
        Ok(())
    }

    pub(crate) fn get(&self, txn: &mut Txn, key: u64) -> Result<Option<u64>> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        Ok(self.table.get_with(txn, &key.to_le_bytes(), word)?.flatten())
    }
}

impl System for Cedrat {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    /// Prepares log segments: a store in steady state recycles them; a fresh one would create them during the measurement,
    /// which takes as many writes again.
    fn settle(&self) -> Result<()> {
        drop(self.store.log().reserve(ByteLen(SEGMENTS_READY_BYTES), ByteLen(0))?);
        Ok(())
    }

    fn log_bytes(&self) -> Result<Option<u64>> {
        let log = self.store.log();
        log.force(log.current_lsn())?;
        Ok(Some((0..log.partitions()).map(|partition| log.flushed(PartitionId(partition)).get()).sum()))
    }
}

impl Session for &Cedrat {
    fn insert_durably(&mut self, key: u64) -> Result<()> {
        let mut txn = self.store.begin();
        self.insert(&mut txn, key)?;
        txn.commit(Commit::Sync)?;
        Ok(())
    }

    fn insert_outstanding(
        &mut self,
        outstanding: u32,
        next: &mut dyn FnMut() -> u64,
        go_on: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        let mut tickets = VecDeque::with_capacity(outstanding as usize);
        let mut more = true;
        while more {
            while tickets.len() < outstanding as usize {
                let mut txn = self.store.begin();
                self.insert(&mut txn, next())?;
                tickets.push_back(txn.commit(Commit::Async)?);
            }
            // The oldest commit is waited for; all others that became stable with it are counted too.
            let mut done = 0;
            while let Some(ticket) = tickets.pop_front_if(|ticket| done == 0 || ticket.is_stable()) {
                ticket.wait()?;
                done += 1;
            }
            more = go_on(done);
        }
        tickets.iter().try_for_each(|ticket| ticket.wait().map(drop).map_err(Into::into))
    }

    fn load(&mut self, keys: Keys) -> Result<()> {
        let mut txn = self.store.begin();
        for key in keys {
            self.insert(&mut txn, key)?;
        }
        txn.commit(Commit::Sync)?;
        Ok(())
    }

    fn get_all(&mut self, keys: Picks) -> Result<()> {
        let mut txn = self.store.begin();
        for key in keys {
            let found = self.get(&mut txn, key)?;
            if found != Some(value(key)) {
                return Err(wrong_answer(key, found));
            }
        }
        txn.commit(Commit::Sync)?;
        Ok(())
    }
}
