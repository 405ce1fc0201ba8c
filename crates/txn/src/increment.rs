//! Incremental backups: directories of what changed since an earlier backup (drawn in docs/formats/increment.md).
//!
//! 1. An increment has the log since its own checkpoint, and of pages and heaps the units that changed. Its list, the file
//!    `increment`, names the backup before it, and states of each unit whether it is here, as in that backup, or zero (E18.18).
//! 2. The list is written last. The control file has another name than that of a store: no increment opens as a store.

use cedrat_heap::{EarlierHeaps, HEAPS_DIRECTORY};
use cedrat_media::{
    CopiedUnits, Durability, FileId, ForwardMedia, KEY_FILE, Media, OpenMode, SECTOR_LEN, read_exact_at, write_all_at,
};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{CONTROL_FILE, Control, LOG_DIRECTORY, LogError, StoreId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io;

use crate::error::{Error, Result};

/// The name of the file with the list of an increment.
pub const INCREMENT_FILE: &str = "increment";

/// The name of the control file of an increment.
pub(crate) const INCREMENT_CONTROL_FILE: &str = "increment.control";

const MAGIC: [u8; 8] = *b"CEDRATIN";
const VERSION: u32 = 1;

/// Offsets in the file; the list follows.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CRC: usize = MAGIC + 8; //     CRC-32C of all that follows
    pub(super) const VERSION: usize = CRC + 4;
    pub(super) const LEN: usize = VERSION + 4; //   the number of bytes of the list
    pub(super) const LIST: usize = LEN + 8;
}

/// The identity of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The LSN up to which it has every committed transaction.
    pub(crate) up_to: u64,
    /// The checksum of its control file.
    pub(crate) control: u32,
    /// The checksum of its list of heaps.
    pub(crate) heaps: u32,
}

impl Identity {
    pub(crate) fn of(control: &Control, heaps: u32) -> Result<Identity> {
        Ok(Identity { up_to: control.promise.get(), control: control.checksum()?, heaps })
    }

    /// Returns the identity of a backup that is not open.
    pub(crate) fn look(media: &Arc<dyn Media>, control: &Control) -> Result<Identity> {
        Identity::of(control, EarlierHeaps::look(media, &control.store)?.checksum())
    }
}

/// A file of which an increment has only the units that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedFile {
    pub(crate) name: String,
    pub(crate) len: u64,
    unit_len: u64,
    here: Vec<u8>,
    older: Vec<u8>,
    checksums: Vec<u64>,
}

impl ChangedFile {
    pub(crate) fn new(name: String, len: u64, units: CopiedUnits) -> ChangedFile {
        let CopiedUnits { unit_len, here, older, checksums } = units;
        ChangedFile { name, len, unit_len, here, older, checksums }
    }

    pub(crate) fn units(&self) -> CopiedUnits {
        let ChangedFile { unit_len, here, older, checksums, .. } = self.clone();
        CopiedUnits { unit_len, here, older, checksums }
    }
}

/// The list of an increment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IncrementList {
    pub(crate) store: StoreId,
    /// The backup before it.
    pub(crate) before: Identity,
    pub(crate) changed: Vec<ChangedFile>,
    /// All other files, with their lengths and checksums. Files in folders have no checksum: a restore verifies the log, and the second
    /// files of heaps are zero.
    pub(crate) others: Vec<(String, u64, u64)>,
}

impl IncrementList {
    /// Lists the files of an increment that is complete but for its list, and writes the list durably.
    pub(crate) fn write(media: &dyn Media, store: StoreId, before: Identity, changed: Vec<ChangedFile>) -> Result<()> {
        let io = |error| Error::io(format!("writing {INCREMENT_FILE}"), error);
        let mut others = Vec::new();
        for name in names(media).map_err(io)? {
            if changed.iter().all(|file| file.name != name) {
                let file = media.open(&name, OpenMode::Read).map_err(io)?;
                let checksum = checksum(media, &name, file).map_err(io)?;
                others.push((name, media.len(file).map_err(io)?, checksum));
            }
        }
        let list = IncrementList { store, before, changed, others };
        let list = postcard::to_stdvec(&list).expect("numbers, text and lists are always encoded");
        let mut bytes = vec![0; at::LIST];
        bytes[at::MAGIC..at::CRC].copy_from_slice(&MAGIC);
        bytes[at::VERSION..at::LEN].copy_from_slice(&VERSION.to_le_bytes());
        bytes[at::LEN..at::LIST].copy_from_slice(&(list.len() as u64).to_le_bytes());
        bytes.extend(list);
        let crc = crc32c::crc32c(&bytes[at::VERSION..]);
        bytes[at::CRC..at::VERSION].copy_from_slice(&crc.to_le_bytes());
        let file = media.open(INCREMENT_FILE, OpenMode::Create).map_err(io)?;
        write_all_at(media, file, 0, &bytes, Durability::Volatile)
            .and_then(|()| media.sync(file))
            .and_then(|()| media.sync_directory(""))
            .map_err(io)
    }

