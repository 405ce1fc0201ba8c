//! A counter distributed over many cells.

use super::{APART, CELLS, CELLS_WORDS, Head, opened, own_cell};
use crate::error::{Interrupt, Result};
use crate::tx::Tx;

/// A durable counter. Sessions add to cells of their own, so that they rarely conflict; a read computes the sum.
///
/// ```
/// # use cedrat_heap::{HeapCounter, HeapOptions, Memory, MemoryOptions};
/// # fn main() -> cedrat_heap::Result<()> {
/// # let memory = Memory::volatile(MemoryOptions::small())?;
/// # let heap = memory.create_heap("counts", &HeapOptions::new(1 << 20))?;
/// let visits = HeapCounter::open(&heap, "visits")?;
/// heap.transaction(|tx| visits.add(tx, 3))?;
/// assert_eq!(heap.transaction(|tx| visits.get(tx))?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HeapCounter(Head<i64>);

impl HeapCounter {
    const HEAD_WORDS: u64 = APART + CELLS_WORDS;

    opened!("a counter");

    fn type_name() -> String {
        "HeapCounter".to_owned()
    }

    /// Adds an amount, which may be negative. The sum wraps.
    ///
    /// # Errors
    /// The counter was removed; a conflict.
    pub fn add(&self, tx: &mut Tx<'_>, amount: i64) -> Result<(), Interrupt> {
        let first = self.0.first(tx)?;
        self.0.add(tx, own_cell(tx, first + APART), amount as u64).map(drop)
    }

    /// Returns the sum. The read conflicts with every concurrent addition.
    ///
    /// # Errors
    /// The counter was removed; a conflict.
    pub fn get(&self, tx: &mut Tx<'_>) -> Result<i64, Interrupt> {
        let first = self.0.first(tx)?;
        let mut sum = 0u64;
        for cell in 0..CELLS {
            sum = sum.wrapping_add(self.0.get(tx, first + APART + cell * APART)?);
        }
        Ok(sum as i64)
    }

    /// Removes the counter and its name.
    ///
    /// # Errors
    /// It was removed, or does not have this name; a conflict.
    pub fn remove_as(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        self.0.remove(tx, name)
    }
}
