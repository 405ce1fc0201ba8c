//! A transaction that is held from one call to the next, for programs that cannot pass their work as a closure, such as a
//! language that jumps back to the point where the transaction began.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::Instant;

use cedrat_sync::atomic::Ordering;
use cedrat_sync::planted;

use crate::error::{Error, Interrupt, InterruptCause, Result};
use crate::heap::Heap;
use crate::joined::Joined;
use crate::memory::Memory;
use crate::options::Commit;
use crate::region::WORD_LEN;
use crate::session::{Done, back_off, wait_for};
use crate::tx::{Descriptor, Tx};
use crate::view::Seat;

/// Counterpart of [`Session`](crate::Session) without closures: a thread's session in a memory, with at most one
/// transaction, which runs from [`Held::begin`] to [`Held::commit`] or [`Held::abort`], or to the first conflict.
///
/// It belongs to one thread at a time and may be moved to another. Dropping it within a transaction rolls the transaction
/// back.
///
/// The search for endless waits ([`Locking`](crate::Locking)) assigns the transaction to the thread that has begun it or has last
/// called [`Held::run`]. After a move to another thread, call [`Held::run`] there before that thread waits for another one that
/// needs the words of the transaction. Otherwise that wait may never end.
///
/// A program never ends if it begins again after each conflict, and in each attempt commits another transaction that changes a
/// word which this one has read. The same holds for [`Session::run`](crate::Session::run).
pub struct Held {
    memory: Memory,
    descriptor: Option<Seat>,
    running: bool,
    /// Number of successive transactions that met a conflict.
    attempts: u32,
}

impl Held {
    /// Creates a session without a transaction.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are `sessions_max` already.
    pub fn new(memory: &Memory) -> Result<Held> {
        let descriptor = memory.shared().take_descriptor()?;
        Ok(Held { memory: memory.clone(), descriptor: Some(Seat::new(descriptor)), running: false, attempts: 0 })
    }

