//! Chunk files: copies of a heap's memory, chunk by chunk (drawn in docs/formats/heap.md).
//!
//! A heap has two files. A checkpoint goes to the older one; the other holds the last complete checkpoint meanwhile. In a
//! file each chunk has a fixed place: a header of one block, then the words.

use cedrat_media::{AlignedBuf, BLOCK_LEN, Durability, FileId, Media, read_exact_at, write_all_at};
use cedrat_wal::StoreId;

use crate::error::{Error, Result};

const MAGIC: [u8; 8] = *b"CEDRATHC";
const VERSION: u32 = 1;

/// Offsets of the parts of a chunk's header.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CRC: usize = MAGIC + 8; // of the header after it
    pub(super) const VERSION: usize = CRC + 4;
    pub(super) const STORE: usize = VERSION + 4;
    pub(super) const HEAP: usize = STORE + 16;
    pub(super) const CHUNK: usize = HEAP + 4;
    pub(super) const CHECKPOINT: usize = CHUNK + 4; // the one that copied it
    pub(super) const BEFORE: usize = CHECKPOINT + 8;
    pub(super) const AFTER: usize = BEFORE + 8;
    pub(super) const DATA_CRC: usize = AFTER + 8;
    pub(super) const ZERO: usize = DATA_CRC + 4;
    pub(super) const END: usize = ZERO + 4;
}
const _: () = assert!(at::CHECKPOINT == 40 && at::END == 72);

/// Header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) heap: u32,
    pub(crate) chunk: u32,
    pub(crate) checkpoint: u64,
    /// Every commit up to this LSN is in the copy.
    pub(crate) before: u64,
    /// No commit behind this LSN is in the copy.
    pub(crate) after: u64,
    pub(crate) data_crc: u32,
}

impl ChunkHeader {
    pub(crate) fn encode(&self, store: &StoreId) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(BLOCK_LEN);
        block[at::MAGIC..at::CRC].copy_from_slice(&MAGIC);
        block[at::VERSION..at::STORE].copy_from_slice(&VERSION.to_le_bytes());
        block[at::STORE..at::HEAP].copy_from_slice(store);
        block[at::HEAP..at::CHUNK].copy_from_slice(&self.heap.to_le_bytes());
        block[at::CHUNK..at::CHECKPOINT].copy_from_slice(&self.chunk.to_le_bytes());
        block[at::CHECKPOINT..at::BEFORE].copy_from_slice(&self.checkpoint.to_le_bytes());
        block[at::BEFORE..at::AFTER].copy_from_slice(&self.before.to_le_bytes());
        block[at::AFTER..at::DATA_CRC].copy_from_slice(&self.after.to_le_bytes());
        block[at::DATA_CRC..at::ZERO].copy_from_slice(&self.data_crc.to_le_bytes());
        let crc = crc32c::crc32c(&block[at::VERSION..at::END]);
        block[at::CRC..at::VERSION].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Decodes a header; `None` if none was ever written.
    fn decode(block: &[u8], store: &StoreId) -> Result<Option<ChunkHeader>, (usize, &'static str)> {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let four = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        let eight = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        if block[at::MAGIC..at::CRC] != MAGIC {
            return Err((at::MAGIC, "this is not the header of a chunk"));
        }
        if crc32c::crc32c(&block[at::VERSION..at::END]) != four(at::CRC) {
            return Err((at::CRC, "the checksum of a chunk's header does not match"));
        }
        if four(at::VERSION) != VERSION {
            return Err((at::VERSION, "the chunk was written by another version of Cedrat"));
        }
        if block[at::STORE..at::HEAP] != *store {
            return Err((at::STORE, "the chunk belongs to another store"));
        }
        Ok(Some(ChunkHeader {
            heap: four(at::HEAP),
            chunk: four(at::CHUNK),
            checkpoint: eight(at::CHECKPOINT),
            before: eight(at::BEFORE),
            after: eight(at::AFTER),
            data_crc: four(at::DATA_CRC),
        }))
    }
}

/// One of the two files of a heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkFile<'a> {
    pub(crate) media: &'a dyn Media,
    pub(crate) file: FileId,
    pub(crate) store: &'a StoreId,
    pub(crate) heap: u32,
    pub(crate) chunk_len: u64,
}

