//! Commits: all changes of a call, or none (E21.1, E21.2).

use std::borrow::Cow;

use crate::{Change, Edit, NewObjects, ObjectError, Objects, Reserved};
use cedrat_pages::Damaged;
use cedrat_sync::planted;
use cedrat_txn::object_cache::RecordLocks;
use cedrat_txn::{Commit, Error, Result, SmallBytes, Txn};
use cedrat_wal::{Lsn, Ticket};

use crate::graph::classes::NewClasses;
use crate::graph::entries::{Entries, Entry, What, resolve};
use crate::graph::error::{GraphError, corrupt, does_not_fit};
use crate::graph::gc::{GcNotice, GcPhase};
use crate::graph::handle::{Graph, Shared};
use crate::graph::long::{Head, PIECE_LEN, PieceWriter, SHORT_LEN_MAX, Stored};
use crate::graph::object::{self, HEADER_LEN, Header, words};
use crate::graph::reading::with_identity;
use crate::graph::word::{Identity, Reference};

/// Time at which a commit call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// When the commit is durable.
    #[default]
    Sync,
    /// At once: the commit becomes durable soon, and never without earlier ones. [`Changed::wait`] waits for that.
    Async,
}

/// Result of a commit.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Identities of the new objects, in their order.
    pub identities: Vec<Identity>,
    ticket: Ticket,
}

impl Changed {
    /// The LSN of the commit. The commit is durable when the durable LSN has reached it.
    pub fn lsn(&self) -> Lsn {
        self.ticket.lsn()
    }

    /// The ticket, to wait for, poll or await durability.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Returns whether the commit is durable.
    pub fn is_durable(&self) -> bool {
        self.ticket.is_stable()
    }

    /// Waits until the commit is durable.
    ///
    /// # Errors
    /// [`Error::Stopped`]: only reopening the store shows whether the commit is durable.
    pub fn wait(&self) -> Result<()> {
        self.ticket.wait()?;
        Ok(())
    }
}

/// Maximum number of restarts of a commit that was a deadlock victim. A commit takes its locks in one order, so only other
/// users of the same pages or keys can cause a deadlock.
const ATTEMPTS: u32 = 100;

impl Graph {
    /// Changes objects and roots, and defines classes, all of them or none. The changes are given as bytes in the form of
    /// `docs/formats/graph.md` or as [`Changes`](crate::graph::Changes).
    ///
    /// Two commits that change the same object, or the same root, are executed one after the other.
    ///
    /// # Errors
    /// [`GraphError::BadEntry`], [`GraphError::Entry`]; within the latter `CacheFull` of the object cache, if the changes of
    /// existing objects exceed [`Options::cache_bytes`](crate::graph::Options::cache_bytes), and [`GraphError::ClassNumber`], if
    /// another commit has defined a class of the same number; [`Error::LogFull`], [`Error::PinsLog`].
    /// Nothing was changed then. [`Error::Stopped`]: only reopening the store shows whether the commit happened.
    pub fn commit(&self, changes: impl AsRef<[u8]>, mode: Mode) -> Result<Changed> {
        self.commit_at_most(changes, mode, u64::MAX)
    }

    /// Like [`commit`](Graph::commit), with a limit on the number of new identities.
    ///
    /// # Errors
    /// Errors of [`commit`](Graph::commit); [`GraphError::TooManyNew`].
    pub fn commit_at_most(&self, changes: impl AsRef<[u8]>, mode: Mode, identities_max: u64) -> Result<Changed> {
        let entries = self.entries(changes.as_ref(), identities_max)?;
        let changed = self.again_after_deadlocks(|| self.try_commit(&entries, || self.begin()))?;
        if mode == Mode::Sync {
            changed.wait()?;
        }
        Ok(changed)
    }

