//! C functions for transactions over pages, heaps and graphs at once. They are sound for the reasons given in `border`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use front::heap::Heap;
use front::pages::{PageId, Slot};
use front::structures::{Records, StructureError};
use front::txn::{Commit, RecordId, Savepoint, TxnOptions};
use front::{Store, Txn};

use crate::border::{Handle, PANICKED, Uncancelled, bytes, free, room, text, with_opened};
use crate::freed::Freed;
use crate::graphs::{Buffer, GraphHandle, failure_of, mode_of_graph, put_identities};
use crate::opened::{HeapHandle, Opened, ROOT_TYPE};
use crate::status::{Failure, Result, Status};

/// Target of a `cedrat_txn *`. It keeps its store open.
pub(crate) struct FacesHandle {
    /// `None` once it has ended. Dropped first: it contains a reference to the store.
    txn: Option<Txn>,
    /// Savepoints, each with the number of blocks freed before it.
    savepoints: Vec<(Savepoint, usize)>,
    freed: Freed,
    /// Text of the last failure.
    text: CString,
    opened: Arc<Opened>,
}

impl FacesHandle {
    fn txn(&mut self) -> Result<&mut Txn> {
        let ended = || Failure::new(Status::Misuse, "the transaction has ended; free it, and begin another");
        self.txn.as_mut().ok_or_else(ended)
    }

    /// Refuses a word in a block that this transaction has freed and, if the program requested the check, a word outside of
    /// all blocks.
    fn check_word(&mut self, heap: &Heap, offset: u64) -> Result<()> {
        self.freed.check(heap.address().wrapping_add(offset as usize), 8)?;
        // A heap without blocks has no account before its first offset.
        if self.opened.checks_blocks && heap.first_offset() > 0 {
            self.txn()?.heap(|tx| tx.check_allocated(heap, offset, 8)).map_err(failure_of)?;
        }
        Ok(())
    }

    fn failed(&mut self, failure: Failure) -> Status {
        self.text = CString::new(failure.text.replace('\0', " ")).expect("it has no zero any more");
        failure.status
    }
}

/// Calls the library for a transaction, and converts every outcome into a status.
///
/// # Safety
/// 2 and 3 of `border`.
unsafe fn with(handle: *mut FacesHandle, work: impl FnOnce(&mut FacesHandle) -> Result<()>) -> Status {
    let _whole = Uncancelled::begin();
    // SAFETY: 2 and 3.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return Status::Null };
    match catch_unwind(AssertUnwindSafe(|| work(handle))) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => handle.failed(failure),
        Err(_) => {
            handle.opened.stop(PANICKED);
            handle.failed(Failure::new(Status::Panic, PANICKED))
        }
    }
}

/// Calls the library as `with` does, for a word or a block of a heap.
///
/// # Safety
/// 2 and 3 of `border`.
unsafe fn with_heap(
    handle: *mut FacesHandle,
    heap: *const HeapHandle,
    work: impl FnOnce(&mut FacesHandle, &Heap) -> Result<()>,
) -> Status {
    let in_heap = |handle: &mut FacesHandle| {
        // SAFETY: 2; heaps live as long as their store is open.
        let heap = unsafe { heap.as_ref() }.ok_or_else(|| Failure::null("heap"))?;
        work(handle, &heap.heap)
    };
    // SAFETY: 2 and 3.
    unsafe { with(handle, in_heap) }
}

/// Calls the library as `with` does, for a collection of records.
///
/// # Safety
/// 2 and 3 of `border`.
unsafe fn with_records(
    handle: *mut FacesHandle,
    records: u64,
    work: impl FnOnce(&mut Txn, &Records) -> Result<()>,
) -> Status {
    let in_records = |handle: &mut FacesHandle| {
        let txn = handle.txn()?;
        let records = Records::open_root(txn.store(), PageId::new(records)).map_err(failure_of)?;
        work(txn, &records)
    };
    // SAFETY: 2 and 3.
    unsafe { with(handle, in_records) }
}

