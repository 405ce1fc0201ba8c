//! The layouts of this crate's own pages (docs/formats/structures.md). A used number keeps its meaning.

use cedrat_pages::layout::{FixedNumber, Layout, OpaqueLayout, Parts};
use cedrat_pages::{Damaged, LayoutKind, PageRef, Slot};
use cedrat_sync::Arc;
use cedrat_txn::Registry;

use crate::bytes::Corrupt;
use crate::hash;
use crate::page_list::sequence;
use crate::{array, ends};

/// Root of a hash table.
pub(crate) const HASH_ROOT: LayoutKind = LayoutKind(16);
/// Bucket or overflow page of a hash table.
pub(crate) const HASH_BUCKET: LayoutKind = LayoutKind(17);
/// Root of an array list.
pub(crate) const ARRAY_ROOT: LayoutKind = LayoutKind(18);
/// Root of a simple linked list.
pub(crate) const LIST_ROOT: LayoutKind = LayoutKind(19);
/// Root of a page-oriented list.
pub(crate) const PAGE_LIST_ROOT: LayoutKind = LayoutKind(20);
/// Records of a page-oriented list.
pub(crate) const SEQUENCE: LayoutKind = LayoutKind(21);
/// Root of a collection of records.
pub(crate) const RECORDS_ROOT: LayoutKind = LayoutKind(22);

/// Registers the layouts for [`cedrat_txn::Store::check`] and for tools.
pub(crate) fn register(registry: Registry) -> Registry {
    let roots: [(LayoutKind, &str, &[FixedNumber]); 5] = [
        (HASH_ROOT, "hash table, root", hash::ROOT_NUMBERS),
        (ARRAY_ROOT, "array list, root", array::ROOT_NUMBERS),
        (LIST_ROOT, "linked list, root", ends::NUMBERS),
        (PAGE_LIST_ROOT, "page-oriented list, root", ends::NUMBERS),
        (RECORDS_ROOT, "collection of records, root", ends::NUMBERS),
    ];
    let opaque = |kind, name, numbers| OpaqueLayout { kind, name, numbers };
    let registry = roots
        .into_iter()
        .fold(registry, |registry, (kind, name, numbers)| registry.layout(Arc::new(opaque(kind, name, numbers))));
    let bucket = opaque(HASH_BUCKET, "hash table, bucket", hash::BUCKET_NUMBERS);
    let sequence = opaque(SEQUENCE, "page-oriented list, records", sequence::NUMBERS);
    registry
        .layout(Arc::new(PageOfParts { header: bucket, parts: entries }))
        .layout(Arc::new(PageOfParts { header: sequence, parts: records }))
}

/// The receiver of the parts of each record.
type Each<'e> = &'e mut dyn FnMut(Slot, Parts<'_>);

/// A layout whose records only tools read. Only the check of the structure decides whether they are valid.
struct PageOfParts {
    header: OpaqueLayout,
    /// Reads the records of a page's body.
    parts: fn(&[u8], Each<'_>) -> Result<(), Corrupt>,
}

impl Layout for PageOfParts {
    fn kind(&self) -> LayoutKind {
        self.header.kind()
    }

    fn name(&self) -> &str {
        self.header.name()
    }

    fn check(&self, page: &PageRef<'_>) -> Result<(), Damaged> {
        self.header.check(page)
    }

    fn records(&self, page: &PageRef<'_>, each: &mut dyn FnMut(Slot, &[u8])) -> Result<(), Damaged> {
        self.header.records(page, each)
    }

    fn fields(&self, page: &PageRef<'_>) -> Result<Vec<(&'static str, u64)>, Damaged> {
        self.header.fields(page)
    }

    fn parts(&self, page: &PageRef<'_>, each: Each<'_>) -> Result<(), Damaged> {
        let corrupt = |Corrupt| Damaged::in_body(page.id(), 0, "a record lies outside of the place of records");
        (self.parts)(page.body(), each).map_err(corrupt)
    }
}

fn entries(body: &[u8], each: Each<'_>) -> Result<(), Corrupt> {
    for (slot, entry) in hash::entries(body)?.enumerate() {
        let (key, value) = entry?;
        each(Slot(slot as u16), &[("key", key), ("value", value)]);
    }
    Ok(())
}

fn records(body: &[u8], each: Each<'_>) -> Result<(), Corrupt> {
    for (index, record) in sequence::records(body)?.enumerate() {
        each(Slot(index as u16), &[("record", record?)]);
    }
    Ok(())
}
