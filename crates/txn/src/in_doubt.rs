//! The records that in-doubt branches hide from readers, and the state that they leave for them (E9.1, E9.11).
//!
//! A transaction that prepared in an earlier opening has no keeper (E19.4): the records that it has inserted, and its
//! changes that have inverses, are in pages like any other; other changes that it has deferred are in none. Readers
//! without locks check here.

use std::any::TypeId;
use std::collections::HashMap;

use cedrat_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::TxnId;

use crate::body::{Body, LoggedUndo};
use crate::builtin::VersionedInsert;
use crate::error::{Error, Result};
use crate::operation::RecordId;
use crate::prepared::InDoubt;
use crate::store::Store;
use crate::transaction::Txn;

/// Part of the changes of a record by such a transaction that its page has; of several changes, the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum InPage {
    /// Nothing yet: the change counts only if it is committed.
    Nothing,
    /// A change that the undo would revert.
    Change,
    /// The record itself, which it has inserted in a versioned page.
    Insertion,
}

/// The state that recovery found of a prepared transaction, for readers and collectors.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// The records that it has changed.
    changed: HashMap<RecordId, InPage>,
    /// Records of the application's own, by the number of their kind, oldest first.
    noted: Vec<(u32, Vec<u8>)>,
}

impl Left {
    /// Returns the application's own records of this kind.
    pub(crate) fn noted(&self, kind: u32) -> Vec<Vec<u8>> {
        self.noted.iter().filter(|(number, _)| *number == kind).map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// The records that are hidden until an outcome is certain.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    by: Mutex<HashMap<TxnId, Arc<Left>>>,
    /// The records that these transactions have changed.
    records: Mutex<HashMap<RecordId, (TxnId, InPage)>>,
    /// The number of records. It is usually 0, and readers then need not lock the mutex.
    count: AtomicUsize,
    late_begun: AtomicU64,
    late_ended: AtomicU64,
}

impl Hidden {
    /// Hides the records that this transaction has inserted from readers without locks, and marks those that it has
    /// changed as uncertain.
    pub(crate) fn hide(&self, txn: TxnId, left: &Arc<Left>) {
        let mut records = self.records.lock();
        records.extend(left.changed.iter().map(|(&at, &in_page)| (at, (txn, in_page))));
        self.count.store(records.len(), Ordering::Release);
        self.by.lock().insert(txn, Arc::clone(left));
    }

    /// Reveals the records of a transaction that has committed, or whose changes are no longer in any page.
    pub(crate) fn reveal(&self, txn: TxnId) {
        let Some(left) = self.by.lock().remove(&txn) else { return };
        let mut records = self.records.lock();
        left.changed.keys().for_each(|at| {
            records.remove(at);
        });
        self.count.store(records.len(), Ordering::Release);
    }

    /// Returns whether one of the transactions has inserted this record.
    pub(crate) fn is_inserted(&self, at: RecordId) -> bool {
        matches!(self.has(at), Some((_, InPage::Insertion)))
    }

    /// Returns the transaction that has changed this record.
    fn has(&self, at: RecordId) -> Option<(TxnId, InPage)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.records.lock().get(&at).copied()
    }

    /// Runs `make`, which applies late changes page by page, and counts it unless there are none. After a failure, which stops
    /// the store, it has not ended: no reader takes what was made for the whole.
    pub(crate) fn over_late(&self, is_none: bool, make: impl FnOnce() -> Result<()>) -> Result<()> {
        let count = u64::from(!is_none);
        self.late_begun.fetch_add(count, Ordering::AcqRel);
        make()?;
        self.late_ended.fetch_add(count, Ordering::AcqRel);
        Ok(())
    }
}

/// The records and transactions of a store whose outcome is open, for readers without locks. Implemented by [`Store`].
pub trait InDoubtRecords {
    /// Whether this transaction is prepared and has not completely ended. As long as it is, no other transaction sees
    /// its changes.
    fn is_prepared(&self, txn: TxnId) -> bool;

    /// Whether this record of a versioned page was inserted by a transaction that prepared in an earlier opening and is
    /// in doubt; readers without locks must treat it as absent. Call this *before* reading the page.
    fn is_in_doubt(&self, at: RecordId) -> bool;

    /// Checks that the page of a record has no change of it that may still be undone, by a transaction that prepared in an
    /// earlier opening and is in doubt; readers without locks have no other state of it. Call this *before* reading the page.
    ///
    /// # Errors
    /// [`Error::InDoubt`].
    fn check_committed(&self, at: RecordId) -> Result<()>;

    /// Whether this record was changed or inserted by a transaction that prepared in an earlier opening and is in
    /// doubt; its content in the page may still be undone. Call this *before* reading the page.
    fn is_changed_in_doubt(&self, at: RecordId) -> bool;

    /// Returns the number of late commits, for reading several records without locks as of one state: call it before
    /// and after the reads. If both calls return the same value, and not `None`, no transaction that prepared in an
    /// earlier opening was applying its changes to pages meanwhile. The commits of other transactions are shown
    /// by their keepers at one moment.
    fn late_commits(&self) -> Option<u64>;

    /// Returns the application's own records of this kind ([`Txn::log_record`]) from transactions that prepared in
    /// earlier openings and are in doubt; the oldest transaction first, and within it the oldest record first.
    fn noted_in_doubt(&self, kind: &'static str) -> Vec<(InDoubt, Vec<Vec<u8>>)>;
}

impl InDoubtRecords for Store {
    fn is_prepared(&self, txn: TxnId) -> bool {
        self.inner.branches.is_there(txn)
    }

    fn is_in_doubt(&self, at: RecordId) -> bool {
        self.inner.hidden.is_inserted(at) && !planted!("in_doubt_insertion_seen")
    }

    fn check_committed(&self, at: RecordId) -> Result<()> {
        match self.inner.hidden.has(at) {
            // Without an identifier it has ended meanwhile: its changes are in the pages, or are not any more.
            Some((txn, InPage::Change)) => match self.inner.branches.id_of(txn) {
                id if id.is_empty() => Ok(()),
                id => Err(Error::InDoubt { id }),
            },
            _ => Ok(()),
        }
    }

    fn is_changed_in_doubt(&self, at: RecordId) -> bool {
        self.inner.hidden.has(at).is_some()
    }

    fn late_commits(&self) -> Option<u64> {
        let ended = self.inner.hidden.late_ended.load(Ordering::Acquire);
        let begun = self.inner.hidden.late_begun.load(Ordering::Acquire);
        (begun == ended).then_some(begun)
    }

    fn noted_in_doubt(&self, kind: &'static str) -> Vec<(InDoubt, Vec<Vec<u8>>)> {
        self.inner.numbers.of_name(kind).map_or_else(Vec::new, |number| self.inner.branches.noted(number))
    }
}

impl Txn {
    /// Collects the records of a prepared transaction of an earlier opening that count.
    pub(crate) fn what_it_left(&self) -> Result<Left> {
        let insertion = self.inner().numbers.of_type(TypeId::of::<VersionedInsert>());
        let mut left = Left::default();
        self.along_what_counts(|body, _| {
            match *body {
                Body::Update { redo, undo, committed_only } => {
                    let in_page = match undo {
                        _ if Some(redo.operation) == insertion => InPage::Insertion,
                        LoggedUndo::None if committed_only => InPage::Nothing,
                        LoggedUndo::None => return Ok(()), // it stays, whatever the outcome
                        _ => InPage::Change,
                    };
                    let known = left.changed.entry(redo.at).or_insert(in_page);
                    *known = in_page.max(*known);
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
