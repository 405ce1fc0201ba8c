//! Walks over a whole collection: enumeration of objects, removal of superfluous records, verification.

use std::collections::BTreeMap;

use cedrat_pages::layout::Versioned;
use cedrat_pages::{LayoutKind, PageId};
use cedrat_structures::{Catalogue, Checked, StructureError};
use cedrat_sync::atomic::Ordering;
use cedrat_txn::locks::LockMode;
use cedrat_txn::{Error, RecordId, Refused, Result, Store, Txn, VersionedDelete};

use crate::collection::{ObjectId, Objects, Shared};
use crate::place::Identification;
use crate::record::{Header, LINK, ObjectPage, said};

/// All current records of a collection.
pub(crate) struct Census {
    pub(crate) pages: Vec<PageId>,
    pub(crate) records: BTreeMap<RecordId, Header>,
}

impl Census {
    /// Returns the records that moved objects are forwarded to, each with the record that contains the forward.
    fn forwards(&self) -> BTreeMap<RecordId, RecordId> {
        let live = self.records.iter().filter(|(_, header)| !header.is_dead());
        live.filter_map(|(&at, header)| Some((header.forward?, at))).collect()
    }

    /// Returns the records that no object needs: dead ones, and targets without a forward (`true`).
    fn superfluous(&self) -> Vec<(RecordId, bool)> {
        let forwards = self.forwards();
        let is_orphan = |at: &RecordId, header: &Header| header.is_target() && !forwards.contains_key(at);
        let superfluous = |(&at, header): (&RecordId, &Header)| match header.is_dead() {
            true => Some((at, false)),
            false => is_orphan(&at, header).then_some((at, true)),
        };
        self.records.iter().filter_map(superfluous).collect()
    }
}

impl Objects {
    /// Reads all records. No other transaction may be changing any: the caller has a lock on the collection.
    pub(crate) fn census(&self, store: &Store) -> Result<Census> {
        // Committed changes are in their pages then, whatever records leave the cache meanwhile.
        self.flush_all(store)?;
        let pages = self.shared.places.pages(store)?;
        let mut records = BTreeMap::new();
        for &page in &pages {
            let view = store.read(page)?;
            let objects = ObjectPage::of(&view).map_err(|damaged| said(store, damaged))?;
            for (objects, slot) in objects.iter().flat_map(|objects| objects.slots().map(move |slot| (objects, slot))) {
                if let Some(found) = objects.get(slot).map_err(|damaged| said(store, damaged))? {
                    records.insert(RecordId::new(page, slot), found.header);
                }
            }
        }
        // Uncommitted changes of the caller may be in the cache only.
        for (&at, header) in &mut records {
            if let Some(image) = self.shared.cache.peek(at) {
                *header = Header::of(&image.bytes).map_err(Refused::from)?;
            }
        }
        Ok(Census { pages, records })
    }

    /// Returns the pages of the collection, first to last. More pages may follow while this call runs.
    ///
    /// # Errors
    /// [`StructureError::Gone`], also while the collection is being dropped; damage, with file and offset.
    pub fn pages(&self, store: &Store) -> Result<Vec<PageId>> {
        self.check_opening(store)?;
        self.beside_drops(|| self.shared.places.pages(store))
    }

    /// Returns the identities in one of the collection's pages, by slot, as the page has them. The call belongs to no
    /// transaction: some objects may be removed in the cache, or not be committed.
    ///
    /// # Errors
    /// [`StructureError::Gone`], also while the collection is being dropped; damage, with file and offset.
    pub fn ids_of_page(&self, store: &Store, page: PageId) -> Result<Vec<ObjectId>> {
        self.check_opening(store)?;
        self.beside_drops(|| self.look_for_ids(store, page))
    }

    fn look_for_ids(&self, store: &Store, page: PageId) -> Result<Vec<ObjectId>> {
        let view = store.read(page)?;
        let objects = ObjectPage::of(&view).map_err(|damaged| said(store, damaged))?;
        let Some(objects) = objects.filter(|objects| objects.link.root == self.shared.root) else {
            return Ok(Vec::new()); // of another collection
        };
        let mut ids = Vec::new();
        for slot in objects.slots() {
            let found = objects.get(slot).map_err(|damaged| said(store, damaged))?;
            if found.is_some_and(|found| !found.header.is_dead() && !found.header.is_target()) {
                ids.push(RecordId::new(page, slot));
            }
        }
        Ok(ids)
    }

