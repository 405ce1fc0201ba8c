//! C functions for the change stream and its consumers. They are sound for the reasons given in `border`; a stream belongs to one
//! thread at a time, as a thread's descriptor does (3).
//!
//! 1. The set of a stream's present transaction borrows the stream. A stream is therefore a raw pointer from `Box::into_raw`, which is used
//!    only while there is no such set, and freed behind it.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

use front::txn::{Change, ChangeSet, ChangeStream, Consumer, ConsumerOptions, ConsumerStatus, StreamToken};
use front::wal::Lsn;

use crate::border::{Uncancelled, bytes, free, list, room, said, text, with_opened};
use crate::opened::Opened;
use crate::status::{Failure, Result, Status};

/// `CEDRAT_TOKEN_SIZE`.
const TOKEN_LEN: usize = 32;

/// `CEDRAT_CONSUMER_NAME_MAX`.
const NAME_LEN_MAX: usize = 128;

/// `cedrat_change_kind`.
mod kind {
    pub(super) const END: u32 = 0;
    pub(super) const PUT: u32 = 1;
    pub(super) const REMOVE: u32 = 2;
    pub(super) const DROP: u32 = 3;
    pub(super) const ADD: u32 = 4;
    pub(super) const WORDS: u32 = 5;
    pub(super) const RECORD: u32 = 6;
    pub(super) const RAW: u32 = 7;
    pub(super) const OTHER: u32 = 8;
}

/// `cedrat_change`.
#[repr(C)]
pub(crate) struct ChangeForC {
    kind: u32,
    slot: u32,
    page: u64,
    heap: u64,
    offset: u64,
    amount: i64,
    name: *const c_char,
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    value_size: usize,
    reserved: [u64; 4],
}

const _: () = assert!(size_of::<ChangeForC>() == 14 * 8);

/// `cedrat_consumer_status`.
#[repr(C)]
pub(crate) struct StatusOfConsumer {
    name: [u8; NAME_LEN_MAX + 8],
    position_lsn: u64,
    needs_lsn: u64,
    limit_bytes: u64,
    lag_bytes: u64,
    released_bytes: u64,
    is_released: i32,
    lacks_log: i32,
    reserved: [u64; 4],
}

const _: () = assert!(size_of::<StatusOfConsumer>() == 136 + 10 * 8);

impl StatusOfConsumer {
    fn new(status: &ConsumerStatus) -> StatusOfConsumer {
        let mut name = [0; NAME_LEN_MAX + 8];
        name[..status.name.len()].copy_from_slice(status.name.as_bytes());
        StatusOfConsumer {
            name,
            position_lsn: status.position.get(),
            needs_lsn: status.needs.get(),
            limit_bytes: status.limit_bytes,
            lag_bytes: status.lag_bytes.unwrap_or_default(),
            released_bytes: status.released_bytes.unwrap_or_default(),
            is_released: status.released_bytes.is_some().into(),
            lacks_log: status.lacks_log.into(),
            reserved: [0; 4],
        }
    }
}

/// Target of a `cedrat_consumer *`. It keeps its store open.
pub(crate) struct ConsumerHandle {
    consumer: Consumer,
    // Dropped last: it is the only owner of the store then.
    opened: Arc<Opened>,
}

/// Target of a `cedrat_change_stream *`. It keeps its store open.
pub(crate) struct StreamHandle {
    /// From `Box::into_raw`.
    stream: *mut ChangeStream,
    /// The present transaction, which borrows the stream.
    set: Option<ChangeSet<'static>>,
    /// The bytes of the change that C has.
    change: Option<Change>,
    name: Vec<u8>,
    // Dropped last: it is the only owner of the store then.
    opened: Arc<Opened>,
}

impl StreamHandle {
    fn new(opened: &Arc<Opened>, stream: ChangeStream) -> StreamHandle {
        let (stream, opened) = (Box::into_raw(Box::new(stream)), Arc::clone(opened));
        StreamHandle { stream, set: None, change: None, name: Vec::new(), opened }
    }

