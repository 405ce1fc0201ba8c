//! Options of transactional memory, of heaps and of commits.

use crate::error::{Error, Result};

/// Time at which a transaction locks the words that it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// At commit: transactions that read and write disturb each other least.
    #[default]
    CommitTime,
    /// At the first write to a word: two transactions that would conflict notice it earlier. A transaction that also
    /// changes pages still locks at commit.
    ///
    /// Another transaction that the same thread runs meanwhile, within the work of this one, fails with
    /// [`Error::Misuse`](crate::Error::Misuse) where it needs a word that this one has written.
    ///
    /// A call that repeats its work after conflicts, such as [`Session::run`](crate::Session::run), also does so after ten seconds
    /// if the owner of a word that it needs waits, directly or through others, for another transaction of its thread: for a word,
    /// or for a lock of the store.
    EncounterTime,
}

/// Time at which a commit returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commit {
    /// When the commit, and all that the transaction read, is durable.
    #[default]
    Sync,
    /// At once. The ticket, or the LSN, shows when it is durable; a crash before that loses the whole transaction.
    Async,
    /// As `Async`, but without requesting a flush ("no flush", Lemon §1): it becomes durable with the next forced commit,
    /// or when its block is full.
    NoFlush,
    /// When its own log partition is durable (Hathi §3): it survives a crash even where earlier commits of other partitions
    /// are lost. For heap transactions that do not depend on those; where a transaction is seen to depend on one that is
    /// neither durable nor a `Partition` commit of the same partition, it becomes `Sync`. Transactions that touch
    /// pages are refused.
    Partition,
}

pub(crate) const STRIPES_LOG2_MAX: u32 = 32;

pub(crate) const STRIPE_WORDS_LOG2_MAX: u32 = 16;

/// Options of transactional memory. An opening takes more and smaller stripes, and more sessions, if prepared transactions of the
/// store need them.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Number of lock stripes, as a power of two. More stripes mean fewer false conflicts and more cache misses.
    pub stripes_log2: u32,
    /// Number of words per stripe, as a power of two.
    pub stripe_words_log2: u32,
    /// Time at which locks are taken.
    pub locking: Locking,
    /// Whether a transaction that meets a version newer than its snapshot tries to extend the snapshot before it restarts.
    pub snapshot_extension: bool,
    /// Whether to request huge pages for heaps and locks.
    pub huge_pages: bool,
    /// Maximum number of sessions, and so of concurrent transactions.
    pub sessions_max: u32,
    /// Bytes in the checkpoint of a heap from which an opening does not load it before it ends. A chunk is then loaded before its
    /// words are first used, and the rest by a thread of the store, or, without one, by the next checkpoint. Programs that use the
    /// [address](crate::Heap::address) of such a heap call [`Heap::load`](crate::Heap::load) first. `u64::MAX`, the default: the
    /// opening loads all heaps, and damage in one refuses the opening instead of stopping the store later.
    pub load_on_demand_bytes: u64,
    /// A planted fault, for tests that show that it is detected.
    #[cfg(feature = "planted-faults")]
    pub fault: Option<Fault>,
}

/// A planted fault. Tests plant one and show that it is detected.
#[cfg(feature = "planted-faults")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Reads are not validated before a commit.
    SkipValidation,
    /// Reads are validated before the commit's LSN is drawn, and not after (against E2.3).
    ValidateBeforeDraw,
    /// Words are written back before their stripes are locked.
    PublishBeforeLock,
    /// A chunk's `before` is the newest LSN when its copy begins, unfinished write-backs or not (against E4.1).
    ChunkBeforeTooNew,
    /// The root names a generation whose last chunks are not durable yet (against E4.3).
    GenerationSwitchedEarly,
    /// A freed block is used again at once, and its stripes keep their versions (against E17.1 and E17.2).
    ReusedTooEarly,
    /// A `Partition` commit is reported as recoverable alone, whatever it depends on (against E8.5).
    AloneWhateverItRead,
}

impl Default for MemoryOptions {
    fn default() -> MemoryOptions {
        MemoryOptions {
            stripes_log2: 18,
            stripe_words_log2: 2,
            locking: Locking::CommitTime,
            snapshot_extension: true,
            huge_pages: true,
            sessions_max: 1024,
            load_on_demand_bytes: u64::MAX,
            #[cfg(feature = "planted-faults")]
            fault: None,
        }
    }
}

impl MemoryOptions {
    /// Returns options with a small table of locks and few sessions: for simulations and tests.
    pub fn small() -> MemoryOptions {
        MemoryOptions { stripes_log2: 8, huge_pages: false, sessions_max: 16, ..MemoryOptions::default() }
    }

    /// Refuses invalid options. Each opening does the same; a store calls this before it creates files.
    ///
    /// # Errors
    /// [`Error::Options`].
    pub fn check(&self) -> Result<()> {
        let wrong = |option, what: &str| Err(Error::Options { option, what: what.to_owned() });
        if !(4..=STRIPES_LOG2_MAX).contains(&self.stripes_log2) {
            return wrong("stripes_log2", "choose 4 to 32");
        }
        if self.stripe_words_log2 > STRIPE_WORDS_LOG2_MAX {
            return wrong("stripe_words_log2", "choose 0 to 16");
        }
        if !(1..=1 << 20).contains(&self.sessions_max) {
            return wrong("sessions_max", "choose 1 to 1,048,576");
        }
        Ok(())
    }
}

/// Options of a heap, chosen when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapOptions {
    /// Its size in bytes; rounded up to whole chunks.
    pub size: u64,
    /// Maximum size, in bytes, which is reserved in the address space. At least `size`.
    pub size_max: u64,
    /// Name of its checkpoint files in the store's directory `heaps`; by default the heap's own name.
    pub file: Option<String>,
    /// Required start address, so that raw addresses in it survive a restart. By default any address.
    pub address: Option<usize>,
    /// Whether the heap has blocks and roots (`pmalloc`, `pfree`). Without them, the program manages all of its memory.
    pub blocks: bool,
    /// Unit of copying in a checkpoint, in bytes: a multiple of 4,096.
    pub chunk_len: u64,
}

impl HeapOptions {
    /// Returns options for a heap of `size` bytes that the program manages itself, as in Hathi §3.
    pub fn raw(size: u64) -> HeapOptions {
        HeapOptions { size, size_max: size, file: None, address: None, blocks: false, chunk_len: 1 << 20 }
    }

    /// Returns options for a heap of `size` bytes with blocks and roots, which may grow to eight times that size.
    pub fn new(size: u64) -> HeapOptions {
        HeapOptions { size_max: size.saturating_mul(8), blocks: true, ..HeapOptions::raw(size) }
    }

    pub(crate) fn check(&self) -> Result<()> {
        const SIZE_LIMIT: u64 = 1 << 46;
        let wrong = |option, what: String| Err(Error::Options { option, what });
        if !self.chunk_len.is_multiple_of(4096) || !(4096..=64 << 20).contains(&self.chunk_len) {
            return wrong("chunk_len", format!("{} given; choose a multiple of 4096 up to 64 MiB", self.chunk_len));
        }
        if self.size == 0 || self.size > self.size_max {
            return wrong("size", format!("{} given; choose 1 to size_max ({})", self.size, self.size_max));
        }
        if self.size_max > SIZE_LIMIT {
            return wrong("size_max", format!("{} given; choose at most {SIZE_LIMIT}", self.size_max));
        }
        if self.address.is_some_and(|address| !address.is_multiple_of(2 << 20) || address == 0) {
            return wrong("address", "choose a multiple of 2 MiB where nothing else is mapped".into());
        }
        Ok(())
    }
}
