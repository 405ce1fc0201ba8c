//! A small object cache, which keeps records of versioned pages and flushes them on request. For the tests here, and
//! for the crash suite of `cedrat-check`.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;

use cedrat_pages::layout::Versioned;
use cedrat_pages::{LayoutKind, PageId, Slot};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, MutexGuard};
use cedrat_txn::object_cache::{
    CommitChanges, DeferredChanges, Delta, DeltaRegistry, Keeper, KeptRecord, TakenBack, ToPages, Unflushed,
    UnflushedRecords,
};
use cedrat_txn::{Commit, FormatFresh, RecordId, Refused, Registry, Result, Store, Txn, VersionedInsert};
use cedrat_wal::{Lsn, Ticket, TxnId};
use serde::{Deserialize, Serialize};

/// A number that depends on the applied changes and their order, and the number of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mixed {
    pub(crate) value: u64,
    pub(crate) count: u64,
}

impl Mixed {
    pub(crate) fn of(record: &[u8]) -> Result<Mixed, Refused> {
        let Ok(bytes) = <[u8; 16]>::try_from(record) else {
            return Err(Refused::new("a mixed number has sixteen bytes"));
        };
        let (value, count) = (u128::from_le_bytes(bytes) as u64, (u128::from_le_bytes(bytes) >> 64) as u64);
        Ok(Mixed { value, count })
    }

    pub(crate) fn bytes(self) -> [u8; 16] {
        (u128::from(self.value) | u128::from(self.count) << 64).to_le_bytes()
    }

    pub(crate) fn mix(&mut self, by: u64) {
        self.value = self.value.wrapping_mul(31).wrapping_add(by);
        self.count += 1;
    }
}

/// Mixes a number in. A repeated or reordered change yields another value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mix {
    pub(crate) by: u64,
}

impl Delta for Mix {
    const NAME: &'static str = "test.mix";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        let mut mixed = Mixed::of(record)?;
        mixed.mix(self.by);
        record.copy_from_slice(&mixed.bytes());
        Ok(())
    }
}

/// The inverse of [`Mix`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Unmix {
    pub(crate) by: u64,
}

impl Delta for Unmix {
    const NAME: &'static str = "test.unmix";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        const INVERSE_OF_31: u64 = inverse(31);
        let mut mixed = Mixed::of(record)?;
        mixed.count = mixed.count.checked_sub(1).ok_or_else(|| Refused::new("nothing was mixed in"))?;
        mixed.value = mixed.value.wrapping_sub(self.by).wrapping_mul(INVERSE_OF_31);
        record.copy_from_slice(&mixed.bytes());
        Ok(())
    }
}

/// Returns the inverse of an odd number modulo 2^64, by Newton's method.
const fn inverse(of: u64) -> u64 {
    let mut inverse = of;
    let mut turn = 0;
    while turn < 6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(of.wrapping_mul(inverse)));
        turn += 1;
    }
    inverse
}

pub(crate) fn register(registry: Registry) -> Registry {
    registry.delta::<Mix>().delta::<Unmix>()
}

/// Allocates a page with this many records, all zero.
pub(crate) fn page_of_records(txn: &mut Txn, records: u16) -> Result<PageId> {
    let page = txn.allocate()?;
    txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::VERSIONED))?;
    for slot in (0..records).map(Slot) {
        insert(txn, RecordId::new(page, slot), Mixed::default())?;
    }
    Ok(page)
}

pub(crate) fn insert(txn: &mut Txn, at: RecordId, mixed: Mixed) -> Result<()> {
    txn.update(at, &VersionedInsert { record: mixed.bytes()[..].into() })
}

/// Returns the record in a page, and its version.
pub(crate) fn in_page(store: &Store, at: RecordId) -> Result<(Option<Mixed>, Lsn)> {
    let page = store.read(at.page)?;
    let versioned = Versioned::of(&page)?;
    let mixed = versioned.get(at.slot)?.map(Mixed::of).transpose()?;
    Ok((mixed, versioned.version(at.slot)?))
}

/// How a change is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    /// The change counts only if it is committed.
    CommittedOnly,
    Inverse,
    /// The change is never undone: the transaction has no atomicity.
    Never,
}

