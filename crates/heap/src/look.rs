//! What is known of a store's heaps without loading them.

use cedrat_media::{Media, OpenMode};
use cedrat_wal::{Lsn, StoreId};

use crate::error::Result;
use crate::files::root::{HeapRoot, RootFile};
use crate::region::WORD_LEN;

/// What a store's root says about a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapInfo {
    /// No other heap of the store has or had this number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The name of its checkpoint files, without `.0` and `.1`.
    pub file: String,
    /// Its size in bytes.
    pub size: u64,
    /// What it may grow to, in bytes.
    pub size_max: u64,
    /// How much a checkpoint copies at a time, in bytes.
    pub chunk_len: u64,
    /// Whether it keeps account of blocks.
    pub blocks: bool,
    /// Where in memory it has to begin, if it does not matter `None`.
    pub address: Option<u64>,
    /// The number of the newest whole checkpoint; 0 if there is none yet.
    pub checkpoint: u64,
    /// How many chunks that checkpoint has.
    pub chunks: u32,
    /// Commits up to this LSN are in the checkpoint.
    pub redo_from: Lsn,
    /// No commit behind this LSN is in the checkpoint.
    pub reflects: Lsn,
}

/// The heaps of a store, in the order in which they were created. Reads the root alone, and changes nothing.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged), with file and offset; what the file system says.
pub fn look(media: &dyn Media, store: &StoreId) -> Result<Vec<HeapInfo>> {
    let found = RootFile::open(media, store, OpenMode::Read)?;
    Ok(found.map(|(_, root)| root.heaps.into_iter().map(HeapInfo::from).collect()).unwrap_or_default())
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
