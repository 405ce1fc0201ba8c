//! The array list (Lemon §6.1): a large growable array, stored in regions of contiguous pages.
//!
//! ```text
//! root, kind 18:
//! 0             2          4     8        16             18    24      32
//! | element len | per page | 0   | length | region count | 0   | pages | first page of region 0 | …
//! ```
//!
//! The root page lists the regions ([`regions`](crate::regions)); page and slot of an index are computed. Elements are
//! fixed-length records, and a change of one logs its before- and after-image.

mod ops;
pub(crate) mod salvage;
mod typed;

use cedrat_pages::layout::{Fixed, FixedNumber};
use cedrat_pages::{BODY_LEN, LayoutKind, PageId, PageRef, Slot};
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{Error, FormatFresh, RecordId, Registry, Result, Store, Txn};

use crate::bytes::{Bytes, BytesMut, Corrupt};
use crate::checked::Checked;
use crate::error::{OfStore, StructureError, damaged, root_page};
use crate::kinds;
use crate::records::SetFixed;
use crate::regions::{pages_in, place, region_pages};

pub use typed::ArrayList;

mod at {
    pub(super) const ELEMENT_LEN: usize = 0;
    pub(super) const PER_PAGE: usize = 2;
    pub(super) const LEN: usize = 8;
    pub(super) const REGION_COUNT: usize = 16;
    pub(super) const PAGES: usize = 24;
    pub(super) const REGIONS: usize = 32;
}

/// The numbers of a root page, for tools.
pub(crate) const ROOT_NUMBERS: &[FixedNumber] = &[
    FixedNumber::new("element length", at::ELEMENT_LEN, 2),
    FixedNumber::new("elements in a page", at::PER_PAGE, 2),
    FixedNumber::new("elements", at::LEN, 8),
    FixedNumber::new("regions", at::REGION_COUNT, 2),
    FixedNumber::new("formatted pages", at::PAGES, 8),
    FixedNumber::new("first page", at::REGIONS, 8),
];

/// Maximum number of regions in a root page.
const REGIONS_MAX: usize = (BODY_LEN - at::REGIONS) / 8;

/// Maximum length of an element, in bytes: one fits on a page, and two in a log record, before and after.
pub const ELEMENT_LEN_MAX: u16 = 3800;
const _: () = assert!(ELEMENT_LEN_MAX as usize <= BODY_LEN);

pub(crate) fn register(registry: Registry) -> Registry {
    registry.operation::<ops::FoundArray>().operation::<ops::SetShape>()
}

/// The content of a root page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Length of an element, in bytes.
    element_len: u16,
    /// Number of elements on a page.
    per_page: u16,
    /// Number of elements.
    len: u64,
    region_count: u16,
    /// Number of pages formatted so far, the first ones of the regions.
    pages: u64,
}

impl Shape {
    fn read<B: Bytes + ?Sized>(body: &B) -> Result<Shape, Corrupt> {
        let shape = Shape {
            element_len: body.half(at::ELEMENT_LEN)?,
            per_page: body.half(at::PER_PAGE)?,
            len: body.word(at::LEN)?,
            region_count: body.half(at::REGION_COUNT)?,
            pages: body.word(at::PAGES)?,
        };
        let sound = shape.per_page == Fixed::capacity_for(shape.element_len)
            && shape.per_page > 0
            && usize::from(shape.region_count) <= REGIONS_MAX
            && shape.pages <= pages_in(shape.region_count.into())
            && shape.len.div_ceil(shape.per_page.into()) <= shape.pages;
        if sound { Ok(shape) } else { Err(Corrupt) }
    }

    fn write<B: BytesMut + ?Sized>(&self, body: &mut B) -> Result<(), Corrupt> {
        body.put(at::ELEMENT_LEN, &self.element_len.to_le_bytes())?;
        body.put(at::PER_PAGE, &self.per_page.to_le_bytes())?;
        body.put(at::LEN, &self.len.to_le_bytes())?;
        body.put(at::REGION_COUNT, &self.region_count.to_le_bytes())?;
        body.put(at::PAGES, &self.pages.to_le_bytes())
    }

