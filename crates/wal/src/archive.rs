//! Archives: copies of a log that are extended while it is in use, and keep the records that it has recycled (Lemon §3.4).
//!
//! 1. An archive has the files of a log. [`FoundArchive::look`] reads it up to the end that its control file names.
//! 2. The log recycles no segment with a block that the archive lacks, if its owner passes [`LogArchive::kept_from`] to
//!    [`Log::truncate_before`].
//! 3. Only durable blocks are archived. Their promises are lowered as in a [copy](crate::LogCopy): none names a record that
//!    was not durable in the archive before.
//! 4. The control file of the archive is written when the blocks that it names are durable. A crash before that leaves the archive
//!    as it was.
//! 5. A log continues where its last opening has ended, and keeps all blocks that were durable then. A log that lacks the newest
//!    archived blocks, or has others in their place, was restored from an older copy: its history is another one, and needs another
//!    archive.
//! 6. An archive forgets its beginning only on request ([`LogArchive::forget`]).

use cedrat_media::{Durability, FileId, LockGuard, Media, OpenMode, write_all_at};
use cedrat_sync::{Arc, RwLock, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Range;
use std::time::SystemTime;

use crate::backwards::RecordsAt;
use crate::block::SegmentHeader;
use crate::checksum::StoreId;
use crate::control::{CONTROL_FILE, Control, ControlFile};
use crate::copy::{are_same, has_same_records, refuse_other_files};
use crate::entries::{DirectoryLock, LOCK_FILE, lock};
use crate::epoch::{Epoch, Epochs};
use crate::feed::{LogPiece, LogState, LogToArchive, compared_ranges, may_continue};
use crate::index::{INDEX_DIRECTORY, Indexed};
use crate::look;
use crate::moments::{MOMENTS_FILE, Moment, Moments, descriptions_around};
use crate::open::{Found, open_control};
use crate::read::{Blocks, Faults, Reader};
use crate::scan;
use crate::segment::{Geometry, LOG_DIRECTORY, Slot, file_name};
use crate::{LogError, LogOffset, Lsn, PartitionId, Position, RecordRef};

/// An open archive of a log, which can be extended.
#[derive(Debug)]
pub struct LogArchive {
    pub(crate) to: Arc<dyn Media>,
    file: ControlFile,
    pub(crate) control: Control,
    pub(crate) moments: Moments,
    /// By partition and sequence number.
    pub(crate) segments: BTreeMap<(PartitionId, u64), Arc<Slot>>,
    /// The keys of segments that an earlier opening has left without a block that counts.
    left: BTreeSet<(PartitionId, u64)>,
    /// The numbers of forgotten segment files, which may not have been removed yet.
    pub(crate) forgotten: BTreeSet<u32>,
    /// The number of the next segment file.
    next: u32,
    /// For each partition, the offset behind the blocks that were appended, also by an extension that is not complete.
    pub(crate) pending: Vec<LogOffset>,
    /// The files with blocks that are not durable yet.
    changed: BTreeSet<FileId>,
    _lock: (DirectoryLock, Option<LockGuard>),
}

/// The state of an archive when it was read.
#[derive(Debug)]
pub struct FoundArchive {
    pub(crate) found: Found,
    pub(crate) moments: Vec<Moment>,
}

impl LogArchive {
    /// Opens the archive of a log, or begins it in an empty directory: it then begins with the first record that the log keeps now.
    ///
    /// # Errors
    /// [`LogError::Foreign`]: it is of another store, or this log was restored and lacks records that the archive has.
    /// [`LogError::ArchiveGap`]: the log has recycled records that the archive lacks. [`LogError::AlreadyThere`]: the
    /// directory has files that are not an archive. [`LogError::InUse`], [`LogError::Damaged`], [`LogError::Io`].
    pub fn open<'l>(to: &Arc<dyn Media>, log: impl Into<LogToArchive<'l>>) -> Result<LogArchive, LogError> {
        let log = log.into();
        let lock = lock(&**to)?;
        let (file, control) = match open_control(to, OpenMode::ReadWrite) {
            Err(LogError::Absent { .. }) => return LogArchive::begin(to, lock, log.state.control),
            opened => opened?,
        };
        let (mut archive, reader) = LogArchive::opened(to, file, control, lock)?;
        let reader = Arc::new(reader);
        archive.continue_with(&log.state, &reader, |archived| has_same_blocks(&reader, archived, &log))?;
        Ok(archive)
    }

    /// Begins the archive of a backup's store in an empty directory, with all records of the backup's log. A log that continues the
    /// backup extends it. `moment` describes the store at the end of the backup, and has a time from before it.
    ///
    /// # Errors
    /// [`LogError::AlreadyThere`]: the directory has files. [`LogError::InUse`], [`LogError::Damaged`], [`LogError::Io`].
    pub fn begin_with(to: &Arc<dyn Media>, backup: &Found, moment: Moment) -> Result<LogArchive, LogError> {
        let lock = lock(&**to)?;
        let mut archive = LogArchive::begin(to, lock, backup.control().clone())?;
        if planted!("log_of_base_not_archived") {
            return Ok(archive);
        }
        let log = LogToArchive::from(backup);
        let state = log.copy_since(&archive.position(), u64::MAX, &mut |piece| archive.append(&piece))?;
        archive.complete(&state, Some(moment))?;
        Ok(archive)
    }

    /// Checks that a log of this state continues the archive, which `reader` reads. `has_same_blocks` compares the newest archived blocks
    /// with those of the log.
    pub(crate) fn continue_with(
        &mut self,
        log: &LogState,
        reader: &Arc<Reader>,
        has_same_blocks: impl FnOnce(&Control) -> Result<bool, LogError>,
    ) -> Result<(), LogError> {
        self.restart();
        let (control, now) = (&self.control, &log.control);
        let path = self.file.path(&*self.to);
        let of_other = |found, wanted| Err(LogError::Foreign { file: path.clone(), found, wanted });
        if control.store != now.store || control.segment_len != now.segment_len {
            return of_other("the archive of another store", "an archive of this one");
        }
        if let Some((partition, offset)) = log.gap_after(&self.position()) {
            return Err(LogError::ArchiveGap { partition: partition.0, offset });
        }
        let is_continued = may_continue(control, now) && has_same_blocks(control)?;
        if !is_continued && !planted!("other_future_archived") {
            return of_other("the archive of another history of this store", "the archive of this one");
        }
        let epochs = merge_epochs(control, &now.epochs, Some(reader))?;
        if epochs != self.control.epochs && !planted!("ends_of_epochs_archived_late") {
            // The log may forget where the epoch before has ended.
            self.write(Control { epochs, ..self.control.clone() })?;
        }
        Ok(())
    }

    /// Begins an extension: what an attempt that has failed has appended does not count.
    fn restart(&mut self) {
        self.pending = self.kept_from();
        self.changed.clear();
    }

    /// Opens an archive whose log is not open, to [forget](LogArchive::forget) its beginning.
    ///
    /// # Errors
    /// [`LogError::Absent`], [`LogError::InUse`], [`LogError::Damaged`], [`LogError::Io`].
    pub fn open_alone(to: &Arc<dyn Media>) -> Result<LogArchive, LogError> {
        let lock = lock(&**to)?;
        let (file, control) = open_control(to, OpenMode::ReadWrite)?;
        Ok(LogArchive::opened(to, file, control, lock)?.0)
    }

    /// Opens the archive with this control file. Returns it, and a reader of it.
    fn opened(
        to: &Arc<dyn Media>,
        file: ControlFile,
        control: Control,
        lock: DirectoryLock,
    ) -> Result<(LogArchive, Reader), LogError> {
        // The bytes that were read may be in a cache that a power failure clears; the log is recycled for them (R6).
        file.settle(&**to, &control)?;
        let (moments, _) = Moments::open(&**to, control.moments_file, moments_end(&control), OpenMode::ReadWrite)?;
        let (in_use, files) = look::files(&**to, &control, OpenMode::ReadWrite)?;
        let reader = look::reader(to, &control, in_use, Faults::default());
        let mut segments = BTreeMap::new();
        let mut next = files.unready.iter().max().map_or(0, |number| number + 1);
        for (index, in_use) in reader.in_use.iter().enumerate() {
            for (&sequence, slot) in in_use.read().iter() {
                segments.insert((PartitionId(index as u16), sequence), Arc::clone(slot));
                next = next.max(slot.number + 1);
            }
        }
        let forgotten: BTreeSet<u32> = files.free.iter().map(|slot| slot.number).collect();
        let next = forgotten.last().map_or(next, |number| next.max(number + 1));
        let (pending, changed, _lock) = (Vec::new(), BTreeSet::new(), (lock, None));
        let (to, left) = (Arc::clone(to), BTreeSet::new());
        let mut archive =
            LogArchive { to, file, control, moments, segments, left, forgotten, next, pending, changed, _lock };
        archive.restart();
        if !planted!("left_archive_segment_reused") {
            let no_blocks = |&&(partition, sequence): &&(PartitionId, u64)| !archive.has_blocks(partition, sequence);
            archive.left = archive.segments.keys().filter(no_blocks).copied().collect();
        }
        // Forgotten files that are left have no effect.
        let _ = archive.remove_forgotten();
        Ok((archive, reader))
    }

    pub(crate) fn write(&mut self, mut control: Control) -> Result<(), LogError> {
        control.generation += 1;
        self.file.write(&*self.to, &control).map_err(|error| match error {
            LogError::Limit { given, limit, .. } => {
                let what = "the control file of an archive, in bytes (let the archive forget what is before a backup)";
                LogError::Limit { what, given, limit }
            }
            other => other,
        })?;
        self.control = control;
        Ok(())
    }

    /// Returns the directory of the archive.
    pub fn media(&self) -> &Arc<dyn Media> {
        &self.to
    }

    fn begin(to: &Arc<dyn Media>, lock: DirectoryLock, now: Control) -> Result<LogArchive, LogError> {
        let io = |error| LogError::io("beginning an archive", error);
        // An interrupted beginning leaves these, without a moment.
        refuse_other_files(&**to, |file| match file {
            LOCK_FILE | CONTROL_FILE => true,
            MOMENTS_FILE => to.open(file, OpenMode::Read).and_then(|file| to.len(file)).is_ok_and(|len| len == 0),
            _ => false,
        })?;
        // The index of an archive that was removed may be of another history.
        let left = to.list(INDEX_DIRECTORY).map_err(io)?.into_iter().next();
        if let Some(file) = left.filter(|_| !planted!("index_of_removed_archive_used")) {
            return Err(LogError::AlreadyThere { file: format!("{INDEX_DIRECTORY}/{file}") });
        }
        let mut control = Control { promise: now.checkpoint.scan_lsn.previous(), generation: 1, ..now };
        for known in &mut control.partitions {
            known.durable_below = known.scan_from;
            known.segments_begun = 0;
        }
        control.checkpoint.next_txn = 0;
        let (file, lock_of_control) = ControlFile::create(&**to, lock.has_control())?;
        let moments = Moments::create(&**to)?;
        to.sync_directory("").map_err(io)?;
        file.write(&**to, &control)?;
        let (segments, forgotten, next, _lock) = (BTreeMap::new(), BTreeSet::new(), 0, (lock, lock_of_control));
        let (pending, changed, to, left) = (Vec::new(), BTreeSet::new(), Arc::clone(to), BTreeSet::new());
        let mut archive =
            LogArchive { to, file, control, moments, segments, left, forgotten, next, pending, changed, _lock };
        archive.restart();
        Ok(archive)
    }

    /// Returns the offset of each partition from which on the archive lacks the log.
    pub fn kept_from(&self) -> Vec<LogOffset> {
        self.control.partitions.iter().map(|known| known.durable_below).collect()
    }

    /// Returns the LSN up to which the archive has all records.
    pub fn up_to(&self) -> Lsn {
        self.control.promise
    }

    /// Returns the present state of the archive for reading, also while it is extended.
    pub fn archived(&self) -> ArchivedLog {
        let mut in_use: Vec<_> = self.control.partitions.iter().map(|_| BTreeMap::new()).collect();
        for (&(partition, sequence), slot) in &self.segments {
            in_use[partition.index()].insert(sequence, Arc::clone(slot));
        }
        let in_use = in_use.into_iter().map(RwLock::new).collect();
        let reader = Arc::new(look::reader(&self.to, &self.control, in_use, Faults::default()));
        ArchivedLog { reader, control: self.control.clone() }
    }

    /// Archives all that has become durable since the last extension, and returns the LSN up to which the archive has all records now.
    /// `describe` returns the data that a restore of the store needs besides the log ([`FoundArchive::descriptions`]). It is called after
    /// that LSN is known.
    ///
    /// # Errors
    /// [`LogError::Damaged`] names a block of the log. [`LogError::Io`], of the log or of the archive: the archive is as it was, and
    /// the next call tries again.
    pub fn extend<'l>(
        &mut self,
        log: impl Into<LogToArchive<'l>>,
        describe: impl FnOnce() -> Vec<u8>,
    ) -> Result<Lsn, LogError> {
        self.restart();
        let log = log.into();
        let moment = log.state.moment(describe());
        let state = log.copy_since(&self.position(), u64::MAX, &mut |piece| self.append(&piece))?;
        self.complete(&state, Some(moment))
    }

    /// Appends blocks that continue the archive. They count when the extension is [complete](LogArchive::complete).
    pub(crate) fn append(&mut self, piece: &LogPiece<'_>) -> Result<(), LogError> {
        let geometry = Geometry { segment_len: self.control.segment_len };
        let file = self.segment(piece.partition, geometry.sequence(piece.offset), piece.segment_len)?;
        self.changed.insert(file);
        let written = write_all_at(&*self.to, file, geometry.in_file(piece.offset), piece.bytes, Durability::Volatile);
        written.map_err(|error| LogError::io(format!("writing {}", self.to.path(file)), error))?;
        self.pending[piece.partition.index()] = piece.next;
        Ok(())
    }

    /// Makes the blocks durable that were appended since the last extension, up to this state of the log, and returns the LSN up to
    /// which the archive has all records now. Without a moment, the next one describes the store.
    ///
    /// # Errors
    /// [`LogError::Damaged`]: the state is another one. [`LogError::ArchiveGap`]: an epoch begins elsewhere. [`LogError::Io`]. Then the
    /// archive is as it was, or longer.
    pub fn complete(&mut self, log: &LogState, moment: Option<Moment>) -> Result<Lsn, LogError> {
        if log.position().offsets != self.pending {
            let what = "it has other blocks than were received before";
            return Err(LogError::damaged("the state of a log", 0, what));
        }
        let mut control = self.control.clone();
        control.epochs = merge_epochs(&control, &log.control.epochs, None)?;
        (control.names, control.schemas) = (log.control.names.clone(), log.control.schemas.clone());
        control.promise = control.promise.max(log.up_to());
        for (known, reached) in control.partitions.iter_mut().zip(&log.control.partitions) {
            (known.durable_below, known.segments_begun) = (reached.durable_below, reached.segments_begun);
        }
        // A part of the log lacks commits that had returned at the time of the whole.
        let has_all = |moment: &Moment| moment.up_to <= control.promise;
        let of_part = |moment: Moment| if has_all(&moment) { moment } else { moment.without_time() };
        let moment = moment.map(|moment| Moment { up_to: control.promise, ..of_part(moment) });
        let is_new = moment
            .as_ref()
            .is_some_and(|moment| self.moments.is_new(&moment.description) || self.moments.end_before(moment.up_to));
        if control == self.control && !is_new {
            return Ok(self.up_to());
        }
        let io = |error| LogError::io("extending an archive", error);
        if !self.changed.is_empty() && !planted!("received_log_not_synced") {
            self.changed.iter().try_for_each(|&file| self.to.sync(file)).map_err(io)?;
            // Without a segment there is no directory yet.
            self.to.sync_directory(LOG_DIRECTORY).map_err(io)?;
        }
        if let Some(moment) = moment {
            self.moments.append(&*self.to, moment)?;
        }
        control.checkpoint.next_txn = self.moments.end();
        self.write(control)?;
        self.changed.clear();
        Ok(self.up_to())
    }

    /// Returns the file of a segment, which is created if there is none.
    fn segment(&mut self, partition: PartitionId, sequence: u64, len: u64) -> Result<FileId, LogError> {
        let known = self.segments.get(&(partition, sequence)).map(Arc::clone);
        let is_left = self.left.contains(&(partition, sequence));
        let is_usable = |slot: &&Arc<Slot>| !is_left && (slot.len() == len || self.has_blocks(partition, sequence));
        if let Some(slot) = known.as_ref().filter(is_usable) {
            return Ok(slot.file);
        }
        // An extension that was cut off has left a file without a block that counts. It may have another length, and a killed process
        // may have left its header in the cache alone: if a sync of it has failed, no later one writes it (R6, A9).
        let number = known.map_or(self.next, |slot| slot.number);
        let name = file_name(number);
        let epoch = self.control.epochs.newest().map_or(0, |epoch| epoch.number);
        let header = SegmentHeader { partition, store: self.control.store, sequence, segment_len: len, epoch };
        // An attempt that has failed may have left it.
        let opened = self.to.open(&name, OpenMode::Create).or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists if !planted!("failed_segment_in_the_way") => {
                self.to.open(&name, OpenMode::ReadWrite)
            }
            _ => Err(error),
        });
        let made = opened.and_then(|file| {
            self.to.set_len(file, 0)?;
            self.to.set_len(file, len)?;
            if !planted!("archived_header_first") {
                self.to.sync(file)?;
            }
            // With its header the file has its length, and without it no block (W8).
            write_all_at(&*self.to, file, 0, &header.block(), Durability::Durable)?;
            Ok(file)
        });
        let file = made.map_err(|error| LogError::io(format!("creating {name}"), error))?;
        self.segments.insert((partition, sequence), Arc::new(Slot::new(number, name, file, len)));
        self.left.remove(&(partition, sequence));
        self.next = self.next.max(number + 1);
        Ok(file)
    }

    /// Whether a segment has blocks of the archive, or of the extension that is being appended.
    pub(crate) fn has_blocks(&self, partition: PartitionId, sequence: u64) -> bool {
        let begin = Geometry { segment_len: self.control.segment_len }.begin(sequence);
        let known = &self.control.partitions[partition.index()];
        self.pending[partition.index()] > begin.max(known.scan_from)
    }
}

