//! A transaction that is held from one call to the next, for programs that cannot hand over their work as a closure: a
//! language that jumps back to where the transaction began.

use std::fmt;
use std::mem::ManuallyDrop;

use cedrat_sync::atomic::Ordering;

use crate::error::{Error, Interrupt, Result, Why};
use crate::joined::Joined;
use crate::memory::Memory;
use crate::options::Commit;
use crate::session::{Done, back_off, wait_for};
use crate::tx::{Descriptor, Tx};

/// What [`Session`](crate::Session) is to closures: a thread's place in a memory, with at most one transaction, which
/// runs from [`Held::begin`] to [`Held::commit`] or [`Held::abort`], or to the first conflict.
///
/// It belongs to one thread at a time and may be moved to another. Dropped within a transaction, it leaves nothing of it.
pub struct Held {
    memory: Memory,
    descriptor: Option<Box<Descriptor>>,
    running: bool,
    /// How often in a row a transaction has met a conflict.
    attempts: u32,
}

impl Held {
    /// A place without a transaction.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are `sessions_max` already.
    pub fn new(memory: &Memory) -> Result<Held> {
        let descriptor = memory.shared().take_descriptor()?;
        Ok(Held { memory: memory.clone(), descriptor: Some(descriptor), running: false, attempts: 0 })
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether a transaction runs.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.running
    }

    fn tx(&mut self) -> ManuallyDrop<Tx<'_>> {
        let this = self.descriptor.as_mut().expect("it has its descriptor until it is dropped");
        // Its end is not that of the transaction.
        ManuallyDrop::new(Tx { shared: self.memory.shared(), this })
    }

    /// Begins a transaction, with a snapshot of now. After a conflict it waits a little before, longer each time.
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
        tx.slot().locks_early(false); // another thread may commit it
        self.running = true;
        Ok(())
    }

    /// Reads, writes, allocates and frees.
    ///
    /// # Errors
    /// [`Error::Conflict`]: another transaction was quicker, and nothing is left of this one; begin again. Anything else
    /// that `work` fails with leaves the transaction running. [`Error::Misuse`] if none runs.
    #[inline]
    pub fn run<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Interrupt>) -> Result<T> {
        if !self.running {
            return Err(Error::Misuse("no transaction runs; begin one first"));
        }
        match work(&mut self.tx()) {
            Ok(value) => Ok(value),
            Err(interrupt) => Err(self.interrupted(interrupt)),
        }
    }

    #[cold]
    fn interrupted(&mut self, interrupt: Interrupt) -> Error {
        match interrupt.why() {
            Some(Why::Failed(error)) => error,
            Some(Why::Retry) | None => {
                self.memory.shared().counters.conflicts.fetch_add(1, Ordering::Relaxed);
                self.restart();
                Error::Conflict
            }
        }
    }

    /// Commits; returns when `mode` says. Whatever it returns, the transaction has ended.
    ///
    /// # Errors
    /// [`Error::Conflict`] and [`Error::LogFull`]: nothing is left of it. [`Error::Stopped`]: only reopening the store
    /// tells whether the commit was kept. [`Error::Misuse`] if none runs.
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
        (self.running, self.attempts) = (false, 0);
        wait_for(self.memory.shared(), mode, &committed)?;
        Ok(Done { value: (), lsn: committed.up_to, alone: committed.position })
    }

    /// Gives the transaction that runs to a larger one, over `memory`, which is the same; from now on none runs here.
    ///
    /// # Errors
    /// [`Error::Misuse`] if none runs, or the memory is another; [`Error::Limit`] if there are `sessions_max` already. It runs
    /// on then.
    pub fn hand_over(&mut self, memory: &Memory) -> Result<Joined> {
        if !self.running {
            return Err(Error::Misuse("no transaction runs; begin one first"));
        }
        if !std::ptr::eq(self.memory.shared(), memory.shared()) {
            return Err(Error::Misuse("the transaction runs over another memory"));
        }
        let other = memory.shared().take_descriptor()?;
        let descriptor = self.descriptor.replace(other).expect("it has its descriptor until it is dropped");
        (self.running, self.attempts) = (false, 0);
        Ok(Joined::around(memory, descriptor))
    }

    /// Ends the transaction, if one runs; nothing is left of it.
    pub fn abort(&mut self) {
        if self.running {
            self.running = false;
            self.tx().abandon();
        }
        self.attempts = 0;
    }

    /// As [`Held::abort`], to begin again: the next [`Held::begin`] waits as after a conflict.
    pub fn restart(&mut self) {
        let attempts = self.attempts;
        self.abort();
        self.attempts = attempts.saturating_add(1);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.abort();
        if let Some(descriptor) = self.descriptor.take() {
            self.memory.shared().give_back_descriptor(descriptor);
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
    use super::*;
    use crate::{HeapOptions, MemoryOptions};

    #[test]
    fn a_transaction_is_held_until_it_commits_aborts_or_meets_another() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("held", &HeapOptions::raw(1 << 16)).expect("a heap");
        let mut one = Held::new(&memory).expect("a place");
        let mut other = Held::new(&memory).expect("a place");
        assert!(matches!(one.run(|tx| tx.read(&heap, 0)), Err(Error::Misuse(_))));
        assert!(matches!(one.commit(Commit::Sync), Err(Error::Misuse(_))));
        one.begin().expect("it goes on");
        assert!(matches!(one.begin(), Err(Error::Misuse(_))));
        one.run(|tx| tx.write(&heap, 0, 7)).expect("nobody else writes");
        assert!(matches!(one.run(|tx| tx.read(&heap, 3)), Err(Error::Misaligned { .. })));
        assert_eq!(one.run(|tx| tx.read(&heap, 0)).expect("its own"), 7);
        other.begin().expect("it goes on");
        assert_eq!(other.run(|tx| tx.read(&heap, 0)).expect("its snapshot"), 0);
        one.commit(Commit::Sync).expect("nobody else writes");
        other.run(|tx| tx.write(&heap, 64, 1)).expect("not looked at yet");
        assert!(matches!(other.commit(Commit::Sync), Err(Error::Conflict)));
        assert!(!other.is_running() && memory.counted().conflicts == 1);
        other.begin().expect("it goes on");
        assert_eq!(other.run(|tx| tx.read(&heap, 0)).expect("a new snapshot"), 7);
        other.run(|tx| tx.write(&heap, 0, 8)).expect("kept until the commit");
        drop(other);
        assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).expect("nobody else writes"), 7);
    }
}
