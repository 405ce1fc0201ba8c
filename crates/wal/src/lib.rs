//! The write-ahead log: one dense clock, partitions, group commit.
//!
//! Every record takes the next number of one clock, its [`Lsn`], and a place in one of several append-only
//! partitions. Recovery merges the partitions by LSN; the first missing number is the end of the log.
//! `docs/inside/invariants.md` lists the invariants, `docs/formats/log.md` and
//! `docs/formats/control.md` draw the bytes.
//!
//! A reading order of the modules:
//!
//! 1. `record`, `block`, `control`: the bytes on disk;
//! 2. `clock`: the durable LSN, computed without a latch;
//! 3. `partition`, `force`: the tail of a partition, and group commit;
//! 4. `look`, `verdict`, `scan`: reading the log after a crash;
//! 5. `space`: reservations, by which a rollback always has log space;
//! 6. `entries`: a log without a store around it.

#![deny(unsafe_code)]

mod ahead;
mod archive;
mod backwards;
mod beside;
mod block;
mod check;
mod checksum;
mod clock;
mod control;
mod copy;
#[cfg(feature = "counts")]
mod counts;
mod crc;
mod cut;
mod entries;
mod epoch;
mod error;
mod event;
mod feed;
#[cfg(all(test, not(cedrat_shuttle)))]
mod filled;
mod follow;
mod force;
mod forget;
mod growth;
mod index;
mod log;
mod look;
mod lsn;
mod moments;
mod open;
mod opening;
mod options;
mod partition;
mod read;
mod record;
mod replica;
mod reservation;
mod retained;
mod scan;
mod scan_ahead;
mod segment;
mod sink;
mod space;
mod ticket;
mod usage;
mod varint;
mod verdict;
mod writer;

pub use archive::{ArchivedLog, FoundArchive, LogArchive};
pub use backwards::{Backwards, RecordsAt};
pub use beside::LogBeside;
pub use checksum::StoreId;
pub use control::{CONTROL_FILE, Checkpoint, Control, ControlPartition, NAME_LEN_MAX, PARTITIONS_MAX};
pub use copy::{CopiedLog, CopyEnd, LogCopy};
pub use cut::CutBlock;
pub use entries::{
    DirectoryLock, ENTRY_LEN_MAX, ENTRY_NAME, Entry, EntryCursor, EntryLog, EntryLogOptions, LOCK_FILE, lock,
};
pub use epoch::{Epoch, Epochs};
pub use error::{LogError, LogFull, StopReason, Stopped};
pub use feed::{BlocksChecksum, LogPiece, LogPosition, LogState, LogToArchive};
pub use forget::ArchivePoint;
pub use index::{INDEX_DIRECTORY, KeysOf, RecordIndex};
pub use log::{Forced, Log};
pub use lsn::{ByteLen, LogOffset, Lsn, PartitionId, Position, TxnId};
pub use moments::Moment;
pub use open::Found;
#[cfg(feature = "planted-faults")]
pub use options::Fault;
pub use options::{LogOptions, SEGMENT_LEN_MAX, SEGMENT_LEN_MIN};
pub use read::Chunk;
pub use record::{Appended, Decided, Kind, Pairs, Record, RecordHead, RecordRef, record_len_bound};
pub use replica::{Replica, ReplicaSink, StableWhen};
pub use reservation::{Outstanding, Reservation, Spending};
pub use retained::Retained;
pub use scan::{Scan, Scanned};
pub use scan_ahead::ScanAhead;
pub use segment::LOG_DIRECTORY;
pub use sink::{Local, Piece, SegmentSink, Sink};
pub use space::{LogSpace, UNDO_RECORD_LEN_MIN, UNDO_RECORDS_PER_FORCE_MAX};
pub use ticket::Ticket;
pub use usage::SegmentUse;
pub use writer::Writer;
