//! A doubly linked list of nodes, each in a page of its own, changed under nested top actions.

use cedrat_check::{Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Commit, LogicalUndo, Operation, Refused, Registry, Result, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, at, bugs, fresh, get, pages, peek, put, words};

bugs![
    "insertion is no nested action" => Model,
    "the undo of an insertion leaves the backward link" => Model,
    "the undo of an insertion removes the first node" => Model,
    "the undo of an insertion frees no page" => Check,
    "the count changes outside of the nested action, without undo" => Check,
    "links have no undo of their own" => Refused,
    "the undo of an insertion panics when the node is the last" => Panicked,
    "the nested action has no undo" => Model,
    "the undo looks for the value beside it" => Model,
    "the undo of an insertion fails when nodes came later" => Workload,
];

/// Word 0: next node. Word 1: previous node. Word 2: the value; in the root, the number of nodes.
#[derive(Debug, Serialize, Deserialize)]
struct Set(i64);

impl Operation for Set {
    const NAME: &'static str = "chain.set";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> std::result::Result<Undo, Refused> {
        let before = get(page, usize::from(at.0))?;
        Ok(if planted(6) { Undo::none() } else { Undo::op(Set(before)) })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> std::result::Result<(), Damaged> {
        put(page, usize::from(at.0), self.0)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Add(i64);

impl Operation for Add {
    const NAME: &'static str = "chain.add";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> std::result::Result<Undo, Refused> {
        get(page, usize::from(at.0))?;
        Ok(if planted(5) { Undo::none() } else { Undo::op(Add(-self.0)) })
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> std::result::Result<(), Damaged> {
        let sum = peek(page, usize::from(at.0))?;
        put(page, usize::from(at.0), sum.wrapping_add(self.0))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Remove {
    root: u64,
    value: i64,
}

impl LogicalUndo for Remove {
    const NAME: &'static str = "chain.remove";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let root = PageId::new(self.root);
        let value = if planted(9) { self.value + 1 } else { self.value };
        let (mut page, mut steps) = (root, 0);
        loop {
            steps += 1;
            if steps > 200 {
                return Err(cedrat_txn::Error::Misuse("the list has no end"));
            }
            let next = word(txn, page, 0)?;
            if next == 0 {
                return Ok(());
            }
            page = PageId::new(next as u64);
            if word(txn, page, 2)? == value || planted(3) {
                break;
            }
            if planted(10) && word(txn, page, 2)? > value {
                return Err(cedrat_txn::Error::Misuse("nodes have come since"));
            }
        }
        let (next, before) = (word(txn, page, 0)?, word(txn, page, 1)?);
        assert!(!planted(7) || next != 0, "the last node has no next");
        set(txn, PageId::new(before as u64), 0, next)?;
        if next != 0 && !planted(2) {
            set(txn, PageId::new(next as u64), 1, before)?;
        }
        txn.update_latched(at(root, 2), &Add(-1))?;
        if planted(4) { Ok(()) } else { txn.free(page) }
    }
}

fn word(txn: &Txn, page: PageId, word: usize) -> Result<i64> {
    Ok(get(&*txn.read_latched(page)?, word)?)
}

fn set(txn: &mut Txn, page: PageId, word: usize, value: i64) -> Result<()> {
    txn.update_latched(at(page, word), &Set(value))
}

/// Inserts behind the root.
fn insert(txn: &mut Txn, root: PageId, value: i64) -> Result<()> {
    let steps = |txn: &mut Txn| {
        let first = word(txn, root, 0)?;
        let node = fresh(txn)?;
        set(txn, node, 2, value)?;
        set(txn, node, 0, first)?;
        set(txn, node, 1, root.get() as i64)?;
        set(txn, root, 0, node.get() as i64)?;
        if first != 0 {
            set(txn, PageId::new(first as u64), 1, node.get() as i64)?;
        }
        if planted(5) { Ok(()) } else { txn.update_latched(at(root, 2), &Add(1)) }
    };
    if planted(1) {
        return steps(txn);
    }
    txn.nested((), |txn| {
        steps(txn)?;
        let undo = Undo::logical(&Remove { root: root.get(), value });
        Ok(((), if planted(8) { Undo::none() } else { undo }))
    })?;
    if planted(5) { txn.update_latched(at(root, 2), &Add(1)) } else { Ok(()) }
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let root = roots[0];
    for round in 1..8_i64 {
        let mut open = run.store().begin();
        insert(&mut open, root, round * 100)?;
        run.transact(|txn| {
            insert(txn, root, round * 100 + 1)?;
            insert(txn, root, round * 100 + 50)?;
            Ok(move |state: &mut State| {
                state[0].extend([round * 100 + 1, round * 100 + 50]);
                state[0].sort_unstable();
            })
        })?;
        if round % 3 == 0 {
            let ticket = run.commit(open, Commit::Sync, move |state: &mut State| {
                state[0].push(round * 100);
                state[0].sort_unstable();
            })?;
            run.acknowledge(&ticket)?;
        } else {
            open.rollback()?;
        }
        run.roll_back(|txn| Ok(insert(txn, root, 7)?))?;
    }
    Ok(())
}

fn nodes(store: &cedrat_txn::Store, root: PageId) -> Outcome<Vec<(PageId, Vec<i64>)>> {
    let mut nodes = Vec::new();
    let mut next = words(store, root, 1)?[0];
    while next != 0 {
        let page = PageId::new(next as u64);
        let node = words(store, page, 3)?;
        next = node[0];
        nodes.push((page, node));
        if nodes.len() > 200 {
            return Err("the list has no end".into());
        }
    }
    Ok(nodes)
}

/// Returns the values, in no order: a transaction that commits late has inserted early.
fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    let mut values: Vec<i64> = nodes(store, roots[0])?.iter().map(|(_, node)| node[2]).collect();
    values.sort_unstable();
    Ok(vec![values])
}

fn linked(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome {
    let nodes = nodes(store, roots[0])?;
    let mut before = roots[0];
    for (page, node) in &nodes {
        if node[1] != before.get() as i64 {
            return Err(format!("page {page} goes back to {}, not {before}", node[1]).into());
        }
        before = *page;
    }
    let counted = words(store, roots[0], 3)?[2];
    if counted != nodes.len() as i64 {
        return Err(format!("{} nodes, {counted} counted", nodes.len()).into());
    }
    let used = store.check()?.pages_allocated - 3;
    if used == nodes.len() as u64 { Ok(()) } else { Err(format!("{used} pages for {} nodes", nodes.len()).into()) }
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "chain",
    bugs: BUGS,
    plant: &PLANT,
    operations: || Ok(()),
    plot: Plot {
        registry: || {
            let registry = Registry::new().operation::<Set>().operation::<Add>();
            if planted(1) || planted(8) { registry } else { registry.logical::<Remove>() }
        },
        set_up: |store| pages(store, 1),
        run,
        read,
        check: linked,
    },
};
