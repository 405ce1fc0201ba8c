//! Blocks against a model, by several threads.
#![cfg(not(cedrat_shuttle))]

use std::collections::BTreeMap;

use cedrat_heap::{Commit, Error, Heap, HeapOptions, Held, Interrupt, Locking, Memory, MemoryOptions, Tx};
use cedrat_sync::{Mutex, thread};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Mostly short lengths, sometimes several spans.
    fn len(&mut self) -> u64 {
        let longest = [40, 200, 3000, 20_000][(self.below(20) as usize).saturating_sub(16)];
        self.below(longest)
    }
}

/// Expected state of a live block.
#[derive(Clone, Copy, Debug)]
struct Block {
    offset: u64,
    len: u64,
    seed: u8,
}

impl Block {
    fn bytes(&self) -> Vec<u8> {
        (0..self.len).map(|at| self.seed.wrapping_add(at as u8)).collect()
    }

    fn check(&self, tx: &mut Tx<'_>, heap: &Heap) -> Result<(), Interrupt> {
        let mut bytes = vec![0; self.len as usize];
        tx.read_bytes(heap, self.offset, &mut bytes)?;
        assert_eq!(tx.block_len(heap, self.offset)?, self.len);
        assert!(bytes == self.bytes(), "{self:?} has other bytes");
        Ok(())
    }
}

fn allocate(tx: &mut Tx<'_>, heap: &Heap, random: &mut Random) -> Result<Block, Interrupt> {
    let (len, seed, filled) = (random.len(), random.next() as u8, random.below(3) == 0);
    let offset = if filled { tx.allocate_filled(heap, len)? } else { tx.allocate(heap, len)? };
    assert_eq!(offset % 16, 0);
    let block = Block { offset, len, seed };
    if filled {
        tx.fill(heap, offset, &block.bytes())?;
    } else {
        tx.write_bytes(heap, offset, &block.bytes())?;
    }
    Ok(block)
}

/// Runs one transaction of a few allocations, frees and reads; sometimes all or part of it is rolled back.
fn work(
    tx: &mut Tx<'_>,
    heap: &Heap,
    random: &mut Random,
    live: &[Block],
) -> Result<(Vec<Block>, Vec<usize>), Interrupt> {
    let (mut new, mut gone) = (Vec::new(), Vec::new());
    let mut kept = None;
    for _ in 0..=random.below(12) {
        let any = if live.is_empty() { 0 } else { random.below(live.len() as u64) as usize };
        match random.below(if live.len() > 300 { 12 } else { 8 }) {
            0..4 => new.push(allocate(tx, heap, random)?),
            4 if kept.is_none() => kept = Some((tx.savepoint(), new.len(), gone.len())),
            _ if any < live.len() && !gone.contains(&any) => {
                live[any].check(tx, heap)?;
                tx.free(heap, live[any].offset)?;
                gone.push(any);
            }
            _ => {}
        }
    }
    if let Some((savepoint, news, gones)) = kept
        && random.below(2) == 0
    {
        tx.back_to(savepoint)?;
        new.truncate(news);
        gone.truncate(gones);
    }
    new.iter().try_for_each(|block| block.check(tx, heap))?;
    if random.below(6) == 0 { Err(Interrupt::abort("as planned")) } else { Ok((new, gone)) }
}

/// Checks that blocks do not overlap, contain their bytes, and are the only ones.
fn compare(heap: &Heap, live: &[Block]) {
    let mut by_offset = BTreeMap::new();
    let seen = |offset: u64, len: u64, _: u64| {
        by_offset.insert(offset, len);
    };
    heap.each_block(seen).expect("a walk");
    let expected: BTreeMap<u64, u64> = live.iter().map(|block| (block.offset, block.len)).collect();
    assert_eq!(by_offset, expected);
    let mut end = heap.first_offset();
    for (&offset, &len) in &by_offset {
        assert!(offset >= end && offset + len <= heap.size(), "blocks overlap at {offset}");
        end = offset + len;
    }
    let usage = heap.verify().expect("an account that makes sense");
    assert_eq!(usage.bytes, live.iter().map(|block| block.len).sum::<u64>());
    assert_eq!(usage.blocks, live.len() as u64);
    heap.atomically(|tx| live.iter().try_for_each(|block| block.check(tx, heap))).expect("reading");
}

