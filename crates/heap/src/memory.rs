//! A memory: heaps that share one clock and one table of locks, and so their transactions.

use std::any::Any;
use std::fmt;

use cedrat_sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, RwLock, planted};
use cedrat_wal::{Log, Lsn, PartitionId, TxnId};

use crate::alone::Alone;
use crate::blocks::Blocks;
use crate::clock::Clock;
use crate::commit::Flagged;
use crate::error::{Error, Interrupt, Result};
use crate::files::Files;
use crate::heap::{Core, HEAP_NUMBERS, Heap};
use crate::options::{Commit, HeapOptions, MemoryOptions};
use crate::region::{Mapping, WORD_LEN};
use crate::session::{Done, Session};
use crate::slots::Slots;
use crate::stripes::Stripes;
use crate::tx::{Descriptor, Tx};
use crate::waits::Waits;

/// A set of heaps that transactions may use together. Cheap to clone; all clones refer to the same memory.
///
/// A store has one. A separate one ([`Memory::volatile`]) has the same transactions, without durability.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
    /// Keeps the store open as long as a commit is possible.
    _lease: Option<Arc<dyn Any + Send + Sync>>,
}

/// State shared by all clones of a memory.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) stripes: Stripes,
    pub(crate) slots: Slots,
    pub(crate) alone: Alone,
    pub(crate) options: MemoryOptions,
    pub(crate) flagged: Flagged,
    pub(crate) next_txn: Arc<AtomicU64>,
    pub(crate) counters: Counters,
    pub(crate) heaps: RwLock<Vec<Arc<Core>>>,
    /// Next heap number in a memory without files; numbers are not reused.
    next_number: AtomicU32,
    pub(crate) files: Option<Files>,
    /// Held while heaps are created, dropped or grown, and during checkpoints. Acquired before `heaps`.
    pub(crate) changing: Mutex<()>,
    seats: Mutex<Seats>,
    waiting: Waiting,
    /// Reasons for commits to look at the heaps that they write to: [`DROPPED`], [`ABSENT`].
    unusual: AtomicU8,
    /// Whether heaps are restored from the log alone.
    archived: AtomicBool,
    pub(crate) waits: Waits,
    store: Mutex<Option<Arc<dyn StoreLink>>>,
}

/// A heap was dropped since the memory was created.
const DROPPED: u8 = 1;

/// Chunks may be absent.
const ABSENT: u8 = 2;

/// Assignment of sessions, and of transactions without one, to partitions of the log.
#[derive(Debug)]
struct Seats {
    /// Unused descriptors. Boxed: a session holds one by pointer.
    #[allow(clippy::vec_box)]
    idle: Vec<Box<Descriptor>>,
    /// Number of descriptors in use in each partition.
    live: Vec<u32>,
}

impl Seats {
    fn new(partitions: u16) -> Seats {
        Seats { idle: Vec::new(), live: vec![0; usize::from(partitions)] }
    }

    /// Returns the partition with the fewest descriptors in use, the first of them on a tie.
    fn emptiest(&self) -> PartitionId {
        let (partition, _) = self.live.iter().enumerate().min_by_key(|&(_, live)| live).expect("a log has a partition");
        PartitionId(partition as u16)
    }
}

/// Services of the store for its memory.
pub trait StoreLink: Send + Sync {
    /// Called when commits are about to write approximately this many bytes.
    fn taken(&self, bytes: u64);

    /// Takes a checkpoint, or waits for one, because the log is full. The caller holds no locks.
    fn free_log_space(&self);

    /// Returns the transactions for which `thread` waits in requests to the store's lock manager, and the thread that ends each; 0
    /// stands for no thread.
    fn awaited_by(&self, thread: usize) -> Vec<(TxnId, usize)>;

    /// Whether the calling thread holds latches for which the owner of a word may wait.
    fn holds_latches(&self) -> bool;
}

/// Event counters since the memory was created.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) partition_commits_made_sync: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) void_records: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
}

/// Event counters since the store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// Transactions restarted after a write conflict.
    pub conflicts: u64,
    /// `Partition` commits that depended on others and became `Sync`.
    pub partition_commits_made_sync: u64,
    /// Commits whose LSN went to a void record, because a word that they had read changed while they drew it. Those
    /// over heaps alone were restarted, and are among the conflicts.
    pub void_records: u64,
    /// Completed checkpoints of the heaps.
    pub checkpoints: u64,
}

