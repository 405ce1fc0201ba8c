//! A hash table of bytes: creating, opening and looking up.

use cedrat_pages::{OptimisticPage, PageId, PageRef};
use cedrat_sync::{Arc, planted};
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{Error, LogicalUndo, Opening, RecordId, Result, SmallBytes, Store, Txn, Undo};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bucket::{self, ENTRY_LEN_MAX, Entry, KeyHash};
use super::ops::{Fill, Found, UNDO_OF_CREATION_LOG_BYTES, Unfound};
use super::resident::{self, Resident};
use crate::bytes::Corrupt;
use crate::error::{StructureError, damaged, root_page};

/// Number of lookup attempts without a latch before one is taken.
const TRIES_WITHOUT_LATCH: usize = 4;

/// Maximum length of a chain that is followed, in pages: a longer one must be a cycle.
pub(super) const CHAIN_PAGES_MAX: usize = 1 << 20;

/// Number of buckets from which the number of overflow pages is estimated.
const BUCKETS_IN_SAMPLE: u64 = 64;

/// A transactional linear hash table of keys and values of any bytes (Lemon §6, the default form).
///
/// A handle; any number of them, on any threads, may refer to one table. Keys are locked for the transaction
/// (`Resource::Key`), the table with an intention (`Resource::Structure`). The table's latch is held shared over the
/// change of one bucket, which may include reading its pages from disk, and exclusively while buckets split: a split
/// waits for such a read, or is postponed. Lookups hold no latch.
#[derive(Clone, Debug)]
pub struct RawHashTable {
    pub(super) root: PageId,
    pub(super) seed: u64,
    pub(super) opening: Opening,
    pub(super) resident: Arc<Resident>,
}

impl RawHashTable {
    /// Creates an empty table. It can be found again only by its [`root`](RawHashTable::root), which the
    /// [catalogue](crate::Catalogue), for example, can store.
    ///
    /// # Errors
    /// Those of any change: a full log or disk, a stopped store.
    pub fn create(txn: &mut Txn) -> Result<RawHashTable> {
        let root = txn.nested((), |txn| {
            let root = txn.allocate()?;
            RawHashTable::found(txn, root)?;
            let undo = Unfound { root: root.get() };
            let reserved = match planted!("growth_reserved_at_creation") {
                true => Unfound::LOG_BYTES_MAX,
                false => UNDO_OF_CREATION_LOG_BYTES,
            };
            Ok((root, Undo::logical_within(&undo, reserved)))
        })?;
        RawHashTable::open(txn.store(), root)
    }

    /// Creates a table whose root is a page that the caller has allocated: the catalogue's.
    pub(crate) fn create_at(txn: &mut Txn, root: PageId) -> Result<()> {
        txn.nested((), |txn| {
            RawHashTable::found(txn, root)?;
            Ok(((), Undo::none()))
        })
    }

    fn found(txn: &mut Txn, root: PageId) -> Result<()> {
        let first = txn.allocate_region(1)?;
        // Different for each table and each store, and the same in every run of a simulation.
        let seed = xxh3_64_with_seed(&txn.store().log().control().store, root.get() ^ txn.id().0 << 32).max(1);
        let fill = Fill { root: root.get(), seed, next: 0, entries: SmallBytes::new() };
        txn.update_latched(RecordId::page(first), &fill)?;
        txn.update_latched(RecordId::page(root), &Found { seed, bucket: first.get() })
    }

    /// Opens the table with this root page.
    ///
    /// # Errors
    /// [`StructureError::WrongRoot`] if the page is not the root of a live hash table.
    pub fn open(store: &Store, root: PageId) -> Result<RawHashTable> {
        let resident = RawHashTable::resident(store, root)?;
        let (mut header, is_known) = {
            let _shape = resident.latch.shared();
            let header = resident::read(store, &*store.read(root)?)?;
            let is_known = resident.is_copy_of(&header);
            (header, is_known)
        };
        if !is_known {
            // Since the copy was made, a drop of the table was rolled back, or another table has got its root page.
            let _shape = resident.latch.exclusive();
            header = resident::read(store, &*store.read(root)?)?;
            resident.set(&header);
        }
        if !header.live {
            return Err(StructureError::WrongRoot { page: root, expected: "a live hash table" }.into());
        }
        Ok(RawHashTable { root, seed: header.seed, opening: store.opening(), resident })
    }

