//! A value with a version: an assignment names the version that it is based on.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, Tested, at, bugs, get, no_check, pages, peek, put, slot, tried, words};

bugs![
    "an assignment has no undo" => Model,
    "undo leaves the new version" => UndoRestores,
    "undo restores the version and not the value" => UndoRestores,
    "redo draws the version from a static" => Deterministic,
    "redo refuses another version" => RefusesInPrepare,
    "the version is not looked at" => Workload,
    "undo is of the neighbour" => UndoRestores,
    "versions are compared with one too many" => Workload,
];

#[derive(Debug, Serialize, Deserialize)]
struct Assign {
    version: i64,
    value: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Restore {
    version: i64,
    value: i64,
}

static NEXT: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);

fn place(at: Slot) -> usize {
    usize::from(at.0) * 2
}

impl Operation for Assign {
    const NAME: &'static str = "versions.assign";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let (version, value) = (get(page, place(at))?, get(page, place(at) + 1)?);
        let fits =
            if planted(8) { self.version <= version + 1 && self.version >= version } else { self.version == version };
        if !fits && !planted(6) {
            return Err(Refused::new("the value has another version by now"));
        }
        Ok(match () {
            () if planted(1) => Undo::none(),
            () if planted(2) => Undo::op(Restore { version: version.wrapping_add(1), value }),
            () if planted(3) => Undo::op(Restore { version, value: self.value }),
            () if planted(7) => Undo::op_at(Slot(at.0 ^ 1), Restore { version, value }),
            () => Undo::op(Restore { version, value }),
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        if planted(5) && peek(page, place(at))? % 3 == 2 {
            return Err(Damaged::in_body(page.id(), place(at) * 8, "no such version"));
        }
        let version = match planted(4) {
            true => NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            false => self.version.wrapping_add(1),
        };
        put(page, place(at), version)?;
        put(page, place(at) + 1, self.value)
    }
}

impl Operation for Restore {
    const NAME: &'static str = "versions.restore";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Err(Refused::new("this is only for undo"))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        put(page, place(at), self.version)?;
        put(page, place(at) + 1, self.value)
    }
}

fn registry() -> Registry {
    Registry::new().operation::<Assign>().operation::<Restore>()
}

fn operations() -> Tested {
    let check = check::operation::<Assign>(|chance, page| {
        let at = slot(chance, 250);
        let version = get(page, place(at)).unwrap_or(0).wrapping_add(i64::from(chance.one_in(5)));
        (Assign { version, value: chance.number() }, at)
    });
    let filled = check.pages(|chance, page| {
        (0..250).for_each(|word| put(page, 2 * word, chance.below(9) as i64).expect("inside"));
    });
    tried(filled.registry(registry()))
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let page = roots[0];
    for round in 0..12_usize {
        let slot = round % 3;
        run.transact(|txn| {
            let version = run.model()[0][2 * slot];
            txn.update_latched(at(page, slot), &Assign { version, value: round as i64 })?;
            txn.update_latched(at(page, slot), &Assign { version: version + 1, value: round as i64 * 10 })?;
            // An assignment based on an older version must be refused.
            let late = txn.update_latched(at(page, slot), &Assign { version, value: -1 });
            let ahead = txn.update_latched(at(page, slot), &Assign { version: version + 3, value: -2 });
            if late.is_ok() || ahead.is_ok() {
                return Err("a stale assignment was accepted".into());
            }
            Ok(move |state: &mut State| {
                state[0][2 * slot] += 2;
                state[0][2 * slot + 1] = round as i64 * 10;
            })
        })?;
        run.roll_back(|txn| {
            let version = run.model()[0][2 * slot];
            Ok(txn.update_latched(at(page, slot), &Assign { version, value: 5 })?)
        })?;
    }
    Ok(())
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "versions",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot {
        registry,
        set_up: |store| pages(store, 1),
        run,
        read: |store, roots| Ok(vec![words(store, roots[0], 8)?]),
        check: no_check,
    },
};
