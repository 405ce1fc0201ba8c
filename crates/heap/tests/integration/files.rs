//! Files of heaps on the file system of the operating system.
#![cfg(not(any(cedrat_shuttle, miri)))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_heap::{Error, FoundHeaps, HeapOptions, Memory, MemoryOptions};
use cedrat_media::{Call, Fault, Loss, Media, RealDisk, SimDisk};
use cedrat_sync::Arc;
use cedrat_sync::atomic::AtomicU64;
use cedrat_wal::{Log, LogOptions};

fn open(media: &Arc<dyn Media>, log: Log) -> Memory {
    let found = FoundHeaps::load(media, log.control().store, &MemoryOptions::small(), 0, 0).expect("whole checkpoints");
    found.open(log, Arc::new(AtomicU64::new(1))).expect("it opens")
}

/// To a file system that ignores case, the files of both heaps have the same names. Here directories take the names: these are not
/// listed either.
#[test]
fn file_of_other_heap_is_not_reused() {
    let folder = tempfile::tempdir().expect("a directory");
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(folder.path()));
    let memory = open(&media, Log::create(&media, &LogOptions::small(), &[]).expect("a log is created"));
    let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) };
    let heap = memory.create_heap("WORDS", &options).expect("a heap");
    heap.atomically(|tx| tx.write(&heap, 0, 7)).expect("room");
    memory.checkpoint().expect("the disk works");
    for number in [0, 1] {
        std::fs::create_dir(folder.path().join(format!("heaps/words.{number}"))).expect("a directory");
    }
    let refused = memory.create_heap("words", &options).map(drop);
    assert!(matches!(refused, Err(Error::Exists { .. })), "{refused:?}");
    assert!(memory.heap("words").is_err());
    drop((heap, memory));
    let log = Log::look(&media).expect("it can be read").begin(&[], &LogOptions::small()).expect("it opens");
    let heap = open(&media, log).heap("WORDS").expect("it was created");
    assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("reading"), 7);
    // A file that a creation has left is listed, and is reused.
    std::fs::write(folder.path().join("heaps/left.0"), "left").expect("room");
    heap.memory().create_heap("left", &options).expect("no other heap has it");
}

/// An error in the removal of its files says that the heap is dropped.
#[test]
fn heap_with_stuck_file_is_dropped() {
    let disk = SimDisk::new();
    let media: Arc<dyn Media> = Arc::new(disk.clone());
    let memory = open(&media, Log::create(&media, &LogOptions::small(), &[]).expect("a log is created"));
    let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) };
    memory.create_heap("words", &options).expect("a heap");
    disk.inject(Fault::error(Call::Remove, std::io::ErrorKind::Other).of("heaps/words.0"));
    let failed = memory.drop_heap("words").expect_err("a file stays");
    assert!(matches!(failed, Error::Io { .. }) && failed.to_string().contains("is dropped"), "{failed}");
    assert_eq!(media.list("heaps").expect("a list"), ["words.0"]);
    assert!(matches!(memory.drop_heap("words"), Err(Error::Unknown { .. })));
    memory.create_heap("words", &options).expect("the name is free");
    disk.inject(Fault::error(Call::Remove, std::io::ErrorKind::Other).of("heaps/words.1"));
    memory.drop_heap("words").expect_err("a file stays");
    drop(memory);
    let log = Log::look(&media).expect("it can be read").begin(&[], &LogOptions::small()).expect("it opens");
    assert!(open(&media, log).heap("words").is_err());
    assert!(media.list("heaps").expect("a list").is_empty());
}

/// A checkpoint that a panic ends has written to files that the root does not name, and perhaps the root. The next one would
/// take them for what they were before.
#[test]
fn panicking_checkpoint_stops_the_log() {
    let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(8192) };
    for (call, nth) in [Call::Write, Call::Sync].into_iter().flat_map(|call| (1..=4).map(move |nth| (call, nth))) {
        let disk = SimDisk::new();
        let media: Arc<dyn Media> = Arc::new(disk.clone());
        let memory = open(&media, Log::create(&media, &LogOptions::small(), &[]).expect("a log is created"));
        let heap = memory.create_heap("words", &options).expect("a heap");
        for value in 1..=3 {
            heap.atomically(|tx| tx.write(&heap, 0, value)).expect("room");
            if value < 3 {
                memory.checkpoint().expect("the disk works");
            }
        }
        disk.inject(Fault::panic(call).nth(nth).of("heaps"));
        let panicked = catch_unwind(AssertUnwindSafe(|| memory.checkpoint())).is_err();
        disk.clear_faults();
        let next = memory.checkpoint();
        // One chunk and its header are written, each with a sync, and then both slots of the root.
        let is_reached = nth <= if matches!(call, Call::Write) { 4 } else { 2 };
        assert_eq!(panicked, is_reached, "{call:?} {nth}");
        assert_eq!(matches!(next, Err(Error::Stopped(_))), panicked, "{call:?} {nth}: {next:?}");
        drop((heap, memory));
        let media: Arc<dyn Media> = Arc::new(disk.cut_power(Loss::Everything));
        let log = Log::look(&media).expect("it can be read").begin(&[], &LogOptions::small()).expect("it opens");
        drop(open(&media, log));
    }
}

/// A drop that a panic ends leaves a heap that memory does not know and the root names: it would keep the log from ever being
/// truncated.
#[test]
fn panicking_drop_stops_the_log() {
    let disk = SimDisk::new();
    let media: Arc<dyn Media> = Arc::new(disk.clone());
    let memory = open(&media, Log::create(&media, &LogOptions::small(), &[]).expect("a log is created"));
    let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) };
    memory.create_heap("words", &options).expect("a heap");
    disk.inject(Fault::panic(Call::Write).of("heaps.root"));
    catch_unwind(AssertUnwindSafe(|| memory.drop_heap("words"))).expect_err("the disk panics");
    assert!(matches!(memory.create_heap("others", &options), Err(Error::Stopped(_))));
}
