//! A collection of objects: the handle that a program uses.

use std::ops::Range;

use cedrat_pages::{Damaged, LatchedPage, PageId};
use cedrat_structures::{Catalogue, Kind, Named, StructureError};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, planted};
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::object_cache::{DeferredChanges, Delta, InDoubtRecords, Keeper, RecordLocks, UnflushedRecords};
use cedrat_txn::{Error, FormatFresh, Opening, RecordId, Refused, Result, Store, Txn};
use cedrat_wal::{Lsn, TxnId};

use crate::cache::{Cache, Committed};
use crate::changing::Back;
use crate::delta::{
    Alive, Dead, Forward, ObjectDelta, OnObject, Patch, PutBytes, RecordDelta, RemoveForward, difference,
};
use crate::error::ObjectError;
use crate::kept::{Image, Inverse};
use crate::place::{Identification, PlaceReservation, Places, ROOT, ends};
use crate::record::{
    self, HEADER_LEN, Header, LINK, OBJECT_LEN_MAX, ObjectPage, PLACE_LEN, capacity_for, new_record, object, said,
};

/// Identity of an object: the place that it gets at its insertion, and keeps as long as it lives. While a store is open no
/// two objects have the same identity, including removed ones.
pub type ObjectId = RecordId;

/// Undo of changes whose transaction does not commit (Lemon §7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UndoPolicy {
    /// Uncommitted changes are not flushed. No undo is logged, and the cache must hold all changes of a transaction.
    #[default]
    CommittedOnly,
    /// Inverses are logged: the application's own, or the previous bytes. Transactions may change more than the cache holds.
    Inverses,
    /// Atomicity is relaxed: a crash, or a rollback, leaves a prefix of a transaction's changes; committed changes are
    /// durable. Its transactions are begun [without atomicity](cedrat_txn::TxnOptions::without_atomicity).
    Relaxed,
}

/// Options of an open collection. They are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory for objects, in bytes. Each thread that changes an object may exceed it by that object, for moments.
    pub cache_bytes: u64,
    /// Undo of changes that are not committed.
    pub undo: UndoPolicy,
}

impl Default for Options {
    fn default() -> Options {
        Options { cache_bytes: 64 << 20, undo: UndoPolicy::default() }
    }
}

/// State that all handles of a collection share while its store is open.
pub(crate) struct Shared {
    pub(crate) root: PageId,
    identification: Identification,
    opening: Opening,
    options: Options,
    pub(crate) cache: Arc<Cache>,
    pub(crate) keeper: Keeper,
    pub(crate) places: Places,
    /// Number of drops plus number of drops that were undone: odd while the collection is dropped. Incremented under the lock
    /// on the collection; read under that lock, or before and after reads without it ([`Objects::beside_drops`]).
    pub(crate) drops: AtomicU64,
}

/// A named collection of objects, with a cache of them (Lemon §7).
///
/// A change of an object logs the difference, and does not touch its page; the page is written when the object leaves the
/// cache, when a checkpoint requests it, or by [`flush`](Objects::flush). So the page pool may be small: objects in the cache
/// have no second copy there.
///
/// An object is a sequence of bytes, at most [`OBJECT_LEN_MAX`] of them. Each object has a lock of its own, held to the end
/// of the transaction: shared for reads, exclusive for a change.
///
/// A handle is cheap to clone; all handles of a store share one cache, and any thread may use them. A handle does not keep
/// the store open.
#[derive(Clone)]
pub struct Objects {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("root", &self.shared.root).field("options", &self.shared.options).finish()
    }
}

/// A reserved place for a new object: see [`Objects::reserve`].
#[derive(Debug)]
pub struct Reserved<'o> {
    pub(crate) promise: PlaceReservation<'o>,
    capacity: usize,
    pub(crate) txn: TxnId,
}

impl Reserved<'_> {
    /// The identity of the future object.
    pub fn id(&self) -> ObjectId {
        self.promise.at
    }

    /// Longest object in this place, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }
}

