//! A log without a store around it: entries of any length, in the order of their appends.
//!
//! An entry is one record, or several if it is longer than a record may be. A crash may leave an entry without its
//! last part. Such an entry was never acknowledged, for forcing covers the last part and all numbers before it,
//! without a gap (E8). Readers skip it. It can occur only at the end of a run: the parts of an entry are appended one
//! after the other, with no other record of this run between them. `docs/formats/log.md` draws the bytes.

use cedrat_media::{LockGuard, Media, OpenMode};
use cedrat_sync::{Arc, Mutex};
use std::io::{self, ErrorKind};

use crate::control::{CONTROL_FILE, Checkpoint, Control};
use crate::error::{LogError, LogFull};
use crate::log::Log;
use crate::open::Found;
use crate::options::LogOptions;
use crate::record::{Kind, RecordHead, record_len_bound};
use crate::scan::Scan;
use crate::writer::Writer;
use crate::{ByteLen, Lsn, PartitionId, TxnId, varint};

/// The lock file, an empty file that is locked while a store, or a log without a store, is open in its directory.
pub const LOCK_FILE: &str = "lock";

/// The only name in the control file of a log without a store: the kind of its records.
pub const ENTRY_NAME: &str = "entry of a log alone";

/// The page length in the control file of a log without a store: there are no pages.
const NO_PAGES: u32 = 0;

/// The maximum length of an entry in bytes: an entry is kept in memory as a whole.
pub const ENTRY_LEN_MAX: usize = 64 << 20;

/// The number of the kind (one byte, for it is zero), and that of the part.
const PART_HEAD_LEN_MAX: usize = 1 + varint::LEN_MAX;

const PARTITION: PartitionId = PartitionId(0);

/// Options of a log without a store.
#[derive(Clone, Debug)]
pub struct EntryLogOptions {
    /// Whether a missing log is created.
    pub create: bool,
    /// Options of the underlying log. The number of partitions is 1, and the page length is ignored.
    pub log: LogOptions,
    /// Whether background threads write entries that were not forced, and prepare segments ahead of need. The log works without
    /// those that the system refuses.
    pub background: bool,
}

impl Default for EntryLogOptions {
    fn default() -> EntryLogOptions {
        // As a rule, the appender of an entry forces it. A thread that writes the newest entries at short intervals
        // interferes: a thread that forces the entries after them waits for that write, and then for its own.
        let log = LogOptions { flush_interval_ms: 100, ..LogOptions::default() };
        EntryLogOptions { create: true, log, background: true }
    }
}

/// An open log without a store.
///
/// All methods may be called from any thread at any time.
#[derive(Debug)]
pub struct EntryLog {
    // Dropped in this order: no thread writes any more when the lock is released.
    writer: Option<Writer>,
    log: Log,
    /// Held while the parts of an entry are appended, so that they are consecutive.
    appending: Mutex<()>,
    _lock: DirectoryLock,
}

/// The entries that were durable when the cursor was made, in order; [`EntryLog::look`] returns one over a closed log.
#[derive(Debug)]
pub struct EntryCursor {
    scan: Scan,
    entry: Vec<u8>,
    /// Within an entry, the LSN of the part read last and the number of parts that follow it.
    within: Option<(Lsn, u64)>,
}

/// An entry, valid until the cursor moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The LSN of the entry's last part, which [`EntryLog::append`] returned.
    pub lsn: Lsn,
    /// The bytes of the entry.
    pub bytes: &'a [u8],
}

/// The lock of a directory, held until it is dropped.
///
/// The control file is locked as well, so that deleting the lock file does not permit a second opening; if there is none,
/// when the log is created.
#[derive(Debug)]
pub struct DirectoryLock {
    _directory: LockGuard,
    control: Option<LockGuard>,
}

impl DirectoryLock {
    /// Returns whether the control file was there when the lock was taken, so that it is locked, too.
    pub(crate) fn has_control(&self) -> bool {
        self.control.is_some()
    }
}

