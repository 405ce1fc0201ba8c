//! A transaction: reads from a snapshot, and a write set that is kept until it commits.
//!
//! Invariants (docs/inside/invariants.md, H):
//!
//! - every word that is read belongs to one snapshot: the state after all commits up to an LSN (*opacity*). A transaction
//!   that would see any other state is interrupted before it sees it;
//! - the snapshot may move to a newer LSN, if nothing that was read has changed in between.

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use cedrat_sync::{Arc, planted, spin_hint, thread};

use crate::blocks::{Batch, BlockChange};
use crate::error::{Error, Interrupt, Result};
use crate::heap::{Core, Heap, NO_HEAP};
use crate::memory::Shared;
use crate::options::Locking;
use crate::redo::RedoWriter;
use crate::region::WORD_LEN;
use crate::slots::Slot;
use crate::stripes::{Look, Stripes};
use crate::view::{List, Window};
use crate::waits::PATIENCE;
use crate::write_set::{Bytes, Filter, Write, WriteMark, WriteSet};
use cedrat_sync::atomic::Ordering;
use cedrat_wal::{PartitionId, Reservation, TxnId};

/// Number of checks of a locked stripe before the transaction counts it as a conflict.
const LOOKS_AT_LOCKED: u32 = 64;

/// Buffers of a transaction, which a session keeps from one transaction to the next.
///
/// The fields down to the write set's filter are exposed to code outside of the library, which loads and stores words
/// directly: `view` defines their layout.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) window: Window,
    /// Every word read belongs to the state after this version.
    pub(crate) snapshot: u64,
    /// Stripes of the words that were read.
    pub(crate) reads: List<u32>,
    pub(crate) writes: WriteSet,
    /// Number of words in the window while a transaction runs.
    window_words: u64,
    /// Number of its slot, which is also its owner number in stripes.
    pub(crate) number: u32,
    pub(crate) partition: PartitionId,
    /// Number of the arena from which it takes blocks, in each heap.
    pub(crate) arena: u32,
    /// Locked stripes, with the state that each had before.
    pub(crate) locked: List<(u32, Look)>,
    /// Whether one of them was newer than the snapshot.
    pub(crate) locked_newer: bool,
    /// Numbers of the savepoints that a rollback may name, ascending.
    pub(crate) savepoints: Vec<u64>,
    /// Number of the newest one. Each session counts from a random number, so that no other one takes its savepoints.
    pub(crate) savepoint_number: u64,
    /// Whether an interrupt was returned: if the work continued after it, its results are invalid.
    pub(crate) interrupted: bool,
    /// Whether that was a call that is half done: it panicked, or failed after it went back further than to its beginning.
    pub(crate) half_done: bool,
    /// Whether locks are taken at the first write.
    pub(crate) encounter: bool,
    /// Blocks allocated and freed.
    pub(crate) blocks: Vec<BlockChange>,
    /// Blocks carved but not allocated yet; empty where `blocks` is.
    pub(crate) batches: Vec<Batch>,
    /// Heaps that this session has written to recently.
    pub(crate) heaps: Vec<Arc<Core>>,
    /// Number of the first of them.
    writes_to: u32,
    /// The same, unless locks are taken at the first write.
    updates: u32,
    pub(crate) redo: RedoWriter,
    /// Boxed: it is moved out for each commit.
    pub(crate) room: Option<Box<Reservation>>,
    /// The log had room to spare when `room` was reserved: what is left of it is kept for the next commit.
    pub(crate) keeps_reservation: bool,
    /// State of a small random generator, for waiting times.
    pub(crate) random: u64,
    /// Heap in which spans of free blocks are to be cleared once the transaction has released its locks.
    pub(crate) clears_at_end: Option<Arc<Core>>,
    /// Time and reason of the last failure to clear such spans, except conflicts.
    pub(crate) clearing_failed: Option<(Instant, Interrupt)>,
}

/// A heap transaction, while its work runs. It may use any heap of its memory.
///
/// Each call returns an [`Interrupt`] if the transaction cannot continue; pass it up with `?`.
#[derive(Debug)]
pub struct Tx<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) this: &'a mut Descriptor,
}