    /// Like [`commit_at_most`](Graph::commit_at_most), together with everything that `txn` has changed in pages and heaps of
    /// the graph's store: one commit record decides all of it. The transaction ends in any case; after an error it
    /// was rolled back. From this call on it does not wait for transactions in doubt, like every commit of a graph.
    ///
    /// Errors of [`commit_at_most`](Graph::commit_at_most); [`Error::Deadlock`], and a conflict of heap words: repeat the
    /// whole transaction. [`Error::Misuse`]: it belongs to another store, or has no atomicity or no isolation.
    pub fn commit_with(
        &self,
        mut txn: Txn,
        changes: impl AsRef<[u8]>,
        mode: Mode,
        identities_max: u64,
    ) -> Result<Changed> {
        if !std::ptr::eq(txn.store().log(), self.store.log()) {
            return Err(Error::Misuse("the transaction and the graph belong to different stores"));
        }
        let options = txn.options();
        if !options.atomicity || !options.isolation {
            return Err(Error::Misuse(
                "a commit of a graph happens as a whole, beside others; begin the transaction with atomicity and isolation",
            ));
        }
        let entries = self.entries(changes.as_ref(), identities_max)?;
        // This commit waits behind the gate, where a beginning garbage collection, and all commits after it, would wait with
        // it.
        txn.stop_waiting_for_prepared();
        if planted!("objects_committed_apart") {
            txn.commit(Commit::Sync)?;
            return self.try_commit(&entries, || self.begin());
        }
        let changed = self.try_commit(&entries, || txn)?;
        if mode == Mode::Sync {
            changed.wait()?;
        }
        Ok(changed)
    }

    /// Parses changes, with a limit on the number of new identities.
    pub(crate) fn entries<'b>(&self, changes: &'b [u8], identities_max: u64) -> Result<Entries<'b>> {
        let entries = Entries::of(changes, self.shared.classes.count())?;
        if entries.new_objects > identities_max {
            return Err(GraphError::TooManyNew { new_objects: entries.new_objects, identities_max }.into());
        }
        Ok(entries)
    }

    pub(crate) fn again_after_deadlocks<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        let mut attempts_left = ATTEMPTS;
        loop {
            match attempt() {
                Err(error) if GraphError::cause(&error).is_worth_retrying() && attempts_left > 0 => attempts_left -= 1,
                other => return other,
            }
            cedrat_sync::thread::yield_now();
        }
    }

    fn try_commit(&self, entries: &Entries<'_>, txn: impl FnOnce() -> Txn) -> Result<Changed> {
        // Held to the end: a garbage collection begins before this commit has changed anything, or after its end (E21.5).
        let _open = self.shared.collecting.enter();
        let mut txn = txn(); // declared after the gate, so that a rollback happens before the gate opens
        let new_classes = if planted!("classes_defined_apart") {
            self.define_apart(entries)?.commit()?;
            NewClasses::none(&self.shared.classes)
        } else {
            self.shared.classes.define(&mut txn, entries)?
        };
        let mut work = Work::of(&self.shared, &mut txn, false);
        let ticket = match work.make(entries, true) {
            Err(error) if planted!("refused_changes_kept") => {
                txn.commit(Commit::Async)?;
                return Err(error);
            }
            made => made?,
        };
        let identities = work.identities;
        // Not in a closure, which would have its own copy of the transaction.
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => txn.commit(Commit::Async)?,
        };
        new_classes.accept();
        Ok(Changed { identities, ticket })
    }

    /// Makes changes, without definitions of classes, with the gate held shared. `is_branch`: records the objects that the changes
    /// refer to, and those that they overwrite references to, as if a garbage collection were marking.
    pub(crate) fn change_in(
        &self,
        txn: &mut Txn,
        entries: &Entries<'_>,
        is_branch: bool,
    ) -> Result<(Vec<Identity>, GcNotice)> {
        let mut work = Work::of(&self.shared, txn, is_branch);
        work.make(entries, false)?;
        Ok((work.identities, work.notice))
    }
}

/// Returns whether an error concerns the store, or the whole commit, and must be returned without an entry.
fn is_of_all(error: &Error) -> bool {
    matches!(error, Error::Stopped(_) | Error::PinsLog { .. } | Error::Deadlock(_) | Error::InDoubt { .. })
}

