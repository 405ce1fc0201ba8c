//! A shop with articles in a small object cache above versioned pages: changes are deferred with each kind of undo,
//! records are flushed in any order, inserted and deleted, and their slots are reused.
#![cfg(not(cedrat_shuttle))]

#[path = "../../../txn/tests/integration/kept.rs"]
mod kept;

use std::collections::BTreeMap;

use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_pages::layout::Versioned;
use cedrat_pages::{PageId, Slot};
use cedrat_sync::Arc;
use cedrat_txn::object_cache::{Keeper, UnflushedRecords};
use cedrat_txn::{Commit, NoLocks, Options, RecordId, Registry, Store, Txn, VersionedDelete, VersionedUpdate};
use cedrat_wal::Ticket;
use kept::{Back, Mixed, TestCache, insert, page_of_records};

const RECORDS_OF_PAGE: u16 = 4;

/// Parameters of the workload.
#[derive(Clone, Debug)]
pub(crate) struct Shop {
    /// Number of pages. The last one belongs to transactions that stay open for a while.
    pub(crate) pages: u16,
    pub(crate) steps: u64,
    /// One in so many flush requests of checkpoints is executed.
    pub(crate) flushes_one_in: u64,
    /// Options of the store. It has no locks: one thread works, and open transactions keep to their page.
    pub(crate) options: fn() -> Options,
}

impl Default for Shop {
    fn default() -> Shop {
        Shop { pages: 3, steps: 60, flushes_one_in: 2, options: unlocked }
    }
}

pub(crate) fn unlocked() -> Options {
    Options { locks: Arc::new(NoLocks), ..Options::simulated() }
}

/// Content by page (its index in the shop) and slot.
type State = BTreeMap<(usize, u16), Mixed>;

/// A change of a transaction, as the model applies it.
#[derive(Clone, Copy, Debug)]
enum Did {
    Mix(RecordId, u64),
    Put(RecordId, Mixed),
    Remove(RecordId),
}

/// State of the workload.
struct Clerk<'a> {
    run: &'a Run<Shop>,
    pages: &'a [PageId],
    article_cache: Arc<TestCache>,
    keeper: Keeper,
    chance: Rng,
}

/// A transaction, and its changes so far.
struct Work {
    back: Back,
    /// Pages that it keeps to.
    pages: Vec<PageId>,
    did: Vec<Did>,
    /// Records that it has changed in their pages.
    direct: Vec<RecordId>,
}