/// Takes the lock of a directory and creates the lock file if necessary.
///
/// # Errors
/// [`LogError::InUse`] if another opening holds it.
pub fn lock(media: &dyn Media) -> Result<DirectoryLock, LogError> {
    let taken = media.lock(LOCK_FILE).or_else(|error| {
        if error.kind() != ErrorKind::NotFound {
            return Err(error);
        }
        match media.open(LOCK_FILE, OpenMode::Create) {
            // Another thread may create it first; the lock decides.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => media.lock(LOCK_FILE),
        }
    });
    let taken = taken.and_then(|directory| match media.lock(CONTROL_FILE) {
        Ok(control) => Ok(DirectoryLock { _directory: directory, control: Some(control) }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(DirectoryLock { _directory: directory, control: None }),
        Err(error) => Err(error),
    });
    taken.map_err(|error| not_locked(media, error))
}

/// Returns the error for a directory that cannot be locked.
pub(crate) fn not_locked(media: &dyn Media, error: io::Error) -> LogError {
    match error.kind() {
        ErrorKind::WouldBlock => {
            let file = media.open(LOCK_FILE, OpenMode::Read);
            LogError::InUse { path: file.map_or_else(|_| LOCK_FILE.into(), |file| media.path(file)) }
        }
        _ => LogError::io(format!("locking the file {LOCK_FILE}"), error),
    }
}

impl Control {
    /// Whether this is the control file of a log without a store.
    pub fn is_log_alone(&self) -> bool {
        self.page_len == NO_PAGES
    }
}

impl EntryLog {
    /// Opens the log in a directory; creates it if there is none. Everything that was forced is present when it
    /// returns.
    ///
    /// # Errors
    /// [`LogError::InUse`]; [`LogError::Absent`] if there is none and it is not to be created; [`LogError::Foreign`]
    /// if the directory holds a store; [`LogError::Damaged`] with file and offset; [`LogError::Limit`] if the table of
    /// epochs is full, after some 4,000 crashes that each left dead numbers. [`truncate`](EntryLog::truncate) shortens
    /// the table, which is due when [`Control::has_many_epochs`]. A log that is refused is not changed, and
    /// [`look`](EntryLog::look) still reads its entries, to copy them into another one.
    pub fn open(media: &Arc<dyn Media>, options: &EntryLogOptions) -> Result<EntryLog, LogError> {
        let choices = LogOptions { partitions: 1, page_len: NO_PAGES, ..options.log.clone() };
        if !options.create {
            // Before the lock, which would create its file (R2).
            let names = media.list("").map_err(|error| LogError::io("listing the log's directory", error))?;
            if !names.iter().any(|name| name == CONTROL_FILE) {
                return Err(LogError::Absent { file: CONTROL_FILE.into() });
            }
        }
        let lock = lock(&**media)?;
        let log = match find(media) {
            Ok(found) => found.begin_locked(&lock, &[ENTRY_NAME], &choices)?,
            Err(LogError::Absent { .. }) if options.create => {
                Log::create_locked(media, &lock, &choices, &[ENTRY_NAME])?
            }
            Err(error) => return Err(error),
        };
        let writer = options.background.then(|| log.start_writer());
        Ok(EntryLog { writer, log, appending: Mutex::new(()), _lock: lock })
    }

    /// Returns a cursor over all entries of a log that is not open, for tools and copies. Writes nothing, takes no lock,
    /// and also reads a log that [`open`](EntryLog::open) refuses because its table of epochs is full.
    ///
    /// Entries that the last crash left in a cache only are returned, too; an opening makes them durable.
    ///
    /// # Errors
    /// As [`open`](EntryLog::open), [`LogError::InUse`] and [`LogError::Limit`] excepted.
    pub fn look(media: &Arc<dyn Media>) -> Result<EntryCursor, LogError> {
        Ok(EntryCursor::over(find(media)?.scan(Lsn::ZERO)?))
    }

    /// Returns the underlying log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Appends an entry and returns its LSN; later entries have greater ones. It is durable after a force up to that
    /// LSN. Waits for no write; only if no segment was prepared ahead of need, for the preparation of one.
    ///
    /// # Errors
    /// [`LogError::Limit`] beyond [`ENTRY_LEN_MAX`]; [`LogError::Full`]; [`LogError::Stopped`]. Nothing was appended
    /// then.
    pub fn append(&self, entry: &[u8]) -> Result<Lsn, LogError> {
        if entry.len() > ENTRY_LEN_MAX {
            let (given, limit) = (entry.len() as u64, ENTRY_LEN_MAX as u64);
            return Err(LogError::Limit { what: "the length of an entry", given, limit });
        }
        let part_len = self.log.body_len_max() - PART_HEAD_LEN_MAX;
        let parts = entry.len().div_ceil(part_len).max(1);
        let heads = parts as u64 * record_len_bound(ByteLen(PART_HEAD_LEN_MAX as u64)).0;
        // All or nothing: with space for some parts only, later appends would wait behind half an entry.
        let room = self.log.reserve(ByteLen(entry.len() as u64 + heads), ByteLen(0));
        let mut room = room.map_err(|full| match full {
            LogFull::Stopped(stopped) => LogError::Stopped(stopped),
            full => LogError::Full(full),
        })?;
        let head = RecordHead::new(Kind::USER, TxnId::NONE, None);
        let mut last = Lsn::ZERO;
        let _alone = self.appending.lock();
        for part in 0..parts {
            let mut part_head = [0; PART_HEAD_LEN_MAX]; // it begins with the number of the kind
            let to_follow = (parts - 1 - part) as u64;
            let head_len = 1 + varint::put(&mut part_head[1..], to_follow << 1 | u64::from(part == 0));
            let bytes = &entry[part * part_len..entry.len().min((part + 1) * part_len)];
            last = self.log.append(PARTITION, head, &[&part_head[..head_len], bytes], &mut room).lsn;
        }
        Ok(last)
    }

    /// Returns when every entry up to this LSN, or up to the newest if that is earlier, is durable.
    ///
    /// # Errors
    /// [`LogError::Stopped`]: only opening the log again determines what was kept.
    pub fn force(&self, up_to: Lsn) -> Result<(), LogError> {
        self.log.force(up_to)?;
        Ok(())
    }

    /// Returns the LSN up to which every entry is durable. It never decreases.
    pub fn durable_lsn(&self) -> Lsn {
        self.log.durable_lsn()
    }

    /// Returns a cursor over the entries that are durable now and later than `after`, which is an entry's LSN;
    /// [`Lsn::ZERO`]: over all that are kept.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn cursor(&self, after: Lsn) -> Result<EntryCursor, LogError> {
        Ok(EntryCursor::over(self.log.scan(after.next())?))
    }

    /// Removes all entries up to the one with this LSN, durably, and frees their space, in whole segments. They are
    /// not read any more. Forces them first, so that no later entry can survive without them.
    ///
    /// # Errors
    /// [`LogError::Stopped`].
    pub fn truncate(&self, up_to: Lsn) -> Result<(), LogError> {
        if let Some(stopped) = self.log.stopped() {
            return Err(stopped.into()); // in a forked child the mutex may never be released
        }
        // Never within an entry that is just being appended.
        let newest = {
            let _alone = self.appending.lock();
            self.log.current_lsn()
        };
        let from = up_to.min(newest).next();
        self.log.checkpoint_control(&Checkpoint { redo_lsn: from, scan_lsn: from, next_txn: 1 })?;
        self.log.truncate(Lsn::MAX);
        Ok(())
    }

    /// Stops the log permanently, as a failed write does.
    pub fn stop(&self, why: &str) {
        self.log.stop(why);
    }

    /// Closes the log; everything that was appended is durable then.
    ///
    /// # Errors
    /// [`LogError::Stopped`]: it had stopped before, or stopped now.
    pub fn close(mut self) -> Result<(), LogError> {
        drop(self.writer.take());
        self.log.close()?;
        Ok(())
    }
}

