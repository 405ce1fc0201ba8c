//! Loading on demand: a store opens before the words of its heaps are in memory (Graefe, Guy and Sauer, "Instant recovery with
//! write-ahead logging", 2nd edition 2016).
//!
//! ```text
//! opening           headers of all chunks are read, and checked against the root
//! replay            keeps the words of absent chunks
//! first use         reads the chunk, and stores its words, and then those that were replayed
//! the last chunk    lets all uses find their words as before
//! ```
//!
//! While a chunk is absent, the region of the heap says that no word is there. So each use of a word fails at the check of its bounds,
//! which it makes anyway, and continues here; where no chunk is absent nothing costs more (E4.6).
//!
//! Redo is blind, so a word that was replayed has its value, whatever the chunk has. A few words of a chunk wait in a list, in the order of
//! the log: to store them would get memory from the system for each of their pages before the store opens. When a chunk has many, they are
//! stored, and a bit for each keeps it from being overwritten: lists would take as much memory as the log.

use std::collections::BTreeSet;
use std::io;
use std::sync::OnceLock;

use cedrat_media::{AlignedBuf, BLOCK_LEN, FileId, Media};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, planted};
use cedrat_wal::{Log, Stopped, StoreId};

use crate::error::{Interrupt, Result};
use crate::files::chunk::{ANOTHER_CHUNK, ChunkFile};
use crate::heap::{Core, Heap};
use crate::memory::{Memory, Shared};
use crate::region::{Mapping, Region, WORD_LEN};

/// Chunks, or words, in a word of flags.
const IN_WORD: usize = u64::BITS as usize;

/// A heap that was opened before its chunks were loaded.
#[derive(Debug)]
pub(crate) struct OnDemand {
    pub(crate) source: Source,
    /// Checksums in the headers, which the root vouches for; `None`: the chunk was never written.
    checksums: Vec<Option<u32>>,
    /// A bit for each chunk whose words are in memory.
    loaded: Vec<AtomicU64>,
    /// Number of the others.
    left: AtomicU64,
    /// Chunks that a thread reads.
    loading: Mutex<BTreeSet<u32>>,
    changed: Condvar,
    /// Words that were replayed, for each chunk.
    replayed: Vec<Mutex<Replayed>>,
    /// A bit for each word that replay has stored.
    stored: Region,
    /// The log, which damage stops, once the store is open. A forked child must not wait for a mutex here.
    log: OnceLock<Log>,
}

/// Replayed words of an absent chunk.
#[derive(Debug)]
enum Replayed {
    /// They wait: numbers in the chunk and values, in the order of the log.
    Few(Vec<(u32, u64)>),
    /// They are stored, and have bits.
    Many,
}

/// A chunk of a hundred words has few replayed ones up to six: a list takes an eighth of the memory of its chunk at most.
const FEW_OF: usize = 16;

/// The file of the checkpoint.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) file: FileId,
    pub(crate) store: StoreId,
    pub(crate) heap: u32,
    pub(crate) chunk_len: u64,
    pub(crate) checkpoint: u64,
}

impl OnDemand {
    /// Makes the chunks with a checksum absent.
    pub(crate) fn new(source: Source, checksums: Vec<Option<u32>>) -> io::Result<OnDemand> {
        let words = source.chunk_len / WORD_LEN * checksums.len() as u64;
        let mut loaded = vec![0; checksums.len().div_ceil(IN_WORD)];
        for (chunk, _) in checksums.iter().enumerate().filter(|(_, checksum)| checksum.is_none()) {
            loaded[chunk / IN_WORD] |= 1 << (chunk % IN_WORD);
        }
        Ok(OnDemand {
            left: AtomicU64::new(checksums.iter().flatten().count() as u64),
            loaded: loaded.into_iter().map(AtomicU64::new).collect(),
            replayed: checksums.iter().map(|_| Mutex::new(Replayed::Few(Vec::new()))).collect(),
            stored: Region::new(words as usize / IN_WORD, Mapping::default())?,
            source,
            checksums,
            loading: Mutex::default(),
            changed: Condvar::new(),
            log: OnceLock::new(),
        })
    }

