//! The moments of an archive: time, LSN and a description of the rest of the store at each extension (drawn in
//! docs/formats/archive.md).
//!
//! Each moment is appended and synced before the archive's control file names its end.

use cedrat_media::{Durability, FileId, Media, OpenMode, read_exact_at, write_all_at};
use cedrat_sync::planted;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{LogError, Lsn};

/// The name of an archive's first file of moments. Each later one, which lacks forgotten moments, has a number of its own.
pub(crate) const MOMENTS_FILE: &str = "moments";

/// Returns the name of the file of moments with this number.
pub(crate) fn file_name(number: u32) -> String {
    if number == 0 { MOMENTS_FILE.to_owned() } else { format!("{MOMENTS_FILE}-{number}") }
}

/// Returns the number in the name of a file of moments; `None` if it is another file.
pub(crate) fn file_number(name: &str) -> Option<u32> {
    let number = match name.strip_prefix(MOMENTS_FILE)? {
        "" => 0,
        rest => rest.strip_prefix('-')?.parse().ok()?,
    };
    (file_name(number) == name).then_some(number)
}

/// Offsets in an entry; the description follows.
mod at {
    pub(super) const CHECKSUM: usize = 0; //         CRC-32C of the rest of the entry
    pub(super) const LEN: usize = CHECKSUM + 4; //   length of the description
    pub(super) const TIME: usize = LEN + 4; //       milliseconds since 1970, UTC
    pub(super) const LSN: usize = TIME + 8;
    pub(super) const DESCRIPTION: usize = LSN + 8;
}

/// The maximum length of a description in bytes.
const DESCRIPTION_LEN_MAX: usize = 1 << 20;

/// The time of a moment that has none: of a part of the log, which lacks commits that had returned.
const NO_TIME: u64 = u64::MAX;

/// Returns the time in milliseconds since 1970, UTC.
pub(crate) fn now_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A moment of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Every synchronous commit that had returned at this time is in the archive. Milliseconds since 1970, UTC.
    pub(crate) millis: u64,
    /// The archive had all records up to this LSN.
    pub up_to: Lsn,
    /// The description of the rest of the store, if it has changed since the moment before.
    pub(crate) description: Vec<u8>,
}

impl Moment {
    /// Returns the time: every synchronous commit that had returned then is archived. `None`: it only has a description.
    pub fn time(&self) -> Option<SystemTime> {
        (self.millis != NO_TIME).then(|| UNIX_EPOCH + Duration::from_millis(self.millis))
    }

    /// Returns the moment without its time.
    pub(crate) fn without_time(self) -> Moment {
        Moment { millis: NO_TIME, ..self }
    }

    /// Returns the moment as it stands in its file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; at::DESCRIPTION];
        bytes[at::LEN..at::TIME].copy_from_slice(&(self.description.len() as u32).to_le_bytes());
        bytes[at::TIME..at::LSN].copy_from_slice(&self.millis.to_le_bytes());
        bytes[at::LSN..at::DESCRIPTION].copy_from_slice(&self.up_to.get().to_le_bytes());
        bytes.extend_from_slice(&self.description);
        let checksum = crc32c::crc32c(&bytes[at::LEN..]);
        bytes[at::CHECKSUM..at::LEN].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the entry at the beginning of some bytes, if it is whole.
    pub fn decode(bytes: &[u8]) -> Option<Moment> {
        let number =
            |at: usize| bytes.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
        let len = u32::from_le_bytes(bytes.get(at::LEN..at::TIME)?.try_into().expect("four bytes")) as usize;
        let end = at::DESCRIPTION + len.min(DESCRIPTION_LEN_MAX + 1);
        let checksum = u32::from_le_bytes(bytes[at::CHECKSUM..at::LEN].try_into().expect("four bytes"));
        if crc32c::crc32c(bytes.get(at::LEN..end)?) != checksum {
            return None;
        }
        let description = bytes[at::DESCRIPTION..end].to_vec();
        Some(Moment { millis: number(at::TIME)?, up_to: Lsn::new(number(at::LSN)?), description })
    }

    fn len(&self) -> u64 {
        (at::DESCRIPTION + self.description.len()) as u64
    }
}

