//! Creating a log, looking at one, and beginning a new epoch in it.

use cedrat_media::{AlignedBuf, Durability, LockGuard, Media, OpenMode, read_exact_at, write_all_at};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex, OwnWord, planted};

use crate::backwards::Backwards;
use crate::block::{BLOCK_UNIT, SEQUENCE_NONE};
use crate::checksum::StoreId;
use crate::clock::Clock;
use crate::control::{self, CONTROL_FILE, Checkpoint, Control, ControlFile, ControlPartition};
use crate::entries::DirectoryLock;
use crate::epoch::{Epoch, Epochs};
use crate::error::LogError;
use crate::log::{ControlState, Log, RUNNING, Shared, add_names};
use crate::look::{self, Ends, Files};
use crate::moments;
use crate::opening::Lock;
use crate::options::LogOptions;
use crate::partition::{Constants, Partition};
use crate::read::{Blocks, Faults, Reader};
use crate::record::BODY_LEN_CEILING;
use crate::record::Record;
use crate::scan::{self, Scan};
use crate::segment::{Geometry, InUse, LOG_DIRECTORY, Pool, SEGMENT_HEADER_LEN, Slot};
use crate::sink::{InFile, Piece, Sink};
use crate::space::Space;
use crate::ticket::Tickets;
use crate::verdict::Head;
use crate::writer::WriterState;
use crate::{LogOffset, Lsn, PartitionId, Position};

/// The largest epoch number: numbers have 32 bits, and are never reused.
const EPOCHS_MAX: u32 = u32::MAX - 1;

/// The log of a store, before anything is written to it.
#[derive(Debug)]
pub struct Found {
    media: Arc<dyn Media>,
    control: Control,
    reader: Arc<Reader>,
    ends: Ends,
    /// A scan over everything has found no damage.
    complete: Arc<AtomicBool>,
}

/// Creates the log of a new store.
pub(crate) fn create(
    media: &Arc<dyn Media>,
    options: &LogOptions,
    names: &[&str],
    lock: Lock<'_>,
) -> Result<Log, LogError> {
    options.check_fixed()?;
    options.check(options.partitions, options.segment_len)?;
    check_absent(media)?;
    let begins = vec![LogOffset::ZERO; usize::from(options.partitions)];
    let epoch = Epoch::new(1, Lsn::new(1), Lsn::MAX, begins.clone());
    let nothing = ControlPartition { scan_from: LogOffset::ZERO, durable_below: LogOffset::ZERO, segments_begun: 0 };
    let mut control = Control {
        store: options.store.unwrap_or_else(random_store_id),
        page_len: options.page_len,
        segment_len: options.segment_len,
        generation: 1,
        checkpoint: Checkpoint { redo_lsn: Lsn::new(1), scan_lsn: Lsn::new(1), next_txn: 1 },
        promise: Lsn::ZERO,
        partitions: vec![nothing; begins.len()],
        epochs: Epochs { list: vec![epoch] },
        names: Vec::new(),
        schemas: Vec::new(),
        moments_file: 0,
    };
    add_names(&mut control, names)?;
    let taken = lock.take(&**media)?;
    let has_control = lock.held().or(taken.as_ref()).is_some_and(DirectoryLock::has_control);
    check_absent(media)?; // another creation may have come first
    let (file, lock_of_control) = ControlFile::create(&**media, has_control)?;
    file.write(&**media, &control)?;
    let ends = Ends {
        end: Lsn::new(1),
        seen: Lsn::ZERO,
        stops: begins.clone(),
        promised: begins.clone(),
        index: vec![Vec::new(); begins.len()],
    };
    let (in_use, files) = look::files(&**media, &control, OpenMode::ReadWrite)?;
    let reader = look::reader(media, &control, in_use, faults(options));
    reader.opening.keep(Some(LockGuard::new((taken, lock_of_control))));
    build(media, options, ControlState { file, control }, Arc::new(reader), files, &ends)
}

fn check_absent(media: &Arc<dyn Media>) -> Result<(), LogError> {
    match open_control(media, OpenMode::Read) {
        Err(LogError::Absent { .. }) => Ok(()),
        Ok(_) => Err(LogError::AlreadyThere { file: CONTROL_FILE.into() }),
        Err(other) => Err(other),
    }
}

