//! Spans of which all blocks are free again, in a heap that has no other space left.
#![cfg(not(cedrat_shuttle))]

use cedrat_heap::{Commit, Error, Heap, HeapOptions, Held, Locking, Memory, MemoryOptions};

/// Returns a heap that blocks of 100 bytes have filled, all of which are free again.
fn emptied(options: MemoryOptions) -> Heap {
    let memory = Memory::volatile(options).expect("memory");
    let options = HeapOptions { chunk_len: 4096, size_max: 1 << 20, ..HeapOptions::new(1 << 20) };
    let heap = memory.create_heap("heap", &options).expect("a heap");
    // A span in which more blocks of this size can be carved.
    heap.atomically(|tx| tx.allocate(&heap, 16)).expect("there is space");
    let mut blocks = Vec::new();
    let full = loop {
        match heap.atomically(|tx| tx.allocate(&heap, 100)) {
            Ok(block) => blocks.push(block),
            Err(full) => break full,
        }
    };
    assert!(matches!(full, Error::HeapFull { .. }), "{full}");
    for &block in &blocks {
        heap.atomically(|tx| tx.free(&heap, block)).expect("it is allocated");
    }
    heap
}

/// E17.7: a transaction that locks a word of the table hides no span from itself, however few stripes there are.
#[test]
fn own_early_lock_hides_no_span() {
    for stripes_log2 in [4, 8, 18] {
        let heap = emptied(MemoryOptions { locking: Locking::EncounterTime, stripes_log2, ..MemoryOptions::small() });
        let allocated = heap.atomically(|tx| {
            for _ in 0..68 {
                tx.allocate(&heap, 16)?; // some are carved
            }
            tx.allocate(&heap, 9000)
        });
        allocated.expect("nearly all of the heap is free");
    }
}

/// E17.7.
#[test]
fn other_lock_hides_no_other_span() {
    let heap = emptied(MemoryOptions { locking: Locking::EncounterTime, stripes_log2: 18, ..MemoryOptions::small() });
    let held = || Held::new(heap.memory()).expect("a session");
    let (mut carving, mut other) = (held(), held());
    carving.begin().unwrap();
    carving.run(|tx| (0..68).try_for_each(|_| tx.allocate(&heap, 16).map(drop))).expect("nothing else is locked");
    other.begin().unwrap();
    other.run(|tx| tx.allocate(&heap, 9000)).expect("nearly all of the heap is free");
}

/// E17.7: where each session is in use, the one that allocates clears the spans.
#[test]
fn last_session_finds_emptied_spans() {
    for locking in [Locking::CommitTime, Locking::EncounterTime] {
        let heap = emptied(MemoryOptions { locking, sessions_max: 1, ..MemoryOptions::small() });
        heap.atomically(|tx| tx.allocate(&heap, 9000)).expect("nearly all of the heap is free");
        heap.verify().expect("it is sound");
    }
}

/// E17.7a: a lock ends an allocation for which no session is left, as it ends any other one.
#[test]
fn last_session_reports_foreign_lock() {
    let (locking, stripes_log2, stripe_words_log2) = (Locking::EncounterTime, 4, 12);
    let options = MemoryOptions { locking, stripes_log2, stripe_words_log2, sessions_max: 2, ..MemoryOptions::small() };
    let heap = emptied(options);
    let mut held = Held::new(heap.memory()).expect("a session");
    held.begin().expect("none runs");
    // Its lock covers the table.
    held.run(|tx| tx.write(&heap, heap.first_offset(), 1)).expect("no other transaction runs");
    let (mut attempts, mut session) = (0, heap.memory().session().expect("the last one"));
    let refused = session.run(Commit::Async, |tx| {
        attempts += 1;
        assert!(attempts < 1000, "E17.7a: no wait without end");
        tx.allocate(&heap, 9000)
    });
    assert!(matches!(refused, Err(Error::Misuse(_))), "E17.7a: {refused:?}");
    held.abort();
    session.run(Commit::Async, |tx| tx.allocate(&heap, 9000)).expect("nearly all of the heap is free");
}
