//! The operations of a hash table, each on one page, and its two logical undos.
//!
//! | operation | changes | its undo |
//! |---|---|---|
//! | [`Insert`] | a bucket page | logical, derived: remove the key |
//! | [`Replace`], [`Remove`] | a bucket page | logical: restore the old value |
//! | [`Fill`] | a page that is not yet visible | none: the page stays invisible if the split fails |
//! | [`Purge`] | a bucket page after its split | none: it removes entries that no lookup finds any more |
//! | [`Append`], [`Withdraw`] | a bucket page | each other |
//! | [`Link`], [`SetBuckets`], [`AddRegion`], [`SetLive`] | a pointer or a number | its old value |
//!
//! The undo of a change of entries is logical because a split may have moved the entry meanwhile, and other
//! transactions may have changed its neighbours (Lemon §4.2, §6.3).

use cedrat_pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Change, LogicalUndo, Meaning, Operation, RecordId, Refused, Result, SmallBytes, Txn, Undo};
use serde::{Deserialize, Serialize};

use super::bucket::{self, KeyHash};
use super::header::{self, BUCKETS_MAX, Header};
use super::packed;
use super::table::RawHashTable;
use crate::bytes::{BytesMut, Corrupt};
use crate::kinds;
use crate::regions::Growth;

/// Refusal: the page has no room for the entry.
pub(super) const FULL: &str = "the bucket page is full";
/// Refusal: the key is on the page.
pub(super) const PRESENT: &str = "the key is present";
/// Refusal: the key is not on the page, and the bucket has no other page.
pub(super) const ABSENT: &str = "the key is absent";
/// Refusal: the key is not on the page, but may be on another of the bucket's pages.
pub(super) const CHAINED: &str = "the bucket has more than one page";
/// Refusal: the page does not belong to the table.
const FOREIGN: &str =
    "the page is not a bucket of this table, which was dropped or never finished; open the table again";

/// Maximum log space of the undo of an insert, in addition to key and value: a remove with its own undo, and the end of
/// the nested action.
const TAKE_OUT_LOG_BYTES: usize = 128;
/// Maximum log space of the undo of a replace or a remove, in addition to keys and values: at most eight short records,
/// for a page that is allocated, filled and linked, and an entry that moves there.
const PUT_BACK_LOG_BYTES: usize = 512;

/// Adds an entry to a bucket page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Insert {
    pub(super) root: u64,
    pub(super) key: SmallBytes,
    pub(super) value: SmallBytes,
    /// Set while the caller has it at hand; computed again when the operation comes from the log.
    #[serde(skip)]
    pub(super) hash: Option<KeyHash>,
    /// Whether the caller holds the latch of the bucket's chain, or the table's exclusively (S2).
    #[serde(skip)]
    pub(super) chain_known: bool,
}

impl Insert {
    /// Returns the operation that replaces the value of an existing key.
    pub(super) fn replacing(&self) -> Replace {
        let (key, value) = (self.key.clone(), self.value.clone());
        Replace { root: self.root, key, value, hash: self.hash, chain_known: self.chain_known }
    }
}

impl Operation for Insert {
    const NAME: &'static str = "cedrat.hash.insert.v1";

    #[inline]
    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let hash = hash_in(page, self.root, &self.key, self.hash)?;
        let page = page.as_optimistic();
        if sound(bucket::find(&page, hash, &self.key))?.is_some() {
            return Err(Refused::new(PRESENT));
        }
        if !self.chain_known && sound(bucket::next(&page))? != 0 {
            return Err(Refused::new(CHAINED));
        }
        if !sound(bucket::has_space(&page, self.key.len(), self.value.len()))? {
            return Err(Refused::new(FULL));
        }
        Ok(Undo::derived((TAKE_OUT_LOG_BYTES + 2 * self.key.len() + self.value.len()) as u32))
    }

    #[inline]
    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let hash = match self.hash {
            Some(hash) => hash,
            None => hash_of(page, &self.key)?,
        };
        bucket::insert(page, hash, &self.key, &self.value).map_err(damaged(page))
    }

    fn derive_undo(&self, _: RecordId) -> Undo {
        Undo::logical(&TakeOut { root: self.root, key: self.key.clone() })
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        put(self.root, &self.key, &self.value)
    }
}

