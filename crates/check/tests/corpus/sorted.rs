//! A sorted list of values over pages of four, which split when they are full.

use cedrat_check::{Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{LogicalUndo, Operation, Refused, Registry, Result, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, at, bugs, fresh, get, pages, peek, put, words};

bugs![
    "a split is no nested action" => Model,
    "a split copies without removing" => Model,
    "a split leaves the old link" => Model,
    "undo of an insertion is physical" => Model,
    "undo of an insertion looks into its old page only" => Model,
    "redo of an insertion sorts nothing" => Model,
    "a page takes one value too many" => Check,
    "undo of an insertion removes the neighbour" => Model,
    "removal by redo depends on a hash map" => Model,
    "a split has no undo for its steps" => Model,
];

/// Largest number of values of a page. Word 0: the next page. Word 1: number of values. Values follow.
const VALUES_MAX: i64 = 4;

/// Writes a page's values and its link.
#[derive(Debug, Serialize, Deserialize)]
struct Shape {
    next: i64,
    values: Vec<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Insert(i64);

#[derive(Debug, Serialize, Deserialize)]
struct Remove(i64);

fn values(page: &PageRef<'_>) -> std::result::Result<Vec<i64>, Damaged> {
    let count = get(page, 1)?;
    if !(0..=VALUES_MAX + 3).contains(&count) {
        return Err(Damaged::in_body(page.id(), 8, "a page of the list has fewer values"));
    }
    (0..count as usize).map(|at| get(page, 2 + at)).collect()
}

fn shape(page: &mut PageMut<'_>, values: &[i64]) -> std::result::Result<(), Damaged> {
    let before = peek(page, 1)?.clamp(0, 8) as usize;
    put(page, 1, values.len() as i64)?;
    values.iter().enumerate().try_for_each(|(at, value)| put(page, 2 + at, *value))?;
    (values.len()..before).try_for_each(|at| put(page, 2 + at, 0))
}

impl Operation for Shape {
    const NAME: &'static str = "sorted.shape";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> std::result::Result<Undo, Refused> {
        let before = Shape { next: get(page, 0)?, values: values(page)? };
        Ok(if planted(10) { Undo::none() } else { Undo::op(before) })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> std::result::Result<(), Damaged> {
        put(page, 0, self.next)?;
        shape(page, &self.values)
    }
}

impl Operation for Insert {
    const NAME: &'static str = "sorted.insert";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> std::result::Result<Undo, Refused> {
        if values(page)?.len() as i64 >= VALUES_MAX + i64::from(planted(7)) {
            return Err(Refused::new("the page is full"));
        }
        Ok(Undo::op(Remove(self.0)))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> std::result::Result<(), Damaged> {
        let mut all = values(&page.page_ref())?;
        all.push(self.0);
        if !planted(6) {
            all.sort_unstable();
        }
        shape(page, &all)
    }
}

impl Operation for Remove {
    const NAME: &'static str = "sorted.remove";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> std::result::Result<Undo, Refused> {
        values(page)?;
        Ok(Undo::op(Insert(self.0)))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> std::result::Result<(), Damaged> {
        let mut all = values(&page.page_ref())?;
        if planted(9) {
            let kept: std::collections::HashSet<i64> = all.drain(..).filter(|value| *value != self.0).collect();
            all.extend(kept);
        }
        // Removes only one of equal values.
        if let Some(at) = all.iter().rposition(|value| *value == self.0) {
            all.remove(at);
        }
        shape(page, &all)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Withdraw {
    root: u64,
    page: u64,
    value: i64,
}

impl LogicalUndo for Withdraw {
    const NAME: &'static str = "sorted.withdraw";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let mut page = if planted(5) { PageId::new(self.page) } else { PageId::new(self.root) };
        for _ in 0..100 {
            let (next, values) = look(txn, page)?;
            if let Some(at) = values.iter().position(|value| *value == self.value) {
                let other = values.get(at + 1).copied().unwrap_or(self.value);
                let value = if planted(8) { other } else { self.value };
                return txn.update_latched(at_page(page), &Remove(value));
            }
            if next == 0 || planted(5) {
                return Ok(());
            }
            page = PageId::new(next as u64);
        }
        Err(cedrat_txn::Error::Misuse("the list has no end"))
    }
}

fn at_page(page: PageId) -> cedrat_txn::RecordId {
    at(page, 0)
}

fn look(txn: &Txn, page: PageId) -> Result<(i64, Vec<i64>)> {
    let read = txn.read_latched(page)?;
    Ok((get(&read, 0)?, values(&read)?))
}

/// Returns the last page whose first value is not greater, its link and its values.
fn place_of(txn: &Txn, root: PageId, value: i64) -> Result<(PageId, i64, Vec<i64>)> {
    let (mut next, values) = look(txn, root)?;
    let mut place = (root, next, values);
    for _ in 0..100 {
        if next == 0 {
            return Ok(place);
        }
        let page = PageId::new(next as u64);
        let (link, values) = look(txn, page)?;
        if values.first().is_some_and(|first| *first <= value) {
            place = (page, link, values);
        }
        next = link;
    }
    Err(cedrat_txn::Error::Misuse("the list has no end"))
}

fn insert(txn: &mut Txn, root: PageId, value: i64) -> Result<()> {
    let (mut page, next, values) = place_of(txn, root, value)?;
    if values.len() as i64 >= VALUES_MAX + i64::from(planted(7)) {
        split(txn, page, next, &values)?;
        (page, _, _) = place_of(txn, root, value)?;
    }
    if planted(4) {
        return txn.update_latched(at_page(page), &Insert(value));
    }
    txn.nested((), |txn| {
        txn.update_latched(at_page(page), &Insert(value))?;
        Ok(((), Undo::logical(&Withdraw { root: root.get(), page: page.get(), value })))
    })
}

/// Moves the upper half of a full page to a new one.
fn split(txn: &mut Txn, page: PageId, next: i64, values: &[i64]) -> Result<()> {
    let (lower, upper) = values.split_at(values.len() / 2);
    let (lower, upper) = (lower.to_vec(), upper.to_vec());
    let steps = |txn: &mut Txn| {
        let new = fresh(txn)?;
        txn.update_latched(at_page(new), &Shape { next, values: upper })?;
        let kept = if planted(2) { values.to_vec()[..3].to_vec() } else { lower };
        let link = if planted(3) { next } else { new.get() as i64 };
        txn.update_latched(at_page(page), &Shape { next: link, values: kept })
    };
    if planted(1) {
        return steps(txn);
    }
    txn.nested((), |txn| Ok((steps(txn)?, Undo::none())))
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let root = roots[0];
    for round in 1..8_i64 {
        let mut open = run.store().begin();
        insert(&mut open, root, round * 1_000 % 7_919)?;
        run.transact(|txn| {
            let new = [round * 37 % 101 + 9_000, round * 1_000 % 7_919 + 1, round * 1_000 % 7_919 + 3];
            new.iter().try_for_each(|value| insert(txn, root, *value))?;
            Ok(move |state: &mut State| {
                state[0].extend(new);
                state[0].sort_unstable();
            })
        })?;
        if round % 3 == 0 {
            let ticket = run.commit(open, cedrat_txn::Commit::Sync, move |state: &mut State| {
                state[0].push(round * 1_000 % 7_919);
                state[0].sort_unstable();
            })?;
            run.acknowledge(&ticket)?;
        } else {
            open.rollback()?;
        }
        run.roll_back(|txn| (0..5).try_for_each(|i| Ok(insert(txn, root, 5_500 + i)?)))?;
    }
    Ok(())
}

fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    let (mut all, mut page) = (Vec::new(), roots[0]);
    for _ in 0..100 {
        let read = store.read(page)?;
        all.extend(values(&read)?);
        match get(&read, 0)? {
            0 => return Ok(vec![all]),
            next => page = PageId::new(next as u64),
        }
    }
    Err("the list has no end".into())
}

fn bounded(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome {
    let mut page = roots[0];
    for _ in 0..100 {
        let words = words(store, page, 2)?;
        if words[1] > VALUES_MAX {
            return Err(format!("page {page} has {} values", words[1]).into());
        }
        match words[0] {
            0 => return Ok(()),
            next => page = PageId::new(next as u64),
        }
    }
    Err("the list has no end".into())
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "sorted",
    bugs: BUGS,
    plant: &PLANT,
    operations: || Ok(()),
    plot: Plot {
        registry: || {
            let registry = Registry::new().operation::<Shape>().operation::<Insert>().operation::<Remove>();
            if planted(4) { registry } else { registry.logical::<Withdraw>() }
        },
        set_up: |store| pages(store, 1),
        run,
        read,
        check: bounded,
    },
};
