//! Replay of logged heap words into memory, in several threads.
//!
//! One thread reads the log and distributes the words, each to the lane of its chunk; one worker per lane writes them. All
//! words of a chunk take one lane, and a lane keeps the order of the log, so each word gets its values in the order of
//! their commits (R4).
//!
//! Words are written in batches, even without workers: replay writes to random places, and would wait for memory at each.
//! Within the few instructions of `write_words` a processor has many of these cache misses in flight at once; between the
//! many instructions that read a record it has one.

use cedrat_sync::atomic::Ordering;
use cedrat_sync::{Arc, Closing, Lane, thread};

use crate::heap::Core;

/// Words of a batch: enough to pay for handing it over, few enough that they are still in a cache when they are written.
/// Tests have few words and want many batches.
const BATCH_WORDS: usize = if cfg!(any(test, cedrat_shuttle)) { 16 } else { 8 << 10 };
/// Number of batches that may wait for one worker.
const LANE_LEN: usize = 4;
/// Prefetch distance in words: about as many as a processor fetches at a time.
const WORDS_AHEAD: usize = 32;

/// A replay in progress.
#[derive(Debug)]
pub(crate) struct Replay {
    heaps: Arc<[Arc<Core>]>,
    threads: usize,
    /// Started when the first batch is full: most recoveries have less.
    workers: Vec<Worker>,
    /// One for each lane, at least one.
    filling: Vec<Batch>,
    words: u64,
}

impl Replay {
    /// Creates a replay for these heaps, with `threads` threads beside this one.
    pub(crate) fn new(heaps: Vec<Arc<Core>>, threads: usize) -> Replay {
        let filling = (0..threads.max(1)).map(|_| Batch::default()).collect();
        Replay { heaps: heaps.into(), threads, workers: Vec::new(), filling, words: 0 }
    }

    /// Adds a run of words that exist in the heap; the heap is given by its index in the list.
    #[inline]
    pub(crate) fn write(&mut self, heap: usize, first: u64, values: &[u8]) {
        let (values, _) = values.as_chunks();
        self.words += values.len() as u64;
        for (word, value) in (first..).zip(values) {
            let lane = self.lane_of(heap, word);
            let batch = &mut self.filling[lane];
            batch.push(heap, word, u64::from_le_bytes(*value));
            if batch.words.len() == BATCH_WORDS {
                self.hand_over(lane);
            }
        }
    }

    /// Returns the number of words added so far.
    pub(crate) fn words(&self) -> u64 {
        self.words
    }