/// Replaces the value of a key, on the page that has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Replace {
    pub(super) root: u64,
    pub(super) key: SmallBytes,
    pub(super) value: SmallBytes,
    /// As in [`Insert`].
    #[serde(skip)]
    pub(super) hash: Option<KeyHash>,
    /// As in [`Insert`].
    #[serde(skip)]
    pub(super) chain_known: bool,
}

impl Operation for Replace {
    const NAME: &'static str = "cedrat.hash.replace.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let hash = hash_in(page, self.root, &self.key, self.hash)?;
        let Some(entry) = sound(bucket::find(page, hash, &self.key))? else { return Err(absent(page)) };
        if !self.chain_known && sound(bucket::next(page))? != 0 {
            return Err(Refused::new(CHAINED));
        }
        if !sound(bucket::has_space_instead(page, &entry, self.value.len()))? {
            return Err(Refused::new(FULL));
        }
        put_back(self.root, &self.key, page, &entry, self.value.len())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let hash = hash_of(page, &self.key)?;
        let found = bucket::find(page, hash, &self.key).map_err(damaged(page))?;
        let entry = found.ok_or(Corrupt).map_err(damaged(page))?;
        bucket::replace(page, hash, &entry, &self.key, &self.value).map_err(damaged(page))
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        put(self.root, &self.key, &self.value)
    }
}

/// Removes the entry of a key from the page that has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Remove {
    pub(super) root: u64,
    pub(super) key: SmallBytes,
    /// As in [`Insert`].
    #[serde(skip)]
    pub(super) hash: Option<KeyHash>,
    /// As in [`Insert`].
    #[serde(skip)]
    pub(super) chain_known: bool,
}

impl Operation for Remove {
    const NAME: &'static str = "cedrat.hash.remove.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let hash = hash_in(page, self.root, &self.key, self.hash)?;
        let Some(entry) = sound(bucket::find(page, hash, &self.key))? else { return Err(absent(page)) };
        if !self.chain_known && sound(bucket::next(page))? != 0 {
            return Err(Refused::new(CHAINED));
        }
        put_back(self.root, &self.key, page, &entry, 0)
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let hash = hash_of(page, &self.key)?;
        let found = bucket::find(page, hash, &self.key).map_err(damaged(page))?;
        let entry = found.ok_or(Corrupt).map_err(damaged(page))?;
        bucket::remove(page, &entry).map_err(damaged(page))
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::one(Change::Remove { structure: PageId::new(self.root), key: self.key.to_vec() })
    }
}

/// Formats a page, whatever its content, as a bucket page with these entries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Fill {
    pub(super) root: u64,
    pub(super) seed: u64,
    pub(super) next: u64,
    pub(super) entries: SmallBytes,
}

impl Operation for Fill {
    const NAME: &'static str = "cedrat.hash.fill.v1";
    const FORMATS: bool = true;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(kinds::HASH_BUCKET);
        bucket::format(page, self.root, self.seed, self.next).map_err(damaged(page))?;
        packed::insert_all(page, &self.entries, self.seed).map_err(damaged(page))
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Removes the entries that a split has moved elsewhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Purge {
    pub(super) root: u64,
    /// The bucket of the page.
    pub(super) bucket: u64,
    /// Number of buckets of the table after the split.
    pub(super) buckets: u64,
}

impl Operation for Purge {
    const NAME: &'static str = "cedrat.hash.purge.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        own(page, self.root)?;
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        if !(1..=BUCKETS_MAX).contains(&self.buckets) {
            return Err(damaged(page)(Corrupt));
        }
        let (_, seed) = bucket::identity(page).map_err(damaged(page))?;
        let stays = |key: &[u8]| KeyHash::of(key, seed).bucket(self.buckets) == self.bucket;
        BytesMut::edit(page, |body| bucket::retain(body, stays)).map_err(damaged(page))
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Adds entries from the next page of the chain to a bucket page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Append {
    pub(super) root: u64,
    pub(super) entries: SmallBytes,
}

impl Operation for Append {
    const NAME: &'static str = "cedrat.hash.append.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        own(page, self.root)?;
        Ok(Undo::derived(0))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (_, seed) = bucket::identity(page).map_err(damaged(page))?;
        packed::insert_all(page, &self.entries, seed).map_err(damaged(page))
    }

