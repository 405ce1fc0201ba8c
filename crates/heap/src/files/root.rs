//! The root of all heaps: which there are, and which checkpoint of each counts (drawn in docs/formats/heap.md).
//!
//! The file has two slots with the same content. A change is written durably to the one that is older, if a crash came between
//! the two before, then to the other; so at any moment one of them is whole and no older than the change before. The one with
//! the higher count of writes counts.

use cedrat_media::{AlignedBuf, Durability, FileId, Media, OpenMode, write_all_at};
use cedrat_wal::StoreId;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The root's name in the store's directory.
pub(crate) const ROOT_FILE: &str = "heaps.root";

/// The directory of checkpoint files.
pub(crate) const DIRECTORY: &str = "heaps";

const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"CEDRATHR";

/// The length of one of the two slots.
pub(crate) const SLOT_LEN: usize = 64 * 1024;

/// Where the fixed parts of a slot lie; the body follows.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CRC: usize = MAGIC + 8; //       of everything used behind it
    pub(super) const VERSION: usize = CRC + 4;
    pub(super) const USED: usize = VERSION + 4; //    bytes with meaning in the slot
    pub(super) const ZERO: usize = USED + 4;
    pub(super) const STORE: usize = ZERO + 4;
    pub(super) const WRITES: usize = STORE + 16;
    pub(super) const BODY: usize = WRITES + 8;
}
const _: () = assert!(at::STORE == 24 && at::BODY == 48);

/// What the root says. Encoded with postcard: numbers as varints, lists and text behind their length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Root {
    /// No heap had this number or a larger one.
    pub(crate) next_number: u32,
    /// In the order of their numbers.
    pub(crate) heaps: Vec<HeapRoot>,
}

/// What the root says about one heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeapRoot {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// The name of its checkpoint files, without `.0` and `.1`.
    pub(crate) file: String,
    /// Words in use, and what it may grow to.
    pub(crate) words: u64,
    pub(crate) reserved_words: u64,
    pub(crate) chunk_len: u64,
    /// Whether it keeps account of blocks.
    pub(crate) blocks: bool,
    /// Where it has to begin in memory; 0: anywhere.
    pub(crate) address: u64,
    /// The number of the newest whole checkpoint; it lies in the file `.0` if even, else in `.1`. 0: there is none.
    pub(crate) checkpoint: u64,
    /// How many chunks it has.
    pub(crate) chunks: u32,
    /// Commits up to this LSN are in it.
    pub(crate) redo_from: u64,
    /// Commits up to this LSN may be in it: they were durable when the root was written.
    pub(crate) reflects: u64,
    /// A checksum of the checksums of its chunks.
    pub(crate) digest: u32,
}

/// The file.
#[derive(Debug)]
pub(crate) struct RootFile {
    file: FileId,
    writes: u64,
    /// Where the newest lies whole. It is written last: until the other slot is whole, it is all there is.
    newest: usize,
}

impl RootFile {
    /// The file as it is, and what it says; `None` if there never was one.
    pub(crate) fn open(media: &dyn Media, store: &StoreId, mode: OpenMode) -> Result<Option<(RootFile, Root)>> {
        let doing = |error| Error::io(format!("opening {ROOT_FILE}"), error);
        if !media.list("").map_err(doing)?.iter().any(|name| name == ROOT_FILE) {
            return Ok(None);
        }
        let file = media.open(ROOT_FILE, mode).map_err(doing)?;
        let path = media.path(file);
        let len = media.len(file).map_err(doing)?.min(2 * SLOT_LEN as u64) as usize;
        let mut bytes = AlignedBuf::zeroed(2 * SLOT_LEN);
        cedrat_media::read_exact_at(media, file, 0, &mut bytes[..len])
            .map_err(|error| Error::io(format!("reading {path}"), error))?;
        let (first, second) = bytes.split_at(SLOT_LEN);
        match (decode(first, store), decode(second, store)) {
            (Ok((one, _)), Ok((writes, root))) if writes > one => {
                Ok(Some((RootFile { file, writes, newest: 1 }, root)))
            }
            (Ok((writes, root)), _) => Ok(Some((RootFile { file, writes, newest: 0 }, root))),
            (Err(_), Ok((writes, root))) => Ok(Some((RootFile { file, writes, newest: 1 }, root))),
            // Never completed: the first write was cut off before anything could depend on it.
            (Err(Fault::Zero), Err(Fault::Zero)) => Ok(None),
            // The first write was torn in its first slot: no heap's files were made yet.
            (Err(Fault::Bad(..)), Err(Fault::Zero)) if !has_checkpoints(media)? => Ok(None),
            (Err(Fault::Bad(at, what)), _) | (_, Err(Fault::Bad(at, what))) => {
                Err(Error::damaged(path, at as u64, what))
            }
        }
    }