impl Descriptor {
    pub(crate) fn new(number: u32, partition: PartitionId) -> Descriptor {
        Descriptor {
            window: Window::CLOSED,
            snapshot: 0,
            reads: List::with_capacity(64),
            writes: WriteSet::default(),
            window_words: 0,
            number,
            partition,
            arena: 0,
            locked: List::with_capacity(64),
            locked_newer: false,
            savepoints: Vec::new(),
            savepoint_number: if planted!("foreign_savepoint_taken") { 0 } else { RandomState::new().hash_one(number) },
            interrupted: false,
            half_done: false,
            encounter: false,
            blocks: Vec::new(),
            batches: Vec::new(),
            heaps: Vec::new(),
            writes_to: NO_HEAP,
            updates: NO_HEAP,
            redo: RedoWriter::default(),
            room: None,
            keeps_reservation: false,
            random: 0x9e37_79b9_7f4a_7c15 ^ u64::from(number + 1).wrapping_mul(0xd134_2543_de82_ef95),
            clears_at_end: None,
            clearing_failed: None,
        }
    }

    /// Makes sure that the commit will find the heap.
    #[inline(always)]
    pub(crate) fn will_write(&mut self, core: &Arc<Core>) {
        if self.writes_to != core.number {
            self.remember(core);
        }
    }

    /// Sets whether locks are taken at the first write.
    #[inline(always)]
    pub(crate) fn lock_early(&mut self, early: bool) {
        self.encounter = early;
        self.updates = if early { NO_HEAP } else { self.writes_to };
    }

    #[cold]
    fn remember(&mut self, core: &Arc<Core>) {
        const KEPT: usize = 8;
        self.writes_to = core.number;
        self.lock_early(self.encounter);
        self.window.store_words = 0;
        if let Some(at) = self.heaps.iter().position(|known| Arc::ptr_eq(known, core)) {
            self.heaps.swap(0, at);
            return;
        }
        if self.heaps.len() >= KEPT && self.writes.is_empty() && self.blocks.is_empty() {
            self.heaps.clear();
        }
        self.heaps.insert(0, Arc::clone(core));
    }

    /// Returns the heap with this number, to which this session has written.
    #[inline(always)]
    pub(crate) fn heap(&self, number: u32) -> &Arc<Core> {
        match self.heaps.first() {
            Some(first) if first.number == number => first,
            _ => self.other_heap(number),
        }
    }

    #[inline(never)]
    fn other_heap(&self, number: u32) -> &Arc<Core> {
        self.heaps.iter().find(|core| core.number == number).expect("what is written to is remembered")
    }

    /// Forgets dropped heaps, if nothing is to be written.
    pub(crate) fn forget_dropped(&mut self) {
        if self.writes.is_empty() && self.blocks.is_empty() {
            self.heaps.retain(|core| !core.is_dropped());
            self.writes_to = self.heaps.first().map_or(NO_HEAP, |first| first.number);
            self.lock_early(self.encounter);
            self.window.store_words = 0;
        }
    }

    /// Marks the transaction as unable to commit, whether or not the work passes the interrupt up.
    #[cold]
    pub(crate) fn conflict(&mut self) -> Interrupt {
        self.interrupted = true;
        Interrupt::CONFLICT
    }

    /// Exposes the words of a heap to code outside of the library, which loads and stores them directly while a transaction
    /// runs.
    ///
    /// The window begins at a multiple of the words that the filter and a stripe cover, so that one number of a word serves
    /// both.
    pub(crate) fn show(&mut self, core: &Core, stripes: &Stripes) {
        let step = stripes.stripe_words().max(Filter::WORDS);
        let first = core.first_word.next_multiple_of(step);
        let stripe_words_log2 = stripes.stripe_words().ilog2();
        // Outside code cannot load a chunk.
        self.window_words = if core.region.is_complete() { core.words().saturating_sub(first) } else { 0 };
        self.window = Window {
            from: core.region.address() as u64 + first * WORD_LEN,
            words: 0,
            store_words: 0,
            first,
            stripes: stripes.address() as u64,
            salt: core.salt.wrapping_add(first >> stripe_words_log2),
            mask: stripes.count() as u64 - 1,
            heap: core.number,
            stripe_words_log2,
        };
    }