/// State of an object that was read: equal versions mean equal states. Valid in one opening of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    at: RecordId,
    lsn: Lsn,
}

/// Location of an object.
pub(crate) struct Found {
    id: ObjectId,
    /// The record with its bytes: at its identity, or the target of a forward.
    pub(crate) at: RecordId,
    pub(crate) image: Image,
    header: Header,
    /// The record at its identity, if that is another one.
    home: Option<Image>,
}

impl Found {
    pub(crate) fn bytes(&self) -> &[u8] {
        object(&self.image.bytes, &self.header)
    }
}

impl Objects {
    /// Creates an empty collection under a free name, in a transaction of its own.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`]; those of any change; those of [`open`](Objects::open), if another thread drops it at
    /// once.
    pub fn create(store: &Store, name: &str, options: Options) -> Result<Objects> {
        store.transact(|txn| {
            let catalogue = Catalogue::open(store)?;
            catalogue.check_free(txn, name)?;
            let root = Objects::create_unnamed(txn)?;
            catalogue.add(txn, &Named { name: name.into(), kind: Kind::Objects, root, schema: 0 })
        })?;
        Objects::open(store, name, options)
    }

    /// Creates an empty collection without a name, for structures that contain collections; returns its root, which
    /// [`at_root`](Objects::at_root) takes once the transaction is committed.
    ///
    /// # Errors
    /// Those of any change.
    pub fn create_unnamed(txn: &mut Txn) -> Result<PageId> {
        let root = txn.allocate()?;
        txn.update(RecordId::page(root), &FormatFresh::new(ROOT))?;
        Identification::write(txn, root)?;
        Ok(root)
    }

    /// Opens the collection of this name.
    ///
    /// While the store is open, all handles have the options of the first.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`], [`StructureError::WrongKind`]; [`Error::Misuse`] if it is open with other options.
    pub fn open(store: &Store, name: &str, options: Options) -> Result<Objects> {
        store.transact(|txn| {
            // The name is locked until the collection is known here: a concurrent drop waits, or has happened before (S5).
            let root = Catalogue::open(store)?.expect(txn, name, Kind::Objects, 0)?;
            Objects::at_root(store, root, options)
        })
    }

    /// Opens the collection of this name, or creates it.
    ///
    /// # Errors
    /// As [`open`](Objects::open) and [`create`](Objects::create).
    pub fn open_or_create(store: &Store, name: &str, options: Options) -> Result<Objects> {
        loop {
            match Objects::open(store, name, options) {
                Err(error) if is(&error, |why| matches!(why, StructureError::NoSuchName { .. })) => {}
                other => return other,
            }
            match Objects::create(store, name, options) {
                // Another thread has created or dropped it meanwhile.
                Err(error) if is(&error, StructureError::is_about_a_name) => {}
                other => return other,
            }
        }
    }

    /// Opens the collection with this root page, for structures that contain collections.
    ///
    /// # Errors
    /// [`StructureError::Gone`] if it was dropped; [`Error::Misuse`] if it is open with other options; damage, if no collection
    /// begins there.
    pub fn at_root(store: &Store, root: PageId, options: Options) -> Result<Objects> {
        let found = Identification::read(store, root)?;
        let is_meant = |shared: &Shared| shared.identification == found;
        let shared = store.resident_of(root, is_meant, || {
            let cache = Arc::new(Cache::new(options.cache_bytes));
            let keeper = store.keep_log_for(Arc::<Cache>::clone(&cache));
            let places = Places::new(root, ends(store, root)?);
            let opening = store.opening();
            Ok(Shared {
                root,
                identification: found,
                opening,
                options,
                cache,
                keeper,
                places,
                drops: AtomicU64::new(0),
            })
        })?;
        // A drop before the collection was known here did not reach this handle (S5).
        if Identification::read(store, root)? != found {
            return Err(StructureError::Gone { root }.into());
        }
        if shared.options != options {
            return Err(Error::Misuse("the collection is open already, with other options; use the same everywhere"));
        }
        Ok(Objects { shared })
    }

