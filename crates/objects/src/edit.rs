//! Changes of an object by who looks at it first.

use std::ops::Range;

use cedrat_sync::Arc;
use cedrat_txn::locks::LockMode;
use cedrat_txn::{Commit, Refused, Result, SmallBytes, Txn};
use cedrat_wal::Ticket;

use crate::collection::{ObjectId, Objects, Shared, UndoPolicy, check_len};
use crate::committing::{Committing, Plan};
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
            let old = object(record, &header);
            let (edit, value) = edit.take().expect("nobody has looked yet")(old)?;
            Ok::<_, cedrat_txn::Error>((edited(old, edit)?, value))
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

    /// Commits a transaction, which has [locked](Objects::lock_for_change) these objects, and changes them as
    /// [`edit_locked`](Objects::edit_locked) would: `edit` is called for each, the first with number 0. They are in the order of
    /// their identities, none twice. The commit record has the changes, and no other record (E19.15). The transaction has ended
    /// then, as by [`Txn::commit`].
    ///
    /// `edit` is called before that, once for each, with no latch held. Room in the log is asked for what has to be logged alone.
    ///
    /// `None`, and nothing has happened, and the transaction goes on: `edit` says so; or it is one of the cases where changes are
    /// made one by one, such as objects that are too many for the cache, outgrow their places or have moved, changes that no record
    /// of the log could hold, or objects that the transaction has changed before; or an [undo](UndoPolicy) by something else.
    ///
    /// # Errors
    /// As [`edit_locked`](Objects::edit_locked); nothing has happened then. [`cedrat_txn::Error::Stopped`]: only reopening the
    /// store tells whether it has.
    pub fn commit_with(
        &self,
        txn: &mut Txn,
        ids: impl IntoIterator<Item = ObjectId>,
        mode: Commit,
        edit: impl FnMut(usize, &[u8]) -> Option<Edit>,
    ) -> Result<Option<Ticket>> {
        let Shared { cache, keeper, .. } = &*self.shared;
        // What it has changed before is of the same moment, which comes when it has ended.
        if self.policy(txn)? != UndoPolicy::CommittedOnly || cache.has_touched(txn.id()) {
            return Ok(None);
        }
        let Some(mut plan) = self.plan(txn, ids, edit)? else { return Ok(None) };
        let (len_max, mut missing) = (plan.len_max(), Vec::new());
        for _ in 0..2 {
            let (planned, others) = (&mut plan, &mut missing);
            let ticket = txn.commit_with_changes(
                keeper,
                len_max,
                mode,
                move |txn, changes| {
                    planned.say(changes)?;
                    Ok(cache.commit(txn.id(), planned, others))
                },
                Committing::logged,
            )?;
            if ticket.is_some() || missing.is_empty() {
                return Ok(ticket);
            }
            for at in missing.drain(..) {
                self.record(txn, at)?;
            }
        }
        Ok(None) // there is no room for all of them at once
    }

    fn plan(
        &self,
        txn: &Txn,
        ids: impl IntoIterator<Item = ObjectId>,
        mut edit: impl FnMut(usize, &[u8]) -> Option<Edit>,
    ) -> Result<Option<Plan>> {
        let len_max = txn.store().log().body_len_max();
        let mut plan = Plan::default();
        for (number, at) in ids.into_iter().enumerate() {
            let Some(found) = self.record(txn, at)? else { return Ok(None) };
            if !plan.add(at, &found, |object| edit(number, object))? || plan.len_max() > len_max {
                return Ok(None);
            }
        }
        Ok(Some(plan))
    }
}

/// What an object is to become, once it was looked at.
pub(crate) enum Edited {
    Nothing,
    /// This range of it changes.
    Put {
        put: PutBytes,
        range: Range<usize>,
    },
    Whole(Vec<u8>),
}

/// What becomes of an object of these bytes: where they stay the same, nothing.
pub(crate) fn edited(old: &[u8], edit: Edit) -> Result<Edited> {
    Ok(match edit {
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
    })
}
