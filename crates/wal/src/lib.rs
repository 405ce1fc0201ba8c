//! The write-ahead log: one dense clock, partitions, group commit.
#![allow(unused_variables, dead_code)]

mod block;
mod checksum;
mod control;
mod epoch;
mod error;
mod log;
mod lsn;
mod options;
mod record;
mod sink;
mod space;
mod varint;

pub use checksum::StoreId;
pub use control::{
    CONTROL_FILE, Checkpoint, Control, ControlPartition, NAME_LEN_MAX, PARTITIONS_MAX,
};
pub use epoch::{Epoch, Epochs};
pub use error::{LogError, LogFull, StopReason, Stopped};
pub use log::*;
pub use lsn::{ByteLen, LogOffset, Lsn, PartitionId, Position, TxnId};
#[cfg(feature = "planted-faults")]
pub use options::Fault;
pub use options::{LogOptions, SEGMENT_LEN_MAX, SEGMENT_LEN_MIN};
pub use record::{Appended, Kind, Record, RecordHead, RecordRef, record_len_bound};
pub use sink::{Local, Piece, SegmentSink, Sink};
