//! The holders of the log, as a store reports them.

use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Media, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_txn::{Clock, Commit, ConsumerOptions, Options, Pin, PinHolder, Store, Txn, TxnOptions, Vote};

use crate::common::*;

fn changed(txn: &mut Txn, page: PageId) {
    txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
}

fn holds(store: &Store, is_it: impl Fn(&PinHolder) -> bool) -> Option<Pin> {
    store.pins().unwrap().pins.into_iter().find(|pin| is_it(&pin.holder))
}

#[test]
fn oldest_transaction_holds_released_log() {
    let (store, page) = store_with(options(), registry());
    store.checkpoint().unwrap();
    let before = store.pins().unwrap();
    assert!(!before.pins.iter().any(|pin| matches!(pin.holder, PinHolder::Transaction { .. })), "{before:?}");
    let mut idle = store.begin_with(TxnOptions::default());
    changed(&mut idle, page);
    let others = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
    let mut later = store.begin();
    changed(&mut later, others[0]);
    store.checkpoint().unwrap();
    let pins = store.pins().unwrap();
    let transactions: Vec<_> = pins
        .pins
        .iter()
        .filter_map(|pin| match pin.holder {
            PinHolder::Transaction { txn, age: None } => Some((txn, pin)),
            _ => None,
        })
        .collect();
    let [(oldest, pin), (newest, other)] = transactions[..] else { panic!("{pins:?}") };
    assert_eq!((oldest, newest), (idle.id(), later.id()));
    assert_eq!(
        (pin.lsn, pins.pins[0].lsn),
        (pins.scan_lsn, pins.scan_lsn),
        "it holds what the checkpoint could not release"
    );
    assert!(pin.lsn < other.lsn && pin.bytes >= other.bytes && pin.bytes > 0, "{pins:?}");
    assert!(pins.pins.is_sorted_by_key(|pin| pin.lsn) && pins.bytes >= pin.bytes && pins.newest_lsn > pin.lsn);
    idle.rollback().unwrap();
    later.rollback().unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.pins().unwrap().pins, []);
}

#[test]
fn unwritten_page_holds_log() {
    let (store, page) = store_with(options(), registry());
    store.checkpoint().unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    let pin = holds(&store, |holder| *holder == PinHolder::Page(page)).expect("it is not written");
    assert!(pin.lsn >= store.pins().unwrap().scan_lsn && pin.bytes > 0);
    store.checkpoint().unwrap();
    assert_eq!(holds(&store, |holder| matches!(holder, PinHolder::Page(_))), None);
}

#[test]
fn prepared_transaction_holds_log_after_reopening() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let mut txn = store.begin();
    changed(&mut txn, page);
    let number = txn.id();
    assert!(matches!(txn.prepare(b"branch").unwrap(), Vote::Prepared(_)));
    let is_it = |holder: &PinHolder| *holder == PinHolder::Prepared { txn: number, id: b"branch".to_vec() };
    let before = holds(&store, is_it).expect("it is in doubt");
    drop(store);
    let store = open(&disk).unwrap();
    assert_eq!(holds(&store, is_it).expect("it is in doubt").lsn, before.lsn);
    store.prepared(b"branch").unwrap().commit(Commit::Sync).unwrap();
    assert_eq!(holds(&store, is_it), None);
}

#[test]
fn heap_without_checkpoint_holds_log() {
    let (store, _) = store_with(options(), registry());
    store.checkpoint().unwrap();
    let heap = store.memory().create_heap("words", &HeapOptions::raw(1 << 16)).unwrap();
    heap.atomically(|tx| tx.write(&heap, 8, 7)).unwrap();
    let is_it = |holder: &PinHolder| *holder == PinHolder::Heap("words".into());
    assert!(holds(&store, is_it).is_some());
    store.checkpoint().unwrap();
    assert_eq!(holds(&store, is_it), None);
}

#[derive(Debug, Default)]
struct ByHand(AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

#[test]
fn age_is_known_with_time_limit() {
    let clock = Arc::new(ByHand::default());
    let by_hand: Arc<dyn Clock> = clock.clone();
    let limited = Options { txn_time_limit: Some(Duration::from_secs(100)), clock: by_hand, ..options() };
    let (store, page) = store_with(limited, registry());
    let mut txn = store.begin();
    changed(&mut txn, page);
    clock.0.store(7, Ordering::SeqCst);
    let expected = PinHolder::Transaction { txn: txn.id(), age: Some(Duration::from_secs(7)) };
    assert!(holds(&store, |holder| *holder == expected).is_some(), "{:?}", store.pins());
    txn.rollback().unwrap();
}

#[test]
fn log_that_is_not_archived_is_named() {
    let (disk, archive) = (Arc::new(SimDisk::new()), Arc::new(SimDisk::new()));
    let to: Arc<dyn Media> = archive;
    let store = open_with(&disk, Options { archive: Some(to), ..options() }).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    store.extend_archive().unwrap();
    let is_it = |holder: &PinHolder| *holder == PinHolder::Archive { failure: None };
    assert_eq!(holds(&store, is_it), None);
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    let pin = holds(&store, is_it).expect("the archive lacks the change");
    assert_eq!(pin.lsn, store.archive_status().unwrap().up_to.next());
    store.extend_archive().unwrap();
    assert_eq!(holds(&store, is_it), None);
}

#[test]
fn lagging_consumer_holds_log() {
    let (store, page) = store_with(options(), registry());
    let consumer = store.consumer("index", ConsumerOptions::default()).unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
    let expected = PinHolder::Consumer("index".into());
    let held = holds(&store, |holder| *holder == expected).expect("it has confirmed nothing");
    let mut stream = consumer.changes().unwrap();
    while stream.next().unwrap().is_some() {}
    consumer.confirm(&stream.token()).unwrap();
    assert!(holds(&store, |holder| *holder == expected).is_none_or(|pin| pin.lsn > held.lsn));
}
