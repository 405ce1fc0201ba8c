//! The control file: the data needed before the first record can be read (drawn in docs/formats/control.md).
//!
//! It has two slots with the same content. A change is written durably to one slot, then to the other, so at any
//! moment one of them is valid; the one with the higher generation counts.

use cedrat_media::{AlignedBuf, Durability, FileId, LockGuard, Media, OpenMode, read_exact_at, write_all_at};
use cedrat_sync::planted;
use std::collections::HashSet;

use crate::block::{BLOCK_UNIT, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::checksum::StoreId;
use crate::epoch::{Epoch, Epochs, JOINED_MAX};
use crate::{LogError, LogOffset, Lsn};

/// The control file's name in the store's directory.
pub const CONTROL_FILE: &str = "control";

/// The version of the control file that this code writes, and the newest that it reads.
pub(crate) const CONTROL_FORMAT_VERSION: u32 = 2;

/// The oldest version that this code reads. Version 1 had zeros in place of the schema count, and so no schemas.
const CONTROL_FORMAT_OLDEST: u32 = 1;

/// The length of one of the two slots.
pub(crate) const SLOT_LEN: usize = 64 * 1024;

/// The largest number of partitions of a log.
pub const PARTITIONS_MAX: u16 = 64;

/// The longest name of an operation or record kind, in bytes.
pub const NAME_LEN_MAX: usize = 255;

/// The maximum number of bytes that names and their schemas may take in a slot when one is added. The rest is for partitions, and
/// for the epochs of later openings: without room for one more, the store could not be opened again.
pub(crate) const NAMES_LEN_MAX: usize = SLOT_LEN / 16 * 15;

/// `CEDRATCF`.
pub(crate) const CONTROL_MAGIC: [u8; 8] = *b"CEDRATCF";

/// Offsets of the fixed fields of a slot. The lists follow: partitions, epochs, names, schemas.
pub(crate) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const CRC: usize = MAGIC + 8; //            of the used bytes after this field
    pub(crate) const VERSION: usize = CRC + 4;
    pub(crate) const USED: usize = VERSION + 4; //         bytes with meaning in the slot
    pub(crate) const PAGE_LEN: usize = USED + 4;
    pub(crate) const STORE: usize = PAGE_LEN + 4;
    pub(crate) const GENERATION: usize = STORE + 16;
    pub(crate) const SEGMENT_LEN: usize = GENERATION + 8;
    pub(crate) const REDO_LSN: usize = SEGMENT_LEN + 8;
    pub(crate) const SCAN_LSN: usize = REDO_LSN + 8;
    pub(crate) const NEXT_TXN: usize = SCAN_LSN + 8;
    pub(crate) const PROMISE: usize = NEXT_TXN + 8;
    pub(crate) const PARTITIONS: usize = PROMISE + 8;
    pub(crate) const SCHEMA_COUNT: usize = PARTITIONS + 2;
    pub(crate) const MOMENTS: usize = SCHEMA_COUNT + 2; // of an archive: number of its file of moments; else 0
    pub(crate) const EPOCH_COUNT: usize = MOMENTS + 4;
    pub(crate) const NAME_COUNT: usize = EPOCH_COUNT + 4;
    pub(crate) const LISTS: usize = NAME_COUNT + 4;
}
const _: () = assert!(at::LISTS == 104 && at::STORE == 24);

/// The start of recovery (Lemon §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Redo begins at the first record with this LSN or a later one.
    pub redo_lsn: Lsn,
    /// The log is read from this LSN on: the smaller of `redo_lsn` and the first LSN of the oldest transaction
    /// that had not ended.
    pub scan_lsn: Lsn,
    /// A bound on transaction numbers: none from this one on was used when the checkpoint was taken.
    pub next_txn: u64,
}

/// The content of the control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The random identifier of the store.
    pub store: StoreId,
    /// The length of the store's pages in bytes; the log only stores it.
    pub page_len: u32,
    /// The length of a log segment in bytes, its header included.
    pub segment_len: u64,
    /// The number of writes of the control file.
    pub generation: u64,
    /// The newest checkpoint.
    pub checkpoint: Checkpoint,
    /// Every LSN up to this one was durable when the control file was written.
    pub promise: Lsn,
    /// For each partition, the offset where reading begins, and the offset below which it was durable.
    pub partitions: Vec<ControlPartition>,
    /// The epochs of which the log still holds records.
    pub epochs: Epochs,
    /// Names of operations and record kinds; a name's number is its index, never reused.
    pub names: Vec<String>,
    /// Argument schemas of the first names, in the order of the names; 0: unknown.
    pub schemas: Vec<u32>,
    /// The number of the file of moments of an archive; 0 in a log.
    pub moments_file: u32,
}