    /// Opens the table for undo, whether it exists or was dropped.
    pub(super) fn for_undo(txn: &Txn, root: u64) -> Result<RawHashTable> {
        let store = txn.store();
        let root = PageId::new(root);
        let resident = RawHashTable::resident(store, root)?;
        let seed = resident::read(store, &*store.read(root)?)?.seed;
        Ok(RawHashTable { root, seed, opening: store.opening(), resident })
    }

    fn resident(store: &Store, root: PageId) -> Result<Arc<Resident>> {
        store.resident_with_upkeep(root, || Resident::load(store, &*root_page(store, root, resident::TABLE)?))
    }

    /// Returns the root page, which identifies the table.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on the key; damage; a stopped store.
    pub fn get(&self, txn: &mut Txn, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(txn, key, <[u8]>::to_vec)
    }

    /// Returns the result of `look` for the value of `key`; it is called at most once, under no latch.
    ///
    /// # Errors
    /// As [`get`](RawHashTable::get).
    #[inline]
    pub fn get_with<R>(&self, txn: &mut Txn, key: &[u8], look: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_locked(txn, key, LockMode::Shared, look)
    }

    /// As [`get_with`](RawHashTable::get_with), with the lock that a change of the key will need: otherwise two
    /// transactions that both read before they change would wait for each other.
    ///
    /// # Errors
    /// As [`get`](RawHashTable::get).
    #[inline]
    pub fn get_for_change<R>(&self, txn: &mut Txn, key: &[u8], look: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_locked(txn, key, LockMode::Exclusive, look)
    }

    #[inline]
    fn get_locked<R>(
        &self,
        txn: &mut Txn,
        key: &[u8],
        mode: LockMode,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let hash = KeyHash::of(key, self.seed);
        self.lock_key(txn, hash, mode)?;
        let mut value = Copied::new();
        for _ in 0..TRIES_WITHOUT_LATCH {
            let Some(stamp) = self.resident.latch.stamp() else { break };
            self.check_alive(txn)?;
            let found = self.find(txn, hash, key, &mut value, || self.resident.latch.is_unchanged_since(stamp))?;
            if let Some(found) = found {
                return Ok(found.then(|| look(value.bytes())));
            }
        }
        let shape = self.resident.latch.shared();
        self.check_alive(txn)?;
        let found = self.find(txn, hash, key, &mut value, || true)?.unwrap_or(false);
        drop(shape);
        Ok(found.then(|| look(value.bytes())))
    }

    /// Finds `key` and copies its value. Returns `None` if the table's shape no longer `holds`, so the data read is
    /// invalid (E12.2).
    #[inline]
    fn find(
        &self,
        txn: &Txn,
        hash: KeyHash,
        key: &[u8],
        value: &mut Copied,
        holds: impl Fn() -> bool,
    ) -> Result<Option<bool>> {
        let whose = (self.root.get(), self.seed);
        let mut page = self.resident.page_for(hash);
        for _ in 0..CHAIN_PAGES_MAX {
            let seen = txn.optimistic(page, |page| look_in(&page, whose, hash, key, value).ok())?;
            if !holds() {
                return Ok(None);
            }
            match seen {
                Seen::Here => return Ok(Some(true)),
                Seen::Elsewhere(0) => return Ok(Some(false)),
                Seen::Elsewhere(next) => page = PageId::new(next),
                Seen::Foreign => {
                    return Err(damaged(txn.store(), page, "the page is not a bucket of the table that names it"));
                }
            }
        }
        Err(damaged(txn.store(), page, "the pages of a bucket form a cycle"))
    }

