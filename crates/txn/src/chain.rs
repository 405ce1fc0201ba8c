//! Chains of backups: a full one, and increments, each of which continues the backup before it (E18.19).
//!
//! A chain is read like a full backup that was made at the time of its last increment. The log, and all small files, are those of the last
//! increment; each unit of pages and heaps is read from the newest backup that has it.

use cedrat_heap::EarlierHeaps;
use cedrat_media::{CopiedUnits, Durability, FileId, LockGuard, Media, OpenMode};
use cedrat_pages::EarlierPages;
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::{CONTROL_FILE, LogError, Lsn, StoreId};
use std::collections::HashMap;
use std::io;

use crate::error::{Error, Result};
use crate::increment::{INCREMENT_CONTROL_FILE, INCREMENT_FILE, Identity, IncrementList, name_in_increment};
use crate::restore;

/// A full backup, and the increments that continue it. It locks all of its backups but the last one.
#[derive(Debug)]
pub struct BackupChain {
    media: Arc<dyn Media>,
    store: StoreId,
    identity: Identity,
    redo_lsn: Lsn,
    was_opened: bool,
    _not_open: Vec<LockGuard>,
}

impl BackupChain {
    /// Opens a full backup and its increments, in their order. Verifies each increment, and that it continues the backup before it. All
    /// are only read.
    ///
    /// # Errors
    /// [`Error::NotContinued`]: an increment continues another backup, or the full backup was opened as a store. [`Error::Log`] with
    /// [`LogError::Absent`]: there is no backup, or an increment is incomplete; with [`LogError::Damaged`]: an increment is damaged; with
    /// [`LogError::Foreign`]: an increment stands in place of the full backup, or the reverse.
    pub fn open(full: &Arc<dyn Media>, increments: &[Arc<dyn Media>]) -> Result<BackupChain> {
        let (mut not_open, found) = restore::look(full)?;
        let mut chain = BackupChain {
            media: Arc::clone(full),
            store: found.control().store,
            identity: Identity::look(full, found.control())?,
            redo_lsn: found.control().checkpoint.redo_lsn,
            was_opened: !found.is_untouched_copy(),
            _not_open: Vec::new(),
        };
        for media in increments {
            let list = chain.next(media)?;
            list.check(&**media)?;
            chain.media = Arc::new(ChainMedia::new(chain.media, Arc::clone(media), list)?);
            let (lock, found) = restore::look(&chain.media)?;
            chain._not_open.push(std::mem::replace(&mut not_open, lock));
            chain.identity = Identity::look(&chain.media, found.control())?;
            chain.redo_lsn = found.control().checkpoint.redo_lsn;
        }
        // The last one is locked by its restore.
        drop(not_open);
        Ok(chain)
    }

    /// Reads the list of an increment, which has to continue the chain.
    fn next(&self, media: &Arc<dyn Media>) -> Result<IncrementList> {
        let Some(list) = IncrementList::read(&**media)? else {
            let file = match media.open(CONTROL_FILE, OpenMode::Read) {
                Ok(file) => media.path(file),
                Err(_) => return Err(LogError::Absent { file: INCREMENT_FILE.into() }.into()),
            };
            return Err(LogError::Foreign { file, found: "a full backup", wanted: "an incremental backup" }.into());
        };
        let refused = |why: String| {
            let file = media.open(INCREMENT_FILE, OpenMode::Read).map(|file| media.path(file));
            Error::NotContinued { increment: file.unwrap_or_else(|_| INCREMENT_FILE.into()), why }
        };
        if list.store != self.store {
            return Err(refused("it is of another store".into()));
        }
        if self.was_opened {
            return Err(refused("the full backup was opened as a store since it was made".into()));
        }
        if list.before != self.identity && !planted!("increment_of_other_backup_restored") {
            let (wanted, found) = (list.before.up_to, self.identity.up_to);
            let what = if wanted == found { "another one that ends there" } else { "this one" };
            return Err(refused(format!(
                "it continues the backup that ends at LSN {wanted}, and {what} ends at LSN {found}"
            )));
        }
        Ok(list)
    }

    /// Returns the chain as one full backup, which is only read.
    pub fn media(&self) -> &Arc<dyn Media> {
        &self.media
    }

    /// Returns the LSN up to which it has every committed transaction.
    pub fn up_to(&self) -> Lsn {
        Lsn::new(self.identity.up_to)
    }

    pub(crate) fn was_opened(&self) -> bool {
        self.was_opened
    }