    /// Returns the number of the page of element `index`, and the element's slot there.
    fn page_and_slot(&self, index: u64) -> (u64, Slot) {
        let per_page = u64::from(self.per_page);
        (index / per_page, Slot((index % per_page) as u16))
    }
}

/// Returns the first page of a region.
fn region<B: Bytes + ?Sized>(body: &B, number: usize) -> Result<PageId, Corrupt> {
    Ok(PageId::new(body.word(at::REGIONS + 8 * number)?))
}

/// A transactional array of elements of one length in bytes.
///
/// A handle; the array itself is in the store. Reading and setting elements locks their pages, so transactions conflict
/// only on neighbouring elements. Growing and shrinking locks the whole array to the end of the transaction. If the
/// store's lock manager does not lock, only one transaction at a time may use the array.
#[derive(Clone, Debug)]
pub struct RawArrayList {
    root: PageId,
    element_len: u16,
}

impl RawArrayList {
    /// Creates an empty array.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if `element_len` exceeds [`ELEMENT_LEN_MAX`]; [`Error::Misuse`] if it is 0; those of any
    /// change.
    pub fn create(txn: &mut Txn, element_len: u16) -> Result<RawArrayList> {
        if element_len == 0 {
            return Err(Error::Misuse("elements of an array list have at least one byte"));
        }
        check_len("an element of an array list", element_len.into(), ELEMENT_LEN_MAX)?;
        let root = txn.allocate()?;
        txn.isolated(root, |txn| txn.update(RecordId::page(root), &ops::FoundArray { element_len }))?;
        Ok(RawArrayList { root, element_len })
    }

    /// Opens the array with this root page.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`].
    pub fn open(store: &Store, root: PageId) -> Result<RawArrayList> {
        let shape = read(store, &*root_page(store, root, ARRAY)?)?;
        Ok(RawArrayList { root, element_len: shape.element_len })
    }

    /// Returns the root page, which identifies the array.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// Returns the length of an element, in bytes.
    pub fn element_len(&self) -> u16 {
        self.element_len
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on the array.
    pub fn len(&self, txn: &mut Txn) -> Result<u64> {
        txn.lock(Resource::Structure(self.root), LockMode::IntentionShared)?;
        Ok(self.shape(txn)?.len)
    }

    /// Whether the array has no elements.
    ///
    /// # Errors
    /// As [`len`](RawArrayList::len).
    pub fn is_empty(&self, txn: &mut Txn) -> Result<bool> {
        Ok(self.len(txn)? == 0)
    }

    /// Returns the address of element `index`: a record of fixed length, on which your own operations may work too,
    /// such as [`Increment`](crate::Increment).
    ///
    /// # Errors
    /// [`StructureError::OutOfBounds`]; [`Error::Deadlock`].
    pub fn record(&self, txn: &mut Txn, index: u64) -> Result<RecordId> {
        txn.lock(Resource::Structure(self.root), LockMode::IntentionExclusive)?;
        self.find(txn, index)
    }

    /// Returns element `index`.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on its page.
    pub fn get(&self, txn: &mut Txn, index: u64) -> Result<Option<Vec<u8>>> {
        txn.lock(Resource::Structure(self.root), LockMode::IntentionShared)?;
        let at = match self.find(txn, index) {
            Ok(at) => at,
            Err(error) if StructureError::of(&error).is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        let page = txn.read(at.page)?;
        element(txn.store(), &page, at.slot).map(Some)
    }

    /// Sets element `index`; a shorter `element` is padded with zeros.
    ///
    /// # Errors
    /// [`StructureError::OutOfBounds`]; [`Error::TooLarge`] beyond the array's element length; [`Error::Deadlock`].
    pub fn set(&self, txn: &mut Txn, index: u64, element: &[u8]) -> Result<()> {
        let set = SetFixed { record: self.padded(element)?.as_slice().into() };
        let at = self.record(txn, index)?;
        txn.update(at, &set)
    }

    /// Appends an element, and returns its index.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond the array's element length; [`StructureError::TooManyPages`]; [`Error::Deadlock`]; no
    /// room.
    pub fn push(&self, txn: &mut Txn, element: &[u8]) -> Result<u64> {
        let set = SetFixed { record: self.padded(element)?.as_slice().into() };
        txn.isolated(self.root, |txn| {
            let mut shape = self.shape(txn)?;
            let index = shape.len;
            let (number, slot) = shape.page_and_slot(index);
            shape.len += 1;
            let page = self.page_for(txn, &mut shape, number)?;
            txn.update(RecordId::new(page, slot), &set)?;
            Ok(index)
        })
    }

    /// Removes the last element. Its page stays, for later elements.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on the array.
    pub fn pop(&self, txn: &mut Txn) -> Result<Option<Vec<u8>>> {
        txn.isolated(self.root, |txn| {
            let mut shape = self.shape(txn)?;
            let Some(last) = shape.len.checked_sub(1) else { return Ok(None) };
            let at = self.find(txn, last)?;
            let popped = element(txn.store(), &*txn.read_latched(at.page)?, at.slot)?;
            shape.len = last;
            txn.update(RecordId::page(self.root), &ops::SetShape { len: shape.len, pages: shape.pages, region: None })?;
            Ok(Some(popped))
        })
    }

    /// Iterates over all elements, in order. The array is locked shared to the end of the transaction.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on the array.
    pub fn iter<'t>(&self, txn: &'t mut Txn) -> Result<RawArrayElements<'t>> {
        txn.lock(Resource::Structure(self.root), LockMode::Shared)?;
        let len = self.shape(txn)?.len;
        Ok(RawArrayElements { list: self.clone(), txn, next: 0, len, elements: Vec::new().into_iter() })
    }