    /// Ends the present transaction, and returns the stream.
    fn stream(&mut self) -> &mut ChangeStream {
        self.set = None;
        // SAFETY: 1: the set that has borrowed it is gone, and the result borrows the handle.
        unsafe { &mut *self.stream }
    }

    /// Moves to the next transaction, and returns its LSN and its number.
    fn next(&mut self) -> Result<Option<(u64, u64)>> {
        self.change = None;
        self.set = None;
        // SAFETY: 1: the set that has borrowed it is gone. The next one lives in the handle, and is dropped before the stream.
        let stream: &'static mut ChangeStream = unsafe { &mut *self.stream };
        self.set = stream.next()?;
        Ok(self.set.as_ref().map(|set| (set.lsn().get(), set.txn().0)))
    }

    fn next_change(&mut self) -> Result<ChangeForC> {
        self.change = None;
        let set = self.set.as_mut().ok_or_else(|| {
            Failure::new(Status::Misuse, "the stream has no present transaction; call cedrat_changes_next first")
        })?;
        match set.next() {
            Ok(change) => self.change = change,
            Err(error) => {
                // The stream delivers the transaction again.
                self.set = None;
                return Err(error.into());
            }
        }
        Ok(self.for_c())
    }

    /// Returns the change with pointers to the bytes that the handle has.
    fn for_c(&mut self) -> ChangeForC {
        let mut to = ChangeForC {
            kind: kind::END,
            slot: 0,
            page: 0,
            heap: 0,
            offset: 0,
            amount: 0,
            name: null(),
            key: null(),
            key_size: 0,
            value: null(),
            value_size: 0,
            reserved: [0; 4],
        };
        let Some(change) = &self.change else { return to };
        let mut named = |name: &str| {
            self.name = [name.as_bytes(), &[0]].concat();
            self.name.as_ptr().cast()
        };
        match change {
            Change::Put { structure, key, value } => {
                (to.kind, to.page) = (kind::PUT, structure.get());
                (to.key, to.key_size) = (key.as_ptr().cast(), key.len());
                (to.value, to.value_size) = (value.as_ptr().cast(), value.len());
            }
            Change::Remove { structure, key } => {
                (to.kind, to.page) = (kind::REMOVE, structure.get());
                (to.key, to.key_size) = (key.as_ptr().cast(), key.len());
            }
            Change::Drop { structure } => (to.kind, to.page) = (kind::DROP, structure.get()),
            Change::Add { at, amount } => {
                (to.kind, to.page, to.slot, to.amount) = (kind::ADD, at.page.get(), at.slot.0.into(), *amount);
            }
            Change::Words { heap, first, values } => {
                (to.kind, to.heap, to.offset) = (kind::WORDS, (*heap).into(), first * front::heap::WORD_LEN);
                (to.value, to.value_size) = (values.as_ptr().cast(), size_of_val(&values[..]));
            }
            Change::Record { kind, bytes } => {
                (to.kind, to.name) = (kind::RECORD, named(kind));
                (to.value, to.value_size) = (bytes.as_ptr().cast(), bytes.len());
            }
            Change::Raw { operation, at, arguments } => {
                (to.kind, to.name, to.page, to.slot) = (kind::RAW, named(operation), at.page.get(), at.slot.0.into());
                (to.value, to.value_size) = (arguments.as_ptr().cast(), arguments.len());
            }
            _ => to.kind = kind::OTHER,
        }
        to
    }

