//! Block headers and segment headers (drawn in docs/formats/log.md, version 1). Little endian.

use cedrat_media::AlignedBuf;

use crate::checksum::StoreId;
use crate::{LogOffset, Lsn, PartitionId};

/// The unit of blocks: they begin at multiples of it, and their length is a multiple of it.
pub(crate) const BLOCK_UNIT: usize = 4096;

/// The version of segments, blocks and records that this code writes; it reads no other.
pub(crate) const LOG_FORMAT_VERSION: u16 = 1;

/// Offsets of the fields of a block header.
pub(crate) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const CRC: usize = MAGIC + 4; //          of the header after this field
    pub(crate) const USED: usize = CRC + 4; //           bytes with meaning, this header included
    pub(crate) const LEN: usize = USED + 4; //           from here to the next block
    pub(crate) const EPOCH: usize = LEN + 4;
    pub(crate) const LIFE: usize = EPOCH + 4;
    pub(crate) const OFFSET: usize = LIFE + 4;
    pub(crate) const FIRST_LSN: usize = OFFSET + 8; //   0: the block holds no record
    pub(crate) const LAST_LSN: usize = FIRST_LSN + 8;
    pub(crate) const PROMISE: usize = LAST_LSN + 8; //   all partitions are durable up to this LSN
    pub(crate) const OWN_PROMISE: usize = PROMISE + 8; // this partition is durable below this offset
    pub(crate) const END: usize = OWN_PROMISE + 8;
}

/// The length of a block header; the first record follows it.
pub(crate) const BLOCK_HEADER_LEN: usize = at::END;
const _: () = assert!(BLOCK_HEADER_LEN == 64 && at::OFFSET.is_multiple_of(8));

/// An upper bound of the used bytes of a block, whatever the options and the length of its records.
pub(crate) const BLOCK_USED_MAX: usize = 1 << 24;

/// `CBLK`, read as a little-endian number.
pub(crate) const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"CBLK");

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) used: u32,
    pub(crate) len: u32,
    pub(crate) epoch: u32,
    pub(crate) life: u32,
    pub(crate) offset: LogOffset,
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    pub(crate) promise: Lsn,
    pub(crate) own_promise: LogOffset,
}

impl BlockHeader {
    /// Writes the header at the beginning of `to`.
    pub(crate) fn encode(&self, to: &mut [u8], block_seed: u32) {
        let to = &mut to[..BLOCK_HEADER_LEN];
        put_u32(to, at::MAGIC, BLOCK_MAGIC);
        put_u32(to, at::USED, self.used);
        put_u32(to, at::LEN, self.len);
        put_u32(to, at::EPOCH, self.epoch);
        put_u32(to, at::LIFE, self.life);
        put_u64(to, at::OFFSET, self.offset.get());
        put_u64(to, at::FIRST_LSN, self.first_lsn.get());
        put_u64(to, at::LAST_LSN, self.last_lsn.get());
        put_u64(to, at::PROMISE, self.promise.get());
        put_u64(to, at::OWN_PROMISE, self.own_promise.get());
        let crc = crc32c::crc32c_append(block_seed, &to[at::USED..]);
        put_u32(to, at::CRC, crc);
    }

    /// Reads a header whose checksum is correct and whose lengths and numbers are valid; `None` for anything else.
    ///
    /// The caller checks whether its offset, epoch and life are the expected ones.
    pub(crate) fn decode(from: &[u8], block_seed: u32) -> Option<BlockHeader> {
        let from = from.get(..BLOCK_HEADER_LEN)?;
        if get_u32(from, at::MAGIC) != BLOCK_MAGIC
            || crc32c::crc32c_append(block_seed, &from[at::USED..]) != get_u32(from, at::CRC)
        {
            return None;
        }
        let header = BlockHeader {
            used: get_u32(from, at::USED),
            len: get_u32(from, at::LEN),
            epoch: get_u32(from, at::EPOCH),
            life: get_u32(from, at::LIFE),
            offset: LogOffset::new(get_u64(from, at::OFFSET)),
            first_lsn: Lsn::new(get_u64(from, at::FIRST_LSN)),
            last_lsn: Lsn::new(get_u64(from, at::LAST_LSN)),
            promise: Lsn::new(get_u64(from, at::PROMISE)),
            own_promise: LogOffset::new(get_u64(from, at::OWN_PROMISE)),
        };
        let len = header.len as usize;
        let sensible = len >= BLOCK_UNIT
            && len.is_multiple_of(BLOCK_UNIT)
            && header.used as usize >= BLOCK_HEADER_LEN
            && header.used <= header.len
            && header.used as usize <= BLOCK_USED_MAX
            && header.first_lsn <= header.last_lsn
            && header.last_lsn.max(header.promise) < Lsn::LIMIT
            && header.offset.max(header.own_promise) < LogOffset::LIMIT;
        sensible.then_some(header)
    }

