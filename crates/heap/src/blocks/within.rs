//! Check that bytes lie within one allocated block: for programs that follow addresses and must detect dangling ones.

use super::layout::{Span, allocated_len};
use crate::error::Interrupt;
use crate::heap::Heap;
use crate::region::WORD_LEN;
use crate::tx::Tx;

impl Tx<'_> {
    /// Refuses bytes that do not lie within one allocated block. It reads the block's table entry and header, and so
    /// conflicts with transactions that change these: meant for finding mistakes, not for normal operation.
    ///
    /// # Errors
    /// [`Error::NotAllocated`](crate::Error::NotAllocated), [`Error::OutOfRange`](crate::Error::OutOfRange); a heap without
    /// blocks; a conflict.
    pub fn check_allocated(&mut self, heap: &Heap, offset: u64, len: u64) -> Result<(), Interrupt> {
        self.shared.check_same(heap)?;
        let core = &heap.core;
        core.check_range(offset, len)?;
        let refused = || Err(core.not_allocated(offset));
        let layout = &core.blocks()?.layout;
        let word = offset / WORD_LEN;
        let (mut span, within) = (layout.span_of(word), word % layout.span_words);
        let first_seen = span;
        let mut says = self.read_word(core, layout.table_word(span))?;
        // Entries of the spans after the first of a long block are zero, as if free (E17.6).
        while says == Span::Free.to_word() && span > layout.first_span {
            span -= 1;
            says = self.read_word(core, layout.table_word(span))?;
        }
        let header = match Span::of_word(says) {
            Some(Span::Sized { stride, carved }) if span == first_seen && within > 0 => {
                let index = (within - 1) / stride;
                if index >= carved {
                    return refused();
                }
                layout.header_word(span, stride, index)
            }
            Some(Span::Run { spans }) if first_seen - span < spans => layout.header_word(span, 0, 0),
            _ => return refused(),
        };
        let first = (header + 1) * WORD_LEN;
        match allocated_len(self.read_word(core, header)?) {
            Some(has) if first <= offset && offset + len <= first + has => Ok(()),
            _ => refused(),
        }
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use std::collections::BTreeMap;

    use crate::{HeapOptions, Memory, MemoryOptions};

    #[test]
    fn each_word_maps_to_block_or_none() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        // Small spans, so that many blocks fill several.
        let options = HeapOptions { chunk_len: 4096, size_max: 1 << 19, ..HeapOptions::new(1 << 19) };
        let heap = memory.create_heap("within", &options).expect("a heap");
        let (mut live, mut random) = (BTreeMap::new(), 7u64);
        for step in 0..600 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let len = if step % 9 == 0 { random >> 50 } else { random >> 40 & 0x1ff };
            if random >> 33 & 3 == 0 && !live.is_empty() {
                let at = (random >> 35) as usize % live.len();
                let gone = *live.keys().nth(at).expect("so many there are");
                heap.atomically(|tx| tx.free(&heap, gone)).expect("it is allocated");
                live.remove(&gone);
            } else if let Ok(block) = heap.atomically(|tx| tx.allocate(&heap, len)) {
                live.insert(block, len);
            }
        }
        assert!(live.values().any(|&len| len > 8_000) && live.len() > 20);
        heap.atomically(|tx| {
            for offset in (heap.first_offset()..heap.size()).step_by(8) {
                let before = live.range(..=offset).next_back();
                let lies = before.is_some_and(|(block, len)| offset + 8 <= block + len);
                assert_eq!(tx.check_allocated(&heap, offset, 8).is_ok(), lies, "offset {offset}");
            }
            Ok(())
        })
        .expect("no other transaction writes");
    }
}
