//! A graph: the handle that a program uses.

use crate::{Objects, Statistics, UndoPolicy};
use cedrat_pages::PageId;
use cedrat_structures::{Catalogue, Kind, Named, RawHashTable, StructureError};
use cedrat_sync::{Arc, planted};
use cedrat_txn::{Commit, Error, Result, Store, Txn, TxnOptions};

use crate::graph::branch::{InDoubtBranches, is_in_doubt};
use crate::graph::class_use::ClassNames;
use crate::graph::classes::{Classes, DEFINITION_LEN_MAX};
use crate::graph::gc::Collecting;
use crate::graph::root::Parts;
use crate::graph::word::Reference;

/// The longest name of a root, in bytes of UTF-8.
pub const ROOT_NAME_LEN_MAX: usize = 1024;

/// Options of an open graph. They are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory for changed objects, in bytes. It must hold at least all changes of one commit to existing objects.
    pub cache_bytes: u64,
    /// Whether the program has a lock table of its own: it locks each object from its change to the return of the commit that
    /// contains the change, and each object that a branch changes until the call that decides the branch has returned, in
    /// later openings too. Most commits then request no lock of an object that they change. If two commits change the same
    /// object at the same time nevertheless, its bytes are undefined.
    pub program_locks: bool,
    /// The tag of values that name a class by the upper 32 of their 56 bits: see [`Reference::value`]. A class that such a value
    /// in an object or a root names is in use, and is not dropped.
    pub class_tag: Option<u8>,
}

impl Default for Options {
    fn default() -> Options {
        Options { cache_bytes: 64 << 20, program_locks: false, class_tag: None }
    }
}

/// State that all handles of a graph share while its store is open.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) root: PageId,
    parts: Parts,
    pub(crate) objects: Objects,
    pub(crate) roots: RawHashTable,
    pub(crate) classes: Classes,
    pub(crate) collecting: Collecting,
    pub(crate) in_doubt: InDoubtBranches,
    /// As [`Options::program_locks`].
    pub(crate) program_locks: bool,
    pub(crate) class_names: ClassNames,
}

/// A named graph of objects that refer to each other.
///
/// An object is a sequence of bytes with references at its end, at most [`OBJECT_LEN_MAX`](crate::graph::OBJECT_LEN_MAX) bytes, and
/// keeps its identity. Objects change in commits, each of which is atomic, and are read without locks at the same time.
///
/// The handle is cheap to clone, may be used by any thread at the same time as others, and keeps the store open.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) store: Store,
    pub(crate) shared: Arc<Shared>,
}

impl Graph {
    /// Creates an empty graph under a free name, in a transaction of its own.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`]; those of any change; those of [`open`](Graph::open), if another thread drops it at
    /// once.
    pub fn create(store: &Store, name: &str, options: Options) -> Result<Graph> {
        store.transact(|txn| {
            let catalogue = Catalogue::open(store)?;
            catalogue.check_free(txn, name)?;
            let parts = Parts {
                objects: Objects::create_unnamed(txn)?,
                roots: RawHashTable::create(txn)?.root(),
                classes: RawHashTable::create(txn)?.root(),
                maker: txn.id().0,
            };
            let root = parts.write(txn)?;
            catalogue.add(txn, &Named { name: name.into(), kind: Kind::Graph, root, schema: 0 })
        })?;
        Graph::open(store, name, options)
    }

    /// Opens the graph of this name. While the store is open, all handles have the options of the first.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`], [`StructureError::WrongKind`]; [`Error::Misuse`] if it is open with other options;
    /// damage, with file and offset.
    pub fn open(store: &Store, name: &str, options: Options) -> Result<Graph> {
        store.transact(|txn| {
            // The name is locked until the graph is known here: a concurrent drop waits, or has happened before (S5).
            let root = Catalogue::open(store)?.expect(txn, name, Kind::Graph, 0)?;
            Graph::at_root(txn, root, options)
        })
    }

