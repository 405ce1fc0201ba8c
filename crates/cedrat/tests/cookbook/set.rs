//! A set of numbers that many transactions change at once: nested top actions.

use cedrat::pages::{LatchRank, LayoutKind, PageId, StructureLatch};
use cedrat::prelude::*;
use cedrat::txn::{FormatFresh, LockMode, Resource};
use serde::{Deserialize, Serialize};

use crate::leaf::{Change, KEYS_MAX, Leaf, leaf_of};

/// A set with this first leaf. An empty leaf is a page of zeros.
pub struct Set(pub PageId);

/// The undo of an insertion.
#[derive(Debug, Serialize, Deserialize)]
pub struct Withdraw {
    root: u64,
    key: u64,
}

fn new_latch() -> Result<StructureLatch> {
    Ok(StructureLatch::new(LatchRank(1)))
}

impl Set {
    pub fn insert(&self, txn: &mut Txn, key: u64) -> Result<bool> {
        // Isolates the key until the transaction ends. Locks come before latches.
        txn.lock(Resource::Key { structure: self.0, hash: key }, LockMode::Exclusive)?;
        let latch = txn.store().resident(self.0, new_latch)?; // all handles share one
        let latched = latch.exclusive();
        let (page, leaf) = leaf_of(txn, self.0, key)?;
        if leaf.keys.contains(&key) {
            return Ok(false);
        }
        let undo = Undo::logical(&Withdraw { root: self.0.get(), key });
        if leaf.keys.len() < KEYS_MAX {
            txn.update_logical(RecordId::page(page), &Change::Add(key), undo)?; // an action of one record
            return Ok(true);
        }
        txn.nested(latched, |txn| {
            let page = split(txn, page, leaf, key)?;
            txn.update_latched(RecordId::page(page), &Change::Add(key))?;
            Ok((true, undo)) // here the action ends; then the latch is released
        })
    }

    pub fn contains(&self, txn: &mut Txn, key: u64) -> Result<bool> {
        txn.lock(Resource::Key { structure: self.0, hash: key }, LockMode::Shared)?;
        let latch = txn.store().resident(self.0, new_latch)?;
        let _latched = latch.shared();
        Ok(leaf_of(txn, self.0, key)?.1.keys.contains(&key))
    }
}

/// Moves the upper half of a full leaf to a new page. Returns the page for `key`.
fn split(txn: &mut Txn, page: PageId, mut leaf: Leaf, key: u64) -> Result<PageId> {
    let new = txn.allocate()?;
    let keys = leaf.keys.split_off(KEYS_MAX / 2);
    let low = keys[0];
    txn.update_latched(RecordId::page(new), &FormatFresh::new(LayoutKind::RAW))?;
    txn.update_latched(RecordId::page(new), &Change::Write(Leaf { low, next: leaf.next, keys }))?;
    leaf.next = new.get();
    txn.update_latched(RecordId::page(page), &Change::Write(leaf))?;
    Ok(if key < low { page } else { new })
}

impl LogicalUndo for Withdraw {
    const NAME: &'static str = "cookbook.withdraw.v1";
    const LOG_BYTES_MAX: u32 = 128; // one record of 64 bytes, and its arguments

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let root = PageId::new(self.root);
        let latch = txn.store().resident(root, new_latch)?;
        let _latched = latch.exclusive();
        let (page, leaf) = leaf_of(txn, root, self.key)?; // a split may have moved the key
        if leaf.keys.contains(&self.key) {
            // Redo-only: after a crash the undo runs again, and may find no key.
            txn.update_logical(RecordId::page(page), &Change::Remove(self.key), Undo::none())?;
        }
        Ok(())
    }
}
