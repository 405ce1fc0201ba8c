//! Copies of heaps while transactions run, for backups (Hathi §4).
//!
//! A copy of a heap is a checkpoint to another directory: chunk by chunk, from memory (E4). Its root is written when the end of
//! the log's copy is determined, while no heap is created, dropped or grown: the root names the heaps of that moment, with the
//! sizes that all commits up to there need.
//!
//! A copy of changes has the chunks whose bytes differ from those of an earlier copy, which is read for that.

use cedrat_media::{AlignedBuf, BLOCK_LEN, CopiedUnits, Media, OpenMode, copy_file, read_exact_at};
use cedrat_sync::atomic::{Ordering, fence};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{Lsn, StoreId};
use std::collections::{BTreeMap, HashMap};
use std::io;

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::chunk::{ChunkFile, ChunkHeader, digest};
use crate::files::root::{DIRECTORY, HeapRoot, ROOT_FILE, Root, RootFile};
use crate::heap::Core;
use crate::memory::{Memory, Shared};
use crate::region::WORD_LEN;

/// The number of the checkpoint that a copy is.
const CHECKPOINT: u64 = 2;

/// The heaps of an earlier copy.
#[derive(Debug)]
pub struct EarlierHeaps {
    media: Arc<dyn Media>,
    store: StoreId,
    root: Root,
}

impl EarlierHeaps {
    /// Reads the list of the heaps of a copy.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn look(media: &Arc<dyn Media>, store: &StoreId) -> Result<EarlierHeaps> {
        let root = RootFile::open(&**media, store, OpenMode::Read)?.map(|(_, root)| root).unwrap_or_default();
        Ok(EarlierHeaps { media: Arc::clone(media), store: *store, root })
    }

    /// Returns a checksum of the list, which names the chunks of all heaps.
    pub fn checksum(&self) -> u32 {
        checksum(&self.root)
    }

    /// Reads a chunk. `None`: the copy does not have it, or not in this length.
    fn read(&self, heap: u32, chunk: u32, place: &mut [u8]) -> Result<Option<ChunkHeader>> {
        let is_wanted = |known: &&HeapRoot| known.number == heap && known.checkpoint > 0 && chunk < known.chunks;
        let Some(known) = self.root.heaps.iter().find(is_wanted) else { return Ok(None) };
        if known.chunk_len + BLOCK_LEN as u64 != place.len() as u64 {
            return Ok(None);
        }
        let name = known.file_name(known.checkpoint);
        let file =
            self.media.open(&name, OpenMode::Read).map_err(|error| Error::io(format!("opening {name}"), error))?;
        let chunks = ChunkFile { media: &*self.media, file, store: &self.store, heap, chunk_len: known.chunk_len };
        chunks.read(chunk, known.checkpoint, place)
    }
}

fn checksum(root: &Root) -> u32 {
    crc32c::crc32c(&postcard::to_stdvec(root).expect("numbers, text and lists are always encoded"))
}

/// A file of a copy of changes.
#[derive(Debug)]
pub struct CopiedHeapFile {
    /// Its name.
    pub name: String,
    /// Its length, in bytes.
    pub len: u64,
    /// The chunks that the copy has.
    pub units: CopiedUnits,
}

/// A complete copy of the heaps.
#[derive(Debug)]
pub struct CopiedHeaps<T> {
    /// The end of the log's copy.
    pub end: T,
    /// The checksum of the list of heaps ([`EarlierHeaps::checksum`]).
    pub checksum: u32,
    /// The files of a copy of changes; of a whole copy none.
    pub files: Vec<CopiedHeapFile>,
}

/// The copied chunks of all heaps, without a root.
#[derive(Debug)]
pub struct HeapsCopy {
    to: Arc<dyn Media>,
    /// By the number of a heap.
    copied: HashMap<u32, HeapCopy>,
    /// The newest LSN when the copying began. A heap that is not in `copied` was created after it.
    since: u64,
    /// Whether only changes were copied.
    is_of_changes: bool,
}

/// The copied chunks of a heap.
#[derive(Debug)]
struct HeapCopy {
    chunks: u32,
    redo_from: u64,
    reflects: u64,
    digest: u32,
    units: CopiedUnits,
}

