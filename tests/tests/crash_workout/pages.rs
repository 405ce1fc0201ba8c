//! The built-in operations on single pages, and the allocation of pages, each with a model in plain memory.

use std::collections::BTreeMap;

use cedrat::Error;
use cedrat::check::{Outcome, Rng};
use cedrat::pages::layout::{Fixed, Slotted, Versioned};
use cedrat::pages::{BODY_LEN, LayoutKind, PageId, Slot};
use cedrat_txn::{
    FixedSet, FixedSetCount, FormatFixed, FormatFresh, FormatPage, RecordId, Result, SetRange, SlottedDelete,
    SlottedInsert, SlottedUpdate, Txn, VersionedDelete, VersionedInsert, VersionedUpdate,
};

use super::{Effect, Subject};

type Bytes = Vec<u8>;

/// A fresh page of this layout.
fn page_of(txn: &mut Txn, kind: LayoutKind) -> Result<PageId> {
    let page = txn.allocate()?;
    txn.update(RecordId::page(page), &FormatFresh::new(kind))?;
    Ok(page)
}

/// Returns whether the operation was performed; a refusal is not a failure, but changes nothing.
fn performed(result: Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(Error::Refused(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn nothing<M>() -> Effect<M> {
    Box::new(|_| ())
}

/// The two layouts with slots differ only in the names of their operations.
macro_rules! slots {
    ($name:ident, $layout:ident, $kind:expr, $insert:ident, $update:ident, $delete:ident, $doc:literal) => {
        #[doc = $doc]
        pub(crate) struct $name;

        impl Subject for $name {
            type Model = BTreeMap<u16, Bytes>;
            type Root = PageId;

            fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
                Ok(page_of(txn, $kind)?)
            }

            fn step(&self, txn: &mut Txn, page: &PageId, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
                let (vacant, taken) = {
                    let page = txn.read(*page)?;
                    let slots = $layout::of(&page)?;
                    let taken: Vec<u16> = (0..slots.slots())
                        .filter(|slot| slots.get(Slot(*slot)).is_ok_and(|record| record.is_some()))
                        .collect();
                    (slots.vacant()?, taken)
                };
                let len = chance.index(300);
                let record = chance.bytes(len);
                match (chance.below(5), vacant) {
                    (0, _) if !taken.is_empty() => {
                        let slot = *chance.pick(&taken);
                        txn.update(RecordId::new(*page, Slot(slot)), &$delete {})?;
                        Ok(Box::new(move |model| drop(model.remove(&slot))))
                    }
                    (1 | 2, _) if !taken.is_empty() => {
                        let slot = *chance.pick(&taken);
                        let update = $update { record: record[..].into() };
                        match performed(txn.update(RecordId::new(*page, Slot(slot)), &update))? {
                            true => Ok(Box::new(move |model| drop(model.insert(slot, record.clone())))),
                            false => Ok(nothing()),
                        }
                    }
                    (_, Some(Slot(slot))) => {
                        let insert = $insert { record: record[..].into() };
                        match performed(txn.update(RecordId::new(*page, Slot(slot)), &insert))? {
                            true => Ok(Box::new(move |model| drop(model.insert(slot, record.clone())))),
                            false => Ok(nothing()),
                        }
                    }
                    (_, None) => Ok(nothing()),
                }
            }

            fn read(&self, txn: &mut Txn, page: &PageId) -> Outcome<Self::Model> {
                let page = txn.read(*page)?;
                let slots = $layout::of(&page)?;
                let mut model = BTreeMap::new();
                for slot in 0..slots.slots() {
                    if let Some(record) = slots.get(Slot(slot))? {
                        model.insert(slot, record.to_vec());
                    }
                }
                Ok(model)
            }

            fn check(&self, txn: &mut Txn, page: &PageId) -> Outcome {
                Ok($layout::of(&*txn.read(*page)?)?.check()?)
            }
        }
    };
}

slots!(
    SlottedPage,
    Slotted,
    LayoutKind::SLOTTED,
    SlottedInsert,
    SlottedUpdate,
    SlottedDelete,
    "Records of any length on a page."
);
slots!(
    VersionedPage,
    Versioned,
    LayoutKind::VERSIONED,
    VersionedInsert,
    VersionedUpdate,
    VersionedDelete,
    "Records of any length, each with a version, on a page."
);

/// Records of one length on a page.
pub(crate) struct FixedPage;

impl Subject for FixedPage {
    type Model = Vec<Bytes>;
    type Root = PageId;

    fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
        let page = txn.allocate()?;
        txn.update(RecordId::page(page), &FormatFixed { record_len: 90, count: 3 })?;
        Ok(page)
    }

    fn step(&self, txn: &mut Txn, page: &PageId, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
        let count = Fixed::of(&*txn.read(*page)?)?.count();
        if chance.one_in(4) || count == 0 {
            let count = chance.below(40) as u16;
            txn.update(RecordId::page(*page), &FixedSetCount { count })?;
            return Ok(Box::new(move |model| model.resize(count.into(), vec![0; 90])));
        }
        let slot = chance.below(count.into()) as u16;
        let len = chance.index(91);
        let record = chance.bytes(len);
        txn.update(RecordId::new(*page, Slot(slot)), &FixedSet { record: record[..].into() })?;
        Ok(Box::new(move |model| model[usize::from(slot)][..record.len()].copy_from_slice(&record)))
    }

    fn read(&self, txn: &mut Txn, page: &PageId) -> Outcome<Self::Model> {
        let page = txn.read(*page)?;
        Ok(Fixed::of(&page)?.iter().map(|(_, record)| record.to_vec()).collect())
    }

    fn check(&self, _: &mut Txn, _: &PageId) -> Outcome {
        Ok(())
    }
}

/// Bytes of a page, set physically; now and then the page is formatted anew.
pub(crate) struct RawPage;

impl Subject for RawPage {
    type Model = Bytes;
    type Root = PageId;

    fn create(&self, txn: &mut Txn) -> Outcome<PageId> {
        Ok(page_of(txn, LayoutKind::RAW)?)
    }

    fn step(&self, txn: &mut Txn, page: &PageId, chance: &mut Rng) -> Outcome<Effect<Bytes>> {
        if chance.one_in(8) {
            txn.update(RecordId::page(*page), &FormatPage { kind: LayoutKind::RAW.0, layout_word: 0 })?;
            return Ok(Box::new(|model| model.fill(0)));
        }
        let len = chance.index(400);
        let offset = chance.index(BODY_LEN - len);
        let bytes = chance.bytes(len);
        txn.update(RecordId::page(*page), &SetRange { offset: offset as u16, bytes: bytes[..].into() })?;
        Ok(Box::new(move |model| model[offset..offset + bytes.len()].copy_from_slice(&bytes)))
    }

    fn read(&self, txn: &mut Txn, page: &PageId) -> Outcome<Bytes> {
        Ok(txn.read(*page)?.body().to_vec())
    }

    fn check(&self, _: &mut Txn, _: &PageId) -> Outcome {
        Ok(())
    }
}

/// Pages and regions, allocated and freed, with a directory of them on a page of its own (E7).
pub(crate) struct Space;

/// Number of entries in the directory: first page, number of pages, content of the first.
const ENTRIES: u64 = 24;
const ENTRY_LEN: u64 = 24;

impl Space {
    fn entry(txn: &Txn, directory: PageId, number: u64) -> Result<[u64; 3]> {
        let page = txn.read(directory)?;
        let word = |at: u64| page.u64_at((number * ENTRY_LEN + at) as usize);
        Ok([word(0)?, word(8)?, word(16)?])
    }

    fn set_entry(txn: &mut Txn, directory: PageId, number: u64, entry: [u64; 3]) -> Result<()> {
        let bytes: Bytes = entry.iter().flat_map(|word| word.to_le_bytes()).collect();
        let set = SetRange { offset: (number * ENTRY_LEN) as u16, bytes: bytes[..].into() };
        txn.update(RecordId::page(directory), &set)
    }
}

impl Subject for Space {
    type Model = BTreeMap<u64, [u64; 3]>;
    /// The directory, and the number of allocated pages besides those in it.
    type Root = (PageId, u64);

    fn create(&self, txn: &mut Txn) -> Outcome<Self::Root> {
        let directory = page_of(txn, LayoutKind::RAW)?;
        Ok((directory, txn.store().check()?.pages_allocated))
    }

    fn step(&self, txn: &mut Txn, (directory, _): &Self::Root, chance: &mut Rng) -> Outcome<Effect<Self::Model>> {
        let number = chance.below(ENTRIES);
        let [first, pages, _] = Space::entry(txn, *directory, number)?;
        if pages > 0 {
            match pages {
                1 => txn.free(PageId::new(first))?,
                2 => txn.free_region(PageId::new(first), pages)?,
                _ => {
                    txn.free_scattered(&[PageId::new(first), PageId::new(first + pages - 1)])?;
                    txn.free_region(PageId::new(first + 1), pages - 2)?;
                }
            }
            Space::set_entry(txn, *directory, number, [0; 3])?;
            return Ok(Box::new(move |model| {
                model.remove(&number);
            }));
        }
        let pages = 1 + chance.below(4);
        let first = match pages {
            1 => txn.allocate()?,
            _ => txn.allocate_region(pages)?,
        };
        let tag = chance.next_u64();
        for page in (0..pages).map(|distance| first.after(distance)) {
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
            txn.update(RecordId::page(page), &SetRange { offset: 0, bytes: tag.to_le_bytes()[..].into() })?;
        }
        let entry = [first.get(), pages, tag];
        Space::set_entry(txn, *directory, number, entry)?;
        Ok(Box::new(move |model| {
            model.insert(number, entry);
        }))
    }

    fn read(&self, txn: &mut Txn, (directory, _): &Self::Root) -> Outcome<Self::Model> {
        let mut model = BTreeMap::new();
        for number in 0..ENTRIES {
            let entry = Space::entry(txn, *directory, number)?;
            if entry[1] > 0 {
                model.insert(number, entry);
            }
        }
        Ok(model)
    }

    fn check(&self, txn: &mut Txn, root: &Self::Root) -> Outcome {
        let (_, others) = *root;
        let mut pages_allocated = others;
        for [first, pages, tag] in self.read(txn, root)?.into_values() {
            pages_allocated += pages;
            for page in first..first + pages {
                let found = txn.read(PageId::new(page))?.u64_at(0)?;
                if found != tag {
                    return Err(format!("page {page} holds {found:x}, not {tag:x}: it belongs to two").into());
                }
            }
        }
        let counted = txn.store().check()?.pages_allocated;
        match counted == pages_allocated {
            true => Ok(()),
            false => Err(format!("{counted} pages are allocated, {pages_allocated} are known").into()),
        }
    }
}
