//! Events in the middle of a call: another thread dooms the transaction, or the medium panics.
#![cfg(not(cedrat_shuttle))] // a panic ends a schedule

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Call, SimDisk};
use cedrat_pages::LayoutKind;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{Clock, Commit, Error, FormatFresh, Options, RecordId, Store, Vote};

use crate::common::*;

type Hook = Box<dyn FnOnce() + Send>;

/// A hook that is called at one of the next reads.
#[derive(Default)]
struct Hooked {
    /// The beginning of the file's name, the number of reads before, the hook.
    armed: Mutex<Option<(&'static str, u64, Hook)>>,
}

impl Hooked {
    fn arm(&self, file: &'static str, reads_before: u64, hook: impl FnOnce() + Send + 'static) {
        *self.armed.lock() = Some((file, reads_before, Box::new(hook)));
    }

    /// Disarms it; returns whether the hook was called.
    fn disarm(&self) -> bool {
        self.armed.lock().take().is_none()
    }

    fn note_read(&self, name: &str) {
        let mut armed = self.armed.lock();
        match &mut *armed {
            Some((of, before, _)) if name.starts_with(*of) => match before.checked_sub(1) {
                Some(fewer) => *before = fewer,
                None => {
                    let hook = armed.take().map(|(.., hook)| hook);
                    drop(armed);
                    hook.into_iter().for_each(|hook| hook());
                }
            },
            _ => {}
        }
    }
}

#[derive(Debug, Default)]
struct ByHand(AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

const KIND: &str = "test.filling";

fn open_hooked(options: Options) -> (Arc<Hooked>, Store) {
    let (disk, hooked) = (SimDisk::new(), Arc::new(Hooked::default()));
    let reads = Arc::clone(&hooked);
    disk.before_each_call(move |_, call, name| {
        if call == Call::Read {
            reads.note_read(name);
        }
    });
    let store = Store::open(Arc::new(disk), options, registry().record_kind(KIND)).unwrap();
    (hooked, store)
}

/// E7.1: the rollback at the end of the call has given the page back already; given twice, it would be allocated twice.
#[test]
fn doomed_allocation_is_given_back_once() {
    let clock = Arc::new(ByHand::default());
    let by_hand: Arc<dyn Clock> = clock.clone();
    let limit = Some(Duration::from_secs(10));
    let (disk, store) = open_hooked(Options { txn_time_limit: limit, clock: by_hand, ..options() });
    const PAGES: u64 = 600;
    let region = store.transact(|txn| txn.allocate_region(PAGES)).unwrap();
    for page in 0..PAGES {
        let format = FormatFresh::new(LayoutKind::RAW);
        store.transact(|txn| txn.update(RecordId::page(region.after(page)), &format)).unwrap();
    }
    store.checkpoint().unwrap();
    let mut txn = store.begin();
    let first = txn.allocate().unwrap();
    // The space map leaves the pool.
    store.checkpoint().unwrap();
    (0..2 * PAGES).for_each(|page| drop(store.read(region.after(page % PAGES)).unwrap()));
    let other = store.clone();
    disk.arm("pages", 0, move || {
        clock.0.store(11, Ordering::SeqCst);
        assert_eq!(other.enforce_limits().unwrap(), 0, "its owner is in a call");
    });
    let doomed = txn.allocate();
    assert!(disk.disarm(), "the space map was not read: {doomed:?}");
    assert!(matches!(doomed, Err(Error::TimeLimit { .. })), "{doomed:?}");
    drop(txn);
    let mut taken = HashSet::new();
    for _ in 0..10 {
        let page = store.transact(|txn| txn.allocate()).unwrap();
        assert!(taken.insert(page), "{page} is allocated twice");
    }
    assert!(taken.contains(&first), "nothing is lost either");
    store.check().unwrap();
}

/// E9.1: a checkpoint that panics while it carries a branch forward neither rolls it back nor loses it.
#[test]
fn panic_in_carrying_keeps_the_branch() {
    let mut small = options();
    small.log_limit_bytes = 24 * small.segment_len;
    small.carry_forward_bytes = Some(small.segment_len);
    for reads_before in 0.. {
        let (disk, store) = open_hooked(small.clone());
        let page = store.transact(page_with_zeros).unwrap();
        let freed = store.transact(page_with_zeros).unwrap();
        let words = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(8192) };
        let words = store.memory().create_heap("words", &words).unwrap();
        let mut txn = store.begin();
        for _ in 0..20 {
            txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
            txn.log_record(KIND, &[1; 1500]).unwrap();
        }
        txn.free(freed).unwrap();
        txn.heap(|tx| tx.write(&words, 8, 77)).unwrap();
        let Vote::Prepared(branch) = txn.prepare(b"branch").unwrap() else { panic!("it has changed something") };
        drop(branch);
        for _ in 0..4 * small.segment_len / 2000 {
            let mut txn = store.begin();
            txn.log_record(KIND, &[7; 2000]).unwrap();
            txn.commit(Commit::NoFlush).unwrap();
        }
        disk.arm("log", reads_before, || panic!("the medium panics"));
        let panicked = catch_unwind(AssertUnwindSafe(|| store.checkpoint())).is_err();
        assert_eq!(disk.disarm(), panicked, "a panic was swallowed");
        assert_eq!((store.running(), store.in_doubt().unwrap().len()), (1, 1), "E9.1: panic at read {reads_before}");
        assert!(matches!(words.atomically(|tx| tx.read(&words, 8)), Err(cedrat_heap::Error::InDoubt { .. })), "E9.9");
        assert_eq!(read_number(&store, at(page, 0)).unwrap(), 20);
        store.checkpoint().expect("the next one succeeds");
        let branch = store.prepared(b"branch").unwrap();
        if reads_before % 2 == 0 {
            branch.commit(Commit::Sync).map(drop).unwrap();
            assert_eq!(words.atomically(|tx| tx.read(&words, 8)).unwrap(), 77);
            assert!(store.transact(|txn| txn.free(freed)).is_err(), "it is free");
        } else {
            branch.rollback().unwrap();
            assert_eq!((read_number(&store, at(page, 0)).unwrap(), store.running()), (0, 0));
            store.transact(|txn| txn.free(freed)).expect("it is not free");
        }
        store.check().unwrap();
        if !panicked {
            assert!(reads_before > 5, "it was read {reads_before} times");
            return;
        }
    }
}