    /// Offers one of the collection's pages to insertions, if it has space. Insertions find by themselves what was removed,
    /// or rolled back, since the collection was opened; they may miss a very recent removal, and one before that.
    ///
    /// # Errors
    /// Damage, with file and offset.
    pub fn offer_space(&self, store: &Store, page: PageId) -> Result<()> {
        self.check_opening(store)?;
        self.shared.places.offer(store, page)
    }

    /// Frees a page, if it contains no object and none is about to be inserted. `before` is the preceding page; nothing
    /// happens if another page precedes it, or if it is the first or the last page. The dead records of the page are purged
    /// in any case. Returns whether the page was freed.
    ///
    /// If the page comes back to the collection, its objects have new identities.
    ///
    /// # Errors
    /// Those of any change; damage, with file and offset.
    pub fn take_out(&self, txn: &mut Txn, before: PageId, page: PageId) -> Result<bool> {
        self.lock(txn, LockMode::IntentionExclusive)?;
        self.shared.places.take_out(txn, &self.shared.cache, before, page)
    }

    /// Frees the space of removed objects, and of records that objects have left, also if a crash prevented that before;
    /// insertions use it again. Returns the number of freed records.
    ///
    /// Insertions find by themselves what was removed since the collection was opened. The call reads all pages, in a
    /// transaction of its own that locks the collection, so it waits for all others: do not call it in a thread that has an
    /// open transaction.
    ///
    /// # Errors
    /// Those of any change; damage, with file and offset.
    pub fn sweep(&self, store: &Store) -> Result<u64> {
        store.transact(|txn| {
            self.lock(txn, LockMode::Exclusive)?;
            let superfluous = self.census(store)?.superfluous();
            let mut gone = 0;
            for (at, is_orphan) in superfluous {
                gone += u64::from(self.shared.places.purge_found(txn, &self.shared.cache, at, is_orphan)?);
            }
            Ok(gone)
        })
    }

    /// Drops the collection of this name: its pages are freed. Other handles return an error from then on.
    ///
    /// The call reads all pages, in a transaction of its own that locks the collection, so it waits for all others: do not
    /// call it in a thread that has an open transaction.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`]; [`StructureError::WrongRoot`] if the name belongs to something else;
    /// [`StructureError::Gone`]; those of any change. Nothing was changed then.
    pub fn drop(self, store: &Store, name: &str) -> Result<()> {
        self.drop_with(store, |txn| {
            let root = self.root();
            if Catalogue::open(store)?.remove(txn, name)?.root != root {
                return Err(StructureError::WrongRoot { page: root, expected: "the collection of this name" }.into());
            }
            Ok(())
        })
    }

    /// Like [`drop`](Objects::drop), for a structure that contains the collection: `work` frees its other parts, in the same
    /// transaction, which has locked the collection.
    ///
    /// # Errors
    /// Those of `work`; as [`drop`](Objects::drop).
    pub fn drop_with(&self, store: &Store, mut work: impl FnMut(&mut Txn) -> Result<()>) -> Result<()> {
        let Shared { root, cache, drops, .. } = &*self.shared;
        let mut is_said = false;
        let dropped = store.transact(|txn| {
            // A deadlock has undone what was recorded before.
            if std::mem::take(&mut is_said) {
                drops.fetch_add(1, Ordering::AcqRel);
            }
            self.lock(txn, LockMode::Exclusive)?;
            work(txn)?;
            let pages = self.census(store)?.pages;
            if !cache.clear() {
                return Err(Error::Misuse("a transaction without isolation changes the collection; end it before"));
            }
            // Before the pages are marked as free: a reader without locks checks the counter after it has read them (E19.13).
            // And before the lock is released: the next owner of the lock may find pages of other structures.
            drops.fetch_add(1, Ordering::AcqRel);
            is_said = true;
            // One lock, on the collection, in place of one on each of its pages.
            txn.isolated(*root, |txn| {
                for page in pages {
                    // A freed page keeps its bytes for a while: they must not refer to the next structure with this root
                    // (S6).
                    txn.update(RecordId::new(page, LINK), &VersionedDelete {})?;
                    txn.free(page)?;
                }
                Identification::bury(txn, *root)?;
                txn.free(*root)
            })
        });
        // Not if another transaction has dropped it before.
        if dropped.is_err() && is_said {
            drops.fetch_add(1, Ordering::AcqRel);
        }
        dropped
    }

