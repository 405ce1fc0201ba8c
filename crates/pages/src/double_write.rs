//! The double-write area: a durable copy of pages while their homes are being overwritten.
//!
//! A device writes whole sectors, not whole pages. A page that was half written at a power failure has no version to
//! which the log could be applied. So every batch of pages is first written to this area, durably and in one write
//! (E11.5); after a crash a home that does not verify is restored from it. Drawn in `docs/formats/page.md`.
//!
//! The states that a crash may leave, and their treatment:
//!
//! | header | image | home | |
//! |---|---|---|---|
//! | torn, or never written | – | – | no home was begun since the last batch, whose homes are durable: nothing |
//! | whole | torn | whole | the area was not finished, no home was begun: nothing |
//! | whole | whole | whole, older | the home was not begun: nothing |
//! | whole | whole | the same | written home again: the process may have ended before its sync, or the sync failed (R6) |
//! | whole | whole | torn | written home again |
//! | whole | torn | torn | damage, not a crash: reported when the page is read |
//!
//! The header names the newest batch, so a valid image is the newest that was ever sent home. The homes of older
//! batches are durable (E11.5); so are those homes of this batch that the redo point has passed, and they are left
//! unchanged.

use cedrat_media::{AlignedBuf, Durability, FileId, Media, OpenMode, read_exact_at, write_all_at};
use cedrat_sync::{Arc, planted};
use cedrat_wal::Lsn;

use crate::error::PoolError;
use crate::file::{PageFile, open_or_create};
use crate::page::{PAGE_LEN, PageId, lsn_of, seal, stored_checksum_of, verify};

/// The name of the file of the area.
pub const DOUBLE_WRITE_FILE: &str = "double-write";

/// The version of the area's format that this code writes, and the newest that it reads.
const AREA_FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"CEDRATDW";

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const FORMAT: usize = MAGIC + 8;
    pub(super) const COUNT: usize = FORMAT + 4; //      images that follow
    pub(super) const BATCH: usize = COUNT + 4; //       rises by one a batch; for people
    pub(super) const CHECKSUM: usize = BATCH + 8; //    CRC-32C of the header with this field zero
    pub(super) const PROMISE: usize = CHECKSUM + 8; //  the log is durable up to this LSN
    pub(super) const ENTRIES: usize = PROMISE + 8;
}

/// Page number (8), checksum of its image (4), zero (4).
const ENTRY_LEN: usize = 16;

/// The maximum number of pages in a batch: as many as one header block can name.
pub(crate) const BATCH_PAGES_MAX: usize = (PAGE_LEN - at::ENTRIES) / ENTRY_LEN;
const _: () = assert!(BATCH_PAGES_MAX == 253 && at::ENTRIES == 40);

/// The number of pages in a batch for which a new area has space.
const BATCH_PAGES_FIRST: usize = 31;

/// Returns the length of an area with space for batches of so many pages.
const fn area_len(batch_pages: usize) -> u64 {
    (PAGE_LEN * (1 + batch_pages)) as u64
}

#[derive(Debug)]
pub(crate) struct DoubleWrite {
    media: Arc<dyn Media>,
    file: FileId,
    batch: u64,
    /// The length of the area, allocated and durable.
    len: u64,
    /// Header and images, as written to the file. Grows to the largest batch so far, so that a small store opens
    /// quickly.
    buffer: AlignedBuf,
}

impl DoubleWrite {
    pub(crate) fn open(media: &Arc<dyn Media>) -> Result<DoubleWrite, PoolError> {
        let failed = |error| PoolError::io(format!("preparing {DOUBLE_WRITE_FILE}"), error);
        let file = open_or_create(&**media, DOUBLE_WRITE_FILE)?;
        let (len, wanted) = (media.len(file).map_err(failed)?, area_len(BATCH_PAGES_FIRST));
        let from = if planted!("area_allocated_again") { 0 } else { len };
        if from < wanted {
            // Allocated before its first use: a full disk is detected now, and a batch changes nothing but bytes. Only what
            // is missing: a full file system may refuse the rest, though the file has it (A10a).
            media.allocate(file, from, wanted - from).map_err(failed)?;
        }
        if len < wanted || !planted!("area_not_settled") {
            // Also if it is long enough: the sync of an earlier process may have failed and forgotten that (R6).
            media.set_len(file, len.max(wanted)).and_then(|()| media.sync(file)).map_err(failed)?;
        }
        let (media, len) = (Arc::clone(media), len.max(wanted));
        Ok(DoubleWrite { media, file, batch: 0, len, buffer: AlignedBuf::zeroed(PAGE_LEN) })
    }

