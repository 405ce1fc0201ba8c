//! Failures of workloads: a part of the workload that fails too, and pages that leak.
#![cfg(not(cedrat_shuttle))]

use cedrat_check::{self as check, Fault, Outcome, Run, Scenario};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_txn::{FormatFresh, RecordId, Registry, Result, SetRange, Store, Txn};

/// Numbers on a page, each set by a transaction. The third last one sets a wrong number, if the fifth one exists.
struct Numbers {
    wrong: bool,
}

const COUNT: usize = 24;
const CAUSE: usize = 5;
const EFFECT: usize = COUNT - 3;

fn set(txn: &mut Txn, page: PageId, at: usize, number: u64) -> Result<()> {
    let bytes = number.to_le_bytes()[..].into();
    txn.update(RecordId::page(page), &SetRange { offset: at as u16 * 8, bytes })
}

fn fresh(txn: &mut Txn) -> Result<PageId> {
    let page = txn.allocate()?;
    txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
    Ok(page)
}

impl Scenario for Numbers {
    type State = Vec<u64>;
    type Roots = PageId;

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(fresh)?)
    }

    fn run(&self, run: &Run<Numbers>, page: &PageId) -> Outcome {
        for at in 0..COUNT {
            let is_wrong = self.wrong && at == EFFECT && run.model()[CAUSE] > 0;
            run.transact(|txn| {
                set(txn, *page, at, 7)?;
                set(txn, *page, at, if is_wrong { 9 } else { 8 })?;
                Ok(move |numbers: &mut Vec<u64>| numbers[at] = 8)
            })?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, page: &PageId) -> Outcome<Vec<u64>> {
        let page = store.read(*page)?;
        Ok((0..COUNT).map(|at| page.u64_at(at * 8)).collect::<std::result::Result<_, _>>()?)
    }
}

#[test]
fn failing_workload_is_shrunk() {
    let failure = check::crashes("numbers", Numbers { wrong: true }).run().unwrap_err();
    assert_eq!(failure.fault, Fault::Model);
    let words = failure.to_string();
    let smaller = failure.smaller.expect("two transactions are enough");
    assert_eq!((smaller.transactions, smaller.of), (2, EFFECT + 1));
    assert!(words.contains("2 of the 22 transactions of the workload fail too"), "{words}");
    let again = check::crashes("numbers", Numbers { wrong: true }).repeat(&smaller.failure.case).unwrap_err();
    assert_eq!((again.fault, again.seen), (Fault::Model, smaller.failure.seen));
}

#[test]
fn workload_without_budget_stays_whole() {
    let failure = check::crashes("numbers", Numbers { wrong: true }).shrink(0).run().unwrap_err();
    assert!(failure.smaller.is_none());
    check::crashes("numbers", Numbers { wrong: false }).run().unwrap_or_else(|failure| panic!("{failure}"));
}

/// A root page and the pages that it names. A transaction replaces one of them, and may forget to free the old one.
struct Named {
    forgets: bool,
}

const NAMED: usize = 3;

fn named(store: &Store, root: PageId) -> Outcome<Vec<PageId>> {
    let root = store.read(root)?;
    let pages = (0..NAMED).map(|at| root.u64_at(at * 8)).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(pages.into_iter().filter(|&page| page > 0).map(PageId::new).collect())
}

impl Scenario for Named {
    type State = usize;
    type Roots = PageId;

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(fresh)?)
    }

    fn run(&self, run: &Run<Named>, root: &PageId) -> Outcome {
        for at in (0..NAMED * 3).map(|turn| turn % NAMED) {
            let before = run.store().read(*root)?.u64_at(at * 8)?;
            run.transact(|txn| {
                let page = fresh(txn)?;
                set(txn, *root, at, page.get())?;
                if before > 0 && !self.forgets {
                    txn.free(PageId::new(before))?;
                }
                Ok(move |count: &mut usize| *count = (*count).max(at + 1))
            })?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, root: &PageId) -> Outcome<usize> {
        Ok(named(store, *root)?.len())
    }

    fn reachable(&self, store: &Store, root: &PageId) -> Outcome<Option<Vec<PageId>>> {
        let mut pages = named(store, *root)?;
        pages.push(*root);
        Ok(Some(pages))
    }
}

#[test]
fn leaked_pages_are_found() {
    check::crashes("named", Named { forgets: false }).run().unwrap_or_else(|failure| panic!("{failure}"));
    let failure = check::crashes("named", Named { forgets: true }).run().unwrap_err().to_string();
    assert!(failure.contains("pages leak: in use and not reached are"), "{failure}");
}
