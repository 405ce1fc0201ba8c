//! A vector in segments, each twice as long as the one before: elements are never copied.

use super::{Head, opened};
use crate::error::{Interrupt, Result};
use crate::tx::Tx;
use crate::typed::{Plain, description};

/// Number of elements in the first segment.
const FIRST_LEN: u64 = 8;
const SEGMENTS: u64 = 40;
/// Words of the head: its number, the length, the segments.
const LEN: u64 = 1;
const SEGMENTS_AT: u64 = 4;

/// A durable vector.
///
/// ```
/// # use cedrat_heap::{HeapOptions, HeapVec, Memory, MemoryOptions};
/// # fn main() -> cedrat_heap::Result<()> {
/// # let memory = Memory::volatile(MemoryOptions::small())?;
/// # let heap = memory.create_heap("rows", &HeapOptions::new(1 << 20))?;
/// let readings: HeapVec<f64> = HeapVec::open(&heap, "readings")?;
/// heap.transaction(|tx| {
///     readings.push(tx, 20.5)?;
///     readings.push(tx, 21.0)?;
///     readings.set(tx, 0, 19.5)
/// })?;
/// assert_eq!(heap.transaction(|tx| readings.get(tx, 0))?, Some(19.5));
/// assert_eq!(heap.transaction(|tx| readings.pop(tx))?, Some(21.0));
/// assert_eq!(heap.transaction(|tx| readings.len(tx))?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HeapVec<T>(Head<T>);

impl<T> Clone for HeapVec<T> {
    fn clone(&self) -> Self {
        HeapVec(self.0.clone())
    }
}

/// Returns the segment of an element, and its index there.
fn place(index: u64) -> (u64, u64) {
    let segment = (index / FIRST_LEN + 1).ilog2();
    (u64::from(segment), index - FIRST_LEN * ((1 << segment) - 1))
}

impl<T: Plain> HeapVec<T> {
    const HEAD_WORDS: u64 = SEGMENTS_AT + SEGMENTS;

    opened!("a vector");

