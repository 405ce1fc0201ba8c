//! A collection of objects: what a program holds.

use std::ops::Range;

use cedrat_pages::{Damaged, LatchedPage, PageId};
use cedrat_structures::{Catalogue, Kind, StructureError};
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{Delta, Error, FormatFresh, Keeper, RecordId, Refused, Result, Store, Txn};
use cedrat_wal::{Lsn, TxnId};

use crate::cache::{Cache, Committed, Statistics};
use crate::changing::Back;
use crate::delta::{Alive, Dead, Forward, ObjectDelta, OnObject, Patch, PutBytes, RecordDelta, Unforward, difference};
use crate::error::ObjectError;
use crate::kept::{Image, Inverse};
use crate::place::{Identification, Places, Promise, ROOT, ends};
use crate::record::{
    self, HEADER_LEN, Header, LINK, OBJECT_LEN_MAX, ObjectPage, PLACE_LEN, capacity_for, new_record, object, said,
};

/// The identity of an object: the place that it was given when it was inserted, and keeps as long as it lives. While a
/// store is open no two objects have the same, also of those that were removed.
pub type ObjectId = RecordId;

/// What becomes of changes whose transaction does not commit (Lemon §7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UndoPolicy {
    /// What is not committed is not flushed. No undo is logged, and the cache must hold all that a transaction changes.
    #[default]
    CommittedOnly,
    /// Inverses are logged: the application's own, or the bytes that were there. Transactions may change more than the
    /// cache holds.
    Inverses,
    /// Atomicity is relaxed: a crash, or a rollback, leaves a prefix of what a transaction has done; what it has committed
    /// is durable. Its transactions are begun [without atomicity](cedrat_txn::TxnOptions::without_atomicity).
    Relaxed,
}

/// Choices for an open collection. Nothing of them is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory for objects, in bytes. Each thread that changes an object may go beyond it by that object, for moments.
    pub cache_bytes: u64,
    /// What becomes of changes that are not committed.
    pub undo: UndoPolicy,
}

impl Default for Options {
    fn default() -> Options {
        Options { cache_bytes: 64 << 20, undo: UndoPolicy::default() }
    }
}

/// What all handles of a collection share while its store is open.
pub(crate) struct Shared {
    pub(crate) root: PageId,
    identification: Identification,
    options: Options,
    pub(crate) cache: Arc<Cache>,
    pub(crate) keeper: Keeper,
    pub(crate) places: Places,
    /// How often it was said that the collection is dropped, and that this was taken back: an odd number says that it is gone.
    /// Counted under the lock on it; asked there, or before and behind what is read without ([`Objects::beside_drops`]).
    pub(crate) drops: AtomicU64,
}

/// A named collection of objects, with a cache of them (Lemon §7).
///
/// A change of an object logs what has changed, and leaves its page alone; the page is written when the object leaves the
/// cache, when a checkpoint asks for it, or by [`flush`](Objects::flush). So the page pool may be small: objects in the
/// cache have no second copy there.
///
/// Objects are bytes, at most [`OBJECT_LEN_MAX`] of them. Each is locked by itself, to the end of the transaction: many
/// read it, or one changes it.
///
/// A handle, cheap to clone; all handles of a store share one cache. Any thread may use it. It does not keep the store
/// open.
#[derive(Clone)]
pub struct Objects {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("root", &self.shared.root).field("options", &self.shared.options).finish()
    }
}

/// A place for an object that is not there yet: see [`Objects::reserve`].
#[derive(Debug)]
pub struct Reserved<'o> {
    promise: Promise<'o>,
    capacity: usize,
    txn: TxnId,
}

impl Reserved<'_> {
    /// The identity that the object will have.
    pub fn id(&self) -> ObjectId {
        self.promise.at
    }
}

/// Says which state of an object was read: two that are the same are of the same state. Of one opening of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    at: RecordId,
    lsn: Lsn,
}

/// Where an object lies.
pub(crate) struct Found {
    id: ObjectId,
    /// The record with its bytes: at its identity, or the target.
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
    /// Makes an empty collection under a name that nothing has yet, in a transaction of its own.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`]; those of any change; those of [`open`](Objects::open), if somebody drops it at once.
    pub fn create(store: &Store, name: &str, options: Options) -> Result<Objects> {
        store.transact(|txn| {
            let catalogue = Catalogue::open(store)?;
            catalogue.check_free(txn, name)?;
            let root = Objects::create_unnamed(txn)?;
            catalogue.add(txn, name, Kind::Objects, root)
        })?;
        Objects::open(store, name, options)
    }

    /// Makes an empty collection without a name, for structures that keep collections of their own; returns its root, which
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

