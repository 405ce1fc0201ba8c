//! Collection of what nobody reaches, a piece at a time, while commits go on (E21.5 to E21.7).
//!
//! ```text
//!           begin                 step: nothing left           seal                  step: all pages seen
//!   (none) ───────▶ Marking ─────────────────────▶ Marked ───────────────▶ Sweeping ──────────────────────▶ Done
//!                      ▲                             │
//!                      └──── commits, reads, seal ───┘
//! ```
//!
//! What is reached when it begins is kept, whatever becomes of it: a snapshot at the beginning (Yuasa). So roots are marked
//! at once, a commit says which references it overwrites, and what it makes is marked from the beginning. Nothing of a
//! collection is in the store but its end, objects that were removed by ordinary transactions: a crash forgets it.

use std::collections::HashMap;

use cedrat_objects::{ObjectError, ObjectId};
use cedrat_pages::PageId;
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Mutex, RwLock};
use cedrat_txn::{Commit, Error, Result, Txn};

use crate::graph::{Graph, Shared};
use crate::long::Stored;
use crate::word::Identity;

/// Objects that are known to be looked at next, at most; others are found in the marks again.
const OPEN_MAX: usize = 1 << 16;

/// Words of a page's marks: no page has more slots than this has bits.
const MARK_WORDS: usize = 6;
const _: () = assert!(MARK_WORDS * 64 >= cedrat_pages::BODY_LEN / 12, "a slot takes twelve bytes");

/// What is marked of one page, and what of that was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct PageMarks {
    marked: [u64; MARK_WORDS],
    looked_at: [u64; MARK_WORDS],
}

/// What is marked: 96 bytes, and the map's share, for each page that has something.
#[derive(Debug, Default)]
struct Marks {
    pages: HashMap<u64, PageMarks>,
    /// Marked, and not looked at.
    open: Vec<Identity>,
    /// Some of those are in the marks alone.
    some_are_not_open: bool,
    marked: u64,
}

fn bit(identity: Identity) -> Option<(u64, usize, u64)> {
    let (page, slot) = (identity.get() >> 16, (identity.get() & 0xffff) as usize);
    (slot < MARK_WORDS * 64).then_some((page, slot / 64, 1 << (slot % 64)))
}

impl Marks {
    fn is_marked(&self, identity: Identity) -> bool {
        bit(identity)
            .is_some_and(|(page, word, bit)| self.pages.get(&page).is_some_and(|marks| marks.marked[word] & bit != 0))
    }

    /// Marks what has yet to be looked at.
    fn reach(&mut self, identity: Identity) {
        let Some((page, word, bit)) = bit(identity) else { return }; // no object can be there
        let marks = self.pages.entry(page).or_default();
        if marks.marked[word] & bit == 0 {
            marks.marked[word] |= bit;
            self.marked += 1;
            self.put_open(identity);
        }
    }

    fn put_open(&mut self, identity: Identity) {
        if self.open.len() < OPEN_MAX {
            self.open.push(identity);
        } else {
            self.some_are_not_open = true;
        }
    }

    /// Marks what need not be looked at.
    fn keep(&mut self, identity: Identity) {
        let Some((page, word, bit)) = bit(identity) else { return };
        let marks = self.pages.entry(page).or_default();
        self.marked += u64::from(marks.marked[word] & bit == 0);
        marks.marked[word] |= bit;
        marks.looked_at[word] |= bit;
    }

    /// Of a commit that is about to end.
    fn told(&mut self, told: &Told, is_marking: bool) {
        told.born.iter().for_each(|&identity| self.keep(identity));
        if is_marking {
            told.kept.iter().for_each(|&identity| self.reach(identity));
        }
    }

    /// The next that has to be looked at; it counts as looked at from now on.
    fn next(&mut self) -> Option<Identity> {
        loop {
            while let Some(identity) = self.open.pop() {
                let (page, word, bit) = bit(identity).expect("it is marked");
                let marks = self.pages.get_mut(&page).expect("it is marked");
                if marks.looked_at[word] & bit == 0 {
                    marks.looked_at[word] |= bit;
                    return Some(identity);
                }
            }
            if !std::mem::take(&mut self.some_are_not_open) {
                return None;
            }
            let mut found = Vec::new();
            for (&page, marks) in &self.pages {
                for word in 0..MARK_WORDS {
                    let mut open = marks.marked[word] & !marks.looked_at[word];
                    while open != 0 {
                        let slot = word as u64 * 64 + u64::from(open.trailing_zeros());
                        found.extend(Identity::new(page << 16 | slot));
                        open &= open - 1;
                    }
                }
            }
            found.into_iter().for_each(|identity| self.put_open(identity));
        }
    }