impl Found {
    pub(crate) fn look(media: &Arc<dyn Media>) -> Result<Found, LogError> {
        Found::look_with(media, Faults::default())
    }

    /// Looks with the planted fault of `options`, if it concerns reading.
    #[cfg(feature = "planted-faults")]
    pub fn look_faulty(media: &Arc<dyn Media>, options: &LogOptions) -> Result<Found, LogError> {
        Found::look_with(media, faults(options))
    }

    fn look_with(media: &Arc<dyn Media>, faults: Faults) -> Result<Found, LogError> {
        Found::look_to(media, faults, look::ends)
    }

    /// Looks at an archive, as far as its control file names it.
    pub(crate) fn look_archive(media: &Arc<dyn Media>) -> Result<Found, LogError> {
        let ends = if planted!("unfinished_extension_restored") { look::ends } else { look::archived_ends };
        Found::look_to(media, Faults::default(), ends)
    }

    /// Looks at a log that another process may be writing, from the scan point of `control` on. All records up to `known` are
    /// there.
    pub(crate) fn look_beside(media: &Arc<dyn Media>, control: Control, known: Lsn) -> Result<Found, LogError> {
        Found::look_with_control(media, control, Faults::default(), |reader, control| {
            look::ends_beside(reader, control, known)
        })
    }

    /// Looks at a log with this control file.
    pub(crate) fn look_at(media: &Arc<dyn Media>, control: Control) -> Result<Found, LogError> {
        Found::look_with_control(media, control, Faults::default(), look::ends)
    }

    fn look_to(
        media: &Arc<dyn Media>,
        faults: Faults,
        ends: fn(&Arc<Reader>, &Control) -> Result<Ends, LogError>,
    ) -> Result<Found, LogError> {
        let (_, control) = open_control(media, OpenMode::Read)?;
        Found::look_with_control(media, control, faults, ends)
    }

    fn look_with_control(
        media: &Arc<dyn Media>,
        control: Control,
        faults: Faults,
        ends: impl FnOnce(&Arc<Reader>, &Control) -> Result<Ends, LogError>,
    ) -> Result<Found, LogError> {
        let (in_use, _) = look::files(&**media, &control, OpenMode::Read)?;
        let reader = Arc::new(look::reader(media, &control, in_use, faults));
        let ends = ends(&reader, &control)?;
        let media = Arc::clone(media);
        Ok(Found { media, control, reader, ends, complete: Arc::new(AtomicBool::new(false)) })
    }

    /// Returns the content of the control file.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns the LSN after the last one that counts. Only a finished [`Found::scan`] proves that all before it are
    /// present.
    pub fn end_lsn(&self) -> Lsn {
        self.ends.end
    }

    /// Returns the end of each partition: everything before it is valid blocks.
    pub fn ends(&self) -> &[LogOffset] {
        &self.ends.stops
    }

    /// Returns all records that count, from `from` on or from the checkpoint's scan LSN on, in the order of LSNs.
    pub fn scan(&self, from: Lsn) -> Result<Scan, LogError> {
        self.scan_since(from, self.control.checkpoint.scan_lsn)
    }

    /// Returns all records that count, from `from` on, as [`scan`](Found::scan) does, but also those that recovery does not need.
    ///
    /// # Errors
    /// [`LogError::Damaged`], of this call or of the scan, also if the log was not kept from there on.
    pub fn scan_kept(&self, from: Lsn) -> Result<Scan, LogError> {
        self.scan_since(from, from)
    }

    fn scan_since(&self, from: Lsn, oldest: Lsn) -> Result<Scan, LogError> {
        let needed = self.control.checkpoint.scan_lsn.max(Lsn::new(1));
        let from = from.max(oldest).max(Lsn::new(1));
        let mut places = Vec::new();
        for (index, &stop) in self.ends.stops.iter().enumerate() {
            places.push((self.first_block(PartitionId(index as u16), from), stop));
        }
        let complete = (from == needed).then(|| Arc::clone(&self.complete));
        let bounds = scan::Bounds { from, end: self.ends.end, places };
        Scan::new(&self.reader, bounds, complete)
    }