// ---- transactions -------------------------------------------------------------------------------------------------

/// `cedrat_txn_begin`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_begin(store: *const Opened, txn: *mut *mut FacesHandle) -> Status {
    let begin = |opened: &Arc<Opened>| {
        // SAFETY: 1.
        let result = unsafe { room(txn, "txn")? };
        // The library could not detect a cycle in which threads also wait for each other outside of it.
        let options = TxnOptions::default().without_waiting_for_prepared();
        let txn = Some(opened.store()?.begin_with(options));
        let (savepoints, freed, text) = (Vec::new(), Freed::default(), CString::default());
        let handle = FacesHandle { txn, savepoints, freed, text, opened: Arc::clone(opened) };
        result.write(Box::into_raw(Box::new(handle)));
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, begin) }
}

/// `cedrat_txn_free`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_free(txn: *mut FacesHandle) {
    // SAFETY: 2; it came from `Box::into_raw`.
    unsafe { free(txn) };
}

/// `cedrat_txn_error`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_error(txn: *const FacesHandle) -> *const c_char {
    // SAFETY: 2 and 3.
    let handle = unsafe { txn.as_ref() };
    handle.map_or(c"the transaction is a null pointer", |handle| CStr::as_ref(&handle.text)).as_ptr()
}

/// `cedrat_txn_savepoint`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_savepoint(txn: *mut FacesHandle, savepoint: *mut u64) -> Status {
    let take = |handle: &mut FacesHandle| {
        // SAFETY: 1.
        let result = unsafe { room(savepoint, "savepoint")? };
        let savepoint = handle.txn()?.savepoint();
        result.write(handle.savepoints.len() as u64);
        handle.savepoints.push((savepoint, handle.freed.len()));
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(txn, take) }
}

/// `cedrat_txn_rollback_to`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_rollback_to(txn: *mut FacesHandle, savepoint: u64) -> Status {
    let back = |handle: &mut FacesHandle| {
        let known = usize::try_from(savepoint).ok().and_then(|at| handle.savepoints.get(at).copied());
        let (known, freed) = known.ok_or_else(|| {
            Failure::new(Status::Misuse, "there is no such savepoint; an older one may have been rolled back to")
        })?;
        handle.txn()?.rollback_to(known).map_err(failure_of)?;
        handle.freed.truncate(freed);
        handle.savepoints.truncate(savepoint as usize + 1);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(txn, back) }
}

/// `cedrat_txn_commit`.
///
/// # Safety
/// 1 to 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_commit(
    txn: *mut FacesHandle,
    graph: *const GraphHandle,
    changes: *const c_void,
    size: usize,
    mode: c_int,
    identities: *mut u64,
    capacity: usize,
    lsn: *mut u64,
) -> Status {
    let commit = |handle: &mut FacesHandle| {
        handle.txn()?;
        // From here on the transaction ends, whatever happens: no caller may continue with a partial one.
        let txn = handle.txn.take().expect("it was asked for in the line above");
        // SAFETY: 1, 2 and 4; null is allowed for the graph, and for the LSN if it is not wanted.
        let (graph, changes, mut room_for, lsn) = unsafe {
            (
                graph.as_ref(),
                bytes(changes, size, "changes")?,
                Buffer::new(identities.cast(), capacity.saturating_mul(8), "identities")?,
                room(lsn, "lsn").ok(),
            )
        };
        let mode = mode_of_graph(mode)?;
        let committed = match graph {
            Some(graph) => {
                let changed = graph.graph.commit_with(txn, changes, mode, capacity as u64).map_err(failure_of)?;
                put_identities(&mut room_for, &changed.identities);
                changed.lsn()
            }
            None if size > 0 => return Err(Failure::null("graph")),
            None => {
                let mode = if mode == front::graph::Mode::Sync { Commit::Sync } else { Commit::Async };
                txn.commit(mode).map_err(failure_of)?.lsn()
            }
        };
        if let Some(lsn) = lsn {
            lsn.write(committed.get());
        }
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with(txn, commit) }
}

