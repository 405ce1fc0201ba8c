//! Many openings, each ended by a crash: the table of epochs has a limit, and only checkpoints shorten it.

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, Media, SimDisk};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Options, Registry, Store, Txn, Vote};
use cedrat_wal::{ByteLen, Kind, Log, LogOptions, PartitionId, Position, RecordHead, TxnId};

use crate::common::*;

/// Registers names that leave little of the control file to epochs.
fn known() -> Registry {
    let names = (0..232).map(|number| -> &'static str { format!("{number:0>250}").leak() });
    names.fold(registry(), |registry, name| registry.record_kind(name))
}

/// Appends a record that is kept, one that is lost with the power, and behind it one that is dead.
fn leave_dead_number(log: &Log) {
    let mut room = log.reserve(ByteLen(1000), ByteLen(0)).unwrap();
    let mut append = |partition| {
        let head = RecordHead::new(Kind::VOID, TxnId::NONE, None);
        let placed = log.append(PartitionId(partition), head, &[], &mut room);
        (placed.lsn, Position { partition: PartitionId(partition), offset: placed.offset })
    };
    let (kept, _) = append(0);
    log.force(kept).unwrap();
    append(1);
    let (_, dead) = append(0);
    log.force_partition(dead).unwrap();
}

/// E1.7a: a branch that is in doubt over all openings holds little of the log, but all of their epochs.
#[test]
fn branch_does_not_fill_epoch_table() {
    const LIVES: usize = 400;
    /// Openings of the log alone are cheaper, and fill the table as well.
    const OF_STORE: usize = 40;
    let registry = known();
    let options = Options { partitions: 2, checkpoint_when_opened: false, ..options() };
    let mut disk = Arc::new(SimDisk::new());
    let open = |disk: &Arc<SimDisk>| -> Store {
        let media: Arc<dyn Media> = disk.clone();
        Store::open(media, options.clone(), registry.clone()).unwrap()
    };
    let store = open(&disk);
    let page = store.transact(page_with_zeros).unwrap();
    let add = |txn: &mut Txn| txn.update(at(page, 0), &Add { amount: 1 });
    let mut branch = store.begin();
    add(&mut branch).unwrap();
    assert!(matches!(branch.prepare(b"branch").unwrap(), Vote::Prepared(_)));
    drop(store);
    for life in 0..LIVES {
        if life % OF_STORE == 0 {
            drop(open(&disk));
        }
        let media: Arc<dyn Media> = disk.clone();
        let log = Log::look(&media).unwrap().begin(&[], &LogOptions::small()).unwrap();
        leave_dead_number(&log);
        disk = Arc::new(SimDisk::from_image(disk.cut_power(Loss::Everything).image()));
    }
    let store = open(&disk);
    store.prepared(b"branch").unwrap().commit(Commit::Sync).unwrap();
    assert_eq!(read_number(&store, at(page, 0)).unwrap(), 1, "E9.1");
}

/// E4.5: an opening that has only heap words to recover ends with a checkpoint as well. Otherwise the log grows from
/// crash to crash until it is full.
#[test]
fn replayed_words_cause_checkpoint() {
    let disk = Arc::new(SimDisk::new());
    let open = |disk: &Arc<SimDisk>| -> Store {
        let media: Arc<dyn Media> = disk.clone();
        Store::open(media, Options { background: true, ..options() }, registry()).unwrap()
    };
    let store = open(&disk);
    let heap = store.memory().create_heap("words", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) }).unwrap();
    heap.atomically(|tx| tx.write(&heap, 0, 1)).unwrap();
    let store = open(&Arc::new(disk.cut_power(Loss::Everything)));
    assert_eq!(store.recovery().heap_words, 1);
    let end = store.recovery().end;
    // Without end, if it takes none.
    while store.log().control().checkpoint.scan_lsn < end {
        thread::yield_now();
    }
}