    /// Frees the array's pages.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on the array.
    pub fn drop(self, txn: &mut Txn) -> Result<()> {
        txn.isolated(self.root, |txn| {
            let count = usize::from(self.shape(txn)?.region_count);
            for number in 0..count {
                let first = self.region(txn, number)?;
                txn.free_region(first, region_pages(number))?;
            }
            txn.free(self.root)
        })
    }

    /// Walks the array and verifies it.
    ///
    /// # Errors
    /// Only those that prevent the walk. Defects are in the result.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        let mut checked = Checked::default();
        checked.pages.push(self.root);
        let shape = match self.shape(txn) {
            Ok(shape) => shape,
            Err(error) => return Ok(checked.with_problem(self.root, error)),
        };
        for number in 0..usize::from(shape.region_count) {
            let first = self.region(txn, number)?;
            checked.pages.extend((0..region_pages(number)).map(|n| first.after(n)));
        }
        for number in 0..shape.pages {
            let page = self.page(txn, number)?;
            let view = txn.read_latched(page)?;
            match Fixed::of(&view) {
                Ok(fixed) if fixed.record_len() == shape.element_len && fixed.count() == shape.per_page => {}
                Ok(_) => checked.problem(page, "its records have another length, or are not all there"),
                Err(error) => checked.problem(page, error),
            }
        }
        checked.elements = shape.len;
        checked.bytes = shape.len * u64::from(shape.element_len);
        Ok(checked)
    }

    fn shape(&self, txn: &Txn) -> Result<Shape> {
        read(txn.store(), &*txn.read_latched(self.root)?)
    }

    fn region(&self, txn: &Txn, number: usize) -> Result<PageId> {
        let page = txn.read_latched(self.root)?;
        region(&page.body()[..], number).map_err(|_| damaged(txn.store(), self.root, "the array has no such region"))
    }

    /// Returns the page of this number among the array's pages.
    fn page(&self, txn: &Txn, number: u64) -> Result<PageId> {
        let (region, offset) = place(number);
        Ok(self.region(txn, region)?.after(offset))
    }

    fn find(&self, txn: &Txn, index: u64) -> Result<RecordId> {
        let view = txn.read_latched(self.root)?;
        let shape = read(txn.store(), &view)?;
        if index >= shape.len {
            return Err(StructureError::OutOfBounds { index, len: shape.len }.into());
        }
        let (number, slot) = shape.page_and_slot(index);
        let (of, offset) = place(number);
        let first = region(&view.body()[..], of)
            .map_err(|_| damaged(txn.store(), self.root, "the array has no such region"))?;
        Ok(RecordId::new(first.after(offset), slot))
    }

    /// Writes the new shape, and adds the page of this number if the array lacks it. The big lock is held.
    fn page_for(&self, txn: &mut Txn, shape: &mut Shape, number: u64) -> Result<PageId> {
        let (of, offset) = place(number);
        if of >= REGIONS_MAX {
            let limit = pages_in(REGIONS_MAX);
            return Err(StructureError::TooManyPages { what: "an array list", limit }.into());
        }
        let known = of < usize::from(shape.region_count);
        let first = if known { self.region(txn, of)? } else { txn.allocate_region(region_pages(of))? };
        let page = first.after(offset);
        if number == shape.pages {
            let word = u64::from(shape.element_len) | u64::from(shape.per_page) << 16;
            let format = FormatFresh { kind: LayoutKind::FIXED.0, layout_word: word };
            txn.update(RecordId::page(page), &format)?;
            shape.pages += 1;
        }
        let region = (!known).then_some((of as u16, first.get()));
        txn.update(RecordId::page(self.root), &ops::SetShape { len: shape.len, pages: shape.pages, region })?;
        Ok(page)
    }

    fn padded(&self, element: &[u8]) -> Result<Vec<u8>> {
        check_len("an element of this array list", element.len(), self.element_len)?;
        let mut padded = element.to_vec();
        padded.resize(self.element_len.into(), 0);
        Ok(padded)
    }
}

