//! Counters that many transactions add to at once.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Commit, Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize, Serializer};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::support::{Plot, State, Structure, Tested, at, bugs, get, no_check, pages, peek, put, slot, tried, words};

bugs![
    "an addition has no undo" => Model,
    "undo adds once more" => UndoRestores,
    "undo takes back twice the amount" => UndoRestores,
    "undo restores the sum that was there before" => Model,
    "redo depends on a static" => Encoding,
    "redo saturates, undo does not know" => UndoRestores,
    "prepare accepts counters outside of the page" => RefusesInPrepare,
    "undo goes to the counter beside it" => UndoRestores,
    "large amounts are cut in the log" => Encoding,
    "redo depends on the time" => Deterministic,
];

fn logged<S: Serializer>(amount: &i64, to: S) -> Result<S::Ok, S::Error> {
    let amount = if planted(9) { i64::from(*amount as i32) } else { *amount };
    to.serialize_i64(amount)
}

#[derive(Debug, Serialize, Deserialize)]
struct Add(#[serde(serialize_with = "logged")] i64);

#[derive(Debug, Serialize, Deserialize)]
struct Set(i64);

static CALLS: AtomicI64 = AtomicI64::new(0);

impl Operation for Add {
    const NAME: &'static str = "counter.add";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        if planted(7) {
            return Ok(Undo::op(Add(self.0.wrapping_neg())));
        }
        let sum = get(page, usize::from(at.0))?;
        if !planted(6) {
            sum.checked_add(self.0).ok_or_else(|| Refused::new("the counter overflows"))?;
        }
        Ok(match PLANT.load(Ordering::Relaxed) {
            1 => Undo::none(),
            2 => Undo::op(Add(self.0)),
            3 => Undo::op(Add(self.0.wrapping_mul(-2))),
            4 => Undo::op(Set(sum)),
            8 => Undo::op_at(Slot(at.0.saturating_sub(1)), Add(self.0.wrapping_neg())),
            _ => Undo::op(Add(self.0.wrapping_neg())),
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let at = usize::from(at.0);
        let sum = peek(page, at)?;
        let extra = match PLANT.load(Ordering::Relaxed) {
            5 => CALLS.fetch_add(1, Ordering::Relaxed) / 3 % 2,
            10 => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_nanos() as i64),
            _ => 0,
        };
        let sum = if planted(6) { sum.saturating_add(self.0) } else { sum.wrapping_add(self.0) };
        put(page, at, sum.wrapping_add(extra))
    }
}

impl Operation for Set {
    const NAME: &'static str = "counter.set";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        Ok(Undo::op(Set(get(page, usize::from(at.0))?)))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        put(page, usize::from(at.0), self.0)
    }
}

fn operations() -> Tested {
    let add = check::operation::<Add>(|chance, _| (Add(chance.number()), slot(chance, 500)));
    let add = add.pages(|chance, page| (0..400).for_each(|word| put(page, word, chance.number()).expect("inside")));
    tried(add.registry(registry()))
}

fn registry() -> Registry {
    Registry::new().operation::<Add>().operation::<Set>()
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let page = roots[0];
    for round in 1..10 {
        let mut open = run.store().begin();
        open.update_latched(at(page, 0), &Add(round))?;
        run.transact(|txn| {
            txn.update_latched(at(page, 0), &Add(round * 100))?;
            txn.update_latched(at(page, 1), &Add(-round))?;
            Ok(move |state: &mut State| {
                state[0][0] += round * 100;
                state[0][1] -= round;
            })
        })?;
        match round % 3 {
            0 => open.rollback()?,
            _ => {
                let ticket = run.commit(open, Commit::Sync, move |state: &mut State| state[0][0] += round)?;
                run.acknowledge(&ticket)?;
            }
        }
        run.roll_back(|txn| Ok(txn.update_latched(at(page, 1), &Add(round))?))?;
        if round == 5 {
            run.store().checkpoint()?;
        }
    }
    Ok(())
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "counter",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot {
        registry,
        set_up: |store| pages(store, 1),
        run,
        read: |store, roots| Ok(vec![words(store, roots[0], 4)?]),
        check: no_check,
    },
};
