//! The check of each byte of a copied log, and of each record of an archive (Lemon §3.4; E18.14).
//!
//! A [copy](crate::LogCopy) has zeros wherever it has no block and no header. As long as no opening has written to it, each of
//! its bytes can be checked: those of blocks by their checksums, and all others because they are zero. Its two control slots
//! are the same.

use cedrat_media::{AlignedBuf, OpenMode, read_exact_at};
use cedrat_sync::planted;

use crate::archive::FoundArchive;
use crate::block::{BLOCK_UNIT, BlockHeader, SegmentHead, SegmentHeader};
use crate::control::{CONTROL_FILE, SLOT_LEN};
use crate::copy::{BlocksToCopy, Limits};
use crate::open::Found;
use crate::segment::{SEGMENT_HEADER_LEN, Slot};
use crate::{LogError, LogOffset, PartitionId, Position};

/// The number of bytes that are read at a time where there should be zeros.
const PIECE_LEN: u64 = 1 << 20;

impl Found {
    /// Whether the log is a copy to which no opening has written.
    pub fn is_untouched_copy(&self) -> bool {
        self.control().generation == 1
    }

    /// Checks each block from the checkpoint on with its records, and in an [untouched copy](Found::is_untouched_copy) each other byte,
    /// too. `damaged` receives the first damage of each file.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn check_bytes(&self, damaged: &mut dyn FnMut(LogError)) -> Result<(), LogError> {
        let mut beyond = |checked: Result<(), LogError>| match checked {
            Err(error @ LogError::Damaged { .. }) => {
                damaged(error);
                Ok(())
            }
            checked => checked,
        };
        if self.is_untouched_copy() {
            beyond(self.check_control())?;
        }
        for (index, known) in self.control().partitions.iter().enumerate() {
            let partition = PartitionId(index as u16);
            let slots: Vec<_> =
                self.reader().in_use[index].read().iter().map(|(&sequence, slot)| (sequence, slot.clone())).collect();
            for (sequence, slot) in slots {
                let geometry = self.reader().geometry;
                let begin = known.scan_from.max(geometry.begin(sequence));
                let end = self.ends()[index].min(geometry.begin(sequence + 1)).max(begin);
                beyond(self.check_segment(Position { partition, offset: begin }, end, &slot))?;
            }
        }
        Ok(())
    }

    /// Checks that both slots of the control file have its content.
    fn check_control(&self) -> Result<(), LogError> {
        let (media, io) = (&**self.media(), |error| LogError::io(format!("reading {CONTROL_FILE}"), error));
        let file = media.open(CONTROL_FILE, OpenMode::Read).map_err(io)?;
        let (mut expected, mut found) = (AlignedBuf::zeroed(SLOT_LEN), AlignedBuf::zeroed(SLOT_LEN));
        self.control().encode(&mut expected)?;
        for slot in 0..2 {
            let begin = slot * SLOT_LEN as u64;
            read_exact_at(media, file, begin, &mut found).map_err(io)?;
            if let Some(at) = (0..SLOT_LEN).find(|&at| found[at] != expected[at]) {
                let what = "the two copies of the control file differ";
                return Err(LogError::damaged(media.path(file), begin + at as u64, what));
            }
        }
        Ok(())
    }

    /// Checks a segment, which has blocks from one offset to another one.
    fn check_segment(&self, begin: Position, end: LogOffset, slot: &Slot) -> Result<(), LogError> {
        let geometry = self.reader().geometry;
        if begin.offset < end {
            self.check_blocks(begin, end)?;
        }
        if !self.is_untouched_copy() {
            return Ok(());
        }
        self.check_header(slot)?;
        let behind = if geometry.sequence(end) == geometry.sequence(begin.offset) || begin.offset == end {
            geometry.in_file(end).min(slot.len())
        } else {
            slot.len()
        };
        self.check_zeros(slot, SEGMENT_HEADER_LEN, geometry.in_file(begin.offset).min(behind))?;
        self.check_zeros(slot, behind, slot.len())
    }

    /// Checks blocks with their records, and in an untouched copy the rest of each block.
    fn check_blocks(&self, begin: Position, end: LogOffset) -> Result<(), LogError> {
        let seed = self.reader().block_seeds[begin.partition.index()];
        let mut blocks = BlocksToCopy::new(self.reader(), begin.partition, Limits::NONE);
        blocks.keep_padding = true;
        let mut at = begin.offset;
        while at < end {
            let (bytes, next) = blocks.read(at, end)?;
            let mut done = 0;
            while done < bytes.len() && self.is_untouched_copy() {
                let Some(header) = BlockHeader::decode(&bytes[done..], seed) else { break };
                let behind = bytes.len().min(done + header.len as usize);
                let rest = done + header.used as usize;
                if let Some(bad) = (rest..behind).find(|&at| bytes[at] != 0) {
                    let offset = LogOffset::new(at.get() + bad as u64);
                    let position = Position { partition: begin.partition, offset };
                    return Err(self.reader().damaged(position, "the rest of a block of a copied log is not zero"));
                }
                done = behind;
            }
            at = next;
        }
        Ok(())
    }

    fn check_header(&self, slot: &Slot) -> Result<(), LogError> {
        let (media, file) = (&**self.media(), slot.file);
        let io = |error| LogError::io(format!("reading {}", media.path(file)), error);
        let mut block = AlignedBuf::zeroed(BLOCK_UNIT);
        read_exact_at(media, file, 0, &mut block).map_err(io)?;
        let expected = match SegmentHeader::decode(&block) {
            SegmentHead::Whole(header) => header.block(),
            _ => AlignedBuf::zeroed(BLOCK_UNIT),
        };
        if let Some(at) = (0..BLOCK_UNIT).find(|&at| block[at] != expected[at]) {
            return Err(LogError::damaged(media.path(file), at as u64, "the header of a log segment is damaged"));
        }
        let len = media.len(file).map_err(io)?;
        if len != slot.len() {
            let what = "the length of a copied log segment differs from the one in its header";
            return Err(LogError::damaged(media.path(file), len.min(slot.len()), what));
        }
        Ok(())
    }

    /// Checks that a part of a segment file has no byte but zero.
    fn check_zeros(&self, slot: &Slot, from: u64, to: u64) -> Result<(), LogError> {
        let (media, file) = (&**self.media(), slot.file);
        let mut at = if planted!("unused_bytes_unchecked") { to } else { from };
        while at < to {
            let mut piece = AlignedBuf::zeroed(PIECE_LEN.min(to - at) as usize);
            read_exact_at(media, file, at, &mut piece)
                .map_err(|error| LogError::io(format!("reading {}", media.path(file)), error))?;
            if let Some(bad) = piece.iter().position(|&byte| byte != 0) {
                let what = "a part of a copied log segment without a block is not zero";
                return Err(LogError::damaged(media.path(file), at + bad as u64, what));
            }
            at += piece.len() as u64;
        }
        Ok(())
    }
}

impl FoundArchive {
    /// Checks each block with its records.
    ///
    /// # Errors
    /// [`LogError::Damaged`]: the first damage; [`LogError::Io`].
    pub fn check_records(&self) -> Result<(), LogError> {
        for (index, known) in self.found.control().partitions.iter().enumerate() {
            let mut blocks = BlocksToCopy::new(self.found.reader(), PartitionId(index as u16), Limits::NONE);
            let mut at = known.scan_from;
            while at < known.durable_below {
                at = blocks.read(at, known.durable_below)?.1;
            }
        }
        Ok(())
    }
}
