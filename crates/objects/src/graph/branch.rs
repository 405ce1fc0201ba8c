//! Commits in two phases: prepared changes, and the state that is kept while they are in doubt (E21.8, E21.9).
//!
//! The log contains what a branch has made, what it refers to, and the previous values of the roots that it changes,
//! in records of the graph's own within the branch's transaction (docs/formats/graph.md). So it is the same in the
//! opening in which it prepared, and in all others.

use std::collections::BTreeMap;

use cedrat_pages::PageId;
use cedrat_sync::{Mutex, planted};
use cedrat_txn::object_cache::InDoubtRecords;
use cedrat_txn::{Commit, Error, Result, Store, Txn, Vote};
use cedrat_wal::TxnId;

use crate::graph::classes::NewClasses;
use crate::graph::entries::Entries;
use crate::graph::error::GraphError;
use crate::graph::gc::GcNotice;
use crate::graph::handle::{Graph, ROOT_NAME_LEN_MAX};
use crate::graph::word::{Identity, Reference};

/// Kind of the records in which a branch notes what a garbage collection must keep.
pub(crate) const NOTE: &str = "cedrat.graph.branch.v1";

const MADE: u8 = 1;
const KEPT: u8 = 2;
const ROOT: u8 = 3;
const CHANGED: u8 = 4;

/// Largest number of identities in one record.
const IDENTITIES_MAX: usize = 256;

/// Result of a prepare.
#[derive(Debug)]
#[must_use = "a prepared transaction waits for its outcome"]
pub struct Branch {
    /// Identities of the new objects, in their order.
    pub identities: Vec<Identity>,
    /// Vote of the transaction. A prepared branch that is dropped stays in doubt.
    pub vote: Vote,
}

/// In-memory state of a branch in doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InDoubt {
    /// New objects and pieces.
    pub(crate) made: Vec<Identity>,
    /// Objects that it refers to, or referred to before it overwrote the reference.
    pub(crate) kept: Vec<Identity>,
    /// Objects that it changes.
    pub(crate) changed: Vec<Identity>,
    /// Roots that it changes, with their previous values.
    pub(crate) roots: BTreeMap<String, Reference>,
}

/// All branches of a graph that may be in doubt.
#[derive(Debug, Default)]
pub(crate) struct InDoubtBranches(Mutex<Branches>);

#[derive(Debug, Default)]
struct Branches {
    /// Some may have ended: the end of a branch is not reported here.
    all: BTreeMap<TxnId, InDoubt>,
    /// The number of branches at which those that have ended are searched for.
    searched_at: usize,
}

impl Branches {
    /// Adds a branch. Searches for those that have ended when there are twice as many as after the last search: with many in
    /// doubt, a search by each would take quadratic time.
    fn enter(&mut self, txn: TxnId, branch: InDoubt, is_prepared: impl Fn(TxnId) -> bool) {
        if self.all.len() >= self.searched_at {
            self.remove_ended(is_prepared);
            self.searched_at = 2 * self.all.len() + 8;
        }
        self.all.insert(txn, branch);
    }

    fn remove_ended(&mut self, is_prepared: impl Fn(TxnId) -> bool) {
        self.all.retain(|&txn, _| is_prepared(txn));
    }
}

impl InDoubtBranches {
    /// Loads the branches of earlier openings.
    pub(crate) fn load(store: &Store, root: PageId) -> Result<InDoubtBranches> {
        let mut all = BTreeMap::new();
        for (branch, notes) in store.noted_in_doubt(NOTE) {
            let mut found = InDoubt::default();
            let mut is_of_this = false;
            for note in notes {
                let bad =
                    || Error::user(format!("the graph changes of prepared transaction {} are corrupt", branch.txn));
                is_of_this |= found.read(&note, root).ok_or_else(bad)?;
            }
            if is_of_this {
                all.insert(branch.txn, found);
            }
        }
        Ok(InDoubtBranches(Mutex::new(Branches { all, searched_at: 0 })))
    }

    fn enter(&self, store: &Store, txn: TxnId, branch: InDoubt) {
        self.0.lock().enter(txn, branch, |txn| store.is_prepared(txn));
    }

    /// Returns whether a branch may be in doubt.
    pub(crate) fn is_any(&self, store: &Store) -> bool {
        let mut branches = self.0.lock();
        if !branches.all.is_empty() {
            branches.remove_ended(|txn| store.is_prepared(txn));
        }
        !branches.all.is_empty()
    }

    /// Returns the branches that are still in doubt.
    pub(crate) fn now(&self, store: &Store) -> BTreeMap<TxnId, InDoubt> {
        let mut branches = self.0.lock();
        branches.remove_ended(|txn| store.is_prepared(txn));
        branches.all.clone()
    }
}

