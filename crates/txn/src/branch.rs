//! The content of a transaction's prepare records, all parts joined (drawn in docs/formats/records.md).
//!
//! ```text
//! identifier length | identifier | room for undo | stripes of keys | how many locks | lock * | heap words
//! lock    what and mode 1 | page | [hash or slot]
//! ```
//!
//! Numbers are varints. The low four bits of *what and mode* are the kind of resource: 1 a page, 2 a key, followed by
//! its hash, 3 a structure, 4 a record, followed by its slot. The other bits are the mode: 1 intention exclusive, 2
//! shared and intention exclusive, 3 exclusive.

use cedrat_pages::{PageId, Slot};
use cedrat_wal::Lsn;

use crate::body::Corrupt;
use crate::encode::varint;
use crate::locks::{LockManager, LockMode, Resource};
use crate::operation::RecordId;

/// Maximum length of an identifier in bytes: the two parts of an XA identifier, of at most 64 bytes each, its format
/// id, and their lengths.
pub const BRANCH_ID_LEN_MAX: usize = 140;

const PAGE: u8 = 1;
const KEY: u8 = 2;
const STRUCTURE: u8 = 3;
const RECORD: u8 = 4;

/// The modes that are logged, with their numbers in the format.
const MODES: [(u8, LockMode); 3] =
    [(1, LockMode::IntentionExclusive), (2, LockMode::SharedIntentionExclusive), (3, LockMode::Exclusive)];

/// The state from which a prepared transaction continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) id: Vec<u8>,
    /// Maximum log space that its undo takes.
    pub(crate) owed: u64,
    /// [`LockManager::key_stripes`] of the lock manager that listed the locks.
    pub(crate) key_stripes: u64,
    pub(crate) locks: Vec<(Resource, LockMode)>,
    /// The words of its heap writes; empty if there are none.
    pub(crate) heap: Vec<u8>,
}

/// Exclusive upper bound of `owed`: no log has room for so much undo.
const OWED_LIMIT: u64 = 1 << 62;

const CUT: Corrupt = Corrupt("the list of prepared changes is truncated");

impl Branch {
    /// Appends the branch. Only locks under which something may have been written are worth listing (E9.3).
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        varint::put(bytes, self.id.len() as u64);
        bytes.extend_from_slice(&self.id);
        varint::put(bytes, self.owed);
        varint::put(bytes, self.key_stripes);
        varint::put(bytes, self.locks.len() as u64);
        for &(resource, mode) in &self.locks {
            let mode = MODES.iter().find(|(_, known)| *known == mode).map_or(0, |(number, _)| number << 4);
            let (what, page, within) = match resource {
                Resource::Page(page) => (PAGE, page, None),
                Resource::Key { structure, hash } => (KEY, structure, Some(hash)),
                Resource::Structure(root) => (STRUCTURE, root, None),
                Resource::Record(at) => (RECORD, at.page, Some(at.slot.0.into())),
            };
            bytes.push(mode | what);
            varint::put(bytes, page.get());
            if let Some(within) = within {
                varint::put(bytes, within);
            }
        }
        bytes.extend_from_slice(&self.heap);
    }

    /// Returns the identifier, which the first bytes contain.
    pub(crate) fn id_of(bytes: &[u8]) -> Result<&[u8], Corrupt> {
        take_id(&mut &*bytes)
    }

    /// Splits a copy into the LSN of the original prepare record and the prepared branch.
    pub(crate) fn of_copy(mut bytes: &[u8]) -> Result<(Lsn, &[u8]), Corrupt> {
        let since = varint::take(&mut bytes).ok_or(CUT)?;
        Ok((Lsn::new(since), bytes))
    }

    pub(crate) fn take(bytes: &[u8]) -> Result<Branch, Corrupt> {
        let rest = &mut &*bytes;
        let number = |rest: &mut &[u8]| varint::take(rest).ok_or(CUT);
        let id = take_id(rest)?;
        let (id, owed, key_stripes) = (id.to_vec(), number(rest)?, number(rest)?);
        if owed >= OWED_LIMIT {
            return Err(Corrupt("its undo takes more log than any log has"));
        }
        let mut branch = Branch { id, owed, key_stripes, ..Branch::default() };
        for _ in 0..number(rest)? {
            branch.locks.push(take_lock(rest)?);
        }
        branch.heap = rest.to_vec();
        Ok(branch)
    }

    /// Restores the locks of the transaction.
    pub(crate) fn restore_locks(&self, txn: cedrat_wal::TxnId, locks: &dyn LockManager) {
        let stripes = locks.key_stripes();
        // A folded hash can be folded further only if the new number of stripes divides the old one.
        let folds = self.key_stripes == 0 || stripes != 0 && self.key_stripes.is_multiple_of(stripes);
        for &(resource, mode) in &self.locks {
            match resource {
                Resource::Key { structure, .. } if !folds => {
                    locks.restore(txn, Resource::Structure(structure), LockMode::Exclusive);
                }
                other => locks.restore(txn, other, mode),
            }
        }
    }
}