/// The records that an open archive had at one point in time.
#[derive(Debug)]
pub struct ArchivedLog {
    pub(crate) reader: Arc<Reader>,
    control: Control,
}

impl ArchivedLog {
    /// Returns the first LSN of the archive.
    pub fn first(&self) -> Lsn {
        self.control.checkpoint.scan_lsn
    }

    /// Returns the LSN up to which it has all records.
    pub fn up_to(&self) -> Lsn {
        self.control.promise
    }

    /// Whether it continues a backup that is not open.
    ///
    /// # Errors
    /// [`LogError::Damaged`], of either; [`LogError::Io`].
    pub fn continues(&self, backup: &Found) -> Result<bool, LogError> {
        Ok(self.control.store == backup.control().store
            && self.first() <= backup.control().checkpoint.scan_lsn
            && backup.end_lsn().previous() <= self.up_to()
            && has_same_records(backup, &self.reader, &self.control)?)
    }

    /// Reads the records of a list of positions, in its order.
    pub fn records<'p>(&self, positions: &'p [Position]) -> RecordsAt<'p> {
        RecordsAt::new(&self.reader, positions, None)
    }

    /// Returns the segment file, and the offset in it, of a position.
    pub fn place(&self, position: Position) -> (String, u64) {
        self.reader.place(position)
    }

    /// Whether it has a position. If not, the archive has forgotten it, or was extended to it later.
    pub fn has(&self, position: Position) -> bool {
        let known = self.control.partitions.get(position.partition.index());
        known.is_some_and(|known| (known.scan_from..known.durable_below).contains(&position.offset))
    }

    pub(crate) fn store(&self) -> StoreId {
        self.control.store
    }

    pub(crate) fn partitions(&self) -> usize {
        self.control.partitions.len()
    }

    /// Returns the empty part before its first record, of which nothing is indexed.
    pub(crate) fn nothing_indexed(&self) -> Indexed {
        let offsets = self.control.partitions.iter().map(|known| known.scan_from).collect();
        Indexed { up_to: self.first().previous(), offsets }
    }

    /// Returns an LSN up to which each partition has about `len` bytes from its offset on. If no partition has so much, it is that of the
    /// last record.
    pub(crate) fn lsn_after(&self, offsets: &[LogOffset], len: u64) -> Result<Lsn, LogError> {
        let mut up_to = self.up_to();
        for (index, &offset) in offsets.iter().enumerate() {
            let stop = self.control.partitions[index].durable_below;
            let (mut at, mut last) = (offset, Lsn::ZERO);
            // Without reading, if that is the end.
            while stop.since(offset).0 > len && at < stop && (at.since(offset).0 < len || last == Lsn::ZERO) {
                let header = self.reader.header(Position { partition: PartitionId(index as u16), offset: at })?;
                last = if header.is_empty() { last } else { header.last_lsn };
                at = header.end();
            }
            up_to = if at > offset && at < stop { up_to.min(last) } else { up_to };
        }
        Ok(up_to)
    }

    /// Passes the records of a partition that count and have an LSN in a range to `visit`, from a block on. Returns the offset of the first
    /// block with a later record, or the end.
    pub(crate) fn visit(
        &self,
        partition: PartitionId,
        begin: LogOffset,
        lsns: Range<Lsn>,
        visit: &mut dyn FnMut(&RecordRef<'_>) -> Result<(), LogError>,
    ) -> Result<LogOffset, LogError> {
        let stop = self.control.partitions[partition.index()].durable_below;
        scan::visit(Blocks::new(&self.reader, partition, stop), begin, lsns, visit)
    }
}