    /// Refuses another store, or another opening: the cache belongs to this one (S7).
    #[inline]
    pub(crate) fn check_opening(&self, store: &Store) -> Result<()> {
        store.check_opening(self.shared.opening)
    }

    /// The root page of the collection.
    pub fn root(&self) -> PageId {
        self.shared.root
    }

    // ---- reading ----------------------------------------------------------------------------------------------

    /// Calls `look` with an object, which is loaded into the cache if necessary. No latch is held meanwhile.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchObject`]; [`Error::Deadlock`] from the lock on the object; damage, with file and offset.
    pub fn read<T>(&self, txn: &mut Txn, id: ObjectId, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.lock_object(txn, id, LockMode::Shared)?;
        let found = self.find(txn, id)?;
        Ok(look(found.bytes()))
    }

    /// Like [`read`](Objects::read), for a transaction that is going to change the object: it is locked exclusively at once.
    /// Two transactions that have both read it shared, and then change it, cause a deadlock.
    ///
    /// # Errors
    /// Errors of [`read`](Objects::read).
    pub fn read_for_change<T>(&self, txn: &mut Txn, id: ObjectId, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.lock_object(txn, id, LockMode::Exclusive)?;
        let found = self.find(txn, id)?;
        Ok(look(found.bytes()))
    }

