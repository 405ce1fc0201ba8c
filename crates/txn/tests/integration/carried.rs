//! Deferred changes of branches that a checkpoint is to carry forward (E9.13).

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::object_cache::UnflushedRecords;
use cedrat_txn::{Commit, Options, Store, Vote};

use crate::common::{self, at, options};
use crate::kept::{self, Back, Mixed, TestCache, in_page, page_of_records};

const KIND: &str = "test.filling";
const BRANCH: &[u8] = b"branch";

fn open(disk: &SimDisk) -> Store {
    let media: Arc<dyn Media> = Arc::new(disk.clone());
    let registry = common::registry().with(kept::register).record_kind(KIND);
    let options = Options { carry_forward_bytes: Some(1), checkpoint_when_opened: false, ..options() };
    Store::open(media, options, registry).expect("the store opens")
}

/// E9.13f: its record is in its page with a change that a return to a savepoint has undone. A keeper that does not flush the
/// compensation holds the log with its branch.
#[test]
fn branch_is_carried_only_when_flushed() {
    for (flushes_one_in, commits) in [(0, true), (0, false), (1, true), (1, false)] {
        let disk = SimDisk::new();
        let store = open(&disk);
        let page = store.transact(|txn| page_of_records(txn, 1)).expect("there is room");
        let cache = TestCache::new(flushes_one_in);
        let keeper = store.keep_log_for(cache.clone());
        let record = at(page, 0);
        let mut txn = store.begin();
        cache.change(&mut txn, &keeper, record, 1, Back::Inverse).expect("there is room");
        let savepoint = txn.savepoint();
        let undone = cache.change(&mut txn, &keeper, record, 2, Back::Inverse).expect("there is room");
        cache.flush_one(record, |kept| store.flush_record(kept)).expect("the page is there");
        txn.rollback_to(savepoint).expect("there is room");
        let Ok(Vote::Prepared(branch)) = txn.prepare(BRANCH) else { panic!("it has changed something") };
        drop(branch);
        for _ in 0..40 {
            let filling = store.transact(|txn| txn.log_record(KIND, &[7; 2000]));
            filling.expect("there is room");
        }
        store.checkpoint().expect("the disk works");
        let is_carried = store.log().control().checkpoint.scan_lsn > undone;
        assert_eq!(is_carried, flushes_one_in == 1, "only what is in pages needs no log");
        drop(store);
        let store = open(&disk.cut_power(Loss::Everything));
        let branch = store.prepared(BRANCH).expect("it is in doubt");
        let ended = if commits { branch.commit(Commit::Sync).map(drop) } else { branch.rollback() };
        ended.expect("E9.1: a branch can commit and roll back");
        let mut expected = Mixed::default();
        if commits {
            expected.mix(1);
        }
        let found = in_page(&store, record).expect("the page is there").0;
        assert_eq!(found, Some(expected), "E9.13: commits: {commits}, flushes one in {flushes_one_in}");
    }
}
