//! Log room of sessions that do nothing.

use cedrat_heap::{Commit, HeapOptions, MemoryOptions};
use cedrat_media::{Media, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{Options, Registry, Store};

/// Sessions that have committed once, and live on without doing anything, must not keep the log from others.
#[test]
fn idle_sessions_leave_room_in_log() {
    let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
    let memory = MemoryOptions { sessions_max: 1000, ..MemoryOptions::small() };
    let options = Options { log_limit_bytes: 1 << 20, background: false, memory, ..Options::simulated() };
    let store = Store::open(disk, options, Registry::new()).unwrap();
    let heap =
        store.memory().create_heap("heap", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(1 << 16) }).unwrap();
    let mut idle = Vec::new();
    for number in 0..400 {
        let mut session = heap.memory().session().unwrap();
        if let Err(error) = session.run(Commit::Async, |tx| tx.write(&heap, 8 * number, 1)) {
            panic!("session {number}: {error}; {:?}", store.log().space());
        }
        idle.push(session);
    }
    store.checkpoint().unwrap();
    // A transaction with more to log.
    let large =
        heap.memory().run(Commit::Sync, |tx| (0..4000).try_for_each(|word| tx.write(&heap, 16 * (word % 4000), word)));
    assert!(large.is_ok(), "{:?}; {:?}", large.err(), store.log().space());
}
