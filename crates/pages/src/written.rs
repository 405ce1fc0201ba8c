//! The file `written`: the set of pages that have been written home (E22). Drawn in `docs/formats/page.md`.
//!
//! A page that was never written reads as zeros. So does a page whose write was lost, and a small page of which one
//! sector was zeroed. One bit for each page distinguishes the two. A bit is set in memory when the page is durable at
//! home, and in the file before a checkpoint moves the redo point; until then the log has all records of the page. It
//! is cleared in the file before the space of the page is punched.
//!
//! A sector of the file is a unit, with its number and a checksum: a device writes it completely or not at all, so a
//! crash leaves old sectors and new ones, and each of them is valid.

use std::collections::BTreeSet;
use std::io;

use cedrat_media::{
    AlignedBuf, BLOCK_LEN, Durability, FileId, Media, OpenMode, SECTOR_LEN, read_exact_at, write_all_at,
};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::Log;

use crate::error::PoolError;
use crate::file::open_or_create;
use crate::page::PageId;

/// The name of the file.
pub const WRITTEN_FILE: &str = "written";

/// The version of the file's format that this code writes, and the newest that it reads.
const WRITTEN_FORMAT: u16 = 1;

/// Offsets in a sector.
mod at {
    pub(super) const CHECKSUM: usize = 0; //             CRC-32C of the rest of the sector
    pub(super) const FORMAT: usize = CHECKSUM + 4; //    version of these bytes
    pub(super) const SECTOR: usize = FORMAT + 4; //      the sector's own number
    pub(super) const BITS: usize = SECTOR + 8; //        one bit a page, lowest first
}

/// The number of bytes of bits in a sector.
const BITS_LEN: usize = SECTOR_LEN - at::BITS;
const SECTORS: usize = BLOCK_LEN / SECTOR_LEN;
const BLOCK_BITS_LEN: usize = BITS_LEN * SECTORS;

/// The number of pages that one block of the file covers: 124 MiB.
const BLOCK_PAGES: u64 = BLOCK_BITS_LEN as u64 * 8;
const _: () = assert!(BITS_LEN == 496 && BLOCK_PAGES == 31_744);

/// The set of pages that have been written home.
#[derive(Debug)]
pub(crate) struct WrittenPages {
    media: Arc<dyn Media>,
    file: FileId,
    bits: Mutex<Bits>,
    /// Held over writes and syncs of the file: one at a time.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Bits {
    /// One bit per page, for whole blocks of the file.
    bytes: Vec<u8>,
    /// Blocks that differ from the file, or may.
    changed: BTreeSet<usize>,
}

impl Bits {
    fn of(bytes: Vec<u8>) -> Bits {
        let blocks = if planted!("read_notes_not_kept") { 0 } else { bytes.len() / BLOCK_BITS_LEN };
        let changed = (0..blocks).collect();
        Bits { bytes, changed }
    }

    fn set(&mut self, page: PageId, is_written: bool) {
        let (byte, bit) = place_of(page);
        let before = self.bytes[byte];
        self.bytes[byte] = if is_written { before | bit } else { before & !bit };
        if self.bytes[byte] != before || planted!("known_page_noted_again") {
            self.changed.insert(byte / BLOCK_BITS_LEN);
        }
    }

    /// Returns the block as it is written to the file.
    fn block(&self, number: usize) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(BLOCK_LEN);
        let bits = self.bytes[number * BLOCK_BITS_LEN..][..BLOCK_BITS_LEN].chunks_exact(BITS_LEN);
        for (index, (sector, bits)) in block.chunks_exact_mut(SECTOR_LEN).zip(bits).enumerate() {
            sector[at::FORMAT..at::FORMAT + 2].copy_from_slice(&WRITTEN_FORMAT.to_le_bytes());
            let number = (number * SECTORS + index) as u64;
            sector[at::SECTOR..at::BITS].copy_from_slice(&number.to_le_bytes());
            sector[at::BITS..].copy_from_slice(bits);
            let checksum = crc32c::crc32c(&sector[at::FORMAT..]);
            sector[at::CHECKSUM..at::FORMAT].copy_from_slice(&checksum.to_le_bytes());
        }
        block
    }
}

impl WrittenPages {
    /// Opens the file, or creates it for a store without one: in a store that an older version has written, a page
    /// counts as written from its next write on.
    ///
    /// The next change writes all of it again: the bytes that the previous process left may not be durable (R6).
    pub(crate) fn open(media: &Arc<dyn Media>, pages_max: u64) -> Result<WrittenPages, PoolError> {
        let file = open_or_create(&**media, WRITTEN_FILE)?;
        let bits = Mutex::new(Bits::of(read(&**media, file, pages_max)?));
        Ok(WrittenPages { media: Arc::clone(media), file, bits, writing: Mutex::new(()) })
    }

