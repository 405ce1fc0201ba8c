//! Creations of a store that are interrupted at each call, several in a row, each with other options: the next one creates the
//! store, or finds it.
#![cfg(not(cedrat_shuttle))] // a panic ends a schedule

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_check::Rng;
use cedrat_heap::HeapOptions;
use cedrat_media::{Call, Fault, Kill, Loss, SimDisk};
use cedrat_structures::HashTable;
use cedrat_sync::Arc;
use cedrat_txn::{OpenError, Options, Registry, Result, Store};

type Table = HashTable<u64, u64>;

fn options(rng: &mut Rng) -> Options {
    let base = Options::simulated();
    let (partitions, segment_len) = (*rng.pick(&[1, 2, 4]), base.segment_len * *rng.pick(&[1, 2]));
    Options {
        partitions,
        segment_len,
        log_limit_bytes: base.segment_len * *rng.pick(&[20, 32]),
        background: rng.below(8) == 0,
        checkpoint_when_opened: rng.below(2) == 0,
        ..base
    }
}

fn open(disk: &Arc<SimDisk>, options: Options) -> Result<Store, OpenError> {
    let registry = Registry::new().with(cedrat_structures::register);
    Store::open(Arc::<SimDisk>::clone(disk), options, registry)
}

/// Creates what is missing, and changes it. Returns the number that is stored.
fn use_it(store: &Store, number: u64) -> Result<u64> {
    let heap = match store.memory().heap("heap") {
        Ok(heap) => heap,
        Err(_) => store.memory().create_heap("heap", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(8192) })?,
    };
    store.transact(|txn| {
        let table = Table::open_or_create(txn, "table")?;
        table.insert(txn, &1, &number)?;
        txn.heap(|tx| tx.write(&heap, 4096, number))
    })?;
    store.checkpoint()?;
    Ok(number)
}

/// Returns the number in the store; 0 if it has none.
fn number_in(store: &Store) -> u64 {
    store.check().expect("its pages are sound");
    let mut txn = store.begin();
    let in_table = Table::open(&mut txn, "table").map(|table| table.get(&mut txn, &1).expect("it is read"));
    let in_table = in_table.ok().flatten().unwrap_or(0);
    let in_heap =
        store.memory().heap("heap").map(|heap| heap.atomically(|tx| tx.read(&heap, 4096)).expect("it is read"));
    assert_eq!(in_table, in_heap.unwrap_or(0), "a transaction counts in part");
    in_table
}

fn fault(rng: &mut Rng, nth: u64) -> Fault {
    match rng.below(8) {
        0 => Fault::panic(Call::Any).nth(nth),
        1 => Fault::error(Call::Any, io::ErrorKind::Other).nth(nth),
        2 => Fault::error(Call::Any, io::ErrorKind::StorageFull).nth(nth),
        3 => Fault::forgetful_sync().nth(1 + nth / 4),
        _ => Fault::power_loss(Call::Any).nth(nth),
    }
}

fn crash(rng: &mut Rng, disk: &SimDisk) -> Arc<SimDisk> {
    let seed = rng.next_u64();
    Arc::new(match rng.below(6) {
        0 => disk.cut_power(Loss::Everything),
        1 => disk.cut_power(Loss::Nothing),
        2 => disk.cut_power(Loss::Whole(seed)),
        3 => disk.cut_power(Loss::Random(seed)),
        kind => {
            let mut cursor = disk.journal().cursor();
            cursor.advance_to(cursor.journal().len());
            cursor.kill(if kind == 4 { Kill::Process(seed) } else { Kill::FailedSync(seed) })
        }
    })
}

/// Opens the store, and uses it, with a fault at the `nth` call. Returns the numbers that may be in it afterwards.
fn interrupted(rng: &mut Rng, disk: &Arc<SimDisk>, nth: u64, before: Vec<u64>, number: u64) -> Vec<u64> {
    disk.inject(fault(rng, nth));
    let options = options(rng);
    let opened = catch_unwind(AssertUnwindSafe(|| open(disk, options)));
    let Ok(Ok(store)) = opened else { return before };
    let used = catch_unwind(AssertUnwindSafe(|| use_it(&store, number)));
    let _ = catch_unwind(AssertUnwindSafe(|| drop(store)));
    match used {
        Ok(Ok(number)) => vec![number],
        _ => before.into_iter().chain([number]).collect(),
    }
}

/// R2, R6: nothing but time is lost.
#[test]
fn interrupted_creation_is_repeated() {
    let first = cedrat_check::seed(1);
    let mut states = 0;
    for seed in first..first + 2 {
        for nth in 1..=190 {
            let mut rng = Rng::new(seed).part(nth);
            let (mut disk, mut numbers) = (Arc::new(SimDisk::new()), vec![0]);
            let faults = 1 + rng.below(3);
            for round in 0..faults {
                let nth = if round == 0 { nth } else { 1 + rng.below(150) };
                numbers = interrupted(&mut rng, &disk, nth, numbers, round + 1);
                disk = crash(&mut rng, &disk);
            }
            let what = format!("seed {seed}, call {nth}, numbers {numbers:?}");
            for number in [10, 11] {
                states += 1;
                let store = open(&disk, options(&mut rng)).unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = number_in(&store);
                assert!(numbers.contains(&found), "{what}: {found}");
                numbers = vec![use_it(&store, number).unwrap_or_else(|error| panic!("{what}: {error}"))];
                drop(store);
                disk = crash(&mut rng, &disk);
            }
        }
    }
    println!("{states} states");
}
