//! Crashes behind each record of the log.
//!
//! There is no I/O between two small records: one block contains many of them. But the position where a block ends is random,
//! and a crash may leave the log after any record that a committer has forced. So the block that a call writes is cut at each
//! of its records, which gives the images of all crashes inside of transactions, of nested actions and of rollbacks.

use cedrat_media::{Cursor, Durability, Image, Loss, Media, OpenMode, SECTOR_LEN, SimDisk, write_all_at};
use cedrat_sync::Arc;
use cedrat_wal::CutBlock;

/// The directory of the log's segment files.
const LOG: &str = "log/";

/// The write of a log block, which the disk is about to begin.
pub(crate) struct LogWrite {
    /// The disk before it.
    before: Image,
    file: Arc<str>,
    offset: u64,
    block: CutBlock,
}

impl LogWrite {
    /// Returns the write before which `cursor` stands; `None` if the next call is another one.
    pub(crate) fn next(cursor: &Cursor) -> Option<LogWrite> {
        let (file, offset, bytes) = cursor.next_write().filter(|(name, ..)| name.starts_with(LOG))?;
        let before = cursor.image(Loss::Nothing);
        let mut there = vec![0; bytes.len()];
        before.read(&file, offset, &mut there);
        if there[..] == bytes[..] {
            return None; // An opening rewrites durably what it has found: no crash makes that shorter.
        }
        let mut head = [0; SECTOR_LEN];
        before.read(&file, 0, &mut head);
        let block = CutBlock::read(&head, bytes)?;
        Some(LogWrite { before, file, offset, block })
    }

    /// Returns the number of records that it writes.
    pub(crate) fn records(&self) -> usize {
        self.block.records()
    }

    /// Returns the disk after a crash that leaves the first `records` records of the block; `None` if it has fewer.
    pub(crate) fn image(&self, records: usize) -> Option<Image> {
        if !(1..=self.records()).contains(&records) {
            return None;
        }
        let disk = SimDisk::from_image(self.before.clone());
        let file = disk.open(&self.file, OpenMode::ReadWrite).ok()?;
        write_all_at(&disk, file, self.offset, &self.block.first(records), Durability::Durable).ok()?;
        Some(disk.image())
    }
}
