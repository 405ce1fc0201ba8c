//! Heaps of a store: their creation and removal, and leftovers that must not remain.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_heap::{Commit, Error, Heap, HeapOptions, Held, Interrupt, Locking, Memory, MemoryOptions, Session};
use cedrat_media::{Call, Fault, Loss, Media, OpenMode, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{OpenError, Options, Registry, Result, Store};

fn open_with(disk: &Arc<SimDisk>, options: Options) -> Result<Store, OpenError> {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options, Registry::new())
}

fn open(disk: &Arc<SimDisk>) -> Result<Store, OpenError> {
    open_with(disk, Options::simulated())
}

fn small(size: u64) -> HeapOptions {
    HeapOptions { chunk_len: 4096, ..HeapOptions::raw(size) }
}

fn word(heap: &Heap, offset: u64) -> u64 {
    heap.memory().run(Commit::Async, |tx| tx.read(heap, offset)).unwrap().value
}

/// E1: numbers lost in a crash may be reused; no heap may be younger than the log.
#[test]
fn heap_created_after_lost_commits_exists() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let first = store.memory().create_heap("first", &small(4096)).unwrap();
    for value in 0..50 {
        store.memory().run(Commit::Async, |tx| tx.write(&first, 0, value)).unwrap();
    }
    store.memory().create_heap("second", &small(4096)).unwrap();
    let crashed = Arc::new(disk.cut_power(Loss::Everything));
    let store = open(&crashed).unwrap();
    let second = store.memory().heap("second").unwrap();
    second.atomically(|tx| tx.write(&second, 0, 7)).unwrap();
    drop((second, store));
    let store = open(&Arc::new(crashed.cut_power(Loss::Everything))).unwrap();
    assert_eq!(word(&store.memory().heap("second").unwrap(), 0), 7);
}

/// A new session gets the partition with the fewest sessions, also after others have closed.
#[test]
fn sessions_spread_over_log_partitions() {
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, Options { partitions: 4, ..Options::simulated() }).unwrap();
    let heap = store.memory().create_heap("heap", &small(65_536)).unwrap();
    let take = |count: usize| (0..count).map(|_| heap.memory().session().unwrap()).collect::<Vec<_>>();
    let live = |sessions: &mut [Session]| {
        let mut live = [0; 4];
        for (session, number) in sessions.iter_mut().zip(0..) {
            let done = session.run(Commit::Partition, |tx| tx.write(&heap, number * 512, 1)).unwrap();
            live[usize::from(done.alone.expect("it depends on no other commit").partition.0)] += 1;
        }
        live
    };
    let mut many = take(8);
    assert_eq!(live(&mut many), [2; 4]);
    drop(many);
    let mut few = take(4);
    assert_eq!(live(&mut few), [1; 4], "those who left have left their places");
    few.remove(2);
    few.extend(take(1));
    assert_eq!(live(&mut few), [1; 4]);
    few.extend(take(2));
    assert_eq!(live(&mut few), [2, 2, 1, 1]);
}

/// A crash between the two slots of the root, followed by one that tears the next write of it: the torn slot is never
/// the valid one. The root is longer than a sector.
#[test]
fn two_root_crashes_leave_one_valid_slot() {
    for loss in [Loss::Everything, Loss::TornLast(0x5555_5555_5555_5555)] {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        for number in 0..30 {
            let name = format!("a heap with quite a long name, number {number}");
            store.memory().create_heap(&name, &small(4096)).unwrap();
        }
        let heap = store.memory().create_heap("heap", &small(8192)).unwrap();
        heap.atomically(|tx| tx.write(&heap, 0, 1)).unwrap();
        store.checkpoint().unwrap();
        heap.atomically(|tx| tx.write(&heap, 0, 2)).unwrap();
        disk.inject(Fault::power_loss(Call::Write).nth(2).of("heaps.root"));
        assert!(store.checkpoint().is_err());

        let disk = Arc::new(disk.cut_power(loss));
        let store = open_with(&disk, Options { checkpoint_when_opened: false, ..Options::simulated() }).unwrap();
        let heap = store.memory().heap("heap").unwrap();
        heap.atomically(|tx| tx.write(&heap, 0, 3)).unwrap();
        disk.inject(Fault::power_loss(Call::Write).nth(1).of("heaps.root"));
        assert!(store.checkpoint().is_err());

        let disk = Arc::new(disk.cut_power(Loss::TornLast(0x5555_5555_5555_5555)));
        assert_eq!(word(&open(&disk).unwrap().memory().heap("heap").unwrap(), 0), 3);
    }
}

