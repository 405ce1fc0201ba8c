//! Reading beside commits: without locks, and whole (E21.3).

use cedrat_objects::{ObjectError, Objects};
use cedrat_pages::Damaged;
use cedrat_txn::{Error, RecordId, Result, Store};

use crate::error::GraphError;
use crate::graph::Graph;
use crate::long::{Head, Pieces, Stored};
use crate::object::Object;
use crate::word::Identity;

/// How often an object in pieces is read that changes meanwhile, before its lock is asked for.
const ATTEMPTS: u32 = 16;

/// As they were committed last.
pub(crate) struct Committed<'s> {
    pub(crate) objects: &'s Objects,
    pub(crate) store: &'s Store,
}

impl Pieces for Committed<'_> {
    fn piece<T>(&mut self, at: RecordId, look: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.objects.read_committed(self.store, at, look)?.0
    }
}

/// What was found behind an identity.
enum Found {
    Short(Vec<u8>),
    Long(Head),
    /// A piece of an object.
    Piece,
    Nonsense(&'static str),
}

impl Graph {
    /// The bytes of an object (docs/formats/graph.md), as it was committed last: without a lock, in no transaction, right
    /// beside commits. What is read is whole, and may not be durable yet.
    ///
    /// # Errors
    /// [`GraphError::NoSuchObject`]; damage, with file and offset.
    pub fn read(&self, identity: Identity) -> Result<Vec<u8>> {
        for _ in 0..ATTEMPTS {
            if let Some(bytes) = self.try_read(identity)? {
                return Ok(bytes);
            }
        }
        // Its changes wait until it was read.
        let mut txn = self.store.begin();
        self.shared.objects.read(&mut txn, identity.place(), |_| ()).map_err(|error| told(error, identity))?;
        let lost = "a piece of an object of this page changes, though that is locked";
        self.try_read(identity)?.ok_or_else(|| self.damaged_at(identity, lost))
    }

    /// As [`read`](Graph::read), taken apart.
    ///
    /// # Errors
    /// As there.
    pub fn object(&self, identity: Identity) -> Result<Object> {
        Object::of(&self.read(identity)?).map_err(|what| self.damaged_at(identity, what))
    }

    /// `None`: it has changed meanwhile.
    fn try_read(&self, identity: Identity) -> Result<Option<Vec<u8>>> {
        let mut committed = Committed { objects: &self.shared.objects, store: &self.store };
        let look = |bytes: &[u8]| match Stored::of(bytes) {
            Ok(Stored::Short(bytes)) => Found::Short(bytes.to_vec()),
            Ok(Stored::Long(head)) => Found::Long(head),
            Ok(_) => Found::Piece,
            Err(what) => Found::Nonsense(what),
        };
        let found = committed.objects.read_committed(&self.store, identity.place(), look);
        let (found, version) = found.map_err(|error| told(error, identity))?;
        let head = match found {
            Found::Short(bytes) => return Ok(Some(bytes)),
            Found::Long(head) => head,
            Found::Piece => return Err(GraphError::NoSuchObject { identity }.into()),
            Found::Nonsense(what) => return Err(self.damaged_at(identity, what)),
        };
        let bytes = head.read(&mut committed);
        let again = committed.objects.read_committed(&self.store, identity.place(), |_| ());
        let ((), now) = again.map_err(|error| told(error, identity))?;
        if now != version {
            return Ok(None);
        }
        match bytes {
            Err(error) if is_about_pieces(&error) => {
                Err(self.damaged_at(identity, "a piece of an object of this page is not what the object says"))
            }
            bytes => bytes.map(Some),
        }
    }

    pub(crate) fn damaged_at(&self, identity: Identity, what: &'static str) -> Error {
        self.store.pool().damaged(Damaged::in_body(identity.place().page, 0, what)).into()
    }
}

/// Whether pieces are not there, or others than were looked for.
pub(crate) fn is_about_pieces(error: &Error) -> bool {
    ObjectError::of(error).is_some() || GraphError::of(error).is_some()
}

/// What an object's absence is called here.
pub(crate) fn told(error: Error, identity: Identity) -> Error {
    match ObjectError::of(&error) {
        Some(ObjectError::NoSuchObject { id }) if *id == identity.place() => {
            GraphError::NoSuchObject { identity }.into()
        }
        _ => error,
    }
}
