//! A histogram: values are counted in buckets, with undo derived from the arguments.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, RecordId, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

use crate::support::{Plot, State, Structure, Tested, at, bugs, get, no_check, pages, peek, put, tried, words};

bugs![
    "the derived undo is missing" => Model,
    "the derived undo counts once more" => UndoRestores,
    "the derived undo counts in another bucket" => UndoRestores,
    "the sum is not taken back" => UndoRestores,
    "the bucket depends on a setting of the thread" => OnlyItsPage,
    "a value too large is counted outside of the page" => RefusesInPrepare,
    "the first execution counts twice" => Deterministic,
    "values below zero panic" => NeverPanics,
    "the weight is not logged" => Model,
];

const BUCKETS: i64 = 16;
/// Values of one bucket.
const WIDTH: i64 = 10;

#[derive(Debug, Serialize, Deserialize)]
struct Count {
    value: i64,
    weight: i64,
}

std::thread_local! {
    static WIDE: Cell<i64> = const { Cell::new(1) };
}

impl Count {
    fn bucket(&self) -> usize {
        let width = if planted(5) { WIDTH * WIDE.get() } else { WIDTH };
        let bucket = self.value.div_euclid(width);
        let bucket = if planted(6) || planted(8) { bucket } else { bucket.clamp(0, BUCKETS - 1) };
        usize::try_from(bucket).unwrap_or_else(|_| if planted(8) { panic!("a bucket below zero") } else { 0 })
    }

    fn times(&self, weight: i64) -> Count {
        Count { value: self.value, weight }
    }
}

impl Operation for Count {
    const NAME: &'static str = "histogram.count";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        WIDE.set(2);
        if !planted(6) {
            get(page, 1 + self.bucket())?;
        }
        if self.weight.unsigned_abs() > 1_000 || self.value.unsigned_abs() > 1_000_000 {
            return Err(Refused::new("too much at once"));
        }
        Ok(Undo::derived(0))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let bucket = 1 + self.bucket();
        let count = peek(page, bucket)?;
        let weight = if planted(9) { self.weight.signum() } else { self.weight };
        put(page, bucket, count.wrapping_add(weight))?;
        if planted(4) && self.weight < 0 {
            return Ok(());
        }
        let sum = peek(page, 0)?;
        put(page, 0, sum.wrapping_add(self.value.wrapping_mul(self.weight)))
    }

    fn first(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        if planted(7) {
            self.redo(page, at)?;
        }
        self.redo(page, at)
    }

    fn derive_undo(&self, _: RecordId) -> Undo {
        match () {
            () if planted(1) => Undo::none(),
            () if planted(2) => Undo::op(self.times(self.weight)),
            () if planted(3) => Undo::op(Count { value: self.value + WIDTH, weight: -self.weight }),
            () => Undo::op(self.times(-self.weight)),
        }
    }
}

fn operations() -> Tested {
    let check = check::operation::<Count>(|chance, _| {
        let value = match chance.below(10) {
            0 => chance.number() / 4,
            1 => chance.below(100_000) as i64,
            _ => chance.below(200) as i64,
        };
        (Count { value, weight: 1 + chance.below(3) as i64 }, Slot(0))
    });
    tried(check.pages(|chance, page| {
        (0..=BUCKETS).for_each(|word| put(page, word as usize, chance.below(99) as i64).expect("inside"));
    }))
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let page = at(roots[0], 0);
    for round in 0..10_i64 {
        run.transact(|txn| {
            for (value, weight) in [(round * 3, 1), (round * 17 % 160, 2)] {
                txn.update_latched(page, &Count { value, weight })?;
            }
            Ok(move |state: &mut State| {
                for (value, weight) in [(round * 3, 1), (round * 17 % 160, 2)] {
                    state[0][0] += value * weight;
                    state[0][1 + (value / WIDTH) as usize] += weight;
                }
            })
        })?;
        run.roll_back(|txn| {
            txn.update_latched(page, &Count { value: 33, weight: 2 })?;
            Ok(txn.update_latched(page, &Count { value: 42, weight: 1 })?)
        })?;
    }
    Ok(())
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "histogram",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot {
        registry: || Registry::new().operation::<Count>(),
        set_up: |store| pages(store, 1),
        run,
        read: |store, roots| Ok(vec![words(store, roots[0], 1 + BUCKETS as usize)?]),
        check: no_check,
    },
};