/// The state of a record at one moment.
#[derive(Clone, Debug)]
struct State {
    mixed: Mixed,
    version: Lsn,
    /// The LSN that must be durable before the page is written.
    committed: Lsn,
}

/// A change by a transaction that has not ended.
#[derive(Clone, Debug)]
struct Pending {
    txn: TxnId,
    change: Lsn,
    back: Back,
    before: State,
}

#[derive(Clone, Debug)]
struct Kept {
    now: State,
    /// The oldest change that the page does not have.
    since: Option<Lsn>,
    /// Newest last.
    pending: Vec<Pending>,
}

/// A cache of records.
pub(crate) struct TestCache {
    kept: Mutex<BTreeMap<RecordId, Kept>>,
    /// The fraction of flush requests of checkpoints that it serves: one in this many; 0: none.
    flushes_one_in: u64,
    asked: AtomicU64,
}

impl TestCache {
    pub(crate) fn new(flushes_one_in: u64) -> Arc<TestCache> {
        Arc::new(TestCache { kept: Mutex::default(), flushes_one_in, asked: AtomicU64::new(0) })
    }

    /// Changes a record, which is read from its page if it is not cached.
    pub(crate) fn change(&self, txn: &mut Txn, keeper: &Keeper, at: RecordId, by: u64, back: Back) -> Result<Lsn> {
        let before = self.bring(txn.store(), at)?;
        let mut bytes = before.mixed.bytes();
        Mix { by }.apply(&mut bytes)?;
        // No latch is held here: a checkpoint may run, which calls this cache.
        let change = match back {
            Back::Inverse => txn.defer_inverse(keeper, at, &Mix { by }, &Unmix { by })?,
            Back::CommittedOnly | Back::Never => txn.defer(keeper, at, &Mix { by })?,
        };
        let mut cache = self.kept.lock();
        let kept = cache.entry(at).or_insert_with(|| Kept { now: before, since: None, pending: Vec::new() });
        let now = State { mixed: Mixed::of(&bytes)?, version: change, committed: change };
        let before = std::mem::replace(&mut kept.now, now);
        kept.since = kept.since.or(Some(change));
        kept.pending.push(Pending { txn: txn.id(), change, back, before });
        Ok(change)
    }

