//! Storage media: files whose unsynced bytes a crash may lose.
//!
//! A [`Media`] is one directory of files on a device that forgets: written bytes may be only in a cache until a sync
//! has succeeded. It is the only way to input and output in Cedrat. Every layer above takes it as a parameter, so
//! that a test can let the disk fail at any single call, and repeat that from the same seed.
//!
//! Terms:
//!
//! - a write is *volatile* from its return until a [`Media::sync`] of its file that began later has returned
//!   `Ok`; then its bytes are *durable*. A crash may lose any of the volatile bytes, in units of a sector;
//! - a write with [`Durability::Durable`] is durable when it returns;
//! - a *sector* of [`SECTOR_LEN`] bytes is the unit that a device writes completely or not at all; a *block* of
//!   [`BLOCK_LEN`] bytes is the unit of alignment for callers;
//! - growing, shrinking, reserving and punching change a file's *shape*; a shape is volatile until a sync of the
//!   file. The creation or removal of a name is volatile until a [`Media::sync_directory`].
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
//!     disk.mark(count); // the caller got its answer here
//! }
//!
//! let mut crash = disk.journal().cursor();
//! while crash.advance() {
//!     for seed in 0..10 {
//!         let found = crash.image(Loss::Random(seed)).file("counter").unwrap_or_default();
//!         let found = found.try_into().map_or(0, u64::from_le_bytes);
//!         let acknowledged = crash.marks().last().map_or(0, |mark| mark.label);
//!         assert!(found == acknowledged || found == acknowledged + 1);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `docs/inside/media.md` lists the assumptions about real disks. [`RealDisk`] is the operating system's file system,
//! [`SimDisk`] a simulated disk that records every call and can lose its power after any of them.

#![deny(unsafe_code)]

mod aligned;
mod durable_calls;
mod encryption;
mod forward;
mod names;
mod overlay;
mod real;
mod sim;
mod stream;
mod units;

pub use aligned::AlignedBuf;
pub use encryption::{Encryption, KEY_FILE, KEY_ID_LEN_MAX, KEY_LEN, Key, KeyError, KeySource, refuse_encrypted};
pub use forward::ForwardMedia;
pub use names::LockGuard;
pub use overlay::Overlay;
pub use real::RealDisk;
pub use sim::{Call, Cursor, Damage, Fault, Image, Journal, Kill, Loss, Mark, SimDisk};
pub use stream::{StreamMedia, read_stream};
pub use units::CopiedUnits;

use std::fmt::Debug;
use std::io;

/// The unit of alignment for offsets, lengths and buffers, in bytes; also the alignment of [`AlignedBuf`].
pub const BLOCK_LEN: usize = 4096;

/// The unit that a device writes completely or not at all, in bytes.
pub const SECTOR_LEN: usize = 512;

/// The number of zeros that one call writes, when many are written.
const ZEROS_LEN: u64 = 1 << 20;

const _: () = assert!(BLOCK_LEN.is_multiple_of(SECTOR_LEN));

/// An open file of one medium.
///
/// It stays valid until its medium is dropped or the file is removed, and is meaningless for another medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(crate) u32);

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// An existing file; a change through this id is refused as `PermissionDenied`.
    Read,
    /// An existing file, to read and to change.
    ReadWrite,
    /// A new, empty file, to read and to change; `AlreadyExists` if the name is taken. Its directory is created if it
    /// is missing.
    Create,
}

/// The time at which the bytes of a write are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// After the next successful [`Media::sync`] of the file.
    Volatile,
    /// When the write returns.
    Durable,
}

/// One directory of files on a device that may lose unsynced bytes.
///
/// **Names** are relative, of one component or of two joined by `/`; no component begins with a dot.
///
/// **Threads:** every call may be made from any thread at any time. Calls that overlap in time and in bytes leave the
/// bytes of either, sector by sector. A read that overlaps a write may see any mixture of old and new.
///
/// **Alignment:** any offset, length and buffer is accepted. Those aligned to [`BLOCK_LEN`] bypass the operating
/// system's cache where that is possible; a block should not be written both ways at the same time.
///
/// **Errors** name the file, and the offset if there is one. A full disk is [`io::ErrorKind::StorageFull`]. If the
/// process, or the system, has no descriptor for another file, it is [`io::ErrorKind::QuotaExceeded`]. After a failed
/// [`Media::sync`] or a failed durable write it is unknown which of the volatile bytes are durable, and a later `Ok` does
/// not reveal it: the caller stops. A sync or durable write that overlapped one that failed, on the same file, fails too.
pub trait Media: Send + Sync + Debug {
    /// Opens a file. Opening a name again returns an id of the same file.
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<FileId>;

    /// Locks the whole file for one owner, until the guard is dropped or the process ends.
    ///
    /// Never waits: `WouldBlock` if another owner holds it, in another process or by another opening within this one;
    /// `NotFound` if there is no such file. The file is not changed. A lock excludes other locks, not reads and
    /// writes.
    fn lock(&self, name: &str) -> io::Result<LockGuard>;

