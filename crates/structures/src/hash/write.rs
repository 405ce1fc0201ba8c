//! Inserting and removing: the fast path on one page, and the slow path when the bucket must grow first.

use cedrat_pages::{PageId, PoolError};
use cedrat_sync::planted;
use cedrat_txn::locks::LockMode;
use cedrat_txn::{Error, Operation, RecordId, Result, SmallBytes, Txn, Undo};

use super::bucket::{self, KeyHash};
use super::ops::{
    ABSENT, Append, CHAINED, FULL, Fill, Insert, Link, PRESENT, PutBack, Remove, UNDO_OF_GROWTH_LOG_BYTES, Withdraw,
};
use super::packed::Packed;
use super::resident::Shrinking;
use super::table::{RawHashTable, check_len};
use crate::bytes::Corrupt;

/// Number of buckets to split at the split pointer for an insert that finds its page full, if the table should grow.
///
/// Halfway between two powers of two, the buckets that were split are half as full as the others: the table takes most
/// pages then. So it grows fast from one power of two to the next, and stays there long ([`OverflowLimit`]).
const SPLITS_FOR_A_FULL_PAGE: u64 = 4;

/// Number of entries from which on a page is seldom full by chance.
const FEW_ENTRIES: usize = 8;

/// The number of overflow pages up to which a table is not given another region, in sixteenths of the number of buckets.
///
/// Buckets whose region exists already are used without regard to it: their pages are allocated.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverflowLimit {
    /// While the number of buckets is a power of two, so that all are equally full.
    even: u64,
    /// Between two powers of two.
    uneven: u64,
}

impl OverflowLimit {
    /// For entries of which [`FEW_ENTRIES`] or more fit on a page.
    const SHORT: OverflowLimit = OverflowLimit { even: 10, uneven: 2 };

    /// For longer entries. The numbers of them in buckets of one width differ much: with few overflow pages, most buckets
    /// would have nearly no entry.
    const LONG: OverflowLimit = OverflowLimit { even: 14, uneven: 10 };

    /// For entries of which two do not fit on a page.
    const WHOLE_PAGE: OverflowLimit = OverflowLimit { even: 16, uneven: 13 };

    fn for_entry(key: &[u8], value: &[u8]) -> OverflowLimit {
        OverflowLimit::for_len(bucket::entry_len(key.len(), value.len()))
    }

    /// Returns the limit for entries of this length, without their slots.
    pub(super) fn for_len(len: usize) -> OverflowLimit {
        let fit = |count| bucket::space_taken(count, count * len) <= bucket::SPACE;
        if fit(FEW_ENTRIES) {
            OverflowLimit::SHORT
        } else if fit(2) {
            OverflowLimit::LONG
        } else {
            OverflowLimit::WHOLE_PAGE
        }
    }

    /// Returns the maximum number of overflow pages of a table with so many buckets.
    pub(super) fn pages(self, buckets: u64) -> u64 {
        buckets * if buckets.is_power_of_two() { self.even } else { self.uneven } / 16
    }
}

/// Number of buckets split at once if the latch is free; threads that come meanwhile wait a tenth of a millisecond.
const SPLITS_AT_ONCE: u64 = 4;

/// Number of postponed splits from which on a thread waits for the exclusive latch: a table that is in constant use
/// must grow too.
///
/// The wait is expensive, not the splits. With many threads on few processors the last holder of the latch may not run
/// before all other threads have blocked; so the wait is postponed, and then many buckets split at once.
const SPLITS_OWED_MAX: u64 = 64;

/// Number of buckets split at once after such a wait.
const SPLITS_AFTER_WAIT: u64 = 16;

/// The result of an operation on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Full,
    Present,
    Absent,
    Chained,
}

/// The pages of a bucket, and those among them where an entry could go.
struct Places {
    chain: Vec<PageId>,
    /// The page that has the entry's key.
    with_key: Option<PageId>,
    /// The first page with room for the entry.
    with_space: Option<PageId>,
}

