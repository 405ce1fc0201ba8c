//! Verification of a whole graph: each reference leads to an object, and each piece belongs to one object (E21.4).
//!
//! An unreachable object may refer to one that was removed, if a garbage collection was ended by a crash or by its
//! caller after it had removed the one and not the other. So the references of unreachable objects are not verified.

use std::collections::{BTreeMap, BTreeSet};

use cedrat_structures::Checked;
use cedrat_txn::{Result, Txn};

use crate::graph::branch::is_in_doubt;
use crate::graph::class_use::ClassNames;
use crate::graph::handle::Graph;
use crate::graph::long::{Head, PieceWriter, Stored, leaf};
use crate::graph::object::{HEADER_LEN, Header, words};
use crate::graph::reading::is_about_pieces;
use crate::graph::word::{Identity, Word};

/// Kind of the record behind an identity.
enum Seen {
    Object,
    Node,
    Leaf,
}

struct Walk<'g> {
    graph: &'g Graph,
    class_names: ClassNames,
    seen: BTreeMap<Identity, Seen>,
    /// Pieces, and the head of each.
    heads: BTreeMap<Identity, Identity>,
    /// Objects that a root reaches, and those of them whose references were not followed yet.
    reached: BTreeSet<Identity>,
    open: Vec<Identity>,
    /// For each class, whether it is defined, and was not dropped.
    classes: Vec<bool>,
    checked: Checked,
}

impl Graph {
    /// Walks the graph and verifies it: every root, and every reference of a reachable object, refers to an object;
    /// every piece of such an object belongs to no other. Elements are objects, including unreachable ones.
    ///
    /// It waits until no commit changes the graph, makes other commits wait, and flushes the graph.
    ///
    /// # Errors
    /// Errors that prevent the walk; [`cedrat_txn::Error::InDoubt`] while a branch of the graph is in doubt. Problems
    /// of the graph are in the result.
    pub fn check(&self) -> Result<Checked> {
        self.check_names(self.shared.class_names)
    }

    /// Like [`check`](Graph::check), with another [`Options::class_tag`](crate::graph::Options::class_tag): for tools that do not
    /// know that of the program when they open the graph.
    ///
    /// # Errors
    /// Errors of [`check`](Graph::check).
    pub fn check_with_class_tag(&self, tag: Option<u8>) -> Result<Checked> {
        self.check_names(ClassNames { tag })
    }

    fn check_names(&self, class_names: ClassNames) -> Result<Checked> {
        let shared = &self.shared;
        let mut txn = self.begin();
        let mut checked = Checked::default();
        let classes = shared.classes.check(&mut txn, &mut checked)?;
        let ids = match shared.objects.ids(&mut txn) {
            Err(error) if is_in_doubt(&error) => return Err(error),
            ids => ids,
        };
        let objects = shared.objects.check(&txn)?;
        checked.pages.extend(objects.pages);
        checked.bytes = objects.bytes;
        checked.pages.push(shared.root);
        checked.problems.extend(objects.problems);
        let roots = shared.roots.check(&txn)?;
        checked.pages.extend(roots.pages);
        checked.problems.extend(roots.problems.into_iter().map(|problem| format!("roots: {problem}")));
        let Ok(ids) = ids else { return Ok(checked) }; // the check of the objects has reported why
        let (seen, heads, reached) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut walk = Walk { graph: self, class_names, seen, heads, reached, open: Vec::new(), classes, checked };
        for &id in &ids {
            walk.look(&mut txn, Identity::of(id))?;
        }
        walk.roots(&mut txn)?;
        while let Some(at) = walk.open.pop() {
            walk.follow(&mut txn, at)?;
        }
        Ok(walk.checked)
    }
}

