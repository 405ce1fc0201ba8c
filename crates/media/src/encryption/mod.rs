//! Encryption of all files of a directory (E24).
//!
//! 1. A directory has a random *data key*. The file [`KEY_FILE`] has it, wrapped under a key of the user, which is never stored.
//! 2. Each file has keys of its own, derived from the data key and the name of the file. Each sector of [`SECTOR_LEN`](crate::SECTOR_LEN)
//!    bytes is encrypted by AES-256-XTS, in place, with its number as the tweak. So lengths, alignment and the atomicity of sectors
//!    are those of the medium below.
//! 3. A sector that reads as zero below was never written, was freed, or was filled before its use ([`Media::write_zeros`]). It reads as
//!    zero. Other sectors that are written as zeros are encrypted like others.
//! 4. Other layers see a [`Media`], and nothing of keys. A file has whole sectors: its length is rounded up, and what was added is zero.
//!
//! It hides the content of files. It does not hide their names and lengths, nor which sectors have changed between two copies. It has no
//! authentication: the checksums of the layers above find damage, not an attacker who replaces a sector by an older one.

mod error;
mod header;
mod key;
mod medium;
mod sectors;

use std::fmt;

use cedrat_sync::{Arc, planted};

pub use error::KeyError;
pub use header::KEY_FILE;
pub use key::{KEY_ID_LEN_MAX, KEY_LEN, Key, KeySource};

use crate::Media;
use header::{Found, KeyFile};
use key::KnownKeys;
use medium::Encrypted;

/// The files that an opening may create before the key file.
const LOCK_FILE: &str = "lock";

/// The keys of encrypted directories: of a store, its archive and its backups.
///
/// Each directory has its own data key, so one key of the user may serve many of them. Clones share the source of keys.
///
/// ```
/// use std::sync::Arc;
/// use cedrat_media::{Durability, Encryption, Key, Media, OpenMode, SimDisk, write_all_at};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
/// let encryption = Encryption::with_key(Key::random()?);
/// let media = encryption.open_or_create(&disk)?;
/// let file = media.open("greeting", OpenMode::Create)?;
/// write_all_at(&*media, file, 0, b"hello", Durability::Durable)?;
///
/// let mut bytes = [0; 5];
/// disk.read_at(disk.open("greeting", OpenMode::Read)?, 0, &mut bytes)?;
/// assert_ne!(&bytes, b"hello");
/// assert!(Encryption::with_key(Key::random()?).open(&disk).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Encryption {
    keys: Arc<dyn KeySource>,
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encryption(..)")
    }
}

impl Encryption {
    /// Returns the encryption with one key.
    pub fn with_key(key: Key) -> Encryption {
        Encryption::with_keys(key, Vec::new())
    }

    /// Returns the encryption with the key `newest`, which new directories get, and with older keys of other directories.
    pub fn with_keys(newest: Key, older: Vec<Key>) -> Encryption {
        Encryption::with_source(KnownKeys { newest, older })
    }

    /// Returns the encryption with keys that are requested when they are needed: when a directory is opened or created, and when keys are
    /// changed.
    pub fn with_source(keys: impl KeySource + 'static) -> Encryption {
        Encryption { keys: Arc::new(keys) }
    }

    /// Opens an encrypted directory as the medium of its decrypted files. Nothing is written. A medium that is one already is returned as
    /// it is.
    ///
    /// # Errors
    /// [`KeyError::Wrong`], [`KeyError::NotEncrypted`], [`KeyError::Absent`], [`KeyError::Damaged`], and those of the source and the disk.
    pub fn open(&self, media: &Arc<dyn Media>) -> Result<Arc<dyn Media>, KeyError> {
        if media.is_encrypted() {
            return Ok(Arc::clone(media));
        }
        match header::find(&**media)? {
            Found::Header(header) => {
                let data_key = header.unwrap(&*self.keys, KEY_FILE)?;
                Ok(Arc::new(Encrypted::new(Arc::clone(media), data_key)))
            }
            Found::Absent | Found::Unfinished => {
                refuse_plain(&**media)?;
                Err(KeyError::Absent { directory: KEY_FILE.into() })
            }
        }
    }

