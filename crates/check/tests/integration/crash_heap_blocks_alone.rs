//! Blocks under crashes, in commits that need only their own partition: one partition allocates what another one has freed,
//! and a crash may lose the free and keep the allocation, unless that depends on the free (E8.5, E17.6).
#![cfg(not(cedrat_shuttle))] // the allocator under the seeded scheduler: crates/heap/tests/integration/blocks_reuse.rs

use cedrat_check::{self as check, Outcome, Rng, Run, Scenario};
use cedrat_heap::{Heap, HeapOptions, Interrupt, Session, Tx};
use cedrat_txn::{Commit, Options, Registry, Store};
use cedrat_wal::Lsn;

/// Number of porters, each in a partition of its own.
const PORTERS: usize = 2;

/// Number of places on each porter's shelf.
const PLACES: usize = 5;

/// Length of a place on a shelf: offset of its crate, its length, and its first word.
const PLACE_LEN: u64 = 24;

/// Length of the shortest spans.
const SPAN: u64 = 2048;

/// Length of a crate, and the beginning of its bytes.
type Crate = (u64, u64);

/// The porters of a yard, which is nearly full: each puts crates where another one has just removed some. Shelves contain the
/// places of crates, and no porter changes the shelf of another: only the blocks make one commit depend on another.
#[derive(Clone, Debug)]
struct Yard {
    steps: u64,
    checkpoint_every: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State([[Option<Crate>; PLACES]; PORTERS]);

fn contents((len, seed): Crate) -> Vec<u8> {
    (0..len).map(|at| (seed + at * 7 + at / SPAN * 13) as u8).collect()
}

/// The heaps of an open store.
struct Heaps {
    yard: Heap,
    shelves: Heap,
}

impl Heaps {
    fn of(store: &Store) -> Outcome<Heaps> {
        Ok(Heaps { yard: store.memory().heap("yard")?, shelves: store.memory().heap("shelves")? })
    }

    /// Returns the offset of a place; shelves are far from each other.
    fn place(porter: usize, place: usize) -> u64 {
        porter as u64 * 4096 + place as u64 * PLACE_LEN
    }

    fn look(&self, tx: &mut Tx<'_>, at: u64) -> Result<Option<(u64, Crate)>, Interrupt> {
        let block = tx.read(&self.shelves, at)?;
        let letter = (tx.read(&self.shelves, at + 8)?, tx.read(&self.shelves, at + 16)?);
        Ok((block != 0).then_some((block, letter)))
    }

    /// Puts a crate at a place, by plain stores or through the write set.
    fn put(&self, tx: &mut Tx<'_>, at: u64, new: Crate) -> Result<(), Interrupt> {
        let block = if new.1.is_multiple_of(2) {
            let block = tx.allocate_filled(&self.yard, new.0)?;
            tx.fill(&self.yard, block, &contents(new))?;
            block
        } else {
            let block = tx.allocate(&self.yard, new.0)?;
            tx.write_bytes(&self.yard, block, &contents(new))?;
            block
        };
        tx.write(&self.shelves, at, block)?;
        tx.write(&self.shelves, at + 8, new.0)?;
        tx.write(&self.shelves, at + 16, new.1)
    }

    /// Removes the crate at a place, if there is one.
    fn take(&self, tx: &mut Tx<'_>, at: u64) -> Result<(), Interrupt> {
        if let Some((block, _)) = self.look(tx, at)? {
            tx.free(&self.yard, block)?;
            tx.write(&self.shelves, at, 0)?;
        }
        Ok(())
    }

    fn read(&self, tx: &mut Tx<'_>) -> Result<Result<State, String>, Interrupt> {
        let mut state = State::default();
        for (porter, shelf) in state.0.iter_mut().enumerate() {
            for (place, on_shelf) in shelf.iter_mut().enumerate() {
                let Some((block, listed)) = self.look(tx, Heaps::place(porter, place))? else { continue };
                let mut bytes = vec![0; listed.0 as usize];
                tx.read_bytes(&self.yard, block, &mut bytes)?;
                if tx.block_len(&self.yard, block)? != listed.0 || bytes != contents(listed) {
                    return Ok(Err(format!("E17.6: the crate at {block} of {listed:?} has other bytes")));
                }
                *on_shelf = Some(listed);
            }
        }
        Ok(Ok(state))
    }
}

/// State of a run.
struct Work<'a> {
    run: &'a Run<Yard>,
    heaps: Heaps,
    sessions: Vec<Session>,
    chance: Rng,
    waiting: Vec<Lsn>,
}

