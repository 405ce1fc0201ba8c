//! C functions for two-phase commit. They are sound for the reasons given in `border`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use front::txn::BRANCH_ID_LEN_MAX;

use crate::border::{self, Uncancelled, room, with_opened};
use crate::opened::Opened;
use crate::status::{Failure, Result, Status};
use crate::thread::Thread;
use crate::words::{ThreadHandle, commit_mode, with};

/// `cedrat_branch` of the header.
#[repr(C)]
pub(crate) struct Branch {
    id_len: usize,
    id: [u8; BRANCH_ID_LEN_MAX],
    reserved: u32,
    transaction: u64,
    since_lsn: u64,
}

const _: () = assert!(size_of::<Branch>() == 8 + 144 + 16);

/// Returns an identifier from C.
///
/// # Safety
/// 1 of `border`.
unsafe fn identifier<'a>(id: *const c_void, len: usize) -> Result<&'a [u8]> {
    if id.is_null() {
        return Err(Failure::null("id"));
    }
    // SAFETY: 1.
    unsafe { border::bytes(id, len, "id") }
}

/// `cedrat_prepare`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_prepare(
    thread: *mut ThreadHandle,
    id: *const c_void,
    len: usize,
    read_only: *mut c_int,
) -> Status {
    let prepare = |thread: &mut Thread| {
        let _whole = Uncancelled::begin();
        // SAFETY: 1.
        let has_only_read = thread.prepare(unsafe { identifier(id, len)? })?;
        // SAFETY: 1; null is allowed here.
        if let Some(read_only) = unsafe { read_only.as_mut() } {
            *read_only = c_int::from(has_only_read);
        }
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, prepare) }
}

/// `cedrat_commit_prepared`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_commit_prepared(
    store: *const Opened,
    id: *const c_void,
    len: usize,
    mode: c_int,
) -> Status {
    let commit = |store: &Arc<Opened>| {
        let mode = commit_mode(mode)?;
        // SAFETY: 1.
        let prepared = store.store()?.prepared(unsafe { identifier(id, len)? })?;
        prepared.commit(mode)?;
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, commit) }
}

/// `cedrat_rollback_prepared`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_rollback_prepared(
    store: *const Opened,
    id: *const c_void,
    len: usize,
) -> Status {
    let roll_back = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let prepared = store.store()?.prepared(unsafe { identifier(id, len)? })?;
        Ok(prepared.rollback()?)
    };
    // SAFETY: 2.
    unsafe { with_opened(store, roll_back) }
}

/// `cedrat_in_doubt`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_in_doubt(
    store: *const Opened,
    branches: *mut Branch,
    capacity: usize,
    count: *mut usize,
) -> Status {
    let list = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let count = unsafe { room(count, "count")? };
        if branches.is_null() && capacity > 0 {
            return Err(Failure::null("branches"));
        }
        let all = store.store()?.in_doubt();
        for (at, known) in all.iter().enumerate().take(capacity) {
            let mut id = [0; BRANCH_ID_LEN_MAX];
            id[..known.id.len()].copy_from_slice(&known.id);
            let (id_len, transaction, since_lsn) = (known.id.len(), known.txn.0, known.since.get());
            // SAFETY: 1; there is space for `capacity` of them.
            unsafe { branches.add(at).write(Branch { id_len, id, reserved: 0, transaction, since_lsn }) };
        }
        count.write(all.len());
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, list) }
}
