//! C functions for stores and heaps. `include/cedrat.h` documents their contracts.
//!
//! This module and `words`, `faces`, `graphs`, `logs`, `options`, `copies`, `changes` contain the `unsafe` code of the interface. It is sound
//! because callers meet the requirements of the header, which no library can check:
//!
//! 1. a pointer is null, which is an error without further effect, or points to an object of its type: a string that ends
//!    with a zero, a structure of the header, space for a result; no other thread changes or frees it during the call;
//! 2. a handle is null, or was returned by the function that creates such handles and was not passed to the one that frees
//!    it;
//! 3. a thread's descriptor, a transaction, or a cursor is used by one thread at a time;
//! 4. a length next to a pointer is the length of the object that it points to.
//!
//! Besides, nothing unwinds into C: each function catches a panic, and returns a status for it.
//!
//! 5. Functions have the names that the header declares, and no other symbol begins with `cedrat_`;
//! 6. `pthread_setcancelstate` is that of the C library, for which each state that it has returned is valid;
//! 7. a function of the program returns as the header says, without a jump or an exception. It is called by the thread that made the
//!    call, one call at a time, and not after that call has returned.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::opened::{HeapHandle, Opened, offset_in};
use crate::options::{HeapChoices, KeyBytes, ScrubReport, Statistics, StoreChoices, Usage, given, keys};
use crate::status::{Failure, NAMES, Result, Status};

/// Returns a string from C.
///
/// # Safety
/// 1.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &'static str) -> Result<&'a str> {
    if text.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: 1; it is not null.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::new(Status::Misuse, format!("{what} is not UTF-8")))
}

/// Returns strings from C, in their order; none for null.
///
/// # Safety
/// 1 and 4.
pub(crate) unsafe fn texts<'a>(
    texts: Option<NonNull<*const c_char>>,
    count: usize,
    what: &'static str,
) -> Result<Vec<&'a str>> {
    match (texts, len_in_memory(count.saturating_mul(size_of::<*const c_char>()), what)?) {
        (_, 0) => Ok(Vec::new()),
        (None, _) => Err(Failure::null(what)),
        // SAFETY: 1 and 4.
        (Some(texts), _) => (0..count).map(|at| unsafe { text(*texts.as_ptr().add(at), what) }).collect(),
    }
}

/// Writes the first of these structures to C, and their number.
///
/// # Safety
/// 1; there is space for `capacity` of them.
pub(crate) unsafe fn list<T>(
    all: impl ExactSizeIterator<Item = T>,
    (to, what): (*mut T, &'static str),
    capacity: usize,
    count: *mut usize,
) -> Result<()> {
    // SAFETY: 1.
    let count = unsafe { room(count, "count")? };
    if to.is_null() && capacity > 0 {
        return Err(Failure::null(what));
    }
    count.write(all.len());
    for (at, one) in all.enumerate().take(capacity) {
        // SAFETY: 1; there is space for `capacity` of them.
        unsafe { to.add(at).write(one) };
    }
    Ok(())
}

/// Returns the space for a result.
///
/// # Safety
/// 1.
pub(crate) unsafe fn room<'a, T>(result: *mut T, what: &'static str) -> Result<&'a mut std::mem::MaybeUninit<T>> {
    // SAFETY: 1; the previous content is not read.
    unsafe { result.cast::<std::mem::MaybeUninit<T>>().as_mut() }.ok_or_else(|| Failure::null(what))
}

/// Checks that an object in memory can have this many bytes: a larger number is a mistake, usually a negative number.
pub(crate) fn len_in_memory(len: usize, what: &'static str) -> Result<usize> {
    match isize::try_from(len) {
        Ok(_) => Ok(len),
        Err(_) => Err(Failure::new(Status::Limit, format!("{what} cannot have {len} bytes; is its length negative?"))),
    }
}

/// Frees a handle that is a box; does nothing for null.
///
/// # Safety
/// 2; it was returned by `Box::into_raw`.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    let _whole = Uncancelled::begin();
    if handle.is_null() {
        return;
    }
    // SAFETY: 2; the box is its only owner.
    let free = || drop(unsafe { Box::from_raw(handle) });
    // There is no handle left to report a panic to.
    let _ = catch_unwind(AssertUnwindSafe(free));
}

