//! Measures an opening after a crash, of a store with a large heap and words in the log: the time to the first answer, and until the
//! whole heap is loaded.
//!
//! `cargo run --release -p cedrat-txn --example heap_opening_time [MIB OF THE HEAP] [MILLIONS OF WORDS IN THE LOG] [DIRECTORY]`. Each
//! way of loading opens the same files, with their pages in the cache of the system. For quick checks of a change.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cedrat_heap::{Commit, HeapOptions, MemoryOptions};
use cedrat_media::{Media, RealDisk};
use cedrat_sync::Arc;
use cedrat_txn::{Options, Registry, Result, Store};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).and_then(|n| n.parse().ok()).unwrap_or(default);
    if arguments.first().is_some_and(|first| first == "fill") {
        return fill(arguments[3].as_ref(), number(1, 0), number(2, 0));
    }
    let (mib, millions) = (number(0, 512), number(1, 1));
    let parent = arguments.get(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = parent.join(format!("cedrat-heap-opening-time-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the directory can be made");
    let mut child = Command::new(std::env::current_exe().expect("its own path"));
    child.arg("fill").args([mib.to_string(), millions.to_string()]).arg(&directory);
    assert!(child.status().expect("it starts").success());
    for round in 0..2 {
        for (name, load_on_demand_bytes) in [("eager", u64::MAX), ("on demand", 64 << 20)] {
            println!("round {round}, {name}: {}", measure(&directory, mib << 20, load_on_demand_bytes)?);
        }
    }
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
    Ok(())
}

/// Opens the store, and measures when it answers.
fn measure(directory: &Path, bytes: u64, load_on_demand_bytes: u64) -> Result<String> {
    const TRANSACTIONS: u64 = 1000;
    let begun = Instant::now();
    let store = open(directory, load_on_demand_bytes)?;
    let opened = begun.elapsed();
    let heap = store.memory().heap("heap")?;
    let place = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (bytes / 8) * 8;
    heap.memory().run(Commit::Async, |tx| tx.read(&heap, place(1)))?;
    let answered = begun.elapsed();
    let absent = store.recovery().absent_heap_bytes >> 20;
    let mut slowest = Duration::ZERO;
    for number in 0..TRANSACTIONS {
        let asked = Instant::now();
        heap.memory().run(Commit::Async, |tx| tx.read(&heap, place(number)))?;
        slowest = slowest.max(asked.elapsed());
    }
    let many = begun.elapsed();
    store.complete_recovery()?;
    let loaded = begun.elapsed();
    let words = store.recovery().heap_words;
    Ok(format!(
        "opened after {opened:?} ({words} words replayed, {absent} MiB absent), first answer after {answered:?}, \
         {TRANSACTIONS} answers after {many:?}, the slowest in {slowest:?}, all loaded after {loaded:?}"
    ))
}

fn open(directory: &Path, load_on_demand_bytes: u64) -> Result<Store> {
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
    let memory = MemoryOptions { load_on_demand_bytes, ..MemoryOptions::default() };
    let (checkpoint_when_opened, checkpoint_every_bytes) = (false, u64::MAX);
    let options = Options {
        memory,
        checkpoint_when_opened,
        checkpoint_every_bytes,
        log_limit_bytes: 8 << 30,
        ..Options::default()
    };
    Ok(Store::open(media, options, Registry::new())?)
}

/// Fills a heap, takes a checkpoint, writes `millions` million words more, and ends without closing the store.
fn fill(directory: &Path, mib: u64, millions: u64) -> Result<()> {
    const WORDS: u64 = 1000;
    let store = open(directory, u64::MAX)?;
    let (bytes, memory) = (mib << 20, store.memory());
    let heap = memory.create_heap("heap", &HeapOptions::raw(bytes))?;
    // A word of each page of the system.
    for first in (0..bytes / 4096).step_by(WORDS as usize) {
        let pages = first..(first + WORDS).min(bytes / 4096);
        memory.run(Commit::Async, |tx| pages.clone().try_for_each(|page| tx.write(&heap, page * 4096, page + 1)))?;
    }
    store.checkpoint()?;
    for first in (0..millions * 1_000_000).step_by(WORDS as usize) {
        let place = |number: u64| number.wrapping_mul(0xd134_2543_de82_ef95) % (bytes / 8) * 8;
        memory
            .run(Commit::Async, |tx| (first..first + WORDS).try_for_each(|word| tx.write(&heap, place(word), word)))?;
    }
    store.log().force(store.log().current_lsn())?;
    println!("filled: {mib} MiB of heap, {} MiB of log", store.log().bytes_since(memory.redo_from()).0 >> 20);
    std::process::exit(0)
}