impl Drop for EntryLog {
    fn drop(&mut self) {
        // The threads write all appended entries. After that no clone of the log may write: the lock is released
        // next.
        drop(self.writer.take());
        self.log.end();
    }
}

impl EntryCursor {
    fn over(scan: Scan) -> EntryCursor {
        EntryCursor { scan, entry: Vec::new(), within: None }
    }

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    /// [`LogError::Damaged`] with file and offset; the cursor is of no use then. [`LogError::Truncated`] if entries
    /// that were still to be read were removed meanwhile.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, LogError> {
        loop {
            let Some(found) = self.scan.next()? else { return Ok(None) };
            let record = found.record;
            let (position, lsn) = (record.position, record.lsn);
            let Some((is_first, to_follow, bytes)) = part(record.head.kind, record.body) else {
                return Err(self.scan.damaged(position, "a record that is no part of an entry"));
            };
            if is_first {
                self.entry.clear(); // this also removes an entry that a crash cut off
            } else {
                match self.within {
                    Some((before, left)) if before.next() == lsn && left == to_follow + 1 => {}
                    // An entry that began before the position where reading began.
                    None => continue,
                    _ => {
                        return Err(self
                            .scan
                            .damaged(position, "a part of an entry that does not follow the one before"));
                    }
                }
            }
            self.entry.extend_from_slice(bytes);
            self.within = Some((lsn, to_follow));
            if to_follow == 0 {
                return Ok(Some(Entry { lsn, bytes: &self.entry }));
            }
        }
    }
}