/// Returns bytes from C.
///
/// # Safety
/// 1 and 4.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_void, len: usize, what: &'static str) -> Result<&'a [u8]> {
    match len_in_memory(len, what)? {
        0 => Ok(&[]), // an empty slice, whatever the pointer
        _ if bytes.is_null() => Err(Failure::null(what)),
        // SAFETY: 1 and 4.
        len => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), len) }),
    }
}

/// Copies a string into a buffer of C, truncated if it is too long, with a zero at the end.
///
/// # Safety
/// 1 and 4.
pub(crate) unsafe fn put_text(text: &str, buffer: *mut c_char, len: usize) {
    if buffer.is_null() || len == 0 {
        return;
    }
    let text = text.as_bytes();
    let kept = text.len().min(len - 1);
    // SAFETY: 1 and 4; `kept` and the zero are at most `len` bytes, and C's buffer is not the text.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), kept);
        *buffer.add(kept) = 0;
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Part of a call that `pthread_cancel` does not interrupt. The C library cancels a thread by unwinding it, which ends the
/// process where it reaches the frames of another language. Calls that never use the disk have no point at which it does.
pub(crate) struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    pub(crate) fn begin() -> Uncancelled {
        const DISABLED: c_int = 1; // PTHREAD_CANCEL_DISABLE on Linux
        let mut before = 0;
        // SAFETY: 6.
        let refused = unsafe { pthread_setcancelstate(DISABLED, &raw mut before) };
        debug_assert_eq!(refused, 0);
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: 6.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

pub(crate) const PANICKED: &str = "the library panicked, which is a mistake in it; it stopped, reopen it";

/// Target of a C handle, shared by all calls in progress.
pub(crate) trait Handle: Sized {
    /// Closes it. A failure that includes the object means that it is still open.
    fn close(self: Arc<Self>) -> Result<(), (Option<Arc<Self>>, Failure)>;

    /// Prevents further writes, because a panic may have left a partial change.
    fn stop(&self, why: &str);

    /// Stores the text of a failure for later requests.
    fn failed(&self, failure: Failure) -> Status;

    /// Returns the text of the last failure.
    fn message(&self) -> String;
}

/// Calls the library for the target of a handle, and converts every outcome into a status.
///
/// # Safety
/// 2.
pub(crate) unsafe fn with_opened<H: Handle>(handle: *const H, work: impl FnOnce(&Arc<H>) -> Result<()>) -> Status {
    let _whole = Uncancelled::begin();
    if handle.is_null() {
        return Status::Null;
    }
    // SAFETY: 2; the handle was returned by `Arc::into_raw`, and keeps its reference.
    let handle = unsafe {
        Arc::increment_strong_count(handle);
        Arc::from_raw(handle)
    };
    said(&*handle, catch_unwind(AssertUnwindSafe(|| work(&handle))))
}

pub(crate) fn said(handle: &impl Handle, came_to: std::thread::Result<Result<()>>) -> Status {
    match came_to {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => handle.failed(failure),
        Err(_) => {
            handle.stop(PANICKED);
            handle.failed(Failure::new(Status::Panic, PANICKED))
        }
    }
}

/// Opens an object and stores its handle. Without a handle the text of a failure has no place yet: it goes into C's buffer.
///
/// # Safety
/// 1 and 4.
pub(crate) unsafe fn open_as<H: Handle>(
    handle: *mut *const H,
    (message, message_len): (*mut c_char, usize),
    what: &'static str,
    open: impl FnOnce() -> Result<Arc<H>>,
) -> Status {
    let open = || {
        // SAFETY: 1.
        let handle = unsafe { room(handle, what)? };
        handle.write(std::ptr::null());
        handle.write(Arc::into_raw(open()?));
        Ok(())
    };
    // SAFETY: 1 and 4.
    unsafe { says(open, (message, message_len)) }
}

/// Makes a call that has no handle yet, and puts the text of its failure into C's buffer.
///
/// # Safety
/// 1 and 4.
pub(crate) unsafe fn says(call: impl FnOnce() -> Result<()>, (message, message_len): (*mut c_char, usize)) -> Status {
    let _whole = Uncancelled::begin();
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(Status::Panic, PANICKED),
    };
    // SAFETY: 1 and 4.
    unsafe { put_text(&failure.text, message, message_len) };
    failure.status
}

/// Closes the target of a handle; the handle is invalid afterwards, unless the target is still open.
///
/// # Safety
/// 2.
pub(crate) unsafe fn close<H: Handle>(handle: *const H) -> Status {
    let _whole = Uncancelled::begin();
    if handle.is_null() {
        return Status::Null;
    }
    // SAFETY: 2; this takes the handle's reference, which is returned below if the target stays open.
    let opened = unsafe { Arc::from_raw(handle) };
    match catch_unwind(AssertUnwindSafe(|| opened.close())) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err((still_open, failure))) => match still_open {
            Some(opened) => {
                let status = opened.failed(failure);
                let _ = Arc::into_raw(opened);
                status
            }
            None => failure.status,
        },
        Err(_) => Status::Panic,
    }
}

