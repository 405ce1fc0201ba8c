//! Durable structures against those of the standard library, with transactions that are rolled back, wholly or in part.
#![cfg(not(cedrat_shuttle))]

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_heap::*;
use proptest::prelude::*;

/// A structure with its model.
trait Subject {
    type Model: Clone + Default;

    /// Applies the same operation to both and compares the results.
    fn step(&self, tx: &mut Tx<'_>, model: &mut Self::Model, step: &Step) -> Result<(), Interrupt>;

    /// Checks that both have the same content.
    fn check(&self, tx: &mut Tx<'_>, model: &Self::Model) -> Result<(), Interrupt>;

    fn remove(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt>;
}

#[derive(Clone, Debug)]
struct Step {
    action: u8,
    key: u64,
    value: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u8..30, 0u64..300, any::<u64>()).prop_map(|(action, key, value)| Step { action, key, value });
    proptest::collection::vec(step, 1..600)
}

fn heap() -> Heap {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    memory.create_heap("structures", &HeapOptions { chunk_len: 4096, ..HeapOptions::new(8 << 20) }).expect("a heap")
}

const NAME: &str = "subject";

/// Actions from 26 on end a transaction, or set and use savepoints.
fn run<S: Subject>(open: impl Fn(&Heap) -> Result<S>, steps: &[Step]) {
    let heap = heap();
    let subject = open(&heap).expect("it is created");
    let mut model = S::Model::default();
    for part in steps.split_inclusive(|step| step.action >= 28) {
        let done = heap.atomically(|tx| {
            let mut now = model.clone();
            let mut savepoint = None;
            for step in part {
                match step.action {
                    26 => savepoint = Some((tx.savepoint(), now.clone())),
                    27 => {
                        if let Some((place, then)) = savepoint.clone() {
                            tx.back_to(place)?;
                            now = then;
                        }
                    }
                    28 => return Err(Interrupt::abort("as planned")),
                    29 => {}
                    _ => subject.step(tx, &mut now, step)?,
                }
            }
            subject.check(tx, &now)?;
            Ok(now)
        });
        match done {
            Ok(now) => model = now,
            Err(Error::Aborted(_)) => {}
            Err(other) => panic!("{other}"),
        }
        heap.atomically(|tx| subject.check(tx, &model)).expect("reading");
    }
    let again = open(&heap).expect("it is opened");
    heap.atomically(|tx| again.check(tx, &model)).expect("reading");
    heap.atomically(|tx| again.remove(tx)).expect("it is removed");
    let gone = heap.atomically(|tx| subject.check(tx, &model));
    assert!(matches!(gone, Err(Error::NotAllocated { .. })), "{gone:?}");
    assert_eq!(heap.verify().expect("it makes sense").blocks, 0, "nothing is left of it");
}

/// A key of two words, which differ.
type Key = (u8, u16);
type Value = [u64; 2];

fn key(step: &Step) -> Key {
    (step.key as u8, (step.key * 7) as u16)
}

fn value(step: &Step) -> Value {
    [step.value, step.value ^ step.key]
}

impl Subject for HeapMap<Key, Value> {
    type Model = HashMap<Key, Value>;

    fn step(&self, tx: &mut Tx<'_>, model: &mut Self::Model, step: &Step) -> Result<(), Interrupt> {
        let key = key(step);
        match step.action {
            0..16 => assert_eq!(self.insert(tx, key, value(step))?, model.insert(key, value(step))),
            16..22 => assert_eq!(self.remove(tx, &key)?, model.remove(&key)),
            22 if step.value.is_multiple_of(8) => {
                self.clear(tx)?;
                model.clear();
            }
            _ => assert_eq!(self.contains_key(tx, &key)?, model.contains_key(&key)),
        }
        Ok(())
    }

    fn check(&self, tx: &mut Tx<'_>, model: &Self::Model) -> Result<(), Interrupt> {
        assert_eq!((self.len(tx)?, self.verify(tx)?), (model.len() as u64, model.len() as u64));
        for (key, value) in model {
            assert_eq!(self.get(tx, key)?, Some(*value));
        }
        let mut all = HashMap::new();
        self.for_each(tx, |key, value| {
            assert!(all.insert(key, value).is_none(), "a key is there twice");
            Ok(())
        })?;
        assert_eq!(&all, model);
        Ok(())
    }

    fn remove(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        self.remove_as(tx, NAME)
    }
}

impl Subject for HeapOrderedMap<Key, Value> {
    type Model = BTreeMap<Key, Value>;

    fn step(&self, tx: &mut Tx<'_>, model: &mut Self::Model, step: &Step) -> Result<(), Interrupt> {
        let key = key(step);
        match step.action {
            0..12 => assert_eq!(self.insert(tx, key, value(step))?, model.insert(key, value(step))),
            12..20 => assert_eq!(self.remove(tx, &key)?, model.remove(&key)),
            20 if step.value.is_multiple_of(8) => {
                self.clear(tx)?;
                model.clear();
            }
            21 => {
                let to = (key.0.saturating_add(step.value as u8 % 50), 0);
                let expected: Vec<_> = model.range(key..to.max(key)).map(|(&key, &value)| (key, value)).collect();
                assert_eq!(self.range(tx, key..to)?, expected);
            }
            22 => {
                let expected: Vec<_> = model.range(..=key).map(|(&key, &value)| (key, value)).collect();
                assert_eq!(self.range(tx, ..=key)?, expected);
                let behind = (std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded);
                let expected = model.range(behind).next().map(|(&key, &value)| (key, value));
                let mut next = None;
                self.visit(tx, behind, |key, value| {
                    next = Some((key, value));
                    Ok(false)
                })?;
                assert_eq!(next, expected);
            }
            23 => {
                assert_eq!(self.first(tx)?, model.first_key_value().map(|(&key, &value)| (key, value)));
                assert_eq!(self.last(tx)?, model.last_key_value().map(|(&key, &value)| (key, value)));
                assert_eq!(self.is_empty(tx)?, model.is_empty());
            }
            _ => assert_eq!(self.contains_key(tx, &key)?, model.contains_key(&key)),
        }
        Ok(())
    }

    fn check(&self, tx: &mut Tx<'_>, model: &Self::Model) -> Result<(), Interrupt> {
        assert_eq!((self.len(tx)?, self.verify(tx)?), (model.len() as u64, model.len() as u64));
        assert!(self.range(tx, ..)?.into_iter().eq(model.iter().map(|(&key, &value)| (key, value))));
        for (key, value) in model {
            assert_eq!(self.get(tx, key)?, Some(*value));
        }
        Ok(())
    }

    fn remove(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        self.remove_as(tx, NAME)
    }
}

impl Subject for HeapVec<Value> {
    type Model = Vec<Value>;

    fn step(&self, tx: &mut Tx<'_>, model: &mut Self::Model, step: &Step) -> Result<(), Interrupt> {
        match step.action {
            0..12 => {
                assert_eq!(self.push(tx, value(step))?, model.len() as u64);
                model.push(value(step));
            }
            12..20 => assert_eq!(self.pop(tx)?, model.pop()),
            20 if step.value.is_multiple_of(8) => {
                self.clear(tx)?;
                model.clear();
            }
            21..24 => {
                let place = model.get_mut(step.key as usize);
                assert_eq!(self.set(tx, step.key, value(step))?, place.is_some());
                place.into_iter().for_each(|place| *place = value(step));
            }
            _ => assert_eq!(self.get(tx, step.key)?, model.get(step.key as usize).copied()),
        }
        Ok(())
    }

    fn check(&self, tx: &mut Tx<'_>, model: &Self::Model) -> Result<(), Interrupt> {
        assert_eq!(self.len(tx)?, model.len() as u64);
        for (at, value) in model.iter().enumerate() {
            assert_eq!(self.get(tx, at as u64)?, Some(*value));
        }
        Ok(())
    }

    fn remove(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        self.remove_as(tx, NAME)
    }
}

impl Subject for HeapQueue<Value> {
    type Model = VecDeque<Value>;

    fn step(&self, tx: &mut Tx<'_>, model: &mut Self::Model, step: &Step) -> Result<(), Interrupt> {
        match step.action {
            0..12 => {
                self.push(tx, value(step))?;
                model.push_back(value(step));
            }
            12..24 => assert_eq!(self.pop(tx)?, model.pop_front()),
            _ => assert_eq!(self.peek(tx)?, model.front().copied()),
        }
        Ok(())
    }

    fn check(&self, tx: &mut Tx<'_>, model: &Self::Model) -> Result<(), Interrupt> {
        assert_eq!(self.len(tx)?, model.len() as u64);
        assert_eq!(self.is_empty(tx)?, model.is_empty());
        assert_eq!(self.peek(tx)?, model.front().copied());
        Ok(())
    }

    fn remove(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        self.remove_as(tx, NAME)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_map_is_a_map(steps in steps()) {
        run(|heap| HeapMap::<Key, Value>::open(heap, NAME), &steps);
    }

    #[test]
    fn an_ordered_map_is_an_ordered_map(steps in steps()) {
        run(|heap| HeapOrderedMap::<Key, Value>::open(heap, NAME), &steps);
    }

    #[test]
    fn a_vector_is_a_vector(steps in steps()) {
        run(|heap| HeapVec::<Value>::open(heap, NAME), &steps);
    }

    #[test]
    fn a_queue_is_a_queue(steps in steps()) {
        run(|heap| HeapQueue::<Value>::open(heap, NAME), &steps);
    }
}

#[test]
fn structures_grow_large_and_shrink() {
    const COUNT: u64 = 20_000;
    let heap = heap();
    let map = HeapMap::<u64, u64>::open(&heap, "map").unwrap();
    let ordered = HeapOrderedMap::<u64, u64>::open(&heap, "ordered").unwrap();
    let scattered = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for at in 0..COUNT {
        heap.atomically(|tx| {
            assert_eq!(map.insert(tx, at, at + 1)?, None);
            assert_eq!(ordered.insert(tx, scattered(at), at)?, None);
            Ok(())
        })
        .unwrap();
    }
    heap.atomically(|tx| {
        assert_eq!((map.len(tx)?, ordered.len(tx)?), (COUNT, COUNT));
        for at in 0..COUNT {
            assert_eq!(map.get(tx, &at)?, Some(at + 1));
            assert_eq!(ordered.get(tx, &scattered(at))?, Some(at));
        }
        assert!(ordered.range(tx, ..)?.is_sorted());
        Ok(())
    })
    .unwrap();
    for at in 0..COUNT {
        heap.atomically(|tx| {
            assert_eq!(map.remove(tx, &at)?, Some(at + 1));
            assert_eq!(ordered.remove(tx, &scattered(at))?, Some(at));
            Ok(())
        })
        .unwrap();
    }
    assert!(heap.atomically(|tx| Ok(map.is_empty(tx)? && ordered.is_empty(tx)?)).unwrap());
    // Blocks of the map: a directory and a segment for each of 32 parts; heads and roots of both.
    let left = heap.verify().unwrap().blocks;
    assert!(left <= 2 * 32 + 4, "{left} blocks are left");
    heap.atomically(|tx| {
        map.remove_as(tx, "map")?;
        ordered.remove_as(tx, "ordered")
    })
    .unwrap();
    assert_eq!(heap.verify().unwrap().blocks, 0);
}

/// A map that grows and shrinks, several times.
trait Breathing: Sized {
    fn open(heap: &Heap) -> Self;
    fn insert(&self, tx: &mut Tx<'_>, key: u64) -> Result<bool, Interrupt>;
    fn remove(&self, tx: &mut Tx<'_>, key: u64) -> Result<bool, Interrupt>;
    /// Returns all keys in order, after a check of the map's shape.
    fn keys(&self, tx: &mut Tx<'_>) -> Result<Vec<u64>, Interrupt>;
    /// Returns the maximum number of blocks for this many keys.
    fn blocks_max(keys: u64) -> u64;
}

impl Breathing for HeapMap<u64, u64> {
    fn open(heap: &Heap) -> Self {
        HeapMap::open(heap, NAME).unwrap()
    }
    fn insert(&self, tx: &mut Tx<'_>, key: u64) -> Result<bool, Interrupt> {
        Ok(HeapMap::insert(self, tx, key, key)?.is_none())
    }
    fn remove(&self, tx: &mut Tx<'_>, key: u64) -> Result<bool, Interrupt> {
        Ok(HeapMap::remove(self, tx, &key)?.is_some())
    }
    fn keys(&self, tx: &mut Tx<'_>) -> Result<Vec<u64>, Interrupt> {
        let mut keys = Vec::new();
        self.for_each(tx, |key, _| {
            keys.push(key);
            Ok(())
        })?;
        assert_eq!(self.verify(tx)?, keys.len() as u64);
        keys.sort_unstable();
        Ok(keys)
    }
    /// An entry is a block; at most four buckets per key, and eight more, of which 32 form a segment.
    fn blocks_max(keys: u64) -> u64 {
        keys + 32 * 2 + (4 * keys + 8 * 32) / 32 + 32
    }
}

impl Breathing for HeapOrderedMap<u64, [u64; 3]> {
    fn open(heap: &Heap) -> Self {
        HeapOrderedMap::open(heap, NAME).unwrap()
    }
    fn insert(&self, tx: &mut Tx<'_>, key: u64) -> Result<bool, Interrupt> {
        Ok(HeapOrderedMap::insert(self, tx, key, [key; 3])?.is_none())
    }
    fn remove(&self, tx: &mut Tx<'_>, key: u64) -> Result<bool, Interrupt> {
        let value = HeapOrderedMap::remove(self, tx, &key)?;
        assert!(value.is_none_or(|value| value == [key; 3]), "another key's value");
        Ok(value.is_some())
    }
    fn keys(&self, tx: &mut Tx<'_>) -> Result<Vec<u64>, Interrupt> {
        let all = self.range(tx, ..)?;
        assert!(all.iter().all(|(key, value)| *value == [*key; 3]), "another key's value");
        assert_eq!(self.verify(tx)?, all.len() as u64);
        Ok(all.into_iter().map(|(key, _)| key).collect())
    }
    /// Every node except the root has at least four keys.
    fn blocks_max(keys: u64) -> u64 {
        keys / 4 + keys / 16 + keys / 64 + 10
    }
}

/// Returns the next key to remove: the smallest, the largest, or a random one.
fn which(model: &std::collections::BTreeSet<u64>, order: u8, chance: u64) -> Option<u64> {
    match order % 3 {
        0 => model.first().copied(),
        1 => model.last().copied(),
        _ => model.range(chance % 4096..).next().or(model.first()).copied(),
    }
}

fn breathe<M: Breathing>(phases: &[(u8, usize, u64)]) {
    let heap = heap();
    let map = M::open(&heap);
    let mut model = std::collections::BTreeSet::new();
    for &(order, many, seed) in phases {
        let mut chance = seed;
        let mut left = many;
        while left > 0 {
            // As many as one transaction removes.
            let part = left.min(50);
            left -= part;
            heap.atomically(|tx| {
                for _ in 0..part {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if order >= 6 {
                        let key = (chance >> 33) % 4096;
                        assert_eq!(map.insert(tx, key)?, model.insert(key));
                    } else if let Some(key) = which(&model, order, chance >> 33) {
                        model.remove(&key);
                        assert!(map.remove(tx, key)?);
                    }
                }
                Ok(())
            })
            .unwrap();
            let keys = heap.atomically(|tx| map.keys(tx)).unwrap();
            assert!(keys.iter().eq(&model));
        }
        // Besides the map's own blocks: head, root.
        let blocks = heap.verify().unwrap().blocks;
        assert!(blocks <= M::blocks_max(model.len() as u64) + 2, "{blocks} blocks for {} keys", model.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn map_size_follows_its_contents(phases in proptest::collection::vec((0u8..12, 1usize..900, any::<u64>()), 1..12)) {
        breathe::<HeapMap<u64, u64>>(&phases);
    }

    #[test]
    fn ordered_map_size_follows_its_contents(
        phases in proptest::collection::vec((0u8..12, 1usize..900, any::<u64>()), 1..12)
    ) {
        breathe::<HeapOrderedMap<u64, [u64; 3]>>(&phases);
    }
}

#[test]
fn structure_opens_only_as_its_type() {
    let heap = heap();
    HeapMap::<u64, Bytes<8>>::open(&heap, "one").unwrap();
    let wrong = |error: Option<Error>| assert!(matches!(error, Some(Error::WrongType { .. })), "{error:?}");
    wrong(HeapMap::<u64, Bytes<9>>::open(&heap, "one").err());
    wrong(HeapOrderedMap::<u64, Bytes<8>>::open(&heap, "one").err());
    wrong(HeapCounter::open(&heap, "one").err());
    wrong(HeapVec::<u64>::open(&heap, "one").err());
    wrong(HeapQueue::<u64>::open(&heap, "one").err());
    assert_eq!(heap.roots().unwrap()[0].type_name, "HeapMap<u64, Bytes<8>>");
    let counter = HeapCounter::open(&heap, "two").unwrap();
    let refused = heap.atomically(|tx| counter.remove_as(tx, "one"));
    assert!(matches!(refused, Err(Error::Unknown { .. })), "{refused:?}");
    heap.atomically(|tx| counter.remove_as(tx, "two")).unwrap();
    // Another counter at the same offset is not mistaken for it.
    for _ in 0..200 {
        HeapCounter::open(&heap, "three").unwrap();
        let gone = heap.atomically(|tx| counter.get(tx));
        assert!(matches!(gone, Err(Error::NotAllocated { .. })), "{gone:?}");
        heap.atomically(|tx| HeapCounter::open_in(tx, &heap, "three")?.remove_as(tx, "three")).unwrap();
    }
}

/// Threads run random operations; the sums are correct at every moment.
#[test]
fn threads_change_several_structures_at_once() {
    const EACH: u64 = 3000;
    let heap = heap();
    let map = HeapMap::<u64, u64>::open(&heap, "map").unwrap();
    let ordered = HeapOrderedMap::<u64, u64>::open(&heap, "ordered").unwrap();
    let queue = HeapQueue::<u64>::open(&heap, "queue").unwrap();
    let counter = HeapCounter::open(&heap, "counter").unwrap();
    let vector = HeapVec::<u64>::open(&heap, "vector").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (heap, map, ordered) = (&heap, &map, &ordered);
            let (queue, counter, vector) = (&queue, &counter, &vector);
            scope.spawn(move || {
                let mut session = heap.memory().session().unwrap();
                for at in 0..EACH {
                    let key = (at * 7 + thread * 13) % 500;
                    let done = session.run(Commit::Sync, |tx| {
                        let (put, taken) = match map.remove(tx, &key)? {
                            Some(value) => {
                                assert_eq!(ordered.remove(tx, &key)?, Some(value));
                                (None, Some(value))
                            }
                            None => {
                                assert_eq!(map.insert(tx, key, at)?, None);
                                assert_eq!(ordered.insert(tx, key, at)?, None);
                                (Some(at), None)
                            }
                        };
                        counter.add(tx, if put.is_some() { 1 } else { -1 })?;
                        taken.map_or(Ok(()), |value| queue.push(tx, value))?;
                        if at % 5 == 0 && queue.pop(tx)?.is_some() {
                            vector.push(tx, at)?;
                        }
                        if at % 11 == 0 { Err(Interrupt::abort("as planned")) } else { Ok(()) }
                    });
                    assert!(matches!(done, Ok(_) | Err(Error::Aborted(_))), "{done:?}");
                    if at % 100 == 0 {
                        session
                            .atomically(|tx| {
                                let len = map.len(tx)?;
                                assert_eq!((counter.get(tx)?, ordered.len(tx)?), (len as i64, len));
                                Ok(())
                            })
                            .unwrap();
                    }
                }
            });
        }
    });
    heap.atomically(|tx| {
        let all = ordered.range(tx, ..)?;
        assert_eq!(all.len() as u64, map.len(tx)?);
        assert_eq!(counter.get(tx)?, all.len() as i64);
        for (key, value) in all {
            assert_eq!(map.get(tx, &key)?, Some(value));
        }
        Ok(())
    })
    .unwrap();
    heap.verify().unwrap();
}

/// Purpose of the structures: operations on different parts do not conflict.
#[test]
fn appends_and_takes_do_not_conflict() {
    // With few stripes unrelated words would conflict by chance.
    let memory = Memory::volatile(MemoryOptions { stripes_log2: 18, ..MemoryOptions::small() }).unwrap();
    let heap = memory.create_heap("structures", &HeapOptions::new(8 << 20)).unwrap();
    let queue = HeapQueue::<u64>::open(&heap, "queue").unwrap();
    let counter = HeapCounter::open(&heap, "counter").unwrap();
    heap.atomically(|tx| (0..4).try_for_each(|at| queue.push(tx, at))).unwrap();
    let (mut one, mut other) = (heap.memory().session().unwrap(), heap.memory().session().unwrap());
    let mut attempts = 0;
    let taken = one.run(Commit::Sync, |tx| {
        attempts += 1;
        let taken = queue.pop(tx)?;
        counter.add(tx, 1)?;
        // Before this transaction has committed, another one appends and counts.
        other.atomically(|tx| {
            queue.push(tx, 77)?;
            counter.add(tx, 1)
        })?;
        Ok(taken)
    });
    assert_eq!((taken.unwrap().value, attempts), (Some(0), 1));
    assert_eq!(heap.atomically(|tx| Ok((queue.len(tx)?, counter.get(tx)?))).unwrap(), (4, 2));
}

std::thread_local! {
    /// Number of encoded bombs until one panics.
    static FUSE: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// A value whose encoding may panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bomb(u64);

impl Plain for Bomb {
    const WORDS: usize = 1;

    fn to_words(&self, words: &mut [u64]) {
        assert_ne!(FUSE.replace(FUSE.get().wrapping_sub(1)), 0, "as planned");
        words[0] = self.0;
    }

    fn of_words(words: &[u64]) -> Option<Bomb> {
        Some(Bomb(words[0]))
    }

    fn describe(into: &mut String, _: bool) {
        into.push_str("Bomb");
    }
}

/// H4: a program may catch a panic of its own code within a call, and commit.
#[test]
fn panicked_call_leaves_no_half() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = memory.create_heap("bombs", &HeapOptions::new(1 << 20)).expect("a heap");
    let map: HeapMap<Bomb, Bomb> = HeapMap::open(&heap, "map").expect("room");
    let ordered: HeapOrderedMap<Bomb, Bomb> = HeapOrderedMap::open(&heap, "ordered").expect("room");
    let vector: HeapVec<Bomb> = HeapVec::open(&heap, "vector").expect("room");
    let queue: HeapQueue<Bomb> = HeapQueue::open(&heap, "queue").expect("room");
    let fill = |tx: &mut HeapTx<'_, '_>| {
        (0..8).try_for_each(|key| {
            vector.push(tx, Bomb(key))?;
            map.insert(tx, Bomb(2 * key), Bomb(key))?;
            ordered.insert(tx, Bomb(2 * key), Bomb(key)).map(drop)
        })
    };
    heap.transaction(fill).expect("room");
    let blocks = heap.verify().expect("whole").blocks;
    type Call<'c> = &'c dyn Fn(&mut HeapTx<'_, '_>) -> Result<(), Interrupt>;
    let calls: [Call<'_>; 6] = [
        &|tx| map.insert(tx, Bomb(7), Bomb(7)).map(drop),
        &|tx| ordered.insert(tx, Bomb(7), Bomb(7)).map(drop),
        &|tx| vector.push(tx, Bomb(7)).map(drop),
        &|tx| queue.push(tx, Bomb(7)),
        &|tx| tx.create(Bomb(7)).map(drop),
        &|tx| tx.create_array(4, Bomb).map(drop),
    ];
    for (at, call) in calls.iter().enumerate() {
        let mut panics = 0;
        for fuse in 0..4 {
            let caught = heap.transaction(|tx| {
                let kept = tx.create(Bomb(1))?;
                FUSE.set(fuse);
                let caught = catch_unwind(AssertUnwindSafe(|| call(tx))).is_err();
                FUSE.set(u32::MAX);
                if !caught {
                    return Err(Interrupt::abort("it has encoded fewer values"));
                }
                tx.delete(kept)
            });
            panics += u32::from(caught.is_ok());
            assert_eq!(heap.verify().expect("whole").blocks, blocks, "call {at} in its step {fuse}");
            let verify = |tx: &mut HeapTx<'_, '_>| {
                Ok((
                    map.verify(tx)?,
                    ordered.verify(tx)?,
                    vector.len(tx)?,
                    queue.len(tx)?,
                    ordered.range(tx, ..)?.len(),
                ))
            };
            assert_eq!(heap.transaction(verify).expect("whole"), (8, 8, 8, 0, 8), "call {at} in its step {fuse}");
        }
        assert!(panics > 0, "call {at}");
    }
}
