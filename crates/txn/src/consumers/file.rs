//! The file of named consumers (drawn in docs/formats/consumers.md).
//!
//! Each consumer has a pair of sectors, which are written in turn: a crash in a write leaves the other one. The sector with the
//! higher generation counts.

use cedrat_media::{Durability, FileId, Media, OpenMode, read_exact_at, write_all_at};
use cedrat_sync::Arc;
use cedrat_wal::{LogError, Lsn};
use std::io::ErrorKind;

use crate::error::{Error, Result};

/// The name of the file in the store's directory.
pub const CONSUMERS_FILE: &str = "consumers";

/// The maximum length of a consumer's name in bytes.
pub(super) const NAME_LEN_MAX: usize = 128;

/// The maximum number of consumers.
const PLACES_MAX: usize = 1024;

const SECTOR_LEN: usize = 512;
const PLACE_LEN: usize = 2 * SECTOR_LEN;

const MAGIC: [u8; 4] = *b"CCON";

/// Offsets in a sector.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CRC: usize = MAGIC + 4; //        CRC-32C of the rest of the sector
    pub(super) const GENERATION: usize = CRC + 4; //   counts the writes of this consumer
    pub(super) const STATE: usize = GENERATION + 8; // 0: no consumer, 1: keeps the log, 2: released
    pub(super) const NAME_LEN: usize = STATE + 1;
    pub(super) const KIND: usize = NAME_LEN + 1; //    0: of the change stream, 1: a replica
    pub(super) const RESERVED: usize = KIND + 1; //    zero
    pub(super) const POSITION: usize = RESERVED + 5;
    pub(super) const NEEDS: usize = POSITION + 8;
    pub(super) const LIMIT: usize = NEEDS + 8; //      bytes of log that it may keep
    pub(super) const RELEASED: usize = LIMIT + 8; //   bytes of log that it kept when it was released
    pub(super) const NAME: usize = RELEASED + 8;
}

/// A consumer, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Whether it is a replica, which gets the log itself.
    pub(super) is_replica: bool,
    pub(super) position: Lsn,
    pub(super) needs: Lsn,
    pub(super) limit: u64,
    /// The bytes of log that it kept when it was released; `None`: it keeps the log.
    pub(super) released: Option<u64>,
}

/// The file, and what it contains. It is created with the first consumer.
#[derive(Debug)]
pub(super) struct ConsumersFile {
    media: Arc<dyn Media>,
    file: Option<FileId>,
    places: Vec<Place>,
}

/// The pair of sectors of one consumer.
#[derive(Clone, Debug, Default)]
struct Place {
    generation: u64,
    entry: Option<Entry>,
}

impl ConsumersFile {
    /// Reads the file, if there is one. Nothing is written.
    pub(super) fn open(media: &Arc<dyn Media>, mode: OpenMode) -> Result<ConsumersFile> {
        let file = match media.open(CONSUMERS_FILE, mode) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(format!("opening {CONSUMERS_FILE}"), error)),
        };
        let mut opened = ConsumersFile { media: Arc::clone(media), file, places: Vec::new() };
        if let Some(file) = file {
            opened.read(file)?;
        }
        Ok(opened)
    }

    fn read(&mut self, file: FileId) -> Result<()> {
        let io = |error| Error::io(format!("reading {CONSUMERS_FILE}"), error);
        let len = self.media.len(file).map_err(io)?.min((PLACES_MAX * PLACE_LEN) as u64) as usize;
        let mut bytes = vec![0; len];
        read_exact_at(&*self.media, file, 0, &mut bytes).map_err(io)?;
        // The last write may have been the first of its consumer.
        bytes.resize(len.next_multiple_of(PLACE_LEN), 0);
        for (number, place) in bytes.chunks(PLACE_LEN).enumerate() {
            let (first, second) = place.split_at(SECTOR_LEN);
            let newest = [decode(first), decode(second)].into_iter().flatten().max_by_key(|place| place.generation);
            let is_unused = place.iter().all(|&byte| byte == 0);
            let is_last = (number + 1) * PLACE_LEN >= len;
            match newest {
                Some(newest) => self.places.push(newest),
                // A crash may have cut the first write of a consumer.
                None if is_unused || is_last => self.places.push(Place::default()),
                None => {
                    let (file, offset) = (self.media.path(file), (number * PLACE_LEN) as u64);
                    let what = "neither sector of a consumer is whole".into();
                    return Err(LogError::Damaged { file, offset, what }.into());
                }
            }
        }
        Ok(())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.places.iter().filter_map(|place| place.entry.as_ref())
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries().find(|entry| entry.name == name)
    }

    /// Writes a consumer durably: in its place, or in a new one.
    pub(super) fn put(&mut self, entry: Entry) -> Result<()> {
        let is_its = |place: &Place| place.entry.as_ref().is_some_and(|known| known.name == entry.name);
        let mut at = self.places.iter().position(is_its);
        at = at.or_else(|| self.places.iter().position(|place| place.entry.is_none()));
        let at = at.unwrap_or(self.places.len());
        if at >= PLACES_MAX {
            return Err(Error::Misuse("the store has 1,024 consumers: drop one of them"));
        }
        self.write(at, Some(entry))
    }

    /// Removes a consumer durably.
    pub(super) fn remove(&mut self, name: &str) -> Result<bool> {
        let is_its = |place: &Place| place.entry.as_ref().is_some_and(|known| known.name == name);
        let Some(at) = self.places.iter().position(is_its) else { return Ok(false) };
        self.write(at, None)?;
        Ok(true)
    }

    fn write(&mut self, at: usize, entry: Option<Entry>) -> Result<()> {
        let io = |error| Error::io(format!("writing {CONSUMERS_FILE}"), error);
        let file = match self.file {
            Some(file) => file,
            None => {
                let file = self.media.open(CONSUMERS_FILE, OpenMode::Create).map_err(io)?;
                self.file = Some(file);
                file
            }
        };
        if at == self.places.len() {
            self.places.push(Place::default());
        }
        let place = Place { generation: self.places[at].generation + 1, entry };
        let offset = at * PLACE_LEN + (place.generation % 2) as usize * SECTOR_LEN;
        write_all_at(&*self.media, file, offset as u64, &encode(&place), Durability::Durable).map_err(io)?;
        // Its name, and its length.
        if place.generation == 1 {
            self.media.sync(file).and_then(|()| self.media.sync_directory("")).map_err(io)?;
        }
        self.places[at] = place;
        Ok(())
    }
}

