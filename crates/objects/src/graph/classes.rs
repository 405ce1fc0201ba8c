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
use crate::graph::entries::Entries;
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
    /// The number of committed definitions, those of dropped classes included.
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

    /// Writes the definitions among these changes, and locks the table for them.
    pub(crate) fn define(&self, txn: &mut Txn, entries: &Entries<'_>) -> Result<NewClasses<'_>> {
        let mut new = NewClasses::none(self);
        if entries.new_classes.is_empty() {
            return Ok(new);
        }
        txn.lock(Resource::Structure(self.table.root()), LockMode::Exclusive)?;
        for (next, (entry, number, definition)) in (self.next(txn)?..).zip(entries.classes()) {
            if number != next {
                return Err(in_entry(GraphError::ClassNumber { number, next }.into(), entry));
            }
            self.write(txn, number, definition).map_err(|error| in_entry(error, entry))?;
            let definition = Arc::<[u8]>::from(definition);
            self.known.lock().definitions.insert(number, Arc::clone(&definition));
            new.definitions.push((number, definition));
        }
        Ok(new)
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
type Definition = Option<Arc<[u8]>>;

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

fn put_together(pieces: &BTreeMap<u64, Vec<u8>>) -> Result<Vec<Definition>, &'static str> {
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
