//! A store on a simulated disk, and shared helpers of the tests of all structures.

#![cfg_attr(cedrat_shuttle, allow(dead_code, reason = "most tests are not there"))]

use cedrat_media::{Media, SimDisk};
use cedrat_structures::{Catalogue, Checked, check_named, register};
use cedrat_sync::Arc;
use cedrat_txn::{LockManager, NoLocks, Options, Registry, Store, Txn};

pub(crate) use crate::random::*;

pub(crate) fn media(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(disk.clone())
}

/// A disk, and the store on it.
pub(crate) struct Bench {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) store: Option<Store>,
    locks: Arc<dyn LockManager>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with(Arc::new(NoLocks))
    }

    pub(crate) fn with(locks: Arc<dyn LockManager>) -> Bench {
        let mut bench = Bench { disk: Arc::new(SimDisk::new()), store: None, locks };
        bench.open();
        bench
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is open")
    }

    fn open(&mut self) {
        let options = Options { locks: Arc::clone(&self.locks), ..Options::simulated() };
        self.store = Some(open_with(&self.disk, options));
    }

    /// Closes the store without a checkpoint, and recovers it from the disk.
    pub(crate) fn reopen(&mut self) {
        self.store = None;
        self.open();
    }
}

/// Opens the store on `disk`.
pub(crate) fn open_with(disk: &Arc<SimDisk>, options: Options) -> Store {
    let media: Arc<dyn Media> = Arc::clone(disk) as Arc<dyn Media>;
    Store::open(media, options, Registry::new().with(register)).expect("the store opens")
}

/// Opens the store on `disk`, without locks.
pub(crate) fn open(disk: &Arc<SimDisk>) -> Store {
    open_with(disk, Options { locks: Arc::new(NoLocks), ..Options::simulated() })
}

/// Verifies the catalogue, every structure that has a name, and that no page belongs to two of them.
pub(crate) fn check_all(store: &Store) {
    let mut txn = store.begin();
    let catalogue = Catalogue::open(store).expect("there is a catalogue");
    let mut all = vec![("the catalogue".to_owned(), catalogue.check(&txn).unwrap())];
    for named in catalogue.list(&mut txn).unwrap() {
        if let Some(checked) = check_named(&txn, &named).unwrap() {
            all.push((named.name, checked));
        }
    }
    let mut owners = std::collections::HashMap::new();
    for (name, Checked { pages, problems, .. }) in all {
        assert!(problems.is_empty(), "{name}: {}", problems.join("; "));
        for page in pages {
            let other = owners.insert(page, name.clone());
            assert_eq!(other, None, "page {page} belongs to {name} too");
        }
    }
    txn.commit(cedrat_txn::Commit::NoFlush).unwrap();
}

/// Runs `work` in a transaction that is rolled back.
pub(crate) fn in_vain<T>(store: &Store, work: impl FnOnce(&mut Txn) -> T) -> T {
    let mut txn = store.begin();
    let value = work(&mut txn);
    txn.rollback().expect("a rollback cannot fail");
    value
}
