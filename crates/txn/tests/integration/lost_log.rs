//! Pages that were written under the protection of a log are not trusted when that log is gone.

use cedrat_media::{Damage, Loss, SimDisk};
use cedrat_pages::WriteBack;
use cedrat_sync::Arc;
use cedrat_txn::{Error, FormatFresh, OpenError, Options, RecordId, Registry, SetRange, Store};
use cedrat_wal::{LogError, Lsn, PartitionId};

fn open(disk: &Arc<SimDisk>) -> Result<Store, OpenError> {
    Store::open(Arc::clone(disk) as _, Options { pool_bytes: 1 << 20, ..Options::simulated() }, Registry::new())
}

/// No later block promises the newest block of the log. Pages that were stolen after it was forced promise it instead:
/// if the block is damaged, it is no torn tail (E20.5).
#[test]
fn stolen_page_requires_its_log() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let format = FormatFresh { kind: 1, layout_word: 7 };
    let page = store.transact(|txn| {
        let page = txn.allocate()?;
        txn.update(RecordId::page(page), &format)?;
        Ok(page)
    });
    store.checkpoint().unwrap();
    let mut txn = store.begin();
    let bytes = (&[1u8; 8][..]).into();
    txn.update(RecordId::page(page.unwrap()), &SetRange { offset: 0, bytes }).unwrap();
    store.pool().write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    let newest_block = store.log().flushed(PartitionId(0)).get();
    let whole = disk.cut_power(Loss::Everything);
    let damaged = Arc::new(SimDisk::from_image(whole.image()));
    damaged.corrupt("log/000000", newest_block + 10, Damage::Flip { bit: 0 }).unwrap();

    open(&Arc::new(whole)).expect("undamaged, the log undoes what was stolen");
    match open(&damaged).map(|_| ()) {
        Err(OpenError::Failed(Error::Log(LogError::Damaged { file, what, .. }))) => {
            assert!(file.contains("log/") && what.contains("pages went home"), "{file}: {what}");
        }
        other => panic!("a page is newer than its log, and the store says {other:?}"),
    }
}