/// Copies the text of the last failure into a buffer of C.
///
/// # Safety
/// 1, 2 and 4.
pub(crate) unsafe fn tell<H: Handle>(handle: *const H, message: *mut c_char, message_len: usize) -> Status {
    let ask = |handle: &Arc<H>| {
        // SAFETY: 1 and 4.
        unsafe {
            room(message, "message")?;
            put_text(&handle.message(), message, message_len);
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(handle, ask) }
}

/// Calls the library as `with_opened` does, for the store of a heap.
///
/// # Safety
/// 2.
unsafe fn with_heap(heap: *const HeapHandle, work: impl FnOnce(&HeapHandle, &Opened) -> Result<()>) -> Status {
    let _whole = Uncancelled::begin();
    // SAFETY: 2; heaps live as long as their store is open.
    let Some(heap) = (unsafe { heap.as_ref() }) else { return Status::Null };
    match heap.opened() {
        Ok(opened) => said(&*opened, catch_unwind(AssertUnwindSafe(|| work(heap, &opened)))),
        Err(failure) => failure.status,
    }
}

// ---- about the library --------------------------------------------------------------------------------------------

/// `cedrat_version`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cedrat_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero in it"),
    };
    VERSION.as_ptr()
}

/// `cedrat_status_name`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cedrat_status_name(status: c_int) -> *const c_char {
    let name = usize::try_from(status).ok().and_then(|status| NAMES.get(status));
    name.unwrap_or(&c"no cedrat_status").as_ptr()
}

// ---- stores -------------------------------------------------------------------------------------------------------

/// `cedrat_open`.
///
/// # Safety
/// 1 and 4.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_open(
    directory: *const c_char,
    options: *const StoreChoices,
    store: *mut *const Opened,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    let open = || {
        // SAFETY: 1.
        let options = unsafe { given(options) };
        // A volatile store has no files.
        let nowhere = directory.is_null() && options.volatile_memory != 0;
        // SAFETY: 1.
        let directory = if nowhere { "" } else { unsafe { text(directory, "directory")? } };
        // SAFETY: 1.
        let archive = options.archive.map(|archive| unsafe { text(archive.as_ptr(), "archive") }).transpose()?;
        // SAFETY: 1.
        let backup = options.backup.map(|backup| unsafe { text(backup.as_ptr(), "backup") }).transpose()?;
        // SAFETY: 1.
        let encryption = unsafe { keys(options.key, options.older_key)? };
        Opened::open(directory, archive, backup, encryption, options)
    };
    // SAFETY: 1 and 4.
    unsafe { open_as(store, (message, message_len), "store", open) }
}

/// `cedrat_close`.
///
/// # Safety
/// 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_close(store: *const Opened) -> Status {
    // SAFETY: 2.
    unsafe { close(store) }
}

