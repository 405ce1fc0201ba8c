//! An open store as C knows it, and blocks that are filled with plain stores before the threads start.

use front::Store;
use front::heap::{Commit, Error, Heap, Held, Memory};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::border::Handle;
use crate::options::{HeapChoices, Statistics, StoreChoices, Usage};
use crate::status::{Failure, Result, Status};

/// The type of a root that a C program has set, for those who look at the heap in another language.
pub(crate) const ROOT_TYPE: &str = "C";

/// How often a checkpoint is taken again because a commit was under way: with threads running, some may be.
const CHECKPOINTS_MAX: u32 = 100;

/// What a `cedrat_store *` points at.
pub(crate) struct Opened {
    // Dropped in this order: the store last, for everything else keeps it open.
    plain: Mutex<Option<Plain>>,
    heaps: Mutex<Vec<Arc<HeapHandle>>>,
    memory: Memory,
    store: Store,
    /// Whether each load and store is asked for the block that it lies in.
    pub(crate) checks_blocks: bool,
    /// Descriptors that were created and not freed.
    pub(crate) threads: AtomicUsize,
    message: Mutex<String>,
}

/// What a `cedrat_heap *` points at. It lives as long as the store is open.
pub(crate) struct HeapHandle {
    pub(crate) opened: Weak<Opened>,
    pub(crate) heap: Heap,
}

/// The transaction that allocates blocks for plain stores, and those blocks. It commits when they are on the disk: a crash
/// before leaves neither.
struct Plain {
    held: Held,
    blocks: Vec<(Heap, u64, u64)>,
}

/// A panic in between leaves no half of what these mutexes guard.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    pub(crate) fn open(directory: &str, choices: StoreChoices) -> Result<Arc<Opened>> {
        let store = front::open_with(directory, choices.to_options()?, front::registry())?;
        Ok(Arc::new(Opened {
            plain: Mutex::new(None),
            heaps: Mutex::default(),
            memory: store.memory(),
            store,
            checks_blocks: choices.check_blocks != 0,
            threads: AtomicUsize::new(0),
            message: Mutex::default(),
        }))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    // ---- heaps ------------------------------------------------------------------------------------------------

    /// The handle of a heap: always the same one.
    fn handle(self: &Arc<Opened>, heap: Heap) -> *const HeapHandle {
        let mut heaps = lock(&self.heaps);
        // One that was dropped may have had the same name; it had another region.
        let same = |known: &HeapHandle| known.heap.name() == heap.name() && known.heap.address() == heap.address();
        if let Some(known) = heaps.iter().find(|known| same(known)) {
            return Arc::as_ptr(known);
        }
        let handle = Arc::new(HeapHandle { opened: Arc::downgrade(self), heap });
        heaps.push(Arc::clone(&handle));
        Arc::as_ptr(&handle)
    }

    pub(crate) fn create_heap(self: &Arc<Opened>, name: &str, choices: HeapChoices) -> Result<*const HeapHandle> {
        let heap = self.memory.create_heap(name, &choices.to_options()?)?;
        Ok(self.handle(heap))
    }

    pub(crate) fn open_heap(self: &Arc<Opened>, name: &str) -> Result<*const HeapHandle> {
        Ok(self.handle(self.memory.heap(name)?))
    }

    pub(crate) fn drop_heap(&self, name: &str) -> Result<()> {
        if lock(&self.plain).is_some() {
            return Err(Failure::new(
                Status::Misuse,
                "there are plain blocks; take a checkpoint before a heap is dropped",
            ));
        }
        Ok(self.memory.drop_heap(name)?)
    }

    pub(crate) fn is_stable(&self, lsn: u64, wait: bool) -> Result<bool> {
        Ok(self.memory.is_stable(front::wal::Lsn::new(lsn), wait)?)
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let counted = self.memory.counted();
        let report = self.store.recovery();
        Statistics {
            conflicts: counted.conflicts,
            partition_commits_made_sync: counted.partition_commits_made_sync,
            newest_lsn: self.store.log().current_lsn().get(),
            stable_lsn: self.store.log().durable_lsn().get(),
            recovered_records: report.records,
            recovered_words: report.heap_words,
            recovery_nanoseconds: u64::try_from(report.total.as_nanos()).unwrap_or(u64::MAX),
            created: u64::from(report.created),
            checkpoint_failed: u64::from(self.store.checkpoint_failure().is_some()),
            reserved: [0; 7],
        }
    }

    /// Why the last checkpoint has failed; empty if it has not.
    pub(crate) fn checkpoint_failure(&self) -> String {
        self.store.checkpoint_failure().unwrap_or_default()
    }

    // ---- plain blocks -----------------------------------------------------------------------------------------

    /// Runs a step of the transaction that allocates plain blocks.
    fn plainly<T>(&self, step: impl FnOnce(&mut Plain) -> Result<T, Error>) -> Result<T> {
        let mut plain = lock(&self.plain);
        if plain.is_none() {
            let mut held = Held::new(&self.memory)?;
            held.begin()?;
            *plain = Some(Plain { held, blocks: Vec::new() });
        }
        let running = plain.as_mut().expect("it was just made");
        match step(running) {
            Err(Error::Conflict) => {
                *plain = None;
                Err(overtaken())
            }
            other => Ok(other?),
        }
    }

    pub(crate) fn plain_alloc(&self, heap: &Heap, len: u64) -> Result<usize> {
        self.plainly(|plain| {
            // Not to be logged whole: the checkpoint takes what lies in it.
            let offset = plain.held.run(|tx| tx.allocate(heap, len))?;
            plain.blocks.push((heap.clone(), offset, len));
            Ok(heap.address() + offset as usize)
        })
    }

    pub(crate) fn plain_set_root(&self, heap: &Heap, name: &str, address: usize) -> Result<()> {
        let offset = offset_in(heap, address)?;
        self.plainly(|plain| plain.held.run(|tx| tx.set_root(heap, name, offset, ROOT_TYPE)))
    }

    /// Takes a checkpoint, and then commits what was allocated for plain stores.
    ///
    /// The order makes it whole (E17.5): what lies in the blocks is on the disk before anything committed names them. And no older
    /// record writes over it in recovery, for the checkpoint needs none up to a clock read after they were allocated.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let mut plain = lock(&self.plain);
        let Some(Plain { mut held, blocks }) = plain.take() else {
            return Ok(self.store.checkpoint()?);
        };
        let clock = self.store.log().current_lsn();
        for (heap, offset, len) in &blocks {
            heap.stored_plainly(*offset, *len)?;
        }
        let mut attempts = 0;
        self.store.checkpoint()?;
        while self.memory.redo_from() < clock {
            attempts += 1;
            if attempts > CHECKPOINTS_MAX {
                return Err(overtaken());
            }
            self.store.checkpoint()?;
        }
        held.commit(Commit::Sync).map_err(|error| match error {
            Error::Conflict => overtaken(),
            other => other.into(),
        })?;
        Ok(())
    }
}

