//! Typed values: the program's own structs, stored in a heap.

mod handle;
mod plain;

use std::ops::{Deref, DerefMut};

pub use handle::{Array, Field, Handle, Place, Whole};
pub(crate) use plain::description;
pub use plain::{Bytes, Plain};

use cedrat_sync::Arc;

use crate::error::{Error, Interrupt, Result};
use crate::heap::{Core, Heap};
use crate::region::WORD_LEN;
use crate::tx::Tx;

/// Number of words up to which a value is copied through a buffer on the stack.
const WORDS_AT_HAND: usize = 32;

/// A transaction restricted to one of its heaps, for use with handles. From [`Tx::on`] or [`Heap::transaction`].
///
/// It dereferences to [`Tx`].
#[derive(Debug)]
pub struct HeapTx<'t, 's> {
    tx: &'t mut Tx<'s>,
    heap: &'t Heap,
}

impl<'s> Tx<'s> {
    /// Returns the transaction for the values of one heap.
    ///
    /// ```
    /// # use cedrat_heap::{Commit, HeapOptions, Memory, MemoryOptions};
    /// # fn main() -> cedrat_heap::Result<()> {
    /// # let memory = Memory::volatile(MemoryOptions::small())?;
    /// let (here, there) = (
    ///     memory.create_heap("here", &HeapOptions::new(1 << 20))?,
    ///     memory.create_heap("there", &HeapOptions::new(1 << 20))?,
    /// );
    /// let one = here.transaction(|tx| tx.create(1u64))?;
    /// // From one heap to the other, at once.
    /// let other = memory.run(Commit::Sync, |tx| {
    ///     let value = tx.on(&here).get(one)?;
    ///     tx.on(&here).delete(one)?;
    ///     tx.on(&there).create(value)
    /// })?;
    /// assert_eq!(there.transaction(|tx| tx.get(other.value))?, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn on<'t>(&'t mut self, heap: &'t Heap) -> HeapTx<'t, 's> {
        HeapTx { tx: self, heap }
    }
}

impl Heap {
    /// Runs `work` in a transaction on the values of this heap, and commits it durably, as [`Heap::atomically`] does.
    ///
    /// # Errors
    /// Those of [`Heap::atomically`].
    pub fn transaction<T>(&self, mut work: impl FnMut(&mut HeapTx<'_, '_>) -> Result<T, Interrupt>) -> Result<T> {
        self.atomically(|tx| work(&mut tx.on(self)))
    }
}

impl HeapTx<'_, '_> {
    /// Returns the heap.
    pub fn heap(&self) -> &Heap {
        self.heap
    }

    // ---- values -----------------------------------------------------------------------------------------------

    /// Allocates a block for a value and stores it there.
    ///
    /// # Errors
    /// Those of [`Tx::allocate`].
    pub fn create<T: Plain>(&mut self, value: T) -> Result<Handle<T>, Interrupt> {
        let heap = self.heap;
        let offset = self.tx.whole(|tx| {
            let offset = tx.allocate(heap, T::WORDS as u64 * WORD_LEN)?;
            tx.store(&heap.core, offset / WORD_LEN, &value)?;
            Ok(offset)
        })?;
        Ok(Handle::at_offset(offset).expect("no block begins at 0"))
    }

    /// Returns the value at a place: that of a handle, or a field of it.
    ///
    /// # Errors
    /// [`Error::NotAllocated`] if there is no such block (any more), [`Error::BlockTooShort`] for an element that an array
    /// does not have, [`Error::Damaged`] if the words there are not a value of this type; a conflict.
    #[inline]
    pub fn get<P: Place>(&mut self, place: P) -> Result<P::Of, Interrupt> {
        let word = self.word_of(place)?;
        self.tx.load(&self.heap.core, word)
    }

    /// Replaces the value at a place.
    ///
    /// # Errors
    /// [`Error::NotAllocated`] if there is no such block (any more), [`Error::BlockTooShort`] for an element that an array
    /// does not have; a conflict.
    #[inline]
    pub fn set<P: Place>(&mut self, place: P, value: P::Of) -> Result<(), Interrupt> {
        let word = self.word_of(place)?;
        self.write_value(word, &value)
    }