/// The state of one partition in the control file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPartition {
    /// The offset of a block; every record from `scan_lsn` on is in this block or a later one.
    pub scan_from: LogOffset,
    /// The offset below which the partition was durable.
    pub durable_below: LogOffset,
    /// The number of the partition's segments with a durable header: if one of them is missing, it was lost since.
    pub segments_begun: u64,
}

/// The reason why a slot is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotFault {
    /// The slot was never written.
    Zero,
    /// A valid slot of another version.
    Version(u32),
    /// Damage, with the offset in the slot and a description.
    Bad(usize, &'static str),
}

impl Control {
    /// Returns the checksum of a slot with this content.
    ///
    /// # Errors
    /// [`LogError::Limit`].
    pub fn checksum(&self) -> Result<u32, LogError> {
        let mut slot = vec![0; SLOT_LEN];
        self.encode(&mut slot)?;
        Ok(get_u32(&slot, at::CRC))
    }

    /// Returns the number of bytes of a slot that this control file uses.
    pub(crate) fn used(&self) -> usize {
        at::LISTS
            + self.partitions.len() * 24
            + self.epochs.iter().map(epoch_len).sum::<usize>()
            + self.names.iter().map(|name| 2 + name.len()).sum::<usize>()
            + self.schemas.len() * 4
    }

    /// Whether the epochs take more than half of what the rest leaves of a slot. A checkpoint should let the log forget some: as
    /// joined ones grow with each crash, a full slot would prevent all openings (E1.7a).
    pub fn has_many_epochs(&self) -> bool {
        let epochs = self.epochs.iter().map(epoch_len).sum::<usize>();
        let others = self.used() - epochs;
        epochs > SLOT_LEN.saturating_sub(others) / 2
    }

    /// Returns the number of bytes that the names take in a slot, with a schema for each.
    pub(crate) fn names_len(&self) -> usize {
        self.names.iter().map(|name| 2 + name.len() + 4).sum()
    }

    /// Adds schemas to those names that have none.
    pub(crate) fn note_schemas(&mut self, schemas: &[(&str, u32)]) {
        let number = |wanted: &str| self.names.iter().position(|name| name == wanted);
        let noted: Vec<(usize, u32)> = schemas
            .iter()
            .filter(|(_, schema)| *schema != 0)
            .filter_map(|(name, schema)| Some((number(name)?, *schema)))
            .collect();
        for (number, schema) in noted {
            if self.schemas.len() <= number {
                self.schemas.resize(number + 1, 0);
            }
            if self.schemas[number] == 0 {
                self.schemas[number] = schema;
            }
        }
    }

    /// Joins the oldest epochs while the slot is nearly full, so that the next opening finds space for one more.
    pub(crate) fn join_epochs(&mut self) {
        while self.join_oldest_if_full() {}
    }

    /// Joins the two oldest epochs if the slot is nearly full; `false` if it did not.
    pub(crate) fn join_oldest_if_full(&mut self) -> bool {
        self.used() > SLOT_LEN / 8 * 7 && self.epochs.join_oldest()
    }