    /// Calls `look` with an object as it was committed last: without a lock and without a transaction, while transactions
    /// change it. The state is consistent, and may not be durable yet. Two calls return the same [`Version`] exactly
    /// if the object has not changed.
    ///
    /// The object is not loaded into the cache: a program that reads this way keeps it in a form of its own.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchObject`]; [`StructureError::Gone`], also while the collection is being dropped; [`Error::Misuse`]
    /// unless it was opened with [`UndoPolicy::CommittedOnly`]; [`Error::InDoubt`] if a transaction that prepared in an earlier
    /// opening, with [`UndoPolicy::Inverses`], has changed the object; [`Error::Stopped`]; damage, with file and offset.
    pub fn read_committed<T>(
        &self,
        store: &Store,
        id: ObjectId,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<(T, Version)> {
        if self.shared.options.undo != UndoPolicy::CommittedOnly {
            return Err(Error::Misuse(
                "only of objects whose changes count if committed is there always a committed state; open the collection with \
                 UndoPolicy::CommittedOnly",
            ));
        }
        self.check_opening(store)?;
        let none = || Error::from(ObjectError::NoSuchObject { id });
        let mut before = None;
        loop {
            let late = store.late_commits();
            let (home, header) = self.beside_drops(|| self.committed(store, id))?.ok_or_else(none)?;
            if header.is_dead() || header.is_target() {
                return Err(none());
            }
            let Some(at) = header.forward else {
                let version = Version { at: id, lsn: home.version };
                return Ok((look(object(&home.bytes, &header)), version));
            };
            let target = self.beside_drops(|| self.committed(store, at))?;
            if let Some((image, header)) = target
                && header.is_target()
                && !header.is_dead()
            {
                let version = Version { at, lsn: image.version };
                return Ok((look(object(&image.bytes, &header)), version));
            }
            // The rest of the changes of a branch may be missing then.
            if let Some(stopped) = store.log().stopped() {
                return Err(stopped.into());
            }
            // A transaction in doubt is making its changes page by page: the home record changes soon.
            if late.is_none() || store.late_commits() != late {
                before = None;
                cedrat_sync::thread::yield_now();
                continue;
            }
            // The object has moved again, or was removed, since its home was read: then the home has changed by now.
            if before.replace(home.version) == Some(home.version) {
                return Err(lost(store, id));
            }
        }
    }

    /// Returns a record as it was committed last.
    fn committed(&self, store: &Store, at: RecordId) -> Result<Option<(Image, Header)>> {
        let cache = &self.shared.cache;
        // Of an earlier opening (E9.11). Checked before the page is read: a rollback removes the record from the page first. The
        // cache may have it as the page does, if a transaction has requested the place and found no object there.
        if store.is_in_doubt(at) {
            return Ok(None);
        }
        store.check_committed(at)?;
        let image = match cache.committed(at) {
            Committed::Image(image) => image,
            Committed::Unborn => return Ok(None),
            Committed::InItsPage => {
                let Some(found) = self.in_page(store, at, |page| store.read(page))? else { return Ok(None) };
                // It may have been inserted between the two checks.
                if matches!(cache.committed(at), Committed::Unborn) {
                    return Ok(None);
                }
                found
            }
        };
        let header = Header::of(&image.bytes).map_err(Refused::from)?;
        Ok(Some((image, header)))
    }

    /// Returns all identities, in the order of pages and slots. The collection is locked shared to the end of the
    /// transaction.
    ///
    /// # Errors
    /// [`Error::Deadlock`]; damage.
    pub fn ids(&self, txn: &mut Txn) -> Result<Vec<ObjectId>> {
        self.lock(txn, LockMode::Shared)?;
        let census = self.census(txn.store())?;
        let is_object = |header: &Header| !header.is_dead() && !header.is_target();
        Ok(census.records.into_iter().filter(|(_, header)| is_object(header)).map(|(at, _)| at).collect())
    }

    // ---- changing ---------------------------------------------------------------------------------------------

    /// Adds an object. It is written to its page at once, and loaded into the cache on demand.
    ///
    /// Its record has the capacity for its current length, rounded up; an object that outgrows its record moves.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Deadlock`]; a full log or disk; [`Error::Misuse`] with [`UndoPolicy::Relaxed`] in a
    /// transaction with atomicity.
    pub fn insert(&self, txn: &mut Txn, bytes: &[u8]) -> Result<ObjectId> {
        self.policy(txn)?;
        check_len(bytes.len())?;
        self.lock(txn, LockMode::IntentionExclusive)?;
        self.insert_record(txn, new_record(bytes, capacity_for(bytes.len()), false))
    }

    /// Chooses the place of an object of `len` bytes, so that others can refer to it before [`fill`](Objects::fill) writes
    /// it. Its identity is locked to the end of the transaction. A place that is not filled is not used again while the store
    /// is open.
    ///
    /// # Errors
    /// As [`insert`](Objects::insert).
    pub fn reserve(&self, txn: &mut Txn, len: usize) -> Result<Reserved<'_>> {
        self.policy(txn)?;
        check_len(len)?;
        self.lock(txn, LockMode::IntentionExclusive)?;
        let Shared { places, cache, .. } = &*self.shared;
        let capacity = capacity_for(len);
        let promise = places.promise(txn, cache, HEADER_LEN + capacity)?;
        Ok(Reserved { promise, capacity, txn: txn.id() })
    }

    /// Adds an object in the place that the same transaction has reserved for it; it has at most as many bytes as were
    /// reserved.
    ///
    /// # Errors
    /// As [`insert`](Objects::insert); [`Error::Misuse`] for a longer one, or another transaction's place.
    pub fn fill(&self, txn: &mut Txn, reserved: Reserved<'_>, bytes: &[u8]) -> Result<ObjectId> {
        self.check_opening(txn.store())?;
        let owner = reserved.owner();
        let Reserved { promise, capacity, .. } = reserved;
        if owner != self.owner(txn) || bytes.len() > capacity {
            return Err(Error::Misuse(
                "the object is longer than its place, or that was reserved in another collection or by another transaction",
            ));
        }
        let Shared { places, cache, keeper, .. } = &*self.shared;
        places.keep(txn, cache, keeper, promise, new_record(bytes, capacity, false))
    }

