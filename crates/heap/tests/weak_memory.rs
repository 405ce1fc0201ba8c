//! Stripes, versions and snapshots, where loads return any value that the memory model allows: `./x test` runs this under
//! Miri.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))] // interleavings: heap_shuttle.rs of cedrat-check

use cedrat_heap::{Commit, Heap, HeapOptions, Locking, Memory, MemoryOptions};
use cedrat_sync::thread;

const SUM: u64 = 1000;

fn heap_of(locking: Locking) -> Heap {
    let memory = Memory::volatile(MemoryOptions { locking, ..MemoryOptions::small() }).expect("memory");
    let options = HeapOptions { chunk_len: 16 << 10, size_max: 16 << 10, ..HeapOptions::raw(16 << 10) };
    let heap = memory.create_heap("heap", &options).expect("memory");
    heap.atomically(|tx| tx.write(&heap, 0, SUM)).expect("room");
    heap
}

/// E10.2: a transaction that does not commit sees one state as well.
#[test]
fn transactions_see_one_state_of_words() {
    for locking in [Locking::CommitTime, Locking::EncounterTime] {
        let heap = heap_of(locking);
        // On stripes of their own.
        let (from, to) = (0, 4096);
        let moves = || {
            let mut session = heap.memory().session().expect("a place");
            for _ in 0..2 {
                let moved = session.run(Commit::Async, |tx| {
                    tx.update(&heap, from, |value| value - 1)?;
                    tx.update(&heap, to, |value| value + 1).map(drop)
                });
                moved.expect("no log to fill");
            }
        };
        let looks = || {
            for _ in 0..3 {
                let looked = heap.atomically(|tx| {
                    let one = tx.read(&heap, to)?;
                    assert_eq!(one + tx.read(&heap, from)?, SUM);
                    Ok(one)
                });
                looked.expect("no log to fill");
            }
        };
        thread::scope(|scope| {
            scope.spawn(moves);
            scope.spawn(moves);
            scope.spawn(looks);
        });
        let moved = heap.atomically(|tx| tx.read(&heap, to)).expect("no log to fill");
        assert_eq!(moved, 4);
    }
}

/// H7: sessions that open and close beside one another, so that each is the only one now and then.
#[test]
fn sessions_that_open_lose_no_update() {
    let heap = heap_of(Locking::CommitTime);
    let adds = || {
        for _ in 0..3 {
            heap.atomically(|tx| tx.update(&heap, 0, |value| value + 1)).expect("no log to fill");
        }
    };
    thread::scope(|scope| {
        scope.spawn(adds);
        scope.spawn(adds);
    });
    assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("no log to fill"), SUM + 6);
}