impl ChunkFile<'_> {
    /// Returns the length of a file of this many chunks.
    pub(crate) fn len(chunks: u64, chunk_len: u64) -> u64 {
        chunks * (chunk_len + BLOCK_LEN as u64)
    }

    fn place(&self, chunk: u32) -> u64 {
        ChunkFile::len(u64::from(chunk), self.chunk_len)
    }

    fn io(&self, doing: &str, error: std::io::Error) -> Error {
        Error::io(format!("{doing} {}", self.media.path(self.file)), error)
    }

    /// Writes a chunk's words; durable after the next sync.
    pub(crate) fn write_data(&self, chunk: u32, data: &[u8]) -> Result<()> {
        let offset = self.place(chunk) + BLOCK_LEN as u64;
        write_all_at(self.media, self.file, offset, data, Durability::Volatile)
            .map_err(|error| self.io("writing", error))
    }

    /// Writes a chunk's header; durable after the next sync. Its words are durable already.
    pub(crate) fn write_header(&self, header: &ChunkHeader) -> Result<()> {
        let block = header.encode(self.store);
        write_all_at(self.media, self.file, self.place(header.chunk), &block, Durability::Volatile)
            .map_err(|error| self.io("writing", error))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.media.sync(self.file).map_err(|error| self.io("syncing", error))
    }

    /// Returns whether the chunk was ever written.
    pub(crate) fn has(&self, chunk: u32) -> Result<bool> {
        let mut block = AlignedBuf::zeroed(BLOCK_LEN);
        if self.place(chunk) + BLOCK_LEN as u64 > self.file_len()? {
            return Ok(false);
        }
        read_exact_at(self.media, self.file, self.place(chunk), &mut block)
            .map_err(|error| self.io("reading", error))?;
        Ok(block.iter().any(|&byte| byte != 0))
    }

    /// Reads a chunk of the checkpoint with this number into `place`, which is a block longer than a chunk. Returns `None`
    /// if it was never written: it is all zero. The words follow the first block.
    pub(crate) fn read(&self, chunk: u32, checkpoint: u64, place: &mut [u8]) -> Result<Option<ChunkHeader>> {
        self.read_place(chunk, place)?;
        let (block, data) = place.split_at(BLOCK_LEN);
        let Some(header) = self.header_of(chunk, checkpoint, block)? else { return Ok(None) };
        if crc32c::crc32c(data) != header.data_crc {
            return Err(self.damaged(chunk, BLOCK_LEN, "the checksum of a chunk does not match"));
        }
        Ok(Some(header))
    }

    /// Reads the header of a chunk of the checkpoint with this number; `None` if the chunk was never written. `len`: that of the
    /// file, in which the chunk must lie.
    pub(crate) fn read_header(&self, chunk: u32, checkpoint: u64, len: u64) -> Result<Option<ChunkHeader>> {
        if self.place(chunk + 1) > len {
            return Err(self.damaged(chunk, 0, ENDS_EARLY));
        }
        let mut block = AlignedBuf::zeroed(BLOCK_LEN);
        self.read_place(chunk, &mut block)?;
        self.header_of(chunk, checkpoint, &block)
    }

    /// Returns the length of the file.
    pub(crate) fn file_len(&self) -> Result<u64> {
        self.media.len(self.file).map_err(|error| self.io("reading", error))
    }

    fn read_place(&self, chunk: u32, place: &mut [u8]) -> Result<()> {
        read_exact_at(self.media, self.file, self.place(chunk), place).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged(chunk, 0, ENDS_EARLY),
            _ => self.io("reading", error),
        })
    }

    fn header_of(&self, chunk: u32, checkpoint: u64, block: &[u8]) -> Result<Option<ChunkHeader>> {
        let header = ChunkHeader::decode(block, self.store).map_err(|(at, what)| self.damaged(chunk, at, what))?;
        let Some(header) = header else { return Ok(None) };
        if header.heap != self.heap || header.chunk != chunk || header.checkpoint > checkpoint {
            return Err(self.damaged(chunk, 0, ANOTHER_CHUNK));
        }
        Ok(Some(header))
    }

    /// Returns the error for damage that begins `at` bytes after the beginning of a chunk's place.
    pub(crate) fn damaged(&self, chunk: u32, at: usize, what: &str) -> Error {
        Error::damaged(self.media.path(self.file), self.place(chunk) + at as u64, what)
    }
}