    /// Writes the control file into one slot.
    pub(crate) fn encode(&self, slot: &mut [u8]) -> Result<(), LogError> {
        let used = self.used();
        if used > SLOT_LEN {
            return Err(LogError::Limit {
                what: "the control file's slot (names and epochs, in bytes)",
                given: used as u64,
                limit: SLOT_LEN as u64,
            });
        }
        slot.fill(0);
        slot[at::MAGIC..at::CRC].copy_from_slice(&CONTROL_MAGIC);
        put_u32(slot, at::VERSION, CONTROL_FORMAT_VERSION);
        put_u32(slot, at::USED, used as u32);
        put_u32(slot, at::PAGE_LEN, self.page_len);
        slot[at::STORE..at::GENERATION].copy_from_slice(&self.store);
        put_u64(slot, at::GENERATION, self.generation);
        put_u64(slot, at::SEGMENT_LEN, self.segment_len);
        put_u64(slot, at::REDO_LSN, self.checkpoint.redo_lsn.get());
        put_u64(slot, at::SCAN_LSN, self.checkpoint.scan_lsn.get());
        put_u64(slot, at::NEXT_TXN, self.checkpoint.next_txn);
        put_u64(slot, at::PROMISE, self.promise.get());
        put_u16(slot, at::PARTITIONS, self.partitions.len() as u16);
        put_u16(slot, at::SCHEMA_COUNT, self.schemas.len() as u16);
        put_u32(slot, at::MOMENTS, self.moments_file);
        put_u32(slot, at::EPOCH_COUNT, self.epochs.list.len() as u32);
        put_u32(slot, at::NAME_COUNT, self.names.len() as u32);
        let mut at = at::LISTS;
        let mut push = |value: u64| {
            put_u64(slot, at, value);
            at += 8;
        };
        for partition in &self.partitions {
            push(partition.scan_from.get());
            push(partition.durable_below.get());
            push(partition.segments_begun);
        }
        for epoch in &self.epochs.list {
            push(u64::from(epoch.number) | u64::from(epoch.number - epoch.oldest) << 32);
            push(epoch.first.get());
            push(epoch.end.get());
            epoch.begins.iter().for_each(|begin| push(begin.get()));
            if epoch.oldest < epoch.number {
                push(epoch.dead.len() as u64);
                epoch.dead.iter().for_each(|dead| [dead.start, dead.end].iter().for_each(|lsn| push(lsn.get())));
            }
        }
        for name in &self.names {
            put_u16(slot, at, name.len() as u16);
            slot[at + 2..at + 2 + name.len()].copy_from_slice(name.as_bytes());
            at += 2 + name.len();
        }
        for schema in &self.schemas {
            put_u32(slot, at, *schema);
            at += 4;
        }
        debug_assert_eq!(at, used);
        let crc = crc32c::crc32c(&slot[at::VERSION..used]);
        put_u32(slot, at::CRC, crc);
        Ok(())
    }

    /// Reads one slot.
    pub(crate) fn decode(slot: &[u8]) -> Result<Control, SlotFault> {
        let slot = written(slot)?;
        let mut lists = Lists { slot, at: at::LISTS };
        let partition_count = get_u16(slot, at::PARTITIONS);
        if partition_count == 0 || partition_count > PARTITIONS_MAX {
            return Err(SlotFault::Bad(at::PARTITIONS, "the number of partitions is invalid"));
        }
        let segment_len = get_u64(slot, at::SEGMENT_LEN);
        if !crate::options::segment_len_is_possible(segment_len) {
            return Err(SlotFault::Bad(at::SEGMENT_LEN, "the segment length is invalid"));
        }
        // A checksum proves which bytes were written, not that they are valid: every field that the rest of the log
        // computes with is checked here, once.
        let below_limit = |at: usize| match Lsn::new(get_u64(slot, at)) {
            lsn if lsn < Lsn::LIMIT => Ok(lsn),
            _ => Err(SlotFault::Bad(at, "a number is larger than any log's")),
        };
        let generation = below_limit(at::GENERATION)?.get();
        let redo_lsn = below_limit(at::REDO_LSN)?;
        let scan_lsn = below_limit(at::SCAN_LSN)?;
        let next_txn = below_limit(at::NEXT_TXN)?.get();
        let promise = below_limit(at::PROMISE)?;
        if scan_lsn > redo_lsn {
            return Err(SlotFault::Bad(at::SCAN_LSN, "the scan point is behind the redo point"));
        }
        let mut partitions = Vec::new();
        for _ in 0..partition_count {
            partitions.push(lists.partition(segment_len)?);
        }
        let mut epochs = Epochs::default();
        for _ in 0..get_u32(slot, at::EPOCH_COUNT) {
            epochs.list.push(lists.epoch(partition_count, epochs.newest())?);
        }
        if epochs.newest().is_none_or(|newest| newest.end != Lsn::MAX) {
            return Err(SlotFault::Bad(at::EPOCH_COUNT, "no epoch is the newest"));
        }
        let mut names = Vec::new();
        let mut known = HashSet::new();
        for _ in 0..get_u32(slot, at::NAME_COUNT) {
            let at = lists.at;
            let name = lists.name()?;
            if !known.insert(name) {
                return Err(SlotFault::Bad(at, "a name has two numbers"));
            }
            names.push(name.to_owned());
        }
        let schema_count = usize::from(get_u16(slot, at::SCHEMA_COUNT));
        if schema_count > names.len() {
            return Err(SlotFault::Bad(at::SCHEMA_COUNT, "there are more schemas than names"));
        }
        let schemas = (0..schema_count).map(|_| lists.schema()).collect::<Result<_, _>>()?;
        if lists.at != slot.len() {
            return Err(SlotFault::Bad(lists.at, "bytes are left over"));
        }
        Ok(Control {
            store: slot[at::STORE..at::GENERATION].try_into().expect("16 bytes"),
            page_len: get_u32(slot, at::PAGE_LEN),
            segment_len,
            generation,
            checkpoint: Checkpoint { redo_lsn, scan_lsn, next_txn },
            promise,
            partitions,
            epochs,
            names,
            schemas,
            moments_file: get_u32(slot, at::MOMENTS),
        })
    }
}

