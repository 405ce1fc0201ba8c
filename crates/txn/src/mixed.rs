//! Transactions over pages and heaps: one commit record, one moment (E10).
//!
//! Pages are isolated by locks that are held to the end, heap words by versions that are looked at again. What fits both
//! together is where the snapshot of heap words lies: never before a lock of this transaction was taken. Then all that
//! it has read is the state of one moment, that of its snapshot: pages cannot have changed since, and words had not
//! changed until then.

use cedrat_heap::{HEAP_PART, HeapSavepoint, Held, Interrupt, Joined, Tx};
use cedrat_wal::{Kind, Lsn, RecordHead, Spending};

use crate::body::room_for;
use crate::error::{Error, Result};
use crate::transaction::{How, Txn};

impl Txn {
    /// Reads and writes heap words as part of this transaction: they become durable, or vanish, with its pages.
    ///
    /// May be called any number of times. Within a nested top action and in undo nothing can be written: what they
    /// leave stays even if the transaction rolls back, which holds for pages only.
    ///
    /// ```
    /// # use cedrat_txn::{Commit, Options, Registry, Store};
    /// # use cedrat_heap::HeapOptions;
    /// # use std::sync::Arc;
    /// # fn main() -> cedrat_txn::Result<()> {
    /// # let media = Arc::new(cedrat_media::SimDisk::new());
    /// # let store = Store::open(media, Options::simulated(), Registry::new())?;
    /// let counts = store.memory().create_heap("counts", &HeapOptions::raw(1 << 16))?;
    /// let count = store.transact(|txn| {
    ///     // … pages are changed …
    ///     txn.heap(|tx| {
    ///         let count = tx.read(&counts, 0)? + 1;
    ///         tx.write(&counts, 0, count)?;
    ///         Ok(count)
    ///     })
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `work` failed with. [`cedrat_heap::Error::Conflict`]: roll back and run the transaction again, which
    /// [`Store::transact`](crate::Store::transact) does by itself.
    pub fn heap<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        self.alive()?;
        let mut heap = self.heap.borrow_mut();
        let joined = match &mut *heap {
            Some(joined) => joined,
            none => none.insert(Joined::begin(&self.store.inner.memory)?),
        };
        let plain = self.how == How::Plain && self.depth == 0 && !self.undoing;
        Ok(if plain { joined.run(work)? } else { joined.run_reading(work)? })
    }

    /// Takes over a transaction over heaps that was begun alone, for example to [prepare](Txn::prepare) it: it is part of this
    /// one from now on.
    ///
    /// # Errors
    /// [`Error::Misuse`] if this one has come to heaps already; those of [`Held::hand_over`]: the other one runs on then. A
    /// conflict, after which nothing is left of it.
    pub fn take_over(&mut self, held: &mut Held) -> Result<()> {
        self.alive()?;
        if self.heap.get_mut().is_some() || self.how != How::Plain || self.undoing {
            return Err(Error::Misuse("the transaction has come to heaps already, or is within something nested"));
        }
        let mut joined = held.hand_over(&self.store.inner.memory)?;
        joined.keep_up()?; // E10.2
        *self.heap.get_mut() = Some(joined);
        Ok(())
    }

    /// A lock was taken: what was read in heaps must hold now too (E10.2).
    #[inline]
    pub(crate) fn heap_keeps_up(&self) -> Result<()> {
        match &mut *self.heap.borrow_mut() {
            None => Ok(()),
            Some(joined) => Ok(joined.keep_up()?),
        }
    }

    /// Takes back what was written to heaps since a savepoint.
    pub(crate) fn heap_back_to(&mut self, savepoint: Option<HeapSavepoint>) -> Result<()> {
        match self.heap.get_mut() {
            Some(joined) => Ok(joined.back_to(savepoint)?),
            None => Ok(()),
        }
    }

    /// Commits pages and heap words, or only one of both; the transaction goes on to [`Txn::leave`]. After an error it was
    /// rolled back.
    pub(crate) fn commit_with_heap(&mut self, mut heap: Joined) -> Result<Lsn> {
        if !heap.has_writes() && self.entry.is_none() {
            // E10.3: all that was read is of the snapshot's moment. Looked at again all the same: it is cheap, and locks that an
            // application did without (L022) would have let something through.
            heap.keep_up()?;
            return Ok(self.newest_read().max(heap.seen()));
        }
        let part_len_max = self.inner().body_len_max;
        // What may wait comes first: nobody waits while stripes are locked (E10.4).
        self.enter()?;
        let wanted = heap.log_wanted(part_len_max);
        self.room_for_records(wanted, 0)?;
        heap.prepare(part_len_max)?;
        self.log_heap(heap)
    }

    /// Logs parts and commit record, and publishes. Nothing waits here.
    fn log_heap(&mut self, mut heap: Joined) -> Result<Lsn> {
        for part in heap.parts() {
            self.head.clear();
            self.append(HEAP_PART, part)?;
        }
        let body = heap.last_part().to_vec();
        self.head.clear();
        // After an error dropped: rolled back.
        let appended = self.append_deciding(Kind::COMMIT, &body, |lsn| heap.may_commit(lsn))?;
        self.unreported += room_for(body.len());
        heap.publish(appended.lsn);
        Ok(appended.lsn)
    }

    /// As [`append`](Txn::append), if `decide` says so when the LSN is drawn: else nothing of it is logged, and the transaction is
    /// to be rolled back.
    pub(crate) fn append_deciding(
        &mut self,
        kind: Kind,
        arguments: &[u8],
        decide: impl FnOnce(Lsn) -> bool,
    ) -> Result<cedrat_wal::Appended> {
        self.store.inner.check_len(self.head.len() + arguments.len())?;
        let room = self.room.as_mut().expect("E6.2: room is reserved before a record is made");
        room.spend(Spending::Forward);
        let head = RecordHead::new(kind, self.id, self.last);
        let log = &self.store.inner.log;
        let decided = log.append_deciding(self.partition, head, &[&self.head, arguments], room, decide);
        if !decided.kept {
            return Err(Error::Heap(cedrat_heap::Error::Conflict));
        }
        self.last = Some(decided.appended.offset);
        Ok(decided.appended)
    }
}