// ---- heaps --------------------------------------------------------------------------------------------------------

/// `cedrat_txn_load_word`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_load_word(
    txn: *mut FacesHandle,
    heap: *const HeapHandle,
    offset: u64,
    value: *mut u64,
) -> Status {
    let load = |handle: &mut FacesHandle, heap: &Heap| {
        // SAFETY: 1.
        let value = unsafe { room(value, "value")? };
        handle.check_word(heap, offset)?;
        value.write(handle.txn()?.heap(|tx| tx.read(heap, offset)).map_err(failure_of)?);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_heap(txn, heap, load) }
}

/// `cedrat_txn_store_word`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_store_word(
    txn: *mut FacesHandle,
    heap: *const HeapHandle,
    offset: u64,
    value: u64,
) -> Status {
    let store = |handle: &mut FacesHandle, heap: &Heap| {
        handle.check_word(heap, offset)?;
        handle.txn()?.heap(|tx| tx.write(heap, offset, value)).map_err(failure_of)
    };
    // SAFETY: 2 and 3.
    unsafe { with_heap(txn, heap, store) }
}

/// `cedrat_txn_allocate`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_allocate(
    txn: *mut FacesHandle,
    heap: *const HeapHandle,
    size: u64,
    offset: *mut u64,
) -> Status {
    let allocate = |handle: &mut FacesHandle, heap: &Heap| {
        // SAFETY: 1.
        let result = unsafe { room(offset, "offset")? };
        let zeroed = handle.txn()?.heap(|tx| {
            let block = tx.allocate(heap, size)?;
            (0..size.div_ceil(8)).try_for_each(|word| tx.write(heap, block + 8 * word, 0))?;
            Ok(block)
        });
        result.write(zeroed.map_err(failure_of)?);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_heap(txn, heap, allocate) }
}

/// `cedrat_txn_release`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_release(
    txn: *mut FacesHandle,
    heap: *const HeapHandle,
    offset: u64,
) -> Status {
    let free = |handle: &mut FacesHandle, heap: &Heap| {
        let freed = handle.txn()?.heap(|tx| tx.free_block(heap, offset));
        handle.freed.add(heap.address() + offset as usize, freed.map_err(failure_of)? as usize);
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_heap(txn, heap, free) }
}

/// `cedrat_txn_get_root`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_get_root(
    txn: *mut FacesHandle,
    heap: *const HeapHandle,
    name: *const c_char,
    offset: *mut u64,
) -> Status {
    let get = |handle: &mut FacesHandle, heap: &Heap| {
        // SAFETY: 1.
        let (name, result) = unsafe { (text(name, "name")?, room(offset, "offset")?) };
        let root = handle.txn()?.heap(|tx| tx.root(heap, name)).map_err(failure_of)?;
        result.write(root.map_or(0, |root| root.offset));
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_heap(txn, heap, get) }
}

/// `cedrat_txn_set_root`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_txn_set_root(
    txn: *mut FacesHandle,
    heap: *const HeapHandle,
    name: *const c_char,
    offset: u64,
) -> Status {
    let set = |handle: &mut FacesHandle, heap: &Heap| {
        // SAFETY: 1.
        let name = unsafe { text(name, "name")? };
        let set = handle.txn()?.heap(|tx| match offset {
            0 => tx.remove_root(heap, name).map(drop),
            _ => tx.set_root(heap, name, offset, ROOT_TYPE).map(drop),
        });
        set.map_err(failure_of)
    };
    // SAFETY: 2 and 3.
    unsafe { with_heap(txn, heap, set) }
}

// ---- records ------------------------------------------------------------------------------------------------------

