//! What branches that are in doubt keep from others, and what they have left for them (E9.1, E9.11).
//!
//! A transaction that prepared in an earlier opening has no keeper (E19.4): what it has inserted stands in pages like
//! anything else, and what it has deferred stands in none. Who reads without locks asks here.

use std::any::TypeId;
use std::collections::HashMap;

use cedrat_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cedrat_sync::{Arc, Mutex};
use cedrat_wal::TxnId;

use crate::body::Body;
use crate::builtin::VersionedInsert;
use crate::error::Result;
use crate::operation::RecordId;
use crate::prepared::InDoubt;
use crate::store::Store;
use crate::transaction::Txn;

/// What recovery has found of a prepared transaction that others may ask about.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Records that it has changed, and whether they are records of versioned pages that it has inserted.
    changed: HashMap<RecordId, bool>,
    /// Records of the application's own, by the number of their kind, the oldest first.
    noted: Vec<(u32, Vec<u8>)>,
}

impl Left {
    /// The application's own records of this kind.
    pub(crate) fn noted(&self, kind: u32) -> Vec<Vec<u8>> {
        self.noted.iter().filter(|(number, _)| *number == kind).map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// What is hidden until an outcome is certain.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    by: Mutex<HashMap<TxnId, Arc<Left>>>,
    /// What they have changed; `true`: inserted.
    records: Mutex<HashMap<RecordId, bool>>,
    /// How many records: as a rule none, and nobody asks further.
    count: AtomicUsize,
    late_begun: AtomicU64,
    late_ended: AtomicU64,
}

impl Hidden {
    /// What this transaction has inserted is not there, for those who read without locks; what it has changed is not to be
    /// taken for certain.
    pub(crate) fn hide(&self, txn: TxnId, left: &Arc<Left>) {
        let mut records = self.records.lock();
        records.extend(&left.changed);
        self.count.store(records.len(), Ordering::Release);
        self.by.lock().insert(txn, Arc::clone(left));
    }

    /// It has committed, or it is in no page any more.
    pub(crate) fn reveal(&self, txn: TxnId) {
        let Some(left) = self.by.lock().remove(&txn) else { return };
        let mut records = self.records.lock();
        left.changed.keys().for_each(|at| {
            records.remove(at);
        });
        self.count.store(records.len(), Ordering::Release);
    }

    /// Whether it is changed by any of them; `Some(true)`: inserted.
    fn has(&self, at: RecordId) -> Option<bool> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.records.lock().get(&at).copied()
    }

    /// Makes late changes, page by page, if there are any.
    pub(crate) fn over_late<T>(&self, is_none: bool, make: impl FnOnce() -> T) -> T {
        let count = u64::from(!is_none);
        self.late_begun.fetch_add(count, Ordering::AcqRel);
        let made = make();
        self.late_ended.fetch_add(count, Ordering::AcqRel);
        made
    }
}

impl Store {
    /// Whether this transaction is prepared, and has not ended to the last step: as long as it says so, nobody else sees what
    /// the transaction has changed.
    pub fn is_prepared(&self, txn: TxnId) -> bool {
        self.inner.branches.is_there(txn)
    }

    /// Whether this record of a versioned page was inserted by a transaction that prepared in an earlier opening, and is in
    /// doubt: then it is not there for who reads without locks. To be asked *before* the page is read.
    pub fn is_in_doubt(&self, at: RecordId) -> bool {
        self.inner.hidden.has(at) == Some(true)
    }

    /// Whether this record was changed, or inserted, by a transaction that prepared in an earlier opening, and is in doubt: what
    /// its page says of it may have to be taken back. To be asked *before* the page is read.
    pub fn is_changed_in_doubt(&self, at: RecordId) -> bool {
        self.inner.hidden.has(at).is_some()
    }

    /// Who reads several records without locks, and means one state of them, asks before and behind: the same answer, and not
    /// `None`, says that no transaction that prepared in an earlier opening was just making its changes in pages (E9.7). What
    /// others commit their keepers show at one moment.
    pub fn late_commits(&self) -> Option<u64> {
        let ended = self.inner.hidden.late_ended.load(Ordering::Acquire);
        let begun = self.inner.hidden.late_begun.load(Ordering::Acquire);
        (begun == ended).then_some(begun)
    }

    /// The records of this kind of the application's own ([`Txn::log_record`]) that transactions have left which prepared in
    /// earlier openings and are in doubt; the oldest transaction, and of each the oldest record, first.
    pub fn noted_in_doubt(&self, kind: &'static str) -> Vec<(InDoubt, Vec<Vec<u8>>)> {
        self.inner.numbers.of_name(kind).map_or_else(Vec::new, |number| self.inner.branches.noted(number))
    }
}

impl Txn {
    /// What a prepared transaction of an earlier opening has left that counts.
    pub(crate) fn what_it_left(&self) -> Result<Left> {
        let insertion = self.inner().numbers.of_type(TypeId::of::<VersionedInsert>());
        let mut left = Left::default();
        self.along_what_counts(|body, _| {
            match *body {
                Body::Update { redo, .. } => {
                    *left.changed.entry(redo.at).or_default() |= Some(redo.operation) == insertion;
                }
                Body::User { number, bytes } => left.noted.push((number, bytes.to_vec())),
                _ => {}
            }
            Ok(())
        })?;
        left.noted.reverse();
        Ok(left)
    }
}
