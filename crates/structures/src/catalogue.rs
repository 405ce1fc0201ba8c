//! The catalogue of named roots: the structures of a store, and their root pages.
//!
//! The catalogue is a hash table like any other, except that its root page has a fixed number. So a name is locked like
//! any key, the rollback of a creation removes the name too, and a crash leaves both or neither.

use std::fmt;

use cedrat_pages::{Damaged, LayoutKind, PageId};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_txn::{CATALOGUE, Error, Result, Store, Txn};

use crate::checked::Checked;
use crate::error::{OfStore, StructureError};
use crate::hash::RawHashTable;

/// Maximum length of a name, in bytes of UTF-8.
pub const NAME_LEN_MAX: usize = 255;

/// The kind of a named structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A [`HashTable`](crate::HashTable).
    HashTable,
    /// An [`ArrayList`](crate::ArrayList).
    ArrayList,
    /// A [`List`](crate::List).
    List,
    /// A [`PageList`](crate::PageList).
    PageList,
    /// [`Records`](crate::Records).
    Records,
    /// A collection of objects with a cache (`cedrat-objects`).
    Objects,
    /// A graph of objects that refer to each other (`cedrat-objects`).
    Graph,
    /// A structure of the application, by a number that it chooses, from [`Kind::USER_FIRST`] on.
    User(u16),
}

impl Kind {
    /// The smallest number for structures of the application.
    pub const USER_FIRST: u16 = 1024;

    /// Returns the number that the catalogue stores (docs/formats/structures.md).
    pub fn number(self) -> u16 {
        match self {
            Kind::HashTable => 1,
            Kind::ArrayList => 2,
            Kind::List => 3,
            Kind::PageList => 4,
            Kind::Records => 5,
            Kind::Objects => 6,
            Kind::Graph => 7,
            Kind::User(number) => number,
        }
    }

    /// Returns the kind of this number.
    pub fn from_number(number: u16) -> Kind {
        match number {
            1 => Kind::HashTable,
            2 => Kind::ArrayList,
            3 => Kind::List,
            4 => Kind::PageList,
            5 => Kind::Records,
            6 => Kind::Objects,
            7 => Kind::Graph,
            other => Kind::User(other),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::HashTable => f.write_str("a hash table"),
            Kind::ArrayList => f.write_str("an array list"),
            Kind::List => f.write_str("a list"),
            Kind::PageList => f.write_str("a page-oriented list"),
            Kind::Records => f.write_str("a collection of records"),
            Kind::Objects => f.write_str("a collection of objects"),
            Kind::Graph => f.write_str("a graph of objects"),
            Kind::User(number) => write!(f, "a structure of kind {number}"),
        }
    }
}

/// An entry of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The kind of the structure.
    pub kind: Kind,
    /// The root page of the structure.
    pub root: PageId,
    /// The [schema](cedrat_txn::schema_of) of its elements. 0 if the structure has none, was created without types, or by an
    /// earlier version.
    pub schema: u32,
}

impl Named {
    /// Returns the entry of the catalogue with these bytes of key and value, for example from a change of a
    /// [change stream](cedrat_txn::ChangeStream).
    pub fn of_entry(key: &[u8], value: &[u8]) -> Option<Named> {
        read(key, value).ok()
    }
}

/// The names of a store. A handle, cheap to open; names are locked like keys of a table.
#[derive(Clone, Debug)]
pub struct Catalogue {
    pub(crate) table: RawHashTable,
}

/// The state of a store's catalogue: whether it exists and its creation is committed. Its first users wait for each
/// other here.
///
/// The page alone does not show that. It shows the creation before the end of the nested top action is in the log. A
/// transaction that committed a name in between would lose it with the creation if the power failed then.
#[derive(Debug)]
struct Gate(Mutex<bool>);

impl Gate {
    /// Creates the catalogue if there is none.
    fn pass(&self, store: &Store) -> Result<()> {
        let mut is_made = self.0.lock();
        if !*is_made {
            let _latched = store.latched(); // an undo may open the catalogue too
            if store.read(CATALOGUE)?.kind() == LayoutKind::NONE {
                store.transact(|txn| RawHashTable::create_at(txn, CATALOGUE))?;
            }
            *is_made = true;
        }
        Ok(())
    }
}

impl Catalogue {
    /// Opens the catalogue of `store`. In a new store this creates it, in a separate transaction.
    ///
    /// # Errors
    /// Those of any change.
    pub fn open(store: &Store) -> Result<Catalogue> {
        let gate = Catalogue::gate(store)?;
        loop {
            match gate.pass(store) {
                Err(Error::LogFull { .. }) if store.enforce_limits()? > 0 => {} // not possible within the gate
                passed => break passed?,
            }
        }
        Ok(Catalogue { table: RawHashTable::open(store, CATALOGUE)? })
    }

    fn gate(store: &Store) -> Result<Arc<Gate>> {
        store.resident(CATALOGUE, || Ok(Gate(Mutex::new(false))))
    }

    /// Returns the entry of `name`.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on the name.
    pub fn find(&self, txn: &mut Txn, name: &str) -> Result<Option<Named>> {
        check_name(name)?;
        let found = self.table.get_with(txn, name.as_bytes(), |line| read(name.as_bytes(), line))?;
        found.transpose().of_store(txn.store())
    }

