//! The types of the log for offsets, lengths and log sequence numbers.

use std::fmt;

/// A log sequence number: the only notion of time of a store (Hathi §4).
///
/// The same dense sequence 1, 2, 3, … numbers log records, page versions and commits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// Smaller than the LSN of every record: "none".
    pub const ZERO: Lsn = Lsn(0);
    /// Greater than the LSN of every record.
    pub const MAX: Lsn = Lsn(u64::MAX);
    /// A bound that no log reaches. A larger number on disk was never drawn, and no number could follow it.
    pub(crate) const LIMIT: Lsn = Lsn(1 << 62);

    /// Creates the LSN with this number.
    pub const fn new(number: u64) -> Lsn {
        Lsn(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the LSN drawn after this one; `MAX` for `MAX`.
    pub const fn next(self) -> Lsn {
        Lsn(self.0.saturating_add(1))
    }

    /// Returns the LSN drawn before this one; `ZERO` for `ZERO`.
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

/// A position in a log partition: bytes since the partition began. Not an LSN, which counts records.
///
/// It never decreases over the life of a store, whichever segment file holds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogOffset(u64);

impl LogOffset {
    /// The beginning of a partition.
    pub const ZERO: LogOffset = LogOffset(0);
    /// A bound that no partition reaches, so that offsets can be added to without an overflow check.
    pub(crate) const LIMIT: LogOffset = LogOffset(1 << 62);

    /// Creates the offset `bytes` after the beginning.
    pub const fn new(bytes: u64) -> LogOffset {
        LogOffset(bytes)
    }

    /// Returns the bytes since the beginning.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the offset `len` bytes later.
    pub const fn after(self, len: ByteLen) -> LogOffset {
        LogOffset(self.0.saturating_add(len.0))
    }

    /// Returns the distance from `earlier` to this offset; 0 if `earlier` is later.
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

/// A distance in bytes. Neither an offset nor a number of pages.
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

/// The beginning of a record's frame: a partition and an offset in it. Ordered by partition, then offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The partition.
    pub partition: PartitionId,
    /// The offset in it.
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
    /// No transaction: the record belongs to none.
    pub const NONE: TxnId = TxnId(0);
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