    /// Whether the block holds no record: it carries a promise, or fills a segment's end.
    pub(crate) fn is_empty(&self) -> bool {
        self.first_lsn == Lsn::ZERO
    }

    /// Returns the offset where the next block of the partition begins.
    pub(crate) fn end(&self) -> LogOffset {
        LogOffset::new(self.offset.get() + u64::from(self.len))
    }
}

/// Offsets of the fields of a segment header. They fill less than a sector, so that no crash tears them.
pub(crate) mod segment_at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const CRC: usize = MAGIC + 4; //      of the header after this field
    pub(crate) const VERSION: usize = CRC + 4;
    pub(crate) const PARTITION: usize = VERSION + 2;
    pub(crate) const EPOCH: usize = PARTITION + 2;
    pub(crate) const STORE: usize = EPOCH + 4;
    pub(crate) const SEQUENCE: usize = STORE + 16;
    pub(crate) const SEGMENT_LEN: usize = SEQUENCE + 8;
    pub(crate) const RESERVED: usize = SEGMENT_LEN + 8;
    pub(crate) const END: usize = RESERVED + 16;
}
const _: () = assert!(segment_at::END == 64 && segment_at::SEQUENCE.is_multiple_of(8));

/// `CSEG`, read as a little-endian number.
pub(crate) const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"CSEG");

/// The sequence number of a segment that was prepared and not used yet.
pub(crate) const SEQUENCE_NONE: u64 = u64::MAX;

/// The first block of a segment file: the partition, and the part of it, that the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) partition: PartitionId,
    pub(crate) store: StoreId,
    pub(crate) sequence: u64,
    pub(crate) segment_len: u64,
    pub(crate) epoch: u32,
}

/// The result of decoding the first bytes of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentHead {
    Whole(SegmentHeader),
    /// Valid, but of a version that this code does not read.
    Version(u16),
    /// The header was never written.
    Zero,
    Bad,
}

impl SegmentHeader {
    /// Writes the header at the beginning of `to`, a zeroed block.
    pub(crate) fn encode(&self, to: &mut [u8]) {
        let to = &mut to[..segment_at::END];
        put_u32(to, segment_at::MAGIC, SEGMENT_MAGIC);
        put_u16(to, segment_at::VERSION, LOG_FORMAT_VERSION);
        put_u16(to, segment_at::PARTITION, self.partition.0);
        to[segment_at::STORE..segment_at::SEQUENCE].copy_from_slice(&self.store);
        put_u64(to, segment_at::SEQUENCE, self.sequence);
        put_u64(to, segment_at::SEGMENT_LEN, self.segment_len);
        put_u32(to, segment_at::EPOCH, self.epoch);
        to[segment_at::RESERVED..].fill(0);
        let crc = crc32c::crc32c(&to[segment_at::VERSION..]);
        put_u32(to, segment_at::CRC, crc);
    }

    /// Returns the first block of the segment file.
    pub(crate) fn block(&self) -> AlignedBuf {
        let mut bytes = AlignedBuf::zeroed(BLOCK_UNIT);
        self.encode(&mut bytes);
        bytes
    }

