//! The words of a heap as they are, with the account of its blocks: for dumps, and for loading them.

use crate::error::{Error, Interrupt, Result};
use crate::heap::Heap;
use crate::region::WORD_LEN;

impl Heap {
    /// Reads the words from a byte offset on, a multiple of eight, in one transaction. Those before
    /// [`first_offset`](Heap::first_offset) can be read as well.
    ///
    /// # Errors
    /// [`Error::Misaligned`], [`Error::OutOfRange`]; those of [`atomically`](Heap::atomically).
    pub fn read_image(&self, offset: u64, words: &mut [u64]) -> Result<()> {
        let first = self.image_word(offset, words.len())?;
        self.atomically(|tx| {
            for (word, to) in (first..).zip(words.iter_mut()) {
                *to = tx.read_word(&self.core, word)?;
            }
            Ok(())
        })
    }

    /// Writes words from a byte offset on, as [`read_image`](Heap::read_image) has read them from another heap, which had the
    /// same options, in one transaction.
    ///
    /// For a new heap that no other thread uses. Blocks that the words describe are known when the store is opened again, and not
    /// before: do not allocate any until then.
    ///
    /// # Errors
    /// As [`read_image`](Heap::read_image).
    pub fn write_image(&self, offset: u64, words: &[u64]) -> Result<()> {
        let first = self.image_word(offset, words.len())?;
        self.atomically(|tx| {
            (first..)
                .zip(words)
                .try_for_each(|(word, &value)| -> Result<(), Interrupt> { tx.write_word(&self.core, word, value) })
        })
    }

    /// Returns the number of the first word, if all of them lie in the heap.
    fn image_word(&self, offset: u64, words: usize) -> Result<u64> {
        let (heap, len) = (self.name().to_owned(), words as u64 * WORD_LEN);
        if !offset.is_multiple_of(WORD_LEN) {
            return Err(Error::Misaligned { heap, offset });
        }
        if offset > self.size() || len > self.size() - offset {
            return Err(Error::OutOfRange { heap, offset, len, from: 0, to: self.size() });
        }
        Ok(offset / WORD_LEN)
    }
}