    /// Returns the offset of a block of a partition: all of its records from an LSN on are in this block or later.
    pub(crate) fn first_block(&self, partition: PartitionId, from: Lsn) -> LogOffset {
        let (index, known) = (&self.ends.index[partition.index()], &self.control.partitions[partition.index()]);
        let after = index.partition_point(|&(first, _)| first <= from);
        after.checked_sub(1).map_or(known.scan_from, |at| index[at].1)
    }

    /// Whether a log may begin at this place with an LSN: the blocks before it, if there are any, end there and have only older records.
    pub(crate) fn begins_at(&self, begin: Position, lsn: Lsn) -> Result<bool, LogError> {
        let (partition, index) = (begin.partition, begin.partition.index());
        let (mut at, stop) = (self.control.partitions[index].scan_from, self.ends.stops[index]);
        while at < begin.offset && at < stop {
            let header = self.reader.header(Position { partition, offset: at })?;
            at = header.end();
            if at > begin.offset || !header.is_empty() && header.last_lsn >= lsn {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses an archive, which is no log to be opened.
    ///
    /// # Errors
    /// [`LogError::Foreign`]; [`LogError::Io`].
    pub fn refuse_archive(&self) -> Result<(), LogError> {
        let names = self.media.list("").map_err(|error| LogError::io("listing the log's directory", error))?;
        if names.iter().any(|name| moments::file_number(name).is_some()) {
            let (found, wanted) = ("an archive", "a log, or a backup");
            return Err(LogError::Foreign { file: self.control_path(), found, wanted });
        }
        Ok(())
    }

    /// Returns the path of the control file, for errors.
    pub(crate) fn control_path(&self) -> String {
        let file = self.media.open(CONTROL_FILE, OpenMode::Read);
        file.map_or_else(|_| CONTROL_FILE.into(), |file| self.media.path(file))
    }

    pub(crate) fn media(&self) -> &Arc<dyn Media> {
        &self.media
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the blocks of a partition, up to its end.
    pub(crate) fn blocks(&self, partition: PartitionId) -> Blocks {
        Blocks::new(&self.reader, partition, self.ends.stops[partition.index()])
    }

    /// Returns the end of the last block of a partition that has a record up to an LSN. Empty blocks after it may be of later epochs.
    pub(crate) fn end_before(&self, partition: PartitionId, last: Lsn) -> Result<LogOffset, LogError> {
        let (index, stop) = (&self.ends.index[partition.index()], self.ends.stops[partition.index()]);
        let after = index.partition_point(|&(first, _)| first <= last);
        let known = self.control.partitions[partition.index()].scan_from;
        let mut end = after.checked_sub(1).map_or(known, |at| index[at].1);
        let mut at = end;
        while at < stop {
            let header = self.reader.header(Position { partition, offset: at })?;
            at = header.end();
            if !header.is_empty() && header.first_lsn > last {
                break;
            }
            if !header.is_empty() {
                end = at;
            }
        }
        Ok(end)
    }

    /// Returns two ends of a partition: that of the blocks without a record after an LSN, and that of the blocks with a record up to it.
    pub(crate) fn ends_up_to(&self, partition: PartitionId, last: Lsn) -> Result<(LogOffset, LogOffset), LogError> {
        let stop = self.ends.stops[partition.index()];
        let mut whole = self.first_block(partition, last);
        let mut end = whole;
        while end < stop {
            let header = self.reader.header(Position { partition, offset: end })?;
            if !header.is_empty() && header.first_lsn > last {
                break;
            }
            end = header.end();
            if !header.is_empty() && header.last_lsn > last {
                break;
            }
            whole = end;
        }
        Ok((whole, end))
    }

    /// Reads one record.
    pub fn read(&self, position: Position) -> Result<Record, LogError> {
        self.backwards(position).read_one()
    }

    /// Returns one transaction's records in one partition, newest first, beginning with the one at `from`.
    pub fn backwards(&self, from: Position) -> Backwards {
        Backwards::new(&self.reader, None, from)
    }

    /// Returns the file in which a record's frame begins, and its offset there, for people and tools.
    pub fn place(&self, position: Position) -> (String, u64) {
        self.reader.place(position)
    }

    /// Durably begins a new epoch and opens the log for appending. `names` that the control file lacks are
    /// added to it; [`Log::names`] returns their numbers.
    ///
    /// Reads the whole log first, unless a [`Found::scan`] from the oldest record has reached its end.
    ///
    /// # Errors
    ///
    /// [`LogError::InUse`] while another opening has the directory. Until the control file is written nothing has
    /// changed; if writing it fails, look again.
    pub fn begin(self, names: &[&str], options: &LogOptions) -> Result<Log, LogError> {
        self.begin_with(Lock::Take, names, options)
    }

    /// Begins an epoch as [`Found::begin`] does, for a caller that holds the directory's [lock](crate::lock), and
    /// keeps it until the log is [closed](Log::close).
    ///
    /// # Errors
    ///
    /// The errors of [`Found::begin`].
    pub fn begin_locked(self, held: &DirectoryLock, names: &[&str], options: &LogOptions) -> Result<Log, LogError> {
        self.begin_with(Lock::Held(held), names, options)
    }

    fn begin_with(self, lock: Lock<'_>, names: &[&str], options: &LogOptions) -> Result<Log, LogError> {
        let Found { media, ends, .. } = &self;
        self.refuse_archive()?;
        let mut control = self.control.clone();
        options.check(control.partitions.len() as u16, control.segment_len)?;
        if !self.complete.load(Ordering::Acquire) {
            let mut scan = self.scan(Lsn::ZERO)?;
            while scan.next()?.is_some() {}
        }
        let is_locked_late = matches!(lock, Lock::Take);
        let taken = lock.take(&**media)?;
        let is_locked = lock.held().is_none_or(DirectoryLock::has_control);
        let lock_of_control = control::lock_unless(is_locked, &**media)?;
        let (file, now) = ControlFile::open(&**media, OpenMode::ReadWrite)?;
        if now.generation != control.generation {
            let what = "another process has changed the control file since it was read";
            return Err(LogError::Options { option: "control", what: what.into() });
        }
        // Another opening may have appended records between the look and the lock. They would be cut off.
        if is_locked_late && look::ends(&self.reader, &control)?.stops != ends.stops {
            let what = "another opening has appended records since the log was read; open the store again";
            return Err(LogError::Options { option: "control", what: what.into() });
        }
        let (in_use, mut files) = look::files(&**media, &control, OpenMode::ReadWrite)?;
        let last = control.epochs.newest().map_or(0, |epoch| epoch.number);
        if last >= EPOCHS_MAX {
            let what = "openings of this store";
            return Err(LogError::Limit { what, given: u64::from(last) + 1, limit: u64::from(EPOCHS_MAX) });
        }
        // The bytes read may be in a cache that a power cut clears; the new epoch promises that they stay (R6).
        file.settle(&**media, &self.control)?;
        let settling = Settling { media: &**media, options, reader: &self.reader, in_use: &in_use };
        settling.settle(&control, ends, &files)?;
        let number = begin_epoch(&mut control, ends, &in_use, faults(options));
        add_names(&mut control, names)?;
        control.join_epochs();
        control.generation += 1;
        if !planted!("epoch_not_written") {
            file.write(&**media, &control)?;
        }
        debug_assert_eq!(control.epochs.newest().map(|epoch| epoch.number), Some(number));
        give_back_behind(&**media, options, &control, ends, &in_use, &mut files)?;
        let reader = Arc::new(look::reader(media, &control, in_use, faults(options)));
        reader.opening.keep(Some(LockGuard::new((taken, lock_of_control))));
        build(media, options, ControlState { file, control }, reader, files, ends)
    }
}

/// Ends the newest epoch at the ends found, and adds the next one (E1.1, E1.2). Returns its number.
fn begin_epoch(control: &mut Control, ends: &Ends, in_use: &[InUse], faults: Faults) -> u32 {
    let epochs = &mut control.epochs.list;
    let number = epochs.last().map_or(1, |epoch| epoch.number + 1);
    let first =
        if faults.any_epoch || planted!("numbers_used_again") { ends.end } else { ends.seen.next().max(ends.end) };
    if let Some(newest) = epochs.last_mut() {
        newest.end = ends.end;
        if newest.first == newest.end && newest.begins == ends.stops {
            epochs.pop(); // nothing of it was kept: repeated crashes do not fill the table
        }
    }
    epochs.push(Epoch::new(number, first, Lsn::MAX, ends.stops.clone()));
    control.promise = first.previous();
    let geometry = Geometry { segment_len: control.segment_len };
    for ((known, &stop), in_use) in control.partitions.iter_mut().zip(&ends.stops).zip(in_use) {
        let sequence = geometry.sequence(stop);
        known.durable_below = stop;
        known.segments_begun = known.segments_begun.min(sequence + 1); // see `give_back_behind`
        if in_use.read().contains_key(&sequence) {
            known.segments_begun = sequence + 1; // its header was found, and is durable now (W8)
        }
    }
    number
}

/// Makes durable the part of the log that an opening found and continues (R6).
///
/// The process that wrote it may have ended before it was durable, or because a write or sync of it failed and was
/// forgotten (A9). No promise covers it; the new epoch promises it.
struct Settling<'a> {
    media: &'a dyn Media,
    options: &'a LogOptions,
    reader: &'a Arc<Reader>,
    in_use: &'a [InUse],
}

impl Settling<'_> {
    fn settle(&self, control: &Control, ends: &Ends, files: &Files) -> Result<(), LogError> {
        let doing = |error| LogError::io("syncing the names of the log's files", error);
        self.media.sync_directory("").map_err(doing)?;
        // An earlier version, which was killed, may have written the header of a file whose name was not durable yet.
        if !self.media.list(LOG_DIRECTORY).map_err(doing)?.is_empty() {
            self.media.sync_directory(LOG_DIRECTORY).map_err(doing)?;
        }
        let sync = |slot: &Slot| {
            self.media.sync(slot.file).map_err(|error| LogError::io(format!("syncing {}", slot.name), error))
        };
        if !planted!("free_segments_not_settled") {
            // A synced write of a block makes the file only as long as it has to be for this block.
            files.free.iter().try_for_each(|slot| sync(slot))?;
        }
        for (index, in_use) in self.in_use.iter().enumerate() {
            // Also blocks that a sink holds stable elsewhere, and that are only in the cache here.
            in_use.read().values().try_for_each(|slot| sync(slot))?;
            if omits_tail(self.options) {
                continue;
            }
            let partition = PartitionId(index as u16);
            let known = control.partitions[index];
            self.settle_partition(partition, known, ends.promised[index].max(known.scan_from), ends.stops[index])?;
        }
        for slot in &files.given_back {
            let position = Position { partition: PartitionId(0), offset: LogOffset::ZERO };
            self.write_again(slot, 0, BLOCK_UNIT, position, (Lsn::ZERO, Lsn::ZERO))?;
        }
        Ok(())
    }

    /// Writes the bytes from `from` to `stop` again: blocks, and the headers of segments that the control file does
    /// not know yet.
    fn settle_partition(
        &self,
        partition: PartitionId,
        known: ControlPartition,
        from: LogOffset,
        stop: LogOffset,
    ) -> Result<(), LogError> {
        let geometry = self.reader.geometry;
        let in_use = self.in_use[partition.index()].read();
        let unknown = |sequence: u64| known.segments_begun <= sequence && sequence <= geometry.sequence(stop);
        for (&sequence, slot) in in_use.iter().filter(|(sequence, _)| unknown(**sequence)) {
            let position = Position { partition, offset: geometry.begin(sequence) };
            self.write_again(slot, 0, BLOCK_UNIT, position, (Lsn::ZERO, Lsn::ZERO))?;
        }
        let mut blocks = Blocks::new(self.reader, partition, stop);
        let mut at = from;
        while at < stop {
            let position = Position { partition, offset: at };
            let (Head::Whole, Some(header)) = blocks.head(at)? else {
                return Err(self.reader.damaged(position, "a block that was whole when it was looked at is gone"));
            };
            let Some(slot) = in_use.get(&geometry.sequence(at)) else {
                return Err(self.reader.damaged(position, "the segment file is gone"));
            };
            let len = (header.used as usize).next_multiple_of(BLOCK_UNIT);
            self.write_again(slot, geometry.in_file(at), len, position, (header.first_lsn, header.last_lsn))?;
            at = header.end();
        }
        Ok(())
    }

    fn write_again(
        &self,
        slot: &Slot,
        offset: u64,
        len: usize,
        position: Position,
        (first_lsn, last_lsn): (Lsn, Lsn),
    ) -> Result<(), LogError> {
        let mut bytes = AlignedBuf::zeroed(len);
        let io = |error| LogError::io(format!("writing {} again at offset {offset}", slot.name), error);
        read_exact_at(self.media, slot.file, offset, &mut bytes).map_err(io)?;
        let piece = Piece { file: &slot.name, offset, bytes: &bytes, position, first_lsn, last_lsn };
        let local = InFile { media: self.media, file: slot.file, offset, bytes: &bytes };
        self.options.sink.stabilise(piece, &local).map_err(io)
    }
}

/// Prepares segments after the end of their partition for another life.
///
/// Nothing in them counts, but unchanged they could serve only their own partition, and reserved space must serve
/// every partition (E16.1). This step follows the new epoch, which begins above every LSN seen in them (E1.2); if a
/// crash interrupts it, the next opening finds them after the end again.
fn give_back_behind(
    media: &dyn Media,
    options: &LogOptions,
    control: &Control,
    ends: &Ends,
    in_use: &[InUse],
    files: &mut Files,
) -> Result<(), LogError> {
    let geometry = Geometry { segment_len: control.segment_len };
    let pool = Pool::new(geometry, control.store, &options.sink, geometry.segment_len);
    // It names the epoch that freed it: until the next one has begun, the header may be in a cache, and the one
    // before on the disk.
    let epoch = control.epochs.newest().map_or(0, |epoch| epoch.number);
    let zeros = AlignedBuf::zeroed(BLOCK_UNIT);
    for (index, (in_use, &stop)) in in_use.iter().zip(&ends.stops).enumerate() {
        let behind = in_use.write().split_off(&(geometry.sequence(stop) + 1));
        for (sequence, slot) in behind {
            let io = |error| LogError::io(format!("giving back {}", slot.name), error);
            let header = pool.header(PartitionId(0), SEQUENCE_NONE, epoch, slot.len());
            // The first block is cleared before the header: after an unusable header it would look like a loss (W8).
            write_all_at(media, slot.file, SEGMENT_HEADER_LEN, &zeros, Durability::Durable).map_err(io)?;
            let piece = Piece {
                file: &slot.name,
                offset: 0,
                bytes: &header,
                position: Position { partition: PartitionId(index as u16), offset: geometry.begin(sequence) },
                first_lsn: Lsn::ZERO,
                last_lsn: Lsn::ZERO,
            };
            let local = InFile { media, file: slot.file, offset: 0, bytes: &header };
            options.sink.stabilise(piece, &local).map_err(io)?;
            files.free.push(slot);
        }
    }
    Ok(())
}

/// Assembles an open log.
fn build(
    media: &Arc<dyn Media>,
    options: &LogOptions,
    state: ControlState,
    reader: Arc<Reader>,
    files: Files,
    ends: &Ends,
) -> Result<Log, LogError> {
    let control = &state.control;
    let geometry = Geometry { segment_len: control.segment_len };
    let epoch = control.epochs.newest().expect("an epoch was begun");
    let count = control.partitions.len() as u16;
    let bytes_max = options.log_bytes_max / control.segment_len * control.segment_len;
    let space = Arc::new(Space::new(count, bytes_max, options));
    let pool = pool_of(&reader, control.store, &options.sink, files, (&space, &ends.stops));
    let mut partitions = Vec::new();
    for (index, &stop) in ends.stops.iter().enumerate() {
        let id = PartitionId(index as u16);
        let constants = Constants {
            partition: id,
            geometry,
            block_seed: reader.block_seeds[index],
            epoch: epoch.number,
            block_len_max: options.block_len_max.min(geometry.capacity() as usize),
            spare_buffers: spare_buffers(options),
            space: Arc::clone(&space),
            pool: Arc::clone(&pool),
        };
        let partition = Partition::new(id, stop, epoch.first.previous(), constants);
        let mut tail = partition.tail.lock();
        ends.index[index].iter().for_each(|&(first, offset)| tail.index_found(first, offset));
        drop(tail);
        for &sequence in reader.in_use[index].read().keys() {
            if sequence < geometry.sequence(stop) {
                space.segment_found();
            }
        }
        partitions.push(partition);
    }
    let shared = Shared {
        media: Arc::clone(media),
        options: options.clone(),
        epoch: epoch.number,
        clock: Clock::new(epoch.first.previous()),
        body_len_max: BODY_LEN_CEILING.min(geometry.capacity() as usize / 8),
        partitions,
        reader,
        pool,
        space,
        control: Mutex::new(state),
        tickets: Tickets::default(),
        writer: WriterState::new(count),
        state: OwnWord::new(RUNNING),
        stopped: Mutex::new(None),
        is_read_only: AtomicBool::new(false),
        #[cfg(feature = "counts")]
        writes: Default::default(),
        #[cfg(feature = "planted-faults")]
        fault: options.fault,
    };
    Ok(Log::from_shared(Arc::new(shared)))
}

/// Registers the segment files. New ones become as long as the longest ones of which there are enough for a reservation: a
/// crash, or a full disk, may have left a few that are longer than the others (E16.10f).
fn pool_of(
    reader: &Reader,
    store: StoreId,
    sink: &Arc<dyn Sink>,
    files: Files,
    (space, stops): (&Space, &[LogOffset]),
) -> Arc<Pool> {
    let geometry = reader.geometry;
    let in_use: Vec<_> = reader.in_use.iter().map(|in_use| in_use.read()).collect();
    let begun =
        in_use.iter().zip(stops).filter(|(in_use, stop)| in_use.contains_key(&geometry.sequence(**stop))).count();
    let mut free: Vec<_> = files.free.iter().map(|slot| slot.len()).collect();
    free.sort_unstable_by(|one, other| other.cmp(one));
    let enough =
        free.get(stops.len() - begun + space.kept_back() as usize).filter(|_| !planted!("few_files_set_length"));
    let longest = || in_use.iter().flat_map(|in_use| in_use.values()).chain(&files.free).map(|slot| slot.len()).max();
    let len = enough.copied().or_else(longest).unwrap_or(0).max(geometry.first_len());
    space.set_segment(geometry, len);
    let pool = Pool::new(geometry, store, sink, len);
    for (index, in_use) in in_use.iter().enumerate() {
        let partition = PartitionId(index as u16);
        in_use.iter().for_each(|(&sequence, slot)| pool.found_in_use(slot, partition, sequence, space));
    }
    files.free.into_iter().for_each(|slot| pool.found_free(slot, space));
    files.unready.into_iter().for_each(|number| pool.found_unready(number));
    Arc::new(pool)
}

/// Returns the number of buffers that are kept for the next blocks of a partition.
fn spare_buffers(options: &LogOptions) -> usize {
    let unwritten = options.unwritten_max as usize / options.block_len_max;
    options.writes_in_flight.max(unwritten).saturating_add(2)
}

/// Opens the control file; `Absent` if no creation ever completed it.
pub(crate) fn open_control(media: &Arc<dyn Media>, mode: OpenMode) -> Result<(ControlFile, Control), LogError> {
    match ControlFile::open(&**media, mode) {
        // The log's directory is created after the control file is complete.
        Err(LogError::Damaged { file, .. }) if ControlFile::is_unfinished(&**media)? && has_no_segments(media)? => {
            Err(LogError::Absent { file })
        }
        opened => opened,
    }
}

fn has_no_segments(media: &Arc<dyn Media>) -> Result<bool, LogError> {
    let names = media.list(LOG_DIRECTORY).map_err(|error| LogError::io("listing the log's directory", error))?;
    Ok(names.is_empty())
}

#[cfg_attr(not(feature = "planted-faults"), allow(unused_variables))]
fn faults(options: &LogOptions) -> Faults {
    let is_passed_over = planted!("holes_passed_over");
    #[cfg(feature = "planted-faults")]
    return Faults {
        any_epoch: options.fault == Some(crate::Fault::StaleEpochAccepted),
        over_holes: options.fault == Some(crate::Fault::HolesPassedOver) || is_passed_over,
    };
    #[cfg(not(feature = "planted-faults"))]
    Faults { over_holes: is_passed_over, ..Faults::default() }
}

#[cfg_attr(not(feature = "planted-faults"), allow(unused_variables))]
fn omits_tail(options: &LogOptions) -> bool {
    #[cfg(feature = "planted-faults")]
    return options.fault == Some(crate::Fault::TailOnlySynced);
    #[cfg(not(feature = "planted-faults"))]
    false
}

/// Returns an identifier that no other store has, from the randomness that seeds the standard library's hash maps.
fn random_store_id() -> StoreId {
    use std::hash::{BuildHasher, RandomState};
    let mut store = [0; 16];
    for half in store.chunks_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(std::process::id()).to_le_bytes());
    }
    store
}