    /// Opens a directory as [`open`](Encryption::open) does, to be written. An empty one gets a new data key, durably.
    ///
    /// A [change of keys](Encryption::rotate) that a crash has interrupted is completed.
    ///
    /// # Errors
    /// Those of [`open`](Encryption::open). [`KeyError::InUse`]: another opening creates it at the same time.
    pub fn open_or_create(&self, media: &Arc<dyn Media>) -> Result<Arc<dyn Media>, KeyError> {
        if media.is_encrypted() {
            return Ok(Arc::clone(media));
        }
        if !matches!(header::find(&**media)?, Found::Header(_)) && !planted!("plain_store_encrypted") {
            refuse_plain(&**media)?;
        }
        let file = KeyFile::open(&**media, true)?;
        let data_key = match file.read()? {
            Found::Header(header) => {
                let data_key = header.unwrap(&*self.keys, &file.path)?;
                file.settle(&header)?;
                data_key
            }
            Found::Absent | Found::Unfinished => {
                let data_key = Key::random().map_err(|error| KeyError::io("drawing a data key", error))?;
                file.create(&data_key, &*self.keys)?;
                data_key
            }
        };
        drop(file);
        Ok(Arc::new(Encrypted::new(Arc::clone(media), data_key)))
    }

    /// Wraps the data key of a directory under the newest key of `to`, durably, also while the directory is in use. A crash leaves the old
    /// key or the new one; the next opening for writing removes what is left of the old one. A call may be repeated.
    ///
    /// The data key stays, and so does the content of all files. To change it, restore a backup to a new directory.
    ///
    /// # Errors
    /// Those of [`open`](Encryption::open), for the old key; those of the source of the new one.
    pub fn rotate(&self, media: &dyn Media, to: &Encryption) -> Result<(), KeyError> {
        if media.is_encrypted() {
            return Err(KeyError::Io { doing: "changing keys".into(), source: std::io::ErrorKind::Unsupported.into() });
        }
        refuse_without_key_file(media)?;
        let file = KeyFile::open(media, false)?;
        let Found::Header(header) = file.read()? else {
            return Err(KeyError::Absent { directory: file.path.clone() });
        };
        let data_key = header.unwrap(&*self.keys, &file.path).or_else(|error| match error {
            // An earlier call may have changed it.
            KeyError::Wrong { .. } => header.unwrap(&*to.keys, &file.path).map_err(|_| error),
            error => Err(error),
        })?;
        file.rewrap(&header, &data_key, &*to.keys)
    }
}

/// Refuses an encrypted directory that is to be opened without a key.
///
/// # Errors
/// [`KeyError::Missing`]; [`KeyError::Io`] if the disk does not tell whether there is a key file.
pub fn refuse_encrypted(media: &dyn Media) -> Result<(), KeyError> {
    match media.open(KEY_FILE, crate::OpenMode::Read) {
        Ok(file) if !planted!("key_file_ignored") => Err(KeyError::Missing { file: media.path(file) }),
        // A key file that cannot be opened is there.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(KeyError::io("looking for a key file", error))
        }
        _ => Ok(()),
    }
}

/// Refuses a directory that has files and no data key.
fn refuse_plain(media: &dyn Media) -> Result<(), KeyError> {
    let names = media.list("").map_err(|error| KeyError::io("listing the directory", error))?;
    let own = |name: &&String| *name != LOCK_FILE && *name != KEY_FILE;
    match names.iter().find(own) {
        Some(name) => {
            let file = media.open(name, crate::OpenMode::Read);
            let file = file.map_or_else(|_| name.clone(), |file| media.path(file));
            Err(KeyError::NotEncrypted { file })
        }
        None => Ok(()),
    }
}

fn refuse_without_key_file(media: &dyn Media) -> Result<(), KeyError> {
    match header::find(media)? {
        Found::Header(_) => Ok(()),
        Found::Absent | Found::Unfinished => {
            refuse_plain(media).and(Err(KeyError::Absent { directory: KEY_FILE.into() }))
        }
    }
}