/// Transactions that wait until something that they read is changed.
#[derive(Debug, Default)]
struct Waiting {
    count: AtomicU32,
    turn: Mutex<u64>,
    changed: Condvar,
}

impl Memory {
    /// Creates a memory without a log: it has transactions, but nothing survives.
    ///
    /// # Errors
    /// Invalid options; not enough memory for the table of locks.
    pub fn volatile(options: MemoryOptions) -> Result<Memory> {
        Memory::around(Clock::own(), options, None, Arc::new(AtomicU64::new(1)))
    }

    pub(crate) fn around(
        clock: Clock,
        options: MemoryOptions,
        files: Option<Files>,
        next_txn: Arc<AtomicU64>,
    ) -> Result<Memory> {
        options.check()?;
        let stripes = Stripes::new(options.stripes_log2, options.stripe_words_log2, options.huge_pages)
            .map_err(|error| {
                let bytes = 8u64 << options.stripes_log2;
                let doing = format!(
                    "reserving {bytes} bytes of address space for the locks of heaps (MemoryOptions::stripes_log2, stripes in C)"
                );
                Error::io(doing, error)
            })?;
        let partitions = clock.log().map_or(1, Log::partitions);
        let shared = Shared {
            clock,
            stripes,
            slots: Slots::new(options.sessions_max),
            alone: Alone::default(),
            options,
            flagged: Flagged::new(partitions),
            next_txn,
            counters: Counters::default(),
            heaps: RwLock::new(Vec::new()),
            next_number: AtomicU32::new(0),
            files,
            changing: Mutex::new(()),
            seats: Mutex::new(Seats::new(partitions)),
            waiting: Waiting::default(),
            unusual: AtomicU8::new(0),
            archived: AtomicBool::new(false),
            waits: Waits::default(),
            store: Mutex::new(None),
        };
        Ok(Memory { shared: Arc::new(shared), _lease: None })
    }

    /// Returns a handle of the same memory that keeps `lease` alive, as does everything made with it.
    pub fn with_lease(&self, lease: Arc<dyn Any + Send + Sync>) -> Memory {
        Memory { shared: Arc::clone(&self.shared), _lease: Some(lease) }
    }

    /// Refuses plain stores from now on: they are not in the log, from which an archive restores heaps, and views have theirs.
    pub fn refuse_plain_stores(&self) {
        self.shared.archived.store(!planted!("plain_stores_beside_archive"), Ordering::Relaxed);
    }

    pub(crate) fn refuses_plain_stores(&self) -> bool {
        self.shared.archived.load(Ordering::Relaxed)
    }

    /// Sets the link to the store.
    pub fn set_store_link(&self, store: Arc<dyn StoreLink>) {
        *self.shared.store.lock() = Some(store);
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    // ---- heaps ------------------------------------------------------------------------------------------------

    /// Creates a heap, all zero. When this returns, its creation is durable.
    ///
    /// # Errors
    /// [`Error::Exists`]; invalid options; not enough memory; not enough disk space for two checkpoints of it. [`Error::Limit`]
    /// after four billion heaps: their numbers are in the log, and are not used again.
    pub fn create_heap(&self, name: &str, options: &HeapOptions) -> Result<Heap> {
        options.check()?;
        self.shared.clock.running()?;
        let _alone = self.shared.changing.lock();
        let mut heaps = self.shared.heaps.write();
        if heaps.iter().any(|known| known.name == name) {
            return Err(Error::Exists { what: "heap", name: name.to_owned() });
        }
        let number = match &self.shared.files {
            Some(files) => files.next_number(),
            None => self.shared.next_number.load(Ordering::Relaxed),
        };
        if number >= HEAP_NUMBERS && !planted!("heap_numbers_begin_again") {
            let what = "heaps that a store has had, dropped ones included";
            return Err(Error::Limit { what, given: u64::from(HEAP_NUMBERS) + 1, limit: HEAP_NUMBERS.into() });
        }
        let round = |bytes: u64| bytes.next_multiple_of(options.chunk_len) / WORD_LEN;
        let first_word = if options.blocks { crate::blocks::FIRST_WORD } else { 0 };
        let mapping = Mapping { huge: self.shared.options.huge_pages, address: options.address, beside: 0 };
        let (words, reserved) = (round(options.size), round(options.size_max));
        let core = Core::new(number, name, words, reserved, options.chunk_len, first_word, mapping)?;
        let core = Arc::new(if self.shared.files.is_some() { core } else { core.without_checkpoints() });
        match &self.shared.files {
            Some(files) => files.create(&core, options)?,
            None => self.shared.next_number.store(number.wrapping_add(1), Ordering::Relaxed),
        }
        heaps.push(Arc::clone(&core));
        drop(heaps);
        Ok(self.heap_of(core))
    }

    /// Returns the heap with this name.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn heap(&self, name: &str) -> Result<Heap> {
        let core = self.shared.heaps.read().iter().find(|known| known.name == name).cloned();
        let unknown = || Error::Unknown { what: "heap", name: name.to_owned() };
        Ok(self.heap_of(core.ok_or_else(unknown)?))
    }

