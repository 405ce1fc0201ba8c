//! C functions for backups, their restores, and views of the past. They are sound for the reasons given in `border`.

use std::ffi::{c_char, c_int, c_void};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use front::media::{Media, RealDisk};

use crate::border::{open_as, room, says, text, texts, with_opened};
use crate::opened::{Destination, Opened};
use crate::options::{BackupChoices, BackupReport, RestoreChoices, StoreChoices, given, keys};
use crate::status::{Failure, Result, Status};

/// The number of bytes that a function of the program gets or returns at most.
const PIECE_LEN: usize = 1 << 16;

/// `cedrat_stream_write`.
pub(crate) type WriteFunction = unsafe extern "C" fn(context: *mut c_void, bytes: *const c_void, size: usize) -> c_int;

/// `cedrat_stream_read`.
pub(crate) type ReadFunction = unsafe extern "C" fn(context: *mut c_void, bytes: *mut c_void, size: usize) -> i64;

/// A stream that a function of the program takes.
struct ToProgram {
    write: WriteFunction,
    context: *mut c_void,
    has_failed: bool,
}

// SAFETY: 7: the thread of the call that has created it is the only one that uses it.
unsafe impl Send for ToProgram {}

impl Write for ToProgram {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.has_failed {
            return Err(io::Error::other("the program's function has failed before"));
        }
        // SAFETY: 7.
        let result = unsafe { (self.write)(self.context, bytes.as_ptr().cast(), bytes.len()) };
        if result != 0 {
            self.has_failed = true;
            return Err(io::Error::other(format!("the program's function has returned {result}")));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream that a function of the program returns.
struct FromProgram {
    read: ReadFunction,
    context: *mut c_void,
}

impl Read for FromProgram {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: 7; it writes at most the length.
        let result = unsafe { (self.read)(self.context, bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(result) {
            Ok(len) if len <= bytes.len() => Ok(len),
            _ => Err(io::Error::other(format!("the program's function has returned {result}"))),
        }
    }
}

/// Backs up, and writes the report to C.
///
/// # Safety
/// 1 and 2 of `border`.
unsafe fn back_up(
    store: *const Opened,
    options: *const BackupChoices,
    report: *mut BackupReport,
    to: impl FnOnce() -> Result<Destination>,
) -> Status {
    let copy = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let options = unsafe { given(options) };
        options.check()?;
        // SAFETY: 1 and 4.
        let since = unsafe { texts(options.since, options.since_count, "since")? };
        let reported = store.backup(to()?, &since, options.bytes_per_second_max)?;
        if !report.is_null() {
            // SAFETY: 1.
            unsafe { room(report, "report")? }.write(reported);
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, copy) }
}

/// `cedrat_backup`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_backup(
    store: *const Opened,
    directory: *const c_char,
    options: *const BackupChoices,
    report: *mut BackupReport,
) -> Status {
    // SAFETY: 1.
    let to = || Ok(Destination::Directory(unsafe { text(directory, "directory")? }.into()));
    // SAFETY: 1 and 2.
    unsafe { back_up(store, options, report, to) }
}

/// `cedrat_backup_to_stream`.
///
/// # Safety
/// 1, 2 and 7 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_backup_to_stream(
    store: *const Opened,
    write: Option<WriteFunction>,
    context: *mut c_void,
    options: *const BackupChoices,
    report: *mut BackupReport,
) -> Status {
    let to = || {
        let write = write.ok_or_else(|| Failure::null("write"))?;
        let stream = ToProgram { write, context, has_failed: false };
        Ok(Destination::Stream(Box::new(BufWriter::with_capacity(PIECE_LEN, stream))))
    };
    // SAFETY: 1 and 2.
    unsafe { back_up(store, options, report, to) }
}

/// Returns the directories of a backup with its increments, in their order.
///
/// # Safety
/// 1 and 4 of `border`.
unsafe fn chain<'a>(backup: *const c_char, choices: &RestoreChoices) -> Result<Vec<&'a str>> {
    // SAFETY: 1 and 4.
    let (full, increments) =
        unsafe { (text(backup, "backup")?, texts(choices.increments, choices.increment_count, "increments")?) };
    Ok([full].into_iter().chain(increments).collect())
}

