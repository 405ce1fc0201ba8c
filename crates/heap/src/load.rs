//! Recovery of heaps: their checkpoints, then the commits of the log (Hathi §4, H023).
//!
//! Nothing is written here (R2). Redo is blind: a word gets the value of each commit in turn, whatever it holds, so
//! replaying commits that are already in the checkpoint is harmless.

use std::collections::HashMap;

use cedrat_media::{AlignedBuf, BLOCK_LEN, FileId, Media, OpenMode};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, planted, thread};
use cedrat_wal::{Log, Lsn, StoreId};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::files::chunk::{ChunkFile, ChunkHeader, digest};
use crate::files::root::{DIRECTORY, HeapRoot, ROOT_FILE, Root, RootFile};
use crate::files::{Files, HeapFiles};
use crate::heap::Core;
use crate::memory::Memory;
use crate::on_demand::{OnDemand, Source};
use crate::options::MemoryOptions;
use crate::prepared::FoundPrepared;
use crate::redo::Runs;
use crate::region::{Mapping, Region};
use crate::replay::Replay;

/// The heaps of a store that is being opened.
#[derive(Debug)]
pub struct FoundHeaps {
    media: Arc<dyn Media>,
    store: StoreId,
    pub(crate) options: MemoryOptions,
    has_root: bool,
    root: Root,
    heaps: Vec<FoundHeap>,
    replay: Replay,
    pub(crate) found_prepared: FoundPrepared,
}

#[derive(Debug)]
struct FoundHeap {
    root: HeapRoot,
    core: Arc<Core>,
    checksums: Vec<Option<u32>>,
}

impl FoundHeaps {
    /// Finds the heaps and loads their checkpoints into memory, with `threads` threads beside this one, or the headers alone
    /// ([`MemoryOptions::load_on_demand_bytes`]). At most as many
    /// replay the log that follows, if the machine can run them in parallel with this one. A heap that may grow leaves `beside`
    /// bytes of address space to the rest of the opening, and what the other heaps need (E12.6).
    ///
    /// # Errors
    /// [`Error::Damaged`], with file and offset; not enough memory for a heap, or not at its required address.
    pub fn load(
        media: &Arc<dyn Media>,
        store: StoreId,
        options: &MemoryOptions,
        threads: usize,
        beside: u64,
    ) -> Result<FoundHeaps> {
        options.check()?;
        let found = RootFile::open(&**media, &store, OpenMode::Read)?;
        let has_root = found.is_some();
        let root = found.map(|(_, root)| root).unwrap_or_default();
        let mut heaps = Vec::new();
        let of_locks = (8 << options.stripes_log2) + MAPPING_MARGIN;
        let address_space_of = |heap| address_space_of(heap, options);
        let mut beside = root.heaps.iter().map(address_space_of).fold(beside + of_locks, u64::saturating_add);
        for heap in &root.heaps {
            beside = beside.saturating_sub(address_space_of(heap));
            heaps.push(load_heap(media, &store, options, heap, threads, beside)?);
        }
        let cores = heaps.iter().map(|heap| Arc::clone(&heap.core)).collect();
        // This thread needs a processor too: it reads the log meanwhile.
        let replay = Replay::new(cores, threads.min(thread::parallelism() - 1));
        let (media, options) = (Arc::clone(media), options.clone());
        let found_prepared = FoundPrepared::default();
        Ok(FoundHeaps { media, store, options, has_root, root, heaps, replay, found_prepared })
    }