    /// Opens the graph of this name, or creates it.
    ///
    /// # Errors
    /// As [`open`](Graph::open) and [`create`](Graph::create).
    pub fn open_or_create(store: &Store, name: &str, options: Options) -> Result<Graph> {
        loop {
            match Graph::open(store, name, options) {
                Err(error) if is(&error, |why| matches!(why, StructureError::NoSuchName { .. })) => {}
                other => return other,
            }
            match Graph::create(store, name, options) {
                // Another thread has created or dropped it meanwhile.
                Err(error) if is(&error, StructureError::is_about_a_name) => {}
                other => return other,
            }
        }
    }

    /// Opens a graph whose name is locked.
    fn at_root(txn: &mut Txn, root: PageId, options: Options) -> Result<Graph> {
        let store = &txn.store().clone();
        let of_objects = crate::Options { cache_bytes: options.cache_bytes, undo: UndoPolicy::CommittedOnly };
        let parts = Parts::read(store, root)?;
        // Called each time, because it compares the options.
        let objects = Objects::at_root(store, parts.objects, of_objects)?;
        let is_meant = |shared: &Shared| shared.parts == parts;
        let shared = store.resident_of(root, is_meant, || {
            let roots = RawHashTable::open(store, parts.roots)?;
            let classes = Classes::load(txn, RawHashTable::open(store, parts.classes)?)?;
            let in_doubt = InDoubtBranches::load(store, root)?;
            let (collecting, program_locks) = (Collecting::default(), options.program_locks);
            let class_names = ClassNames { tag: options.class_tag };
            Ok(Shared { root, parts, objects, roots, classes, collecting, in_doubt, program_locks, class_names })
        })?;
        if (shared.program_locks, shared.class_names.tag) != (options.program_locks, options.class_tag) {
            return Err(Error::Misuse("the graph is open already, with other options; use the same everywhere"));
        }
        Ok(Graph { store: store.clone(), shared })
    }

    /// The store of the graph.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Begins a transaction that does not wait for transactions in doubt.
    pub(crate) fn begin(&self) -> Txn {
        self.store.begin_with(TxnOptions::default().without_waiting_for_prepared())
    }

    /// The root page of the graph.
    pub fn root_page(&self) -> PageId {
        self.shared.root
    }

    // ---- classes ----------------------------------------------------------------------------------------------

    /// Stores the definition of a class, uninterpreted bytes, and returns the number of the class. Numbers begin at 1, have
    /// no gaps, and never change.
    ///
    /// The definition is a commit of its own, durable no later than any commit that comes after it. To define a class only if
    /// the commit that needs it succeeds, use [`Changes::define_class`](crate::graph::Changes::define_class).
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond 16 MiB; those of [`commit`](Graph::commit).
    pub fn define_class(&self, definition: &[u8]) -> Result<u32> {
        let (given, limit) = (definition.len() as u64, DEFINITION_LEN_MAX as u64);
        if given > limit {
            return Err(Error::TooLarge { what: "the definition of a class", given, limit });
        }
        self.again_after_deadlocks(|| {
            // As for each commit of the graph.
            let _open = self.shared.collecting.enter();
            let mut txn = self.begin();
            let (number, new) = self.shared.classes.define_next(&mut txn, definition)?;
            txn.commit(Commit::Async)?;
            new.accept();
            Ok(number)
        })
    }

    /// The definition of a class; `None` if no class has this number, or if it was dropped.
    pub fn class(&self, number: u32) -> Option<Arc<[u8]>> {
        self.shared.classes.get(number)
    }

    /// The number of classes that were defined, dropped ones included.
    pub fn classes_len(&self) -> u32 {
        self.shared.classes.count()
    }

    /// All definitions; the first is that of class 1. `None` in place of those that were dropped.
    pub fn classes(&self) -> Vec<Option<Arc<[u8]>>> {
        self.shared.classes.all()
    }

    // ---- roots ------------------------------------------------------------------------------------------------

