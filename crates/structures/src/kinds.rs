//! The layouts of this crate's own pages (docs/formats/structures.md). A number once used keeps its meaning.

use cedrat_pages::LayoutKind;

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