fn check_len(what: &'static str, given: usize, limit: u16) -> Result<()> {
    if given > usize::from(limit) {
        return Err(Error::TooLarge { what, given: given as u64, limit: limit.into() });
    }
    Ok(())
}

/// The expected structure, for the error of a wrong root.
const ARRAY: &str = "an array list";

fn read(store: &Store, page: &PageRef<'_>) -> Result<Shape> {
    if page.kind() != kinds::ARRAY_ROOT {
        return Err(StructureError::WrongRoot { page: page.id(), expected: ARRAY }.into());
    }
    Shape::read(page).map_err(|_| damaged(store, page.id(), "the root of an array list is corrupt"))
}

fn element(store: &Store, page: &PageRef<'_>, slot: Slot) -> Result<Vec<u8>> {
    let found = Fixed::of(page).of_store(store)?.get(slot).map(<[u8]>::to_vec);
    found.ok_or_else(|| damaged(store, page.id(), "a page of an array list lacks an element"))
}

/// An iterator over the elements of an array: see [`RawArrayList::iter`]. The elements of a page are read together.
#[derive(Debug)]
pub struct RawArrayElements<'t> {
    list: RawArrayList,
    txn: &'t Txn,
    /// The next index to read from a page.
    next: u64,
    len: u64,
    elements: std::vec::IntoIter<Vec<u8>>,
}

impl RawArrayElements<'_> {
    fn read_page(&mut self) -> Result<()> {
        let at = self.list.find(self.txn, self.next)?;
        let page = self.txn.read_latched(at.page)?;
        let fixed = Fixed::of(&page).of_store(self.txn.store())?;
        let on_page = u64::from(fixed.count()).min(self.len - self.next);
        if on_page == 0 {
            return Err(damaged(self.txn.store(), at.page, "a page of an array list lacks an element"));
        }
        let elements: Vec<_> = fixed.iter().take(on_page as usize).map(|(_, element)| element.to_vec()).collect();
        self.next += on_page;
        self.elements = elements.into_iter();
        Ok(())
    }
}

impl Iterator for RawArrayElements<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        loop {
            if let Some(element) = self.elements.next() {
                return Some(Ok(element));
            }
            if self.next >= self.len {
                return None;
            }
            if let Err(error) = self.read_page() {
                self.next = self.len;
                return Some(Err(error));
            }
        }
    }
}
