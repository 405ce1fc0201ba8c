//! Walk over all blocks: usage, and validity of the account.

use super::layout::{Span, allocated_len};
use super::{Blocks, Core};
use crate::error::{Error, Interrupt, Result};
use crate::heap::Heap;
use crate::options::Commit;
use crate::region::WORD_LEN;
use crate::tx::Tx;
use cedrat_sync::{Arc, planted};
use std::time::{Duration, Instant};

/// Time after which the walk fails if other transactions keep it from reading a span.
const PATIENCE: Duration = Duration::from_secs(10);

/// Usage of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of allocated blocks.
    pub blocks: u64,
    /// Requested bytes of these blocks.
    pub bytes: u64,
    /// Bytes that they occupy, with headers and rounding.
    pub taken: u64,
    /// Bytes of spans without blocks.
    pub free: u64,
    /// Bytes of the account itself.
    pub account: u64,
}

impl Heap {
    /// Returns the requested bytes of all allocated blocks, after a walk over all of them.
    ///
    /// # Errors
    /// Those of [`Heap::verify`].
    pub fn allocated_bytes(&self) -> Result<u64> {
        Ok(self.verify()?.bytes)
    }

    /// Walks over all blocks and validates their table entries and headers; returns the usage.
    ///
    /// Each span is read in a transaction of its own: the sums are exact if nothing is allocated or freed meanwhile.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the offset of an invalid word, [`Error::Misuse`] for a heap without blocks.
    /// [`Error::Conflict`]: other transactions have held or changed blocks of one span for ten seconds.
    pub fn verify(&self) -> Result<Usage> {
        let mut usage = Usage::default();
        self.each_block(|_, len, taken| {
            usage.blocks += 1;
            usage.bytes += len;
            usage.taken += taken;
        })
        .map(|(free, account)| Usage { free, account, ..usage })
    }

    /// Calls `see` with the offset of each allocated block, its length, and the bytes that it occupies.
    ///
    /// # Errors
    /// Those of [`Heap::verify`].
    pub fn each_block(&self, see: impl FnMut(u64, u64, u64)) -> Result<(u64, u64)> {
        self.each_block_within(PATIENCE, see)
    }

    /// Calls `see` as [`each_block`](Heap::each_block) does, and begins the read of no span again after `patience`. The thread
    /// may hold locks for which the owner of a word waits, directly or not.
    pub(super) fn each_block_within(
        &self,
        patience: Duration,
        mut see: impl FnMut(u64, u64, u64),
    ) -> Result<(u64, u64)> {
        let core = &self.core;
        let blocks = core.blocks().map_err(Interrupt::into_error)?;
        let mut session = self.memory.session()?;
        let span_len = blocks.layout.span_words * WORD_LEN;
        let (mut span, mut free) = (blocks.layout.first_span, 0);
        let mut found = Vec::new();
        while span < core.words() / blocks.layout.span_words {
            let begun = Instant::now();
            let done = session.run(Commit::Async, |tx| {
                found.clear();
                let walked = tx.walk_span(core, blocks, span, &mut found);
                walked.map_err(|interrupt| {
                    if interrupt.is_conflict() && begun.elapsed() >= patience && !planted!("walk_waits_without_end") {
                        Interrupt::failed(Error::Conflict)
                    } else {
                        interrupt
                    }
                })
            })?;
            free += if done.value == 0 { span_len } else { 0 };
            span += done.value.max(1);
            found.iter().for_each(|&(offset, len, taken)| see(offset, len, taken));
        }
        Ok((free, blocks.layout.first_word() * WORD_LEN))
    }
}

impl Tx<'_> {
    /// Walks over the blocks of a span. Returns the number of spans that they fill, which is 0 if the span is free.
    fn walk_span(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        span: u64,
        found: &mut Vec<(u64, u64, u64)>,
    ) -> Result<u64, Interrupt> {
        let layout = &blocks.layout;
        let table_word = layout.table_word(span);
        let says = self.read_word(core, table_word)?;
        match Span::of_word(says) {
            Some(Span::Free) => Ok(0),
            Some(Span::Run { spans }) => {
                if spans > core.words() / layout.span_words - span {
                    return Err(corrupt(core, table_word, "a block reaches beyond the heap"));
                }
                for inner in (span + 1..span + spans).map(|span| layout.table_word(span)) {
                    if self.read_word(core, inner)? != Span::Free.to_word() {
                        return Err(corrupt(core, inner, "a span within a block is not called free"));
                    }
                }
                let header = layout.header_word(span, 0, 0);
                let block = self.walk_block(core, header, layout.run_words(spans))?;
                found.push(block.ok_or_else(|| corrupt(core, header, "a block of whole spans has no length"))?);
                Ok(spans)
            }
            Some(Span::Sized { stride, carved })
                if layout.size_of_stride(stride).is_some() && carved <= layout.blocks_in_span(stride) =>
            {
                for index in 0..carved {
                    found.extend(self.walk_block(core, layout.header_word(span, stride, index), stride - 1)?);
                }
                Ok(1)
            }
            _ => Err(corrupt(core, table_word, "the table of spans says what no transaction has written")),
        }
    }

    fn walk_block(&mut self, core: &Arc<Core>, header: u64, words: u64) -> Result<Option<(u64, u64, u64)>, Interrupt> {
        let says = self.read_word(core, header)?;
        match allocated_len(says) {
            None if says == 0 => Ok(None),
            Some(len) if len <= words * WORD_LEN => Ok(Some(((header + 1) * WORD_LEN, len, (words + 1) * WORD_LEN))),
            _ => Err(corrupt(core, header, "the header of a block says what no transaction has written")),
        }
    }
}

fn corrupt(core: &Core, word: u64, what: &str) -> Interrupt {
    Interrupt::failed(Error::damaged(format!("heap {}", core.name), word * WORD_LEN, what))
}
