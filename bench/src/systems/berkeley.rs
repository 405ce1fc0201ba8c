//! Berkeley DB 5.3 through `shims/berkeley.c`.
//!
//! `unsafe` here is sound because
//! 1. the handle is opened once, closed once, in `drop`, and opened with `DB_THREAD`, so that any
//!    thread may use it at any time;
//! 2. a transaction is used by the one thread that began it and never after its end;
//! 3. pointers passed to the shim are borrowed until the call returns.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::{Result, Session, Sizing, System, wrong_answer};
use crate::keys::{Keys, Picks, value};

/// Log buffer and log files: large enough not to affect the measurement.
const LOG_BUFFER_LEN: u32 = 8 << 20;
const LOG_FILE_LEN: u32 = 64 << 20;

/// Pages of eight-byte pairs are as long as Cedrat's.
const PAGE_LEN: u32 = 4096;

#[repr(C)]
struct Options {
    home: *const c_char,
    cache_len: u64,
    elements: u32,
    log_buffer_len: u32,
    log_file_len: u32,
    page_len: u32,
    btree: u8,
    locks: u8,
    fresh: u8,
    direct: u8,
}

impl Options {
    fn of(cache_len: u64, page_len: u32, shape: Shape) -> Options {
        Options {
            home: ptr::null(),
            cache_len,
            elements: 0,
            log_buffer_len: LOG_BUFFER_LEN,
            log_file_len: LOG_FILE_LEN,
            page_len,
            btree: (shape == Shape::Btree).into(),
            locks: 0,
            fresh: 1,
            direct: 0,
        }
    }
}

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn berkeley_open(options: *const Options, out: *mut *mut Handle) -> c_int;
    fn berkeley_close(store: *mut Handle) -> c_int;
    fn berkeley_error(error: c_int) -> *const c_char;
    fn berkeley_begin(store: *mut Handle, transaction: *mut *mut c_void) -> c_int;
    fn berkeley_put(store: *mut Handle, transaction: *mut c_void, key: u64, value: u64) -> c_int;
    fn berkeley_put_bytes(
        store: *mut Handle,
        transaction: *mut c_void,
        key: u64,
        bytes: *const u8,
        len: u32,
        at: u32,
        partial: u8,
    ) -> c_int;
    fn berkeley_get_bytes(store: *mut Handle, transaction: *mut c_void, key: u64, bytes: *mut u8, len: u32) -> c_int;
    fn berkeley_force_log(store: *mut Handle) -> c_int;
    fn berkeley_commit(transaction: *mut c_void) -> c_int;
    fn berkeley_abort(transaction: *mut c_void) -> c_int;
    fn berkeley_is_deadlock(error: c_int) -> c_int;
    fn berkeley_get(store: *mut Handle, key: u64, value: *mut u64) -> c_int;
    fn berkeley_log_len(store: *mut Handle, len: *mut u64) -> c_int;
}

/// Structure of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Hash,
    Btree,
}

/// Guard of concurrent puts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    Mutex,
    LockManager,
}

pub(super) struct Berkeley {
    handle: *mut Handle,
    /// Held during a put when there is no lock manager.
    turn: Option<Mutex<()>>,
}

// SAFETY: 1.
unsafe impl Sync for Berkeley {}
// SAFETY: 1.
unsafe impl Send for Berkeley {}

fn check(error: c_int) -> Result<()> {
    if error == 0 {
        return Ok(());
    }
    // SAFETY: the words are a static string, or one that Berkeley DB keeps for the thread.
    let words = unsafe { CStr::from_ptr(berkeley_error(error)) };
    Err(format!("Berkeley DB: {}", words.to_string_lossy()).into())
}

impl Berkeley {
    pub(super) fn create(dir: &Path, sizing: Sizing, shape: Shape, guard: Guard) -> Result<Berkeley> {
        let elements = u32::try_from(sizing.presize_records)?;
        let locks = (guard == Guard::LockManager).into();
        Berkeley::open(dir, Options { elements, locks, ..Options::of(sizing.pool_bytes, PAGE_LEN, shape) })
    }

