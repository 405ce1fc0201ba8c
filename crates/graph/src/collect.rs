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
//!
//! One that is given up while it sweeps has taken what others lead to, which therefore stay gone: its marks are kept, and the
//! next one goes on with them (E21.7).

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

/// Words of the marks of neighbours. A page has slots of any number, though not many at a time: so not all of a page are together.
const MARK_WORDS: usize = 2;

/// Objects whose identities, as numbers, differ by less than this are neighbours, if they are of one multiple of it.
const NEIGHBOURS: u64 = 64 * MARK_WORDS as u64;

/// What is marked of neighbours, and what of that was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct SomeMarks {
    marked: [u64; MARK_WORDS],
    looked_at: [u64; MARK_WORDS],
}

/// What is marked: 40 bytes, and the index's share, for neighbours of which one is.
#[derive(Debug, Default)]
struct Marks {
    groups: Vec<(u64, SomeMarks)>,
    /// Where in `groups` each is.
    index: HashMap<u64, usize>,
    /// Marked, and not looked at.
    open: Vec<Identity>,
    /// Others that are open are found in the marks of so many groups, from this one on, in a circle.
    to_search: usize,
    search_at: usize,
    marked: u64,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    LookAt(Identity),
    /// What is open has yet to be found: ask again.
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
            // A circle that is under way has become longer.
            self.to_search += usize::from(self.to_search > 0);
            self.groups.len() - 1
        });
        &mut self.groups[at].1
    }

    /// Marks what has yet to be looked at.
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

    /// Marks what need not be looked at.
    fn keep(&mut self, identity: Identity) {
        let (group, word, bit) = bit(identity);
        let marks = self.group(group);
        let is_new = marks.marked[word] & bit == 0;
        marks.marked[word] |= bit;
        marks.looked_at[word] |= bit;
        self.marked += u64::from(is_new);
    }

    /// Of a commit that is about to end.
    fn told(&mut self, told: &Told, is_marking: bool) {
        told.born.iter().for_each(|&identity| self.keep(identity));
        if is_marking {
            told.kept.iter().for_each(|&identity| self.reach(identity));
        }
    }

    /// The next that has to be looked at; it counts as looked at from now on.
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

    /// Looks for what is open in the marks of some groups, few enough that nobody waits long for the marks meanwhile. A group is
    /// come to again only after all others, or all searches together would take as long as there are groups, each time.
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

    /// It could not be looked at.
    fn again(&mut self, identity: Identity) {
        let (group, word, bit) = bit(identity);
        self.group(group).looked_at[word] &= !bit;
        self.put_open(identity);
    }

    fn is_anything_open(&self) -> bool {
        // Those that were looked at meanwhile are still in it; then one more step finds that out.
        !self.open.is_empty() || self.to_search > 0
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
    /// While it was sweeping; what is not marked is gone nevertheless.
    is_given_up: bool,
}

/// A graph's collection, if one is under way. Shared by all handles.
#[derive(Debug, Default)]
pub(crate) struct Collecting {
    /// Held shared by each commit, so that a collection begins, and turns from marking to sweeping, between commits.
    pub(crate) gate: RwLock<()>,
    /// Whether there is one, or one was given up while it was sweeping; changes with the gate closed.
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
        if let Some(Running { phase, marks, .. }) = self.running.lock().as_mut() {
            marks.told(told, *phase == Phase::Marking);
        }
    }

    /// Whether an object is about to go, or was removed: while a collection sweeps, what is not marked.
    pub(crate) fn is_gone(&self, identity: Identity) -> bool {
        self.is_running.load(Ordering::Acquire)
            && self
                .running
                .lock()
                .as_ref()
                .is_some_and(|running| running.phase == Phase::Sweeping && !running.marks.is_marked(identity))
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
            Some(Running { phase: Phase::Marking, marks, .. }) => {
                marks.reach(identity);
                true
            }
            Some(Running { phase: Phase::Sweeping, marks, .. }) => marks.is_marked(identity),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Running) -> T) -> T {
        work(self.running.lock().as_mut().expect("it runs as long as its handle lives"))
    }

    /// Goes on with a collection that was given up, if one was; with the gate closed.
    fn takes_up(&self) -> Result<bool> {
        match self.running.lock().as_mut() {
            None => Ok(false),
            Some(running) if running.is_given_up => {
                running.is_given_up = false;
                Ok(true)
            }
            Some(_) => Err(Error::Misuse("a collection of the graph is under way; end it first")),
        }
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
    /// Pages that were given back to the store.
    pub pages: u64,
}

/// A collection under way: see [`Graph::collect`]. Dropped, it is given up. If it was sweeping, what is not marked stays gone,
/// while the graph is open: some of what that leads to was removed. Memory for marks is kept then, and the next collection goes
/// on with them.
#[derive(Debug)]
pub struct Collection {
    graph: Graph,
    stage: Stage,
    /// Pages that were not swept yet, the last one first.
    pages: Vec<PageId>,
    /// Of the page that is being swept.
    records: Vec<ObjectId>,
    empty: Empty,
    collected: Collected,
}

