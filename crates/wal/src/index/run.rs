//! A run: a file with sorted entries, in blocks that can be searched.

use cedrat_media::{AlignedBuf, Durability, FileId, Media, OpenMode, read_exact_at, write_all_at};
use cedrat_sync::{Arc, planted};
use std::io::{self, ErrorKind};

use crate::checksum::StoreId;
use crate::index::{Entry, Indexed};
use crate::segment::file_number;
use crate::{LogError, LogOffset, Lsn, PartitionId, Position, varint};

/// The directory of the runs.
pub const INDEX_DIRECTORY: &str = "index";

/// The length of the header, and of each block.
pub(crate) const BLOCK_LEN: usize = 4096;

/// The number of blocks that are read or written at a time.
const BLOCKS_AT_ONCE: usize = 64;

const MAGIC: [u8; 8] = *b"CEDRINDX";
const VERSION: u32 = 1;

/// Offsets in the header.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CHECKSUM: usize = MAGIC + 8; //      CRC-32C of the rest of the header
    pub(super) const VERSION: usize = CHECKSUM + 4;
    pub(super) const STORE: usize = VERSION + 4;
    pub(super) const LEVEL: usize = STORE + 16; //        number of merges
    pub(super) const PARTITIONS: usize = LEVEL + 4;
    pub(super) const AFTER: usize = PARTITIONS + 4; //    LSN before the first one
    pub(super) const UP_TO: usize = AFTER + 8; //         the last LSN
    pub(super) const BLOCKS: usize = UP_TO + 8;
    pub(super) const FIRST_KEYS: usize = BLOCKS + 8; //   CRC-32C of the first keys
    pub(super) const OFFSETS: usize = FIRST_KEYS + 8; //  for each partition, where the next run begins
}

/// Offsets in a block.
mod in_block {
    pub(super) const CHECKSUM: usize = 0; //         CRC-32C of the rest of the block
    pub(super) const LEN: usize = CHECKSUM + 4; //   bytes of entries
    pub(super) const ENTRIES: usize = LEN + 2;
}

/// The records of which a run has entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunHeader {
    /// The number of merges that have made it.
    pub(crate) level: u32,
    /// The LSN before the first one that it has.
    pub(crate) after: Lsn,
    pub(crate) indexed: Indexed,
}

/// A complete run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) header: RunHeader,
    pub(crate) name: String,
    file: FileId,
    /// The first key of each block.
    first_keys: Vec<u64>,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Finds the complete runs of a store, the names of other files, and the number after the last one of any file.
pub(crate) fn find(
    media: &Arc<dyn Media>,
    store: &StoreId,
    partitions: usize,
) -> Result<(Vec<Run>, Vec<String>, u32), LogError> {
    let (mut runs, mut others, mut next) = (Vec::new(), Vec::new(), 0);
    let names = media.list(INDEX_DIRECTORY).map_err(|error| LogError::io("listing the index", error))?;
    for (name, number) in names.iter().filter_map(|name| Some((name, file_number(name)?))) {
        let name = format!("{INDEX_DIRECTORY}/{name}");
        // One that cannot be read is as good as a damaged one.
        match Run::open(&**media, &name, store, partitions) {
            Ok(Some(run)) => runs.push(run),
            Ok(None) | Err(_) => others.push(name),
        }
        next = next.max(number + 1);
    }
    Ok((runs, others, next))
}

