//! Tests of the cache of free blocks against the words.

use super::*;
#[cfg(not(cedrat_shuttle))]
use crate::{Commit, HeapMap, HeapOptions, HeapOrderedMap, Held, Joined, Locking, Memory, MemoryOptions, Session};
#[cfg(not(cedrat_shuttle))]
use std::collections::BTreeMap;
#[cfg(not(cedrat_shuttle))]
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(not(cedrat_shuttle))]
use std::time::Duration;

#[cfg(not(cedrat_shuttle))]
fn heap(name: &str, memory: &Memory) -> Heap {
    memory.create_heap(name, &HeapOptions { chunk_len: 4096, ..HeapOptions::new(1 << 20) }).expect("a heap")
}

/// Allocates and frees with three sessions, by a small random generator.
#[cfg(not(cedrat_shuttle))]
fn use_blocks(heap: &Heap, mut random: u64) {
    let mut sessions: Vec<_> = (0..3).map(|_| heap.memory().session().expect("a session")).collect();
    let mut live = Vec::new();
    for step in 0..3000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (len, which) = (random >> 40 & 0x7ff, (random >> 33) as usize);
        let done = sessions[step % 3].run(Commit::Sync, |tx| {
            let new = tx.allocate(heap, if len % 50 == 0 { len * 8 } else { len })?;
            let gone = live.get(which % (live.len() + 1)).copied();
            if let Some(gone) = gone {
                tx.free(heap, gone)?;
            }
            if which % 7 == 0 { Err(Interrupt::abort("as planned")) } else { Ok((new, gone)) }
        });
        if let Ok(done) = done {
            live.retain(|&block| Some(block) != done.value.1);
            live.push(done.value.0);
        }
        if which % 3 == 0 && !live.is_empty() {
            let gone = live.swap_remove(which % live.len());
            heap.atomically(|tx| tx.free(heap, gone)).expect("it is allocated");
        }
    }
}

/// Returns the cached state of free blocks, without fully free spans.
#[cfg(not(cedrat_shuttle))]
pub(crate) fn all_known(heap: &Heap) -> arena::Known {
    let blocks = heap.core.blocks.as_ref().expect("it has some");
    // Spans whose blocks are all free may be recorded as free or not.
    for emptied in &blocks.take_emptied(&heap.core, 0, u64::MAX).expect("all is loaded").spans {
        heap.atomically(|tx| tx.write_word(&heap.core, blocks.layout.table_word(emptied.open.span), 0))
            .expect("no other transaction writes");
        blocks.give_spans(emptied.open.span, 1);
    }
    blocks.all_free(&heap.core)
}

/// Resets the cache as if the heap had just been loaded.
#[cfg(not(cedrat_shuttle))]
pub(crate) fn forget_known(heap: &Heap) {
    heap.core.blocks.as_ref().expect("it has some").rebuild();
}

/// E17.3.
#[cfg(not(cedrat_shuttle))]
#[test]
fn rebuilt_block_state_matches_original() {
    for seed in 1..20 {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let used = heap("used", &memory);
        use_blocks(&used, seed);
        let known = all_known;
        // Equivalent to loading it from a file.
        let loaded = heap("loaded", &memory);
        let mut bytes = vec![0; used.size() as usize];
        used.core.region.copy(0, &mut bytes);
        loaded.core.region.fill(0, &bytes);
        assert_eq!(loaded.verify().expect("it makes sense"), used.verify().expect("it makes sense"));
        let before = known(&used);
        assert_eq!(known(&loaded), before);
        forget_known(&used);
        assert_eq!(known(&used), before);
        use_blocks(&loaded, seed + 100);
        loaded.verify().expect("it makes sense");
    }
}

#[cfg(not(cedrat_shuttle))]
#[test]
fn unwritten_block_is_reported_with_place() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = heap("damaged", &memory);
    let block = heap.atomically(|tx| tx.allocate(&heap, 50)).expect("room");
    let words = heap.core.region.words();
    let table = FIRST_WORD + block / WORD_LEN / heap.core.blocks.as_ref().expect("it has some").layout.span_words;
    for (word, corrupt) in [(block / 8 - 1, 1 << 60), (block / 8 - 1, 60 << 8 | 0xb5), (table, 7), (table, 2 | 1 << 60)]
    {
        let before = words[word as usize].swap(corrupt, Ordering::SeqCst);
        let found = heap.verify().expect_err("it is damaged").to_string();
        assert!(found.contains(&format!("offset {}", word * 8)), "{found}");
        let _ = heap.atomically(|tx| tx.free(&heap, block));
        words[word as usize].store(before, Ordering::SeqCst);
        let _ = heap.atomically(|tx| tx.allocate(&heap, 50));
    }
}