    fn token(&self) -> StreamToken {
        match &self.set {
            Some(set) => set.token(),
            // SAFETY: 1: no set has borrowed it.
            None => unsafe { &*self.stream }.token(),
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.set = None;
        // SAFETY: 1: no set has borrowed it, and the handle is its only owner.
        drop(unsafe { Box::from_raw(self.stream) });
    }
}

/// Calls the library with a stream, and converts every outcome into a status.
///
/// # Safety
/// 2 and 3 of `border`.
unsafe fn with_stream(stream: *mut StreamHandle, work: impl FnOnce(&mut StreamHandle) -> Result<()>) -> Status {
    let _whole = Uncancelled::begin();
    // SAFETY: 2 and 3.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return Status::Null };
    let opened = Arc::clone(&stream.opened);
    said(&*opened, catch_unwind(AssertUnwindSafe(|| work(stream))))
}

/// Calls the library with a consumer, and converts every outcome into a status.
///
/// # Safety
/// 2 of `border`.
unsafe fn with_consumer(consumer: *const ConsumerHandle, work: impl FnOnce(&ConsumerHandle) -> Result<()>) -> Status {
    let _whole = Uncancelled::begin();
    // SAFETY: 2.
    let Some(consumer) = (unsafe { consumer.as_ref() }) else { return Status::Null };
    said(&*consumer.opened, catch_unwind(AssertUnwindSafe(|| work(consumer))))
}

/// Opens a stream, and writes its handle to C.
///
/// # Safety
/// 1 of `border`.
unsafe fn begin(
    opened: &Arc<Opened>,
    stream: *mut *mut StreamHandle,
    begin: impl FnOnce() -> Result<ChangeStream>,
) -> Result<()> {
    // SAFETY: 1.
    let to = unsafe { room(stream, "stream")? };
    to.write(null_mut());
    to.write(Box::into_raw(Box::new(StreamHandle::new(opened, begin()?))));
    Ok(())
}

/// Returns a token from C.
///
/// # Safety
/// 1 and 4 of `border`: it has the length of a token.
unsafe fn token_of(token: *const c_void) -> Result<StreamToken> {
    // SAFETY: 1 and 4.
    Ok(StreamToken::from_bytes(unsafe { bytes(token, TOKEN_LEN, "token")? })?)
}

/// `cedrat_changes`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_changes(
    store: *const Opened,
    from_lsn: u64,
    stream: *mut *mut StreamHandle,
) -> Status {
    // SAFETY: 1.
    let open =
        |opened: &Arc<Opened>| unsafe { begin(opened, stream, || Ok(opened.store()?.changes(Lsn::new(from_lsn))?)) };
    // SAFETY: 2.
    unsafe { with_opened(store, open) }
}

/// `cedrat_changes_after`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_changes_after(
    store: *const Opened,
    token: *const c_void,
    stream: *mut *mut StreamHandle,
) -> Status {
    // SAFETY: 1.
    let open = |opened: &Arc<Opened>| unsafe {
        let token = token_of(token);
        begin(opened, stream, || Ok(opened.store()?.changes_after(&token?)?))
    };
    // SAFETY: 2.
    unsafe { with_opened(store, open) }
}

/// `cedrat_changes_next`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_changes_next(
    stream: *mut StreamHandle,
    lsn: *mut u64,
    transaction: *mut u64,
) -> Status {
    let next = |stream: &mut StreamHandle| {
        // SAFETY: 1.
        let lsn = unsafe { room(lsn, "lsn")? };
        lsn.write(0);
        let (found, number) = stream.next()?.unwrap_or_default();
        lsn.write(found);
        if !transaction.is_null() {
            // SAFETY: 1.
            unsafe { room(transaction, "transaction")? }.write(number);
        }
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_stream(stream, next) }
}

/// `cedrat_changes_next_change`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_changes_next_change(
    stream: *mut StreamHandle,
    change: *mut ChangeForC,
) -> Status {
    let next = |stream: &mut StreamHandle| {
        // SAFETY: 1.
        let change = unsafe { room(change, "change")? };
        stream.change = None;
        change.write(stream.for_c());
        change.write(stream.next_change()?);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_stream(stream, next) }
}

/// `cedrat_changes_wait`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_changes_wait(
    stream: *mut StreamHandle,
    timeout_ms: u64,
    more: *mut c_int,
) -> Status {
    let wait = |stream: &mut StreamHandle| {
        // SAFETY: 1.
        let more = unsafe { room(more, "more")? };
        more.write(0);
        stream.change = None;
        more.write(stream.stream().wait(Duration::from_millis(timeout_ms))?.into());
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_stream(stream, wait) }
}