impl Clerk<'_> {
    fn store(&self) -> &Store {
        self.run.store()
    }

    fn effect(&self, did: Vec<Did>) -> impl Fn(&mut State) + Send + 'static {
        let pages = self.pages.to_vec();
        move |state| {
            let key = |at: RecordId| {
                let page = pages.iter().position(|&page| page == at.page).expect("a page of the shop");
                (page, at.slot.0)
            };
            for &did in &did {
                match did {
                    Did::Mix(at, by) => state.get_mut(&key(at)).expect("it is there").mix(by),
                    Did::Put(at, mixed) => drop(state.insert(key(at), mixed)),
                    Did::Remove(at) => drop(state.remove(&key(at))),
                }
            }
        }
    }

    fn work(&mut self, pages: &[PageId]) -> Work {
        let back = *self.chance.pick(&[Back::CommittedOnly, Back::CommittedOnly, Back::Inverse]);
        Work { back, pages: pages.to_vec(), did: Vec::new(), direct: Vec::new() }
    }

    /// Chooses a record of these pages.
    fn any(&mut self, pages: &[PageId]) -> Outcome<Option<RecordId>> {
        let page = *self.chance.pick(pages);
        let seen = self.store().read(page)?;
        let slots: Vec<Slot> =
            Versioned::of(&seen)?.iter().map(|record| Ok(record?.0)).collect::<Outcome<Vec<Slot>>>()?;
        drop(seen);
        Ok((!slots.is_empty()).then(|| RecordId::new(page, *self.chance.pick(&slots))))
    }

    /// Makes some changes. `how_many` is at least one.
    fn change(&mut self, txn: &mut Txn, work: &mut Work, how_many: u64) -> Outcome {
        for _ in 0..how_many {
            let Some(at) = self.any(&work.pages)? else { continue };
            let by = self.chance.below(1 << 40);
            match self.chance.below(10) {
                0 => self.replace(txn, work, at)?,
                1 => self.remove(txn, work, at)?,
                2 => self.make(txn, work, at.page)?,
                _ => {
                    self.article_cache.change(txn, &self.keeper, at, by, work.back)?;
                    work.did.push(Did::Mix(at, by));
                }
            }
            if self.chance.one_in(6) {
                self.flush_some()?;
            }
        }
        Ok(())
    }

    /// Makes the page contain all of a record, and the cache nothing; returns `false` if that is not possible now.
    fn is_in_page(&self, at: RecordId) -> Outcome<bool> {
        if self.article_cache.is_pending(at) {
            return Ok(false);
        }
        self.article_cache.flush_one(at, |kept| self.store().flush_record(kept))?;
        self.article_cache.forget(at);
        Ok(true)
    }

    fn replace(&mut self, txn: &mut Txn, work: &mut Work, at: RecordId) -> Outcome {
        if self.is_in_page(at)? {
            let mixed = Mixed { value: self.chance.next_u64(), count: 0 };
            txn.update(at, &VersionedUpdate { record: mixed.bytes()[..].into() })?;
            work.did.push(Did::Put(at, mixed));
            work.direct.push(at);
        }
        Ok(())
    }

    fn remove(&mut self, txn: &mut Txn, work: &mut Work, at: RecordId) -> Outcome {
        if self.is_in_page(at)? {
            txn.update(at, &VersionedDelete {})?;
            work.did.push(Did::Remove(at));
            work.direct.push(at);
        }
        Ok(())
    }

    fn make(&mut self, txn: &mut Txn, work: &mut Work, page: PageId) -> Outcome {
        let seen = self.store().read(page)?;
        let vacant = Versioned::of(&seen)?.vacant()?;
        drop(seen);
        if let Some(slot) = vacant {
            let (at, mixed) = (RecordId::new(page, slot), Mixed { value: self.chance.next_u64(), count: 0 });
            self.article_cache.forget(at);
            insert(txn, at, mixed)?;
            work.did.push(Did::Put(at, mixed));
            work.direct.push(at);
        }
        Ok(())
    }

    /// Makes changes, and undoes half of them, or none.
    fn change_with_second_thoughts(&mut self, txn: &mut Txn, work: &mut Work) -> Outcome {
        let changes = 1 + self.chance.below(3);
        self.change(txn, work, changes)?;
        if self.chance.one_in(3) {
            let (savepoint, did, direct) = (txn.savepoint(), work.did.len(), work.direct.len());
            let changes = 1 + self.chance.below(3);
            self.change(txn, work, changes)?;
            if self.chance.one_in(4) {
                self.store().checkpoint()?;
            }
            txn.rollback_to(savepoint)?;
            work.did.truncate(did);
            // The undo has happened in the page, and the cache keeps nothing.
            work.direct.drain(direct..).for_each(|at| self.article_cache.forget(at));
            if self.chance.one_in(2) {
                self.change(txn, work, 1)?;
            }
        }
        Ok(())
    }

    fn flush_some(&mut self) -> Outcome {
        for at in self.article_cache.places() {
            if self.chance.one_in(3) {
                self.article_cache.flush_one(at, |kept| self.store().flush_record(kept))?;
            }
        }
        Ok(())
    }

    fn roll_back(&mut self, txn: Txn, work: &Work) -> Outcome {
        txn.rollback()?;
        work.direct.iter().for_each(|&at| self.article_cache.forget(at));
        Ok(())
    }

    /// Runs a transaction that stays open while another one commits, and pages are written.
    fn over_lunch(&mut self) -> Outcome {
        let (public, own) = self.pages.split_at(self.pages.len() - 1);
        let mut work = self.work(own);
        let mut open = self.store().begin();
        self.change_with_second_thoughts(&mut open, &mut work)?;
        if self.chance.one_in(2) {
            self.flush_some()?;
            self.store().checkpoint()?;
        }
        self.transaction(public)?;
        if self.chance.one_in(2) {
            self.change_with_second_thoughts(&mut open, &mut work)?;
        }
        match self.chance.below(3) {
            0 => self.roll_back(open, &work),
            1 => {
                self.store().log().force(self.store().log().current_lsn())?;
                self.flush_some()?;
                self.roll_back(open, &work)
            }
            _ => self.commit(open, work).map(drop),
        }
    }

    fn transaction(&mut self, pages: &[PageId]) -> Outcome {
        let mut work = self.work(pages);
        let mut txn = self.store().begin();
        self.change_with_second_thoughts(&mut txn, &mut work)?;
        if self.chance.one_in(5) {
            return self.roll_back(txn, &work);
        }
        let ticket = self.commit(txn, work)?;
        if self.chance.one_in(2) {
            self.run.acknowledge(&ticket)?;
        }
        Ok(())
    }

    /// Commits, and in half of the cases changes some records in the commit record itself (E19.15).
    fn commit(&mut self, mut txn: Txn, mut work: Work) -> Outcome<Ticket> {
        let mut last: BTreeMap<RecordId, u64> = BTreeMap::new();
        if work.back == Back::CommittedOnly && self.chance.one_in(2) {
            for _ in 0..4 {
                if let Some(at) = self.any(&work.pages)?.filter(|&at| !self.article_cache.is_pending(at)) {
                    last.insert(at, self.chance.below(1 << 40));
                }
            }
        }
        if last.is_empty() {
            return self.run.commit(txn, Commit::Async, self.effect(work.did));
        }
        work.did.extend(last.iter().map(|(&at, &by)| Did::Mix(at, by)));
        let all: Vec<(RecordId, u64)> = last.into_iter().collect();
        let commit = || {
            Ok(self
                .article_cache
                .commit(&mut txn, &self.keeper, &all)?
                .expect("it defers what counts only if committed"))
        };
        self.run.commits(commit, self.effect(work.did))
    }

    fn step(&mut self) -> Outcome {
        let pages = self.pages;
        match self.chance.below(12) {
            0..=6 => self.transaction(&pages[..pages.len() - 1]),
            7 | 8 => self.over_lunch(),
            9 => {
                self.flush_some()?;
                self.article_cache.let_go();
                Ok(())
            }
            _ => Ok(self.store().checkpoint()?),
        }
    }
}

