//! Information about a store's heaps, without loading them.

use cedrat_media::{AlignedBuf, BLOCK_LEN, Media, OpenMode};
use cedrat_wal::{Lsn, StoreId};

use crate::error::{Error, Result};
use crate::files::chunk::{ChunkFile, digest};
use crate::files::root::{DIRECTORY, HeapRoot, RootFile};
use crate::region::WORD_LEN;

/// Description of a heap in a store's root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapInfo {
    /// Unique number, never reused within the store.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Name of its checkpoint files, without `.0` and `.1`.
    pub file: String,
    /// Its size in bytes.
    pub size: u64,
    /// Maximum size, in bytes.
    pub size_max: u64,
    /// Unit of copying in a checkpoint, in bytes.
    pub chunk_len: u64,
    /// Whether it has an account of blocks.
    pub blocks: bool,
    /// Required start address; `None` if any address will do.
    pub address: Option<u64>,
    /// Number of the newest complete checkpoint; 0 if there is none yet.
    pub checkpoint: u64,
    /// Number of chunks in that checkpoint.
    pub chunks: u32,
    /// Commits up to this LSN are in the checkpoint.
    pub redo_from: Lsn,
    /// No commit behind this LSN is in the checkpoint.
    pub reflects: Lsn,
}

/// Returns the heaps of a store, in the order in which they were created. Reads the root alone, and changes nothing.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged), with file and offset; errors of the file system.
pub fn look(media: &dyn Media, store: &StoreId) -> Result<Vec<HeapInfo>> {
    let found = RootFile::open(media, store, OpenMode::Read)?;
    Ok(found.map(|(_, root)| root.heaps.into_iter().map(HeapInfo::from).collect()).unwrap_or_default())
}

/// Content of the file of a heap's newest checkpoint.
#[derive(Debug)]
#[non_exhaustive]
pub struct LookedAt {
    /// Description of the heap.
    pub heap: HeapInfo,
    /// Number of intact chunks.
    pub sound: u32,
    /// Number of chunks that were never written: they are all zero.
    pub never_written: u32,
    /// Damage: one error for each damaged chunk, or one for the whole file.
    pub problems: Vec<Error>,
}

/// Reads every chunk of the current checkpoints, even after damaged ones, without loading them. Changes nothing.
///
/// # Errors
/// Those of [`look`].
pub fn look_at_chunks(media: &dyn Media, store: &StoreId) -> Result<Vec<LookedAt>> {
    let root = RootFile::open(media, store, OpenMode::Read)?.map(|(_, root)| root).unwrap_or_default();
    Ok(root.heaps.into_iter().map(|heap| look_at_heap(media, store, heap)).collect())
}

fn look_at_heap(media: &dyn Media, store: &StoreId, root: HeapRoot) -> LookedAt {
    let mut looked = LookedAt { heap: root.clone().into(), sound: 0, never_written: 0, problems: Vec::new() };
    if root.checkpoint == 0 {
        return looked;
    }
    let name = root.file_name(root.checkpoint);
    let file = match media.open(&name, OpenMode::Read) {
        Ok(file) => ChunkFile { media, file, store, heap: root.number, chunk_len: root.chunk_len },
        Err(error) => {
            let doing = format!("opening {name}, which holds the checkpoint of heap {}", root.name);
            looked.problems.push(Error::io(doing, error));
            return looked;
        }
    };
    let mut place = AlignedBuf::zeroed(root.chunk_len as usize + BLOCK_LEN);
    let mut checksums = Vec::new();
    for chunk in 0..root.chunks {
        match file.read(chunk, root.checkpoint, &mut place) {
            Ok(header) => checksums.push(header.map(|header| header.data_crc)),
            Err(error) => looked.problems.push(error),
        }
    }
    looked.sound = checksums.iter().flatten().count() as u32;
    looked.never_written = checksums.len() as u32 - looked.sound;
    if looked.problems.is_empty() && digest(&checksums) != root.digest {
        let what = "its chunks are not those of the checkpoint that the root names";
        looked.problems.push(Error::damaged(name, 0, what));
    }
    looked
}

/// Calls `each` with the words of each chunk of a heap's newest checkpoint, by their offset in the heap, or with the damage of
/// the chunk. Chunks that were never written, which are zero, are left out. For salvage: the log has newer words.
///
/// # Errors
/// [`Error::Io`] if the file cannot be opened.
pub fn read_chunks(
    media: &dyn Media,
    store: &StoreId,
    heap: &HeapInfo,
    each: &mut dyn FnMut(u64, Result<&[u8]>),
) -> Result<()> {
    if heap.checkpoint == 0 {
        return Ok(());
    }
    let name = format!("{DIRECTORY}/{}.{}", heap.file, heap.checkpoint & 1);
    let file = media.open(&name, OpenMode::Read).map_err(|error| Error::io(format!("opening {name}"), error))?;
    let file = ChunkFile { media, file, store, heap: heap.number, chunk_len: heap.chunk_len };
    let mut place = AlignedBuf::zeroed(heap.chunk_len as usize + BLOCK_LEN);
    for chunk in 0..heap.chunks {
        let offset = u64::from(chunk) * heap.chunk_len;
        match file.read(chunk, heap.checkpoint, &mut place) {
            Ok(None) => {}
            Ok(Some(_)) => each(offset, Ok(&place[BLOCK_LEN..])),
            Err(error) => each(offset, Err(error)),
        }
    }
    Ok(())
}

/// Drops all heaps of a store that is not open, without reading them. For salvage, in a copy: the rest of the store opens although a
/// heap is damaged.
///
/// # Errors
/// Damage of the root, with file and offset; [`Error::Io`].
pub fn drop_unread(media: &dyn Media, store: &StoreId) -> Result<()> {
    if let Some((mut file, mut root)) = RootFile::open(media, store, OpenMode::ReadWrite)? {
        root.heaps.clear();
        file.write(media, store, &root)?;
    }
    Ok(())
}

impl From<HeapRoot> for HeapInfo {
    fn from(root: HeapRoot) -> HeapInfo {
        HeapInfo {
            number: root.number,
            name: root.name,
            file: root.file,
            size: root.words * WORD_LEN,
            size_max: root.reserved_words * WORD_LEN,
            chunk_len: root.chunk_len,
            blocks: root.blocks,
            address: (root.address != 0).then_some(root.address),
            checkpoint: root.checkpoint,
            chunks: root.chunks,
            redo_from: Lsn::new(root.redo_from),
            reflects: Lsn::new(root.reflects),
        }
    }
}