impl Work<'_> {
    /// Mostly alone; a removal need not be durable when its space is used again.
    fn mode(&mut self, takes: bool) -> Commit {
        match self.chance.below(8) {
            0 => Commit::Sync,
            1 | 2 => Commit::Async,
            3..=5 if takes => Commit::Async,
            _ => Commit::Partition,
        }
    }

    /// Chooses a crate of some words, or of several spans.
    fn by_chance(&mut self) -> Crate {
        let len = match self.chance.below(4) {
            0 => 1 + self.chance.below(300),
            few => (few + 1 + self.chance.below(4)) * SPAN - 16,
        };
        (len, self.chance.below(1 << 30))
    }

    fn step(&mut self) -> Outcome {
        let (porter, place) = (self.chance.index(PORTERS), self.chance.index(PLACES));
        let (puts, gives_up) = (self.chance.below(5) > 1, self.chance.one_in(10));
        let (mode, new, at) = (self.mode(!puts), self.by_chance(), Heaps::place(porter, place));
        let heaps = &self.heaps;
        let done = self.run.on_heaps(&mut self.sessions[porter], mode, |tx| {
            heaps.take(tx, at)?;
            if puts {
                heaps.put(tx, at, new)?;
            }
            if gives_up {
                return Err(Interrupt::abort("not today"));
            }
            Ok(move |state: &mut State| state.0[porter][place] = puts.then_some(new))
        });
        match done {
            Ok(lsn) if mode == Commit::Async => self.waiting.push(lsn),
            Ok(_) => {}
            Err(error) => match error.downcast_ref() {
                Some(cedrat_heap::Error::Aborted(_) | cedrat_heap::Error::HeapFull { .. }) => {}
                _ => return Err(error),
            },
        }
        self.look_after_acknowledgements()
    }

    fn look_after_acknowledgements(&mut self) -> Outcome {
        for lsn in std::mem::take(&mut self.waiting) {
            match self.run.store().memory().is_stable(lsn, false)? {
                true => self.run.acknowledge_lsn(lsn)?,
                false => self.waiting.push(lsn),
            }
        }
        Ok(())
    }
}

impl Scenario for Yard {
    type State = State;
    type Roots = ();

    fn options(&self) -> Options {
        let mut options = Options { partitions: PORTERS as u16, ..Options::simulated() };
        // One stripe for each word: a neighbouring word causes no dependency.
        (options.memory.stripe_words_log2, options.memory.stripes_log2) = (0, 14);
        options
    }

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome {
        let options = HeapOptions { chunk_len: 4096, size_max: 64 << 10, ..HeapOptions::new(64 << 10) };
        store.memory().create_heap("yard", &options)?;
        let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(PORTERS as u64 * 4096) };
        store.memory().create_heap("shelves", &options)?;
        Ok(())
    }

    fn run(&self, run: &Run<Yard>, (): &()) -> Outcome {
        let memory = run.store().memory();
        let sessions = (0..PORTERS).map(|_| memory.session()).collect::<Result<_, _>>()?;
        let (heaps, chance) = (Heaps::of(run.store())?, run.rng(0));
        let mut work = Work { run, heaps, sessions, chance, waiting: Vec::new() };
        for step in 1..=self.steps {
            work.step()?;
            if self.checkpoint_every > 0 && step % self.checkpoint_every == 0 {
                run.store().checkpoint()?;
            }
        }
        for lsn in std::mem::take(&mut work.waiting) {
            run.acknowledge_lsn(lsn)?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, (): &()) -> Outcome<State> {
        let heaps = Heaps::of(store)?;
        Ok(store.memory().run(Commit::Async, |tx| heaps.read(tx))?.value?)
    }

    /// The table is valid, and every block is a crate of some shelf.
    fn check(&self, store: &Store, roots: &()) -> Outcome {
        let blocks = Heaps::of(store)?.yard.verify()?.blocks;
        let listed = self.read(store, roots)?.0.iter().flatten().flatten().count() as u64;
        if blocks == listed { Ok(()) } else { Err(format!("{listed} crates, and {blocks} blocks").into()) }
    }
}

fn passes(check: check::Crashes<Yard>) {
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

#[test]
fn blocks_of_commits_alone_survive_every_crash() {
    passes(check::crashes("heap-blocks-alone", Yard { steps: 150, checkpoint_every: 0 }).at_least(3_000).again(6, 80));
}

#[test]
fn checkpointed_blocks_of_partition_commits_survive_crashes() {
    let yard = Yard { steps: 40, checkpoint_every: 7 };
    passes(check::crashes("heap-blocks-alone-checkpoints", yard).at_least(3_000).again(6, 80));
}