    fn derive_undo(&self, _: RecordId) -> Undo {
        Undo::op(Withdraw { root: self.root, entries: self.entries.clone() })
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        let structure = PageId::new(self.root);
        meaning_of(&self.entries, |key, value| Change::Put { structure, key: key.to_vec(), value: value.to_vec() })
    }
}

/// Removes the entries that [`Append`] added, before any other transaction has seen them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Withdraw {
    pub(super) root: u64,
    pub(super) entries: SmallBytes,
}

impl Operation for Withdraw {
    const NAME: &'static str = "cedrat.hash.withdraw.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        own(page, self.root)?;
        Ok(Undo::derived(0))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (_, seed) = bucket::identity(page).map_err(damaged(page))?;
        packed::unpack(&self.entries, |key, _| {
            let entry = bucket::find(page, KeyHash::of(key, seed), key)?.ok_or(Corrupt)?;
            bucket::remove(page, &entry)
        })
        .map_err(damaged(page))
    }

    fn derive_undo(&self, _: RecordId) -> Undo {
        Undo::op(Append { root: self.root, entries: self.entries.clone() })
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        let structure = PageId::new(self.root);
        meaning_of(&self.entries, |key, _| Change::Remove { structure, key: key.to_vec() })
    }
}

/// Sets the next page of a page's chain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Link {
    pub(super) root: u64,
    pub(super) next: u64,
}

impl Operation for Link {
    const NAME: &'static str = "cedrat.hash.link.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        own(page, self.root)?;
        Ok(Undo::op(Link { root: self.root, next: sound(bucket::next(page))? }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        bucket::set_next(page, self.next).map_err(damaged(page))
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Formats a page, whatever its content, as the root of a table with one bucket, whose regions are eighths.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) seed: u64,
    pub(super) bucket: u64,
}

impl Operation for Found {
    const NAME: &'static str = "cedrat.hash.found.v2";
    const FORMATS: bool = true;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Clear {}))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        found(page, self.seed, self.bucket, Growth::Eighths)
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// As [`Found`], for a table whose regions double: in the logs of older stores. No new record has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FoundDoubling {
    pub(super) seed: u64,
    pub(super) bucket: u64,
}

impl Operation for FoundDoubling {
    const NAME: &'static str = "cedrat.hash.found.v1";
    const FORMATS: bool = true;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Clear {}))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        found(page, self.seed, self.bucket, Growth::Doubling)
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

fn found(page: &mut PageMut<'_>, seed: u64, bucket: u64, growth: Growth) -> Result<(), Damaged> {
    page.format(kinds::HASH_ROOT);
    Header { seed, buckets: 1, live: true, growth, regions: vec![bucket] }.write(page).map_err(damaged(page))
}

/// Clears a page as if it had never been formatted: the undo of [`Found`], for a root that stays allocated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Clear {}

