//! Class definitions: uninterpreted bytes, numbered from 1 (docs/formats/graph.md).
//!
//! A definition is stored in a table in pieces, with the key (number, piece), each four bytes, big-endian. A transaction that
//! defines classes locks the table before it locks anything else of the graph: then no other one defines classes, and numbers
//! have no gaps. A dropped class leaves a tombstone in place of its definition, so its number stays taken (E21.12).

use std::collections::{BTreeMap, BTreeSet};

use cedrat_structures::{Checked, RawHashTable};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{Result, Txn};

use crate::graph::commit::in_entry;
use crate::graph::entries::{Entries, UnknownClass};
use crate::graph::error::GraphError;

/// Bytes of a definition in one entry of the table.
const PIECE_LEN: usize = 3600;

/// The longest definition, in bytes.
pub(crate) const DEFINITION_LEN_MAX: usize = 1 << 24;

/// Length of a definition in the tombstone of a dropped class.
const DROPPED: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Classes {
    pub(crate) table: RawHashTable,
    /// Locked last, for moments.
    known: Mutex<Known>,
    /// Whether a class was ever dropped, or is being dropped.
    is_any_dropped: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    /// By number; those beyond `count` belong to transactions that have not ended, or whose calls have not returned.
    definitions: BTreeMap<u32, Arc<[u8]>>,
    /// The number of definitions that are known to be committed, those of dropped classes included.
    count: u32,
    /// Dropped classes, and those that a transaction is dropping.
    dropped: BTreeSet<u32>,
}

/// Classes that a transaction is dropping. No commit uses them any more. They are in use again when this is dropped, unless the
/// transaction has committed.
#[must_use = "dropped, it restores the classes"]
#[derive(Debug)]
pub(crate) struct CondemnedClasses<'c> {
    classes: &'c Classes,
    numbers: Vec<u32>,
}

impl CondemnedClasses<'_> {
    /// Replaces the definitions by tombstones.
    pub(crate) fn bury(&self, txn: &mut Txn) -> Result<()> {
        let table = &self.classes.table;
        txn.lock(Resource::Structure(table.root()), LockMode::Exclusive)?;
        for &number in &self.numbers {
            let mut piece = 1;
            while table.contains(txn, &key(number, piece))? {
                table.remove(txn, &key(number, piece))?;
                piece += 1;
            }
            table.put(txn, &key(number, 0), &DROPPED.to_le_bytes())?;
        }
        Ok(())
    }

    /// Called when the transaction has committed.
    pub(crate) fn accept(mut self) {
        let mut known = self.classes.known.lock();
        for number in std::mem::take(&mut self.numbers) {
            known.definitions.remove(&number);
        }
    }
}

impl Drop for CondemnedClasses<'_> {
    fn drop(&mut self) {
        let mut known = self.classes.known.lock();
        self.numbers.iter().for_each(|number| _ = known.dropped.remove(number));
    }
}

/// Definitions that a transaction has written. They are forgotten when this is dropped, unless it has committed.
#[must_use = "dropped, it forgets the definitions"]
#[derive(Debug)]
pub(crate) struct NewClasses<'c> {
    classes: &'c Classes,
    definitions: Vec<(u32, Arc<[u8]>)>,
}

impl<'c> NewClasses<'c> {
    /// The empty set, of a transaction that defines no classes.
    pub(crate) fn none(classes: &'c Classes) -> NewClasses<'c> {
        NewClasses { classes, definitions: Vec::new() }
    }

    fn insert(&mut self, number: u32, definition: &[u8]) {
        let definition = Arc::<[u8]>::from(definition);
        self.classes.known.lock().definitions.insert(number, Arc::clone(&definition));
        self.definitions.push((number, definition));
    }

    /// Called when the transaction has committed: other commits may use the classes.
    pub(crate) fn accept(mut self) {
        let Some((number, _)) = self.definitions.pop() else { return };
        self.definitions.clear();
        let mut known = self.classes.known.lock();
        known.count = known.count.max(number);
    }
}

impl Drop for NewClasses<'_> {
    fn drop(&mut self) {
        for (number, definition) in &self.definitions {
            let mut known = self.classes.known.lock();
            // Its locks may have been released, and another transaction may have used the number.
            if known.definitions.get(number).is_some_and(|known| Arc::ptr_eq(known, definition)) {
                known.definitions.remove(number);
            }
        }
    }
}

