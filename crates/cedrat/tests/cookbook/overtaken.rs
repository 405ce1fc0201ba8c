//! A logical undo whose step another transaction overtakes: between the release of the latch and the end of the undo.

use std::collections::BTreeSet;

use cedrat::check::sync::Mutex;
use cedrat::check::{self, Failure, Outcome, Report, Run, Scenario};
use cedrat::pages::{LatchRank, PageId, StructureLatch};
use cedrat::prelude::*;
use serde::{Deserialize, Serialize};

use crate::leaf::{Change, KEYS_MAX, leaf_of};
use crate::{leaves, new_page};

/// Work of another thread, which happens to run right after the undo has released its latch.
static OTHER: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

#[derive(Debug, Serialize, Deserialize)]
struct Withdraw {
    root: u64,
    key: u64,
    redo_only: bool,
}

impl LogicalUndo for Withdraw {
    const NAME: &'static str = "overtaken.withdraw";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let root = PageId::new(self.root);
        let latch = txn.store().resident(root, || Ok(StructureLatch::new(LatchRank(1))))?;
        let latched = latch.exclusive();
        let (page, leaf) = leaf_of(txn, root, self.key)?;
        if leaf.keys.contains(&self.key) {
            let (at, remove) = (RecordId::page(page), Change::Remove(self.key));
            if self.redo_only {
                txn.update_logical(at, &remove, Undo::none())?;
            } else {
                txn.update_latched(at, &remove)?;
            }
        }
        drop(latched);
        if let Some(other) = OTHER.lock().take() {
            other();
        }
        Ok(())
    }
}

struct Overtaken {
    redo_only: bool,
}

impl Scenario for Overtaken {
    type State = BTreeSet<u64>;
    type Roots = PageId;

    fn registry(&self) -> Registry {
        Registry::new().operation::<Change>().logical::<Withdraw>()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(|txn| {
            let root = new_page(txn)?;
            (1..KEYS_MAX as u64).try_for_each(|key| txn.update_latched(RecordId::page(root), &Change::Add(key)))?;
            Ok(root)
        })?)
    }

    fn run(&self, run: &Run<Self>, root: &PageId) -> Outcome {
        let at = RecordId::page(*root);
        let remove = |key: u64| {
            run.transact(|txn| {
                txn.update_latched(at, &Change::Remove(key))?;
                Ok(move |model: &mut BTreeSet<u64>| model.retain(|other| *other != key))
            })
        };
        // After a crash the workload begins again, perhaps with a full leaf.
        for left in run.model().range(100..) {
            remove(*left)?;
        }
        for other in 100..104 {
            let mut txn = run.store().begin();
            let undo = Undo::logical(&Withdraw { root: root.get(), key: 50, redo_only: self.redo_only });
            txn.update_logical(at, &Change::Add(50), undo)?;
            let filling = run.clone();
            *OTHER.lock() = Some(Box::new(move || {
                let filled = filling.transact(|txn| {
                    txn.update_latched(at, &Change::Add(other))?;
                    Ok(move |model: &mut BTreeSet<u64>| model.extend([other]))
                });
                filled.expect("the leaf has room");
            }));
            txn.rollback()?;
            remove(other)?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, root: &PageId) -> Outcome<BTreeSet<u64>> {
        Ok(leaves(store, *root)?.into_iter().flat_map(|(_, leaf)| leaf.keys).collect())
    }
}

fn crashes(redo_only: bool) -> Result<Report, Failure> {
    check::crashes(&format!("overtaken-{redo_only}"), Overtaken { redo_only }).fresh_processes(0).run()
}

/// One test, because the work of the other thread is in a static.
#[test]
fn undo_is_redo_only_where_others_follow() {
    crashes(true).unwrap_or_else(|failure| panic!("{failure}"));
    let failure = crashes(false).expect_err("the page is full when the step is undone").to_string();
    assert!(failure.contains("the change does not fit the leaf"), "{failure}");
}