/// E17.6.
#[cfg(not(cedrat_shuttle))]
#[test]
fn spans_within_a_block_are_called_free() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = heap("long", &memory);
    let layout = &heap.core.blocks.as_ref().expect("it has some").layout;
    let len = layout.run_words(3) * WORD_LEN;
    let block = heap.atomically(|tx| tx.allocate(&heap, len)).expect("room");
    let table = layout.table_word(layout.span_of(block / WORD_LEN));
    let words = heap.core.region.words();
    for inner in [table + 1, table + 2] {
        let sized = Span::Sized { stride: 4, carved: 2 }.to_word();
        assert_eq!(words[inner as usize].swap(sized, Ordering::SeqCst), 0);
        let found = heap.verify().expect_err("it is damaged").to_string();
        assert!(found.contains(&format!("offset {}", inner * 8)), "{found}");
        // The words take precedence over the cache: the next block has another offset.
        heap.atomically(|tx| tx.free(&heap, block)).expect("it is allocated");
        let other = heap.atomically(|tx| tx.allocate(&heap, len)).expect("room elsewhere");
        assert_ne!(other, block);
        heap.atomically(|tx| tx.free(&heap, other)).expect("it is allocated");
        words[inner as usize].store(0, Ordering::SeqCst);
        heap.core.blocks.as_ref().expect("it has some").rebuild();
        assert_eq!(heap.atomically(|tx| tx.allocate(&heap, len)).expect("room"), block);
    }
}

#[test]
fn partitions_share_no_arena() {
    for partitions in 1..=32 {
        let arenas = |partition| (0..200).map(move |session| Blocks::arena_of(session, partition, partitions));
        for (one, other) in (0..partitions).flat_map(|one| (0..one).map(move |other| (one, other))) {
            assert!(arenas(one).all(|arena| arenas(other).all(|other| other != arena)));
        }
    }
}

/// Frees a block while another transaction has read a part of it; calls `then` before that transaction continues, with the
/// session that allocated the block.
#[cfg(not(cedrat_shuttle))]
fn freed_beside_a_reader(mut then: impl FnMut(&mut Session, &Heap, &mut Tx<'_>, u64) -> Result<(), Interrupt>) {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = heap("freed", &memory);
    let mut owner = memory.session().expect("a session");
    let block = owner.run(Commit::Sync, |tx| tx.allocate(&heap, 512)).expect("there is room").value;
    let mut session = memory.session().expect("a session");
    let mut has_read = false;
    let read = session.run(Commit::Sync, |tx| {
        if std::mem::replace(&mut has_read, true) {
            return Ok(()); // run again
        }
        tx.read(&heap, block)?;
        cedrat_sync::thread::scope(|scope| {
            let freed = scope.spawn(|| heap.atomically(|tx| tx.free(&heap, block)));
            freed.join().expect("no panic").expect("it is allocated");
        });
        then(&mut owner, &heap, tx, block)
    });
    read.expect("it has only read");
}

#[cfg(not(cedrat_shuttle))]
#[test]
fn freed_block_interrupts_an_older_reader() {
    freed_beside_a_reader(|_, heap, tx, block| {
        let read = tx.read(heap, block + 256);
        assert!(read.is_err(), "E17.1");
        read.map(drop)
    });
}

#[cfg(not(cedrat_shuttle))]
#[test]
fn freed_block_is_kept_for_older_reader() {
    freed_beside_a_reader(|owner, heap, _, block| {
        let others = cedrat_sync::thread::scope(|scope| {
            let allocated = scope.spawn(|| {
                let allocate = |_| owner.run(Commit::Sync, |tx| tx.allocate(heap, 512)).expect("there is room").value;
                (0..200).map(allocate).collect::<Vec<_>>()
            });
            allocated.join().expect("no panic")
        });
        assert!(!others.contains(&block), "E17.2");
        Ok(())
    });
}

/// A prepared transaction that holds every stripe of these words.
#[cfg(not(cedrat_shuttle))]
fn holder(memory: &Memory, heap: &Heap, words: impl IntoIterator<Item = u64>) -> Joined {
    let mut joined = Joined::begin(memory).expect("a seat");
    for word in words {
        joined.run(|tx| tx.write_word(&heap.core, word, 1)).expect("no other transaction runs");
    }
    joined.prepare(usize::MAX).expect("no other transaction runs");
    joined.hold(TxnId(1));
    joined
}

/// Runs random calls in one transaction and swallows their errors. Returns the blocks and the keys that it leaves.
#[cfg(not(cedrat_shuttle))]
fn swallow(
    tx: &mut Tx<'_>,
    heap: &Heap,
    maps: &(HeapMap<u64, u64>, HeapOrderedMap<u64, u64>),
    (blocks, keys): (&[u64], &[BTreeMap<u64, u64>; 2]),
    mut random: u64,
) -> (Vec<u64>, [BTreeMap<u64, u64>; 2]) {
    let (mut blocks, mut keys) = (blocks.to_vec(), keys.clone());
    for _ in 0..40 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (key, which) = (random >> 40 & 0xff, (random >> 33) as usize);
        match random >> 60 {
            0..=3 => blocks.extend(tx.allocate(heap, if key % 9 == 0 { key * 300 } else { key })),
            4 => blocks.extend(tx.allocate_filled(heap, key)),
            5 | 6 if !blocks.is_empty() => {
                let at = which % blocks.len();
                if tx.free(heap, blocks[at]).is_ok() {
                    blocks.swap_remove(at);
                }
            }
            7 if !blocks.is_empty() => {
                let (name, of) = (format!("root {}", key % 5), format!("type {}", which % 2));
                let _ = tx.set_root(heap, &name, blocks[which % blocks.len()], &of);
            }
            8 => drop(tx.remove_root(heap, &format!("root {}", key % 5))),
            9..=11 => {
                if maps.0.insert(tx, key, random).is_ok() {
                    keys[0].insert(key, random);
                }
                if maps.1.insert(tx, key, random).is_ok() {
                    keys[1].insert(key, random);
                }
            }
            _ => {
                if maps.0.remove(tx, &key).is_ok() {
                    keys[0].remove(&key);
                }
                if maps.1.remove(tx, &key).is_ok() {
                    keys[1].remove(&key);
                }
            }
        }
    }
    (blocks, keys)
}

