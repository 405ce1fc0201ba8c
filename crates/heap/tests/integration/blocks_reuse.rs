//! Blocks that are freed and reused while other transactions read them: every interleaving that the seeds lead to.

use cedrat_heap::{Commit, Error, Heap, HeapOptions, Interrupt, Memory, MemoryOptions};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, explore, thread};

const WORDS: u64 = 24;

/// A cell that references a block whose words are all equal; the block is replaced repeatedly.
struct Scene {
    heap: Heap,
    cell: u64,
}

fn scene(options: MemoryOptions) -> Scene {
    let memory = Memory::volatile(options).expect("memory");
    let size = 16 << 10;
    let heap = HeapOptions { chunk_len: 4096, size_max: size, ..HeapOptions::new(size) };
    let heap = memory.create_heap("scene", &heap).expect("a heap");
    let cell = heap
        .atomically(|tx| {
            let cell = tx.allocate(&heap, 8)?;
            let block = tx.allocate(&heap, WORDS * 8)?;
            (0..WORDS).try_for_each(|at| tx.write(&heap, block + at * 8, 1))?;
            tx.write(&heap, cell, block)?;
            Ok(cell)
        })
        .expect("a cell and a block");
    Scene { heap, cell }
}

/// Frees the block, then allocates others and stores into them immediately.
fn replace(Scene { heap, cell }: &Scene) {
    let freed = heap.atomically(|tx| {
        let block = tx.read(heap, *cell)?;
        tx.write(heap, *cell, 0)?;
        if block != 0 { tx.free(heap, block) } else { Ok(()) }
    });
    freed.expect("it was allocated");
    let mut session = heap.memory().session().expect("a session");
    for seed in 2..5u64 {
        let filled = session.run(Commit::Sync, |tx| {
            let block = tx.allocate_filled(heap, WORDS * 8)?;
            let mut all = Vec::new();
            (0..WORDS).for_each(|_| all.extend_from_slice(&seed.to_le_bytes()));
            tx.fill(heap, block, &all)?;
            if seed == 3 { Err(Interrupt::abort("as planned")) } else { tx.write(heap, *cell, block) }
        });
        assert!(matches!(filled, Ok(_) | Err(Error::Aborted(_))), "{filled:?}");
    }
}

/// Checks that all words that a transaction sees in the block are equal, during the transaction and not only when it
/// commits.
fn look(Scene { heap, cell }: &Scene) {
    let seen = heap.atomically(|tx| {
        let block = tx.read(heap, *cell)?;
        if block == 0 {
            return Ok(());
        }
        let first = tx.read(heap, block)?;
        for at in 1..WORDS {
            let other = tx.read(heap, block + at * 8)?;
            assert!(first == other && first != 3, "a block of {first} has a {other}");
        }
        Ok(())
    });
    seen.expect("reading");
}

fn meet(options: MemoryOptions) {
    let scene = Arc::new(scene(options));
    let other = Arc::clone(&scene);
    let reader = thread::spawn(move || (0..3).for_each(|_| look(&other)));
    replace(&scene);
    reader.join().expect("the reader saw what it should");
}

#[test]
fn reused_block_shows_no_old_reader() {
    explore(11, 400, || meet(MemoryOptions { stripes_log2: 6, ..MemoryOptions::small() }));
}

#[test]
#[cfg(cedrat_shuttle)]
fn a_block_that_is_used_again_too_early_is_noticed() {
    let fault = Some(cedrat_heap::Fault::ReusedTooEarly);
    let options = MemoryOptions { fault, stripes_log2: 10, ..MemoryOptions::small() };
    let found = std::panic::catch_unwind(|| explore(11, 4000, move || meet(options.clone())));
    assert!(found.is_err(), "the reader never saw another's bytes");
}

/// Threads that allocate and free concurrently never get the same block, and lose none.
fn crowd() {
    let scene = Arc::new(scene(MemoryOptions { stripes_log2: 6, ..MemoryOptions::small() }));
    let live = Arc::new(AtomicU64::new(1));
    let threads: Vec<_> = (0..2u64)
        .map(|thread| {
            let (scene, live) = (Arc::clone(&scene), Arc::clone(&live));
            thread::spawn(move || {
                let heap = &scene.heap;
                let mut session = heap.memory().session().expect("a session");
                let mut own = Vec::new();
                for step in 0..6 {
                    let done = session.run(Commit::Sync, |tx| {
                        let block = tx.allocate(heap, 700)?;
                        tx.write(heap, block + 680, thread)?;
                        let gone = if step % 3 == 2 { own.first().copied() } else { None };
                        gone.map_or(Ok(()), |gone| tx.free(heap, gone))?;
                        if step == 1 { Err(Interrupt::abort("as planned")) } else { Ok((block, gone)) }
                    });
                    let Ok(done) = done else { continue };
                    own.retain(|&block| Some(block) != done.value.1);
                    own.push(done.value.0);
                }
                for &block in &own {
                    let seen = heap.atomically(|tx| tx.read(heap, block + 680)).expect("it is allocated");
                    assert_eq!(seen, thread, "two have the block");
                }
                live.fetch_add(own.len() as u64, Ordering::SeqCst);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let usage = scene.heap.verify().expect("it makes sense");
    assert_eq!(usage.blocks, live.load(Ordering::SeqCst) + 1, "cell and block, and what the threads have");
}

#[test]
fn concurrent_allocations_get_distinct_blocks() {
    explore(12, 300, crowd);
}
