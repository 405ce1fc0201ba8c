//! Blocks and structures of a heap under crashes: allocated blocks exist with their bytes, freed blocks do not, and the table
//! of blocks is valid, whatever plain stores of failed transactions a checkpoint has copied (E17.3, E17.4).
#![cfg(not(cedrat_shuttle))] // the allocator under the seeded scheduler: crates/heap/tests/integration/blocks_reuse.rs

use std::collections::BTreeMap;

use cedrat_check::{self as check, Outcome, Rng, Run, Scenario};
use cedrat_heap::{Heap, HeapMap, HeapOptions, HeapOrderedMap, HeapQueue, Interrupt, Session, Tx};
use cedrat_txn::{Commit, Registry, Store};

/// Length of a letter, and the beginning of its bytes.
type Letter = (u64, u64);

/// A post office: letters in blocks, indexed by a map, waiting in a queue, stamped in an ordered map.
#[derive(Clone, Debug)]
struct Post {
    steps: u64,
    checkpoint_every: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    letters: BTreeMap<u64, Letter>,
    waiting: Vec<u64>,
    stamps: BTreeMap<u64, u64>,
}

/// The post office's structures in an open store.
struct Rooms {
    heap: Heap,
    /// Number of a letter; its block, length and seed.
    letters: HeapMap<u64, (u64, u64, u64)>,
    waiting: HeapQueue<u64>,
    stamps: HeapOrderedMap<u64, u64>,
}

fn text((len, seed): Letter) -> Vec<u8> {
    (0..len).map(|at| (seed + at * 7) as u8).collect()
}

impl Rooms {
    fn of(store: &Store) -> Outcome<Rooms> {
        let heap = store.memory().heap("post")?;
        let letters = HeapMap::open(&heap, "letters")?;
        let waiting = HeapQueue::open(&heap, "waiting")?;
        let stamps = HeapOrderedMap::open(&heap, "stamps")?;
        Ok(Rooms { heap, letters, waiting, stamps })
    }

    /// Writes a letter, by plain stores or through the write set, and adds it to the queue.
    fn write(&self, tx: &mut Tx<'_>, number: u64, letter: Letter) -> Result<(), Interrupt> {
        let block = if letter.1 % 3 < 2 {
            let block = tx.allocate_filled(&self.heap, letter.0)?;
            tx.fill(&self.heap, block, &text(letter))?;
            block
        } else {
            let block = tx.allocate(&self.heap, letter.0)?;
            tx.write_bytes(&self.heap, block, &text(letter))?;
            block
        };
        self.letters.insert(tx, number, (block, letter.0, letter.1))?;
        self.stamps.insert(tx, number.reverse_bits(), letter.1)?;
        self.waiting.push(tx, number)
    }

    /// Removes the letter that has waited longest.
    fn take(&self, tx: &mut Tx<'_>) -> Result<Option<u64>, Interrupt> {
        let Some(number) = self.waiting.pop(tx)? else { return Ok(None) };
        let (block, ..) = self.letters.remove(tx, &number)?.expect("a letter that waits is there");
        self.stamps.remove(tx, &number.reverse_bits())?;
        tx.free(&self.heap, block)?;
        Ok(Some(number))
    }

    fn read(&self, tx: &mut Tx<'_>) -> Result<Result<State, String>, Interrupt> {
        let mut state = State::default();
        let mut blocks = Vec::new();
        self.letters.for_each(tx, |number, (block, len, seed)| {
            state.letters.insert(number, (len, seed));
            blocks.push((block, (len, seed)));
            Ok(())
        })?;
        for (block, letter) in blocks {
            let mut bytes = vec![0; letter.0 as usize];
            tx.read_bytes(&self.heap, block, &mut bytes)?;
            if tx.block_len(&self.heap, block)? != letter.0 || bytes != text(letter) {
                return Ok(Err(format!("the letter at {block} of {letter:?} has other bytes")));
            }
        }
        state.stamps = self.stamps.range(tx, ..)?.into_iter().collect();
        // The queue is read by emptying it, in a transaction that is rolled back.
        let before = tx.savepoint();
        while let Some(number) = self.waiting.pop(tx)? {
            state.waiting.push(number);
        }
        tx.back_to(before)?;
        Ok(Ok(state))
    }
}