const ENDS_EARLY: &str = "the file ends before this chunk of its heap";
pub(crate) const ANOTHER_CHUNK: &str = "another chunk was written to this place";

impl ChunkFile<'_> {
    /// Checks the bytes of a chunk, which was read to `place`, that its checksums do not cover. `header`: it was written.
    pub(crate) fn check_rest(&self, chunk: u32, header: Option<&ChunkHeader>, place: &[u8]) -> Result<()> {
        let expected = header.map_or_else(|| AlignedBuf::zeroed(BLOCK_LEN), |header| header.encode(self.store));
        let covered = if header.is_some() { BLOCK_LEN } else { place.len() };
        let is_bad = |&at: &usize| place[at] != expected.get(at).copied().unwrap_or(0);
        match (0..covered).find(is_bad) {
            None => Ok(()),
            Some(bad) => {
                let what = "a byte of a copied chunk that should be zero is not";
                Err(Error::damaged(self.media.path(self.file), self.place(chunk) + bad as u64, what))
            }
        }
    }
}

/// Returns a checksum of the checksums of all chunks, including those never written.
pub(crate) fn digest(chunks: &[Option<u32>]) -> u32 {
    chunks.iter().fold(0, |digest, chunk| {
        let (is_there, crc) = (u8::from(chunk.is_some()), chunk.unwrap_or(0));
        let digest = crc32c::crc32c_append(digest, &[is_there]);
        crc32c::crc32c_append(digest, &crc.to_le_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_media::{OpenMode, SimDisk};

    const STORE: StoreId = *b"a store in tests";

    #[test]
    fn chunk_is_read_whole_or_refused() {
        let disk = SimDisk::new();
        let file = disk.open("heaps/one.0", OpenMode::Create).unwrap();
        let chunks = ChunkFile { media: &disk, file, store: &STORE, heap: 3, chunk_len: 8192 };
        disk.allocate(file, 0, ChunkFile::len(4, 8192)).unwrap();
        let data = vec![7; 8192];
        let header =
            ChunkHeader { heap: 3, chunk: 2, checkpoint: 5, before: 10, after: 20, data_crc: crc32c::crc32c(&data) };
        chunks.write_data(2, &data).unwrap();
        chunks.write_header(&header).unwrap();
        let mut place = AlignedBuf::zeroed(BLOCK_LEN + 8192);
        assert_eq!(chunks.read(2, 5, &mut place).unwrap(), Some(header));
        assert_eq!(place[BLOCK_LEN..], data);
        assert_eq!(chunks.read(1, 5, &mut place).unwrap(), None);
        assert!(chunks.has(2).unwrap() && !chunks.has(1).unwrap() && !chunks.has(77).unwrap());
        assert!(chunks.read(2, 4, &mut place).is_err(), "a checkpoint that was not finished");
        assert!(chunks.read(9, 5, &mut place).is_err(), "the file is too short");
        assert!(ChunkFile { heap: 4, ..chunks }.read(2, 5, &mut place).is_err());
        let begin = chunks.place(2);
        for at in [0, 9, 13, 20, 33, 37, 41, 50, 60, 66, 5000] {
            disk.write_at(file, begin + at, &[0xee], Durability::Volatile).unwrap();
            let error = chunks.read(2, 5, &mut place).expect_err("damage is noticed");
            assert!(matches!(error, Error::Damaged { .. }), "byte {at}: {error}");
            chunks.write_data(2, &data).unwrap();
            chunks.write_header(&header).unwrap();
        }
    }

    #[test]
    fn the_digest_tells_which_chunks_there_are() {
        assert_ne!(digest(&[Some(0), None]), digest(&[None, Some(0)]));
        assert_ne!(digest(&[Some(1)]), digest(&[Some(2)]));
        assert_ne!(digest(&[Some(0)]), digest(&[None]));
    }
}