    /// A root without heaps, durable when this returns.
    pub(crate) fn create(media: &dyn Media, store: &StoreId) -> Result<(RootFile, Root)> {
        let doing = |error| Error::io(format!("creating {ROOT_FILE}"), error);
        let file = media
            .open(ROOT_FILE, OpenMode::Create)
            .or_else(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => media.open(ROOT_FILE, OpenMode::ReadWrite),
                _ => Err(error),
            })
            .map_err(doing)?;
        media.allocate(file, 0, 2 * SLOT_LEN as u64).map_err(doing)?;
        media.sync(file).map_err(doing)?;
        media.sync_directory("").map_err(doing)?;
        let mut created = RootFile { file, writes: 0, newest: 1 };
        created.write(media, store, &Root::default())?;
        Ok((created, Root::default()))
    }

    /// Durably replaces what the root says. After an error that is not a [`Error::Limit`] nobody knows what it says.
    pub(crate) fn write(&mut self, media: &dyn Media, store: &StoreId, root: &Root) -> Result<()> {
        let slot = encode(store, self.writes + 1, root)?;
        let path = media.path(self.file);
        let doing = |error| Error::io(format!("writing {path}"), error);
        for slot_number in [1 - self.newest, self.newest] {
            let offset = (slot_number * SLOT_LEN) as u64;
            write_all_at(media, self.file, offset, &slot, Durability::Durable).map_err(doing)?;
        }
        self.writes += 1;
        Ok(())
    }
}

/// Whether any heap was created: its files come after the root's first write, which went to both slots.
fn has_checkpoints(media: &dyn Media) -> Result<bool> {
    let names = media.list(DIRECTORY).map_err(|error| Error::io("listing the heaps' directory", error))?;
    Ok(!names.is_empty())
}

/// Whether the root will fit into its slot, whatever LSNs and counts become.
pub(crate) fn check_len(root: &Root) -> Result<()> {
    let mut longest = root.clone();
    longest.next_number = u32::MAX;
    for heap in &mut longest.heaps {
        (heap.words, heap.checkpoint, heap.redo_from, heap.reflects) = (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        (heap.chunks, heap.digest) = (u32::MAX, u32::MAX);
    }
    encode(&StoreId::default(), 0, &longest).map(drop)
}

/// Why a slot is not used.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing was ever written here.
    Zero,
    Bad(usize, &'static str),
}

fn encode(store: &StoreId, writes: u64, root: &Root) -> Result<AlignedBuf> {
    let body = postcard::to_stdvec(root).expect("numbers, text and lists are always encoded");
    let used = at::BODY + body.len();
    if used > SLOT_LEN {
        let what = "the list of heaps, in bytes of the root's slot";
        return Err(Error::Limit { what, given: used as u64, limit: SLOT_LEN as u64 });
    }
    let mut slot = AlignedBuf::zeroed(SLOT_LEN);
    slot[at::MAGIC..at::CRC].copy_from_slice(&MAGIC);
    slot[at::VERSION..at::USED].copy_from_slice(&VERSION.to_le_bytes());
    slot[at::USED..at::ZERO].copy_from_slice(&(used as u32).to_le_bytes());
    slot[at::STORE..at::WRITES].copy_from_slice(store);
    slot[at::WRITES..at::BODY].copy_from_slice(&writes.to_le_bytes());
    slot[at::BODY..used].copy_from_slice(&body);
    let crc = crc32c::crc32c(&slot[at::VERSION..used]);
    slot[at::CRC..at::VERSION].copy_from_slice(&crc.to_le_bytes());
    Ok(slot)
}

fn decode(slot: &[u8], store: &StoreId) -> Result<(u64, Root), Fault> {
    if slot.iter().all(|&byte| byte == 0) {
        return Err(Fault::Zero);
    }
    if slot[at::MAGIC..at::CRC] != MAGIC {
        return Err(Fault::Bad(at::MAGIC, "this is not the root of a store's heaps"));
    }
    let number = |at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().expect("four bytes"));
    let used = number(at::USED) as usize;
    if !(at::BODY..=SLOT_LEN).contains(&used) {
        return Err(Fault::Bad(at::USED, "the length makes no sense"));
    }
    if crc32c::crc32c(&slot[at::VERSION..used]) != number(at::CRC) {
        return Err(Fault::Bad(at::CRC, "the checksum does not hold"));
    }
    if number(at::VERSION) != VERSION {
        return Err(Fault::Bad(at::VERSION, "it was written by another version of Cedrat"));
    }
    if slot[at::STORE..at::WRITES] != *store {
        return Err(Fault::Bad(at::STORE, "it belongs to another store"));
    }
    let writes = u64::from_le_bytes(slot[at::WRITES..at::BODY].try_into().expect("eight bytes"));
    let root: Root =
        postcard::from_bytes(&slot[at::BODY..used]).map_err(|_| Fault::Bad(at::BODY, "the list makes no sense"))?;
    match root.makes_sense() {
        true => Ok((writes, root)),
        false => Err(Fault::Bad(at::BODY, "what is said of a heap makes no sense")),
    }
}

