//! Blocks that a transaction has freed: until it ends, any use of one is a mistake of the program.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::status::{Failure, Result, Status};

/// Number of blocks that are searched linearly: most transactions free a few, and a tree takes longer to build than to
/// search.
const SEARCHED: usize = 8;

/// The blocks, by address. They do not overlap: the heap reuses a freed block only after the commit.
///
/// Every load and store of the transaction searches here, so the cost of a search must not grow with the number of blocks.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// First byte and length, in the order of the frees.
    order: Vec<(Address, usize)>,
    /// Lengths by first byte, of the first so many of them that a check has needed: most transactions use no word that could
    /// lie in one.
    index: BTreeMap<Address, usize>,
    /// Range that contains all blocks: most searches end here.
    bounds: Range<usize>,
    /// Words of the first `marked` blocks. Where there are many blocks, most other searches end here.
    marks: Marks,
    marked: usize,
}

/// Words that may lie in some blocks, by hashes of their addresses.
#[derive(Debug)]
struct Marks {
    bits: [u64; 64],
    /// Whether any word may: a block has too many words.
    any: bool,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks { bits: [0; 64], any: false }
    }
}

impl Marks {
    /// Returns the index of the element that has an address's bit, and the bit.
    #[inline(always)]
    fn place(address: usize) -> (usize, u64) {
        let hash = (address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        ((hash / 64) as usize, 1 << (hash % 64))
    }

    fn add(&mut self, address: usize, len: usize) {
        const WORDS_MAX: usize = 128;
        self.any |= len > 8 * WORDS_MAX;
        for at in (address..address.saturating_add(len.min(8 * WORDS_MAX))).step_by(8) {
            let (at, bit) = Marks::place(at);
            self.bits[at] |= bit;
        }
    }

    /// Returns whether a word may lie in a block; the addresses of blocks are multiples of 8.
    #[inline(always)]
    fn has(&self, address: usize) -> bool {
        let (at, bit) = Marks::place(address);
        self.any || self.bits[at] & bit != 0
    }
}

impl Freed {
    pub(crate) fn add(&mut self, address: usize, len: usize) {
        let len = len.max(1); // a block of no bytes has an address as well
        self.bounds = match self.order.is_empty() {
            true => address..address.saturating_add(len),
            false => self.bounds.start.min(address)..self.bounds.end.max(address.saturating_add(len)),
        };
        self.order.push((Address(address), len));
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Forgets all blocks.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        if !self.order.is_empty() {
            self.order.clear();
            self.index.clear();
        }
        if self.marked > 0 {
            self.marks = Marks::default();
            self.marked = 0;
        }
    }

    /// Forgets all but the first `len` blocks.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len == 0 {
            return self.clear();
        }
        self.marked = self.marked.min(len);
        let indexed = self.index.len();
        for (address, _) in self.order.drain(len.min(self.order.len())..).take(indexed.saturating_sub(len)) {
            self.index.remove(&address);
        }
    }

    /// Marks the blocks that are not marked yet, and returns whether a word may lie in one of them.
    fn mark_and_search(&mut self, address: usize) -> bool {
        self.order[self.marked..].iter().for_each(|&(block, len)| self.marks.add(block.0, len));
        self.marked = self.order.len();
        self.marks.has(address)
    }

    /// Refuses bytes that overlap one of them.
    pub(crate) fn check(&mut self, address: usize, len: usize) -> Result<()> {
        let end = address.saturating_add(len);
        if self.is_empty() || address >= self.bounds.end || end <= self.bounds.start {
            return Ok(());
        }
        if self.order.len() > SEARCHED && len == 8 && address.is_multiple_of(8) && !self.mark_and_search(address) {
            return Ok(());
        }
        let meets = |(from, freed): (Address, usize)| from.0 < end && address < from.0.saturating_add(freed);
        let met = if self.order.len() <= SEARCHED {
            self.order.iter().copied().any(meets)
        } else {
            self.index.extend(self.order[self.index.len()..].iter().copied());
            // The last block that begins before the end of the bytes is the only candidate: earlier blocks end before it.
            self.index.range(..Address(end)).next_back().is_some_and(|(&from, &freed)| meets((from, freed)))
        };
        if met {
            let text = format!("the address {address:#x} lies in a block that this transaction has freed");
            return Err(Failure::new(Status::NotAllocated, text));
        }
        Ok(())
    }
}

