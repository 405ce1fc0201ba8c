//! Changes that are logged now and applied to their pages later (Lemon §7). Every crash of them: `cedrat-check`,
//! `crash_deferred.rs`.

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{
    Commit, Error, FormatFresh, NoLocks, OpenError, Options, RecordId, Registry, Result, Store, Txn, TxnOptions, Undo,
    VersionedDelete, object_cache::*,
};
use cedrat_wal::{LogFull, Lsn, TxnId};

use crate::common::{self, Add, at, every_crash, options, page_with_zeros};
use crate::kept::{self, Back, Mix, Mixed, TestCache, Unmix, in_page, insert, page_of_records};

const RECORDS: u16 = 4;

fn registry() -> Registry {
    common::registry().with(kept::register)
}

fn open_with(disk: &Arc<SimDisk>, options: Options) -> Result<Store, OpenError> {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options, registry())
}

/// A store with a page of records, and a record cache that flushes nothing on its own.
struct Place {
    disk: Arc<SimDisk>,
    store: Store,
    page: PageId,
    cache: Arc<TestCache>,
    keeper: Keeper,
}

fn place_with(options: Options, flushes_one_in: u64) -> Place {
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, options).unwrap();
    let page = store.transact(|txn| page_of_records(txn, RECORDS)).unwrap();
    let cache = TestCache::new(flushes_one_in);
    let keeper = store.keep_log_for(cache.clone());
    Place { disk, store, page, cache, keeper }
}

fn place() -> Place {
    place_with(options(), 0)
}

impl Place {
    fn at(&self, slot: u16) -> RecordId {
        at(self.page, slot)
    }

    /// Changes a record in a separate transaction.
    fn mix(&self, slot: u16, by: u64) -> Lsn {
        self.store.transact(|txn| self.cache.change(txn, &self.keeper, self.at(slot), by, Back::CommittedOnly)).unwrap()
    }

    fn flush(&self, slot: u16) {
        self.cache.flush_one(self.at(slot), |kept| self.store.flush_record(kept)).unwrap();
    }

    /// Opens the store after a crash that loses everything not durable.
    fn crashed(&self) -> Store {
        let disk = Arc::new(self.disk.journal().crash(self.disk.journal_len(), Loss::Everything));
        open_with(&disk, Options { checkpoint_when_opened: false, ..options() }).unwrap()
    }
}

fn mixed(by: &[u64]) -> Mixed {
    let mut mixed = Mixed::default();
    by.iter().for_each(|&by| mixed.mix(by));
    mixed
}

fn value(store: &Store, at: RecordId) -> Mixed {
    in_page(store, at).unwrap().0.unwrap()
}

/// L072, L073, L077.
#[test]
fn deferred_change_does_not_access_its_page() {
    let place = place();
    place.store.checkpoint().unwrap();
    let reopened = place.crashed();
    let cache = TestCache::new(0);
    let keeper = reopened.keep_log_for(cache.clone());
    let read = reopened.pool().stats().pages_read;
    let mut txn = reopened.begin();
    for by in 1..=3 {
        txn.defer(&keeper, place.at(0), &Mix { by }).unwrap();
    }
    txn.commit(Commit::Sync).unwrap();
    let stats = reopened.pool().stats();
    assert_eq!((stats.pages_read - read, stats.dirty_pages), (0, 0));
    assert_eq!(value(&reopened, place.at(0)), mixed(&[]));
}

/// A change that the keeper declines, or refuses, is not logged, and does not bind the transaction.
#[test]
fn change_declined_by_keeper_is_not_logged() {
    let place = place();
    let mut txn = place.store.begin();
    let newest = place.store.log().current_lsn();
    let unwanted = txn.defer_when(&place.keeper, place.at(0), &Mix { by: 1 }, |_| Ok(None::<()>)).unwrap();
    let refused = txn
        .defer_when(&place.keeper, place.at(0), &Mix { by: 1 }, |_| -> Result<Option<()>> { Err(Error::Misuse("no")) });
    assert!(unwanted.is_none());
    assert_misuse(refused, "no");
    assert_eq!(place.store.log().current_lsn(), newest);
    let (change, said) = txn
        .defer_inverse_when(&place.keeper, place.at(0), &Mix { by: 2 }, &Unmix { by: 2 }, |txn| {
            assert_eq!(place.store.log().current_lsn(), newest, "it is asked before the change is logged");
            Ok(Some(txn.id()))
        })
        .unwrap()
        .unwrap();
    assert_eq!((change, said), (place.store.log().current_lsn(), txn.id()));
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(value(&place.crashed(), place.at(0)), mixed(&[2]));
}