/// Pages in which nothing has stayed.
#[derive(Debug, Default)]
struct Empty {
    /// The page that is being swept, and the one before it.
    at: Option<PageId>,
    before: Option<PageId>,
    /// Whether something in it stays.
    stays: bool,
    /// Each behind the one before it, the last one first when they are taken out.
    pages: Vec<(PageId, PageId)>,
    /// How many have something that stays.
    others: usize,
    is_counted: bool,
    /// The one that was taken out last, and the one that was before it.
    taken_out: Option<(PageId, PageId)>,
}

impl Empty {
    /// The page that was being swept is; the next one is this.
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

    /// As many as others are left for what comes next: a graph in which as much comes as goes would only ask for them again.
    fn count(&mut self) {
        const LEFT_MIN: usize = 16;
        if !std::mem::replace(&mut self.is_counted, true) {
            self.go_on(None);
            let left = self.pages.len().min(self.others + LEFT_MIN);
            self.pages.drain(..left);
            self.pages.reverse();
        }
    }

    /// The next, and the one that is before it by now.
    fn next(&self) -> Option<(PageId, PageId)> {
        let &(before, page) = self.pages.last()?;
        Some((self.taken_out.filter(|&(gone, _)| gone == before).map_or(before, |(_, before)| before), page))
    }

    fn is_done(&mut self, before: PageId, page: PageId, is_out: bool) {
        self.pages.pop();
        if is_out {
            self.taken_out = Some((page, before));
        }
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        let collecting = &self.graph.shared.collecting;
        let _closed = collecting.gate.write();
        if self.stage == Stage::Sweeping {
            collecting.with(|running| running.is_given_up = true);
            return;
        }
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
    /// After one that was given up while it was sweeping, this goes on with that: its stage is [`Sweeping`](Stage::Sweeping)
    /// at once. What nobody reaches since is for the one that follows.
    ///
    /// # Errors
    /// [`Error::Misuse`] while another one lives; if the roots cannot be read, or the collection's pages cannot be listed.
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
        // The program's iterator may read, and commit.
        let alive: Vec<Identity> = alive.into_iter().collect();
        let closed = collecting.gate.write();
        if collecting.takes_up()? {
            // Commits wait at the gate, and what they bring from now on is marked. Dropped, it is given up again.
            drop(closed);
            let mut taken_up = collection(Stage::Sweeping);
            taken_up.pages = last_first(objects.pages(&self.store)?);
            return Ok(taken_up);
        }
        // Before the roots: branches end without asking at the gate. Who has ended before this, the roots show; who ends behind
        // it is among these (E21.9).
        let branches = self.shared.in_doubt.now(&self.store);
        // No commit has an effect between these and its own beginning to tell what it overwrites.
        let roots = self.roots_behind_the_gate()?;
        let mut marks = Marks::default();
        let of_roots = roots.iter().filter_map(|(_, to)| to.identity());
        alive.into_iter().chain(of_roots).for_each(|identity| marks.reach(identity));
        for branch in branches.values() {
            // As if it were just being made.
            marks.told(&branch.into(), true);
        }
        *collecting.running.lock() = Some(Running { phase: Phase::Marking, marks, is_given_up: false });
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
    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What it has done so far.
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

    /// Goes on: looks at so many objects at most, or sweeps so many records, or gives so many pages back; says how far it is
    /// then. In the stage [`Marked`](Stage::Marked) it waits for [`seal`](Collection::seal).
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
        // Before the gate is closed, for commits wait there. On pages that come later lies only what is born from now on, and
        // is marked.
        let pages = last_first(shared.objects.pages(&self.graph.store)?);
        let alive: Vec<Identity> = alive.into_iter().collect();
        let closed = shared.collecting.gate.write();
        // Reads do not ask at the gate: in one hold of the marks, so that none of them comes in between.
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
            // What they were removed by was rolled back.
            self.records.extend(taken.into_iter().rev());
        }
        let (objects, pieces) = swept?;
        self.collected.objects += objects;
        self.collected.pieces += pieces;
        Ok(())
    }

    /// Gives empty pages back. What was removed from them was committed by steps before.
    fn give_back(&mut self, budget: usize) -> Result<()> {
        let mut txn = self.graph.begin();
        for _ in 0..budget {
            let Some((before, page)) = self.empty.next() else { break };
            let is_out = self.graph.shared.objects.take_out(&mut txn, before, page)?;
            self.empty.is_done(before, page, is_out);
            self.collected.pages += u64::from(is_out);
        }
        txn.commit(Commit::Async)?;
        Ok(())
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
                self.empty.go_on(Some(page));
                continue;
            };
            match self.graph.sweep_one(&mut txn, Identity::of(record)) {
                Ok(Swept::Object) => objects += 1,
                Ok(Swept::Piece) => pieces += 1,
                Ok(Swept::Nothing) => self.empty.stays = true,
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
            // Somebody in doubt has it: for the next collection.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each that is open is looked at once, and to find them all takes one walk over the marks, however many there are.
    #[test]
    fn what_is_not_in_the_list_is_found_by_one_walk() {
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
                        // Comes while they are searched, behind all others, and before where the search is.
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