impl Classes {
    pub(crate) fn load(txn: &mut Txn, table: RawHashTable) -> Result<Classes> {
        let all = read_all(txn, &table)?.map_err(|what| {
            let page = table.root();
            txn.store().pool().damaged(cedrat_pages::Damaged::in_body(page, 0, what))
        })?;
        let count = all.len() as u32;
        let (mut definitions, mut dropped) = (BTreeMap::new(), BTreeSet::new());
        for (number, definition) in (1..).zip(all) {
            match definition {
                Some(definition) => _ = definitions.insert(number, definition),
                None => _ = dropped.insert(number),
            }
        }
        let is_any_dropped = AtomicBool::new(!dropped.is_empty());
        Ok(Classes { table, known: Mutex::new(Known { definitions, count, dropped }), is_any_dropped })
    }

    pub(crate) fn count(&self) -> u32 {
        self.known.lock().count
    }

    pub(crate) fn get(&self, number: u32) -> Option<Arc<[u8]>> {
        // Also before the call of its commit returns: other threads may have read an object of the class.
        let known = self.known.lock();
        known.definitions.get(&number).filter(|_| !known.dropped.contains(&number)).cloned()
    }

    /// Returns all definitions; `None` for a dropped class.
    pub(crate) fn all(&self) -> Vec<Option<Arc<[u8]>>> {
        let known = self.known.lock();
        let definition = |number| known.definitions.get(&number).filter(|_| !known.dropped.contains(&number)).cloned();
        (1..=known.count).map(definition).collect()
    }

    /// Returns whether a class was ever dropped, or is being dropped.
    #[inline]
    pub(crate) fn is_any_dropped(&self) -> bool {
        self.is_any_dropped.load(Ordering::Acquire)
    }

    pub(crate) fn is_dropped(&self, number: u32) -> bool {
        self.is_any_dropped() && self.known.lock().dropped.contains(&number) && !planted!("dropped_class_used")
    }

