//! Allocation in transactions (`pmalloc`, `pfree`).
//!
//! Words record which blocks exist (`layout`); they are changed through the write set like all others, so aborts undo and
//! recovery restores them. The free blocks among them are cached (`arena`), and the cache is rebuilt from the words.
//!
//! Invariants (docs/inside/invariants.md, E17):
//!
//! - a free raises the version of every stripe of the block when it commits, so that a transaction that began before and
//!   accesses the block is interrupted, whatever the block holds by then (E17.1);
//! - a block is reused only after the free has committed and all transactions that began before have ended (E17.2);
//! - plain stores go only to words that neither the committed state nor the transaction's own writes use for a header or
//!   the table, because a checkpoint may copy them although the transaction never commits (E17.4).

mod arena;
mod at_once;
mod emptied;
mod layout;
mod roots;
#[cfg(test)]
mod tests;
#[cfg(all(test, not(cedrat_shuttle)))]
pub(crate) use tests::{all_known, forget_known};
mod walk;
mod within;

use cedrat_sync::atomic::{AtomicU64, Ordering, fence};
use cedrat_sync::{Arc, planted};
use cedrat_wal::TxnId;

pub(crate) use arena::Blocks;
use arena::{Found, Latched, Open};
use emptied::Uncleared;
pub(crate) use layout::FIRST_WORD;
use layout::{Place, Span, header};
pub use roots::Root;
pub use walk::Usage;

use crate::error::{Error, Interrupt};
use crate::heap::{Core, Heap};
use crate::redo::RedoWriter;
use crate::region::WORD_LEN;
use crate::stripes::Look;
use crate::tx::Tx;

/// Number of words, or a few blocks, in which headers are carved at once: a small transaction shall not write a whole span.
const CARVED_WORDS: u64 = 2048;

/// A block that a transaction has allocated or freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockChange {
    /// Heap's number.
    pub(crate) heap: u32,
    /// Block's first word.
    pub(crate) first: u64,
    pub(crate) words: u64,
    /// Number of those from the first on that the requested length needs: no program accesses the others.
    pub(crate) used: u64,
    pub(crate) kind: Change,
}

/// Kind of a change to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Allocated; writes to it go through the write set.
    Allocated {
        /// Whether this transaction carved it.
        carved: bool,
    },
    /// Allocated, and filled with plain stores: it is logged as a whole.
    Filled {
        /// Whether this transaction carved it.
        carved: bool,
    },
    /// Freed.
    Freed,
    /// Not a block: a span was carved further; `words` headers were carved before.
    Carved,
}

/// Blocks that a transaction has carved: private to it until it commits.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) heap: u32,
    pub(crate) size: usize,
    pub(crate) span: u64,
    /// Number of headers carved before this transaction.
    pub(crate) began: u64,
    /// Whether the span was a free one.
    pub(crate) fresh: bool,
    /// Next block to allocate, and the end of the carved ones.
    pub(crate) next: u64,
    pub(crate) end: u64,
}

/// A free block, claimed by this transaction.
#[derive(Clone, Copy, Debug)]
struct Taken {
    size: usize,
    header: u64,
    /// Whether this transaction carved it.
    carved: bool,
}

/// Free blocks next to stripes that a prepared transaction has locked, and its number.
#[derive(Default)]
struct Held {
    blocks: Vec<Taken>,
    by: Option<TxnId>,
}

impl Held {
    /// Returns the reason why nothing could be allocated: if space ran out, the prepared transaction that holds these
    /// blocks.
    #[cold]
    fn instead_of(&self, why: Interrupt) -> Interrupt {
        match (why.into_error(), self.by) {
            (Error::HeapFull { .. }, Some(txn)) => Error::InDoubt { txn }.into(),
            (error, _) => error.into(),
        }
    }
}

/// An allocated block that was found.
#[derive(Clone, Copy, Debug)]
struct Block {
    place: Place,
    len: u64,
}

impl BlockChange {
    /// Allocation of the block behind a header.
    #[inline(always)]
    fn allocated(core: &Core, header: u64, words: u64, len: u64, filled: bool, carved: bool) -> BlockChange {
        let kind = if filled { Change::Filled { carved } } else { Change::Allocated { carved } };
        BlockChange { heap: core.number, first: header + 1, words, used: len.div_ceil(WORD_LEN), kind }
    }

