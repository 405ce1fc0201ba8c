//! The layouts of this crate's own pages (docs/formats/structures.md). A used number keeps its meaning.

use cedrat_pages::LayoutKind;
use cedrat_pages::layout::OpaqueLayout;
use cedrat_sync::Arc;
use cedrat_txn::Registry;

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
    let names = [
        (HASH_ROOT, "hash table, root"),
        (HASH_BUCKET, "hash table, bucket"),
        (ARRAY_ROOT, "array list, root"),
        (LIST_ROOT, "linked list, root"),
        (PAGE_LIST_ROOT, "page-oriented list, root"),
        (SEQUENCE, "page-oriented list, records"),
        (RECORDS_ROOT, "collection of records, root"),
    ];
    names.into_iter().fold(registry, |registry, (kind, name)| registry.layout(Arc::new(OpaqueLayout { kind, name })))
}