    /// Returns all heaps, in the order in which they were created.
    pub fn heaps(&self) -> Vec<Heap> {
        let heaps = self.shared.heaps.read().clone();
        heaps.into_iter().map(|core| self.heap_of(core)).collect()
    }

    /// Drops a heap permanently. Transactions that write to it from now on fail. One that waits for a change of its words alone
    /// ([`Interrupt::retry`]) waits on: no transaction changes them any more.
    ///
    /// # Errors
    /// [`Error::Unknown`]. [`Error::Io`]: the heap is dropped, durably, and one of its files remains; the next opening, or the
    /// creation of a heap of this name, reuses its space. [`Error::Stopped`]: the next opening decides.
    pub fn drop_heap(&self, name: &str) -> Result<()> {
        self.shared.clock.running()?;
        // Its file is removed, and those who still have the heap may read its words.
        self.heap(name)?.load()?;
        let _alone = self.shared.changing.lock();
        let mut heaps = self.shared.heaps.write();
        let at = heaps.iter().position(|known| known.name == name);
        let at = at.ok_or_else(|| Error::Unknown { what: "heap", name: name.to_owned() })?;
        heaps[at].set_dropped();
        self.shared.unusual.fetch_or(DROPPED, Ordering::Release);
        let core = heaps.remove(at);
        self.shared.seats.lock().idle.iter_mut().for_each(|descriptor| descriptor.forget_dropped());
        match &self.shared.files {
            Some(files) => files.remove(&core),
            None => Ok(()),
        }
    }

    /// Grows a heap, to at most its [`Heap::size_max`]. When this returns, the new size is durable.
    ///
    /// # Errors
    /// [`Error::Limit`]; not enough disk space; the store stopped.
    pub fn grow_heap(&self, name: &str, size: u64) -> Result<()> {
        self.shared.clock.running()?;
        let _alone = self.shared.changing.lock();
        self.shared.grow(&self.heap(name)?.core, size)
    }

    pub(crate) fn heap_of(&self, core: Arc<Core>) -> Heap {
        Heap { memory: self.clone(), core }
    }

    // ---- transactions -----------------------------------------------------------------------------------------

    /// Opens a session: buffers and a log partition for a thread that runs many transactions, and the fastest way to run
    /// them.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are `sessions_max` already.
    pub fn session(&self) -> Result<Session> {
        let descriptor = self.shared.take_descriptor()?;
        Ok(Session::new(self.clone(), descriptor))
    }

