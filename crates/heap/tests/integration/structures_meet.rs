//! Maps that several threads change concurrently, compared with a plain map that is changed in the order of the commits:
//! every interleaving that the seeds lead to. The results of each transaction are the same in both.

use std::collections::BTreeMap;

use cedrat_heap::{Commit, Heap, HeapMap, HeapOptions, HeapOrderedMap, Interrupt, Memory, MemoryOptions, Session, Tx};
use cedrat_sync::{Arc, explore, thread};

/// Real threads run more transactions, because there is only one schedule.
const TRANSACTIONS: u64 = if cfg!(cedrat_shuttle) { 5 } else { 2_000 };

/// An operation on a key.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u64, u64),
    Take(u64),
    Look(u64),
}

/// A committed transaction: its version, and the result of each of its steps.
struct Done {
    version: u64,
    changes: bool,
    steps: Vec<(Step, Option<u64>)>,
}

trait Map: Clone + Send + Sync + 'static {
    fn open(heap: &Heap) -> Self;
    fn step(&self, tx: &mut Tx<'_>, step: Step) -> Result<Option<u64>, Interrupt>;
    /// Returns the whole content, after a check of the map's shape.
    fn all(&self, tx: &mut Tx<'_>) -> Result<BTreeMap<u64, u64>, Interrupt>;
}

macro_rules! map {
    ($map:ty, $all:expr) => {
        impl Map for $map {
            fn open(heap: &Heap) -> Self {
                <$map>::open(heap, "map").expect("it is made")
            }
            fn step(&self, tx: &mut Tx<'_>, step: Step) -> Result<Option<u64>, Interrupt> {
                match step {
                    Step::Put(key, value) => self.insert(tx, key, value),
                    Step::Take(key) => self.remove(tx, &key),
                    Step::Look(key) => self.get(tx, &key),
                }
            }
            fn all(&self, tx: &mut Tx<'_>) -> Result<BTreeMap<u64, u64>, Interrupt> {
                let all: BTreeMap<u64, u64> = $all(self, tx)?;
                assert_eq!(self.verify(tx)?, all.len() as u64);
                Ok(all)
            }
        }
    };
}

map!(HeapMap<u64, u64>, |map: &Self, tx: &mut Tx<'_>| {
    let mut all = BTreeMap::new();
    map.for_each(tx, |key, value| {
        all.insert(key, value);
        Ok(())
    })?;
    Ok::<_, Interrupt>(all)
});
map!(HeapOrderedMap<u64, u64>, |map: &Self, tx: &mut Tx<'_>| {
    Ok::<_, Interrupt>(map.range(tx, ..)?.into_iter().collect())
});

/// Range of the keys, and the keys present at first: near the point where a map shrinks.
#[derive(Clone, Copy)]
struct Keys {
    all: u64,
    first: u64,
}

fn clerk<M: Map>(map: &M, session: &mut Session, keys: Keys, mut chance: u64) -> Vec<Done> {
    let mut next = || {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        chance
    };
    let mut all = Vec::new();
    for _ in 0..TRANSACTIONS {
        let work: Vec<Step> = (0..1 + next() % 4)
            .map(|_| {
                let key = next() % keys.all;
                // Phases of growth alternate with phases of shrinking.
                match next() % 8 + next() / 8 % 2 * u64::from(all.len() / 64 % 2 == 1) {
                    0..5 => Step::Take(key),
                    5 => Step::Look(key),
                    _ => Step::Put(key, next() % 1000),
                }
            })
            .collect();
        let changes = work.iter().any(|step| !matches!(step, Step::Look(_)));
        let done = session.run(Commit::Sync, |tx| {
            work.iter().map(|&step| Ok((step, map.step(tx, step)?))).collect::<Result<Vec<_>, Interrupt>>()
        });
        let done = done.expect("each conflict ends");
        // A transaction that removed only missing keys has changed nothing, and so has its snapshot's version, not one of
        // its own.
        let took_nothing = done.value.iter().all(|(step, was)| match step {
            Step::Put(..) => false,
            Step::Take(_) => was.is_none(),
            Step::Look(_) => true,
        });
        all.push(Done { version: done.lsn.get(), changes: changes && !took_nothing, steps: done.value });
    }
    all
}

fn meet<M: Map>(options: MemoryOptions, keys: Keys, seed: u64) {
    let memory = Memory::volatile(options).expect("memory");
    let options = HeapOptions { chunk_len: 4096, ..HeapOptions::new(256 << 10) };
    let heap = memory.create_heap("maps", &options).expect("a heap");
    let map = M::open(&heap);
    let mut model: BTreeMap<u64, u64> = (0..keys.first).map(|at| (at * keys.all / keys.first, at)).collect();
    let fill =
        heap.atomically(|tx| model.iter().try_for_each(|(&key, &value)| map.step(tx, Step::Put(key, value)).map(drop)));
    fill.expect("room");
    let threads: Vec<_> = (0..2u64)
        .map(|number| {
            let (map, memory) = (map.clone(), memory.clone());
            let chance = (seed * 2 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            thread::spawn(move || clerk(&map, &mut memory.session().expect("a session"), keys, chance))
        })
        .collect();
    let mut all: Vec<Done> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    // Read-only transactions have seen the state after the commit with their version.
    all.sort_by_key(|done| (done.version, !done.changes));
    for done in all {
        for (step, was) in done.steps {
            let expected = match step {
                Step::Put(key, value) => model.insert(key, value),
                Step::Take(key) => model.remove(&key),
                Step::Look(key) => model.get(&key).copied(),
            };
            assert_eq!(was, expected, "{step:?} in the commit with version {}", done.version);
        }
    }
    assert_eq!(heap.atomically(|tx| map.all(tx)).expect("reading"), model);
    heap.verify().expect("an account that makes sense");
}

fn options() -> MemoryOptions {
    MemoryOptions { stripes_log2: 10, ..MemoryOptions::small() }
}

fn meetings<M: Map>(options: MemoryOptions, seed: u64, schedules: usize, keys: Keys) {
    let seeds = Arc::new(std::sync::atomic::AtomicU64::new(1));
    explore(seed, schedules, move || {
        let of_keys = seeds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        meet::<M>(options.clone(), keys, of_keys);
    });
}

#[test]
fn ordered_map_threads_see_commit_order() {
    meetings::<HeapOrderedMap<u64, u64>>(options(), 21, 600, Keys { all: 48, first: 20 });
}

#[test]
fn map_threads_see_commit_order() {
    meetings::<HeapMap<u64, u64>>(options(), 22, 200, Keys { all: 700, first: 350 });
}

#[test]
#[cfg(cedrat_shuttle)]
fn a_commit_that_does_not_look_again_is_noticed_in_a_map() {
    let options = MemoryOptions { fault: Some(cedrat_heap::Fault::SkipValidation), ..options() };
    let keys = Keys { all: 48, first: 20 };
    let found = std::panic::catch_unwind(|| meetings::<HeapOrderedMap<u64, u64>>(options, 21, 600, keys));
    assert!(found.is_err(), "the map was always as if one had come after the other");
}