impl RawHashTable {
    /// Sets the value of `key`. Returns whether it had one before.
    ///
    /// On a page with room this is one log record.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond [`ENTRY_LEN_MAX`](super::ENTRY_LEN_MAX) bytes; [`Error::Deadlock`] from the lock on
    /// the key; a full log or disk; a stopped store. The table is unchanged, though buckets may have been split.
    pub fn put(&self, txn: &mut Txn, key: &[u8], value: &[u8]) -> Result<bool> {
        check_len(key, value)?;
        let hash = KeyHash::of(key, self.seed);
        self.lock_key(txn, hash, LockMode::Exclusive)?;
        if self.resident.splits_owed() > 0 {
            self.split_what_is_owed(txn, OverflowLimit::for_entry(key, value))?;
        }
        let mut insert = Insert {
            root: self.root.get(),
            key: key.into(),
            value: value.into(),
            hash: Some(hash),
            chain_known: false,
        };
        {
            let _shape = self.resident.latch.shared();
            self.check_alive(txn)?;
            let page = self.resident.page_for(hash);
            match attempt(txn, page, &insert)? {
                Outcome::Done => return Ok(false),
                Outcome::Present => {
                    if attempt(txn, page, &insert.replacing())? == Outcome::Done {
                        self.resident.note_thinned();
                        return Ok(true);
                    }
                }
                Outcome::Full => self.resident.owe_splits(self.splits_for(txn, OverflowLimit::for_entry(key, value))?),
                Outcome::Chained | Outcome::Absent => {}
            }
        }
        insert.chain_known = true;
        let limit = OverflowLimit::for_entry(key, value);
        self.split_what_is_owed(txn, limit)?;
        {
            let _shape = self.resident.latch.shared();
            self.check_alive(txn)?;
            if let Some(was_there) = self.put_under_chain_latch(txn, &insert, hash)? {
                return Ok(was_there);
            }
        }
        let _shape = self.resident.latch.exclusive();
        self.check_alive(txn)?;
        let splits = self.splits_for(txn, limit)?;
        self.put_anywhere(txn, &insert, hash, splits)
    }

