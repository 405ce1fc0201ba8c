//! Blocks that a transaction has freed: until it ends, each use of one is a mistake of the program's.

use crate::status::{Failure, Result, Status};

/// Where they lie in memory: from, length.
#[derive(Debug, Default)]
pub(crate) struct Freed(Vec<(usize, usize)>);

impl Freed {
    pub(crate) fn add(&mut self, address: usize, len: usize) {
        self.0.push((address, len));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All but the first `len` of them are no longer freed.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Refuses bytes that lie in one of them.
    pub(crate) fn check(&self, address: usize, len: usize) -> Result<()> {
        let meets = |&(from, freed): &(usize, usize)| {
            address < from.saturating_add(freed) && from < address.saturating_add(len)
        };
        if self.0.iter().any(meets) {
            let text = format!("the address {address:#x} lies in a block that this transaction has freed");
            return Err(Failure::new(Status::NotAllocated, text));
        }
        Ok(())
    }
}