fn encode(place: &Place) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR_LEN];
    let mut put = |at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    put(at::GENERATION, place.generation);
    if let Some(entry) = &place.entry {
        put(at::POSITION, entry.position.get());
        put(at::NEEDS, entry.needs.get());
        put(at::LIMIT, entry.limit);
        put(at::RELEASED, entry.released.unwrap_or(0));
        bytes[at::STATE] = if entry.released.is_some() { 2 } else { 1 };
        bytes[at::NAME_LEN] = entry.name.len() as u8;
        bytes[at::KIND] = entry.is_replica.into();
        bytes[at::NAME..at::NAME + entry.name.len()].copy_from_slice(entry.name.as_bytes());
    }
    bytes[at::MAGIC..at::CRC].copy_from_slice(&MAGIC);
    let crc = crc(&bytes);
    bytes[at::CRC..at::GENERATION].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn crc(sector: &[u8]) -> u32 {
    crc32c::crc32c(&sector[at::GENERATION..])
}

fn decode(sector: &[u8]) -> Option<Place> {
    let number = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes"));
    if sector[at::MAGIC..at::CRC] != MAGIC || sector[at::CRC..at::GENERATION] != crc(sector).to_le_bytes() {
        return None;
    }
    let state = sector[at::STATE];
    let name_len = usize::from(sector[at::NAME_LEN]);
    let name = std::str::from_utf8(sector.get(at::NAME..at::NAME + name_len.min(NAME_LEN_MAX))?).ok()?;
    let entry = Entry {
        name: name.to_owned(),
        is_replica: sector[at::KIND] == 1,
        position: Lsn::new(number(at::POSITION)),
        needs: Lsn::new(number(at::NEEDS)),
        limit: number(at::LIMIT),
        released: (state == 2).then(|| number(at::RELEASED)),
    };
    Some(Place { generation: number(at::GENERATION), entry: (state != 0).then_some(entry) })
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_media::{Loss, SimDisk};

    use super::*;

    fn entry(name: &str, position: u64) -> Entry {
        let (position, needs) = (Lsn::new(position), Lsn::new(position / 2));
        let released = (position.get() % 3 == 0).then_some(7);
        Entry { name: name.into(), is_replica: name == "b", position, needs, limit: 1 << 20, released }
    }

    fn found(disk: &SimDisk) -> Vec<Entry> {
        let media: Arc<dyn Media> = Arc::new(disk.clone());
        ConsumersFile::open(&media, OpenMode::Read).expect("a crash damages nothing").entries().cloned().collect()
    }

    /// After a crash at any call each consumer is as before the call that was cut, or as after it.
    #[test]
    fn crash_leaves_old_or_new_consumer() {
        let disk = SimDisk::new();
        let media: Arc<dyn Media> = Arc::new(disk.clone());
        let mut file = ConsumersFile::open(&media, OpenMode::ReadWrite).unwrap();
        let mut states = vec![(0, Vec::new())];
        let mut note = |file: &ConsumersFile| {
            states.push((disk.journal_len(), file.entries().cloned().collect::<Vec<_>>()));
        };
        for position in 1..5 {
            for name in ["a", "b"] {
                file.put(entry(name, position)).unwrap();
                note(&file);
            }
        }
        assert!(file.remove("a").unwrap() && !file.remove("c").unwrap());
        note(&file);
        file.put(entry("c", 9)).unwrap();
        note(&file);
        for at in 0..=disk.journal_len() {
            for loss in [Loss::Everything, Loss::Nothing, Loss::TornLast(0b0101), Loss::Random(at as u64)] {
                let found = found(&disk.journal().crash(at, loss));
                let done = states.iter().rposition(|(end, _)| *end <= at).expect("the first one");
                let allowed = &states[done..(done + 2).min(states.len())];
                assert!(allowed.iter().any(|(_, state)| *state == found), "{at}, {loss:?}: {found:?}");
            }
        }
    }

    #[test]
    fn damaged_consumer_is_refused() {
        let disk = SimDisk::new();
        let media: Arc<dyn Media> = Arc::new(disk.clone());
        let mut file = ConsumersFile::open(&media, OpenMode::ReadWrite).unwrap();
        for name in ["a", "b"] {
            file.put(entry(name, 5)).unwrap();
            file.put(entry(name, 6)).unwrap();
        }
        for sector in 0..2 {
            let file = media.open(CONSUMERS_FILE, OpenMode::ReadWrite).unwrap();
            write_all_at(&*media, file, sector * SECTOR_LEN as u64 + 40, b"damage", Durability::Durable).unwrap();
        }
        let error = ConsumersFile::open(&media, OpenMode::Read).unwrap_err().to_string();
        assert!(error.contains(CONSUMERS_FILE) && error.contains("neither sector"), "{error}");
    }
}