impl Memory {
    /// Returns the number of bytes of all heaps in memory.
    pub fn copied_len(&self) -> u64 {
        let heaps = self.shared().heaps.read().clone();
        let numbers: Vec<(u64, u64)> = self.shared().files.as_ref().map_or_else(Vec::new, |files| {
            let roots = files.heaps();
            let chunk_len = |number| roots.iter().find(|root| root.number == number).map_or(0, |root| root.chunk_len);
            heaps.iter().map(|core| (core.chunk_count() as u64, chunk_len(core.number))).collect()
        });
        numbers.into_iter().map(|(chunks, len)| chunks * len).sum()
    }

    /// Copies the words of all heaps to another directory. `copied` receives the number of bytes after each chunk, and may refuse
    /// to go on. The log keeps its records from before this call on until the copy is complete. With an earlier copy, only chunks
    /// that it does not have are written.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn copy(
        &self,
        to: &Arc<dyn Media>,
        earlier: Option<&EarlierHeaps>,
        copied: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<HeapsCopy> {
        let shared = self.shared();
        let mut copies = HashMap::new();
        let since = shared.clock.now();
        if let Some(files) = &shared.files {
            let heaps = shared.heaps.read().clone();
            for core in heaps {
                let root = files.heaps().into_iter().find(|root| root.number == core.number);
                let Some(root) = root else { continue };
                copies.insert(core.number, shared.copy_heap(&core, files, root, (&**to, earlier), copied)?);
            }
        }
        Ok(HeapsCopy { to: Arc::clone(to), copied: copies, since, is_of_changes: earlier.is_some() })
    }
}

impl Memory {
    /// Returns the list of heaps, with their sizes, for [`restore_heaps`]. It changes when heaps are created, dropped or grown.
    pub fn describe(&self) -> Vec<u8> {
        let Some(files) = &self.shared().files else { return Vec::new() };
        description(files.root())
    }
}

/// Returns the list of heaps of a store that is not open, as [`Memory::describe`] does. `known` is an earlier one, or empty.
///
/// # Errors
/// [`Error::Damaged`], also if the file with the list is missing, though heaps are known; [`Error::Io`].
pub fn describe_heaps(media: &dyn Media, store: &StoreId, known: &[u8]) -> Result<Vec<u8>> {
    match RootFile::open(media, store, OpenMode::Read)? {
        Some((_, root)) => Ok(description(root)),
        None if planted!("lost_heaps_not_noticed") => Ok(description(Root::default())),
        None if known.is_empty() || known == description(Root::default()) => Ok(Vec::new()),
        None => Err(Error::damaged(ROOT_FILE, 0, "the file is missing, and the store had heaps")),
    }
}

fn description(mut root: Root) -> Vec<u8> {
    root.heaps.iter_mut().for_each(|heap| heap.forget_checkpoint(0));
    postcard::to_stdvec(&root).expect("numbers, text and lists are always encoded")
}

/// The heaps that a restored store has.
#[derive(Clone, Debug, Default)]
pub struct WantedHeaps<'d> {
    /// Descriptions of the store ([`Memory::describe`]) at the LSN to which the log will be restored, or before and after it: a heap
    /// that one of them has is restored, with the larger of its sizes.
    pub descriptions: Vec<&'d [u8]>,
    /// Whether the heaps of the backup are restored, too: no description is from its end on and not after that LSN.
    pub includes_backups: bool,
}

/// Copies the heaps of a backup, which has all changes up to the LSN `since`, durably.
///
/// # Errors
/// [`Error::TwoHeaps`], [`Error::Damaged`], [`Error::Io`].
pub fn restore_heaps(
    from: &dyn Media,
    to: &dyn Media,
    store: &StoreId,
    since: Lsn,
    wanted: &WantedHeaps<'_>,
) -> Result<u64> {
    let found = RootFile::open(from, store, OpenMode::Read)?.map(|(_, root)| root).unwrap_or_default();
    let mut root = wanted_heaps(&found, since, wanted)?;
    if root.next_number == 0 {
        return Ok(0); // the store never had a heap
    }
    let mut bytes = 0;
    for heap in &mut root.heaps {
        if heap.checkpoint > 0 {
            let name = heap.file_name(heap.checkpoint);
            bytes += copy_file(from, to, &name).map_err(|error| Error::io(format!("copying {name}"), error))?;
        }
        reserve(to, heap, true, true)?;
    }
    to.sync_directory(DIRECTORY).map_err(|error| Error::io(format!("syncing the directory {DIRECTORY}"), error))?;
    let (mut file, _) = RootFile::create(to, store)?;
    file.write(to, store, &root)?;
    Ok(bytes)
}