/// `cedrat_changes_token`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_changes_token(stream: *mut StreamHandle, token: *mut [u8; TOKEN_LEN]) -> Status {
    let ask = |stream: &mut StreamHandle| {
        // SAFETY: 1.
        unsafe { room(token, "token")? }.write(stream.token().to_bytes());
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_stream(stream, ask) }
}

/// `cedrat_changes_free`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_changes_free(stream: *mut StreamHandle) {
    // SAFETY: 2; it came from `Box::into_raw`.
    unsafe { free(stream) };
}

/// `cedrat_consumer_open`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_consumer_open(
    store: *const Opened,
    name: *const c_char,
    limit_bytes: u64,
    consumer: *mut *mut ConsumerHandle,
) -> Status {
    let open = |opened: &Arc<Opened>| {
        // SAFETY: 1.
        let (name, to) = unsafe { (text(name, "name")?, room(consumer, "consumer")?) };
        to.write(null_mut());
        let options = match limit_bytes {
            0 => ConsumerOptions::default(),
            limit_bytes => ConsumerOptions { limit_bytes },
        };
        let consumer = opened.store()?.consumer(name, options)?;
        to.write(Box::into_raw(Box::new(ConsumerHandle { consumer, opened: Arc::clone(opened) })));
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, open) }
}

/// `cedrat_consumer_changes`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_consumer_changes(
    consumer: *const ConsumerHandle,
    stream: *mut *mut StreamHandle,
) -> Status {
    // SAFETY: 1.
    let open = |handle: &ConsumerHandle| unsafe { begin(&handle.opened, stream, || Ok(handle.consumer.changes()?)) };
    // SAFETY: 2.
    unsafe { with_consumer(consumer, open) }
}

/// `cedrat_consumer_token`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_consumer_token(
    consumer: *const ConsumerHandle,
    token: *mut [u8; TOKEN_LEN],
) -> Status {
    let ask = |handle: &ConsumerHandle| {
        // SAFETY: 1.
        unsafe { room(token, "token")? }.write(handle.consumer.token()?.to_bytes());
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_consumer(consumer, ask) }
}

/// `cedrat_consumer_confirm`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_consumer_confirm(
    consumer: *const ConsumerHandle,
    token: *const c_void,
) -> Status {
    // SAFETY: 1 and 4.
    let confirm = |handle: &ConsumerHandle| Ok(handle.consumer.confirm(&unsafe { token_of(token)? })?);
    // SAFETY: 2.
    unsafe { with_consumer(consumer, confirm) }
}

/// `cedrat_consumer_restart`.
///
/// # Safety
/// 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_consumer_restart(consumer: *const ConsumerHandle) -> Status {
    // SAFETY: 2.
    unsafe { with_consumer(consumer, |handle| Ok(handle.consumer.restart()?)) }
}

/// `cedrat_consumer_free`.
///
/// # Safety
/// 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_consumer_free(consumer: *mut ConsumerHandle) {
    // SAFETY: 2; it came from `Box::into_raw`.
    unsafe { free(consumer) };
}

/// `cedrat_consumer_list`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_consumer_list(
    store: *const Opened,
    consumers: *mut StatusOfConsumer,
    capacity: usize,
    count: *mut usize,
) -> Status {
    let ask = |opened: &Arc<Opened>| {
        let all = opened.store()?.consumers();
        // SAFETY: 1 and 4.
        unsafe { list(all.iter().map(StatusOfConsumer::new), (consumers, "consumers"), capacity, count) }
    };
    // SAFETY: 2.
    unsafe { with_opened(store, ask) }
}

/// `cedrat_consumer_drop`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_consumer_drop(store: *const Opened, name: *const c_char) -> Status {
    let remove = |opened: &Arc<Opened>| {
        // SAFETY: 1.
        let name = unsafe { text(name, "name")? };
        match opened.store()?.drop_consumer(name)? {
            true => Ok(()),
            false => Err(Failure::new(Status::Unknown, format!("there is no consumer \"{name}\""))),
        }
    };
    // SAFETY: 2.
    unsafe { with_opened(store, remove) }
}
