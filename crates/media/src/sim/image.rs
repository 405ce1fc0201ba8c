//! Images of a medium: files of blocks that are shared until one of them changes.
//!
//! A clone costs a pointer for every [`CHUNK_BLOCKS`] blocks, a change copies one chunk of pointers and one block,
//! and the hash is updated with each change. So a hundred thousand images of a store cost only their differences.

use crate::{BLOCK_LEN, SECTOR_LEN};
use cedrat_sync::Arc;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const BLOCK: u64 = BLOCK_LEN as u64;
const SECTOR: u64 = SECTOR_LEN as u64;

/// The number of blocks behind one pointer: the bits of a word.
const CHUNK_BLOCKS: usize = 64;

static ZEROS: [u8; BLOCK_LEN] = [0; BLOCK_LEN];

/// A medium's files at one moment: names and bytes. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Image {
    pub(super) files: BTreeMap<Arc<str>, Contents>,
}

impl Image {
    /// Returns a hash that is equal for equal names and bytes, and otherwise differs except with a probability of
    /// 2⁻⁶⁴.
    pub fn hash(&self) -> u64 {
        self.files.iter().fold(0, |sum, (name, contents)| {
            let mut words = [0; 24];
            words[..8].copy_from_slice(&xxh3_64(name.as_bytes()).to_le_bytes());
            words[8..16].copy_from_slice(&contents.len.to_le_bytes());
            words[16..].copy_from_slice(&contents.sum.to_le_bytes());
            sum.wrapping_add(xxh3_64(&words))
        })
    }

    /// Returns the names of all files, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(|name| &**name)
    }

    /// Reads bytes of a file into `buffer`, as many as the file has there, and returns their number. A missing file
    /// has none.
    pub fn read(&self, name: &str, offset: u64, buffer: &mut [u8]) -> usize {
        self.files.get(name).map_or(0, |contents| contents.read(offset, buffer))
    }

    /// Returns the bytes of a file.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        let contents = self.files.get(name)?;
        let mut bytes = vec![0; usize::try_from(contents.len).expect("a simulated file fits into memory")];
        contents.read(0, &mut bytes);
        Some(bytes)
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.files.iter().map(|(name, contents)| (name, contents.len))).finish()
    }
}

/// The bytes of one file. A block of zeros is not stored.
#[derive(Clone, Default)]
pub(super) struct Contents {
    len: u64,
    chunks: Vec<Option<Arc<Chunk>>>,
    /// The wrapping sum of the hashes of all blocks.
    sum: u64,
    /// The number of blocks that take space: written or reserved.
    taken: u64,
}

#[derive(Clone)]
struct Chunk {
    blocks: [Option<Block>; CHUNK_BLOCKS],
    /// A bit for each block that takes space.
    taken: u64,
}

#[derive(Clone)]
struct Block {
    /// The hash of the bytes and the block's number in the file.
    hash: u64,
    bytes: Arc<[u8]>,
}

impl Chunk {
    const EMPTY: Chunk = Chunk { blocks: [const { None }; CHUNK_BLOCKS], taken: 0 };
}

impl Contents {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the space taken, in bytes of whole blocks.
    pub(super) fn space(&self) -> u64 {
        self.taken * BLOCK
    }

    /// Returns the additional space that writing these bytes would take.
    pub(super) fn space_wanted(&self, offset: u64, len: u64) -> u64 {
        blocks(offset, len).filter(|&block| !self.is_taken(block)).count() as u64 * BLOCK
    }

