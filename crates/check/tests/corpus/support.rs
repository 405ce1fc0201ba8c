//! Shared parts of all structures of the corpus.

use std::cell::Cell;
use std::sync::atomic::AtomicU8;

use cedrat_check::{Broken, OperationCheck, Outcome, Rng, Run, Scenario};
use cedrat_pages::{BODY_LEN, Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_sync::Arc;
use cedrat_txn::{FormatFresh, NoLocks, Operation, Options, RecordId, Registry, Store, Txn};

/// A structure, and the bugs that can be planted in it.
#[derive(Clone, Copy)]
pub(crate) struct Structure {
    pub(crate) name: &'static str,
    pub(crate) bugs: &'static [(&'static str, &'static str)],
    /// Number of the planted bug; 0: none.
    pub(crate) plant: &'static AtomicU8,
    /// The checks of its operations, each by itself.
    pub(crate) operations: fn() -> Tested,
    pub(crate) plot: Plot,
}

std::thread_local! {
    /// States that were read since the check began.
    pub(crate) static READS: Cell<u64> = const { Cell::new(0) };
}

/// Content of a store, in plain memory.
pub(crate) type State = Vec<Vec<i64>>;

/// A workload and its model. One type for all structures, so that the checks are compiled once.
#[derive(Clone, Copy)]
pub(crate) struct Plot {
    pub(crate) registry: fn() -> Registry,
    pub(crate) set_up: fn(&Store) -> Outcome<Vec<PageId>>,
    pub(crate) run: fn(&Run<Plot>, &[PageId]) -> Outcome,
    pub(crate) read: fn(&Store, &[PageId]) -> Outcome<State>,
    pub(crate) check: fn(&Store, &[PageId]) -> Outcome,
}

impl Scenario for Plot {
    type State = State;
    type Roots = Vec<PageId>;

    fn options(&self) -> Options {
        // The structures isolate their transactions themselves.
        Options { locks: Arc::new(NoLocks), ..Options::simulated() }
    }

    fn registry(&self) -> Registry {
        (self.registry)()
    }

    fn set_up(&self, store: &Store) -> Outcome<Vec<PageId>> {
        (self.set_up)(store)
    }

    fn run(&self, run: &Run<Plot>, pages: &Vec<PageId>) -> Outcome {
        (self.run)(run, pages)
    }

    fn read(&self, store: &Store, pages: &Vec<PageId>) -> Outcome<State> {
        READS.set(READS.get() + 1);
        (self.read)(store, pages)
    }

    fn check(&self, store: &Store, pages: &Vec<PageId>) -> Outcome {
        (self.check)(store, pages)
    }
}

/// The check of structures that the model alone judges.
pub(crate) fn no_check(_: &Store, _: &[PageId]) -> Outcome {
    Ok(())
}

/// Declares the bugs of a structure, numbered from 1, each with the rule or the kind of failure by which it must be caught; `Missed`:
/// no check finds it.
macro_rules! bugs {
    ($($what:literal => $kind:ident),* $(,)?) => {
        static PLANT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
        const BUGS: &[(&str, &str)] = &[$(($what, stringify!($kind))),*];
        fn planted(bug: u8) -> bool {
            PLANT.load(std::sync::atomic::Ordering::Relaxed) == bug
        }
    };
}
pub(crate) use bugs;

/// Number of words of a page.
pub(crate) const WORDS: usize = BODY_LEN / 8;

pub(crate) fn get(page: &PageRef<'_>, word: usize) -> Result<i64, Damaged> {
    Ok(page.u64_at(word * 8)? as i64)
}

pub(crate) fn peek(page: &PageMut<'_>, word: usize) -> Result<i64, Damaged> {
    get(&page.page_ref(), word)
}

pub(crate) fn put(page: &mut PageMut<'_>, word: usize, value: i64) -> Result<(), Damaged> {
    page.put_u64(word * 8, value as u64)
}

/// Allocates `count` zeroed pages.
pub(crate) fn pages(store: &Store, count: usize) -> Outcome<Vec<PageId>> {
    Ok(store.transact(|txn| (0..count).map(|_| fresh(txn)).collect())?)
}

/// Allocates a page of zeros.
pub(crate) fn fresh(txn: &mut Txn) -> cedrat_txn::Result<PageId> {
    let page = txn.allocate()?;
    txn.update_latched(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
    Ok(page)
}

/// Returns the first `count` words of a page.
pub(crate) fn words(store: &Store, page: PageId, count: usize) -> Outcome<Vec<i64>> {
    let page = store.read(page)?;
    Ok((0..count).map(|word| get(&page, word)).collect::<Result<_, _>>()?)
}

pub(crate) fn at(page: PageId, slot: usize) -> RecordId {
    RecordId::new(page, Slot(slot as u16))
}

/// Returns a slot that is usually one of the first `count`.
pub(crate) fn slot(chance: &mut Rng, count: usize) -> Slot {
    match chance.below(24) {
        0 => Slot(WORDS as u16 + chance.below(3) as u16),
        1 => Slot(chance.next_u64() as u16),
        _ => Slot(chance.index(count) as u16),
    }
}

/// Result of the checks of operations by themselves.
pub(crate) type Tested = Result<(), Broken>;

/// Runs an operation's check with a tenth of the default cases, because there are many bugs.
pub(crate) fn tried<O: Operation>(check: OperationCheck<O>) -> Tested {
    check.cases(1_000).run().map(drop)
}