    /// Returns the lane of the word's chunk.
    #[inline]
    fn lane_of(&self, heap: usize, word: u64) -> usize {
        let lanes = self.filling.len() as u64;
        if lanes == 1 {
            return 0;
        }
        // Neighbouring chunks take different lanes: a heap's busy chunks are often adjacent.
        let chunk = self.heaps[heap].chunks.of(word) as u64 + heap as u64;
        let hash = chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * lanes) >> 32) as usize
    }

    #[cold]
    fn hand_over(&mut self, lane: usize) {
        if self.workers.is_empty() && self.threads > 0 {
            self.start();
        }
        match self.workers.get(lane) {
            Some(worker) => worker.lane.put(std::mem::replace(&mut self.filling[lane], Batch::with_room())),
            None => {
                self.filling[lane].write(&self.heaps);
                self.filling[lane].clear();
            }
        }
    }

    /// Starts the workers. Where the system refuses a thread, this thread writes the lanes that have none.
    fn start(&mut self) {
        self.workers = (0..self.threads).map_while(|_| Worker::start(&self.heaps)).collect();
        if self.workers.is_empty() {
            self.threads = 0;
        }
    }

    /// Returns when all words are written.
    ///
    /// # Panics
    /// If a worker panicked.
    pub(crate) fn finish(&mut self) {
        for lane in 0..self.filling.len() {
            match self.workers.get(lane) {
                Some(worker) => worker.lane.put(std::mem::take(&mut self.filling[lane])),
                None => std::mem::take(&mut self.filling[lane]).write(&self.heaps),
            }
        }
        for worker in &mut self.workers {
            worker.lane.close();
        }
        for mut worker in self.workers.drain(..) {
            if let Some(Err(panic)) = worker.thread.take().map(thread::JoinHandle::join) {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// A thread that writes the batches of one lane; it ends when this is dropped.
#[derive(Debug)]
struct Worker {
    lane: Arc<Lane<Batch>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    /// Returns `None` if the system refuses a thread.
    fn start(heaps: &Arc<[Arc<Core>]>) -> Option<Worker> {
        let lane = Arc::new(Lane::<Batch>::new(LANE_LEN));
        let (taken, heaps) = (Arc::clone(&lane), Arc::clone(heaps));
        let work = move || {
            // Closed on every exit, panics included: the reader must not wait for a worker that has ended.
            let _closed_at_end = Closing(&taken);
            while let Some(batch) = taken.take() {
                batch.write(&heaps);
            }
        };
        let thread = thread::Builder::new().name("cedrat-replay".into()).spawn(work).ok()?;
        Some(Worker { lane, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.lane.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there was reported there
        }
    }
}

/// Words of one lane in the order of the log.
#[derive(Debug, Default)]
struct Batch {
    words: Vec<(u64, u64)>,
    /// Start indices in `words`, each with the heap of the words from there on.
    heaps: Vec<(usize, usize)>,
}

impl Batch {
    fn with_room() -> Batch {
        Batch { words: Vec::with_capacity(BATCH_WORDS), heaps: Vec::new() }
    }

    #[inline]
    fn push(&mut self, heap: usize, word: u64, value: u64) {
        if self.heaps.last().is_none_or(|&(last, _)| last != heap) {
            self.heaps.push((heap, self.words.len()));
        }
        self.words.push((word, value));
    }

    fn clear(&mut self) {
        self.words.clear();
        self.heaps.clear();
    }

    fn write(&self, heaps: &[Arc<Core>]) {
        let ends = self.heaps.iter().skip(1).map(|&(_, begin)| begin).chain([self.words.len()]);
        for (&(heap, begin), end) in self.heaps.iter().zip(ends) {
            write_words(&heaps[heap], &self.words[begin..end]);
        }
    }
}

fn write_words(heap: &Core, words: &[(u64, u64)]) {
    if let Some(on_demand) = &heap.on_demand {
        for &(word, value) in words {
            if !on_demand.replay(&heap.region, heap.chunks.of(word), word, value) {
                heap.region.words()[word as usize].store(value, Ordering::Relaxed);
            }
            heap.chunks.changes(word);
        }
        return;
    }
    for (at, &(word, value)) in words.iter().enumerate() {
        if let Some(&(coming, _)) = words.get(at + WORDS_AHEAD) {
            heap.region.prefetch(coming as usize);
        }
        heap.region.words()[word as usize].store(value, Ordering::Relaxed);
        heap.chunks.changes(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Mapping;
    use cedrat_sync::explore;
    #[cfg(not(cedrat_shuttle))]
    use proptest::prelude::*;

    const CHUNK_LEN: u64 = 4096;
    const HEAP_WORDS: u64 = 4 * CHUNK_LEN / 8;

    /// Heap, first word, number of words, and the value of the first; the values count up.
    type Run = (usize, u64, usize, u64);

    fn heaps(count: u32) -> Vec<Arc<Core>> {
        let heap = |number| {
            Core::new(number, "heap", HEAP_WORDS, HEAP_WORDS, CHUNK_LEN, 0, Mapping::default()).expect("memory")
        };
        (0..count).map(|number| Arc::new(heap(number))).collect()
    }

    /// Returns the words of heaps and the flags of their changed chunks.
    fn look(heaps: &[Arc<Core>]) -> Vec<(Vec<u64>, Vec<bool>)> {
        let look = |heap: &Arc<Core>| {
            let words = heap.region.words().iter().map(|word| word.load(Ordering::Relaxed)).collect();
            (words, (0..heap.chunk_count()).map(|chunk| heap.chunks.take(chunk, 0)).collect())
        };
        heaps.iter().map(look).collect()
    }

    fn replayed(runs: &[Run], threads: usize) -> Vec<(Vec<u64>, Vec<bool>)> {
        let heaps = heaps(3);
        let mut replay = Replay::new(heaps.clone(), threads);
        for &(heap, first, count, value) in runs {
            let values: Vec<u8> = (value..).take(count).flat_map(u64::to_le_bytes).collect();
            replay.write(heap, first, &values);
        }
        replay.finish();
        assert_eq!(replay.words(), runs.iter().map(|run| run.2 as u64).sum::<u64>());
        look(&heaps)
    }

    /// Replays word by word, as a reference.
    fn expected(runs: &[Run]) -> Vec<(Vec<u64>, Vec<bool>)> {
        let heaps = heaps(3);
        for &(heap, first, count, value) in runs {
            for (word, value) in (first..).zip(value..).take(count) {
                heaps[heap].region.words()[word as usize].store(value, Ordering::Relaxed);
                heaps[heap].chunks.changes(word);
            }
        }
        look(&heaps)
    }

    /// Generates runs that often cross the end of a chunk.
    #[cfg(not(cedrat_shuttle))]
    fn run() -> impl Strategy<Value = Run> {
        let first = prop_oneof![0..HEAP_WORDS - 600, (1..4u64).prop_map(|chunk| chunk * CHUNK_LEN / 8 - 3)];
        (0..3usize, first, prop_oneof![4 => 1..2usize, 1 => 1..=515usize], any::<u32>().prop_map(u64::from))
    }

    #[cfg(not(cedrat_shuttle))]
    proptest! {
        #[test]
        fn replay_result_is_independent_of_threads(runs in proptest::collection::vec(run(), 0..400)) {
            let expected = expected(&runs);
            for threads in [0, 1, 2, 5] {
                prop_assert!(replayed(&runs, threads) == expected, "{} threads", threads);
            }
        }
    }

    /// Writes the same words repeatedly, so that only the last of many values counts, in every order of the threads.
    #[test]
    fn replayed_word_keeps_last_value() {
        explore(7, 100, || {
            let runs: Vec<Run> = (0..200).map(|n| (n % 3, (n as u64 % 7) * 150, 3, n as u64)).collect();
            assert!(replayed(&runs, 3) == expected(&runs));
        });
    }

    // Under the scheduler a panic in any thread fails the test.
    #[cfg(not(cedrat_shuttle))]
    #[test]
    fn panicking_worker_is_not_awaited() {
        let heaps = heaps(1);
        let mut replay = Replay::new(heaps, 2);
        for n in 0..100 * BATCH_WORDS as u64 {
            // No heap has so many words, which the caller has checked.
            replay.write(0, HEAP_WORDS + n, &[7; 8]);
        }
        let finished = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| replay.finish()));
        assert!(finished.is_err());
    }
}
