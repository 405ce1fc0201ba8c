//! Transactions over pages and heaps: one commit record, one moment (E10).
//!
//! Pages are isolated by locks that are held to the end, heap words by versions that are validated. The snapshot of
//! heap words makes both consistent: it is never older than the last lock that this transaction took. So everything
//! that the transaction has read is the state at its snapshot: pages cannot have changed since, and words had not
//! changed until then.

use cedrat_heap::{HEAP_PART, HeapSavepoint, Held, Interrupt, Joined, Tx};
use cedrat_sync::planted;
use cedrat_wal::{Kind, Lsn, RecordHead, Spending};

use crate::body::record_space;
use crate::error::{Error, Result};
use crate::transaction::{ChangeMode, Txn};

impl Txn {
    /// Reads and writes heap words as part of this transaction: they become durable, or vanish, with its pages.
    ///
    /// May be called any number of times. Within a nested top action and in undo nothing can be written: their changes
    /// stay even if the transaction rolls back, which is possible for pages only.
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
    /// The error of `work`. [`cedrat_heap::Error::Conflict`]: roll back and run the transaction again, which
    /// [`Store::transact`](crate::Store::transact) does by itself.
    pub fn heap<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        self.alive()?;
        let mut heap = self.heap.borrow_mut();
        let joined = match &mut *heap {
            Some(joined) => joined,
            none => {
                let joined = none.insert(Joined::begin(&self.store.inner.memory)?);
                if let Some(since) = self.repeated_since {
                    joined.set_repeated_since(since, self.id);
                }
                joined
            }
        };
        let plain = self.change_mode == ChangeMode::Plain && self.nesting.depth == 0 && !self.undoing;
        let value = if plain { joined.run(work) } else { joined.run_reading(work) };
        let value = value.map_err(|error| self.store.inner.explain_full(error.into()))?;
        // Without its locks, pages that it has read may be older than these words.
        if !planted!("words_read_without_locks") {
            self.still_isolated()?;
        }
        Ok(value)
    }

    /// Takes over a transaction over heaps that was begun on its own, for example to [prepare](Txn::prepare) it: from
    /// now on it is part of this transaction.
    ///
    /// # Errors
    /// [`Error::Misuse`] if this transaction has already accessed heaps; those of [`Held::hand_over`]: then the other
    /// transaction continues. A conflict, after which nothing is left of the other transaction.
    pub fn take_over(&mut self, held: &mut Held) -> Result<()> {
        self.alive()?;
        if self.heap.get_mut().is_some() || self.change_mode != ChangeMode::Plain || self.undoing {
            return Err(Error::Misuse("the transaction has accessed heaps already, or is within a nested top action"));
        }
        let mut joined = held.hand_over(&self.store.inner.memory)?;
        joined.keep_up()?; // E10.2
        *self.heap.get_mut() = Some(joined);
        Ok(())
    }

    /// Validates the heap reads after a lock was taken: they must still hold (E10.2).
    #[inline]
    pub(crate) fn heap_keeps_up(&self) -> Result<()> {
        match &mut *self.heap.borrow_mut() {
            Some(joined) if !planted!("lock_moves_no_snapshot") => Ok(joined.keep_up()?),
            _ => Ok(()),
        }
    }

    /// Undoes the heap writes since a savepoint.
    pub(crate) fn heap_back_to(&mut self, savepoint: Option<HeapSavepoint>) -> Result<()> {
        match self.heap.get_mut() {
            Some(joined) => Ok(joined.back_to(savepoint)?),
            None => Ok(()),
        }
    }

    /// Commits pages and heap words, or only one of both; the transaction continues to [`Txn::leave`]. After an error
    /// it was rolled back.
    pub(crate) fn commit_with_heap(&mut self, mut heap: Joined) -> Result<Lsn> {
        if !heap.wrote() && self.entry.is_none() {
            // E10.3: all reads are of the snapshot's moment. They are validated nevertheless: it is cheap, and locks
            // that an application did without (L022) would have let a change through.
            if !planted!("reader_not_validated") {
                heap.keep_up()?;
            }
            return Ok(self.newest_read().max(heap.seen()));
        }
        let part_len_max = self.inner().body_len_max;
        // Everything that may wait comes first: no thread waits while stripes are locked (E10.4).
        self.enter()?;
        let wanted = heap.log_wanted(part_len_max);
        self.reserve_for_records(wanted, 0)?;
        heap.prepare(part_len_max)?;
        self.log_heap(heap)
    }

    /// Logs parts and commit record, and publishes. Never waits.
    fn log_heap(&mut self, mut heap: Joined) -> Result<Lsn> {
        for part in heap.parts() {
            self.head.clear();
            self.append(HEAP_PART, part)?;
        }
        if planted!("faces_committed_apart") && self.cursor.last.is_some() {
            self.head.clear();
            let pages = self.append(Kind::COMMIT, &[])?;
            self.store.inner.log.force(pages.lsn)?;
        }
        let body = heap.last_part().to_vec();
        self.head.clear();
        // Dropped after an error: rolled back.
        let appended = self.append_deciding(Kind::COMMIT, &body, |lsn| heap.validate(lsn))?;
        self.cursor.unreported += record_space(body.len());
        heap.publish(appended.lsn);
        Ok(appended.lsn)
    }

    /// As [`append`](Txn::append), if `decide` agrees when the LSN is drawn; else nothing is logged, and the
    /// transaction must be rolled back.
    pub(crate) fn append_deciding(
        &mut self,
        kind: Kind,
        arguments: &[u8],
        decide: impl FnOnce(Lsn) -> bool,
    ) -> Result<cedrat_wal::Appended> {
        self.store.inner.check_len(self.head.len() + arguments.len())?;
        let reservation = self.cursor.reservation.as_mut().expect("E6.2: room is reserved before a record is made");
        reservation.spend(Spending::Forward);
        let head = RecordHead::new(kind, self.id, self.cursor.last);
        let log = &self.store.inner.log;
        let decided = log.append_deciding(self.partition, head, &[&self.head, arguments], reservation, decide);
        if !decided.kept {
            return Err(Error::Heap(cedrat_heap::Error::Conflict));
        }
        self.cursor.last = Some(decided.appended.offset);
        Ok(decided.appended)
    }
}
