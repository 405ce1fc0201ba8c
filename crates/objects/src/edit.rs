//! Changes that depend on the current state of an object.

use std::ops::Range;

use cedrat_sync::Arc;
use cedrat_txn::locks::LockMode;
use cedrat_txn::object_cache::DeferredChanges;
use cedrat_txn::{Commit, Refused, Result, SmallBytes, Txn};
use cedrat_wal::Ticket;

use crate::collection::{ObjectId, Objects, Shared, UndoPolicy, check_len};
use crate::committing::{Change, Committing, Plan};
use crate::delta::{Alive, PutBytes, difference};
use crate::insertions::NewObjects;
use crate::record::{self, Header, object};

/// Change that [`Objects::edit`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// No change.
    Nothing,
    /// Overwrites the bytes from `at` on; the length stays the same.
    Range {
        /// Offset of the first byte.
        at: usize,
        /// The new bytes.
        bytes: SmallBytes,
    },
    /// Replaces the object.
    Whole(Vec<u8>),
}

impl Objects {
    /// Reads an object, and changes it as `edit` returns, which is called once. If it returns an error, nothing changes.
    ///
    /// `edit` may be called under the cache's latch: it must not use the store.
    ///
    /// # Errors
    /// Those of `edit`; as [`put`](Objects::put).
    pub fn edit<T>(&self, txn: &mut Txn, id: ObjectId, edit: impl FnOnce(&[u8]) -> Result<(Edit, T)>) -> Result<T> {
        self.lock_object(txn, id, LockMode::Exclusive)?;
        self.edit_locked(txn, id, edit)
    }