    /// Returns the memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns whether a transaction runs.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.running
    }

    fn descriptor(&mut self) -> &mut Descriptor {
        self.descriptor.as_mut().expect("it has its descriptor until it is dropped")
    }

    /// Returns the address of the `cedrat_view` of the C header, which stays valid as long as this object lives. Between
    /// calls, the thread that makes them may load and store through it.
    pub fn view(&self) -> NonNull<()> {
        self.descriptor.as_ref().expect("it has its descriptor until it is dropped").address().cast()
    }

    /// Exposes the words of a heap through [`Held::view`], in place of those of another heap. The heap stays mapped as long
    /// as they are exposed.
    ///
    /// Under a seeded scheduler no words are exposed, because they are not plain memory there.
    pub fn show(&mut self, heap: &Heap) {
        self.hide();
        if !cfg!(cedrat_shuttle) && std::ptr::eq(self.memory.shared(), heap.memory.shared()) {
            let this = self.descriptor.as_mut().expect("it has its descriptor until it is dropped");
            this.show(&heap.core, &self.memory.shared().stripes);
            if self.running {
                this.open_window();
            }
        }
    }

    /// Stops exposing words.
    pub fn hide(&mut self) {
        self.descriptor().hide();
    }

    /// Routes each access to these bytes of the exposed heap through a call, until the transaction ends.
    pub fn suspect(&mut self, offset: u64, len: u64) {
        let (first, end) = (offset / WORD_LEN, (offset + len).div_ceil(WORD_LEN));
        self.descriptor().writes.suspect(first..end);
    }

    /// Exposes the heap for stores too, if the transaction has written to it.
    #[inline(always)]
    pub fn show_for_stores(&mut self) {
        if self.running {
            self.descriptor().open_window();
        }
    }

    pub(crate) fn tx(&mut self) -> ManuallyDrop<Tx<'_>> {
        let this = self.descriptor.as_mut().expect("it has its descriptor until it is dropped");
        // Dropping this `Tx` must not end the transaction.
        ManuallyDrop::new(Tx { shared: self.memory.shared(), this })
    }

    /// Begins a transaction with a current snapshot. After a conflict it first waits a little, longer each time.
    ///
    /// # Errors
    /// [`Error::Misuse`] if one runs; [`Error::Stopped`].
    #[inline]
    pub fn begin(&mut self) -> Result<()> {
        if self.running {
            return Err(Error::Misuse("a transaction runs already; commit or abort it first"));
        }
        let shared = self.memory.shared();
        shared.clock.running()?;
        let this = self.descriptor.as_mut().expect("it has its descriptor until it is dropped");
        if self.attempts > 0 {
            back_off(this, self.attempts);
        }
        let tx = ManuallyDrop::new(Tx::begin(shared, this));
        if tx.this.encounter {
            tx.slot().locks_early(false); // its end needs another call
        }
        self.running = true;
        Ok(())
    }

    /// Runs reads, writes, allocations and frees in the transaction.
    ///
    /// # Errors
    /// [`Error::Conflict`]: the transaction lost a write conflict and was rolled back; begin again. Any other error of
    /// `work` rolls back what it has done, and leaves the transaction running; it cannot commit if `work` had rolled back to a
    /// savepoint of an earlier call. [`Error::Misuse`] if none runs; also after ten seconds of conflicts, if the owner of a word
    /// waits for another transaction of this thread ([`Locking`](crate::Locking)).
    ///
    /// # Panics
    /// If `work` does. The transaction then cannot commit: [`Error::Misuse`].
    #[inline]
    pub fn run<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        if !self.running {
            return Err(Error::Misuse("no transaction runs; begin one first"));
        }
        let mut tx = self.tx();
        if tx.this.encounter && !planted!("moved_transaction_keeps_thread") {
            tx.slot().lock_here(); // it may have been moved to this thread since its last call
        }
        tx.call(work).map_err(|interrupt| self.interrupted(interrupt))
    }

    /// Reads a word as [`Tx::read`] does in [`Held::run`], faster.
    ///
    /// # Errors
    /// Those of [`Held::run`] and [`Tx::read`].
    #[inline]
    pub fn read(&mut self, heap: &Heap, offset: u64) -> Result<u64> {
        if !self.running {
            return Err(Error::Misuse("no transaction runs; begin one first"));
        }
        // It changes nothing that would have to be rolled back.
        self.tx().read(heap, offset).map_err(|interrupt| self.interrupted(interrupt))
    }

    /// Allocates a block as [`Tx::allocate_filled`] does in [`Held::run`], faster.
    ///
    /// # Errors
    /// Those of [`Held::run`] and [`Tx::allocate_filled`].
    #[inline]
    pub fn allocate_filled(&mut self, heap: &Heap, len: u64) -> Result<u64> {
        if self.running
            && let Some(offset) = self.tx().at_once(|tx| tx.allocate_filled_at_once(heap, len))
        {
            return Ok(offset);
        }
        self.allocate_slowly(heap, len)
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(&mut self, heap: &Heap, len: u64) -> Result<u64> {
        self.run(|tx| tx.allocate_filled(heap, len))
    }

    /// Frees a block as [`Tx::free_block`] does in [`Held::run`], faster.
    ///
    /// # Errors
    /// Those of [`Held::run`] and [`Tx::free_block`].
    #[inline]
    pub fn free_block(&mut self, heap: &Heap, offset: u64) -> Result<u64> {
        if self.running
            && let Some(len) = self.tx().at_once(|tx| tx.free_at_once(heap, offset))
        {
            return Ok(len);
        }
        self.free_slowly(heap, offset)
    }

    #[cold]
    #[inline(never)]
    fn free_slowly(&mut self, heap: &Heap, offset: u64) -> Result<u64> {
        self.run(|tx| tx.free_block(heap, offset))
    }

    #[cold]
    fn interrupted(&mut self, interrupt: Interrupt) -> Error {
        match interrupt.cause() {
            Some(InterruptCause::Failed(error)) => error,
            Some(InterruptCause::Retry) | None => {
                self.memory.shared().counters.conflicts.fetch_add(1, Ordering::Relaxed);
                self.restart();
                Error::Conflict
            }
        }
    }

    /// Reserves the log space that the commit takes. A commit that follows at once does not fail with [`Error::LogFull`].
    ///
    /// # Errors
    /// [`Error::LogFull`], [`Error::Stopped`]: the transaction continues to run. [`Error::Misuse`] if none runs.
    pub fn reserve(&mut self) -> Result<()> {
        if !self.running {
            return Err(Error::Misuse("no transaction runs; begin one first"));
        }
        self.tx().reserve_for_commit().map_err(Interrupt::into_error)
    }

    /// Commits and returns as late as `mode` requires. Whatever the result, the transaction has ended.
    ///
    /// # Errors
    /// [`Error::Conflict`] and [`Error::LogFull`]: the transaction was rolled back. [`Error::Stopped`]: only reopening the
    /// store shows whether the commit was kept. [`Error::Misuse`] if none runs.
    #[inline]
    pub fn commit(&mut self, mode: Commit) -> Result<Done<()>> {
        if !self.running {
            return Err(Error::Misuse("no transaction runs; begin one first"));
        }
        let committed = match self.tx().commit(mode) {
            Ok(committed) => committed,
            Err(interrupt) => {
                let error = self.interrupted(interrupt);
                self.running = false;
                return Err(error);
            }
        };
        self.running = false;
        self.ends_repetition();
        wait_for(self.memory.shared(), mode, &committed)?;
        Ok(Done { value: (), lsn: committed.up_to, alone: committed.position })
    }

    /// Moves the running transaction into a larger one, over `memory`, which is the same memory; afterwards no transaction
    /// runs here. Words that it has locked early are locked again at its commit.
    ///
    /// # Errors
    /// [`Error::Misuse`] if none runs, or the memory is another one; [`Error::Limit`] if there are `sessions_max` already.
    /// The transaction then continues to run.
    pub fn hand_over(&mut self, memory: &Memory) -> Result<Joined> {
        if !self.running {
            return Err(Error::Misuse("no transaction runs; begin one first"));
        }
        if !std::ptr::eq(self.memory.shared(), memory.shared()) {
            return Err(Error::Misuse("the two transactions belong to different stores"));
        }
        let mut other = memory.shared().take_descriptor()?;
        self.ends_repetition();
        // The address stays with this object; the content moves.
        std::mem::swap(self.descriptor(), &mut *other);
        other.hide();
        self.running = false;
        let mut joined = Joined::around(memory, other);
        if !planted!("handed_over_with_locks") {
            joined.tx().lock_at_commit(); // E10.4
        }
        Ok(joined)
    }

    /// Rolls the transaction back, if one runs.
    pub fn abort(&mut self) {
        if self.running {
            self.running = false;
            self.tx().abandon();
        }
        self.ends_repetition();
    }

    /// Rolls back as [`Held::abort`] does, in order to begin again: the next [`Held::begin`] waits as after a conflict.
    pub fn restart(&mut self) {
        if self.running {
            self.running = false;
            self.tx().abandon();
        }
        if self.attempts == 0 {
            self.tx().slot().repeats(Instant::now(), None);
        }
        self.attempts = self.attempts.saturating_add(1);
    }

    #[inline]
    fn ends_repetition(&mut self) {
        if self.attempts > 0 {
            self.tx().slot().ends_repetition();
            self.attempts = 0;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.abort();
        if let Some(mut seat) = self.descriptor.take() {
            seat.hide();
            self.memory.shared().give_back_descriptor(seat.into_box());
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("running", &self.running).field("attempts", &self.attempts).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::blocks::{all_known, forget_known};
    use crate::write_set::{Bytes, Write};
    use crate::{HeapOptions, MemoryOptions};

    #[test]
    fn transaction_is_held_until_outcome_or_conflict() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut one = Held::new(&memory).expect("a place");
        let mut other = Held::new(&memory).expect("a place");
        assert!(matches!(one.run(|tx| tx.read(&heap, 0)), Err(Error::Misuse(_))));
        assert!(matches!(one.commit(Commit::Sync), Err(Error::Misuse(_))));
        one.begin().expect("it goes on");
        assert!(matches!(one.begin(), Err(Error::Misuse(_))));
        one.run(|tx| tx.write(&heap, 0, 7)).expect("no other transaction writes");
        assert!(matches!(one.run(|tx| tx.read(&heap, 3)), Err(Error::Misaligned { .. })));
        assert_eq!(one.run(|tx| tx.read(&heap, 0)).expect("its own"), 7);
        other.begin().expect("it goes on");
        assert_eq!(other.run(|tx| tx.read(&heap, 0)).expect("its snapshot"), 0);
        one.commit(Commit::Sync).expect("no other transaction writes");
        other.run(|tx| tx.write(&heap, 64, 1)).expect("not looked at yet");
        assert!(matches!(other.commit(Commit::Sync), Err(Error::Conflict)));
        assert!(!other.is_running() && memory.counted().conflicts == 1);
        other.begin().expect("it goes on");
        assert_eq!(other.run(|tx| tx.read(&heap, 0)).expect("a new snapshot"), 7);
        other.run(|tx| tx.write(&heap, 0, 8)).expect("kept until the commit");
        drop(other);
        assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("no other transaction writes"), 7);
    }

    /// H4: a call that has panicked is half done.
    #[test]
    fn panicked_call_does_not_commit() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut held = Held::new(&memory).expect("a place");
        held.begin().expect("it goes on");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            held.run(|tx| -> Result<(), Interrupt> {
                tx.write(&heap, 0, 7)?;
                panic!("in the work")
            })
        }));
        assert!(panicked.is_err() && held.is_running());
        assert!(matches!(held.commit(Commit::Sync), Err(Error::Misuse(_))), "half a call was committed");
        held.begin().expect("it goes on");
        held.run(|tx| tx.write(&heap, 8, 1)).expect("no other transaction writes");
        held.commit(Commit::Sync).expect("the next transaction is whole");
        assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("reading"), 0);
    }

    #[test]
    fn panicked_attempt_does_not_commit() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut held = Held::new(&memory).expect("a place");
        held.begin().expect("it goes on");
        assert_eq!(held.tx().at_once(|tx| tx.write(&heap, 8, 1).ok()), Some(()));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            held.tx().at_once(|tx| -> Option<()> {
                tx.write(&heap, 0, 7).expect("no other transaction writes");
                panic!("in the work")
            })
        }));
        assert!(panicked.is_err() && held.is_running());
        assert!(matches!(held.commit(Commit::Sync), Err(Error::Misuse(_))), "H4: half a call was committed");
        assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("reading"), 0);
    }

    #[test]
    fn fast_calls_change_blocks_as_others() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::new(1 << 18)).expect("a heap");
        let mut held = Held::new(&memory).expect("a place");
        assert!(matches!(held.allocate_filled(&heap, 8), Err(Error::Misuse(_))));
        let mut live: Vec<(u64, u64)> = Vec::new();
        for round in 0..1000 {
            held.begin().expect("it goes on");
            let mut then = live.clone();
            let len = if round % 50 == 0 { 40_000 } else { round % 97 };
            let new = held.allocate_filled(&heap, len).expect("space");
            assert_eq!(held.run(|tx| tx.block_len(&heap, new)).expect("it is allocated"), len);
            if round % 3 > 0 && !then.is_empty() {
                let (gone, len) = then.swap_remove(round as usize * 7 % then.len());
                assert_eq!(held.free_block(&heap, gone).expect("it is allocated"), len);
                assert!(matches!(held.free_block(&heap, gone), Err(Error::NotAllocated { .. })), "freed twice");
            }
            for nowhere in [new + 8, new + 16, 0, 8, heap.size(), !15] {
                let taken = then.iter().any(|&(block, _)| block == nowhere);
                assert!(taken || held.free_block(&heap, nowhere).is_err(), "{nowhere}");
            }
            if round % 4 == 0 {
                held.free_block(&heap, new).expect("it is allocated");
            } else {
                then.push((new, len));
            }
            if round % 5 == 0 {
                held.abort();
            } else {
                held.commit(Commit::Sync).expect("no other transaction writes");
                live = then;
            }
        }
        assert_eq!(heap.allocated_bytes().expect("it has blocks"), live.iter().map(|&(_, len)| len).sum::<u64>());
        let known = all_known(&heap);
        forget_known(&heap);
        assert_eq!(all_known(&heap), known, "E17.3");
    }

    /// H1: of two transactions that add to one word, the second does not commit.
    #[test]
    fn overtaken_update_does_not_commit() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let (mut one, mut other) = (Held::new(&memory).expect("a place"), Held::new(&memory).expect("a place"));
        let add = |held: &mut Held| held.run(|tx| tx.update(&heap, 0, |value| value + 1)).expect("not looked at yet");
        for held in [&mut one, &mut other] {
            held.begin().expect("it goes on");
            add(held);
        }
        one.commit(Commit::Sync).expect("it is the first one");
        assert!(matches!(other.commit(Commit::Sync), Err(Error::Conflict)), "H1");
        assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("no other transaction writes"), 1, "H1");
    }

    /// H2: two words that change together are read as they were before a commit, or as they are after it.
    #[test]
    fn reads_show_one_state() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut reader = Held::new(&memory).expect("a place");
        reader.begin().expect("it goes on");
        assert_eq!(reader.run(|tx| tx.read(&heap, 0)).expect("its snapshot"), 0);
        heap.atomically(|tx| [0, 4096].into_iter().try_for_each(|at| tx.write(&heap, at, 1))).expect("space");
        assert!(matches!(reader.run(|tx| tx.read(&heap, 4096)), Err(Error::Conflict)), "H2");
        reader.abort();
        reader.begin().expect("it goes on");
        let both =
            reader.run(|tx| Ok((tx.read(&heap, 0)?, tx.read(&heap, 4096)?))).expect("no other transaction writes");
        assert_eq!(both, (1, 1), "H2: not older than its beginning");
    }

    #[test]
    fn block_is_freed_by_one_transaction() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::new(1 << 18)).expect("a heap");
        let (mut one, mut other) = (Held::new(&memory).expect("a place"), Held::new(&memory).expect("a place"));
        one.begin().expect("it goes on");
        let block = one.allocate_filled(&heap, 24).expect("space");
        one.commit(Commit::Sync).expect("no other transaction writes");
        one.begin().expect("it goes on");
        other.begin().expect("it goes on");
        one.free_block(&heap, block).expect("it is allocated");
        other.free_block(&heap, block).expect("it is allocated in its snapshot");
        one.commit(Commit::Sync).expect("it is the first one");
        assert!(matches!(other.commit(Commit::Sync), Err(Error::Conflict)), "H1");
    }

    #[test]
    fn failed_call_leaves_earlier_ones() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut held = Held::new(&memory).expect("a place");
        held.begin().expect("it goes on");
        held.run(|tx| tx.write(&heap, 0, 1)).expect("no other transaction writes");
        let failed = held.run(|tx| -> Result<(), Interrupt> {
            tx.write(&heap, 0, 2)?;
            tx.write(&heap, 8, 2)?;
            Err(Interrupt::abort("as planned"))
        });
        assert!(matches!(failed, Err(Error::Aborted(_))), "{failed:?}");
        held.run(|tx| tx.write(&heap, 16, 3)).expect("it goes on");
        held.commit(Commit::Sync).expect("no other transaction writes");
        let words = heap.atomically(|tx| Ok([tx.read(&heap, 0)?, tx.read(&heap, 8)?, tx.read(&heap, 16)?]));
        assert_eq!(words.expect("reading"), [1, 0, 3]);
    }

    /// A word that outside code has stored to is one of the transaction's own for the next call.
    #[test]
    fn call_finds_words_of_outside_code() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut held = Held::new(&memory).expect("a place");
        let store = |held: &mut Held, word: u64, value: u64| {
            held.begin().expect("it goes on");
            held.run(|tx| tx.write(&heap, 0, 1)).expect("it remembers the heap");
            let stripe = memory.shared().stripes.of(heap.core.salt, word);
            let write = Write { word, value, heap: heap.core.number, stripe, bytes: Bytes::ALL, read: false };
            held.descriptor().writes.append_outside(write);
        };
        store(&mut held, 1, 7);
        held.run(|tx| tx.update(&heap, 8, |value| value + 1)).expect("no other transaction writes");
        held.commit(Commit::Sync).expect("no other transaction writes");
        store(&mut held, 2, 7);
        let mut joined = held.hand_over(&memory).expect("the same memory");
        joined.run(|tx| tx.update(&heap, 16, |value| value + 1)).expect("no other transaction writes");
        assert_eq!(joined.run(|tx| tx.read(&heap, 16)).expect("its own"), 8);
        assert_eq!(joined.tx().this.writes.all().len(), 2, "no word is there twice");
        assert_eq!(heap.atomically(|tx| tx.read(&heap, 8)).expect("reading"), 8);
    }

    /// H5.
    /// Outside code does not journal what it overwrites.
    #[test]
    fn savepoint_closes_window_for_stores() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut held = Held::new(&memory).expect("a place");
        held.show(&heap);
        for _ in 0..2 {
            held.begin().expect("it goes on");
            held.run(|tx| tx.write(&heap, 0, 1)).expect("no other transaction writes");
            held.show_for_stores();
            assert_eq!(held.descriptor().window.store_words, heap.size() / WORD_LEN);
            held.run(|tx| Ok(tx.savepoint())).expect("it goes on");
            assert_eq!(held.descriptor().window.store_words, 0, "H4");
            held.show_for_stores();
            assert_eq!(held.descriptor().window.store_words, 0, "H4");
            held.commit(Commit::Sync).expect("no other transaction writes");
        }
    }

    /// H4: a program may hold a transaction for hours: its memory is bounded by what it has changed.
    #[test]
    fn successful_calls_leave_no_savepoints() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut held = Held::new(&memory).expect("a place");
        held.begin().expect("it goes on");
        (0..1000).for_each(|value| held.run(|tx| tx.write(&heap, 0, value)).expect("no other transaction writes"));
        assert_eq!(held.descriptor().kept_for_savepoints(), 0);
        let mut joined = held.hand_over(&memory).expect("the same memory");
        for value in 0..1000 {
            joined.run(|tx| tx.write(&heap, 0, value)).expect("no other transaction writes");
            joined.run_reading(|tx| tx.read(&heap, 8)).expect("no other transaction writes");
        }
        assert_eq!(joined.tx().this.kept_for_savepoints(), 0);
        // A savepoint that was set within a call counts in later ones.
        let set = joined.run(|tx| Ok(tx.savepoint())).expect("it goes on");
        joined.run(|tx| tx.write(&heap, 0, 5000)).expect("no other transaction writes");
        joined.run(|tx| tx.back_to(set)).expect("it was set in this transaction");
        assert_eq!(joined.run(|tx| tx.read(&heap, 0)).expect("its own"), 999);
        // It is gone with all writes.
        joined.run(|tx| (0..9).try_for_each(|_| tx.update(&heap, 0, |value| value + 1).map(drop))).expect("it goes on");
        let set = joined.run(|tx| Ok(tx.savepoint())).expect("it goes on");
        joined.back_to(None).expect("to its beginning");
        assert!(matches!(joined.run(|tx| tx.back_to(set)), Err(Error::Misuse(_))));
    }

    /// A call that goes back to a savepoint of an earlier call, writes and fails: what it went back over cannot be restored.
    #[test]
    fn failed_call_that_went_back_commits_nothing() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut joined = Joined::begin(&memory).expect("a place");
        let mut held = Held::new(&memory).expect("a place");
        held.begin().expect("it goes on");
        let set = held.run(|tx| Ok(tx.savepoint())).expect("it goes on");
        held.run(|tx| tx.write(&heap, 0, 1)).expect("no other transaction writes");
        let fail = |tx: &mut Tx<'_>, set| -> Result<(), Interrupt> {
            tx.back_to(set)?;
            tx.write(&heap, 8, 2)?;
            Err(Interrupt::abort("as planned"))
        };
        assert!(held.run(|tx| fail(tx, set)).is_err());
        assert!(matches!(held.commit(Commit::Sync), Err(Error::Misuse(_))), "a held transaction");
        let set = joined.savepoint();
        joined.run(|tx| tx.write(&heap, 0, 1)).expect("no other transaction writes");
        assert!(joined.run(|tx| fail(tx, set)).is_err());
        assert!(matches!(joined.prepare(usize::MAX), Err(Error::Misuse(_))), "a joined transaction");
        drop(joined);
        let words = heap.atomically(|tx| Ok([tx.read(&heap, 0)?, tx.read(&heap, 8)?]));
        assert_eq!(words.expect("reading"), [0, 0], "H4");
    }

    /// Going back to a savepoint of an earlier call and writing as many words as were there before is writing (E10.7).
    #[test]
    fn reading_call_cannot_go_back_and_write() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut joined = Joined::begin(&memory).expect("a place");
        let set = joined.savepoint();
        joined.run(|tx| tx.write(&heap, 0, 1)).expect("no other transaction writes");
        let read = joined.run_reading(|tx| {
            tx.back_to(set)?;
            tx.write(&heap, 8, 2)
        });
        assert!(matches!(read, Err(Error::Misuse(_))), "E10.7: {read:?}");
        assert!(matches!(joined.prepare(usize::MAX), Err(Error::Misuse(_))));
    }

    /// H4: a call that met a conflict and says nothing of it has done only a part of its work.
    #[test]
    fn swallowed_conflict_does_not_commit() {
        let options = MemoryOptions { locking: crate::Locking::EncounterTime, ..MemoryOptions::small() };
        let memory = Memory::volatile(options).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut owner = Held::new(&memory).expect("a place");
        owner.begin().expect("it goes on");
        owner.run(|tx| tx.write(&heap, 64, 1)).expect("no other transaction writes");
        let swallow = |tx: &mut Tx<'_>| {
            tx.write(&heap, 0, 7)?;
            assert!(tx.read(&heap, 64).is_err(), "the owner holds its lock");
            Ok(())
        };
        let mut joined = Joined::begin(&memory).expect("a place");
        joined.run(swallow).expect("it says nothing");
        assert!(matches!(joined.prepare(usize::MAX), Err(Error::Conflict)), "a joined transaction");
        drop(joined);
        let mut held = Held::new(&memory).expect("a place");
        held.begin().expect("it goes on");
        held.run(swallow).expect("it says nothing");
        assert!(matches!(held.commit(Commit::Sync), Err(Error::Conflict)), "a held transaction");
    }
}
