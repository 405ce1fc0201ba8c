//! The encryption of a store, its archive and its backups (E24).
//!
//! The layers below see media of decrypted files. This module decides which directories are encrypted: if the store is, all are that
//! get its data.

use cedrat_media::{Encryption, KeyError, Media};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::LogError;

use crate::as_of::View;
use crate::chain::BackupChain;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::store::Store;

/// The keys of an open store.
pub(crate) struct StoreKeys {
    /// The source of keys for new backups.
    encryption: Mutex<Encryption>,
    /// The directories of the store and of its archive, not decrypted.
    directories: Vec<Arc<dyn Media>>,
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Error {
        LogError::from(error).into()
    }
}

/// Returns the medium of a store to be read, with the keys of the options; `None` if an encrypted one is to be created. Nothing is
/// written (R2).
pub(crate) fn look(media: &Arc<dyn Media>, options: &Options) -> Result<Option<Arc<dyn Media>>> {
    let Some(encryption) = &options.encryption else { return Ok(Some(Arc::clone(media))) };
    match encryption.open(media) {
        Err(KeyError::Absent { .. }) if options.create => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

/// Returns the medium of a store and its options with media of decrypted files, if the options have keys.
///
/// The caller holds the lock of the directory.
pub(crate) fn decrypted(
    media: Arc<dyn Media>,
    mut options: Options,
) -> Result<(Arc<dyn Media>, Options, Option<StoreKeys>)> {
    let Some(encryption) = options.encryption.clone().filter(|_| !media.is_encrypted()) else {
        refuse_plain(
            &*media,
            options.archive.as_ref(),
            "Options::archive: the store is encrypted, and the archive is not",
        )?;
        return Ok((media, options, None));
    };
    let mut directories = vec![Arc::clone(&media)];
    let media = encryption.open_or_create(&media)?;
    if let Some(archive) = options.archive.take() {
        options.archive = Some(encryption.open_or_create(&archive)?);
        directories.push(archive);
    }
    options.backup = options.backup.map(|backup| encryption.open(&backup)).transpose()?;
    let keys = StoreKeys { encryption: Mutex::new(encryption), directories };
    Ok((media, options, Some(keys)))
}

/// Returns a view with media of decrypted files.
pub(crate) fn decrypted_view(view: &View, options: &Options) -> Result<View> {
    let mut view = view.clone();
    if let Some(encryption) = &options.encryption {
        view.backup = encryption.open(&view.backup)?;
        view.archive = view.archive.map(|archive| encryption.open(&archive)).transpose()?;
        view.scratch = encryption.open_or_create(&view.scratch)?;
    }
    refuse_plain(
        &*view.backup,
        Some(&view.scratch),
        "View::scratch: the backup is encrypted, and this directory is not",
    )?;
    Ok(view)
}

/// Refuses a plain medium that would get the data of an encrypted one (E24.1).
pub(crate) fn refuse_plain(from: &dyn Media, to: Option<&Arc<dyn Media>>, why: &'static str) -> Result<()> {
    let is_plain = from.is_encrypted() && to.is_some_and(|to| !to.is_encrypted());
    if is_plain { Err(Error::Misuse(why)) } else { Ok(()) }
}

impl Store {
    /// Wraps the data keys of the store and of its archive under the newest key of `to`, durably, while transactions run. Later backups
    /// get keys under it, too; earlier ones keep the old key: [`Encryption::rotate`] changes it.
    ///
    /// A crash leaves each of both directories with its old key or with the new one: open the store with both keys then
    /// ([`Encryption::with_keys`]), and call this again.
    ///
    /// # Errors
    /// [`Error::Misuse`]: the store was opened without [`Options::encryption`]. [`Error::Log`] with [`LogError::Key`].
    pub fn rotate_key(&self, to: &Encryption) -> Result<()> {
        self.inner.alive_here()?;
        let without = "the store was opened without keys: set Options::encryption";
        let keys = self.inner.keys.as_ref().ok_or(Error::Misuse(without))?;
        let mut encryption = keys.encryption.lock();
        for directory in &keys.directories {
            encryption.rotate(&**directory, to)?;
        }
        *encryption = to.clone();
        Ok(())
    }

    /// Opens backups of the store as [`BackupChain::open`] does: with the keys of the store, if it is encrypted.
    ///
    /// # Errors
    /// Those of [`BackupChain::open`]; [`Error::Log`] with [`LogError::Key`].
    pub fn backup_chain(&self, full: &Arc<dyn Media>, increments: &[Arc<dyn Media>]) -> Result<BackupChain> {
        let increments = increments.iter().map(|media| self.decrypted(media)).collect::<Result<Vec<_>>>()?;
        BackupChain::open(&self.decrypted(full)?, &increments)
    }

    /// Returns the medium of a backup with the keys of the store, to be read.
    pub(crate) fn decrypted(&self, backup: &Arc<dyn Media>) -> Result<Arc<dyn Media>> {
        match &self.inner.keys {
            Some(keys) => Ok(keys.encryption.lock().open(backup)?),
            None => Ok(Arc::clone(backup)),
        }
    }

    /// Returns the medium of a new backup: encrypted, if the store is.
    pub(crate) fn encrypted(&self, to: &Arc<dyn Media>) -> Result<Arc<dyn Media>> {
        if let Some(keys) = self.inner.keys.as_ref().filter(|_| !planted!("backup_not_encrypted")) {
            return Ok(keys.encryption.lock().open_or_create(to)?);
        }
        let why =
            "the store is encrypted, and the directory of the backup is not: open the store with Options::encryption";
        refuse_plain(self.inner.backups.media(), Some(to), why).map(|()| Arc::clone(to))
    }
}
