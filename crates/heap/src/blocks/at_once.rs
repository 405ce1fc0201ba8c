//! Allocations and frees of most blocks: one look at the header shows that no other work is needed, and nothing can fail once
//! anything has changed.

use cedrat_sync::Arc;
use cedrat_sync::atomic::Ordering;

use super::layout::{Place, header};
use super::{BlockChange, Blocks, precede_plain_stores};
use crate::heap::{Core, Heap};
use crate::region::WORD_LEN;
use crate::tx::Tx;

impl Tx<'_> {
    /// Allocates a block to be filled with plain stores, if one is at hand; or else has no effect.
    #[inline(always)]
    pub(crate) fn allocate_filled_at_once(&mut self, heap: &Heap, len: u64) -> Option<u64> {
        let core = &heap.core;
        let blocks = core.blocks.as_ref()?;
        if self.shared.check_same(heap).is_err() {
            return None;
        }
        let first = self.allocate_at_once(core, blocks, blocks.layout.size_for(len)?, len, true)?;
        precede_plain_stores();
        Some(first * WORD_LEN)
    }

    /// Allocates a cached block, if it is free and unlocked, as one look at its stripe shows of most. No chunk of the heap is absent
    /// then (`write_if_zero`), so the block may be filled.
    #[inline(always)]
    pub(super) fn allocate_at_once(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        size: usize,
        len: u64,
        filled: bool,
    ) -> Option<u64> {
        if !self.this.batches.is_empty() {
            return None;
        }
        let slots = &self.shared.slots;
        let place = blocks.take(self.this.arena, size, || slots.oldest_start())?;
        if !self.write_if_zero(core, place, header(len)) {
            blocks.give_back(place, size);
            return None;
        }
        let words = blocks.layout.stride(size) - 1;
        self.this.blocks.push(BlockChange::allocated(core, place, words, len, filled, false));
        Some(place + 1)
    }

    /// Frees a block of one of the sizes, as one look at its header shows of most; `None`, without effect, where that takes
    /// more work.
    #[inline(always)]
    pub(crate) fn free_at_once(&mut self, heap: &Heap, offset: u64) -> Option<u64> {
        let core = &heap.core;
        let blocks = core.blocks.as_ref()?;
        let word = offset / WORD_LEN;
        let inside = offset.is_multiple_of(16) && word >= core.first_word && word < core.words();
        if !inside || self.this.encounter || self.shared.check_same(heap).is_err() {
            return None;
        }
        let says = core.region.word(blocks.layout.table_word(blocks.layout.span_of(word)))?;
        let Place { header, words, span } = blocks.layout.locate(says.load(Ordering::Acquire), word)?;
        let (stripe, value) = self.look_to_write(core, header)?;
        let len = Place { header, words, span }.allocated_len(value)?;
        if self.this.writes.has(core.number, header) || blocks.layout.size_of_words(words).is_err() {
            return None;
        }
        blocks.know(core, span, self.this.arena).ok()?;
        self.this.will_write(core);
        self.put_read(core, header, 0, stripe);
        self.this.blocks.push(BlockChange::freed(core, header, words, len));
        Some(len)
    }
}
