//! Amounts that move from one page to another, under a nested top action.

use cedrat_check::{Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Commit, LogicalUndo, Operation, Refused, Registry, Result, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, at, bugs, get, no_check, pages, peek, put, words};

bugs![
    "the logical undo forgets the second page" => Model,
    "the logical undo moves in the same direction" => Model,
    "the nested action has no undo" => Model,
    "the first page changes outside of the nested action" => Model,
    "the steps have no undo of their own" => Model,
    "a transfer is two transactions" => Model,
    "the undo changes both pages twice" => Model,
    "the amount of the undo is fixed" => Model,
    "there is no nested action, and steps restore what was there" => Model,
    "the logical undo commits a part by itself" => Model,
    "the log of the logical undo has a bound that is too small" => Missed,
];

#[derive(Debug, Serialize, Deserialize)]
struct Add(i64);

impl Operation for Add {
    const NAME: &'static str = "transfer.add";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> std::result::Result<Undo, Refused> {
        let sum = get(page, usize::from(at.0))?;
        Ok(match () {
            () if planted(5) => Undo::none(),
            () if planted(9) => Undo::op(Set(sum)),
            () => Undo::op(Add(-self.0)),
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> std::result::Result<(), Damaged> {
        let sum = peek(page, usize::from(at.0))?;
        put(page, usize::from(at.0), sum + self.0)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Set(i64);

impl Operation for Set {
    const NAME: &'static str = "transfer.set";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> std::result::Result<Undo, Refused> {
        Ok(Undo::op(Set(get(page, usize::from(at.0))?)))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> std::result::Result<(), Damaged> {
        put(page, usize::from(at.0), self.0)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct MoveBack {
    from: u64,
    to: u64,
    amount: i64,
}

impl LogicalUndo for MoveBack {
    const NAME: &'static str = "transfer.move_back";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let amount = match () {
            () if planted(2) => -self.amount,
            () if planted(7) => self.amount * 2,
            () if planted(8) => 10,
            () => self.amount,
        };
        if planted(10) {
            let mut own = txn.store().begin();
            own.update_latched(at(PageId::new(self.from), 0), &Add(amount))?;
            own.commit(Commit::Async)?;
        } else {
            txn.update_latched(at(PageId::new(self.from), 0), &Add(amount))?;
        }
        if planted(1) {
            return Ok(());
        }
        txn.update_latched(at(PageId::new(self.to), 0), &Add(-amount))
    }
}

/// Room for one of its two records.
#[derive(Debug, Serialize, Deserialize)]
struct Tight(MoveBack);

impl LogicalUndo for Tight {
    const NAME: &'static str = MoveBack::NAME;
    const LOG_BYTES_MAX: u32 = 100;

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        self.0.undo(txn)
    }
}

fn transfer(txn: &mut Txn, roots: &[PageId], amount: i64) -> Result<()> {
    let (from, to) = (at(roots[0], 0), at(roots[1], 0));
    if planted(9) {
        txn.update_latched(from, &Add(-amount))?;
        return txn.update_latched(to, &Add(amount));
    }
    if planted(4) {
        txn.update_latched(from, &Add(-amount))?;
    }
    txn.nested((), |txn| {
        if !planted(4) {
            txn.update_latched(from, &Add(-amount))?;
        }
        txn.update_latched(to, &Add(amount))?;
        let undo = MoveBack { from: roots[0].get(), to: roots[1].get(), amount };
        Ok((
            (),
            match () {
                () if planted(3) => Undo::none(),
                () if planted(11) => Undo::logical(&Tight(undo)),
                () => Undo::logical(&undo),
            },
        ))
    })
}

fn moved(state: &mut State, amount: i64) {
    state[0][0] -= amount;
    state[1][0] += amount;
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    for amount in 1..9_i64 {
        let mut open = run.store().begin();
        transfer(&mut open, roots, amount * 10)?;
        if planted(6) {
            run.transact(|txn| {
                txn.update_latched(at(roots[0], 0), &Add(-amount))?;
                Ok(|_: &mut State| ())
            })?;
            run.transact(|txn| {
                txn.update_latched(at(roots[1], 0), &Add(amount))?;
                Ok(move |state: &mut State| moved(state, amount))
            })?;
        } else {
            run.transact(|txn| {
                transfer(txn, roots, amount)?;
                Ok(move |state: &mut State| moved(state, amount))
            })?;
        }
        if amount % 2 == 0 {
            open.rollback()?;
        } else {
            let ticket = run.commit(open, Commit::Sync, move |state: &mut State| moved(state, amount * 10))?;
            run.acknowledge(&ticket)?;
        }
        run.roll_back(|txn| Ok(transfer(txn, roots, amount)?))?;
    }
    Ok(())
}

fn registry() -> Registry {
    let registry = Registry::new().operation::<Add>();
    let registry = if planted(11) { registry.logical::<Tight>() } else { registry.logical::<MoveBack>() };
    if planted(9) { registry.operation::<Set>() } else { registry }
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "transfer",
    bugs: BUGS,
    plant: &PLANT,
    operations: || Ok(()),
    plot: Plot {
        registry,
        set_up: |store| pages(store, 2),
        run,
        read: |store, roots| Ok(vec![words(store, roots[0], 2)?, words(store, roots[1], 2)?]),
        check: no_check,
    },
};
