//! Consistent reads without locks, while commits continue (E21.3).

use crate::{ObjectError, Objects};
use cedrat_pages::Damaged;
use cedrat_sync::planted;
use cedrat_txn::object_cache::InDoubtRecords;
use cedrat_txn::{Error, RecordId, Result, Store};

use crate::graph::class_use::{ClassNames, ClassesOfObject};
use crate::graph::error::GraphError;
use crate::graph::handle::Graph;
use crate::graph::long::{Head, Pieces, Stored};
use crate::graph::object::{HEADER_LEN, Header, Object, words};
use crate::graph::word::{Identity, Reference};

/// Number of attempts to read an object in pieces that keeps changing, before the read requests its lock.
const ATTEMPTS: u32 = 16;

/// Reads pieces as they were committed last.
pub(crate) struct Committed<'s> {
    pub(crate) objects: &'s Objects,
    pub(crate) store: &'s Store,
}

impl Pieces for Committed<'_> {
    fn piece<T>(&mut self, at: RecordId, look: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.objects.read_committed(self.store, at, look)?.0
    }
}

/// Kind of the record behind an identity.
enum Found<T> {
    Short(T),
    Long(Head),
    /// A piece of an object.
    Piece,
    Nonsense(&'static str),
}

/// Outgoing references of an object.
#[derive(Debug, Default)]
pub(crate) struct OutgoingReferences {
    /// Its own pieces.
    pub(crate) pieces: Vec<Identity>,
    pub(crate) objects: Vec<Identity>,
    pub(crate) classes: ClassesOfObject,
}

impl OutgoingReferences {
    /// `start`: at least the header of the object.
    fn new(names: ClassNames, start: &[u8], references: &[u8]) -> OutgoingReferences {
        let objects = words(references).filter_map(Reference::identity).collect();
        let classes = ClassesOfObject::new(names, start, references);
        OutgoingReferences { pieces: Vec::new(), objects, classes }
    }
}

impl Graph {
    /// Returns the bytes of an object (docs/formats/graph.md), as it was committed last: without a lock and without a
    /// transaction, while commits continue. The result is consistent, and may not be durable yet.
    ///
    /// # Errors
    /// [`GraphError::NoSuchObject`]; damage, with file and offset.
    pub fn read(&self, identity: Identity) -> Result<Vec<u8>> {
        let collecting = &self.shared.collecting;
        let gone = || GraphError::NoSuchObject { identity }.into();
        if collecting.is_gone(identity) {
            return Err(gone()); // independent of what is left of it
        }
        match self.look(identity, &<[u8]>::to_vec, &|head, committed| head.read(committed)) {
            Ok(bytes) if collecting.is_read(identity) => Ok(bytes),
            Err(error) if !collecting.is_gone(identity) => Err(error),
            _ => Err(gone()),
        }
    }

    /// Like [`read`](Graph::read), with the bytes parsed.
    ///
    /// # Errors
    /// Errors of [`read`](Graph::read).
    pub fn object(&self, identity: Identity) -> Result<Object> {
        Object::of(&self.read(identity)?).map_err(|what| self.damaged_at(identity, what))
    }

    /// Like [`object`](Graph::object), for an object that no root reaches: `None` if pieces of it are missing, because a
    /// garbage collection that has ended was removing it. For a reachable object that would be damage.
    ///
    /// # Errors
    /// Errors of [`read`](Graph::read).
    pub fn unreached_object(&self, identity: Identity) -> Result<Option<Object>> {
        let bytes =
            self.look(identity, &|bytes| Some(bytes.to_vec()), &|head, committed| match head.read(committed) {
                Err(error) if is_about_pieces(&error) => Ok(None),
                bytes => bytes.map(Some),
            })?;
        let taken_apart = |bytes: Vec<u8>| Object::of(&bytes).map_err(|what| self.damaged_at(identity, what));
        bytes.map(taken_apart).transpose()
    }

    /// Returns the outgoing references of an object, as it was committed last; none if it does not exist.
    pub(crate) fn leads_to(&self, identity: Identity) -> Result<OutgoingReferences> {
        let names = self.shared.class_names;
        let short = |bytes: &[u8]| match Header::of_object(bytes, bytes.len() as u64) {
            Ok(header) => Ok(OutgoingReferences::new(names, bytes, &bytes[header.references_at() as usize..])),
            Err(what) => Err(self.damaged_at(identity, what)),
        };
        let long = |head: &Head, committed: &mut Committed<'_>| {
            let start = head.read_range(committed, 0, HEADER_LEN as u64)?;
            let mut leads_to = OutgoingReferences::new(names, &start, &head.references(committed)?);
            let all = head.pieces(committed)?;
            leads_to.pieces = all.nodes;
            leads_to.pieces.extend(all.leaves);
            Ok(Ok(leads_to))
        };
        match self.look(identity, &short, &long) {
            Err(error) if matches!(GraphError::of(&error), Some(GraphError::NoSuchObject { .. })) => {
                Ok(OutgoingReferences::default())
            }
            leads_to => leads_to?,
        }
    }

