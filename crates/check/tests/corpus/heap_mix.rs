//! A total in a heap, and its parts on a page: both change in one transaction.

use cedrat_check::{Outcome, Run};
use cedrat_heap::HeapOptions;
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Store, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, at, bugs, get, pages, peek, put, words};

bugs![
    "the total changes in a transaction of its own, before" => Model,
    "the total changes in a transaction of its own, after" => Model,
    "the part has no undo" => Model,
    "undo of the part adds once more" => Model,
    "the total is changed by the undo of the part" => Model,
    "a refused part leaves the total changed" => Model,
    "the total is read outside of the transaction" => Model,
];

#[derive(Debug, Serialize, Deserialize)]
struct Add(i64);

impl Operation for Add {
    const NAME: &'static str = "mix.add";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let sum = get(page, usize::from(at.0))?;
        if sum + self.0 < 0 {
            return Err(Refused::new("a part is never below zero"));
        }
        Ok(match () {
            () if planted(3) => Undo::none(),
            () if planted(4) => Undo::op(Add(self.0)),
            () => Undo::op(Add(-self.0)),
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let sum = peek(page, usize::from(at.0))?;
        put(page, usize::from(at.0), sum.wrapping_add(self.0))?;
        if planted(5) && self.0 < 0 {
            put(page, 20, sum)?;
        }
        Ok(())
    }
}

fn add_to_total(txn: &mut Txn, amount: i64) -> cedrat_txn::Result<()> {
    let heap = txn.store().memory().heap("totals")?;
    let outside = heap.atomically(|tx| tx.read(&heap, 0))?;
    txn.heap(|tx| {
        let total = if planted(7) { outside } else { tx.read(&heap, 0)? };
        tx.write(&heap, 0, total.wrapping_add_signed(amount))
    })
}

fn alone(store: &Store, amount: i64) -> Outcome {
    let heap = store.memory().heap("totals")?;
    heap.atomically(|tx| {
        let total = tx.read(&heap, 0)?;
        tx.write(&heap, 0, total.wrapping_add_signed(amount))
    })?;
    Ok(())
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let page = roots[0];
    for round in 1..12_i64 {
        let slot = round as usize % 3;
        if planted(1) {
            alone(run.store(), round)?;
        }
        run.transact(|txn| {
            if !planted(1) && !planted(2) {
                add_to_total(txn, round - 1)?;
                add_to_total(txn, 1)?;
            }
            txn.update_latched(at(page, slot), &Add(round))?;
            Ok(move |state: &mut State| {
                state[0][slot] += round;
                state[1][0] += round;
            })
        })?;
        if planted(2) {
            alone(run.store(), round)?;
        }
        // A part that is too small is refused; the transaction leaves nothing.
        let refused = |txn: &mut Txn| {
            txn.update_latched(at(page, slot), &Add(2))?;
            add_to_total(txn, -1_000)?;
            txn.update_latched(at(page, slot), &Add(-1_000))
        };
        if planted(6) {
            run.transact(|txn| {
                add_to_total(txn, -1_000)?;
                let _ = txn.update_latched(at(page, slot), &Add(-1_000));
                Ok(|_: &mut State| ())
            })?;
        } else {
            run.roll_back(|txn| Ok(refused(txn)?))?;
        }
        if round % 5 == 0 {
            run.store().checkpoint()?;
        }
    }
    Ok(())
}

fn set_up(store: &Store) -> Outcome<Vec<PageId>> {
    store.memory().create_heap("totals", &HeapOptions { chunk_len: 4_096, ..HeapOptions::raw(4_096) })?;
    pages(store, 1)
}

fn read(store: &Store, roots: &[PageId]) -> Outcome<State> {
    let heap = store.memory().heap("totals")?;
    let total = heap.atomically(|tx| tx.read(&heap, 0))?;
    Ok(vec![words(store, roots[0], 24)?, vec![total as i64]])
}

fn adds_up(store: &Store, roots: &[PageId]) -> Outcome {
    let state = read(store, roots)?;
    let sum: i64 = state[0][..3].iter().sum();
    if sum == state[1][0] { Ok(()) } else { Err(format!("the parts are {sum}, the total is {}", state[1][0]).into()) }
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "heap-mix",
    bugs: BUGS,
    plant: &PLANT,
    operations: || Ok(()),
    plot: Plot { registry: || Registry::new().operation::<Add>(), set_up, run, read, check: adds_up },
};