    /// Free of a block of this length.
    #[inline(always)]
    fn freed(core: &Core, header: u64, words: u64, len: u64) -> BlockChange {
        let used = len.div_ceil(WORD_LEN);
        BlockChange { heap: core.number, first: header + 1, words, used, kind: Change::Freed }
    }

    fn is_filled(&self) -> bool {
        matches!(self.kind, Change::Filled { .. })
    }

    pub(crate) fn logged_len(&self) -> u64 {
        if self.is_filled() { self.words * 9 + 64 } else { 0 }
    }

    /// Logs a filled block as a whole: its plain stores are recorded nowhere else.
    pub(crate) fn log(&self, core: &Arc<Core>, redo: &mut RedoWriter) {
        if self.is_filled() {
            let words = &core.region.words()[self.first as usize..][..self.words as usize];
            let values = words.iter().map(|word| word.load(Ordering::Relaxed));
            redo.run(core.number, self.first, words.len(), values);
        }
    }

    /// Marks the chunks of a filled block as changed: its words are already in memory, and checkpoints must copy them.
    pub(crate) fn mark_changed(&self, core: &Arc<Core>) {
        if self.is_filled() {
            core.mark_changed(self.first, self.words);
        }
    }
}

impl Core {
    fn blocks(&self) -> Result<&Blocks, Interrupt> {
        self.blocks.as_ref().ok_or_else(|| {
            Interrupt::failed(Error::Misuse("the heap was created without blocks; create it with HeapOptions::new"))
        })
    }

    pub(crate) fn has_blocks(&self) -> bool {
        self.blocks.is_some()
    }

    /// Returns the words from one header to the next for blocks of a size, of which there are some.
    pub(crate) fn stride_of(&self, size: usize) -> u64 {
        self.blocks.as_ref().map_or(0, |blocks| blocks.layout.stride(size))
    }

    /// Returns whether a span may have blocks of this stride.
    pub(crate) fn may_carve(&self, stride: u64, span: u64) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| {
            let spans = blocks.layout.first_span..self.words() / blocks.layout.span_words;
            blocks.layout.size_of_stride(stride).is_some() && spans.contains(&span)
        })
    }

    /// Restores the claim of a prepared transaction that carves a span, as before the store was opened; returns the size of
    /// its blocks.
    pub(crate) fn carves_again(&self, stride: u64, span: u64, fresh: bool, arena: u32) -> Result<Option<usize>, Error> {
        let Some(blocks) = self.blocks.as_ref() else { return Ok(None) };
        let Some(size) = blocks.layout.size_of_stride(stride) else { return Ok(None) };
        if fresh {
            blocks.withhold_spans(self, span, 1)?;
            blocks.give_to_arena(span, arena);
        } else {
            blocks.know(self, span, arena)?;
            blocks.withhold_open(span, size);
        }
        Ok(Some(size))
    }

    /// Restores the claim of a prepared transaction on a block that it allocated or freed, before the store was opened.
    pub(crate) fn changes_again(&self, change: &BlockChange, arena: u32) -> Result<(), Error> {
        let Some(blocks) = self.blocks.as_ref() else { return Ok(()) };
        let span = blocks.layout.span_of(change.first);
        match change.kind {
            Change::Carved | Change::Allocated { carved: true } | Change::Filled { carved: true } => {}
            Change::Freed => blocks.know(self, span, arena)?,
            Change::Allocated { .. } | Change::Filled { .. } => match blocks.layout.size_of_words(change.words) {
                Ok(size) => {
                    blocks.know(self, span, arena)?;
                    blocks.withhold_block(change.first - 1, size);
                }
                Err(spans) => blocks.withhold_spans(self, span, spans)?,
            },
        }
        Ok(())
    }

    fn not_allocated(&self, offset: u64) -> Interrupt {
        Interrupt::failed(Error::NotAllocated { heap: self.name.clone(), offset })
    }

    #[cold]
    fn full(&self, len: u64) -> Interrupt {
        let room_to_grow = (self.region.words().len() as u64).saturating_sub(self.words()) * WORD_LEN;
        Interrupt::failed(Error::HeapFull { heap: self.name.clone(), len, room_to_grow })
    }
}

