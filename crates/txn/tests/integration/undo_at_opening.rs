//! Logical undo in recovery that runs other transactions and checkpoints, beside a branch in doubt and a kept outcome (E9.1d).

use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{
    BranchError, Commit, Error, HeuristicOutcome, LogicalUndo, Options, Prepared, Result, Store, Txn, Undo, Vote,
};
use serde::{Deserialize, Serialize};

use crate::common::*;

const KIND: &str = "test.filling";
const BRANCH: &[u8] = b"branch";
const ENDED: &[u8] = b"ended";

/// The other work of an undo.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Work {
    FillsLog,
    Checkpoints,
    WantsLock,
    NeedsLock,
    Allocates,
}

#[derive(Debug, Serialize, Deserialize)]
struct RunsAnother {
    work: Work,
    own: u64,
    free: u64,
    locked: u64,
}

impl LogicalUndo for RunsAnother {
    const NAME: &'static str = "test.runs-another";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let store = txn.store().clone();
        match self.work {
            Work::FillsLog => (0..1000).for_each(|_| {
                // Refused or not: the log has little room.
                let mut other = store.begin();
                let _ = other.log_record(KIND, &[3; 2000]).and_then(|_| add(&mut other, self.free, 1));
                let _ = other.commit(Commit::NoFlush);
            }),
            Work::Checkpoints => store.checkpoint()?,
            Work::WantsLock => {
                let mut other = store.begin();
                let refused = add(&mut other, self.locked, 100);
                assert!(matches!(refused, Err(Error::InDoubt { .. })), "E9.1e: {refused:?}");
            }
            Work::NeedsLock => store.transact(|other| add(other, self.locked, 100))?,
            Work::Allocates => drop(store.transact(page_with_zeros)?),
        }
        add(txn, self.own, -1)
    }
}

fn add(txn: &mut Txn, page: u64, amount: i64) -> Result<()> {
    txn.update(at(PageId::new(page), 0), &Add { amount })
}

fn open_small(disk: &Arc<SimDisk>) -> Store {
    try_to_open(disk).unwrap()
}

fn try_to_open(disk: &Arc<SimDisk>) -> Result<Store> {
    let mut options = Options { partitions: 1, txn_log_limit_bytes: Some(u64::MAX), ..options() };
    options.log_limit_bytes = 24 * options.segment_len;
    let media: Arc<dyn cedrat_media::Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options, registry().record_kind(KIND).logical::<RunsAnother>()).map_err(Error::from)
}

fn after_a_crash(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.journal().crash(disk.journal_len(), Loss::Everything))
}

fn prepare(txn: Txn, id: &[u8]) -> Prepared {
    match txn.prepare(id).unwrap() {
        Vote::Prepared(prepared) => prepared,
        Vote::ReadOnly => panic!("it has changed something"),
    }
}

/// Returns the disk of a crash behind an outcome, a branch and a loser, in their order, and the page of the branch.
fn crashed(work: Work) -> (Arc<SimDisk>, PageId) {
    let disk = Arc::new(SimDisk::new());
    let store = open_small(&disk);
    let [own, free, locked, ended] = [(); 4].map(|()| store.transact(page_with_zeros).unwrap());
    store.checkpoint().unwrap();
    let mut txn = store.begin();
    add(&mut txn, ended.get(), 7).unwrap();
    prepare(txn, ENDED).resolve(HeuristicOutcome::Committed).unwrap();
    let mut txn = store.begin();
    add(&mut txn, locked.get(), 5).unwrap();
    drop(prepare(txn, BRANCH));
    let mut loser = store.begin();
    loser
        .nested((), |txn| {
            add(txn, own.get(), 1)?;
            let (own, free, locked) = (own.get(), free.get(), locked.get());
            Ok(((), Undo::logical(&RunsAnother { work, own, free, locked })))
        })
        .unwrap();
    // So much that the checkpoint of an undo carries the branch forward.
    for _ in 0..70 {
        store.transact(|txn| txn.log_record(KIND, &[7; 2000])).unwrap();
    }
    store.log().stop("the power fails"); // before the loser is dropped, which would roll back
    (after_a_crash(&disk), locked)
}

fn check_branch_and_outcome(store: &Store, page: PageId) {
    let branches: Vec<_> = store.in_doubt().unwrap().into_iter().map(|branch| branch.id).collect();
    assert_eq!(branches, [BRANCH], "E9.1d");
    let outcomes: Vec<_> =
        store.heuristic_branches().unwrap().into_iter().map(|branch| (branch.id, branch.outcome)).collect();
    assert_eq!(outcomes, [(ENDED.to_vec(), HeuristicOutcome::Committed)], "E9.1d");
    assert_eq!(read_number(store, at(page, 0)).unwrap(), 5, "E9.1b");
    store.check().unwrap();
}

fn opens_with_branch(work: Work) {
    for commits in [false, true] {
        let (disk, page) = crashed(work);
        check_branch_and_outcome(&open_small(&disk), page);
        let store = open_small(&after_a_crash(&disk));
        check_branch_and_outcome(&store, page);
        let branch = store.prepared(BRANCH).unwrap();
        if commits {
            branch.commit(Commit::Sync).map(drop).unwrap()
        } else {
            branch.rollback().unwrap()
        }
        let ended = store.prepared(ENDED).map(drop);
        assert!(matches!(ended, Err(Error::Branch(BranchError::Heuristic { .. }))), "{ended:?}");
        assert_eq!((read_number(&store, at(page, 0)).unwrap(), store.running()), (if commits { 5 } else { 0 }, 0));
        store.forget_heuristic(ENDED).unwrap();
        assert_eq!(store.log().space().overdrawn.0, 0, "E16.1");
    }
}

#[test]
fn branch_survives_undo_that_fills_log() {
    opens_with_branch(Work::FillsLog);
}

#[test]
fn branch_survives_checkpoint_of_undo() {
    opens_with_branch(Work::Checkpoints);
}

/// E9.1e.
#[test]
fn undo_gets_no_lock_of_branch() {
    let (disk, page) = crashed(Work::WantsLock);
    check_branch_and_outcome(&open_small(&disk), page);
}

/// E9.1f: the error names both, and a retry of the opening gets the same one.
#[test]
fn opening_names_undo_and_branch() {
    let (disk, _) = crashed(Work::NeedsLock);
    for _ in 0..2 {
        let error = try_to_open(&disk).map(drop).expect_err("E9.1f");
        let Error::UndoInDoubt { undo, id } = &error else { panic!("E9.1f: {error:?}") };
        let digits: String = BRANCH.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((undo.as_str(), id.as_str()), ("test.runs-another", digits.as_str()));
        assert!(!error.is_worth_retrying(), "E9.1f");
    }
}

#[test]
fn undo_beside_branch_may_allocate() {
    opens_with_branch(Work::Allocates);
}