pub(crate) fn in_entry(error: Error, entry: &Entry<'_>) -> Error {
    if is_of_all(&error) {
        return error;
    }
    GraphError::Entry { entry: entry.number, offset: entry.offset, source: Box::new(error) }.into()
}

/// A running commit.
struct Work<'w> {
    shared: &'w Shared,
    txn: &'w mut Txn,
    /// Identities of the new objects.
    identities: Vec<Identity>,
    beside: GcPhase,
    is_branch: bool,
    /// Whether the bytes of a patch may name a dropped class.
    is_class_in_question: bool,
    notice: GcNotice,
}

/// Work on pieces that remains after a look at the old object.
enum PieceWork {
    None,
    /// The object lies in pieces.
    Rewrite(Head),
    /// The object must be moved to pieces; for a patch, these are its first bytes.
    Create(Vec<u8>),
}

/// A commit of more objects tries to lock the whole graph instead: their locks would take more than some 10 MB (E21.10).
const LOCKS_MAX: usize = 1 << 16;

/// An entry that changes an existing object.
type OfOld<'e, 'b> = (Identity, &'e Entry<'b>);

/// Number of entries that are sorted in place: most commits have no more.
const FEW: usize = 8;

/// Returns the entries that change existing objects, in one of these lists; only for many of them it is allocated.
fn of_old_in<'e, 'b, 'f>(
    entries: &'e Entries<'b>,
    few: &'f mut Option<[OfOld<'e, 'b>; FEW]>,
    many: &'f mut Vec<OfOld<'e, 'b>>,
) -> &'f mut [OfOld<'e, 'b>] {
    let Some(first) = entries.of_old().next().filter(|_| entries.all.len() <= FEW) else {
        many.extend(entries.of_old());
        return many;
    };
    let few = few.insert([first; FEW]);
    let places = few.iter_mut().zip(entries.of_old());
    let count = places.map(|(place, of_old)| *place = of_old).count();
    &mut few[..count]
}

/// The places of the new objects of a commit, in their order: of most commits one, without an allocation.
#[derive(Default)]
struct NewPlaces<'w> {
    first: Option<Reserved<'w>>,
    others: Vec<Reserved<'w>>,
}

impl<'w> NewPlaces<'w> {
    fn push(&mut self, place: Reserved<'w>) {
        match self.first {
            None => self.first = Some(place),
            Some(_) => self.others.push(place),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Reserved<'w>> {
        self.first.iter().chain(&self.others)
    }

    fn into_iter(self) -> impl Iterator<Item = Reserved<'w>> {
        self.first.into_iter().chain(self.others)
    }
}