/// E19.15: one record has all changes, and after a crash either all or none of them are there.
#[test]
fn commit_record_changes_apply_at_commit() {
    let place = place();
    place.mix(1, 1);
    place.flush(1);
    place.mix(2, 2);
    let late = [(place.at(0), 10), (place.at(1), 11), (place.at(2), 12)];
    let newest = place.store.log().current_lsn();
    place.disk.mark(0);
    let mut txn = place.store.begin();
    let ticket = place.cache.commit(&mut txn, &place.keeper, &late).unwrap().unwrap();
    assert_eq!(ticket.lsn(), newest.next(), "there is no other record");
    ticket.wait().unwrap();
    let all = [mixed(&[10]), mixed(&[1, 11]), mixed(&[2, 12])];
    for (&(at, _), mixed) in late.iter().zip(all) {
        assert_eq!(place.cache.get(&place.store, at).unwrap(), mixed);
    }
    // One change is in its page, whose LSN says nothing about the others.
    place.flush(1);
    let none = [mixed(&[]), mixed(&[1]), mixed(&[2])];
    let mut seen = std::collections::BTreeSet::new();
    every_crash(&place.disk, 8, |disk, marks, name| {
        if marks.is_empty() {
            return;
        }
        let store = open_with(disk, options()).unwrap();
        let found = [0, 1, 2].map(|slot| value(&store, place.at(slot)));
        assert!(found == none || found == all, "{name}: {found:?}");
        seen.insert(found == all);
    });
    assert_eq!(seen.len(), 2);
}

/// E19.15, E19.5: earlier deferred changes count with the commit, and those that were undone before do not.
#[test]
fn commit_changes_follow_deferred_changes() {
    let place = place();
    let mut txn = place.store.begin();
    let change = |txn: &mut Txn, slot, by| {
        place.cache.change(txn, &place.keeper, place.at(slot), by, Back::CommittedOnly).unwrap();
    };
    change(&mut txn, 0, 1);
    let savepoint = txn.savepoint();
    change(&mut txn, 1, 2);
    txn.rollback_to(savepoint).unwrap();
    let ticket = place.cache.commit(&mut txn, &place.keeper, &[(place.at(1), 3)]).unwrap().unwrap();
    ticket.wait().unwrap();
    let found = place.crashed();
    assert_eq!([0, 1].map(|slot| value(&found, place.at(slot))), [mixed(&[1]), mixed(&[3])]);
}

/// Changes that are refused, or do not fit a commit record, leave the transaction unchanged.
#[test]
fn invalid_commit_record_changes_are_refused() {
    let place = place();
    let newest = place.store.log().current_lsn();
    let mut txn = place.store.begin();
    let commit = |txn: &mut Txn, all: &[(RecordId, u64)]| place.cache.commit(txn, &place.keeper, all);
    assert_misuse(commit(&mut txn, &[(place.at(1), 1), (place.at(0), 1)]), "in the order of their places");
    assert_misuse(commit(&mut txn, &[(place.at(1), 1), (place.at(1), 1)]), "each record once");
    let changes_of = |store: &Store, at| {
        let mut changes = CommitChanges::new(store);
        changes.push(at, &Mix { by: u64::MAX }).map(|()| changes)
    };
    assert!(matches!(changes_of(&place.store, at(PageId::new(1 << 40), 0)), Err(Error::Refused(_))));
    let mut commit_changes = |mut changes: CommitChanges, mode, wants: Option<()>| {
        txn.commit_with_changes(&place.keeper, &mut changes, mode, |_| wants, |(), _, _| ())
    };
    let changes = || changes_of(&place.store, place.at(0)).unwrap();
    assert!(matches!(commit_changes(changes(), Commit::Partition, Some(())), Err(Error::PartitionCommit)));
    assert!(commit_changes(changes(), Commit::Async, None).unwrap().is_none());
    let mut too_long = CommitChanges::new(&place.store);
    (0..u16::MAX).for_each(|slot| too_long.push(place.at(slot), &Mix { by: 1 }).unwrap());
    assert!(commit_changes(too_long, Commit::Async, Some(())).unwrap().is_none());
    let of_other = changes_of(&place_with(options(), 0).store, place.at(0)).unwrap();
    assert_misuse(commit_changes(of_other, Commit::Async, Some(())), "for another store");
    let nested = txn.nested_transaction(|txn| commit(txn, &[(place.at(0), 1)]));
    assert_misuse(nested, "within its nested top action");
    assert_eq!(place.store.log().current_lsn(), newest, "nothing of it is in the log");
    // The transaction continues.
    assert!(commit(&mut txn, &[(place.at(0), 1)]).unwrap().is_some());
    assert_misuse(commit(&mut txn, &[(place.at(0), 1)]), "begin another");
    let mut relaxed = place.store.begin_with(TxnOptions::default().without_atomicity());
    assert!(commit(&mut relaxed, &[(place.at(0), 1)]).unwrap().is_none());
    let heap = place.store.memory().create_heap("words", &cedrat_heap::HeapOptions::raw(64)).unwrap();
    let mut both = place.store.begin();
    both.heap(|tx| tx.write(&heap, 0, 1)).unwrap();
    assert!(commit(&mut both, &[(place.at(0), 1)]).unwrap().is_none());
    assert_eq!(value(&place.crashed(), place.at(0)), mixed(&[1]), "the one that has committed, once");
}

