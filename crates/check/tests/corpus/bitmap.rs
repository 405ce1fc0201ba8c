//! A bitmap of places that are taken and released, with a counter of the taken ones.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::support::{Plot, State, Structure, Tested, WORDS, at, bugs, get, no_check, pages, peek, put, tried, words};

bugs![
    "taking has no undo" => Model,
    "a place that is taken is taken again" => UndoRestores,
    "undo always releases" => UndoRestores,
    "the mask is off by one" => Model,
    "places behind the page are accepted" => RefusesInPrepare,
    "redo toggles" => Model,
    "the count is kept in a static" => Deterministic,
    "undo forgets the count" => UndoRestores,
    "redo refuses what prepare accepts" => RefusesInPrepare,
];

/// The first word of a page is the counter; bits follow.
const BITS: usize = (WORDS - 1) * 64;

#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    bit: u32,
    taken: bool,
    counts: bool,
}

static COUNT: AtomicI64 = AtomicI64::new(0);

impl Mark {
    fn place(&self) -> (usize, i64) {
        let bit = self.bit as usize;
        let shift = if planted(4) { bit % 63 } else { bit % 64 };
        (1 + bit / 64, 1 << shift)
    }
}

impl Operation for Mark {
    const NAME: &'static str = "bitmap.mark";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if self.bit as usize >= BITS && !planted(5) {
            return Err(Refused::new("the page has fewer places"));
        }
        let (word, mask) = self.place();
        let bits = if planted(5) { get(page, word).unwrap_or(0) } else { get(page, word)? };
        if (bits & mask != 0) == self.taken && !planted(2) && !planted(3) && !planted(6) {
            return Err(Refused::new("the place is so already"));
        }
        let back = if planted(3) { false } else { !self.taken };
        Ok(if planted(1) { Undo::none() } else { Undo::op(Mark { bit: self.bit, taken: back, counts: !planted(8) }) })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (word, mask) = self.place();
        let bits = peek(page, word)?;
        if planted(9) && bits.count_ones() > 2 {
            return Err(Damaged::in_body(page.id(), word * 8, "too many places are taken"));
        }
        let bits = match self.taken {
            _ if planted(6) => bits ^ mask,
            true => bits | mask,
            false => bits & !mask,
        };
        put(page, word, bits)?;
        if !self.counts {
            return Ok(());
        }
        let step = if self.taken { 1 } else { -1 };
        let count = match planted(7) {
            true => COUNT.fetch_add(step, Ordering::Relaxed) + step,
            false => peek(page, 0)?.wrapping_add(step),
        };
        put(page, 0, count)
    }
}

fn mark(bit: u32, taken: bool) -> Mark {
    Mark { bit, taken, counts: true }
}

fn operations() -> Tested {
    let check = check::operation::<Mark>(|chance, _| {
        let bit = if chance.one_in(8) { chance.below(40_000) } else { chance.below(500) };
        (mark(bit as u32, chance.one_in(2)), Slot(0))
    });
    tried(
        check.pages(|chance, page| (1..9).for_each(|word| put(page, word, chance.next_u64() as i64).expect("inside"))),
    )
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let page = at(roots[0], 0);
    for _ in 0..10 {
        // Each round takes one place; the workload may continue where another one was cut off.
        let first = 7 * run.model()[0][0] as u32;
        run.transact(|txn| {
            txn.update_latched(page, &mark(first, true))?;
            txn.update_latched(page, &mark(first + 1, true))?;
            txn.update_latched(page, &mark(first, false))?;
            Ok(move |state: &mut State| {
                let bit = first + 1;
                state[0][0] += 1;
                state[0][1 + bit as usize / 64] |= 1 << (bit % 64);
            })
        })?;
        run.roll_back(|txn| {
            txn.update_latched(page, &mark(first + 2, true))?;
            Ok(txn.update_latched(page, &mark(first + 1, false))?)
        })?;
        // A taken place is refused, and the transaction continues.
        run.transact(|txn| {
            let again = txn.update_latched(page, &mark(first + 1, true));
            let count = i64::from(again.is_ok());
            txn.update_latched(page, &mark(300, true))?;
            txn.update_latched(page, &mark(300, false))?;
            Ok(move |state: &mut State| state[0][0] += count)
        })?;
    }
    Ok(())
}

/// Verifies that the counter equals the number of set bits.
fn counted(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome {
    no_check(store, roots)?;
    let words = words(store, roots[0], WORDS)?;
    let bits: i64 = words[1..].iter().map(|word| i64::from(word.count_ones())).sum();
    if bits == words[0] { Ok(()) } else { Err(format!("{bits} places are taken, {} counted", words[0]).into()) }
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "bitmap",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot {
        registry: || Registry::new().operation::<Mark>(),
        set_up: |store| pages(store, 1),
        run,
        read: |store, roots| Ok(vec![words(store, roots[0], 6)?]),
        check: counted,
    },
};