    /// Returns the number of pages for which the area has space in a batch.
    fn batch_pages(&self) -> usize {
        ((self.len / PAGE_LEN as u64) as usize - 1).min(BATCH_PAGES_MAX)
    }

    /// Allocates space for a batch of `pages` pages, at least twice the space before. Returns the number of pages that a batch
    /// may have: fewer on a full disk.
    ///
    /// # Errors
    /// The new length could not be made durable.
    pub(crate) fn grow(&mut self, pages: usize) -> std::io::Result<usize> {
        let wanted = pages.min(BATCH_PAGES_MAX);
        let before = self.batch_pages();
        if wanted > before {
            let len = area_len(wanted.max(2 * before).min(BATCH_PAGES_MAX));
            // A batch as large as before still has its space.
            if self.media.allocate(self.file, self.len, len - self.len).is_ok() {
                if !planted!("area_used_unsynced") {
                    self.media.sync(self.file)?;
                }
                self.len = len;
            }
        }
        Ok(self.batch_pages())
    }

    /// Returns the buffer for the image of the `index`-th page of the next batch.
    pub(crate) fn image(&mut self, index: usize) -> &mut [u8; PAGE_LEN] {
        assert!(index < BATCH_PAGES_MAX, "a batch has at most {BATCH_PAGES_MAX} pages");
        let start = PAGE_LEN * (1 + index);
        if self.buffer.len() < start + PAGE_LEN {
            self.buffer.resize(start + PAGE_LEN);
        }
        (&mut self.buffer[start..start + PAGE_LEN]).try_into().expect("the length of a page")
    }

