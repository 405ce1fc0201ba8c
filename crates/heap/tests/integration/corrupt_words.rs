//! Words that no operation of a structure leaves: every walk ends with an error or a value, after steps and in memory that the
//! length of the heap bounds. A heap is the program's own memory, and its file may hold any bytes.
#![cfg(not(cedrat_shuttle))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_heap::{
    Error, Heap, HeapCounter, HeapMap, HeapOptions, HeapOrderedMap, HeapQueue, HeapVec, Interrupt, Memory,
    MemoryOptions, Tx,
};

const HEAP_LEN: u64 = 256 << 10;

fn heap() -> Heap {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    memory.create_heap("heap", &HeapOptions::new(HEAP_LEN)).expect("a heap")
}

/// Returns a number that follows from another one and `CEDRAT_SEED`.
fn random(number: u64) -> u64 {
    let seed = std::env::var("CEDRAT_SEED").map_or(1, |text| text.parse().expect("CEDRAT_SEED is a number"));
    let mixed = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 29
}

/// Values in the heap, each under its name.
struct All {
    map: HeapMap<u64, u64>,
    ordered: HeapOrderedMap<u64, u64>,
    queue: HeapQueue<u64>,
    list: HeapVec<(u64, u64)>,
    counter: HeapCounter,
}

impl All {
    fn fill(heap: &Heap) -> All {
        let all = All {
            map: HeapMap::open(heap, "map").expect("room"),
            ordered: HeapOrderedMap::open(heap, "ordered").expect("room"),
            queue: HeapQueue::open(heap, "queue").expect("room"),
            list: HeapVec::open(heap, "list").expect("room"),
            counter: HeapCounter::open(heap, "counter").expect("room"),
        };
        let fill = |tx: &mut Tx<'_>| {
            for number in 0..40 {
                all.map.insert(tx, number, number)?;
                all.ordered.insert(tx, number * 7 % 64, number)?;
                all.queue.push(tx, number)?;
                all.list.push(tx, (number, number))?;
                all.counter.add(tx, 1)?;
            }
            Ok(())
        };
        heap.atomically(fill).expect("room");
        all
    }

    /// Reads, changes and removes all of it. Each of these calls meets words that the others do not reach.
    fn walk(&self, tx: &mut Tx<'_>) -> Vec<Result<(), Interrupt>> {
        let mut walks = Vec::new();
        for key in [0, 7, 39, 1_000] {
            walks.push(self.map.get(tx, &key).map(drop));
            walks.push(self.map.insert(tx, key + 1, 1).map(drop));
            walks.push(self.map.remove(tx, &key).map(drop));
            walks.push(self.ordered.get(tx, &key).map(drop));
            walks.push(self.ordered.insert(tx, key + 1, 1).map(drop));
            walks.push(self.ordered.remove(tx, &key).map(drop));
            walks.push(self.list.get(tx, key).map(drop));
            walks.push(self.list.set(tx, key, (2, 2)).map(drop));
            walks.push(self.list.pop(tx).map(drop));
            walks.push(self.list.push(tx, (3, 3)).map(drop));
            walks.push(self.queue.pop(tx).map(drop));
            walks.push(self.queue.push(tx, 5));
        }
        walks.push(self.map.for_each(tx, |_, _| Ok(())));
        walks.push(self.map.verify(tx).map(drop));
        walks.push(self.ordered.range(tx, ..).map(drop));
        walks.push(self.ordered.verify(tx).map(drop));
        walks.push(self.ordered.first(tx).and(self.ordered.last(tx)).map(drop));
        walks.push(self.counter.get(tx).map(drop));
        walks.push(self.map.clear(tx));
        walks.push(self.ordered.clear(tx));
        walks.push(self.list.clear(tx));
        walks.push(self.queue.remove_as(tx, "queue"));
        walks.push(self.map.remove_as(tx, "map"));
        walks
    }
}

/// Every word in use gets the value of another one, the number or the offset of another one, or a number at which
/// arithmetic fails: so chains of all kinds lead back to themselves, also over two of them.
#[test]
fn any_corrupt_word_ends_walks() {
    let heap = heap();
    let all = All::fill(&heap);
    let used = |tx: &mut Tx<'_>| {
        let offsets = (heap.first_offset()..heap.size()).step_by(8);
        offsets.map(|offset| Ok((offset, tx.read(&heap, offset)?))).collect::<Result<Vec<_>, Interrupt>>()
    };
    let words: Vec<(u64, u64)> =
        heap.atomically(used).expect("its words").into_iter().filter(|word| word.1 != 0).collect();
    assert!(words.len() > 500, "{} words are in use", words.len());
    let (mut damaged, mut panics) = (0, 0);
    for (number, &(offset, value)) in words.iter().enumerate() {
        let other = words[random(number as u64) as usize % words.len()];
        let others =
            [other.1, other.0, other.0 / 8, offset, offset / 8, 0, 1, value + 1, value << 32, u64::MAX, 1 << 63];
        for corrupt in others {
            let walk = || {
                let ended = heap.atomically(|tx| {
                    tx.write(&heap, offset, corrupt)?;
                    damaged += all.walk(tx).iter().filter(|walk| walk.is_err()).count();
                    Err::<(), _>(Interrupt::abort("the next word"))
                });
                assert!(matches!(ended, Err(Error::Aborted(_))), "{ended:?}");
            };
            if catch_unwind(AssertUnwindSafe(walk)).is_err() {
                eprintln!("word {offset}, {value}, was {corrupt}");
                panics += 1;
            }
        }
    }
    assert!(panics == 0, "{panics} corrupt words led to panics");
    assert!(damaged > words.len(), "{damaged} walks met a corrupt word");
}
