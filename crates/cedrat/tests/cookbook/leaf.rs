//! One leaf of the set, and the operation that changes it.

use cedrat::pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat::prelude::*;
use serde::{Deserialize, Serialize};

/// Largest number of keys of a leaf. A page has room for 505; fewer make a check split more often.
pub const KEYS_MAX: usize = 6;

/// The content of a page: its smallest possible key, the next leaf (0: none), and its keys in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Leaf {
    pub low: u64,
    pub next: u64,
    pub keys: Vec<u64>,
}

/// A change of one leaf.
#[derive(Debug, Serialize, Deserialize)]
pub enum Change {
    Add(u64),
    Remove(u64),
    Write(Leaf),
}

impl Leaf {
    pub fn read(page: &PageRef<'_>) -> Result<Leaf, Damaged> {
        let count = page.u64_at(16)? as usize;
        if count > KEYS_MAX {
            return Err(Damaged::in_body(page.id(), 16, "a leaf has fewer keys"));
        }
        let keys = (0..count).map(|n| page.u64_at(24 + 8 * n)).collect::<Result<_, _>>()?;
        Ok(Leaf { low: page.u64_at(0)?, next: page.u64_at(8)?, keys })
    }

    fn write(&self, page: &mut PageMut<'_>) -> Result<(), Damaged> {
        let head = [self.low, self.next, self.keys.len() as u64];
        let padding = std::iter::repeat_n(&0, KEYS_MAX - self.keys.len());
        let words = head.iter().chain(&self.keys).chain(padding);
        words.enumerate().try_for_each(|(n, word)| page.put_u64(8 * n, *word))
    }

    /// Returns the leaf after the change; `None` if the change does not fit it.
    fn after(mut self, change: &Change) -> Option<Leaf> {
        match change {
            Change::Add(key) => self.keys.insert(self.keys.binary_search(key).err()?, *key),
            Change::Remove(key) => drop(self.keys.remove(self.keys.binary_search(key).ok()?)),
            Change::Write(leaf) => self = leaf.clone(),
        }
        (self.keys.len() <= KEYS_MAX).then_some(self)
    }
}

impl Operation for Change {
    const NAME: &'static str = "cookbook.leaf.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let leaf = Leaf::read(page)?;
        let undo = match self {
            Change::Add(key) => Change::Remove(*key),
            Change::Remove(key) => Change::Add(*key),
            Change::Write(_) => Change::Write(leaf.clone()),
        };
        match leaf.after(self) {
            Some(_) => Ok(Undo::op(undo)),
            None => Err(Refused::new("the change does not fit the leaf")),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let leaf = Leaf::read(&page.page_ref())?.after(self);
        let leaf = leaf.ok_or_else(|| Damaged::in_body(page.id(), 16, "the change does not fit the leaf"))?;
        leaf.write(page)
    }
}

/// Returns the leaf that has the key, if any has. The caller holds the latch of the set.
pub fn leaf_of(txn: &Txn, root: PageId, key: u64) -> Result<(PageId, Leaf)> {
    let mut found = (root, Leaf::read(&*txn.read_latched(root)?)?);
    while found.1.next != 0 {
        let page = PageId::new(found.1.next);
        let leaf = Leaf::read(&*txn.read_latched(page)?)?;
        if leaf.low > key {
            break;
        }
        found = (page, leaf);
    }
    Ok(found)
}
