//! Data that a read-only transaction has acknowledged is not lost (the "null write").

use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::{Arc, explore, thread};
use cedrat_txn::{Commit, FormatFresh, Options, PageLocks, RecordId, Registry, SetRange, Store};

fn open(disk: &Arc<SimDisk>) -> Store {
    let options = Options { pool_bytes: 1 << 20, ..Options::simulated() };
    Store::open(Arc::clone(disk) as _, options, Registry::new()).unwrap()
}

/// The page's LSN is that of the change, not of its commit. A reader waits for the commit too.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn a_synchronous_reader_waits_for_the_commit_of_what_it_read() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk);
    let format = FormatFresh { kind: 1, layout_word: 7 };
    let page = store
        .transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &format)?;
            Ok(page)
        })
        .unwrap();
    let mut writer = store.begin();
    writer.update(RecordId::page(page), &SetRange { offset: 0, bytes: (&[1u8][..]).into() }).unwrap();
    store.log().force(store.log().current_lsn()).unwrap(); // as the cleaner may at any time
    writer.commit(Commit::Async).unwrap();

    let reader = store.begin();
    let seen = reader.read(page).unwrap().slice(0..1).unwrap()[0];
    reader.commit(Commit::Sync).unwrap();
    assert_eq!(seen, 1);
    let store = open(&Arc::new(disk.cut_power(Loss::Everything)));
    let page = store.read(page).unwrap();
    assert_eq!(page.slice(0..1).unwrap()[0], 1, "what a synchronous commit had read is gone");
}

fn pages(store: &Store, count: usize) -> Vec<PageId> {
    let format = FormatFresh { kind: 1, layout_word: 7 };
    let make = |txn: &mut cedrat_txn::Txn| {
        let page = txn.allocate()?;
        txn.update(RecordId::page(page), &format)?;
        Ok(page)
    };
    (0..count).map(|_| store.transact(make).unwrap()).collect()
}

fn set(store: &Store, page: PageId, byte: u8) {
    let mut writer = store.begin();
    writer.update(RecordId::page(page), &SetRange { offset: 0, bytes: (&[byte][..]).into() }).unwrap();
    writer.commit(Commit::Async).unwrap();
}

fn first_byte(store: &Store, page: PageId) -> u8 {
    store.read(page).unwrap().slice(0..1).unwrap()[0]
}

/// Other transactions' commits that are not durable matter to a reader only if it may have read their changes.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn reader_of_durable_pages_forces_nothing() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk);
    let [page, other] = pages(&store, 2)[..] else { unreachable!() };
    store.log().force(store.log().current_lsn()).unwrap();
    for round in 0..50 {
        set(&store, other, round);
        let durable = store.log().durable_lsn();
        assert!(durable < store.log().current_lsn(), "a commit waits to be written");
        let calls = disk.journal().len();
        let reader = store.begin();
        reader.read(page).unwrap();
        reader.commit(Commit::Sync).unwrap();
        assert_eq!(disk.journal().len(), calls, "E10.9: a reader of other pages wrote");
        assert_eq!(store.log().durable_lsn(), durable, "E10.9: a reader of other pages forced the log");
    }
    let reader = store.begin();
    reader.read(other).unwrap();
    reader.commit(Commit::Sync).unwrap();
    assert_eq!(store.log().durable_lsn(), store.log().current_lsn(), "E10.9: its writer's commit is durable");
}

/// Writers that began before the pages were read, and writers that committed in one group with the page's writer.
#[test]
fn reader_waits_for_writers_of_its_pages() {
    explore(43, 250, || {
        let disk = Arc::new(SimDisk::new());
        let options = Options { pool_bytes: 1 << 20, locks: Arc::new(PageLocks::default()), ..Options::simulated() };
        let store = Store::open(Arc::clone(&disk) as _, options, Registry::new()).unwrap();
        let pages = Arc::new(pages(&store, 2));
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (store, pages) = (store.clone(), Arc::clone(&pages));
                thread::spawn(move || {
                    (0..2).for_each(|n| set(&store, pages[(writer + n) % 2], (1 + writer * 2 + n) as u8))
                })
            })
            .collect();
        for round in 0..4 {
            let page = pages[round % 2];
            let mut seen = 0;
            let reader = store.begin();
            seen += reader.read(page).unwrap().slice(0..1).unwrap()[0];
            reader.commit(Commit::Sync).unwrap();
            let journal = disk.journal();
            let image = Arc::new(journal.crash(journal.len(), Loss::Everything));
            let after = open(&image);
            let kept = first_byte(&after, page);
            // A newer value may be durable too, but never none.
            assert!(seen == 0 || kept != 0, "E10.9: {seen} was read and acknowledged, {kept} was kept");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}