    /// Returns the number of absent chunks.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Replays a word; returns `false` if its chunk is not absent. All words of a chunk are replayed by one thread.
    #[inline]
    pub(crate) fn replay(&self, region: &Region, chunk: usize, word: u64, value: u64) -> bool {
        if self.is_loaded(chunk) || planted!("replayed_word_overwritten") {
            return false;
        }
        let words = (self.source.chunk_len / WORD_LEN) as usize;
        let mut replayed = self.replayed[chunk].lock();
        if let Replayed::Few(few) = &mut *replayed {
            few.push(((word as usize % words) as u32, value));
            if few.len() > words / FEW_OF {
                let few = std::mem::take(few);
                few.iter().for_each(|&(at, value)| self.store(region, chunk * words + at as usize, value));
                *replayed = Replayed::Many;
            }
        } else {
            self.store(region, word as usize, value);
        }
        true
    }

    /// Stores a replayed word, and sets its bit. Chunks share no word of bits.
    fn store(&self, region: &Region, word: usize, value: u64) {
        region.words()[word].store(value, Ordering::Relaxed);
        let bits = &self.stored.words()[word / IN_WORD];
        bits.store(bits.load(Ordering::Relaxed) | 1 << (word % IN_WORD), Ordering::Relaxed);
    }

    fn is_loaded(&self, chunk: usize) -> bool {
        // Pairs with that of `load`. A heap may have grown since: its new chunks are in no file.
        self.loaded.get(chunk / IN_WORD).is_none_or(|bits| {
            chunk >= self.checksums.len() || bits.load(Ordering::Acquire) >> (chunk % IN_WORD) & 1 != 0
        })
    }

    /// Loads a chunk, or waits until another thread has.
    #[cold]
    fn load(&self, core: &Core, chunk: usize) -> Result<()> {
        let Some(_claim) = self.claim(chunk)? else { return Ok(()) };
        let data = self.read(chunk).inspect_err(|error| {
            if let Some(log) = self.log.get() {
                log.stop(format!("a chunk of heap {} could not be loaded: {error}", core.name));
            }
        })?;
        let words = (self.source.chunk_len / WORD_LEN) as usize;
        match std::mem::replace(&mut *self.replayed[chunk].lock(), Replayed::Many) {
            Replayed::Few(few) => {
                core.region.fill(chunk * words, &data[BLOCK_LEN..]);
                few.iter().for_each(|&(at, value)| {
                    core.region.words()[chunk * words + at as usize].store(value, Ordering::Relaxed);
                });
            }
            Replayed::Many => {
                let stored = &self.stored.words()[chunk * words / IN_WORD..][..words / IN_WORD];
                core.region.fill_except(chunk * words, &data[BLOCK_LEN..], stored);
            }
        }
        self.loaded[chunk / IN_WORD].fetch_or(1 << (chunk % IN_WORD), Ordering::Release);
        let left = self.left.fetch_sub(1, Ordering::AcqRel) - 1;
        if left == 0 || left == 1 && planted!("heap_complete_too_early") {
            core.region.complete();
        }
        Ok(())
    }

    fn read(&self, chunk: usize) -> Result<AlignedBuf> {
        let Source { media, file, store, heap, chunk_len, checkpoint } = &self.source;
        let file = ChunkFile { media: &**media, file: *file, store, heap: *heap, chunk_len: *chunk_len };
        let mut place = AlignedBuf::zeroed(*chunk_len as usize + BLOCK_LEN);
        let header = file.read(chunk as u32, *checkpoint, &mut place)?;
        // The opening has checked the header, and the disk may return another one by now.
        if header.map(|header| header.data_crc) != self.checksums[chunk] && !planted!("older_chunk_loaded") {
            return Err(file.damaged(chunk as u32, 0, ANOTHER_CHUNK));
        }
        Ok(place)
    }

    /// Claims a chunk for this thread; `None` if it is loaded.
    fn claim(&self, chunk: usize) -> Result<Option<Claim<'_>>> {
        if self.log.get().is_some_and(Log::is_forked) {
            return Err(Stopped::forked().into()); // the heap is not mapped here (E1.9e)
        }
        let chunk_number = chunk as u32;
        let mut loading = self.loading.lock();
        loop {
            if self.is_loaded(chunk) {
                return Ok(None);
            }
            if loading.insert(chunk_number) || planted!("chunk_loaded_twice") {
                return Ok(Some(Claim { of: self, chunk: chunk_number }));
            }
            self.changed.wait(&mut loading);
        }
    }
}

/// The right to load a chunk. Drop lets the threads go on that wait for it, also after a failure.
struct Claim<'a> {
    of: &'a OnDemand,
    chunk: u32,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.of.loading.lock().remove(&self.chunk);
        self.of.changed.notify_all();
    }
}