/// `cedrat_checkpoint`.
///
/// # Safety
/// 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_checkpoint(store: *const Opened) -> Status {
    // SAFETY: 2.
    unsafe { with_opened(store, |store| store.checkpoint()) }
}

/// `cedrat_rotate_key`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_rotate_key(store: *const Opened, key: *const KeyBytes) -> Status {
    let rotate = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let to = unsafe { keys(NonNull::new(key.cast_mut()), None)? };
        store.rotate_key(&to.ok_or_else(|| Failure::new(Status::Misuse, "key is null: point to 32 bytes"))?)
    };
    // SAFETY: 2.
    unsafe { with_opened(store, rotate) }
}

/// `cedrat_archive_extend`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_archive_extend(store: *const Opened, lsn: *mut u64) -> Status {
    let extend = |store: &Arc<Opened>| {
        let up_to = store.extend_archive()?;
        if !lsn.is_null() {
            // SAFETY: 1.
            unsafe { room(lsn, "lsn")? }.write(up_to);
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, extend) }
}

/// `cedrat_archive_forget`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_archive_forget(
    store: *const Opened,
    backup: *const c_char,
    first_lsn: *mut u64,
) -> Status {
    let forget = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let first = store.forget_archive(unsafe { text(backup, "backup")? })?;
        if !first_lsn.is_null() {
            // SAFETY: 1.
            unsafe { room(first_lsn, "first_lsn")? }.write(first);
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, forget) }
}

/// `cedrat_scrub`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_scrub(
    store: *const Opened,
    bytes_per_second_max: u64,
    report: *mut ScrubReport,
) -> Status {
    let scrub = |store: &Arc<Opened>| {
        let (reported, first_damage) = store.scrub(bytes_per_second_max)?;
        if !report.is_null() {
            // SAFETY: 1.
            unsafe { room(report, "report")? }.write(reported);
        }
        first_damage.map_or(Ok(()), Err)
    };
    // SAFETY: 2.
    unsafe { with_opened(store, scrub) }
}

/// `cedrat_is_stable`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_is_stable(
    store: *const Opened,
    lsn: u64,
    wait: c_int,
    stable: *mut c_int,
) -> Status {
    let ask = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let stable = unsafe { room(stable, "stable")? };
        stable.write(0);
        stable.write(c_int::from(store.is_stable(lsn, wait != 0)?));
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, ask) }
}

/// `cedrat_get_statistics`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_get_statistics(store: *const Opened, statistics: *mut Statistics) -> Status {
    let ask = |store: &Arc<Opened>| {
        // SAFETY: 1.
        unsafe { room(statistics, "statistics")? }.write(store.statistics());
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, ask) }
}

/// `cedrat_get_checkpoint_failure`.
///
/// # Safety
/// 1, 2 and 4.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_get_checkpoint_failure(
    store: *const Opened,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    let ask = |store: &Arc<Opened>| {
        // SAFETY: 1 and 4.
        unsafe {
            room(message, "message")?;
            put_text(&store.checkpoint_failure(), message, message_len);
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, ask) }
}

/// `cedrat_message`.
///
/// # Safety
/// 1, 2 and 4.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_message(
    store: *const Opened,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    // SAFETY: 1, 2 and 4.
    unsafe { tell(store, message, message_len) }
}

// ---- heaps --------------------------------------------------------------------------------------------------------

/// `cedrat_heap_create`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_create(
    store: *const Opened,
    name: *const c_char,
    options: *const HeapChoices,
    heap: *mut *const HeapHandle,
) -> Status {
    let create = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let (name, options, heap) = unsafe { (text(name, "name")?, given(options), room(heap, "heap")?) };
        heap.write(std::ptr::null());
        heap.write(store.create_heap(name, options)?);
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, create) }
}

/// `cedrat_heap_open`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_open(
    store: *const Opened,
    name: *const c_char,
    heap: *mut *const HeapHandle,
) -> Status {
    let open = |store: &Arc<Opened>| {
        // SAFETY: 1.
        let (name, heap) = unsafe { (text(name, "name")?, room(heap, "heap")?) };
        heap.write(std::ptr::null());
        heap.write(store.open_heap(name)?);
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, open) }
}