/// L078, E19.2: each record of a page separately.
#[test]
fn only_unflushed_changes_are_redone() {
    let place = place();
    place.mix(0, 1);
    place.mix(1, 2);
    place.mix(0, 3);
    place.flush(0);
    place.mix(1, 4);
    place.mix(0, 5);
    assert_eq!(value(&place.store, place.at(0)), mixed(&[1, 3]));
    assert_eq!(value(&place.store, place.at(1)), mixed(&[]));
    place.store.checkpoint().unwrap();
    let reopened = place.crashed();
    assert_eq!(value(&reopened, place.at(0)), mixed(&[1, 3, 5]));
    assert_eq!(value(&reopened, place.at(1)), mixed(&[2, 4]));
    assert_eq!(reopened.recovery().redone, 3);
}

/// E19.3: a late flush leaves the page's LSN, or raises it to that of a newer commit.
#[test]
fn page_has_lsn_of_newest_needed_commit() {
    let place = place();
    let change = place.mix(0, 1);
    place.mix(1, 2);
    let before = place.store.read(place.page).unwrap().lsn();
    place.flush(1);
    let newest = place.store.read(place.page).unwrap().lsn();
    assert!(before < newest && in_page(&place.store, place.at(1)).unwrap().1 < newest, "the commit record is newer");
    place.flush(0);
    assert_eq!(place.store.read(place.page).unwrap().lsn(), newest);
    assert_eq!(in_page(&place.store, place.at(0)).unwrap().1, change);
}

/// L075, E19.6.
#[test]
fn rollback_logs_inverses_and_notifies_keeper() {
    let place = place();
    let (cache, keeper) = (&place.cache, &place.keeper);
    let mut txn = place.store.begin();
    cache.change(&mut txn, keeper, place.at(0), 1, Back::Inverse).unwrap();
    let savepoint = txn.savepoint();
    let last = cache.change(&mut txn, keeper, place.at(0), 2, Back::Inverse).unwrap();
    cache.change(&mut txn, keeper, place.at(1), 3, Back::Inverse).unwrap();
    // The record may be flushed before the change is committed, and the change be undone in the page.
    place.flush(0);
    assert_eq!(in_page(&place.store, place.at(0)).unwrap(), (Some(mixed(&[1, 2])), last));
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(cache.get(&place.store, place.at(0)).unwrap(), mixed(&[1]));
    assert_eq!(cache.get(&place.store, place.at(1)).unwrap(), mixed(&[]));
    txn.commit(Commit::Sync).unwrap();
    let mut loser = place.store.begin();
    cache.change(&mut loser, keeper, place.at(1), 4, Back::Inverse).unwrap();
    cache.change(&mut loser, keeper, place.at(0), 5, Back::Inverse).unwrap();
    place.flush(0);
    place.store.log().force(place.store.log().current_lsn()).unwrap();
    place.store.checkpoint().unwrap();
    let reopened = place.crashed();
    assert_eq!(reopened.recovery().undone, 2);
    assert_eq!(value(&reopened, place.at(0)), mixed(&[1]));
    assert_eq!(value(&reopened, place.at(1)), mixed(&[]));
    loser.rollback().unwrap();
    assert_eq!(cache.get(&place.store, place.at(1)).unwrap(), mixed(&[]));
    place.cache.flush_all(&place.store).unwrap();
    assert_eq!(value(&place.store, place.at(0)), mixed(&[1]));
}

/// L074, E19.5.
#[test]
fn committed_only_change_needs_no_undo() {
    let place = place();
    let (cache, keeper) = (&place.cache, &place.keeper);
    let mut txn = place.store.begin();
    cache.change(&mut txn, keeper, place.at(0), 1, Back::CommittedOnly).unwrap();
    let savepoint = txn.savepoint();
    cache.change(&mut txn, keeper, place.at(0), 2, Back::CommittedOnly).unwrap();
    txn.rollback_to(savepoint).unwrap();
    cache.change(&mut txn, keeper, place.at(0), 3, Back::CommittedOnly).unwrap();
    place.flush(0);
    assert_eq!(value(&place.store, place.at(0)), mixed(&[]), "nothing uncommitted is flushed");
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(cache.get(&place.store, place.at(0)).unwrap(), mixed(&[1, 3]));
    let mut rolled_back = place.store.begin();
    cache.change(&mut rolled_back, keeper, place.at(1), 4, Back::CommittedOnly).unwrap();
    rolled_back.rollback().unwrap();
    let mut loser = place.store.begin();
    cache.change(&mut loser, keeper, place.at(2), 5, Back::CommittedOnly).unwrap();
    place.store.log().force(place.store.log().current_lsn()).unwrap();
    let reopened = place.crashed();
    assert_eq!(reopened.recovery().undone, 0);
    for (slot, by) in [(0, &[1, 3][..]), (1, &[]), (2, &[])] {
        assert_eq!(value(&reopened, place.at(slot)), mixed(by), "record {slot}");
    }
}