/// Returns the keys and values of two maps, and checks that both are whole.
#[cfg(not(cedrat_shuttle))]
fn keys_of(heap: &Heap, maps: &(HeapMap<u64, u64>, HeapOrderedMap<u64, u64>)) -> [BTreeMap<u64, u64>; 2] {
    let found = heap.atomically(|tx| {
        maps.0.verify(tx)?;
        maps.1.verify(tx)?;
        let mut keys = BTreeMap::new();
        maps.0.for_each(tx, |key, value| {
            keys.insert(key, value);
            Ok(())
        })?;
        Ok([keys, maps.1.range(tx, ..)?.into_iter().collect()])
    });
    found.expect("they are whole")
}

/// H4, E17.3: a call that fails leaves nothing, so that a transaction that goes on after its error commits whole calls only.
#[cfg(not(cedrat_shuttle))]
#[test]
fn failed_call_leaves_no_half() {
    let mut refused = 0;
    for (seed, locking) in (1..=16u64).flat_map(|seed| [(seed, Locking::CommitTime), (seed, Locking::EncounterTime)]) {
        let memory =
            Memory::volatile(MemoryOptions { locking, stripes_log2: 12, ..MemoryOptions::small() }).expect("memory");
        let heap =
            memory.create_heap("half", &HeapOptions { chunk_len: 4096, ..HeapOptions::new(1 << 18) }).expect("a heap");
        let maps = (HeapMap::open(&heap, "map").expect("room"), HeapOrderedMap::open(&heap, "ordered").expect("room"));
        let mut left = (Vec::new(), [BTreeMap::new(), BTreeMap::new()]);
        // What was never written is not known to be zero: plain stores of transactions without an end may lie there.
        let free = heap.core.words() / 2;
        (free..heap.core.words())
            .for_each(|word| heap.core.region.words()[word as usize].store(50 << 8 | 0xb5, Ordering::SeqCst));
        for round in 0..6 {
            let random = seed * 1000 + round;
            let held = if round == 0 {
                None
            } else {
                let words = (0..10).map(|at| {
                    let random = (random * 10 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                    FIRST_WORD + random % (heap.core.words() - FIRST_WORD)
                });
                Some(holder(&memory, &heap, words))
            };
            let done = memory.run(Commit::Sync, |tx| Ok(swallow(tx, &heap, &maps, (&left.0, &left.1), random)));
            match done {
                Ok(done) => left = done.value,
                // It needs at its commit what is held.
                Err(Error::InDoubt { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
            drop(held);
            let mut blocks = std::collections::BTreeSet::new();
            heap.each_block(|offset, _, _| assert!(blocks.insert(offset))).expect("it is whole");
            assert!(left.0.iter().all(|block| blocks.contains(block)), "seed {seed}, round {round}");
            heap.roots().expect("the roots are whole");
            assert_eq!(keys_of(&heap, &maps), left.1, "seed {seed}, round {round}");
            let known = all_known(&heap);
            forget_known(&heap);
            assert_eq!(all_known(&heap), known, "E17.3: seed {seed}, round {round}");
        }
        let emptied = heap.atomically(|tx| {
            maps.0.remove_as(tx, "map")?;
            maps.1.remove_as(tx, "ordered")
        });
        emptied.expect("no other transaction runs");
        for root in heap.roots().expect("the roots are whole") {
            heap.atomically(|tx| tx.remove_root(&heap, &root.name)).expect("it is there");
        }
        let mut blocks = Vec::new();
        heap.each_block(|offset, _, _| blocks.push(offset)).expect("it is whole");
        left.0.sort_unstable();
        assert_eq!(blocks, left.0, "seed {seed}: no other block is left");
    }
    assert!(refused < 100, "{refused} transactions were refused at their commit");
}

/// A session without a running transaction, or whose transaction has ended in any way, keeps no freed block from its reuse.
#[cfg(not(cedrat_shuttle))]
#[test]
fn idle_sessions_keep_no_freed_block() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = heap("idle", &memory);
    let mut owner = memory.session().expect("a session");
    let block = owner.run(Commit::Sync, |tx| tx.allocate(&heap, 512)).expect("there is room").value;
    let mut idle: Vec<Session> = (0..4).map(|_| memory.session().expect("a session")).collect();
    idle[1].run(Commit::Sync, |tx| tx.read(&heap, block)).expect("it has only read");
    let failed =
        idle[2].run(Commit::Sync, |tx| tx.read(&heap, block).and(Err::<(), _>(Interrupt::abort("as planned"))));
    assert!(failed.is_err());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        idle[3].run(Commit::Sync, |tx| -> Result<(), Interrupt> {
            tx.read(&heap, block)?;
            panic!("in the work")
        })
    }));
    assert!(panicked.is_err());
    let mut held: Vec<crate::Held> = (0..3).map(|_| crate::Held::new(&memory).expect("a place")).collect();
    for held in &mut held {
        held.begin().expect("it runs");
        held.run(|tx| tx.read(&heap, block)).expect("no other transaction writes");
    }
    held[0].commit(Commit::Sync).expect("it has only read");
    held[1].abort();
    let mut joined = Joined::begin(&memory).expect("a place");
    joined.run(|tx| tx.read(&heap, block)).expect("no other transaction writes");
    heap.atomically(|tx| tx.free(&heap, block)).expect("it is allocated");
    let mut allocate = || owner.run(Commit::Sync, |tx| tx.allocate(&heap, 512)).expect("there is room").value;
    let others: Vec<u64> = (0..200).map(|_| allocate()).collect();
    assert!(!others.contains(&block), "E17.2: two transactions run");
    drop(joined);
    assert!(!(0..200).any(|_| allocate() == block), "E17.2: one transaction runs");
    held[2].commit(Commit::Sync).expect("it has only read");
    assert!((0..200).any(|_| allocate() == block), "E17.2: no transaction runs");
}

