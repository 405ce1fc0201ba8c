//! Counters of a log, for the metrics of a store.

use crate::log::Log;
use crate::{LogOffset, PartitionId};

impl Log {
    /// Returns the offset after the newest record of this partition, durable or not; 0 for a partition that does not exist.
    pub fn appended(&self, partition: PartitionId) -> LogOffset {
        let partition = self.shared().partitions.get(partition.index());
        partition.map_or(LogOffset::ZERO, |partition| partition.tail.lock().end())
    }

    /// Returns the number of writes of blocks that became stable since the log was opened.
    pub fn writes(&self) -> u64 {
        self.shared().writes.load(cedrat_sync::atomic::Ordering::Relaxed)
    }
}
