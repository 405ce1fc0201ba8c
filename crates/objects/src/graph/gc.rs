//! Incremental garbage collection of unreachable objects, while commits continue (E21.5 to E21.7).
//!
//! ```text
//!           begin                 step: nothing left           seal                  step: all pages seen
//!   (none) ───────▶ Marking ─────────────────────▶ Marked ───────────────▶ Sweeping ──────────────────────▶ Done
//!                      ▲                             │
//!                      └──── commits, reads, seal ───┘
//! ```
//!
//! The collection keeps all objects that are reachable when it begins: a snapshot at the beginning (Yuasa). So all roots are
//! marked at once, a commit passes the references that it overwrites, and its new objects are marked from the beginning. The
//! store contains no state of a garbage collection except the removal of objects by ordinary transactions: after a crash the
//! collection does not continue.
//!
//! A collection that is abandoned while it sweeps has removed objects that other unmarked objects refer to. So unmarked
//! objects stay removed: the marks are kept, and the next collection continues with them (E21.7).

use std::collections::HashMap;

use crate::{ObjectError, ObjectId};
use cedrat_pages::PageId;
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Mutex, RwLockWriteGuard, planted};
use cedrat_txn::{Commit, Error, Result, Store, Txn};

use crate::graph::class_use::UsedClasses;
use crate::graph::gate::{Entered, Gate};
use crate::graph::handle::{Graph, Shared};
use crate::graph::long::Stored;
use crate::graph::word::Identity;

/// Largest number of identities in the list of open objects; further ones are found by a search of the marks.
const OPEN_MAX: usize = 1 << 16;

/// Words of the marks of one group. The slot numbers of a page may be far apart, so the marks of one page lie in several
/// groups.
const MARK_WORDS: usize = 2;

/// Number of neighbouring identities in one group.
const NEIGHBOURS: u64 = 64 * MARK_WORDS as u64;

/// Marks of one group: the marked objects, and those of them that were scanned.
#[derive(Clone, Copy, Debug, Default)]
struct SomeMarks {
    marked: [u64; MARK_WORDS],
    looked_at: [u64; MARK_WORDS],
}

/// All marks: 40 bytes, and a share of the index, for each group with a marked object.
#[derive(Debug, Default)]
struct Marks {
    groups: Vec<(u64, SomeMarks)>,
    /// Index in `groups` by group number.
    index: HashMap<u64, usize>,
    /// Marked objects that were not scanned yet.
    open: Vec<Identity>,
    /// Number of groups that must still be searched for other open objects, cyclically from `search_at` on.
    to_search: usize,
    search_at: usize,
    marked: u64,
}

/// Next action of the mark phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    LookAt(Identity),
    /// Open objects must still be searched for: call again.
    Search,
    Nothing,
}

fn bit(identity: Identity) -> (u64, usize, u64) {
    let (group, number) = (identity.get() / NEIGHBOURS, identity.get() % NEIGHBOURS);
    (group, number as usize / 64, 1 << (number % 64))
}

impl Marks {
    fn is_marked(&self, identity: Identity) -> bool {
        let (group, word, bit) = bit(identity);
        self.index.get(&group).is_some_and(|&at| self.groups[at].1.marked[word] & bit != 0)
    }

    fn group(&mut self, group: u64) -> &mut SomeMarks {
        let at = *self.index.entry(group).or_insert_with(|| {
            self.groups.push((group, SomeMarks::default()));
            // A search in progress has one more group.
            self.to_search += usize::from(self.to_search > 0);
            self.groups.len() - 1
        });
        &mut self.groups[at].1
    }