/// Returns the used bytes of a slot, if they are valid and of a version that this code reads.
fn written(slot: &[u8]) -> Result<&[u8], SlotFault> {
    if slot.iter().all(|&byte| byte == 0) {
        return Err(SlotFault::Zero);
    }
    if slot.len() < at::LISTS {
        return Err(SlotFault::Bad(slot.len(), "the control file ends here"));
    }
    if slot[at::MAGIC..at::CRC] != CONTROL_MAGIC {
        return Err(SlotFault::Bad(at::MAGIC, "this is not a control file of a store"));
    }
    let used = get_u32(slot, at::USED) as usize;
    if used < at::LISTS || used > slot.len().min(SLOT_LEN) {
        return Err(SlotFault::Bad(at::USED, "the length is invalid"));
    }
    if crc32c::crc32c(&slot[at::VERSION..used]) != get_u32(slot, at::CRC) {
        return Err(SlotFault::Bad(at::CRC, "the checksum does not match"));
    }
    let version = get_u32(slot, at::VERSION);
    if !(CONTROL_FORMAT_OLDEST..=CONTROL_FORMAT_VERSION).contains(&version) {
        return Err(SlotFault::Version(version));
    }
    Ok(&slot[..used])
}

/// Returns the number of bytes that an epoch takes in a slot.
fn epoch_len(epoch: &Epoch) -> usize {
    let joined = if epoch.oldest < epoch.number { 8 + 16 * epoch.dead.len() } else { 0 };
    24 + 8 * epoch.begins.len() + joined
}

/// A reader of the lists of a slot; it never passes their end, whatever the counts are.
struct Lists<'a> {
    slot: &'a [u8],
    at: usize,
}

impl<'a> Lists<'a> {
    fn number(&mut self) -> Result<u64, SlotFault> {
        if self.slot.len() - self.at < 8 {
            return Err(SlotFault::Bad(self.at, "a list continues behind the end"));
        }
        let value = get_u64(self.slot, self.at);
        self.at += 8;
        Ok(value)
    }

    /// Reads an offset at which a block may begin.
    fn place(&mut self) -> Result<LogOffset, SlotFault> {
        let at = self.at;
        let place = LogOffset::new(self.number()?);
        if place >= LogOffset::LIMIT || !place.get().is_multiple_of(BLOCK_UNIT as u64) {
            return Err(SlotFault::Bad(at, "no block begins at this place"));
        }
        Ok(place)
    }

    fn partition(&mut self, segment_len: u64) -> Result<ControlPartition, SlotFault> {
        let at = self.at;
        let (scan_from, durable_below) = (self.place()?, self.place()?);
        let segments_begun = self.number()?;
        let end = segments_begun.checked_mul(segment_len).map(LogOffset::new);
        if scan_from > durable_below || end.is_none_or(|end| end >= LogOffset::LIMIT) {
            return Err(SlotFault::Bad(at, "the entry of a partition is invalid"));
        }
        Ok(ControlPartition { scan_from, durable_below, segments_begun })
    }

