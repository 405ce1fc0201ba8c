//! Batches of small transactions (H6): each commits as a whole or not at all, and when a later one fails, the LSN of the
//! committed ones is known.
#![cfg(not(cedrat_shuttle))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_heap::{Commit, Error, FoundHeaps, Heap, HeapOptions, Interrupt, Locking, Memory, MemoryOptions, Tx};
use cedrat_media::{Media, SimDisk};
use cedrat_sync::atomic::AtomicU64;
use cedrat_sync::{Arc, thread};
use cedrat_wal::{Log, LogOptions, Lsn};
use proptest::prelude::*;

fn open_with(media: &Arc<dyn Media>, log: Log, options: &MemoryOptions) -> Memory {
    let found = FoundHeaps::load(media, log.control().store, options, 0, 0).expect("it makes sense");
    found.open(log, Arc::new(AtomicU64::new(1))).expect("it opens")
}

fn logged() -> (Memory, Heap) {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
    let memory = open_with(&media, log, &MemoryOptions::small());
    let heap = memory.create_heap("heap", &HeapOptions::raw(64 << 10)).expect("a heap");
    (memory, heap)
}

/// The error contains the LSN of the committed transactions; `Sync` waits for it.
#[test]
fn failed_batch_keeps_lsn_of_committed() {
    let (memory, heap) = logged();
    let log = memory.log().expect("it is logged").clone();
    let mut session = memory.session().expect("a seat");
    let before = log.durable_lsn();
    let ran = session.run_batch(
        20,
        Commit::Sync,
        |_| {},
        |index, tx| {
            tx.write(&heap, index as u64 * 8, 1)?;
            if index == 13 { Err(Interrupt::abort("unlucky")) } else { Ok(()) }
        },
    );
    let failed = ran.expect_err("one of them failed");
    assert!(matches!(failed.error, Error::Aborted(_)), "{failed:?}");
    assert_eq!(failed.committed, 13, "H6");
    assert!(failed.lsn > before && log.is_stable(failed.lsn), "those before it are durable");
    let words = heap.atomically(|tx| (0..20).map(|at| tx.read(&heap, at * 8)).collect::<Result<Vec<_>, _>>());
    assert_eq!(words.expect("reading"), [[1; 13].as_slice(), &[0; 7]].concat(), "and it has left nothing");
    let unwaited = session.run_batch(
        3,
        Commit::Async,
        |_| {},
        |index, tx| match index {
            2 => Err(Interrupt::abort("unlucky")),
            _ => tx.update(&heap, 0, |value| value + 1).map(drop),
        },
    );
    let failed = unwaited.expect_err("one of them failed");
    assert_eq!((failed.committed, failed.lsn), (2, log.current_lsn()));
    let first = session.run_batch(3, Commit::Sync, |_| {}, |_, _| Err(Interrupt::abort("at once")));
    let failed = first.expect_err("the first one failed");
    assert_eq!((failed.committed, failed.lsn), (0, Lsn::ZERO));
}

#[test]
fn neighbours_share_one_lsn() {
    let (memory, heap) = logged();
    let log = memory.log().expect("it is logged").clone();
    let mut session = memory.session().expect("a seat");
    let before = log.current_lsn();
    let mut touched = Vec::new();
    let last = session.run_batch(
        8,
        Commit::Sync,
        |index| touched.push(index),
        |index, tx| tx.update(&heap, (index as u64 % 3) * 8, |value| value + 1).map(drop),
    );
    assert_eq!(last.expect("room"), before.next(), "one commit");
    assert_eq!(log.current_lsn(), before.next());
    assert_eq!(touched, Vec::from_iter(0..8));
}

/// Small steps of one transaction of a batch.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(u64),
    Write(u64, u64),
    WriteByte(u64, u8),
    Update(u64, u64),
    /// Rolls back to the state before the last few steps, all of which belong to this transaction.
    TakeBack,
    /// Fails the transaction, on each run.
    Fail,
}

const WORDS: u64 = 24;

fn step() -> impl Strategy<Value = Step> {
    let word = 0..WORDS;
    prop_oneof![
        4 => word.clone().prop_map(Step::Read),
        4 => (word.clone(), any::<u64>()).prop_map(|(word, value)| Step::Write(word, value)),
        2 => (0..WORDS * 8, any::<u8>()).prop_map(|(at, byte)| Step::WriteByte(at, byte)),
        4 => (word, any::<u64>()).prop_map(|(word, more)| Step::Update(word, more)),
        1 => Just(Step::TakeBack),
        1 => Just(Step::Fail),
    ]
}