    /// Reads up to the end of the file and returns the number of bytes.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let total = self.len.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < total {
            let (block, within) = place(offset + done as u64);
            let part = (BLOCK_LEN - within).min(total - done);
            let bytes = self.block(block).map_or(&ZEROS[..], |block| &block.bytes);
            buffer[done..done + part].copy_from_slice(&bytes[within..within + part]);
            done += part;
        }
        total
    }

    /// Writes bytes and grows the file as necessary.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.write_sectors(offset, bytes, |_| true);
    }

    /// Writes those of the bytes whose sector `keeps` accepts; the file grows to hold these. Sectors count from the
    /// one that contains `offset`.
    pub(super) fn write_sectors(&mut self, offset: u64, bytes: &[u8], keeps: impl Fn(u64) -> bool) {
        let first_sector = offset / SECTOR;
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (block, within) = place(at);
            let part = &bytes[done..bytes.len().min(done + BLOCK_LEN - within)];
            let wanted = |sector| keeps(at / SECTOR + sector - first_sector);
            if let Some(end) = self.write_block(block, within, part, wanted) {
                self.len = self.len.max(block * BLOCK + end as u64);
            }
            done += part.len();
        }
    }

    /// Zeroes those of these bytes whose sector `keeps` accepts, as `write_sectors` does, but frees the space of
    /// whole blocks and leaves the length unchanged.
    pub(super) fn zero_sectors(&mut self, offset: u64, len: u64, keeps: impl Fn(u64) -> bool) {
        let first_sector = offset / SECTOR;
        let end = offset.saturating_add(len).min(self.len);
        let mut at = offset;
        while at < end {
            let (block, within) = place(at);
            let part = ((BLOCK_LEN - within) as u64).min(end - at) as usize;
            let wanted = |sector| keeps(at / SECTOR + sector - first_sector);
            let sectors = (within % SECTOR_LEN + part).div_ceil(SECTOR_LEN) as u64;
            if within == 0 && (part == BLOCK_LEN || at + part as u64 == self.len) && (0..sectors).all(wanted) {
                self.put(block, None);
                self.release(block);
            } else if self.block(block).is_some() {
                self.write_block(block, within, &ZEROS[..part], wanted);
            }
            at += part as u64;
        }
    }

    /// Allocates space for these bytes and grows the file to hold them.
    pub(super) fn reserve(&mut self, offset: u64, len: u64) {
        for block in blocks(offset, len) {
            self.take(block);
        }
        self.len = self.len.max(offset + len);
    }

    /// Truncates the file, or grows it without allocating space.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero_sectors(len, self.len - len, |_| true);
            self.chunks.truncate(len.div_ceil(BLOCK).div_ceil(CHUNK_BLOCKS as u64) as usize);
        }
        self.len = len;
    }

    /// Writes into one block; returns the end of the last kept byte in the block.
    fn write_block(&mut self, block: u64, within: usize, part: &[u8], wanted: impl Fn(u64) -> bool) -> Option<usize> {
        // The runs of bytes that lie in one sector each, and are kept.
        let mut starts = within;
        let kept = (0..).map_while(|sector| {
            let start = starts;
            starts = (start + 1).next_multiple_of(SECTOR_LEN).min(within + part.len());
            (start < starts).then(|| (start..starts, wanted(sector)))
        });
        let kept: Vec<Range<usize>> = kept.filter_map(|(run, kept)| kept.then_some(run)).collect();
        let end = kept.last()?.end;

        let whole = kept.iter().map(Range::len).sum::<usize>() == BLOCK_LEN;
        let bytes = if whole {
            Arc::from(part)
        } else {
            let mut bytes = self.take_bytes(block).unwrap_or_else(|| Arc::from(&ZEROS[..]));
            let changed = Arc::make_mut(&mut bytes);
            for run in kept {
                changed[run.clone()].copy_from_slice(&part[run.start - within..run.end - within]);
            }
            bytes
        };
        self.put(block, Some(bytes));
        Some(end)
    }

    fn block(&self, block: u64) -> Option<&Block> {
        let (chunk, within) = chunk_place(block);
        self.chunks.get(chunk)?.as_ref()?.blocks[within].as_ref()
    }

    fn is_taken(&self, block: u64) -> bool {
        let (chunk, within) = chunk_place(block);
        self.chunks.get(chunk).and_then(|chunk| chunk.as_ref()).is_some_and(|chunk| chunk.taken >> within & 1 == 1)
    }

    /// Takes the bytes out of a block that is about to be replaced, so that they can change in place.
    fn take_bytes(&mut self, block: u64) -> Option<Arc<[u8]>> {
        self.block(block)?;
        let (chunk, within) = chunk_place(block);
        let old = self.chunk_mut(chunk).blocks[within].take()?;
        self.sum = self.sum.wrapping_sub(old.hash);
        Some(old.bytes)
    }

    /// Puts new bytes into a block and allocates its space; `None` stands for zeros and allocates none.
    fn put(&mut self, block: u64, bytes: Option<Arc<[u8]>>) {
        if bytes.is_some() {
            self.take(block);
        }
        let new = bytes.filter(|bytes| **bytes != ZEROS).map(|bytes| {
            let hash = xxh3_64_with_seed(&bytes, block);
            Block { hash, bytes }
        });
        self.sum = self.sum.wrapping_sub(self.block(block).map_or(0, |block| block.hash));
        self.sum = self.sum.wrapping_add(new.as_ref().map_or(0, |block| block.hash));
        if new.is_some() || self.block(block).is_some() {
            let (chunk, within) = chunk_place(block);
            self.chunk_mut(chunk).blocks[within] = new;
        }
    }

    fn take(&mut self, block: u64) {
        if !self.is_taken(block) {
            let (chunk, within) = chunk_place(block);
            self.chunk_mut(chunk).taken |= 1 << within;
            self.taken += 1;
        }
    }

    fn release(&mut self, block: u64) {
        if self.is_taken(block) {
            let (chunk, within) = chunk_place(block);
            self.chunk_mut(chunk).taken &= !(1 << within);
            self.taken -= 1;
        }
    }

    fn chunk_mut(&mut self, chunk: usize) -> &mut Chunk {
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        Arc::make_mut(self.chunks[chunk].get_or_insert_with(|| Arc::new(Chunk::EMPTY)))
    }
}

