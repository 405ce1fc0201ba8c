//! One record that is kept: what of it is not in its page, and how that is taken back.

use cedrat_pages::{PageId, Slot};
use cedrat_sync::Arc;
use cedrat_txn::{Delta, RecordId, Refused, SmallBytes};
use cedrat_wal::{Lsn, TxnId};

/// What a record in the cache takes beyond its bytes: its line here, its share of the index, and two allocations.
pub(crate) const OVERHEAD_BYTES: u64 = 192;

/// What a change that can be taken back takes beyond its bytes.
pub(crate) const PENDING_BYTES: u64 = 80;

/// A delta that takes another one back.
pub(crate) trait Inverse: Send + Sync {
    fn take_back(&self, record: &mut [u8]) -> Result<(), Refused>;
}

impl<D: Delta> Inverse for D {
    fn take_back(&self, record: &mut [u8]) -> Result<(), Refused> {
        self.apply(record)
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
    pub(crate) was: Was,
    pub(crate) cost_bytes: u64,
}

pub(crate) enum Was {
    Before { at: usize, bytes: SmallBytes, version: Lsn, committed: Lsn },
    Inverse(Arc<dyn Inverse>),
}

/// A record that is kept. What a change of it needs stands first, in one line of the processor's cache: between two
/// changes of one record there were many of others, and lines, not instructions, are what a change costs.
#[repr(C, align(64))]
pub(crate) struct Kept {
    pub(crate) page: PageId,
    pub(crate) slot: Slot,
    pub(crate) was_used: bool,
    /// `None`: it is in its page, as of `in_page`, but for what is owed.
    pub(crate) bytes: Option<Arc<[u8]>>,
    pub(crate) version: Lsn,
    /// Durable before it goes home.
    pub(crate) committed: Lsn,
    /// The oldest change that the page does not have; 0: there is none.
    pub(crate) since: Lsn,
    /// Memory of `pending`; 0: there is none.
    pub(crate) pending_bytes: u64,
    pub(crate) in_page: Lsn,
    /// The newest last.
    pub(crate) pending: Vec<Pending>,
    pub(crate) owed: Vec<Arc<dyn Inverse>>,
}

const _: () = assert!(std::mem::offset_of!(Kept, in_page) == 64 && size_of::<Option<Kept>>() == 128);

impl Kept {
    pub(crate) fn clean(at: RecordId, image: &Image) -> Kept {
        Kept {
            page: at.page,
            slot: at.slot,
            was_used: true,
            bytes: Some(Arc::clone(&image.bytes)),
            version: image.version,
            committed: image.version,
            since: Lsn::ZERO,
            pending_bytes: 0,
            in_page: image.version,
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

    /// It has a change, or its inverse.
    pub(crate) fn changes_at(&mut self, lsn: Lsn) {
        (self.version, self.committed) = (lsn, lsn);
        if self.since == Lsn::ZERO {
            self.since = lsn;
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending_bytes > 0
    }

    /// What it takes as [`clean`](Kept::clean) makes it.
    pub(crate) fn clean_bytes(image: &Image) -> u64 {
        OVERHEAD_BYTES + image.bytes.len() as u64
    }

    pub(crate) fn cost_bytes(&self) -> u64 {
        OVERHEAD_BYTES + self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64) + self.pending_bytes
    }

    /// The record, if its bytes are here.
    pub(crate) fn image(&self) -> Option<Image> {
        let bytes = Arc::clone(self.bytes.as_ref()?);
        Some(Image { bytes, version: self.version })
    }

    /// Whether something in it must not be flushed (E19.5).
    pub(crate) fn is_held(&self) -> bool {
        self.is_pending() && self.pending.iter().any(|pending| matches!(pending.was, Was::Before { .. }))
    }

    /// Whether letting it go gives memory back.
    pub(crate) fn may_go(&self) -> bool {
        self.bytes.is_some() && !self.is_held()
    }

    /// The record as it may be flushed: without what is pending and must not be. `None` if its bytes are not here.
    pub(crate) fn to_flush(&self) -> Option<Flushable> {
        let now = self.bytes.as_ref()?;
        let (version, committed) = (self.version, self.committed);
        if !self.is_held() {
            return Some(Flushable { bytes: Arc::clone(now), version, committed, still_since: None });
        }
        let mut earlier = now.to_vec();
        let (mut version, mut committed, mut still_since) = (version, committed, None);
        for pending in self.pending.iter().rev() {
            if let Was::Before { at, bytes, version: had_version, committed: had_committed } = &pending.was {
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
    /// The oldest change that the page does not have then.
    pub(crate) still_since: Option<Lsn>,
}
