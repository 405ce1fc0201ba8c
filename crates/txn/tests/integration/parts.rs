//! Several media on one simulated disk.

use cedrat_media::{Durability, FileId, LockGuard, Media, OpenMode, SimDisk};
use std::io;

/// A medium in a part of a disk: one journal has the calls of all of its parts.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    disk: SimDisk,
    name: &'static str,
}

impl Part {
    pub(crate) fn of(disk: &SimDisk, name: &'static str) -> Part {
        Part { disk: disk.clone(), name }
    }

    fn name(&self, name: &str) -> String {
        match name.split_once('/') {
            Some((directory, name)) => format!("{}-{directory}/{name}", self.name),
            None => format!("{}/{name}", self.name),
        }
    }

    fn directory(&self, name: &str) -> String {
        if name.is_empty() { self.name.into() } else { format!("{}-{name}", self.name) }
    }
}

impl Media for Part {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId> {
        self.disk.open(&self.name(name), mode)
    }
    fn lock(&self, name: &str) -> io::Result<LockGuard> {
        self.disk.lock(&self.name(name))
    }
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk.list(&self.directory(directory))
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(&self.name(name))
    }
    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.disk.sync_directory(&self.directory(directory))
    }
    fn len(&self, file: FileId) -> io::Result<u64> {
        self.disk.len(file)
    }
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(file, offset, buffer)
    }
    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize> {
        self.disk.write_at(file, offset, bytes, durability)
    }
    fn sync(&self, file: FileId) -> io::Result<()> {
        self.disk.sync(file)
    }
    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.disk.allocate(file, offset, len)
    }
    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        self.disk.punch(file, offset, len)
    }
    fn set_len(&self, file: FileId, len: u64) -> io::Result<()> {
        self.disk.set_len(file, len)
    }
    fn path(&self, file: FileId) -> String {
        self.disk.path(file)
    }
}