    /// Locks an object for a change, whether it exists or not, like the change itself.
    ///
    /// # Errors
    /// [`Error::Deadlock`].
    pub fn lock_for_change(&self, txn: &mut Txn, id: ObjectId) -> Result<()> {
        self.lock_object(txn, id, LockMode::Exclusive)
    }

    /// Locks objects as [`lock_for_change`](Objects::lock_for_change) does, in this order; the collection only once.
    ///
    /// # Errors
    /// [`Error::Deadlock`].
    pub fn lock_all_for_change(&self, txn: &mut Txn, ids: impl IntoIterator<Item = ObjectId>) -> Result<()> {
        self.check_opening(txn.store())?;
        txn.lock_records(self.shared.root, ids)?;
        self.is_there()
    }

    /// Locks the whole collection exclusively, if no other transaction has locked anything of it; does not wait. A
    /// transaction that changes very many objects then locks none of them, and others wait at the first object that they
    /// lock. Returns `false` if the locks are unchanged.
    ///
    /// Not for a transaction that [prepares](Txn::prepare): in doubt, it would block all other users of the collection.
    ///
    /// # Errors
    /// [`StructureError::Gone`]; [`Error::Misuse`] within a nested top action.
    pub fn try_lock_all(&self, txn: &mut Txn) -> Result<bool> {
        self.check_opening(txn.store())?;
        let has_all = txn.try_lock_structure(self.shared.root)?;
        self.is_there()?;
        Ok(has_all)
    }

    /// Changes an object by a delta of the application's own; only the delta is logged (Lemon §7.1, `update`). With
    /// [`UndoPolicy::Inverses`] the undo restores the bytes that it has changed.
    ///
    /// # Errors
    /// [`Error::Refused`] by the delta; [`ObjectError::NoSuchObject`], [`ObjectError::CacheFull`]; [`Error::Deadlock`],
    /// [`Error::LogFull`]; [`Error::Unregistered`]: see [`register_delta`](crate::register_delta). Nothing was changed then.
    /// [`Error::PinsLog`]: the transaction was rolled back.
    pub fn update<D: ObjectDelta>(&self, txn: &mut Txn, id: ObjectId, delta: D) -> Result<()> {
        self.change_object(txn, id, delta, |before, range| {
            let at = range.start.saturating_sub(HEADER_LEN) as u16;
            Arc::new(PutBytes { at, bytes: before[range].into() })
        })
    }

    /// Like [`update`](Objects::update), with an inverse of the application's own. Policies other than
    /// [`UndoPolicy::Inverses`] do not use it.
    ///
    /// # Errors
    /// Errors of [`update`](Objects::update); [`Error::Refused`] if the inverse does not lead back.
    pub fn update_with<D: ObjectDelta, I: ObjectDelta>(
        &self,
        txn: &mut Txn,
        id: ObjectId,
        delta: D,
        inverse: I,
    ) -> Result<()> {
        let inverse = Arc::new(OnObject(inverse));
        self.change_object(txn, id, delta, |_, _| Arc::clone(&inverse))
    }

    fn change_object<D: ObjectDelta, I: Delta>(
        &self,
        txn: &mut Txn,
        id: ObjectId,
        delta: D,
        inverse: impl Fn(&[u8], Range<usize>) -> Arc<I>,
    ) -> Result<()> {
        let delta = OnObject(delta);
        self.lock_object(txn, id, LockMode::Exclusive)?;
        // As a rule it is in the cache, and has not moved.
        if self.try_change(txn, id, None, record::is_plain, &delta, &inverse)? {
            return Ok(());
        }
        let found = self.find(txn, id)?;
        self.change(txn, found.at, found.image, &delta, inverse)
    }

    /// Replaces the bytes of an object, with any length. Only the difference is logged.
    ///
    /// # Errors
    /// As [`update`](Objects::update), and as [`insert`](Objects::insert) if the object grows.
    pub fn put(&self, txn: &mut Txn, id: ObjectId, bytes: &[u8]) -> Result<()> {
        check_len(bytes.len())?;
        self.lock_object(txn, id, LockMode::Exclusive)?;
        let found = self.find(txn, id)?;
        self.put_found(txn, found, bytes)
    }