    /// Checks that log and checkpoints match: the log begins at or before the LSN that the checkpoints need, and reaches as
    /// far as they reflect it. `begin` is the first LSN in the log, `end` the one after its last.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn fit(&self, begin: Lsn, end: Lsn) -> Result<()> {
        for heap in &self.root.heaps {
            let name = &heap.name;
            if heap.redo_from + 1 < begin.get() {
                let what =
                    format!("heap {name} needs the log from LSN {} on, which begins at {begin}", heap.redo_from + 1);
                return Err(Error::damaged(ROOT_FILE, 0, what));
            }
            if heap.reflects >= end.get() {
                let what =
                    format!("the log ends before LSN {end}, but heap {name} has a checkpoint of LSN {}", heap.reflects);
                return Err(Error::damaged(ROOT_FILE, 0, what));
            }
        }
        Ok(())
    }

    /// Returns whether no heap was ever created.
    pub fn is_empty(&self) -> bool {
        self.root.next_number == 0
    }

    /// Replays a commit, or a part of one. Commits arrive in the order of their LSNs.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is invalid for the existing heaps.
    pub fn replay(&mut self, lsn: Lsn, body: &[u8]) -> Result<()> {
        let bad = |what: String| Error::damaged("the log", 0, format!("the commit with LSN {lsn}: {what}"));
        for run in Runs::of(body).take(if planted!("half_commit_replayed") { 1 } else { usize::MAX }) {
            let run = run.map_err(|corrupt| bad(corrupt.0.to_owned()))?;
            if run.heap >= self.root.next_number {
                return Err(bad(format!("no heap ever had the number {}", run.heap)));
            }
            // A run of a heap that was dropped since.
            let Some(at) = self.place_of(run.heap) else { continue };
            let heap = &self.heaps[at];
            let count = run.values.len() as u64 / 8;
            if run.first.checked_add(count).is_none_or(|end| end > heap.core.words()) {
                return Err(bad(format!("it writes beyond the end of heap {}", heap.root.name)));
            }
            if lsn.get() > heap.root.redo_from {
                self.replay.write(at, run.first, run.values);
            }
        }
        Ok(())
    }

    /// Returns the heap with this number.
    pub(crate) fn core(&self, number: u32) -> Option<&Arc<Core>> {
        self.place_of(number).map(|at| &self.heaps[at].core)
    }

    /// Returns whether there ever was a heap with this number.
    pub(crate) fn had(&self, number: u32) -> bool {
        number < self.root.next_number
    }

    /// Returns the index of the heap with this number.
    #[inline]
    fn place_of(&self, number: u32) -> Option<usize> {
        match self.heaps.first() {
            Some(first) if first.root.number == number => Some(0),
            _ => self.heaps.binary_search_by_key(&number, |heap| heap.root.number).ok(),
        }
    }

    /// Returns when all replayed words are in memory.
    ///
    /// # Panics
    /// If a thread that wrote them panicked.
    pub fn finish_replay(&mut self) {
        self.replay.finish();
    }

    /// Returns the number of words replayed.
    pub fn words_replayed(&self) -> u64 {
        self.replay.words()
    }

    /// Returns the size of all heaps, in bytes.
    pub fn bytes(&self) -> u64 {
        self.heaps.iter().map(|heap| heap.core.words() * 8).sum()
    }

    /// Opens the memory of an open store. `next_txn` counts the store's transactions.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(mut self, log: Log, next_txn: Arc<AtomicU64>) -> Result<Memory> {
        self.finish_replay();
        let mut root_file = None;
        let mut files = HashMap::new();
        if self.has_root {
            let opened = RootFile::open(&*self.media, &self.store, OpenMode::ReadWrite)?;
            root_file = opened.map(|(file, _)| file);
            root_file.iter().try_for_each(|file| file.settle(&*self.media))?;
        }
        for heap in &self.heaps {
            files.insert(heap.root.number, self.open_files(heap)?);
        }
        let files = Files::new(Arc::clone(&self.media), self.store, log.clone(), root_file, self.root, files);
        files.remove_orphans()?;
        let memory = Memory::around(Clock::Log(log.clone()), self.options, Some(files), next_txn)?;
        for heap in self.heaps.iter().filter(|heap| !heap.core.region.is_complete()) {
            heap.core.stops(&log);
            memory.shared().some_absent();
        }
        let cores = self.heaps.into_iter().map(|heap| heap.core);
        memory.shared().heaps.write().extend(cores);
        Ok(memory)
    }

    /// Checks that all files of the heaps can be opened for writing. Changes nothing.
    ///
    /// # Errors
    /// One of them is missing, or access to it is refused.
    pub fn check_access(&self) -> Result<()> {
        if self.has_root {
            RootFile::open(&*self.media, &self.store, OpenMode::ReadWrite)?;
        }
        self.root.heaps.iter().try_for_each(|heap| self.open_both(heap).map(drop))
    }

    fn open_both(&self, heap: &HeapRoot) -> Result<[FileId; 2]> {
        let open = |checkpoint| {
            let name = heap.file_name(checkpoint);
            self.media.open(&name, OpenMode::ReadWrite).map_err(|error| Error::io(format!("opening {name}"), error))
        };
        Ok([open(0)?, open(1)?])
    }

    /// Opens a heap's files for writing. The content of the older one is unknown, so all of it will be rewritten.
    fn open_files(&self, heap: &FoundHeap) -> Result<HeapFiles> {
        let files = self.open_both(&heap.root)?;
        let newest = (heap.root.checkpoint & 1) as usize;
        let older = ChunkFile {
            media: &*self.media,
            file: files[1 - newest],
            store: &self.store,
            heap: heap.root.number,
            chunk_len: heap.root.chunk_len,
        };
        for chunk in 0..heap.core.chunk_count() {
            let is_there = heap.checksums.get(chunk).is_some_and(Option::is_some);
            if is_there || older.has(chunk as u32)? {
                heap.core.chunks.put_back(chunk, heap.root.checkpoint + 1);
            }
        }
        let mut checksums = [Vec::new(), Vec::new()];
        checksums[newest] = heap.checksums.clone();
        Ok(HeapFiles { files, checksums })
    }
}

