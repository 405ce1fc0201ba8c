//! Concurrent creation, growth and removal of heaps.

use cedrat_heap::{Error, HeapOptions};
use cedrat_media::{Loss, Media, SimDisk};
use cedrat_sync::{Arc, explore, thread};
use cedrat_txn::{Options, Registry, Store};

fn open(disk: &Arc<SimDisk>) -> Store {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, Options::simulated(), Registry::new()).expect("the store opens")
}

/// Grows and drops a heap concurrently: the second call finds it larger, or gone.
fn meet() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk);
    let memory = store.memory();
    let options = HeapOptions { chunk_len: 4096, size_max: 64 << 10, ..HeapOptions::raw(4096) };
    // Under the seeded scheduler each schedule is another interleaving.
    for _ in 0..if cfg!(cedrat_shuttle) { 1 } else { 100 } {
        memory.create_heap("heap", &options).expect("no heap has the name");
        let other = memory.clone();
        let growing = thread::spawn(move || other.grow_heap("heap", 8192));
        memory.drop_heap("heap").expect("no other thread drops it");
        let grown = growing.join().expect("no panic");
        assert!(matches!(grown, Ok(()) | Err(Error::Unknown { .. })), "{grown:?}");
        assert!(memory.heap("heap").is_err());
    }
    drop((memory, store));
    assert_eq!(open(&Arc::new(disk.cut_power(Loss::Everything))).memory().heaps().len(), 0);
}

#[test]
fn growing_a_heap_meets_its_end() {
    explore(7, 300, meet);
}

#[test]
fn checkpoints_of_heaps_are_counted() {
    explore(8, 1, || {
        let store = open(&Arc::new(SimDisk::new()));
        let memory = store.memory();
        let heap = memory.create_heap("heap", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) }).unwrap();
        for count in 0..3 {
            assert_eq!(memory.counted().checkpoints, count);
            heap.atomically(|tx| tx.write(&heap, 0, count)).unwrap();
            store.checkpoint().unwrap();
        }
    });
}
