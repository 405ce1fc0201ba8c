//! A preallocated file written with direct, durable writes, and the kernel's wait on a word: the building blocks of the
//! ceilings. Depends on no part of Cedrat.
//!
//! `unsafe` here is sound because
//! 1. a `Block` is plain bytes without padding, so a slice of blocks is a slice of bytes;
//! 2. a buffer passed to the kernel is borrowed until the call returns;
//! 3. a word passed to the kernel's wait is borrowed until the call returns.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Makes a file durable, and drops what the kernel has cached of it.
pub(crate) fn drop_cached(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    // SAFETY: the descriptor is open until the call returns, and the advice concerns no memory of this process.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Bytes of a block: the smallest write, and the alignment that direct I/O requires.
pub(crate) const BLOCK_LEN: usize = 4096;

/// One block of bytes, aligned for direct I/O.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
pub(crate) struct Block(pub(crate) [u8; BLOCK_LEN]);

impl Block {
    pub(crate) const ZERO: Block = Block([0; BLOCK_LEN]);
}

/// A file of fixed length whose blocks are allocated and zero, written cyclically.
pub(crate) struct Ring {
    file: File,
    blocks: u64,
}

impl Ring {
    /// Creates the file at `path`, with `blocks` blocks. Writing it completely once means that no later write changes
    /// metadata.
    pub(crate) fn create(path: &Path, blocks: u64) -> io::Result<Ring> {
        let mut file = File::create(path)?;
        let zeros = vec![0; 1 << 20];
        let mut left = blocks as usize * BLOCK_LEN;
        while left > 0 {
            let part = left.min(zeros.len());
            file.write_all(&zeros[..part])?;
            left -= part;
        }
        file.sync_all()?;
        drop(file);
        let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path)?;
        Ok(Ring { file, blocks })
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Writes `bytes` at block `at`, a number without upper bound: the file is a ring. Durable on return. A run that would
    /// cross the ring's end is written at its start instead.
    pub(crate) fn write(&self, at: u64, bytes: &[Block]) -> io::Result<()> {
        let place = at % self.blocks;
        let place = if place + bytes.len() as u64 > self.blocks { 0 } else { place };
        let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: size_of_val(bytes) };
        let offset = (place * BLOCK_LEN as u64) as libc::off_t;
        // SAFETY: 1 and 2; the kernel only reads through the pointer when writing to a file.
        let written = unsafe { libc::pwritev2(self.file.as_raw_fd(), &vector, 1, offset, libc::RWF_DSYNC) };
        match written {
            -1 => Err(io::Error::last_os_error()),
            n if n as usize == vector.iov_len => Ok(()),
            n => Err(io::Error::other(format!("a write of {} bytes wrote {n}", vector.iov_len))),
        }
    }
}

/// Waits until the system has written all its dirty pages, also those of other processes: they share the disk.
pub(crate) fn settle() {
    // SAFETY: it takes no arguments and cannot fail.
    unsafe { libc::sync() }
}

/// Sleeps until `word` is woken or `at_most` has passed, unless it no longer holds `expected`. May return spuriously.
pub(crate) fn wait_on(word: &AtomicU32, expected: u32, at_most: Option<Duration>) {
    let time = at_most
        .map(|time| libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: 3; the same holds for the time.
    unsafe {
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), wait, expected, time);
    }
}

/// Wakes up to `sleepers` threads that sleep on `word`.
pub(crate) fn wake(word: &AtomicU32, sleepers: i32) {
    // SAFETY: 3.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, sleepers);
    }
}