    /// Reads the list of an increment; `None` if the directory has none.
    pub(crate) fn read(media: &dyn Media) -> Result<Option<IncrementList>> {
        let io = |error| Error::io(format!("reading {INCREMENT_FILE}"), error);
        let file = match media.open(INCREMENT_FILE, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(io)?,
        };
        let mut bytes = vec![0; media.len(file).map_err(io)? as usize];
        read_exact_at(media, file, 0, &mut bytes).map_err(io)?;
        let damaged = |at: usize, what: &str| Error::from(damaged(media, file, at as u64, what));
        let version = u32::from_le_bytes(
            bytes.get(at::VERSION..at::LEN).map_or([0; 4], |bytes| bytes.try_into().expect("four bytes")),
        );
        if bytes.len() < at::LIST || bytes[at::MAGIC..at::CRC] != MAGIC {
            cedrat_media::refuse_encrypted(media)?;
            return Err(damaged(0, "this is not the list of an incremental backup"));
        }
        // An encrypted file has whole sectors.
        let list_len = u64::from_le_bytes(bytes[at::LEN..at::LIST].try_into().expect("eight bytes"));
        let end = (at::LIST as u64).saturating_add(list_len).min(bytes.len() as u64) as usize;
        if bytes.len() - end < SECTOR_LEN && bytes[end..].iter().all(|&byte| byte == 0) {
            bytes.truncate(end);
        }
        if crc32c::crc32c(&bytes[at::VERSION..]).to_le_bytes() != bytes[at::CRC..at::VERSION]
            && !planted!("list_of_increment_not_verified")
        {
            return Err(damaged(at::CRC, "the checksum of the list does not match"));
        }
        if version != VERSION {
            let file = media.path(file);
            let (offset, found, known) = (at::VERSION as u64, version, VERSION);
            return Err(LogError::Version { file, offset, found, known }.into());
        }
        postcard::from_bytes(&bytes[at::LIST..]).map(Some).map_err(|_| damaged(at::LIST, "the list is corrupt"))
    }

    /// Checks the length of each file, and the checksums of the other files and of the units of the increment.
    pub(crate) fn check(&self, media: &dyn Media) -> Result<()> {
        let changed = self.changed.iter().map(|file| (&file.name, file.len));
        for (name, len) in self.others.iter().map(|(name, len, _)| (name, *len)).chain(changed) {
            let file = self.open(media, name)?;
            let found = media.len(file).map_err(|error| Error::io(format!("reading {name}"), error))?;
            if found != len {
                let what = format!("the file has {found} bytes, and the incremental backup was made with {len}");
                return Err(damaged(media, file, found.min(len), &what).into());
            }
        }
        for (name, _, expected) in &self.others {
            let file = self.open(media, name)?;
            let found = checksum(media, name, file).map_err(|error| Error::io(format!("reading {name}"), error))?;
            if found != *expected {
                return Err(damaged(media, file, 0, CHANGED).into());
            }
        }
        self.changed.iter().filter(|_| !planted!("units_of_increment_not_verified")).try_for_each(|changed| {
            let file = self.open(media, &changed.name)?;
            let units = changed.units();
            let mut bytes = vec![0; units.unit_len as usize];
            for (unit, &checksum) in units.units_here().zip(&units.checksums) {
                let offset = unit * units.unit_len;
                read_exact_at(media, file, offset, &mut bytes)
                    .map_err(|error| Error::io(format!("reading {}", changed.name), error))?;
                if CopiedUnits::checksum(&bytes) != checksum {
                    return Err(damaged(media, file, offset, CHANGED).into());
                }
            }
            Ok(())
        })
    }

    fn open(&self, media: &dyn Media, name: &str) -> Result<FileId> {
        media.open(name, OpenMode::Read).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LogError::Damaged {
                file: name.to_owned(),
                offset: 0,
                what: "the file of the incremental backup is missing".into(),
            }
            .into(),
            _ => Error::io(format!("opening {name}"), error),
        })
    }
}

const CHANGED: &str = "the checksum does not match: bytes were changed since the incremental backup was made";

/// Returns the checksum of a file; 0 for a file in a folder.
fn checksum(media: &dyn Media, name: &str, file: FileId) -> io::Result<u64> {
    if name.contains('/') {
        return Ok(0);
    }
    let mut bytes = vec![0; media.len(file)? as usize];
    read_exact_at(media, file, 0, &mut bytes)?;
    Ok(CopiedUnits::checksum(&bytes))
}

/// Refuses the directory of an increment in place of a store or a full backup, and an encrypted one without its key.
pub(crate) fn refuse(media: &dyn Media, wanted: &'static str) -> Result<()> {
    let names = media.list("").map_err(|error| Error::io("listing the store's directory", error))?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(KEY_FILE) {
        cedrat_media::refuse_encrypted(media)?;
    }
    if has(INCREMENT_CONTROL_FILE) && !has(CONTROL_FILE) {
        return Err(LogError::Foreign { file: INCREMENT_FILE.into(), found: "an incremental backup", wanted }.into());
    }
    Ok(())
}

fn damaged(media: &dyn Media, file: FileId, offset: u64, what: &str) -> LogError {
    LogError::Damaged { file: media.path(file), offset, what: what.to_owned() }
}

/// Returns the names of all files of an increment but its list.
fn names(media: &dyn Media) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for directory in ["", LOG_DIRECTORY, HEAPS_DIRECTORY] {
        let files = media.list(directory)?.into_iter();
        names.extend(files.map(|name| if directory.is_empty() { name } else { format!("{directory}/{name}") }));
    }
    names.retain(|name| ![LOG_DIRECTORY, HEAPS_DIRECTORY, INCREMENT_FILE].contains(&name.as_str()));
    Ok(names)
}

/// The directory of an increment while it is made: its control file has another name.
#[derive(Debug)]
pub(crate) struct IncrementMedia(pub(crate) Arc<dyn Media>);

/// Returns the name of a store's file in an increment.
pub(crate) fn name_in_increment(name: &str) -> &str {
    if name == CONTROL_FILE && !planted!("increment_opens_as_store") { INCREMENT_CONTROL_FILE } else { name }
}

impl ForwardMedia for IncrementMedia {
    fn target(&self) -> &dyn Media {
        &*self.0
    }

    fn target_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        Cow::Borrowed(name_in_increment(name))
    }
}