/// Returns the root of a restored store: of a backup's heaps, and those of the descriptions.
fn wanted_heaps(backup: &Root, since: Lsn, asked: &WantedHeaps<'_>) -> Result<Root> {
    let mut wanted = Root { next_number: backup.next_number, heaps: Vec::new() };
    let mut described: BTreeMap<u32, HeapRoot> = BTreeMap::new();
    for bytes in asked.descriptions.iter().filter(|bytes| !bytes.is_empty()) {
        let root: Root = postcard::from_bytes(bytes)
            .map_err(|_| Error::damaged("the archive", 0, "its list of heaps is corrupt".to_owned()))?;
        wanted.next_number = wanted.next_number.max(root.next_number);
        for heap in root.heaps {
            let known = described.entry(heap.number).or_insert_with(|| heap.clone());
            known.words = known.words.max(heap.words);
        }
    }
    let are_backups = planted!("heaps_of_backup_restored");
    if are_backups {
        described.clear();
    }
    if asked.includes_backups || are_backups {
        for heap in &backup.heaps {
            described.entry(heap.number).or_insert_with(|| heap.clone());
        }
    }
    let newest: HashMap<String, u32> = described.values().map(|heap| (heap.name.clone(), heap.number)).collect();
    let is_older = |heap: &&HeapRoot| newest[&heap.name] != heap.number;
    if let Some(older) = described.values().find(is_older).filter(|_| !planted!("newer_heap_restored")) {
        return Err(Error::TwoHeaps { name: older.name.clone() });
    }
    for (number, mut heap) in described {
        heap.forget_checkpoint(since.get());
        if let Some(known) = backup.heaps.iter().find(|known| known.number == number) {
            heap = HeapRoot { words: heap.words.max(known.words), ..known.clone() };
        }
        wanted.heaps.push(heap);
    }
    Ok(wanted)
}

/// Checks each byte of the heaps of a copied store that was not opened since. `damaged` receives the first damage of each file.
///
/// # Errors
/// [`Error::Damaged`]: the list of heaps; [`Error::Io`].
pub fn check_copied_heaps(media: &dyn Media, store: &StoreId, damaged: &mut dyn FnMut(Error)) -> Result<()> {
    let mut beyond = |checked: Result<()>| match checked {
        Err(error @ Error::Damaged { .. }) => {
            damaged(error);
            Ok(())
        }
        checked => checked,
    };
    let mut found = None;
    beyond(RootFile::open(media, store, OpenMode::Read).map(|root| found = root))?;
    let Some((file, root)) = found else { return Ok(()) };
    beyond(file.check_slots(media, store, &root))?;
    for heap in &root.heaps {
        beyond(check_chunks(media, store, heap))?;
        beyond(check_zeros(media, &heap.file_name(heap.checkpoint + 1), 0))?;
    }
    Ok(())
}

/// Checks the chunks of a copied heap, and the rest of their file.
fn check_chunks(media: &dyn Media, store: &StoreId, heap: &HeapRoot) -> Result<()> {
    let name = heap.file_name(heap.checkpoint);
    if heap.checkpoint == 0 {
        return check_zeros(media, &name, 0);
    }
    let io = |error| Error::io(format!("opening {name}"), error);
    let file = media.open(&name, OpenMode::Read).map_err(io)?;
    let chunks = ChunkFile { media, file, store, heap: heap.number, chunk_len: heap.chunk_len };
    let mut place = AlignedBuf::zeroed(BLOCK_LEN + heap.chunk_len as usize);
    let mut checksums = Vec::new();
    for chunk in 0..heap.chunks {
        let header = chunks.read(chunk, heap.checkpoint, &mut place)?;
        chunks.check_rest(chunk, header.as_ref(), &place)?;
        checksums.push(header.map(|header| header.data_crc));
    }
    if digest(&checksums) != heap.digest {
        return Err(Error::damaged(
            media.path(file),
            0,
            "the chunks are others than those that the list of heaps names",
        ));
    }
    check_zeros(media, &name, ChunkFile::len(u64::from(heap.chunks), heap.chunk_len))
}

/// Checks that a file has no byte but zero from an offset on.
fn check_zeros(media: &dyn Media, name: &str, from: u64) -> Result<()> {
    const PIECE_LEN: u64 = 1 << 20;
    let io = |error| Error::io(format!("reading {name}"), error);
    let file = media.open(name, OpenMode::Read).map_err(io)?;
    let len = media.len(file).map_err(io)?;
    for begin in (from..len).step_by(PIECE_LEN as usize) {
        let mut piece = AlignedBuf::zeroed(PIECE_LEN.min(len - begin) as usize);
        read_exact_at(media, file, begin, &mut piece).map_err(io)?;
        if let Some(bad) = piece.iter().position(|&byte| byte != 0) {
            let what = "a part of a copied heap without a chunk is not zero";
            return Err(Error::damaged(media.path(file), begin + bad as u64, what));
        }
    }
    Ok(())
}