/// Address space that a mapping takes beyond its words, so that it can begin at a huge page.
const MAPPING_MARGIN: u64 = 4 << 20;

/// Returns the address space that a heap needs, in bytes: for its words, for the flags of its chunks, for its account of blocks,
/// and for a bit for each word if it is loaded on demand.
fn address_space_of(heap: &HeapRoot, options: &MemoryOptions) -> u64 {
    let of_bits = if heap.is_loaded_on_demand(options) { heap.words / 8 + MAPPING_MARGIN } else { 0 };
    heap.words * 8 + 3 * MAPPING_MARGIN + of_bits
}

fn load_heap(
    media: &Arc<dyn Media>,
    store: &StoreId,
    options: &MemoryOptions,
    root: &HeapRoot,
    threads: usize,
    beside: u64,
) -> Result<FoundHeap> {
    let address = (root.address != 0).then_some(root.address as usize);
    let mapping = Mapping { huge: options.huge_pages, address, beside };
    let first_word = if root.blocks { crate::blocks::FIRST_WORD } else { 0 };
    let (words, reserved) = (root.words, root.reserved_words);
    let mut core = Core::new(root.number, &root.name, words, reserved, root.chunk_len, first_word, mapping)?;
    let mut checksums = Vec::new();
    if root.checkpoint > 0 {
        let file = open_checkpoint(&**media, root)?;
        let chunks = ChunkFile { media: &**media, file, store, heap: root.number, chunk_len: root.chunk_len };
        let absent = root.is_loaded_on_demand(options);
        checksums = if absent {
            look_at_headers(&chunks, root, threads)?
        } else {
            load_chunks(&chunks, root, &core.region, threads)?
        };
        if digest(&checksums) != root.digest {
            let what = "its chunks are not those of the checkpoint that the root names";
            return Err(Error::damaged(root.file_name(root.checkpoint), 0, what));
        }
        if absent {
            let (media, heap, checkpoint) = (Arc::clone(media), root.number, root.checkpoint);
            let source = Source { media, file, store: *store, heap, chunk_len: root.chunk_len, checkpoint };
            let noting =
                |error| Error::io(format!("reserving address space to load heap {} on demand", root.name), error);
            core = core.with_absent(OnDemand::new(source, checksums.clone()).map_err(noting)?);
        }
    }
    Ok(FoundHeap { root: root.clone(), core: Arc::new(core), checksums })
}

impl HeapRoot {
    /// Returns whether its chunks are loaded after the opening.
    fn is_loaded_on_demand(&self, options: &MemoryOptions) -> bool {
        u64::from(self.chunks) * self.chunk_len > options.load_on_demand_bytes
    }
}

fn open_checkpoint(media: &dyn Media, root: &HeapRoot) -> Result<FileId> {
    let name = root.file_name(root.checkpoint);
    let listed = media.list(DIRECTORY).map_err(|error| Error::io("listing the heaps' directory", error))?;
    if !listed.iter().any(|listed| name.ends_with(&format!("/{listed}"))) {
        return Err(Error::damaged(name, 0, format!("it is missing; it holds the checkpoint of heap {}", root.name)));
    }
    media.open(&name, OpenMode::Read).map_err(|error| Error::io(format!("opening {name}"), error))
}

/// Loads all chunks; returns their checksums.
fn load_chunks(file: &ChunkFile<'_>, root: &HeapRoot, region: &Region, threads: usize) -> Result<Vec<Option<u32>>> {
    each_chunk(root, threads, || {
        let mut place = AlignedBuf::zeroed(root.chunk_len as usize + BLOCK_LEN);
        move |chunk| {
            let header = file.read(chunk, root.checkpoint, &mut place)?;
            if header.is_some() {
                region.fill((u64::from(chunk) * root.chunk_len / 8) as usize, &place[BLOCK_LEN..]);
            }
            Ok(header)
        }
    })
}

/// Reads the headers of all chunks, which are loaded on demand; returns their checksums.
fn look_at_headers(file: &ChunkFile<'_>, root: &HeapRoot, threads: usize) -> Result<Vec<Option<u32>>> {
    let len = file.file_len()?;
    each_chunk(root, threads, || move |chunk| file.read_header(chunk, root.checkpoint, len))
}

