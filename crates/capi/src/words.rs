//! C functions for threads and their transactions. They are sound for the reasons given in `border`.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use front::heap::Commit;

use crate::border::{self, Handle, Uncancelled, len_in_memory, room, text, with_opened};
use crate::exit::Watch;
use crate::opened::{HeapHandle, Opened};
use crate::status::{Failure, Result, Status};
use crate::thread::Thread;

/// CEDRAT_VIEW_VERSION: version of the layout of `view` in the heap crate.
const VIEW_VERSION: u32 = 3;

/// Target of a `cedrat_thread *`: the descriptor, and the watch for the end of its thread.
pub(crate) struct ThreadHandle {
    thread: Thread,
    watch: Option<Arc<Watch>>,
}

/// Calls the library for a thread, and converts every outcome into a status.
///
/// # Safety
/// 2 and 3 of `border`.
#[inline(always)]
pub(crate) unsafe fn with(handle: *mut ThreadHandle, work: impl FnOnce(&mut Thread) -> Result<()>) -> Status {
    // SAFETY: 2 and 3.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return Status::Null };
    let thread = &mut handle.thread;
    match catch_unwind(AssertUnwindSafe(|| work(thread))) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => thread.failed(failure),
        Err(_) => panicked(thread),
    }
}

/// Aborts the transaction and stops the store: the disk is consistent, but the state of the memory is unknown.
#[cold]
fn panicked(thread: &mut Thread) -> Status {
    let text =
        "the library panicked, which is a mistake in it; the transaction is aborted and the store stopped: reopen it";
    thread.opened().stop(text);
    let _ = catch_unwind(AssertUnwindSafe(|| thread.abort()));
    thread.failed(Failure::new(Status::Panic, text))
}

pub(crate) fn commit_mode(mode: c_int) -> Result<Commit> {
    match mode {
        0 => Ok(Commit::Sync),
        1 => Ok(Commit::Async),
        2 => Ok(Commit::NoFlush),
        3 => Ok(Commit::Partition),
        _ => Err(Failure::new(Status::Misuse, "there is no such cedrat_commit_mode; the transaction runs on")),
    }
}

// ---- threads ------------------------------------------------------------------------------------------------------

/// `cedrat_thread_create`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_thread_create(store: *const Opened, thread: *mut *mut ThreadHandle) -> Status {
    let create = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let thread = unsafe { room(thread, "thread")? };
        thread.write(std::ptr::null_mut());
        let handle = Box::into_raw(Box::new(ThreadHandle { thread: Thread::new(store)?, watch: None }));
        // SAFETY: it was just created, and no other reference to it exists.
        unsafe { (*handle).watch = Some(Watch::new(NonNull::new_unchecked(&raw mut (*handle).thread))) };
        thread.write(handle);
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, create) }
}

/// `cedrat_thread_free`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_thread_free(thread: *mut ThreadHandle) {
    if thread.is_null() {
        return;
    }
    // SAFETY: 2; once the watch has forgotten it, the box is its only owner.
    let free = || unsafe {
        if let Some(watch) = &(*thread).watch {
            watch.forget();
        }
        drop(Box::from_raw(thread));
    };
    // There is no handle left to report a panic to.
    let _ = catch_unwind(AssertUnwindSafe(free));
}

/// `cedrat_thread_view`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_thread_view(thread: *const ThreadHandle, version: u32) -> *mut c_void {
    // SAFETY: 2 and 3.
    match unsafe { thread.as_ref() } {
        Some(handle) if version == VIEW_VERSION => handle.thread.view().as_ptr().cast(),
        _ => std::ptr::null_mut(),
    }
}

/// `cedrat_error`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_error(thread: *mut ThreadHandle) -> *const c_char {
    // SAFETY: 2 and 3.
    let Some(handle) = (unsafe { thread.as_mut() }) else { return c"the thread descriptor is a null pointer".as_ptr() };
    handle.thread.text().as_ptr()
}

// ---- transactions -------------------------------------------------------------------------------------------------