impl Handle for Opened {
    fn close(self: Arc<Opened>) -> Result<(), (Option<Arc<Opened>>, Failure)> {
        if self.threads.load(Ordering::Acquire) > 0 {
            let text = "thread descriptors of the store live still; free them first, then close it";
            return Err((Some(self), Failure::new(Status::Misuse, text)));
        }
        let opened = Arc::try_unwrap(self).map_err(|opened| {
            let text =
                "a graph or a transaction of the store is open, or another call uses it; close it when that is closed, or has returned";
            (Some(opened), Failure::new(Status::Misuse, text))
        })?;
        let Opened { plain, heaps, memory, store, .. } = opened;
        drop((plain, heaps, memory));
        store.close().map_err(|error| (None, error.into()))
    }

    fn stop(&self, why: &str) {
        self.store.log().stop(why);
    }

    fn failed(&self, failure: Failure) -> Status {
        *lock(&self.message) = failure.text.into_owned();
        failure.status
    }

    fn message(&self) -> String {
        lock(&self.message).clone()
    }
}

fn overtaken() -> Failure {
    let text = "plain blocks were overtaken by a transaction, and all of them are gone since the last checkpoint; \
                allocate them, and take the checkpoint, before the threads start";
    Failure::new(Status::Misuse, text)
}

/// The offset of an address in a heap.
pub(crate) fn offset_in(heap: &Heap, address: usize) -> Result<u64> {
    let offset = address.wrapping_sub(heap.address()) as u64;
    if offset >= heap.size() {
        return Err(out_of_range(address));
    }
    Ok(offset)
}

/// The address lies in no heap.
#[cold]
pub(crate) fn out_of_range(address: usize) -> Failure {
    Failure::new(Status::OutOfRange, format!("the address {address:#x} lies in no heap of the store"))
}

impl HeapHandle {
    pub(crate) fn opened(&self) -> Result<Arc<Opened>> {
        self.opened.upgrade().ok_or_else(|| Failure::new(Status::Misuse, "the store of this heap is closed"))
    }

    pub(crate) fn grow(&self, size: u64) -> Result<()> {
        Ok(self.heap.memory().grow_heap(self.heap.name(), size)?)
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let usage = self.heap.verify()?;
        Ok(Usage {
            blocks: usage.blocks,
            bytes: usage.bytes,
            taken_bytes: usage.taken,
            free_bytes: usage.free,
            account_bytes: usage.account,
        })
    }
}