    /// It could not be looked at.
    fn again(&mut self, identity: Identity) {
        let Some((page, word, bit)) = bit(identity) else { return };
        self.pages.entry(page).or_default().looked_at[word] &= !bit;
        self.put_open(identity);
    }

    fn is_anything_open(&self) -> bool {
        // Those that were looked at meanwhile are still in it; then one more step finds that out.
        !self.open.is_empty() || self.some_are_not_open
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Marking,
    Sweeping,
}

#[derive(Debug)]
struct Running {
    phase: Phase,
    marks: Marks,
}

/// A graph's collection, if one is under way. Shared by all handles.
#[derive(Debug, Default)]
pub(crate) struct Collecting {
    /// Held shared by each commit, so that a collection begins, and turns from marking to sweeping, between commits.
    pub(crate) gate: RwLock<()>,
    /// Whether there is one; changes with the gate closed.
    is_running: AtomicBool,
    running: Mutex<Option<Running>>,
}

/// What a commit finds under way, with the gate held shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    Marking,
    Sweeping,
}

/// What a commit tells a collection.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// New objects and pieces.
    pub(crate) born: Vec<Identity>,
    /// What was referred to where something else is now, and what is.
    pub(crate) kept: Vec<Identity>,
}

impl Collecting {
    pub(crate) fn beside(&self) -> Beside {
        if !self.is_running.load(Ordering::Acquire) {
            return Beside::Nothing;
        }
        match self.running.lock().as_ref().map(|running| running.phase) {
            None => Beside::Nothing,
            Some(Phase::Marking) => Beside::Marking,
            Some(Phase::Sweeping) => Beside::Sweeping,
        }
    }

    /// Of a commit that is about to end: what it has made, has overwritten, and refers to.
    pub(crate) fn told(&self, told: &Told) {
        if let Some(Running { phase, marks }) = self.running.lock().as_mut() {
            marks.told(told, *phase == Phase::Marking);
        }
    }

    /// Whether this object is still there for commits.
    pub(crate) fn is_marked(&self, identity: Identity) -> bool {
        self.running.lock().as_ref().is_none_or(|running| running.marks.is_marked(identity))
    }

    /// Somebody has read an object, and has it from now on. `false`: nobody reaches it, and it is about to go.
    pub(crate) fn is_read(&self, identity: Identity) -> bool {
        if !self.is_running.load(Ordering::Acquire) {
            return true;
        }
        match self.running.lock().as_mut() {
            None => true,
            Some(Running { phase: Phase::Marking, marks }) => {
                marks.reach(identity);
                true
            }
            Some(Running { phase: Phase::Sweeping, marks }) => marks.is_marked(identity),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Running) -> T) -> T {
        work(self.running.lock().as_mut().expect("it runs as long as its handle lives"))
    }
}

/// How far a collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Some of what is reached has not been looked at.
    Marking,
    /// Everything that was reached has been looked at: [`Collection::seal`] is next.
    Marked,
    /// What is not reached is being removed.
    Sweeping,
    /// All of it was removed.
    Done,
}

/// What a collection has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Objects and pieces that stay.
    pub marked: u64,
    /// Objects that were removed.
    pub objects: u64,
    /// Pieces of objects that were removed.
    pub pieces: u64,
    /// Memory for marks, in bytes.
    pub mark_bytes: u64,
}

/// A collection under way: see [`Graph::collect`]. Dropped, it is given up; what it has removed stays so.
#[derive(Debug)]
pub struct Collection {
    graph: Graph,
    stage: Stage,
    /// Pages that were not swept yet, the last one first.
    pages: Vec<PageId>,
    /// Of the page that is being swept.
    records: Vec<ObjectId>,
    collected: Collected,
}

