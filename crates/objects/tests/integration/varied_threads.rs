//! Threads that commit to one store with few keys, while the disk fills and becomes free, checkpoints are taken, transactions are
//! prepared and resolved, and the power fails: each acknowledged commit is found, and each thread ends.
#![cfg(not(cedrat_shuttle))]

use std::time::Duration;

use cedrat_heap::{Heap, HeapOptions};
use cedrat_media::{Call, Fault, Loss, Media, SimDisk};
use cedrat_pages::LayoutKind;
use cedrat_structures::HashTable;
use cedrat_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Error, FormatFresh, Options, RecordId, Registry, Result, Store, Txn, Vote};

type Table = HashTable<u64, Vec<u8>>;

const THREADS: u64 = 4;
const SHARED: u64 = 1000;
/// The length of each value, after its number.
const LEN: usize = 300;

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % below
    }
}

fn value(number: u64) -> Vec<u8> {
    let mut bytes = vec![7; LEN];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn number(bytes: Option<Vec<u8>>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap()))
}

fn options(random: &mut Random) -> Options {
    let base = Options::simulated();
    let pick = |random: &mut Random, of: &[u64]| of[random.below(of.len() as u64) as usize];
    Options {
        pool_bytes: pick(random, &[16, 32, 64, 1024]) * 4096,
        log_limit_bytes: pick(random, &[12, 16, 40]) * base.segment_len,
        background: random.below(3) > 0,
        checkpoint_every_bytes: pick(random, &[20_000, 200_000]),
        redo_threads: 2,
        txn_time_limit: (random.below(2) == 0).then(|| Duration::from_millis(200)),
        ..base
    }
}

/// Adds one to the thread's own number, to one of few shared ones, and to a word. Returns the new number of the thread.
fn step(store: &Store, table: &Table, heap: &Heap, own: u64, random: &mut Random) -> Result<u64> {
    let mut txn = store.begin();
    let next = number(table.get(&mut txn, &own)?) + 1;
    table.insert(&mut txn, &own, &value(next))?;
    let shared = SHARED + random.below(3);
    let sum = number(table.get(&mut txn, &shared)?) + 1;
    table.insert(&mut txn, &shared, &value(sum))?;
    if random.below(2) == 0 {
        txn.heap(|tx| tx.update(heap, own * 8, |word| word + 1))?;
    }
    if random.below(8) == 0 {
        // Long enough that its space is returned to the file system.
        let first = txn.allocate_region(40)?;
        let format = |txn: &mut Txn, page| txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW));
        (0..40).try_for_each(|page| format(&mut txn, first.after(page)))?;
        txn.commit(Commit::Async)?;
        let mut frees = store.begin();
        frees.free_region(first, 40)?;
        frees.commit(Commit::Async)?;
        return Ok(0);
    }
    match random.below(10) {
        0 => txn.rollback().map(|()| 0),
        1 => {
            let id = format!("{own}").into_bytes();
            match txn.prepare(&id)? {
                Vote::Prepared(prepared) => prepared.commit(Commit::Sync)?,
                Vote::ReadOnly => unreachable!("it has changed something"),
            };
            Ok(next)
        }
        2 => txn.commit(Commit::Async)?.wait().map(|_| next).map_err(Error::from),
        _ => txn.commit(Commit::Sync).map(|_| next),
    }
}

fn structures(store: &Store, is_new: bool) -> (Table, Heap) {
    if is_new {
        let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) };
        (
            store.transact(|txn| Table::create(txn, "table")).unwrap(),
            store.memory().create_heap("heap", &options).unwrap(),
        )
    } else {
        (store.transact(|txn| Table::open(txn, "table")).unwrap(), store.memory().heap("heap").unwrap())
    }
}

/// Compares the store with what was acknowledged.
fn judge(seed: u64, store: &Store, table: &Table, acknowledged: &[AtomicU64]) {
    let mut txn = store.begin();
    let mut sum = 0;
    for own in 0..THREADS {
        let found = number(table.get(&mut txn, &own).unwrap());
        let known = acknowledged[own as usize].load(Ordering::SeqCst);
        assert!(found >= known, "seed {seed}: {known} acknowledged to thread {own}, {found} found");
        acknowledged[own as usize].store(found, Ordering::SeqCst);
        sum += found;
    }
    let shared: u64 = (0..3).map(|at| number(table.get(&mut txn, &(SHARED + at)).unwrap())).sum();
    assert_eq!(shared, sum, "seed {seed}: a transaction counts in part");
    txn.rollback().unwrap();
    store.check().unwrap();
}

fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut disk = Arc::new(SimDisk::new());
    let acknowledged: Arc<Vec<AtomicU64>> = Arc::new((0..THREADS).map(|_| AtomicU64::new(0)).collect());
    for opening in 0..5 {
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&disk);
        let store = Store::open(media, options(&mut random), Registry::new().with(cedrat_structures::register));
        let store = store.expect("it opens");
        for branch in store.in_doubt().unwrap() {
            store.prepared(&branch.id).unwrap().commit(Commit::Sync).unwrap();
        }
        let (table, heap) = structures(&store, opening == 0);
        judge(seed, &store, &table, &acknowledged);
        let ends = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..THREADS)
            .map(|own| {
                let (store, table, heap) = (store.clone(), table.clone(), heap.clone());
                let (acknowledged, ends) = (Arc::clone(&acknowledged), Arc::clone(&ends));
                let mut random = Random(random.below(u64::MAX) | 1);
                thread::spawn(move || {
                    while !ends.load(Ordering::SeqCst) {
                        match step(&store, &table, &heap, own, &mut random) {
                            Ok(next) => drop(acknowledged[own as usize].fetch_max(next, Ordering::SeqCst)),
                            Err(_) if store.log().stopped().is_some() => return,
                            Err(_) => {}
                        }
                    }
                })
            })
            .collect();
        let dies = random.below(2) == 0;
        if dies {
            disk.inject(Fault::power_loss(Call::Any).nth(500 + random.below(5000)));
        }
        for _ in 0..200 {
            match random.below(4) {
                0 => drop(store.checkpoint()),
                1 => disk.set_capacity(Some(disk.space() + random.below(200_000))),
                2 => disk.set_capacity(None),
                _ => {
                    let checked = store.check();
                    assert!(checked.is_ok() || dies || store.log().is_stopped(), "seed {seed}: {checked:?}");
                }
            }
            (0..50).for_each(|_| thread::yield_now());
        }
        if let Some(stopped) = store.log().stopped() {
            assert!(dies, "seed {seed}: it stopped without a cause: {stopped}");
        }
        ends.store(true, Ordering::SeqCst);
        if random.below(2) == 0 {
            // The power fails beside them.
            disk = Arc::new(disk.cut_power(Loss::Random(random.below(u64::MAX))));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        } else {
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            drop((table, heap));
            drop(store);
            disk = Arc::new(disk.cut_power(Loss::Random(random.below(u64::MAX))));
        }
    }
}

#[test]
fn random_threads_lose_nothing() {
    let first = cedrat_check::seed(0);
    (first..first + 1).for_each(run);
}
