//! A map over two pages with a logical undo: a key may lie in another page when it is undone.

use cedrat_check::{Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Commit, LogicalUndo, Operation, Refused, Registry, Result, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, at, bugs, get, no_check, pages, peek, put};

bugs![
    "an insertion's undo looks into the first page only" => Model,
    "an insertion's undo is physical" => Model,
    "undo of an overwritten value removes the key" => Model,
    "undo removes a key that came later" => Model,
    "moving a key between pages forgets the old place" => Model,
    "moving has no undo" => Model,
    "moving is not a nested action" => Model,
    "undo is not idempotent over a nested action of its own" => Model,
    "undo restores the value of another key" => Model,
    "an insertion has no undo" => Model,
];

const ENTRIES: usize = 40;

/// Sets an entry of a page: word `2 * slot` is the key plus one, or 0; the value follows.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SetEntry {
    key: i64,
    value: i64,
}

impl Operation for SetEntry {
    const NAME: &'static str = "map.set_entry";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> std::result::Result<Undo, Refused> {
        let word = 2 * usize::from(at.0);
        Ok(Undo::op(SetEntry { key: get(page, word)?, value: get(page, word + 1)? }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> std::result::Result<(), Damaged> {
        put(page, 2 * usize::from(at.0), self.key)?;
        put(page, 2 * usize::from(at.0) + 1, self.value)?;
        peek(page, 0).map(drop)
    }
}

/// As `SetEntry`, without undo.
#[derive(Debug, Serialize, Deserialize)]
struct SetForGood(SetEntry);

impl Operation for SetForGood {
    const NAME: &'static str = "map.set_for_good";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> std::result::Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> std::result::Result<(), Damaged> {
        self.0.redo(page, at)
    }
}

/// Restores the previous value of a key; `None` if there was none.
#[derive(Debug, Serialize, Deserialize)]
struct PutBack {
    pages: [u64; 2],
    key: i64,
    value: Option<i64>,
}

impl LogicalUndo for PutBack {
    const NAME: &'static str = "map.put_back";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let roots = self.pages.map(PageId::new);
        let searched = if planted(1) { &roots[..1] } else { &roots[..] };
        let mut found = find(txn, searched, self.key)?;
        if planted(4) {
            found = newest(txn, &roots)?;
        }
        let value = if planted(3) { None } else { self.value };
        let key = if planted(9) { self.key + 1 } else { self.key };
        match (found, value) {
            (Some((page, slot)), Some(value)) => set(txn, page, slot, key + 1, value),
            (Some((page, slot)), None) if planted(8) => {
                txn.nested((), |txn| {
                    set(txn, page, slot, 0, 0)?;
                    Ok(((), Undo::none()))
                })?;
                let (page, slot) = find(txn, &roots, 0)?.unwrap_or((page, slot));
                set(txn, page, slot + 1, 0, 0)
            }
            (Some((page, slot)), None) => set(txn, page, slot, 0, 0),
            _ => Ok(()),
        }
    }
}

fn find(txn: &Txn, pages: &[PageId], key: i64) -> Result<Option<(PageId, usize)>> {
    for &page in pages {
        let read = txn.read_latched(page)?;
        for slot in 0..ENTRIES {
            if get(&read, 2 * slot)? == key + 1 {
                return Ok(Some((page, slot)));
            }
        }
    }
    Ok(None)
}

/// Returns the last entry in use.
fn newest(txn: &Txn, pages: &[PageId]) -> Result<Option<(PageId, usize)>> {
    let mut newest = None;
    for &page in pages {
        let read = txn.read_latched(page)?;
        for slot in 0..ENTRIES {
            if get(&read, 2 * slot)? != 0 {
                newest = Some((page, slot));
            }
        }
    }
    Ok(newest)
}

fn set(txn: &mut Txn, page: PageId, slot: usize, key: i64, value: i64) -> Result<()> {
    txn.update_latched(at(page, slot), &SetEntry { key, value })
}