impl Drop for Collection {
    fn drop(&mut self) {
        let collecting = &self.graph.shared.collecting;
        let _closed = collecting.gate.write();
        collecting.is_running.store(false, Ordering::Release);
        *collecting.running.lock() = None;
    }
}

impl Graph {
    /// Begins to collect objects that nobody reaches: neither a root, nor one of `alive`, objects that the program holds
    /// otherwise. What is reached now is kept, as is what comes from now on.
    ///
    /// It waits for commits under way, and reads the roots; the rest is done by [`Collection::step`], by any thread, while
    /// commits and reads go on. One collection of a graph runs at a time.
    ///
    /// # Errors
    /// [`Error::Misuse`] while another one lives; if the roots cannot be read.
    pub fn collect(&self, alive: impl IntoIterator<Item = Identity>) -> Result<Collection> {
        let collecting = &self.shared.collecting;
        let closed = collecting.gate.write();
        if collecting.is_running.load(Ordering::Acquire) {
            return Err(Error::Misuse("a collection of the graph is under way; end it first"));
        }
        // No commit has an effect between these and its own beginning to tell what it overwrites.
        let roots = self.roots_behind_the_gate()?;
        let mut marks = Marks::default();
        let of_roots = roots.iter().filter_map(|(_, to)| to.identity());
        alive.into_iter().chain(of_roots).for_each(|identity| marks.reach(identity));
        for branch in self.shared.in_doubt.now(&self.store).values() {
            // As if it were just being made (E21.9).
            marks.told(&branch.into(), true);
        }
        *collecting.running.lock() = Some(Running { phase: Phase::Marking, marks });
        collecting.is_running.store(true, Ordering::Release);
        drop(closed);
        let collected = Collected::default();
        Ok(Collection { graph: self.clone(), stage: Stage::Marking, pages: Vec::new(), records: Vec::new(), collected })
    }
}

impl Collection {
    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What it has done so far.
    pub fn collected(&self) -> Collected {
        let marks = |running: &mut Running| {
            let page = size_of::<PageMarks>() + size_of::<u64>();
            let bytes = running.marks.pages.capacity() * page + running.marks.open.capacity() * size_of::<Identity>();
            (running.marks.marked, bytes as u64)
        };
        let (marked, mark_bytes) = self.graph.shared.collecting.with(marks);
        Collected { marked, mark_bytes, ..self.collected }
    }

    /// Goes on: looks at so many objects at most, or sweeps so many records; says how far it is then. In the stage
    /// [`Marked`](Stage::Marked) it waits for [`seal`](Collection::seal).
    ///
    /// # Errors
    /// Damage, with file and offset; those of a commit. It may be called again.
    pub fn step(&mut self, budget: usize) -> Result<Stage> {
        self.stage = match self.stage {
            Stage::Marking | Stage::Marked => self.mark(budget)?,
            Stage::Sweeping => self.sweep(budget)?,
            Stage::Done => Stage::Done,
        };
        Ok(self.stage)
    }

    fn mark(&mut self, budget: usize) -> Result<Stage> {
        let collecting = &self.graph.shared.collecting;
        for _ in 0..budget {
            let Some(next) = collecting.with(|running| running.marks.next()) else { return Ok(Stage::Marked) };
            let leads_to = match self.graph.leads_to(next) {
                Ok(leads_to) => leads_to,
                Err(error) => {
                    collecting.with(|running| running.marks.again(next));
                    return Err(error);
                }
            };
            collecting.with(|running| {
                leads_to.pieces.into_iter().for_each(|piece| running.marks.keep(piece));
                leads_to.objects.into_iter().for_each(|identity| running.marks.reach(identity));
            });
        }
        Ok(Stage::Marking)
    }