impl<'w> Work<'w> {
    fn of(shared: &'w Shared, txn: &'w mut Txn, is_branch: bool) -> Work<'w> {
        let beside = shared.collecting.beside();
        let (identities, notice) = (Vec::new(), GcNotice::default());
        Work { shared, txn, identities, beside, is_branch, is_class_in_question: false, notice }
    }

    /// Makes all changes. If it `may_commit`, and the commit record can contain all of them, it commits and returns the
    /// ticket.
    fn make(&mut self, entries: &Entries<'_>, may_commit: bool) -> Result<Option<Ticket>> {
        self.use_classes(entries)?;
        let (mut few, mut many) = (None, Vec::new());
        let of_old = of_old_in(entries, &mut few, &mut many);
        of_old.sort_unstable_by_key(|(identity, entry)| (*identity, entry.number));
        let is_once_each = of_old.is_sorted_by(|(one, _), (next, _)| one < next);
        let may_be_late = may_commit && !self.tells() && is_once_each;
        let is_locked = !may_be_late || !self.program_locks(entries);
        if is_locked {
            self.lock(entries, of_old)?;
        } else if !of_old.is_empty() {
            self.objects().lock_all_for_change(self.txn, [])?; // the collection alone
        }
        let places = self.choose_places(entries)?;
        let new = if may_be_late { self.new_in_one_page(entries, &places) } else { None };
        let is_late = may_be_late && (!of_old.is_empty() || new.is_some());
        let is_new_late = new.is_some();
        let comes_late = |entry: &Entry<'_>| match entry.what {
            What::New { .. } => is_new_late,
            _ => is_late && entry.is_of_old(),
        };
        let mut places = places.into_iter();
        for entry in entries.all.iter().filter(|entry| !comes_late(entry)) {
            self.change(entry, &mut places).map_err(|error| in_entry(error, entry))?;
        }
        if is_late {
            if let Some(ticket) = self.commit_with(of_old, new.unwrap_or_default())? {
                return Ok(Some(ticket));
            }
            if !is_locked {
                self.lock(entries, of_old)?;
            }
            for entry in entries.all.iter().filter(|entry| comes_late(entry)) {
                self.change(entry, &mut places).map_err(|error| in_entry(error, entry))?;
            }
        }
        if self.beside != GcPhase::Nothing {
            // Before the locks are released, for which a sweep waits, and before another thread can reach the new objects
            // (E21.6).
            self.shared.collecting.notify(&self.notice);
        }
        Ok(None)
    }

    /// Notes the classes that the changes name, for a running garbage collection, and verifies that none was dropped (E21.12).
    fn use_classes(&mut self, entries: &Entries<'_>) -> Result<()> {
        let Shared { classes, class_names, collecting, .. } = self.shared;
        if self.beside != GcPhase::Nothing && !planted!("used_classes_not_noted") {
            self.is_class_in_question = collecting.use_classes(|mut used| {
                class_names.check(classes, entries, |class| {
                    if let Some(used) = &mut used {
                        used.insert(class);
                    }
                })
            })?;
        } else if classes.is_any_dropped() {
            // No collection begins before this commit ends, and so no other class is condemned.
            self.is_class_in_question = class_names.check(classes, entries, |_| ())?;
        }
        Ok(())
    }

    /// Returns the new objects, if there are any, and the commit record can contain all of them: they are in one piece each,
    /// and in one page.
    fn new_in_one_page(&self, entries: &Entries<'_>, places: &NewPlaces<'_>) -> Option<NewObjects> {
        let mut new = NewObjects::default();
        let mut places = places.iter();
        for entry in &entries.all {
            let What::New { object } = entry.what else { continue };
            if object.len() > SHORT_LEN_MAX {
                return None;
            }
            let references = Header::of(object)?.references_at() as usize;
            resolve(&mut new.add(places.next()?, object)?[references..], &self.identities);
        }
        (!new.is_empty()).then_some(new)
    }

    /// Changes objects, and adds new ones, with the commit record, if each of the changed stays in one piece.
    fn commit_with(&mut self, of_old: &[OfOld<'_, '_>], new_objects: NewObjects) -> Result<Option<Ticket>> {
        let ids = of_old.iter().map(|(identity, _)| identity.place());
        let new = &self.identities;
        let edit = |number: usize, change: Change<'_>| edit_in_one_piece(change, &of_old[number].1.what, new);
        match self.shared.objects.commit_changes(self.txn, new_objects, ids, Commit::Async, edit) {
            // Nothing was changed: executing the changes one by one shows which entry causes the error.
            Err(error) if !is_of_all(&error) && !matches!(error, Error::Misuse(_)) => Ok(None),
            other => other,
        }
    }

    fn objects(&self) -> &'w Objects {
        &self.shared.objects
    }

    fn pen(&mut self) -> PieceWriter<'_> {
        PieceWriter { objects: &self.shared.objects, txn: self.txn, born: &mut self.notice.born }
    }

    fn keeps(&self) -> bool {
        self.beside == GcPhase::Marking || self.is_branch
    }

    /// Keeps the objects that these words refer to alive for a running garbage collection: the words are about to be written
    /// or overwritten.
    fn keep(&mut self, bytes: &[u8]) {
        if self.keeps() && !planted!("overwritten_reference_not_marked") {
            self.notice.kept.extend(words(bytes).filter_map(Reference::identity));
        }
    }

    /// Keeps the objects that these words refer to, and verifies that they exist: the words are about to be written.
    fn refer(&mut self, bytes: &[u8]) -> Result<()> {
        self.keep(bytes);
        if self.is_class_in_question {
            let mut named = self.shared.class_names.in_words(bytes);
            if let Some(class) = named.find(|&class| self.shared.classes.is_dropped(class)) {
                return Err(GraphError::ClassDropped { class }.into());
            }
        }
        if self.beside == GcPhase::Sweeping {
            for to in words(bytes).filter_map(Reference::identity) {
                self.still_there(to)?;
            }
        }
        Ok(())
    }

    /// Returns an error if a sweeping garbage collection treats this object as removed (E21.7).
    fn still_there(&self, identity: Identity) -> Result<()> {
        let is_condemned = self.beside == GcPhase::Sweeping && !self.shared.collecting.is_marked(identity);
        if is_condemned && !planted!("condemned_object_used") {
            return Err(GraphError::NoSuchObject { identity }.into());
        }
        Ok(())
    }

    /// Verifies that such an object exists, as it was committed last. Used for roots only: references are many, and their
    /// targets are not in a cache (E21.4).
    fn is_object(&self, identity: Identity) -> Result<()> {
        let is_piece = |bytes: &[u8]| matches!(Stored::of(bytes), Ok(Stored::Node { .. } | Stored::Leaf(_)));
        match self.objects().read_committed(self.txn.store(), identity.place(), is_piece) {
            Ok((false, _)) => Ok(()),
            Ok((true, _)) => Err(GraphError::NoSuchObject { identity }.into()),
            Err(error) => Err(with_identity(error, identity)),
        }
    }

    /// Returns whether a garbage collection, a branch or a check of classes needs the references that are written and overwritten.
    fn tells(&self) -> bool {
        self.beside != GcPhase::Nothing || self.is_branch || self.is_class_in_question
    }

    /// Returns whether the program's own locks suffice for changes within the commit record while no garbage collection
    /// runs. They do not while a branch is in doubt: a branch of an earlier opening has locked its objects only in the
    /// store, and its changes are not yet made (E21.11).
    fn program_locks(&self, entries: &Entries<'_>) -> bool {
        self.shared.program_locks
            && entries.all.len() <= LOCKS_MAX
            && (!self.shared.in_doubt.is_any(self.txn.store()) || planted!("objects_in_doubt_not_locked"))
    }

    /// Locks the existing objects, which are sorted by their identities: the same order for all commits.
    fn lock(&mut self, entries: &Entries<'_>, all: &[OfOld<'_, '_>]) -> Result<()> {
        let locks = || entries.new_objects as usize + all.chunk_by(|(one, _), (next, _)| one == next).count();
        // Not for a branch: no other commit would be possible while it is in doubt.
        let may_lock_all = !self.is_branch || planted!("branch_locks_whole_graph");
        if may_lock_all && entries.all.len() > LOCKS_MAX && locks() > LOCKS_MAX {
            self.objects().try_lock_all(self.txn)?;
        }
        if !all.is_empty() {
            let each = all.chunk_by(|(one, _), (next, _)| one == next).map(|of_one| of_one[0].0.place());
            self.objects().lock_all_for_change(self.txn, each)?;
        }
        Ok(())
    }

    /// Chooses the places of new objects before any is written, because they may refer to each other.
    fn choose_places(&mut self, entries: &Entries<'_>) -> Result<NewPlaces<'w>> {
        let mut places = NewPlaces::default();
        places.others.reserve_exact((entries.new_objects as usize).saturating_sub(1));
        self.identities = Vec::with_capacity(entries.new_objects as usize);
        for entry in &entries.all {
            let What::New { object } = entry.what else { continue };
            let len = if object.len() <= SHORT_LEN_MAX { object.len() } else { Head::len_for(object.len() as u64) };
            let place = self.objects().reserve(self.txn, len).map_err(|error| in_entry(error, entry))?;
            let identity = Identity::of(place.id());
            self.identities.push(identity);
            places.push(place);
        }
        if planted!("later_objects_not_known") {
            self.identities.truncate(1);
        }
        if self.tells() {
            // From here on other objects refer to them.
            self.notice.born.extend_from_slice(&self.identities);
            self.shared.collecting.notify(&self.notice);
        }
        Ok(places)
    }

    fn change(&mut self, entry: &Entry<'_>, places: &mut impl Iterator<Item = Reserved<'w>>) -> Result<()> {
        match entry.what {
            What::New { object } => {
                let place = places.next().expect("each new object has one");
                let object = self.resolved(object)?;
                if object.len() <= SHORT_LEN_MAX {
                    self.objects().fill(self.txn, place, &object)?;
                } else {
                    let head = Head::write(&mut self.pen(), &object)?;
                    self.objects().fill(self.txn, place, &head.bytes())?;
                }
                Ok(())
            }
            What::Patch { identity, offset, bytes } => {
                self.still_there(identity)?;
                self.patch(identity, offset.into(), bytes).map_err(|error| self.with_identity(error, identity))
            }
            What::Put { identity, object } => {
                self.still_there(identity)?;
                let object = self.resolved(object)?;
                self.put(identity, &object).map_err(|error| self.with_identity(error, identity))
            }
            What::Root { name, to } => self.set_root(name, to),
            What::Class { .. } => Ok(()), // defined before
        }
    }

    /// Converts an error of a change of this object, which is locked.
    fn with_identity(&self, error: Error, identity: Identity) -> Error {
        let error = with_identity(error, identity);
        let what = match (ObjectError::of(&error), GraphError::of(&error)) {
            (Some(ObjectError::NoSuchObject { .. }), _) => "a piece of an object of this page is not there",
            (_, Some(GraphError::Corrupt { what })) => what,
            _ => return error,
        };
        self.txn.store().pool().damaged(Damaged::in_body(identity.place().page, 0, what)).into()
    }

    /// Returns an object with the identities of the new objects that it refers to.
    fn resolved<'b>(&mut self, object: &'b [u8]) -> Result<Cow<'b, [u8]>> {
        let references = Header::of(object).expect("it was checked").references_at() as usize;
        if references == object.len() || self.identities.is_empty() && !self.tells() {
            return Ok(Cow::Borrowed(object));
        }
        let mut object = object.to_vec();
        resolve(&mut object[references..], &self.identities);
        self.refer(&object[references..])?;
        Ok(Cow::Owned(object))
    }

    fn set_root(&mut self, name: &str, to: Reference) -> Result<()> {
        let mut word = to.word().to_le_bytes();
        resolve(&mut word, &self.identities);
        self.refer(&word)?;
        if let Some(identity) = to.identity().filter(|_| !planted!("target_of_root_not_checked")) {
            self.is_object(identity)?;
        }
        let (roots, name) = (&self.shared.roots, name.as_bytes());
        // The previous target is marked: since the beginning of the garbage collection, or since it became the root.
        if to == Reference::NULL {
            roots.remove(self.txn, name)?;
        } else {
            roots.put(self.txn, name, &word)?;
        }
        Ok(())
    }

    fn put(&mut self, identity: Identity, object: &[u8]) -> Result<()> {
        let mut overwritten = Vec::new();
        let is_fed = self.keeps();
        let piece_work = self.shared.objects.edit_locked(self.txn, identity.place(), |old| {
            match object_or_absent(old, identity)? {
                Stored::Long(head) => return Ok((Edit::Nothing, PieceWork::Rewrite(head))),
                Stored::Short(old) if is_fed => {
                    let header = Header::of_object(old, old.len() as u64).map_err(corrupt)?;
                    overwritten = old[header.references_at() as usize..].to_vec();
                }
                _ => {}
            }
            Ok(match object.len() > SHORT_LEN_MAX {
                true => (Edit::Nothing, PieceWork::Create(Vec::new())),
                false => (Edit::Whole(object.to_vec()), PieceWork::None),
            })
        })?;
        self.keep(&overwritten);
        let mut head = match piece_work {
            PieceWork::None => return Ok(()),
            PieceWork::Rewrite(head) => head,
            PieceWork::Create(_) => {
                let head = Head::write(&mut self.pen(), object)?;
                return self.objects().put(self.txn, identity.place(), &head.bytes());
            }
        };
        if is_fed {
            let overwritten = head.references(&mut self.pen())?;
            self.keep(&overwritten);
        }
        if object.len() <= SHORT_LEN_MAX {
            head.remove_pieces(&mut self.pen())?;
            self.objects().put(self.txn, identity.place(), object)
        } else {
            head.rewrite(&mut self.pen(), object)?;
            self.objects().put(self.txn, identity.place(), &head.bytes())
        }
    }

    fn patch(&mut self, identity: Identity, offset: u64, bytes: &[u8]) -> Result<()> {
        let new = &self.identities;
        let (mut overwritten, mut written) = (Vec::new(), Vec::new());
        let notifies = self.tells();
        let piece_work = self.shared.objects.edit_locked(self.txn, identity.place(), |old| {
            let old = match object_or_absent(old, identity)? {
                Stored::Long(head) => return Ok((Edit::Nothing, PieceWork::Rewrite(head))),
                Stored::Short(old) => old,
                Stored::Node { .. } | Stored::Leaf(_) => unreachable!("a piece is no object"),
            };
            let references_from = references_in(old, old.len() as u64, offset, bytes, new)?;
            let at = offset as usize;
            if notifies {
                let bytes = resolved_from(bytes, references_from, new);
                let end = old.len().min(at + bytes.len());
                written = bytes[references_from..].to_vec();
                overwritten = old.get(at + references_from..end).unwrap_or_default().to_vec();
            }
            Ok(match patched(old, at, bytes, references_from, new) {
                Some(edit) => (edit, PieceWork::None),
                None => {
                    // Only the first piece is copied here; the others are made one by one, however long the gap is.
                    let mut longer = old.to_vec();
                    longer.resize(old.len().max(PIECE_LEN), 0);
                    (Edit::Nothing, PieceWork::Create(longer))
                }
            })
        })?;
        self.keep(&overwritten);
        self.refer(&written)?;
        let mut head = match piece_work {
            PieceWork::None => return Ok(()),
            PieceWork::Rewrite(head) => head,
            PieceWork::Create(start) => Head::write(&mut self.pen(), &start)?,
        };
        let start = head.read_range(&mut self.pen(), 0, HEADER_LEN as u64)?;
        let references_from = references_in(&start, head.len, offset, bytes, &self.identities)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let bytes = resolved_from(bytes, references_from, &self.identities);
        if self.keeps() {
            let (from, to) = (offset + references_from as u64, (offset + bytes.len() as u64).min(head.len));
            let overwritten = head.read_range(&mut self.pen(), from, to.max(from))?;
            self.keep(&overwritten);
        }
        self.refer(&bytes[references_from..])?;
        head.overlay(&mut self.pen(), offset, &bytes)?;
        self.objects().put(self.txn, identity.place(), &head.bytes())
    }
}