impl Operation for Clear {
    const NAME: &'static str = "cedrat.hash.clear.v1";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(LayoutKind::NONE);
        Ok(())
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Sets the number of buckets in use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SetBuckets {
    pub(super) buckets: u64,
}

impl Operation for SetBuckets {
    const NAME: &'static str = "cedrat.hash.set_buckets.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(SetBuckets { buckets: root_of(page)?.buckets }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        header::put_buckets(page, self.buckets).map_err(damaged(page))
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Adds a region, or (as the undo) removes the last one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AddRegion {
    /// Number of regions afterwards.
    pub(super) regions: u16,
    /// First page of the last region, if it is new.
    pub(super) first: Option<u64>,
}

impl Operation for AddRegion {
    const NAME: &'static str = "cedrat.hash.add_region.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let header = root_of(page)?;
        Ok(Undo::op(AddRegion { regions: header.regions.len() as u16, first: None }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let regions = usize::from(self.regions);
        if let Some(first) = self.first {
            header::put_region(page, regions - 1, first).map_err(damaged(page))?;
        }
        header::put_region_count(page, regions).map_err(damaged(page))
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Sets whether the table exists.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SetLive {
    pub(super) live: bool,
}

impl Operation for SetLive {
    const NAME: &'static str = "cedrat.hash.set_live.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(SetLive { live: root_of(page)?.live }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        header::put_live(page, self.live).map_err(damaged(page))
    }

    fn meaning(&self, at: RecordId) -> Meaning {
        if self.live { Meaning::Form } else { Meaning::one(Change::Drop { structure: at.page }) }
    }
}

/// Undo of an insert: removes the key from its current page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TakeOut {
    root: u64,
    key: SmallBytes,
}

impl LogicalUndo for TakeOut {
    const NAME: &'static str = "cedrat.hash.take_out.v1";
    const LOG_BYTES_MAX: u32 = (TAKE_OUT_LOG_BYTES + 2 * bucket::ENTRY_LEN_MAX) as u32;

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        RawHashTable::for_undo(txn, self.root)?.take_out(txn, &self.key)
    }
}

/// Undo of a replace or a remove: restores the value of the key, on any page with room.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PutBack {
    pub(super) root: u64,
    pub(super) key: SmallBytes,
    pub(super) value: SmallBytes,
}

impl LogicalUndo for PutBack {
    const NAME: &'static str = "cedrat.hash.put_back.v1";
    const LOG_BYTES_MAX: u32 = (PUT_BACK_LOG_BYTES + 3 * bucket::ENTRY_LEN_MAX) as u32;

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        RawHashTable::for_undo(txn, self.root)?.put_back(txn, &self.key, &self.value)
    }
}

/// Maximum log space of the undo of a creation without growth: the first region and the root page are freed, and the root page
/// changes.
pub(super) const UNDO_OF_CREATION_LOG_BYTES: u32 = 4 * 64;

/// Maximum log space of the undo of a creation for each region, and each overflow page, that the table gets later. Only the
/// transaction of the creation needs it, but a handle does not know which one that is.
pub(super) const UNDO_OF_GROWTH_LOG_BYTES: u32 = 64;

/// Undo of a creation: frees the table's pages. The space for that is reserved as the table grows (E16.1d).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Unfound {
    pub(super) root: u64,
}

impl LogicalUndo for Unfound {
    const NAME: &'static str = "cedrat.hash.unfound.v1";
    /// Room to free overflow pages in more than five hundred places, and all regions in a root page.
    const LOG_BYTES_MAX: u32 = 64 * 1024;

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        RawHashTable::for_undo(txn, self.root)?.give_back(txn)
    }
}

fn put(root: u64, key: &[u8], value: &[u8]) -> Meaning {
    Meaning::one(Change::Put { structure: PageId::new(root), key: key.to_vec(), value: value.to_vec() })
}

/// Returns a change for each packed entry.
fn meaning_of(entries: &[u8], mut change: impl FnMut(&[u8], &[u8]) -> Change) -> Meaning {
    let mut changes = Vec::new();
    let unpacked = packed::unpack(entries, |key, value| {
        changes.push(change(key, value));
        Ok(())
    });
    if unpacked.is_ok() { Meaning::Changes(changes) } else { Meaning::Raw }
}