fn random_threads(locking: Locking, size: u64, rounds: u64, seed: u64) {
    let options = MemoryOptions { locking, stripes_log2: 12, ..MemoryOptions::small() };
    let memory = Memory::volatile(options).expect("memory");
    let chunk_len = 4096;
    let heap = HeapOptions { size_max: size, chunk_len, ..HeapOptions::new(size) };
    let heap = memory.create_heap("blocks", &heap).expect("a heap");
    let passed_on = Mutex::new(Vec::new());
    let live: Vec<Block> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (memory, heap, passed_on) = (&memory, &heap, &passed_on);
                scope.spawn(move || run(memory, heap, passed_on, rounds, seed * 3 + thread))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let live: Vec<Block> = live.into_iter().chain(passed_on.into_inner()).collect();
    compare(&heap, &live);
    for some in live.chunks(100) {
        heap.atomically(|tx| some.iter().try_for_each(|block| tx.free(&heap, block.offset))).expect("freeing");
    }
    assert_eq!(heap.allocated_bytes().unwrap(), 0);
    let all = heap.size() - heap.first_offset() - 16;
    let one = heap.atomically(|tx| tx.allocate(&heap, all)).expect("everything that was freed is one block");
    assert!(matches!(heap.atomically(|tx| tx.allocate(&heap, 1)), Err(Error::HeapFull { .. })));
    heap.atomically(|tx| tx.free(&heap, one)).unwrap();
    let mut small = Vec::new();
    while let Ok(block) = heap.atomically(|tx| tx.allocate(&heap, 1000)) {
        small.push(block);
    }
    assert!(small.len() as u64 * 1000 > all / 4 * 3, "{} blocks of 1000 bytes in {all}", small.len());
}