    /// Stops exposing words.
    pub(crate) fn hide(&mut self) {
        self.window = Window::CLOSED;
        self.window_words = 0;
    }

    /// Opens the window, as a transaction runs: outside code may load, and store where the commit will find the heap. It does
    /// not journal what it overwrites.
    #[inline(always)]
    pub(crate) fn open_window(&mut self) {
        let stores = self.writes_to == self.window.heap && !self.encounter && !self.writes.is_journaling();
        self.window.words = self.window_words;
        self.window.store_words = if stores { self.window_words } else { 0 };
    }

    /// Returns the number of values that are kept for rollbacks to savepoints.
    #[cfg(all(test, not(cedrat_shuttle)))]
    pub(crate) fn kept_for_savepoints(&self) -> usize {
        self.savepoints.len() + self.writes.journaled()
    }

    pub(crate) fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl<'a> Tx<'a> {
    /// Begins a transaction in an empty descriptor.
    #[inline(always)]
    pub(crate) fn begin(shared: &'a Shared, this: &'a mut Descriptor) -> Tx<'a> {
        debug_assert!(this.reads.is_empty() && this.writes.is_empty() && this.locked.is_empty());
        this.snapshot = shared.clock.now();
        (this.interrupted, this.half_done) = (false, false);
        let early = shared.options.locking == Locking::EncounterTime;
        if this.encounter != early {
            this.lock_early(early);
        }
        shared.slots.slot(this.number).begin(this.snapshot);
        this.open_window();
        if this.encounter {
            shared.slots.slot(this.number).locks_early(true);
        }
        Tx { shared, this }
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> &'a Slot {
        self.shared.slots.slot(self.this.number)
    }

    // ---- words ------------------------------------------------------------------------------------------------

    /// Reads the word at `offset`, a multiple of eight, as a little-endian number.
    ///
    /// # Errors
    /// An offset out of range or not aligned; a conflict.
    #[inline]
    pub fn read(&mut self, heap: &Heap, offset: u64) -> Result<u64, Interrupt> {
        self.shared.check_same(heap)?;
        let word = heap.core.word_at(offset)?;
        self.read_word(&heap.core, word)
    }

    /// Writes the word at `offset`, a multiple of eight. Other transactions see it after the commit.
    ///
    /// # Errors
    /// An offset out of range or not aligned; a conflict.
    #[inline]
    pub fn write(&mut self, heap: &Heap, offset: u64, value: u64) -> Result<(), Interrupt> {
        self.shared.check_same(heap)?;
        let word = heap.core.word_at(offset)?;
        self.write_word(&heap.core, word, value)
    }

    /// Reads the word at `offset` and writes the result of `change`; returns the value that was read, the old one. Faster
    /// than [`Tx::read`] followed by [`Tx::write`].
    ///
    /// ```
    /// # use cedrat_heap::{Commit, HeapOptions, Memory, MemoryOptions};
    /// # fn main() -> cedrat_heap::Result<()> {
    /// # let memory = Memory::volatile(MemoryOptions::small())?;
    /// # let heap = memory.create_heap("counts", &HeapOptions::raw(1 << 16))?;
    /// let old = memory.run(Commit::Sync, |tx| tx.update(&heap, 0, |count| count + 1))?.value;
    /// let new = memory.run(Commit::Sync, |tx| tx.read(&heap, 0))?.value;
    /// assert_eq!((old, new), (0, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading and writing.
    #[inline(always)]
    pub fn update(&mut self, heap: &Heap, offset: u64, change: impl FnOnce(u64) -> u64) -> Result<u64, Interrupt> {
        self.shared.check_same(heap)?;
        let word = heap.core.word_at(offset)?;
        self.update_word(&heap.core, word, change)
    }