/// L076: of a transaction without atomicity a prefix survives, and all of it once it has committed.
#[test]
fn without_atomicity_a_prefix_survives() {
    const CHANGES: u64 = 40;
    let place = place();
    place.disk.mark(0);
    let mut txn = place.store.begin_with(TxnOptions::default().without_atomicity());
    for by in 1..=CHANGES {
        place.cache.change(&mut txn, &place.keeper, place.at(0), by, Back::Never).unwrap();
        match by % 10 {
            3 => drop(place.store.log().force(place.store.log().current_lsn()).unwrap()),
            5 => place.flush(0),
            8 => place.store.checkpoint().unwrap(),
            _ => {}
        }
    }
    txn.commit(Commit::Sync).unwrap();
    place.disk.mark(1);
    let mut rolled_back = place.store.begin_with(TxnOptions::default().without_atomicity());
    place.cache.change(&mut rolled_back, &place.keeper, place.at(0), CHANGES + 1, Back::Never).unwrap();
    rolled_back.rollback().unwrap();
    let all: Vec<u64> = (1..=CHANGES + 1).collect();
    assert_eq!(place.cache.get(&place.store, place.at(0)).unwrap(), mixed(&all), "rolling back leaves what was done");
    let mut prefixes = 0;
    every_crash(&place.disk, 2, |disk, marks, name| {
        let Some(newest) = marks.last() else { return };
        let found = value(&open_with(disk, options()).unwrap(), place.at(0));
        let count = usize::try_from(found.count).unwrap();
        assert_eq!(found, mixed(&all[..count]), "{name}");
        assert!(*newest == 0 || found.count >= CHANGES, "{name}: it had committed");
        prefixes += usize::from(0 < found.count && found.count < CHANGES);
    });
    assert!(prefixes > 0);
}

/// L079, E19.4: redo begins no later than at the oldest change that is not in its page, and the log is kept from there
/// on.
#[test]
fn log_is_kept_for_unflushed_records() {
    let place = place();
    let change = place.mix(0, 1);
    for by in 2..200 {
        place.mix(1, by);
    }
    place.store.checkpoint().unwrap();
    place.store.checkpoint().unwrap();
    let kept = |place: &Place| place.store.log().control().checkpoint.redo_lsn;
    assert!(kept(&place) <= change);
    place.flush(0);
    place.store.checkpoint().unwrap();
    assert!(kept(&place) > change && kept(&place) <= change.next().next().next(), "now for the other record");
    place.flush(1);
    place.store.checkpoint().unwrap();
    assert!(kept(&place) > Lsn::new(200));
    // While a transaction runs it keeps the log itself.
    let mut txn = place.store.begin();
    let own = txn.defer(&place.keeper, place.at(2), &Mix { by: 7 }).unwrap();
    place.mix(1, 200);
    place.flush(1);
    place.store.checkpoint().unwrap();
    assert!(kept(&place) <= own);
    txn.commit(Commit::Sync).unwrap();
}

/// L079: a checkpoint flushes the changes made before the previous one, and all changes if the log is full. So a record
/// that changes constantly does not fill the log.
#[test]
fn checkpoints_ask_for_what_is_old() {
    let small = || Options { log_limit_bytes: 8 * 64 * 1024, ..options() };
    let place = place_with(small(), 1);
    place.store.checkpoint().unwrap();
    let change = place.mix(0, 1);
    place.store.checkpoint().unwrap();
    assert_eq!(value(&place.store, place.at(0)), mixed(&[]), "it is new");
    place.store.checkpoint().unwrap();
    assert_eq!(in_page(&place.store, place.at(0)).unwrap(), (Some(mixed(&[1])), change));
    let all: Vec<u64> = (1..20_000).collect();
    for &by in &all[1..] {
        let mut txn = place.store.begin();
        place.cache.change(&mut txn, &place.keeper, place.at(0), by, Back::CommittedOnly).unwrap();
        txn.commit(Commit::NoFlush).unwrap();
    }
    let (Place { disk, store, page, cache, keeper: _keeper }, newest) = (place, mixed(&all));
    assert!(value(&store, at(page, 0)).count < newest.count);
    store.close().unwrap();
    assert_eq!(cache.oldest(), None, "closing flushes all");
    let store = open_with(&disk, small()).unwrap();
    assert_eq!((store.recovery().redone, value(&store, at(page, 0))), (0, newest));
}

