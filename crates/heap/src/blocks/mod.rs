//! Allocation in transactions (`pmalloc`, `pfree`).

use cedrat_sync::Arc;

use crate::error::Interrupt;
use crate::heap::Core;
use crate::redo::RedoWriter;
use crate::tx::Tx;

/// The first word behind the account of blocks.
pub(crate) const FIRST_WORD: u64 = 512;

/// A block that a transaction has allocated or freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockChange {
    /// The heap's number.
    pub(crate) heap: u32,
    pub(crate) first: u64,
    pub(crate) words: u64,
    pub(crate) kind: Change,
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Allocated; what is written into it goes through the write set.
    Allocated,
    /// Allocated, and filled with plain stores: it is logged whole.
    Filled,
    /// Freed.
    Freed,
}

impl BlockChange {
    pub(crate) fn logged_len(&self) -> u64 {
        if self.kind == Change::Filled { self.words * 9 + 64 } else { 0 }
    }

    pub(crate) fn log(&self, _core: &Arc<Core>, _redo: &mut RedoWriter) {}

    pub(crate) fn mark_changed(&self, _core: &Arc<Core>) {}
}

impl Core {
    pub(crate) fn abandon_block(&self, _change: &BlockChange) {}
}

impl Tx<'_> {
    pub(crate) fn lock_blocks(&mut self) -> Result<(), Interrupt> {
        Ok(())
    }

    pub(crate) fn settle_blocks(&mut self, _version: u64) {}
}
