//! Root of all heaps: the existing heaps, and the current checkpoint of each (drawn in docs/formats/heap.md).
//!
//! The file has two slots with the same content. A change is written durably to the older slot, if a crash separated the
//! previous two writes, then to the other; so at any moment one of them is intact and at most one change old. The slot with
//! the higher write count is the valid one.

use cedrat_media::{AlignedBuf, Durability, FileId, Media, OpenMode, write_all_at};
use cedrat_sync::planted;
use cedrat_wal::StoreId;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::chunk::ChunkFile;

/// Name of the root in the store's directory.
pub(crate) const ROOT_FILE: &str = "heaps.root";

/// Directory of the checkpoint files.
pub const DIRECTORY: &str = "heaps";

const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"CEDRATHR";

/// Length of one of the two slots.
pub(crate) const SLOT_LEN: usize = 64 * 1024;

/// Offsets of the fixed parts of a slot; the body follows.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CRC: usize = MAGIC + 8; // of all used bytes after it
    pub(super) const VERSION: usize = CRC + 4;
    pub(super) const USED: usize = VERSION + 4; // used bytes of the slot
    pub(super) const ZERO: usize = USED + 4;
    pub(super) const STORE: usize = ZERO + 4;
    pub(super) const WRITES: usize = STORE + 16;
    pub(super) const BODY: usize = WRITES + 8;
}
const _: () = assert!(at::STORE == 24 && at::BODY == 48);

/// Content of the root. Encoded with postcard: numbers as varints, lists and strings with a length prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Root {
    /// Exclusive upper bound of the numbers of all heaps ever created.
    pub(crate) next_number: u32,
    /// In the order of their numbers.
    pub(crate) heaps: Vec<HeapRoot>,
}

/// Entry of one heap in the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeapRoot {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// Name of its checkpoint files, without `.0` and `.1`.
    pub(crate) file: String,
    /// Words in use, and maximum number of words.
    pub(crate) words: u64,
    pub(crate) reserved_words: u64,
    pub(crate) chunk_len: u64,
    /// Whether it has an account of blocks.
    pub(crate) blocks: bool,
    /// Required start address; 0: any address.
    pub(crate) address: u64,
    /// Number of the newest complete checkpoint; it lies in the file `.0` if even, else in `.1`. 0: there is none.
    pub(crate) checkpoint: u64,
    /// Number of chunks in that checkpoint.
    pub(crate) chunks: u32,
    /// Commits up to this LSN are in the checkpoint.
    pub(crate) redo_from: u64,
    /// Commits up to this LSN may be in the checkpoint: they were durable when the root was written.
    pub(crate) reflects: u64,
    /// Checksum of the checksums of its chunks.
    pub(crate) digest: u32,
}

/// The open root file.
#[derive(Debug)]
pub(crate) struct RootFile {
    file: FileId,
    writes: u64,
    /// Slot with the newest intact content. It is written last: until the other slot is intact, it is the only one.
    newest: usize,
}

impl RootFile {
    /// Opens the file and returns it with its content; `None` if it was never written. Heaps whose list is missing are damage, and
    /// no store without heaps.
    pub(crate) fn open(media: &dyn Media, store: &StoreId, mode: OpenMode) -> Result<Option<(RootFile, Root)>> {
        let doing = |error| Error::io(format!("opening {ROOT_FILE}"), error);
        if !media.list("").map_err(doing)?.iter().any(|name| name == ROOT_FILE) {
            return never_written(media, ROOT_FILE.to_owned());
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
            // Never completed: the first write was interrupted before anything could depend on it.
            (Err(Fault::Zero), Err(Fault::Zero)) => never_written(media, path),
            // The first write was torn in its first slot: no heap's files were made yet.
            (Err(Fault::Bad(..)), Err(Fault::Zero)) if first_file(media)?.is_none() => Ok(None),
            (Err(Fault::Bad(at, what)), _) | (_, Err(Fault::Bad(at, what))) => {
                Err(Error::damaged(path, at as u64, what))
            }
        }
    }