impl RunHeader {
    fn encode(&self, store: &StoreId, first_keys: &[u8]) -> AlignedBuf {
        let mut bytes = AlignedBuf::zeroed(BLOCK_LEN);
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(at::MAGIC, &MAGIC);
        put(at::VERSION, &VERSION.to_le_bytes());
        put(at::STORE, store);
        put(at::LEVEL, &self.level.to_le_bytes());
        put(at::PARTITIONS, &(self.indexed.offsets.len() as u32).to_le_bytes());
        put(at::AFTER, &self.after.get().to_le_bytes());
        put(at::UP_TO, &self.indexed.up_to.get().to_le_bytes());
        put(at::BLOCKS, &(first_keys.len() as u64 / 8).to_le_bytes());
        put(at::FIRST_KEYS, &crc32c::crc32c(first_keys).to_le_bytes());
        for (index, offset) in self.indexed.offsets.iter().enumerate() {
            put(at::OFFSETS + 8 * index, &offset.get().to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[at::VERSION..]);
        bytes[at::CHECKSUM..at::VERSION].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the header of a run of this store, if it is one.
    fn decode(bytes: &[u8], store: &StoreId, partitions: usize) -> Option<RunHeader> {
        let is_whole = bytes[at::MAGIC..at::CHECKSUM] == MAGIC
            && half(bytes, at::CHECKSUM) == crc32c::crc32c(&bytes[at::VERSION..])
            && half(bytes, at::VERSION) == VERSION
            && bytes[at::STORE..at::LEVEL] == *store
            && half(bytes, at::PARTITIONS) as usize == partitions;
        let offsets = (0..partitions).map(|index| LogOffset::new(number(bytes, at::OFFSETS + 8 * index)));
        is_whole.then(|| RunHeader {
            level: half(bytes, at::LEVEL),
            after: Lsn::new(number(bytes, at::AFTER)),
            indexed: Indexed { up_to: Lsn::new(number(bytes, at::UP_TO)), offsets: offsets.collect() },
        })
    }

    /// Returns a short number for a position: it is close to the end of the run.
    fn code(&self, position: Position) -> u64 {
        let offsets = &self.indexed.offsets;
        let distance = position.offset.get().wrapping_sub(offsets[position.partition.index()].get()) as i64;
        let unsigned = (distance << 1 ^ distance >> 63) as u64;
        unsigned * offsets.len() as u64 + u64::from(position.partition.0)
    }

    fn position(&self, code: u64) -> Position {
        let offsets = &self.indexed.offsets;
        let (unsigned, partition) = (code / offsets.len() as u64, PartitionId((code % offsets.len() as u64) as u16));
        let distance = (unsigned >> 1) ^ 0_u64.wrapping_sub(unsigned & 1);
        Position { partition, offset: LogOffset::new(offsets[partition.index()].get().wrapping_add(distance)) }
    }
}

impl Run {
    /// Opens a file; `None` if it is no complete run of this store.
    fn open(media: &dyn Media, name: &str, store: &StoreId, partitions: usize) -> io::Result<Option<Run>> {
        let file = media.open(name, OpenMode::ReadWrite)?;
        let len = media.len(file)?;
        let mut bytes = AlignedBuf::zeroed(BLOCK_LEN);
        if len < BLOCK_LEN as u64 {
            return Ok(None);
        }
        read_exact_at(media, file, 0, &mut bytes)?;
        let Some(header) = RunHeader::decode(&bytes, store, partitions) else { return Ok(None) };
        let blocks = number(&bytes, at::BLOCKS);
        let keys_at = blocks.saturating_add(1).saturating_mul(BLOCK_LEN as u64);
        if len < keys_at.saturating_add(blocks.saturating_mul(8)) {
            return Ok(None);
        }
        let mut keys = vec![0; blocks as usize * 8];
        read_exact_at(media, file, keys_at, &mut keys)?;
        if crc32c::crc32c(&keys) != half(&bytes, at::FIRST_KEYS) {
            return Ok(None);
        }
        let first_keys = keys.chunks_exact(8).map(|key| number(key, 0)).collect();
        Ok(Some(Run { header, name: name.into(), file, first_keys }))
    }

    /// Writes a run of sorted entries, durably.
    pub(crate) fn write(
        media: &Arc<dyn Media>,
        file_number: u32,
        store: &StoreId,
        header: RunHeader,
        entries: &mut dyn Iterator<Item = Result<Entry, LogError>>,
    ) -> Result<Run, LogError> {
        let name = format!("{INDEX_DIRECTORY}/{file_number:06}");
        let io = |error| LogError::io(format!("writing {name}"), error);
        // A failed attempt may have left the file.
        let file = media.open(&name, OpenMode::Create).or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let file = media.open(&name, OpenMode::ReadWrite)?;
                media.set_len(file, 0).map(|()| file)
            }
            _ => Err(error),
        });
        let file = file.map_err(io)?;
        let mut blocks = BlockWriter::new(&**media, file, &header);
        for entry in entries {
            blocks.add(entry?).map_err(io)?;
        }
        let first_keys = blocks.finish().map_err(io)?;
        let keys: Vec<u8> = first_keys.iter().flat_map(|key: &u64| key.to_le_bytes()).collect();
        let keys_at = (first_keys.len() + 1) as u64 * BLOCK_LEN as u64;
        let complete = || {
            write_all_at(&**media, file, keys_at, &keys, Durability::Volatile)?;
            if !planted!("index_header_first") {
                media.sync(file)?;
            }
            write_all_at(&**media, file, 0, &header.encode(store, &keys), Durability::Durable)?;
            media.sync_directory(INDEX_DIRECTORY)
        };
        complete().map_err(io)?;
        Ok(Run { header, name, file, first_keys })
    }

    pub(crate) fn path(&self, media: &dyn Media) -> String {
        media.path(self.file)
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.first_keys.len()
    }

    /// Returns the entries with a key.
    pub(crate) fn find(&self, media: &dyn Media, key: u64) -> Result<Vec<Entry>, LogError> {
        let first = self.first_keys.partition_point(|&first| first < key).saturating_sub(1);
        let behind = self.first_keys.partition_point(|&first| first <= key);
        let mut found = Vec::new();
        for block in first..behind {
            self.read(media, block, 1, &mut |entry| found.extend((entry.key == key).then_some(entry)))?;
        }
        Ok(found)
    }

    /// Passes the entries of some blocks to `add`.
    pub(crate) fn read(
        &self,
        media: &dyn Media,
        first: usize,
        blocks: usize,
        add: &mut dyn FnMut(Entry),
    ) -> Result<(), LogError> {
        let mut bytes = AlignedBuf::zeroed(blocks * BLOCK_LEN);
        let begin = (first as u64 + 1) * BLOCK_LEN as u64;
        read_exact_at(media, self.file, begin, &mut bytes).map_err(|error| {
            if planted!("unreadable_index_kept") {
                return LogError::io("reading the index", error);
            }
            LogError::damaged(media.path(self.file), begin, format!("the index cannot be read: {error}"))
        })?;
        for (index, block) in bytes.chunks_exact(BLOCK_LEN).enumerate() {
            self.decode(block, add).ok_or_else(|| {
                let offset = begin + (index * BLOCK_LEN) as u64;
                LogError::damaged(media.path(self.file), offset, "a block of the index is damaged")
            })?;
        }
        Ok(())
    }

    /// Passes the entries of a block to `add`. `None` if it is damaged.
    fn decode(&self, block: &[u8], add: &mut dyn FnMut(Entry)) -> Option<()> {
        let len = usize::from(u16::from_le_bytes(block[in_block::LEN..in_block::ENTRIES].try_into().expect("two")));
        if half(block, in_block::CHECKSUM) != crc32c::crc32c(&block[in_block::LEN..]) {
            return None;
        }
        let mut rest = block.get(in_block::ENTRIES..in_block::ENTRIES + len)?;
        let mut key = 0_u64;
        while !rest.is_empty() {
            let mut take = || {
                let (number, len) = varint::get(rest)?;
                rest = &rest[len..];
                Some(number)
            };
            key = key.checked_add(take()?)?;
            add(Entry::new(key, self.header.position(take()?)));
        }
        Some(())
    }
}

