//! Version clock: that of the log, or a separate one where nothing is logged.

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
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Draws the next version.
    #[inline(always)]
    pub(crate) fn draw(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }
}

impl Clock {
    /// Creates a clock that begins at 0 and that no log shares.
    pub(crate) fn own() -> Clock {
        Clock::Own(Counter::default())
    }

    /// Returns the newest version drawn.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Clock::Log(log) => log.current_lsn().get(),
            Clock::Own(counter) => counter.0.load(Ordering::Acquire),
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

    /// Checks that transactions may continue: after a failed sync memory is ahead of the disk, and none of it may be
    /// returned.
    #[inline(always)]
    pub(crate) fn running(&self) -> Result<(), Stopped> {
        match self.log() {
            Some(log) if log.is_stopped() => self.why_not_running(),
            _ => Ok(()),
        }
    }

    #[cold]
    fn why_not_running(&self) -> Result<(), Stopped> {
        self.log().and_then(Log::stopped).map_or(Ok(()), Err)
    }
}
