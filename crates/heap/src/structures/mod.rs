//! Durable structures in a heap.
//!
//! Each is a head block with a name, a root of the heap, and further blocks that it references. A handle is the heap, the
//! offset of the head and a number that the head has had since its creation: a handle of a removed structure is refused
//! (S5). Operations are reads and writes of the transaction that calls them, so they can be combined freely. One that fails
//! leaves nothing, so that a transaction that continues after its error commits whole operations only (H8).

mod counter;
mod hash_map;
mod ordered_map;
mod queue;
mod vector;

use std::marker::PhantomData;

use cedrat_sync::Arc;

pub use counter::HeapCounter;
pub use hash_map::HeapMap;
pub use ordered_map::HeapOrderedMap;
pub use queue::HeapQueue;
pub use vector::HeapVec;

use crate::error::{Error, Interrupt, Result};
use crate::heap::{Core, Heap};
use crate::region::WORD_LEN;
use crate::tx::Tx;

/// Number of words between data that shall not conflict: more than one stripe of the default size, and no cache line in
/// common.
const APART: u64 = 16;

/// Head of a structure.
#[derive(Debug)]
struct Head<T> {
    heap: Heap,
    offset: u64,
    /// Value of the head's first word as long as it belongs to this structure.
    number: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Head<T> {
    fn clone(&self) -> Self {
        Head { heap: self.heap.clone(), offset: self.offset, number: self.number, of: PhantomData }
    }
}

impl<T> Head<T> {
    /// Opens the structure with this name, or creates one whose head has `words` words, all zero.
    fn open(tx: &mut Tx<'_>, heap: &Heap, name: &str, type_name: String, words: u64) -> Result<Self, Interrupt> {
        let (offset, number) = tx.whole(|tx| Self::find_or_create(tx, heap, name, type_name, words))?;
        Ok(Head { heap: heap.clone(), offset, number, of: PhantomData })
    }

    /// Returns the offset of the head, and its number.
    fn find_or_create(
        tx: &mut Tx<'_>,
        heap: &Heap,
        name: &str,
        type_name: String,
        words: u64,
    ) -> Result<(u64, u64), Interrupt> {
        let core = &heap.core;
        match tx.root(heap, name)? {
            Some(root) if root.type_name == type_name => {
                let first = tx.block_at(core, root.offset, words * WORD_LEN)?;
                Ok((root.offset, tx.read_word(core, first)?))
            }
            Some(root) => {
                let error = Error::WrongType { name: name.to_owned(), found: root.type_name, wanted: type_name };
                Err(Interrupt::failed(error))
            }
            None => {
                let offset = tx.allocate(heap, words * WORD_LEN)?;
                // Another head at this offset requires that this one's transaction has committed and one that removes it as
                // well: the transaction that creates it has a later snapshot.
                let number = tx.this.snapshot << 1 | 1;
                tx.write_word(core, offset / WORD_LEN, number)?;
                for word in 1..words {
                    tx.write_word(core, offset / WORD_LEN + word, 0)?;
                }
                tx.set_root(heap, name, offset, &type_name)?;
                Ok((offset, number))
            }
        }
    }

    fn core(&self) -> &Arc<Core> {
        &self.heap.core
    }

    /// Returns the head's first word, if the head still belongs to this structure.
    #[inline]
    fn first(&self, tx: &mut Tx<'_>) -> Result<u64, Interrupt> {
        tx.shared.check_same(&self.heap)?;
        let core = self.core();
        let first = tx.block_at(core, self.offset, WORD_LEN)?;
        if tx.read_word(core, first)? != self.number {
            return Err(Interrupt::failed(Error::NotAllocated { heap: core.name.clone(), offset: self.offset }));
        }
        Ok(first)
    }

    /// Frees the head and removes its name. The blocks that it references are freed already.
    fn remove(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        tx.whole(|tx| self.remove_whole(tx, name))
    }

    fn remove_whole(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        let first = self.first(tx)?;
        match tx.root(&self.heap, name)? {
            Some(root) if root.offset == self.offset => tx.remove_root(&self.heap, name)?,
            _ => return Err(Interrupt::failed(Error::Unknown { what: "structure", name: name.to_owned() })),
        };
        tx.write_word(self.core(), first, 0)?;
        tx.free(&self.heap, self.offset)
    }

    /// Allocates a block of `words` words and returns its first word; its content is undefined.
    fn new_block(&self, tx: &mut Tx<'_>, words: u64) -> Result<u64, Interrupt> {
        Ok(tx.allocate(&self.heap, words * WORD_LEN)? / WORD_LEN)
    }

