//! The version clock: the log's, or one of its own where nothing is logged.

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_wal::{Log, Stopped};

/// Where versions come from.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The store's clock: a commit's version is the LSN of its record.
    Log(Log),
    /// A memory without durability has a clock of its own.
    Own(Counter),
}

/// On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// The next version.
    #[inline(always)]
    pub(crate) fn draw(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }
}

impl Clock {
    /// A clock that begins at 0 and that no log shares.
    pub(crate) fn own() -> Clock {
        Clock::Own(Counter::default())
    }

    /// The newest version drawn.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Clock::Log(log) => log.current_lsn().get(),
            Clock::Own(counter) => counter.0.load(Ordering::Acquire),
        }
    }

    /// The log, where there is one.
    #[inline(always)]
    pub(crate) fn log(&self) -> Option<&Log> {
        match self {
            Clock::Log(log) => Some(log),
            Clock::Own(_) => None,
        }
    }

    /// Whether transactions may go on: after a failed sync memory is ahead of the disk, and nothing of it may be told.
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
