//! A record in the cache: its changes that are not in its page, and their undo.

use cedrat_pages::{PageId, Slot};
use cedrat_sync::{Arc, planted};
use cedrat_txn::object_cache::Delta;
use cedrat_txn::{RecordId, Refused, SmallBytes};
use cedrat_wal::{Lsn, TxnId};

/// Memory of a record in the cache besides its bytes: its line, its share of the index, and two allocations.
pub(crate) const OVERHEAD_BYTES: u64 = 192;

/// Memory of a change that can be undone, besides its bytes.
pub(crate) const PENDING_BYTES: u64 = 80;

/// A delta that undoes another one.
pub(crate) trait Inverse: Send + Sync {
    fn take_back(&self, record: &mut [u8]) -> Result<(), Refused>;
}

impl<D: Delta> Inverse for D {
    fn take_back(&self, record: &mut [u8]) -> Result<(), Refused> {
        self.apply(record)
    }
}

/// An inverse that was logged, with its LSN, of a record whose bytes are not in the cache.
#[derive(Clone)]
pub(crate) struct Owed {
    pub(crate) lsn: Lsn,
    pub(crate) inverse: Arc<dyn Inverse>,
}

impl Owed {
    /// Applies what the page lacks of these to its record. A page that was rebuilt has those that are not newer than its version.
    pub(crate) fn pay(owed: &[Owed], version: Lsn, record: &mut [u8]) -> Result<(), Refused> {
        let is_lacking = |owed: &&Owed| owed.lsn > version || planted!("undo_of_rebuilt_page_repeated");
        owed.iter().filter(is_lacking).try_for_each(|owed| owed.inverse.take_back(record))
    }
}

/// A record at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) version: Lsn,
}

/// A change by a transaction that has not ended.
pub(crate) struct Pending {
    pub(crate) txn: TxnId,
    pub(crate) change: Lsn,
    pub(crate) was: UndoState,
    pub(crate) cost_bytes: u64,
}

pub(crate) enum UndoState {
    Before { at: usize, bytes: SmallBytes, version: Lsn, committed: Lsn },
    Inverse(Arc<dyn Inverse>),
}

/// I/O that a record waits for (`cache` contains the state diagram).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The page is being read; the record has no bytes yet.
    Loading,
    /// No I/O.
    Present,
    /// A copy of the record is being written to its page.
    Flushing,
}

/// A record in the cache. The fields that a change needs come first, in one line of the processor's cache: between two
/// changes of one record there are many of others, and cache lines, not instructions, determine the cost of a change.
#[repr(C, align(64))]
pub(crate) struct Kept {
    pub(crate) page: PageId,
    pub(crate) slot: Slot,
    pub(crate) was_used: bool,
    pub(crate) phase: Phase,
    /// `None`: the page has the record as of `in_page`, without the undo in `owed`. If it was rebuilt since, it may have some of that.
    pub(crate) bytes: Option<Arc<[u8]>>,
    pub(crate) version: Lsn,
    /// LSN that must be durable before the record is written to its page.
    pub(crate) committed: Lsn,
    /// The oldest change that the page does not have; 0 if there is none.
    pub(crate) since: Lsn,
    /// Memory of `pending`; 0 if it is empty.
    pub(crate) pending_bytes: u64,
    pub(crate) in_page: Lsn,
    /// During a flush, the oldest change that is not in the written copy; 0 if there is none.
    pub(crate) after: Lsn,
    /// Changes of running transactions, the newest last.
    pub(crate) pending: Vec<Pending>,
    pub(crate) owed: Vec<Owed>,
}

const _: () = assert!(std::mem::offset_of!(Kept, in_page) == 64 && size_of::<Option<Kept>>() == 128);

impl Kept {
    pub(crate) fn clean(at: RecordId, image: &Image) -> Kept {
        Kept {
            page: at.page,
            slot: at.slot,
            was_used: true,
            phase: Phase::Present,
            bytes: Some(Arc::clone(&image.bytes)),
            version: image.version,
            committed: image.version,
            since: Lsn::ZERO,
            pending_bytes: 0,
            in_page: image.version,
            after: Lsn::ZERO,
            pending: Vec::new(),
            owed: Vec::new(),
        }
    }

    /// Makes a record whose page is about to be read.
    pub(crate) fn loading(at: RecordId) -> Kept {
        Kept {
            page: at.page,
            slot: at.slot,
            was_used: false,
            phase: Phase::Loading,
            bytes: None,
            version: Lsn::ZERO,
            committed: Lsn::ZERO,
            since: Lsn::ZERO,
            pending_bytes: 0,
            in_page: Lsn::ZERO,
            after: Lsn::ZERO,
            pending: Vec::new(),
            owed: Vec::new(),
        }
    }

    pub(crate) fn at(&self) -> RecordId {
        RecordId::new(self.page, self.slot)
    }

    pub(crate) fn since(&self) -> Option<Lsn> {
        (self.since > Lsn::ZERO).then_some(self.since)
    }

    /// Records a change, or an inverse, with this LSN.
    pub(crate) fn changes_at(&mut self, lsn: Lsn) {
        (self.version, self.committed) = (lsn, lsn);
        if self.since == Lsn::ZERO {
            self.since = lsn;
        }
        if self.after == Lsn::ZERO {
            self.after = lsn;
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending_bytes > 0
    }

    /// Memory of a record that [`clean`](Kept::clean) makes.
    pub(crate) fn clean_bytes(image: &Image) -> u64 {
        OVERHEAD_BYTES + image.bytes.len() as u64
    }

    pub(crate) fn cost_bytes(&self) -> u64 {
        OVERHEAD_BYTES + self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64) + self.pending_bytes
    }

    /// The record, if its bytes are in the cache.
    pub(crate) fn image(&self) -> Option<Image> {
        let bytes = Arc::clone(self.bytes.as_ref()?);
        Some(Image { bytes, version: self.version })
    }

    /// Returns whether it has changes that must not be flushed (E19.5).
    pub(crate) fn is_held(&self) -> bool {
        self.is_pending() && self.pending.iter().any(|pending| matches!(pending.was, UndoState::Before { .. }))
    }

    /// Returns whether its eviction would free memory.
    pub(crate) fn may_go(&self) -> bool {
        self.bytes.is_some() && self.phase == Phase::Present && !self.is_held()
    }

    /// Returns the record without pending changes that must not be flushed. `None` if its bytes are not in the cache.
    pub(crate) fn to_flush(&self) -> Option<Flushable> {
        let now = self.bytes.as_ref()?;
        let (version, committed) = (self.version, self.committed);
        if !self.is_held() || planted!("uncommitted_flushed") {
            return Some(Flushable { bytes: Arc::clone(now), version, committed, still_since: None });
        }
        let mut earlier = now.to_vec();
        let (mut version, mut committed, mut still_since) = (version, committed, None);
        for pending in self.pending.iter().rev() {
            if let UndoState::Before { at, bytes, version: had_version, committed: had_committed } = &pending.was {
                earlier[*at..][..bytes.len()].copy_from_slice(bytes);
                (version, committed) = (*had_version, *had_committed);
                still_since = Some(pending.change);
            }
        }
        Some(Flushable { bytes: earlier.into(), version, committed, still_since })
    }
}

/// A record on its way to its page.
pub(crate) struct Flushable {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) version: Lsn,
    pub(crate) committed: Lsn,
    /// The oldest change that the page does not have after the flush.
    pub(crate) still_since: Option<Lsn>,
}
