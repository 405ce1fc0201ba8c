//! Bytes that may be lost.
//!
//! A [`Media`] is one directory of files on something that forgets: what was written lies in some cache until
//! a sync says otherwise. It is the only way to input and output in Cedrat; whatever stands above takes it as
//! a parameter, so that the disk can be made to fail at any single call and again tomorrow from the same seed.
//!
//! Words:
//!
//! - a write is *volatile* from its return until a [`Media::sync`] of its file that began later has returned
//!   `Ok`; then its bytes are *durable*. A crash may lose any of the volatile bytes, in units of a sector;
//! - a write with [`Durability::Durable`] is durable when it returns;
//! - a *sector* of [`SECTOR_LEN`] bytes is what a device writes whole or not at all; a *block* of
//!   [`BLOCK_LEN`] bytes is what callers align to;
//! - growing, shrinking, reserving and punching change a file's *shape*; a shape is volatile until a sync of
//!   the file. That a name exists, or exists no more, is volatile until a [`Media::sync_directory`].
//!
//! One run of a workload on a [`SimDisk`] shows every crash of it:
//!
//! ```
//! use cedrat_media::{Durability, Loss, Media, OpenMode, SimDisk, write_all_at};
//!
//! # fn main() -> std::io::Result<()> {
//! let disk = SimDisk::new();
//! let file = disk.open("counter", OpenMode::Create)?;
//! disk.sync_directory("")?;
//! for count in 1..=10u64 {
//!     write_all_at(&disk, file, 0, &count.to_le_bytes(), Durability::Volatile)?;
//!     disk.sync(file)?;
//!     disk.mark(count); // here the caller was told
//! }
//!
//! let mut crash = disk.journal().cursor();
//! while crash.advance() {
//!     for seed in 0..10 {
//!         let found = crash.image(Loss::Random(seed)).file("counter").unwrap_or_default();
//!         let found = found.try_into().map_or(0, u64::from_le_bytes);
//!         let told = crash.marks().last().map_or(0, |mark| mark.label);
//!         assert!(found == told || found == told + 1);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `docs/inside/media.md` says in words what is assumed of real disks. [`RealDisk`] is the operating system's
//! file system, [`SimDisk`] a simulated one that remembers every call and can be cut off after any of them.

#![deny(unsafe_code)]

mod aligned;
mod names;
mod real;
mod sim;

pub use aligned::AlignedBuf;
pub use names::LockGuard;
pub use real::RealDisk;
pub use sim::{Call, Cursor, Damage, Fault, Image, Journal, Loss, Mark, SimDisk};

use std::fmt::Debug;
use std::io;

/// Bytes that callers align offsets, lengths and buffers to; also the alignment of [`AlignedBuf`].
pub const BLOCK_LEN: usize = 4096;

/// Bytes that a device writes whole or not at all.
pub const SECTOR_LEN: usize = 512;

const _: () = assert!(BLOCK_LEN.is_multiple_of(SECTOR_LEN));

/// An open file of one medium.
///
/// It stays good until its medium is dropped or the file is removed, and means nothing to another medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(crate) u32);

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// An existing file; changing it through this id is refused as `PermissionDenied`.
    Read,
    /// An existing file, to read and to change.
    ReadWrite,
    /// A new, empty file, to read and to change; `AlreadyExists` if the name is taken. Its directory is made
    /// if it is missing.
    Create,
}

/// When the bytes of a write are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// After the next successful [`Media::sync`] of the file.
    Volatile,
    /// When the write returns.
    Durable,
}

/// One directory of files on something that forgets.
///
/// **Names** are relative, of one component or of two joined by `/`; no component begins with a dot.
///
/// **Threads:** every call may be made from any thread at any time. Calls that overlap in time and in bytes
/// leave either's bytes, sector by sector. A read that overlaps a write may see any mixture of old and new.
///
/// **Alignment:** any offset, length and buffer is accepted. Those aligned to [`BLOCK_LEN`] take the direct
/// way past the operating system's cache where there is one; a block should not be written both ways at once.
///
/// **Errors** name the file, and the offset where there is one. A full disk is
/// [`io::ErrorKind::StorageFull`]. After a failed [`Media::sync`] or a failed durable write nobody knows
/// which of the volatile bytes are durable, and a later `Ok` does not tell (W6): the caller stops.
pub trait Media: Send + Sync + Debug {
    /// Opens a file. Opening a name again gives an id of the same file.
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId>;

    /// Takes the whole file for one owner, until the guard is dropped or the process ends.
    ///
    /// Never waits: `WouldBlock` if another owner has it, be it another process or another opening within this
    /// one; `NotFound` if there is no such file. The file is not changed. A lock excludes other locks, not
    /// reads and writes.
    fn lock(&self, name: &str) -> io::Result<LockGuard>;

    /// The names of the files in a directory, sorted and without the directory; `""` is the medium's own. A
    /// directory that does not exist is empty.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// Removes a file. Its ids become invalid. Durable after [`Media::sync_directory`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes durable which names exist in a directory, `""` being the medium's own, and that the directory
    /// itself exists. What is in the files is not concerned.
    fn sync_directory(&self, directory: &str) -> io::Result<()>;

    /// The length of a file, in bytes.
    fn len(&self, file: FileId) -> io::Result<u64>;

    /// Reads bytes from `offset` on; returns how many. May be fewer than asked for; 0 only at or beyond the
    /// end of the file, or into an empty buffer.
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes bytes from `offset` on; returns how many, which may be fewer than given. Grows the file if need
    /// be; a gap reads as zero. With [`Durability::Durable`], the bytes counted, and the file's length as far as
    /// they need it, are durable on return.
    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize>;

    /// After `Ok`, every write to the file that returned before this call began, and the file's shape, are
    /// durable.
    fn sync(&self, file: FileId) -> io::Result<()>;

    /// Reserves space for the bytes from `offset` on and grows the file to hold them. New bytes read as zero,
    /// bytes already written stay. `StorageFull` comes here, not from a later write to these bytes.
    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()>;

    /// Gives the space of these bytes back; they read as zero. The length of the file stays. Where the file
    /// system cannot, zeros are written instead and nothing is given back.
    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()>;

    /// Sets the length of the file; new bytes read as zero.
    fn set_len(&self, file: FileId, len: u64) -> io::Result<()>;

    /// The file's path for people, as used in errors.
    fn path(&self, file: FileId) -> String;
}

/// Fills `buffer` from `offset` on, whatever number of reads that takes.
///
/// `UnexpectedEof`, naming the file and the offset of its end, if the file ends before.
pub fn read_exact_at(media: &dyn Media, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match media.read_at(file, offset + done as u64, &mut buffer[done..])? {
            0 => {
                let message = format!(
                    "{} ends at offset {}, while {} bytes from offset {offset} on were expected",
                    media.path(file),
                    offset + done as u64,
                    buffer.len(),
                );
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            read => done += read,
        }
    }
    Ok(())
}

/// Writes all of `bytes` from `offset` on, whatever number of writes that takes.
///
/// After an error nothing is known about which of the bytes were written.
pub fn write_all_at(
    media: &dyn Media,
    file: FileId,
    offset: u64,
    bytes: &[u8],
    durability: Durability,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match media.write_at(file, offset + done as u64, &bytes[done..], durability)? {
            0 => {
                let message = format!("{} took no bytes at offset {}", media.path(file), offset + done as u64);
                return Err(io::Error::new(io::ErrorKind::WriteZero, message));
            }
            written => done += written,
        }
    }
    Ok(())
}