    fn type_name() -> String {
        format!("HeapVec<{}>", description::<T>())
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// The vector was removed; a conflict.
    pub fn len(&self, tx: &mut Tx<'_>) -> Result<u64, Interrupt> {
        let first = self.0.first(tx)?;
        self.0.get(tx, first + LEN)
    }

    /// Returns whether there are no elements.
    ///
    /// # Errors
    /// As [`HeapVec::len`].
    pub fn is_empty(&self, tx: &mut Tx<'_>) -> Result<bool, Interrupt> {
        Ok(self.len(tx)? == 0)
    }

    /// Returns the segment of an element, and its index there. A corrupt vector may have any length.
    fn place(&self, first: u64, index: u64) -> Result<(u64, u64), Interrupt> {
        match place(index) {
            (segment, _) if segment >= SEGMENTS => {
                Err(self.0.corrupt(first + LEN, "a vector is longer than it can be"))
            }
            place => Ok(place),
        }
    }

    /// Returns the first word of an existing element.
    fn word_of(&self, tx: &mut Tx<'_>, first: u64, index: u64) -> Result<u64, Interrupt> {
        let (segment, before) = self.place(first, index)?;
        // The segment may be any word: an element beyond the heap is refused.
        Ok(self.0.get(tx, first + SEGMENTS_AT + segment)?.saturating_add(before * T::WORDS as u64))
    }

    /// Returns an element; `None` if the index is out of range.
    ///
    /// # Errors
    /// The vector was removed; a conflict.
    pub fn get(&self, tx: &mut Tx<'_>, index: u64) -> Result<Option<T>, Interrupt> {
        let first = self.0.first(tx)?;
        if index >= self.0.get(tx, first + LEN)? {
            return Ok(None);
        }
        let word = self.word_of(tx, first, index)?;
        self.0.load(tx, word).map(Some)
    }

    /// Replaces an element; returns whether the index is in range.
    ///
    /// # Errors
    /// The vector was removed; a conflict.
    pub fn set(&self, tx: &mut Tx<'_>, index: u64, value: T) -> Result<bool, Interrupt> {
        let first = self.0.first(tx)?;
        if index >= self.0.get(tx, first + LEN)? {
            return Ok(false);
        }
        let word = self.word_of(tx, first, index)?;
        self.0.store(tx, word, &value)?;
        Ok(true)
    }

    /// Appends an element; returns its index.
    ///
    /// # Errors
    /// The heap is full; the vector was removed; a conflict.
    pub fn push(&self, tx: &mut Tx<'_>, value: T) -> Result<u64, Interrupt> {
        tx.whole(|tx| self.push_whole(tx, value))
    }

    fn push_whole(&self, tx: &mut Tx<'_>, value: T) -> Result<u64, Interrupt> {
        let first = self.0.first(tx)?;
        let len = self.0.get(tx, first + LEN)?;
        let (segment, before) = self.place(first, len)?;
        if before == 0 && self.0.get(tx, first + SEGMENTS_AT + segment)? == 0 {
            let block = self.0.new_block(tx, (FIRST_LEN << segment) * T::WORDS as u64)?;
            self.0.set(tx, first + SEGMENTS_AT + segment, block)?;
        }
        let word = self.word_of(tx, first, len)?;
        self.0.store(tx, word, &value)?;
        self.0.set(tx, first + LEN, len + 1)?;
        Ok(len)
    }

    /// Removes the last element and returns it. Of the segments that become empty, one stays for the next append.
    ///
    /// # Errors
    /// The vector was removed; a conflict.
    pub fn pop(&self, tx: &mut Tx<'_>) -> Result<Option<T>, Interrupt> {
        tx.whole(|tx| self.pop_whole(tx))
    }

    fn pop_whole(&self, tx: &mut Tx<'_>) -> Result<Option<T>, Interrupt> {
        let first = self.0.first(tx)?;
        let Some(last) = self.0.get(tx, first + LEN)?.checked_sub(1) else { return Ok(None) };
        let word = self.word_of(tx, first, last)?;
        let value = self.0.load(tx, word)?;
        self.0.set(tx, first + LEN, last)?;
        let (segment, before) = place(last);
        if before == 0 && segment + 1 < SEGMENTS {
            self.free_segment(tx, first, segment + 1)?;
        }
        Ok(Some(value))
    }

    fn free_segment(&self, tx: &mut Tx<'_>, first: u64, segment: u64) -> Result<(), Interrupt> {
        let block = self.0.get(tx, first + SEGMENTS_AT + segment)?;
        if block != 0 {
            self.0.free_block(tx, block)?;
            self.0.set(tx, first + SEGMENTS_AT + segment, 0)?;
        }
        Ok(())
    }

    /// Removes all elements.
    ///
    /// # Errors
    /// The vector was removed; a conflict.
    pub fn clear(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        tx.whole(|tx| self.clear_whole(tx))
    }

    fn clear_whole(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        let first = self.0.first(tx)?;
        self.0.set(tx, first + LEN, 0)?;
        (0..SEGMENTS).try_for_each(|segment| self.free_segment(tx, first, segment))
    }

    /// Removes the vector with all elements, and its name.
    ///
    /// # Errors
    /// It was removed, or does not have this name; a conflict.
    pub fn remove_as(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        tx.whole(|tx| self.remove_as_whole(tx, name))
    }

    fn remove_as_whole(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        self.clear(tx)?;
        self.0.remove(tx, name)
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::{Error, Heap, HeapOptions, Memory, MemoryOptions};

    fn heap_of_mebibyte() -> Heap {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        memory.create_heap("heap", &HeapOptions::new(1 << 20)).expect("a heap")
    }

    /// Makes a word of the vector's segments point to another word.
    fn point<T: Plain>(heap: &Heap, vector: &HeapVec<T>, segment: u64, word: u64) {
        let pointed = heap.atomically(|tx| {
            let first = vector.0.first(tx)?;
            vector.0.set(tx, first + SEGMENTS_AT + segment, word)
        });
        pointed.expect("a word of the vector");
    }

    /// A word beyond the heap would reach the log with the commit, and no later opening could replay it.
    #[test]
    fn element_beyond_heap_is_refused() {
        let heap = heap_of_mebibyte();
        let vector: HeapVec<[u64; 3]> = HeapVec::open(&heap, "vector").expect("room");
        heap.atomically(|tx| vector.push(tx, [1; 3])).expect("room");
        let words = heap.size() / 8;
        for segment in [words - 2, words, u64::MAX - 2, u64::MAX] {
            point(&heap, &vector, 0, segment);
            for used in [
                heap.atomically(|tx| vector.set(tx, 0, [2; 3]).map(drop)),
                heap.atomically(|tx| vector.push(tx, [2; 3]).map(drop)),
                heap.atomically(|tx| vector.get(tx, 0).map(drop)),
                heap.atomically(|tx| vector.pop(tx).map(drop)),
            ] {
                assert!(matches!(used, Err(Error::OutOfRange { .. })), "{segment}: {used:?}");
            }
        }
        assert_eq!(heap.atomically(|tx| vector.len(tx)).expect("it is there"), 1);
    }

    /// A word beyond the heap stands for no block, not even for the one at the same place modulo 2⁶⁴ bytes.
    #[test]
    fn wild_segment_frees_no_block() {
        let heap = heap_of_mebibyte();
        let vector: HeapVec<u64> = HeapVec::open(&heap, "vector").expect("room");
        heap.atomically(|tx| (0..=FIRST_LEN).try_for_each(|number| vector.push(tx, number).map(drop))).expect("room");
        let other = heap.atomically(|tx| tx.allocate(&heap, 64)).expect("room");
        for word in [other / 8 + (1 << 61), other / 8 + 1, heap.size() / 8, u64::MAX] {
            point(&heap, &vector, 1, word);
            let cleared = heap.atomically(|tx| vector.clear(tx));
            assert!(matches!(cleared, Err(Error::NotAllocated { .. })), "{word}: {cleared:?}");
        }
        heap.atomically(|tx| tx.free(&heap, other)).expect("it is still allocated");
    }
}
