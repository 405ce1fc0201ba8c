//! Undos that use graphs and names, in transactions that the store rolls back (E16.8).
#![cfg(not(cedrat_shuttle))] // one thread, and its watchdog

use std::sync::mpsc;
use std::time::Duration;

use cedrat_media::{Media, SimDisk};
use cedrat_objects::graph::{Graph, Options};
use cedrat_pages::LayoutKind;
use cedrat_structures::Catalogue;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Clock, Commit, FormatFresh, LogicalUndo, RecordId, Result, Store, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::graph_common::{NAME, registry};

#[derive(Debug, Default)]
struct ByHand(AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// An undo that needs a latch which structures hold over whole transactions.
#[derive(Debug, Serialize, Deserialize)]
enum NeedsLatch {
    DefinesClass,
    OpensCatalogue,
}

impl LogicalUndo for NeedsLatch {
    const NAME: &'static str = "test.needs-latch";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let store = txn.store().clone();
        match self {
            NeedsLatch::DefinesClass => {
                Graph::open(&store, NAME, Options::default())?.define_class(b"by an undo").map(drop)
            }
            NeedsLatch::OpensCatalogue => Catalogue::open(&store).map(drop),
        }
    }
}

/// Formats a page in a nested top action.
fn nested(txn: &mut Txn, undo: Undo) -> Result<()> {
    txn.nested((), |txn| {
        let page = txn.allocate()?;
        txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::VERSIONED))?;
        txn.store().enforce_limits()?;
        Ok(((), undo))
    })
}

/// Calls `work` when the rollback of an idle transaction is due at the end of the next transaction of this thread. Returns what
/// `work` does, unless it takes much too long.
fn beside_due_rollback<S, T: Send + 'static>(
    undo: NeedsLatch,
    set_up: impl FnOnce(&Store) -> S + Send + 'static,
    work: impl FnOnce(&Store, S) -> T + Send + 'static,
) -> T {
    let (done, result) = mpsc::channel();
    let running = thread::spawn(move || {
        let (media, clock): (Arc<dyn Media>, _) = (Arc::new(SimDisk::new()), Arc::new(ByHand::default()));
        let txn_time_limit = Some(Duration::from_secs(10));
        let options = cedrat_txn::Options {
            txn_time_limit,
            clock: Arc::<ByHand>::clone(&clock),
            ..cedrat_txn::Options::simulated()
        };
        let store = Store::open(media, options, registry().logical::<NeedsLatch>()).unwrap();
        let set_up = set_up(&store);
        let [mut idle, mut due] = [(); 2].map(|()| store.begin());
        nested(&mut idle, Undo::logical(&undo)).unwrap();
        clock.0.store(11, Ordering::SeqCst);
        nested(&mut due, Undo::none()).unwrap(); // it measures, and leaves the rollback to another call
        let value = work(&store, set_up);
        store.transact(|txn| nested(txn, Undo::none())).unwrap();
        assert!(idle.commit(Commit::Sync).is_err(), "E16.3: the store has rolled it back");
        store.check().unwrap();
        done.send(value).unwrap();
    });
    match result.recv_timeout(Duration::from_secs(30)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(running.join().expect_err("it has sent nothing"))
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("E16.8i: no wait without end"),
    }
}

/// E16.8i: the thread that defines a class does not run the undo, which defines one.
#[test]
fn undo_defines_class_after_definition() {
    let create = |store: &Store| Graph::create(store, NAME, Options::default()).unwrap();
    let defined = beside_due_rollback(NeedsLatch::DefinesClass, create, |store, graph| {
        let number = graph.define_class(b"first").unwrap();
        store.transact(|txn| nested(txn, Undo::none())).unwrap();
        (number, graph.classes())
    });
    assert_eq!(defined, (1, vec![Some(b"first"[..].into()), Some(b"by an undo"[..].into())]));
}

/// E16.8i: the thread that creates the catalogue does not run the undo, which opens it.
#[test]
fn undo_opens_catalogue_after_creation() {
    beside_due_rollback(NeedsLatch::OpensCatalogue, |_| (), |store, ()| drop(Catalogue::open(store).unwrap()));
}
