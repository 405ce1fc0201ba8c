//! Graphs of objects in a dump: classes, objects in the order of their identities, roots.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use cedrat::graph::{Changes, Graph, Identity, Mode, Options, Reference, Stage};
use cedrat::txn::Store;

use super::Dumped;
use super::line::{Hex, Line, Word};
use crate::output::{Failure, Outcome, fail};

/// Number of bytes of new objects in a commit.
const COMMIT_LEN: usize = 256 << 10;

/// Number of objects that a garbage collection of a graph without objects may look at in a step.
const STEP: usize = 1000;

/// Writes classes, objects and roots of a graph.
pub(super) fn dump<W: Write>(to: &mut Dumped<W>, store: &Store, name: &str) -> Outcome {
    let graph = Graph::open(store, name, Options::default())?;
    for (number, definition) in (1..).zip(graph.classes()) {
        to.line(&Line::Class { number, definition: definition.map(|bytes| Hex(bytes.to_vec())) })?;
    }
    for page in graph.object_pages()? {
        for identity in graph.objects_of_page(page)? {
            // Without its pieces, it was being removed.
            let Some(object) = graph.unreached_object(identity)? else { continue };
            let references = object.references.iter().map(|reference| Word(reference.word())).collect();
            let (identity, data) = (Word(identity.get()), Hex(object.data));
            to.line(&Line::Node { identity, class: object.class, data, references })?;
        }
    }
    for (name, target) in graph.roots()? {
        to.line(&Line::Root { name, to: Word(target.word()) })?;
    }
    Ok(())
}

/// A graph that is being loaded. Objects have new identities.
pub(super) struct Loaded {
    graph: Graph,
    /// Numbers of classes that were dropped.
    dropped: Vec<u32>,
    /// The new identity of each object that is committed.
    identities: HashMap<u64, Identity>,
    /// Objects of the next commit, and their old identities.
    changes: Changes,
    new: Vec<u64>,
    new_set: HashSet<u64>,
    /// By old identities of objects, the places that refer to them: object and offset.
    missing: Vec<(u64, u64, u32)>,
    /// The bytes of the next commit.
    len: usize,
    /// Whether classes, and the objects of roots, may be missing.
    is_salvage: bool,
    /// Number of references to objects that are not in the dump.
    lost: u64,
}

impl Loaded {
    pub(super) fn create(store: &Store, name: &str, is_salvage: bool) -> Result<Loaded, Failure> {
        let graph = Graph::create(store, name, Options::default())?;
        Ok(Loaded {
            graph,
            dropped: Vec::new(),
            identities: HashMap::new(),
            changes: Changes::new(),
            new: Vec::new(),
            new_set: HashSet::new(),
            missing: Vec::new(),
            len: 0,
            is_salvage,
            lost: 0,
        })
    }

    pub(super) fn class(&mut self, number: u32, definition: Option<&[u8]>) -> Outcome {
        if self.graph.classes_len() + 1 != number || !self.identities.is_empty() || !self.new.is_empty() {
            return fail(format!("class {number} is not the next one, or comes behind an object"));
        }
        self.graph.define_class(definition.unwrap_or_default())?;
        self.dropped.extend(definition.is_none().then_some(number));
        Ok(())
    }

    pub(super) fn node(&mut self, identity: u64, class: u32, data: &[u8], references: &[u64]) -> Outcome {
        self.drop_classes()?;
        while self.is_salvage && self.graph.classes_len() < class {
            self.graph.define_class(&[])?;
        }
        let is_known = self.identities.contains_key(&identity) || !self.new_set.insert(identity);
        if Identity::new(identity).is_none() || is_known {
            return fail(format!("the identity {identity:016x} is invalid, or there are two objects of it"));
        }
        let mut words = Vec::with_capacity(references.len());
        for (index, &word) in references.iter().enumerate() {
            let reference = Reference::from_word(word);
            words.push(match reference.identity() {
                None => reference,
                Some(to) => match self.identities.get(&to.get()) {
                    Some(&known) => known.into(),
                    None => {
                        let offset = 8 + data.len() + 8 * index;
                        let offset = u32::try_from(offset).map_err(|_| Failure("the object is too long".into()))?;
                        self.missing.push((identity, to.get(), offset));
                        Reference::NULL
                    }
                },
            });
        }
        self.changes.add(class, data, &words);
        self.new.push(identity);
        self.len += data.len() + 8 * references.len() + 64;
        if self.len >= COMMIT_LEN { self.commit() } else { Ok(()) }
    }

    /// Commits the new objects.
    fn commit(&mut self) -> Outcome {
        let changes = std::mem::take(&mut self.changes);
        let new = std::mem::take(&mut self.new);
        self.len = 0;
        self.new_set.clear();
        if !changes.is_empty() {
            let changed = self.graph.commit(&changes, Mode::Async)?;
            self.identities.extend(new.into_iter().zip(changed.identities));
        }
        Ok(())
    }

    pub(super) fn root(&mut self, name: &str, to: u64) -> Outcome {
        self.commit()?;
        let word = match Reference::from_word(to).identity() {
            None => Reference::from_word(to),
            Some(identity) if self.is_salvage && !self.identities.contains_key(&identity.get()) => {
                self.lost += 1;
                return Ok(());
            }
            Some(identity) => self.known(identity.get())?.into(),
        };
        let mut changes = Changes::new();
        changes.set_root(name, word);
        self.graph.commit(&changes, Mode::Async)?;
        Ok(())
    }

    fn known(&self, identity: u64) -> Result<Identity, Failure> {
        let known = self.identities.get(&identity).copied();
        known.ok_or_else(|| Failure(format!("an object or a root refers to {identity:016x}, which is not in the dump")))
    }

    /// Sets the references to objects that came later. Returns the number of those to objects that are not in the dump: they stay
    /// null, because only an object that no root reaches can have them.
    pub(super) fn end(mut self) -> Result<u64, Failure> {
        self.commit()?;
        self.drop_classes()?;
        for missing in self.missing.chunks(COMMIT_LEN / 64) {
            let mut changes = Changes::new();
            for &(from, to, offset) in missing {
                match self.identities.get(&to) {
                    Some(&to) => drop(changes.patch_reference(self.known(from)?, offset, to)),
                    None => self.lost += 1,
                }
            }
            self.graph.commit(&changes, Mode::Async)?;
        }
        Ok(self.lost)
    }

    /// Drops the classes that the dump has without a definition: their numbers stay taken. There are no objects yet.
    fn drop_classes(&mut self) -> Outcome {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped.is_empty() {
            return Ok(());
        }
        let mut collection = self.graph.collect([])?;
        while collection.stage() != Stage::Done {
            match collection.stage() {
                Stage::Marked => collection.seal([])?,
                _ => collection.step(STEP)?,
            };
        }
        match collection.drop_classes(&dropped)? {
            Some(_) => Ok(()),
            None => fail("dropped classes could not be dropped again"),
        }
    }
}