impl HeapRoot {
    /// Leaves a heap without a checkpoint, whose commits all have later LSNs.
    fn forget_checkpoint(&mut self, since: u64) {
        (self.checkpoint, self.chunks, self.digest) = (0, 0, 0);
        (self.redo_from, self.reflects) = (since, since);
    }
}

impl HeapsCopy {
    /// Returns a file that lies in the directory of the heaps, if there is any: a copy begins without one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn foreign_file(to: &dyn Media) -> Result<Option<String>> {
        let failed = |error| Error::io(format!("listing the directory {DIRECTORY}"), error);
        let found = to.list(DIRECTORY).map_err(failed)?.into_iter().next();
        Ok(found.map(|file| format!("{DIRECTORY}/{file}")))
    }

    /// Determines the end of the log's copy by `end`, and makes the copy of the heaps complete and durable: it has all heaps of
    /// that moment.
    ///
    /// # Errors
    /// [`Error::Io`], and those of `end`.
    pub fn complete<T>(self, memory: &Memory, end: impl FnOnce() -> Result<T>) -> Result<CopiedHeaps<T>> {
        let shared = memory.shared();
        let alone = shared.changing.lock();
        let end = end()?;
        let none = checksum(&Root::default());
        let Some((files, mut root)) = shared.files.as_ref().map(|files| (files, files.root())) else {
            return Ok(CopiedHeaps { end, checksum: none, files: Vec::new() });
        };
        drop(alone);
        if root.next_number == 0 {
            return Ok(CopiedHeaps { end, checksum: none, files: Vec::new() }); // the store never had a heap
        }
        let mut changed = Vec::new();
        for heap in &mut root.heaps {
            let known = (heap.redo_from, heap.reflects);
            // The copied log has all of its commits, also those that are in a checkpoint of the original.
            heap.forget_checkpoint(self.since);
            if planted!("checkpoint_of_new_heap_copied") {
                (heap.redo_from, heap.reflects) = known;
            }
            if let Some(copy) = self.copied.get(&heap.number) {
                heap.checkpoint = CHECKPOINT;
                (heap.chunks, heap.digest) = (copy.chunks, copy.digest);
                (heap.redo_from, heap.reflects) = (copy.redo_from, copy.reflects);
                if self.is_of_changes {
                    let (name, len) = (heap.file_name(CHECKPOINT), heap.files_len());
                    changed.push(CopiedHeapFile { name, len, units: copy.units.clone() });
                }
            }
            reserve(&*self.to, heap, self.copied.contains_key(&heap.number), !self.is_of_changes)?;
        }
        let io = |error| Error::io(format!("syncing the directory {DIRECTORY}"), error);
        self.to.sync_directory(DIRECTORY).map_err(io)?;
        let (mut file, _) = RootFile::create(&*self.to, &files.store)?;
        file.write(&*self.to, &files.store, &root)?;
        Ok(CopiedHeaps { end, checksum: checksum(&root), files: changed })
    }
}

/// Reserves the two files of a heap, durably. Only a copied heap keeps what they have: they may be those of a dropped heap of the
/// same name. A copy of changes has no space for the rest of them.
fn reserve(to: &dyn Media, heap: &HeapRoot, is_copied: bool, has_space: bool) -> Result<()> {
    for checkpoint in [0, 1] {
        let name = heap.file_name(checkpoint);
        let io = |error| Error::io(format!("reserving {name}, {} bytes", heap.files_len()), error);
        let file = to.open(&name, OpenMode::ReadWrite).or_else(|_| to.open(&name, OpenMode::Create)).map_err(io)?;
        let len = if is_copied { to.len(file).map_err(io)? } else { 0 };
        to.set_len(file, len).map_err(io)?;
        if has_space {
            to.allocate(file, len, heap.files_len() - len).map_err(io)?;
        } else {
            to.set_len(file, heap.files_len()).map_err(io)?;
        }
        to.sync(file).map_err(io)?;
    }
    Ok(())
}

