//! Notices to keepers before changes are undone in pages (E19.7).

use cedrat_media::{Media, SimDisk};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::object_cache::{DeferredChanges, Keeper, TakenBack, ToPages, Unflushed, UnflushedRecords};
use cedrat_txn::{Commit, Options, RecordId, Result, Store, Txn, Undo, Vote};
use cedrat_wal::{Lsn, TxnId};

use crate::common::{self, at, options};
use crate::kept::{self, Mixed, insert, page_of_records};

const KIND: &str = "test.filling";

/// A keeper that notes which records it was to keep no longer.
#[derive(Default)]
struct Notes(Mutex<Vec<RecordId>>);

impl Unflushed for Notes {
    fn oldest(&self) -> Option<Lsn> {
        None
    }

    fn flush(&self, _: Lsn, _: &ToPages<'_>) -> Result<()> {
        Ok(())
    }

    fn taken_back(&self, _: TakenBack) {}

    fn withdrawn(&self, at: RecordId) {
        self.0.lock().push(at);
    }

    fn ended(&self, _: TxnId, _: Option<Lsn>) {}
}

/// Inserts two records, and keeps each after a record of its own kind or of a nested top action that has no undo.
fn insert_and_keep(txn: &mut Txn, keeper: &Keeper, places: [RecordId; 2]) {
    insert(txn, places[0], Mixed::default()).unwrap();
    txn.kept(keeper, places[0]).unwrap();
    insert(txn, places[1], Mixed::default()).unwrap();
    txn.nested((), |txn| {
        txn.log_record(KIND, b"structural")?;
        Ok(((), Undo::none()))
    })
    .unwrap();
    txn.kept(keeper, places[1]).unwrap();
}

fn open(options: Options) -> (Store, [RecordId; 2], Arc<Notes>, Keeper) {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let registry = common::registry().with(kept::register).record_kind(KIND);
    let store = Store::open(media, options, registry).unwrap();
    let page = store.transact(|txn| page_of_records(txn, 0)).unwrap();
    let notes = Arc::new(Notes::default());
    let keeper = store.keep_log_for(Arc::<Notes>::clone(&notes));
    (store, [at(page, 0), at(page, 1)], notes, keeper)
}

/// A record may be kept a little later than its change.
#[test]
fn keeper_is_notified_whatever_record_follows() {
    let (store, places, notes, keeper) = open(options());
    let mut txn = store.begin();
    insert_and_keep(&mut txn, &keeper, places);
    txn.rollback().unwrap();
    assert_eq!(*notes.0.lock(), [places[1], places[0]], "E19.7");
}

/// E9.13: also if its records were carried forward, without those that nothing needs.
#[test]
fn keeper_is_notified_of_carried_branch() {
    let mut small = options();
    small.log_limit_bytes = 24 * small.segment_len;
    small.carry_forward_bytes = Some(small.segment_len);
    let (store, places, notes, keeper) = open(small.clone());
    let mut txn = store.begin();
    insert_and_keep(&mut txn, &keeper, places);
    let Vote::Prepared(branch) = txn.prepare(b"branch").unwrap() else { panic!("it has changed something") };
    for _ in 0..4 * small.segment_len / 2000 {
        let mut txn = store.begin();
        txn.log_record(KIND, &[7; 2000]).unwrap();
        txn.commit(Commit::NoFlush).unwrap();
    }
    store.checkpoint().unwrap();
    branch.rollback().unwrap();
    assert_eq!(*notes.0.lock(), [places[1], places[0]], "E19.7");
}