    /// Runs `work` in a transaction and commits it, as [`Session::run`] does, with a session of the memory's own.
    ///
    /// # Errors
    /// Those of [`Session::run`].
    pub fn run<T>(&self, mode: Commit, work: impl FnMut(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<Done<T>> {
        self.session()?.run(mode, work)
    }

    /// Returns whether the commit with this LSN, and every earlier one, survives any crash (`isStable` of Hathi §3). With
    /// `wait`, returns once that is so; without a log no commit is ever stable.
    ///
    /// # Errors
    /// The store stopped before: commits that were not stable by then never will be.
    pub fn is_stable(&self, lsn: Lsn, wait: bool) -> Result<bool> {
        match self.shared.clock.log() {
            None => Ok(false),
            Some(log) if log.is_stable(lsn) => Ok(true),
            Some(log) if wait => {
                log.ticket(lsn).wait()?;
                // An LSN that was never drawn is not stable, however long the wait.
                Ok(log.is_stable(lsn))
            }
            Some(log) => match log.stopped() {
                None => Ok(false),
                Some(stopped) => Err(stopped.into()),
            },
        }
    }

    /// Returns the log of the store; `None` where nothing is logged.
    pub fn log(&self) -> Option<&Log> {
        self.shared.clock.log()
    }

    /// Returns the number of commits that have written words, since the store was opened.
    #[cfg(feature = "counts")]
    pub fn commits(&self) -> u64 {
        self.shared.slots.commits()
    }

    /// Returns the event counters.
    pub fn counted(&self) -> Counted {
        let counters = &self.shared.counters;
        Counted {
            conflicts: counters.conflicts.load(Ordering::Relaxed),
            partition_commits_made_sync: counters.partition_commits_made_sync.load(Ordering::Relaxed),
            void_records: counters.void_records.load(Ordering::Relaxed),
            checkpoints: counters.checkpoints.load(Ordering::Relaxed),
        }
    }
}

impl Heap {
    /// Grows the heap as [`Memory::grow_heap`] does.
    ///
    /// # Errors
    /// Those of [`Memory::grow_heap`]; [`Error::Unknown`] if this heap was dropped, whether or not another one has its name.
    pub fn grow(&self, size: u64) -> Result<()> {
        let shared = self.memory.shared();
        shared.clock.running()?;
        let _alone = shared.changing.lock();
        if self.core.is_dropped() {
            return Err(Error::Unknown { what: "heap", name: self.core.name.clone() });
        }
        shared.grow(&self.core, size)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heaps: Vec<String> = self.shared.heaps.read().iter().map(|core| core.name.clone()).collect();
        f.debug_struct("Memory").field("heaps", &heaps).field("clock", &self.shared.clock.now()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("clock", &self.clock.now()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns an unused descriptor, with a slot, in the partition of the log with the fewest others.
    pub(crate) fn take_descriptor(&self) -> Result<Box<Descriptor>> {
        let mut seats = self.seats.lock();
        let partition = seats.emptiest();
        let mut descriptor = match seats.idle.pop() {
            Some(mut descriptor) => {
                descriptor.partition = partition;
                descriptor
            }
            None => {
                let limit = u64::from(self.options.sessions_max);
                let what = "sessions, or transactions at one moment (sessions_max)";
                let number = self.slots.take().ok_or(Error::Limit { what, given: limit + 1, limit })?;
                Box::new(Descriptor::new(number, partition))
            }
        };
        let partitions = seats.live.len() as u32;
        descriptor.arena = Blocks::arena_of(descriptor.number, u32::from(partition.0), partitions);
        seats.live[usize::from(partition.0)] += 1;
        self.alone.enter();
        Ok(descriptor)
    }

    /// Returns a descriptor to the pool; it holds nothing but log space.
    pub(crate) fn give_back_descriptor(&self, mut descriptor: Box<Descriptor>) {
        if self.clock.is_forked() {
            return std::mem::forget(descriptor); // a thread of the parent may have locked the seats (E1.9d)
        }
        if self.has_dropped_heaps() {
            descriptor.forget_dropped();
        }
        let mut seats = self.seats.lock();
        seats.live[usize::from(descriptor.partition.0)] -= 1;
        self.alone.leave();
        seats.idle.push(descriptor);
    }

    /// Grows a heap; `changing` is locked.
    fn grow(&self, core: &Core, size: u64) -> Result<()> {
        let words = size.checked_next_multiple_of(core.chunks.len).unwrap_or(u64::MAX) / WORD_LEN;
        let reserved = core.region.words().len() as u64;
        if words > reserved {
            let what = match reserved < core.reserved_words {
                true => "the size of a heap, in bytes, for which the system had address space (ulimit -v)",
                false => "the size of a heap, in bytes (its size_max)",
            };
            return Err(Error::Limit { what, given: size, limit: reserved * WORD_LEN });
        }
        if words > core.words() {
            if let Some(files) = &self.files {
                files.grow(core, words)?;
            }
            core.set_words(words);
        }
        Ok(())
    }

    /// Returns whether commits are logged.
    #[inline(always)]
    pub(crate) fn is_logged(&self) -> bool {
        self.clock.log().is_some()
    }

    /// Returns whether any heap was dropped since the memory was created.
    #[inline(always)]
    pub(crate) fn has_dropped_heaps(&self) -> bool {
        self.unusual.load(Ordering::Acquire) & DROPPED != 0
    }

    /// Returns whether a commit may write to a heap that was dropped, or to a chunk that is not loaded.
    #[inline(always)]
    pub(crate) fn is_unusual(&self) -> bool {
        self.unusual.load(Ordering::Acquire) != 0
    }

    /// Returns whether chunks may be absent.
    pub(crate) fn has_absent_chunks(&self) -> bool {
        self.unusual.load(Ordering::Acquire) & ABSENT != 0
    }

    /// Notes that chunks of heaps are absent. No transaction runs yet.
    pub(crate) fn some_absent(&self) {
        self.unusual.fetch_or(ABSENT, Ordering::Release);
    }

    /// Notes that no chunk is absent any more.
    pub(crate) fn all_loaded(&self) {
        self.unusual.fetch_and(!ABSENT, Ordering::Release);
    }

    /// Frees log space: idle descriptors give up their reservations, then the store makes room.
    pub(crate) fn free_log_space(&self) {
        self.seats.lock().idle.iter_mut().for_each(|descriptor| descriptor.room = None);
        if let Some(store) = self.store_link() {
            store.free_log_space();
        }
    }

    pub(crate) fn store_link(&self) -> Option<Arc<dyn StoreLink>> {
        self.store.lock().clone()
    }

    pub(crate) fn log_taken(&self, bytes: u64) {
        if let Some(store) = &*self.store.lock() {
            store.taken(bytes);
        }
    }

    /// Wakes the transactions that wait for a change, after words changed.
    #[inline(always)]
    pub(crate) fn wake_waiting(&self) {
        // A waiter counts itself before it checks the stripes; the stripes were locked before this check.
        if self.waiting.count.load(Ordering::SeqCst) > 0 {
            self.wake_slowly();
        }
    }

    #[cold]
    fn wake_slowly(&self) {
        *self.waiting.turn.lock() += 1;
        self.waiting.changed.notify_all();
    }

    /// Returns when something that the transaction has read may have changed, or the log has stopped.
    pub(crate) fn wait_for_change(&self, tx: &Tx<'_>) {
        // It will begin anew: until then freed blocks need not wait for it (E17.2).
        tx.slot().end();
        self.waiting.count.fetch_add(1, Ordering::SeqCst);
        let mut turn = self.waiting.turn.lock();
        while tx.all_reads_hold() && self.clock.running().is_ok() {
            // Polled as well, because a stop of the log sends no notification here.
            self.waiting.changed.wait_for(&mut turn, std::time::Duration::from_millis(20));
        }
        drop(turn);
        self.waiting.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Checks that a heap belongs to this memory.
    #[inline(always)]
    pub(crate) fn check_same(&self, heap: &Heap) -> Result<(), Interrupt> {
        if std::ptr::eq(self, heap.memory.shared()) { Ok(()) } else { Err(other_memory()) }
    }
}

#[cold]
#[inline(never)]
fn other_memory() -> Interrupt {
    Interrupt::failed(Error::Misuse("the heap and the transaction belong to different stores"))
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;

    /// A record of the log would be replayed onto another heap of the same number.
    #[test]
    fn heap_numbers_are_not_used_again() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let create = |name: &str| memory.create_heap(name, &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) });
        drop(create("first").expect("a heap"));
        memory.shared().next_number.store(HEAP_NUMBERS - 1, Ordering::Relaxed);
        let last = create("last").expect("there is one number");
        last.atomically(|tx| tx.update(&last, 0, |value| value + 1)).expect("a heap as any");
        for name in ["one", "more"] {
            let refused = create(name).expect_err("E7.4a: there is no number");
            assert!(matches!(refused, Error::Limit { limit, .. } if limit == u64::from(HEAP_NUMBERS)), "{refused}");
        }
        assert!(matches!(create("last"), Err(Error::Exists { .. })));
    }
}