fn take_id<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Corrupt> {
    let len = varint::take(rest).ok_or(CUT)?;
    let (id, others) = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)).ok_or(CUT)?;
    *rest = others;
    if id.is_empty() || id.len() > BRANCH_ID_LEN_MAX {
        return Err(Corrupt("the identifier of a prepared transaction has an invalid length"));
    }
    Ok(id)
}

fn take_lock(rest: &mut &[u8]) -> Result<(Resource, LockMode), Corrupt> {
    let (&what, others) = rest.split_first().ok_or(CUT)?;
    *rest = others;
    let mode = MODES.iter().find(|(number, _)| *number == what >> 4).map(|(_, mode)| *mode);
    let mode = mode.ok_or(Corrupt("the mode of a lock is invalid"))?;
    let page = PageId::new(varint::take(rest).ok_or(CUT)?);
    let resource = match what & 0x0f {
        PAGE => Resource::Page(page),
        KEY => Resource::Key { structure: page, hash: varint::take(rest).ok_or(CUT)? },
        STRUCTURE => Resource::Structure(page),
        RECORD => {
            let slot = varint::take(rest).ok_or(CUT)?;
            let slot = u16::try_from(slot).map_err(|_| Corrupt("the slot of a locked record is too large"))?;
            Resource::Record(RecordId::new(page, Slot(slot)))
        }
        _ => return Err(Corrupt("the kind of a locked resource is invalid")),
    };
    Ok((resource, mode))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resource() -> impl Strategy<Value = Resource> {
        let page = any::<u64>().prop_map(PageId::new);
        prop_oneof![
            page.clone().prop_map(Resource::Page),
            (page.clone(), any::<u64>()).prop_map(|(structure, hash)| Resource::Key { structure, hash }),
            (page.clone(), any::<u16>()).prop_map(|(page, slot)| Resource::Record(RecordId::new(page, Slot(slot)))),
            page.prop_map(Resource::Structure),
        ]
    }

    proptest! {
        #[test]
        fn prepared_body_is_read_back(
            id in prop::collection::vec(any::<u8>(), 1..=BRANCH_ID_LEN_MAX), owed in 0..OWED_LIMIT, key_stripes: u64,
            locks in prop::collection::vec((resource(), 0_usize..3), 0..20), heap: Vec<u8>, cut: prop::sample::Index,
        ) {
            let locks = locks.into_iter().map(|(resource, mode)| (resource, MODES[mode].1)).collect();
            let heap_len = heap.len();
            let branch = Branch { id, owed, key_stripes, locks, heap };
            let mut bytes = Vec::new();
            branch.put(&mut bytes);
            prop_assert_eq!(Branch::take(&bytes), Ok(branch));
            prop_assert!(Branch::take(&bytes[..cut.index(bytes.len() - heap_len)]).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let _ = Branch::take(&bytes);
        }
    }
}
