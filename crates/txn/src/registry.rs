//! The registry of the operations, undos and record kinds that a program defines, by stable names (Lemon §4.4).

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use cedrat_pages::layout::{Layout, Layouts};
use cedrat_pages::{Damaged, PageMut, Slot};
use cedrat_sync::Arc;
use serde::de::DeserializeOwned;

use crate::builtin;
use crate::changes::Meaning;
use crate::check::SpaceMapLayout;
use crate::deferred::{Delta, apply_to_page};
use crate::error::{Error, OpenError, Result};
use crate::operation::{Finish, LogicalUndo, Operation, RecordId, Refused};
use crate::schema;
use crate::transaction::Txn;
use crate::undo::Undo;

/// The definitions that a program registers before it opens a store. It contains the built-in operations from the
/// beginning.
///
/// A name is bound to a number in the store's control file when it is first used there, and keeps it permanently.
#[derive(Clone)]
pub struct Registry {
    entries: Vec<Entry>,
    layouts: Layouts,
    /// Layouts whose number was already taken, by name.
    refused: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) of: Option<TypeId>,
    /// Schema of the arguments; 0: none.
    pub(crate) schema: u32,
    pub(crate) does: Does,
}

/// The definition behind a name.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    Operation(OperationTable),
    Logical(CallTable),
    Finish(CallTable),
    RecordKind,
}

/// An operation, independent of its type.
#[derive(Clone, Copy)]
pub(crate) struct OperationTable {
    pub(crate) redo: fn(&[u8], &mut PageMut<'_>, Slot) -> Result<(), Misfit>,
    pub(crate) derive: fn(&[u8], RecordId) -> Result<Undo, Misfit>,
    pub(crate) describe: fn(&[u8]) -> Option<String>,
    /// [`Operation::meaning`]; `None` if the arguments are not those of the operation.
    pub(crate) meaning: fn(&[u8], RecordId) -> Option<Meaning>,
    /// [`Operation::FORMATS`].
    pub(crate) formats: bool,
    /// [`Operation::COMMITS`].
    pub(crate) commits: bool,
    /// Whether redo compares the version of the record instead of the LSN of the page: true for a [`Delta`] (E19.2).
    pub(crate) by_version: bool,
}

/// A logical undo, or a finish, independent of its type.
#[derive(Clone, Copy)]
pub(crate) struct CallTable {
    pub(crate) call: fn(&[u8], &mut Txn) -> Result<(), CallError>,
    pub(crate) describe: fn(&[u8]) -> Option<String>,
    log_bytes_max: u32,
}

/// The reason why logged arguments could not be applied.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// The arguments are not those of this operation.
    Arguments,
    /// The arguments fit, but the page does not.
    Page(Damaged),
    /// The arguments are those of a delta that refused its record.
    Record(Refused),
}

#[derive(Debug)]
pub(crate) enum CallError {
    Arguments,
    Failed(Error),
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::new()
    }
}

impl Registry {
    /// Creates a registry with only the built-in operations.
    pub fn new() -> Registry {
        let empty = Registry { entries: Vec::new(), layouts: Layouts::default(), refused: Vec::new() };
        builtin::register(empty).layout(Arc::new(SpaceMapLayout))
    }

    /// Adds an operation.
    #[must_use]
    pub fn operation<O: Operation>(self) -> Registry {
        let table = OperationTable {
            redo: |arguments, page, at| {
                let operation: O = decode(arguments).ok_or(Misfit::Arguments)?;
                operation.redo(page, at).map_err(Misfit::Page)
            },
            derive: |arguments, at| {
                let operation: O = decode(arguments).ok_or(Misfit::Arguments)?;
                Ok(operation.derive_undo(at))
            },
            describe: |arguments| decode::<O>(arguments).map(|operation| format!("{operation:?}")),
            meaning: |arguments, at| decode::<O>(arguments).map(|operation| operation.meaning(at)),
            formats: O::FORMATS,
            commits: O::COMMITS,
            by_version: false,
        };
        self.add::<O>(O::NAME, Does::Operation(table))
    }

    /// Adds a logical undo.
    #[must_use]
    pub fn logical<L: LogicalUndo>(self) -> Registry {
        let table = CallTable {
            call: |arguments, txn| {
                let undo: L = decode(arguments).ok_or(CallError::Arguments)?;
                undo.undo(txn).map_err(CallError::Failed)
            },
            describe: |arguments| decode::<L>(arguments).map(|undo| format!("{undo:?}")),
            log_bytes_max: L::LOG_BYTES_MAX,
        };
        self.add::<L>(L::NAME, Does::Logical(table))
    }

    /// Adds an undo that finishes a sequence.
    #[must_use]
    pub fn finish<F: Finish>(self) -> Registry {
        let table = CallTable {
            call: |arguments, txn| {
                let finish: F = decode(arguments).ok_or(CallError::Arguments)?;
                finish.finish(txn).map_err(CallError::Failed)
            },
            describe: |arguments| decode::<F>(arguments).map(|finish| format!("{finish:?}")),
            log_bytes_max: F::LOG_BYTES_MAX,
        };
        self.add::<F>(F::NAME, Does::Finish(table))
    }