impl Post {
    fn step(&self, run: &Run<Post>, rooms: &Rooms, session: &mut Session, chance: &mut Rng) -> Outcome {
        let mode = if chance.one_in(2) { Commit::Sync } else { Commit::Async };
        let number = chance.below(1 << 40);
        let longest = [40, 300, 5000][chance.index(3)];
        let letter = (chance.below(longest), chance.below(1 << 30));
        if chance.one_in(4) {
            // Its plain stores stay, in a block that is not allocated.
            let given_up = session.run(Commit::Sync, |tx| -> Result<(), Interrupt> {
                rooms.take(tx)?;
                rooms.write(tx, number, (letter.0, letter.1 / 3 * 3))?;
                Err(Interrupt::abort("not today"))
            });
            return match given_up {
                Err(cedrat_heap::Error::Aborted(_)) => Ok(()),
                other => Err(format!("an aborted transaction came to {other:?}").into()),
            };
        }
        let (writes, takes) = (chance.below(2), chance.below(3) / 2 + 1);
        run.on_heaps(session, mode, |tx| {
            let mut taken = Vec::new();
            for _ in 0..if writes == 0 { takes } else { takes - 1 } {
                taken.extend(rooms.take(tx)?);
            }
            let before = tx.savepoint();
            rooms.write(tx, number + 1, (700, 1))?;
            tx.back_to(before)?;
            if writes > 0 {
                rooms.write(tx, number, letter)?;
            }
            Ok(move |state: &mut State| {
                for number in &taken {
                    state.letters.remove(number);
                    state.stamps.remove(&number.reverse_bits());
                    state.waiting.retain(|other| other != number);
                }
                if writes > 0 {
                    state.letters.insert(number, letter);
                    state.stamps.insert(number.reverse_bits(), letter.1);
                    state.waiting.push(number);
                }
            })
        })?;
        Ok(())
    }
}

impl Scenario for Post {
    type State = State;
    type Roots = ();

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome {
        let options = HeapOptions { chunk_len: 4096, size_max: 96 << 10, ..HeapOptions::new(96 << 10) };
        store.memory().create_heap("post", &options)?;
        Rooms::of(store).map(drop)
    }

    fn run(&self, run: &Run<Post>, (): &()) -> Outcome {
        let rooms = Rooms::of(run.store())?;
        let mut session = run.store().memory().session()?;
        let mut chance = run.rng(0);
        for step in 1..=self.steps {
            self.step(run, &rooms, &mut session, &mut chance)?;
            if self.checkpoint_every > 0 && step % self.checkpoint_every == 0 {
                run.store().checkpoint()?;
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, (): &()) -> Outcome<State> {
        let rooms = Rooms::of(store)?;
        Ok(store.memory().run(Commit::Async, |tx| rooms.read(tx))?.value?)
    }

    /// The table is valid, and every block belongs to a letter, or to a structure that can be removed.
    fn check(&self, store: &Store, (): &()) -> Outcome {
        let rooms = Rooms::of(store)?;
        rooms.heap.verify()?;
        let left = store.memory().run(Commit::Async, |tx| {
            let before = tx.savepoint();
            while rooms.take(tx)?.is_some() {}
            let letters = rooms.letters.len(tx)?;
            tx.back_to(before)?;
            Ok(letters)
        })?;
        if left.value > 0 { Err(format!("{} letters do not wait", left.value).into()) } else { Ok(()) }
    }
}

fn passes(check: check::Crashes<Post>) {
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

#[test]
fn blocks_survive_every_crash() {
    passes(check::crashes("heap-blocks", Post { steps: 110, checkpoint_every: 0 }).at_least(2_000).again(6, 80));
}

#[test]
fn blocks_with_checkpoints_survive_every_crash() {
    passes(
        check::crashes("heap-blocks-checkpoints", Post { steps: 60, checkpoint_every: 5 }).at_least(2_000).again(6, 80),
    );
}