/// Returns the directory of an archive, which may be null.
///
/// # Safety
/// 1 of `border`.
unsafe fn archive_at<'a>(archive: *const c_char) -> Result<Option<&'a Path>> {
    // SAFETY: 1.
    if archive.is_null() { Ok(None) } else { Ok(Some(Path::new(unsafe { text(archive, "archive")? }))) }
}

/// `cedrat_restore`.
///
/// # Safety
/// 1 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_restore(
    backup: *const c_char,
    archive: *const c_char,
    directory: *const c_char,
    options: *const RestoreChoices,
    report: *mut BackupReport,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    let restore = || {
        // SAFETY: 1.
        let (options, to) = unsafe { (given(options), text(directory, "directory")?) };
        // SAFETY: 1 and 4.
        let (backups, archive) = unsafe { (chain(backup, &options)?, archive_at(archive)?) };
        let target = options.to_target()?;
        // SAFETY: 1.
        let (from, into) = unsafe { (keys(options.key, None)?, keys(options.new_key.or(options.key), None)?) };
        let restored = front::restore_encrypted(&backups, archive, from.as_ref(), to, into.as_ref(), target)?;
        if !report.is_null() {
            let reported = BackupReport::new(restored.up_to, restored.bytes, restored.total);
            // SAFETY: 1.
            unsafe { room(report, "report")? }.write(reported);
        }
        Ok(())
    };
    // SAFETY: 1 and 4.
    unsafe { says(restore, (message, message_len)) }
}

/// `cedrat_restore_stream`.
///
/// # Safety
/// 1, 4 and 7 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_restore_stream(
    read: Option<ReadFunction>,
    context: *mut c_void,
    directory: *const c_char,
    bytes: *mut u64,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    let restore = || {
        let read = read.ok_or_else(|| Failure::null("read"))?;
        // SAFETY: 1.
        let to: Arc<dyn Media> = Arc::new(RealDisk::new(unsafe { text(directory, "directory")? }));
        let mut stream = BufReader::with_capacity(PIECE_LEN, FromProgram { read, context });
        let restored = front::txn::restore_stream(&mut stream, &to)?;
        if !bytes.is_null() {
            // SAFETY: 1.
            unsafe { room(bytes, "bytes")? }.write(restored);
        }
        Ok(())
    };
    // SAFETY: 1 and 4.
    unsafe { says(restore, (message, message_len)) }
}

/// `cedrat_open_read_only`.
///
/// # Safety
/// 1 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_open_read_only(
    directory: *const c_char,
    options: *const StoreChoices,
    store: *mut *const Opened,
    lsn: *mut u64,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    let open = || {
        // SAFETY: 1.
        let (options, directory) = unsafe { (given(options), text(directory, "directory")?) };
        // SAFETY: 1.
        let encryption = unsafe { keys(options.key, options.older_key)? };
        let (opened, as_of) = Opened::beside(directory, encryption, options)?;
        if !lsn.is_null() {
            // SAFETY: 1.
            unsafe { room(lsn, "lsn")? }.write(as_of.get());
        }
        Ok(opened)
    };
    // SAFETY: 1 and 4.
    unsafe { open_as(store, (message, message_len), "store", open) }
}

/// `cedrat_open_as_of`.
///
/// # Safety
/// 1 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_open_as_of(
    backup: *const c_char,
    archive: *const c_char,
    scratch: *const c_char,
    moment: *const RestoreChoices,
    options: *const StoreChoices,
    store: *mut *const Opened,
    lsn: *mut u64,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    let open = || {
        // SAFETY: 1.
        let (moment, options, scratch) = unsafe { (given(moment), given(options), text(scratch, "scratch")?) };
        // SAFETY: 1 and 4.
        let (backups, archive) = unsafe { (chain(backup, &moment)?, archive_at(archive)?) };
        // SAFETY: 1.
        let encryption = unsafe { keys(moment.key.or(options.key), options.older_key)? };
        let (opened, as_of) = Opened::view(&backups, archive, moment.to_target()?, scratch, encryption, options)?;
        if !lsn.is_null() {
            // SAFETY: 1.
            unsafe { room(lsn, "lsn")? }.write(as_of.get());
        }
        Ok(opened)
    };
    // SAFETY: 1 and 4.
    unsafe { open_as(store, (message, message_len), "store", open) }
}
