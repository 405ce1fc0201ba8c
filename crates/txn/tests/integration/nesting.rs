//! Changes of several pages without atomicity, and as the victim of a full log.

use cedrat_pages::{LatchRank, PageId, StructureLatch};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Error, Finish, LogicalUndo, Result, Store, Txn, TxnOptions, Undo};
use cedrat_wal::ByteLen;
use serde::{Deserialize, Serialize};

use crate::common::*;

/// Without atomicity all changes stay, and related changes stay together: no part is undone by meaning while its
/// neighbours remain (E14.1).
#[test]
fn nested_changes_stay_without_atomicity() {
    let (store, page) = store_with(options(), registry());
    let mut txn = store.begin_with(TxnOptions::default().without_atomicity());
    txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
    txn.nested((), |txn| {
        txn.update(at(page, 1), &Add { amount: 1 })?;
        Ok(((), Undo::logical(&Subtract { page: page.get(), slot: 1, amount: 1 })))
    })
    .unwrap();
    txn.isolated(page, |txn| txn.update(at(page, 2), &Add { amount: 1 })).unwrap();
    let failed = txn.isolated(page, |txn| {
        txn.update(at(page, 3), &Add { amount: 1 })?;
        txn.nested((), |txn| {
            txn.update(at(page, 3), &Add { amount: 1 })?;
            Ok(((), Undo::logical(&Subtract { page: page.get(), slot: 3, amount: 1 })))
        })?;
        Err::<(), _>(Error::user("half-way"))
    });
    assert!(failed.is_err());
    assert_eq!(numbers(&store, page), [1, 1, 1, 0], "what fails half-way is whole all the same");
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [1, 1, 1, 0]);
}

/// Of two transactions that declare isolation for one structure, the second waits for the end of the first.
#[test]
fn isolated_sections_exclude_each_other() {
    let (store, page) = store_with(options(), registry());
    let inside = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (store, inside) = (store.clone(), Arc::clone(&inside));
            thread::spawn(move || {
                for number in 0..100u32 {
                    let mut txn = store.begin();
                    txn.isolated(page, |txn| {
                        assert!(!inside.swap(true, Ordering::SeqCst), "two transactions are inside");
                        (0..200).for_each(|_| thread::yield_now());
                        txn.update(at(page, 0), &Add { amount: 1 })
                    })
                    .unwrap();
                    inside.store(false, Ordering::SeqCst);
                    if number.is_multiple_of(3) {
                        txn.rollback().unwrap()
                    } else {
                        drop(txn.commit(Commit::Async).unwrap())
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(numbers(&store, page)[0], 3 * 66);
}

/// Takes the latch that the structure's other operations take, as every logical undo does.
#[derive(Debug, Serialize, Deserialize)]
struct SubtractUnderLatch {
    page: u64,
}

fn latch_of(store: &Store, page: PageId) -> Arc<StructureLatch> {
    store.resident(page, || Ok(StructureLatch::new(LatchRank(1)))).unwrap()
}

impl LogicalUndo for SubtractUnderLatch {
    const NAME: &'static str = "test.subtract_under_latch";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let page = PageId::new(self.page);
        let latch = latch_of(txn.store(), page);
        let _shape = latch.exclusive();
        txn.update(at(page, 0), &Add { amount: -1 })
    }
}

/// Finishes nothing, with a long record: announcing it fills the log.
#[derive(Debug, Serialize, Deserialize)]
struct FinishNothing {
    padding: Vec<u8>,
}

impl Finish for FinishNothing {
    const NAME: &'static str = "test.finish_nothing";

    fn finish(&self, _: &mut Txn) -> Result<()> {
        Ok(())
    }
}

/// The victim of a full log rolls back after its latches were released: its undo would take them (E13.3, E16.3).
#[test]
fn ordered_sequence_unlatches_before_rollback() {
    let registry = registry().logical::<SubtractUnderLatch>().finish::<FinishNothing>();
    let (store, page) = store_with(options(), registry);
    let latch = latch_of(&store, page);
    let mut txn = store.begin();
    let undo = Undo::logical(&SubtractUnderLatch { page: page.get() });
    txn.update_logical(at(page, 0), &Add { amount: 1 }, undo).unwrap();
    let finish = FinishNothing { padding: vec![0; 2000] };
    let error = loop {
        if let Err(error) = txn.ordered(latch.exclusive(), &finish, |_| Ok(())) {
            break error;
        }
    };
    assert!(matches!(error, Error::PinsLog { .. }), "{error}");
    txn.rollback().unwrap();
    assert_eq!(numbers(&store, page), [0; 4]);
}

/// Once its steps are made, a purely structural nested top action ends, however little room the log has left: changes
/// that others read meanwhile are never undone (S3).
#[test]
fn nested_action_end_has_reserved_space() {
    let (store, page) = store_with(options(), registry());
    let reserve = |bytes| store.log().reserve(ByteLen(bytes), ByteLen(0)).ok();
    let mut others: Vec<_> = std::iter::from_fn(|| reserve(4096)).collect();
    others.pop();
    others.extend(reserve(3072)); // the rest is too small for a larger request
    let mut txn = store.begin();
    txn.nested((), |txn| {
        txn.nested((), |txn| {
            txn.update(at(page, 0), &Add { amount: 1 })?;
            others.extend(std::iter::from_fn(|| reserve(1)));
            Ok(((), Undo::none()))
        })?;
        Ok(((), Undo::none()))
    })
    .unwrap();
    txn.commit(Commit::Async).unwrap();
    drop(others);
    assert_eq!(numbers(&store, page), [1, 0, 0, 0]);
}