    /// Marks an object that must be scanned.
    fn reach(&mut self, identity: Identity) {
        let (group, word, bit) = bit(identity);
        let marks = self.group(group);
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
            self.to_search = self.groups.len();
        }
    }

    /// Marks an object that need not be scanned.
    fn keep(&mut self, identity: Identity) {
        let (group, word, bit) = bit(identity);
        let marks = self.group(group);
        let is_new = marks.marked[word] & bit == 0;
        marks.marked[word] |= bit;
        marks.looked_at[word] |= bit;
        self.marked += u64::from(is_new);
    }

    /// Marks the objects that a commit reports at its end.
    fn notify(&mut self, notice: &GcNotice, is_marking: bool) {
        if !planted!("new_objects_not_marked") {
            notice.born.iter().for_each(|&identity| self.keep(identity));
        }
        if is_marking {
            notice.kept.iter().for_each(|&identity| self.reach(identity));
        }
    }

    /// Returns the next object to scan; it counts as scanned from now on.
    fn next(&mut self) -> Next {
        while let Some(identity) = self.open.pop() {
            let (group, word, bit) = bit(identity);
            let marks = self.group(group);
            if marks.looked_at[word] & bit == 0 {
                marks.looked_at[word] |= bit;
                return Next::LookAt(identity);
            }
        }
        if self.to_search == 0 {
            return Next::Nothing;
        }
        self.search();
        Next::Search
    }

    /// Searches the marks of some groups for open objects, few enough that other threads do not wait long for the marks. A
    /// group is searched again only after all others. Otherwise each search could take as long as there are groups.
    fn search(&mut self) {
        const GROUPS_AT_ONCE: usize = 1 << 13;
        for _ in 0..self.to_search.min(GROUPS_AT_ONCE) {
            let (group, marks) = self.groups[self.search_at];
            let open = |word: usize| marks.marked[word] & !marks.looked_at[word];
            let count: u32 = (0..MARK_WORDS).map(|word| open(word).count_ones()).sum();
            if self.open.len() + count as usize > OPEN_MAX {
                return;
            }
            for word in 0..MARK_WORDS {
                let mut open = open(word);
                while open != 0 {
                    let number = word as u64 * 64 + u64::from(open.trailing_zeros());
                    self.open.extend(Identity::new(group * NEIGHBOURS + number));
                    open &= open - 1;
                }
            }
            self.search_at = (self.search_at + 1) % self.groups.len();
            self.to_search -= 1;
        }
    }

    /// Reopens an object whose scan failed.
    fn again(&mut self, identity: Identity) {
        let (group, word, bit) = bit(identity);
        self.group(group).looked_at[word] &= !bit;
        self.put_open(identity);
    }

    fn is_anything_open(&self) -> bool {
        // The list may contain objects that were scanned meanwhile; one more step detects that.
        !self.open.is_empty() || self.to_search > 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Marking,
    Sweeping,
}

#[derive(Debug)]
pub(crate) struct Running {
    phase: Phase,
    marks: Marks,
    pub(crate) used: UsedClasses,
    /// Abandoned in the sweep phase; unmarked objects stay removed nevertheless.
    is_given_up: bool,
}

/// State of a graph's garbage collection, shared by all handles.
#[derive(Debug, Default)]
pub(crate) struct Collecting {
    /// Held shared by each commit, so that a garbage collection begins, and turns from marking to sweeping, between commits.
    pub(crate) gate: Gate,
    /// Whether a collection runs, or was abandoned in its sweep phase. Set only while the gate is held exclusively.
    is_running: AtomicBool,
    running: Mutex<Option<Running>>,
}

/// Phase of the garbage collection during a commit, which holds the gate shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GcPhase {
    Nothing,
    Marking,
    Sweeping,
}

/// Objects that a commit reports to a garbage collection.
#[derive(Debug, Default)]
pub(crate) struct GcNotice {
    /// New objects and pieces.
    pub(crate) born: Vec<Identity>,
    /// Targets of overwritten and of new references.
    pub(crate) kept: Vec<Identity>,
}