    /// Reads bytes, at any offset and of any length (`READ` of Hathi, Figure 1).
    ///
    /// # Errors
    /// Bytes out of range; a conflict.
    pub fn read_bytes(&mut self, heap: &Heap, offset: u64, into: &mut [u8]) -> Result<(), Interrupt> {
        self.shared.check_same(heap)?;
        heap.core.check_range(offset, into.len() as u64)?;
        let (mut at, mut into) = (offset, into);
        while !into.is_empty() {
            let skip = (at % WORD_LEN) as usize;
            let len = into.len().min(8 - skip);
            let bytes = self.read_word(&heap.core, at / WORD_LEN)?.to_le_bytes();
            let (now, later) = into.split_at_mut(len);
            now.copy_from_slice(&bytes[skip..skip + len]);
            (at, into) = (at + len as u64, later);
        }
        Ok(())
    }

    /// Writes bytes, at any offset and of any length (`WRITE` of Hathi, Figure 1).
    ///
    /// # Errors
    /// Bytes out of range; a conflict.
    pub fn write_bytes(&mut self, heap: &Heap, offset: u64, bytes: &[u8]) -> Result<(), Interrupt> {
        self.shared.check_same(heap)?;
        heap.core.check_range(offset, bytes.len() as u64)?;
        self.writes(|tx| tx.write_range(heap, offset, bytes))
    }

    /// Runs several writes as a whole. Only a lock can fail them.
    #[inline(always)]
    pub(crate) fn writes(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Interrupt>) -> Result<(), Interrupt> {
        if self.this.encounter { self.whole(step) } else { step(self) }
    }

    fn write_range(&mut self, heap: &Heap, offset: u64, bytes: &[u8]) -> Result<(), Interrupt> {
        let (mut at, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let skip = (at % WORD_LEN) as usize;
            let len = bytes.len().min(8 - skip);
            let (now, later) = bytes.split_at(len);
            let mut value = [0; 8];
            value[skip..skip + len].copy_from_slice(now);
            let written = Bytes::range(skip, len);
            self.write_part(&heap.core, at / WORD_LEN, u64::from_le_bytes(value), written)?;
            (at, bytes) = (at + len as u64, later);
        }
        Ok(())
    }

    /// Reads a word of the transaction's snapshot, or the transaction's own write to it.
    #[inline(always)]
    pub(crate) fn read_word(&mut self, core: &Arc<Core>, word: u64) -> Result<u64, Interrupt> {
        if let Some(own) = self.this.writes.find(core.number, word) {
            return self.read_own(core, word, own);
        }
        self.read_shared(core, word)
    }

    /// Reads a word that the transaction has written, wholly or in part.
    #[cold]
    fn read_own(&mut self, core: &Arc<Core>, word: u64, own: Write) -> Result<u64, Interrupt> {
        if own.bytes == Bytes::ALL {
            return Ok(own.value);
        }
        let others = self.read_shared(core, word)?;
        Ok(own.bytes.merge(others, own.value))
    }

    #[inline(always)]
    fn read_shared(&mut self, core: &Core, word: u64) -> Result<u64, Interrupt> {
        let stripes = &self.shared.stripes;
        let stripe = stripes.of(core.salt, word);
        let lock = stripes.lock(stripe);
        let before = Look::first(lock);
        let Some(found) = core.region.word(word) else { return self.read_absent(core, word, stripe) };
        // `Acquire`: the second check comes after it; and a reader of a value written back sees its stripe locked before.
        let value = found.load(Ordering::Acquire);
        if before.belongs_to(self.this.snapshot) && Look::again(lock) == before {
            self.note_read(stripe);
            return Ok(value);
        }
        self.read_slowly(core, word, stripe)
    }

    /// Reads a word whose chunk may be absent.
    #[cold]
    #[inline(never)]
    fn read_absent(&mut self, core: &Core, word: u64, stripe: u32) -> Result<u64, Interrupt> {
        core.load(word, 1)?;
        self.read_slowly(core, word, stripe)
    }