fn run(memory: &Memory, heap: &Heap, passed_on: &Mutex<Vec<Block>>, rounds: u64, seed: u64) -> Vec<Block> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut session = memory.session().expect("a session");
    let mut live: Vec<Block> = Vec::new();
    for round in 0..rounds {
        match session.run(Commit::Sync, |tx| work(tx, heap, &mut random, &live)) {
            Ok(done) => {
                let (new, mut gone) = done.value;
                gone.sort_unstable();
                gone.into_iter().rev().for_each(|at| {
                    live.swap_remove(at);
                });
                live.extend(new);
            }
            Err(Error::Aborted(_) | Error::HeapFull { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        if round % 8 == 0 {
            // Blocks are freed by other threads than the ones that allocated them.
            let mut passed_on = passed_on.lock();
            let some = live.len() / 3;
            let given: Vec<Block> = live.drain(..some).collect();
            live.extend(passed_on.drain(..));
            passed_on.extend(given);
        }
        if round % 64 == 0 {
            thread::yield_now();
        }
    }
    live
}

#[test]
fn blocks_survive_random_concurrent_transactions() {
    for seed in 1..4 {
        random_threads(Locking::CommitTime, 4 << 20, 3000, seed);
        random_threads(Locking::EncounterTime, 4 << 20, 3000, seed + 10);
    }
}

#[test]
fn random_transactions_in_nearly_full_heap() {
    for seed in 1..4 {
        random_threads(Locking::CommitTime, 128 << 10, 4000, seed + 20);
        random_threads(Locking::CommitTime, 32 << 10, 4000, seed + 30);
    }
}

fn small_heap() -> Heap {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    memory.create_heap("blocks", &HeapOptions { chunk_len: 4096, ..HeapOptions::new(1 << 20) }).expect("a heap")
}

#[test]
fn free_of_no_block_is_refused() {
    let heap = small_heap();
    let (small, large) = heap.atomically(|tx| Ok((tx.allocate(&heap, 100)?, tx.allocate(&heap, 100_000)?))).unwrap();
    // Bytes that look like a header, inside of a block.
    heap.atomically(|tx| (0..1000).try_for_each(|at| tx.write(&heap, large + 8 * at, 100 << 8 | 0xb5))).unwrap();
    let refused = |offset: u64| {
        let free = heap.atomically(|tx| tx.free(&heap, offset));
        assert!(matches!(free, Err(Error::NotAllocated { .. })), "{offset}: {free:?}");
        let len = heap.atomically(|tx| tx.block_len(&heap, offset));
        assert!(matches!(len, Err(Error::NotAllocated { .. })), "{offset}: {len:?}");
    };
    for offset in [0, 8, 16, 512, 4096, small + 8, small - 16, small + 16, large + 16, large + 8192, large + 1] {
        refused(offset);
    }
    (0..6000).for_each(|at| refused(large + 16 + at * 16));
    [heap.size() - 16, heap.size(), heap.size() * 8, u64::MAX, u64::MAX - 15].into_iter().for_each(refused);
    heap.atomically(|tx| tx.free(&heap, small)).unwrap();
    refused(small);
    heap.atomically(|tx| tx.free(&heap, large)).unwrap();
    refused(large);
    let twice = heap.atomically(|tx| {
        let block = tx.allocate(&heap, 10)?;
        tx.free(&heap, block)?;
        tx.free(&heap, block)
    });
    assert!(matches!(twice, Err(Error::NotAllocated { .. })));
    assert_eq!(heap.verify().unwrap().blocks, 0);
}

#[test]
fn heap_without_blocks_or_space_is_reported() {
    let heap = small_heap();
    let raw = heap.memory().create_heap("raw", &HeapOptions::raw(4096)).unwrap();
    assert!(matches!(raw.atomically(|tx| tx.allocate(&raw, 8)), Err(Error::Misuse(_))));
    assert!(matches!(raw.atomically(|tx| tx.free(&raw, 64)), Err(Error::Misuse(_))));
    assert!(matches!(raw.verify(), Err(Error::Misuse(_))));
    for len in [2 << 20, u64::MAX, u64::MAX >> 8] {
        let full = heap.atomically(|tx| tx.allocate(&heap, len)).expect_err("too long");
        assert!(full.to_string().contains("Memory::grow_heap"), "{full}");
    }
    heap.memory().grow_heap("blocks", 8 << 20).unwrap();
    let block = heap.atomically(|tx| tx.allocate(&heap, 2 << 20)).expect("it has grown");
    let full = heap.atomically(|tx| tx.allocate(&heap, 7 << 20)).expect_err("too long");
    assert!(full.to_string().contains("as large as it may become"), "{full}");
    heap.atomically(|tx| tx.free(&heap, block)).unwrap();
    assert!(matches!(heap.atomically(|tx| tx.fill(&heap, block, &[1])), Err(Error::Misuse(_))));
}

/// With few stripes unrelated words would conflict by chance.
fn heap_of_many_stripes() -> Heap {
    let memory = Memory::volatile(MemoryOptions { stripes_log2: 18, ..MemoryOptions::small() }).expect("memory");
    memory.create_heap("blocks", &HeapOptions { chunk_len: 4096, ..HeapOptions::new(1 << 20) }).expect("a heap")
}

/// Words filled by plain stores have the version of their commit, like all written words.
#[test]
fn a_filled_block_belongs_to_its_commit() {
    let heap = heap_of_many_stripes();
    let (mut reader, mut other) = (heap.memory().session().unwrap(), heap.memory().session().unwrap());
    let cell = other.atomically(|tx| tx.allocate(&heap, 8)).unwrap();
    other.atomically(|tx| tx.write(&heap, cell, 0)).unwrap();
    let (mut attempts, mut block) = (0, 0);
    let seen = reader.run(Commit::Sync, |tx| {
        attempts += 1;
        let old = tx.read(&heap, cell)?;
        if attempts == 1 {
            block = other.atomically(|tx| {
                let block = tx.allocate_filled(&heap, 1000)?;
                tx.fill(&heap, block, &[1; 1000])?;
                tx.write(&heap, cell, block)?;
                Ok(block)
            })?;
        }
        Ok((old, tx.read(&heap, block + 800)?))
    });
    assert_eq!((seen.unwrap().value, attempts), ((block, 0x0101_0101_0101_0101), 2), "half of a commit was seen");
}

#[test]
fn freed_block_interrupts_older_transactions() {
    let heap = heap_of_many_stripes();
    let (mut reader, mut other) = (heap.memory().session().unwrap(), heap.memory().session().unwrap());
    let block = other.atomically(|tx| tx.allocate(&heap, 1000)).unwrap();
    other.atomically(|tx| tx.write(&heap, block + 800, 7)).unwrap();
    let mut attempts = 0;
    let read = reader.run(Commit::Sync, |tx| {
        attempts += 1;
        tx.read(&heap, block + 800)?;
        if attempts == 1 {
            // The other session frees it, and would reuse it, while this one runs.
            other.atomically(|tx| tx.free(&heap, block))?;
            for _ in 0..200 {
                let new = other.atomically(|tx| tx.allocate_filled(&heap, 1000))?;
                assert_ne!(new, block, "who began before the free still runs");
            }
        }
        tx.read(&heap, block + 80)
    });
    read.unwrap();
    assert_eq!(attempts, 2, "the block was freed under its eyes");
    let again = (0..200).any(|_| other.atomically(|tx| tx.allocate(&heap, 1000)).unwrap() == block);
    assert!(again, "the block is unreachable now");
}

#[test]
fn roots_are_found_by_name() {
    let heap = small_heap();
    let at = heap.atomically(|tx| tx.allocate(&heap, 64)).unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("root {number}")).collect();
    for name in &names {
        heap.atomically(|tx| tx.set_root(&heap, name, at, "bytes")).unwrap();
    }
    let aborted = heap.atomically(|tx| {
        tx.remove_root(&heap, "root 5")?;
        tx.set_root(&heap, "root 6", at, "other")?;
        Err::<(), _>(Interrupt::abort("as planned"))
    });
    assert!(matches!(aborted, Err(Error::Aborted(_))));
    assert_eq!(heap.roots().unwrap().len(), 100);
    heap.atomically(|tx| {
        assert_eq!(tx.remove_root(&heap, "root 7")?.offset, at);
        tx.set_root(&heap, "root 8", at, "something longer than before")
    })
    .unwrap();
    assert!(matches!(heap.atomically(|tx| tx.remove_root(&heap, "root 7")), Err(Error::Unknown { .. })));
    let roots = heap.roots().unwrap();
    assert_eq!(roots.len(), 99);
    assert!(roots.is_sorted_by(|a, b| a.name < b.name));
    let (five, eight) = heap.atomically(|tx| Ok((tx.root(&heap, "root 5")?, tx.root(&heap, "root 8")?))).unwrap();
    assert_eq!(five.expect("it is there").type_name, "bytes");
    assert_eq!(eight.expect("it is there").type_name, "something longer than before");
    assert_eq!(heap.verify().unwrap().blocks, 100, "99 roots and what they name");
    assert!(matches!(heap.atomically(|tx| tx.set_root(&heap, "x", at + 16, "")), Err(Error::NotAllocated { .. })));
    let long = "x".repeat(2000);
    assert!(matches!(heap.atomically(|tx| tx.set_root(&heap, &long, at, "")), Err(Error::Limit { .. })));
}

/// A size that cannot be is refused, not taken for a small one.
#[test]
fn heap_does_not_grow_beyond_numbers() {
    let memory = Memory::volatile(MemoryOptions::small()).unwrap();
    let heap = memory.create_heap("heap", &HeapOptions::new(1 << 20)).unwrap();
    for size in [u64::MAX, u64::MAX - 4096, 1 << 63] {
        assert!(matches!(memory.grow_heap("heap", size), Err(Error::Limit { .. })), "{size}");
    }
    assert_eq!(heap.size(), 1 << 20);
}

/// A call that fails within a transaction that goes on changes nothing: the root that it would have replaced stays.
#[test]
fn root_that_cannot_be_replaced_stays() {
    let memory = Memory::volatile(MemoryOptions::small()).unwrap();
    let options = HeapOptions { chunk_len: 4096, size_max: 1 << 16, ..HeapOptions::new(1 << 16) };
    let heap = memory.create_heap("heap", &options).unwrap();
    let block = heap
        .atomically(|tx| {
            let block = tx.allocate(&heap, 8)?;
            tx.set_root(&heap, "root", block, "of Rust")?;
            Ok(block)
        })
        .unwrap();
    for len in [1 << 12, 512, 64, 8, 0] {
        while heap.atomically(|tx| tx.allocate(&heap, len)).is_ok() {}
    }
    let mut held = Held::new(&memory).unwrap();
    held.begin().unwrap();
    let set = held.run(|tx| tx.set_root(&heap, "root", block, "of C, with a type whose name is a little longer"));
    assert!(matches!(set, Err(Error::HeapFull { .. })), "{set:?}");
    held.commit(Commit::Sync).unwrap();
    let roots = heap.roots().unwrap();
    assert_eq!(roots.len(), 1, "the root has gone: {roots:?}");
}