    pub(crate) fn put_found(&self, txn: &mut Txn, found: Found, bytes: &[u8]) -> Result<()> {
        if bytes.len() > found.header.capacity {
            return self.grow(txn, found, bytes);
        }
        let (there, back) = (Patch::between(found.bytes(), bytes), Patch::between(bytes, found.bytes()));
        let (at, image) = (found.at, found.image);
        match (there, back) {
            (Some(Patch::PutBytes(put)), Some(Patch::PutBytes(back))) => {
                let back = Arc::new(back);
                self.change(txn, at, image, &put, |_, _| Arc::clone(&back))
            }
            (Some(Patch::Resize(resize)), Some(Patch::Resize(back))) => {
                let back = Arc::new(back);
                self.change(txn, at, image, &resize, |_, _| Arc::clone(&back))
            }
            _ => Ok(()),
        }
    }

    /// Removes an object. Its place is used again after the store was reopened.
    ///
    /// # Errors
    /// As [`update`](Objects::update).
    pub fn remove(&self, txn: &mut Txn, id: ObjectId) -> Result<()> {
        self.lock_object(txn, id, LockMode::Exclusive)?;
        let found = self.find(txn, id)?;
        match found.home {
            None => self.die(txn, found.at, found.image),
            Some(home) => txn.nested_transaction(|txn| {
                self.die(txn, found.id, home)?;
                self.die(txn, found.at, found.image)
            }),
        }
    }

    fn die(&self, txn: &mut Txn, at: RecordId, image: Image) -> Result<()> {
        self.change(txn, at, image, &Dead {}, |_, _| Arc::new(Alive {}))
    }

    /// Moves an object to a longer record. No reader sees that before it is committed (E19.10).
    fn grow(&self, txn: &mut Txn, found: Found, bytes: &[u8]) -> Result<()> {
        // Half as much again, so that an object that often grows a little does not move each time.
        let capacity = capacity_for(bytes.len().max(found.header.capacity * 3 / 2));
        let record = new_record(bytes, capacity, true);
        txn.nested_transaction(|txn| {
            let to = Forward::to(self.insert_record(txn, record)?);
            match found.home {
                None => self.change(txn, found.id, found.image, &to, |before, _| {
                    let bytes: [u8; PLACE_LEN] = before[HEADER_LEN..][..PLACE_LEN].try_into().expect("as many");
                    Arc::new(RemoveForward { bytes })
                }),
                Some(_) if planted!("second_record_refers_to_third") => {
                    self.change(txn, found.at, found.image, &to, |_, _| Arc::new(Forward::to(found.at)))
                }
                Some(home) => {
                    self.change(txn, found.id, home, &to, |_, _| Arc::new(Forward::to(found.at)))?;
                    self.die(txn, found.at, found.image)
                }
            }
        })
    }

    fn insert_record(&self, txn: &mut Txn, record: Vec<u8>) -> Result<RecordId> {
        let Shared { places, cache, keeper, .. } = &*self.shared;
        places.insert(txn, cache, keeper, record)
    }

    /// Changes a record that is locked, and was found: in the cache, and in the log. `inverse` gets the record as it was, and
    /// the range that changes.
    pub(crate) fn change<D: RecordDelta, I: Delta>(
        &self,
        txn: &mut Txn,
        at: RecordId,
        mut found: Image,
        delta: &D,
        inverse: impl Fn(&[u8], Range<usize>) -> Arc<I>,
    ) -> Result<()> {
        while !self.try_change(txn, at, Some(found), |_| true, delta, &inverse)? {
            // It was evicted meanwhile, or changed by a transaction without isolation.
            let gone = || {
                Refused::new(format!(
                    "the record at {at} was removed by another transaction; isolate transactions by locks"
                ))
            };
            let (image, header) = self.record(txn, at)?.ok_or_else(gone)?;
            // It may be leaving its page now (E19.17).
            if header.is_dead() {
                return Err(gone().into());
            }
            found = image;
        }
        Ok(())
    }

