//! Cost of allocation, and of the structures built on it: nanoseconds, and operations per second.

use std::time::Instant;

use cedrat_heap::{Commit, Heap, HeapCounter, HeapMap, HeapOptions, HeapOrderedMap, Memory, MemoryOptions, Result};

/// Runs `work` repeatedly in each of several threads; prints the time of one run.
fn measure(
    what: &str,
    threads: u64,
    times: u64,
    work: impl Fn(&mut cedrat_heap::Session, u64, u64) + Sync,
    heap: &Heap,
) {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || {
                let mut session = heap.memory().session().expect("a session");
                (0..times).for_each(|at| work(&mut session, thread, at));
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    let each = seconds / times as f64;
    println!("{what:<34} {threads} threads {:8.0} ns {:8.2} M/s", each * 1e9, (threads * times) as f64 / seconds / 1e6);
}

fn scattered(thread: u64, at: u64) -> u64 {
    (at * 2 + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn main() -> Result<()> {
    let times: u64 = std::env::args().nth(1).map_or(400_000, |arg| arg.parse().expect("a number"));
    for threads in [1, 2] {
        let memory = Memory::volatile(MemoryOptions::default())?;
        let heap = memory.create_heap("blocks", &HeapOptions::new(1 << 30))?;
        let none = |session: &mut cedrat_heap::Session, _: u64, _: u64| {
            session.run(Commit::Async, |tx| tx.allocate(&heap, 0).map(drop)).expect("room");
        };
        measure("allocate", threads, times, none, &heap);
        let both = |session: &mut cedrat_heap::Session, _: u64, _: u64| {
            let block = session.run(Commit::Async, |tx| tx.allocate(&heap, 56)).expect("room").value;
            session.run(Commit::Async, |tx| tx.free(&heap, block)).expect("it is allocated");
        };
        measure("allocate, free: two transactions", threads, times, both, &heap);
        let counter = HeapCounter::open(&heap, "counter")?;
        let count = |session: &mut cedrat_heap::Session, _: u64, _: u64| {
            session.run(Commit::Async, |tx| counter.add(tx, 1)).expect("counting");
        };
        measure("counter: add", threads, times, count, &heap);
        maps(&heap, threads, times)?;
        println!("conflicts {}", memory.counted().conflicts);
    }
    Ok(())
}

fn maps(heap: &Heap, threads: u64, times: u64) -> Result<()> {
    let map: HeapMap<u64, u64> = HeapMap::open(heap, "map")?;
    let insert = |session: &mut cedrat_heap::Session, thread: u64, at: u64| {
        session.run(Commit::Async, |tx| map.insert(tx, scattered(thread, at), at)).expect("room");
    };
    measure("map: insert", threads, times, insert, heap);
    let get = |session: &mut cedrat_heap::Session, thread: u64, at: u64| {
        let found = session.run(Commit::Async, |tx| map.get(tx, &scattered(thread, at))).expect("reading");
        assert_eq!(found.value, Some(at));
    };
    measure("map: get", threads, times, get, heap);
    let ordered: HeapOrderedMap<u64, u64> = HeapOrderedMap::open(heap, "ordered")?;
    let insert = |session: &mut cedrat_heap::Session, thread: u64, at: u64| {
        session.run(Commit::Async, |tx| ordered.insert(tx, scattered(thread, at), at)).expect("room");
    };
    measure("ordered map: insert", threads, times, insert, heap);
    let get = |session: &mut cedrat_heap::Session, thread: u64, at: u64| {
        let found = session.run(Commit::Async, |tx| ordered.get(tx, &scattered(thread, at))).expect("reading");
        assert_eq!(found.value, Some(at));
    };
    measure("ordered map: get", threads, times, get, heap);
    Ok(())
}