    /// Seals the images of `pages` and makes them durable in the area. Afterwards their homes may be written.
    ///
    /// `promise`: the log is durable up to this LSN. The header records it because no other block promises the newest
    /// block of a log (E20.1): if that block were damaged later, the log would seem to end before these pages.
    pub(crate) fn write(&mut self, pages: &[PageId], promise: Lsn) -> std::io::Result<()> {
        // The file may contain any number.
        self.batch = self.batch.wrapping_add(1);
        let mut header = [0; PAGE_LEN];
        header[at::MAGIC..at::FORMAT].copy_from_slice(MAGIC);
        header[at::FORMAT..at::COUNT].copy_from_slice(&AREA_FORMAT.to_le_bytes());
        header[at::COUNT..at::BATCH].copy_from_slice(&(pages.len() as u32).to_le_bytes());
        header[at::BATCH..at::CHECKSUM].copy_from_slice(&self.batch.to_le_bytes());
        header[at::PROMISE..at::ENTRIES].copy_from_slice(&promise.get().to_le_bytes());
        for (index, &page) in pages.iter().enumerate() {
            let image = self.image(index);
            seal(image, page);
            verify(image, page).expect("E11.6: what was sealed verifies");
            let entry = &mut header[at::ENTRIES + index * ENTRY_LEN..][..ENTRY_LEN];
            entry[..8].copy_from_slice(&page.get().to_le_bytes());
            entry[8..12].copy_from_slice(&stored_checksum_of(image).to_le_bytes());
        }
        let checksum = crc32c::crc32c(&header);
        header[at::CHECKSUM..at::CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        self.buffer[..PAGE_LEN].copy_from_slice(&header);
        let bytes = &self.buffer[..PAGE_LEN * (1 + pages.len())];
        if planted!("home_without_area") {
            return Ok(());
        }
        write_all_at(&*self.media, self.file, 0, bytes, Durability::Durable)
    }

    /// Returns the sealed images of `count` pages from the `first` on, as written to the area.
    pub(crate) fn images(&self, first: usize, count: usize) -> &[u8] {
        &self.buffer[PAGE_LEN * (1 + first)..PAGE_LEN * (1 + first + count)]
    }

    /// Writes home again the pages that a crash tore there, and those not known to be durable there: pages with an
    /// LSN of `redo_lsn` or newer. Returns the torn pages. The writes are durable after a sync of `home`.
    pub(crate) fn restore(&mut self, home: &PageFile, redo_lsn: Lsn) -> Result<Vec<PageId>, PoolError> {
        let failed = |error| PoolError::io(format!("restoring pages from {DOUBLE_WRITE_FILE}"), error);
        read_exact_at(&*self.media, self.file, 0, &mut self.buffer[..PAGE_LEN]).map_err(failed)?;
        let Some(Header { batch, entries, .. }) = Header::read(&self.buffer, &self.media.path(self.file))? else {
            return Ok(Vec::new());
        };
        self.batch = batch;
        self.buffer.resize(PAGE_LEN * (1 + entries.len()));
        let images = &mut self.buffer[PAGE_LEN..];
        read_exact_at(&*self.media, self.file, PAGE_LEN as u64, images).map_err(failed)?;
        let mut restored = Vec::new();
        let mut at_home = AlignedBuf::zeroed(PAGE_LEN);
        for (index, (page, checksum)) in entries.into_iter().enumerate() {
            let image = self.images(index, 1);
            let image: &[u8; PAGE_LEN] = image.try_into().expect("the length of a page");
            if stored_checksum_of(image) != checksum || verify(image, page).is_err() {
                continue;
            }
            if home.check(page).is_err() {
                // The file was truncated since; an access to the page reports it.
                continue;
            }
            home.read(page, &mut at_home)?;
            let is_torn = home.verify(&at_home, page).is_err();
            if is_torn || (at_home[..] == image[..] && lsn_of(image) >= redo_lsn) {
                write_all_at(&*self.media, home.id(), page.file_offset(), image, Durability::Volatile)
                    .map_err(failed)?;
                restored.extend(is_torn.then_some(page));
            }
        }
        Ok(restored)
    }
}

/// Returns the LSN up to which the log was durable by the header of the area; refuses a header that this program does
/// not know.
pub(crate) fn promised(media: &dyn Media) -> Result<Lsn, PoolError> {
    Ok(Header::look(media)?.map_or(Lsn::ZERO, |header| header.promise))
}

/// Returns the pages of the newest batch in the double-write area, in the order of their images; none if its header is not valid.
///
/// # Errors
/// [`PoolError::Foreign`]: the area is of a newer version, or the file is another one. [`PoolError::Io`].
pub fn pages_in_double_write(media: &dyn Media) -> Result<Vec<PageId>, PoolError> {
    Ok(Header::look(media)?.map_or(Vec::new(), |header| header.entries.into_iter().map(|(page, _)| page).collect()))
}

/// Returns the offset of a whole copy of a page in the area, if the newest batch has one.
pub(crate) fn whole_copy(media: &dyn Media, page: PageId) -> Result<Option<u64>, PoolError> {
    let failed = |error| PoolError::io(format!("reading {DOUBLE_WRITE_FILE}"), error);
    let Some(header) = Header::look(media)? else { return Ok(None) };
    let Some(index) = header.entries.iter().rposition(|&(copied, _)| copied == page) else { return Ok(None) };
    let offset = (PAGE_LEN * (1 + index)) as u64;
    let file = media.open(DOUBLE_WRITE_FILE, OpenMode::Read).map_err(failed)?;
    let mut image = AlignedBuf::zeroed(PAGE_LEN);
    read_exact_at(media, file, offset, &mut image).map_err(failed)?;
    let image: &[u8; PAGE_LEN] = (&image[..]).try_into().expect("the length of a page");
    let is_whole = stored_checksum_of(image) == header.entries[index].1 && verify(image, page).is_ok();
    Ok(is_whole.then_some(offset))
}

/// The content of the area's header.
struct Header {
    batch: u64,
    promise: Lsn,
    /// Pages, and the checksums that their images carry.
    entries: Vec<(PageId, u32)>,
}

impl Header {
    /// Reads the header from the file, if there is one.
    fn look(media: &dyn Media) -> Result<Option<Header>, PoolError> {
        let failed = |error| PoolError::io(format!("reading {DOUBLE_WRITE_FILE}"), error);
        let file = match media.open(DOUBLE_WRITE_FILE, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        if media.len(file).map_err(failed)? < PAGE_LEN as u64 {
            return Ok(None);
        }
        let mut block = AlignedBuf::zeroed(PAGE_LEN);
        read_exact_at(media, file, 0, &mut block).map_err(failed)?;
        Header::read(&block, &media.path(file))
    }

    /// Reads the header; `None` if it is not valid.
    fn read(block: &[u8], file: &str) -> Result<Option<Header>, PoolError> {
        let mut header: [u8; PAGE_LEN] = block[..PAGE_LEN].try_into().expect("one block");
        let foreign = |offset: usize, what: &str| PoolError::Foreign {
            file: file.to_owned(),
            offset: offset as u64,
            what: what.to_owned(),
        };
        // A torn header has its old or its new first sector: either has a magic number, except before the first
        // batch.
        let magic = &header[at::MAGIC..at::FORMAT];
        if magic == [0; 8] {
            return Ok(None);
        }
        if magic != MAGIC {
            return Err(foreign(at::MAGIC, "this is not a double-write area; was the file replaced?"));
        }
        let stored = number(&header, at::CHECKSUM) as u32;
        header[at::CHECKSUM..at::CHECKSUM + 4].fill(0);
        if crc32c::crc32c(&header) != stored {
            return Ok(None);
        }
        if number(&header, at::FORMAT) as u32 > AREA_FORMAT {
            return Err(foreign(at::FORMAT, "the area was written by a newer version of Cedrat; use that version"));
        }
        let count = (number(&header, at::FORMAT) >> 32) as usize;
        if count > BATCH_PAGES_MAX {
            return Err(foreign(at::COUNT, "the area names more pages than it can hold"));
        }
        let entry = |index| {
            let start = at::ENTRIES + index * ENTRY_LEN;
            (PageId::new(number(&header, start)), number(&header, start + 8) as u32)
        };
        Ok(Some(Header {
            batch: number(&header, at::BATCH),
            promise: Lsn::new(number(&header, at::PROMISE)),
            entries: (0..count).map(entry).collect(),
        }))
    }
}

fn number(header: &[u8; PAGE_LEN], at: usize) -> u64 {
    u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use cedrat_media::{Fault, Loss, SimDisk};

    use super::*;

    /// The header has a valid checksum, and the largest number.
    #[test]
    fn any_batch_number_has_a_next() {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let mut area = DoubleWrite::open(&media).unwrap();
        area.batch = u64::MAX;
        area.write(&[PageId::new(7)], Lsn::new(1)).unwrap();
        let mut block = AlignedBuf::zeroed(PAGE_LEN);
        read_exact_at(&*media, area.file, 0, &mut block).unwrap();
        let header = Header::read(&block, DOUBLE_WRITE_FILE).unwrap().expect("a valid header");
        assert_eq!((header.batch, header.entries.len()), (0, 1));
    }

    /// R6: a process that is killed has allocated the area, and its sync has failed; the next one uses it, and the power fails.
    #[test]
    fn area_found_is_durable_afterwards() {
        let disk = SimDisk::new();
        let open = |disk: &SimDisk| DoubleWrite::open(&(Arc::new(disk.clone()) as Arc<dyn Media>));
        disk.inject(Fault::forgetful_sync().of(DOUBLE_WRITE_FILE));
        assert!(open(&disk).is_err(), "its sync fails");
        open(&disk).expect("the disk works again");
        let after = disk.cut_power(Loss::Everything);
        let file = after.open(DOUBLE_WRITE_FILE, OpenMode::Read).expect("it is there");
        assert!(after.len(file).expect("the disk works") >= area_len(BATCH_PAGES_FIRST), "R6");
    }

    /// The area has space for small batches first; the first large batch finds its space allocated and durable.
    #[test]
    fn area_grows_to_largest_batch() {
        let disk = SimDisk::new();
        let mut area = DoubleWrite::open(&(Arc::new(disk.clone()) as Arc<dyn Media>)).expect("the disk works");
        for (pages, space) in [(1, 31), (31, 31), (32, 62), (200, 200), (253, 253), (1000, 253), (1, 253)] {
            assert_eq!(area.grow(pages).expect("the disk works"), space);
            let journal = disk.journal();
            let after = journal.crash(journal.len(), Loss::Everything);
            let file = after.open(DOUBLE_WRITE_FILE, OpenMode::Read).expect("it is there");
            assert_eq!(after.len(file).expect("the disk works"), area_len(space), "E11.5: {pages}");
        }
    }

    #[test]
    fn full_disk_keeps_batches_small() {
        let disk = SimDisk::new();
        let mut area = DoubleWrite::open(&(Arc::new(disk.clone()) as Arc<dyn Media>)).expect("the disk works");
        disk.set_capacity(Some(disk.space()));
        assert_eq!(area.grow(253).expect("it is not needed"), 31);
        disk.set_capacity(None);
        assert_eq!(area.grow(253).expect("there is space again"), 253);
    }

    /// The drawing and the constants agree.
    #[test]
    fn the_header_is_as_drawn() {
        let expected = [
            (at::MAGIC, 8),
            (at::FORMAT, 4),
            (at::COUNT, 4),
            (at::BATCH, 8),
            (at::CHECKSUM, 4),
            (at::CHECKSUM + 4, 4),
            (at::PROMISE, 8),
            (at::ENTRIES, 8),
            (at::ENTRIES + 8, 4),
            (at::ENTRIES + 12, 4),
        ];
        assert_eq!(crate::page::tests::drawn("## The double-write area"), expected);
    }
}