    /// Like [`change`](Objects::change), if the record is as `wanted`, and in the cache or `found`; returns `false`
    /// otherwise.
    pub(crate) fn try_change<D: RecordDelta, I: Delta>(
        &self,
        txn: &mut Txn,
        at: RecordId,
        found: Option<Image>,
        wanted: impl Fn(&[u8]) -> bool,
        delta: &D,
        inverse: &impl Fn(&[u8], Range<usize>) -> Arc<I>,
    ) -> Result<bool> {
        let Shared { cache, keeper, .. } = &*self.shared;
        let policy = self.policy(txn)?;
        let change = |txn: &Txn, back: Back, found: Option<Image>| {
            // A transaction that has seen it is not acknowledged as durable before it is.
            let wanted = |record: &[u8], version| txn.note_read(version).is_ok() && wanted(record);
            cache.change(txn.id(), at, found, wanted, delta, back, txn.store())
        };
        let changing = match policy {
            UndoPolicy::Inverses => {
                let Some(found) = found else { return Ok(false) };
                let mut after = found.bytes.to_vec();
                delta.apply(&mut after)?;
                let range = difference(&found.bytes, &after);
                let bytes = range.len() as u64;
                let inverse = inverse(&found.bytes, range);
                leads_back(&*inverse, &after, &found.bytes)?;
                let back = Back::Inverse { inverse: Arc::<I>::clone(&inverse), bytes, to: found.version };
                txn.defer_inverse_when(keeper, at, delta, &*inverse, |txn| change(txn, back, Some(found)))?
            }
            UndoPolicy::CommittedOnly => {
                txn.defer_when(keeper, at, delta, |txn| change(txn, Back::CommittedOnly, found))?
            }
            UndoPolicy::Relaxed => txn.defer_when(keeper, at, delta, |txn| change(txn, Back::Stays, found))?,
        };
        let Some((change, changing)) = changing else { return Ok(false) };
        changing.logged(change);
        Ok(true)
    }

    /// Returns the undo policy for this transaction.
    pub(crate) fn policy(&self, txn: &Txn) -> Result<UndoPolicy> {
        self.check_opening(txn.store())?;
        match (self.shared.options.undo, txn.options().atomicity) {
            (_, false) => Ok(UndoPolicy::Relaxed),
            (UndoPolicy::Relaxed, true) => Err(Error::Misuse(
                "the collection was opened with UndoPolicy::Relaxed: begin its transactions with \
                 TxnOptions::default().without_atomicity()",
            )),
            (policy, true) => Ok(policy),
        }
    }

    // ---- finding ----------------------------------------------------------------------------------------------

    /// Locks the collection, and verifies that it exists.
    pub(crate) fn lock(&self, txn: &mut Txn, mode: LockMode) -> Result<()> {
        self.check_opening(txn.store())?;
        txn.lock(Resource::Structure(self.shared.root), mode)?;
        self.is_there()
    }

    fn is_there(&self) -> Result<()> {
        self.drops().map(drop)
    }

    /// Returns twice the number of drops that were undone, if the collection exists.
    fn drops(&self) -> Result<u64> {
        match self.shared.drops.load(Ordering::Acquire) {
            odd if odd % 2 == 1 => Err(StructureError::Gone { root: self.shared.root }.into()),
            drops => Ok(drops),
        }
    }