    /// Frees the block with this first word.
    fn free_block(&self, tx: &mut Tx<'_>, first: u64) -> Result<(), Interrupt> {
        // Of any word, as in `get`: none stands for another one.
        tx.free(&self.heap, first.saturating_mul(WORD_LEN))
    }

    /// Reads a word of one of the structure's blocks.
    #[inline(always)]
    fn get(&self, tx: &mut Tx<'_>, word: u64) -> Result<u64, Interrupt> {
        // The link belongs to the snapshot, so this fails only where the program has overwritten the structure.
        if word >= self.heap.core.words() {
            return Err(self.heap.core.refuse(word.saturating_mul(WORD_LEN), WORD_LEN));
        }
        tx.read_word(&self.heap.core, word)
    }

    #[inline(always)]
    fn set(&self, tx: &mut Tx<'_>, word: u64, value: u64) -> Result<(), Interrupt> {
        if word >= self.heap.core.words() {
            return Err(self.heap.core.refuse(word.saturating_mul(WORD_LEN), WORD_LEN));
        }
        tx.write_word(&self.heap.core, word, value)
    }

    /// Adds to a word; returns the new value.
    #[inline]
    fn add(&self, tx: &mut Tx<'_>, word: u64, amount: u64) -> Result<u64, Interrupt> {
        let value = self.get(tx, word)?.wrapping_add(amount);
        self.set(tx, word, value)?;
        Ok(value)
    }

    /// Refuses a value that would reach beyond the heap.
    #[inline]
    fn check<P: crate::Plain>(&self, word: u64) -> Result<(), Interrupt> {
        if word.saturating_add(P::WORDS as u64) > self.heap.core.words() {
            return Err(self.heap.core.refuse(word.saturating_mul(WORD_LEN), P::WORDS as u64 * WORD_LEN));
        }
        Ok(())
    }

    /// Returns the value that begins at a word.
    #[inline]
    fn load<P: crate::Plain>(&self, tx: &mut Tx<'_>, word: u64) -> Result<P, Interrupt> {
        self.check::<P>(word)?;
        tx.load(&self.heap.core, word)
    }

    /// Counts steps along a chain of blocks of `block_words` words each.
    fn steps(&self, block_words: u64) -> Steps {
        Steps { left: self.heap.core.words() / block_words.max(1) }
    }

    /// Counts one step of a walk, which has reached the block at `word`. A walk with more steps than the heap has room for
    /// blocks is in a cycle.
    #[inline]
    fn step(&self, steps: &mut Steps, word: u64) -> Result<(), Interrupt> {
        match steps.left.checked_sub(1) {
            Some(left) => steps.left = left,
            None => return Err(self.corrupt(word, "a chain of blocks leads back to itself")),
        }
        Ok(())
    }

    /// Returns an error for words that no operation of the structure leaves.
    fn corrupt(&self, word: u64, what: &str) -> Interrupt {
        let core = self.core();
        Interrupt::failed(Error::damaged(format!("heap {}", core.name), word.saturating_mul(WORD_LEN), what))
    }

    /// Stores a value that begins at a word.
    #[inline]
    fn store<P: crate::Plain>(&self, tx: &mut Tx<'_>, word: u64, value: &P) -> Result<(), Interrupt> {
        self.check::<P>(word)?;
        tx.store(&self.heap.core, word, value)
    }
}

/// Number of steps that a walk along a chain may still take.
struct Steps {
    left: u64,
}

/// Number of cells of a sum.
const CELLS: u64 = 16;

/// Number of words of all cells.
const CELLS_WORDS: u64 = CELLS * APART;

/// Returns the cell that this session adds to.
fn own_cell(tx: &Tx<'_>, cells: u64) -> u64 {
    cells + u64::from(tx.this.number) % CELLS * APART
}

/// Defines the methods that all structures have: `open`, `open_in`.
macro_rules! opened {
    ($what:literal) => {
        /// Opens the structure with this name, or creates it.
        ///
        /// # Errors
        /// [`Error::WrongType`](crate::Error::WrongType) if the name belongs to another type;
        /// [`Error::HeapFull`](crate::Error::HeapFull).
        pub fn open(heap: &crate::Heap, name: &str) -> crate::Result<Self> {
            heap.atomically(|tx| Self::open_in(tx, heap, name))
        }

        #[doc = concat!("Opens or creates ", $what, " as a part of a transaction. Keep the handle only if that commits.")]
        ///
        /// # Errors
        /// As `open`; a conflict.
        pub fn open_in(
            tx: &mut crate::Tx<'_>,
            heap: &crate::Heap,
            name: &str,
        ) -> crate::Result<Self, crate::Interrupt> {
            Ok(Self(super::Head::open(tx, heap, name, Self::type_name(), Self::HEAD_WORDS)?))
        }
    };
}
use opened;
