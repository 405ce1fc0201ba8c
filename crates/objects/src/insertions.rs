//! Insertions of objects that are part of the commit record (E19.15).
//!
//! ```text
//! 0      2     4
//! | slot | len | record, len bytes | the next one …
//!   2      2
//! ```

use cedrat_pages::layout::{Versioned, VersionedMut};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Error, Operation, Refused, Result, SmallBytes, Txn, Undo};
use cedrat_wal::TxnId;
use serde::{Deserialize, Serialize};

use crate::collection::{Objects, Reserved};
use crate::place::Places;
use crate::record::{HEADER_LEN, LINK, extend_with_record};

/// Length of the numbers before a record.
const HEAD_LEN: usize = 2 + 2;

/// Inserts records into vacant slots of a page. Redo-only: the transaction has committed with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InsertAll {
    records: SmallBytes,
}

/// A slot and its future record.
type Insertion<'a> = (Slot, &'a [u8]);

impl InsertAll {
    pub(crate) fn of(records: Vec<u8>) -> InsertAll {
        InsertAll { records: records.into() }
    }

    /// Returns the insertions; `None` for one that is cut off.
    fn all(&self) -> impl Iterator<Item = Option<Insertion<'_>>> {
        let mut rest = &*self.records;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let Some((&[slot, slot_high, len, len_high], behind)) = rest.split_first_chunk::<HEAD_LEN>() else {
                rest = &[];
                return Some(None);
            };
            let record = behind.split_at_checked(u16::from_le_bytes([len, len_high]).into());
            rest = record.map_or(&[][..], |(_, behind)| behind);
            Some(record.map(|(record, _)| (Slot(u16::from_le_bytes([slot, slot_high])), record)))
        })
    }
}

impl Operation for InsertAll {
    const NAME: &'static str = "cedrat.objects.insert_all.v1";
    const COMMITS: bool = true;

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let versioned = Versioned::of(page)?;
        let (mut last, mut len) = (LINK, 0);
        for insertion in self.all() {
            let (slot, record) = insertion.ok_or(Refused::new("an inserted record is truncated"))?;
            if slot <= last || versioned.get(slot)?.is_some() {
                return Err(Refused::new("the slots of new records are not vacant, or not in ascending order"));
            }
            (last, len) = (slot, len + record.len());
            // Of each slot: one that was removed has no room, however much a later one has.
            if versioned.room(slot)?.is_none_or(|room| room < len) {
                return Err(Refused::new("the page has no space for the new records"));
            }
        }
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (id, version) = (page.id(), page.changing_at());
        let mut versioned = VersionedMut::of(page)?;
        for insertion in self.all() {
            let (slot, record) = insertion.ok_or(Damaged::in_layout_word(id, "an inserted record is truncated"))?;
            versioned.insert(slot, version, record)?;
        }
        Ok(())
    }
}

/// The collection and the transaction that have reserved a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Address of the collection's allocator of places: no other one has it while the place is reserved.
    places: usize,
    txn: TxnId,
}

impl Owner {
    fn new(places: &Places, txn: TxnId) -> Owner {
        Owner { places: std::ptr::from_ref(places).addr(), txn }
    }
}

impl Reserved<'_> {
    pub(crate) fn owner(&self) -> Owner {
        Owner::new(self.promise.places, self.txn)
    }
}

impl Objects {
    pub(crate) fn owner(&self, txn: &Txn) -> Owner {
        Owner::new(&self.shared.places, txn.id())
    }

    /// Refuses new objects of another collection or transaction, or whose places are reserved no longer: their page may have
    /// left the collection since (S6).
    pub(crate) fn check_places(&self, txn: &Txn, new: &NewObjects) -> Result<()> {
        let Some((owner, page, len)) = new.promised() else { return Ok(()) };
        if owner != self.owner(txn) {
            return Err(Error::Misuse(
                "the place of a new object was reserved in another collection or by another transaction",
            ));
        }
        match self.shared.places.has_promised(page, len) {
            true => Ok(()),
            false => Err(Refused::new("the place of a new object is reserved no longer").into()),
        }
    }
}

/// New objects of a commit, in places that its transaction has reserved in one page: see
/// [`Objects::commit_with_new`](crate::Objects::commit_with_new).
#[derive(Debug, Default)]
pub struct NewObjects {
    page: Option<PageId>,
    /// The collection and the transaction that have reserved them.
    owner: Option<Owner>,
    /// The slot of the last one.
    last: Slot,
    /// Length of all records, in bytes.
    len: usize,
    records: Vec<u8>,
}

impl NewObjects {
    /// Adds an object, and returns its bytes, which may still be changed. `None` if it cannot be added: it is longer than its
    /// place, or that is in another page than those before it, not behind them, or reserved by another transaction. The place
    /// must be kept until the commit, which is refused otherwise.
    pub fn add(&mut self, reserved: &Reserved<'_>, object: &[u8]) -> Option<&mut [u8]> {
        let (at, capacity) = (reserved.id(), reserved.capacity());
        let owner = Some(reserved.owner());
        let is_next = self.page.is_none_or(|page| page == at.page && self.last < at.slot && self.owner == owner);
        if !is_next || object.len() > capacity {
            return None;
        }
        (self.page, self.owner, self.last) = (Some(at.page), owner, at.slot);
        let record_len = HEADER_LEN + capacity;
        self.len += record_len;
        if self.records.is_empty() {
            self.records = Vec::with_capacity(HEAD_LEN + record_len); // of most commits the only one
        } else {
            self.records.reserve(HEAD_LEN + record_len);
        }
        self.records.extend_from_slice(&at.slot.0.to_le_bytes());
        self.records.extend_from_slice(&(record_len as u16).to_le_bytes());
        let begin = self.records.len();
        extend_with_record(&mut self.records, object, capacity, false);
        Some(&mut self.records[begin + HEADER_LEN..][..object.len()])
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.page.is_none()
    }

    /// Returns the owner of the places, their page, and the length of the records that were promised to it.
    pub(crate) fn promised(&self) -> Option<(Owner, PageId, usize)> {
        Some((self.owner?, self.page?, self.len))
    }

    /// Returns the page, and the operation on it.
    pub(crate) fn insertion(self) -> Option<(PageId, InsertAll)> {
        Some((self.page?, InsertAll::of(self.records)))
    }
}
