//! LMDB. It has no log: a commit writes the changed pages and then the root.
//!
//! `unsafe` here is sound because
//! 1. the environment is opened once and closed once, in `drop`, after all transactions, because
//!    sessions borrow it;
//! 2. a transaction is used by the one thread that began it and never after its end;
//! 3. pointers passed to the library are borrowed until the call returns; a value that it returns is copied before its
//!    transaction ends.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::{Result, Session, System, wrong_answer};
use crate::keys::{Keys, Picks, value};

/// More than any figure needs; it only takes address space.
const MAP_LEN: usize = 16 << 30;

const MDB_RDONLY: c_uint = 0x2_0000;
const MDB_NOTFOUND: c_int = -30798;

#[repr(C)]
struct Opaque {
    _opaque: [u8; 0],
}

#[repr(C)]
struct Slice {
    len: usize,
    data: *mut c_void,
}

impl Slice {
    fn of(word: &u64) -> Slice {
        Slice { len: size_of::<u64>(), data: ptr::from_ref(word).cast_mut().cast() }
    }
}

unsafe extern "C" {
    fn mdb_env_create(env: *mut *mut Opaque) -> c_int;
    fn mdb_env_set_mapsize(env: *mut Opaque, len: usize) -> c_int;
    fn mdb_env_open(env: *mut Opaque, path: *const c_char, flags: c_uint, mode: c_uint) -> c_int;
    fn mdb_env_close(env: *mut Opaque);
    fn mdb_strerror(error: c_int) -> *const c_char;
    fn mdb_txn_begin(env: *mut Opaque, parent: *mut Opaque, flags: c_uint, txn: *mut *mut Opaque) -> c_int;
    fn mdb_txn_commit(txn: *mut Opaque) -> c_int;
    fn mdb_txn_abort(txn: *mut Opaque);
    fn mdb_dbi_open(txn: *mut Opaque, name: *const c_char, flags: c_uint, dbi: *mut c_uint) -> c_int;
    fn mdb_put(txn: *mut Opaque, dbi: c_uint, key: *mut Slice, data: *mut Slice, flags: c_uint) -> c_int;
    fn mdb_get(txn: *mut Opaque, dbi: c_uint, key: *mut Slice, data: *mut Slice) -> c_int;
}

fn check(error: c_int) -> Result<()> {
    if error == 0 {
        return Ok(());
    }
    // SAFETY: the words are a static string.
    let words = unsafe { CStr::from_ptr(mdb_strerror(error)) };
    Err(format!("LMDB: {}", words.to_string_lossy()).into())
}

pub(super) struct Lmdb {
    env: *mut Opaque,
    table: c_uint,
}

// SAFETY: LMDB documents that an environment may be used by any thread at any time.
unsafe impl Sync for Lmdb {}

impl Lmdb {
    pub(super) fn create(dir: &Path) -> Result<Lmdb> {
        let path = CString::new(dir.as_os_str().as_bytes())?;
        let mut env = ptr::null_mut();
        // SAFETY: 3.
        check(unsafe { mdb_env_create(&mut env) })?;
        let mut lmdb = Lmdb { env, table: 0 }; // closes the environment after a failure
        // SAFETY: 1 and 3.
        unsafe {
            check(mdb_env_set_mapsize(env, MAP_LEN))?;
            check(mdb_env_open(env, path.as_ptr(), 0, 0o644))?;
        }
        let txn = Transaction::begin(&lmdb, 0)?;
        let mut table = 0;
        // SAFETY: 2 and 3; no name means the unnamed table that every environment has.
        check(unsafe { mdb_dbi_open(txn.txn, ptr::null(), 0, &mut table) })?;
        txn.commit()?;
        lmdb.table = table;
        Ok(lmdb)
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        // SAFETY: 1.
        unsafe { mdb_env_close(self.env) };
    }
}

/// A transaction; aborted when dropped before its commit.
struct Transaction<'a> {
    lmdb: &'a Lmdb,
    txn: *mut Opaque,
}

impl<'a> Transaction<'a> {
    fn begin(lmdb: &'a Lmdb, flags: c_uint) -> Result<Transaction<'a>> {
        let mut txn = ptr::null_mut();
        // SAFETY: 1 and 3.
        check(unsafe { mdb_txn_begin(lmdb.env, ptr::null_mut(), flags, &mut txn) })?;
        Ok(Transaction { lmdb, txn })
    }

    fn put(&mut self, key: u64) -> Result<()> {
        let value = value(key);
        // SAFETY: 2 and 3; LMDB copies both words.
        check(unsafe { mdb_put(self.txn, self.lmdb.table, &mut Slice::of(&key), &mut Slice::of(&value), 0) })
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>> {
        let mut found = Slice { len: 0, data: ptr::null_mut() };
        // SAFETY: 2 and 3.
        let error = unsafe { mdb_get(self.txn, self.lmdb.table, &mut Slice::of(&key), &mut found) };
        if error == MDB_NOTFOUND {
            return Ok(None);
        }
        check(error)?;
        if found.len != size_of::<u64>() {
            return Err(format!("LMDB: a value of {} bytes", found.len).into());
        }
        // SAFETY: 3; the length was checked one line above, and the read needs no alignment.
        Ok(Some(unsafe { found.data.cast::<u64>().read_unaligned() }))
    }

    fn commit(self) -> Result<()> {
        let txn = self.txn;
        std::mem::forget(self);
        // SAFETY: 2; the call ends the transaction, also when it fails.
        check(unsafe { mdb_txn_commit(txn) })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: 2.
        unsafe { mdb_txn_abort(self.txn) };
    }
}

impl System for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn log_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

impl Session for &Lmdb {
    fn insert_durably(&mut self, key: u64) -> Result<()> {
        let mut transaction = Transaction::begin(self, 0)?;
        transaction.put(key)?;
        transaction.commit()
    }

    fn load(&mut self, keys: Keys) -> Result<()> {
        let mut transaction = Transaction::begin(self, 0)?;
        for key in keys {
            transaction.put(key)?;
        }
        transaction.commit()
    }

    fn get_all(&mut self, keys: Picks) -> Result<()> {
        let mut transaction = Transaction::begin(self, MDB_RDONLY)?;
        for key in keys {
            let found = transaction.get(key)?;
            if found != Some(value(key)) {
                return Err(wrong_answer(key, found));
            }
        }
        Ok(())
    }
}