    /// Verifies the collection. Elements are objects.
    ///
    /// The call flushes the collection. No transaction may change it meanwhile.
    ///
    /// # Errors
    /// Errors that prevent the verification. Problems of the collection are in the result.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        self.check_opening(txn.store())?;
        let root = self.shared.root;
        let mut checked = Checked::default();
        checked.pages.push(root);
        let problem = |page: PageId, what: &dyn std::fmt::Display| format!("page {page}: {what}");
        let census = match self.census(txn.store()) {
            Ok(census) => census,
            Err(error) => {
                checked.problems.push(problem(root, &error));
                return Ok(checked);
            }
        };
        checked.pages.extend(&census.pages);
        for &page in &census.pages {
            let view = txn.read_latched(page)?;
            debug_assert_eq!(view.kind(), LayoutKind::VERSIONED, "the census has read it");
            let looked = Versioned::of(&view).and_then(|versioned| {
                versioned.check()?;
                let mut bytes = 0;
                for record in versioned.iter() {
                    let (slot, _, record) = record?;
                    bytes += if slot == LINK { 0 } else { record.len() as u64 };
                }
                Ok(bytes)
            });
            match looked {
                Ok(bytes) => checked.bytes += bytes,
                Err(damaged) => checked.problems.push(problem(page, &said(txn.store(), damaged))),
            }
        }
        let mut reached = BTreeMap::new();
        for (&at, header) in &census.records {
            if header.is_dead() {
                continue;
            }
            checked.elements += u64::from(!header.is_target());
            let Some(to) = header.forward else { continue };
            match census.records.get(&to) {
                Some(target) if target.is_target() && !target.is_dead() => {}
                _ => checked
                    .problems
                    .push(problem(at.page, &format!("the object at {at} is not at {to}, where it moved"))),
            }
            if let Some(other) = reached.insert(to, at) {
                checked
                    .problems
                    .push(problem(to.page, &format!("the objects at {other} and {at} lie in one record, {to}")));
            }
        }
        Ok(checked)
    }
}

#[cfg(all(test, not(cedrat_shuttle)))] // threads: tests/integration/threads.rs
mod tests {
    use cedrat_media::SimDisk;
    use cedrat_sync::Arc;
    use cedrat_txn::Registry;

    use super::*;
    use crate::Options;

    /// S5: reads during a drop that is rolled back at the same time are not trusted.
    #[test]
    fn lookup_during_undone_drop_repeats() {
        let registry = Registry::new().with(cedrat_structures::register).with(crate::register);
        let store = Store::open(Arc::new(SimDisk::new()), cedrat_txn::Options::simulated(), registry).unwrap();
        let objects = Objects::create(&store, "objects", Options::default()).unwrap();
        let id = store.transact(|txn| objects.insert(txn, b"there")).unwrap();
        let mut looks = 0;
        let look = || {
            looks += 1;
            if looks == 1 {
                // The page is freed already when the drop reaches it, which is refused.
                objects.drop_with(&store, |txn| txn.free(id.page)).expect_err("a page is freed once");
                return Ok(false);
            }
            Ok(true)
        };
        assert!(objects.beside_drops(look).unwrap());
        assert_eq!(looks, 2);
        let gone = |error: Error| matches!(StructureError::of(&error), Some(StructureError::Gone { .. }));
        let look = || objects.clone().drop(&store, "objects");
        assert!(gone(objects.beside_drops(look).unwrap_err()));
        assert!(gone(objects.beside_drops(|| Ok(())).unwrap_err()));
    }
}
