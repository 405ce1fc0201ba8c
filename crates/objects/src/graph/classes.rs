//! Class definitions: uninterpreted bytes, numbered from 1 (docs/formats/graph.md).
//!
//! A definition is stored in a table in pieces, with the key (number, piece), each four bytes, big-endian.

use std::collections::BTreeMap;

use cedrat_structures::{Checked, RawHashTable};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::locks::{LockMode, Resource};
use cedrat_txn::{Commit, Error, Result, Store, Txn};

/// Bytes of a definition in one entry of the table.
const PIECE_LEN: usize = 3600;

/// The longest definition, in bytes.
const DEFINITION_LEN_MAX: usize = 1 << 24;

#[derive(Debug)]
pub(crate) struct Classes {
    pub(crate) table: RawHashTable,
    /// All definitions, the first is that of class 1. Locked last, for moments.
    known: Mutex<Vec<Arc<[u8]>>>,
    /// Held while a definition is added.
    defining: Mutex<()>,
}

impl Classes {
    pub(crate) fn load(txn: &mut Txn, table: RawHashTable) -> Result<Classes> {
        let known = read_all(txn, &table)?.map_err(|what| {
            let page = table.root();
            txn.store().pool().damaged(cedrat_pages::Damaged::in_body(page, 0, what))
        })?;
        Ok(Classes { table, known: Mutex::new(known), defining: Mutex::default() })
    }

    pub(crate) fn count(&self) -> u32 {
        self.known.lock().len() as u32
    }

    pub(crate) fn get(&self, number: u32) -> Option<Arc<[u8]>> {
        self.known.lock().get((number as usize).checked_sub(1)?).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<[u8]>> {
        self.known.lock().clone()
    }

    pub(crate) fn define(&self, store: &Store, definition: &[u8]) -> Result<u32> {
        if definition.len() > DEFINITION_LEN_MAX {
            let (given, limit) = (definition.len() as u64, DEFINITION_LEN_MAX as u64);
            return Err(Error::TooLarge { what: "the definition of a class", given, limit });
        }
        loop {
            match self.try_define(store, definition) {
                Err(Error::LogFull { .. }) if store.enforce_limits()? > 0 => {} // not possible under the latch
                defined => return defined,
            }
        }
    }

    fn try_define(&self, store: &Store, definition: &[u8]) -> Result<u32> {
        let mut waiting = store.begin();
        // Before the latch, under which a wait for a lock would end after a while.
        waiting.lock(Resource::Structure(self.table.root()), LockMode::Exclusive)?;
        // Serialised, so that numbers have no gaps.
        let _alone = self.defining.lock();
        let _latched = store.latched(); // an undo may define a class too
        let mut txn = waiting; // a failure is undone before the latch is released
        let number = self.count() + 1;
        let whole = [&(definition.len() as u32).to_le_bytes()[..], definition].concat();
        for (piece, bytes) in whole.chunks(PIECE_LEN).enumerate() {
            self.table.put(&mut txn, &key(number, piece as u32), bytes)?;
        }
        // Commits that use it come later in the same log.
        txn.commit(Commit::Async)?;
        self.known.lock().push(definition.into());
        Ok(number)
    }

    /// Verifies the table, and adds the result to `checked`.
    pub(crate) fn check(&self, txn: &mut Txn, checked: &mut Checked) -> Result<()> {
        let table = self.table.check(txn)?;
        checked.pages.extend(table.pages);
        checked.problems.extend(table.problems.into_iter().map(|problem| format!("classes: {problem}")));
        if let Err(what) = read_all(txn, &self.table)? {
            checked.problems.push(format!("page {}: classes: {what}", self.table.root()));
        }
        Ok(())
    }
}

fn key(number: u32, piece: u32) -> [u8; 8] {
    (u64::from(number) << 32 | u64::from(piece)).to_be_bytes()
}

/// Returns all definitions, or a description of what is invalid.
fn read_all(txn: &mut Txn, table: &RawHashTable) -> Result<Result<Vec<Arc<[u8]>>, &'static str>> {
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

fn put_together(pieces: &BTreeMap<u64, Vec<u8>>) -> Result<Vec<Arc<[u8]>>, &'static str> {
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
        if whole.len() != u32::from_le_bytes(*len) as usize {
            return Err("a definition has another length than its header");
        }
        all.push(whole.into());
    }
    Ok(all)
}