/// The file of moments, open for more.
#[derive(Debug)]
pub(crate) struct Moments {
    file: FileId,
    end: u64,
    /// The newest description.
    description: Vec<u8>,
    /// The LSN of the newest moment.
    up_to: Lsn,
}

impl Moments {
    /// Creates the file, durably, without a moment. An interrupted creation may have left one.
    pub(crate) fn create(media: &dyn Media) -> Result<Moments, LogError> {
        let created =
            media.open(MOMENTS_FILE, OpenMode::Create).or_else(|_| media.open(MOMENTS_FILE, OpenMode::ReadWrite));
        let file = created
            .and_then(|file| media.set_len(file, 0).and_then(|()| media.sync(file)).map(|()| file))
            .map_err(|error| LogError::io(format!("creating the file {MOMENTS_FILE}"), error))?;
        Ok(Moments { file, end: 0, description: Vec::new(), up_to: Lsn::ZERO })
    }

    /// Opens the file of an archive with this number, whose moments end at an offset, and returns all of them, too. What follows is an
    /// interrupted append, which the next one overwrites.
    pub(crate) fn open(
        media: &dyn Media,
        number: u32,
        end: u64,
        mode: OpenMode,
    ) -> Result<(Moments, Vec<Moment>), LogError> {
        let name = file_name(number);
        let io = |error| LogError::io(format!("reading the file {name}"), error);
        let file = media.open(&name, mode).map_err(io)?;
        Moments { file, end, description: Vec::new(), up_to: Lsn::ZERO }.read(media)
    }

    /// Reads the file up to its end.
    pub(crate) fn read(&self, media: &dyn Media) -> Result<(Moments, Vec<Moment>), LogError> {
        let (file, end) = (self.file, self.end);
        let io = |error| LogError::io(format!("reading {}", media.path(file)), error);
        let mut bytes = vec![0; media.len(file).map_err(io)?.min(end) as usize];
        read_exact_at(media, file, 0, &mut bytes).map_err(io)?;
        let mut moments = Moments { file, end: 0, description: Vec::new(), up_to: Lsn::ZERO };
        let mut list: Vec<Moment> = Vec::new();
        while let Some(moment) = Moment::decode(&bytes[moments.end as usize..]) {
            moments.add(&moment);
            list.push(moment);
        }
        if moments.end != end && !planted!("lost_moments_ignored") {
            let what = "the entry of a moment is missing or corrupt".to_owned();
            return Err(LogError::Damaged { file: media.path(file), offset: moments.end, what });
        }
        Ok((moments, list))
    }

    /// Writes moments to a new file with this number, durably, as the archive has them from an LSN on: the last one before it has
    /// the description that its successors do not repeat.
    pub(crate) fn write_from(
        media: &dyn Media,
        number: u32,
        moments: &[Moment],
        lsn: Lsn,
    ) -> Result<Moments, LogError> {
        let name = file_name(number);
        let io = |error| LogError::io(format!("writing the file {name}"), error);
        let file = media.open(&name, OpenMode::Create).map_err(io)?;
        let mut kept = Moments { file, end: 0, description: Vec::new(), up_to: Lsn::ZERO };
        let first = moments.partition_point(|moment| moment.up_to < lsn).saturating_sub(1);
        let mut bytes = Vec::new();
        for (index, moment) in moments.iter().enumerate().skip(first) {
            let mut moment = moment.clone();
            if index == first && !planted!("description_forgotten") {
                let described = moments[..=index].iter().rfind(|moment| !moment.description.is_empty());
                moment.description = described.map(|moment| moment.description.clone()).unwrap_or_default();
            }
            bytes.extend(moment.encode());
            kept.add(&moment);
        }
        write_all_at(media, file, 0, &bytes, Durability::Volatile).and_then(|()| media.sync(file)).map_err(io)?;
        media.sync_directory("").map_err(io)?;
        Ok(kept)
    }

    /// Returns the offset behind the newest moment.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the newest moment, if there is one, lies before an LSN.
    pub(crate) fn end_before(&self, lsn: Lsn) -> bool {
        self.end > 0 && self.up_to < lsn
    }

    /// Whether a description differs from the newest one.
    pub(crate) fn is_new(&self, description: &[u8]) -> bool {
        self.description != description
    }