impl Collecting {
    /// Opens the gate for a commit, which holds it to its end.
    #[inline]
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.gate.enter()
    }

    /// Closes the gate, as [`Gate::close`] does.
    pub(crate) fn close(&self, store: &Store) -> Result<RwLockWriteGuard<'_, ()>> {
        self.gate.close(store)
    }

    pub(crate) fn beside(&self) -> GcPhase {
        if !self.is_running.load(Ordering::Acquire) {
            return GcPhase::Nothing;
        }
        match self.running.lock().as_ref().map(|running| running.phase) {
            None => GcPhase::Nothing,
            Some(Phase::Marking) => GcPhase::Marking,
            Some(Phase::Sweeping) => GcPhase::Sweeping,
        }
    }

    /// Records the objects that a commit has made, refers to, or has overwritten references to. Called before the commit
    /// ends.
    pub(crate) fn notify(&self, notice: &GcNotice) {
        if let Some(Running { phase, marks, .. }) = self.running.lock().as_mut() {
            marks.notify(notice, *phase == Phase::Marking);
        }
    }

    /// Calls `note` with the note of used classes, unless no collection runs. No class is condemned meanwhile.
    pub(crate) fn use_classes<T>(&self, note: impl FnOnce(Option<&mut UsedClasses>) -> T) -> T {
        note(self.running.lock().as_mut().map(|running| &mut running.used))
    }

    /// Returns whether an object was removed, or is about to be: during a sweep, each object without a mark.
    pub(crate) fn is_gone(&self, identity: Identity) -> bool {
        self.is_running.load(Ordering::Acquire)
            && self
                .running
                .lock()
                .as_ref()
                .is_some_and(|running| running.phase == Phase::Sweeping && !running.marks.is_marked(identity))
    }

    /// Returns whether this object still exists for commits.
    pub(crate) fn is_marked(&self, identity: Identity) -> bool {
        self.running.lock().as_ref().is_none_or(|running| running.marks.is_marked(identity))
    }

    /// Records that a reader has this object from now on. Returns `false` if the object is unreachable and about to be
    /// removed.
    pub(crate) fn is_read(&self, identity: Identity) -> bool {
        if !self.is_running.load(Ordering::Acquire) {
            return true;
        }
        match self.running.lock().as_mut() {
            None => true,
            Some(Running { phase: Phase::Marking, marks, .. }) => {
                marks.reach(identity);
                true
            }
            Some(Running { phase: Phase::Sweeping, marks, .. }) => marks.is_marked(identity),
        }
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Running) -> T) -> T {
        work(self.running.lock().as_mut().expect("it runs as long as its handle lives"))
    }

    /// Continues an abandoned collection, if there is one. The gate is held exclusively.
    fn takes_up(&self) -> Result<bool> {
        match self.running.lock().as_mut() {
            None => Ok(false),
            Some(running) if running.is_given_up => {
                running.is_given_up = false;
                Ok(true)
            }
            Some(_) => {
                Err(Error::Misuse("a garbage collection of this graph is running already; complete or drop it first"))
            }
        }
    }
}

/// Stage of a garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Some reachable objects have not been scanned.
    Marking,
    /// All objects that were reached have been scanned: [`Collection::seal`] is next.
    Marked,
    /// Unreachable objects are being removed.
    Sweeping,
    /// All unreachable objects were removed.
    Done,
}

/// Progress of a garbage collection.
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
    /// Pages that were returned to the store.
    pub pages: u64,
}

/// A running garbage collection: see [`Graph::collect`]. Dropping it abandons the collection. In the sweep phase, unmarked
/// objects then stay removed while the graph is open, because some of the objects that they refer to were removed. The memory
/// of the marks is kept, and the next collection continues with them.
#[derive(Debug)]
pub struct Collection {
    graph: Graph,
    stage: Stage,
    /// Pages that were not swept yet, in reverse order.
    pages: Vec<PageId>,
    /// Remaining records of the page that is being swept.
    records: Vec<ObjectId>,
    empty: Empty,
    collected: Collected,
}

/// Pages in which no record has stayed.
#[derive(Debug, Default)]
struct Empty {
    /// The page that is being swept, and the page before it.
    at: Option<PageId>,
    before: Option<PageId>,
    /// Whether a record in it stays.
    stays: bool,
    /// Pairs of a preceding page and an empty page; in reverse order when they are removed.
    pages: Vec<(PageId, PageId)>,
    /// Number of pages with a record that stays.
    others: usize,
    is_counted: bool,
    /// The page that was removed last, and its predecessor.
    taken_out: Option<(PageId, PageId)>,
}

impl Empty {
    /// Completes the page that was being swept, and begins the next one.
    fn go_on(&mut self, next: Option<PageId>) {
        if let Some(page) = std::mem::replace(&mut self.at, next) {
            match self.before.filter(|_| !self.stays) {
                Some(before) => self.pages.push((before, page)),
                None => self.others += 1,
            }
            self.before = Some(page);
        }
        self.stays = false;
    }