    /// Returns the target of a root; `None` if there is no such name.
    ///
    /// It waits for a commit that is changing the root, and not for a branch in doubt, whose change it does not show.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn root(&self, name: &str) -> Result<Option<Reference>> {
        match self.root_in(&mut self.begin(), name) {
            Err(error) if is_in_doubt(&error) => {
                let _closed = self.shared.collecting.close(&self.store)?;
                let roots = self.roots_beside_branches()?;
                Ok(roots.into_iter().find(|(other, _)| other == name).map(|(_, to)| to))
            }
            found => found,
        }
    }

    pub(crate) fn root_in(&self, txn: &mut Txn, name: &str) -> Result<Option<Reference>> {
        self.shared.roots.get_with(txn, name.as_bytes(), |word| self.root_word(word))?.transpose()
    }

    /// Returns all roots, in the order of their names.
    ///
    /// It waits for commits that are changing roots, and not for branches in doubt, whose changes it does not show.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn roots(&self) -> Result<Vec<(String, Reference)>> {
        match self.roots_in(&mut self.begin()) {
            Err(error) if is_in_doubt(&error) => {
                let _closed = self.shared.collecting.close(&self.store)?;
                self.roots_beside_branches()
            }
            roots => roots,
        }
    }

    /// Like [`roots`](Graph::roots), while the gate is held exclusively.
    pub(crate) fn roots_behind_the_gate(&self) -> Result<Vec<(String, Reference)>> {
        match self.roots_in(&mut self.begin()) {
            Err(error) if is_in_doubt(&error) => self.roots_beside_branches(),
            roots => roots,
        }
    }

    pub(crate) fn roots_in(&self, txn: &mut Txn) -> Result<Vec<(String, Reference)>> {
        let mut all = Vec::new();
        for entry in self.shared.roots.iter(txn)? {
            let (name, word) = entry?;
            let name = String::from_utf8(name).map_err(|_| self.damaged("the name of a root is not UTF-8"))?;
            all.push((name, self.root_word(&word)?));
        }
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(all)
    }

    fn root_word(&self, word: &[u8]) -> Result<Reference> {
        let word = <[u8; 8]>::try_from(word).map_err(|_| self.damaged("a root is no word"))?;
        Ok(Reference::from_word(u64::from_le_bytes(word)))
    }

    fn damaged(&self, what: &'static str) -> Error {
        let page = self.shared.roots.root();
        self.store.pool().damaged(cedrat_pages::Damaged::in_body(page, 0, what)).into()
    }

    // ---- the whole --------------------------------------------------------------------------------------------

    /// Statistics of the cache.
    pub fn statistics(&self) -> Statistics {
        self.shared.objects.statistics()
    }

    /// Writes committed changes to their pages, as checkpoints do.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub fn flush(&self) -> Result<()> {
        self.shared.objects.flush_all(&self.store)
    }

    /// Drops the graph of this name: its pages are freed. Other handles return an error from then on.
    ///
    /// The call reads all pages, and waits for all commits.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`]; [`StructureError::WrongRoot`] if the name belongs to something else;
    /// [`StructureError::Gone`]; those of any change. Nothing was changed then.
    pub fn drop(self, name: &str) -> Result<()> {
        let Shared { root, objects, roots, classes, .. } = &*self.shared;
        objects.drop_with(&self.store, |txn| {
            if Catalogue::open(&self.store)?.remove(txn, name)?.root != *root {
                return Err(StructureError::WrongRoot { page: *root, expected: "the graph of this name" }.into());
            }
            let is_last = !planted!("roots_dropped_first");
            if !is_last {
                roots.clone().drop(txn)?;
            }
            // Before the roots are locked: a garbage collection waits for that lock with the gate closed, where the owner of any
            // lock that is needed here may wait (E21.5f).
            Parts::bury(txn, *root)?;
            classes.table.clone().drop(txn)?;
            if is_last {
                roots.clone().drop(txn)?;
            }
            Ok(())
        })
    }
}

fn is(error: &Error, what: impl FnOnce(&StructureError) -> bool) -> bool {
    StructureError::of(error).is_some_and(what)
}