    /// Splits buckets as long as splits are postponed and the latch is free. The caller holds no latch.
    ///
    /// If there is no room for a split, or the table has grown enough, the other postponed splits are cancelled: the
    /// table does without them, and existing entries can still be changed.
    fn split_what_is_owed(&self, txn: &mut Txn, limit: OverflowLimit) -> Result<()> {
        loop {
            let (shape, at_once) = match self.resident.splits_owed() {
                0 => return Ok(()),
                SPLITS_OWED_MAX.. => (self.resident.latch.exclusive_unless_closed(), SPLITS_AFTER_WAIT),
                _ => (self.resident.latch.try_exclusive(), SPLITS_AT_ONCE),
            };
            if shape.is_none() {
                return Ok(());
            }
            self.check_alive(txn)?;
            for _ in 0..at_once {
                if self.resident.splits_owed() == 0 {
                    break; // other threads may have done it while this one waited
                }
                if !self.should_grow(txn, limit)? {
                    self.resident.splits_done(u64::MAX);
                    break;
                }
                match self.split(txn) {
                    Ok(true) => self.resident.splits_done(1),
                    Ok(false) => self.resident.splits_done(u64::MAX),
                    Err(error) if lacks_space(&error) => self.resident.splits_done(u64::MAX),
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Inserts into a bucket, and adds a page after its first if necessary. The table's latch is held shared. Returns
    /// `None` if the key exists and its new value does not fit on its page.
    fn put_under_chain_latch(&self, txn: &mut Txn, insert: &Insert, hash: KeyHash) -> Result<Option<bool>> {
        let bucket = hash.bucket(self.resident.buckets());
        let _chain = self.resident.chain_latch(bucket).exclusive();
        loop {
            let places = self.places(txn, bucket, insert, hash)?;
            if let Some(was_there) = self.put_in_chain(txn, &places, insert)? {
                return Ok(Some(was_there));
            }
            if places.with_key.is_some() {
                return Ok(None);
            }
            if places.with_space.is_some() {
                continue; // another thread has changed the bucket's only page meanwhile (S2)
            }
            self.add_overflow(txn, places.chain[0])?;
            let grows_slowly = places.chain.len() > 1 || self.resident.splits_owed() > 0;
            if grows_slowly && !txn.is_undoing() {
                // The chain has more than one page too many, or splits are pending. An undo reads no other bucket for
                // that: it must not fail for a damaged page of one.
                let splits = self.splits_for(txn, OverflowLimit::for_entry(&insert.key, &insert.value))?;
                self.resident.owe_more_splits(splits);
            }
        }
    }

    /// Inserts under the exclusive latch, with as many splits and pages as necessary.
    pub(super) fn put_anywhere(&self, txn: &mut Txn, insert: &Insert, hash: KeyHash, mut splits: u64) -> Result<bool> {
        loop {
            let places = self.places(txn, hash.bucket(self.resident.buckets()), insert, hash)?;
            if let Some(was_there) = self.put_in_chain(txn, &places, insert)? {
                return Ok(was_there);
            }
            if let Some(page) = places.with_key
                && self.replace_elsewhere(txn, &places.chain, page, insert, hash)?
            {
                return Ok(true);
            }
            let grows = splits > 0 && self.should_grow(txn, OverflowLimit::for_entry(&insert.key, &insert.value))?;
            if grows && self.split(txn)? {
                splits -= 1;
            } else {
                self.add_overflow(txn, places.chain[0])?;
            }
        }
    }

    /// Returns the number of buckets to split for an entry that finds its page full. The latch is held.
    fn splits_for(&self, txn: &Txn, limit: OverflowLimit) -> Result<u64> {
        Ok(if self.should_grow(txn, limit)? { SPLITS_FOR_A_FULL_PAGE } else { 0 })
    }

    /// Whether the table should get another bucket. The latch is held.
    fn should_grow(&self, txn: &Txn, limit: OverflowLimit) -> Result<bool> {
        let resident = &self.resident;
        if let Shrinking::Merging { overflow_max, .. } = resident.shrinking() {
            if planted!("merging_table_grows") {
                return Ok(self.overflow_pages(txn)? > limit.pages(resident.buckets()));
            }
            // Otherwise a load that fills single pages would split buckets as fast as they merge (S10c).
            if self.overflow_pages(txn)? <= overflow_max {
                return Ok(false);
            }
            resident.set_shrinking(Shrinking::Not);
        }
        Ok(resident.has_free_bucket() || self.overflow_pages(txn)? > limit.pages(resident.buckets()))
    }

    /// Returns the pages of a bucket, and those among them where an entry could go.
    fn places(&self, txn: &Txn, bucket: u64, insert: &Insert, hash: KeyHash) -> Result<Places> {
        let (mut with_key, mut with_space) = (None, None);
        let chain = self.chain_seen(txn, bucket, |at, page| {
            if with_key.is_none() && bucket::find(page, hash, &insert.key)?.is_some() {
                with_key = Some(at);
            }
            if with_space.is_none() && bucket::has_space(page, insert.key.len(), insert.value.len())? {
                with_space = Some(at);
            }
            Ok(())
        })?;
        Ok(Places { chain, with_key, with_space })
    }

    /// Replaces the entry of the key on its page, or inserts it into the first of these pages, all of its bucket's,
    /// that has room. Returns whether it existed before; `None` if there is no room.
    fn put_in_chain(&self, txn: &mut Txn, places: &Places, insert: &Insert) -> Result<Option<bool>> {
        if let Some(page) = places.with_key {
            return Ok((attempt(txn, page, &insert.replacing())? == Outcome::Done).then_some(true));
        }
        let Some(page) = places.with_space else { return Ok(None) };
        Ok((attempt(txn, page, insert)? == Outcome::Done).then_some(false))
    }

    /// Moves an entry whose new value does not fit on its page to another page of the bucket, if one has room.
    ///
    /// Two pages change, so it is a nested top action. Its steps carry physical undo, because the latch that a logical
    /// undo would take is held (S3).
    fn replace_elsewhere(
        &self,
        txn: &mut Txn,
        chain: &[PageId],
        from: PageId,
        insert: &Insert,
        hash: KeyHash,
    ) -> Result<bool> {
        let (key, value) = (&insert.key, &insert.value);
        let mut to = None;
        for &page in chain {
            if page != from && self.look(txn, page, |page| bucket::has_space(page, key.len(), value.len()))? {
                to = Some(page);
                break;
            }
        }
        let Some(to) = to else { return Ok(false) };
        let old = self.look(txn, from, |page| {
            let entry = bucket::find(page, hash, key)?.ok_or(Corrupt)?;
            page.slice(entry.value()..entry.value() + entry.value_len).map(SmallBytes::from).map_err(|_| Corrupt)
        })?;
        txn.nested((), |txn| {
            let root = insert.root;
            let withdraw = Withdraw { root, entries: Packed::one(key, &old).into_bytes().into() };
            txn.update_latched(RecordId::page(from), &withdraw)?;
            let append = Append { root, entries: Packed::one(key, value).into_bytes().into() };
            txn.update_latched(RecordId::page(to), &append)?;
            Ok((true, Undo::logical(&PutBack { root, key: key.clone(), value: old })))
        })
    }

    /// Adds an empty page after the first one of a bucket. The latch is held exclusively, or shared together with the
    /// chain's: a reader sees the same entries with or without the new page (S3).
    fn add_overflow(&self, txn: &mut Txn, first: PageId) -> Result<()> {
        let next = self.look(txn, first, |page| bucket::next(page))?;
        let root = self.root.get();
        let add = |txn: &mut Txn| {
            let page = txn.allocate()?;
            let fill = Fill { root, seed: self.seed, next, entries: SmallBytes::new() };
            txn.update_latched(RecordId::page(page), &fill)?;
            txn.update_latched(RecordId::page(first), &Link { root, next: page.get() })
        };
        if planted!("added_page_is_undone") {
            add(txn)?;
        } else {
            txn.nested((), |txn| add(txn).map(|_| ((), Undo::none_with_space(UNDO_OF_GROWTH_LOG_BYTES))))?;
        }
        self.resident.overflow_changed(1);
        Ok(())
    }

    /// Returns the page of a bucket's chain that has the key.
    fn page_with(&self, txn: &Txn, chain: &[PageId], hash: KeyHash, key: &[u8]) -> Result<Option<PageId>> {
        for &page in chain {
            if self.look(txn, page, |page| bucket::find(page, hash, key))?.is_some() {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Removes `key`. Returns whether it was there.
    ///
    /// # Errors
    /// As [`put`](RawHashTable::put).
    pub fn remove(&self, txn: &mut Txn, key: &[u8]) -> Result<bool> {
        let hash = KeyHash::of(key, self.seed);
        self.lock_key(txn, hash, LockMode::Exclusive)?;
        let mut remove = Remove { root: self.root.get(), key: key.into(), hash: Some(hash), chain_known: false };
        self.resident.note_thinned();
        let page = {
            let _shape = self.resident.latch.shared();
            self.check_alive(txn)?;
            match attempt(txn, self.resident.page_for(hash), &remove)? {
                Outcome::Done => return Ok(true),
                Outcome::Absent => return Ok(false),
                Outcome::Full | Outcome::Present | Outcome::Chained => {}
            }
            remove.chain_known = true;
            let Some(page) = self.remove_from_chain(txn, &remove, hash)? else { return Ok(false) };
            let is_first = page == self.resident.page_for(hash);
            if is_first || self.look(txn, page, |page| bucket::count(page))? > 0 {
                return Ok(true);
            }
            page
        };
        let _shape = self.resident.latch.exclusive();
        self.check_alive(txn)?;
        let chain = self.chain(txn, hash.bucket(self.resident.buckets()))?;
        match self.unlink_if_empty(txn, &chain, page) {
            Err(error) if lacks_space(&error) => Ok(true), // an empty page remains; the key is removed
            unlinked => unlinked.map(|()| true),
        }
    }

    /// Removes a key from a bucket with several pages. The table's latch is held shared. Returns the page that had the
    /// key.
    fn remove_from_chain(&self, txn: &mut Txn, remove: &Remove, hash: KeyHash) -> Result<Option<PageId>> {
        let bucket = hash.bucket(self.resident.buckets());
        let _chain = self.resident.chain_latch(bucket).exclusive();
        let chain = self.chain(txn, bucket)?;
        let Some(page) = self.page_with(txn, &chain, hash, &remove.key)? else { return Ok(None) };
        Ok((attempt(txn, page, remove)? == Outcome::Done).then_some(page))
    }

    /// Frees an overflow page if it still belongs to this bucket and has no entries. The latch is held exclusively.
    fn unlink_if_empty(&self, txn: &mut Txn, chain: &[PageId], page: PageId) -> Result<()> {
        let Some(place) = chain.iter().position(|&other| other == page) else { return Ok(()) };
        let (count, next) = self.look(txn, page, |page| Ok((bucket::count(page)?, bucket::next(page)?)))?;
        if place == 0 || count > 0 {
            return Ok(());
        }
        let before = chain[place - 1];
        txn.nested((), |txn| {
            txn.update_latched(RecordId::page(before), &Link { root: self.root.get(), next })?;
            txn.free(page)?;
            Ok(((), Undo::none()))
        })?;
        self.resident.overflow_changed(-1);
        Ok(())
    }

    /// Undoes an insert: removes the key from its current page, if it exists.
    pub(super) fn take_out(&self, txn: &mut Txn, key: &[u8]) -> Result<()> {
        let hash = KeyHash::of(key, self.seed);
        let mut remove = Remove { root: self.root.get(), key: key.into(), hash: Some(hash), chain_known: false };
        let _shape = self.resident.latch.shared();
        match attempt(txn, self.resident.page_for(hash), &remove)? {
            Outcome::Done | Outcome::Absent => Ok(()),
            Outcome::Full | Outcome::Present | Outcome::Chained => {
                remove.chain_known = true;
                self.remove_from_chain(txn, &remove, hash).map(drop)
            }
        }
    }

    /// Undoes a replace or a remove: restores the value of the key, on any page with room. It splits no bucket, so its
    /// log space is bounded (E16.1).
    pub(super) fn put_back(&self, txn: &mut Txn, key: &[u8], value: &[u8]) -> Result<()> {
        let hash = KeyHash::of(key, self.seed);
        let insert =
            Insert { root: self.root.get(), key: key.into(), value: value.into(), hash: Some(hash), chain_known: true };
        {
            let _shape = self.resident.latch.shared();
            if self.put_under_chain_latch(txn, &insert, hash)?.is_some() {
                return Ok(());
            }
        }
        let _shape = self.resident.latch.exclusive();
        self.put_anywhere(txn, &insert, hash, 0)?;
        Ok(())
    }
}

/// Tries an operation on a page; a refusal by the page itself is not an error.
#[inline]
fn attempt<O: Operation>(txn: &mut Txn, page: PageId, operation: &O) -> Result<Outcome> {
    match txn.update_latched(RecordId::page(page), operation) {
        Ok(()) => Ok(Outcome::Done),
        Err(Error::Refused(refused)) => match refused.reason() {
            FULL => Ok(Outcome::Full),
            PRESENT => Ok(Outcome::Present),
            ABSENT => Ok(Outcome::Absent),
            CHAINED => Ok(Outcome::Chained),
            _ => Err(Error::Refused(refused)),
        },
        Err(error) => Err(error),
    }
}

/// Whether an error reports lack of room in the log or on the disk, and nothing worse.
pub(super) fn lacks_space(error: &Error) -> bool {
    matches!(error, Error::LogFull { .. } | Error::Pages(PoolError::Limit { .. } | PoolError::DiskFull { .. }))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use cedrat_media::{Call, Fault, Media, SimDisk};
    use cedrat_sync::Arc;
    use cedrat_txn::{NoLocks, Options, Registry, Store};

    use super::*;

    fn open(disk: &Arc<SimDisk>) -> Store {
        let media: Arc<dyn Media> = Arc::clone(disk) as Arc<dyn Media>;
        let options = Options { locks: Arc::new(NoLocks), ..Options::simulated() };
        Store::open(media, options, Registry::new().with(crate::register)).unwrap()
    }

    /// Inserts without splitting: the only page of the only bucket fills up.
    fn put(table: &RawHashTable, txn: &mut Txn, key: &[u8]) -> Result<bool> {
        let hash = KeyHash::of(key, table.seed);
        let value = vec![key[0]; 1800].into();
        let insert = Insert { root: table.root.get(), key: key.into(), value, hash: Some(hash), chain_known: true };
        let _shape = table.resident.latch.exclusive();
        table.put_anywhere(txn, &insert, hash, 0)
    }

    /// The undo of a remove needs an overflow page if other entries have taken the room, and finds one on a full disk
    /// (E16.6).
    #[test]
    fn full_disk_restores_removed_entry() {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk);
        let table = store
            .transact(|txn| {
                let table = RawHashTable::create(txn)?;
                put(&table, txn, b"first")?;
                put(&table, txn, b"second")?;
                Ok(table)
            })
            .unwrap();
        let mut txn = store.begin();
        assert!(table.remove(&mut txn, b"first").unwrap());
        store.transact(|txn| put(&table, txn, b"third")).unwrap();
        disk.inject(Fault::error(Call::Allocate, ErrorKind::StorageFull).of("pages").permanent());
        while store.transact(|txn| txn.allocate()).is_ok() {}
        txn.rollback().unwrap();
        store
            .transact(|txn| {
                for key in [&b"first"[..], b"second", b"third"] {
                    assert!(table.contains(txn, key)?, "{key:?}");
                }
                let checked = table.check(txn)?;
                assert!(checked.is_sound(), "{:?}", checked.problems);
                assert_eq!(checked.pages.len(), 3, "root, bucket, overflow page");
                Ok(())
            })
            .unwrap();
    }

    /// Otherwise a damaged page of another bucket would fail the rollback, and with it the opening.
    #[test]
    fn undo_reads_no_other_bucket() {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk);
        let (table, keys) = store
            .transact(|txn| {
                let table = RawHashTable::create(txn)?;
                while table.resident.buckets() == 1 || table.resident.has_free_bucket() {
                    let _shape = table.resident.latch.exclusive();
                    assert!(table.split(txn)?);
                }
                let is_of_first = |key: &[u8; 4]| KeyHash::of(key, table.seed).bucket(table.resident.buckets()) == 0;
                let keys: Vec<_> = (0_u32..).map(u32::to_le_bytes).filter(is_of_first).take(5).collect();
                keys[..4].iter().try_for_each(|key| put(&table, txn, key).map(drop))?;
                Ok((table, keys))
            })
            .unwrap();
        let mut txn = store.begin();
        assert!(table.remove(&mut txn, &keys[0]).unwrap());
        store.transact(|txn| put(&table, txn, &keys[4])).unwrap();
        store
            .transact(|txn| {
                let last = table.resident.page_of(table.resident.buckets() - 1);
                let foreign = Fill { root: 1, seed: 1, next: 0, entries: SmallBytes::new() };
                txn.update_latched(RecordId::page(last), &foreign)
            })
            .unwrap();
        store.log().force(store.log().current_lsn()).unwrap();
        let store = open(&Arc::new(SimDisk::from_image(disk.image())));
        assert_eq!(store.recovery().losers, 1);
        let table = RawHashTable::open(&store, table.root).unwrap();
        let mut txn = store.begin();
        assert!(keys.iter().all(|key| table.get(&mut txn, key).unwrap().is_some()));
    }

    /// Between the link to a new page and the end of its nested action, no other transaction may log on the page with
    /// the link: undoing the link after a crash would lose the entries behind it. The latch of the chain excludes them
    /// (S2).
    #[test]
    fn linked_page_changes_under_chain_latch() {
        let store = open(&Arc::new(SimDisk::new()));
        let changed = store.transact(|txn| {
            let table = RawHashTable::create(txn)?;
            for key in [b"first", b"other", b"third"] {
                put(&table, txn, key)?;
            }
            let page = table.resident.page_of(0);
            let root = table.root.get();
            let insert = |chain_known| Insert {
                root,
                key: b"first"[..].into(),
                value: b"new"[..].into(),
                hash: None,
                chain_known,
            };
            let remove = |chain_known| Remove { root, key: b"first"[..].into(), hash: None, chain_known };
            Ok([
                attempt(txn, page, &insert(false).replacing())?,
                attempt(txn, page, &remove(false))?,
                attempt(txn, page, &insert(true).replacing())?,
                attempt(txn, page, &remove(true))?,
            ])
        });
        assert_eq!(changed.unwrap(), [Outcome::Chained, Outcome::Chained, Outcome::Done, Outcome::Done]);
    }

    /// A table that cannot grow can still be changed: no particular insert depends on the postponed splits.
    #[test]
    fn full_disk_allows_changes_in_place() {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk);
        let table = store.transact(RawHashTable::create).unwrap();
        disk.inject(Fault::error(Call::Allocate, ErrorKind::StorageFull).of("pages").permanent());
        let put = |key: u32, value: u8| store.transact(|txn| table.put(txn, &key.to_le_bytes(), &[value; 1000]));
        let mut count = 0;
        while put(count, 1).is_ok() {
            count += 1;
        }
        assert!(count > 10, "{count}");
        for key in 0..count {
            assert!(put(key, 2).unwrap(), "{key} was there");
        }
        store.transact(|txn| (0..count).try_for_each(|key| table.remove(txn, &key.to_le_bytes()).map(drop))).unwrap();
        assert!(!put(0, 3).unwrap());
    }
}