impl Walk<'_> {
    fn problem(&mut self, at: Identity, what: impl std::fmt::Display) {
        self.checked.problems.push(format!("page {}: the object at {at}: {what}", at.place().page));
    }

    fn record(&mut self, txn: &mut Txn, at: Identity) -> Result<Vec<u8>> {
        self.graph.shared.objects.read(txn, at.place(), <[u8]>::to_vec)
    }

    /// Determines the kind of a record.
    fn look(&mut self, txn: &mut Txn, at: Identity) -> Result<()> {
        let bytes = self.record(txn, at)?;
        let seen = match Stored::of(&bytes) {
            Ok(Stored::Short(_) | Stored::Long(_)) => {
                self.checked.elements += 1;
                Seen::Object
            }
            Ok(Stored::Node { .. }) => Seen::Node,
            Ok(Stored::Leaf(_)) => Seen::Leaf,
            Err(what) => {
                self.problem(at, what);
                return Ok(());
            }
        };
        self.seen.insert(at, seen);
        Ok(())
    }

    /// Follows the references of an object.
    fn follow(&mut self, txn: &mut Txn, at: Identity) -> Result<()> {
        let bytes = self.record(txn, at)?;
        match Stored::of(&bytes) {
            Ok(Stored::Short(bytes)) => match Header::of_object(bytes, bytes.len() as u64) {
                Ok(header) => self.references(at, header, &bytes[header.references_at() as usize..]),
                Err(what) => self.problem(at, what),
            },
            Ok(Stored::Long(head)) => self.pieces(txn, at, &head)?,
            _ => {}
        }
        Ok(())
    }

    fn pieces(&mut self, txn: &mut Txn, at: Identity, head: &Head) -> Result<()> {
        let graph = self.graph;
        let mut own = PieceWriter { objects: &graph.shared.objects, txn, born: &mut Vec::new() };
        let all = match head.pieces(&mut own) {
            Err(error) if is_about_pieces(&error) => {
                self.problem(at, error);
                return Ok(());
            }
            all => all?,
        };
        let pieces = all.nodes.iter().map(|&node| (node, true)).chain(all.leaves.iter().map(|&leaf| (leaf, false)));
        let before = self.checked.problems.len();
        for (piece, is_node) in pieces {
            match (self.seen.get(&piece), is_node) {
                (Some(Seen::Node), true) | (Some(Seen::Leaf), false) => {}
                _ => self.problem(at, format_args!("the object at {piece} is not one of its pieces")),
            }
            if let Some(other) = self.heads.insert(piece, at) {
                self.problem(at, format_args!("its piece at {piece} belongs to the object at {other} as well"));
            }
        }
        if self.checked.problems.len() > before {
            return Ok(()); // they would be reported twice
        }
        let mut references = None;
        let mut first = 0_u64;
        for (index, &piece) in all.leaves.iter().enumerate() {
            let len = head.leaf_len(index);
            let bytes = match leaf(&mut own, piece, len, <[u8]>::to_vec) {
                Err(error) if is_about_pieces(&error) => {
                    self.problem(at, error);
                    return Ok(());
                }
                bytes => bytes?,
            };
            if index == 0 {
                match Header::of_object(&bytes[..HEADER_LEN.min(len)], head.len) {
                    Ok(header) => references = Some(header),
                    Err(what) => self.problem(at, what),
                }
            }
            let Some(header) = references else { return Ok(()) };
            let skipped = header.references_at().saturating_sub(first).min(len as u64) as usize;
            self.references(at, header, &bytes[skipped..]);
            first += len as u64;
        }
        Ok(())
    }

    fn references(&mut self, at: Identity, header: Header, bytes: &[u8]) {
        self.class(at, header.class);
        for word in words(bytes) {
            if let Some(class) = self.class_names.of_word(word) {
                self.class(at, class);
            }
            match word.kind() {
                Word::Null | Word::Value => {}
                Word::Object(to) if self.reach(to) => {}
                Word::Object(to) => self.problem(at, format_args!("it refers to {to}, which is not an object")),
                Word::New(_) | Word::Nowhere => {
                    self.problem(at, format_args!("its reference {:#x} is invalid", word.word()));
                }
            }
        }
    }

    /// Verifies a class that an object has, or names.
    fn class(&mut self, at: Identity, class: u32) {
        if let Some(what) = self.problem_of_class(class) {
            self.problem(at, what);
        }
    }

    fn problem_of_class(&self, class: u32) -> Option<String> {
        match (class as usize).checked_sub(1).and_then(|at| self.classes.get(at)) {
            Some(true) => None,
            Some(false) => Some(format!("its class {class} was dropped")),
            None => Some(format!("its class is {class}, but there are {}", self.classes.len())),
        }
    }

    /// Marks an object as reached. Returns `false` if it does not exist.
    fn reach(&mut self, to: Identity) -> bool {
        let is_object = matches!(self.seen.get(&to), Some(Seen::Object));
        if is_object && self.reached.insert(to) {
            self.open.push(to);
        }
        is_object
    }

    fn roots(&mut self, txn: &mut Txn) -> Result<()> {
        for (name, to) in self.graph.roots_in(txn)? {
            let what = match to.kind() {
                Word::Value => {
                    let class = self.class_names.of_word(to);
                    class.and_then(|class| self.problem_of_class(class)).map(|what| format!("names a class: {what}"))
                }
                Word::Object(identity) if self.reach(identity) => None,
                _ => Some(format!("refers to {:#x}, which is not an object", to.word())),
            };
            let page = self.graph.shared.roots.root();
            self.checked.problems.extend(what.map(|what| format!("page {page}: the root \"{name}\" {what}")));
        }
        Ok(())
    }
}
