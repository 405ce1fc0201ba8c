//! Durable structures in a heap.
//!
//! Each is a head block with a name, a root of the heap, and blocks that it leads to. A handle is the heap, the offset of
//! the head and a number that the head had from its creation on: one whose structure is gone is refused (S5). Their
//! operations are reads and writes of the transaction that they are called in, so any of them can be combined.

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

/// Words between things that shall not meet: more than one stripe of the default size, and no cache line in common.
const APART: u64 = 16;

/// A structure's head.
#[derive(Debug)]
struct Head<T> {
    heap: Heap,
    offset: u64,
    /// What the head's first word says as long as it is this structure's.
    number: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Head<T> {
    fn clone(&self) -> Self {
        Head { heap: self.heap.clone(), offset: self.offset, number: self.number, of: PhantomData }
    }
}

impl<T> Head<T> {
    /// Opens the structure with this name, or creates one whose head has so many words, all zero.
    fn open(tx: &mut Tx<'_>, heap: &Heap, name: &str, type_name: String, words: u64) -> Result<Self, Interrupt> {
        let core = &heap.core;
        let (offset, number) = match tx.root(heap, name)? {
            Some(root) if root.type_name == type_name => {
                let first = tx.block_at(core, root.offset, words * WORD_LEN)?;
                (root.offset, tx.read_word(core, first)?)
            }
            Some(root) => {
                let error = Error::WrongType { name: name.to_owned(), found: root.type_name, wanted: type_name };
                return Err(Interrupt::failed(error));
            }
            None => {
                let offset = tx.allocate(heap, words * WORD_LEN)?;
                // Another head at this offset can only be made after this one's transaction has committed and one that
                // removes it: by one with a later snapshot.
                let number = tx.this.snapshot << 1 | 1;
                tx.write_word(core, offset / WORD_LEN, number)?;
                for word in 1..words {
                    tx.write_word(core, offset / WORD_LEN + word, 0)?;
                }
                tx.set_root(heap, name, offset, &type_name)?;
                (offset, number)
            }
        };
        Ok(Head { heap: heap.clone(), offset, number, of: PhantomData })
    }

    fn core(&self) -> &Arc<Core> {
        &self.heap.core
    }

    /// The head's first word, if it still is this structure's.
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

    /// Frees the head and takes its name away. What it leads to is gone already.
    fn remove(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        let first = self.first(tx)?;
        match tx.root(&self.heap, name)? {
            Some(root) if root.offset == self.offset => tx.remove_root(&self.heap, name)?,
            _ => return Err(Interrupt::failed(Error::Unknown { what: "structure", name: name.to_owned() })),
        };
        tx.write_word(self.core(), first, 0)?;
        tx.free(&self.heap, self.offset)
    }

    /// The first word of a new block of so many words; what lies in it is undefined.
    fn new_block(&self, tx: &mut Tx<'_>, words: u64) -> Result<u64, Interrupt> {
        Ok(tx.allocate(&self.heap, words * WORD_LEN)? / WORD_LEN)
    }

    /// Frees the block with this first word.
    fn free_block(&self, tx: &mut Tx<'_>, first: u64) -> Result<(), Interrupt> {
        tx.free(&self.heap, first * WORD_LEN)
    }

    /// Reads a word of one of the structure's blocks.
    #[inline(always)]
    fn get(&self, tx: &mut Tx<'_>, word: u64) -> Result<u64, Interrupt> {
        // What leads here belongs to the snapshot, so this fails only where somebody else has written into the structure.
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

    /// Adds to a word; returns what it is then.
    #[inline]
    fn add(&self, tx: &mut Tx<'_>, word: u64, amount: u64) -> Result<u64, Interrupt> {
        let value = self.get(tx, word)?.wrapping_add(amount);
        self.set(tx, word, value)?;
        Ok(value)
    }

    /// The value that begins at a word.
    #[inline]
    fn load<P: crate::Plain>(&self, tx: &mut Tx<'_>, word: u64) -> Result<P, Interrupt> {
        if word.saturating_add(P::WORDS as u64) > self.heap.core.words() {
            return Err(self.heap.core.refuse(word.saturating_mul(WORD_LEN), WORD_LEN));
        }
        tx.load(&self.heap.core, word)
    }

    /// What lies here was left so by no operation of the structure.
    fn senseless(&self, word: u64, what: &str) -> Interrupt {
        let core = self.core();
        Interrupt::failed(Error::damaged(format!("heap {}", core.name), word.saturating_mul(WORD_LEN), what))
    }

    #[inline]
    fn store<P: crate::Plain>(&self, tx: &mut Tx<'_>, word: u64, value: &P) -> Result<(), Interrupt> {
        tx.store(&self.heap.core, word, value)
    }
}

/// Number of cells that a sum is kept in.
const CELLS: u64 = 16;

/// How many words the cells take.
const CELLS_WORDS: u64 = CELLS * APART;

/// The cell that this session adds to.
fn own_cell(tx: &Tx<'_>, cells: u64) -> u64 {
    cells + u64::from(tx.this.number) % CELLS * APART
}

/// The methods that all structures have: `open`, `open_in`.
macro_rules! opened {
    ($what:literal) => {
        /// Opens the one with this name, or creates it.
        ///
        /// # Errors
        /// [`Error::WrongType`](crate::Error::WrongType) if something else has the name; [`Error::HeapFull`](crate::Error::HeapFull).
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