    /// Creates the file of a store of so many pages, durably, with these noted as written.
    pub(crate) fn create(media: &Arc<dyn Media>, pages: u64, noted: &[PageId]) -> Result<(), PoolError> {
        let failed = |error| PoolError::io(format!("creating {WRITTEN_FILE}"), error);
        let file = media.open(WRITTEN_FILE, OpenMode::Create).map_err(failed)?;
        let blocks = pages.div_ceil(BLOCK_PAGES) as usize;
        let mut bits = Bits { bytes: vec![0; blocks * BLOCK_BITS_LEN], changed: BTreeSet::new() };
        noted.iter().for_each(|&page| bits.set(page, true));
        for number in 0..blocks {
            let offset = (number * BLOCK_LEN) as u64;
            write_all_at(&**media, file, offset, &bits.block(number), Durability::Volatile).map_err(failed)?;
        }
        media.sync(file).map_err(failed)
    }

    /// Whether the page has been written home and its space was not punched since.
    pub(crate) fn has(&self, page: PageId) -> bool {
        let (byte, bit) = place_of(page);
        self.bits.lock().bytes.get(byte).is_some_and(|byte| byte & bit != 0)
    }

    /// Allocates space in the file for `pages` pages, durably.
    pub(crate) fn ensure(&self, pages: u64, log: &Log) -> io::Result<()> {
        let blocks = pages.div_ceil(BLOCK_PAGES) as usize;
        let _one_at_a_time = self.writing.lock();
        let now = self.bits.lock().bytes.len() / BLOCK_BITS_LEN;
        if blocks <= now {
            return Ok(());
        }
        let (offset, len) = ((now * BLOCK_LEN) as u64, ((blocks - now) * BLOCK_LEN) as u64);
        self.media.allocate(self.file, offset, len)?;
        self.sync(log)?;
        self.bits.lock().bytes.resize(blocks * BLOCK_BITS_LEN, 0);
        Ok(())
    }

    /// Notes in memory that pages are durable at home (E22.1).
    pub(crate) fn add(&self, pages: &[PageId]) {
        let mut bits = self.bits.lock();
        pages.iter().for_each(|&page| bits.set(page, true));
    }

    /// Notes in memory that the space of pages will be punched.
    pub(crate) fn remove(&self, pages: impl Iterator<Item = PageId>) {
        let mut bits = self.bits.lock();
        pages.for_each(|page| bits.set(page, false));
    }

    /// Makes all notes since the last call durable: the blocks that changed, and one sync if there are any.
    ///
    /// If that fails, the log stops (W6).
    pub(crate) fn write(&self, log: &Log) -> Result<(), PoolError> {
        let _one_at_a_time = self.writing.lock();
        if let Some(stopped) = log.stopped() {
            // Earlier notes may be missing in the file, without being known as changed any more.
            return Err(stopped.into());
        }
        let changed: Vec<(usize, AlignedBuf)> = {
            let mut bits = self.bits.lock();
            let changed = std::mem::take(&mut bits.changed);
            changed.into_iter().map(|number| (number, bits.block(number))).collect()
        };
        if changed.is_empty() || planted!("written_pages_not_kept") {
            return Ok(());
        }
        // From here on the notes are known only to this thread.
        let unfinished = StopOnPanic(log);
        let written = self.write_blocks(log, changed);
        std::mem::forget(unfinished);
        written
    }

    fn write_blocks(&self, log: &Log, blocks: Vec<(usize, AlignedBuf)>) -> Result<(), PoolError> {
        for (number, block) in blocks {
            let offset = (number * BLOCK_LEN) as u64;
            let written = write_all_at(&*self.media, self.file, offset, &block, Durability::Volatile);
            written.map_err(|error| self.failed("writing", self.stop(log, "writing", error)))?;
        }
        self.sync(log).map_err(|error| self.failed("syncing", error))
    }

    /// Called under `writing`: after a sync that fails the next reports success (A9), so it must find the log
    /// stopped.
    fn sync(&self, log: &Log) -> io::Result<()> {
        if let Some(stopped) = log.stopped() {
            return Err(io::Error::other(stopped));
        }
        self.media.sync(self.file).map_err(|error| self.stop(log, "syncing", error))
    }

    fn stop(&self, log: &Log, doing: &str, error: io::Error) -> io::Error {
        log.stop(format!("{doing} {} failed: {error}", self.path()));
        error
    }

    fn failed(&self, doing: &str, error: io::Error) -> PoolError {
        PoolError::io(format!("{doing} {}", self.path()), error)
    }

    fn path(&self) -> String {
        self.media.path(self.file)
    }
}

/// Stops the log when dropped, which happens only when a panic of the medium ends the write of notes: the next checkpoint would
/// take them for written (E22.1).
struct StopOnPanic<'a>(&'a Log);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if !planted!("half_written_notes_forgotten") {
            self.0.stop("the write of the file of written pages panicked half-way; open the store again");
        }
    }
}

