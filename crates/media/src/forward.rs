//! Media that forward their calls to another one.

use std::borrow::Cow;
use std::fmt::Debug;
use std::io;

use crate::{Durability, FileId, LockGuard, Media, OpenMode};

/// A medium that forwards each call to another one, perhaps with other names. It is a [`Media`].
///
/// A medium that changes some calls overrides the methods for these, which forward, too.
pub trait ForwardMedia: Send + Sync + Debug {
    /// Returns the medium that gets the calls.
    fn target(&self) -> &dyn Media;

    /// Returns the name that a file has there.
    fn target_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        Cow::Borrowed(name)
    }

    /// Returns the name that a directory has there.
    fn target_directory<'n>(&self, directory: &'n str) -> Cow<'n, str> {
        Cow::Borrowed(directory)
    }

    /// Opens a file, as [`Media::open`].
    ///
    /// # Errors
    /// Those of [`Media::open`].
    fn forward_open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        self.target().open(&self.target_name(name), mode)
    }

    /// Lists a directory, as [`Media::list`].
    ///
    /// # Errors
    /// Those of [`Media::list`].
    fn forward_list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.target().list(&self.target_directory(directory))
    }

    /// Makes a file durable, as [`Media::sync`].
    ///
    /// # Errors
    /// Those of [`Media::sync`].
    fn forward_sync(&self, file: FileId) -> io::Result<()> {
        self.target().sync(file)
    }

    /// Reads bytes, as [`Media::read_at`].
    ///
    /// # Errors
    /// Those of [`Media::read_at`].
    fn forward_read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.target().read_at(file, offset, buffer)
    }
}

impl<M: ForwardMedia> Media for M {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        self.forward_open(name, mode)
    }

    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        self.target().lock(&self.target_name(name))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.forward_list(directory)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.target().remove(&self.target_name(name))
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.target().sync_directory(&self.target_directory(directory))
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.target().len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.forward_read_at(file, offset, buffer)
    }

    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        self.target().write_at(file, offset, bytes, durability)
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.forward_sync(file)
    }

    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.target().allocate(file, offset, len)
    }

    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.target().punch(file, offset, len)
    }

    fn write_zeros(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.target().write_zeros(file, offset, len)
    }

    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        self.target().set_len(file, len)
    }

    fn path(&self, file: FileId) -> String {
        self.target().path(file)
    }

    fn is_encrypted(&self) -> bool {
        self.target().is_encrypted()
    }
}
