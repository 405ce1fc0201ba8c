//! C functions for logs without a store. They are sound for the reasons given in `border`; a cursor belongs to one thread
//! at a time, as a thread's descriptor does (3).

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use front::wal::Lsn;

use crate::alone::{CursorHandle, OpenedLog};
use crate::border::{self, Uncancelled, close, free, open_as, room, said, tell, text, with_opened};
use crate::options::{LogChoices, given};
use crate::status::Status;

/// `cedrat_log_open`.
///
/// # Safety
/// 1 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_open(
    directory: *const c_char,
    options: *const LogChoices,
    log: *mut *const OpenedLog,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    let open = || {
        // SAFETY: 1.
        let (directory, options) = unsafe { (text(directory, "directory")?, given(options)) };
        OpenedLog::open(directory, options)
    };
    // SAFETY: 1 and 4.
    unsafe { open_as(log, (message, message_len), "log", open) }
}

/// `cedrat_log_close`.
///
/// # Safety
/// 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_close(log: *const OpenedLog) -> Status {
    // SAFETY: 2.
    unsafe { close(log) }
}

/// `cedrat_log_message`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_message(
    log: *const OpenedLog,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    // SAFETY: 1, 2 and 4.
    unsafe { tell(log, message, message_len) }
}

/// `cedrat_log_append`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_append(
    log: *const OpenedLog,
    bytes: *const c_void,
    size: usize,
    lsn: *mut u64,
) -> Status {
    let append = |log: &Arc<OpenedLog>| {
        // SAFETY: 1.
        let lsn = unsafe { room(lsn, "lsn")? };
        // SAFETY: 1 and 4.
        let entry = unsafe { border::bytes(bytes, size, "bytes")? };
        lsn.write(0);
        lsn.write(log.log.append(entry)?.get());
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(log, append) }
}

/// `cedrat_log_force`.
///
/// # Safety
/// 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_force(log: *const OpenedLog, up_to: u64) -> Status {
    // SAFETY: 2.
    unsafe { with_opened(log, |log| Ok(log.log.force(Lsn::new(up_to))?)) }
}

/// `cedrat_log_durable_lsn`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_durable_lsn(log: *const OpenedLog, lsn: *mut u64) -> Status {
    let ask = |log: &Arc<OpenedLog>| {
        // SAFETY: 1.
        unsafe { room(lsn, "lsn")? }.write(log.log.durable_lsn().get());
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(log, ask) }
}

/// `cedrat_log_truncate`.
///
/// # Safety
/// 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_truncate(log: *const OpenedLog, up_to: u64) -> Status {
    // SAFETY: 2.
    unsafe { with_opened(log, |log| Ok(log.log.truncate(Lsn::new(up_to))?)) }
}

/// `cedrat_log_cursor_create`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_cursor_create(
    log: *const OpenedLog,
    after: u64,
    cursor: *mut *mut CursorHandle,
) -> Status {
    let create = |log: &Arc<OpenedLog>| {
        // SAFETY: 1.
        let cursor = unsafe { room(cursor, "cursor")? };
        cursor.write(std::ptr::null_mut());
        cursor.write(Box::into_raw(Box::new(log.cursor(after)?)));
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(log, create) }
}

/// `cedrat_log_cursor_next`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_cursor_next(
    cursor: *mut CursorHandle,
    bytes: *mut *const c_void,
    size: *mut usize,
    lsn: *mut u64,
) -> Status {
    let _whole = Uncancelled::begin();
    // SAFETY: 2 and 3.
    let Some(CursorHandle { opened, cursor }) = (unsafe { cursor.as_mut() }) else { return Status::Null };
    let next = || {
        // SAFETY: 1.
        let (bytes, size, lsn) = unsafe { (room(bytes, "bytes")?, room(size, "size")?, room(lsn, "lsn")?) };
        bytes.write(std::ptr::null());
        size.write(0);
        lsn.write(0);
        if let Some(entry) = cursor.next()? {
            bytes.write(entry.bytes.as_ptr().cast());
            size.write(entry.bytes.len());
            lsn.write(entry.lsn.get());
        }
        Ok(())
    };
    said(&**opened, catch_unwind(AssertUnwindSafe(next)))
}

/// `cedrat_log_cursor_free`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_log_cursor_free(cursor: *mut CursorHandle) {
    // SAFETY: 2; it came from `Box::into_raw`.
    unsafe { free(cursor) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No C program can cause this panic.
    #[test]
    fn a_panic_stops_the_log() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().to_str().expect("text");
        let choices = LogChoices { segment_bytes: 1 << 16, log_limit_bytes: 1 << 20, ..LogChoices::default() };
        let log = Arc::into_raw(OpenedLog::open(path, choices).expect("a new log"));
        // SAFETY: 2 of `border`.
        unsafe {
            assert_eq!(with_opened(log, |log| Ok(log.log.append(b"kept").map(drop)?)), Status::Ok);
            assert_eq!(cedrat_log_force(log, u64::MAX), Status::Ok);
            assert_eq!(with_opened(log, |_| panic!("as planned")), Status::Panic);
            let mut lsn = 17;
            assert_eq!(cedrat_log_append(log, c"x".as_ptr().cast(), 1, &raw mut lsn), Status::Stopped);
            assert_eq!(lsn, 0);
            assert_eq!(cedrat_log_force(log, u64::MAX), Status::Stopped);
            assert_eq!(cedrat_log_close(log), Status::Stopped);
        }
        let log = OpenedLog::open(path, choices).expect("what was kept");
        let mut cursor = log.cursor(0).expect("a cursor");
        assert_eq!(cursor.cursor.next().expect("it is whole").map(|entry| entry.bytes), Some(&b"kept"[..]));
    }
}