/// E19.4: a dropped keeper leaves its unflushed changes to the next opening.
#[test]
fn dropped_keeper_leaves_changes_to_recovery() {
    let mut place = place();
    let change = place.mix(0, 1);
    let mut txn = place.store.begin();
    place.cache.change(&mut txn, &place.keeper, place.at(1), 2, Back::CommittedOnly).unwrap();
    let other = TestCache::new(0);
    place.keeper = place.store.keep_log_for(other);
    place.cache = TestCache::new(0);
    txn.commit(Commit::Sync).unwrap();
    place.store.checkpoint().unwrap();
    assert!(place.store.log().control().checkpoint.redo_lsn <= change);
    let reopened = place.crashed();
    assert_eq!(value(&reopened, place.at(0)), mixed(&[1]));
    assert_eq!(value(&reopened, place.at(1)), mixed(&[2]));
}

/// E19.1, E19.3: a slot whose insertion was undone has no version. The page's LSN shows that the record is gone.
#[test]
fn changes_of_absent_record_are_not_redone() {
    let place = place_with(Options { locks: Arc::new(NoLocks), ..options() }, 0);
    let (cache, keeper) = (&place.cache, &place.keeper);
    // This change keeps the log.
    place.mix(0, 1);
    let mut txn = place.store.begin();
    insert(&mut txn, place.at(RECORDS), Mixed::default()).unwrap();
    cache.change(&mut txn, keeper, place.at(RECORDS), 2, Back::Inverse).unwrap();
    txn.rollback().unwrap();
    cache.forget(place.at(RECORDS));
    assert_eq!(in_page(&place.store, place.at(RECORDS)).unwrap(), (None, Lsn::ZERO));
    place.store.checkpoint().unwrap();
    assert_eq!(value(&place.crashed(), place.at(0)), mixed(&[1]));
    // An insertion into a later slot makes this one vacant, and still without a version.
    place.store.transact(|txn| insert(txn, place.at(RECORDS + 1), mixed(&[9]))).unwrap();
    place.store.checkpoint().unwrap();
    let reopened = place.crashed();
    assert_eq!(value(&reopened, place.at(RECORDS + 1)), mixed(&[9]));
    assert_eq!(in_page(&reopened, place.at(RECORDS)).unwrap(), (None, Lsn::ZERO));
}

/// E19.1: deferred changes of a removed record are redone neither on the record that reuses its slot, nor on a page of
/// another layout.
#[test]
fn changes_of_deleted_record_are_not_redone() {
    let place = place();
    place.mix(0, 1);
    place.mix(1, 2);
    place.flush(1);
    place.cache.let_go();
    place
        .store
        .transact(|txn| {
            txn.update(place.at(1), &VersionedDelete {})?;
            insert(txn, place.at(1), mixed(&[7]))
        })
        .unwrap();
    place.store.checkpoint().unwrap();
    let reopened = place.crashed();
    assert_eq!(value(&reopened, place.at(1)), mixed(&[7]));
    // The whole page is freed.
    place.flush(0);
    let first = place.mix(0, 3);
    place.flush(0);
    let holds = place.store.transact(|txn| page_of_records(txn, 1)).unwrap();
    let change = |txn: &mut Txn| place.cache.change(txn, &place.keeper, at(holds, 0), 4, Back::CommittedOnly);
    let held = place.store.transact(change).unwrap();
    assert!(first < held);
    place.mix(2, 5);
    place.flush(2);
    place.cache.forget(place.at(2));
    place.store.transact(|txn| txn.update(RecordId::page(place.page), &FormatFresh::new(LayoutKind::RAW))).unwrap();
    place.store.checkpoint().unwrap();
    let reopened = place.crashed();
    assert_eq!(value(&reopened, at(holds, 0)), mixed(&[4]));
    assert_eq!(reopened.read(place.page).unwrap().kind(), LayoutKind::RAW);
}

type Event = Box<dyn FnOnce() + Send>;

/// A wrapper of a record cache that runs an event at a moment chosen by the test, as another thread would.
struct HookedCache {
    cache: Arc<TestCache>,
    before_it_answers: Mutex<Option<Event>>,
    when_it_has_answered: Mutex<Option<Event>>,
    before_it_is_notified: Mutex<Option<Event>>,
    before_it_withdraws: Mutex<Option<Event>>,
}

impl HookedCache {
    /// Registers a wrapper as the only keeper of the record cache.
    fn before(place: &mut Place) -> (Arc<HookedCache>, Keeper) {
        let hooked = Arc::new(HookedCache {
            cache: place.cache.clone(),
            before_it_answers: Mutex::default(),
            when_it_has_answered: Mutex::default(),
            before_it_is_notified: Mutex::default(),
            before_it_withdraws: Mutex::default(),
        });
        place.keeper = place.store.keep_log_for(hooked.clone());
        (hooked, place.keeper.clone())
    }
}