/// E17.3.
#[cfg(not(cedrat_shuttle))]
#[test]
fn words_override_cached_blocks() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = heap("words", &memory);
    let block = heap.atomically(|tx| tx.allocate(&heap, 512)).expect("room");
    heap.atomically(|tx| tx.free(&heap, block)).expect("it is allocated");
    let header_word = &heap.core.region.words()[(block / WORD_LEN - 1) as usize];
    assert_eq!(header_word.swap(header(512), Ordering::SeqCst), 0);
    let others: Vec<u64> = (0..200).map(|_| heap.atomically(|tx| tx.allocate(&heap, 512)).expect("room")).collect();
    assert!(!others.contains(&block), "E17.3");
}

/// E17.6: the spans of a long block are free by the words that it depends on, not by the cache.
#[cfg(not(cedrat_shuttle))]
#[test]
fn spans_that_are_not_free_are_skipped() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = heap("spans", &memory);
    let layout = &heap.core.blocks.as_ref().expect("it has some").layout;
    let len = layout.run_words(3) * WORD_LEN;
    let block = heap.atomically(|tx| tx.allocate(&heap, len)).expect("room");
    let next_span = layout.span_of(block / WORD_LEN) + 3;
    let sized = Span::Sized { stride: 4, carved: 2 }.to_word();
    let table = &heap.core.region.words()[layout.table_word(next_span + 1) as usize];
    assert_eq!(table.swap(sized, Ordering::SeqCst), 0);
    let other = heap.atomically(|tx| tx.allocate(&heap, len)).expect("room elsewhere");
    assert!(layout.span_of(other / WORD_LEN) > next_span + 1, "E17.6");
}