/// `cedrat_heap_drop`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_drop(store: *const Opened, name: *const c_char) -> Status {
    // SAFETY: 1 and 2.
    unsafe { with_opened(store, |store| store.drop_heap(text(name, "name")?)) }
}

/// `cedrat_heap_grow`.
///
/// # Safety
/// 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_grow(heap: *const HeapHandle, size: u64) -> Status {
    // SAFETY: 2.
    unsafe { with_heap(heap, |heap, _| heap.grow(size)) }
}

/// `cedrat_heap_address`.
///
/// # Safety
/// 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_address(heap: *const HeapHandle) -> *mut c_void {
    // SAFETY: 2.
    unsafe { heap.as_ref() }.map_or(std::ptr::null_mut(), |heap| heap.heap.address() as *mut c_void)
}

/// `cedrat_heap_size`.
///
/// # Safety
/// 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_size(heap: *const HeapHandle) -> u64 {
    // SAFETY: 2.
    unsafe { heap.as_ref() }.map_or(0, |heap| heap.heap.size())
}

/// `cedrat_heap_number`.
///
/// # Safety
/// 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_number(heap: *const HeapHandle) -> u32 {
    // SAFETY: 2.
    unsafe { heap.as_ref() }.map_or(0, |heap| heap.heap.number())
}

/// `cedrat_heap_first_offset`.
///
/// # Safety
/// 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_first_offset(heap: *const HeapHandle) -> u64 {
    // SAFETY: 2.
    unsafe { heap.as_ref() }.map_or(0, |heap| heap.heap.first_offset())
}

/// `cedrat_heap_verify`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_heap_verify(heap: *const HeapHandle, usage: *mut Usage) -> Status {
    let verify = |heap: &HeapHandle, _: &Opened| {
        // SAFETY: 1.
        unsafe { room(usage, "usage")? }.write(heap.usage()?);
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_heap(heap, verify) }
}

// ---- before the threads start -------------------------------------------------------------------------------------

/// `cedrat_plain_alloc`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_plain_alloc(
    heap: *const HeapHandle,
    size: usize,
    block: *mut *mut c_void,
) -> Status {
    let allocate = |heap: &HeapHandle, store: &Opened| {
        // SAFETY: 1.
        let block = unsafe { room(block, "block")? };
        block.write(std::ptr::null_mut());
        block.write(store.plain_alloc(&heap.heap, size as u64)? as *mut c_void);
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_heap(heap, allocate) }
}

/// `cedrat_plain_set_root`.
///
/// # Safety
/// 1 and 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_plain_set_root(
    heap: *const HeapHandle,
    name: *const c_char,
    block: *const c_void,
) -> Status {
    let set = |heap: &HeapHandle, store: &Opened| {
        // SAFETY: 1.
        let name = unsafe { text(name, "name")? };
        store.plain_set_root(&heap.heap, name, block as usize)
    };
    // SAFETY: 2.
    unsafe { with_heap(heap, set) }
}

/// `cedrat_plain_stored`.
///
/// # Safety
/// 2; the bytes are not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_plain_stored(
    heap: *const HeapHandle,
    address: *const c_void,
    size: usize,
) -> Status {
    let stored = |heap: &HeapHandle, store: &Opened| {
        let offset = offset_in(&heap.heap, address as usize)?;
        store.plain_stored(&heap.heap, offset, len_in_memory(size, "the bytes")? as u64)
    };
    // SAFETY: 2.
    unsafe { with_heap(heap, stored) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_length_is_refused() {
        let byte = 7_u8;
        // SAFETY: refused bytes are not read; the other ones have the given length.
        let (refused, taken) = unsafe {
            (bytes((&raw const byte).cast(), usize::MAX, "bytes"), bytes((&raw const byte).cast(), 1, "bytes"))
        };
        assert_eq!(refused.unwrap_err().status, Status::Limit);
        assert_eq!(taken.unwrap(), [7]);
        // SAFETY: an empty slice may have any address, also null.
        assert!(unsafe { bytes(std::ptr::null(), 0, "bytes") }.unwrap().is_empty());
    }
}