    /// Reads the header at the beginning of a segment file.
    pub(crate) fn decode(from: &[u8]) -> SegmentHead {
        let Some(from) = from.get(..segment_at::END) else {
            return SegmentHead::Bad;
        };
        if from.iter().all(|&byte| byte == 0) {
            return SegmentHead::Zero;
        }
        if get_u32(from, segment_at::MAGIC) != SEGMENT_MAGIC
            || crc32c::crc32c(&from[segment_at::VERSION..]) != get_u32(from, segment_at::CRC)
        {
            return SegmentHead::Bad;
        }
        let version = get_u16(from, segment_at::VERSION);
        if version != LOG_FORMAT_VERSION {
            return SegmentHead::Version(version);
        }
        let sequence = get_u64(from, segment_at::SEQUENCE);
        let segment_len = get_u64(from, segment_at::SEGMENT_LEN);
        let end = sequence.checked_mul(segment_len).map(LogOffset::new);
        if sequence != SEQUENCE_NONE && end.is_none_or(|end| end >= LogOffset::LIMIT) {
            return SegmentHead::Bad;
        }
        SegmentHead::Whole(SegmentHeader {
            partition: PartitionId(get_u16(from, segment_at::PARTITION)),
            store: from[segment_at::STORE..segment_at::SEQUENCE].try_into().expect("16 bytes"),
            sequence,
            segment_len,
            epoch: get_u32(from, segment_at::EPOCH),
        })
    }
}