impl InDoubt {
    /// Adds a note; returns whether it belongs to the graph with this root page. `None` if it is invalid.
    fn read(&mut self, note: &[u8], root: PageId) -> Option<bool> {
        let (of, rest) = note.split_first_chunk()?;
        let (&what, rest) = rest.split_first()?;
        if u64::from_le_bytes(*of) != root.get() {
            return Some(false);
        }
        match what {
            MADE | KEPT | CHANGED => {
                let (words, more) = rest.as_chunks();
                let identities = words.iter().map(|&word| Identity::new(u64::from_le_bytes(word)));
                let identities = identities.collect::<Option<Vec<_>>>().filter(|_| more.is_empty())?;
                match what {
                    MADE => self.made.extend(identities),
                    KEPT => self.kept.extend(identities),
                    _ => self.changed.extend(identities),
                }
            }
            ROOT => {
                let (word, name) = rest.split_first_chunk()?;
                let name = str::from_utf8(name).ok().filter(|name| name.len() <= ROOT_NAME_LEN_MAX)?;
                self.roots.insert(name.into(), Reference::from_word(u64::from_le_bytes(*word)));
            }
            _ => return None,
        }
        Some(true)
    }

    fn note(&self, txn: &mut Txn, root: PageId) -> Result<()> {
        for (what, identities) in [(MADE, &self.made), (KEPT, &self.kept), (CHANGED, &self.changed)] {
            for some in identities.chunks(IDENTITIES_MAX) {
                let words: Vec<u8> = some.iter().flat_map(|identity| identity.get().to_le_bytes()).collect();
                txn.log_record(NOTE, &note(root, what, &words))?;
            }
        }
        for (name, was) in &self.roots {
            let bytes = [&was.word().to_le_bytes()[..], name.as_bytes()].concat();
            txn.log_record(NOTE, &note(root, ROOT, &bytes))?;
        }
        Ok(())
    }
}

/// A transaction that defines classes. Dropped, it is rolled back.
pub(crate) struct Defining<'g> {
    new: NewClasses<'g>,
    txn: Txn,
}

impl Defining<'_> {
    pub(crate) fn commit(self) -> Result<()> {
        self.txn.commit(Commit::Async)?;
        self.new.accept();
        Ok(())
    }
}

fn note(root: PageId, what: u8, bytes: &[u8]) -> Vec<u8> {
    [&root.get().to_le_bytes()[..], &[what], bytes].concat()
}

impl Graph {
    /// Prepares changes (as [`commit`](Graph::commit) takes them) as a branch of a transaction that spans several
    /// stores: when this returns, the branch can be committed or rolled back, also after a crash, and everything that
    /// it depends on is durable. `id` identifies the branch, also in later openings of the store: see
    /// [`cedrat_txn::Txn::prepare`].
    ///
    /// Classes that the changes define are defined when this returns, whatever the outcome.
    ///
    /// Until its outcome no reader sees its other changes: objects and roots are read as they were. Commits that would
    /// change the same objects or roots are refused with [`Error::InDoubt`], and garbage collections keep all that it
    /// has made or refers to.
    ///
    /// # Errors
    /// As [`commit`](Graph::commit), and those of [`cedrat_txn::Txn::prepare`]. Nothing has happened then, except that classes of
    /// these changes may be defined after an error of the latter.
    pub fn prepare(&self, changes: impl AsRef<[u8]>, id: &[u8]) -> Result<Branch> {
        self.prepare_at_most(changes, id, u64::MAX)
    }

    /// Like [`prepare`](Graph::prepare), with a limit on the number of new identities.
    ///
    /// # Errors
    /// Errors of [`prepare`](Graph::prepare); [`GraphError::TooManyNew`].
    pub fn prepare_at_most(&self, changes: impl AsRef<[u8]>, id: &[u8], identities_max: u64) -> Result<Branch> {
        let entries = self.entries(changes.as_ref(), identities_max)?;
        self.again_after_deadlocks(|| self.try_prepare(&entries, id))
    }

    /// Returns the existing objects and the names of roots that a branch in doubt changes, also one of an earlier
    /// opening. A program that keeps objects in memory learns from it which of these may change soon. `None` if no
    /// branch of this graph is in doubt under this identifier, and in a process that was forked from that of the store.
    pub fn changed_by_branch(&self, id: &[u8]) -> Option<(Vec<Identity>, Vec<String>)> {
        let branch = self.store.in_doubt().ok()?.into_iter().find(|branch| branch.id == id)?;
        let branch = self.shared.in_doubt.now(&self.store).remove(&branch.txn)?;
        Some((branch.changed, branch.roots.into_keys().collect()))
    }