    /// Lets no commit use these classes any more. The caller has verified that none does.
    pub(crate) fn condemn(&self, numbers: &[u32]) -> CondemnedClasses<'_> {
        let mut known = self.known.lock();
        let numbers = numbers.iter().copied().filter(|&number| known.dropped.insert(number)).collect();
        self.is_any_dropped.store(true, Ordering::Release);
        CondemnedClasses { classes: self, numbers }
    }

    /// Writes the definitions among these changes, and verifies that all other classes of their objects are defined. Locks the
    /// table for both, before anything else of the graph.
    pub(crate) fn define(&self, txn: &mut Txn, entries: &Entries<'_>) -> Result<NewClasses<'_>> {
        let mut new = NewClasses::none(self);
        if !entries.new_classes.is_empty() {
            txn.lock(Resource::Structure(self.table.root()), LockMode::Exclusive)?;
        }
        if let Some(unknown) = &entries.unknown_class {
            self.look_up(txn, unknown)?;
        }
        if entries.new_classes.is_empty() {
            return Ok(new);
        }
        for (next, (entry, number, definition)) in (self.next(txn)?..).zip(entries.classes()) {
            if number != next {
                return Err(in_entry(GraphError::ClassNumber { number, next }.into(), entry));
            }
            self.write(txn, number, definition).map_err(|error| in_entry(error, entry))?;
            new.insert(number, definition);
        }
        Ok(new)
    }

    /// Writes a definition under the next number, which is returned, and locks the table for it.
    pub(crate) fn define_next(&self, txn: &mut Txn, definition: &[u8]) -> Result<(u32, NewClasses<'_>)> {
        let mut new = NewClasses::none(self);
        txn.lock(Resource::Structure(self.table.root()), LockMode::Exclusive)?;
        let number = self.next(txn)?;
        self.write(txn, number, definition)?;
        new.insert(number, definition);
        Ok((number, new))
    }

    /// Looks up the class of an object in the table: a commit that has defined it may not have been accepted (E21.1d). Waits for
    /// one that is defining classes.
    fn look_up(&self, txn: &mut Txn, unknown: &UnknownClass) -> Result<()> {
        let class = unknown.class;
        txn.lock(Resource::Structure(self.table.root()), LockMode::Shared)?;
        if class > self.count() && !planted!("committed_class_unknown") && self.table.contains(txn, &key(class, 0))? {
            // Numbers have no gaps: so all smaller ones are defined as well.
            let mut known = self.known.lock();
            known.count = known.count.max(class);
        }
        let count = self.count();
        if class > count { Err(unknown.refused(count).into()) } else { Ok(()) }
    }

    /// Returns the first number that no class has. The table is locked; a commit whose locks were released just now may not have
    /// been accepted.
    fn next(&self, txn: &mut Txn) -> Result<u32> {
        let mut next = self.count() + 1;
        while self.table.contains(txn, &key(next, 0))? {
            next += 1;
        }
        Ok(next)
    }

    fn write(&self, txn: &mut Txn, number: u32, definition: &[u8]) -> Result<()> {
        let whole = [&(definition.len() as u32).to_le_bytes()[..], definition].concat();
        for (piece, bytes) in whole.chunks(PIECE_LEN).enumerate() {
            self.table.put(txn, &key(number, piece as u32), bytes)?;
        }
        Ok(())
    }

    /// Verifies the table, and adds the result to `checked`. Returns for each class whether it is defined, and was not dropped; no
    /// other is defined before the end of the transaction.
    pub(crate) fn check(&self, txn: &mut Txn, checked: &mut Checked) -> Result<Vec<bool>> {
        // Locked first, as by each commit that defines classes.
        let all = read_all(txn, &self.table)?;
        let table = self.table.check(txn)?;
        checked.pages.extend(table.pages);
        checked.problems.extend(table.problems.into_iter().map(|problem| format!("classes: {problem}")));
        Ok(match all {
            Ok(all) => all.iter().map(Option::is_some).collect(),
            Err(what) => {
                checked.problems.push(format!("page {}: classes: {what}", self.table.root()));
                self.all().iter().map(Option::is_some).collect()
            }
        })
    }
}

fn key(number: u32, piece: u32) -> [u8; 8] {
    (u64::from(number) << 32 | u64::from(piece)).to_be_bytes()
}

/// A definition, or `None` of a dropped class.
pub(crate) type Definition = Option<Arc<[u8]>>;

/// Returns all definitions, or a description of what is invalid.
fn read_all(txn: &mut Txn, table: &RawHashTable) -> Result<Result<Vec<Definition>, &'static str>> {
    let mut pieces: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for entry in table.iter(txn)? {
        let (key, piece) = entry?;
        let Ok(key) = <[u8; 8]>::try_from(&key[..]) else {
            return Ok(Err("a key has another length than eight bytes"));
        };
        pieces.insert(u64::from_be_bytes(key), piece);
    }
    Ok(put_together(&pieces))
}