/// E8.5: a stripe locked by another transaction has no version, so its words may be of any.
#[test]
fn commit_waits_for_locked_stripe() {
    let options = || {
        let mut options = Options { partitions: 2, ..Options::simulated() };
        options.memory.locking = Locking::EncounterTime;
        options
    };
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, options()).unwrap();
    let heap = store.memory().create_heap("heap", &small(4096)).unwrap();
    let memory = store.memory();
    let mut first = memory.session().unwrap();
    let (mut reader, mut third) = (Held::new(&memory).unwrap(), Held::new(&memory).unwrap());
    first.run(Commit::Async, |tx| tx.write(&heap, 0, 77)).unwrap();
    reader.begin().unwrap();
    let read = reader.run(|tx| tx.read(&heap, 0)).unwrap();
    reader.run(|tx| tx.write(&heap, 1024, read)).unwrap();
    third.begin().unwrap();
    third.run(|tx| tx.write(&heap, 0, 88)).unwrap();
    let done = reader.commit(Commit::Partition);
    let alone = done.is_ok_and(|done| done.alone.is_some());
    let store = open_with(&Arc::new(disk.cut_power(Loss::Everything)), options()).unwrap();
    let heap = store.memory().heap("heap").unwrap();
    assert!(!alone && (word(&heap, 1024) == 0 || word(&heap, 0) == 77), "E8.5");
}

/// H4: a failed nested transaction, or a handled error, reverts its heap writes.
#[test]
fn words_of_failed_work_are_rolled_back() {
    let store = open(&Arc::new(SimDisk::new())).unwrap();
    let heap = store.memory().create_heap("heap", &small(4096)).unwrap();
    let mut txn = store.begin();
    txn.heap(|tx| tx.write(&heap, 64, 1)).unwrap();
    let nested = txn.nested_transaction(|txn| {
        txn.heap(|tx| -> std::result::Result<(), Interrupt> {
            tx.write(&heap, 0, 9)?;
            Err(Interrupt::abort("no"))
        })
    });
    assert!(nested.is_err());
    let handled = txn.heap(|tx| -> std::result::Result<(), Interrupt> {
        tx.write(&heap, 8, 9)?;
        Err(Interrupt::abort("no"))
    });
    assert!(handled.is_err());
    txn.commit(Commit::Sync).unwrap();
    assert_eq!([0, 8, 64].map(|offset| word(&heap, offset)), [0, 0, 1], "H4");
}

/// E16.1: room that a large commit did not use is available to others again.
#[test]
fn sessions_release_space_of_large_commits() {
    let store = open(&Arc::new(SimDisk::new())).unwrap();
    let heap = store.memory().create_heap("heap", &small(1 << 20)).unwrap();
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let mut session = store.memory().session().unwrap();
        session
            .run(Commit::Sync, |tx| (0..20_000).try_for_each(|word| tx.write(&heap, word * 8, word)))
            .expect("there is room for one of them at a time");
        sessions.push(session);
    }
    assert!(store.log().space().reserved.0 < 1 << 20);
}

/// The root reports that it is full before it is too long to be written again.
#[test]
fn full_root_can_still_be_written() {
    let store = open(&Arc::new(SimDisk::new())).unwrap();
    let memory = store.memory();
    let mut heaps = 0;
    while memory.create_heap(&format!("{heaps:0>250}"), &small(4096)).is_ok() {
        heaps += 1;
    }
    assert!(heaps > 50, "{heaps}");
    let heap = memory.heaps().remove(0);
    for value in 0..300 {
        heap.atomically(|tx| tx.write(&heap, 0, value)).unwrap();
        if value % 50 == 0 {
            store.checkpoint().unwrap();
        }
    }
}

