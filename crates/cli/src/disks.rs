//! Directories of stores, backups and archives, with the keys of those that are encrypted.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cedrat::media::{Encryption, Key, Media, RealDisk};
use cedrat::txn::Options;

use crate::arguments::Keys;
use crate::output::{Context, Failure, fail};

/// The keys that the command was given, and the directories that they open.
#[derive(Debug)]
pub(crate) struct Disks {
    encryption: Option<Encryption>,
}

impl Disks {
    /// Reads the key files.
    pub(crate) fn new(keys: &Keys) -> Result<Disks, Failure> {
        let keys = keys.key_file.iter().map(|file| read_key(file)).collect::<Result<Vec<_>, _>>()?;
        let mut keys = keys.into_iter();
        let encryption = keys.next().map(|newest| Encryption::with_keys(newest, keys.collect()));
        Ok(Disks { encryption })
    }

    /// Whether a key was given.
    pub(crate) fn has_keys(&self) -> bool {
        self.encryption.is_some()
    }

    /// Returns the keys that were given.
    pub(crate) fn encryption(&self) -> Option<&Encryption> {
        self.encryption.as_ref()
    }

    /// Opens a directory to be read: decrypted, if a key was given.
    pub(crate) fn open(&self, directory: &Path) -> Result<Arc<dyn Media>, Failure> {
        let disk = plain(directory);
        match &self.encryption {
            Some(encryption) => encryption.open(&disk).while_doing(directory.display()),
            None => Ok(disk),
        }
    }

    /// Opens a directory to be written; an empty one is encrypted from now on, if a key was given.
    pub(crate) fn open_or_create(&self, directory: &Path) -> Result<Arc<dyn Media>, Failure> {
        let disk = plain(directory);
        match &self.encryption {
            Some(encryption) => encryption.open_or_create(&disk).while_doing(directory.display()),
            None => Ok(disk),
        }
    }

    /// Opens a directory as [`open`](Disks::open) does; `None` if it has no files.
    pub(crate) fn plain_or_open(&self, directory: &Path) -> Result<Option<Arc<dyn Media>>, Failure> {
        let is_empty = plain(directory).list("").while_doing(directory.display())?.is_empty();
        if is_empty { Ok(None) } else { self.open(directory).map(Some) }
    }

    /// Returns options with the keys.
    pub(crate) fn options(&self, options: Options) -> Options {
        Options { encryption: self.encryption.clone(), ..options }
    }
}

/// Returns a directory as it is on the disk.
pub(crate) fn plain(directory: &Path) -> Arc<dyn Media> {
    Arc::new(RealDisk::new(directory))
}

/// Returns an empty directory for what is recovered beside a store: encrypted with a key that nothing keeps, if the store is.
pub(crate) fn scratch(beside: &dyn Media, directory: &Path) -> Result<Arc<dyn Media>, Failure> {
    let disk: Arc<dyn Media> = Arc::new(RealDisk::buffered(directory));
    if !beside.is_encrypted() {
        return Ok(disk);
    }
    let encryption = Encryption::with_key(Key::random().while_doing("drawing a key")?);
    encryption.open_or_create(&disk).while_doing(directory.display())
}

/// Reads a key from a file.
pub(crate) fn read_key(file: &Path) -> Result<Key, Failure> {
    let bytes = fs::read(file).while_doing(file.display())?;
    match Key::parse(&bytes) {
        Some(key) => Ok(key),
        None => fail(format!(
            "{} is no key: a key file has 32 random bytes, or 64 hexadecimal digits, and this one has {} bytes",
            file.display(),
            bytes.len()
        )),
    }
}