/// First byte of a block. Tests count the comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address(usize);

impl Ord for Address {
    fn cmp(&self, other: &Address) -> Ordering {
        #[cfg(test)]
        tests::COMPARED.set(tests::COMPARED.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Address) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    std::thread_local! {
        pub(super) static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// Returns the number of comparisons of one check, and whether it refused.
    fn asked(freed: &mut Freed, address: usize, len: usize) -> (u64, bool) {
        COMPARED.set(0);
        let refused = freed.check(address, len).is_err();
        (COMPARED.get(), refused)
    }

    #[test]
    fn question_costs_logarithm_of_frees() {
        for log2 in [4, 10, 16] {
            let mut freed = Freed::default();
            let blocks = 1usize << log2;
            for at in 0..blocks {
                // In an order that is neither ascending nor descending.
                freed.add(0x1000 + (at * 7919 % blocks) * 64, 32);
            }
            let (compared, _) = asked(&mut freed, 0x1000, 8);
            assert!(compared <= blocks as u64 * (12 + 6 * log2), "{compared} comparisons for the index of {blocks}");
            for at in (0..blocks).step_by(blocks / 16) {
                for (address, expected) in [(0x1000 + at * 64, true), (0x1000 + at * 64 + 32, false)] {
                    let (compared, refused) = asked(&mut freed, address, 8);
                    assert_eq!(refused, expected, "{address:#x}");
                    assert!(compared <= 12 + 6 * log2, "{compared} comparisons with {blocks} blocks freed");
                }
            }
            assert_eq!(asked(&mut freed, 0x1000 - 8, 8), (0, false), "outside of the bounds nothing is compared");
            assert_eq!(asked(&mut freed, 0x1000 + blocks * 64, 8), (0, false));
        }
    }

    #[test]
    fn bytes_that_touch_freed_block_are_refused() {
        let mut freed = Freed::default();
        freed.add(0x200, 16);
        freed.add(0x100, 16);
        freed.add(0x180, 0);
        let refused = |freed: &mut Freed, address, len| asked(freed, address, len).1;
        assert!(refused(&mut freed, 0x100, 8) && refused(&mut freed, 0x108, 8) && refused(&mut freed, 0xff, 2));
        assert!(refused(&mut freed, 0x20f, 1) && refused(&mut freed, 0x180, 1) && refused(&mut freed, 0, 0x1000));
        assert!(!refused(&mut freed, 0xf8, 8) && !refused(&mut freed, 0x110, 8) && !refused(&mut freed, 0x210, 8));
        assert!(!refused(&mut freed, 0x181, 0x7f));
        freed.truncate(1);
        assert!(!refused(&mut freed, 0x100, 8) && refused(&mut freed, 0x200, 8) && freed.len() == 1);
        freed.add(0x100, 16);
        assert!(refused(&mut freed, 0x100, 8));
        freed.truncate(0);
        assert!(freed.is_empty() && !refused(&mut freed, 0, usize::MAX));
        // More and fewer than are searched linearly.
        let blocks: Vec<usize> = (0..3 * SEARCHED).map(|at| 0x1000 + at * 64).collect();
        blocks.iter().for_each(|&block| freed.add(block, 8));
        for kept in (0..=blocks.len()).rev() {
            freed.truncate(kept);
            let all = blocks.iter().enumerate();
            all.for_each(|(at, &block)| assert_eq!(refused(&mut freed, block, 8), at < kept, "{at} of {kept}"));
        }
    }
}