    #[inline(always)]
    fn note_read(&mut self, stripe: u32) {
        if self.this.reads.last() != Some(&stripe) {
            self.this.reads.push(stripe);
        }
    }

    /// Handles a stripe that is locked, newer than the snapshot, or changed during the read. The word is loaded.
    #[cold]
    fn read_slowly(&mut self, core: &Core, word: u64, stripe: u32) -> Result<u64, Interrupt> {
        let stripes = &self.shared.stripes;
        let mut seen = Look::version(0);
        for looks in 1..=LOOKS_AT_LOCKED {
            let lock = stripes.lock(stripe);
            let before = Look::first(lock);
            let value = core.region.words()[word as usize].load(Ordering::Acquire);
            let again = Look::again(lock);
            if before == Look::owned_by(self.this.number) {
                // Its own lock: no other transaction writes here. The version before was validated when the lock was taken.
                return self.read_locked_by_itself(stripe, value);
            }
            seen = before;
            match before.free_version() {
                Some(_) if again != before => {}
                Some(version) if version <= self.this.snapshot || planted!("newer_word_read") => {
                    self.note_read(stripe);
                    return Ok(value);
                }
                Some(_) => self.extend_snapshot()?,
                // The owner may wait for this processor. A transaction that holds locks itself does not yield: others may
                // wait for them.
                None if looks % 16 == 0 && self.this.locked.is_empty() => thread::yield_now(),
                None => spin_hint(),
            }
        }
        Err(self.met(stripe, seen))
    }

    /// Returns the prepared transaction that holds a stripe until it receives its outcome.
    pub(crate) fn held_by(&self, seen: Look) -> Option<TxnId> {
        seen.owner().and_then(|owner| self.shared.slots.slot(owner).prepared()).map(TxnId)
    }

    /// Returns the interrupt for a stripe that stays locked. If its owner cannot continue before this thread does, waiting
    /// for it would not end.
    #[cold]
    pub(crate) fn met(&mut self, stripe: u32, seen: Look) -> Interrupt {
        if let Some(txn) = self.held_by(seen) {
            return Interrupt::failed(Error::InDoubt { txn }); // E9.9: the outcome may take days
        }
        let Some(owner) = seen.owner() else { return self.this.conflict() };
        if self.shared.slots.slot(owner).waits_for_this_thread(self.slot()) {
            return Interrupt::failed(Error::Misuse(
                "another transaction of this thread has locked what this one needs (Locking::EncounterTime): end it first",
            ));
        }
        let may_wait = self.shared.options.locking == Locking::EncounterTime;
        if may_wait && self.slot().awaits(stripe, PATIENCE) && self.is_awaited_by(owner) {
            return Interrupt::failed(Error::Misuse(
                "the owner of a word that this transaction needs waits for another transaction of this thread \
                 (Locking::EncounterTime): end that one first",
            ));
        }
        self.this.conflict()
    }

    fn read_locked_by_itself(&mut self, stripe: u32, value: u64) -> Result<u64, Interrupt> {
        let before = self.this.locked.iter().find(|(locked, _)| *locked == stripe).map(|(_, before)| *before);
        let before = before.expect("what is locked is remembered");
        if !before.belongs_to(self.this.snapshot) {
            self.extend_snapshot()?;
        }
        self.note_read(stripe);
        Ok(value)
    }

    /// Moves the snapshot to now, if nothing that was read has changed since.
    #[cold]
    pub(crate) fn extend_snapshot(&mut self) -> Result<(), Interrupt> {
        let now = self.shared.clock.now();
        let fixed = !self.shared.options.snapshot_extension && self.has_read();
        if fixed || !self.all_reads_hold() {
            return Err(self.this.conflict());
        }
        self.this.snapshot = now;
        Ok(())
    }

    /// Returns whether the stripes in the read set are unchanged. This suffices where the written stripes are locked: words
    /// that were read by the call that wrote them were validated when they were locked.
    #[inline]
    pub(crate) fn reads_hold(&self) -> bool {
        self.this.reads.iter().all(|&stripe| self.holds(stripe))
    }