/// Returns the collection with a name, and creates it if there is none.
fn open_records(store: &Store, name: &str) -> front::Result<PageId> {
    store.transact(|txn| {
        let found = Records::open(txn, name);
        let is_absent = found.as_ref().is_err_and(|error| {
            StructureError::of(error).is_some_and(|why| matches!(why, StructureError::NoSuchName { .. }))
        });
        let records = if is_absent { Records::create(txn, name)? } else { found? };
        Ok(records.root())
    })
}

/// Returns the number of a record in the C interface: page and slot.
fn number(at: RecordId) -> u64 {
    at.page.get() << 16 | u64::from(at.slot.0)
}

fn place(record: u64) -> RecordId {
    RecordId::new(PageId::new(record >> 16), Slot(record as u16))
}

/// `cedrat_records_open`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_records_open(
    store: *const Opened,
    name: *const c_char,
    records: *mut u64,
) -> Status {
    let open = |opened: &Arc<Opened>| {
        // SAFETY: 1.
        let (name, result) = unsafe { (text(name, "name")?, room(records, "records")?) };
        result.write(open_records(opened.store()?, name).map_err(failure_of)?.get());
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, open) }
}

/// `cedrat_records_insert`.
///
/// # Safety
/// 1 to 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_records_insert(
    txn: *mut FacesHandle,
    records: u64,
    record: *const c_void,
    size: usize,
    place: *mut u64,
) -> Status {
    let insert = |txn: &mut Txn, records: &Records| {
        // SAFETY: 1 and 4.
        let (record, result) = unsafe { (bytes(record, size, "record")?, room(place, "place")?) };
        result.write(number(records.insert(txn, record).map_err(failure_of)?));
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_records(txn, records, insert) }
}

/// `cedrat_records_read`.
///
/// # Safety
/// 1 to 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_records_read(
    txn: *mut FacesHandle,
    records: u64,
    at: u64,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    let read = |txn: &mut Txn, records: &Records| {
        // SAFETY: 1 and 4.
        let (mut buffer, size) = unsafe { (Buffer::new(buffer, capacity, "buffer")?, room(size, "size")?) };
        size.write(0);
        let record = records.read(txn, place(at)).map_err(failure_of)?;
        size.write(record.len());
        buffer.fill(&record)
    };
    // SAFETY: 2 and 3.
    unsafe { with_records(txn, records, read) }
}

/// `cedrat_records_update`.
///
/// # Safety
/// 1 to 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_records_update(
    txn: *mut FacesHandle,
    records: u64,
    at: u64,
    record: *const c_void,
    size: usize,
) -> Status {
    let update = |txn: &mut Txn, records: &Records| {
        // SAFETY: 1 and 4.
        let record = unsafe { bytes(record, size, "record")? };
        records.update(txn, place(at), record).map_err(failure_of)
    };
    // SAFETY: 2 and 3.
    unsafe { with_records(txn, records, update) }
}

/// `cedrat_records_delete`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_records_delete(txn: *mut FacesHandle, records: u64, at: u64) -> Status {
    let delete = |txn: &mut Txn, records: &Records| records.delete(txn, place(at)).map_err(failure_of);
    // SAFETY: 2 and 3.
    unsafe { with_records(txn, records, delete) }
}

/// `cedrat_records_list`.
///
/// # Safety
/// 1 to 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_records_list(
    txn: *mut FacesHandle,
    records: u64,
    places: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> Status {
    let list = |txn: &mut Txn, records: &Records| {
        // SAFETY: 1 and 4.
        let (mut buffer, count) =
            unsafe { (Buffer::new(places.cast(), capacity.saturating_mul(8), "places")?, room(count, "count")?) };
        count.write(0);
        let all = records.all(txn).map_err(failure_of)?;
        count.write(all.len());
        let numbers: Vec<u8> = all.iter().flat_map(|(at, _)| number(*at).to_ne_bytes()).collect();
        buffer.fill(&numbers)
    };
    // SAFETY: 2 and 3.
    unsafe { with_records(txn, records, list) }
}