fn insert(txn: &mut Txn, roots: &[PageId], key: i64, value: i64) -> Result<()> {
    let there = find(txn, roots, key)?;
    let free = find(txn, roots, -1)?.ok_or(cedrat_txn::Error::Misuse("the map is full"))?;
    let (page, slot) = there.unwrap_or(free);
    let before = match there {
        Some((page, slot)) => Some(get(&*txn.read_latched(page)?, 2 * slot + 1)?),
        None => None,
    };
    if planted(2) {
        return set(txn, page, slot, key + 1, value);
    }
    txn.nested((), |txn| {
        set(txn, page, slot, key + 1, value)?;
        let undo = PutBack { pages: [roots[0].get(), roots[1].get()], key, value: before };
        Ok(((), if planted(10) { Undo::none() } else { Undo::logical(&undo) }))
    })
}

/// Moves a key into the other page, which does not change the content of the map.
fn relocate(txn: &mut Txn, roots: &[PageId], key: i64) -> Result<()> {
    let Some((page, slot)) = find(txn, roots, key)? else { return Ok(()) };
    let other = if page == roots[0] { roots[1] } else { roots[0] };
    let Some((_, free)) = find(txn, &[other], -1)? else { return Ok(()) };
    let value = get(&*txn.read_latched(page)?, 2 * slot + 1)?;
    let steps = |txn: &mut Txn| {
        if planted(6) {
            let entry = SetEntry { key: key + 1, value };
            txn.update_latched(at(other, free), &SetForGood(entry))?;
        } else {
            set(txn, other, free, key + 1, value)?;
        }
        if planted(5) {
            return Ok(());
        }
        set(txn, page, slot, 0, 0)
    };
    if planted(7) {
        return steps(txn);
    }
    txn.nested((), |txn| Ok((steps(txn)?, Undo::none())))
}

fn noted(state: &mut State, key: i64, value: i64) {
    state.retain(|entry| entry[0] != key);
    state.push(vec![key, value]);
    state.sort();
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    for round in 0..7_i64 {
        let mut open = run.store().begin();
        insert(&mut open, roots, 100 + round, round)?;
        if round > 0 {
            insert(&mut open, roots, round - 1, -round)?;
            relocate(&mut open, roots, 199 + round)?;
        }
        run.transact(|txn| {
            relocate(txn, roots, 100 + round)?;
            insert(txn, roots, round, round * 10)?;
            insert(txn, roots, 200 + round, 1)?;
            if round > 0 {
                insert(txn, roots, 199 + round, 2)?;
            }
            Ok(move |state: &mut State| {
                noted(state, round, round * 10);
                noted(state, 200 + round, 1);
                if round > 0 {
                    noted(state, 199 + round, 2);
                }
            })
        })?;
        if round % 3 == 2 {
            let ticket = run.commit(open, Commit::Sync, move |state: &mut State| {
                noted(state, 100 + round, round);
                noted(state, round - 1, -round);
            })?;
            run.acknowledge(&ticket)?;
        } else {
            open.rollback()?;
        }
        run.roll_back(|txn| {
            insert(txn, roots, round, 3)?;
            Ok(relocate(txn, roots, 200 + round)?)
        })?;
    }
    Ok(())
}

fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    let mut state = State::new();
    for root in roots {
        let page = store.read(*root)?;
        for slot in 0..ENTRIES {
            if get(&page, 2 * slot)? != 0 {
                state.push(vec![get(&page, 2 * slot)? - 1, get(&page, 2 * slot + 1)?]);
            }
        }
    }
    state.sort();
    Ok(state)
}

fn registry() -> Registry {
    let registry = Registry::new().operation::<SetEntry>().operation::<SetForGood>();
    if planted(2) || planted(10) { registry } else { registry.logical::<PutBack>() }
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "map",
    bugs: BUGS,
    plant: &PLANT,
    operations: || Ok(()),
    plot: Plot { registry, set_up: |store| pages(store, 2), run, read, check: no_check },
};