fn object_or_absent(bytes: &[u8], identity: Identity) -> Result<Stored<'_>> {
    match Stored::of(bytes) {
        Ok(Stored::Node { .. } | Stored::Leaf(_)) => Err(GraphError::NoSuchObject { identity }.into()),
        stored => stored.map_err(corrupt),
    }
}

/// Applies an entry to an object that lies in one piece and stays so; returns `false` otherwise, and if the entry must be
/// refused. It does not accept a patch that leaves a gap, because the length of its log record is not known beforehand.
#[inline]
fn edit_in_one_piece(change: Change<'_>, what: &What<'_>, new: &[Identity]) -> Result<bool> {
    let old = change.object();
    let Ok(Stored::Short(_)) = Stored::of(old) else { return Ok(false) };
    match *what {
        What::Patch { offset, bytes, .. } if offset as usize <= old.len() => {
            let at = offset as usize;
            let Ok(references_from) = references_in(old, old.len() as u64, offset.into(), bytes, new) else {
                return Ok(false);
            };
            if at + bytes.len() > old.len() {
                return patched(old, at, bytes, references_from, new).map_or(Ok(false), |edit| change.make(edit));
            }
            if references_from == bytes.len() {
                return change.put_range(at, bytes); // nothing to resolve
            }
            let mut bytes = SmallBytes::from(bytes);
            resolve(&mut bytes[references_from..], new);
            change.put_range(at, &bytes)
        }
        What::Put { object, .. } if object.len() <= SHORT_LEN_MAX => {
            let Some(header) = Header::of(object) else { return Ok(false) };
            let mut object = object.to_vec();
            resolve(&mut object[header.references_at() as usize..], new);
            change.replace(&object)
        }
        _ => Ok(false),
    }
}