/// Space reserved by a failed creation, or by one that a crash interrupted, is released.
#[test]
fn failed_heap_creation_takes_no_space() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    store.memory().create_heap("heap", &small(4096)).unwrap();
    disk.inject(Fault::error(Call::Allocate, std::io::ErrorKind::StorageFull).of("heaps/large.1"));
    assert!(store.memory().create_heap("large", &small(1 << 20)).is_err());
    assert_eq!(disk.list("heaps").unwrap(), ["heap.0", "heap.1"]);
    disk.open("heaps/orphan.0", cedrat_media::OpenMode::Create).unwrap();
    drop(store);
    let store = open(&disk).unwrap();
    assert_eq!(disk.list("heaps").unwrap(), ["heap.0", "heap.1"]);
    drop(store);
}

/// E16.4a: the file for which there was space is as short as before.
#[test]
fn refused_heap_growth_takes_no_space() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let heap = store.memory().create_heap("heap", &HeapOptions { size_max: 1 << 20, ..small(4096) }).unwrap();
    let files = ["heaps/heap.0", "heaps/heap.1"].map(|name| disk.open(name, OpenMode::Read).unwrap());
    let lens = || files.map(|file| disk.len(file).unwrap());
    let before = lens();
    disk.inject(Fault::error(Call::Allocate, std::io::ErrorKind::StorageFull).of("heaps/heap.1"));
    assert!(heap.grow(1 << 20).is_err());
    assert_eq!(lens(), before, "E16.4a");
    heap.grow(1 << 20).unwrap();
    assert!(lens().into_iter().all(|len| len > 1 << 20));
}

/// A10a: a full XFS refuses to allocate a range again.
#[test]
fn heap_grows_into_last_free_space() {
    let grow_with = |room: Option<u64>| {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let heap = store.memory().create_heap("heap", &HeapOptions { size_max: 1 << 20, ..small(512 << 10) }).unwrap();
        let before = disk.space();
        disk.set_capacity(room.map(|room| before + room));
        heap.grow(640 << 10).expect("E16.4b");
        disk.space() - before
    };
    let added = grow_with(None);
    assert_eq!(grow_with(Some(added)), added);
}

/// Memory, address and number of a dropped heap are free.
#[test]
fn a_dropped_heap_is_gone() {
    let memory = Memory::volatile(MemoryOptions::small()).unwrap();
    let options = HeapOptions { address: Some(0x6100_0000_0000), ..HeapOptions::raw(1 << 20) };
    for round in 0..3 {
        let heap = memory.create_heap("heap", &options).expect("nothing is mapped there");
        assert_eq!(word(&heap, 0), 0);
        heap.atomically(|tx| tx.write(&heap, 0, round + 1)).unwrap();
        assert_eq!(word(&heap, 0), round + 1);
        drop(heap);
        memory.drop_heap("heap").unwrap();
    }
}

/// Returning to a later point than the current one would restore a state that no longer exists.
#[test]
fn savepoint_of_dropped_heap_is_refused() {
    let memory = Memory::volatile(MemoryOptions::small()).unwrap();
    let heap = memory.create_heap("heap", &HeapOptions::raw(1 << 12)).unwrap();
    let refused = heap.atomically(|tx| {
        let older = tx.savepoint();
        tx.write(&heap, 0, 1)?;
        let newer = tx.savepoint();
        tx.back_to(older)?;
        tx.back_to(newer)
    });
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}

/// An LSN that was never drawn is not stable.
#[test]
fn undrawn_lsn_is_not_stable() {
    let store = open(&Arc::new(SimDisk::new())).unwrap();
    let heap = store.memory().create_heap("heap", &small(4096)).unwrap();
    let done = store.memory().run(Commit::Async, |tx| tx.write(&heap, 0, 1)).unwrap();
    assert!(store.memory().is_stable(done.lsn, true).unwrap());
    assert!(!store.memory().is_stable(done.lsn.next().next(), true).unwrap());
}

