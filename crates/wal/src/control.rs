//! The control file: what must be known before the first record can be read (drawn in docs/formats/control.md).
//!
//! It has two slots with the same content. A change is written durably to one slot, then to the other, so at any
//! moment one of them is whole; the one with the higher generation counts.

use cedrat_media::{AlignedBuf, Durability, FileId, Media, OpenMode, read_exact_at, write_all_at};
use std::collections::HashSet;

use crate::block::{BLOCK_UNIT, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::checksum::StoreId;
use crate::epoch::{Epoch, Epochs, JOINED_MAX};
use crate::{LogError, LogOffset, Lsn};

/// The control file's name in the store's directory.
pub const CONTROL_FILE: &str = "control";

/// The version of the control file that this code writes; it reads no other.
pub(crate) const CONTROL_FORMAT_VERSION: u32 = 1;

/// The length of one of the two slots.
pub(crate) const SLOT_LEN: usize = 64 * 1024;

/// The most partitions a log has.
pub const PARTITIONS_MAX: u16 = 64;

/// The longest name of an operation or record kind, in bytes.
pub const NAME_LEN_MAX: usize = 255;

/// `CEDRATCF`.
pub(crate) const CONTROL_MAGIC: [u8; 8] = *b"CEDRATCF";

/// Where the fixed parts of a slot lie. The lists follow: partitions, epochs, names.
pub(crate) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const CRC: usize = MAGIC + 8; //            of everything used behind it
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
    pub(crate) const RESERVED: usize = PARTITIONS + 2;
    pub(crate) const EPOCH_COUNT: usize = RESERVED + 6;
    pub(crate) const NAME_COUNT: usize = EPOCH_COUNT + 4;
    pub(crate) const LISTS: usize = NAME_COUNT + 4;
}
const _: () = assert!(at::LISTS == 104 && at::STORE == 24);

/// Where recovery begins (Lemon §3.4; E3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Redo begins at the first record with this LSN or a later one.
    pub redo_lsn: Lsn,
    /// The log is read from this LSN on: the smaller of `redo_lsn` and the first LSN of the oldest transaction
    /// that had not ended.
    pub scan_lsn: Lsn,
    /// No transaction number from this one on was used when the checkpoint was taken.
    pub next_txn: u64,
}

/// What the control file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The store's random name.
    pub store: StoreId,
    /// The length of the store's pages in bytes; the log only keeps it.
    pub page_len: u32,
    /// The length of a log segment in bytes, its header included.
    pub segment_len: u64,
    /// Counts the writes of the control file.
    pub generation: u64,
    /// The newest checkpoint.
    pub checkpoint: Checkpoint,
    /// Every LSN up to here was durable when the control file was written (E20).
    pub promise: Lsn,
    /// For each partition, where reading begins, and the place below which it was durable (E8.2).
    pub partitions: Vec<ControlPartition>,
    /// The epochs the log still holds records of.
    pub epochs: Epochs,
    /// Names of operations and record kinds; a name's number is its index, never reused.
    pub names: Vec<String>,
}

/// What the control file says about one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPartition {
    /// A block begins here, and every record from `scan_lsn` on lies here or later.
    pub scan_from: LogOffset,
    /// The partition was durable below this place.
    pub durable_below: LogOffset,
    /// So many of the partition's segments have a durable header: where one of them is missing, it was lost since.
    pub segments_begun: u64,
}

/// Why a slot is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotFault {
    /// Nothing was ever written here.
    Zero,
    /// A whole slot of another version.
    Version(u32),
    /// Damage, with the place in the slot and what is wrong there.
    Bad(usize, &'static str),
}

impl Control {
    /// How many bytes of a slot this control file uses.
    fn used(&self) -> usize {
        at::LISTS
            + self.partitions.len() * 24
            + self.epochs.iter().map(epoch_len).sum::<usize>()
            + self.names.iter().map(|name| 2 + name.len()).sum::<usize>()
    }

    /// Joins the oldest epochs while the slot is nearly full: the next opening shall find room for one more.
    pub(crate) fn join_epochs(&mut self) {
        while self.used() > SLOT_LEN / 8 * 7 && self.epochs.join_oldest() {}
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
            return Err(SlotFault::Bad(at::PARTITIONS, "the number of partitions makes no sense"));
        }
        let segment_len = get_u64(slot, at::SEGMENT_LEN);
        if !crate::options::segment_len_is_possible(segment_len) {
            return Err(SlotFault::Bad(at::SEGMENT_LEN, "the segment length makes no sense"));
        }
        // A checksum tells what was written, not that it makes sense: what the rest of the log computes with is looked
        // at here, once.
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
            return Err(SlotFault::Bad(at::SCAN_LSN, "the log would be read from behind where redo begins"));
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
        })
    }
}

/// The bytes of a slot that were written, if they are whole and of the version that is read here.
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
        return Err(SlotFault::Bad(at::USED, "the length makes no sense"));
    }
    if crc32c::crc32c(&slot[at::VERSION..used]) != get_u32(slot, at::CRC) {
        return Err(SlotFault::Bad(at::CRC, "the checksum does not hold"));
    }
    let version = get_u32(slot, at::VERSION);
    if version != CONTROL_FORMAT_VERSION {
        return Err(SlotFault::Version(version));
    }
    Ok(&slot[..used])
}