/// Returns the space of the blocks that hold these bytes.
pub(super) fn space_of(offset: u64, len: u64) -> u64 {
    let blocks = blocks(offset, len);
    (blocks.end - blocks.start) * BLOCK
}

/// Returns the blocks that these bytes touch.
fn blocks(offset: u64, len: u64) -> Range<u64> {
    offset / BLOCK..offset.saturating_add(len).div_ceil(BLOCK)
}

/// Returns the block of an offset, and the offset in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / BLOCK, (offset % BLOCK) as usize)
}

/// Returns the chunk of a block, and the index in it.
fn chunk_place(block: u64) -> (usize, usize) {
    (usize::try_from(block).expect("a simulated file fits into memory") / CHUNK_BLOCKS, block as usize % CHUNK_BLOCKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(contents: Contents) -> Image {
        Image { files: BTreeMap::from([("file".into(), contents)]) }
    }

    #[test]
    fn the_hash_depends_on_bytes_only() {
        let mut once = Contents::default();
        once.write(100, &[1; 10_000]);
        let mut twice = Contents::default();
        twice.write(0, &[9; 20_000]);
        assert_ne!(image(once.clone()).hash(), image(twice.clone()).hash());
        twice.set_len(0);
        twice.write(100, &[1; 6_000]);
        twice.write(6_000, &[1; 4_100]);
        assert_eq!(image(once.clone()).hash(), image(twice.clone()).hash());
        twice.set_len(10_101);
        assert_ne!(image(once).hash(), image(twice.clone()).hash(), "the length counts");
        twice.set_len(0);
        assert_eq!(twice.sum, 0);
    }

    #[test]
    fn a_block_elsewhere_is_another_image() {
        let (mut here, mut there) = (Contents::default(), Contents::default());
        here.set_len(3 * BLOCK);
        there.set_len(3 * BLOCK);
        here.write(0, &[5; 10]);
        there.write(BLOCK, &[5; 10]);
        assert_ne!(image(here).hash(), image(there).hash());
    }

    #[test]
    fn a_clone_does_not_follow() {
        let mut contents = Contents::default();
        contents.write(0, &[1; 3 * BLOCK_LEN]);
        let before = contents.clone();
        contents.write(BLOCK, &[2; 1]);
        let mut byte = [0];
        before.read(BLOCK, &mut byte);
        assert_eq!(byte, [1]);
    }

    #[test]
    fn unwanted_sectors_are_left_alone() {
        let mut contents = Contents::default();
        contents.write(0, &[1; BLOCK_LEN]);
        contents.write_sectors(700, &[2; 1000], |sector| sector == 1);
        let mut bytes = [0; BLOCK_LEN];
        contents.read(0, &mut bytes);
        for (at, byte) in bytes.into_iter().enumerate() {
            assert_eq!(byte, if (1024..1536).contains(&at) { 2 } else { 1 }, "byte {at}");
        }
    }

    #[test]
    fn space_is_counted_in_blocks() {
        let mut contents = Contents::default();
        contents.reserve(0, 3 * BLOCK);
        contents.write(10, &[0; 10]);
        assert_eq!(contents.space(), 3 * BLOCK);
        assert_eq!(contents.space_wanted(2 * BLOCK, 2 * BLOCK), BLOCK);
        contents.zero_sectors(10, 2 * BLOCK, |_| true);
        assert_eq!(contents.space(), 2 * BLOCK, "only whole blocks are given back");
        contents.set_len(BLOCK + 1);
        assert_eq!(contents.space(), BLOCK);
        contents.set_len(0);
        assert_eq!(contents.space(), 0);
    }
}
