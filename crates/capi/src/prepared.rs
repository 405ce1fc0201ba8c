//! C functions for two-phase commit. They are sound for the reasons given in `border`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use front::txn::{BRANCH_ID_LEN_MAX, HeuristicOutcome};

use crate::border::{self, Uncancelled, list, with_opened};
use crate::opened::Opened;
use crate::status::{Failure, Result, Status};
use crate::thread::Thread;
use crate::words::{ThreadHandle, commit_mode, with};

/// `cedrat_branch` of the header.
#[repr(C)]
pub(crate) struct Branch {
    id_len: usize,
    id: [u8; BRANCH_ID_LEN_MAX],
    heuristic: u32,
    transaction: u64,
    since_lsn: u64,
}

const _: () = assert!(size_of::<Branch>() == 8 + 144 + 16);

/// `CEDRAT_HEURISTIC_COMMIT` and `CEDRAT_HEURISTIC_ROLLBACK` of the header.
const COMMIT: c_int = 1;
const ROLLBACK: c_int = 2;

impl Branch {
    fn new(name: &[u8], heuristic: Option<HeuristicOutcome>, transaction: u64, since_lsn: u64) -> Branch {
        let mut id = [0; BRANCH_ID_LEN_MAX];
        id[..name.len()].copy_from_slice(name);
        let heuristic = match heuristic {
            None => 0,
            Some(HeuristicOutcome::Committed) => COMMIT.unsigned_abs(),
            Some(HeuristicOutcome::RolledBack) => ROLLBACK.unsigned_abs(),
        };
        Branch { id_len: name.len(), id, heuristic, transaction, since_lsn }
    }
}

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
    let listed = |store: &Arc<Opened>| {
        let all = store.store()?.in_doubt()?;
        let all = all.iter().map(|known| Branch::new(&known.id, None, known.txn.0, known.since.get()));
        // SAFETY: 1.
        unsafe { list(all, (branches, "branches"), capacity, count) }
    };
    // SAFETY: 2.
    unsafe { with_opened(store, listed) }
}

/// `cedrat_resolve`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_resolve(
    store: *const Opened,
    id: *const c_void,
    len: usize,
    outcome: c_int,
) -> Status {
    let resolve = |store: &Arc<Opened>| {
        let outcome = match outcome {
            COMMIT => HeuristicOutcome::Committed,
            ROLLBACK => HeuristicOutcome::RolledBack,
            _ => {
                return Err(Failure::new(
                    Status::Misuse,
                    "invalid outcome: the transaction stays in doubt; use CEDRAT_HEURISTIC_COMMIT or CEDRAT_HEURISTIC_ROLLBACK",
                ));
            }
        };
        // SAFETY: 1.
        let prepared = store.store()?.prepared(unsafe { identifier(id, len)? })?;
        Ok(prepared.resolve(outcome)?)
    };
    // SAFETY: 2.
    unsafe { with_opened(store, resolve) }
}

/// `cedrat_heuristic_branches`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heuristic_branches(
    store: *const Opened,
    branches: *mut Branch,
    capacity: usize,
    count: *mut usize,
) -> Status {
    let listed = |store: &Arc<Opened>| {
        let all = store.store()?.heuristic_branches()?;
        let all = all.iter().map(|known| Branch::new(&known.id, Some(known.outcome), 0, known.lsn.get()));
        // SAFETY: 1.
        unsafe { list(all, (branches, "branches"), capacity, count) }
    };
    // SAFETY: 2.
    unsafe { with_opened(store, listed) }
}

/// `cedrat_forget`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_forget(store: *const Opened, id: *const c_void, len: usize) -> Status {
    let forget = |store: &Arc<Opened>| {
        // SAFETY: 1.
        Ok(store.store()?.forget_heuristic(unsafe { identifier(id, len)? })?)
    };
    // SAFETY: 2.
    unsafe { with_opened(store, forget) }
}