/// Refuses a file that [`WrittenPages::open`] would refuse.
pub(crate) fn look(media: &dyn Media, pages_max: u64) -> Result<(), PoolError> {
    match media.open(WRITTEN_FILE, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        file => {
            let file = file.map_err(|error| PoolError::io(format!("opening {WRITTEN_FILE}"), error))?;
            read(media, file, pages_max).map(drop)
        }
    }
}

/// The bits of a file that is only read.
#[derive(Debug)]
pub(crate) struct WrittenBits(Vec<u8>);

impl WrittenBits {
    /// Reads the file; `None` if there is none.
    pub(crate) fn look(media: &dyn Media) -> Result<Option<WrittenBits>, PoolError> {
        match media.open(WRITTEN_FILE, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PoolError::io(format!("opening {WRITTEN_FILE}"), error)),
            Ok(file) => Ok(Some(WrittenBits(read(media, file, u64::MAX)?))),
        }
    }

    /// Whether the page is noted as written.
    pub(crate) fn has(&self, page: PageId) -> bool {
        let (byte, bit) = place_of(page);
        self.0.get(byte).is_some_and(|byte| byte & bit != 0)
    }

    /// Returns the pages from `first` on that are noted as written.
    pub(crate) fn from(&self, first: u64) -> impl Iterator<Item = PageId> {
        (first..self.0.len() as u64 * 8).map(PageId::new).filter(|&page| self.has(page))
    }
}

/// Returns the byte with the bit of a page, and the bit in it.
fn place_of(page: PageId) -> (usize, u8) {
    ((page.get() / 8) as usize, 1 << (page.get() % 8))
}

/// Returns the bits in the whole blocks of the file, for at most `pages_max` pages: no page is beyond, however long the file
/// has become. A block that a crash truncated was not in use yet.
fn read(media: &dyn Media, file: FileId, pages_max: u64) -> Result<Vec<u8>, PoolError> {
    let failed = |error| PoolError::io(format!("reading {WRITTEN_FILE}"), error);
    let blocks = media.len(file).map_err(failed)? / BLOCK_LEN as u64;
    let blocks = blocks.min(pages_max.div_ceil(BLOCK_PAGES));
    let mut bits = Vec::with_capacity(blocks as usize * BLOCK_BITS_LEN);
    let mut block = AlignedBuf::zeroed(BLOCK_LEN);
    for number in 0..blocks {
        read_exact_at(media, file, number * BLOCK_LEN as u64, &mut block).map_err(failed)?;
        for (index, sector) in block.chunks_exact(SECTOR_LEN).enumerate() {
            let number = number * SECTORS as u64 + index as u64;
            bits.extend_from_slice(bits_of(sector, number).map_err(|(byte, what)| PoolError::Foreign {
                file: media.path(file),
                offset: number * SECTOR_LEN as u64 + byte as u64,
                what: what.to_owned(),
            })?);
        }
    }
    Ok(bits)
}

/// Returns the bits of a sector; or the invalid byte, and the reason.
fn bits_of(sector: &[u8], number: u64) -> Result<&[u8], (usize, &'static str)> {
    let bits = &sector[at::BITS..];
    if sector.iter().all(|&byte| byte == 0) {
        return Ok(bits);
    }
    let word = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes"));
    if word(at::CHECKSUM) != crc32c::crc32c(&sector[at::FORMAT..]) {
        return Err((
            at::CHECKSUM,
            "the checksum does not match; restore the file from a copy, or remove it: lost writes of pages that were \
             written before then go unnoticed",
        ));
    }
    if word(at::FORMAT) as u16 > WRITTEN_FORMAT {
        return Err((at::FORMAT, "the file was written by a newer version of Cedrat; use that version"));
    }
    if sector[at::SECTOR..at::BITS] != number.to_le_bytes() {
        return Err((at::SECTOR, "another sector was written to this place; restore the file from a copy"));
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The drawing and the constants agree.
    #[test]
    fn sector_is_as_drawn() {
        let expected = [(at::CHECKSUM, 4), (at::FORMAT, 2), (at::FORMAT + 2, 2), (at::SECTOR, 8), (at::BITS, BITS_LEN)];
        assert_eq!(crate::page::tests::drawn("## The file `written`"), expected);
    }

    #[test]
    fn damaged_sector_names_its_byte() {
        let mut bits = Bits::of(vec![0; 2 * BLOCK_BITS_LEN]);
        let page = PageId::new(BLOCK_PAGES + 5);
        bits.set(page, true);
        let block = bits.block(1);
        let first = &block[..SECTOR_LEN];
        assert_eq!(bits_of(first, 8).unwrap()[0], 1 << 5);
        assert_eq!(bits_of(first, 0).unwrap_err().0, at::SECTOR);
        for byte in 0..SECTOR_LEN {
            let mut flipped = first.to_vec();
            flipped[byte] ^= 4;
            assert_eq!(bits_of(&flipped, 8).unwrap_err().0, at::CHECKSUM, "byte {byte}");
        }
        assert!(bits_of(&[0; SECTOR_LEN], 8).unwrap().iter().all(|&byte| byte == 0));
    }
}
