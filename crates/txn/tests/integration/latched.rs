//! Transactions that run within a nested top action of another one, whose latches the thread holds.

use cedrat_media::{Media, SimDisk};
use cedrat_pages::{LatchRank, PageId, StructureLatch};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::{Commit, Error, LogicalUndo, Options, Registry, Result, Store, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::common::*;

const KIND: &str = "test.note";

/// The latch of the structure that the undo changes.
static LATCH: Mutex<Option<Arc<StructureLatch>>> = Mutex::new(None);

/// An undo that latches its structure.
#[derive(Debug, Serialize, Deserialize)]
struct UnderLatch(u64);

impl LogicalUndo for UnderLatch {
    const NAME: &'static str = "test.under-latch";

    fn undo(&self, txn: &mut Txn) -> Result<()> {
        let latch = LATCH.lock().clone().expect("a structure");
        let page = PageId::new(self.0);
        txn.nested(latch.exclusive_owned(), |txn| {
            txn.update(at(page, 0), &Add { amount: -1 })?;
            Ok(((), Undo::none()))
        })
    }
}

fn add_under_latch(txn: &mut Txn, latch: &Arc<StructureLatch>, page: PageId) -> Result<()> {
    txn.nested(latch.exclusive_owned(), |txn| {
        txn.update(at(page, 0), &Add { amount: 1 })?;
        Ok(((), Undo::logical(&UnderLatch(page.get()))))
    })
}

/// Writes until `is_enough`, in transactions of their own.
fn write(store: &Store, mut is_enough: impl FnMut() -> bool) -> Result<()> {
    while !is_enough() {
        store.transact(|txn| txn.log_record(KIND, &[7; 2000]))?;
    }
    Ok(())
}

/// E16.8g: the rollback of an idle transaction is due, and its undo needs a latch of the thread that would roll it back, which waits
/// without end (and panics, where latches are checked).
#[test]
fn thread_with_latches_rolls_nothing_back() {
    let limits = [(Some(4 << 10), 64 << 10), (Some(u64::MAX), u64::MAX)];
    for (txn_log_limit_bytes, enough) in limits {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let known: Registry = registry().record_kind(KIND).logical::<UnderLatch>();
        let store = Store::open(media, Options { txn_log_limit_bytes, ..options() }, known).unwrap();
        let [one, two] = [(); 2].map(|()| store.transact(page_with_zeros).unwrap());
        let latch = Arc::new(StructureLatch::new(LatchRank(1)));
        *LATCH.lock() = Some(Arc::clone(&latch));
        let mut idle = store.begin();
        add_under_latch(&mut idle, &latch, one).unwrap();
        let mut outer = store.begin();
        let mut written = 0;
        let is_enough = || {
            written += 2000;
            written > enough
        };
        let done = outer.nested(latch.exclusive_owned(), |txn| {
            write(&store, is_enough)?;
            txn.update(at(two, 0), &Add { amount: 1 })?;
            Ok(((), Undo::none()))
        });
        assert!(matches!(done, Ok(()) | Err(Error::LogFull { .. })), "{done:?}");
        drop(outer.commit(Commit::Sync));
        // The next thread without latches does it.
        let mut more = 0;
        write(&store, || {
            more += 1;
            more > 10
        })
        .unwrap();
        assert!(matches!(idle.commit(Commit::Sync), Err(Error::PinsLog { .. })), "E16.3");
        assert_eq!(read_number(&store, at(one, 0)).unwrap(), 0);
    }
}
