//! The words in which the log speaks of places, lengths and moments.

use std::fmt;

/// A log sequence number: the one notion of time of a store (Hathi §4).
///
/// The same dense number 1, 2, 3, … orders log records, versions pages and orders commits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// Before every record: "none".
    pub const ZERO: Lsn = Lsn(0);
    /// Later than every record.
    pub const MAX: Lsn = Lsn(u64::MAX);
    /// No log draws so many. What claims to lie beyond was never written by one, and nothing could follow it.
    pub(crate) const LIMIT: Lsn = Lsn(1 << 62);

    /// The LSN with this number.
    pub const fn new(number: u64) -> Lsn {
        Lsn(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The LSN drawn after this one. `MAX` has none but itself.
    pub const fn next(self) -> Lsn {
        Lsn(self.0.saturating_add(1))
    }

    /// The LSN drawn before this one. `ZERO` has none but itself.
    pub const fn previous(self) -> Lsn {
        Lsn(self.0.saturating_sub(1))
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lsn {}", self.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A place in a log partition: bytes since the partition began. Not an LSN, which counts records.
///
/// It never goes back over the life of a store, whatever segment file happens to hold the place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogOffset(u64);

impl LogOffset {
    /// Where a partition begins.
    pub const ZERO: LogOffset = LogOffset(0);
    /// No partition gets so long: places can be added to without a look at their sum.
    pub(crate) const LIMIT: LogOffset = LogOffset(1 << 62);

    /// The place so many bytes after the beginning.
    pub const fn new(bytes: u64) -> LogOffset {
        LogOffset(bytes)
    }

    /// Bytes since the beginning.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The place `len` further on.
    pub const fn after(self, len: ByteLen) -> LogOffset {
        LogOffset(self.0.saturating_add(len.0))
    }

    /// How far this place lies behind `earlier`; nothing if it does not.
    pub const fn since(self, earlier: LogOffset) -> ByteLen {
        ByteLen(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for LogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for LogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A distance in bytes. Not a place, not a number of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteLen(pub u64);

/// One of the log's append-only partitions, from 0 (Hathi §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartitionId(pub u16);

impl PartitionId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where a record's frame begins: a partition and a place in it. Ordered by partition, then place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The partition.
    pub partition: PartitionId,
    /// The place in it.
    pub offset: LogOffset,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {} offset {}", self.partition, self.offset)
    }
}

/// A transaction's number. The log stores it and never interprets it; 0 is "no transaction".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TxnId(pub u64);

impl TxnId {
    /// No transaction: a record that stands for itself.
    pub const NONE: TxnId = TxnId(0);
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
