//! Reading a log for longer than recovery needs it, while it is appended to.

use std::task::Waker;

use crate::log::Log;
use crate::scan::Scan;
use crate::{LogError, LogOffset, Lsn};

impl Log {
    /// Returns all records that are durable now, from `from` on, as [`scan`](Log::scan) does, but also those that recovery does
    /// not need any more. The caller has kept the log from there on ([`offsets_from`](Log::offsets_from)).
    ///
    /// # Errors
    /// [`LogError::Truncated`], of this call or of the scan: the log was not kept. Those of [`scan`](Log::scan).
    pub fn scan_kept(&self, from: Lsn) -> Result<Scan, LogError> {
        self.shared().scan(from, Some(from))
    }

    /// Returns the offsets, one for each partition, from which on the log is kept for records from `lsn` on.
    pub fn offsets_from(&self, lsn: Lsn) -> Vec<LogOffset> {
        // Before the latches of tails, as in `truncate`.
        let state = self.shared().control.lock();
        let partitions = self.shared().partitions.iter().zip(&state.control.partitions);
        partitions.map(|(partition, known)| partition.tail.lock().first_block(lsn, known.scan_from)).collect()
    }

    /// Wakes a task once every record up to `lsn` is durable, or the log has stopped. It may be woken earlier, too. Unlike a
    /// [ticket](Log::ticket), this forces nothing, and the record need not exist yet.
    pub fn wake_when_durable(&self, lsn: Lsn, waker: &Waker) {
        self.shared().tickets.register(lsn, waker);
        if self.is_stable(lsn) || self.is_stopped() {
            // It may have become so before the registration was visible.
            waker.wake_by_ref();
        }
    }
}
