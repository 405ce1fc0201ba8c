//! Incremental backups have changes that were logged long before they came into their pages (E9.13).

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::object_cache::UnflushedRecords;
use cedrat_txn::{BackupOptions, Commit, Options, Store, Vote, check_backup};

use crate::common::{self, at, media, options};
use crate::increments::{chain, restored, since};
use crate::kept::{self, Back, Mixed, TestCache, in_page, page_of_records};

const KIND: &str = "test.filling";
const BRANCH: &[u8] = b"branch";

fn open(disk: &SimDisk) -> Store {
    let media: Arc<dyn Media> = Arc::new(disk.clone());
    let registry = common::registry().with(kept::register).record_kind(KIND);
    let options = Options { carry_forward_bytes: Some(1), checkpoint_when_opened: false, ..options() };
    Store::open(media, options, registry).expect("the store opens")
}

/// Returns a store with a branch that a checkpoint has carried forward, and a page that lacks its change.
fn with_carried_branch(disk: &SimDisk) -> (Store, PageId) {
    let store = open(disk);
    let page = store.transact(|txn| page_of_records(txn, 1)).expect("there is room");
    let cache = TestCache::new(1);
    let keeper = store.keep_log_for(cache.clone());
    let mut txn = store.begin();
    let change = cache.change(&mut txn, &keeper, at(page, 0), 1, Back::CommittedOnly).expect("there is room");
    let Ok(Vote::Prepared(branch)) = txn.prepare(BRANCH) else { panic!("it has changed something") };
    drop(branch);
    for _ in 0..40 {
        let filling = store.transact(|txn| txn.log_record(KIND, &[7; 2000]));
        filling.expect("there is room");
    }
    store.checkpoint().expect("the disk works");
    assert!(store.log().control().checkpoint.redo_lsn > change, "it is carried forward");
    (store, page)
}

fn full(store: &Store) -> SimDisk {
    let to = SimDisk::new();
    store.backup(&media(&to), BackupOptions::default()).expect("the disks work");
    to
}

/// E18.18, E19.3b: its record gets the change from a copy, and that has the LSN of the change: it is older than the redo point of the backup.
#[test]
fn increment_has_change_of_carried_branch() {
    for (commits_after_crash, crashes) in [(false, false), (false, true), (true, true)] {
        let disk = SimDisk::new();
        let (store, page) = with_carried_branch(&disk);
        let before = full(&store);
        let crash = |store: Store| {
            drop(store);
            open(&SimDisk::from_image(disk.cut_power(Loss::Everything).image()))
        };
        let commit = |store: &Store| {
            store.prepared(BRANCH).expect("it is in doubt").commit(Commit::Sync).map(drop).expect("E9.1");
        };
        let store = match (commits_after_crash, crashes) {
            (true, _) => {
                let store = crash(store);
                commit(&store);
                store
            }
            (false, true) => {
                commit(&store);
                crash(store)
            }
            _ => {
                commit(&store);
                store
            }
        };
        store.checkpoint().expect("the disk works");
        let mut expected = Mixed::default();
        expected.mix(1);
        if crashes {
            assert_eq!(in_page(&store, at(page, 0)).expect("the page is there").0, Some(expected));
        }
        let to = SimDisk::new();
        let earlier = chain(std::slice::from_ref(&before)).expect("it is whole");
        store.backup(&media(&to), since(&earlier)).expect("E18.18");
        drop(earlier);
        let restored = open(&restored(&[before, to]).expect("E18.18"));
        let found = in_page(&restored, at(page, 0)).expect("the page is there").0;
        assert_eq!(found, Some(expected), "E19.3b: crashes: {crashes}, then commits: {commits_after_crash}");
    }
}

/// E18.18c: the power fails before the punch of a free page is durable, and the backup has seen it as punched.
#[test]
fn free_page_returns_after_crash() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let pages: Vec<PageId> = (0..80).map(|_| store.transact(common::page_with_zeros).expect("there is room")).collect();
    store.checkpoint().expect("the disk works");
    store.transact(|txn| pages[20..60].iter().try_for_each(|&page| txn.free(page))).expect("there is room");
    store.checkpoint().expect("the disk works");
    let before = full(&store);
    for loss in [Loss::Everything, Loss::Random(1), Loss::Random(2), Loss::Nothing] {
        let store = open(&disk.journal().crash(disk.journal_len(), loss));
        let to = SimDisk::new();
        let earlier = chain(std::slice::from_ref(&before)).expect("it is whole");
        store.backup(&media(&to), since(&earlier)).expect("E18.18c");
        drop(earlier);
        let whole = chain(&[before.clone(), to]).expect("it is whole");
        let check = check_backup(whole.media(), None).expect("the disks work");
        assert!(check.problems.is_empty(), "E18.18c: {loss:?}: {check:?}");
    }
}