    /// Checks that both slots have this content.
    pub(crate) fn check_slots(&self, media: &dyn Media, store: &StoreId, root: &Root) -> Result<()> {
        let (expected, path) = (encode(store, self.writes, root)?, media.path(self.file));
        let mut found = AlignedBuf::zeroed(SLOT_LEN);
        for begin in [0, SLOT_LEN] {
            cedrat_media::read_exact_at(media, self.file, begin as u64, &mut found)
                .map_err(|error| Error::io(format!("reading {path}"), error))?;
            if let Some(at) = (0..SLOT_LEN).find(|&at| found[at] != expected[at]) {
                return Err(Error::damaged(path, (begin + at) as u64, "the two copies of the list of heaps differ"));
            }
        }
        Ok(())
    }

    /// Makes the content durable by writing it again: the process that wrote it may have ended before it was durable, and
    /// the next checkpoint goes to files that an older root names (R6).
    pub(crate) fn settle(&self, media: &dyn Media) -> Result<()> {
        if planted!("root_not_settled") {
            return Ok(());
        }
        let offset = (self.newest * SLOT_LEN) as u64;
        cedrat_media::write_again(media, self.file, offset, SLOT_LEN)
            .map_err(|error| Error::io(format!("writing {} again", media.path(self.file)), error))
    }

    /// Creates a root without heaps, durable when this returns.
    pub(crate) fn create(media: &dyn Media, store: &StoreId) -> Result<(RootFile, Root)> {
        let doing = |error| Error::io(format!("creating {ROOT_FILE}"), error);
        let file = media
            .open(ROOT_FILE, OpenMode::Create)
            .or_else(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => media.open(ROOT_FILE, OpenMode::ReadWrite),
                _ => Err(error),
            })
            .map_err(doing)?;
        // An earlier creation may have been interrupted. A full file system may refuse a range that has space already (R1b).
        let (len, wanted) = (media.len(file).map_err(doing)?, 2 * SLOT_LEN as u64);
        let from = if planted!("root_allocated_again") { 0 } else { len.min(wanted) };
        if from < wanted {
            media.allocate(file, from, wanted - from).map_err(doing)?;
        }
        // Also if it is long enough: the sync of an earlier process may have failed and forgotten that (R6).
        media.set_len(file, len.max(wanted)).and_then(|()| media.sync(file)).map_err(doing)?;
        media.sync_directory("").map_err(doing)?;
        let mut created = RootFile { file, writes: 0, newest: 1 };
        created.write(media, store, &Root::default())?;
        Ok((created, Root::default()))
    }

    /// Durably replaces the content. After an error other than [`Error::Limit`] the content on the disk is unknown.
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

/// Returns the name of a heap's file, if any heap was created: its files come after the root's first write, which went to both slots.
fn first_file(media: &dyn Media) -> Result<Option<String>> {
    let names = media.list(DIRECTORY).map_err(|error| Error::io("listing the heaps' directory", error))?;
    Ok(names.into_iter().next())
}

/// Refuses a root that was not written as damage, if there are files of heaps.
fn never_written<T>(media: &dyn Media, path: String) -> Result<Option<T>> {
    match first_file(media)? {
        Some(name) if !planted!("lost_root_not_noticed") => {
            let what = format!("it is missing, but there are checkpoints of heaps ({DIRECTORY}/{name})");
            Err(Error::damaged(path, 0, what))
        }
        _ => Ok(None),
    }
}

