//! Isolation, verified on recorded histories.
//!
//! Threads run transactions over a few words and record the reads and writes of each attempt, including failed ones. Every
//! write has a value that was never written before. Then the judge verifies:
//!
//! 1. **Serialisability in the order of versions.** In the order of their versions, each committed writer has read what those
//!    before it left.
//! 2. **Opacity.** What any attempt has read, committed or not, is part of one state between two commits, and not of one older
//!    than what had committed when the attempt began.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cedrat_check::Rng;
use cedrat_heap::{Commit, Heap, Interrupt, Memory, Tx};
use cedrat_sync::thread;

/// Record of one attempt at a transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    /// The newest version that was known to be committed at its beginning.
    began_after: u64,
    /// Words and the values read from them, in order.
    reads: Vec<(u64, u64)>,
    /// Words and the values written to them.
    writes: Vec<(u64, u64)>,
    /// Its version, if it has committed and written.
    version: Option<u64>,
}

/// Parameters of the transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Play {
    pub(crate) threads: u64,
    pub(crate) transactions: u64,
    pub(crate) words: u64,
    /// Bytes from one word to the next: 8 puts some on one stripe.
    pub(crate) apart: u64,
}

/// Runs transactions and returns the records of all attempts. All words are zero at the beginning.
pub(crate) fn record(memory: &Memory, heap: &Heap, play: Play, seed: u64) -> Vec<Attempt> {
    let newest = Arc::new(AtomicU64::new(0));
    let book = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..play.threads)
        .map(|number| {
            let (memory, heap) = (memory.clone(), heap.clone());
            let (newest, book) = (Arc::clone(&newest), Arc::clone(&book));
            thread::spawn(move || {
                let attempts = work(&memory, &heap, play, number, Rng::new(seed).part(number), &newest);
                book.lock().expect("no thread panics with it").extend(attempts);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread of the play does not panic");
    }
    let mut book = book.lock().expect("all threads have ended");
    std::mem::take(&mut *book)
}

fn work(memory: &Memory, heap: &Heap, play: Play, number: u64, mut chance: Rng, newest: &AtomicU64) -> Vec<Attempt> {
    let mut session = memory.session().expect("there are sessions enough");
    let mut attempts = Vec::new();
    for count in 0..play.transactions {
        let reads: Vec<u64> = (0..1 + chance.below(3)).map(|_| chance.below(play.words)).collect();
        let writes: Vec<u64> = (0..chance.below(3)).map(|_| chance.below(play.words)).collect();
        let updates: Vec<u64> = (0..chance.below(3)).map(|_| chance.below(play.words)).collect();
        let updates_last = chance.one_in(2);
        let taken_back = chance.one_in(4).then(|| chance.below(play.words));
        let value = (number + 1) << 32 | (count + 1) << 8;
        let done = session.run(Commit::Async, |tx| {
            attempts.push(Attempt { began_after: newest.load(Ordering::SeqCst), ..Attempt::default() });
            let attempt = attempts.last_mut().expect("it was just pushed");
            for &word in &reads {
                attempt.reads.push((word, tx.read(heap, word * play.apart)?));
            }
            if let Some(word) = taken_back {
                let before = tx.savepoint();
                attempt.reads.push((word, tx.update(heap, word * play.apart, |_| value + 0xff)?));
                tx.back_to(before)?;
            }
            let mut own = BTreeMap::new();
            for step in [!updates_last, updates_last] {
                for &word in if step { &updates } else { &[][..] } {
                    let new = value + 0x80 + own.len() as u64;
                    let read = tx.update(heap, word * play.apart, |_| new)?;
                    if own.insert(word, new).is_none() {
                        attempt.reads.push((word, read));
                    }
                }
                for &word in if step { &[][..] } else { &writes } {
                    let new = value + own.len() as u64;
                    tx.write(heap, word * play.apart, new)?;
                    own.insert(word, new);
                }
            }
            attempt.writes = own.into_iter().collect();
            Ok::<(), Interrupt>(())
        });
        let done = done.expect("nothing but a conflict happens here, and that is tried again");
        let last = attempts.last_mut().expect("there was an attempt");
        if !last.writes.is_empty() {
            last.version = Some(done.lsn.get());
            newest.fetch_max(done.lsn.get(), Ordering::SeqCst);
        }
    }
    attempts
}

/// Verifies a history.
pub(crate) fn judge(attempts: &[Attempt]) -> Result<(), String> {
    let mut writers: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.version.is_some()).collect();
    writers.sort_by_key(|writer| writer.version);
    let mut states: Vec<(u64, BTreeMap<u64, u64>)> = vec![(0, BTreeMap::new())];
    for writer in writers {
        let version = writer.version.expect("writers have one");
        let (before_version, before) = states.last().expect("there is a first state");
        if *before_version == version {
            return Err(format!("two commits have the version {version}"));
        }
        if let Some((word, value)) = writer.reads.iter().find(|read| !fits(before, read)) {
            return Err(format!(
                "serialisability: the commit with version {version} has read {value:#x} in word {word}, where those before it \
                 left {:#x}",
                before.get(word).copied().unwrap_or(0)
            ));
        }
        let mut after = before.clone();
        after.extend(writer.writes.iter().copied());
        states.push((version, after));
    }
    attempts.iter().try_for_each(|attempt| opaque(attempt, &states))
}

fn fits(state: &BTreeMap<u64, u64>, (word, value): &(u64, u64)) -> bool {
    state.get(word).copied().unwrap_or(0) == *value
}

/// Verifies that the reads of an attempt belong to one state that was not outdated when it began.
fn opaque(attempt: &Attempt, states: &[(u64, BTreeMap<u64, u64>)]) -> Result<(), String> {
    let over = states.partition_point(|(version, _)| *version <= attempt.began_after) - 1;
    let mut possible = states[over..].iter().map(|(_, state)| state);
    if possible.any(|state| attempt.reads.iter().all(|read| fits(state, read))) {
        return Ok(());
    }
    Err(format!("opacity: no state holds what this attempt has read: {attempt:x?}"))
}

/// Runs batches in several threads. Each transaction adds to one word and to the sum of all, which is the last word; some
/// fail. The reads of each transaction must add up, and in the end the words are the results of the committed transactions.
pub(crate) fn judge_batches(memory: &Memory, heap: &Heap, play: Play, seed: u64) -> Result<(), String> {
    let threads: Vec<_> = (0..play.threads)
        .map(|number| {
            let (memory, heap) = (memory.clone(), heap.clone());
            thread::spawn(move || batches(&memory, &heap, play, Rng::new(seed).part(number)))
        })
        .collect();
    let mut added = vec![0; play.words as usize - 1];
    for thread in threads {
        let by_thread = thread.join().expect("a thread of the play does not panic")?;
        added.iter_mut().zip(by_thread).for_each(|(all, one)| *all += one);
    }
    let words = heap.atomically(|tx| add_up(tx, heap, play)).expect("nothing but a conflict happens here")?;
    if words != added {
        return Err(format!("isolation of batches: {added:?} was committed, {words:?} is there"));
    }
    Ok(())
}

/// Runs the batches of a thread; returns the sums that it has added to the words.
fn batches(memory: &Memory, heap: &Heap, play: Play, mut chance: Rng) -> Result<Vec<u64>, String> {
    const BATCH: usize = 3;
    let mut session = memory.session().expect("there are sessions enough");
    let mut added = vec![0; play.words as usize - 1];
    for _ in 0..play.transactions.div_ceil(BATCH as u64) {
        let words: Vec<u64> = (0..BATCH).map(|_| chance.below(play.words - 1)).collect();
        let fails = chance.one_in(2).then(|| chance.below(BATCH as u64) as usize);
        let mut wrong = None;
        let ran = session.run_batch(
            BATCH,
            Commit::Async,
            |_| {},
            |index, tx| {
                let sum = tx.read(heap, (play.words - 1) * play.apart)?;
                tx.update(heap, words[index] * play.apart, |value| value + 1)?;
                tx.write(heap, (play.words - 1) * play.apart, sum + 1)?;
                if let Err(what) = add_up(tx, heap, play)? {
                    wrong = Some(what);
                }
                if fails == Some(index) { Err(Interrupt::abort("it was to fail")) } else { Ok(()) }
            },
        );
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let committed = ran.map_or_else(|failed| failed.committed, |_| BATCH);
        if committed != fails.unwrap_or(BATCH) {
            return Err(format!("isolation of batches: {committed} committed, {fails:?} fails"));
        }
        words[..committed].iter().for_each(|&word| added[word as usize] += 1);
    }
    Ok(added)
}

/// Returns all words but the last one, which must be their sum.
fn add_up(tx: &mut Tx<'_>, heap: &Heap, play: Play) -> Result<Result<Vec<u64>, String>, Interrupt> {
    let words = (0..play.words - 1).map(|word| tx.read(heap, word * play.apart)).collect::<Result<Vec<_>, _>>()?;
    let sum = tx.read(heap, (play.words - 1) * play.apart)?;
    if words.iter().sum::<u64>() != sum {
        return Ok(Err(format!("isolation of batches: {words:?} was read, and {sum} as their sum")));
    }
    Ok(Ok(words))
}

#[test]
fn the_judge_is_not_blind() {
    let writer = |version: u64, reads: &[(u64, u64)], writes: &[(u64, u64)]| Attempt {
        version: Some(version),
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        began_after: 0,
    };
    let reader =
        |began_after: u64, reads: &[(u64, u64)]| Attempt { began_after, reads: reads.to_vec(), ..Attempt::default() };
    let one = writer(1, &[(0, 0)], &[(0, 10), (1, 11)]);
    let two = writer(2, &[(0, 10)], &[(0, 20)]);
    assert_eq!(judge(&[two.clone(), one.clone(), reader(0, &[(0, 10), (1, 11)])]), Ok(()));
    let lost_update = writer(3, &[(0, 10)], &[(0, 30)]);
    assert!(judge(&[one.clone(), two.clone(), lost_update]).unwrap_err().contains("serialisability"));
    let torn = reader(0, &[(0, 20), (1, 0)]);
    assert!(judge(&[one.clone(), two.clone(), torn]).unwrap_err().contains("opacity"));
    let late = reader(2, &[(0, 10)]);
    assert!(judge(&[one, two, late]).unwrap_err().contains("opacity"));
}