    /// Appends a moment, durably. `moment` has a description of the whole store.
    pub(crate) fn append(&mut self, media: &dyn Media, mut moment: Moment) -> Result<(), LogError> {
        if !self.is_new(&moment.description) {
            moment.description.clear();
        }
        let given = moment.description.len() as u64;
        if given > DESCRIPTION_LEN_MAX as u64 {
            let what = "the description of a store in an archive, in bytes";
            return Err(LogError::Limit { what, given, limit: DESCRIPTION_LEN_MAX as u64 });
        }
        write_all_at(media, self.file, self.end, &moment.encode(), Durability::Durable)
            .map_err(|error| LogError::io(format!("extending {}", media.path(self.file)), error))?;
        self.add(&moment);
        Ok(())
    }

    fn add(&mut self, moment: &Moment) {
        (self.end, self.up_to) = (self.end + moment.len(), moment.up_to);
        if !moment.description.is_empty() {
            self.description.clone_from(&moment.description);
        }
    }
}

/// Returns the description of the last moment with an LSN. Without one, those between which the LSN lies: that of the last moment
/// before it, and that of the first one after it.
pub(crate) fn descriptions_around(moments: &[Moment], lsn: Lsn) -> Vec<&[u8]> {
    let newest = |moments: &'_ [Moment]| moments.iter().rposition(|moment| !moment.description.is_empty());
    let up_to = moments.partition_point(|moment| moment.up_to <= lsn);
    let is_moment = up_to > 0 && moments[up_to - 1].up_to == lsn;
    let next = if is_moment { up_to } else { moments.len().min(up_to + 1) };
    let mut found: Vec<usize> = newest(&moments[..up_to]).into_iter().chain(newest(&moments[..next])).collect();
    found.dedup();
    found.into_iter().map(|index| &*moments[index].description).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_media::SimDisk;
    use cedrat_sync::explore;

    fn moment(up_to: u64, description: &[u8]) -> Moment {
        Moment { millis: 1_000 + up_to, up_to: Lsn::new(up_to), description: description.to_vec() }
    }

    /// A moment that the control file does not name yet is written over, and one that it names is missed.
    #[test]
    fn damaged_moment_is_refused() {
        explore(1, 1, || {
            let disk = SimDisk::new();
            let mut moments = Moments::create(&disk).expect("the disk works");
            let mut ends = Vec::new();
            for (lsn, description) in [(1, b"one"), (5, b"one"), (9, b"two")] {
                moments.append(&disk, moment(lsn, description)).expect("the disk works");
                ends.push(moments.end());
            }
            let (_, list) = Moments::open(&disk, 0, ends[2], OpenMode::Read).expect("it is whole");
            assert_eq!(list, [moment(1, b"one"), moment(5, b""), moment(9, b"two")]);
            write_all_at(&disk, moments.file, ends[2] - 1, &[9], Durability::Durable).expect("the disk works");
            let error = Moments::open(&disk, 0, ends[2], OpenMode::Read).expect_err("E18.9c");
            assert!(matches!(error, LogError::Damaged { offset, .. } if offset == ends[1]), "E18.9c: {error}");
            let (mut again, list) =
                Moments::open(&disk, 0, ends[1], OpenMode::ReadWrite).expect("the third is not named");
            assert_eq!(list.len(), 2);
            again.append(&disk, moment(9, b"two")).expect("the disk works");
            assert_eq!(Moments::open(&disk, 0, ends[2], OpenMode::Read).expect("it is whole").1.len(), 3);
        });
    }

    #[test]
    fn target_lies_between_descriptions() {
        explore(1, 1, || {
            let moments = [moment(1, b"a"), moment(5, b""), moment(9, b"b"), moment(9, b"c"), moment(12, b"")];
            let around = |lsn| descriptions_around(&moments, Lsn::new(lsn));
            assert_eq!(around(1), [b"a"]);
            assert_eq!(around(5), [b"a"]);
            assert_eq!(around(6), [b"a", b"b"]);
            assert_eq!(around(9), [b"c"]);
            assert_eq!(around(10), [b"c"]);
            assert_eq!(around(20), [b"c"]);
        });
    }
}