    /// Changes the value at a place; returns the result of `change`, unlike [`Tx::update`], which returns the old value.
    ///
    /// ```
    /// # use cedrat_heap::{HeapOptions, Memory, MemoryOptions};
    /// # fn main() -> cedrat_heap::Result<()> {
    /// # let memory = Memory::volatile(MemoryOptions::small())?;
    /// # let heap = memory.create_heap("bank", &HeapOptions::new(1 << 20))?;
    /// let balance = heap.transaction(|tx| tx.create(100i64))?;
    /// let left = heap.transaction(|tx| {
    ///     tx.update(balance, |balance| {
    ///         *balance -= 30;
    ///         *balance
    ///     })
    /// })?;
    /// assert_eq!(left, 70);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`HeapTx::get`].
    pub fn update<P: Place, R>(&mut self, place: P, change: impl FnOnce(&mut P::Of) -> R) -> Result<R, Interrupt> {
        let mut value = self.get(place)?;
        let result = change(&mut value);
        self.set(place, value)?;
        Ok(result)
    }

    /// Frees the block of a value or an array. Blocks that handles in it reference stay.
    ///
    /// # Errors
    /// Those of [`Tx::free`].
    pub fn delete<W: Whole>(&mut self, whole: W) -> Result<(), Interrupt> {
        self.tx.free(self.heap, whole.offset())
    }

    // ---- arrays -----------------------------------------------------------------------------------------------

    /// Allocates an array of `len` values.
    ///
    /// ```
    /// # use cedrat_heap::{HeapOptions, Memory, MemoryOptions};
    /// # fn main() -> cedrat_heap::Result<()> {
    /// # let memory = Memory::volatile(MemoryOptions::small())?;
    /// # let heap = memory.create_heap("rows", &HeapOptions::new(1 << 20))?;
    /// let squares = heap.transaction(|tx| tx.create_array(10, |index| index * index))?;
    /// heap.transaction(|tx| tx.set(squares.at(3), 10))?;
    /// assert_eq!(heap.transaction(|tx| Ok((tx.get(squares.at(3))?, tx.get(squares.at(9))?)))?, (10, 81));
    /// assert!(heap.transaction(|tx| tx.get(squares.at(10))).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Tx::allocate`].
    pub fn create_array<T: Plain>(&mut self, len: u64, value: impl Fn(u64) -> T) -> Result<Array<T>, Interrupt> {
        let bytes = len.saturating_mul(T::WORDS as u64 * WORD_LEN);
        let heap = self.heap;
        let offset = self.tx.whole(|tx| {
            let offset = tx.allocate(heap, bytes)?;
            for index in 0..len {
                tx.store(&heap.core, offset / WORD_LEN + index * T::WORDS as u64, &value(index))?;
            }
            Ok(offset)
        })?;
        Ok(Array::at_offset(offset).expect("no block begins at 0"))
    }

    /// Returns the number of values in an array.
    ///
    /// # Errors
    /// Those of [`Tx::block_len`].
    pub fn array_len<T: Plain>(&mut self, array: Array<T>) -> Result<u64, Interrupt> {
        Ok(self.tx.block_len(self.heap, array.offset())? / (T::WORDS as u64 * WORD_LEN).max(1))
    }

    // ---- roots ------------------------------------------------------------------------------------------------

    /// Names a value or an array, so that it is found when the heap is opened again; its type is stored with the name.
    ///
    /// ```
    /// # use cedrat_heap::{Error, Handle, HeapOptions, Memory, MemoryOptions};
    /// # fn main() -> cedrat_heap::Result<()> {
    /// # let memory = Memory::volatile(MemoryOptions::small())?;
    /// # let heap = memory.create_heap("names", &HeapOptions::new(1 << 20))?;
    /// heap.transaction(|tx| {
    ///     let count = tx.create(5u32)?;
    ///     tx.set_root("count", count)
    /// })?;
    /// let count: Option<Handle<u32>> = heap.transaction(|tx| tx.root("count"))?;
    /// assert_eq!(heap.transaction(|tx| tx.get(count.unwrap()))?, 5);
    ///
    /// let wrong = heap.transaction(|tx| tx.root::<Handle<f32>>("count"));
    /// assert!(matches!(wrong, Err(Error::WrongType { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Tx::set_root`].
    pub fn set_root<W: Whole>(&mut self, name: &str, whole: W) -> Result<(), Interrupt> {
        self.tx.set_root(self.heap, name, whole.offset(), &W::type_name())
    }