    fn epoch(&mut self, partitions: u16, before: Option<&Epoch>) -> Result<Epoch, SlotFault> {
        let begin = self.at;
        let number = self.number()?;
        let first = Lsn::new(self.number()?);
        let end = Lsn::new(self.number()?);
        let mut begins = Vec::new();
        for _ in 0..partitions {
            begins.push(self.place()?);
        }
        let (number, older) = (number as u32, (number >> 32) as u32);
        let mut epoch = Epoch { oldest: number.saturating_sub(older), ..Epoch::new(number, first, end, begins) };
        if older > 0 {
            for _ in 0..self.number()? {
                let dead = Lsn::new(self.number()?)..Lsn::new(self.number()?);
                let within = epoch.dead.last().map_or(first, |before| before.end) < dead.start && dead.end < end;
                if !within || dead.is_empty() {
                    return Err(SlotFault::Bad(begin, "the dead numbers of an epoch are invalid"));
                }
                epoch.dead.push(dead);
            }
        }
        let follows = |before: &Epoch| {
            epoch.oldest > before.number
                && first >= before.end
                && before.begins.iter().zip(&epoch.begins).all(|(before, begin)| before <= begin)
        };
        let sensible = epoch.oldest > 0
            && older <= JOINED_MAX
            && number < u32::MAX
            && first > Lsn::ZERO
            && first < Lsn::LIMIT
            && first <= end
            && before.is_none_or(follows);
        if !sensible {
            return Err(SlotFault::Bad(begin, "the epochs do not follow each other"));
        }
        Ok(epoch)
    }

    fn schema(&mut self) -> Result<u32, SlotFault> {
        let at = self.at;
        let rest = self.slot.get(at..at + 4).ok_or(SlotFault::Bad(at, "a schema is truncated"))?;
        self.at += 4;
        Ok(get_u32(rest, 0))
    }

    fn name(&mut self) -> Result<&'a str, SlotFault> {
        let at = self.at;
        let rest = &self.slot[at..];
        let text = (rest.len() >= 2)
            .then(|| rest.get(2..2 + usize::from(get_u16(rest, 0))))
            .flatten()
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .filter(|text| text.len() <= NAME_LEN_MAX)
            .ok_or(SlotFault::Bad(at, "a name is truncated, too long, or not UTF-8"))?;
        self.at += 2 + text.len();
        Ok(text)
    }
}

/// Locks the control file, unless it was locked with the directory. Another process may have created it since then, and the lock
/// of a deleted file excludes nothing.
pub(crate) fn lock_unless(is_locked: bool, media: &dyn Media) -> Result<Option<LockGuard>, LogError> {
    if is_locked || planted!("new_control_not_locked") {
        return Ok(None);
    }
    media.lock(CONTROL_FILE).map(Some).map_err(|error| crate::entries::not_locked(media, error))
}

/// The open control file.
#[derive(Debug)]
pub(crate) struct ControlFile {
    file: FileId,
    /// The slot with the newest content. It is written last: until the other one is complete, it is the only valid
    /// one.
    newest: u64,
}

