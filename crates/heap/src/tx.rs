//! A transaction: reading from a snapshot, and keeping what is written until it commits.
//!
//! What holds (docs/inside/invariants.md, H):
//!
//! - every word that is read belongs to one snapshot: the state after all commits up to an LSN (*opacity*). A
//!   transaction that would see anything else is interrupted before it sees it;
//! - the snapshot may move to a newer LSN, if nothing that was read has changed in between.

use cedrat_sync::{Arc, spin_hint, thread};

use crate::blocks::{Batch, BlockChange};
use crate::error::{Error, Interrupt, Result};
use crate::heap::{Core, Heap};
use crate::memory::Shared;
use crate::options::Locking;
use crate::redo::RedoWriter;
use crate::region::WORD_LEN;
use crate::slots::Slot;
use crate::stripes::Look;
use crate::write_set::{Bytes, Write, WriteMark, WriteSet};
use cedrat_sync::atomic::Ordering;
use cedrat_wal::{PartitionId, Reservation, TxnId};

/// How often a locked stripe is looked at again before its owner is called quicker.
const LOOKS_AT_LOCKED: u32 = 64;

/// What a transaction keeps, and a session from one transaction to the next.
#[derive(Debug)]
pub(crate) struct Descriptor {
    /// Its slot, which is also its name as an owner of stripes.
    pub(crate) number: u32,
    pub(crate) partition: PartitionId,
    /// Every word read belongs to the state after this version.
    pub(crate) snapshot: u64,
    /// Stripes that were read.
    pub(crate) reads: Vec<u32>,
    pub(crate) writes: WriteSet,
    /// Stripes that are locked, and what they said before.
    pub(crate) locked: Vec<(u32, Look)>,
    /// One of them said something newer than the snapshot.
    pub(crate) locked_newer: bool,
    /// The numbers of savepoints that can be gone back to, ascending.
    savepoints: Vec<u64>,
    savepoint_number: u64,
    /// An interrupt was given: what the work did after it, if it went on, stands on nothing.
    pub(crate) interrupted: bool,
    /// Whether locks are taken by writing.
    pub(crate) encounter: bool,
    /// Blocks allocated and freed.
    pub(crate) blocks: Vec<BlockChange>,
    /// Blocks carved and not handed out; empty where `blocks` is.
    pub(crate) batches: Vec<Batch>,
    /// Heaps that this session has written to lately.
    pub(crate) heaps: Vec<Arc<Core>>,
    /// The number of the first of them.
    writes_to: u32,
    pub(crate) redo: RedoWriter,
    /// Boxed: it is taken out for each commit.
    pub(crate) room: Option<Box<Reservation>>,
    /// State of a small random generator, for waiting times.
    pub(crate) random: u64,
}

/// A heap transaction, while its work runs. It may touch any heap of its memory.
///
/// All its calls return an [`Interrupt`] where the transaction cannot go on; pass it up with `?`.
#[derive(Debug)]
pub struct Tx<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) this: &'a mut Descriptor,
}

/// A place in a transaction that its writes can be taken back to (E10.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapSavepoint {
    writes: WriteMark,
    blocks: usize,
    /// No other savepoint of the session has it.
    number: u64,
}

impl Descriptor {
    pub(crate) fn new(number: u32, partition: PartitionId) -> Descriptor {
        Descriptor {
            number,
            partition,
            snapshot: 0,
            reads: Vec::with_capacity(64),
            writes: WriteSet::default(),
            locked: Vec::with_capacity(64),
            locked_newer: false,
            savepoints: Vec::new(),
            savepoint_number: 0,
            interrupted: false,
            encounter: false,
            blocks: Vec::new(),
            batches: Vec::new(),
            heaps: Vec::new(),
            writes_to: u32::MAX,
            redo: RedoWriter::default(),
            room: None,
            random: 0x9e37_79b9_7f4a_7c15 ^ u64::from(number + 1).wrapping_mul(0xd134_2543_de82_ef95),
        }
    }