    /// Returns whether nothing that was read has changed.
    pub(crate) fn all_reads_hold(&self) -> bool {
        let written = self.this.writes.all().iter().filter(|write| write.read);
        self.reads_hold() && written.map(|write| write.stripe).all(|stripe| self.holds(stripe))
    }

    /// Returns whether anything was read.
    pub(crate) fn has_read(&self) -> bool {
        !self.this.reads.is_empty() || self.this.writes.all().iter().any(|write| write.read)
    }

    /// Returns whether a stripe is free, or locked by this transaction, and not newer than the snapshot.
    #[inline]
    fn holds(&self, stripe: u32) -> bool {
        let look = self.shared.stripes.look(stripe);
        look.belongs_to(self.this.snapshot)
            || look == Look::owned_by(self.this.number) && self.was_old_when_locked(stripe)
    }

    /// Returns whether a stripe that this transaction has locked was not newer than the snapshot before.
    #[inline]
    pub(crate) fn was_old_when_locked(&self, stripe: u32) -> bool {
        let this = &*self.this;
        !this.locked_newer
            || this.locked.iter().any(|&(locked, before)| locked == stripe && before.belongs_to(this.snapshot))
    }

    #[inline(always)]
    pub(crate) fn write_word(&mut self, core: &Arc<Core>, word: u64, value: u64) -> Result<(), Interrupt> {
        self.write_part(core, word, value, Bytes::ALL)
    }

    #[inline(always)]
    fn write_part(&mut self, core: &Arc<Core>, word: u64, value: u64, bytes: Bytes) -> Result<(), Interrupt> {
        self.this.will_write(core);
        let stripe = self.shared.stripes.of(core.salt, word);
        if self.this.encounter {
            self.lock(stripe)?;
        }
        self.this.writes.put(Write { word, value, heap: core.number, stripe, bytes, read: false });
        Ok(())
    }