    /// Whether `key` is in the table.
    ///
    /// # Errors
    /// As [`get`](RawHashTable::get).
    pub fn contains(&self, txn: &mut Txn, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(txn, key, |_| ())?.is_some())
    }

    /// Refuses a handle whose table was dropped (S5). The latch is held, or the stamp is checked afterwards.
    #[inline]
    pub(super) fn check_alive(&self, txn: &Txn) -> Result<()> {
        if self.resident.identity() == self.seed { Ok(()) } else { self.check_root(txn) }
    }

    /// Checks the root page after the copy shows a dropped table: the drop may have been rolled back since.
    #[cold]
    fn check_root(&self, txn: &Txn) -> Result<()> {
        let gone = StructureError::Gone { root: self.root };
        match resident::read(txn.store(), &*txn.store().read(self.root)?) {
            Ok(header) if header.live && header.seed == self.seed => Ok(()),
            _ if planted!("dropped_table_used") => Ok(()),
            _ => Err(gone.into()),
        }
    }

    #[inline]
    pub(super) fn lock_key(&self, txn: &mut Txn, hash: KeyHash, mode: LockMode) -> Result<()> {
        let intention = match mode {
            LockMode::Exclusive => LockMode::IntentionExclusive,
            _ => LockMode::IntentionShared,
        };
        txn.store().check_opening(self.opening)?; // S7
        txn.lock(Resource::Structure(self.root), intention)?;
        txn.lock(Resource::Key { structure: self.root, hash: hash.0 }, mode)
    }

    /// Returns the pages of a bucket, first to last. The latch is held.
    pub(super) fn chain(&self, txn: &Txn, bucket: u64) -> Result<Vec<PageId>> {
        self.chain_seen(txn, bucket, |_, _| Ok(()))
    }

    /// As [`chain`](RawHashTable::chain); calls `see` with every page, under the page's latch.
    pub(super) fn chain_seen(
        &self,
        txn: &Txn,
        bucket: u64,
        mut see: impl FnMut(PageId, &PageRef<'_>) -> Result<(), Corrupt>,
    ) -> Result<Vec<PageId>> {
        let mut pages = vec![self.resident.page_of(bucket)];
        loop {
            let last = *pages.last().expect("it begins with one");
            let next = self.look(txn, last, |page| {
                see(last, page)?;
                bucket::next(page)
            })?;
            if next == 0 {
                return Ok(pages);
            }
            if pages.len() == CHAIN_PAGES_MAX {
                return Err(damaged(txn.store(), last, "the pages of a bucket form a cycle"));
            }
            pages.push(PageId::new(next));
        }
    }

    /// Returns the number of the table's overflow pages: counted since the table was opened, and at first estimated from
    /// some of the buckets. The latch is held.
    pub(super) fn overflow_pages(&self, txn: &Txn) -> Result<u64> {
        if let Some(pages) = self.resident.overflow_pages() {
            return Ok(pages);
        }
        let buckets = self.resident.buckets();
        let sample = buckets.min(BUCKETS_IN_SAMPLE);
        let mut overflow = 0;
        for n in 0..sample {
            // Evenly spread, since the buckets that were split have fewer.
            overflow += self.chain(txn, n * buckets / sample)?.len() as u64 - 1;
        }
        let pages = overflow * buckets / sample;
        self.resident.set_overflow_pages(pages);
        Ok(pages)
    }

    /// Returns the result of `look` for a page of this table, under the page's latch.
    pub(super) fn look<R>(
        &self,
        txn: &Txn,
        page: PageId,
        look: impl FnOnce(&PageRef<'_>) -> Result<R, Corrupt>,
    ) -> Result<R> {
        let view = txn.read_latched(page)?;
        let ours =
            view.kind() == crate::kinds::HASH_BUCKET && bucket::identity(&*view) == Ok((self.root.get(), self.seed));
        if !ours {
            return Err(damaged(txn.store(), page, "the page is not a bucket of the table that names it"));
        }
        look(&view).map_err(|_| damaged(txn.store(), page, "an entry of a bucket page is invalid"))
    }
}

/// Refuses entries that could never fit on a page.
pub(super) fn check_len(key: &[u8], value: &[u8]) -> Result<()> {
    let given = (key.len() + value.len()) as u64;
    if given > ENTRY_LEN_MAX as u64 {
        let what = "the entry of a hash table, key and value together,";
        return Err(Error::TooLarge { what, given, limit: ENTRY_LEN_MAX as u64 });
    }
    Ok(())
}

/// The result of a lookup on one page of a bucket.
enum Seen {
    /// The page has the key; its value was copied.
    Here,
    /// The page does not have the key; the next page is this, zero for none.
    Elsewhere(u64),
    /// The page does not belong to the table.
    Foreign,
}

#[inline]
fn look_in(
    page: &OptimisticPage<'_>,
    whose: (u64, u64),
    hash: KeyHash,
    key: &[u8],
    value: &mut Copied,
) -> Result<Seen, Corrupt> {
    let identity = bucket::identity(page)?;
    if identity != whose && !(planted!("other_seed_not_noticed") && identity.0 == whose.0) {
        return Ok(Seen::Foreign);
    }
    match bucket::find(page, hash, key)? {
        Some(entry) => {
            value.copy(page, &entry)?;
            Ok(Seen::Here)
        }
        None => Ok(Seen::Elsewhere(bucket::next(page)?)),
    }
}

/// A value copied from a page: short ones need no allocation.
struct Copied {
    short: [u8; 64],
    long: Vec<u8>,
    len: usize,
}

impl Copied {
    fn new() -> Copied {
        Copied { short: [0; 64], long: Vec::new(), len: 0 }
    }

    #[inline]
    fn copy(&mut self, page: &OptimisticPage<'_>, entry: &Entry) -> Result<(), Corrupt> {
        self.len = entry.value_len;
        let into = if self.len <= self.short.len() {
            &mut self.short[..self.len]
        } else {
            self.long.resize(self.len, 0);
            &mut self.long[..]
        };
        page.copy_to(entry.value(), into).ok_or(Corrupt)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.len <= self.short.len() { &self.short[..self.len] } else { &self.long }
    }
}

#[cfg(test)]
mod tests {
    use cedrat_media::SimDisk;
    use cedrat_txn::{Options, Registry, SetRange};

    use super::super::ops::AddRegion;
    use super::*;
    use crate::Catalogue;

    /// The root page has a valid checksum, and names pages that no file has.
    #[test]
    fn region_beyond_all_pages_is_damage() {
        let registry = Registry::new().with(crate::register);
        for first in [u64::MAX, u64::MAX - 1, 1 << 52, 1 << 30] {
            let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), registry.clone()).unwrap();
            let table = store
                .transact(|txn| {
                    let table = RawHashTable::create(txn)?;
                    (0..200_u64).try_for_each(|key| table.put(txn, &key.to_le_bytes(), &[1; 200]).map(drop))?;
                    Ok(table)
                })
                .unwrap();
            let mut txn = store.begin();
            let regions = table.resident.region_count() as u16;
            let wrong = AddRegion { regions, first: Some(first) };
            txn.update(RecordId::page(table.root), &wrong).unwrap();
            table.resident.set(&resident::read(&store, &store.read(table.root).unwrap()).unwrap());
            assert!(!table.check(&txn).unwrap().is_sound());
            assert!(table.iter(&mut txn).unwrap().any(|pair| pair.is_err()));
            let mut gets = (0..200_u64).map(|key| table.get(&mut txn, &key.to_le_bytes()));
            assert!(gets.any(|value| value.is_err()));
            drop(gets);
            assert!(table.clone().drop(&mut txn).is_err());
        }
    }

    /// The root page has a valid checksum, and another seed than the buckets: no key counts as absent, none gets lost.
    #[test]
    fn root_of_another_seed_is_damage() {
        let disk = Arc::new(SimDisk::new());
        let registry = Registry::new().with(crate::register);
        let store = Store::open(disk.clone(), Options::simulated(), registry.clone()).unwrap();
        let table = store
            .transact(|txn| {
                let table = RawHashTable::create(txn)?;
                (0..50_u64).try_for_each(|key| table.put(txn, &key.to_le_bytes(), &[1; 200]).map(drop))?;
                let seed = (table.seed ^ 1).to_le_bytes()[..].into();
                txn.update(RecordId::page(table.root), &SetRange { offset: 0, bytes: seed })?;
                Ok(table)
            })
            .unwrap();
        store.close().unwrap();
        let store = Store::open(disk, Options::simulated(), registry).unwrap();
        let table = RawHashTable::open(&store, table.root).unwrap();
        let mut txn = store.begin();
        for key in 0..100_u64 {
            let key = key.to_le_bytes();
            assert!(table.get(&mut txn, &key).is_err());
            assert!(table.put(&mut txn, &key, b"new").is_err());
            assert!(table.remove(&mut txn, &key).is_err());
        }
        assert!(!table.check(&txn).unwrap().is_sound());
    }

    /// Splits, folds, inserts and removals keep the number; an opening estimates it.
    #[test]
    fn overflow_pages_are_counted_then_estimated() {
        let disk = Arc::new(SimDisk::new());
        let registry = Registry::new().with(crate::register);
        let options = || Options { locks: Arc::new(cedrat_txn::NoLocks), ..Options::simulated() };
        let store = Store::open(disk.clone(), options(), registry.clone()).unwrap();
        let table = store.transact(RawHashTable::create).unwrap();
        for some in (0..3000_u64).collect::<Vec<_>>().chunks(50) {
            store
                .transact(|txn| {
                    for &key in some {
                        table.put(txn, &key.to_le_bytes(), &[1; 500])?;
                        table.remove(txn, &(key / 2).to_le_bytes())?;
                    }
                    Ok(())
                })
                .unwrap();
            store.checkpoint().unwrap();
        }
        let counted = |table: &RawHashTable, txn: &Txn| -> u64 {
            let chains = (0..table.resident.buckets()).map(|bucket| table.chain(txn, bucket).unwrap().len() as u64 - 1);
            chains.sum()
        };
        let txn = store.begin();
        let pages = counted(&table, &txn);
        assert!(pages > 50, "{pages}");
        assert_eq!(table.resident.overflow_pages(), Some(pages));

        store.log().force(store.log().current_lsn()).unwrap();
        let store = Store::open(Arc::new(SimDisk::from_image(disk.image())), options(), registry).unwrap();
        let table = RawHashTable::open(&store, table.root).unwrap();
        let txn = store.begin();
        assert_eq!(table.resident.overflow_pages(), None);
        assert_eq!(counted(&table, &txn), pages);
        let estimated = table.overflow_pages(&txn).unwrap();
        assert!(estimated.abs_diff(pages) <= pages / 3, "{estimated}, and there are {pages}");
    }

    /// Opening a table in every transaction must not disturb the lookups of others.
    #[test]
    fn reopening_known_table_disturbs_no_reader() {
        let registry = Registry::new().with(crate::register);
        let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), registry).unwrap();
        let names = Catalogue::open(&store).unwrap().table;
        let table = store.transact(RawHashTable::create).unwrap();
        for known in [&table, &names] {
            let stamp = known.resident.latch.stamp().unwrap();
            RawHashTable::open(&store, known.root).unwrap();
            Catalogue::open(&store).unwrap();
            assert!(known.resident.latch.is_unchanged_since(stamp));
        }
    }
}