    /// Makes sure that the commit will find the heap.
    #[inline(always)]
    pub(crate) fn will_write(&mut self, core: &Arc<Core>) {
        if self.writes_to != core.number {
            self.remember(core);
        }
    }

    #[cold]
    fn remember(&mut self, core: &Arc<Core>) {
        const KEPT: usize = 8;
        self.writes_to = core.number;
        if let Some(at) = self.heaps.iter().position(|known| Arc::ptr_eq(known, core)) {
            self.heaps.swap(0, at);
            return;
        }
        if self.heaps.len() >= KEPT && self.writes.is_empty() && self.blocks.is_empty() {
            self.heaps.clear();
        }
        self.heaps.insert(0, Arc::clone(core));
    }

    /// The heap with this number, to which this session has written.
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

    /// Forgets heaps that are gone, if nothing is to be written.
    pub(crate) fn forget_dropped(&mut self) {
        if self.writes.is_empty() && self.blocks.is_empty() {
            self.heaps.retain(|core| !core.is_dropped());
            self.writes_to = self.heaps.first().map_or(u32::MAX, |first| first.number);
        }
    }

    /// The transaction cannot commit any more, whatever becomes of the interrupt.
    #[cold]
    pub(crate) fn conflict(&mut self) -> Interrupt {
        self.interrupted = true;
        Interrupt::CONFLICT
    }