    /// Reads pages of the collection without a lock: again if a drop came in between and was undone, since what was read from
    /// pages that were free for a moment is meaningless (S5).
    pub(crate) fn beside_drops<T>(&self, mut look: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let drops = self.drops()?;
            let seen = look();
            if self.drops()? == drops {
                return seen;
            }
        }
    }

    /// Locks an object, which need not exist.
    pub(crate) fn lock_object(&self, txn: &mut Txn, id: ObjectId, mode: LockMode) -> Result<()> {
        let intention = match mode {
            LockMode::Exclusive => LockMode::IntentionExclusive,
            _ => LockMode::IntentionShared,
        };
        self.lock(txn, intention)?;
        match txn.has_whole(self.shared.root, mode) {
            true => Ok(()),
            false => txn.lock(Resource::Record(id), mode),
        }
    }

    /// Finds an object that is locked.
    pub(crate) fn find(&self, txn: &Txn, id: ObjectId) -> Result<Found> {
        let none = || ObjectError::NoSuchObject { id };
        let (image, header) = self.record(txn, id)?.ok_or_else(none)?;
        if header.is_target() || header.is_dead() {
            return Err(none().into());
        }
        let Some(at) = header.forward else { return Ok(Found { id, at: id, image, header, home: None }) };
        let home = Some(image);
        match self.record(txn, at)? {
            Some((image, header)) if header.is_target() && !header.is_dead() => {
                Ok(Found { id, at, image, header, home })
            }
            _ => Err(lost(txn.store(), id)),
        }
    }

    /// Returns a record, from the cache or from its page.
    pub(crate) fn record(&self, txn: &Txn, at: RecordId) -> Result<Option<(Image, Header)>> {
        let cache = &self.shared.cache;
        let store = txn.store();
        let image = loop {
            if let Some(image) = cache.get(at) {
                break image;
            }
            let found = self.in_page(store, at, |page| txn.read_latched(page))?;
            let Some(found) = found else { return Ok(None) };
            if let Some(image) = cache.bring(at, found, store)? {
                break image;
            }
        };
        // A transaction that has seen it is not acknowledged as durable before it is.
        txn.note_read(image.version)?;
        let header = Header::of(&image.bytes).map_err(Refused::from)?;
        Ok(Some((image, header)))
    }

    /// Returns a record as its page has it.
    fn in_page<'p>(
        &self,
        store: &Store,
        at: RecordId,
        read: impl FnOnce(PageId) -> Result<LatchedPage<'p>>,
    ) -> Result<Option<Image>> {
        if at.slot == LINK || at.page.get() >= store.pool().len_pages() {
            return Ok(None);
        }
        let view = read(at.page)?;
        let objects = ObjectPage::of(&view).map_err(|damaged| said(store, damaged))?;
        let Some(objects) = objects.filter(|objects| objects.link.root == self.shared.root) else { return Ok(None) };
        let found = objects.get(at.slot).map_err(|damaged| said(store, damaged))?;
        Ok(found.map(|found| Image { bytes: found.bytes.into(), version: found.version }))
    }
}

/// Verifies the inverse before the change: one that did not fit could not be rolled back (E6.1).
fn leads_back(inverse: &impl Inverse, after: &[u8], before: &[u8]) -> Result<()> {
    let mut back = after.to_vec();
    inverse.take_back(&mut back)?;
    let object_of = |record: &[u8]| -> Result<(Header, Vec<u8>), Refused> {
        let header = Header::of(record)?;
        Ok((header, object(record, &header).to_vec()))
    };
    if object_of(&back)? == object_of(before)? {
        Ok(())
    } else {
        Err(Refused::new("the inverse does not restore the object as it was before the delta").into())
    }
}

fn lost(store: &Store, id: ObjectId) -> Error {
    said(store, Damaged::in_body(id.page, 0, "an object of this page is not where it has moved to"))
}

pub(crate) fn check_len(len: usize) -> Result<()> {
    if len > OBJECT_LEN_MAX {
        return Err(Error::TooLarge { what: "an object", given: len as u64, limit: OBJECT_LEN_MAX as u64 });
    }
    Ok(())
}

fn is(error: &Error, what: impl FnOnce(&StructureError) -> bool) -> bool {
    StructureError::of(error).is_some_and(what)
}
