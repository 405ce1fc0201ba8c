//! Durable transactional memory: ordinary words of memory, read and written in transactions that survive failures
//! (Hathi, HP Laboratories, 2011).
//!
//! A [`Memory`] has one clock and one table of locks; [`Heap`]s are its regions. Within a store the clock is that of the
//! log, and a commit is one log record with the new values only. There is no undo, because a heap holds only committed
//! values. `docs/inside/invariants.md` lists the invariants, `docs/formats/heap.md` draws
//! the bytes.
//!
//! Where to read on:
//!
//! 1. `region`, `stripes`, `slots`, `alone`: words, their locks, and the published state of transactions and sessions;
//! 2. `tx`, `write_set`: a transaction while its work runs;
//! 3. `commit`, `redo`: encoding, logging and publishing its writes;
//! 4. `session`, `batch`, `waits`: running until it commits, one at a time and several in one commit; waits that never end;
//! 5. `files`, `checkpoint`, `load`, `replay`, `look`: files on the disk, and recovery from them;
//! 6. `blocks`: allocation;
//! 7. `typed`: the program's own structs as values in a heap;
//! 8. `structures`: maps, vectors, queues and counters of such values.

#![deny(unsafe_code)]

mod alone;
mod batch;
mod blocks;
mod checkpoint;
mod clock;
mod commit;
mod copy;
mod error;
mod files;
mod heap;
mod held;
mod image;
mod joined;
mod load;
mod look;
mod memory;
mod on_demand;
mod options;
mod prepared;
mod redo;
#[allow(unsafe_code)] // its reasons are numbered there
mod region;
mod replay;
mod savepoints;
mod session;
mod slots;
mod stripes;
mod structures;
mod tx;
mod typed;
#[allow(unsafe_code)]
mod view;
mod waits;
mod write_set;

pub use batch::BatchFailed;
pub use blocks::{Root, Usage};
pub use checkpoint::Checkpointed;
pub use commit::HEAP_PART;
pub use copy::{
    CopiedHeapFile, CopiedHeaps, EarlierHeaps, HeapsCopy, WantedHeaps, check_copied_heaps, describe_heaps,
    restore_heaps,
};
pub use error::{Error, Interrupt, Result};
pub use files::root::DIRECTORY as HEAPS_DIRECTORY;
pub use heap::Heap;
pub use held::Held;
pub use joined::Joined;
pub use load::FoundHeaps;
pub use look::{HeapInfo, LookedAt, drop_unread, look, look_at_chunks, read_chunks};
pub use memory::{Counted, Memory, StoreLink};
#[cfg(feature = "planted-faults")]
pub use options::Fault;
pub use options::{Commit, HeapOptions, Locking, MemoryOptions};
pub use prepared::PreparedWords;
pub use redo::{Corrupt, words_of_commit};
pub use region::WORD_LEN;
pub use savepoints::HeapSavepoint;
pub use session::{Done, Session};
pub use structures::{HeapCounter, HeapMap, HeapOrderedMap, HeapQueue, HeapVec};
pub use tx::Tx;
pub use typed::{Array, Bytes, Field, Handle, HeapTx, Place, Plain, Whole};
pub use waits::ThreadWait;

#[doc(inline)]
pub use cedrat_heap_derive::Plain;