/// Returns the undo of a change of `entry`, whose value will be `new_len` bytes long.
fn put_back(
    root: u64,
    key: &SmallBytes,
    page: &PageRef<'_>,
    entry: &bucket::Entry,
    new_len: usize,
) -> Result<Undo, Refused> {
    let value = page.slice(entry.value()..entry.value() + entry.value_len)?;
    let log_bytes = PUT_BACK_LOG_BYTES + 3 * key.len() + value.len() + 2 * new_len;
    let undo = PutBack { root, key: key.clone(), value: value.into() };
    Ok(Undo::logical_within(&undo, log_bytes as u32))
}

/// Refuses a page that is not a bucket of the table at `root`, because the pages of a dropped table may be reused.
/// Returns the seed.
#[inline]
fn own(page: &PageRef<'_>, root: u64) -> Result<u64, Refused> {
    let (of, seed) = sound(bucket::identity(page))?;
    if of == root && page.kind() == kinds::HASH_BUCKET { Ok(seed) } else { Err(Refused::new(FOREIGN)) }
}

/// Returns the hash of a key in the table at `root`. `known` is what the caller knows it as: in a corrupt table, whose pages
/// differ in their seeds, it has led to the wrong bucket.
#[inline]
fn hash_in(page: &PageRef<'_>, root: u64, key: &[u8], known: Option<KeyHash>) -> Result<KeyHash, Refused> {
    let hash = KeyHash::of(key, own(page, root)?);
    if known.is_none_or(|known| known == hash) { Ok(hash) } else { Err(Refused::new(FOREIGN)) }
}

#[inline]
fn hash_of(page: &PageMut<'_>, key: &[u8]) -> Result<KeyHash, Damaged> {
    let (_, seed) = bucket::identity(page).map_err(damaged(page))?;
    Ok(KeyHash::of(key, seed))
}

fn absent(page: &PageRef<'_>) -> Refused {
    match bucket::next(page) {
        Ok(0) => Refused::new(ABSENT),
        _ => Refused::new(CHAINED),
    }
}

fn root_of(page: &PageRef<'_>) -> Result<Header, Refused> {
    if page.kind() != kinds::HASH_ROOT {
        return Err(Refused::new("the page is not the root of a hash table"));
    }
    sound(Header::read(page.body()))
}

#[inline]
fn sound<T>(read: Result<T, Corrupt>) -> Result<T, Refused> {
    read.map_err(|_| Refused::new("the page's bytes are corrupt; check the store and restore the page from a copy"))
}

#[inline]
fn damaged(page: &PageMut<'_>) -> impl Fn(Corrupt) -> Damaged + use<> {
    let id = page.id();
    move |_| Damaged::in_body(id, 0, "a hash table's page is not what its operation left")
}

#[cfg(test)]
mod tests {
    use cedrat_pages::{PageBuf, PageId};
    use cedrat_wal::Lsn;

    use super::*;

    /// A log record with a valid checksum contains the number; the page stays unchanged.
    #[test]
    fn purge_with_impossible_bucket_count_is_damage() {
        let mut page = PageBuf::new(PageId::new(9));
        let fill = Fill { root: 3, seed: 7, next: 0, entries: SmallBytes::new() };
        page.change(Lsn::new(1), |page| fill.redo(page, Slot(0))).unwrap();
        let (key, value) = (SmallBytes::from(&b"key"[..]), SmallBytes::from(&b"value"[..]));
        let insert = Insert { root: 3, key, value, hash: None, chain_known: true };
        page.change(Lsn::new(2), |page| insert.redo(page, Slot(0))).unwrap();
        for buckets in [0, u64::MAX] {
            let purge = Purge { root: 3, bucket: 0, buckets };
            page.change(Lsn::new(3), |page| purge.redo(page, Slot(0))).unwrap_err();
        }
        let purge = Purge { root: 3, bucket: 0, buckets: 1 };
        page.change(Lsn::new(4), |page| purge.redo(page, Slot(0))).unwrap();
        assert_eq!(bucket::count(&page.page_ref()), Ok(1));
    }
}