    /// Reads a word and writes the result of `change`. Where it needs no other function, it saves no registers.
    #[inline(always)]
    pub(crate) fn update_word(
        &mut self,
        core: &Arc<Core>,
        word: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Interrupt> {
        let seen = self.look_to_write(core, word);
        if let Some((stripe, value)) = seen
            && self.this.updates == core.number
            && self.this.writes.has_place_for(word)
        {
            self.put_read(core, word, change(value), stripe);
            return Ok(value);
        }
        self.update_slowly(core, word, change)
    }

    /// Writes a word that is zero, as [`Tx::update_word`] does; returns `false`, without effect, where that takes more work, or
    /// if the word is not zero.
    #[inline(always)]
    pub(crate) fn write_if_zero(&mut self, core: &Arc<Core>, word: u64, value: u64) -> bool {
        let Some((stripe, 0)) = self.look_to_write(core, word) else { return false };
        if self.this.encounter || self.this.writes.has(core.number, word) {
            return false;
        }
        self.this.will_write(core);
        self.put_read(core, word, value, stripe);
        true
    }

    /// Returns the stripe and the value of a word that is loaded and belongs to the snapshot. [`Tx::put_read`] may write it if it has no pending
    /// write, and locks are taken at the commit. The caller records the read.
    #[inline(always)]
    pub(crate) fn look_to_write(&self, core: &Core, word: u64) -> Option<(u32, u64)> {
        let stripe = self.shared.stripes.of(core.salt, word);
        let lock = self.shared.stripes.lock(stripe);
        let before = Look::first(lock);
        let value = core.region.word(word)?.load(Ordering::Acquire);
        let clear = before.belongs_to(self.this.snapshot) && Look::again(lock) == before;
        clear.then_some((stripe, value))
    }

    /// Adds a write to a word that this call has read. It is not in the read set: the commit validates the stripe when it locks
    /// it.
    #[inline(always)]
    pub(crate) fn put_read(&mut self, core: &Core, word: u64, value: u64, stripe: u32) {
        let (heap, bytes) = (core.number, Bytes::ALL);
        self.this.writes.put_new(Write { word, value, heap, stripe, bytes, read: true });
    }

    #[cold]
    #[inline(never)]
    fn update_slowly(
        &mut self,
        core: &Arc<Core>,
        word: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Interrupt> {
        if let Some((stripe, value)) = self.look_to_write(core, word)
            && !self.this.encounter
            && !self.this.writes.has(core.number, word)
        {
            self.this.will_write(core);
            self.put_read(core, word, change(value), stripe);
            return Ok(value);
        }
        let value = self.read_word(core, word)?;
        self.write_word(core, word, change(value))?;
        Ok(value)
    }

    /// Acquires a stripe's lock, unless this transaction holds it.
    #[inline]
    pub(crate) fn lock(&mut self, stripe: u32) -> Result<(), Interrupt> {
        let stripes = &self.shared.stripes;
        let own = Look::owned_by(self.this.number);
        let mut looks = 0;
        loop {
            let seen = stripes.look(stripe);
            if seen == own {
                return Ok(());
            }
            if !seen.is_locked() && stripes.try_lock(stripe, seen, self.this.number) {
                self.this.locked.push((stripe, seen));
                self.this.locked_newer |= !seen.belongs_to(self.this.snapshot);
                if self.this.encounter {
                    self.slot().lock_here();
                }
                return Ok(());
            }
            looks += 1;
            if looks > LOOKS_AT_LOCKED {
                return Err(self.met(stripe, seen));
            }
            spin_hint();
        }
    }

    // ---- the end ----------------------------------------------------------------------------------------------

    /// Adds words that were both read and written since the mark to the read set.
    pub(crate) fn keep_reads_since(&mut self, mark: WriteMark) {
        let this = &mut *self.this;
        this.writes.since(mark).iter().filter(|write| write.read).for_each(|write| this.reads.push(write.stripe));
    }

    /// Discards the writes, but keeps the read set.
    pub(crate) fn let_writes_go(&mut self) {
        self.keep_reads_since(WriteMark::BEGINNING);
        self.drop_blocks(0);
        self.release_locks();
        self.this.writes.clear();
        self.this.savepoints.clear();
    }

    /// Releases the locks that it has acquired since it began: from now on it locks what it writes when it commits.
    pub(crate) fn lock_at_commit(&mut self) {
        self.release_locks();
        self.this.lock_early(false);
    }

    /// Releases the locks, with the state that they had before.
    fn release_locks(&mut self) {
        for &(stripe, before) in &*self.this.locked {
            self.shared.stripes.unlock(stripe, before);
        }
        self.this.locked.clear();
        self.this.locked_newer = false;
    }

    /// Rolls the transaction back completely. Its locks get the state that they had before.
    pub(crate) fn abandon(&mut self) {
        // In a forked child the words of blocks are not there (E1.9e).
        if self.shared.clock.is_forked() {
            self.this.blocks.clear();
            self.this.clears_at_end = None;
            return self.forget();
        }
        self.slot().committed();
        self.drop_blocks(0);
        self.release_locks();
        self.give_up_reservation();
        self.forget();
        if let Some(core) = self.this.clears_at_end.take() {
            self.clear_at_end(&core);
        }
    }

    /// Empties the descriptor for the next transaction.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        (self.this.window.words, self.this.window.store_words) = (0, 0);
        self.this.locked.clear();
        self.this.locked_newer = false;
        self.this.reads.clear();
        self.this.writes.clear();
        self.this.blocks.clear();
        self.this.savepoints.clear();
        if !planted!("ended_transaction_keeps_blocks") {
            self.slot().end();
        }
    }

    pub(crate) fn drop_blocks(&mut self, keep: usize) {
        while self.this.blocks.len() > keep {
            let change = self.this.blocks.pop().expect("there is one");
            self.abandon_block(&change);
        }
    }
}

/// Rolls back work that ends by a panic.
impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if !self.this.locked.is_empty() || !self.this.blocks.is_empty() || self.this.clears_at_end.is_some() {
            self.abandon();
        } else {
            self.forget();
        }
    }
}
