//! Tests of the cache of free blocks against the words.

use super::*;
#[cfg(not(cedrat_shuttle))]
use crate::{Commit, HeapOptions, Memory, MemoryOptions, Session};

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
    for emptied in blocks.take_emptied(&heap.core, 0, u64::MAX) {
        heap.atomically(|tx| tx.write_word(&heap.core, blocks.layout.table_word(emptied.open.span), 0))
            .expect("nobody else writes");
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
fn what_is_rebuilt_from_words_is_what_was_known() {
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
fn what_no_transaction_has_written_is_told_with_its_place() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = heap("damaged", &memory);
    let block = heap.atomically(|tx| tx.allocate(&heap, 50)).expect("room");
    let words = heap.core.region.words();
    let table = FIRST_WORD + block / WORD_LEN / heap.core.blocks.as_ref().expect("it has some").layout.span_words;
    for (word, senseless) in
        [(block / 8 - 1, 1 << 60), (block / 8 - 1, 60 << 8 | 0xb5), (table, 7), (table, 2 | 1 << 60)]
    {
        let before = words[word as usize].swap(senseless, Ordering::SeqCst);
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
fn sessions_of_one_partition_share_no_arena_with_those_of_others() {
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
