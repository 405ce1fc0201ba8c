//! A priority queue: a binary heap in a page.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, Tested, at, bugs, get, no_check, pages, put, tried, words};

bugs![
    "an insertion has no undo" => Model,
    "undo of an insertion removes the smallest value" => UndoRestores,
    "undo of a removal inserts another value" => UndoRestores,
    "a removal leaves the heap in disorder" => Check,
    "a full queue is inserted into" => UndoRestores,
    "prepare does not see that the queue is empty" => RefusesInPrepare,
    "redo looks for the smallest value by the address of a map" => Deterministic,
    "undo removes all equal values" => UndoRestores,
];

/// Largest number of values. Word 0 is the counter.
const VALUES_MAX: usize = 60;

#[derive(Debug, Serialize, Deserialize)]
enum Change {
    Insert(i64),
    RemoveMin,
    Remove(i64),
}

fn values(page: &PageRef<'_>) -> Result<Vec<i64>, Damaged> {
    let count = get(page, 0)?;
    if !(0..=VALUES_MAX as i64 + 2).contains(&count) {
        return Err(Damaged::in_body(page.id(), 0, "the queue counts too many values"));
    }
    (1..=count as usize).map(|word| get(page, word)).collect()
}

fn store(page: &mut PageMut<'_>, values: &[i64]) -> Result<(), Damaged> {
    let before = values_of(page)?.len();
    put(page, 0, values.len() as i64)?;
    values.iter().enumerate().try_for_each(|(at, value)| put(page, 1 + at, *value))?;
    (values.len()..before).try_for_each(|at| put(page, 1 + at, 0))
}

fn values_of(page: &PageMut<'_>) -> Result<Vec<i64>, Damaged> {
    values(&page.page_ref())
}

fn insert(values: &mut Vec<i64>, value: i64) {
    values.push(value);
    let mut at = values.len() - 1;
    while at > 0 && values[at] < values[(at - 1) / 2] {
        values.swap(at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

fn remove(values: &mut Vec<i64>, at: usize) {
    let mut rest = values.clone();
    rest.swap_remove(at);
    if planted(4) {
        *values = rest;
        return;
    }
    values.clear();
    rest.into_iter().for_each(|value| insert(values, value));
}

impl Operation for Change {
    const NAME: &'static str = "queue.change";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let values = values(page)?;
        Ok(match *self {
            Change::Insert(_) if values.len() >= VALUES_MAX && !planted(5) => {
                return Err(Refused::new("the queue is full"));
            }
            Change::Insert(_) if planted(1) => Undo::none(),
            Change::Insert(_) if planted(2) => Undo::op(Change::RemoveMin),
            Change::Insert(value) => Undo::op(Change::Remove(value)),
            Change::RemoveMin if values.is_empty() && !planted(6) => return Err(Refused::new("the queue is empty")),
            Change::RemoveMin if planted(3) => Undo::op(Change::Insert(values.last().copied().unwrap_or(0))),
            Change::RemoveMin => Undo::op(Change::Insert(values.first().copied().unwrap_or(0))),
            Change::Remove(_) => return Err(Refused::new("this is only for undo")),
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let mut values = values_of(page)?;
        match *self {
            Change::Insert(value) => insert(&mut values, value),
            Change::RemoveMin if values.is_empty() => {
                return Err(Damaged::in_body(page.id(), 0, "the queue is empty"));
            }
            Change::RemoveMin if planted(7) => {
                let places: std::collections::HashMap<usize, i64> = values.iter().copied().enumerate().collect();
                let first = places.into_iter().next().map_or(0, |(place, _)| place);
                remove(&mut values, first);
            }
            Change::RemoveMin => remove(&mut values, 0),
            Change::Remove(value) if planted(8) => values.retain(|other| *other != value),
            Change::Remove(value) => {
                if let Some(at) = values.iter().rposition(|other| *other == value) {
                    remove(&mut values, at);
                }
            }
        }
        store(page, &values)
    }
}

fn sorted(page: &PageRef<'_>) -> Vec<i64> {
    let mut values = values(page).unwrap_or_default();
    values.sort_unstable();
    values
}

fn operations() -> Tested {
    let change = check::operation::<Change>(|chance, _| {
        let value = chance.below(20) as i64;
        (if chance.one_in(2) { Change::Insert(value) } else { Change::RemoveMin }, Slot(0))
    });
    let filled = change.pages(|chance, page| {
        let mut values = Vec::new();
        let count = *chance.pick(&[0, 1, 5, VALUES_MAX as u64 - 1, VALUES_MAX as u64]);
        (0..count).for_each(|_| insert(&mut values, chance.below(20) as i64));
        store(page, &values).expect("they fit");
    });
    // The position of a value in the heap may differ.
    tried(filled.equal(|one, other| sorted(one) == sorted(other)))
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let queue = at(roots[0], 0);
    for round in 1..14_i64 {
        run.transact(|txn| {
            let new = [round * 7 % 11, round * 5 % 13, round % 3];
            new.iter().try_for_each(|value| txn.update_latched(queue, &Change::Insert(*value)))?;
            txn.update_latched(queue, &Change::RemoveMin)?;
            Ok(move |state: &mut State| {
                state[0].extend(new);
                state[0].sort_unstable();
                state[0].remove(0);
            })
        })?;
        run.roll_back(|txn| {
            txn.update_latched(queue, &Change::RemoveMin)?;
            Ok(txn.update_latched(queue, &Change::Insert(3))?)
        })?;
    }
    Ok(())
}

fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    Ok(vec![sorted(&*store.read(roots[0])?)])
}

fn ordered(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome {
    no_check(store, roots)?;
    let values = &words(store, roots[0], VALUES_MAX + 1)?;
    let wrong = (2..=values[0] as usize).find(|at| values[*at] < values[at / 2]);
    wrong.map_or(Ok(()), |at| Err(format!("the value at {at} is smaller than its parent").into()))
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "queue",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot {
        registry: || Registry::new().operation::<Change>(),
        set_up: |store| pages(store, 1),
        run,
        read,
        check: ordered,
    },
};
