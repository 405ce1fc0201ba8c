//! Branches that an operator has ended: the outcome is kept until the transaction manager forgets it (E9.4).

use cedrat_heap::{Heap, HeapOptions};
use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{BranchError, Commit, Error, HeuristicOutcome, Options, Prepared, Store, Vote};

use crate::common::*;

const BRANCH: &[u8] = b"branch";
const BOTH: [HeuristicOutcome; 2] = [HeuristicOutcome::Committed, HeuristicOutcome::RolledBack];

fn prepared(store: &Store, page: PageId, words: Option<&Heap>, amount: i64) -> Prepared {
    let mut txn = store.begin();
    txn.update(at(page, 0), &Add { amount }).unwrap();
    if let Some(words) = words {
        txn.heap(|tx| tx.write(words, 0, 7)).unwrap();
    }
    match txn.prepare(BRANCH).unwrap() {
        Vote::Prepared(prepared) => prepared,
        Vote::ReadOnly => panic!("it has changed something"),
    }
}

fn after_a_crash(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything))
}

fn outcomes(store: &Store) -> Vec<(Vec<u8>, HeuristicOutcome)> {
    store.heuristic_branches().unwrap().into_iter().map(|branch| (branch.id, branch.outcome)).collect()
}

fn number(outcome: HeuristicOutcome, amount: i64) -> i64 {
    if outcome == HeuristicOutcome::Committed { amount } else { 0 }
}

/// E9.4c: at each crash the branch is in doubt, or it has ended and the outcome is recorded.
#[test]
fn operator_outcome_survives_every_crash() {
    for (outcome, with_words) in BOTH.into_iter().flat_map(|outcome| [(outcome, false), (outcome, true)]) {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        let words = with_words.then(|| store.memory().create_heap("words", &HeapOptions::raw(8 << 10)).unwrap());
        drop(prepared(&store, page, words.as_ref(), 5));
        let disk = after_a_crash(&disk);
        let store = open(&disk).unwrap();
        store.prepared(BRANCH).unwrap().resolve(outcome).unwrap();
        assert_eq!(outcomes(&store), [(BRANCH.to_vec(), outcome)]);
        let (mut in_doubt, mut ended) = (0, 0);
        every_crash(&disk, 3, |crashed, _, name| {
            let store = open(crashed).unwrap();
            let found = read_number(&store, at(page, 0)).unwrap();
            if store.in_doubt().unwrap().is_empty() {
                ended += 1;
                assert_eq!(outcomes(&store), [(BRANCH.to_vec(), outcome)], "E9.4c: {name}");
                assert_eq!(found, number(outcome, 5), "{name}");
                return;
            }
            in_doubt += 1;
            assert_eq!(outcomes(&store), [], "E9.4c: {name}");
            store.prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
            assert_eq!(outcomes(&store), [], "E9.4: its manager has ended it: {name}");
        });
        assert!(in_doubt > 0 && ended > 0, "{in_doubt} {ended}");
        let store = open(&after_a_crash(&disk)).unwrap();
        assert_eq!(outcomes(&store), [(BRANCH.to_vec(), outcome)], "E9.4c: it was acknowledged");
    }
}

/// E9.4d: whatever is written, however often the store is opened or crashes. The outcome does not hold the log.
#[test]
fn outcome_is_kept_until_forgotten() {
    let options = || Options { carry_forward_bytes: Some(1), ..options() };
    for outcome in BOTH {
        let disk = Arc::new(SimDisk::new());
        let store = open_with(&disk, options()).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        prepared(&store, page, None, 5).resolve(outcome).unwrap();
        let first = store.heuristic_branches().unwrap()[0].lsn;
        let (mut disk, mut store) = (disk, store);
        for opening in 0..4 {
            for _ in 0..3000 {
                store.transact(|txn| txn.update(at(page, 1), &Add { amount: 1 })).unwrap();
            }
            store.checkpoint().unwrap();
            store.checkpoint().unwrap();
            assert!(store.log().control().checkpoint.scan_lsn > first, "E9.4d: it holds the log");
            if opening % 2 == 0 {
                store.close().unwrap();
            } else {
                disk = after_a_crash(&disk);
            }
            store = open_with(&disk, options()).unwrap();
            assert_eq!(outcomes(&store), [(BRANCH.to_vec(), outcome)], "E9.4d: opening {opening}");
        }
        let late = store.prepared(BRANCH).unwrap_err();
        let Error::Branch(BranchError::Heuristic { outcome: was, .. }) = late else { panic!("{late}") };
        assert_eq!(was, outcome);
        let mut again = store.begin();
        again.update(at(page, 0), &Add { amount: 1 }).unwrap();
        let refused = again.prepare(BRANCH).unwrap_err();
        assert!(matches!(refused, Error::Branch(BranchError::Exists { .. })), "E9.8: {refused}");
        assert_eq!(read_number(&store, at(page, 0)).unwrap(), number(outcome, 5));
    }
}

/// E9.4e: each crash leaves the outcome whole or forgotten, and a forgotten one does not return.
#[test]
fn forgetting_is_durable_or_absent() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    prepared(&store, page, None, 5).resolve(HeuristicOutcome::RolledBack).unwrap();
    let disk = after_a_crash(&disk);
    let store = open(&disk).unwrap();
    store.forget_heuristic(BRANCH).unwrap();
    assert_eq!(outcomes(&store), []);
    let again = store.forget_heuristic(BRANCH).unwrap_err();
    assert!(matches!(again, Error::Branch(BranchError::NoOutcome { .. })), "{again}");
    let (mut kept, mut forgotten) = (0, 0);
    every_crash(&disk, 3, |crashed, _, name| match &outcomes(&open(crashed).unwrap())[..] {
        [] => forgotten += 1,
        [(id, HeuristicOutcome::RolledBack)] if id == BRANCH => kept += 1,
        other => panic!("E9.4e: {name}: {other:?}"),
    });
    assert!(kept > 0 && forgotten > 0, "{kept} {forgotten}");
    let disk = after_a_crash(&disk);
    let store = open(&disk).unwrap();
    assert_eq!(outcomes(&store), [], "E9.4e: it was acknowledged");
    prepared(&store, page, None, 1).commit(Commit::Sync).unwrap();
    store.close().unwrap();
    let store = open(&disk).unwrap();
    assert_eq!((outcomes(&store), store.in_doubt().unwrap()), (vec![], vec![]));
}

/// E9.5a: the log has room for the record, the copies, and the record that it is forgotten, however small it is.
#[test]
fn small_log_has_room_for_operator_outcome() {
    for outcome in BOTH {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let page = store.transact(page_with_zeros).unwrap();
        drop(prepared(&store, page, None, 5));
        let store = open(&after_a_crash(&disk)).unwrap();
        let other = store.transact(page_with_zeros).unwrap();
        let write = || {
            for _ in 0..100_000 {
                let mut others = store.begin();
                others.update(at(other, 1), &Add { amount: 1 }).unwrap();
                others.commit(Commit::Async).unwrap();
            }
        };
        write();
        store.prepared(BRANCH).unwrap().resolve(outcome).unwrap();
        assert_eq!(store.log().space().overdrawn.0, 0, "E9.5a");
        write();
        assert_eq!(outcomes(&store), [(BRANCH.to_vec(), outcome)], "E9.4d");
        store.forget_heuristic(BRANCH).unwrap();
        assert_eq!(store.log().space().overdrawn.0, 0, "E9.5a");
    }
}