pub(crate) fn put_u16(to: &mut [u8], at: usize, value: u16) {
    to[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(to: &mut [u8], at: usize, value: u32) {
    to[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(to: &mut [u8], at: usize, value: u64) {
    to[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn get_u16(from: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(from[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn get_u32(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn get_u64(from: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> BlockHeader {
        BlockHeader {
            used: 300,
            len: 8192,
            epoch: 3,
            life: 5,
            offset: LogOffset::new(40960),
            first_lsn: Lsn::new(17),
            last_lsn: Lsn::new(29),
            promise: Lsn::new(11),
            own_promise: LogOffset::new(36864),
        }
    }

    fn segment() -> SegmentHeader {
        SegmentHeader {
            partition: PartitionId(2),
            store: *b"a store's name..",
            sequence: 77,
            segment_len: 1 << 24,
            epoch: 4,
        }
    }

    /// Numbers and offsets so large that nothing could follow them are invalid, even under a correct checksum.
    #[test]
    fn headers_beyond_every_log_are_refused() {
        let too_late = [
            BlockHeader { last_lsn: Lsn::MAX, ..block() },
            BlockHeader { promise: Lsn::MAX.previous(), ..block() },
            BlockHeader { offset: LogOffset::new(u64::MAX - 4095), ..block() },
            BlockHeader { own_promise: LogOffset::new(u64::MAX - 4095), ..block() },
        ];
        for header in too_late {
            let mut bytes = [0; 4096];
            header.encode(&mut bytes, 99);
            assert_eq!(BlockHeader::decode(&bytes, 99), None, "{header:?}");
        }
        let mut bytes = [0; 4096];
        SegmentHeader { sequence: SEQUENCE_NONE - 1, ..segment() }.encode(&mut bytes);
        assert_eq!(SegmentHeader::decode(&bytes), SegmentHead::Bad);
        SegmentHeader { sequence: SEQUENCE_NONE, ..segment() }.encode(&mut bytes);
        assert!(matches!(SegmentHeader::decode(&bytes), SegmentHead::Whole(_)), "ready and not used yet");
    }

    #[test]
    fn headers_survive_the_way_there_and_back() {
        let mut bytes = [0; 4096];
        block().encode(&mut bytes, 99);
        assert_eq!(BlockHeader::decode(&bytes, 99), Some(block()));
        assert_eq!(BlockHeader::decode(&bytes, 98), None, "another store's block");
        let mut bytes = [0; 4096];
        segment().encode(&mut bytes);
        assert_eq!(SegmentHeader::decode(&bytes), SegmentHead::Whole(segment()));
    }

    #[test]
    fn every_flipped_header_bit_is_detected() {
        let mut blocks = [0; BLOCK_HEADER_LEN];
        block().encode(&mut blocks, 99);
        let mut segments = [0; segment_at::END];
        segment().encode(&mut segments);
        for bit in 0..64 * 8 {
            let flip = |bytes: &[u8; 64]| {
                let mut bytes = *bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            };
            assert_eq!(BlockHeader::decode(&flip(&blocks), 99), None);
            assert_eq!(SegmentHeader::decode(&flip(&segments)), SegmentHead::Bad);
        }
    }

    #[test]
    fn block_with_invalid_lengths_is_rejected() {
        for (used, len) in [(63, 4096), (64, 0), (64, 4097), (8193, 8192), (64, 2048)] {
            let mut bytes = [0; BLOCK_HEADER_LEN];
            BlockHeader { used, len, ..block() }.encode(&mut bytes, 1);
            assert_eq!(BlockHeader::decode(&bytes, 1), None);
        }
    }

    #[test]
    fn newer_version_is_not_damage() {
        let mut bytes = [0; 64];
        segment().encode(&mut bytes);
        put_u16(&mut bytes, segment_at::VERSION, 2);
        let crc = crc32c::crc32c(&bytes[segment_at::VERSION..]);
        put_u32(&mut bytes, segment_at::CRC, crc);
        assert_eq!(SegmentHeader::decode(&bytes), SegmentHead::Version(2));
        assert_eq!(SegmentHeader::decode(&[0; 64]), SegmentHead::Zero);
        assert_eq!(SegmentHeader::decode(&[1; 8]), SegmentHead::Bad);
    }

    /// Returns the offsets in a document's table whose rows begin `| offset | length | NAME |`.
    pub(crate) fn drawn(document: &str, heading: &str) -> Vec<(String, usize)> {
        let section = document.split(heading).nth(1).expect("the heading is there");
        let rows =
            section.lines().skip_while(|line| !line.starts_with("| 0 |")).take_while(|line| line.starts_with('|'));
        rows.map(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            (cells[3].to_owned(), cells[1].parse().expect("an offset"))
        })
        .collect()
    }

    #[test]
    fn the_drawing_and_the_constants_agree() {
        let document = include_str!("../../../docs/formats/log.md");
        let named = |rows: &[(&str, usize)]| rows.iter().map(|&(name, at)| (name.to_owned(), at)).collect::<Vec<_>>();
        use super::segment_at as segment;
        let segments = named(&[
            ("MAGIC", segment::MAGIC),
            ("CRC", segment::CRC),
            ("VERSION", segment::VERSION),
            ("PARTITION", segment::PARTITION),
            ("EPOCH", segment::EPOCH),
            ("STORE", segment::STORE),
            ("SEQUENCE", segment::SEQUENCE),
            ("SEGMENT_LEN", segment::SEGMENT_LEN),
            ("RESERVED", segment::RESERVED),
        ]);
        assert_eq!(drawn(document, "## Segment header"), segments);
        let blocks = named(&[
            ("MAGIC", at::MAGIC),
            ("CRC", at::CRC),
            ("USED", at::USED),
            ("LEN", at::LEN),
            ("EPOCH", at::EPOCH),
            ("LIFE", at::LIFE),
            ("OFFSET", at::OFFSET),
            ("FIRST_LSN", at::FIRST_LSN),
            ("LAST_LSN", at::LAST_LSN),
            ("PROMISE", at::PROMISE),
            ("OWN_PROMISE", at::OWN_PROMISE),
        ]);
        assert_eq!(drawn(document, "## Block"), blocks);
        let control = include_str!("../../../docs/formats/control.md");
        use crate::control::at as slot;
        let slots = named(&[
            ("MAGIC", slot::MAGIC),
            ("CRC", slot::CRC),
            ("VERSION", slot::VERSION),
            ("USED", slot::USED),
            ("PAGE_LEN", slot::PAGE_LEN),
            ("STORE", slot::STORE),
            ("GENERATION", slot::GENERATION),
            ("SEGMENT_LEN", slot::SEGMENT_LEN),
            ("REDO_LSN", slot::REDO_LSN),
            ("SCAN_LSN", slot::SCAN_LSN),
            ("NEXT_TXN", slot::NEXT_TXN),
            ("PROMISE", slot::PROMISE),
            ("PARTITIONS", slot::PARTITIONS),
            ("SCHEMA_COUNT", slot::SCHEMA_COUNT),
            ("MOMENTS", slot::MOMENTS),
            ("EPOCH_COUNT", slot::EPOCH_COUNT),
            ("NAME_COUNT", slot::NAME_COUNT),
            ("LISTS", slot::LISTS),
        ]);
        assert_eq!(drawn(control, "# The control file"), slots);
    }
}