impl FoundArchive {
    /// Reads an archive, also while it is extended.
    ///
    /// # Errors
    /// [`LogError::Absent`]; [`LogError::Damaged`], [`LogError::Io`].
    pub fn look(at: &Arc<dyn Media>) -> Result<FoundArchive, LogError> {
        let begin = || open_control(at, OpenMode::Read).map(|(_, control)| control.checkpoint.scan_lsn);
        let mut before = begin()?;
        loop {
            let looked = FoundArchive::look_once(at);
            let now = if looked.is_err() { begin()? } else { before };
            // The archive may have forgotten meanwhile the log that was to be read.
            if now == before {
                return looked;
            }
            before = now;
        }
    }

    fn look_once(at: &Arc<dyn Media>) -> Result<FoundArchive, LogError> {
        let found = Found::look_archive(at)?;
        let control = found.control();
        let (_, moments) = Moments::open(&**at, control.moments_file, moments_end(control), OpenMode::Read)?;
        Ok(FoundArchive { found, moments })
    }

    /// Returns the archived log, to read its records.
    pub fn log(&self) -> &Found {
        &self.found
    }

    /// Passes the records after the end of a backup up to `target` to `visit`, one partition after the other. The archive continues the
    /// log of the backup.
    ///
    /// # Errors
    /// Those of `visit`; [`LogError::Damaged`], [`LogError::Io`].
    pub fn visit_after(
        &self,
        backup: &Found,
        target: Lsn,
        visit: &mut dyn FnMut(&RecordRef<'_>) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let partitions = self.found.control().partitions.iter().zip(&backup.control().partitions);
        for (index, (known, since)) in partitions.enumerate() {
            let blocks = self.found.blocks(PartitionId(index as u16));
            scan::visit(blocks, since.scan_from.max(known.scan_from), backup.end_lsn()..target.next(), visit)?;
        }
        Ok(())
    }

    /// Returns the moments at which the archive was extended, the oldest first.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Returns the first LSN that the archive has, and the last one.
    pub fn lsns(&self) -> (Lsn, Lsn) {
        (self.found.control().checkpoint.scan_lsn, self.found.end_lsn().previous())
    }

    /// Returns the last moment up to a time.
    pub fn moment_at(&self, time: SystemTime) -> Option<&Moment> {
        self.moments.iter().rfind(|moment| moment.time().is_some_and(|at| at <= time))
    }

    /// Whether the archive was extended up to an LSN of this range.
    pub fn was_extended_within(&self, range: Range<Lsn>) -> bool {
        self.moments.iter().any(|moment| range.contains(&moment.up_to))
    }

    /// Returns the description of the moment with this LSN. If no moment has it, returns those of the next moments before and after it.
    pub fn descriptions(&self, lsn: Lsn) -> Vec<&[u8]> {
        descriptions_around(&self.moments, lsn)
    }
}

/// Returns the end of an archive's moments. The control file of an archive has it in place of the next transaction number.
fn moments_end(control: &Control) -> u64 {
    control.checkpoint.next_txn
}

/// Whether a log may have written the blocks of an archive, by their epochs and offsets.
pub(crate) fn may_follow(archived: &Control, log: &Control) -> bool {
    // The archive may name a later opening of which it has no records. Another opening may have taken its place.
    let reached = archived.epochs.reached(&archived.partitions, archived.promise);
    let (Some(newest), Some(known)) = (log.epochs.newest(), reached.newest()) else { return false };
    let is_same_opening = newest.number == known.number && newest.begins == known.begins;
    let ends = archived.partitions.iter().map(|partition| partition.durable_below);
    // Each later opening, and not only the newest one, begins behind the archive.
    let later = log.epochs.iter().filter(|epoch| epoch.oldest > known.number);
    let is_behind = |epoch: &Epoch| ends.clone().zip(&epoch.begins).all(|(end, begin)| end <= *begin);
    let is_later_opening = newest.number > known.number && { later }.all(is_behind);
    let has_all = ends.zip(&log.partitions).all(|(end, now)| end <= now.durable_below);
    (is_same_opening || is_later_opening) && has_all
}

/// Whether the newest archived blocks are those of the log, as far as the log keeps them.
fn has_same_blocks(archive: &Reader, control: &Control, log: &LogToArchive<'_>) -> Result<bool, LogError> {
    let reader = log.reader;
    let ranges = compared_ranges(control, &log.state.control, reader.geometry);
    for (index, range) in ranges.into_iter().enumerate() {
        if !are_same(archive, reader, PartitionId(index as u16), range, Lsn::MAX)? {
            return Ok(planted!("archived_blocks_not_compared"));
        }
    }
    Ok(true)
}

/// Returns the epochs of an archive, with those of the log in place of its own of the same time. As many of the older ones are joined
/// as the control file needs. `archive` reads the archive, if it has no more blocks than its control file names.
fn merge_epochs(archived: &Control, now: &Epochs, archive: Option<&Arc<Reader>>) -> Result<Epochs, LogError> {
    let Some(oldest) = now.iter().next() else { return Ok(archived.epochs.clone()) };
    // A log that was restored to the end of the archive lacks later openings that the archive names, and has nothing of.
    let is_before = |epoch: &&Epoch| {
        let begins = epoch.begins.iter().zip(&oldest.begins);
        epoch.number < oldest.oldest && epoch.first <= oldest.first && { begins }.all(|(begin, next)| begin <= next)
    };
    let mut list: Vec<_> = archived.epochs.iter().filter(is_before).cloned().collect();
    if let Some(last) = list.last_mut().filter(|last| last.end < Lsn::MAX && last.end > oldest.first) {
        last.end = oldest.first;
        last.dead.retain(|dead| dead.end < oldest.first);
    }
    if list.last().is_some_and(|last| last.end == Lsn::MAX) {
        let last = list.pop().expect("there is a last one");
        let ends = || archived.partitions.iter().map(|known| known.durable_below);
        // If the log kept nothing of it, it is not of the log's epochs.
        if let Some(partition) = ends().zip(&last.begins).position(|(end, &begin)| end != begin) {
            // The archive has all of its blocks, and the log has all of its records, if the next opening of the log goes on where both
            // end. So they show where its numbers end.
            let is_next = oldest.oldest == last.number + 1 && oldest.first > archived.promise;
            let has_all = ends().eq(oldest.begins.iter().copied()) && is_next;
            let Some(archive) = archive.filter(|_| has_all) else {
                let offset = archived.partitions[partition].durable_below;
                return Err(LogError::ArchiveGap { partition: partition as u16, offset });
            };
            let end = look::archived_ends(archive, archived)?.end.min(oldest.first);
            list.push(Epoch { end, ..last });
        }
    }
    let of_log = list.len();
    list.extend(now.iter().cloned());
    let mut merged = Control { epochs: Epochs { list }, ..archived.clone() };
    for _ in 1..of_log {
        merged.join_oldest_if_full();
    }
    Ok(merged.epochs)
}