/// Reads all chunks of a heap in several threads, each of which has a reader that `reader` returns. Returns the checksums of those
/// that exist.
fn each_chunk<R: FnMut(u32) -> Result<Option<ChunkHeader>>>(
    root: &HeapRoot,
    threads: usize,
    reader: impl Fn() -> R + Sync,
) -> Result<Vec<Option<u32>>> {
    let next = AtomicU64::new(0);
    let mut checksums = vec![None; root.chunks as usize];
    for part in in_threads(threads, root.chunks, || read_some(root, &next, reader())) {
        for (chunk, crc) in part? {
            checksums[chunk as usize] = Some(crc);
        }
    }
    Ok(checksums)
}

/// Runs `work` here and in other threads: at most `threads`, at most one for each chunk, and fewer where the system refuses more.
/// Returns all results.
pub(crate) fn in_threads<T: Send>(threads: usize, chunks: u32, work: impl Fn() -> T + Copy + Send) -> Vec<T> {
    thread::scope(|scope| {
        // This thread works beside them, since each waits for the disk most of the time.
        let spawn = |_| thread::spawn_in(scope, "cedrat-load", work).ok();
        let running: Vec<_> = (0..threads.min(chunks as usize)).map_while(spawn).collect();
        let mut results = vec![work()];
        results.extend(running.into_iter().map(|thread| thread.join().expect("loading does not panic")));
        results
    })
}

/// Reads chunks that no other thread has claimed, one at a time. Returns those that exist, with their checksums.
fn read_some(
    root: &HeapRoot,
    next: &AtomicU64,
    mut read: impl FnMut(u32) -> Result<Option<ChunkHeader>>,
) -> Result<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    loop {
        let chunk = next.fetch_add(1, Ordering::Relaxed);
        if chunk >= u64::from(root.chunks) {
            return Ok(found);
        }
        let read = read(chunk as u32);
        if read.is_err() {
            next.store(u64::MAX / 2, Ordering::Relaxed); // the other threads need not continue
        }
        if let Some(header) = read? {
            found.push((chunk as u32, header.data_crc));
        }
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::HeapOptions;
    use cedrat_media::{Damage, SimDisk};
    use cedrat_wal::LogOptions;

    /// A thread without a chunk would only be created and joined.
    #[test]
    fn each_loading_thread_has_a_chunk() {
        assert_eq!(in_threads(50, 3, || ()).len(), 4);
        assert_eq!(in_threads(2, 30, || ()).len(), 3);
        assert_eq!(in_threads(0, 3, || ()).len(), 1);
    }

    /// Several threads load the chunks of a heap. One damaged chunk suffices to refuse to open the store.
    #[test]
    fn no_chunk_is_loaded_after_damaged_one() {
        const CHUNKS: u64 = 12;
        let disk = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&disk);
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let store = log.control().store;
        let found = FoundHeaps::load(&media, store, &MemoryOptions::small(), 0, 0).expect("there is none");
        let memory = found.open(log, Arc::new(AtomicU64::new(1))).expect("it opens");
        let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(CHUNKS * 4096) };
        let heap = memory.create_heap("heap", &options).expect("a heap");
        heap.atomically(|tx| (0..CHUNKS).try_for_each(|chunk| tx.write(&heap, chunk * 4096, chunk + 1))).expect("room");
        memory.checkpoint().expect("the disk is whole");

        let root = memory.shared().files.as_ref().expect("it has files").heaps().remove(0);
        let name = root.file_name(root.checkpoint);
        let file = media.open(&name, OpenMode::Read).expect("it is there");
        let file = ChunkFile { media: &*media, file, store: &store, heap: root.number, chunk_len: root.chunk_len };
        let mut place = AlignedBuf::zeroed(4096 + BLOCK_LEN);
        let mut read_some =
            |next: &AtomicU64| super::read_some(&root, next, |chunk| file.read(chunk, root.checkpoint, &mut place));
        let all = read_some(&AtomicU64::new(0)).expect("nothing is damaged yet");
        assert_eq!(all.len() as u64, CHUNKS);

        let place = ChunkFile::len(3, 4096);
        disk.corrupt(&name, place + BLOCK_LEN as u64, Damage::Flip { bit: 0 }).expect("a file");
        // The threads run one after the other, which is a possible schedule.
        let next = AtomicU64::new(0);
        let message = read_some(&next).expect_err("the fourth chunk is damaged").to_string();
        assert!(message.contains(&(place + BLOCK_LEN as u64).to_string()), "E20.2: {message}");
        assert_eq!(read_some(&next).expect("it meets no damage"), [], "nothing is read for nothing");
    }
}