/// Reads a log, which must be one without a store.
fn find(media: &Arc<dyn Media>) -> Result<Found, LogError> {
    let found = Log::look(media)?;
    let control = found.control();
    if !control.is_log_alone() || control.names != [ENTRY_NAME] {
        return Err(LogError::Foreign { file: CONTROL_FILE.into(), found: "a store", wanted: "a log alone" });
    }
    Ok(found)
}

/// Returns whether a record is the first part of its entry, the number of parts that follow it, and its bytes.
fn part(kind: Kind, body: &[u8]) -> Option<(bool, u64, &[u8])> {
    let (number, behind_kind) = varint::get(body)?;
    let (part, len) = varint::get(&body[behind_kind..])?;
    (kind == Kind::USER && number == 0).then_some((part & 1 == 1, part >> 1, &body[behind_kind + len..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_media::SimDisk;
    use cedrat_sync::explore;

    /// The bytes drawn in docs/formats/log-alone.md.
    #[test]
    fn parts_have_these_bytes() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = EntryLogOptions { log: LogOptions::small(), background: false, ..EntryLogOptions::default() };
            let log = EntryLog::open(&media, &options).expect("it opens");
            let control = log.log().control();
            assert_eq!((control.page_len, control.partitions.len()), (0, 1));
            assert_eq!(control.names, ["entry of a log alone"]);
            log.append(b"").expect("room");
            log.append(b"one").expect("room");
            let part_len = log.log().body_len_max() - PART_HEAD_LEN_MAX;
            let long = log.append(&vec![7; 2 * part_len + 1]).expect("room");
            assert_eq!(long, Lsn::new(5), "an entry's LSN is that of its last part");
            log.force(long).expect("the log runs");
            let mut scan = log.log().scan(Lsn::ZERO).expect("a scan");
            let mut bodies = Vec::new();
            while let Some(found) = scan.next().expect("it is whole") {
                let head = found.record.head;
                assert_eq!((head.kind.number(), head.txn, head.previous), (9, TxnId::NONE, None));
                bodies.push(found.record.body.to_vec());
            }
            let full = vec![7; part_len];
            let expected: [Vec<u8>; 5] = [
                vec![0, 1],
                b"\x00\x01one".to_vec(),
                [&[0, 5][..], &full].concat(),
                [&[0, 2][..], &full].concat(),
                vec![0, 0, 7],
            ];
            assert_eq!(bodies, expected);
        });
    }
}
