//! Classes in use, and the removal of the definitions of all others (E21.12).
//!
//! A garbage collection notes the classes of the objects that it scans, and a commit beside it those that it names. So at the end
//! of the collection the other classes that were defined at its beginning have no objects. A class is dropped in two steps, as
//! objects are: within one critical section with the notes of commits it is condemned, and no commit uses it any more; a
//! transaction then replaces its definition by a tombstone.

use cedrat_sync::planted;
use cedrat_txn::{Commit, Error, Result};
use cedrat_wal::Ticket;

use crate::graph::classes::Classes;
use crate::graph::commit::in_entry;
use crate::graph::entries::{Entries, What};
use crate::graph::error::GraphError;
use crate::graph::gc::{Collection, Stage};
use crate::graph::object::{HEADER_LEN, Header, words};
use crate::graph::word::Reference;

/// Bits of a value behind the number of the class that it names.
const NUMBER_SHIFT: u32 = 24;

/// The form of values that name classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassNames {
    /// As [`Options::class_tag`](crate::graph::Options::class_tag).
    pub(crate) tag: Option<u8>,
}

impl ClassNames {
    /// The class that a word names.
    pub(crate) fn of_word(self, word: Reference) -> Option<u32> {
        let wanted = self.tag?;
        word.as_value().filter(|&(tag, _)| tag == wanted).map(|(_, payload)| (payload >> NUMBER_SHIFT) as u32)
    }

    /// The classes that words name.
    pub(crate) fn in_words(self, bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
        let bytes = if self.tag.is_some() { bytes } else { &[] };
        words(bytes).filter_map(move |word| self.of_word(word))
    }

    /// Calls `found` with each class that changes name, and whether that is certain: only the stored object shows which bytes of
    /// a patch are references.
    fn in_changes(self, entries: &Entries<'_>, mut found: impl FnMut(usize, u32, bool) -> Result<()>) -> Result<()> {
        for (index, entry) in entries.all.iter().enumerate() {
            match entry.what {
                What::New { object } | What::Put { object, .. } => {
                    let header = Header::of(object).expect("it was checked");
                    found(index, header.class, true)?;
                    let references = &object[header.references_at() as usize..];
                    self.in_words(references).try_for_each(|class| found(index, class, true))?;
                }
                What::Patch { offset, bytes, .. } => {
                    // The words of an object begin at multiples of eight bytes.
                    let first = (offset as usize).next_multiple_of(8) - offset as usize;
                    let whole = bytes.get(first..).unwrap_or_default();
                    self.in_words(whole).try_for_each(|class| found(index, class, false))?;
                }
                What::Root { to, .. } => self.of_word(to).map_or(Ok(()), |class| found(index, class, true))?,
                What::Class { .. } => {}
            }
        }
        Ok(())
    }

    /// Verifies that changes name no dropped class, and calls `uses` with each class that they may name. Returns whether the bytes
    /// of a patch may name a dropped one.
    pub(crate) fn check(self, classes: &Classes, entries: &Entries<'_>, mut uses: impl FnMut(u32)) -> Result<bool> {
        let mut is_in_question = false;
        self.in_changes(entries, |index, class, is_certain| {
            match (classes.is_dropped(class), is_certain) {
                (true, true) => {
                    let error = GraphError::ClassDropped { class }.into();
                    return Err(in_entry(error, &entries.all[index]));
                }
                (true, false) => is_in_question = true,
                (false, _) => uses(class),
            }
            Ok(())
        })?;
        Ok(is_in_question)
    }
}

/// The classes of an object, and of values in its references.
#[derive(Debug, Default)]
pub(crate) struct ClassesOfObject {
    class: u32,
    named: Vec<u32>,
}

impl ClassesOfObject {
    /// `start`: at least the header of the object.
    pub(crate) fn new(names: ClassNames, start: &[u8], references: &[u8]) -> ClassesOfObject {
        let class = Header::of(&start[..HEADER_LEN.min(start.len())]).map_or(0, |header| header.class);
        ClassesOfObject { class, named: names.in_words(references).collect() }
    }
}