    /// Adds a record kind of the application ([`crate::Txn::log_record`]).
    #[must_use]
    pub fn record_kind(self, name: &'static str) -> Registry {
        self.add_entry(Entry { name, of: None, schema: 0, does: Does::RecordKind })
    }

    /// Adds a page layout of the application, so that [`crate::Store::check`] and tools can verify its pages.
    #[must_use]
    pub fn layout(mut self, layout: Arc<dyn Layout>) -> Registry {
        if let Err(taken) = self.layouts.register(layout) {
            self.refused.push(taken.refused);
        }
        self
    }

    /// Returns the registered page layouts.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Registers the definitions of another crate: `registry.with(shop::register)`.
    #[must_use]
    pub fn with(self, register: impl FnOnce(Registry) -> Registry) -> Registry {
        register(self)
    }

    /// Returns the registered names, in the order of registration.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.name)
    }

    /// Returns the names of the registered logical undos and finishes, each with its `LOG_BYTES_MAX`.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.entries.iter().filter_map(|entry| match entry.does {
            Does::Logical(table) | Does::Finish(table) => Some((entry.name, table.log_bytes_max)),
            _ => None,
        })
    }

    /// Adds an entry. Registering the same definition twice is harmless; two definitions under one name are detected
    /// when a store is opened.
    fn add_entry(mut self, new: Entry) -> Registry {
        let known = self.entries.iter().any(|entry| entry.name == new.name && entry.of == new.of);
        if !known {
            self.entries.push(new);
        }
        self
    }

    /// Adds a definition whose arguments have type `T`.
    fn add<T: DeserializeOwned + 'static>(self, name: &'static str, does: Does) -> Registry {
        self.add_entry(Entry { name, of: Some(TypeId::of::<T>()), schema: schema::of::<T>(), does })
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(name) = self.refused.first() {
            return Err(OpenError::RegisteredTwice { name: name.clone() }.into());
        }
        for (i, entry) in self.entries.iter().enumerate() {
            if self.entries[..i].iter().any(|earlier| earlier.name == entry.name) {
                return Err(OpenError::RegisteredTwice { name: entry.name.into() }.into());
            }
        }
        Ok(())
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// The registration of deferred changes. Implemented by [`Registry`].
pub trait DeltaRegistry: Sized {
    /// Adds a change of one versioned record ([`DeferredChanges::defer`](crate::object_cache::DeferredChanges::defer)).
    #[must_use]
    fn delta<D: Delta>(self) -> Self;
}

impl DeltaRegistry for Registry {
    fn delta<D: Delta>(self) -> Registry {
        let table = OperationTable {
            redo: |arguments, page, at| {
                let delta: D = decode(arguments).ok_or(Misfit::Arguments)?;
                apply_to_page(&delta, page, at)
            },
            derive: |_, _| Ok(Undo::none()),
            describe: |arguments| decode::<D>(arguments).map(|delta| format!("{delta:?}")),
            meaning: |_, _| Some(Meaning::Raw),
            formats: false,
            commits: false,
            by_version: true,
        };
        self.add::<D>(D::NAME, Does::Operation(table))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

pub(crate) fn decode<T: DeserializeOwned>(arguments: &[u8]) -> Option<T> {
    // Left-over bytes show that these are the arguments of another type.
    match postcard::take_from_bytes(arguments) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// The registry bound to the numbers of one store.
pub(crate) struct Numbers {
    by_number: Vec<Option<Entry>>,
    by_type: HashMap<TypeId, u32, BuildHasherDefault<TypeIdHasher>>,
    by_name: HashMap<&'static str, u32>,
    /// All names of the control file, for messages.
    names: Vec<String>,
}

impl Numbers {
    /// Binds `registry` to `names`, the list in the control file.
    pub(crate) fn bind(registry: &Registry, names: &[String]) -> Numbers {
        let mut numbers = Numbers {
            by_number: vec![None; names.len()],
            by_type: HashMap::default(),
            by_name: HashMap::new(),
            names: names.to_vec(),
        };
        for entry in registry.entries() {
            let Some(number) = names.iter().position(|name| name == entry.name) else { continue };
            numbers.by_number[number] = Some(entry.clone());
            numbers.by_name.insert(entry.name, number as u32);
            if let Some(of) = entry.of {
                numbers.by_type.insert(of, number as u32);
            }
        }
        numbers
    }

    #[inline]
    pub(crate) fn of_type(&self, of: TypeId) -> Option<u32> {
        self.by_type.get(&of).copied()
    }

    pub(crate) fn of_name(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    #[inline]
    pub(crate) fn entry(&self, number: u32) -> Option<&Entry> {
        self.by_number.get(number as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn operation(&self, number: u32) -> Option<&OperationTable> {
        match &self.entry(number)?.does {
            Does::Operation(table) => Some(table),
            _ => None,
        }
    }

    /// Returns all names that have a number in the store, in the order of numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the name of a number, whether it is registered or not.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str)
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.names).finish()
    }
}

/// Hasher for type ids, which are hashes already.
#[derive(Default)]
pub(crate) struct TypeIdHasher(u64);

impl Hasher for TypeIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