    /// Like [`edit`](Objects::edit), for a transaction that has [locked](Objects::lock_for_change) the object.
    ///
    /// # Errors
    /// Errors of [`edit`](Objects::edit).
    pub fn edit_locked<T>(
        &self,
        txn: &mut Txn,
        id: ObjectId,
        edit: impl FnOnce(&[u8]) -> Result<(Edit, T)>,
    ) -> Result<T> {
        self.check_opening(txn.store())?;
        let mut edit = Some(edit);
        // As a rule the object is in the cache, and has not moved: then only the changed bytes are copied.
        let seen = self.shared.cache.look(id, record::is_plain, |record| {
            let header = Header::of(record).map_err(Refused::from)?;
            let old = object(record, &header);
            let (edit, value) = edit.take().expect("the edit runs once")(old)?;
            Ok::<_, cedrat_txn::Error>((edited(old, edit)?, value))
        });
        let (edited, value, found) = match seen {
            Some((answer, version)) => {
                txn.note_read(version)?;
                let (edited, value) = answer?;
                let none = |_: &[u8], _: Range<usize>| Arc::new(Alive {}); // not used: objects with inverses are read first
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
                let (edit, value) = edit.take().expect("it was not looked at")(found.bytes())?;
                (edited(found.bytes(), edit)?, value, found)
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

    /// Commits a transaction that has [locked](Objects::lock_for_change) these objects, and changes them like
    /// [`edit_locked`](Objects::edit_locked): `edit` is called for each, the first with number 0. They must be in the order
    /// of their identities, without duplicates. Only the commit record contains the changes. The transaction has
    /// ended then, as by [`Txn::commit`].
    ///
    /// `edit` is called before that, once for each, with no latch held. Log space is reserved only for what is logged.
    ///
    /// Returns `None`, without an effect, and the transaction continues, if `edit` returns `None`, or if the changes must be
    /// made one by one: objects that are too many for the cache, outgrow their places or have moved, changes that do not fit
    /// into a log record, objects that the transaction has changed before, or another [undo policy](UndoPolicy).
    ///
    /// # Errors
    /// Errors of [`edit_locked`](Objects::edit_locked); nothing was changed then. [`cedrat_txn::Error::Stopped`]: only
    /// reopening the store shows whether the commit happened.
    pub fn commit_with(
        &self,
        txn: &mut Txn,
        ids: impl IntoIterator<Item = ObjectId>,
        mode: Commit,
        edit: impl FnMut(usize, &[u8]) -> Option<Edit>,
    ) -> Result<Option<Ticket>> {
        self.commit_with_new(txn, NewObjects::default(), ids, mode, edit)
    }

    /// Like [`commit_with`](Objects::commit_with), with new objects in the commit record. If it returns `None`, or an error,
    /// none of them exists, and their places may still be [filled](Objects::fill).
    ///
    /// # Errors
    /// Errors of [`commit_with`](Objects::commit_with); [`cedrat_txn::Error::Misuse`] for places of another collection or
    /// transaction; [`cedrat_txn::Error::Refused`] if they are reserved no longer.
    pub fn commit_with_new(
        &self,
        txn: &mut Txn,
        new: NewObjects,
        ids: impl IntoIterator<Item = ObjectId>,
        mode: Commit,
        mut edit: impl FnMut(usize, &[u8]) -> Option<Edit>,
    ) -> Result<Option<Ticket>> {
        self.commit_changes(txn, new, ids, mode, |number, change| match edit(number, change.object()) {
            Some(edit) => change.make(edit),
            None => Ok(false),
        })
    }

    /// Like [`commit_with_new`](Objects::commit_with_new), with an `edit` that makes the change itself, without a copy of its
    /// bytes; it returns `false` where that one returns `None`.
    ///
    /// # Errors
    /// Errors of [`commit_with`](Objects::commit_with), and those of `edit`; nothing was changed then.
    pub fn commit_changes(
        &self,
        txn: &mut Txn,
        new: NewObjects,
        ids: impl IntoIterator<Item = ObjectId>,
        mode: Commit,
        edit: impl FnMut(usize, Change<'_>) -> Result<bool>,
    ) -> Result<Option<Ticket>> {
        let Shared { cache, keeper, .. } = &*self.shared;
        if self.policy(txn)? != UndoPolicy::CommittedOnly {
            return Ok(None);
        }
        // Earlier changes of the transaction become visible at its end, and must do so at the same moment as these.
        let Some(memory) = cache.begin_commit(txn.id()) else { return Ok(None) };
        self.check_places(txn, &new)?;
        let mut plan = Plan::new(txn.store(), new.insertion(), memory)?;
        if !self.plan(txn, &mut plan, ids, edit)? {
            return Ok(None);
        }
        let Plan { all, changes } = &mut plan;
        let mut missing = Vec::new();
        for _ in 0..2 {
            let (planned, others) = (&mut *all, &mut missing);
            let ticket = txn.commit_with_changes(
                keeper,
                changes,
                mode,
                move |txn| cache.commit(txn.id(), planned, others),
                Committing::logged,
            )?;
            if ticket.is_some() || missing.is_empty() {
                return Ok(ticket);
            }
            for at in missing.drain(..) {
                self.record(txn, at)?;
            }
        }
        Ok(None) // the cache cannot hold all of them at once
    }

    /// Plans a change of each object. `false` if they must be changed one by one.
    fn plan(
        &self,
        txn: &Txn,
        plan: &mut Plan,
        ids: impl IntoIterator<Item = ObjectId>,
        mut edit: impl FnMut(usize, Change<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let len_max = txn.store().log().body_len_max();
        for (number, at) in ids.into_iter().enumerate() {
            // As a rule it is in the cache.
            let found = match self.shared.cache.get(at) {
                Some(found) => found,
                None => match self.record(txn, at)? {
                    Some((found, _)) => found,
                    None => return Ok(false),
                },
            };
            txn.note_read(found.version)?;
            if !plan.add(at, &found, |change| edit(number, change))? || plan.changes.as_bytes().len() > len_max {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Change of an object, computed from its current state.
pub(crate) enum Edited {
    Nothing,
    /// A change of this range.
    Put {
        put: PutBytes,
        range: Range<usize>,
    },
    Whole(Vec<u8>),
}

/// Returns the bytes of an object that a change overwrites.
#[inline]
pub(crate) fn within(old: &[u8], at: usize, len: usize) -> Result<&[u8], Refused> {
    old.get(at..at.saturating_add(len)).ok_or(Refused::new("the bytes do not lie within the object"))
}

/// Computes the change of an object with these bytes, without the parts that stay the same.
#[inline]
pub(crate) fn edited(old: &[u8], edit: Edit) -> Result<Edited> {
    Ok(match edit {
        Edit::Nothing => Edited::Nothing,
        Edit::Whole(bytes) => Edited::Whole(bytes),
        Edit::Range { at, mut bytes } => {
            let there = within(old, at, bytes.len())?;
            let differ = difference(there, &bytes);
            if differ.is_empty() {
                Edited::Nothing
            } else {
                let range = at + differ.start..at + differ.end;
                if differ.len() < bytes.len() {
                    bytes.keep(differ);
                }
                Edited::Put { put: PutBytes { at: range.start as u16, bytes }, range }
            }
        }
    })
}