    pub(crate) fn store(&self) -> StoreId {
        self.store
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns the pages of its last backup.
    pub(crate) fn pages(&self) -> Result<EarlierPages> {
        Ok(EarlierPages::look(&*self.media, self.redo_lsn)?)
    }

    pub(crate) fn heaps(&self) -> Result<EarlierHeaps> {
        Ok(EarlierHeaps::look(&self.media, &self.store)?)
    }
}

/// A full backup or a chain, and an increment that continues it, as one full backup.
#[derive(Debug)]
struct ChainMedia {
    before: Arc<dyn Media>,
    increment: Arc<dyn Media>,
    /// The length and the units of each changed file, by name.
    changed: HashMap<String, (u64, CopiedUnits)>,
    /// The opened files of which the increment has units.
    files: Mutex<HashMap<FileId, OpenFile>>,
}

/// A file of which an increment has units.
#[derive(Clone, Debug)]
struct OpenFile {
    name: String,
    before: Option<FileId>,
}

/// The place of a unit's bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Increment,
    Before,
    Zero,
}

impl ChainMedia {
    fn new(before: Arc<dyn Media>, increment: Arc<dyn Media>, list: IncrementList) -> Result<ChainMedia> {
        let changed: HashMap<_, _> =
            list.changed.iter().map(|file| (file.name.clone(), (file.len, file.units()))).collect();
        Ok(ChainMedia { before, increment, changed, files: Mutex::default() })
    }

    fn open_file(&self, file: FileId) -> Option<(OpenFile, &(u64, CopiedUnits))> {
        let open = self.files.lock().get(&file).cloned()?;
        let units = self.changed.get(&open.name)?;
        Some((open, units))
    }
}

/// Returns the place of the unit at an offset, and the number of bytes up to `max` that have the same one.
fn source(units: &CopiedUnits, offset: u64, max: u64) -> (Source, u64) {
    let of = |unit| match (units.is_here(unit), units.is_older(unit)) {
        (true, _) => Source::Increment,
        (_, true) => Source::Before,
        _ => Source::Zero,
    };
    let first = offset / units.unit_len;
    let source = of(first);
    let mut end = first + 1;
    while end * units.unit_len < offset + max && of(end) == source {
        end += 1;
    }
    (source, (end * units.unit_len - offset).min(max))
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "a chain of backups is read-only")
}

impl Media for ChainMedia {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        if mode != OpenMode::Read {
            return Err(read_only());
        }
        if [INCREMENT_FILE, INCREMENT_CONTROL_FILE].contains(&name) {
            return Err(io::Error::new(io::ErrorKind::NotFound, name));
        }
        let file = self.increment.open(name_in_increment(name), mode)?;
        if let Some((_, units)) = self.changed.get(name) {
            let has_older = units.older.iter().any(|&byte| byte != 0);
            let before = if has_older { Some(self.before.open(name, mode)?) } else { None };
            self.files.lock().insert(file, OpenFile { name: name.to_owned(), before });
        }
        Ok(file)
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        self.increment.lock(name_in_increment(name))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = self.increment.list(directory)?;
        if directory.is_empty() {
            names.retain(|name| name != INCREMENT_FILE);
            names
                .iter_mut()
                .filter(|name| *name == INCREMENT_CONTROL_FILE)
                .for_each(|name| *name = CONTROL_FILE.into());
            names.sort();
        }
        Ok(names)
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_directory(&self, _directory: &str) -> io::Result<()> {
        Ok(())
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.increment.len(file)
    }

    fn is_encrypted(&self) -> bool {
        self.increment.is_encrypted()
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((open, (len, units))) = self.open_file(file) else {
            return self.increment.read_at(file, offset, buffer);
        };
        let wanted = (buffer.len() as u64).min(len.saturating_sub(offset));
        if wanted == 0 {
            return Ok(0);
        }
        let (source, wanted) = source(units, offset, wanted);
        let buffer = &mut buffer[..wanted as usize];
        match (source, open.before) {
            (Source::Increment, _) => self.increment.read_at(file, offset, buffer),
            (Source::Before, Some(before)) => match self.before.read_at(before, offset, buffer)? {
                0 => {
                    let message = format!("{} ends before offset {offset}", self.before.path(before));
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
                }
                read => Ok(read),
            },
            _ => {
                buffer.fill(0);
                Ok(buffer.len())
            }
        }
    }

    fn write_at(&self, _file: FileId, _offset: u64, _bytes: &[u8], _durability: Durability) -> io::Result<usize> {
        Err(read_only())
    }

    fn sync(&self, _file: FileId) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _file: FileId, _offset: u64, _len: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn punch(&self, _file: FileId, _offset: u64, _len: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn set_len(&self, _file: FileId, _len: u64) -> io::Result<()> {
        Err(read_only())
    }

    /// Returns the path for errors. Units of increments were verified, so damage of a file with older units is in an earlier backup.
    fn path(&self, file: FileId) -> String {
        match self.open_file(file) {
            Some((OpenFile { before: Some(before), .. }, _)) => self.before.path(before),
            _ => self.increment.path(file),
        }
    }
}