    /// Returns the root of `name`, which must be of this kind, and have elements of this [schema](cedrat_txn::schema_of): 0
    /// accepts all.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`], [`StructureError::WrongKind`], [`StructureError::OtherTypes`]; [`Error::Deadlock`].
    pub fn expect(&self, txn: &mut Txn, name: &str, kind: Kind, schema: u32) -> Result<PageId> {
        let named = self.find(txn, name)?.ok_or_else(|| StructureError::NoSuchName { name: name.into() })?;
        if named.kind != kind {
            let (expected, found) = (kind.to_string(), named.kind.to_string());
            return Err(StructureError::WrongKind { name: name.into(), expected, found }.into());
        }
        if schema != 0 && named.schema != 0 && schema != named.schema && !planted!("types_of_elements_not_compared") {
            return Err(StructureError::OtherTypes { name: name.into() }.into());
        }
        Ok(named.root)
    }

    /// Locks a name that is about to be added, and checks that it is free.
    ///
    /// # Errors
    /// [`StructureError::NameTaken`]; [`Error::TooLarge`]; [`Error::Deadlock`].
    pub fn check_free(&self, txn: &mut Txn, name: &str) -> Result<()> {
        check_name(name)?;
        match self.table.get_for_change(txn, name.as_bytes(), |_| ())? {
            None => Ok(()),
            Some(()) => Err(StructureError::NameTaken { name: name.into() }.into()),
        }
    }

    /// Adds an entry. With one that [`remove`](Catalogue::remove) has returned, and another name, the structure is renamed.
    ///
    /// # Errors
    /// As [`check_free`](Catalogue::check_free).
    pub fn add(&self, txn: &mut Txn, named: &Named) -> Result<()> {
        let Named { name, kind, root, schema } = named;
        self.check_free(txn, name)?;
        let mut line = [0; LINE_LEN];
        line[..2].copy_from_slice(&kind.number().to_le_bytes());
        line[2..SCHEMA_AT].copy_from_slice(&root.get().to_le_bytes());
        line[SCHEMA_AT..].copy_from_slice(&schema.to_le_bytes());
        let len = if *schema == 0 { SCHEMA_AT } else { LINE_LEN };
        self.table.put(txn, name.as_bytes(), &line[..len])?;
        Ok(())
    }

    /// Removes a name, and returns its entry. The structure itself stays; [`drop_named`](crate::drop_named) drops both.
    ///
    /// # Errors
    /// [`StructureError::NoSuchName`]; [`Error::Deadlock`].
    pub fn remove(&self, txn: &mut Txn, name: &str) -> Result<Named> {
        let named = self.find_for_change(txn, name)?;
        self.table.remove(txn, name.as_bytes())?;
        Ok(named)
    }

    /// Returns the entry of `name`, which is about to change.
    pub(crate) fn find_for_change(&self, txn: &mut Txn, name: &str) -> Result<Named> {
        check_name(name)?;
        let found = self.table.get_for_change(txn, name.as_bytes(), |line| read(name.as_bytes(), line))?;
        let found = found.transpose().of_store(txn.store())?;
        found.ok_or_else(|| StructureError::NoSuchName { name: name.into() }.into())
    }

    /// Returns all entries, in order of names.
    ///
    /// # Errors
    /// [`Error::Deadlock`] from the lock on the catalogue.
    pub fn list(&self, txn: &mut Txn) -> Result<Vec<Named>> {
        let store = txn.store().clone();
        let mut all = Vec::new();
        for entry in self.table.iter(txn)? {
            let (name, line) = entry?;
            all.push(read(&name, &line).of_store(&store)?);
        }
        all.sort();
        Ok(all)
    }

    /// Walks the catalogue's own pages and verifies them.
    ///
    /// # Errors
    /// Only those that prevent the walk.
    pub fn check(&self, txn: &Txn) -> Result<Checked> {
        self.table.check(txn)
    }
}

/// Offset of the schema in an entry, after kind and root page. An entry may end there.
const SCHEMA_AT: usize = 2 + 8;

/// Length of an entry with a schema.
const LINE_LEN: usize = SCHEMA_AT + 4;

pub(crate) fn read(name: &[u8], line: &[u8]) -> Result<Named, Damaged> {
    let bad = || Damaged::in_body(CATALOGUE, 0, "a line of the catalogue is corrupt");
    let (line, schema) = line.split_at_checked(SCHEMA_AT).ok_or_else(bad)?;
    let (kind, root) = line.split_at(2);
    let schema = match schema {
        [] => 0,
        schema => u32::from_le_bytes(schema.try_into().map_err(|_| bad())?),
    };
    Ok(Named {
        name: str::from_utf8(name).map_err(|_| bad())?.into(),
        kind: Kind::from_number(u16::from_le_bytes(kind.try_into().expect("two bytes"))),
        root: PageId::new(u64::from_le_bytes(root.try_into().expect("eight bytes"))),
        schema,
    })
}

fn check_name(name: &str) -> Result<()> {
    if name.len() > NAME_LEN_MAX {
        let (given, limit) = (name.len() as u64, NAME_LEN_MAX as u64);
        return Err(Error::TooLarge { what: "the name of a structure", given, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cedrat_media::SimDisk;
    use cedrat_txn::{Options, Registry};

    use super::*;

    #[test]
    fn uncommitted_catalogue_is_not_used() {
        let registry = Registry::new().with(crate::register);
        let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), registry).unwrap();
        store
            .transact(|txn| {
                RawHashTable::create_at(txn, CATALOGUE)?;
                assert_ne!(txn.store().read(CATALOGUE)?.kind(), LayoutKind::NONE, "it shows on the page");
                assert!(!*Catalogue::gate(txn.store())?.0.lock());
                Ok(())
            })
            .unwrap();
        Catalogue::open(&store).unwrap();
        assert!(*Catalogue::gate(&store).unwrap().0.lock());
    }
}
