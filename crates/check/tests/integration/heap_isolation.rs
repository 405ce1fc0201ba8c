//! Isolation of heap transactions: histories of real threads, and in a build with `--cfg cedrat_shuttle` of many
//! interleavings; and the faults that the judge finds.

use std::sync::Arc;

use cedrat_heap::{Heap, HeapOptions, Locking, Memory, MemoryOptions};
use cedrat_media::SimDisk;
use cedrat_sync::explore;
use cedrat_txn::{Options, Registry, Store};

use crate::isolation::{Play, judge, judge_batches, record};

/// Number of schedules; with real threads it is one longer run.
const SCHEDULES: usize = 10_000;

fn play() -> Play {
    let many = if cfg!(cedrat_shuttle) { 4 } else { 3_000 };
    Play { threads: 3, transactions: many, words: 4, apart: 8 }
}

fn heap_of(memory: &Memory) -> Heap {
    let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) };
    memory.create_heap("words", &options).expect("a heap is created")
}

fn on_volatile(options: MemoryOptions, seed: u64) -> Result<(), String> {
    let memory = Memory::volatile(options).expect("a memory is made");
    judge(&record(&memory, &heap_of(&memory), play(), seed))
}

/// The same with a log: two partitions, so that draws of LSNs overtake each other.
fn on_store(options: MemoryOptions, seed: u64) -> Result<(), String> {
    let disk = Arc::new(SimDisk::new());
    let options = Options { partitions: 2, memory: options, ..Options::simulated() };
    let store = Store::open(disk, options, Registry::new()).expect("a store is created");
    let memory = store.memory();
    judge(&record(&memory, &heap_of(&memory), play(), seed))
}

type Setting = fn(MemoryOptions, u64) -> Result<(), String>;

fn passes(setting: Setting, change: fn(&mut MemoryOptions)) {
    let seeds = std::sync::atomic::AtomicU64::new(0);
    explore(cedrat_check::seed(0x15), SCHEDULES, move || {
        let seed = seeds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut options = options();
        change(&mut options);
        setting(options, seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    });
}

/// A small table, so that words share stripes, and two words to a stripe.
fn options() -> MemoryOptions {
    MemoryOptions { stripes_log2: 4, stripe_words_log2: 1, ..MemoryOptions::small() }
}

/// H1, H2.
#[test]
fn volatile_transactions_are_isolated() {
    passes(on_volatile, |_| {});
}

/// H1, H2, E2.3.
#[test]
fn logged_transactions_are_isolated() {
    passes(on_store, |_| {});
}

/// H1, H2, with locks taken by the first write.
#[test]
fn transactions_with_early_locks_are_isolated() {
    passes(on_store, |options| options.locking = Locking::EncounterTime);
}

/// H1, H2, where a snapshot never moves.
#[test]
fn transactions_with_fixed_snapshots_are_isolated() {
    passes(on_volatile, |options| options.snapshot_extension = false);
}

/// Batches with transactions that fail: each is isolated from the others, also from those that share its commit.
fn batches_on_volatile(options: MemoryOptions, seed: u64) -> Result<(), String> {
    let memory = Memory::volatile(options).expect("a memory is made");
    judge_batches(&memory, &heap_of(&memory), play(), seed)
}

fn batches_on_store(options: MemoryOptions, seed: u64) -> Result<(), String> {
    let disk = Arc::new(SimDisk::new());
    let options = Options { partitions: 2, memory: options, ..Options::simulated() };
    let store = Store::open(disk, options, Registry::new()).expect("a store is created");
    let memory = store.memory();
    judge_batches(&memory, &heap_of(&memory), play(), seed)
}

/// H6, H1, H2, H4.
#[test]
fn batches_are_isolated() {
    passes(batches_on_volatile, |_| {});
}

/// H1, H2, H4, E2.3.
#[test]
fn logged_batches_are_isolated() {
    passes(batches_on_store, |_| {});
}

#[cfg(cedrat_shuttle)]
mod planted {
    use super::*;
    use cedrat_heap::Fault;

    fn caught(setting: Setting, fault: Fault, by: &str) {
        let found = std::panic::catch_unwind(|| {
            let seeds = std::sync::atomic::AtomicU64::new(0);
            explore(0x16, 40_000, move || {
                let seed = seeds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                setting(MemoryOptions { fault: Some(fault), ..options() }, seed)
                    .unwrap_or_else(|wrong| panic!("{wrong}"));
            });
        });
        let panic = found.expect_err("the planted fault is found");
        let words = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(words.contains(by), "{words}");
    }

    #[test]
    fn skipping_validation_is_caught() {
        caught(on_volatile, Fault::SkipValidation, "serialisability");
    }

    #[test]
    fn skipping_validation_of_batches_is_caught() {
        caught(batches_on_volatile, Fault::SkipValidation, "isolation of batches");
    }

    #[test]
    fn publishing_before_locking_is_caught() {
        caught(on_volatile, Fault::PublishBeforeLock, "serialisability");
    }

    /// E2.3.
    #[test]
    fn validating_before_the_draw_is_caught() {
        caught(on_store, Fault::ValidateBeforeDraw, "serialisability");
    }
}