/// `cedrat_begin`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_begin(thread: *mut ThreadHandle) -> Status {
    // SAFETY: 2 and 3.
    if let Some(watch) = unsafe { thread.as_ref() }.and_then(|handle| handle.watch.as_ref()) {
        watch.begin();
    }
    // SAFETY: 2 and 3.
    unsafe { with(thread, Thread::begin) }
}

/// `cedrat_commit`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_commit(thread: *mut ThreadHandle, mode: c_int, lsn: *mut u64) -> Status {
    let commit = |thread: &mut Thread| {
        let _whole = thread.uses_disk().then(Uncancelled::begin);
        let committed = thread.commit(commit_mode(mode)?)?;
        // SAFETY: 1; null is allowed here.
        if let Some(lsn) = unsafe { lsn.as_mut() } {
            *lsn = committed;
        }
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, commit) }
}

/// `cedrat_abort`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_abort(thread: *mut ThreadHandle) -> Status {
    let abort = |thread: &mut Thread| {
        thread.abort();
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, abort) }
}

/// `cedrat_restart`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_restart(thread: *mut ThreadHandle) -> Status {
    let restart = |thread: &mut Thread| {
        thread.restart();
        Err(Failure::new(Status::Aborted, "restarted by the program"))
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, restart) }
}

/// `cedrat_is_running`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_is_running(thread: *const ThreadHandle) -> c_int {
    // SAFETY: 2 and 3.
    unsafe { thread.as_ref() }.map_or(0, |handle| c_int::from(handle.thread.is_running()))
}

// ---- words and bytes ----------------------------------------------------------------------------------------------

/// `cedrat_load_word`.
///
/// # Safety
/// 1, 2 and 3 of `border`; `address` is not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_load_word(
    thread: *mut ThreadHandle,
    address: *const c_void,
    value: *mut u64,
) -> Status {
    let load = |thread: &mut Thread| {
        // SAFETY: 1.
        let value = unsafe { room(value, "value")? };
        value.write(thread.load_word(address as usize)?);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, load) }
}

/// `cedrat_store_word`.
///
/// # Safety
/// 2 and 3 of `border`; `address` is not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_store_word(
    thread: *mut ThreadHandle,
    address: *mut c_void,
    value: u64,
) -> Status {
    // SAFETY: 2 and 3.
    unsafe { with(thread, |thread| thread.store_word(address as usize, value)) }
}

/// `cedrat_load_bytes`.
///
/// # Safety
/// 1 to 4 of `border`; `address` is not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_load_bytes(
    thread: *mut ThreadHandle,
    address: *const c_void,
    bytes: *mut c_void,
    len: usize,
) -> Status {
    let load = |thread: &mut Thread| {
        if bytes.is_null() {
            return Err(Failure::null("bytes"));
        }
        let len = len_in_memory(len, "bytes")?;
        // SAFETY: 1 and 4; zeros first, because C may never have initialised the buffer.
        let bytes = unsafe {
            std::ptr::write_bytes(bytes.cast::<u8>(), 0, len);
            std::slice::from_raw_parts_mut(bytes.cast::<u8>(), len)
        };
        thread.load_bytes(address as usize, bytes)
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, load) }
}

/// `cedrat_store_bytes`.
///
/// # Safety
/// 1 to 4 of `border`; `address` is not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_store_bytes(
    thread: *mut ThreadHandle,
    address: *mut c_void,
    bytes: *const c_void,
    len: usize,
) -> Status {
    let store = |thread: &mut Thread| {
        if bytes.is_null() {
            return Err(Failure::null("bytes"));
        }
        // SAFETY: 1 and 4.
        let bytes = unsafe { border::bytes(bytes, len, "bytes")? };
        thread.store_bytes(address as usize, bytes)
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, store) }
}

// ---- blocks and roots ---------------------------------------------------------------------------------------------

/// `cedrat_malloc`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_malloc(
    thread: *mut ThreadHandle,
    heap: *const HeapHandle,
    size: usize,
    block: *mut *mut c_void,
) -> Status {
    let allocate = |thread: &mut Thread| {
        // SAFETY: 1 and 2.
        let (heap, block) = unsafe { (heap.as_ref().ok_or_else(|| Failure::null("heap"))?, room(block, "block")?) };
        block.write(std::ptr::null_mut());
        block.write(thread.malloc(&heap.heap, size as u64)? as *mut c_void);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, allocate) }
}

