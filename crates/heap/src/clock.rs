//! Version clock: that of the log, or a separate one where nothing is logged.

use cedrat_sync::OwnWord;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_wal::{Log, Stopped};

/// Source of versions.
#[derive(Debug)]
pub(crate) enum Clock {
    /// Clock of the store: a commit's version is the LSN of its record.
    Log(Log),
    /// Separate clock of a memory without durability.
    Own(Counter),
}

/// A counter on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counter {
    newest: AtomicU64,
    /// Not zero in the process that has created it.
    process: OwnWord,
}

impl Counter {
    /// Draws the next version.
    #[inline(always)]
    pub(crate) fn draw(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::AcqRel) + 1
    }
}

impl Clock {
    /// Creates a clock that begins at 0 and that no log shares.
    pub(crate) fn own() -> Clock {
        Clock::Own(Counter { newest: AtomicU64::new(0), process: OwnWord::new(1) })
    }

    /// Returns the newest version drawn.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Clock::Log(log) => log.current_lsn().get(),
            Clock::Own(counter) => counter.newest.load(Ordering::Acquire),
        }
    }

    /// Returns the log, if there is one.
    #[inline(always)]
    pub(crate) fn log(&self) -> Option<&Log> {
        match self {
            Clock::Log(log) => Some(log),
            Clock::Own(_) => None,
        }
    }

    /// Whether this process was forked from the one that has created the memory, whose heaps are not mapped here (E1.9e).
    #[inline(always)]
    pub(crate) fn is_forked(&self) -> bool {
        match self {
            Clock::Log(log) => log.is_forked(),
            Clock::Own(counter) => counter.process.load() == 0,
        }
    }

    /// Checks that transactions may continue: after a failed sync memory is ahead of the disk, and none of it may be
    /// returned. A forked child has no words.
    #[inline(always)]
    pub(crate) fn running(&self) -> Result<(), Stopped> {
        let is_running = match self {
            Clock::Log(log) => !log.is_stopped(),
            Clock::Own(_) => !self.is_forked(),
        };
        if is_running { Ok(()) } else { self.why_not_running() }
    }

    #[cold]
    fn why_not_running(&self) -> Result<(), Stopped> {
        match self {
            Clock::Log(log) => log.stopped().map_or(Ok(()), Err),
            Clock::Own(_) => Err(Stopped::forked()),
        }
    }
}