impl Shared {
    /// Copies the chunks of one heap.
    fn copy_heap(
        &self,
        core: &Core,
        files: &Files,
        root: HeapRoot,
        (to, earlier): (&dyn Media, Option<&EarlierHeaps>),
        copied: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<HeapCopy> {
        let name = root.file_name(CHECKPOINT);
        let io = |error| Error::io(format!("creating {name}"), error);
        let file = to.open(&name, OpenMode::Create).map_err(io)?;
        let (heap, chunk_len) = (root.number, root.chunk_len);
        let file = ChunkFile { media: to, file, store: &files.store, heap, chunk_len };
        // A commit that is written back counts from its snapshot on, which may be older than what the checkpoint has and the log.
        let known = if planted!("copy_needs_log_of_snapshot") { 0 } else { root.redo_from };
        let redo_from = self.slots.written_back(self.clock.now()).max(known);
        let chunks = core.chunk_count() as u32;
        let units = CopiedUnits::new(ChunkFile::len(1, chunk_len));
        let mut copy = HeapCopy { chunks, redo_from, reflects: redo_from, digest: 0, units };
        let mut checksums = vec![None; chunks as usize];
        let mut headers = Vec::new();
        let mut buffer = AlignedBuf::zeroed(chunk_len as usize);
        let mut place = AlignedBuf::zeroed(BLOCK_LEN + chunk_len as usize);
        for chunk in 0..chunks {
            let first = u64::from(chunk) * chunk_len / WORD_LEN;
            if !planted!("absent_chunk_backed_up") {
                core.load(first, 1)?;
            }
            let before = self.slots.written_back(self.clock.now());
            core.region.copy(first as usize, &mut buffer);
            // As in a checkpoint: the LSN of a commit whose words are in the copy is visible below (E4.2).
            fence(Ordering::Acquire);
            let after = self.clock.now();
            copy.reflects = copy.reflects.max(after);
            if buffer.iter().any(|&byte| byte != 0) {
                let data_crc = crc32c::crc32c(&buffer);
                checksums[chunk as usize] = Some(data_crc);
                let known = earlier.map(|earlier| earlier.read(heap, chunk, &mut place)).transpose()?.flatten();
                if known.is_some() && (place[BLOCK_LEN..] == *buffer || planted!("changed_chunks_not_copied")) {
                    copy.units.push_older(u64::from(chunk));
                } else {
                    file.write_data(chunk, &buffer)?;
                    let header = ChunkHeader { heap, chunk, checkpoint: CHECKPOINT, before, after, data_crc };
                    if earlier.is_some() {
                        place[..BLOCK_LEN].copy_from_slice(&header.encode(&files.store));
                        place[BLOCK_LEN..].copy_from_slice(&buffer);
                        copy.units.push_here(u64::from(chunk), &place);
                    }
                    headers.push(header);
                }
            }
            copied(chunk_len).map_err(|error| Error::io(format!("copying to {name}"), error))?;
        }
        file.sync()?;
        headers.iter().try_for_each(|header| file.write_header(header))?;
        file.sync()?;
        copy.digest = digest(&checksums);
        Ok(copy)
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::load::FoundHeaps;
    use crate::{Commit, HeapOptions, MemoryOptions};
    use cedrat_media::SimDisk;
    use cedrat_sync::atomic::AtomicU64;
    use cedrat_wal::{Log, LogOptions};

    /// E18.2: a transaction whose snapshot is older than the checkpoint commits meanwhile. The log from its snapshot on is not kept.
    #[test]
    fn copy_needs_no_log_of_snapshot() {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let store = log.control().store;
        let found = FoundHeaps::load(&media, store, &MemoryOptions::small(), 0, 0).expect("there is none");
        let memory = found.open(log, Arc::new(AtomicU64::new(1))).expect("it opens");
        let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) };
        let heap = memory.create_heap("heap", &options).expect("a heap");
        let shared = memory.shared();
        let snapshot = shared.clock.now();
        memory.run(Commit::Sync, |tx| tx.write(&heap, 0, 7)).expect("room");
        let checkpoint = memory.checkpoint().expect("the disk works");
        let seat = shared.slots.take().expect("a seat");
        shared.slots.slot(seat).commits_after(snapshot);
        let to: Arc<dyn Media> = Arc::new(SimDisk::new());
        let copy = memory.copy(&to, None, &mut |_| Ok(())).expect("the disk works");
        shared.slots.slot(seat).committed();
        assert!(copy.copied.values().all(|heap| heap.redo_from >= checkpoint.redo_from.get()), "E18.2: {copy:?}");
    }
}