/// The classes that a garbage collection knows to be in use, among those that were defined when it began.
#[derive(Debug, Default)]
pub(crate) struct UsedClasses {
    /// By number.
    is_used: Vec<bool>,
    /// Whether objects stay that it has not scanned, or that it did not find reachable: those of branches in doubt.
    is_incomplete: bool,
}

impl UsedClasses {
    /// `count`: the number of classes that are defined. `is_incomplete`: a branch is in doubt, whose objects are marked without
    /// being scanned.
    pub(crate) fn new(count: u32, is_incomplete: bool) -> UsedClasses {
        let is_incomplete = is_incomplete && !planted!("classes_of_branches_not_kept");
        UsedClasses { is_used: vec![false; count as usize + 1], is_incomplete }
    }

    pub(crate) fn insert(&mut self, class: u32) {
        if let Some(is_used) = self.is_used.get_mut(class as usize) {
            *is_used = true;
        }
    }

    pub(crate) fn insert_of(&mut self, object: &ClassesOfObject) {
        self.insert(object.class);
        if !planted!("classes_of_words_not_noted") {
            object.named.iter().for_each(|&class| self.insert(class));
        }
    }

    /// An unreachable object stays.
    pub(crate) fn set_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    fn is_unused(&self, class: u32) -> bool {
        !self.is_incomplete && class != 0 && self.is_used.get(class as usize) == Some(&false)
    }

    fn unused(&self) -> impl Iterator<Item = u32> + '_ {
        (1..self.is_used.len() as u32).filter(|&class| self.is_unused(class))
    }
}

impl Collection {
    /// Returns the numbers of the classes that no object has and no value names (see
    /// [`Options::class_tag`](crate::graph::Options::class_tag)), among those that were defined when the collection began.
    /// None, if a branch was in doubt then or is now, because it may have objects of each.
    ///
    /// # Errors
    /// [`Error::Misuse`] unless the stage is [`Done`](Stage::Done).
    pub fn unused_classes(&self) -> Result<Vec<u32>> {
        self.expect_done()?;
        let shared = &self.graph().shared;
        if shared.in_doubt.is_any(self.graph().store()) {
            return Ok(Vec::new());
        }
        let unused = shared.collecting.with(|running| running.used.unused().collect::<Vec<_>>());
        Ok(unused.into_iter().filter(|&class| !shared.classes.is_dropped(class)).collect())
    }

    /// Drops classes that [`unused_classes`](Collection::unused_classes) returns, all or none, in a transaction of its own. Returns
    /// `None`, and drops none, if a commit has used one of them meanwhile, or if one is not among those. The ticket is that of the
    /// transaction: the call does not wait until it is durable.
    ///
    /// The numbers stay taken. A commit that uses one of them is refused with [`GraphError::ClassDropped`].
    ///
    /// # Errors
    /// [`Error::Misuse`] unless the stage is [`Done`](Stage::Done); those of any change.
    pub fn drop_classes(&mut self, numbers: &[u32]) -> Result<Option<Ticket>> {
        self.expect_done()?;
        let graph = self.graph();
        let shared = &graph.shared;
        if shared.in_doubt.is_any(&graph.store) {
            return Ok(None);
        }
        let condemned = shared.collecting.with(|running| {
            let may_drop = |&number: &u32| running.used.is_unused(number) && !shared.classes.is_dropped(number);
            if planted!("used_class_passed_over") {
                let some: Vec<u32> = numbers.iter().copied().filter(may_drop).collect();
                return Some(shared.classes.condemn(&some));
            }
            numbers.iter().all(may_drop).then(|| shared.classes.condemn(numbers))
        });
        let Some(condemned) = condemned else { return Ok(None) };
        let ticket = graph.again_after_deadlocks(|| {
            let mut txn = graph.begin();
            condemned.bury(&mut txn)?;
            txn.commit(Commit::Async)
        })?;
        condemned.accept();
        Ok(Some(ticket))
    }

    fn expect_done(&self) -> Result<()> {
        match self.stage() {
            Stage::Done => Ok(()),
            _ => Err(Error::Misuse(
                "unused classes are known when the garbage collection is Done; continue its steps before",
            )),
        }
    }
}
