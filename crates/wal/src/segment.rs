//! Segment files: prepared ahead of need, taken by a partition, freed by truncation.
//!
//! ```text
//! Unready ──fill──▶ Free ──take──▶ InUse ──recycle──▶ Free
//! ```
//!
//! - `Unready`: the file may be short or have any content; left by a crash while it was filled
//! - `Free`: as long as its header says, written once and synced, so that later writes change no metadata and find space
//! - `InUse`: its header names its partition and its part of it
//!
//! A file may be shorter than its segment: the last block in it covers the rest of the segment. Files that are freed and are
//! shorter than new ones are `Unready`, too, but may hold the records of a rollback (E16.10a).
//!
//! A file's name is only a number. A segment's *life* is its sequence number in its partition: offsets never recur,
//! so the header left from an earlier life names an offset that is not read any more.

use cedrat_media::{AlignedBuf, Durability, FileId, Media, OpenMode, write_all_at};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, RwLock, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

use crate::block::{BLOCK_UNIT, SEQUENCE_NONE, SegmentHeader};
use crate::checksum::StoreId;
use crate::options::SEGMENT_LEN_MIN;
use crate::sink::{InFile, Piece, Sink};
use crate::space::Space;
use crate::{LogOffset, Lsn, PartitionId, Position};

/// The directory of the segment files.
pub const LOG_DIRECTORY: &str = "log";

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
    /// The length of the file by its header.
    len: AtomicU64,
    /// The longest length that was written to its header, also by a write that failed: it may be on the disk.
    written_len: AtomicU64,
}

