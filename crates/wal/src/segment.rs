//! Segment files: prepared ahead of need, taken by a partition, freed by truncation.
//!
//! ```text
//! Unready ──fill──▶ Free ──take──▶ InUse ──recycle──▶ Free
//! ```
//!
//! - `Unready`: the file may be short or have any content; left by a crash while it was filled
//! - `Free`: full length, written once and synced, so that later writes change no metadata and find space
//! - `InUse`: its header names its partition and its part of it
//!
//! A file's name is only a number. A segment's *life* is its sequence number in its partition: offsets never recur,
//! so the header left from an earlier life names an offset that is not read any more.

use cedrat_media::{AlignedBuf, Durability, FileId, Media, OpenMode, write_all_at};
use cedrat_sync::{Arc, Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::block::{BLOCK_UNIT, SEQUENCE_NONE, SegmentHeader};
use crate::checksum::StoreId;
use crate::space::Space;
use crate::{LogOffset, PartitionId};

/// The directory of the segment files.
pub(crate) const LOG_DIRECTORY: &str = "log";

/// The first block of a segment file is its header; blocks of records follow.
pub(crate) const SEGMENT_HEADER_LEN: u64 = BLOCK_UNIT as u64;

/// Returns the name of the segment file with this number.
pub(crate) fn file_name(number: u32) -> String {
    format!("{LOG_DIRECTORY}/{number:06}")
}

/// A bound on the numbers of segment files.
const NUMBER_LIMIT: u32 = 1 << 31;

/// Returns the number in the name of a segment file; `None` if it is another file.
pub(crate) fn file_number(name: &str) -> Option<u32> {
    let all_digits = name.len() >= 6 && name.bytes().all(|byte| byte.is_ascii_digit());
    let ours = |&number: &u32| all_digits && number < NUMBER_LIMIT && format!("{number:06}") == name;
    name.parse().ok().filter(ours)
}

/// A segment file.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) file: FileId,
}

/// The mapping of a partition's offsets to segments, for one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) segment_len: u64,
}

impl Geometry {
    /// Returns the number of bytes for blocks in one segment.
    pub(crate) fn capacity(self) -> u64 {
        self.segment_len - SEGMENT_HEADER_LEN
    }

    /// Returns the sequence number of the segment that holds the offset.
    #[inline]
    pub(crate) fn sequence(self, offset: LogOffset) -> u64 {
        offset.get() / self.capacity()
    }

    /// Returns the first offset of a segment.
    pub(crate) fn begin(self, sequence: u64) -> LogOffset {
        LogOffset::new(sequence.saturating_mul(self.capacity()))
    }

    /// Returns the number of bytes from the offset to the end of its segment.
    pub(crate) fn left(self, offset: LogOffset) -> u64 {
        self.capacity() - offset.get() % self.capacity()
    }

    /// Returns the position of the offset in its segment file.
    pub(crate) fn in_file(self, offset: LogOffset) -> u64 {
        SEGMENT_HEADER_LEN + offset.get() % self.capacity()
    }
}

/// The segments that one partition uses, by sequence number.
pub(crate) type InUse = RwLock<BTreeMap<u64, Arc<Slot>>>;

/// The segment files that no partition uses, and the creation of new ones.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) geometry: Geometry,
    pub(crate) store: StoreId,
    state: Mutex<PoolState>,
    /// Held while a file is filled: one at a time.
    filling: Mutex<()>,
}

#[derive(Debug)]
struct PoolState {
    free: Vec<Arc<Slot>>,
    unready: Vec<u32>,
    /// The numbers of all files, those in use too.
    numbers: BTreeSet<u32>,
}

impl Pool {
    pub(crate) fn new(geometry: Geometry, store: StoreId) -> Pool {
        let state = PoolState { free: Vec::new(), unready: Vec::new(), numbers: BTreeSet::new() };
        Pool { geometry, store, state: Mutex::new(state), filling: Mutex::new(()) }
    }

    /// Registers a file that was found: free, in need of filling, or (neither) used by a partition.
    pub(crate) fn found(&self, number: u32, free: Option<Arc<Slot>>, unready: bool) {
        let mut state = self.state.lock();
        state.numbers.insert(number);
        state.free.extend(free);
        if unready {
            state.unready.push(number);
        }
    }