    /// Returns the value or array with this name, if there is one.
    ///
    /// # Errors
    /// [`Error::WrongType`] if it has another type; a conflict.
    pub fn root<W: Whole>(&mut self, name: &str) -> Result<Option<W>, Interrupt> {
        let Some(root) = self.tx.root(self.heap, name)? else { return Ok(None) };
        let wanted = W::type_name();
        if root.type_name != wanted {
            let error = Error::WrongType { name: name.to_owned(), found: root.type_name, wanted };
            return Err(Interrupt::failed(error));
        }
        Ok(W::at_offset(root.offset))
    }

    /// Removes a name; the value or array that it named stays.
    ///
    /// # Errors
    /// Those of [`Tx::remove_root`].
    pub fn remove_root(&mut self, name: &str) -> Result<(), Interrupt> {
        self.tx.remove_root(self.heap, name).map(drop)
    }

    // ---- words ------------------------------------------------------------------------------------------------

    /// Returns the first word of a place in an allocated block.
    #[inline]
    fn word_of<P: Place>(&mut self, place: P) -> Result<u64, Interrupt> {
        self.tx.shared.check_same(self.heap)?;
        let field = place.field();
        let len = (field.before() + P::Of::WORDS as u64) * WORD_LEN;
        Ok(self.tx.block_at(&self.heap.core, field.block(), len)? + field.before())
    }

    #[inline]
    fn write_value<T: Plain>(&mut self, word: u64, value: &T) -> Result<(), Interrupt> {
        self.tx.store(&self.heap.core, word, value)
    }
}

impl Tx<'_> {
    /// Loads the value that begins at a word.
    #[inline]
    pub(crate) fn load<T: Plain>(&mut self, core: &Arc<Core>, word: u64) -> Result<T, Interrupt> {
        let value = with_words::<T, Result<_, Interrupt>>(|words| {
            for (at, value) in words.iter_mut().enumerate() {
                *value = self.read_word(core, word + at as u64)?;
            }
            Ok(T::of_words(words))
        })?;
        value.ok_or_else(|| corrupt::<T>(core, word))
    }

    /// Stores a value that begins at a word.
    #[inline]
    pub(crate) fn store<T: Plain>(&mut self, core: &Arc<Core>, word: u64, value: &T) -> Result<(), Interrupt> {
        with_words::<T, _>(|words| {
            value.to_words(words);
            let words = &*words;
            self.writes(|tx| (word..).zip(words).try_for_each(|(word, &value)| tx.write_word(core, word, value)))
        })
    }
}

#[cold]
fn corrupt<T: Plain>(core: &Core, word: u64) -> Interrupt {
    let what = format!("no {} lies there", description::<T>());
    Interrupt::failed(Error::damaged(format!("heap {}", core.name), word * WORD_LEN, what))
}

/// Calls `work` with as many words as the type has.
#[inline(always)]
pub(crate) fn with_words<T: Plain, R>(work: impl FnOnce(&mut [u64]) -> R) -> R {
    if T::WORDS <= WORDS_AT_HAND { work(&mut [0; WORDS_AT_HAND][..T::WORDS]) } else { work(&mut vec![0; T::WORDS]) }
}

impl<'s> Deref for HeapTx<'_, 's> {
    type Target = Tx<'s>;

    fn deref(&self) -> &Tx<'s> {
        self.tx
    }
}

impl<'s> DerefMut for HeapTx<'_, 's> {
    fn deref_mut(&mut self) -> &mut Tx<'s> {
        self.tx
    }
}