/// Orders the plain stores to a new block: a reader that sees one of them and knew the block before it was freed must also see
/// that its stripes are newer (E17.1), and no lock lies between. Their versions were raised before the block arrived here
/// through the latch of an arena, and the reader loads words with `Acquire`.
#[inline(always)]
fn precede_plain_stores() {
    fence(Ordering::Release);
}

impl Tx<'_> {
    // ---- for programs -----------------------------------------------------------------------------------------

    /// Allocates a block of `len` bytes (`pmalloc` of Hathi §3). Returns its offset, a multiple of 16.
    ///
    /// Its content is undefined: write before you read. Other transactions see the block after the commit; without a commit
    /// there is no block.
    ///
    /// ```
    /// # use cedrat_heap::{HeapOptions, Memory, MemoryOptions};
    /// # fn main() -> cedrat_heap::Result<()> {
    /// # let memory = Memory::volatile(MemoryOptions::small())?;
    /// let heap = memory.create_heap("blocks", &HeapOptions::new(1 << 20))?;
    /// let block = heap.atomically(|tx| {
    ///     let block = tx.allocate(&heap, 100)?;
    ///     tx.write_bytes(&heap, block, b"a hundred bytes, of which these are the first")?;
    ///     Ok(block)
    /// })?;
    /// heap.atomically(|tx| tx.free(&heap, block))?;
    /// assert_eq!(heap.allocated_bytes()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::HeapFull`]; a heap without blocks; a conflict.
    pub fn allocate(&mut self, heap: &Heap, len: u64) -> Result<u64, Interrupt> {
        self.allocate_block(heap, len, false)
    }

    /// Allocates a block that is filled with plain stores before the transaction commits, by [`Tx::fill`], or through its
    /// address by a program in another language. It is logged as a whole.
    ///
    /// # Errors
    /// Those of [`Tx::allocate`].
    pub fn allocate_filled(&mut self, heap: &Heap, len: u64) -> Result<u64, Interrupt> {
        self.allocate_block(heap, len, true)
    }

    /// Stores bytes directly into a block that this transaction has allocated by [`Tx::allocate_filled`].
    ///
    /// A rollback to a savepoint does not undo these stores, only the allocation of the block.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the bytes are not within such a block.
    pub fn fill(&mut self, heap: &Heap, offset: u64, bytes: &[u8]) -> Result<(), Interrupt> {
        self.shared.check_same(heap)?;
        let inside = |change: &BlockChange| {
            let (from, to) = (change.first * WORD_LEN, (change.first + change.words) * WORD_LEN);
            change.heap == heap.core.number
                && change.is_filled()
                && (from..=to).contains(&offset)
                && (bytes.len() as u64 <= to - offset || planted!("filled_beyond_block"))
        };
        if !self.this.blocks.iter().rev().any(inside) {
            let what = "these bytes lie in no block that this transaction has allocated to be filled";
            return Err(Interrupt::failed(Error::Misuse(what)));
        }
        heap.core.region.store_bytes(offset, bytes);
        Ok(())
    }

    /// Frees a block (`pfree` of Hathi §3). It is reused after this transaction has committed and all that began before
    /// have ended.
    ///
    /// # Errors
    /// [`Error::NotAllocated`] if no allocated block begins here, as after another free; a conflict.
    pub fn free(&mut self, heap: &Heap, offset: u64) -> Result<(), Interrupt> {
        self.free_block(heap, offset).map(drop)
    }

    /// Frees a block as [`Tx::free`] does, and returns its requested length in bytes.
    ///
    /// # Errors
    /// Those of [`Tx::free`].
    pub fn free_block(&mut self, heap: &Heap, offset: u64) -> Result<u64, Interrupt> {
        self.shared.check_same(heap)?;
        self.whole(|tx| tx.free_whole(heap, offset))
    }

    fn free_whole(&mut self, heap: &Heap, offset: u64) -> Result<u64, Interrupt> {
        let core = &heap.core;
        let Block { place: Place { header, words, span }, len } = self.find_block(core, offset)?;
        let blocks = core.blocks()?;
        blocks.know(core, span, self.this.arena)?;
        if blocks.layout.size_of_words(words).is_err() {
            self.write_word(core, blocks.layout.table_word(span), Span::Free.to_word())?;
        }
        self.write_word(core, header, 0)?;
        self.this.blocks.push(BlockChange::freed(core, header, words, len));
        Ok(len)
    }

    /// Returns the requested length in bytes of the block that begins at `offset`.
    ///
    /// # Errors
    /// [`Error::NotAllocated`] if no allocated block begins there; a conflict.
    pub fn block_len(&mut self, heap: &Heap, offset: u64) -> Result<u64, Interrupt> {
        self.shared.check_same(heap)?;
        Ok(self.find_block(&heap.core, offset)?.len)
    }

    /// Returns the first word of a block of at least `len` bytes.
    #[inline]
    pub(crate) fn block_at(&mut self, core: &Arc<Core>, offset: u64, len: u64) -> Result<u64, Interrupt> {
        let block = self.find_block(core, offset)?;
        if block.len < len {
            let heap = core.name.clone();
            return Err(Interrupt::failed(Error::BlockTooShort { heap, offset, len, has: block.len }));
        }
        Ok(block.place.header + 1)
    }

    // ---- finding ----------------------------------------------------------------------------------------------

    /// Returns the allocated block that begins at an offset.
    ///
    /// The table is read without recording the read: the entry of a span with blocks in use does not change, and whether
    /// this block is in use is read from its header. Only a refusal needs a table entry that belongs to the snapshot.
    #[inline(always)]
    fn find_block(&mut self, core: &Arc<Core>, offset: u64) -> Result<Block, Interrupt> {
        let blocks = core.blocks()?;
        let word = offset / WORD_LEN;
        if !offset.is_multiple_of(16) || word < core.first_word || word >= core.words() {
            return Err(core.not_allocated(offset));
        }
        let table_word = blocks.layout.table_word(blocks.layout.span_of(word));
        let says = core.word(table_word)?.load(Ordering::Acquire);
        if let Some(place) = blocks.layout.locate(says, word)
            && let Some(len) = place.allocated_len(self.read_word(core, place.header)?)
        {
            return Ok(Block { place, len });
        }
        self.find_exactly(core, blocks, table_word, word)
    }

    #[cold]
    fn find_exactly(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        table_word: u64,
        word: u64,
    ) -> Result<Block, Interrupt> {
        let says = self.read_word(core, table_word)?;
        if let Some(place) = blocks.layout.locate(says, word)
            && let Some(len) = place.allocated_len(self.read_word(core, place.header)?)
        {
            return Ok(Block { place, len });
        }
        Err(core.not_allocated(word * WORD_LEN))
    }

    // ---- allocating -------------------------------------------------------------------------------------------

    fn allocate_block(&mut self, heap: &Heap, len: u64, filled: bool) -> Result<u64, Interrupt> {
        self.shared.check_same(heap)?;
        let core = &heap.core;
        let blocks = core.blocks()?;
        let size = blocks.layout.size_for(len);
        let first = match size.and_then(|size| self.allocate_at_once(core, blocks, size, len, filled)) {
            Some(first) => first,
            None => self.whole(|tx| {
                let first = tx.allocate_slowly(core, blocks, size, len, filled)?;
                if filled {
                    tx.load_to_fill(core)?;
                }
                Ok(first)
            })?,
        };
        if filled {
            precede_plain_stores();
        }
        Ok(first * WORD_LEN)
    }

    /// Loads the chunks of the block that was allocated last: plain stores are about to fill it, and all of its words are logged.
    fn load_to_fill(&self, core: &Core) -> Result<(), Interrupt> {
        match self.this.blocks.last() {
            Some(filled) if !planted!("filled_block_overwritten") => Ok(core.load(filled.first, filled.words)?),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn allocate_slowly(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        size: Option<usize>,
        len: u64,
        filled: bool,
    ) -> Result<u64, Interrupt> {
        self.this.will_write(core);
        let Some(size) = size else { return self.allocate_run(core, blocks, len, filled) };
        let mut held = Held::default();
        let allocated = self.allocate_sized(core, blocks, size, len, filled, &mut held);
        held.blocks.iter().for_each(|taken| blocks.give_back(taken.header, taken.size));
        allocated.map_err(|why| held.instead_of(why))
    }

    fn allocate_sized(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        size: usize,
        len: u64,
        filled: bool,
        held: &mut Held,
    ) -> Result<u64, Interrupt> {
        let arena = self.this.arena;
        let slots = &self.shared.slots;
        loop {
            let at_hand = self.take_carved(core, blocks, |batch| batch.size == size).or_else(|| {
                let header = blocks.take(arena, size, || slots.oldest_start())?;
                Some(Taken { size, header, carved: false })
            });
            let taken = match at_hand {
                Some(taken) => taken,
                None => match self.find_more(core, blocks, size, len)? {
                    Some(taken) => taken,
                    None => continue,
                },
            };
            let Taken { size, header: place, carved } = taken;
            if !carved && let Some(txn) = self.word_held_by(core, place) {
                // Try other blocks: the neighbour of this one is in doubt, perhaps for days.
                held.blocks.push(taken);
                held.by = Some(txn);
                continue;
            }
            // Recorded before anything can fail, so that it is given back.
            let words = blocks.layout.stride(size) - 1;
            self.this.blocks.push(BlockChange::allocated(core, place, words, len, filled, carved));
            if !carved && self.read_word(core, place)? != 0 && !planted!("cached_block_believed") {
                self.this.blocks.pop(); // not free: the words take precedence over the cache (E17.3)
                continue;
            }
            self.write_word(core, place, header(len))?;
            return Ok(place + 1);
        }
    }

    /// Returns the prepared transaction that holds the stripe of a word.
    fn word_held_by(&self, core: &Core, word: u64) -> Option<TxnId> {
        let stripes = &self.shared.stripes;
        self.held_by(stripes.look(stripes.of(core.salt, word)))
    }

    /// Returns whether a prepared transaction holds the table entry of a span.
    fn is_held(&self, core: &Core, blocks: &Blocks, span: u64) -> bool {
        self.word_held_by(core, blocks.layout.table_word(span)).is_some()
    }

    /// Takes a block that this transaction has carved, from a suitable batch.
    #[inline]
    fn take_carved(&mut self, core: &Core, blocks: &Blocks, suits: impl Fn(&Batch) -> bool) -> Option<Taken> {
        let mut batches = self.this.batches.iter_mut().rev();
        let batch = batches.find(|batch| batch.heap == core.number && batch.next < batch.end && suits(batch))?;
        let header = blocks.layout.header_word(batch.span, blocks.layout.stride(batch.size), batch.next);
        batch.next += 1;
        Some(Taken { size: batch.size, header, carved: true })
    }

    /// Makes blocks available when none of this size is cached, so that the caller finds some, or returns a block of a
    /// larger size or of another arena.
    #[cold]
    fn find_more(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        size: usize,
        len: u64,
    ) -> Result<Option<Taken>, Interrupt> {
        let arena = self.this.arena;
        let most = blocks.layout.blocks_in_span(blocks.layout.stride(size));
        let own = |batch: &Batch| batch.heap == core.number && batch.size == size && batch.end < most;
        if let Some(at) = self.this.batches.iter().position(own) {
            self.carve(core, blocks, at)?;
        } else if let Some(open) = blocks.take_open(arena, size, |span| self.is_held(core, blocks, span)) {
            self.begin_batch(core, blocks, size, open, false)?;
        } else if blocks.adopt_one(core, arena, size)? {
            // Its free blocks are in the arena now.
        } else {
            match self.take_spans(core, blocks, 1) {
                Ok(span) => {
                    blocks.give_to_arena(span, arena);
                    self.begin_batch(core, blocks, size, Open { span, carved: 0 }, true)?;
                }
                Err(uncleared) => return self.find_larger(core, blocks, size, len, uncleared),
            }
        }
        Ok(None)
    }

    /// Returns a block of a larger size, or of another arena.
    fn find_larger(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        size: usize,
        len: u64,
        uncleared: Option<Uncleared>,
    ) -> Result<Option<Taken>, Interrupt> {
        if let Some(taken) = self.take_carved(core, blocks, |batch| batch.size > size) {
            return Ok(Some(taken));
        }
        match blocks.steal(size, self.shared.slots.oldest_start()) {
            Some(Found::Block(size, header)) => Ok(Some(Taken { size, header, carved: false })),
            Some(Found::Open(size, open)) => {
                self.begin_batch(core, blocks, size, open, false)?;
                Ok(self.take_carved(core, blocks, |batch| batch.size == size))
            }
            None => Err(self.nothing_left(core, blocks, len, uncleared)),
        }
    }

    fn begin_batch(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        size: usize,
        open: Open,
        fresh: bool,
    ) -> Result<(), Interrupt> {
        let Open { span, carved } = open;
        let heap = core.number;
        self.this.batches.push(Batch { heap, size, span, began: carved, fresh, next: carved, end: carved });
        self.carve(core, blocks, self.this.batches.len() - 1)
    }

    /// Carves more blocks of a batch's span: the table gets the new number of headers, and these are zero.
    fn carve(&mut self, core: &Arc<Core>, blocks: &Blocks, at: usize) -> Result<(), Interrupt> {
        let Batch { heap, size, span, end: carved, .. } = self.this.batches[at];
        let stride = blocks.layout.stride(size);
        let more = (CARVED_WORDS / stride).clamp(4, 64);
        let end = (carved + more).min(blocks.layout.blocks_in_span(stride));
        self.this.blocks.push(BlockChange { heap, first: span, words: carved, used: 0, kind: Change::Carved });
        self.this.batches[at].end = end;
        let says = Span::Sized { stride, carved: end }.to_word();
        self.write_word(core, blocks.layout.table_word(span), says)?;
        for index in carved..end {
            let header = blocks.layout.header_word(span, stride, index);
            // Where nothing is logged, a word that is zero needs no write: no other transaction writes to the span, and no
            // recovery restores an older content.
            let is_zero = !self.shared.is_logged() && core.word(header)?.load(Ordering::Acquire) == 0;
            if !is_zero {
                self.write_word(core, header, 0)?;
            }
        }
        Ok(())
    }

    fn allocate_run(&mut self, core: &Arc<Core>, blocks: &Blocks, len: u64, filled: bool) -> Result<u64, Interrupt> {
        let spans = blocks.layout.spans_for(len);
        loop {
            let first_span = match self.take_spans(core, blocks, spans) {
                Ok(first_span) => first_span,
                Err(uncleared) => return Err(self.nothing_left(core, blocks, len, uncleared)),
            };
            let place = blocks.layout.header_word(first_span, 0, 0);
            let words = blocks.layout.run_words(spans);
            self.this.blocks.push(BlockChange::allocated(core, place, words, len, filled, false));
            if !self.are_free(core, blocks, first_span, spans)? {
                self.this.blocks.pop(); // E17.3
                continue;
            }
            self.write_word(core, blocks.layout.table_word(first_span), Span::Run { spans }.to_word())?;
            self.write_word(core, place, header(len))?;
            return Ok(place + 1);
        }
    }

    /// Returns whether the table marks spans as free. The read makes this transaction depend on the commits that freed
    /// them: of a long block nothing is written after its first span, so nothing else would record the dependency (E8.5,
    /// E17.6).
    fn are_free(&mut self, core: &Arc<Core>, blocks: &Blocks, first: u64, spans: u64) -> Result<bool, Interrupt> {
        if planted!("free_spans_not_read") {
            return Ok(true);
        }
        for span in first..first + spans {
            if self.read_word(core, blocks.layout.table_word(span))? != Span::Free.to_word() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    // ---- the end ----------------------------------------------------------------------------------------------

    /// Returns the number of a block's words of which the commit locks all stripes. Where commits are logged it is all of them: a
    /// prepared transaction that recovery finds locks those of the whole block again, as the log has no other length (E9.3).
    #[inline(always)]
    fn locked_words(&self, change: &BlockChange) -> u64 {
        match change.kind {
            Change::Freed if self.reuses_too_early() || planted!("freed_stripes_keep_versions") => 0,
            Change::Freed | Change::Filled { .. } => {
                if self.shared.is_logged() {
                    change.words
                } else {
                    change.used
                }
            }
            Change::Allocated { .. } | Change::Carved => 0,
        }
    }

    /// Locks all stripes of blocks that are freed or filled. A block with more stripes than the table needs each lock only
    /// once.
    #[inline(never)]
    pub(crate) fn lock_blocks(&mut self) -> Result<(), Interrupt> {
        for at in 0..self.this.blocks.len() {
            let change = self.this.blocks[at];
            let words = self.locked_words(&change);
            if words > 0 {
                let salt = self.this.heap(change.heap).salt;
                for stripe in self.shared.stripes.of_words(salt, change.first, words) {
                    self.lock(stripe)?;
                }
            }
        }
        Ok(())
    }

    /// Locks the same stripes with `take`, where each is free, and not newer than the snapshot. Returns whether all are locked.
    #[inline(always)]
    pub(crate) fn lock_free_blocks(&mut self, take: impl Fn(Look, &AtomicU64, Look) -> bool) -> bool {
        /// A session that opens waits for as many.
        const WORDS_MAX: u64 = 4096;
        let (own, snapshot) = (Look::owned_by(self.this.number), self.this.snapshot);
        let locks = self.shared.stripes.locks();
        let mut left = WORDS_MAX;
        for at in 0..self.this.blocks.len() {
            let change = self.this.blocks[at];
            let words = self.locked_words(&change);
            if words == 0 {
                continue;
            }
            if words > left {
                return false;
            }
            left -= words;
            for stripe in self.shared.stripes.of_words(self.this.heap(change.heap).salt, change.first, words) {
                let lock = locks.of(stripe);
                let seen = Look::first(lock);
                if seen.belongs_to(snapshot) && take(seen, lock, own) {
                    self.this.locked.push((stripe, seen));
                } else if seen != own {
                    return false;
                }
            }
        }
        true
    }

    /// Releases blocks after the commit: carved and unused ones at once, freed ones after older transactions have ended.
    pub(crate) fn settle_blocks(&mut self, version: u64) {
        let mut latched = Latched::default();
        for change in &self.this.blocks {
            if change.kind == Change::Freed {
                let blocks = self.this.heap(change.heap).blocks.as_ref().expect("a block was freed in it");
                match blocks.layout.size_of_words(change.words) {
                    Ok(size) if self.reuses_too_early() => {
                        latched = Latched::default();
                        blocks.give_back(change.first - 1, size);
                    }
                    size => blocks.freed(&mut latched, change.first - 1, size, version),
                }
            }
        }
        drop(latched);
        for batch in self.this.batches.drain(..) {
            let core = self.this.heaps.iter().find(|core| core.number == batch.heap).expect("it is remembered");
            let blocks = core.blocks.as_ref().expect("something was carved in it");
            blocks.give_carved(batch.size, batch.span, batch.next..batch.end);
            blocks.give_open(batch.size, Open { span: batch.span, carved: batch.end });
        }
    }

    /// Reverts a change that did not commit. Changes are reverted from the last to the first.
    pub(crate) fn abandon_block(&mut self, change: &BlockChange) {
        let core = Arc::clone(self.this.heap(change.heap));
        let blocks = core.blocks.as_ref().expect("a block was changed in it");
        match change.kind {
            Change::Freed => {}
            Change::Carved => self.abandon_carved(blocks, change),
            Change::Allocated { carved: true } | Change::Filled { carved: true } => {
                let mut batches = self.this.batches.iter_mut();
                let span = blocks.layout.span_of(change.first);
                let batch = batches.find(|batch| batch.heap == change.heap && batch.span == span);
                batch.expect("it was carved by this transaction").next -= 1;
            }
            Change::Allocated { .. } | Change::Filled { .. } => match blocks.layout.size_of_words(change.words) {
                Ok(size) => blocks.give_back(change.first - 1, size),
                Err(spans) => blocks.give_spans(blocks.layout.span_of(change.first), spans),
            },
        }
    }

    fn abandon_carved(&mut self, blocks: &Blocks, change: &BlockChange) {
        let is = |batch: &Batch| batch.heap == change.heap && batch.span == change.first;
        let at = self.this.batches.iter().position(is).expect("it was carved by this transaction");
        let batch = &mut self.this.batches[at];
        batch.end = change.words;
        if batch.end > batch.began {
            return;
        }
        let batch = self.this.batches.swap_remove(at);
        if batch.fresh {
            blocks.give_spans(batch.span, 1);
        } else {
            blocks.give_open(batch.size, Open { span: batch.span, carved: batch.began });
        }
    }

    /// Returns whether a fault was planted here.
    fn reuses_too_early(&self) -> bool {
        #[cfg(feature = "planted-faults")]
        if self.shared.options.fault == Some(crate::Fault::ReusedTooEarly) {
            return true;
        }
        false
    }
}