impl ControlFile {
    /// Creates an empty control file of full length: the first step of creating a store. Returns a lock of it as well, unless
    /// `is_locked`: the [lock](crate::lock) of the directory contains one if the file existed, from an unfinished creation.
    ///
    /// Both slots begin as they will: a crash may lose any sector of the first write, also the first one, and the file must
    /// be [recognised](ControlFile::is_unfinished) then.
    pub(crate) fn create(media: &dyn Media, is_locked: bool) -> Result<(ControlFile, Option<LockGuard>), LogError> {
        cedrat_media::refuse_encrypted(media)?;
        let doing = "creating the control file";
        let file = match media.open(CONTROL_FILE, OpenMode::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                media.open(CONTROL_FILE, OpenMode::ReadWrite)
            }
            created => created,
        };
        let file = file.map_err(|error| LogError::io(doing, error))?;
        let lock = lock_unless(is_locked, media)?;
        let mut empty = AlignedBuf::zeroed(2 * SLOT_LEN);
        for slot in [0, SLOT_LEN].into_iter().filter(|_| !planted!("empty_control_without_magic")) {
            empty[slot..slot + at::CRC].copy_from_slice(&CONTROL_MAGIC);
        }
        write_all_at(media, file, 0, &empty, Durability::Volatile)
            .and_then(|()| media.sync(file))
            .and_then(|()| media.sync_directory(""))
            .map_err(|error| LogError::io(doing, error))?;
        Ok((ControlFile { file, newest: 1 }, lock))
    }

    /// Opens the control file and reads it. Nothing is written.
    pub(crate) fn open(media: &dyn Media, mode: OpenMode) -> Result<(ControlFile, Control), LogError> {
        let file = media.open(CONTROL_FILE, mode).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LogError::Absent { file: CONTROL_FILE.into() },
            _ => LogError::io("opening the control file", error),
        })?;
        let path = media.path(file);
        let io = |error| LogError::io(format!("reading {path}"), error);
        let len = media.len(file).map_err(io)?;
        let mut newest: Option<(u64, Control)> = None;
        let mut faults = Vec::new();
        for slot in 0..2u64 {
            let begin = slot * SLOT_LEN as u64;
            let mut bytes = AlignedBuf::zeroed(SLOT_LEN);
            let present = len.saturating_sub(begin).min(SLOT_LEN as u64) as usize;
            read_exact_at(media, file, begin, &mut bytes[..present]).map_err(io)?;
            match Control::decode(&bytes[..present]) {
                Ok(control) => {
                    if newest.as_ref().is_none_or(|(_, other)| other.generation < control.generation) {
                        newest = Some((slot, control));
                    }
                }
                Err(fault) => faults.push((begin, fault)),
            }
        }
        for (begin, fault) in &faults {
            // A newer program wrote this slot: it counts, even next to an old one that this code could read.
            if let &SlotFault::Version(found) = fault {
                return Err(LogError::Version {
                    file: path,
                    offset: begin + at::VERSION as u64,
                    found,
                    known: CONTROL_FORMAT_VERSION,
                });
            }
        }
        if let Some((newest, control)) = newest {
            return Ok((ControlFile { file, newest }, control));
        }
        let bad = faults.iter().find_map(|(begin, fault)| match fault {
            SlotFault::Bad(at, what) => Some((begin + *at as u64, *what)),
            _ => None,
        });
        let (offset, what) = bad.unwrap_or((0, "both copies of the control file are empty"));
        cedrat_media::refuse_encrypted(media)?;
        Err(LogError::damaged(path, offset, what))
    }

    /// Whether the control file is that of an unfinished creation: empty, or begun by this code.
    pub(crate) fn is_unfinished(media: &dyn Media) -> Result<bool, LogError> {
        let io = |error| LogError::io("reading the control file", error);
        let file = media.open(CONTROL_FILE, OpenMode::Read).map_err(io)?;
        let len = media.len(file).map_err(io)?;
        let mut slot = AlignedBuf::zeroed(SLOT_LEN);
        for begin in [0, SLOT_LEN as u64] {
            let present = len.saturating_sub(begin).min(SLOT_LEN as u64) as usize;
            read_exact_at(media, file, begin, &mut slot[..present]).map_err(io)?;
            let ours = present >= at::CRC && slot[..at::CRC] == CONTROL_MAGIC;
            if !ours && slot[..present].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
        }
        Ok(len <= 2 * SLOT_LEN as u64)
    }

    /// Makes the content of the file durable by writing it again: the process that wrote it may have ended before it
    /// was durable (R6). While this slot is written, the other one is valid and durable, or this one is.
    pub(crate) fn settle(&self, media: &dyn Media, control: &Control) -> Result<(), LogError> {
        if planted!("control_not_settled") {
            return Ok(());
        }
        let len = control.used().next_multiple_of(cedrat_media::BLOCK_LEN).min(SLOT_LEN);
        cedrat_media::write_again(media, self.file, self.newest * SLOT_LEN as u64, len)
            .map_err(|error| LogError::io(format!("writing {} again", media.path(self.file)), error))
    }

    pub(crate) fn path(&self, media: &dyn Media) -> String {
        media.path(self.file)
    }

    /// Writes the control file durably: the slot with the older content, then the other.
    ///
    /// After an error neither the old nor the new content is certain; the log has to stop (W6).
    pub(crate) fn write(&self, media: &dyn Media, control: &Control) -> Result<(), LogError> {
        let mut slot = AlignedBuf::zeroed(SLOT_LEN);
        control.encode(&mut slot)?;
        for slot_number in [1 - self.newest, self.newest] {
            write_all_at(media, self.file, slot_number * SLOT_LEN as u64, &slot, Durability::Durable)
                .map_err(|error| LogError::io(format!("writing {}", media.path(self.file)), error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn example() -> Control {
        let begins = vec![LogOffset::ZERO; 2];
        let epochs = vec![
            Epoch {
                oldest: 1,
                dead: vec![Lsn::new(7)..Lsn::new(9), Lsn::new(20)..Lsn::new(21)],
                ..Epoch::new(4, Lsn::new(1), Lsn::new(50), begins.clone())
            },
            Epoch::new(5, Lsn::new(81), Lsn::MAX, begins),
        ];
        Control {
            store: *b"0123456789abcdef",
            page_len: 4096,
            segment_len: 64 * 1024,
            generation: 12,
            checkpoint: Checkpoint { redo_lsn: Lsn::new(30), scan_lsn: Lsn::new(20), next_txn: 5 },
            promise: Lsn::new(49),
            partitions: vec![
                ControlPartition { scan_from: LogOffset::ZERO, durable_below: LogOffset::new(8192), segments_begun: 1 },
                ControlPartition {
                    scan_from: LogOffset::new(4096),
                    durable_below: LogOffset::new(4096),
                    segments_begun: 2,
                },
            ],
            epochs: Epochs { list: epochs },
            names: vec!["cedrat.increment".into(), "é".into(), String::new()],
            schemas: vec![7, 0],
            moments_file: 3,
        }
    }

    #[test]
    fn control_slot_reads_back_as_written() {
        let mut slot = vec![0xff; SLOT_LEN];
        example().encode(&mut slot).unwrap();
        assert_eq!(Control::decode(&slot), Ok(example()));
    }

    #[test]
    fn schemas_are_noted_once() {
        let mut old = Control { schemas: Vec::new(), ..example() };
        let mut slot = vec![0; SLOT_LEN];
        old.encode(&mut slot).unwrap();
        assert_eq!(get_u16(&slot, at::SCHEMA_COUNT), 0, "as in version 1");
        assert_eq!(Control::decode(&slot).as_ref(), Ok(&old));
        old.note_schemas(&[("é", 9), ("unknown", 8)]);
        assert_eq!(old.schemas, [0, 9]);
        old.note_schemas(&[("é", 10), ("cedrat.increment", 0)]);
        assert_eq!(old.schemas, [0, 9]);
    }

    #[test]
    fn older_versions_are_read_and_newer_refused() {
        let old = Control { schemas: Vec::new(), ..example() };
        let mut slot = vec![0; SLOT_LEN];
        old.encode(&mut slot).unwrap();
        let mut decode_as = |version| {
            put_u32(&mut slot, at::VERSION, version);
            let crc = crc32c::crc32c(&slot[at::VERSION..old.used()]);
            put_u32(&mut slot, at::CRC, crc);
            Control::decode(&slot)
        };
        for version in CONTROL_FORMAT_OLDEST..=CONTROL_FORMAT_VERSION {
            assert_eq!(decode_as(version).as_ref(), Ok(&old), "version {version}");
        }
        for version in [0, CONTROL_FORMAT_VERSION + 1] {
            assert_eq!(decode_as(version), Err(SlotFault::Version(version)), "R2");
        }
    }

    #[test]
    fn every_flipped_or_cut_slot_is_detected() {
        let mut slot = vec![0; SLOT_LEN];
        example().encode(&mut slot).unwrap();
        let used = example().used();
        for bit in 0..used * 8 {
            let mut slot = slot.clone();
            slot[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Control::decode(&slot), Err(SlotFault::Bad(..))), "bit {bit}");
        }
        for len in 0..used {
            assert!(Control::decode(&slot[..len]).is_err(), "length {len}");
        }
    }

    /// A checksum only proves which bytes were written, not that they are valid.
    #[test]
    fn invalid_content_under_good_checksum_is_refused() {
        type Change = fn(&mut Control);
        let changes: &[(&str, Change)] = &[
            ("no block begins there", |control| control.partitions[0].scan_from = LogOffset::new(100)),
            ("no block ends there", |control| control.partitions[0].durable_below = LogOffset::new(8191)),
            ("read from behind its end", |control| control.partitions[0].scan_from = LogOffset::new(12_288)),
            ("beyond every log", |control| control.partitions[0].durable_below = LogOffset::new(u64::MAX - 4095)),
            ("so many segments no log has", |control| control.partitions[1].segments_begun = u64::MAX),
            ("an epoch within a block", |control| control.epochs.list[1].begins[0] = LogOffset::new(4000)),
            ("an epoch beyond every log", |control| control.epochs.list[1].begins[0] = LogOffset::new(u64::MAX - 4095)),
            ("the newest epoch has ended", |control| control.epochs.list[1].end = Lsn::new(90)),
            ("joined with none", |control| control.epochs.list[0].oldest = 0),
            ("dead without end", |control| control.epochs.list[0].dead[1].end = Lsn::new(50)),
            ("dead twice", |control| control.epochs.list[0].dead[1].start = Lsn::new(8)),
            ("dead backwards", |control| control.epochs.list[0].dead[1].end = Lsn::new(19)),
            ("no epoch", |control| control.epochs.list.clear()),
            ("no epoch can follow", |control| control.epochs.list[1].number = u32::MAX),
            ("no LSN can follow", |control| control.epochs.list[1].first = Lsn::MAX.previous()),
            ("no promise can follow", |control| control.promise = Lsn::MAX),
            ("no write can follow", |control| control.generation = u64::MAX),
            ("no transaction can follow", |control| control.checkpoint.next_txn = u64::MAX),
            ("redo before the scan", |control| control.checkpoint.redo_lsn = Lsn::new(19)),
            ("redo beyond every log", |control| control.checkpoint.redo_lsn = Lsn::MAX),
            ("one name, two numbers", |control| control.names.push("é".into())),
            ("a name too long", |control| control.names.push("n".repeat(NAME_LEN_MAX + 1))),
        ];
        for (what, change) in changes {
            let mut control = example();
            change(&mut control);
            let mut slot = vec![0; SLOT_LEN];
            control.encode(&mut slot).unwrap();
            assert!(matches!(Control::decode(&slot), Err(SlotFault::Bad(..))), "{what}");
        }
    }

    /// R6: a write of one slot was killed, or failed and was forgotten; the next opening writes both slots, and the
    /// power fails in between.
    #[test]
    fn killed_control_write_leaves_one_slot() {
        use cedrat_media::{Kill, Loss, SimDisk};
        let disk = SimDisk::new();
        let (file, _lock) = ControlFile::create(&disk, false).unwrap();
        // Longer than a sector at both ends, so that a slot may be torn.
        let mut control = example();
        control.names = (0..40).map(|n| format!("{n:0>60}")).collect();
        file.write(&disk, &control).unwrap();
        let begin = disk.journal_len();
        control.generation += 1;
        control.names.rotate_left(1);
        file.write(&disk, &control).unwrap();
        for at in begin..=disk.journal_len() {
            let mut cursor = disk.journal().cursor();
            cursor.advance_to(at);
            for kill in (0..8).flat_map(|seed| [Kill::Process(seed), Kill::FailedSync(seed)]) {
                let again = cursor.kill(kill);
                let (file, mut found) = ControlFile::open(&again, OpenMode::ReadWrite).unwrap();
                file.settle(&again, &found).unwrap();
                found.generation += 1;
                found.names.rotate_left(1); // neither slot has these bytes already
                file.write(&again, &found).unwrap();
                let mut power = again.journal().cursor();
                loop {
                    for seed in 0..20 {
                        let left = SimDisk::from_image(power.image(Loss::Random(seed)));
                        let (_, left) = ControlFile::open(&left, OpenMode::Read).unwrap();
                        assert!(left.generation + 2 >= found.generation, "R6: {kill:?} at {at}");
                    }
                    if !power.advance() {
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn oversized_control_is_refused_with_limit() {
        let mut control = example();
        control.names = (0..1000).map(|n| format!("{n:0>200}")).collect();
        let error = control.encode(&mut vec![0; SLOT_LEN]).unwrap_err();
        assert!(matches!(error, LogError::Limit { limit, .. } if limit == SLOT_LEN as u64));
    }

    proptest! {
        /// Counts and lengths of a hostile file cause no panic, even under a correct checksum.
        #[test]
        fn hostile_content_never_panics(
            changes in proptest::collection::vec((at::VERSION..600usize, any::<u8>()), 1..20),
        ) {
            let mut slot = vec![0; 1024];
            let mut whole = vec![0; SLOT_LEN];
            example().encode(&mut whole).unwrap();
            slot.copy_from_slice(&whole[..1024]);
            for (at, byte) in changes {
                slot[at] = byte;
            }
            let used = (get_u32(&slot, at::USED) as usize).clamp(at::LISTS, 1024);
            put_u32(&mut slot, at::USED, used as u32);
            let crc = crc32c::crc32c(&slot[at::VERSION..used]);
            put_u32(&mut slot, at::CRC, crc);
            let _ = Control::decode(&slot);
        }
    }
}
