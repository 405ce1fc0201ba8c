//! What a transaction that only read has told the world is not lost (the "null write").

use cedrat_media::{Loss, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, FormatFresh, Options, RecordId, Registry, SetRange, Store};

fn open(disk: &Arc<SimDisk>) -> Store {
    let options = Options { pool_bytes: 1 << 20, ..Options::simulated() };
    Store::open(Arc::clone(disk) as _, options, Registry::new()).unwrap()
}

/// The page says when it was changed, not when whoever changed it committed. A reader waits for the commit too.
#[test]
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