    /// Opens a store whose pages bypass the system's cache, without the lock manager, for one thread. One that is not
    /// `fresh` is recovered.
    pub(super) fn direct(dir: &Path, pool_bytes: u64, page_len: u32, shape: Shape, fresh: bool) -> Result<Berkeley> {
        Berkeley::open(dir, Options { fresh: fresh.into(), direct: 1, ..Options::of(pool_bytes, page_len, shape) })
    }

    fn open(dir: &Path, options: Options) -> Result<Berkeley> {
        let home = CString::new(dir.as_os_str().as_bytes())?;
        let mut handle = ptr::null_mut();
        // SAFETY: 3.
        check(unsafe { berkeley_open(&Options { home: home.as_ptr(), ..options }, &mut handle) })?;
        Ok(Berkeley { handle, turn: (options.locks == 0).then(Mutex::default) })
    }

    /// Writes bytes under a key: all of them, or a part from `at` on.
    pub(super) fn put_bytes(&self, transaction: &Transaction, key: u64, bytes: &[u8], at: Option<u32>) -> Result<()> {
        let len = u32::try_from(bytes.len())?;
        let (at, partial) = (at.unwrap_or_default(), at.is_some().into());
        // SAFETY: 1, 2 and 3.
        check(unsafe { berkeley_put_bytes(self.handle, transaction.0, key, bytes.as_ptr(), len, at, partial) })
    }

    /// Returns the `len` bytes under a key.
    pub(super) fn get_bytes(&self, transaction: &Transaction, key: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        // SAFETY: 1, 2 and 3; the shim writes at most the given length.
        check(unsafe { berkeley_get_bytes(self.handle, transaction.0, key, bytes.as_mut_ptr(), len.try_into()?) })?;
        Ok(bytes)
    }

    /// Makes all log records durable, also those of transactions that have not ended.
    pub(super) fn force_log(&self) -> Result<()> {
        // SAFETY: 1.
        check(unsafe { berkeley_force_log(self.handle) })
    }

    pub(super) fn begin(&self) -> Result<Transaction> {
        let mut transaction = ptr::null_mut();
        // SAFETY: 1 and 3.
        check(unsafe { berkeley_begin(self.handle, &mut transaction) })?;
        Ok(Transaction(transaction))
    }

    fn put(&self, transaction: &Transaction, key: u64) -> c_int {
        // SAFETY: 1 and 2.
        unsafe { berkeley_put(self.handle, transaction.0, key, value(key)) }
    }
}

impl Drop for Berkeley {
    fn drop(&mut self) {
        // SAFETY: 1. A failure to close loses nothing: the files are deleted.
        unsafe { berkeley_close(self.handle) };
    }
}

/// A transaction that has not ended.
pub(super) struct Transaction(*mut c_void);

impl Transaction {
    pub(super) fn commit(self) -> Result<()> {
        // SAFETY: 2; `self` is consumed.
        check(unsafe { berkeley_commit(self.0) })
    }

    fn abort(self) -> Result<()> {
        // SAFETY: 2; `self` is consumed.
        check(unsafe { berkeley_abort(self.0) })
    }
}

impl System for Berkeley {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn log_bytes(&self) -> Result<Option<u64>> {
        let mut len = 0;
        // SAFETY: 1 and 3.
        check(unsafe { berkeley_log_len(self.handle, &mut len) })?;
        Ok(Some(len))
    }
}

impl Session for &Berkeley {
    fn insert_durably(&mut self, key: u64) -> Result<()> {
        loop {
            let transaction = self.begin()?;
            let turn = self.turn.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
            let error = self.put(&transaction, key);
            drop(turn);
            if error == 0 {
                return transaction.commit();
            }
            transaction.abort()?;
            // SAFETY: a pure function of a number.
            if unsafe { berkeley_is_deadlock(error) } == 0 {
                return check(error);
            }
        }
    }

    fn load(&mut self, keys: Keys) -> Result<()> {
        let transaction = self.begin()?;
        for key in keys {
            check(self.put(&transaction, key))?;
        }
        transaction.commit()
    }

    fn get_all(&mut self, keys: Picks) -> Result<()> {
        for key in keys {
            let mut found = 0;
            // SAFETY: 1 and 3.
            check(unsafe { berkeley_get(self.handle, key, &mut found) })?;
            if found != value(key) {
                return Err(wrong_answer(key, Some(found)));
            }
        }
        Ok(())
    }
}
