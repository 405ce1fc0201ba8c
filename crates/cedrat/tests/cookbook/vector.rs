//! A growing array of numbers: full isolation.

use cedrat::pages::{LayoutKind, PageId};
use cedrat::prelude::*;
use cedrat::txn::{FormatFresh, LockMode, Resource, SetRange};

/// Numbers of a page. It has room for 508; fewer make a check allocate more often.
pub const PAGE_LEN: u64 = 4;

/// The root page has the number of elements, and the numbers of their pages.
pub struct Vector(pub PageId);

impl Vector {
    pub fn create(txn: &mut Txn) -> Result<Vector> {
        let root = txn.allocate()?;
        txn.isolated(root, |txn| txn.update(RecordId::page(root), &FormatFresh::new(LayoutKind::RAW)))?;
        Ok(Vector(root))
    }

    pub fn push(&self, txn: &mut Txn, value: u64) -> Result<()> {
        txn.isolated(self.0, |txn| {
            let len = word(txn, self.0, 0)?;
            let entry = 1 + len / PAGE_LEN;
            if len % PAGE_LEN == 0 {
                let page = txn.allocate()?;
                txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
                set(txn, self.0, entry, page.get())?;
            }
            let page = PageId::new(word(txn, self.0, entry)?);
            set(txn, page, len % PAGE_LEN, value)?;
            set(txn, self.0, 0, len + 1)
        })
    }

    pub fn pop(&self, txn: &mut Txn) -> Result<Option<u64>> {
        txn.isolated(self.0, |txn| {
            let Some(last) = word(txn, self.0, 0)?.checked_sub(1) else { return Ok(None) };
            let page = PageId::new(word(txn, self.0, 1 + last / PAGE_LEN)?);
            let value = word(txn, page, last % PAGE_LEN)?;
            set(txn, self.0, 0, last)?;
            if last % PAGE_LEN == 0 {
                txn.free(page)?; // not allocated again before this transaction ends
            }
            Ok(Some(value))
        })
    }

    pub fn get(&self, txn: &mut Txn, index: u64) -> Result<Option<u64>> {
        txn.lock(Resource::Structure(self.0), LockMode::Shared)?; // `isolated` locks the same exclusively
        if index >= word(txn, self.0, 0)? {
            return Ok(None);
        }
        let page = PageId::new(word(txn, self.0, 1 + index / PAGE_LEN)?);
        word(txn, page, index % PAGE_LEN).map(Some)
    }
}

fn word(txn: &Txn, page: PageId, at: u64) -> Result<u64> {
    Ok(txn.read_latched(page)?.u64_at(8 * at as usize)?)
}

/// Changes eight bytes. The undo of `SetRange` restores them.
fn set(txn: &mut Txn, page: PageId, at: u64, value: u64) -> Result<()> {
    let bytes = value.to_le_bytes()[..].into();
    txn.update(RecordId::page(page), &SetRange { offset: 8 * at as u16, bytes })
}
