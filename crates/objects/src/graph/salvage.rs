//! The parts of a graph without a store: see [`crate::salvage`].

use std::collections::BTreeMap;

use cedrat_pages::{PageId, PageRef};
use cedrat_structures::salvage::Pages;
use cedrat_txn::{RecordId, Result};

use super::classes;
use super::long::{Head, Pieces, Stored};
use super::object::Object;
use super::root;
use crate::salvage::read_object;

/// The roots of the parts of a graph.
pub(crate) struct Parts {
    pub(crate) objects: PageId,
    pub(crate) roots: PageId,
    pub(crate) classes: PageId,
}

impl Parts {
    /// Reads the root page of a graph; `None` if it is another page, or the graph was dropped.
    pub(crate) fn of(page: &PageRef<'_>) -> Option<Parts> {
        let root::Parts { objects, roots, classes, .. } = root::Parts::of(page).ok().flatten()?;
        Some(Parts { objects, roots, classes })
    }
}

/// Puts definitions of classes together, and calls `each` for every number up to the greatest one.
pub(crate) fn classes(pieces: &BTreeMap<u64, Vec<u8>>, each: &mut dyn FnMut(u32, Option<&[u8]>)) {
    let count = pieces.keys().next_back().map_or(0, |key| (key >> 32) as u32);
    for number in 1..=count {
        let first = u64::from(number) << 32;
        let own = pieces.range(first..=first | u64::from(u32::MAX));
        let own = own.map(|(key, piece)| (1 << 32 | key & 0xFFFF_FFFF, piece.clone())).collect();
        match classes::put_together(&own).as_deref() {
            Ok([definition]) => each(number, definition.as_deref()),
            // Lost: objects may have it, so it is not dropped.
            _ => each(number, Some(&[])),
        }
    }
}

/// Reads the object in a record. `None` if the record is a piece of another one; a page that is lost, or invalid bytes, is an error.
pub(crate) fn object(pages: Pages<'_>, bytes: &[u8]) -> Result<Option<Object>, Option<PageId>> {
    match Stored::of(bytes) {
        Ok(Stored::Short(bytes)) => Object::of(bytes).map(Some).map_err(|_| None),
        Ok(Stored::Long(head)) => whole(pages, &head).map(Some),
        Ok(Stored::Node { .. } | Stored::Leaf(_)) => Ok(None),
        Err(_) => Err(None),
    }
}

fn whole(pages: Pages<'_>, head: &Head) -> Result<Object, Option<PageId>> {
    let mut reader = PieceReader { pages, lost: None };
    let bytes = head.read(&mut reader).map_err(|_| reader.lost)?;
    Object::of(&bytes).map_err(|_| None)
}

/// Reads pieces from pages.
struct PieceReader<'p> {
    pages: Pages<'p>,
    /// The page of the piece that could not be read.
    lost: Option<PageId>,
}

impl Pieces for PieceReader<'_> {
    fn piece<T>(&mut self, at: RecordId, look: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let mut bytes = Vec::new();
        self.lost = Some(at.page);
        read_object(self.pages, at, &mut |piece| bytes.extend_from_slice(piece));
        look(&bytes)
    }
}
