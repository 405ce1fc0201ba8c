//! A queue: a chain of blocks, the first of which holds the value that was removed last. Appending changes the end of the
//! chain, removing its beginning; the two conflict only when the queue is empty.

use super::{APART, Head, opened};
use crate::error::{Interrupt, Result};
use crate::tx::Tx;
use crate::typed::{Plain, description};

/// In the head: the block before the oldest element, the number of removed values; the newest block, the number of appended
/// values.
const OLDEST: u64 = APART;
const TAKEN: u64 = APART + 1;
const NEWEST: u64 = 2 * APART;
const APPENDED: u64 = 2 * APART + 1;

/// A durable queue, first in first out.
///
/// ```
/// # use cedrat_heap::{HeapOptions, HeapQueue, Memory, MemoryOptions};
/// # fn main() -> cedrat_heap::Result<()> {
/// # let memory = Memory::volatile(MemoryOptions::small())?;
/// # let heap = memory.create_heap("work", &HeapOptions::new(1 << 20))?;
/// let orders: HeapQueue<(u64, u32)> = HeapQueue::open(&heap, "orders")?;
/// heap.transaction(|tx| {
///     orders.push(tx, (1, 10))?;
///     orders.push(tx, (2, 20))
/// })?;
/// // What is taken is only gone if the work is done.
/// let order = heap.transaction(|tx| orders.pop(tx))?;
/// assert_eq!(order, Some((1, 10)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HeapQueue<T>(Head<T>);

impl<T> Clone for HeapQueue<T> {
    fn clone(&self) -> Self {
        HeapQueue(self.0.clone())
    }
}

impl<T: Plain> HeapQueue<T> {
    const HEAD_WORDS: u64 = 3 * APART;

    opened!("a queue");

    fn type_name() -> String {
        format!("HeapQueue<{}>", description::<T>())
    }

    /// Appends a value.
    ///
    /// # Errors
    /// The heap is full; the queue was removed; a conflict.
    pub fn push(&self, tx: &mut Tx<'_>, value: T) -> Result<(), Interrupt> {
        tx.whole(|tx| self.push_whole(tx, value))
    }

    fn push_whole(&self, tx: &mut Tx<'_>, value: T) -> Result<(), Interrupt> {
        let first = self.0.first(tx)?;
        let mut newest = self.0.get(tx, first + NEWEST)?;
        if newest == 0 {
            newest = self.0.new_block(tx, 1 + T::WORDS as u64)?;
            self.0.set(tx, first + OLDEST, newest)?;
        }
        let block = self.0.new_block(tx, 1 + T::WORDS as u64)?;
        self.0.set(tx, block, 0)?;
        self.0.store(tx, block + 1, &value)?;
        self.0.set(tx, newest, block)?;
        self.0.set(tx, first + NEWEST, block)?;
        self.0.add(tx, first + APPENDED, 1).map(drop)
    }

    /// Removes the oldest value and returns it.
    ///
    /// # Errors
    /// The queue was removed; a conflict.
    pub fn pop(&self, tx: &mut Tx<'_>) -> Result<Option<T>, Interrupt> {
        tx.whole(|tx| self.pop_whole(tx))
    }

    fn pop_whole(&self, tx: &mut Tx<'_>) -> Result<Option<T>, Interrupt> {
        let first = self.0.first(tx)?;
        let Some((before, oldest)) = self.oldest(tx, first)? else { return Ok(None) };
        let value = self.0.load(tx, oldest.saturating_add(1))?;
        self.0.set(tx, first + OLDEST, oldest)?;
        self.0.add(tx, first + TAKEN, 1)?;
        self.0.free_block(tx, before)?;
        Ok(Some(value))
    }

    /// Returns the oldest value without removing it.
    ///
    /// # Errors
    /// The queue was removed; a conflict.
    pub fn peek(&self, tx: &mut Tx<'_>) -> Result<Option<T>, Interrupt> {
        let first = self.0.first(tx)?;
        match self.oldest(tx, first)? {
            Some((_, oldest)) => self.0.load(tx, oldest.saturating_add(1)).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the block of the oldest value, and the one before it.
    fn oldest(&self, tx: &mut Tx<'_>, first: u64) -> Result<Option<(u64, u64)>, Interrupt> {
        let before = self.0.get(tx, first + OLDEST)?;
        if before == 0 {
            return Ok(None);
        }
        let oldest = self.0.get(tx, before)?;
        Ok((oldest != 0).then_some((before, oldest)))
    }

    /// Returns the number of values. The read conflicts with every concurrent append and removal.
    ///
    /// # Errors
    /// The queue was removed; a conflict.
    pub fn len(&self, tx: &mut Tx<'_>) -> Result<u64, Interrupt> {
        let first = self.0.first(tx)?;
        Ok(self.0.get(tx, first + APPENDED)?.wrapping_sub(self.0.get(tx, first + TAKEN)?))
    }

    /// Returns whether the queue is empty. Conflicts only with removals, and with appends to an empty queue.
    ///
    /// # Errors
    /// The queue was removed; a conflict.
    pub fn is_empty(&self, tx: &mut Tx<'_>) -> Result<bool, Interrupt> {
        let first = self.0.first(tx)?;
        Ok(self.oldest(tx, first)?.is_none())
    }

    /// Removes the queue with all values, and its name.
    ///
    /// # Errors
    /// It was removed, or does not have this name; a conflict.
    pub fn remove_as(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        tx.whole(|tx| self.remove_as_whole(tx, name))
    }

    fn remove_as_whole(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        let first = self.0.first(tx)?;
        let mut block = self.0.get(tx, first + OLDEST)?;
        let mut steps = self.0.steps(1 + T::WORDS as u64);
        while block != 0 {
            self.0.step(&mut steps, block)?;
            let next = self.0.get(tx, block)?;
            self.0.free_block(tx, block)?;
            block = next;
        }
        self.0.remove(tx, name)
    }
}