    /// The collection of this name.
    ///
    /// While the store is open, all handles have the options of the first.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`], [`StructureError::WrongKind`]; [`Error::Misuse`] if it is open with other options.
    pub fn open(store: &Store, name: &str, options: Options) -> Result<Objects> {
        store.transact(|txn| {
            // Its name is locked until the collection is known here: who drops it waits, or was quicker (S5).
            let root = Catalogue::open(store)?.expect(txn, name, Kind::Objects)?;
            Objects::at_root(store, root, options)
        })
    }

    /// The collection of this name, made if there is none.
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
                // Somebody else has made it meanwhile, or has dropped it.
                Err(error) if is(&error, StructureError::is_about_a_name) => {}
                other => return other,
            }
        }
    }

    /// The collection with this root page, for structures that keep collections of their own.
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
            Ok(Shared { root, identification: found, options, cache, keeper, places, drops: AtomicU64::new(0) })
        })?;
        // Dropped before it was known here, it would be told to nobody (S5).
        if Identification::read(store, root)? != found {
            return Err(StructureError::Gone { root }.into());
        }
        if shared.options != options {
            return Err(Error::Misuse("the collection is open already, with other options; use the same everywhere"));
        }
        Ok(Objects { shared })
    }

    /// The page that stands for the collection.
    pub fn root(&self) -> PageId {
        self.shared.root
    }

    // ---- reading ----------------------------------------------------------------------------------------------

    /// Lets `look` see an object, which is brought into the cache if it is not there. No latch is held meanwhile.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchObject`]; [`Error::Deadlock`] from the lock on the object; damage, with file and offset.
    pub fn read<T>(&self, txn: &mut Txn, id: ObjectId, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.lock_object(txn, id, LockMode::Shared)?;
        let found = self.find(txn, id)?;
        Ok(look(found.bytes()))
    }

    /// As [`read`](Objects::read), by a transaction that is going to change the object: it is locked exclusively at once. Two
    /// that have both read it shared, and then want to change it, are a deadlock.
    ///
    /// # Errors
    /// As there.
    pub fn read_for_change<T>(&self, txn: &mut Txn, id: ObjectId, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.lock_object(txn, id, LockMode::Exclusive)?;
        let found = self.find(txn, id)?;
        Ok(look(found.bytes()))
    }

    /// Lets `look` see an object as it was committed last: without a lock, in no transaction, right beside transactions that
    /// change it. What it sees is whole (E19.13), and may not be durable yet. The answer of [`Version`] is the same exactly if
    /// the object is.
    ///
    /// The object is not brought into the cache: a program that reads so keeps it in a form of its own.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchObject`]; [`StructureError::Gone`], also while the collection is being dropped; [`Error::Misuse`]
    /// unless it was opened with [`UndoPolicy::CommittedOnly`]; damage, with file and offset.
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
            // Somebody who was in doubt is just making its changes, page by page: its home says something else soon.
            if late.is_none() || store.late_commits() != late {
                before = None;
                cedrat_sync::thread::yield_now();
                continue;
            }
            // It has moved on, or has gone, since its home was read: then that says something else by now.
            if before.replace(home.version) == Some(home.version) {
                return Err(lost(store, id));
            }
        }
    }

    /// A record as it was committed last.
    fn committed(&self, store: &Store, at: RecordId) -> Result<Option<(Image, Header)>> {
        let cache = &self.shared.cache;
        let image = match cache.committed(at) {
            Committed::Image(image) => image,
            Committed::Unborn => return Ok(None),
            Committed::InItsPage => {
                // Of an earlier opening (E9.11). Before the page is read: who rolls it back takes it out of there first.
                if store.is_in_doubt(at) {
                    return Ok(None);
                }
                let Some(found) = self.in_page(store, at, |page| store.read(page))? else { return Ok(None) };
                // It may have been inserted between the two looks.
                if matches!(cache.committed(at), Committed::Unborn) {
                    return Ok(None);
                }
                found
            }
        };
        let header = Header::of(&image.bytes).map_err(Refused::from)?;
        Ok(Some((image, header)))
    }

    /// All identities, in the order of pages and slots. The collection is locked shared to the end of the transaction.
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

    /// Adds an object. It goes to its page at once, and comes into the cache when it is asked for.
    ///
    /// Its record has room for as many bytes as it has now, rounded up; when it outgrows that, it moves.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Deadlock`]; no room; [`Error::Misuse`] with [`UndoPolicy::Relaxed`] in a transaction with
    /// atomicity.
    pub fn insert(&self, txn: &mut Txn, bytes: &[u8]) -> Result<ObjectId> {
        self.policy(txn)?;
        check_len(bytes.len())?;
        self.lock(txn, LockMode::IntentionExclusive)?;
        self.insert_record(txn, new_record(bytes, capacity_for(bytes.len()), false))
    }

    /// Chooses the place of an object of so many bytes, so that others can refer to it before it is written by
    /// [`fill`](Objects::fill). Its identity is locked to the end of the transaction. A place that is not filled is not used
    /// again while the store is open.
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

    /// Adds an object in the place that was chosen for it, by the same transaction; it has at most as many bytes as were said
    /// then.
    ///
    /// # Errors
    /// As [`insert`](Objects::insert); [`Error::Misuse`] for a longer one, or another transaction's place.
    pub fn fill(&self, txn: &mut Txn, reserved: Reserved<'_>, bytes: &[u8]) -> Result<ObjectId> {
        let Reserved { promise, capacity, txn: by } = reserved;
        if by != txn.id() || bytes.len() > capacity {
            return Err(Error::Misuse(
                "the object is longer than its place, or that was chosen by another transaction",
            ));
        }
        let Shared { places, cache, keeper, .. } = &*self.shared;
        places.keep(txn, cache, keeper, promise, new_record(bytes, capacity, false))
    }

    /// Locks an object that is about to be changed, whether it is there or not, as a change of it would.
    ///
    /// # Errors
    /// [`Error::Deadlock`].
    pub fn lock_for_change(&self, txn: &mut Txn, id: ObjectId) -> Result<()> {
        self.lock_object(txn, id, LockMode::Exclusive)
    }

    /// Locks the whole collection exclusively, if nobody else has locked anything of it, and waits for none: who is going to change
    /// very many objects then locks none of them, and others wait for it at the first that they lock. `false`: it has what it had.
    ///
    /// Not for who [prepares](Txn::prepare): what is in doubt would keep everybody from the collection.
    ///
    /// # Errors
    /// [`StructureError::Gone`]; [`Error::Misuse`] within a nested top action.
    pub fn try_lock_all(&self, txn: &mut Txn) -> Result<bool> {
        let has_all = txn.try_lock_structure(self.shared.root)?;
        self.is_there()?;
        Ok(has_all)
    }

    /// Changes an object by a delta of the application's own, which alone is logged (Lemon §7.1, `update`). With
    /// [`UndoPolicy::Inverses`] it is taken back by the bytes that it has changed.
    ///
    /// # Errors
    /// [`Error::Refused`] by the delta; [`ObjectError::NoSuchObject`], [`ObjectError::CacheFull`]; [`Error::Deadlock`],
    /// [`Error::LogFull`]; [`Error::Unregistered`]: see [`register_delta`](crate::register_delta). Nothing has happened
    /// then. [`Error::PinsLog`]: the transaction was rolled back.
    pub fn update<D: ObjectDelta>(&self, txn: &mut Txn, id: ObjectId, delta: D) -> Result<()> {
        self.change_object(txn, id, delta, |before, range| {
            let at = range.start.saturating_sub(HEADER_LEN) as u16;
            Arc::new(PutBytes { at, bytes: before[range].into() })
        })
    }

    /// As [`update`](Objects::update), with an inverse of the application's own (L075). Other policies than
    /// [`UndoPolicy::Inverses`] have no use for it.
    ///
    /// # Errors
    /// As there; [`Error::Refused`] if the inverse does not lead back.
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

    /// Gives an object other bytes, of any length. What is logged is where they differ.
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

    /// Removes an object. Its place is used again by another one after the store was opened anew.
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

    /// Moves an object to a longer record. Nobody sees that before it is committed (E19.10).
    fn grow(&self, txn: &mut Txn, found: Found, bytes: &[u8]) -> Result<()> {
        // Half as much again, so that what grows a little often does not move each time.
        let capacity = capacity_for(bytes.len().max(found.header.capacity * 3 / 2));
        let record = new_record(bytes, capacity, true);
        txn.nested_transaction(|txn| {
            let to = Forward::to(self.insert_record(txn, record)?);
            match found.home {
                None => self.change(txn, found.id, found.image, &to, |before, _| {
                    let bytes: [u8; PLACE_LEN] = before[HEADER_LEN..][..PLACE_LEN].try_into().expect("as many");
                    Arc::new(Unforward { bytes })
                }),
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

    /// Changes a record that is locked, and was found: in the cache, and in the log. `inverse` is told the record as it was,
    /// and the range that changes.
    pub(crate) fn change<D: RecordDelta, I: Delta>(
        &self,
        txn: &mut Txn,
        at: RecordId,
        mut found: Image,
        delta: &D,
        inverse: impl Fn(&[u8], Range<usize>) -> Arc<I>,
    ) -> Result<()> {
        while !self.try_change(txn, at, Some(found), |_| true, delta, &inverse)? {
            // It was let go meanwhile, or changed by somebody without isolation.
            let gone = || Refused::new(format!("the record at {at} has gone; isolate transactions by locks"));
            let (image, header) = self.record(txn, at)?.ok_or_else(gone)?;
            // It may be leaving its page just now (E19.17).
            if header.is_dead() {
                return Err(gone().into());
            }
            found = image;
        }
        Ok(())
    }

    /// As [`change`](Objects::change), if it is as `wanted`, and in the cache or `found`; `false` if not.
    pub(crate) fn try_change<D: RecordDelta, I: Delta>(
        &self,
        txn: &mut Txn,
        at: RecordId,
        found: Option<Image>,
        wanted: impl FnOnce(&[u8]) -> bool,
        delta: &D,
        inverse: &impl Fn(&[u8], Range<usize>) -> Arc<I>,
    ) -> Result<bool> {
        let Shared { cache, keeper, .. } = &*self.shared;
        let policy = self.policy(txn)?;
        let change = |txn: &Txn, back: Back, found: Option<Image>| {
            // Whoever has seen it is not told to be durable before it is.
            let wanted = |record: &[u8], version| {
                txn.saw(version);
                wanted(record)
            };
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
                txn.defer_when(keeper, at, delta, |txn| change(txn, Back::NotCounting, found))?
            }
            UndoPolicy::Relaxed => txn.defer_when(keeper, at, delta, |txn| change(txn, Back::Stays, found))?,
        };
        let Some((change, changing)) = changing else { return Ok(false) };
        changing.logged(change);
        Ok(true)
    }

    /// What holds for this transaction.
    pub(crate) fn policy(&self, txn: &Txn) -> Result<UndoPolicy> {
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

    /// Locks the collection, which is there.
    pub(crate) fn lock(&self, txn: &mut Txn, mode: LockMode) -> Result<()> {
        txn.lock(Resource::Structure(self.shared.root), mode)?;
        self.is_there()
    }

    fn is_there(&self) -> Result<()> {
        self.drops().map(drop)
    }

    /// How often a drop was taken back, twice; the collection is there.
    fn drops(&self) -> Result<u64> {
        match self.shared.drops.load(Ordering::Acquire) {
            odd if odd % 2 == 1 => Err(StructureError::Gone { root: self.shared.root }.into()),
            drops => Ok(drops),
        }
    }

    /// Looks at pages of the collection without a lock: again where a drop came in between and was taken back, since what was
    /// seen of pages that were nobody's for a moment says nothing of them (S5).
    pub(crate) fn beside_drops<T>(&self, mut look: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let drops = self.drops()?;
            let seen = look();
            if self.drops()? == drops {
                return seen;
            }
        }
    }

    /// Locks an object, which need not be there.
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

    /// A record, from the cache or from its page.
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
        // Whoever has seen it is not told to be durable before it is.
        txn.saw(image.version);
        let header = Header::of(&image.bytes).map_err(Refused::from)?;
        Ok(Some((image, header)))
    }

    /// A record as its page has it.
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

    // ---- leaving the cache ------------------------------------------------------------------------------------

    /// Writes an object to its page, as far as it may be (Lemon §7.1, `flush`): with [`UndoPolicy::CommittedOnly`] without
    /// what is not committed. It stays in the cache. Nothing is logged, and nothing is forced to the disk: the log has it.
    ///
    /// # Errors
    /// If the page cannot be read.
    pub fn flush(&self, store: &Store, id: ObjectId) -> Result<()> {
        self.records_of(id).into_iter().try_for_each(|at| self.shared.cache.flush_one(at, store))
    }

    /// As [`flush`](Objects::flush), for all objects, in the order of their pages.
    ///
    /// # Errors
    /// As there.
    pub fn flush_all(&self, store: &Store) -> Result<()> {
        self.shared.cache.flush_older(store.log().current_lsn().next(), store)
    }

    /// Flushes an object and lets it go.
    ///
    /// # Errors
    /// [`ObjectError::NotCommitted`]; as [`flush`](Objects::flush).
    pub fn evict(&self, store: &Store, id: ObjectId) -> Result<()> {
        self.records_of(id).into_iter().try_for_each(|at| self.shared.cache.evict(at, store))
    }

    /// The object's records that are in the cache.
    fn records_of(&self, id: ObjectId) -> Vec<RecordId> {
        let forward = |image: Image| Header::of(&image.bytes).ok().and_then(|header| header.forward);
        let target = self.shared.cache.peek(id).and_then(forward);
        target.into_iter().chain([id]).collect()
    }

    /// What the cache holds and has done.
    pub fn statistics(&self) -> Statistics {
        self.shared.cache.statistics()
    }
}

/// Everything that can refuse is asked first: an inverse that did not fit could not be rolled back (E6.1).
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
        Err(Refused::new("the inverse does not lead back to the object as it was before the delta").into())
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