/// Checks that the root will fit into its slot for all future values of LSNs and counts.
pub(crate) fn check_len(root: &Root) -> Result<()> {
    let mut longest = root.clone();
    longest.next_number = u32::MAX;
    for heap in &mut longest.heaps {
        (heap.words, heap.checkpoint, heap.redo_from, heap.reflects) = (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        (heap.chunks, heap.digest) = (u32::MAX, u32::MAX);
    }
    encode(&StoreId::default(), 0, &longest).map(drop)
}

/// Reason why a slot is not used.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// The slot was never written.
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
        return Err(Fault::Bad(at::USED, "the length is invalid"));
    }
    if crc32c::crc32c(&slot[at::VERSION..used]) != number(at::CRC) {
        return Err(Fault::Bad(at::CRC, "the checksum does not match"));
    }
    if number(at::VERSION) != VERSION {
        return Err(Fault::Bad(at::VERSION, "it was written by another version of Cedrat"));
    }
    if slot[at::STORE..at::WRITES] != *store {
        return Err(Fault::Bad(at::STORE, "it belongs to another store"));
    }
    let writes = u64::from_le_bytes(slot[at::WRITES..at::BODY].try_into().expect("eight bytes"));
    let root: Root =
        postcard::from_bytes(&slot[at::BODY..used]).map_err(|_| Fault::Bad(at::BODY, "the list is corrupt"))?;
    match root.makes_sense() {
        true => Ok((writes, root)),
        false => Err(Fault::Bad(at::BODY, "the entry of a heap is invalid")),
    }
}

impl Root {
    /// Returns whether the root is valid: a checksum confirms the bytes that were written, not their validity. Values that
    /// memory is mapped by are checked here, once.
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

    /// Returns the length of each of its files.
    pub(crate) fn files_len(&self) -> u64 {
        ChunkFile::len((self.words * 8).div_ceil(self.chunk_len), self.chunk_len)
    }

    /// Returns the name of the file that holds the checkpoints with the parity of this number.
    pub(crate) fn file_name(&self, checkpoint: u64) -> String {
        if planted!("words_in_page_file") {
            return String::from("pages");
        }
        format!("{DIRECTORY}/{}.{}", self.file, checkpoint & 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_media::{Call, Fault as DiskFault, SimDisk};
    use std::io::ErrorKind;

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

    /// R1b: an interrupted creation is repeated in the space that the file has.
    #[test]
    fn interrupted_creation_is_repeated_without_space() {
        let disk = SimDisk::new();
        disk.inject(DiskFault::error(Call::Write, ErrorKind::Other).of(ROOT_FILE));
        RootFile::create(&disk, &STORE).expect_err("the write fails");
        disk.clear_faults();
        disk.set_capacity(Some(disk.space()));
        for _ in 0..2 {
            RootFile::create(&disk, &STORE).expect("R1b");
        }
        assert!(RootFile::open(&disk, &STORE, OpenMode::Read).unwrap().is_some());
    }

    /// R6: the content that an opening has read, of a root whose write was killed, persists before the files of the older
    /// root are written.
    #[test]
    fn killed_root_write_stays_once_read() {
        use cedrat_media::{Kill, Loss};
        let disk = SimDisk::new();
        let (mut file, mut root) = RootFile::create(&disk, &STORE).unwrap();
        let begin = disk.journal_len();
        root.heaps.push(heap(0));
        root.next_number = 1;
        file.write(&disk, &STORE, &root).unwrap();
        let mut newer = 0;
        for at in begin..=disk.journal_len() {
            let mut cursor = disk.journal().cursor();
            cursor.advance_to(at);
            for kill in (0..8).flat_map(|seed| [Kill::Process(seed), Kill::FailedSync(seed)]) {
                let again = cursor.kill(kill);
                let (file, found) = RootFile::open(&again, &STORE, OpenMode::ReadWrite).unwrap().expect("it is there");
                file.settle(&again).unwrap();
                newer += usize::from(found == root && at == begin + 1);
                let left = again.cut_power(Loss::Everything);
                let (_, left) = RootFile::open(&left, &STORE, OpenMode::Read).unwrap().expect("it is there");
                assert_eq!(left, found, "{kill:?} at {at}");
            }
        }
        assert!(newer > 0, "a write in flight was seen");
    }

    #[test]
    fn damaged_slot_is_detected_other_is_used() {
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
    fn invalid_root_is_refused() {
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