impl Core {
    /// Returns a word, whose chunk is loaded first if it is absent.
    #[inline(always)]
    pub(crate) fn word(&self, word: u64) -> Result<&AtomicU64, Interrupt> {
        match self.region.word(word) {
            Some(found) => Ok(found),
            None => self.absent_word(word),
        }
    }

    #[cold]
    #[inline(never)]
    fn absent_word(&self, word: u64) -> Result<&AtomicU64, Interrupt> {
        self.load(word, 1)?;
        Ok(&self.region.words()[word as usize])
    }

    /// Loads the absent chunks of some words.
    ///
    /// # Errors
    /// A chunk is damaged or cannot be read: the store has stopped.
    pub(crate) fn load(&self, first: u64, words: u64) -> Result<()> {
        let Some(on_demand) = self.on_demand.as_deref().filter(|_| words > 0 && !self.region.is_complete()) else {
            return Ok(());
        };
        for chunk in self.chunks.of(first)..=self.chunks.of(first + words - 1) {
            if !on_demand.is_loaded(chunk) {
                on_demand.load(self, chunk)?;
            }
        }
        Ok(())
    }

    /// Loads all chunks that are absent.
    ///
    /// # Errors
    /// Those of [`Core::load`].
    pub(crate) fn load_all(&self) -> Result<()> {
        match &self.on_demand {
            Some(on_demand) => self.load(0, on_demand.checksums.len() as u64 * on_demand.source.chunk_len / WORD_LEN),
            None => Ok(()),
        }
    }

    /// Returns the bytes of absent chunks.
    pub(crate) fn absent_bytes(&self) -> u64 {
        self.on_demand.as_deref().map_or(0, |on_demand| on_demand.left() * on_demand.source.chunk_len)
    }

    /// Lets damage stop the log.
    pub(crate) fn stops(&self, log: &Log) {
        if let Some(on_demand) = &self.on_demand {
            let _ = on_demand.log.set(log.clone()); // once: a heap is opened once
        }
    }
}

impl Heap {
    /// Loads what was not loaded since the store was [opened](crate::MemoryOptions::load_on_demand_bytes), or waits until another
    /// thread has. From then on the words at the heap's [address](Heap::address) are those of the heap.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged), [`Error::Io`](crate::Error::Io): the store has stopped.
    pub fn load(&self) -> Result<()> {
        self.core.load_all()
    }
}

impl Memory {
    /// Returns the bytes of heaps that were not loaded since the store was opened.
    pub fn absent_bytes(&self) -> u64 {
        self.shared().heaps.read().iter().map(|core| core.absent_bytes()).sum()
    }

