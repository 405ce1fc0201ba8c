//! Drawn numbers: each transaction takes the next one and stores it in a slot.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Commit, Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::support::{Plot, State, Structure, Tested, at, bugs, get, no_check, pages, peek, put, tried, words};

bugs![
    "the next number is kept in memory" => Deterministic,
    "a number is acknowledged before it is durable" => Model,
    "filing has no undo" => Model,
    "undo of filing leaves the number" => UndoRestores,
    "filing changes a slot that is taken" => UndoRestores,
    "a number is drawn in a transaction of its own" => Missed,
    "the holder is cut to sixteen bits" => Model,
    "the slot is chosen by the page's number" => UndoRestores,
    "a page that was rolled back keeps its count" => UndoRestores,
];

const SLOTS: i64 = 40;

/// Word 0: the next number. Word `1 + number`: its holder.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    holder: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Unfile;

static NEXT: AtomicI64 = AtomicI64::new(0);

impl Operation for File {
    const NAME: &'static str = "tickets.file";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let next = get(page, 0)?;
        if !(0..SLOTS).contains(&next) {
            return Err(Refused::new("all numbers are taken"));
        }
        Ok(if planted(3) { Undo::none() } else { Undo::op(Unfile) })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let mut next = peek(page, 0)?;
        if !(0..SLOTS).contains(&next) {
            return Err(Damaged::in_body(page.id(), 0, "all numbers are taken"));
        }
        if planted(1) {
            next = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
        }
        let slot = match () {
            () if planted(5) => next / 2 * 2,
            () if planted(8) => next ^ (page.id().get() as i64 & 1),
            () => next,
        };
        let holder = if planted(7) { i64::from(self.holder as i16) } else { self.holder };
        put(page, 1 + slot as usize, holder)?;
        put(page, 0, next + 1)
    }
}

impl Operation for Unfile {
    const NAME: &'static str = "tickets.unfile";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Err(Refused::new("this is only for undo"))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let last = peek(page, 0)? - 1;
        if !(0..SLOTS).contains(&last) {
            return Err(Damaged::in_body(page.id(), 0, "no number was taken"));
        }
        if !planted(4) {
            put(page, 1 + last as usize, 0)?;
        }
        if planted(9) && last % 2 == 1 {
            return Ok(());
        }
        put(page, 0, last)
    }
}

fn registry() -> Registry {
    Registry::new().operation::<File>().operation::<Unfile>()
}

fn operations() -> Tested {
    let check = check::operation::<File>(|chance, _| (File { holder: chance.number() }, Slot(0)));
    tried(check.registry(registry()).pages(|chance, page| put(page, 0, chance.below(41) as i64).expect("inside")))
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    for round in 1..15_i64 {
        let page = at(roots[round as usize % 2], 0);
        let which = round as usize % 2;
        let filed = move |state: &mut State| {
            let next = state[which][0];
            state[which][1 + next as usize] = round * 70_000;
            state[which][0] += 1;
        };
        let file = File { holder: round * 70_000 };
        if planted(2) {
            let mut txn = run.store().begin();
            txn.update_latched(page, &file)?;
            let ticket = run.commit(txn, Commit::Async, filed)?;
            run.mark_acknowledged(ticket.lsn());
        } else if planted(6) {
            run.transact(|txn| {
                let mut own = txn.store().begin();
                own.update_latched(page, &file)?;
                own.commit(Commit::Async)?;
                Ok(filed)
            })?;
        } else {
            run.transact(|txn| {
                txn.update_latched(page, &file)?;
                Ok(filed)
            })?;
        }
        run.roll_back(|txn| {
            txn.update_latched(page, &File { holder: 1 })?;
            Ok(txn.update_latched(page, &File { holder: 2 })?)
        })?;
    }
    Ok(())
}

fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    roots.iter().map(|root| words(store, *root, 1 + SLOTS as usize)).collect()
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "tickets",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot { registry, set_up: |store| pages(store, 2), run, read, check: no_check },
};