    /// Commits, and changes records in the commit record: each once, in the order of their addresses, and none with a
    /// pending change.
    pub(crate) fn commit(&self, txn: &mut Txn, keeper: &Keeper, all: &[(RecordId, u64)]) -> Result<Option<Ticket>> {
        let before: Vec<State> = all.iter().map(|&(at, _)| self.bring(txn.store(), at)).collect::<Result<_>>()?;
        let mut changes = CommitChanges::new(txn.store());
        all.iter().try_for_each(|&(at, by)| changes.push(at, &Mix { by }))?;
        let logged = |mut cache: MutexGuard<'_, BTreeMap<RecordId, Kept>>, lsn, _: &mut Vec<u8>| {
            for (&(at, by), before) in all.iter().zip(&before) {
                let kept =
                    cache.entry(at).or_insert_with(|| Kept { now: before.clone(), since: None, pending: Vec::new() });
                assert!(kept.pending.is_empty(), "what is pending would be taken back to a version that is older");
                kept.now.mixed.mix(by);
                (kept.now.version, kept.now.committed) = (lsn, lsn);
                kept.since = kept.since.or(Some(lsn));
            }
        };
        let committed =
            txn.commit_with_changes(keeper, &mut changes, Commit::Async, |_| Some(self.kept.lock()), logged)?;
        assert!(committed.is_none() || changes.as_bytes().is_empty(), "another commit would change the records again");
        Ok(committed)
    }

    fn bring(&self, store: &Store, at: RecordId) -> Result<State> {
        if let Some(kept) = self.kept.lock().get(&at) {
            return Ok(kept.now.clone());
        }
        let page = store.read(at.page)?;
        let versioned = Versioned::of(&page)?;
        let version = versioned.version(at.slot)?;
        let record = versioned.get(at.slot)?.ok_or_else(|| Refused::new(format!("there is no {at}")))?;
        Ok(State { mixed: Mixed::of(record)?, version, committed: version })
    }

    pub(crate) fn get(&self, store: &Store, at: RecordId) -> Result<Mixed> {
        Ok(self.bring(store, at)?.mixed)
    }

    /// Whether a transaction that has not ended has changed it.
    pub(crate) fn is_pending(&self, at: RecordId) -> bool {
        self.kept.lock().get(&at).is_some_and(|kept| !kept.pending.is_empty())
    }

    /// Flushes a record as far as allowed.
    pub(crate) fn flush_one(&self, at: RecordId, flush: impl Fn(&KeptRecord<'_>) -> Result<()>) -> Result<()> {
        let mut cache = self.kept.lock();
        let Some(kept) = cache.get_mut(&at) else { return Ok(()) };
        let Some(since) = kept.since else { return Ok(()) };
        // Uncommitted changes without an inverse are not flushed (E19.5), nor are later ones.
        let first_to_stay = kept.pending.iter().position(|pending| pending.back == Back::CommittedOnly);
        let (state, still_since) = match first_to_stay.map(|index| &kept.pending[index]) {
            Some(stays) => (&stays.before, Some(stays.change)),
            None => (&kept.now, None),
        };
        if still_since == Some(since) {
            return Ok(());
        }
        let bytes = state.mixed.bytes();
        flush(&KeptRecord { at, bytes: &bytes, since, version: state.version, committed: state.committed })?;
        kept.since = still_since;
        Ok(())
    }

    pub(crate) fn flush_all(&self, store: &Store) -> Result<()> {
        for at in self.places() {
            self.flush_one(at, |kept| store.flush_record(kept))?;
        }
        Ok(())
    }

    /// Evicts all records without unflushed changes.
    pub(crate) fn let_go(&self) {
        self.kept.lock().retain(|_, kept| kept.since.is_some() || !kept.pending.is_empty());
    }

    /// Drops a record, whose page is newer.
    pub(crate) fn forget(&self, at: RecordId) {
        self.kept.lock().remove(&at);
    }

    pub(crate) fn places(&self) -> Vec<RecordId> {
        self.kept.lock().keys().copied().collect()
    }
}

impl Unflushed for TestCache {
    fn oldest(&self) -> Option<Lsn> {
        // Changes of running transactions are excluded: those hold the log themselves.
        let of_ended = |kept: &Kept| {
            let pending = kept.pending.first().map_or(Lsn::MAX, |pending| pending.change);
            kept.since.filter(|&since| since < pending)
        };
        self.kept.lock().values().filter_map(of_ended).min()
    }

    fn flush(&self, before: Lsn, pages: &ToPages<'_>) -> Result<()> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if self.flushes_one_in == 0 || !asked.is_multiple_of(self.flushes_one_in) {
            return Ok(());
        }
        for at in self.places() {
            let is_old = self.kept.lock().get(&at).is_some_and(|kept| kept.since < Some(before));
            if is_old {
                self.flush_one(at, |kept| pages.flush_record(kept))?;
            }
        }
        Ok(())
    }

    fn taken_back(&self, change: TakenBack) {
        let mut cache = self.kept.lock();
        // The record is no longer cached: it was changed in its page, and is undone there.
        let Some(kept) = cache.get_mut(&change.at) else { return };
        let Some(pending) = kept.pending.pop_if(|pending| pending.change == change.change) else { return };
        kept.now = pending.before;
        match change.inverse {
            Some(inverse) => {
                kept.now.version = inverse;
                kept.now.committed = inverse;
                kept.since = kept.since.or(Some(inverse));
            }
            // If the page has all changes before this one, it has the record as it is now.
            None if kept.since >= Some(change.change) => kept.since = None,
            None => {}
        }
    }

    fn ended(&self, txn: TxnId, committed: Option<Lsn>) {
        for kept in self.kept.lock().values_mut() {
            let before = kept.pending.len();
            kept.pending.retain(|pending| pending.txn != txn);
            if let Some(committed) = committed
                && kept.pending.len() < before
            {
                kept.now.committed = kept.now.committed.max(committed);
            }
        }
    }
}