impl Slot {
    pub(crate) fn new(number: u32, name: String, file: FileId, len: u64) -> Slot {
        Slot { number, name, file, len: AtomicU64::new(len), written_len: AtomicU64::new(len) }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the disk space after the length that the file has by any header that was written.
    fn return_space(&self, media: &dyn Media) {
        let len = if planted!("failed_header_forgotten") { &self.len } else { &self.written_len };
        let _ = media.set_len(self.file, len.load(Ordering::Acquire));
    }
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

    /// Returns the number of bytes for blocks of records in a segment file of this length. A file that is shorter than others
    /// may be has space for one more block, which covers the rest of the segment.
    pub(crate) fn room(self, len: u64) -> u64 {
        if len < self.segment_len { len - SEGMENT_HEADER_LEN - BLOCK_UNIT as u64 } else { self.capacity() }
    }

    /// Returns the length of a segment file with so much room, or of the longest.
    fn len_for(self, room: u64) -> u64 {
        room.saturating_add(SEGMENT_HEADER_LEN + BLOCK_UNIT as u64).min(self.segment_len)
    }

    /// Returns the length of the first segment files of a log.
    pub(crate) fn first_len(self) -> u64 {
        SEGMENT_LEN_MIN.min(self.segment_len)
    }

    /// Returns the length, a double of `len`, of the first files that have room for eight records of `record` bytes.
    pub(crate) fn longer(self, len: u64, record: u64) -> u64 {
        let mut longer = len;
        while longer < self.segment_len && self.room(longer) / 8 < record {
            longer = (2 * longer).min(self.segment_len);
        }
        longer
    }

    /// Returns the number of bytes of segment files from one offset to another one, with the room that `rooms` returns for a
    /// range of segments.
    pub(crate) fn bytes_between(self, from: LogOffset, to: LogOffset, rooms: impl FnOnce(Range<u64>) -> u64) -> u64 {
        let first = self.sequence(from);
        let whole = rooms(first..self.sequence(to).max(first));
        (whole + to.get() % self.capacity()).saturating_sub(from.get() % self.capacity())
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
    sink: Arc<dyn Sink>,
    state: Mutex<PoolState>,
    /// Held while a file is filled: one at a time.
    pub(crate) filling: Mutex<()>,
    /// Held while free files are made longer. Locked before the control file.
    pub(crate) lengthening: Mutex<()>,
}

#[derive(Debug)]
struct PoolState {
    /// The files that count as prepared. None is shorter than `len`.
    free: Vec<Arc<Slot>>,
    /// The files that are shorter than new ones. They do not count as prepared.
    short: Vec<Arc<Slot>>,
    /// The files of segments that a partition has reached or begun.
    claimed: BTreeMap<(PartitionId, u64), Claim>,
    /// The length of new files.
    len: u64,
    unready: Vec<u32>,
    /// The numbers of all files, those in use too.
    numbers: BTreeSet<u32>,
}

/// The file of a segment.
#[derive(Debug)]
struct Claim {
    /// `None`: there was none with so much room. The segment begins in a new one.
    slot: Option<Arc<Slot>>,
    room: u64,
}

impl Pool {
    /// Creates an empty pool, whose new files have a length of `len` bytes.
    pub(crate) fn new(geometry: Geometry, store: StoreId, sink: &Arc<dyn Sink>, len: u64) -> Pool {
        let (free, short, unready) = (Vec::new(), Vec::new(), Vec::new());
        let (claimed, numbers) = (BTreeMap::new(), BTreeSet::new());
        let state = Mutex::new(PoolState { free, short, claimed, len, unready, numbers });
        let [filling, lengthening] = [(); 2].map(Mutex::new);
        Pool { geometry, store, sink: Arc::clone(sink), state, filling, lengthening }
    }

    /// Registers a file that was found and is not ready for use.
    pub(crate) fn found_unready(&self, number: u32) {
        let mut state = self.state.lock();
        state.numbers.insert(number);
        state.unready.push(number);
    }

    /// Registers a free file that was found, and counts it unless it is shorter than new ones.
    pub(crate) fn found_free(&self, slot: Arc<Slot>, space: &Space) {
        let mut state = self.state.lock();
        state.numbers.insert(slot.number);
        state.put(slot, space);
    }

    /// Registers a file that was found and holds a segment of a partition, and counts it.
    pub(crate) fn found_in_use(&self, slot: &Arc<Slot>, partition: PartitionId, sequence: u64, space: &Space) {
        let mut state = self.state.lock();
        state.numbers.insert(slot.number);
        space.segment_prepared(slot.len());
        let claim = Claim { slot: Some(Arc::clone(slot)), room: self.geometry.room(slot.len()) };
        state.claimed.insert((partition, sequence), claim);
    }

    /// Claims a file for a segment, unless the segment has one. Returns its room, which is at least `needed` for a segment that
    /// had none.
    pub(crate) fn claim(&self, space: &Space, partition: PartitionId, sequence: u64, needed: u64) -> u64 {
        let mut state = self.state.lock();
        if let Some(claim) = state.claimed.get(&(partition, sequence)) {
            return claim.room;
        }
        let slot = state.take(space, self.geometry, needed);
        let room = self.geometry.room(slot.as_ref().map_or(state.len, |slot| slot.len())).max(needed);
        state.claimed.insert((partition, sequence), Claim { slot, room });
        room
    }

    /// Returns the file of a segment that begins; the length of the file that it needs if there is none.
    pub(crate) fn begin(&self, space: &Space, partition: PartitionId, sequence: u64) -> Result<Arc<Slot>, u64> {
        let needed = self.claim(space, partition, sequence, 0);
        let mut state = self.state.lock();
        let claimed = state.claimed.get(&(partition, sequence)).and_then(|claim| claim.slot.clone());
        let slot = claimed.or_else(|| state.take(space, self.geometry, needed));
        let Some(slot) = slot else { return Err(self.geometry.len_for(needed)) };
        // The partition may count on the room that it was promised, and on no more.
        let claim = Claim { slot: Some(Arc::clone(&slot)), room: needed };
        state.claimed.insert((partition, sequence), claim);
        Ok(slot)
    }

    /// Returns the number of bytes of segment files from one offset of a partition to another one.
    pub(crate) fn bytes_between(&self, partition: PartitionId, from: LogOffset, to: LogOffset) -> u64 {
        let state = self.state.lock();
        self.geometry.bytes_between(from, to, |range| {
            let segments = state.claimed.range((partition, range.start)..(partition, range.end));
            segments.map(|(_, claim)| claim.room).sum()
        })
    }

    /// Returns the length of new files.
    pub(crate) fn len(&self) -> u64 {
        self.state.lock().len
    }

    /// Whether a free file is at least as long as `len`.
    pub(crate) fn has_free(&self, len: u64) -> bool {
        self.state.lock().free.iter().any(|slot| slot.len() >= len)
    }

    /// Returns the number of bytes that free files lack to a length of `len`.
    pub(crate) fn missing(&self, len: u64) -> u64 {
        self.state.lock().free.iter().map(|slot| len.saturating_sub(slot.len())).sum()
    }

    /// Removes files that do not count, as long as the log would be larger than its limit with `more` bytes (E16.10b).
    pub(crate) fn remove_short(&self, media: &dyn Media, space: &Space, more: u64) {
        loop {
            let mut state = self.state.lock();
            let short: u64 = state.short.iter().map(|slot| slot.len()).sum();
            if space.has_space_for(short + more) || planted!("short_files_beyond_limit") {
                return;
            }
            let Some(slot) = state.short.pop() else { return };
            drop(state);
            self.remove_slot(media, &slot);
        }
    }

    /// Removes all files that do not count. There are enough others.
    pub(crate) fn remove_all_short(&self, media: &dyn Media) {
        loop {
            // In its own statement: the mutex is free while the file is removed.
            let slot = self.state.lock().short.pop();
            let Some(slot) = slot else { return };
            self.remove_slot(media, &slot);
        }
    }

    fn remove_slot(&self, media: &dyn Media, slot: &Slot) {
        let removed = self.remove(media, &slot.name);
        self.state.lock().forget(slot.number, removed.is_ok());
    }

    /// Returns the file of a segment to the pool for another life.
    pub(crate) fn give_back(&self, partition: PartitionId, sequence: u64, slot: Arc<Slot>, space: &Space) {
        let mut state = self.state.lock();
        state.claimed.remove(&(partition, sequence));
        let (len, is_short) = (slot.len(), slot.len() < state.len);
        if is_short {
            state.short.push(slot);
        } else {
            state.free.push(slot);
        }
        // It counts as prepared already, unless it is too short for that from now on.
        space.segment_freed(len, is_short);
    }

    /// Prepares one more segment file, of at least `least` bytes, and counts it. After an error the file is left for another
    /// attempt. One at a time.
    pub(crate) fn prepare(&self, media: &dyn Media, space: &Space, least: u64) -> io::Result<()> {
        let Some((short, len)) = self.claim_file(space, least) else { return Ok(()) };
        self.remove_short(media, space, 0);
        if let Some(slot) = short {
            let filled = self.fill(media, slot.number, OpenMode::ReadWrite, len);
            let mut state = self.state.lock();
            return match filled {
                Ok(filled) => {
                    state.put_filled(Arc::new(filled), space);
                    Ok(())
                }
                Err(error) => {
                    space.release_bytes(len);
                    // As short as it was, it may still hold the records of a rollback.
                    state.short.push(slot);
                    Err(error)
                }
            };
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
        match self.fill(media, number, mode, len) {
            Ok(slot) => {
                self.state.lock().put_filled(Arc::new(slot), space);
                Ok(())
            }
            Err(error) => {
                space.release_bytes(len);
                // The part written so far would occupy space that other users of the disk need now.
                let removed = self.remove(media, &file_name(number));
                let is_gone = removed.is_ok() || media.open(&file_name(number), OpenMode::Read).is_err();
                self.state.lock().forget(number, is_gone);
                Err(error)
            }
        }
    }

    /// Takes a file to be filled that does not count, if there is one, and counts the bytes that it is to have, at least `least`.
    /// `None`: the limit of the log does not allow it.
    fn claim_file(&self, space: &Space, least: u64) -> Option<(Option<Arc<Slot>>, u64)> {
        let mut state = self.state.lock();
        let short = state.pop_short();
        let before = short.as_ref().map_or(0, |slot| slot.len());
        // A file that was retired may be longer than new ones. None becomes shorter than its header says.
        let kept = if planted!("retired_file_shortened") { 0 } else { before };
        let len = state.len.max(least).max(kept);
        // One that is as long already makes the log no larger; without one of `least` bytes the log cannot continue.
        if len == before || least > 0 {
            space.claim_bytes(len);
        } else if !space.try_claim_bytes(len) {
            state.short.extend(short);
            return None;
        }
        Some((short, len))
    }

    /// Removes a file. The sink forgets it before: after a crash in between it would keep pieces of a file that is gone.
    fn remove(&self, media: &dyn Media, name: &str) -> io::Result<()> {
        if !planted!("removal_unknown_to_sinks") {
            self.sink.removing(name);
        }
        media.remove(name)
    }

    fn fill(&self, media: &dyn Media, number: u32, mode: OpenMode, len: u64) -> io::Result<Slot> {
        let name = file_name(number);
        let file = media.open(&name, mode)?;
        fill_from(media, file, SEGMENT_HEADER_LEN, len)?;
        // The header is written last: a file with a header needs nothing more. The sink has it then, too, and finds no file that
        // has lost its name (E16.10e).
        if !planted!("header_before_name") {
            media.sync_directory(LOG_DIRECTORY)?;
        }
        self.write_free_header(media, &name, file, len)?;
        Ok(Slot::new(number, name, file, len))
    }

    /// Makes the header of a free file stable. The sink may hold the header of an earlier life, whose file was shorter (E16.10c).
    fn write_free_header(&self, media: &dyn Media, name: &str, file: FileId, len: u64) -> io::Result<()> {
        let header = self.header(PartitionId(0), SEQUENCE_NONE, 0, len);
        if planted!("free_headers_unknown_to_sinks") {
            return write_all_at(media, file, 0, &header, Durability::Durable);
        }
        let piece = Piece {
            file: name,
            offset: 0,
            bytes: &header,
            position: Position { partition: PartitionId(0), offset: LogOffset::ZERO },
            first_lsn: Lsn::ZERO,
            last_lsn: Lsn::ZERO,
        };
        self.sink.stabilise(piece, &InFile { media, file, offset: 0, bytes: &header })
    }

    /// Fills the bytes that a free file lacks to a length of `len`, durably. It is as long as before by its header.
    pub(crate) fn fill_more(&self, media: &dyn Media, slot: &Slot, len: u64) -> io::Result<()> {
        // The space is for others; the bytes after the length in the header are never used.
        fill_from(media, slot.file, slot.len(), len).inspect_err(|_| slot.return_space(media))
    }

    /// Writes that a file is longer, after [`Pool::fill_more`], if it is still free; returns whether it is. No segment begins
    /// meanwhile.
    pub(crate) fn note_longer(&self, media: &dyn Media, slot: &Slot, len: u64) -> io::Result<bool> {
        if !self.state.lock().free.iter().any(|free| free.number == slot.number) {
            // A partition has taken it meanwhile, as long as it was.
            slot.return_space(media);
            return Ok(false);
        }
        slot.written_len.fetch_max(len, Ordering::AcqRel);
        self.write_free_header(media, &slot.name, slot.file, len)?;
        slot.len.store(len, Ordering::Release);
        Ok(true)
    }

    /// Sets the length of new files, unless a free one is shorter: returns that one.
    pub(crate) fn set_len(&self, len: u64, space: &Space) -> Option<Arc<Slot>> {
        let mut state = self.state.lock();
        let is_shorter = |slot: &&Arc<Slot>| slot.len() < len && !planted!("longer_before_free_ones");
        let shorter = state.free.iter().find(is_shorter).cloned();
        if shorter.is_none() && state.len < len {
            state.len = len;
            space.set_segment(self.geometry, len);
        }
        shorter
    }

    /// Counts the shortest free file no longer as prepared, if there is one that no reservation needs.
    pub(crate) fn retire(&self, space: &Space) -> bool {
        let mut state = self.state.lock();
        let shortest =
            state.free.iter().enumerate().min_by_key(|(_, slot)| slot.len()).map(|(at, slot)| (at, slot.len()));
        let Some((at, len)) = shortest else { return false };
        let is_retired = space.try_retire(len);
        if is_retired {
            let slot = state.free.remove(at);
            state.short.push(slot);
        }
        is_retired
    }

    /// Returns the first block of a segment file of `len` bytes.
    pub(crate) fn header(&self, partition: PartitionId, sequence: u64, epoch: u32, len: u64) -> AlignedBuf {
        SegmentHeader { partition, store: self.store, sequence, segment_len: len, epoch }.block()
    }
}

impl PoolState {
    /// Forgets a file that was removed; one that could not be removed has to be filled.
    fn forget(&mut self, number: u32, is_gone: bool) {
        if is_gone {
            self.numbers.remove(&number);
        } else {
            self.unready.push(number);
        }
    }

    /// Returns the longest of the files that do not count: one that was retired may need no more space.
    fn pop_short(&mut self) -> Option<Arc<Slot>> {
        let longest = (0..self.short.len()).max_by_key(|&at| self.short[at].len());
        let newest = self.short.len().checked_sub(1);
        let at = if planted!("newest_short_file_filled") { newest } else { longest };
        at.map(|at| self.short.swap_remove(at))
    }

    /// Adds a free file, and counts it unless it is shorter than new ones.
    fn put(&mut self, slot: Arc<Slot>, space: &Space) {
        if slot.len() < self.len {
            self.short.push(slot);
        } else {
            space.segment_prepared(slot.len());
            self.free.push(slot);
        }
    }

    /// Adds a free file as [`put`](PoolState::put) does, whose bytes were claimed.
    fn put_filled(&mut self, slot: Arc<Slot>, space: &Space) {
        if slot.len() < self.len {
            space.release_bytes(slot.len());
            self.short.push(slot);
        } else {
            space.segment_filled();
            self.free.push(slot);
        }
    }

    /// Takes a file with room for `needed` bytes, the oldest one first, so that files wear evenly. When only the files are left
    /// that are kept back from reservations, short ones are taken first, where they suffice.
    fn take(&mut self, space: &Space, geometry: Geometry, needed: u64) -> Option<Arc<Slot>> {
        let first = |slots: &[Arc<Slot>]| slots.iter().position(|slot| geometry.room(slot.len()) >= needed);
        let short = first(&self.short).filter(|_| !planted!("short_files_left"));
        let free = first(&self.free).filter(|_| short.is_none() || self.free.len() as u64 > space.kept_back());
        match (free, short) {
            (Some(at), _) => Some(self.free.remove(at)),
            (None, Some(at)) => {
                let slot = self.short.remove(at);
                space.segment_prepared(slot.len());
                Some(slot)
            }
            (None, None) => None,
        }
    }
}

/// Fills a file with zeros from `from` to `len`, durably.
fn fill_from(media: &dyn Media, file: FileId, from: u64, len: u64) -> io::Result<()> {
    let found = media.len(file)?;
    if found > len {
        media.set_len(file, len)?;
    } else {
        // Only what is missing: a full file system may refuse the rest, though the file has it (A10a).
        media.allocate(file, found, len - found)?;
    }
    media.write_zeros(file, from, len.saturating_sub(from))?;
    media.sync(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LogOptions;
    use crate::sink::SegmentSink;
    use cedrat_media::{Call, Fault, SimDisk};
    use cedrat_sync::explore;

    const GEOMETRY: Geometry = Geometry { segment_len: 4 * SEGMENT_LEN_MIN };

    fn pool(sink: impl Sink + 'static) -> Pool {
        let sink: Arc<dyn Sink> = Arc::new(sink);
        Pool::new(GEOMETRY, [7; 16], &sink, SEGMENT_LEN_MIN)
    }

    fn space() -> Space {
        let space = Space::new(1, 1 << 30, &LogOptions::small());
        space.set_segment(GEOMETRY, SEGMENT_LEN_MIN);
        space
    }

    /// A file is retired that is longer than new ones, and its filling fails. It has the length that a rollback counts on.
    #[test]
    fn retired_file_keeps_its_length() {
        explore(1, 1, || {
            let (pool, space) = (pool(SegmentSink), space());
            let disk = SimDisk::new();
            for len in [2, 2, 2, 4] {
                pool.prepare(&disk, &space, len * SEGMENT_LEN_MIN).expect("the disk works");
            }
            assert!(pool.retire(&space), "no reservation needs it");
            disk.inject(Fault::error(Call::Sync, io::ErrorKind::Other));
            assert!(pool.prepare(&disk, &space, 0).is_err());
            let slot = Arc::clone(&pool.state.lock().short[0]);
            assert_eq!(slot.len(), 2 * SEGMENT_LEN_MIN, "the shortest one");
            assert!(disk.len(slot.file).expect("the disk works") >= slot.len(), "E16.10a");
            pool.prepare(&disk, &space, 0).expect("the disk works");
            assert_eq!(pool.state.lock().free.len(), 4);
        });
    }

    /// On a full disk a retired file can count again, whatever shorter ones have been freed since.
    #[test]
    fn longest_short_file_counts_first() {
        explore(1, 1, || {
            let (pool, space) = (pool(SegmentSink), space());
            let disk = SimDisk::new();
            pool.prepare(&disk, &space, 0).expect("the disk works");
            space.segment_taken(PartitionId(0), 0);
            let in_use = pool.begin(&space, PartitionId(0), 0).expect("there is a file");
            assert!(pool.set_len(2 * SEGMENT_LEN_MIN, &space).is_none(), "no free one is shorter");
            (0..3).for_each(|_| pool.prepare(&disk, &space, 0).expect("the disk works"));
            assert!(pool.retire(&space), "no reservation needs it");
            pool.give_back(PartitionId(0), 0, in_use, &space);
            disk.set_capacity(Some(disk.space()));
            pool.prepare(&disk, &space, 0).expect("E16.10: the retired file has the space that it needs");
            assert!(pool.prepare(&disk, &space, 0).is_err(), "the other one has not");
        });
    }

    /// Writes, and fails then.
    #[derive(Debug)]
    struct WritesAndFails;

    impl Sink for WritesAndFails {
        fn stabilise(&self, _piece: Piece<'_>, local: &dyn crate::sink::Local) -> io::Result<()> {
            local.write(Durability::Durable)?;
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    /// The write of a header fails, but may have reached the disk. The next attempt fails, too: the file has its length by either
    /// header, so that an opening finds it prepared.
    #[test]
    fn file_has_length_of_failed_header() {
        explore(1, 1, || {
            let (works, fails, space) = (pool(SegmentSink), pool(WritesAndFails), space());
            let disk = SimDisk::new();
            let len = 2 * SEGMENT_LEN_MIN;
            works.prepare(&disk, &space, 0).expect("the disk works");
            let slot = works.set_len(len, &space).expect("it is shorter");
            fails.found_free(Arc::clone(&slot), &space);
            fails.fill_more(&disk, &slot, len).expect("the disk works");
            assert!(fails.note_longer(&disk, &slot, len).is_err());
            disk.inject(Fault::error(Call::Sync, io::ErrorKind::Other));
            assert!(fails.fill_more(&disk, &slot, len).is_err());
            let mut bytes = vec![0; BLOCK_UNIT];
            cedrat_media::read_exact_at(&disk, slot.file, 0, &mut bytes).expect("it is there");
            let crate::block::SegmentHead::Whole(header) = SegmentHeader::decode(&bytes) else { panic!("no header") };
            assert_eq!(header.segment_len, len, "the write reached the disk");
            assert!(disk.len(slot.file).expect("the disk works") >= len, "E16.10");
        });
    }

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