impl Scenario for Shop {
    type State = State;
    type Roots = Vec<PageId>;

    fn options(&self) -> Options {
        (self.options)()
    }

    /// Changes stay in the cache until it flushes them.
    fn reads_while_running(&self) -> bool {
        false
    }

    fn registry(&self) -> Registry {
        Registry::new().with(kept::register)
    }

    fn set_up(&self, store: &Store) -> Outcome<Vec<PageId>> {
        Ok(store.transact(|txn| (0..self.pages).map(|_| page_of_records(txn, RECORDS_OF_PAGE)).collect())?)
    }

    fn run(&self, run: &Run<Shop>, pages: &Vec<PageId>) -> Outcome {
        let article_cache = TestCache::new(self.flushes_one_in);
        let keeper = run.store().keep_log_for(article_cache.clone());
        let mut clerk = Clerk { run, pages, article_cache, keeper, chance: run.rng(0) };
        for _ in 0..self.steps {
            clerk.step()?;
        }
        clerk.article_cache.flush_all(run.store())?;
        Ok(())
    }

    fn read(&self, store: &Store, pages: &Vec<PageId>) -> Outcome<State> {
        let mut state = State::new();
        for (number, &page) in pages.iter().enumerate() {
            let page = store.read(page)?;
            for record in Versioned::of(&page)?.iter() {
                let (slot, _, record) = record?;
                state.insert((number, slot.0), Mixed::of(record)?);
            }
        }
        Ok(state)
    }
}