    /// Reads an object as it was committed last. An object in pieces is read again if it has changed meanwhile.
    fn look<T>(
        &self,
        identity: Identity,
        short: &dyn Fn(&[u8]) -> T,
        long: &dyn Fn(&Head, &mut Committed<'_>) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..ATTEMPTS {
            if let Some(seen) = self.try_look(identity, short, long, false)? {
                return Ok(seen);
            }
        }
        // Changes of it wait until it was read.
        let mut txn = self.begin();
        self.shared.objects.read(&mut txn, identity.place(), |_| ()).map_err(|error| with_identity(error, identity))?;
        let lost = "a piece of an object of this page changes, though that is locked";
        self.try_look(identity, short, long, true)?.ok_or_else(|| self.damaged_at(identity, lost))
    }

    /// Reads an object once. `None`: it has changed meanwhile, or may have, because other transactions were making their
    /// changes in pages (E9.7). The latter does not apply to a locked object.
    fn try_look<T>(
        &self,
        identity: Identity,
        short: &dyn Fn(&[u8]) -> T,
        long: &dyn Fn(&Head, &mut Committed<'_>) -> Result<T>,
        is_locked: bool,
    ) -> Result<Option<T>> {
        let mut committed = Committed { objects: &self.shared.objects, store: &self.store };
        let look = |bytes: &[u8]| match Stored::of(bytes) {
            Ok(Stored::Short(bytes)) => Found::Short(short(bytes)),
            Ok(Stored::Long(head)) => Found::Long(head),
            Ok(_) => Found::Piece,
            Err(what) => Found::Nonsense(what),
        };
        let late = self.store.late_commits();
        let found = committed.objects.read_committed(&self.store, identity.place(), look);
        let (found, version) = found.map_err(|error| with_identity(error, identity))?;
        let head = match found {
            Found::Short(seen) => return Ok(Some(seen)),
            Found::Long(head) => head,
            Found::Piece => return Err(GraphError::NoSuchObject { identity }.into()),
            Found::Nonsense(what) => return Err(self.damaged_at(identity, what)),
        };
        let seen = long(&head, &mut committed);
        let again = committed.objects.read_committed(&self.store, identity.place(), |_| ());
        let ((), now) = again.map_err(|error| with_identity(error, identity))?;
        let is_late = late.is_none() || self.store.late_commits() != late;
        if now != version && !planted!("changed_head_not_noticed") || is_late && !is_locked {
            return Ok(None);
        }
        match seen {
            Err(error) if is_about_pieces(&error) => {
                Err(self.damaged_at(identity, "a piece of an object of this page is not what the object says"))
            }
            seen => seen.map(Some),
        }
    }

    pub(crate) fn damaged_at(&self, identity: Identity, what: &'static str) -> Error {
        self.store.pool().damaged(Damaged::in_body(identity.place().page, 0, what)).into()
    }
}

/// Returns whether pieces are missing, or differ from what the head requires.
pub(crate) fn is_about_pieces(error: &Error) -> bool {
    ObjectError::of(error).is_some() || GraphError::of(error).is_some()
}

/// Converts the absence of an object into this crate's error.
pub(crate) fn with_identity(error: Error, identity: Identity) -> Error {
    match ObjectError::of(&error) {
        Some(ObjectError::NoSuchObject { id }) if *id == identity.place() => {
            GraphError::NoSuchObject { identity }.into()
        }
        _ => error,
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use std::cell::Cell;

    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::Arc;
    use cedrat_txn::Registry;

    use super::*;
    use crate::graph::{Changes, Mode, Options};

    /// E21.3: an object in pieces that is changed after its head was read, and before its pieces are, is read again.
    #[test]
    fn changed_object_is_read_again() {
        let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
        let registry = Registry::new().with(cedrat_structures::register).with(crate::register);
        let store = Store::open(disk, cedrat_txn::Options::simulated(), registry).unwrap();
        let graph = Graph::create(&store, "graph", Options::default()).unwrap();
        graph.define_class(b"").unwrap();
        let mut changes = Changes::new();
        changes.add(1, &[1; 20_000], &[]);
        let identity = graph.commit(&changes, Mode::Async).unwrap().identities[0];
        let reads = Cell::new(0);
        let long = |head: &Head, committed: &mut Committed<'_>| {
            reads.set(reads.get() + 1);
            if reads.get() == 1 {
                // Its first piece and its last one.
                graph.commit(Changes::new().patch(identity, 8, &[2]).patch(identity, 20_007, &[2]), Mode::Async)?;
            }
            head.read(committed)
        };
        let bytes = graph.look(identity, &<[u8]>::to_vec, &long).unwrap();
        assert_eq!((reads.get(), bytes[8], bytes[20_007]), (2, 2, 2), "E21.3");
    }
}
