//! A block as it would be on disk if it had been sealed earlier: with only its first few records.
//!
//! The writer seals a block when a committer requests it, so the end of a block is a matter of timing. A check that
//! wants a crash after every record takes the blocks that were written, and cuts them at the records' ends.

use cedrat_sync::Arc;

use crate::Lsn;
use crate::block::{BLOCK_HEADER_LEN, BLOCK_UNIT, BlockHeader, SegmentHead, SegmentHeader};
use crate::checksum::{block_seed, record_seed};
use crate::record::{self, Frame};

/// A block that is being written to a segment file, and the ends of its records.
#[derive(Clone, Debug)]
pub struct CutBlock {
    header: BlockHeader,
    block_seed: u32,
    bytes: Arc<[u8]>,
    /// For each record, its LSN and its end in the block.
    ends: Vec<(Lsn, usize)>,
}

impl CutBlock {
    /// Reads the bytes that are written to a segment file. `segment` is the first bytes of that file; the result is
    /// `None` if `bytes` are no block of its partition, or the block holds no record.
    pub fn read(segment: &[u8], bytes: Arc<[u8]>) -> Option<CutBlock> {
        let SegmentHead::Whole(SegmentHeader { partition, store, .. }) = SegmentHeader::decode(segment) else {
            return None;
        };
        let block_seed = block_seed(&store, partition);
        let header = BlockHeader::decode(&bytes, block_seed)?;
        let seed = record_seed(block_seed, header.epoch, header.life);
        let used = bytes.get(..header.used as usize)?;
        let (mut at, mut ends) = (BLOCK_HEADER_LEN, Vec::new());
        while at < used.len() {
            let offset = crate::LogOffset::new(header.offset.get() + at as u64);
            let Frame { lsn, len, .. } = record::decode(&used[at..], seed, offset).ok()?;
            at += len;
            ends.push((lsn, at));
        }
        (!ends.is_empty()).then_some(CutBlock { header, block_seed, bytes, ends })
    }

    /// Returns the number of records in the block.
    pub fn records(&self) -> usize {
        self.ends.len()
    }

    /// Returns the block as it would have been written with only its first `records` records.
    ///
    /// # Panics
    /// If the block has fewer records, or `records` is 0: a block without a record is not written.
    pub fn first(&self, records: usize) -> Vec<u8> {
        let (last_lsn, used) = self.ends[records - 1];
        let len = used.next_multiple_of(BLOCK_UNIT);
        let mut bytes = self.bytes[..used].to_vec();
        bytes.resize(len, 0);
        BlockHeader { used: used as u32, len: len as u32, last_lsn, ..self.header }.encode(&mut bytes, self.block_seed);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteLen, Kind, Log, LogOptions, PartitionId, RecordHead, TxnId};
    use cedrat_media::{Durability, Media, OpenMode, SimDisk, write_all_at};
    use cedrat_sync::{Arc, explore};

    const SEGMENT: &str = "log/000000";

    /// Creates a log of one block of five records, and returns the bytes of its segment file.
    fn written() -> (Arc<SimDisk>, Vec<u8>) {
        let disk = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = disk.clone();
        let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
        let mut room = log.reserve(ByteLen(10_000), ByteLen(0)).expect("there is room");
        for number in 0..5_u8 {
            let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
            log.append(PartitionId(0), head, &[&[number; 1_500]], &mut room);
        }
        log.force(log.current_lsn()).expect("the log runs");
        drop((room, log));
        let bytes = disk.image().file(SEGMENT).expect("the first segment");
        (disk, bytes)
    }

    #[test]
    fn cut_block_ends_the_log() {
        explore(1, 1, || {
            let (disk, segment) = written();
            let block = &segment[BLOCK_UNIT..];
            let cut = CutBlock::read(&segment, block.into()).expect("a block");
            assert_eq!(cut.records(), 5);
            for records in 1..=5 {
                let shorter = Arc::new(SimDisk::from_image(disk.image()));
                let file = shorter.open(SEGMENT, OpenMode::ReadWrite).expect("it is there");
                let zeros = vec![0; block.len()];
                for bytes in [&zeros, &cut.first(records)] {
                    write_all_at(&*shorter, file, BLOCK_UNIT as u64, bytes, Durability::Durable).expect("it writes");
                }
                let media: Arc<dyn Media> = shorter.clone();
                let found = Log::look(&media).expect("the log is whole");
                assert_eq!(found.end_lsn().get(), records as u64 + 1);
            }
        });
    }

    #[test]
    fn bytes_of_another_log_are_no_block() {
        explore(1, 1, || {
            let (_, segment) = written();
            let mut foreign = segment.clone();
            foreign[BLOCK_UNIT + 20] ^= 1;
            assert!(CutBlock::read(&foreign, foreign[BLOCK_UNIT..].into()).is_none());
            assert!(CutBlock::read(&segment[BLOCK_UNIT..], segment[BLOCK_UNIT..].into()).is_none());
            assert!(
                CutBlock::read(&segment, segment[BLOCK_UNIT..2 * BLOCK_UNIT].into()).is_none(),
                "a part of a block"
            );
        });
    }
}
