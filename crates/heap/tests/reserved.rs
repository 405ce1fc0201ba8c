//! Address space that is reserved for a heap costs no memory before its use. Alone in this file: it measures the memory of
//! the whole process.
#![cfg(all(not(cedrat_shuttle), target_os = "linux"))]

use cedrat_heap::{HeapOptions, Memory, MemoryOptions};

/// Returns the resident memory of the process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("the system tells");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

#[test]
fn room_to_grow_costs_no_memory() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let before = resident();
    // For 2 TiB, a span has 64 KiB, and a chunk the minimum length: tables of 32 million and of 512 million entries.
    let options = HeapOptions { size_max: 2 << 40, chunk_len: 4096, ..HeapOptions::new(1 << 30) };
    let heap = memory.create_heap("large one day", &options).expect("a heap");
    let block = heap.atomically(|tx| tx.allocate(&heap, 100_000)).expect("room");
    heap.atomically(|tx| tx.write(&heap, block, 1)).expect("a write");
    let taken = resident() - before;
    assert!(taken < 16 << 20, "{taken} bytes");
    heap.atomically(|tx| tx.free(&heap, block)).expect("it is there");
}