/// Bytes that an epoch takes in a slot.
fn epoch_len(epoch: &Epoch) -> usize {
    let joined = if epoch.oldest < epoch.number { 8 + 16 * epoch.dead.len() } else { 0 };
    24 + 8 * epoch.begins.len() + joined
}

/// Walks over the lists of a slot; never beyond their end, whatever the counts say.
struct Lists<'a> {
    slot: &'a [u8],
    at: usize,
}

impl<'a> Lists<'a> {
    fn number(&mut self) -> Result<u64, SlotFault> {
        if self.slot.len() - self.at < 8 {
            return Err(SlotFault::Bad(self.at, "a list goes on behind the end"));
        }
        let value = get_u64(self.slot, self.at);
        self.at += 8;
        Ok(value)
    }

    /// A place where a block may begin.
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
            return Err(SlotFault::Bad(at, "what is said of a partition makes no sense"));
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
                    return Err(SlotFault::Bad(begin, "the dead numbers of an epoch make no sense"));
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

    fn name(&mut self) -> Result<&'a str, SlotFault> {
        let at = self.at;
        let rest = &self.slot[at..];
        let text = (rest.len() >= 2)
            .then(|| rest.get(2..2 + usize::from(get_u16(rest, 0))))
            .flatten()
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .filter(|text| text.len() <= NAME_LEN_MAX)
            .ok_or(SlotFault::Bad(at, "a name is cut off, too long or not text"))?;
        self.at += 2 + text.len();
        Ok(text)
    }
}

/// The open control file.
#[derive(Debug)]
pub(crate) struct ControlFile {
    file: FileId,
}

impl ControlFile {
    /// Makes an empty control file of full length: the first step of creating a store.
    pub(crate) fn create(media: &dyn Media) -> Result<ControlFile, LogError> {
        let doing = "creating the control file";
        let file = match media.open(CONTROL_FILE, OpenMode::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                media.open(CONTROL_FILE, OpenMode::ReadWrite)
            }
            opened => opened,
        }
        .map_err(|error| LogError::io(doing, error))?;
        let zeros = AlignedBuf::zeroed(2 * SLOT_LEN);
        write_all_at(media, file, 0, &zeros, Durability::Volatile)
            .and_then(|()| media.sync(file))
            .and_then(|()| media.sync_directory(""))
            .map_err(|error| LogError::io(doing, error))?;
        Ok(ControlFile { file })
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
        let mut newest: Option<Control> = None;
        let mut faults = Vec::new();
        for slot in 0..2u64 {
            let begin = slot * SLOT_LEN as u64;
            let mut bytes = AlignedBuf::zeroed(SLOT_LEN);
            let present = len.saturating_sub(begin).min(SLOT_LEN as u64) as usize;
            read_exact_at(media, file, begin, &mut bytes[..present]).map_err(io)?;
            match Control::decode(&bytes[..present]) {
                Ok(control) => {
                    if newest.as_ref().is_none_or(|other| other.generation < control.generation) {
                        newest = Some(control);
                    }
                }
                Err(fault) => faults.push((begin, fault)),
            }
        }
        for (begin, fault) in &faults {
            // A newer program wrote here: its slot counts, even beside an old one that we could read.
            if let &SlotFault::Version(found) = fault {
                return Err(LogError::Version {
                    file: path,
                    offset: begin + at::VERSION as u64,
                    found,
                    known: CONTROL_FORMAT_VERSION,
                });
            }
        }
        if let Some(control) = newest {
            return Ok((ControlFile { file }, control));
        }
        let bad = faults.iter().find_map(|(begin, fault)| match fault {
            SlotFault::Bad(at, what) => Some((begin + *at as u64, *what)),
            _ => None,
        });
        let (offset, what) = bad.unwrap_or((0, "both copies of the control file are empty"));
        Err(LogError::damaged(path, offset, what))
    }

    /// Whether the control file looks like one whose creation never came to its end: empty, or begun by us.
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

    /// Writes the control file durably: one slot, then the other.
    ///
    /// After an error neither the old nor the new content is certain; the log has to stop (W6).
    pub(crate) fn write(&self, media: &dyn Media, control: &Control) -> Result<(), LogError> {
        let mut slot = AlignedBuf::zeroed(SLOT_LEN);
        control.encode(&mut slot)?;
        for begin in [0, SLOT_LEN as u64] {
            write_all_at(media, self.file, begin, &slot, Durability::Durable)
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
        }
    }

    #[test]
    fn a_slot_survives_the_way_there_and_back() {
        let mut slot = vec![0xff; SLOT_LEN];
        example().encode(&mut slot).unwrap();
        assert_eq!(Control::decode(&slot), Ok(example()));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
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

    /// A checksum only tells what was written, not that it makes sense.
    #[test]
    fn content_that_makes_no_sense_is_refused_under_a_good_checksum() {
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
            ("dead for ever", |control| control.epochs.list[0].dead[1].end = Lsn::new(50)),
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

    #[test]
    fn what_does_not_fit_is_refused_with_its_limit() {
        let mut control = example();
        control.names = (0..1000).map(|n| format!("{n:0>200}")).collect();
        let error = control.encode(&mut vec![0; SLOT_LEN]).unwrap_err();
        assert!(matches!(error, LogError::Limit { limit, .. } if limit == SLOT_LEN as u64));
    }

    proptest! {
        /// Counts and lengths of a hostile file lead nowhere, even under a checksum that holds.
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
