//! Walks over a whole collection: who is there, what nobody needs any more, and whether all is well.

use std::collections::BTreeMap;

use cedrat_pages::{LayoutKind, PageId};
use cedrat_structures::{Catalogue, Checked, StructureError};
use cedrat_sync::atomic::Ordering;
use cedrat_txn::locks::LockMode;
use cedrat_txn::{Error, RecordId, Refused, Result, Store, Txn, VersionedDelete};

use crate::collection::{ObjectId, Objects, Shared};
use crate::place::Identification;
use crate::record::{Header, LINK, ObjectPage, said};

/// Every record of a collection, as it is now.
pub(crate) struct Census {
    pub(crate) pages: Vec<PageId>,
    pub(crate) records: BTreeMap<RecordId, Header>,
}

impl Census {
    /// Where objects are said to lie that have moved, and who says so.
    fn forwards(&self) -> BTreeMap<RecordId, RecordId> {
        let live = self.records.iter().filter(|(_, header)| !header.is_dead());
        live.filter_map(|(&at, header)| Some((header.forward?, at))).collect()
    }

    /// Records that no object needs: dead ones, and targets to which nobody leads (`true`).
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
    /// All records. Nobody else may be changing any: the caller has a lock on the collection.
    pub(crate) fn census(&self, store: &Store) -> Result<Census> {
        // What is committed is in its page then, whoever leaves the cache meanwhile.
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
        // The caller's own changes that are not committed may be in the cache alone.
        for (&at, header) in &mut records {
            if let Some(image) = self.shared.cache.peek(at) {
                *header = Header::of(&image.bytes).map_err(Refused::from)?;
            }
        }
        Ok(Census { pages, records })
    }

    /// The pages of the collection, first to last. Others may follow while this is asked.
    ///
    /// # Errors
    /// [`StructureError::Gone`], also while the collection is being dropped; damage, with file and offset.
    pub fn pages(&self, store: &Store) -> Result<Vec<PageId>> {
        self.beside_drops(|| self.shared.places.pages(store))
    }

    /// The identities in one of the collection's pages, by slot, as the page has them: in no transaction, so some may be
    /// gone in the cache, or not be committed.
    ///
    /// # Errors
    /// [`StructureError::Gone`], also while the collection is being dropped; damage, with file and offset.
    pub fn ids_of_page(&self, store: &Store, page: PageId) -> Result<Vec<ObjectId>> {
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

    /// Has insertions go to one of the collection's pages, if there is room. They find by themselves what was removed, or rolled
    /// back, since the collection was opened; not always what others have left at the very moment, nor what was removed before.
    ///
    /// # Errors
    /// Damage, with file and offset.
    pub fn offer_room(&self, store: &Store, page: PageId) -> Result<()> {
        self.shared.places.offer(store, page)
    }

    /// Gives a page to the store, for any use, if no object is in it and nobody is about to have one there. `before` is the page
    /// before it; nothing happens where another one is, nor to the first and the last page. What the page had in dead records
    /// is purged in any case. Says whether it has gone.
    ///
    /// Should the page come back to the collection, its objects have other identities than those before.
    ///
    /// # Errors
    /// Those of any change; damage, with file and offset.
    pub fn take_out(&self, txn: &mut Txn, before: PageId, page: PageId) -> Result<bool> {
        self.lock(txn, LockMode::IntentionExclusive)?;
        self.shared.places.take_out(txn, &self.shared.cache, before, page)
    }

    /// Gives back the room of objects that were removed, and of records that objects have left, also where a crash came
    /// before that was done; insertions use it again. Returns how many records have gone.
    ///
    /// What was removed since the collection was opened is found by insertions themselves. It reads all pages, in a
    /// transaction of its own that locks the collection, so it waits for all others: not to be called by a thread that
    /// has a transaction open.
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

    /// Drops the collection, which has this name: its pages are given back. Other handles say so from then on.
    ///
    /// It reads all pages, in a transaction of its own that locks the collection, so it waits for all others: not to be
    /// called by a thread that has a transaction open.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`]; [`StructureError::WrongRoot`] if the name stands for something else;
    /// [`StructureError::Gone`]; those of any change. Nothing has happened then.
    pub fn drop(self, store: &Store, name: &str) -> Result<()> {
        self.drop_with(store, |txn| {
            let root = self.root();
            if Catalogue::open(store)?.remove(txn, name)?.root != root {
                return Err(StructureError::WrongRoot { page: root, expected: "the collection of this name" }.into());
            }
            Ok(())
        })
    }

    /// As [`drop`](Objects::drop), for a structure that keeps the collection: `work` gives back what else there is, in the same
    /// transaction, which has locked the collection.
    ///
    /// # Errors
    /// Those of `work`; as [`drop`](Objects::drop).
    pub fn drop_with(&self, store: &Store, mut work: impl FnMut(&mut Txn) -> Result<()>) -> Result<()> {
        let Shared { root, cache, drops, .. } = &*self.shared;
        let mut is_said = false;
        let dropped = store.transact(|txn| {
            // What was said before a deadlock was taken back with the rest.
            if std::mem::take(&mut is_said) {
                drops.fetch_add(1, Ordering::AcqRel);
            }
            self.lock(txn, LockMode::Exclusive)?;
            work(txn)?;
            let pages = self.census(store)?.pages;
            if !cache.clear() {
                return Err(Error::Misuse("a transaction without isolation changes the collection; end it before"));
            }
            // Before its pages say that they are nobody's: who reads without locks asks after it has looked there
            // (E19.13). And before the lock goes: who gets it next finds pages that are somebody else's.
            drops.fetch_add(1, Ordering::AcqRel);
            is_said = true;
            // One lock, on the collection, in place of one on each of its pages.
            txn.isolated(*root, |txn| {
                for page in pages {
                    // What is freed keeps its bytes for a while: they are not to name whoever has this root next (S6).
                    txn.update(RecordId::new(page, LINK), &VersionedDelete {})?;
                    txn.free(page)?;
                }
                Identification::bury(txn, *root)?;
                txn.free(*root)
            })
        });
        // Not where somebody else has dropped it before.
        if dropped.is_err() && is_said {
            drops.fetch_add(1, Ordering::AcqRel);
        }
        dropped
    }

    /// Walks the collection and verifies it. Elements are objects.
    ///
    /// It is to be called while no transaction changes the collection, and flushes it.
    ///
    /// # Errors
    /// Only what keeps it from looking. What it finds wrong is in the answer.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
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
            if let Err(damaged) = cedrat_pages::layout::Versioned::of(&view).and_then(|versioned| versioned.check()) {
                checked.problems.push(problem(page, &said(txn.store(), damaged)));
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

#[cfg(all(test, not(cedrat_shuttle)))] // threads: tests/threads.rs
mod tests {
    use cedrat_media::SimDisk;
    use cedrat_sync::Arc;
    use cedrat_txn::Registry;

    use super::*;
    use crate::Options;

    /// S5: what was seen before a drop that is taken back while it is seen, is not believed.
    #[test]
    fn who_looks_while_a_drop_is_taken_back_looks_again() {
        let registry = Registry::new().with(cedrat_structures::register).with(crate::register);
        let store = Store::open(Arc::new(SimDisk::new()), cedrat_txn::Options::simulated(), registry).unwrap();
        let objects = Objects::create(&store, "objects", Options::default()).unwrap();
        let id = store.transact(|txn| objects.insert(txn, b"there")).unwrap();
        let mut looks = 0;
        let look = || {
            looks += 1;
            if looks == 1 {
                // Its page is freed already when the drop comes to it, which is refused.
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