    /// Keeps as many empty pages as there are others, for later objects: otherwise a graph of constant size would only
    /// allocate them again.
    fn count(&mut self) {
        const LEFT_MIN: usize = 16;
        if !std::mem::replace(&mut self.is_counted, true) {
            self.go_on(None);
            let left = self.pages.len().min(self.others + LEFT_MIN);
            self.pages.drain(..left);
            self.pages.reverse();
        }
    }

    /// Returns the next page to remove, and its current predecessor.
    fn next(&self) -> Option<(PageId, PageId)> {
        let &(before, page) = self.pages.last()?;
        Some((self.taken_out.filter(|&(gone, _)| gone == before).map_or(before, |(_, before)| before), page))
    }

    fn leave_page(&mut self, before: PageId, page: PageId, is_out: bool) {
        self.pages.pop();
        if is_out {
            self.taken_out = Some((page, before));
        }
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        // The gate stays open: this thread may have a transaction for which a commit waits. A commit that has begun beside the
        // collection finds that there is none, and ends before another one begins.
        let collecting = &self.graph.shared.collecting;
        let mut running = collecting.running.lock();
        match running.as_mut().filter(|_| self.stage == Stage::Sweeping) {
            Some(running) => running.is_given_up = true,
            None => {
                *running = None;
                collecting.is_running.store(false, Ordering::Release);
            }
        }
    }
}

impl Graph {
    /// Begins a garbage collection: it removes objects that are reachable neither from a root nor from one of `alive`, the
    /// objects that the program holds otherwise. Objects that are reachable now stay, and so do those that are made from now
    /// on.
    ///
    /// The call waits for running commits. It reads the roots; [`Collection::step`] does the rest, in any thread, while commits
    /// and reads continue. One collection of a graph runs at a time.
    ///
    /// If a collection was abandoned in its sweep phase, the call continues that one: its stage is
    /// [`Sweeping`](Stage::Sweeping) at once. Objects that have become unreachable since then are left to the following
    /// collection.
    ///
    /// # Errors
    /// [`Error::Misuse`] while another one lives; also after ten seconds, if a commit waits for a lock of a transaction that this
    /// thread has open; if the roots cannot be read, or the collection's pages cannot be listed.
    pub fn collect(&self, alive: impl IntoIterator<Item = Identity>) -> Result<Collection> {
        let Shared { collecting, objects, .. } = &*self.shared;
        let collection = |stage| Collection {
            graph: self.clone(),
            stage,
            pages: Vec::new(),
            records: Vec::new(),
            empty: Empty::default(),
            collected: Collected::default(),
        };
        // Collected first, because the program's iterator may read and commit.
        let alive: Vec<Identity> = alive.into_iter().collect();
        let closed = collecting.close(&self.store)?;
        if collecting.takes_up()? {
            // Commits wait at the gate, and what they make from now on is marked. Dropping the collection abandons it again.
            drop(closed);
            let mut taken_up = collection(Stage::Sweeping);
            taken_up.pages = last_first(objects.pages(&self.store)?);
            return Ok(taken_up);
        }
        // Read before the roots, because a branch ends without the gate. A branch that has ended before this is visible in
        // the roots; one that ends later is among these (E21.9).
        let branches = self.shared.in_doubt.now(&self.store);
        // The gate is closed: no commit takes effect after this read without reporting the references that it overwrites.
        let roots = self.roots_behind_the_gate()?;
        let mut marks = Marks::default();
        let of_roots = roots.iter().filter_map(|(_, to)| to.identity());
        alive.into_iter().chain(of_roots).for_each(|identity| marks.reach(identity));
        for branch in branches.values().filter(|_| !planted!("branches_not_marked")) {
            // As if the branch were just being prepared.
            marks.notify(&branch.into(), true);
        }
        let mut used = UsedClasses::new(self.shared.classes.count(), !branches.is_empty());
        roots.iter().filter_map(|&(_, to)| self.shared.class_names.of_word(to)).for_each(|class| used.insert(class));
        *collecting.running.lock() = Some(Running { phase: Phase::Marking, marks, used, is_given_up: false });
        collecting.is_running.store(true, Ordering::Release);
        drop(closed);
        Ok(collection(Stage::Marking))
    }
}