/// E17.4: behind a filled block lies the header of the next one.
#[cfg(not(cedrat_shuttle))]
#[test]
fn store_beyond_filled_block_is_refused() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = heap("filled", &memory);
    let filled = heap.atomically(|tx| {
        let block = tx.allocate_filled(&heap, 24)?;
        tx.fill(&heap, block, &[7; 24])?;
        let beyond = [tx.fill(&heap, block, &[7; 32]).is_err(), tx.fill(&heap, block + 24, &[7; 8]).is_err()];
        Ok((beyond, tx.fill(&heap, block - 8, &[7; 8]).is_err()))
    });
    assert_eq!(filled.expect("room"), ([true; 2], true), "E17.4");
    heap.verify().expect("the headers are whole");
}

/// E17.7: spans that another session has taken to clear them are not missing: a later transaction finds them.
#[cfg(not(cedrat_shuttle))]
#[test]
fn spans_being_cleared_fill_no_heap() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let options = HeapOptions { chunk_len: 4096, size_max: 64 << 10, ..HeapOptions::new(64 << 10) };
    let heap = memory.create_heap("clearing", &options).expect("a heap");
    let mut blocks = Vec::new();
    while let Ok(block) = heap.atomically(|tx| tx.allocate(&heap, 100)) {
        blocks.push(block);
    }
    blocks.iter().for_each(|&block| heap.atomically(|tx| tx.free(&heap, block)).expect("it is allocated"));
    let mut held = Held::new(&memory).expect("a session");
    let mut allocate = || {
        held.begin().expect("none runs");
        held.run(|tx| tx.allocate(&heap, 9000))
    };
    let known = heap.core.blocks.as_ref().expect("it has some");
    let emptied = known.take_emptied(&heap.core, 0, u64::MAX).expect("all is loaded");
    assert!(!emptied.spans.is_empty());
    let found = allocate();
    assert!(matches!(found, Err(crate::Error::Conflict)), "{found:?}");
    emptied.spans.iter().for_each(|of| known.give_emptied(of));
    drop(emptied);
    allocate().expect("all of the heap is free");
}

/// E17.8: the owner of a word may itself wait for a lock of the thread that walks.
#[cfg(not(cedrat_shuttle))]
#[test]
fn walk_awaits_no_transaction_without_end() {
    let options = MemoryOptions { locking: Locking::EncounterTime, ..MemoryOptions::small() };
    let memory = Memory::volatile(options).expect("memory");
    let heap = heap("walked", &memory);
    let (locked, has_locked) = std::sync::mpsc::channel();
    let (end, may_end) = std::sync::mpsc::channel::<()>();
    let other = heap.clone();
    let owner = std::thread::spawn(move || {
        let mut held = Held::new(other.memory()).expect("a session");
        held.begin().expect("none runs");
        held.allocate_filled(&other, 100).expect("room");
        locked.send(()).expect("the test waits");
        let _ = may_end.recv();
        held.commit(Commit::Async).expect("no conflict");
    });
    has_locked.recv().expect("it has locked words");
    let (walked, result) = std::sync::mpsc::channel();
    let walk = heap.clone();
    std::thread::spawn(move || walked.send(walk.each_block_within(Duration::ZERO, |_, _, _| {}).map(drop)));
    let refused = result.recv_timeout(Duration::from_secs(60)).expect("E17.8: no wait without end");
    assert!(matches!(refused, Err(crate::Error::Conflict)), "E17.8: {refused:?}");
    drop(end);
    owner.join().expect("no panic");
    assert_eq!(heap.verify().expect("the headers are whole").blocks, 1);
}