/// H4: even if the work swallows an interrupt, no partial write is committed.
#[test]
fn an_interrupt_that_is_swallowed_still_counts() {
    let memory = Memory::volatile(MemoryOptions { locking: Locking::EncounterTime, ..MemoryOptions::small() }).unwrap();
    let heap = memory.create_heap("heap", &HeapOptions::raw(1 << 12)).unwrap();
    let (mut one, mut other) = (Held::new(&memory).unwrap(), Held::new(&memory).unwrap());
    one.begin().unwrap();
    one.run(|tx| tx.write(&heap, 0, 1)).unwrap();
    other.begin().unwrap();
    other
        .run(|tx| {
            tx.write(&heap, 1024, 1)?;
            let _ = tx.write(&heap, 0, 2);
            Ok(())
        })
        .unwrap();
    assert!(matches!(other.commit(Commit::Sync), Err(Error::Conflict)), "H4");
    one.abort();
    assert_eq!(word(&heap, 1024), 0);
}

/// H4: a program may catch a panic of its own work, which is the same in each attempt.
#[test]
fn transaction_with_panicked_call_is_not_repeated() {
    let store = open(&Arc::new(SimDisk::new())).unwrap();
    let heap = store.memory().create_heap("heap", &small(4096)).unwrap();
    let mut attempts = 0;
    let ran = store.transact(|txn| {
        attempts += 1;
        assert!(attempts < 10, "it would be repeated without end");
        let panics = |txn: &mut cedrat_txn::Txn| {
            txn.heap(|tx| -> std::result::Result<(), Interrupt> {
                tx.write(&heap, 0, 7)?;
                panic!("in the work")
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(|| panics(txn))).is_err());
        Ok(())
    });
    assert!(matches!(ran, Err(cedrat_txn::Error::Heap(Error::Misuse(_)))), "{ran:?}");
    assert_eq!((attempts, word(&heap, 0)), (1, 0));
}

/// Returns the contents of a store's heaps, by their names.
fn contents(store: &Store) -> Vec<(String, Vec<u64>)> {
    let read = |name: &str| {
        let heap = store.memory().heap(name).unwrap();
        let words = 0..heap.size() / 8;
        words.map(|at| word(&heap, at * 8)).collect()
    };
    store.memory().heaps().iter().map(|heap| (heap.name().to_owned(), read(heap.name()))).collect()
}

/// H3, R4 for words, E10.5: heaps are created, grow and are dropped while the log is written; runs cross chunks, some
/// commits have several parts.
#[test]
fn replay_threads_do_not_change_heaps() {
    const HEAPS: u64 = 4;
    let options = |redo_threads| Options {
        redo_threads,
        partitions: 2,
        segment_len: 1 << 20,
        log_limit_bytes: 64 << 20,
        checkpoint_when_opened: false,
        ..Options::simulated()
    };
    let growing = |name: u64| HeapOptions { size_max: 1 << 20, file: Some(format!("file-{name}")), ..small(64 << 10) };
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, options(0)).unwrap();
    let memory = store.memory();
    let mut random = 88_172_645_463_325_252u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut session = memory.session().unwrap();
    for number in 0..HEAPS {
        memory.create_heap(&format!("heap {number}"), &growing(number)).unwrap();
    }
    for turn in 0..12_000u64 {
        let name = format!("heap {}", next(HEAPS));
        match turn {
            5_000 => store.checkpoint().unwrap(),
            _ if turn % 2_000 == 1_999 => {
                memory.drop_heap(&name).unwrap();
                memory.create_heap(&name, &growing(HEAPS + turn)).unwrap();
            }
            _ => {}
        }
        let heap = memory.heap(&name).unwrap();
        if turn % 500 == 499 {
            memory.grow_heap(&name, (heap.size() + (8 << 10)).min(1 << 20)).unwrap();
        }
        let len = if turn % 300 == 299 { 6_000 } else { 1 + next(12) };
        let first = next(heap.size() / 8 - len);
        let filled = |tx: &mut cedrat_heap::Tx<'_>| {
            (first..first + len).try_for_each(|at| tx.write(&heap, at * 8, turn << 16 | (at - first)))
        };
        session.run(Commit::Async, filled).unwrap();
    }
    drop(session);
    store.log().force(store.log().current_lsn()).unwrap();
    let expected = contents(&store);
    for redo_threads in [0, 1, 3] {
        let crashed = Arc::new(disk.cut_power(Loss::Everything));
        let store = open_with(&crashed, options(redo_threads)).unwrap();
        assert!(store.recovery().heap_words > 50_000, "{}", store.recovery().heap_words);
        assert!(contents(&store) == expected, "{redo_threads} threads");
    }
}
