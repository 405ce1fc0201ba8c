//! The file that marks the directory of a replica (drawn in docs/formats/replication.md).
//!
//! 1. It is written before anything else of the replica. So a base that a crash has cut off is removed, and no directory that was not
//!    begun as a replica.
//! 2. It has one sector, which a crash leaves whole, or as it was.
//! 3. Its lock keeps others from following, or promoting, the same replica.

use std::io::ErrorKind;

use cedrat_heap::HEAPS_DIRECTORY;
use cedrat_media::{Durability, FileId, LockGuard, Media, OpenMode, SECTOR_LEN, read_exact_at, write_all_at};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{LOG_DIRECTORY, LogError, StoreId};

use super::error::ReplicaError;
use crate::error::{Error, OpenError, Result};

/// The name of the file.
pub const REPLICA_FILE: &str = "replica";

const MAGIC: [u8; 8] = *b"CEDRATRM";
const VERSION: u32 = 1;

/// Offsets in the file.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const CRC: usize = MAGIC + 8; //     CRC-32C of the rest of the sector
    pub(super) const VERSION: usize = CRC + 4;
    pub(super) const STATE: usize = VERSION + 4; // 1: begun, 2: complete, 3: promoted
    pub(super) const STORE: usize = STATE + 8; //   zero until it is complete
    pub(super) const END: usize = STORE + 16;
}

/// The directories of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaFiles {
    /// The directory with the file that marks the replica.
    pub home: Arc<dyn Media>,
    /// The directory of its base: a backup of the store.
    pub base: Arc<dyn Media>,
    /// The directory of the archive of the store's log.
    pub archive: Arc<dyn Media>,
}

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeState {
    /// Its base is not complete.
    Begun,
    /// It follows this store.
    Complete(StoreId),
    /// It was promoted.
    Promoted(StoreId),
}

/// The file of a replica, locked.
#[derive(Debug)]
pub(super) struct Home {
    media: Arc<dyn Media>,
    file: FileId,
    pub(super) state: HomeState,
    _lock: LockGuard,
}

impl Home {
    /// Opens the file. If there is none, the replica is begun in empty directories, if `creates` is set.
    pub(super) fn open(files: &ReplicaFiles, creates: bool) -> Result<Home> {
        let media = Arc::clone(&files.home);
        let io = |error| Error::io(format!("opening {REPLICA_FILE}"), error);
        let file = match media.open(REPLICA_FILE, OpenMode::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound && creates => {
                refuse_files(files)?;
                media.open(REPLICA_FILE, OpenMode::Create).map_err(io)?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(no_replica(REPLICA_FILE.into(), "the file is missing"));
            }
            opened => opened.map_err(io)?,
        };
        let lock = media.lock(REPLICA_FILE).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => OpenError::InUse { path: media.path(file) }.into(),
            _ => Error::io(format!("locking {REPLICA_FILE}"), error),
        })?;
        let mut home = Home { media, file, state: HomeState::Begun, _lock: lock };
        let state = match home.read()? {
            Some(state) => state,
            // The first write was cut off.
            None if creates => {
                refuse_files(files)?;
                HomeState::Begun
            }
            None => return Err(no_replica(home.path(), "it was never begun")),
        };
        home.state = state;
        // What was read, and the name of the file, may be in a cache that a power failure clears (R6a).
        if !planted!("marker_of_replica_not_settled") {
            home.write(state)?;
            home.media.sync_directory("").map_err(io)?;
        }
        Ok(home)
    }

    pub(super) fn path(&self) -> String {
        self.media.path(self.file)
    }

    /// Reads the state; `None`: nothing was written.
    fn read(&self) -> Result<Option<HomeState>> {
        let io = |error| Error::io(format!("reading {REPLICA_FILE}"), error);
        if self.media.len(self.file).map_err(io)? == 0 {
            return Ok(None);
        }
        let mut sector = [0; SECTOR_LEN];
        let damaged = |what: &str| LogError::Damaged { file: self.path(), offset: 0, what: what.into() };
        read_exact_at(&*self.media, self.file, 0, &mut sector).map_err(io)?;
        if sector.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let four = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes"));
        if sector[at::MAGIC..at::CRC] != MAGIC || four(at::CRC) != crc32c::crc32c(&sector[at::VERSION..]) {
            return Err(damaged("this does not mark a replica, or was changed").into());
        }
        if four(at::VERSION) != VERSION {
            let (file, found) = (self.path(), four(at::VERSION));
            return Err(LogError::Version { file, offset: at::VERSION as u64, found, known: VERSION }.into());
        }
        let store: StoreId = sector[at::STORE..at::END].try_into().expect("16 bytes");
        match four(at::STATE) {
            1 => Ok(Some(HomeState::Begun)),
            2 => Ok(Some(HomeState::Complete(store))),
            3 => Ok(Some(HomeState::Promoted(store))),
            _ => Err(damaged("the state of the replica is invalid").into()),
        }
    }

    /// Writes the state durably.
    pub(super) fn write(&mut self, state: HomeState) -> Result<()> {
        let (number, store) = match state {
            HomeState::Begun => (1_u32, [0; 16]),
            HomeState::Complete(store) => (2, store),
            HomeState::Promoted(store) => (3, store),
        };
        let mut sector = [0; SECTOR_LEN];
        sector[at::MAGIC..at::CRC].copy_from_slice(&MAGIC);
        sector[at::VERSION..at::STATE].copy_from_slice(&VERSION.to_le_bytes());
        sector[at::STATE..at::STATE + 4].copy_from_slice(&number.to_le_bytes());
        sector[at::STORE..at::END].copy_from_slice(&store);
        let crc = crc32c::crc32c(&sector[at::VERSION..]);
        sector[at::CRC..at::VERSION].copy_from_slice(&crc.to_le_bytes());
        write_all_at(&*self.media, self.file, 0, &sector, Durability::Durable)
            .map_err(|error| Error::io(format!("writing {}", self.path()), error))?;
        self.state = state;
        Ok(())
    }
}

pub(super) fn no_replica(file: String, why: &'static str) -> Error {
    ReplicaError::NoReplica { file, why }.into()
}

/// Refuses directories that have files.
fn refuse_files(files: &ReplicaFiles) -> Result<()> {
    let names = [(&files.home, ""), (&files.base, ""), (&files.archive, "")];
    for (media, directory) in names {
        let names = media.list(directory).map_err(|error| Error::io("listing the directory of a replica", error))?;
        if let Some(file) = names.into_iter().find(|name| name != REPLICA_FILE) {
            return Err(LogError::AlreadyThere { file }.into());
        }
    }
    Ok(())
}

/// Removes what an interrupted beginning has left of base and archive.
pub(super) fn remove_begun(files: &ReplicaFiles) -> Result<()> {
    let io = |error| Error::io("removing the base of a replica that was not complete", error);
    for media in [&files.base, &files.archive] {
        // The control file first: what is left of the others is then no store.
        for directory in ["", LOG_DIRECTORY, HEAPS_DIRECTORY] {
            for name in media.list(directory).map_err(io)? {
                let name = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                if !planted!("unfinished_base_kept") {
                    media.remove(&name).map_err(io)?;
                }
            }
            media.sync_directory(directory).or_else(missing).map_err(io)?;
        }
    }
    Ok(())
}

/// A directory that was never created needs no sync.
fn missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