/// Runs a transaction on a model; returns its reads, or `None` if it fails.
fn on_model(model: &mut [u64], steps: &[Step]) -> Option<Vec<u64>> {
    let (mut words, mut reads, mut saved) = (model.to_vec(), Vec::new(), model.to_vec());
    for step in steps {
        match *step {
            Step::Read(word) => reads.push(words[word as usize]),
            Step::Write(word, value) => words[word as usize] = value,
            Step::WriteByte(at, byte) => {
                let mut bytes = words[at as usize / 8].to_le_bytes();
                bytes[at as usize % 8] = byte;
                words[at as usize / 8] = u64::from_le_bytes(bytes);
            }
            Step::Update(word, more) => {
                reads.push(words[word as usize]);
                words[word as usize] = words[word as usize].wrapping_add(more);
            }
            Step::TakeBack => {
                words.clone_from(&saved);
                saved.clone_from(&words);
            }
            Step::Fail => return None,
        }
    }
    model.copy_from_slice(&words);
    Some(reads)
}

fn on_heap(tx: &mut Tx<'_>, heap: &Heap, steps: &[Step]) -> Result<Vec<u64>, Interrupt> {
    let mut reads = Vec::new();
    let saved = tx.savepoint();
    for step in steps {
        match *step {
            Step::Read(word) => reads.push(tx.read(heap, word * 8)?),
            Step::Write(word, value) => tx.write(heap, word * 8, value)?,
            Step::WriteByte(at, byte) => tx.write_bytes(heap, at, &[byte])?,
            Step::Update(word, more) => reads.push(tx.update(heap, word * 8, |value| value.wrapping_add(more))?),
            Step::TakeBack => tx.back_to(saved)?,
            Step::Fail => return Err(Interrupt::abort("it was to fail")),
        }
    }
    Ok(reads)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// The reads and results of a batch are those of its transactions in sequence, whichever fail.
    #[test]
    fn batch_is_its_transactions_in_order(
        transactions in proptest::collection::vec(proptest::collection::vec(step(), 0..8), 0..60), early: bool,
    ) {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let locking = if early { Locking::EncounterTime } else { Locking::CommitTime };
        let memory = open_with(&media, log, &MemoryOptions { locking, ..MemoryOptions::small() });
        let heap = memory.create_heap("heap", &HeapOptions::raw(64 << 10)).expect("a heap");
        let mut session = memory.session().expect("a seat");
        let mut model = vec![0; WORDS as usize];
        let mut from = 0;
        while from < transactions.len() {
            let rest = &transactions[from..];
            let mut read = vec![Vec::new(); rest.len()];
            let ran = session.run_batch(rest.len(), Commit::Sync, |_| {}, |index, tx| {
                read[index] = on_heap(tx, &heap, &rest[index])?;
                Ok(())
            });
            let committed = match ran {
                Ok(_) => rest.len(),
                Err(failed) => {
                    prop_assert!(matches!(failed.error, Error::Aborted(_)), "{:?}", failed);
                    failed.committed
                }
            };
            for (steps, read) in rest[..committed].iter().zip(read) {
                prop_assert_eq!(on_model(&mut model, steps), Some(read), "H6");
            }
            if let Some(steps) = rest.get(committed) {
                prop_assert_eq!(on_model(&mut model.clone(), steps), None, "only who has to fails");
            }
            from += committed + 1;
        }
        let words = |heap: &Heap| {
            let all = heap.atomically(|tx| (0..WORDS).map(|word| tx.read(heap, word * 8)).collect::<Result<Vec<_>, _>>());
            all.expect("reading")
        };
        prop_assert_eq!(words(&heap), &model[..]);
        prop_assert_eq!(memory.counted().conflicts, 0);
    }
}

/// A savepoint belongs to one transaction of the batch, although they share a commit.
#[test]
fn savepoint_of_another_is_refused() {
    let (memory, heap) = logged();
    let mut session = memory.session().expect("a seat");
    let mut saved = None;
    let ran = session.run_batch(
        3,
        Commit::Async,
        |_| {},
        |index, tx| {
            if index == 0 {
                saved = Some(tx.savepoint());
            }
            tx.write(&heap, index as u64 * 8, 1)?;
            match (index, saved) {
                (2, Some(saved)) => tx.back_to(saved),
                _ => Ok(()),
            }
        },
    );
    let failed = ran.expect_err("it is another's");
    assert!(matches!(failed.error, Error::Misuse(_)) && failed.committed == 2, "{failed:?}");
    assert_eq!(heap.atomically(|tx| tx.read(&heap, 8)).expect("reading"), 1);
}

