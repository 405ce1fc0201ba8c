//! Cedrat, through its front door.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use cedrat::structures::RawHashTable;
use cedrat::txn::NoLocks;
use cedrat::wal::{ByteLen, PartitionId};
use cedrat::{Commit, Options, Store, Txn};

use super::{Result, Session, Sizing, System, wrong_answer};
use crate::keys::{Keys, Picks, value};

/// Log that is made ready before commits are counted: as much as a point of a few seconds writes.
const SEGMENTS_READY_BYTES: u64 = 256 << 20;

/// What keeps concurrent transactions apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// Latches alone, as the paper runs both systems.
    Latches,
    /// The default lock manager.
    LockManager,
}

/// A store with one hash table.
pub(crate) struct Cedrat {
    store: Store,
    table: RawHashTable,
}

/// A store of the figures. `background`: whether it may write pages home while it runs.
pub(crate) fn options(pool_bytes: u64, background: bool) -> Options {
    let mut options = Options { pool_bytes, background, locks: Arc::new(NoLocks), ..Options::default() };
    if !background {
        // Nothing goes home, so the log keeps all.
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
        Cedrat::create_with(dir, options)
    }

    pub(crate) fn create_with(dir: &Path, options: Options) -> Result<Cedrat> {
        let store = cedrat::open_with(dir, options, cedrat::registry())?;
        let table = store.transact(RawHashTable::create)?;
        Ok(Cedrat { store, table })
    }

    /// Opens a store that was made before, which is recovering it.
    pub(crate) fn reopen(dir: &Path, options: Options, root: u64) -> Result<Cedrat> {
        let store = cedrat::open_with(dir, options, cedrat::registry())?;
        let table = RawHashTable::open(&store, cedrat::pages::PageId::new(root))?;
        Ok(Cedrat { store, table })
    }

    /// Closes it: everything is written home.
    pub(crate) fn close(self) -> Result<()> {
        drop(self.table);
        Ok(self.store.close()?)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// What [`Cedrat::reopen`] asks for.
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

    /// A store that runs recycles its log segments; a fresh one would be making them, which takes as many writes again,
    /// while it is measured.
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
            // The oldest is waited for; whatever became stable with it is counted too.
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
