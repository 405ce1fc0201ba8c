//! Changes of an object by who looks at it first.

use std::ops::Range;

use cedrat_sync::Arc;
use cedrat_txn::locks::LockMode;
use cedrat_txn::{Refused, Result, SmallBytes, Txn};

use crate::collection::{ObjectId, Objects, check_len};
use crate::delta::{Alive, PutBytes, difference};
use crate::record::{self, Header, object};

/// What [`Objects::edit`] makes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// It stays as it is.
    Nothing,
    /// These bytes lie in it from `at` on, in bytes; it stays as long as it is.
    Range {
        /// Where they begin.
        at: usize,
        /// The bytes.
        bytes: SmallBytes,
    },
    /// It is this from now on.
    Whole(Vec<u8>),
}

impl Objects {
    /// Looks at an object, and changes it as `edit` says, which is called once. Without an answer nothing happens.
    ///
    /// `edit` may be called under the cache's latch: it asks nothing of the store.
    ///
    /// # Errors
    /// Those of `edit`; as [`put`](Objects::put).
    pub fn edit<T>(&self, txn: &mut Txn, id: ObjectId, edit: impl FnOnce(&[u8]) -> Result<(Edit, T)>) -> Result<T> {
        self.lock_object(txn, id, LockMode::Exclusive)?;
        self.edit_locked(txn, id, edit)
    }

    /// As [`edit`](Objects::edit), by a transaction that has [locked](Objects::lock_for_change) the object.
    ///
    /// # Errors
    /// As there.
    pub fn edit_locked<T>(
        &self,
        txn: &mut Txn,
        id: ObjectId,
        edit: impl FnOnce(&[u8]) -> Result<(Edit, T)>,
    ) -> Result<T> {
        let mut edit = Some(edit);
        // As a rule it is in the cache, and has not moved: then nothing is copied but what changes.
        let seen = self.shared.cache.look(id, record::is_plain, |record| {
            let header = Header::of(record).map_err(Refused::from)?;
            edited(object(record, &header), edit.take().expect("nobody has looked yet"))
        });
        let (edited, value, found) = match seen {
            Some((answer, version)) => {
                txn.saw(version);
                let (edited, value) = answer?;
                let none = |_: &[u8], _: Range<usize>| Arc::new(Alive {}); // objects with inverses are found
                if let Edited::Put { put, .. } = &edited
                    && self.try_change(txn, id, None, record::is_plain, put, &none)?
                {
                    return Ok(value);
                }
                let found = if let Edited::Nothing = edited { return Ok(value) } else { self.find(txn, id)? };
                (edited, value, found)
            }
            None => {
                let found = self.find(txn, id)?;
                let (edited, value) = edited(found.bytes(), edit.take().expect("it was not looked at"))?;
                (edited, value, found)
            }
        };
        match edited {
            Edited::Nothing => {}
            Edited::Put { put, range } => {
                let back = Arc::new(PutBytes { at: put.at, bytes: found.bytes()[range].into() });
                self.change(txn, found.at, found.image, &put, |_, _| Arc::clone(&back))?;
            }
            Edited::Whole(bytes) => {
                check_len(bytes.len())?;
                self.put_found(txn, found, &bytes)?;
            }
        }
        Ok(value)
    }
}

/// What an object is to become, once it was looked at.
enum Edited {
    Nothing,
    /// This range of it changes.
    Put {
        put: PutBytes,
        range: Range<usize>,
    },
    Whole(Vec<u8>),
}

/// What becomes of an object of these bytes: where they stay the same, nothing.
fn edited<T>(old: &[u8], edit: impl FnOnce(&[u8]) -> Result<(Edit, T)>) -> Result<(Edited, T)> {
    let (edit, value) = edit(old)?;
    let edited = match edit {
        Edit::Nothing => Edited::Nothing,
        Edit::Whole(bytes) => Edited::Whole(bytes),
        Edit::Range { at, bytes } => {
            let range = at..at.saturating_add(bytes.len());
            let there = old.get(range).ok_or(Refused::new("the bytes do not lie within the object"))?;
            let differ = difference(there, &bytes);
            if differ.is_empty() {
                Edited::Nothing
            } else {
                let range = at + differ.start..at + differ.end;
                let bytes = if differ.len() == bytes.len() { bytes } else { bytes[differ].into() };
                Edited::Put { put: PutBytes { at: range.start as u16, bytes }, range }
            }
        }
    };
    Ok((edited, value))
}
