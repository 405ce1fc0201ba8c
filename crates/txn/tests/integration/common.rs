//! Shared helpers of this crate's tests: a few operations, and an enumeration of every crash of a workload.
#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]

use std::collections::HashSet;

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_sync::Arc;
use cedrat_txn::{
    Error, FormatFresh, LogicalUndo, OpenError, Operation, Options, RecordId, Refused, Registry, Result, Store, Txn,
    Undo,
};
use serde::{Deserialize, Serialize};

pub(crate) use crate::random::*;

/// The worked example of Lemon §4.4: adds to a number; its inverse is itself. Slot *n* is the *n*-th eight bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Add {
    pub(crate) amount: i64,
}

pub(crate) fn number(page: &PageRef<'_>, at: Slot) -> Result<i64, Damaged> {
    Ok(page.u64_at(usize::from(at.0) * 8)? as i64)
}

impl Operation for Add {
    const NAME: &'static str = "test.add";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let now = number(page, at)?;
        now.checked_add(self.amount).ok_or_else(|| Refused::new("the number would not fit"))?;
        Ok(Undo::op(Add { amount: -self.amount }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let now = number(&page.page_ref(), at)?;
        page.put_u64(usize::from(at.0) * 8, now.wrapping_add(self.amount) as u64)
    }
}

/// Adds, with a logical undo: the number is looked up again, as an index would.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Subtract {
    pub(crate) page: u64,
    pub(crate) slot: u16,
    pub(crate) amount: i64,
}

impl LogicalUndo for Subtract {
    const NAME: &'static str = "test.subtract";
    const LOG_BYTES_MAX: u32 = 1024;

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        // In three steps, so that a crash can occur between them.
        let at = RecordId::new(PageId::new(self.page), Slot(self.slot));
        txn.update(at, &Add { amount: 1 })?;
        txn.update(at, &Add { amount: -self.amount })?;
        txn.update(at, &Add { amount: -1 })
    }
}

/// Undoes ten in two halves, each durable before the next, so that a crash can occur between them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SubtractTen {
    pub(crate) page: u64,
    pub(crate) slot: u16,
}

impl LogicalUndo for SubtractTen {
    const NAME: &'static str = "test.subtract-ten";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        for _ in 0..2 {
            txn.update(at(PageId::new(self.page), self.slot), &Add { amount: -5 })?;
            let log = txn.store().log();
            log.force(log.current_lsn())?;
        }
        Ok(())
    }
}

pub(crate) fn registry() -> Registry {
    Registry::new().operation::<Add>().logical::<Subtract>().logical::<SubtractTen>()
}

pub(crate) fn media(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(disk.clone())
}

pub(crate) fn page_with_zeros(txn: &mut Txn) -> Result<PageId> {
    let page = txn.allocate()?;
    txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
    Ok(page)
}

pub(crate) fn at(page: PageId, slot: u16) -> RecordId {
    RecordId::new(page, Slot(slot))
}

pub(crate) fn read_number(store: &Store, at: RecordId) -> Result<i64> {
    Ok(number(&*store.read(at.page)?, at.slot)?)
}

pub(crate) fn numbers(store: &Store, page: PageId) -> [i64; 4] {
    [0, 1, 2, 3].map(|slot| read_number(store, at(page, slot)).unwrap())
}

/// Creates a store on its own simulated disk, with one page of numbers.
pub(crate) fn store_with(options: Options, registry: Registry) -> (Store, PageId) {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let store = Store::open(media, options, registry).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    (store, page)
}

/// Returns options of a simulated store that redoes on demand what it recovers.
pub(crate) fn options() -> Options {
    Options { redo_on_demand_bytes: 0, ..Options::simulated() }
}

pub(crate) fn open(disk: &Arc<SimDisk>) -> Result<Store, OpenError> {
    open_with(disk, options())
}

pub(crate) fn open_with(disk: &Arc<SimDisk>, options: Options) -> Result<Store, OpenError> {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options, registry())
}

/// Enumerates every crash of the history of `disk`: the losses of everything, nothing, and some by seed, at every entry
/// of the journal; each distinct image once. Calls `judge` with the disk after the crash, and the marks made before it.
/// Returns the number of images.
pub(crate) fn every_crash(disk: &SimDisk, seeds: u64, mut judge: impl FnMut(&Arc<SimDisk>, &[u64], &str)) -> usize {
    let journal = disk.journal();
    let mut cursor = journal.cursor();
    let mut seen = HashSet::new();
    loop {
        let mut losses = vec![Loss::Everything];
        if cursor.volatile_changes() > 0 {
            losses.extend([Loss::Nothing, Loss::TornLast(0b0101)]);
            losses.extend((0..seeds).map(Loss::Random));
        }
        let marks: Vec<u64> = cursor.marks().iter().map(|mark| mark.label).collect();
        for loss in losses {
            let image = cursor.image(loss);
            if seen.insert((image.hash(), marks.len())) {
                let name = format!("crash at {} of {}, {loss:?}", cursor.at(), journal.len());
                judge(&Arc::new(SimDisk::from_image(image)), &marks, &name);
            }
        }
        if !cursor.advance() {
            return seen.len();
        }
    }
}

/// Whether the crash happened before the store was created.
pub(crate) fn is_before_creation(error: &OpenError) -> bool {
    matches!(error, OpenError::Failed(Error::Log(cedrat_wal::LogError::Absent { .. })))
}
