//! Errors of keys, with the remedy of each.

use std::io;

use thiserror::Error;

/// The reason why a directory did not open with the keys that were given, or without one. Nothing was overwritten.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The directory is encrypted, and no key was given.
    #[error(
        "{file}: the directory is encrypted, and no key was given; give the key by Options::encryption, or by --key-file of the command"
    )]
    Missing {
        /// The key file.
        file: String,
    },
    /// The directory is not encrypted, or has lost its key file.
    #[error(
        "{file}: a key was given, and this file lies in a directory without a key file: the directory is not encrypted, or its key file \
         was lost; open it without a key, or restore its key file from a copy"
    )]
    NotEncrypted {
        /// A file of the directory.
        file: String,
    },
    /// The directory has no files at all.
    #[error(
        "{directory}: there is nothing in this directory; name the directory of a store, of a backup or of an archive"
    )]
    Absent {
        /// The directory, as far as it is known.
        directory: String,
    },
    /// The key is not the one that the directory was encrypted with.
    #[error("{file}: the directory was encrypted with the key {id:?}, and {why}; give that key")]
    Wrong {
        /// The key file.
        file: String,
        /// The identifier of the key that is needed; of a key without a source, its fingerprint.
        id: String,
        /// The reason why the given key is refused.
        why: String,
    },
    /// The source of keys has failed.
    #[error("{file}: the source of keys did not return {key}: {source}")]
    Source {
        /// The key file.
        file: String,
        /// The key that was requested.
        key: String,
        /// The error of the source.
        source: io::Error,
    },
    /// The key file is damaged. Without it the directory cannot be read.
    #[error("{file}, byte {offset}: {what}; restore this file from a copy of the directory")]
    Damaged {
        /// The key file.
        file: String,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The fault at this offset.
        what: String,
    },
    /// The key file is of a version that this program does not read.
    #[error("{file}, byte {offset}: format version {found}, this program reads {known}; use a newer program")]
    Version {
        /// The key file.
        file: String,
        /// The offset of the version in the file.
        offset: u64,
        /// The version found.
        found: u32,
        /// The version this program reads.
        known: u32,
    },
    /// Another opening creates or changes the key file at the moment.
    #[error("{file}: another opening writes the key file at the moment; try again")]
    InUse {
        /// The key file.
        file: String,
    },
    /// The identifier of a key is too long.
    #[error("the identifier of a key has {len} bytes; at most {} are possible", super::KEY_ID_LEN_MAX)]
    LongId {
        /// The length in bytes.
        len: usize,
    },
    /// The disk reported an error.
    #[error("{doing}: {source}")]
    Io {
        /// The failed operation and its file.
        doing: String,
        /// The error of the disk.
        source: io::Error,
    },
}

impl KeyError {
    pub(super) fn io(doing: impl Into<String>, source: io::Error) -> KeyError {
        KeyError::Io { doing: doing.into(), source }
    }

    pub(super) fn source(file: &str, key: &str, source: io::Error) -> KeyError {
        KeyError::Source { file: file.into(), key: key.into(), source }
    }
}

impl From<KeyError> for io::Error {
    fn from(error: KeyError) -> io::Error {
        let kind = match &error {
            KeyError::Io { source, .. } | KeyError::Source { source, .. } => source.kind(),
            KeyError::Damaged { .. } | KeyError::Version { .. } => io::ErrorKind::InvalidData,
            KeyError::InUse { .. } => io::ErrorKind::WouldBlock,
            KeyError::Absent { .. } => io::ErrorKind::NotFound,
            KeyError::LongId { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::PermissionDenied,
        };
        io::Error::new(kind, error)
    }
}