fn happens(event: &Mutex<Option<Event>>) {
    let event = event.lock().take();
    if let Some(event) = event {
        event();
    }
}

impl Unflushed for HookedCache {
    fn oldest(&self) -> Option<Lsn> {
        happens(&self.before_it_answers);
        let oldest = self.cache.oldest();
        happens(&self.when_it_has_answered);
        oldest
    }

    fn flush(&self, before: Lsn, pages: &ToPages<'_>) -> Result<()> {
        self.cache.flush(before, pages)
    }

    fn taken_back(&self, change: TakenBack) {
        self.cache.taken_back(change);
    }

    fn withdrawn(&self, at: RecordId) {
        happens(&self.before_it_withdraws);
        self.cache.forget(at);
    }

    fn ended(&self, txn: TxnId, committed: Option<Lsn>) {
        happens(&self.before_it_is_notified);
        self.cache.ended(txn, committed);
    }
}

/// E19.4: the clock is read before the keepers. A change that is deferred just after a keeper has answered is newer.
#[test]
fn change_deferred_after_answer_is_kept() {
    let mut place = place();
    let (hooked, keeper) = HookedCache::before(&mut place);
    let (store, cache, at) = (place.store.clone(), place.cache.clone(), place.at(0));
    *hooked.when_it_has_answered.lock() = Some(Box::new(move || {
        store.transact(|txn| cache.change(txn, &keeper, at, 1, Back::CommittedOnly)).unwrap();
    }));
    place.store.checkpoint().unwrap();
    assert_eq!(value(&place.crashed(), at), mixed(&[1]));
}

/// E19.4: pages are examined after the keepers. A change that was flushed just before its keeper answers is in its
/// page, which is not yet written.
#[test]
fn change_flushed_before_answer_is_kept() {
    let mut place = place();
    let (hooked, keeper) = HookedCache::before(&mut place);
    let (store, cache, at) = (place.store.clone(), place.cache.clone(), place.at(0));
    store.transact(|txn| cache.change(txn, &keeper, at, 1, Back::CommittedOnly)).unwrap();
    *hooked.before_it_answers.lock() =
        Some(Box::new(move || cache.flush_one(at, |kept| store.flush_record(kept)).unwrap()));
    place.store.checkpoint().unwrap();
    assert_eq!(place.cache.oldest(), None);
    assert_eq!(value(&place.crashed(), at), mixed(&[1]));
}

/// E19.4: a transaction releases the log after its keepers have taken over.
#[test]
fn checkpoint_before_keeper_notification_loses_nothing() {
    let mut place = place();
    let (hooked, keeper) = HookedCache::before(&mut place);
    let (store, at) = (place.store.clone(), place.at(0));
    *hooked.before_it_is_notified.lock() = Some(Box::new(move || store.checkpoint().unwrap()));
    place.store.transact(|txn| place.cache.change(txn, &keeper, at, 1, Back::CommittedOnly)).unwrap();
    assert_eq!(value(&place.crashed(), at), mixed(&[1]));
}

/// E19.7: the keeper is notified before the page changes, once, and only if it does.
#[test]
fn undone_insertion_removes_its_kept_changes() {
    let mut place = place();
    let (hooked, keeper) = HookedCache::before(&mut place);
    let (store, cache, born) = (&place.store, &place.cache, place.at(RECORDS));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watch = || {
        let (seen, store) = (Arc::clone(&seen), store.clone());
        *hooked.before_it_withdraws.lock() = Some(Box::new(move || seen.lock().push(in_page(&store, born).unwrap().0)));
    };
    let bear = |txn: &mut Txn| {
        insert(txn, born, mixed(&[1])).unwrap();
        txn.kept(&keeper, born).unwrap();
        cache.change(txn, &keeper, born, 2, Back::Inverse).unwrap();
        cache.flush_one(born, |kept| store.flush_record(kept)).unwrap();
    };
    let mut txn = store.begin();
    assert_misuse(txn.kept(&keeper, born), "no change precedes this call");
    let savepoint = txn.savepoint();
    bear(&mut txn);
    let later = txn.savepoint();
    watch();
    txn.rollback_to(later).unwrap();
    assert_eq!((seen.lock().len(), cache.places()), (0, vec![born]));
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(*seen.lock(), [Some(mixed(&[1, 2]))], "it is in its page yet");
    assert_eq!((cache.places(), in_page(store, born).unwrap().0), (vec![], None));
    bear(&mut txn);
    watch();
    txn.rollback().unwrap();
    assert_eq!((seen.lock().len(), cache.places()), (2, vec![]));
    let mut txn = store.begin();
    bear(&mut txn);
    assert_misuse(txn.nested((), |txn| Ok((txn.kept(&keeper, born)?, Undo::none()))), "nested top action");
    watch();
    txn.commit(Commit::Sync).unwrap();
    assert_eq!((seen.lock().len(), cache.places()), (2, vec![born]));
    // Changes without atomicity stay.
    let other = place.at(RECORDS + 1);
    let mut txn = store.begin_with(TxnOptions::default().without_atomicity());
    insert(&mut txn, other, mixed(&[3])).unwrap();
    txn.kept(&keeper, other).unwrap();
    txn.rollback().unwrap();
    assert_eq!((seen.lock().len(), value(store, other)), (2, mixed(&[3])));
}

