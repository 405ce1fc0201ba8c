//! Faults during the openings of stores with losers, half-done nested actions and prepared transactions.
#![cfg(not(cedrat_shuttle))]

use std::collections::BTreeSet;

use cedrat_check::{self as check, Outcome, Run, Scenario};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_sync::Arc;
use cedrat_txn::{
    Commit, FormatFresh, LogicalUndo, Options, RecordId, Registry, Result, SetRange, Store, Txn, Undo, Vote,
};
use serde::{Deserialize, Serialize};

/// Two pages with the same number, which nested actions change, and a page of its own for each prepared transaction.
///
/// The steps restore the previous value, and the undo of a whole action reads before it writes: if the undo does not run
/// newest first, the pages differ, or have a wrong number.
struct Mirrors;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Pair {
    left: u64,
    right: u64,
}

/// Largest number of prepared transactions.
const BRANCHES: u64 = 3;

#[derive(Clone)]
struct Roots {
    pair: Pair,
    branches: Vec<PageId>,
}

#[derive(Clone, Debug, PartialEq)]
struct State {
    number: u64,
    branches: Vec<u64>,
    in_doubt: BTreeSet<Vec<u8>>,
}

/// Undoes an addition to both pages.
#[derive(Debug, Serialize, Deserialize)]
struct TakeFromBoth {
    pair: Pair,
    amount: u64,
}

impl LogicalUndo for TakeFromBoth {
    const NAME: &'static str = "test.take_from_both";
    const LOG_BYTES_MAX: u32 = 2048;

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        add_to_both(txn, self.pair, self.amount.wrapping_neg())
    }
}

fn number(txn: &Txn, page: u64) -> Result<u64> {
    Ok(txn.read_latched(PageId::new(page))?.u64_at(0)?)
}

fn put(txn: &mut Txn, page: u64, number: u64) -> Result<()> {
    let bytes = number.to_le_bytes()[..].into();
    txn.update(RecordId::page(PageId::new(page)), &SetRange { offset: 0, bytes })
}

/// Every step is durable, so that a crash may come between any two.
fn force(txn: &Txn) -> Result<()> {
    let log = txn.store().log();
    log.force(log.current_lsn())?;
    Ok(())
}

fn add_to_both(txn: &mut Txn, pair: Pair, amount: u64) -> Result<()> {
    let left = number(txn, pair.left)?;
    put(txn, pair.left, left.wrapping_add(amount))?;
    force(txn)?;
    let right = number(txn, pair.right)?;
    put(txn, pair.right, right.wrapping_add(amount))
}

fn nested(txn: &mut Txn, pair: Pair, amount: u64) -> Result<()> {
    txn.nested((), |txn| {
        add_to_both(txn, pair, amount)?;
        force(txn)?;
        Ok(((), Undo::logical(&TakeFromBoth { pair, amount })))
    })?;
    force(txn)
}

fn branch_id(at: usize) -> Vec<u8> {
    format!("branch-{at}").into_bytes()
}

impl Scenario for Mirrors {
    type State = State;
    type Roots = Roots;

    fn options(&self) -> Options {
        Options { partitions: 2, locks: Arc::new(cedrat_txn::PageLocks::default()), ..Options::simulated() }
    }

    fn registry(&self) -> Registry {
        Registry::new().logical::<TakeFromBoth>()
    }

    fn set_up(&self, store: &Store) -> Outcome<Roots> {
        let page = || {
            store.transact(|txn| {
                let page = txn.allocate()?;
                txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
                Ok(page)
            })
        };
        let pair = Pair { left: page()?.get(), right: page()?.get() };
        let branches = (0..BRANCHES).map(|_| page()).collect::<Result<_>>()?;
        store.checkpoint()?;
        Ok(Roots { pair, branches })
    }

    fn run(&self, run: &Run<Mirrors>, roots: &Roots) -> Outcome {
        let store = run.store();
        for (round, branch) in store.in_doubt().unwrap().into_iter().enumerate() {
            let prepared = store.prepared(&branch.id)?;
            match round % 2 {
                0 => drop(prepared.commit(Commit::Sync)?),
                _ => prepared.rollback()?,
            }
        }
        for round in 0..2 {
            let mut older = store.begin();
            nested(&mut older, roots.pair, 1_000)?;
            for (at, &page) in roots.branches.iter().enumerate() {
                let mut branch = store.begin();
                let amount = number(&branch, page.get())? + 10;
                put(&mut branch, page.get(), amount)?;
                let Vote::Prepared(prepared) = branch.prepare(&branch_id(at))? else {
                    unreachable!("it has changed a page")
                };
                if round == 0 {
                    prepared.rollback()?;
                }
            }
            let mut younger = store.begin();
            nested(&mut younger, roots.pair, 100)?;
            nested(&mut older, roots.pair, 10)?;
            nested(&mut younger, roots.pair, 1)?;
            if round == 0 {
                store.checkpoint()?;
            }
            nested(&mut older, roots.pair, 7)?;
            older.rollback()?;
            younger.rollback()?;
            for (at, _) in roots.branches.iter().enumerate().filter(|_| round > 0) {
                store.prepared(&branch_id(at))?.commit(Commit::Sync)?;
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, roots: &Roots) -> Outcome<State> {
        let at = |page: PageId| Ok::<u64, check::Error>(store.read(page)?.u64_at(0)?);
        let number = at(PageId::new(roots.pair.left))?;
        if number != at(PageId::new(roots.pair.right))? {
            return Err(format!("the left page holds {number}, and the right one does not").into());
        }
        let branches = roots.branches.iter().map(|&page| at(page)).collect::<Outcome<_>>()?;
        Ok(State {
            number,
            branches,
            in_doubt: store.in_doubt().unwrap().into_iter().map(|branch| branch.id).collect(),
        })
    }
}

/// E5.3, E9.1, R5: whatever fails while a store opens, the next opening finds the same state.
#[test]
fn failed_opening_changes_no_outcome() {
    let check = check::openings("mirrors-openings", Mirrors).seed(check::seed(1)).bases(12);
    let report = check.run().unwrap_or_else(|failure| panic!("{failure}"));
    report.print();
}