/// Writes the blocks of a run.
struct BlockWriter<'a> {
    media: &'a dyn Media,
    file: FileId,
    header: &'a RunHeader,
    /// Complete blocks, which begin at block `written` of the file, and the one that is being filled.
    bytes: AlignedBuf,
    written: usize,
    /// The number of bytes of entries in the block that is being filled; 0 if there is none.
    len: usize,
    key: u64,
    first_keys: Vec<u64>,
}

impl<'a> BlockWriter<'a> {
    fn new(media: &'a dyn Media, file: FileId, header: &'a RunHeader) -> BlockWriter<'a> {
        let bytes = AlignedBuf::zeroed(BLOCKS_AT_ONCE * BLOCK_LEN);
        BlockWriter { media, file, header, bytes, written: 0, len: 0, key: 0, first_keys: Vec::new() }
    }

    /// Returns the place of a block in the buffer.
    fn block(&mut self, index: usize) -> &mut [u8] {
        let at = (index - self.written) * BLOCK_LEN;
        &mut self.bytes[at..at + BLOCK_LEN]
    }

    fn add(&mut self, entry: Entry) -> std::io::Result<()> {
        let code = self.header.code(entry.position());
        if self.len + 2 * varint::LEN_MAX > BLOCK_LEN - in_block::ENTRIES {
            self.end_block()?;
        }
        if self.len == 0 {
            self.first_keys.push(entry.key);
            self.key = 0;
        }
        let (delta, at) = (entry.key - self.key, in_block::ENTRIES + self.len);
        let block = self.block(self.first_keys.len() - 1);
        let mut encoded = [0; 2 * varint::LEN_MAX + 8];
        let mut len = varint::put(&mut encoded, delta);
        len += varint::put(&mut encoded[len..], code);
        block[at..at + len].copy_from_slice(&encoded[..len]);
        (self.key, self.len) = (entry.key, self.len + len);
        Ok(())
    }

    fn end_block(&mut self) -> std::io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let len = (self.len as u16).to_le_bytes();
        let block = self.block(self.first_keys.len() - 1);
        block[in_block::LEN..in_block::ENTRIES].copy_from_slice(&len);
        let checksum = crc32c::crc32c(&block[in_block::LEN..]).to_le_bytes();
        block[in_block::CHECKSUM..in_block::LEN].copy_from_slice(&checksum);
        self.len = 0;
        if self.first_keys.len() - self.written == BLOCKS_AT_ONCE { self.write() } else { Ok(()) }
    }

    /// Writes the complete blocks of the buffer.
    fn write(&mut self) -> std::io::Result<()> {
        let len = (self.first_keys.len() - self.written) * BLOCK_LEN;
        let begin = (self.written as u64 + 1) * BLOCK_LEN as u64;
        write_all_at(self.media, self.file, begin, &self.bytes[..len], Durability::Volatile)?;
        self.written = self.first_keys.len();
        self.bytes.as_mut_slice().fill(0);
        Ok(())
    }

    /// Writes the rest, and returns the first key of each block.
    fn finish(mut self) -> std::io::Result<Vec<u64>> {
        self.end_block()?;
        self.write()?;
        Ok(self.first_keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_media::SimDisk;
    use cedrat_sync::explore;

    fn header() -> RunHeader {
        let offsets = vec![LogOffset::new(1 << 40), LogOffset::new(77)];
        RunHeader { level: 1, after: Lsn::new(3), indexed: Indexed { up_to: Lsn::new(9), offsets } }
    }

    fn entries() -> Vec<Entry> {
        let at = |index: u64| Position {
            partition: PartitionId((index % 2) as u16),
            offset: LogOffset::new(if index.is_multiple_of(2) { (1 << 40) - 64 * index } else { 77 + index }),
        };
        let mut entries: Vec<_> =
            (0..60_000).map(|index| Entry::new((index * index % 977) << (index % 50), at(index))).collect();
        // Each block of a key has entries of it alone.
        entries.extend((0..5_000).map(|index| Entry::new(u64::MAX, at(index))));
        entries.sort_unstable();
        entries
    }

    /// A run that was written is found again, and has the same entries for each key.
    #[test]
    fn run_has_its_entries() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let entries = entries();
            let write = &mut entries.iter().map(|&entry| Ok(entry));
            let written = Run::write(&media, 7, &[5; 16], header(), write).expect("the disk works");
            let (found, others, next) = find(&media, &[5; 16], 2).expect("the disk works");
            assert_eq!((found.len(), others.len(), next), (1, 0, 8));
            assert_eq!((&found[0].header, &found[0].first_keys), (&header(), &written.first_keys));
            assert!(written.blocks() > BLOCKS_AT_ONCE, "several pieces are written");
            for same in entries.chunk_by(|a, b| a.key == b.key) {
                let mut has = found[0].find(&*media, same[0].key).expect("it is whole");
                has.sort_unstable();
                assert_eq!(has, same);
            }
            assert_eq!(found[0].find(&*media, 1 << 63).expect("it is whole"), []);
            assert!(find(&media, &[6; 16], 2).expect("the disk works").0.is_empty(), "of another store");
        });
    }

    /// E18.16b: a damaged byte anywhere is noticed, when the run is found or when the block is read.
    #[test]
    fn damaged_run_is_noticed() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let entries: Vec<_> = entries().into_iter().step_by(40).collect();
            let write = &mut entries.iter().map(|&entry| Ok(entry));
            let run = Run::write(&media, 0, &[5; 16], header(), write).expect("the disk works");
            let len = media.len(run.file).expect("the disk works");
            for at in (0..len).step_by(61) {
                let mut byte = [0];
                read_exact_at(&*media, run.file, at, &mut byte).expect("the disk works");
                write_all_at(&*media, run.file, at, &[byte[0] ^ 1], Durability::Volatile).expect("the disk works");
                let (found, ..) = find(&media, &[5; 16], 2).expect("the disk works");
                let is_read = found.first().map(|run| run.read(&*media, 0, run.blocks(), &mut |_| ()));
                assert!(is_read.is_none_or(|read| read.is_err()), "E18.16b: byte {at}");
                write_all_at(&*media, run.file, at, &byte, Durability::Volatile).expect("the disk works");
            }
        });
    }
}