    /// Takes a free segment file, the oldest one first, so that files wear evenly.
    pub(crate) fn take(&self) -> Option<Arc<Slot>> {
        let mut state = self.state.lock();
        (!state.free.is_empty()).then(|| state.free.remove(0))
    }

    /// Whether there is no free segment file.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().free.is_empty()
    }

    /// Returns a segment file to the pool for another life.
    pub(crate) fn give_back(&self, slot: Arc<Slot>) {
        self.state.lock().free.push(slot);
    }

    /// Prepares one more segment file, if it is still wanted when no other one is being prepared, and counts it. After an
    /// error the file is left for another attempt.
    pub(crate) fn prepare(
        &self,
        media: &dyn Media,
        space: &Space,
        is_wanted: impl FnOnce(&Space) -> bool,
    ) -> io::Result<()> {
        let _one_at_a_time = self.filling.lock();
        if !is_wanted(space) {
            return Ok(());
        }
        let (number, mode) = {
            let mut state = self.state.lock();
            match state.unready.pop() {
                Some(number) => (number, OpenMode::ReadWrite),
                None => {
                    // The smallest one: a file that another program has left here may have the largest.
                    let free = (0..NUMBER_LIMIT).find(|number| !state.numbers.contains(number));
                    let number = free.expect("a log has fewer segments than there are numbers");
                    state.numbers.insert(number);
                    (number, OpenMode::Create)
                }
            }
        };
        match self.fill(media, number, mode) {
            Ok(slot) => {
                self.state.lock().free.push(Arc::new(slot));
                space.segment_prepared();
                Ok(())
            }
            Err(error) => {
                // The part written so far would occupy space that other users of the disk need now.
                let removed = media.remove(&file_name(number));
                let mut state = self.state.lock();
                if removed.is_err() && media.open(&file_name(number), OpenMode::Read).is_ok() {
                    state.unready.push(number);
                } else {
                    state.numbers.remove(&number);
                }
                Err(error)
            }
        }
    }

    fn fill(&self, media: &dyn Media, number: u32, mode: OpenMode) -> io::Result<Slot> {
        const PIECE: u64 = 1 << 20;
        let name = file_name(number);
        let file = media.open(&name, mode)?;
        let len = self.geometry.segment_len;
        let found = media.len(file)?;
        if found > len {
            media.set_len(file, len)?;
        } else {
            // Only what is missing: a full file system may refuse the rest, though the file has it (A10a).
            media.allocate(file, found, len - found)?;
        }
        let zeros = AlignedBuf::zeroed(PIECE.min(len) as usize);
        let mut at = SEGMENT_HEADER_LEN;
        while at < len {
            let piece = PIECE.min(len - at) as usize;
            write_all_at(media, file, at, &zeros[..piece], Durability::Volatile)?;
            at += piece as u64;
        }
        media.sync(file)?;
        // The header is written last: a file with a header needs nothing more.
        let header = self.header(PartitionId(0), SEQUENCE_NONE, 0);
        write_all_at(media, file, 0, &header, Durability::Durable)?;
        media.sync_directory(LOG_DIRECTORY)?;
        Ok(Slot { number, name, file })
    }

    /// Returns the first block of a segment file.
    pub(crate) fn header(&self, partition: PartitionId, sequence: u64, epoch: u32) -> AlignedBuf {
        let mut bytes = AlignedBuf::zeroed(BLOCK_UNIT);
        let header =
            SegmentHeader { partition, store: self.store, sequence, segment_len: self.geometry.segment_len, epoch };
        header.encode(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_segment_files() {
        assert_eq!(file_number("000017"), Some(17));
        assert_eq!(file_number("1000017"), Some(1_000_017));
        // A file with such a number is none that this code created.
        for other in ["17", "0000017", "00001x", "000017.tmp", "+00017", "", "4294967295", "2147483648"] {
            assert_eq!(file_number(other), None, "{other}");
        }
    }

    #[test]
    fn places_map_to_segments() {
        let geometry = Geometry { segment_len: 64 * 1024 };
        let capacity = 60 * 1024;
        let place = LogOffset::new(3 * capacity + 4096);
        assert_eq!(geometry.sequence(place), 3);
        assert_eq!(geometry.begin(3), LogOffset::new(3 * capacity));
        assert_eq!(geometry.left(place), capacity - 4096);
        assert_eq!(geometry.in_file(place), 8192);
    }
}
