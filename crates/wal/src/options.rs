//! Options of creating and opening a log.

use cedrat_sync::Arc;

use crate::LogError;
use crate::block::{BLOCK_UNIT, BLOCK_USED_MAX};
use crate::checksum::StoreId;
use crate::control::PARTITIONS_MAX;
use crate::sink::{SegmentSink, Sink};
use crate::space::UNDO_RECORDS_PER_FORCE_MAX;

/// The shortest possible segment, in bytes. Tests use it; the default suits a store better.
pub const SEGMENT_LEN_MIN: u64 = 64 * 1024;
/// The longest possible segment, in bytes.
pub const SEGMENT_LEN_MAX: u64 = 1 << 30;

/// Options of a log. Those marked *fixed* are chosen once, when a store is created.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The number of partitions, 1 to [`PARTITIONS_MAX`]. *Fixed.*
    pub partitions: u16,
    /// The length of a segment in bytes, a multiple of 4,096. Its file is shorter while the log is small. *Fixed.*
    pub segment_len: u64,
    /// The length of the store's pages in bytes; the log only stores it. *Fixed.*
    pub page_len: u32,
    /// The store's random identifier; `None` draws one. Simulations pass one, to be repeatable. *Fixed.*
    pub store: Option<StoreId>,
    /// The log's size on disk in bytes, all partitions together; forward work beyond it is refused.
    pub log_bytes_max: u64,
    /// The maximum number of blocks of one partition that are written at the same time. At least 1.
    pub writes_in_flight: usize,
    /// The length in bytes beyond which a block does not grow, a multiple of 4,096. Each write costs the processor
    /// about as much as a hundred small commits, so blocks should be long if many threads commit without waiting.
    /// Readers fetch a megabyte at a time, and longer blocks twice.
    pub block_len_max: usize,
    /// The number of unwritten bytes of a partition from which [`Log::throttle`](crate::Log::throttle) waits.
    pub unwritten_max: u64,
    /// The longest time for which the writer threads let an asynchronous commit wait, in milliseconds.
    pub flush_interval_ms: u64,
    /// The number of records of a rollback between two forces that the rollback needs itself, to write pages home: half the frames
    /// of a pool of pages. Each such force loses the rest of a block, so the fewer records, the more space is reserved with
    /// undo. More than the default change nothing. At least 1.
    pub undo_records_per_force: u64,
    /// The number of segment files, beyond those that a log needs at least, from which on new files are twice as long. `None`: as
    /// many as it needs. Tests choose few, so that small logs grow.
    pub segments_before_longer: Option<u64>,
    /// The sink, which decides when a block is stable.
    pub sink: Arc<dyn Sink>,
    /// A deliberate mistake, for tests that show that it is detected.
    #[cfg(feature = "planted-faults")]
    pub fault: Option<Fault>,
}

/// A deliberate mistake. Tests plant one and show that it is caught.
#[cfg(feature = "planted-faults")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Blocks of any epoch are accepted at any offset (against E1.3).
    StaleEpochAccepted,
    /// The LSN is drawn before its bound is published (against E3.1).
    DrawnBeforeBound,
    /// A `Void` record's LSN is drawn and nothing is written for it (against E2.2).
    DrawnNotFilled,
    /// Forcing returns before the write does (against W4).
    ReplyBeforeFlush,
    /// Records after a partition's first gap count (against E8.4).
    HolesPassedOver,
    /// An opening only syncs the end of the log that it has found (against R6).
    TailOnlySynced,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            partitions: 1,
            segment_len: 16 << 20,
            page_len: 4096,
            store: None,
            log_bytes_max: 1 << 30,
            writes_in_flight: 8,
            block_len_max: 1 << 20,
            unwritten_max: 8 << 20,
            flush_interval_ms: 5,
            undo_records_per_force: UNDO_RECORDS_PER_FORCE_MAX,
            segments_before_longer: None,
            sink: Arc::new(SegmentSink),
            #[cfg(feature = "planted-faults")]
            fault: None,
        }
    }
}

pub(crate) fn segment_len_is_possible(len: u64) -> bool {
    (SEGMENT_LEN_MIN..=SEGMENT_LEN_MAX).contains(&len) && len.is_multiple_of(BLOCK_UNIT as u64)
}

impl LogOptions {
    /// Returns small segments and blocks, for tests with thousands of crash states.
    pub fn small() -> LogOptions {
        LogOptions {
            segment_len: SEGMENT_LEN_MIN,
            log_bytes_max: 64 * SEGMENT_LEN_MIN,
            block_len_max: 32 << 10,
            unwritten_max: 128 << 10,
            store: Some(*b"a store in tests"),
            ..LogOptions::default()
        }
    }

    /// Returns options as [`LogOptions::small`] does, of a log whose files become longer as soon as it needs more of them.
    pub fn growing() -> LogOptions {
        let small = LogOptions::small();
        LogOptions { segment_len: 4 * small.segment_len, segments_before_longer: Some(0), ..small }
    }

    /// Checks the fixed options.
    pub(crate) fn check_fixed(&self) -> Result<(), LogError> {
        if self.partitions == 0 || self.partitions > PARTITIONS_MAX {
            return Err(LogError::Options {
                option: "partitions",
                what: format!("{} given; choose 1 to {PARTITIONS_MAX}", self.partitions),
            });
        }
        if !segment_len_is_possible(self.segment_len) {
            return Err(LogError::Options {
                option: "segment_len",
                what: format!(
                    "{} given; choose a multiple of {BLOCK_UNIT} from {SEGMENT_LEN_MIN} to {SEGMENT_LEN_MAX}",
                    self.segment_len
                ),
            });
        }
        Ok(())
    }

    /// Checks the options chosen at every opening against the fixed ones.
    pub(crate) fn check(&self, partitions: u16, segment_len: u64) -> Result<(), LogError> {
        let least = crate::space::segments_least(partitions) * segment_len;
        if self.log_bytes_max < least {
            return Err(LogError::Options {
                option: "log_bytes_max",
                what: format!(
                    "{} given; {partitions} partitions with segments of {segment_len} bytes take at least {least}",
                    self.log_bytes_max
                ),
            });
        }
        if self.writes_in_flight == 0 {
            return Err(LogError::Options {
                option: "writes_in_flight",
                what: "0 given; at least one write must be possible".into(),
            });
        }
        if self.undo_records_per_force == 0 {
            return Err(LogError::Options {
                option: "undo_records_per_force",
                what: "0 given; no force comes without a record".into(),
            });
        }
        if !self.block_len_max.is_multiple_of(BLOCK_UNIT)
            || !(2 * BLOCK_UNIT..=BLOCK_USED_MAX).contains(&self.block_len_max)
        {
            return Err(LogError::Options {
                option: "block_len_max",
                what: format!("{} given; choose a multiple of {BLOCK_UNIT} from 8,192 to 16 MiB", self.block_len_max),
            });
        }
        Ok(())
    }
}