/// Makes a patch of an object in one piece, with identities in place of new objects from byte `references_from` of the patch
/// on; `None` if the object does not stay in one piece.
#[inline]
fn patched(old: &[u8], at: usize, bytes: &[u8], references_from: usize, new: &[Identity]) -> Option<Edit> {
    let end = at + bytes.len();
    if end <= old.len() || bytes.is_empty() {
        let mut bytes = SmallBytes::from(bytes);
        if references_from < bytes.len() {
            resolve(&mut bytes[references_from..], new);
        }
        return Some(Edit::Range { at: at.min(old.len()), bytes });
    }
    if end > SHORT_LEN_MAX {
        return None;
    }
    let mut longer = old.to_vec();
    longer.resize(end, 0);
    longer[at..].copy_from_slice(bytes);
    resolve(&mut longer[at + references_from..], new);
    Some(Edit::Whole(longer))
}

/// Longest gap that a patch may leave behind the end of an object, in bytes. The gap is filled with nulls, which must be
/// written.
const GAP_MAX: u64 = 16 << 20;

/// Validates a patch of an object of `len` bytes that begins with `start`. Returns the index of the first byte that belongs to
/// a reference; all later bytes do so too.
#[inline]
fn references_in(start: &[u8], len: u64, offset: u64, bytes: &[u8], new: &[Identity]) -> Result<usize> {
    let header = Header::of_object(start, len).map_err(corrupt)?;
    let (references, end) = (header.references_at(), offset + bytes.len() as u64);
    if bytes.is_empty() || HEADER_LEN as u64 <= offset && end <= references {
        return Ok(bytes.len());
    }
    if offset < HEADER_LEN as u64 {
        return Err(does_not_fit("a patch of the first 8 bytes, class and length of the data; put the object anew"));
    }
    if offset > len + GAP_MAX {
        return Err(does_not_fit("a patch more than 16 MiB behind the object's end; make it longer by smaller steps"));
    }
    let first = references.saturating_sub(offset) as usize;
    if !end.is_multiple_of(8) || !(offset + first as u64).is_multiple_of(8) {
        return Err(does_not_fit("a patch of references is whole words of 8 bytes"));
    }
    object::check_words(&bytes[first..], new.len() as u64).map_err(Error::user)?;
    Ok(first)
}

/// Returns a patch with identities in place of new objects.
fn resolved_from<'b>(bytes: &'b [u8], references_from: usize, new: &[Identity]) -> Cow<'b, [u8]> {
    if references_from == bytes.len() {
        return Cow::Borrowed(bytes);
    }
    let mut bytes = bytes.to_vec();
    resolve(&mut bytes[references_from..], new);
    Cow::Owned(bytes)
}