fn last_first(mut pages: Vec<PageId>) -> Vec<PageId> {
    pages.reverse();
    pages
}

impl Collection {
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The current stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The progress so far.
    pub fn collected(&self) -> Collected {
        let marks = |running: &mut Running| {
            let Marks { groups, index, open, marked, .. } = &running.marks;
            let bytes = groups.capacity() * size_of::<(u64, SomeMarks)>()
                + index.capacity() * size_of::<(u64, usize)>()
                + open.capacity() * size_of::<Identity>();
            (*marked, bytes as u64)
        };
        let (marked, mark_bytes) = self.graph.shared.collecting.with(marks);
        Collected { marked, mark_bytes, ..self.collected }
    }

    /// Continues: scans at most `budget` objects, or sweeps that many records, or frees that many pages. Returns the stage.
    /// In the stage [`Marked`](Stage::Marked) the collection waits for [`seal`](Collection::seal).
    ///
    /// # Errors
    /// Damage, with file and offset; those of a commit. The call may be repeated.
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
            let next = match collecting.with(|running| running.marks.next()) {
                Next::LookAt(next) => next,
                Next::Search => continue,
                Next::Nothing => return Ok(Stage::Marked),
            };
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
                running.used.insert_of(&leads_to.classes);
            });
        }
        Ok(Stage::Marking)
    }

    /// Turns from marking to sweeping, if no object is left to be scanned. `alive` are the objects that the program holds
    /// besides those that roots reach: those from before, which it may still have, and those that it has found since. From
    /// then on an unmarked object counts as removed: it can be neither read nor referred to.
    ///
    /// Returns the new stage: [`Sweeping`](Stage::Sweeping), or [`Marking`](Stage::Marking) if there are new objects to scan;
    /// call it again once they were scanned.
    ///
    /// # Errors
    /// [`Error::Misuse`] unless the stage is [`Marked`](Stage::Marked), and as [`collect`](Graph::collect); if the collection's
    /// pages cannot be listed.
    pub fn seal(&mut self, alive: impl IntoIterator<Item = Identity>) -> Result<Stage> {
        if self.stage != Stage::Marked {
            return Err(Error::Misuse(
                "cannot seal the garbage collection before its stage is Marked; continue its steps",
            ));
        }
        let shared = &self.graph.shared;
        // Listed before the gate is closed, because commits wait there. Pages that are added later contain only objects that
        // are made from now on, and these are marked.
        let pages = last_first(shared.objects.pages(&self.graph.store)?);
        let alive: Vec<Identity> = alive.into_iter().collect();
        let closed = shared.collecting.close(&self.graph.store)?;
        // Reads do not use the gate: one critical section over the marks, so that no read comes in between.
        let is_open = shared.collecting.with(|running| {
            alive.into_iter().for_each(|identity| running.marks.reach(identity));
            let is_open = running.marks.is_anything_open();
            if !is_open {
                running.phase = Phase::Sweeping;
            }
            is_open
        });
        drop(closed);
        (self.stage, self.pages) = if is_open { (Stage::Marking, Vec::new()) } else { (Stage::Sweeping, pages) };
        Ok(self.stage)
    }

    fn sweep(&mut self, budget: usize) -> Result<Stage> {
        if self.empty.is_counted {
            self.give_back(budget)?;
        } else {
            self.sweep_records(budget)?;
        }
        let is_swept = self.pages.is_empty() && self.records.is_empty();
        if is_swept {
            self.empty.count();
        }
        Ok(if is_swept && self.empty.pages.is_empty() { Stage::Done } else { Stage::Sweeping })
    }

    fn sweep_records(&mut self, budget: usize) -> Result<()> {
        let mut taken = Vec::new();
        let swept = self.sweep_some(budget, &mut taken);
        if swept.is_err() {
            // The transaction that removed them was rolled back.
            self.records.extend(taken.into_iter().rev());
        }
        let (objects, pieces) = swept?;
        self.collected.objects += objects;
        self.collected.pieces += pieces;
        Ok(())
    }

    /// Frees empty pages. Earlier steps have committed the removal of their records.
    fn give_back(&mut self, budget: usize) -> Result<()> {
        let mut txn = self.graph.begin();
        for _ in 0..budget {
            let Some((before, page)) = self.empty.next() else { break };
            let is_out = self.graph.shared.objects.take_out(&mut txn, before, page)?;
            self.empty.leave_page(before, page, is_out);
            self.collected.pages += u64::from(is_out);
        }
        txn.commit(Commit::Async)?;
        Ok(())
    }

    /// Removes records in one transaction. Returns the numbers of objects and pieces.
    fn sweep_some(&mut self, budget: usize, taken: &mut Vec<ObjectId>) -> Result<(u64, u64)> {
        let Graph { store, shared } = &self.graph;
        let mut txn = self.graph.begin();
        let (mut objects, mut pieces) = (0, 0);
        for _ in 0..budget {
            let Some(&record) = self.records.last() else {
                let Some(&page) = self.pages.last() else { break };
                self.records = shared.objects.ids_of_page(store, page)?;
                shared.objects.offer_space(store, page)?;
                self.pages.pop();
                self.empty.go_on(Some(page));
                continue;
            };
            match self.graph.sweep_one(&mut txn, Identity::of(record)) {
                Ok(Swept::Object) => objects += 1,
                Ok(Swept::Piece) => pieces += 1,
                Ok(Swept::Nothing) => self.empty.stays = true,
                // The objects that this step has removed occupy the cache until it commits.
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

/// Result of sweeping a record.
enum Swept {
    Object,
    Piece,
    /// The record stays, or there is none.
    Nothing,
}

fn is_full(error: &Error) -> bool {
    matches!(ObjectError::of(error), Some(ObjectError::CacheFull { .. }))
}

impl Graph {
    /// Removes a record, unless it is marked.
    fn sweep_one(&self, txn: &mut Txn, identity: Identity) -> Result<Swept> {
        let Shared { objects, collecting, .. } = &*self.shared;
        let is_marked = || collecting.with(|running| running.marks.is_marked(identity));
        if is_marked() {
            return Ok(Swept::Nothing);
        }
        // A commit that is just making it has marked it when this lock is released (E21.6).
        match objects.lock_for_change(txn, identity.place()) {
            // A branch in doubt has it: left to the next collection, and so is its class.
            Err(Error::InDoubt { .. }) => {
                collecting.with(|running| running.used.set_incomplete());
                return Ok(Swept::Nothing);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    /// Each open object is scanned once, and finding them all takes one walk over the marks, however many there are.
    #[test]
    fn pages_missing_in_list_found_by_walk() {
        const PAGES: u64 = 10_000;
        const ON_EACH: u64 = 50;
        let mut marks = Marks::default();
        for page in 0..PAGES {
            (1..=ON_EACH).for_each(|slot| marks.reach(Identity::new((page + 1) << 16 | slot).unwrap()));
        }
        assert_eq!(marks.open.len(), OPEN_MAX);
        let mut searched = 0;
        let mut looked_at = std::collections::HashSet::new();
        loop {
            let to_search = marks.to_search;
            match marks.next() {
                Next::LookAt(identity) => {
                    assert!(looked_at.insert(identity));
                    if looked_at.len() == OPEN_MAX + 1 {
                        // Reached during the search, behind all other groups, and before the position of the search.
                        marks.reach(Identity::new((PAGES + 1) << 16 | 1).unwrap());
                        marks.reach(Identity::new(1 << 16 | (ON_EACH + 1)).unwrap());
                    }
                }
                Next::Search => searched += to_search - marks.to_search,
                Next::Nothing => break,
            }
        }
        assert_eq!(looked_at.len() as u64, PAGES * ON_EACH + 2);
        assert_eq!(looked_at.len() as u64, marks.marked);
        assert!(!marks.is_anything_open());
        assert!(searched as u64 <= 2 * PAGES, "{searched} pages were searched");
        assert!(marks.open.capacity() <= OPEN_MAX);
    }
}