    pub(crate) fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl<'a> Tx<'a> {
    /// Begins a transaction in a descriptor that holds nothing.
    #[inline(always)]
    pub(crate) fn begin(shared: &'a Shared, this: &'a mut Descriptor) -> Tx<'a> {
        debug_assert!(this.reads.is_empty() && this.writes.is_empty() && this.locked.is_empty());
        this.snapshot = shared.clock.now();
        this.interrupted = false;
        this.encounter = shared.options.locking == Locking::EncounterTime;
        shared.slots.slot(this.number).begin(this.snapshot);
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

    /// Writes the word at `offset`, a multiple of eight. Others see it when the transaction has committed.
    ///
    /// # Errors
    /// An offset out of range or not aligned; a conflict.
    #[inline]
    pub fn write(&mut self, heap: &Heap, offset: u64, value: u64) -> Result<(), Interrupt> {
        self.shared.check_same(heap)?;
        let word = heap.core.word_at(offset)?;
        self.write_word(&heap.core, word, value)
    }

    /// Reads the word at `offset` and writes what `change` makes of it; returns what was read. Quicker than
    /// [`Tx::read`] and then [`Tx::write`].
    ///
    /// # Errors
    /// Those of reading and writing.
    #[inline]
    pub fn update(&mut self, heap: &Heap, offset: u64, change: impl FnOnce(u64) -> u64) -> Result<u64, Interrupt> {
        self.shared.check_same(heap)?;
        let word = heap.core.word_at(offset)?;
        self.update_word(&heap.core, word, change)
    }

    /// Reads bytes, of any place and length (`READ` of Hathi, Figure 1).
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

    /// Writes bytes, of any place and length (`WRITE` of Hathi, Figure 1).
    ///
    /// # Errors
    /// Bytes out of range; a conflict.
    pub fn write_bytes(&mut self, heap: &Heap, offset: u64, bytes: &[u8]) -> Result<(), Interrupt> {
        self.shared.check_same(heap)?;
        heap.core.check_range(offset, bytes.len() as u64)?;
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

    /// Reads a word of the transaction's snapshot, or what the transaction has written over it.
    #[inline(always)]
    pub(crate) fn read_word(&mut self, core: &Arc<Core>, word: u64) -> Result<u64, Interrupt> {
        if let Some(own) = self.this.writes.find(core.number, word) {
            return self.read_own(core, word, own);
        }
        self.read_shared(core, word)
    }

    /// A word that the transaction has written, all of it or some of its bytes.
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
        // `Acquire`: the second look comes after it; and who sees a value written back sees its stripe locked before.
        let value = core.region.words()[word as usize].load(Ordering::Acquire);
        if before.belongs_to(self.this.snapshot) && Look::again(lock) == before {
            self.note_read(stripe);
            return Ok(value);
        }
        self.read_slowly(core, word, stripe)
    }

    #[inline(always)]
    fn note_read(&mut self, stripe: u32) {
        if self.this.reads.last() != Some(&stripe) {
            self.this.reads.push(stripe);
        }
    }

    /// The stripe is locked, or newer than the snapshot, or changed under the reader's eyes.
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
                // Its own lock: nobody else writes here. What it said before was judged when it was taken.
                return self.read_locked_by_itself(stripe, value);
            }
            seen = before;
            match before.free_version() {
                Some(_) if again != before => {}
                Some(version) if version <= self.this.snapshot => {
                    self.note_read(stripe);
                    return Ok(value);
                }
                Some(_) => self.extend_snapshot()?,
                // Its owner may wait for this processor; but nobody waits for long who has locks himself.
                None if looks % 16 == 0 && self.this.locked.is_empty() => thread::yield_now(),
                None => spin_hint(),
            }
        }
        Err(self.met(seen))
    }

    /// The prepared transaction that holds a stripe until it is told its outcome.
    pub(crate) fn held_by(&self, seen: Look) -> Option<TxnId> {
        seen.owner().and_then(|owner| self.shared.slots.slot(owner).prepared()).map(TxnId)
    }

    /// A stripe stays locked. If its owner cannot go on before this thread does, waiting for it would not end.
    #[cold]
    fn met(&mut self, seen: Look) -> Interrupt {
        if seen.owner().is_some_and(|owner| self.shared.slots.slot(owner).waits_for_this_thread()) {
            return Interrupt::failed(Error::Misuse(
                "a transaction within whose work this one runs has locked what it needs (Locking::EncounterTime)",
            ));
        }
        if let Some(txn) = self.held_by(seen) {
            return Interrupt::failed(Error::InDoubt { txn }); // E9.9: it may take days
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

    /// Whether the stripes in the list of those read still are as they were. Enough where what is written is locked: words
    /// that were read by the call that wrote them were judged when they were locked.
    #[inline]
    pub(crate) fn reads_hold(&self) -> bool {
        self.this.reads.iter().all(|&stripe| self.holds(stripe))
    }

    /// Whether everything that was read still is as it was.
    pub(crate) fn all_reads_hold(&self) -> bool {
        let written = self.this.writes.all().iter().filter(|write| write.read);
        self.reads_hold() && written.map(|write| write.stripe).all(|stripe| self.holds(stripe))
    }

    /// Whether anything was read.
    pub(crate) fn has_read(&self) -> bool {
        !self.this.reads.is_empty() || self.this.writes.all().iter().any(|write| write.read)
    }

    /// Whether a stripe is free, or locked by this transaction, and not newer than the snapshot.
    #[inline]
    fn holds(&self, stripe: u32) -> bool {
        let look = self.shared.stripes.look(stripe);
        look.belongs_to(self.this.snapshot)
            || look == Look::owned_by(self.this.number) && self.was_old_when_locked(stripe)
    }

    /// Of a stripe that this transaction has locked.
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

    /// Reads a word and writes what `change` makes of it.
    #[inline(always)]
    pub(crate) fn update_word(
        &mut self,
        core: &Arc<Core>,
        word: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Interrupt> {
        let stripe = self.shared.stripes.of(core.salt, word);
        let lock = self.shared.stripes.lock(stripe);
        let before = Look::first(lock);
        let value = core.region.words()[word as usize].load(Ordering::Acquire);
        let clear = before.belongs_to(self.this.snapshot) && Look::again(lock) == before;
        if !clear || self.this.encounter || self.this.writes.may_have(core.number, word) {
            return self.update_slowly(core, word, change);
        }
        self.this.will_write(core);
        // Not in the list of what was read: the commit looks at the stripe when it locks it.
        let (value_then, heap, bytes) = (change(value), core.number, Bytes::ALL);
        self.this.writes.put_new(Write { word, value: value_then, heap, stripe, bytes, read: true });
        Ok(value)
    }

    #[cold]
    fn update_slowly(
        &mut self,
        core: &Arc<Core>,
        word: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Interrupt> {
        let value = self.read_word(core, word)?;
        self.write_word(core, word, change(value))?;
        Ok(value)
    }

    /// Takes a stripe's lock, if this transaction does not have it.
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
                return Ok(());
            }
            looks += 1;
            if looks > LOOKS_AT_LOCKED {
                return Err(self.met(seen));
            }
            spin_hint();
        }
    }

    // ---- savepoints -------------------------------------------------------------------------------------------

    /// A place to which [`Tx::back_to`] takes the transaction's writes back.
    pub fn savepoint(&mut self) -> HeapSavepoint {
        self.this.savepoint_number += 1;
        let number = self.this.savepoint_number;
        self.this.savepoints.push(number);
        HeapSavepoint { writes: self.this.writes.mark(), blocks: self.this.blocks.len(), number }
    }

    /// Whether anything was written, allocated or freed since the savepoint, which was just taken.
    pub(crate) fn has_changed_since(&mut self, savepoint: &HeapSavepoint) -> bool {
        self.this.writes.mark() != savepoint.writes || self.this.blocks.len() != savepoint.blocks
    }

    /// Takes back what was written, allocated and freed since the savepoint. What was read stays read (E10.6).
    ///
    /// # Errors
    /// [`Error::Misuse`] if the savepoint is another transaction's, or newer than one that was gone back to since.
    pub fn back_to(&mut self, savepoint: HeapSavepoint) -> Result<(), Interrupt> {
        let at = self.this.savepoints.iter().rposition(|&number| number == savepoint.number);
        let Some(at) = at else {
            let what = "the savepoint is another transaction's, or an older one was gone back to since";
            return Err(Interrupt::failed(Error::Misuse(what)));
        };
        self.this.savepoints.truncate(at + 1);
        self.keep_reads_since(savepoint.writes);
        self.this.writes.back_to(savepoint.writes);
        self.drop_blocks(savepoint.blocks);
        Ok(())
    }

    // ---- the end ----------------------------------------------------------------------------------------------

    /// What was read by calls that also wrote goes to the list of what was read.
    fn keep_reads_since(&mut self, mark: WriteMark) {
        let this = &mut *self.this;
        this.reads.extend(this.writes.since(mark).iter().filter(|write| write.read).map(|write| write.stripe));
    }

    /// Gives up what was written, but remembers what was read.
    pub(crate) fn let_writes_go(&mut self) {
        self.keep_reads_since(WriteMark::BEGINNING);
        self.drop_blocks(0);
        for (stripe, before) in self.this.locked.drain(..) {
            self.shared.stripes.unlock(stripe, before);
        }
        self.this.locked_newer = false;
        self.this.writes.clear();
    }

    /// Lets everything go: nothing of the transaction remains. Locks say again what they said before.
    pub(crate) fn abandon(&mut self) {
        self.slot().committed();
        self.drop_blocks(0);
        for &(stripe, before) in &self.this.locked {
            self.shared.stripes.unlock(stripe, before);
        }
        self.forget();
    }

    /// Empties the descriptor for the next transaction.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.this.locked.clear();
        self.this.locked_newer = false;
        self.this.reads.clear();
        self.this.writes.clear();
        self.this.blocks.clear();
        self.this.savepoints.clear();
        self.slot().end();
    }

    fn drop_blocks(&mut self, keep: usize) {
        while self.this.blocks.len() > keep {
            let change = self.this.blocks.pop().expect("there is one");
            self.abandon_block(&change);
        }
    }
}

/// Work that ends without a word, by a panic, leaves nothing either.
impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if !self.this.locked.is_empty() || !self.this.blocks.is_empty() {
            self.abandon();
        } else {
            self.forget();
        }
    }
}

impl Shared {
    #[inline(always)]
    pub(crate) fn check_same(&self, heap: &Heap) -> Result<(), Interrupt> {
        if std::ptr::eq(self, heap.memory.shared()) { Ok(()) } else { Err(other_memory()) }
    }
}

#[cold]
fn other_memory() -> Interrupt {
    Interrupt::failed(Error::Misuse("the heap belongs to another store's memory than the transaction"))
}