    /// Turns from marking to sweeping, if nothing is left to be looked at. `alive` are the objects that the program holds
    /// beside what roots reach: those from before, which it may still have, and those that it has found since. From here on
    /// what is not marked is gone: it is neither read nor referred to any more.
    ///
    /// Says which stage it is in: [`Sweeping`](Stage::Sweeping), or [`Marking`](Stage::Marking), where something has come up;
    /// then it is to be called again once that was looked at.
    ///
    /// # Errors
    /// [`Error::Misuse`] unless the stage is [`Marked`](Stage::Marked); if the collection's pages cannot be listed.
    pub fn seal(&mut self, alive: impl IntoIterator<Item = Identity>) -> Result<Stage> {
        if self.stage != Stage::Marked {
            return Err(Error::Misuse("the collection is not at the end of marking; go on with its steps"));
        }
        let shared = &self.graph.shared;
        let closed = shared.collecting.gate.write();
        let is_open = shared.collecting.with(|running| {
            alive.into_iter().for_each(|identity| running.marks.reach(identity));
            running.marks.is_anything_open()
        });
        if is_open {
            self.stage = Stage::Marking;
            return Ok(self.stage);
        }
        self.pages = shared.objects.pages(&self.graph.store)?;
        self.pages.reverse();
        shared.collecting.with(|running| running.phase = Phase::Sweeping);
        drop(closed);
        self.stage = Stage::Sweeping;
        Ok(self.stage)
    }

    fn sweep(&mut self, budget: usize) -> Result<Stage> {
        let mut taken = Vec::new();
        let swept = self.sweep_some(budget, &mut taken);
        if swept.is_err() {
            // What they were removed by was rolled back.
            self.records.extend(taken.into_iter().rev());
        }
        let (objects, pieces) = swept?;
        self.collected.objects += objects;
        self.collected.pieces += pieces;
        Ok(if self.pages.is_empty() && self.records.is_empty() { Stage::Done } else { Stage::Sweeping })
    }

    /// Removes records in one transaction. Returns how many objects and pieces.
    fn sweep_some(&mut self, budget: usize, taken: &mut Vec<ObjectId>) -> Result<(u64, u64)> {
        let Graph { store, shared } = &self.graph;
        let mut txn = self.graph.begin();
        let (mut objects, mut pieces) = (0, 0);
        for _ in 0..budget {
            let Some(&record) = self.records.last() else {
                let Some(&page) = self.pages.last() else { break };
                self.records = shared.objects.ids_of_page(store, page)?;
                shared.objects.offer_room(store, page)?;
                self.pages.pop();
                continue;
            };
            match self.graph.sweep_one(&mut txn, Identity::of(record)) {
                Ok(Swept::Object) => objects += 1,
                Ok(Swept::Piece) => pieces += 1,
                Ok(Swept::Nothing) => {}
                // Those that this step has removed hold the cache until it commits.
                Err(error) if objects + pieces > 0 && is_full(&error) => break,
                Err(error) => return Err(error),
            }
            self.records.pop();
            taken.push(record);
        }
        txn.commit(Commit::Async)?;
        Ok((objects, pieces))
    }
}

/// What became of a record.
enum Swept {
    Object,
    Piece,
    /// It stays, or is none.
    Nothing,
}

fn is_full(error: &Error) -> bool {
    matches!(ObjectError::of(error), Some(ObjectError::CacheFull { .. }))
}

impl Graph {
    /// Removes a record, if it is not marked.
    fn sweep_one(&self, txn: &mut Txn, identity: Identity) -> Result<Swept> {
        let Shared { objects, collecting, .. } = &*self.shared;
        let is_marked = || collecting.with(|running| running.marks.is_marked(identity));
        if is_marked() {
            return Ok(Swept::Nothing);
        }
        // Who is just making it has said so when this lock is given back (E21.6).
        match objects.lock_for_change(txn, identity.place()) {
            // Somebody in doubt has it, or another one of its lock: for the next collection.
            Err(Error::InDoubt { .. }) => return Ok(Swept::Nothing),
            locked => locked?,
        }
        if is_marked() {
            return Ok(Swept::Nothing);
        }
        let is_object = |bytes: &[u8]| matches!(Stored::of(bytes), Ok(Stored::Short(_) | Stored::Long(_)));
        let swept = match objects.read_for_change(txn, identity.place(), is_object) {
            Ok(true) => Swept::Object,
            Ok(false) => Swept::Piece,
            Err(error) => {
                return match ObjectError::of(&error) {
                    Some(ObjectError::NoSuchObject { .. }) => Ok(Swept::Nothing),
                    _ => Err(error),
                };
            }
        };
        objects.remove(txn, identity.place())?;
        Ok(swept)
    }
}