pub(crate) fn put_together(pieces: &BTreeMap<u64, Vec<u8>>) -> Result<Vec<Definition>, &'static str> {
    let mut all = Vec::new();
    let mut pieces = pieces.iter().peekable();
    while let Some((&key, first)) = pieces.next() {
        if key != (all.len() as u64 + 1) << 32 {
            return Err("a definition is missing, or begins in its middle");
        }
        let Some((len, bytes)) = first.split_first_chunk() else { return Err("a definition has no length") };
        let mut whole = bytes.to_vec();
        let mut next = key + 1;
        while let Some((_, piece)) = pieces.next_if(|(key, _)| **key == next) {
            whole.extend_from_slice(piece);
            next += 1;
        }
        all.push(match u32::from_le_bytes(*len) {
            DROPPED if whole.is_empty() => None,
            DROPPED => return Err("a dropped class has a definition"),
            len if len as usize == whole.len() => Some(whole.into()),
            _ => return Err("a definition has another length than its header"),
        });
    }
    Ok(all)
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::thread;
    use cedrat_txn::locks::PageLocks;
    use cedrat_txn::{Commit, Registry, Store};

    use super::*;
    use crate::graph::{Changes, Graph, Mode, Options};

    fn graph(options: cedrat_txn::Options) -> Graph {
        let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
        let registry = Registry::new().with(cedrat_structures::register).with(crate::register);
        let store = Store::open(disk, options, registry).unwrap();
        Graph::create(&store, "graph", Options::default()).unwrap()
    }

    fn adding(class: u32) -> Changes {
        let mut changes = Changes::new();
        changes.add(class, b"an object", &[]);
        changes
    }

    fn bad_entry(error: &cedrat_txn::Error) -> Option<(usize, usize, &str)> {
        match GraphError::of(error) {
            Some(GraphError::BadEntry { entry, offset, what }) => Some((*entry, *offset, what)),
            _ => None,
        }
    }

    /// E21.1d: the call of the commit that has defined it has not returned.
    #[test]
    fn committed_class_is_used_at_once() {
        let graph = graph(cedrat_txn::Options::simulated());
        for is_branch in [false, true] {
            let before = graph.classes_len();
            let [first, last] = [before + 1, before + 2];
            let mut changes = adding(last);
            changes.define_class(first, b"first").define_class(last, b"second");
            let entries = graph.entries(changes.as_ref(), 1).unwrap();
            let mut txn = graph.begin();
            let new = graph.shared.classes.define(&mut txn, &entries).unwrap();
            txn.commit(Commit::Async).unwrap();
            assert_eq!(graph.classes_len(), before);
            if is_branch {
                drop(graph.prepare(adding(last), b"branch").expect("E21.1d"));
            } else {
                graph.commit(adding(last), Mode::Sync).expect("E21.1d");
            }
            assert_eq!(graph.classes_len(), last);
            graph.commit(adding(first), Mode::Sync).unwrap();
            new.accept();
            assert_eq!(graph.class(last).as_deref(), Some(&b"second"[..]));
        }
        let mut changes = adding(4);
        changes.add(5, b"", &[]);
        let error = graph.commit(&changes, Mode::Sync).unwrap_err();
        assert_eq!(bad_entry(&error), Some((1, 32, "the object's class is 5; there are 4")));
    }

    /// E21.1d: a commit that waits for the definition is refused when that is rolled back.
    #[test]
    fn class_of_rollback_is_unknown() {
        let locks = Arc::new(PageLocks::default());
        let graph =
            graph(cedrat_txn::Options { locks: Arc::<PageLocks>::clone(&locks), ..cedrat_txn::Options::simulated() });
        let mut txn = graph.begin();
        let (number, new) = graph.shared.classes.define_next(&mut txn, b"never committed").unwrap();
        let blocked = locks.counts().blocked;
        let user = {
            let graph = graph.clone();
            thread::spawn(move || graph.commit(adding(number), Mode::Sync).unwrap_err())
        };
        while locks.counts().blocked == blocked {
            thread::yield_now();
        }
        drop(new);
        txn.rollback().unwrap();
        let error = user.join().unwrap();
        assert_eq!(bad_entry(&error), Some((0, 0, "the object's class is 1; there are 0")));
        assert_eq!((graph.classes_len(), graph.class(number)), (0, None));
    }

    /// Each definition is one transaction, also if others have waited for the table since before it chose its number.
    #[test]
    fn concurrent_definitions_commit_once_each() {
        const THREADS: u64 = 4;
        let locks = Arc::new(PageLocks::default());
        let graph =
            graph(cedrat_txn::Options { locks: Arc::<PageLocks>::clone(&locks), ..cedrat_txn::Options::simulated() });
        let mut txn = graph.begin();
        txn.lock(Resource::Structure(graph.shared.classes.table.root()), LockMode::Exclusive).unwrap();
        let blocked = locks.counts().blocked;
        let definers = [(); THREADS as usize].map(|()| {
            let graph = graph.clone();
            thread::spawn(move || graph.define_class(b"a class").unwrap())
        });
        while locks.counts().blocked < blocked + THREADS {
            thread::yield_now();
        }
        let first = txn.id().0;
        drop(txn);
        let mut numbers = definers.map(|definer| definer.join().unwrap());
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(graph.begin().id().0 - first, 1 + THREADS, "a definition was repeated");
    }
}
