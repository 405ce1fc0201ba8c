//! A stack of pages: each push allocates one, each pop frees one. Nothing may leak.

use cedrat_check::{Outcome, Run};
use cedrat_pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Result, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, at, bugs, fresh, get, pages, put, words};

bugs![
    "a pop leaks its page" => Check,
    "a push that is rolled back leaks its page" => Check,
    "a page is freed while the list still refers to it" => Workload,
    "a page is freed twice by two lists" => Workload,
    "the link to the page below is not undone" => Workload,
    "the page is allocated in a transaction of its own" => Check,
    "the page is freed in a transaction of its own" => Workload,
];

/// Word 0 of the root: the top page, or 0. Word 0 of each page: the page below. Word 1: its value.
#[derive(Debug, Serialize, Deserialize)]
struct Set(i64);

impl Operation for Set {
    const NAME: &'static str = "stack.set";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> std::result::Result<Undo, Refused> {
        let before = get(page, usize::from(at.0))?;
        Ok(if planted(5) { Undo::none() } else { Undo::op(Set(before)) })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> std::result::Result<(), Damaged> {
        put(page, usize::from(at.0), self.0)
    }
}

fn push(txn: &mut Txn, root: PageId, value: i64) -> Result<()> {
    let below = get(&*txn.read_latched(root)?, 0)?;
    let page = match () {
        () if planted(6) => txn.store().clone().transact(fresh)?,
        () if planted(2) => txn.nested((), |txn| Ok((fresh(txn)?, Undo::none())))?,
        () => fresh(txn)?,
    };
    txn.update_latched(at(page, 0), &Set(below))?;
    txn.update_latched(at(page, 1), &Set(value))?;
    txn.update_latched(at(root, 0), &Set(page.get() as i64))
}

fn pop(txn: &mut Txn, root: PageId) -> Result<()> {
    let top = get(&*txn.read_latched(root)?, 0)?;
    let page = PageId::new(top as u64);
    let below = get(&*txn.read_latched(page)?, 0)?;
    if !planted(3) {
        txn.update_latched(at(root, 0), &Set(below))?;
    }
    match () {
        () if planted(1) => Ok(()),
        () if planted(7) => txn.store().clone().transact(|own| own.free(page)),
        () if planted(4) => {
            txn.free(page)?;
            let again = fresh(txn)?;
            txn.free(again)?;
            txn.free(again)
        }
        () => txn.free(page),
    }
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let root = roots[0];
    for round in 1..10_i64 {
        run.transact(|txn| {
            push(txn, root, round)?;
            push(txn, root, -round)?;
            Ok(move |state: &mut State| state[0].extend([round, -round]))
        })?;
        run.roll_back(|txn| {
            pop(txn, root)?;
            Ok(push(txn, root, 50)?)
        })?;
        run.transact(|txn| {
            pop(txn, root)?;
            Ok(|state: &mut State| {
                state[0].pop();
            })
        })?;
        if round == 6 {
            run.store().checkpoint()?;
        }
    }
    Ok(())
}

/// Returns the pages of the stack, from the top.
fn chain(store: &cedrat_txn::Store, root: PageId) -> Outcome<Vec<PageId>> {
    let mut pages = Vec::new();
    let mut next = words(store, root, 1)?[0];
    while next != 0 {
        if pages.len() > 100 {
            return Err("the stack has no end".into());
        }
        let page = PageId::new(next as u64);
        if store.read(page)?.kind() != LayoutKind::RAW {
            return Err(format!("page {page} is none of the stack").into());
        }
        next = words(store, page, 1)?[0];
        pages.push(page);
    }
    Ok(pages)
}

fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    let chain = chain(store, roots[0])?;
    let values: Outcome<Vec<i64>> = chain.iter().rev().map(|page| Ok(words(store, *page, 2)?[1])).collect();
    Ok(vec![values?])
}

/// Verifies that every page in use belongs to the stack or to the store, or is the root.
fn nothing_leaks(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome {
    let reachable = chain(store, roots[0])?.len() as u64 + 1;
    let report = store.check()?;
    let own = 2;
    let used = report.pages_allocated - own;
    if used == reachable { Ok(()) } else { Err(format!("{used} pages are in use, {reachable} can be reached").into()) }
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "stack",
    bugs: BUGS,
    plant: &PLANT,
    operations: || Ok(()),
    plot: Plot {
        registry: || Registry::new().operation::<Set>(),
        set_up: |store| pages(store, 1),
        run,
        read,
        check: nothing_leaks,
    },
};
