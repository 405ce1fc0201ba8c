//! A ring buffer: values are pushed at the back and popped at the front.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, Tested, at, bugs, get, no_check, pages, peek, put, tried, words};

bugs![
    "a push has no undo" => Model,
    "a pop has no undo" => Model,
    "undo of a pop puts the value behind the others" => UndoRestores,
    "undo of a push takes the first value" => UndoRestores,
    "a full ring is pushed to" => UndoRestores,
    "an empty ring is popped from" => Workload,
    "the end is not wrapped around" => Model,
    "undo of a pop forgets the value" => UndoRestores,
];

/// Largest number of values. Word 0: place of the first one. Word 1: number of values.
const PLACES: i64 = 6;
/// Number of words of a ring.
const LEN: usize = 2 + PLACES as usize;

#[derive(Debug, Serialize, Deserialize)]
enum Change {
    Push(i64),
    Pop,
    Unpush,
    Unpop(i64),
}

impl Operation for Change {
    const NAME: &'static str = "ring.change";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let (first, count) = (get(page, 0)?, get(page, 1)?);
        if !(0..PLACES).contains(&first) || !(0..=PLACES + 1).contains(&count) {
            return Err(Refused::new("this is no ring"));
        }
        let full = count >= PLACES && !planted(5);
        let empty = count == 0 && !planted(6);
        Ok(match self {
            Change::Push(_) | Change::Unpop(_) if full => return Err(Refused::new("the ring is full")),
            Change::Pop | Change::Unpush if empty => return Err(Refused::new("the ring is empty")),
            Change::Push(_) if planted(1) => Undo::none(),
            Change::Push(_) if planted(4) => Undo::op(Change::Pop),
            Change::Push(_) => Undo::op(Change::Unpush),
            Change::Pop if planted(2) => Undo::none(),
            Change::Pop if planted(3) => Undo::op(Change::Push(get(page, 2 + first as usize)?)),
            Change::Pop if planted(8) => Undo::op(Change::Unpop(0)),
            Change::Pop => Undo::op(Change::Unpop(get(page, 2 + first as usize)?)),
            Change::Unpush | Change::Unpop(_) => return Err(Refused::new("this is only for undo")),
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (first, count) = (peek(page, 0)?, peek(page, 1)?);
        let invalid = !(0..PLACES).contains(&first) || !(0..=PLACES).contains(&count);
        if invalid && !planted(5) && !planted(6) && !planted(7) {
            return Err(Damaged::in_body(page.id(), 0, "this is no ring"));
        }
        let wrapped = |place: i64| if planted(7) { place } else { place.rem_euclid(PLACES) };
        match *self {
            Change::Push(value) => {
                put(page, 2 + wrapped(first.wrapping_add(count)) as usize % 400, value)?;
                put(page, 1, count.wrapping_add(1))
            }
            Change::Pop => {
                put(page, 2 + first as usize % 400, 0)?;
                put(page, 0, wrapped(first + 1))?;
                put(page, 1, count - 1)
            }
            Change::Unpush => {
                put(page, 2 + wrapped(first.wrapping_add(count - 1)) as usize % 400, 0)?;
                put(page, 1, count.wrapping_sub(1))
            }
            Change::Unpop(value) => {
                let first = (first - 1).rem_euclid(PLACES);
                put(page, 2 + first as usize, value)?;
                put(page, 0, first)?;
                put(page, 1, count + 1)
            }
        }
    }
}

fn operations() -> Tested {
    let change = check::operation::<Change>(|chance, _| {
        let change = if chance.one_in(2) { Change::Push(1 + chance.below(1_000) as i64) } else { Change::Pop };
        (change, Slot(0))
    });
    tried(change.pages(|chance, page| {
        let (first, count) = (chance.below(PLACES as u64) as i64, chance.below(PLACES as u64 + 1) as i64);
        put(page, 0, first).expect("inside");
        put(page, 1, count).expect("inside");
        (0..count).for_each(|i| put(page, 2 + ((first + i) % PLACES) as usize, 1 + i).expect("inside"));
    }))
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let ring = at(roots[0], 0);
    // All values are popped, and then once more.
    run.transact(|txn| {
        let popped = (0..=PLACES).filter(|_| txn.update_latched(ring, &Change::Pop).is_ok()).count();
        Ok(move |state: &mut State| {
            let values = &mut state[0];
            values.drain(..popped.min(values.len()));
        })
    })?;
    for round in 1..20_i64 {
        run.transact(|txn| {
            let pushed = [round, -round].map(|value| txn.update_latched(ring, &Change::Push(value)).is_ok());
            let popped = round % 3 > 0 && txn.update_latched(ring, &Change::Pop).is_ok();
            Ok(move |state: &mut State| {
                let values = &mut state[0];
                let new = [round, -round].into_iter().zip(pushed).filter_map(|(value, is)| is.then_some(value));
                values.extend(new);
                if popped && !values.is_empty() {
                    values.remove(0);
                }
            })
        })?;
        run.roll_back(|txn| {
            txn.update_latched(ring, &Change::Pop)?;
            Ok(txn.update_latched(ring, &Change::Push(77))?)
        })?;
        if run.model()[0].len() as i64 > PLACES {
            return Err("the ring took more than it has places".into());
        }
        if run.model()[0].len() as i64 >= PLACES - 1 {
            run.transact(|txn| {
                let popped = (0..3).filter(|_| txn.update_latched(ring, &Change::Pop).is_ok()).count();
                Ok(move |state: &mut State| {
                    let values = &mut state[0];
                    values.drain(..popped.min(values.len()));
                })
            })?;
        }
    }
    Ok(())
}

fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    let words = words(store, roots[0], LEN)?;
    let (first, count) = (words[0], words[1]);
    if !(0..PLACES).contains(&first) || !(0..=PLACES).contains(&count) {
        return Err(format!("a ring from {first} with {count} values").into());
    }
    Ok(vec![(0..count).map(|i| words[2 + ((first + i) % PLACES) as usize]).collect()])
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "ring",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot {
        registry: || Registry::new().operation::<Change>(),
        set_up: |store| pages(store, 1),
        run,
        read,
        check: no_check,
    },
};