    /// Returns the names of the files in a directory, sorted and without the directory; `""` is the medium's own. A
    /// directory that does not exist is empty.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// Removes a file. Its ids become invalid. Durable after [`Media::sync_directory`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes durable which names exist in a directory, `""` being the medium's own, and that the directory itself
    /// exists. Does not concern the content of the files.
    fn sync_directory(&self, directory: &str) -> io::Result<()>;

    /// Returns the length of a file, in bytes.
    fn len(&self, file: FileId) -> io::Result<u64>;

    /// Reads bytes from `offset` on and returns their number. It may be smaller than requested; it is 0 only at or
    /// beyond the end of the file, or for an empty buffer.
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes bytes from `offset` on and returns their number, which may be smaller than given. Grows the file if
    /// necessary; a gap reads as zero. With [`Durability::Durable`], the bytes counted, and the file's length as far
    /// as they need it, are durable on return.
    fn write_at(&self, file: FileId, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<usize>;

    /// After `Ok`, every write to the file that returned before this call began, and the file's shape, are
    /// durable.
    fn sync(&self, file: FileId) -> io::Result<()>;

    /// Reserves space for the bytes from `offset` on and grows the file to hold them. New bytes read as zero, bytes
    /// already written stay. May need free space for all of these bytes, also where the file has space: a caller reserves
    /// what is missing. `StorageFull` is reported here, and not by a later write to these bytes.
    fn allocate(&self, file: FileId, offset: u64, len: u64) -> io::Result<()>;

    /// Frees the space of these bytes; they read as zero. The length of the file stays. If the file system cannot
    /// free space, zeros are written instead.
    fn punch(&self, file: FileId, offset: u64, len: u64) -> io::Result<()>;

    /// Writes zeros over these bytes, as [`write_at`](Media::write_at) does, volatile: so a file gets its space before its content.
    /// An encrypted medium leaves the zeros of whole sectors as they are.
    fn write_zeros(&self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let zeros = AlignedBuf::zeroed(ZEROS_LEN.min(len) as usize);
        let mut done = 0;
        while done < len {
            let piece = &zeros[..ZEROS_LEN.min(len - done) as usize];
            match self.write_at(file, offset + done, piece, Durability::Volatile)? {
                0 => return Err(write_refused(&self.path(file), offset + done)),
                written => done += written as u64,
            }
        }
        Ok(())
    }

    /// Sets the length of the file; new bytes read as zero.
    fn set_len(&self, file: FileId, len: u64) -> io::Result<()>;

    /// Returns the file's path for people, as used in errors.
    fn path(&self, file: FileId) -> String;

    /// Returns whether bytes that are written are encrypted, by an [`Encryption`].
    fn is_encrypted(&self) -> bool {
        false
    }
}

/// Fills `buffer` from `offset` on, with as many reads as necessary.
///
/// Fails with `UnexpectedEof`, naming the file and the offset of its end, if the file ends before.
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

/// Writes the `len` bytes at `offset` again, durably. A process that relies on bytes of an earlier process makes them
/// durable in this way, whatever the outcome of that process's syncs (A9).
///
/// An interruption at any point is harmless: each sector keeps the bytes that were read, or those that a crash would
/// have left anyway.
pub fn write_again(media: &dyn Media, file: FileId, offset: u64, len: usize) -> io::Result<()> {
    let mut bytes = AlignedBuf::zeroed(len);
    read_exact_at(media, file, offset, &mut bytes)?;
    write_all_at(media, file, offset, &bytes, Durability::Durable)
}

/// Copies a file to another medium, durably but for its name, and returns its length. The copy has space for all of its bytes.
///
/// # Errors
/// `AlreadyExists`, if the other medium has the file.
pub fn copy_file(from: &dyn Media, to: &dyn Media, name: &str) -> io::Result<u64> {
    const PIECE_LEN: u64 = 1 << 20;
    let file = from.open(name, OpenMode::Read)?;
    let len = from.len(file)?;
    let copy = to.open(name, OpenMode::Create)?;
    if len > 0 {
        to.allocate(copy, 0, len)?;
    }
    let mut piece = AlignedBuf::zeroed(PIECE_LEN.min(len) as usize);
    for offset in (0..len).step_by(PIECE_LEN as usize) {
        let piece = &mut piece[..PIECE_LEN.min(len - offset) as usize];
        read_exact_at(from, file, offset, piece)?;
        // Space that was allocated reads as zeros.
        if piece.iter().any(|&byte| byte != 0) {
            write_all_at(to, copy, offset, piece, Durability::Volatile)?;
        }
    }
    to.sync(copy)?;
    Ok(len)
}

/// Writes all of `bytes` from `offset` on, with as many writes as necessary.
///
/// After an error it is unknown which of the bytes were written.
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
            0 => return Err(write_refused(&media.path(file), offset + done as u64)),
            written => done += written,
        }
    }
    Ok(())
}

/// Returns the error of a medium that takes no bytes.
fn write_refused(path: &str, offset: u64) -> io::Error {
    io::Error::new(io::ErrorKind::WriteZero, format!("{path} took no bytes at offset {offset}"))
}