#[track_caller]
fn assert_misuse<T: std::fmt::Debug>(result: Result<T>, words: &str) {
    match result {
        Err(Error::Misuse(why)) if why.contains(words) => {}
        other => panic!("not a misuse of {words}: {other:?}"),
    }
}

#[test]
fn update_that_cannot_be_deferred_is_refused() {
    let place = place();
    let (keeper, other) = (&place.keeper, self::place());
    let mut txn = place.store.begin();
    assert_misuse(txn.defer(&other.keeper, place.at(0), &Mix { by: 1 }), "another store");
    let within = txn.nested((), |txn| Ok((txn.defer(keeper, place.at(0), &Mix { by: 1 })?, Undo::none())));
    assert_misuse(within, "nested top action");
    assert_misuse(txn.isolated(place.page, |txn| txn.defer(keeper, place.at(0), &Mix { by: 1 })), "isolation declared");
    let nowhere = at(PageId::new(1 << 40), 0);
    assert!(matches!(txn.defer(keeper, nowhere, &Mix { by: 1 }), Err(Error::Refused(_))));
    let savepoint = txn.savepoint();
    txn.defer(keeper, place.at(0), &Mix { by: 1 }).unwrap();
    assert_misuse(txn.defer_inverse(keeper, place.at(0), &Mix { by: 1 }, &Unmix { by: 1 }), "with inverses, or none");
    assert_misuse(txn.update_compensating(at(place.page, 0), &Add { amount: 1 }, savepoint), "has deferred");
    txn.rollback_to(savepoint).unwrap();
    let page = page_with_zeros(&mut txn).unwrap();
    txn.update_compensating(at(page, 0), &Add { amount: 1 }, savepoint).unwrap();
    txn.rollback().unwrap();

    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let store = Store::open(media, options(), common::registry()).unwrap();
    let page = store.transact(|txn| page_of_records(txn, 1)).unwrap();
    let keeper = store.keep_log_for(TestCache::new(0));
    let unknown = store.begin().defer(&keeper, at(page, 0), &Mix { by: 1 }).unwrap_err();
    assert!(unknown.to_string().contains("the delta \"test.mix\""), "{unknown}");
}

#[test]
fn change_that_cannot_be_flushed_is_refused() {
    let place = place();
    let change = place.mix(0, 1);
    let committed = place.store.log().current_lsn();
    let bytes = mixed(&[1]).bytes();
    let right = KeptRecord { at: place.at(0), bytes: &bytes, since: change, version: change, committed };
    let flush = |kept| place.store.flush_record(&kept);
    for wrong in [
        KeptRecord { since: Lsn::ZERO, ..right },
        KeptRecord { since: committed.next(), ..right },
        KeptRecord { version: committed.next(), ..right },
        KeptRecord { committed: committed.next(), ..right },
    ] {
        assert_misuse(flush(wrong), "since ≤ version ≤ committed");
    }
    for wrong in [KeptRecord { bytes: &bytes[1..], ..right }, KeptRecord { at: place.at(RECORDS), ..right }] {
        assert!(matches!(flush(wrong), Err(Error::Refused(_))), "{wrong:?}");
    }
    assert_eq!(value(&place.store, place.at(0)), mixed(&[]));
    flush(right).unwrap();
    flush(right).unwrap(); // the page already has this version
    let older = Lsn::new(change.get() - 1);
    assert_misuse(flush(KeptRecord { since: older, version: older, ..right }), "newer");
    assert_eq!(in_page(&place.store, place.at(0)).unwrap(), (Some(mixed(&[1])), change));
}

/// A keeper with a record that it cannot write while it is stuck; counts how often it is asked.
struct Stuck {
    since: Lsn,
    is_stuck: AtomicBool,
    /// Whether the stuck flush fails because the log is full.
    wants_log: bool,
    asked: AtomicU64,
}

impl Stuck {
    fn new(store: &Store, is_stuck: bool) -> Arc<Stuck> {
        Stuck::wanting(store, is_stuck, false)
    }

    fn wanting(store: &Store, is_stuck: bool, wants_log: bool) -> Arc<Stuck> {
        let since = store.log().current_lsn().next();
        Arc::new(Stuck { since, is_stuck: AtomicBool::new(is_stuck), wants_log, asked: AtomicU64::new(0) })
    }
}

impl Unflushed for Stuck {
    fn oldest(&self) -> Option<Lsn> {
        self.is_stuck.load(Ordering::Acquire).then_some(self.since)
    }