/// H4: each session counts its savepoints, and none takes those of another one for its own.
#[test]
fn savepoint_of_other_session_is_refused() {
    let (memory, heap) = logged();
    let (mut one, mut other) = (memory.session().expect("a seat"), memory.session().expect("a seat"));
    let words = |tx: &mut Tx<'_>, count: u64| (0..count).try_for_each(|word| tx.write(&heap, word * 8, 1));
    for (before, after) in [(0, 3), (3, 0)] {
        let set = one.run(Commit::Async, |tx| words(tx, before).map(|()| tx.savepoint())).expect("room").value;
        let back = |tx: &mut Tx<'_>| {
            tx.savepoint();
            words(tx, after)?;
            tx.back_to(set)
        };
        let back = catch_unwind(AssertUnwindSafe(|| other.run(Commit::Async, back))).expect("no panic");
        assert!(matches!(back, Err(Error::Misuse(_))), "{before} words before it, {after} here: {back:?}");
    }
}

/// A block that one transaction has freed is available to the next.
#[test]
fn freed_blocks_are_there_for_next() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let options = HeapOptions { chunk_len: 4096, size_max: 64 << 10, ..HeapOptions::new(64 << 10) };
    let heap = memory.create_heap("blocks", &options).expect("a heap");
    let mut session = memory.session().expect("a seat");
    let mut block = 0;
    let ran = session.run_batch(
        40,
        Commit::Async,
        |_| {},
        |index, tx| {
            if index % 2 == 1 {
                return tx.free(&heap, block);
            }
            block = tx.allocate(&heap, 30_000)?;
            Ok(())
        },
    );
    ran.expect("there is room for one");
    assert_eq!(heap.verify().expect("an account that makes sense").blocks, 0);
}

/// A transaction that waits for a change does so outside of the batch: the commits before it are visible meanwhile.
#[test]
fn waiting_one_holds_back_none_before() {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    let heap = memory.create_heap("heap", &HeapOptions::raw(4096)).expect("a heap");
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            heap.atomically(|tx| match tx.read(&heap, 0)? {
                0 => Err(Interrupt::retry()),
                asked => tx.write(&heap, 512, asked + 1),
            })
        });
        let mut session = memory.session().expect("a seat");
        let ran = session.run_batch(
            3,
            Commit::Async,
            |_| {},
            |index, tx| match index {
                1 if tx.read(&heap, 512)? == 0 => Err(Interrupt::retry()),
                _ => tx.update(&heap, 0, |value| value + 1).map(drop),
            },
        );
        ran.expect("it is answered");
        answering.join().expect("no panic").expect("it is asked");
    });
    assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("reading"), 3);
}

/// Two threads run batches of transactions, some of which fail: none is lost, none is applied twice.
#[test]
fn batches_of_threads_lose_nothing() {
    const ROUNDS: u64 = 200;
    let options = MemoryOptions { stripes_log2: 4, ..MemoryOptions::small() };
    let memory = Memory::volatile(options).expect("memory");
    let heap = memory.create_heap("heap", &HeapOptions::raw(4096)).expect("a heap");
    let committed: u64 = thread::scope(|scope| {
        let threads = [1, 2, 3].map(|step: u64| {
            let (memory, heap) = (&memory, &heap);
            scope.spawn(move || {
                let mut session = memory.session().expect("a seat");
                let mut committed = 0;
                for round in 0..ROUNDS {
                    let unlucky = (round % 3 == 0).then_some((round * step % 20) as usize);
                    let ran = session.run_batch(
                        20,
                        Commit::Async,
                        |_| {},
                        |index, tx| {
                            let (one, other) = (index as u64 * step % 5 * 8, 256 + round % 7 * 8);
                            let sum = tx.update(heap, one, |value| value + 1)?.wrapping_add(tx.read(heap, other)?);
                            tx.update(heap, other, |value| value.wrapping_sub(1))?;
                            match unlucky == Some(index) {
                                true => Err(Interrupt::abort(format!("it was to fail, at {sum}"))),
                                false => Ok(()),
                            }
                        },
                    );
                    committed += match ran {
                        Ok(_) => 20,
                        Err(failed) => {
                            assert_eq!(Some(failed.committed), unlucky, "{failed:?}");
                            failed.committed as u64
                        }
                    };
                }
                committed
            })
        });
        threads.map(|thread| thread.join().expect("no panic")).iter().sum()
    });
    let sum = |from: u64| {
        let all = heap.atomically(|tx| (0..8).map(|at| tx.read(&heap, from + at * 8)).collect::<Result<Vec<_>, _>>());
        all.expect("reading").iter().fold(0u64, |sum, value| sum.wrapping_add(*value))
    };
    assert_eq!((sum(0), sum(256)), (committed, 0u64.wrapping_sub(committed)));
}
