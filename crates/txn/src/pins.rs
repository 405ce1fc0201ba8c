//! The holders of the log: what keeps a checkpoint from releasing more of it.

use std::time::Duration;

use cedrat_pages::PageId;
use cedrat_wal::{Lsn, TxnId};

use crate::error::Result;
use crate::store::{Inner, Store};
use crate::table::Entry;

/// The holders of a store's log, as [`Store::pins`] finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pins {
    /// The scan point of the last checkpoint: log before it is released, unless a backup, the archive or a consumer needs it.
    pub scan_lsn: Lsn,
    /// The redo point of the last checkpoint.
    pub redo_lsn: Lsn,
    /// The LSN of the newest record.
    pub newest_lsn: Lsn,
    /// The bytes of log since the scan point.
    pub bytes: u64,
    /// The holders, oldest first.
    pub pins: Vec<Pin>,
}

/// A holder of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pin {
    /// The first LSN that it needs.
    pub lsn: Lsn,
    /// The bytes of log, in whole blocks, that keeping all records from this LSN on takes.
    pub bytes: u64,
    /// The holder.
    pub holder: PinHolder,
}

/// The kind of a holder of the log, and how it is released.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinHolder {
    /// An open transaction: until it ends.
    Transaction {
        /// Its number.
        txn: TxnId,
        /// The time since its first record; `None` unless [`Options::txn_time_limit`](crate::Options::txn_time_limit) is set.
        age: Option<Duration>,
    },
    /// A prepared transaction: until its outcome, or until a checkpoint carries it forward.
    Prepared {
        /// Its number.
        txn: TxnId,
        /// The identifier under which it prepared.
        id: Vec<u8>,
    },
    /// The page with the oldest change that is not in the page file: until the next checkpoint.
    Page(PageId),
    /// The oldest record that an opening has not redone yet: until redo has reached it.
    Redo,
    /// The oldest change that a cache has not written to its page: until the next checkpoint.
    DeferredChange,
    /// The outcome of a branch that an operator has ended: until it is forgotten, or a checkpoint carries it forward.
    HeuristicOutcome,
    /// The heap whose checkpoint is the oldest: until the next checkpoint.
    Heap(String),
    /// A running backup: until it ends.
    Backup,
    /// A consumer of the change stream, or a replica: until it confirms what it needs, or is released.
    Consumer(String),
    /// The archive: until it is extended.
    Archive {
        /// The failure of the last attempt.
        failure: Option<String>,
    },
}

impl Store {
    /// Returns what holds the log, oldest first: the holder to look at when the log is nearly full.
    ///
    /// All open and prepared transactions and all consumers are listed; of pages, deferred changes, outcomes and heaps only the oldest.
    /// Transactions may run meanwhile: each holder held the log at some moment of the call.
    ///
    /// # Errors
    /// The store stopped.
    pub fn pins(&self) -> Result<Pins> {
        let inner = &self.inner;
        inner.alive_here()?;
        let control = inner.log.control().checkpoint;
        let mut pins = inner.pins_of_transactions();
        pins.extend(inner.pins_of_state());
        pins.sort_by_key(|pin| pin.lsn);
        Ok(Pins {
            scan_lsn: control.scan_lsn,
            redo_lsn: control.redo_lsn,
            newest_lsn: inner.log.current_lsn(),
            bytes: inner.log.bytes_since(control.scan_lsn).0,
            pins,
        })
    }
}

impl Inner {
    fn pin(&self, lsn: Lsn, holder: PinHolder) -> Pin {
        Pin { lsn, bytes: self.log.bytes_since(lsn).0, holder }
    }

    fn pins_of_transactions(&self) -> Vec<Pin> {
        let pin = |entry: &Entry| {
            let id = entry.is_prepared().then(|| self.branches.identifier_of(entry.id)).flatten();
            let holder = match id {
                Some(id) => PinHolder::Prepared { txn: entry.id, id },
                None => PinHolder::Transaction { txn: entry.id, age: self.limits.age(entry.entered) },
            };
            self.pin(entry.kept_from(), holder)
        };
        self.table.all(|_| true).iter().map(|entry| pin(entry)).collect()
    }

    /// Returns the holders that are not transactions.
    fn pins_of_state(&self) -> Vec<Pin> {
        let newest = self.log.current_lsn();
        let mut found = Vec::new();
        found.extend(self.pool.oldest_change().map(|(page, lsn)| (lsn, PinHolder::Page(page))));
        found.extend(self.rest_of_redo.oldest().map(|lsn| (lsn, PinHolder::Redo)));
        found.extend(self.oldest_deferred().map(|lsn| (lsn, PinHolder::DeferredChange)));
        found.extend(self.outcomes.kept_from().map(|lsn| (lsn, PinHolder::HeuristicOutcome)));
        found.extend(self.memory.oldest_checkpoint().map(|(heap, lsn)| (lsn.next(), PinHolder::Heap(heap))));
        found.extend(self.backups.scan_lsns().into_iter().map(|lsn| (lsn, PinHolder::Backup)));
        let archive = self.archive.as_ref().map(|archive| archive.status());
        found.extend(
            archive.map(|status| (status.up_to.next(), PinHolder::Archive { failure: status.failure.clone() })),
        );
        found.extend(self.consumers.keeping().into_iter().map(|(name, lsn)| (lsn, PinHolder::Consumer(name))));
        // A heap without changes since its checkpoint needs no record.
        found.retain(|&(lsn, _)| lsn <= newest);
        found.into_iter().map(|(lsn, holder)| self.pin(lsn, holder)).collect()
    }
}