impl Root {
    /// A checksum tells what was written, not that it makes sense: what memory is mapped by is looked at here, once.
    fn makes_sense(&self) -> bool {
        let mut numbers = self.heaps.iter().map(|heap| heap.number);
        let in_order = numbers.clone().zip(numbers.clone().skip(1)).all(|(one, next)| one < next);
        in_order && numbers.all(|number| number < self.next_number) && self.heaps.iter().all(HeapRoot::makes_sense)
    }
}

impl HeapRoot {
    fn makes_sense(&self) -> bool {
        let options = crate::HeapOptions {
            size: self.words.saturating_mul(8),
            size_max: self.reserved_words.saturating_mul(8),
            file: None,
            address: (self.address != 0).then_some(self.address as usize),
            blocks: self.blocks,
            chunk_len: self.chunk_len,
        };
        options.check().is_ok()
            && self.redo_from <= self.reflects
            && (self.words * 8).is_multiple_of(self.chunk_len)
            && (self.reserved_words * 8).is_multiple_of(self.chunk_len)
            && u64::from(self.chunks) * self.chunk_len <= self.words * 8
    }

    /// The name of the file that holds the checkpoints with numbers like this one.
    pub(crate) fn file_name(&self, checkpoint: u64) -> String {
        format!("{DIRECTORY}/{}.{}", self.file, checkpoint & 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_media::SimDisk;

    const STORE: StoreId = *b"a store in tests";

    fn heap(number: u32) -> HeapRoot {
        HeapRoot {
            number,
            name: format!("heap {number}"),
            file: format!("file-{number}"),
            words: 512,
            reserved_words: 1024,
            chunk_len: 4096,
            blocks: true,
            address: 0,
            checkpoint: 7,
            chunks: 1,
            redo_from: 30,
            reflects: 40,
            digest: 9,
        }
    }

    #[test]
    fn a_root_is_what_was_written_last() {
        let disk = SimDisk::new();
        assert!(RootFile::open(&disk, &STORE, OpenMode::Read).unwrap().is_none());
        let (mut file, mut root) = RootFile::create(&disk, &STORE).unwrap();
        for number in 0..3 {
            root.heaps.push(heap(number));
            root.next_number = number + 1;
            file.write(&disk, &STORE, &root).unwrap();
        }
        let (_, found) = RootFile::open(&disk, &STORE, OpenMode::Read).unwrap().expect("it is there");
        assert_eq!(found, root);
        assert!(RootFile::open(&disk, b"some other store", OpenMode::Read).is_err());
    }

    #[test]
    fn damage_is_noticed_and_one_slot_is_enough() {
        let slot = encode(&STORE, 3, &Root { next_number: 1, heaps: vec![heap(0)] }).unwrap();
        assert!(decode(&slot, &STORE).is_ok());
        for at in 0..at::BODY + 20 {
            let mut bad = slot.to_vec();
            bad[at] ^= 0x40;
            assert!(decode(&bad, &STORE).is_err(), "byte {at}");
        }
        let disk = SimDisk::new();
        let (mut file, _) = RootFile::create(&disk, &STORE).unwrap();
        let root = Root { next_number: 1, heaps: vec![heap(0)] };
        file.write(&disk, &STORE, &root).unwrap();
        write_all_at(&disk, file.file, 0, &[9; 100], Durability::Durable).unwrap();
        assert_eq!(RootFile::open(&disk, &STORE, OpenMode::Read).unwrap().expect("it is there").1, root);
    }

    #[test]
    fn a_root_that_makes_no_sense_is_refused() {
        for change in [
            |heap: &mut HeapRoot| heap.words = 0,
            |heap: &mut HeapRoot| heap.reserved_words = u64::MAX,
            |heap: &mut HeapRoot| heap.chunk_len = 0,
            |heap: &mut HeapRoot| heap.number = 5,
            |heap: &mut HeapRoot| heap.chunks = 100,
        ] {
            let mut bad = heap(0);
            change(&mut bad);
            let slot = encode(&STORE, 1, &Root { next_number: 1, heaps: vec![bad] }).unwrap();
            assert!(decode(&slot, &STORE).is_err());
        }
    }
}