/// `cedrat_free`.
///
/// # Safety
/// 2 and 3 of `border`; `block` is not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_free(thread: *mut ThreadHandle, block: *mut c_void) -> Status {
    // SAFETY: 2 and 3.
    unsafe { with(thread, |thread| thread.free(block as usize)) }
}

/// `cedrat_block_size`.
///
/// # Safety
/// 1, 2 and 3 of `border`; `block` is not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_block_size(
    thread: *mut ThreadHandle,
    block: *const c_void,
    size: *mut usize,
) -> Status {
    let ask = |thread: &mut Thread| {
        // SAFETY: 1.
        let size = unsafe { room(size, "size")? };
        size.write(thread.block_size(block as usize)? as usize);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, ask) }
}

/// `cedrat_get_root`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_get_root(
    thread: *mut ThreadHandle,
    heap: *const HeapHandle,
    name: *const c_char,
    block: *mut *mut c_void,
) -> Status {
    let get = |thread: &mut Thread| {
        // SAFETY: 1 and 2.
        let (heap, name, block) = unsafe {
            (heap.as_ref().ok_or_else(|| Failure::null("heap"))?, text(name, "name")?, room(block, "block")?)
        };
        block.write(std::ptr::null_mut());
        block.write(thread.root(&heap.heap, name)? as *mut c_void);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, get) }
}

/// `cedrat_set_root`.
///
/// # Safety
/// 1, 2 and 3 of `border`; `block` is not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_set_root(
    thread: *mut ThreadHandle,
    heap: *const HeapHandle,
    name: *const c_char,
    block: *const c_void,
) -> Status {
    let set = |thread: &mut Thread| {
        let _whole = Uncancelled::begin(); // it may allocate
        // SAFETY: 1 and 2.
        let (heap, name) = unsafe { (heap.as_ref().ok_or_else(|| Failure::null("heap"))?, text(name, "name")?) };
        thread.set_root(&heap.heap, name, block as usize)
    };
    // SAFETY: 2 and 3.
    unsafe { with(thread, set) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{HeapChoices, StoreChoices};

    /// No C program can cause this panic.
    #[test]
    fn panic_in_transaction_aborts_and_stops_store() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().to_str().expect("text");
        let open =
            || Opened::open(path, None, None, None, StoreChoices { no_huge_pages: 1, ..StoreChoices::default() });
        let opened = open().expect("a new store");
        let choices = HeapChoices { size: 1 << 20, raw: 1, ..HeapChoices::default() };
        let heap = opened.create_heap("heap", choices).expect("a heap");
        let mut handle = ThreadHandle { thread: Thread::new(&opened).expect("a thread"), watch: None };
        // SAFETY: 2 of `border`; the store is open.
        let address = unsafe { (*heap).heap.address() };
        let mut call = |work: &dyn Fn(&mut Thread) -> Result<()>| {
            // SAFETY: 2 and 3 of `border`.
            unsafe { with(&raw mut handle, work) }
        };
        assert_eq!(call(&|thread| thread.begin()), Status::Ok);
        assert_eq!(call(&|thread| thread.store_word(address, 1)), Status::Ok);
        assert_eq!(call(&|thread| thread.commit(Commit::Sync).map(drop)), Status::Ok);
        assert_eq!(call(&|thread| thread.begin()), Status::Ok);
        assert_eq!(call(&|thread| thread.store_word(address, 2)), Status::Ok);
        assert_eq!(call(&|_| panic!("as planned")), Status::Panic);
        assert_eq!(call(&|thread| thread.load_word(address).map(drop)), Status::Misuse);
        assert_eq!(call(&|thread| thread.begin()), Status::Stopped);
        assert!(!handle.thread.is_running());
        drop(handle);
        assert!(opened.close().is_err_and(|(_, failure)| failure.status == Status::Stopped));

        let opened = open().expect("what was committed");
        let mut thread = Thread::new(&opened).expect("a thread");
        let address = opened.memory().heap("heap").expect("it was created").address();
        thread.begin().expect("it goes on");
        assert_eq!(thread.load_word(address).expect("its first word"), 1);
    }
}