    fn try_prepare(&self, entries: &Entries<'_>, id: &[u8]) -> Result<Branch> {
        // Held until the branch is entered below: a garbage collection that begins after that finds the branch
        // (E21.9).
        let _open = self.shared.collecting.enter();
        let defining = self.define_apart(entries)?;
        let mut txn = self.begin();
        let mut roots = BTreeMap::new();
        for name in entries.root_names() {
            roots.insert(name.to_owned(), self.root_in(&mut txn, name)?.unwrap_or_default());
        }
        let (identities, GcNotice { born, kept }) = self.change_in(&mut txn, entries, true)?;
        let [kept, changed] = [kept, entries.changed().collect()].map(|mut identities| {
            identities.sort_unstable();
            identities.dedup();
            identities
        });
        let branch = InDoubt { made: born, kept, changed, roots };
        branch.note(&mut txn, self.shared.root)?;
        // As late as possible, but before the branch: when that is in doubt, the classes of its objects are defined.
        defining.commit()?;
        let number = txn.id();
        let vote = txn.prepare(id)?;
        if matches!(vote, Vote::Prepared(_)) {
            self.shared.in_doubt.enter(&self.store, number, branch);
        }
        Ok(Branch { identities, vote })
    }

    /// Writes the definitions among these changes in a transaction of their own. A branch may be in doubt for long, and no other
    /// commit could define classes meanwhile.
    pub(crate) fn define_apart(&self, entries: &Entries<'_>) -> Result<Defining<'_>> {
        let mut txn = self.begin();
        let new = self.shared.classes.define(&mut txn, entries)?;
        Ok(Defining { new, txn })
    }

    /// Returns all roots as they were committed last, if a branch in doubt has changed some. The gate is closed: no
    /// other thread changes roots.
    pub(crate) fn roots_beside_branches(&self) -> Result<Vec<(String, Reference)>> {
        loop {
            let before = self.shared.in_doubt.now(&self.store);
            let options = cedrat_txn::TxnOptions::default().without_isolation();
            let found = self.roots_in(&mut self.store.begin_with(options))?;
            let after = self.shared.in_doubt.now(&self.store);
            // A branch that has ended meanwhile may have been in the middle of its rollback.
            if before != after {
                continue;
            }
            let mut roots: BTreeMap<String, Reference> = found.into_iter().collect();
            let after = after.into_iter().filter(|_| !planted!("roots_in_doubt_shown"));
            roots.extend(after.flat_map(|(_, branch)| branch.roots));
            roots.retain(|_, to| *to != Reference::NULL);
            return Ok(roots.into_iter().collect());
        }
    }
}

impl From<&InDoubt> for GcNotice {
    fn from(branch: &InDoubt) -> GcNotice {
        // If the branch rolls back, its roots lead to their previous objects again, whether or not other transactions
        // see them locked.
        let of_roots = branch.roots.values().filter_map(|to| to.identity());
        let kept = branch.kept.iter().chain(&branch.changed).copied().chain(of_roots).collect();
        GcNotice { born: branch.made.clone(), kept }
    }
}

/// Returns whether a transaction in doubt caused this error.
pub(crate) fn is_in_doubt(error: &Error) -> bool {
    matches!(GraphError::cause(error), Error::InDoubt { .. })
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use std::cell::Cell;

    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::Arc;
    use cedrat_txn::Registry;

    use super::*;
    use crate::graph::{Changes, Options};

    /// A program that prepares one branch after the other, and never collects garbage.
    #[test]
    fn ended_branches_leave_no_state() {
        let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
        let registry = Registry::new().with(cedrat_structures::register).with(crate::register);
        let store = Store::open(disk, cedrat_txn::Options::simulated(), registry).unwrap();
        let graph = Graph::create(&store, "graph", Options::default()).unwrap();
        graph.define_class(b"").unwrap();
        let in_doubt = |graph: &Graph| graph.shared.in_doubt.0.lock().all.len();
        let prepare = |id: &str| {
            let mut changes = Changes::new();
            changes.add(1, b"new", &[]);
            drop(graph.prepare(&changes, id.as_bytes()).unwrap()); // it stays in doubt
        };
        prepare("in doubt to the end");
        for turn in 0..40 {
            let id = turn.to_string();
            prepare(&id);
            assert!(in_doubt(&graph) <= 10, "the first, the newest, and a few that have ended");
            let branch = store.prepared(id.as_bytes()).unwrap();
            if turn % 2 == 0 {
                branch.commit(Commit::Async).map(drop).unwrap();
            } else {
                branch.rollback().unwrap();
            }
        }
    }

    #[test]
    fn many_branches_enter_in_linear_time() {
        let (mut branches, asked) = (Branches::default(), Cell::new(0));
        let is_there = |_| {
            asked.set(asked.get() + 1);
            true
        };
        (0..10_000).for_each(|txn| branches.enter(TxnId(txn), InDoubt::default(), is_there));
        assert!(asked.get() < 20_000, "{} questions", asked.get());
        assert_eq!(branches.all.len(), 10_000);
        // Of those that end at once few are kept.
        (0..10_000).for_each(|txn| branches.enter(TxnId(10_000 + txn), InDoubt::default(), |of| of.0 < 10_000));
        (20_000..50_000).for_each(|txn| branches.enter(TxnId(txn), InDoubt::default(), |_| false));
        assert!(branches.all.len() <= 8, "{} branches", branches.all.len());
    }
}