    /// Loads all heaps, with `threads` threads beside this one. Ends early once `goes_on`, which receives the bytes that are left,
    /// returns `false`.
    ///
    /// # Errors
    /// Those of [`Heap::load`].
    pub fn load_heaps(&self, threads: usize, goes_on: &(dyn Fn(u64) -> bool + Sync)) -> Result<()> {
        let heaps = self.shared().heaps.read().clone();
        for core in heaps.iter().filter(|core| !core.region.is_complete()) {
            let chunks = core.on_demand.as_deref().map_or(0, |on_demand| on_demand.checksums.len() as u32);
            let next = AtomicU64::new(0);
            let load = || -> Result<()> {
                loop {
                    let chunk = next.fetch_add(1, Ordering::Relaxed);
                    if chunk >= u64::from(chunks) || !goes_on(self.absent_bytes()) {
                        return Ok(());
                    }
                    let loaded = core.load(chunk * core.chunks.len / WORD_LEN, 1);
                    if loaded.is_err() {
                        next.store(u64::from(chunks), Ordering::Relaxed); // the other threads need not continue
                    }
                    loaded?;
                }
            };
            crate::load::in_threads(threads, chunks, load).into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }
}

impl Shared {
    /// Loads the absent chunks to which a transaction is about to write back.
    #[cold]
    pub(crate) fn load_for<'c>(&self, mut words: impl Iterator<Item = (&'c Arc<Core>, u64)>) -> Result<(), Interrupt> {
        if !planted!("committed_word_overwritten") {
            words.try_for_each(|(core, word)| core.load(word, 1))?;
        }
        if self.heaps.read().iter().all(|core| core.region.is_complete()) {
            self.all_loaded();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::chunk::ChunkHeader;
    use cedrat_media::{OpenMode, SimDisk};
    use cedrat_sync::{explore, thread};

    const CHUNK_LEN: u64 = 4096;
    const WORDS: u64 = CHUNK_LEN / WORD_LEN;
    const STORE: StoreId = *b"a store in tests";

    /// Returns a heap of three chunks, of which the first two are absent and have 100 in each word. The first word of the second was
    /// replayed: it has 200.
    fn absent_heap() -> Arc<Core> {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let file = media.open("heaps/heap.1", OpenMode::Create).expect("a file");
        let chunks = ChunkFile { media: &*media, file, store: &STORE, heap: 0, chunk_len: CHUNK_LEN };
        let data = 100_u64.to_le_bytes().repeat(WORDS as usize);
        let data_crc = crc32c::crc32c(&data);
        for chunk in 0..2 {
            chunks.write_data(chunk, &data).expect("the disk works");
            let header = ChunkHeader { heap: 0, chunk, checkpoint: 1, before: 1, after: 1, data_crc };
            chunks.write_header(&header).expect("the disk works");
        }
        let source = Source { media, file, store: STORE, heap: 0, chunk_len: CHUNK_LEN, checkpoint: 1 };
        let absent = OnDemand::new(source, vec![Some(data_crc), Some(data_crc), None]).expect("memory");
        let core = Core::new(0, "heap", 3 * WORDS, 3 * WORDS, CHUNK_LEN, 0, Mapping::default()).expect("memory");
        assert!(absent.replay(&core.region, 1, WORDS, 200) && !absent.replay(&core.region, 2, 2 * WORDS, 0));
        Arc::new(core.with_absent(absent))
    }

    /// E4.6, E4.7: a chunk is loaded once, however many threads need it, and before any of them uses its words.
    #[test]
    fn threads_load_chunk_once() {
        explore(0x10ad, 300, || {
            let core = absent_heap();
            let words = [0, 1, WORDS, WORDS + 1, 2 * WORDS];
            let threads: Vec<_> = (0..3)
                .map(|turn| {
                    let core = Arc::clone(&core);
                    thread::spawn(move || {
                        for at in 0..words.len() {
                            let word = words[(at + turn) % words.len()];
                            core.word(word).expect("nothing is damaged").fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert!(core.region.is_complete() && core.absent_bytes() == 0);
            let found = words.map(|word| core.region.words()[word as usize].load(Ordering::Relaxed));
            assert_eq!(found, [103, 103, 203, 103, 3], "E4.7");
        });
    }

    /// E4.7: so few words of a chunk that they wait in a list, and so many that they are stored.
    #[test]
    fn replayed_words_keep_last_value() {
        explore(0, 1, || {
            for count in [1, 2, WORDS / 16, WORDS / 16 + 1, WORDS / 2, 3 * WORDS] {
                let core = absent_heap();
                let on_demand = core.on_demand.as_deref().expect("it has absent chunks");
                let place = |step: u64| step * 7 % WORDS;
                (0..count).for_each(|step| assert!(on_demand.replay(&core.region, 0, place(step), 1000 + step)));
                core.load_all().expect("nothing is damaged");
                for word in 0..WORDS {
                    let last = (0..count).rev().find(|&step| place(step) == word);
                    let found = core.region.words()[word as usize].load(Ordering::Relaxed);
                    assert_eq!(found, last.map_or(100, |step| 1000 + step), "E4.7: {count} words, word {word}");
                }
            }
        });
    }

    #[test]
    fn words_are_absent_until_all_are_loaded() {
        explore(0, 1, || {
            let core = absent_heap();
            assert!(core.region.word(0).is_none() && core.region.word(2 * WORDS).is_none());
            core.load(2 * WORDS, WORDS).expect("it was never written");
            core.load(0, 1).expect("nothing is damaged");
            assert!(core.region.word(0).is_none(), "E4.6a");
            assert_eq!(core.absent_bytes(), CHUNK_LEN);
            core.load(WORDS - 1, 2).expect("nothing is damaged");
            let value = |word| core.region.word(word).map(|word| word.load(Ordering::Relaxed));
            assert_eq!([value(0), value(WORDS), value(2 * WORDS)], [Some(100), Some(200), Some(0)]);
            assert_eq!(value(3 * WORDS), None, "beyond the end");
        });
    }
}