    fn flush(&self, _: Lsn, _: &ToPages<'_>) -> Result<()> {
        self.asked.fetch_add(1, Ordering::AcqRel);
        match self.is_stuck.load(Ordering::Acquire) {
            true if self.wants_log => Err(LogFull::Limit { asked: 100, limit: 1, kept_from: self.since }.into()),
            true => Err(Error::user("the record cannot be written")),
            false => Ok(()),
        }
    }

    fn taken_back(&self, _: TakenBack) {}

    fn ended(&self, _: TxnId, _: Option<Lsn>) {}
}

/// Other keepers are flushed nevertheless.
#[test]
fn full_log_error_names_failed_checkpoint() {
    let place = place_with(Options { log_limit_bytes: 1 << 20, ..options() }, 1);
    let store = &place.store;
    let (stuck, other) = (Stuck::new(store, true), Stuck::new(store, false));
    let _keepers = [&stuck, &other].map(|unflushed| store.keep_log_for(Arc::<Stuck>::clone(unflushed)));
    assert_eq!(store.checkpoint_failure(), None);
    let change = || store.transact(|txn| page_of_records(txn, RECORDS).map(drop));
    let error = (0..100_000).find_map(|_| change().err()).expect("the log has a limit");
    assert!(matches!(&error, Error::LogFull { checkpoint: Some(_), .. }), "{error}");
    assert!(error.to_string().contains("the record cannot be written"), "{error}");
    assert!(store.checkpoint_failure().is_some_and(|why| why.contains("the record cannot be written")));
    assert!(other.asked.load(Ordering::Acquire) > 0, "another one can be written");
    stuck.is_stuck.store(false, Ordering::Release);
    store.checkpoint().unwrap();
    assert_eq!(store.checkpoint_failure(), None);
    change().unwrap();
}

/// Neither the transaction that finds the log full, even if it is the oldest, nor an older idle transaction is rolled
/// back: both may continue once checkpoints succeed again.
#[test]
fn failing_checkpoint_rolls_no_transaction_back() {
    let place = place_with(Options { log_limit_bytes: 1 << 20, ..options() }, 1);
    let store = &place.store;
    let stuck = Stuck::new(store, true);
    let _keeper = store.keep_log_for(Arc::<Stuck>::clone(&stuck));
    let change = |txn: &mut Txn| page_of_records(txn, RECORDS).map(drop);
    let mut idle = store.begin();
    change(&mut idle).unwrap();
    let mut busy = store.begin();
    let error = (0..100_000).find_map(|_| change(&mut busy).err()).expect("the log has a limit");
    let why = "the record cannot be written";
    assert!(matches!(&error, Error::LogFull { checkpoint: Some(text), .. } if text.contains(why)), "E16.3: {error}");
    busy.rollback().unwrap();
    // The same for the oldest transaction itself.
    let error = (0..100_000).find_map(|_| change(&mut idle).err()).expect("the log has a limit");
    assert!(matches!(&error, Error::LogFull { checkpoint: Some(text), .. } if text.contains(why)), "E16.3: {error}");
    stuck.is_stuck.store(false, Ordering::Release);
    idle.commit(Commit::Sync).unwrap();
    store.transact(change).unwrap();
}

/// A checkpoint that failed once is no reason to spare the transaction that holds the log: it might succeed now.
#[test]
fn past_failure_spares_no_log_holder() {
    let store = &place_with(Options { log_limit_bytes: 1 << 20, ..options() }, 1).store;
    let change = |txn: &mut Txn| page_of_records(txn, RECORDS).map(drop);
    let mut idle = store.begin();
    change(&mut idle).unwrap();
    store.checkpoint().unwrap();
    let stuck = Stuck::new(store, true);
    let _keeper = store.keep_log_for(Arc::<Stuck>::clone(&stuck));
    assert!(store.checkpoint().is_err());
    stuck.is_stuck.store(false, Ordering::Release);
    (0..2000).for_each(|_| store.transact(change).expect("E16.3: the log has room without the idle transaction"));
    assert!(matches!(change(&mut idle), Err(Error::PinsLog { .. })), "E16.3");
}

/// If the checkpoint fails because it finds no room in the log either, the transaction that holds the log is rolled
/// back.
#[test]
fn pinning_transaction_ends_despite_full_log() {
    let place = place_with(Options { log_limit_bytes: 1 << 20, ..options() }, 1);
    let store = &place.store;
    let _keeper = store.keep_log_for(Stuck::wanting(store, true, true));
    let mut txn = store.begin();
    let change = |txn: &mut Txn| page_of_records(txn, RECORDS).map(drop);
    let error = (0..100_000).find_map(|_| change(&mut txn).err()).expect("the log has a limit");
    assert!(matches!(error, Error::PinsLog { .. }), "E16.3: {error}");
}
