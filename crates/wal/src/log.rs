//! The log's public face.

use std::fmt;

use cedrat_media::Media;
use cedrat_sync::Arc;

use crate::*;

/// The write-ahead log of one open store. Cheap to clone; all clones are the same log.
///
/// All methods may be called from any thread.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared;

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log {:?}", self.shared)
    }
}

const NOT_YET: &str = "not yet written";

impl Log {
    /// Creates the log of a new store, and the store's control file, and begins its first epoch.
    pub fn create(
        media: &Arc<dyn Media>,
        options: &LogOptions,
        names: &[&str],
    ) -> Result<Log, LogError> {
        panic!("{NOT_YET}")
    }
    /// Reads what a store's log holds. Nothing is written.
    pub fn look(media: &Arc<dyn Media>) -> Result<Found, LogError> {
        panic!("{NOT_YET}")
    }
    /// Takes room for records whose frames are at most `forward` bytes, and for undoing them `undo` (see `record_len_bound`). May wait for disk (never called under a latch that others wait for).
    pub fn reserve(&self, forward: ByteLen, undo: ByteLen) -> Result<Reservation, LogFull> {
        panic!("{NOT_YET}")
    }
    /// The same for a reservation that exists already.
    pub fn reserve_more(
        &self,
        reservation: &mut Reservation,
        forward: ByteLen,
        undo: ByteLen,
    ) -> Result<(), LogFull> {
        panic!("{NOT_YET}")
    }
    /// Draws the next LSN and places the record. Never waits, never fails (W7).
    pub fn append(
        &self,
        partition: PartitionId,
        head: RecordHead,
        body: &[&[u8]],
        reservation: &mut Reservation,
    ) -> Appended {
        panic!("{NOT_YET}")
    }
    /// The longest body a record may have.
    pub fn body_len_max(&self) -> usize {
        panic!("{NOT_YET}")
    }
    /// Waits while the partition holds too much that is not written; call it before any latch is taken.
    pub fn throttle(&self, partition: PartitionId) -> Result<(), Stopped> {
        panic!("{NOT_YET}")
    }
    /// The newest LSN drawn.
    pub fn current_lsn(&self) -> Lsn {
        panic!("{NOT_YET}")
    }
    /// Every record up to this LSN is durable.
    pub fn durable_lsn(&self) -> Lsn {
        panic!("{NOT_YET}")
    }
    /// Whether every record up to `lsn` is durable.
    pub fn is_stable(&self, lsn: Lsn) -> bool {
        panic!("{NOT_YET}")
    }
    /// Returns when every record up to `up_to` is durable.
    pub fn force(&self, up_to: Lsn) -> Result<Forced, Stopped> {
        panic!("{NOT_YET}")
    }
    /// Returns when the partition is durable up to and with the record at this position (`Partition` commits).
    pub fn force_partition(&self, position: Position) -> Result<(), Stopped> {
        panic!("{NOT_YET}")
    }
    /// A token for the moment when `lsn` is stable.
    pub fn ticket(&self, lsn: Lsn) -> Ticket {
        panic!("{NOT_YET}")
    }
    /// Reads one record, from memory or disk.
    pub fn read(&self, position: Position) -> Result<Record, LogError> {
        panic!("{NOT_YET}")
    }
    /// One transaction's records in one partition, newest first.
    pub fn backwards(&self, from: Position) -> Backwards {
        panic!("{NOT_YET}")
    }
    /// All durable records from `from` on, in the order of LSNs.
    pub fn scan(&self, from: Lsn) -> Result<Scan, LogError> {
        panic!("{NOT_YET}")
    }
    /// What the control file says now.
    pub fn control(&self) -> Control {
        panic!("{NOT_YET}")
    }
    /// Durably adds names to the control file and returns the numbers of `names`, in their order.
    pub fn names(&self, names: &[&str]) -> Result<Vec<u32>, LogError> {
        panic!("{NOT_YET}")
    }
    /// Durably sets where recovery begins. Forces the log up to `redo_lsn` first if need be.
    pub fn checkpoint_control(&self, checkpoint: &Checkpoint) -> Result<(), LogError> {
        panic!("{NOT_YET}")
    }
    /// Gives back whole segments that hold nothing from `keep_from` on, nor from the control file's scan LSN on. Returns how many.
    pub fn truncate(&self, keep_from: Lsn) -> Result<u64, LogError> {
        panic!("{NOT_YET}")
    }
    /// Writes down the newest durable LSN (E20.4): on idle and on clean close.
    pub fn promise(&self) -> Result<(), Stopped> {
        panic!("{NOT_YET}")
    }
    /// Stops the log for ever: nothing is acknowledged any more, every call that waits returns.
    pub fn stop(&self, why: &str) {
        panic!("{NOT_YET}")
    }
    /// Why the log stopped, if it did.
    pub fn stopped(&self) -> Option<Stopped> {
        panic!("{NOT_YET}")
    }
    /// How the log's room is used.
    pub fn space(&self) -> LogSpace {
        panic!("{NOT_YET}")
    }
    /// Starts the thread that writes asynchronous commits, promises and prepares segments. It ends when the handle is dropped.
    pub fn start_writer(&self) -> Writer {
        panic!("{NOT_YET}")
    }
    /// How many partitions there are.
    pub fn partitions(&self) -> u16 {
        panic!("{NOT_YET}")
    }
}

/// The proof that every record up to `up_to()` is durable. Only [`Log::force`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Forced {
    up_to: Lsn,
}
impl Forced {
    /// Up to here.
    pub fn up_to(&self) -> Lsn {
        self.up_to
    }
}

/// Room in the log that was promised: some for forward records, some for their undo (E16).
#[derive(Debug)]
pub struct Reservation {
    forward: u64,
    undo: u64,
    spending: Spending,
}

/// Which part of a reservation appends are paid from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// Ordinary work: the forward part.
    Forward,
    /// Compensation, and whatever a logical undo logs: the undo part.
    Undo,
}
impl Reservation {
    /// Which part appends are paid from, from now on. A fresh reservation spends `Forward`.
    pub fn spend(&mut self, spending: Spending) {
        self.spending = spending;
    }
    /// Bytes left for forward records.
    pub fn forward(&self) -> ByteLen {
        ByteLen(self.forward)
    }
    /// Bytes left for undo.
    pub fn undo(&self) -> ByteLen {
        ByteLen(self.undo)
    }
    /// Gives up the part for undo: the transaction committed.
    pub fn release_undo(&mut self) {
        self.undo = 0;
    }
}

/// How the log's room is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpace {
    /// The log may take this many bytes on disk.
    pub limit: ByteLen,
    /// Segment files that exist.
    pub segments: u64,
    /// Segments that hold records still kept.
    pub segments_in_use: u64,
    /// Bytes reserved and not used yet.
    pub reserved: ByteLen,
    /// Bytes appended beyond what was reserved for them; 0 unless somebody above counts wrongly.
    pub overdrawn: ByteLen,
}

/// A token for the moment when an LSN is stable.
#[derive(Debug)]
pub struct Ticket {
    lsn: Lsn,
}
impl Ticket {
    /// The LSN waited for.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
    /// Returns when it is stable.
    pub fn wait(&self) -> Result<Forced, Stopped> {
        panic!("{NOT_YET}")
    }
    /// Whether it is.
    pub fn is_stable(&self) -> bool {
        panic!("{NOT_YET}")
    }
}
impl std::future::Future for Ticket {
    type Output = Result<Forced, Stopped>;
    fn poll(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        panic!("{NOT_YET}")
    }
}

/// What a store's log holds, before anything is written to it.
#[derive(Debug)]
pub struct Found {
    control: Control,
    end_lsn: Lsn,
}
impl Found {
    /// What the control file says.
    pub fn control(&self) -> &Control {
        &self.control
    }
    /// The LSN after the last one that counts.
    pub fn end_lsn(&self) -> Lsn {
        self.end_lsn
    }
    /// All records that count from `from` on, in the order of LSNs.
    pub fn scan(&self, from: Lsn) -> Result<Scan, LogError> {
        panic!("{NOT_YET}")
    }
    /// Reads one record.
    pub fn read(&self, position: Position) -> Result<Record, LogError> {
        panic!("{NOT_YET}")
    }
    /// One transaction's records in one partition, newest first.
    pub fn backwards(&self, from: Position) -> Backwards {
        panic!("{NOT_YET}")
    }
    /// Durably begins a new epoch (E1.1) and opens the log for appending. Names that the control file does not know yet are added to it.
    pub fn begin(self, names: &[&str], options: &LogOptions) -> Result<Log, LogError> {
        panic!("{NOT_YET}")
    }
}

/// Records in the order of LSNs.
#[derive(Debug)]
pub struct Scan {}
impl Scan {
    /// The next record; `None` at the end. Borrows the scan until the next call.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Scanned<'_>>, LogError> {
        panic!("{NOT_YET}")
    }
    /// How far the scan is, for progress: bytes read, bytes in all.
    pub fn progress(&self) -> (ByteLen, ByteLen) {
        panic!("{NOT_YET}")
    }
}

/// A record of a scan, and the shared bytes it lies in, so that it can be handed to another thread without a copy.
#[derive(Clone, Debug)]
pub struct Scanned<'a> {
    /// The record.
    pub record: RecordRef<'a>,
    /// What the body lies in.
    pub chunk: &'a Arc<Chunk>,
    /// Where the body lies in it.
    pub body: std::ops::Range<usize>,
}

/// A piece of the log as it was read, shared by the records in it.
#[derive(Debug)]
pub struct Chunk {
    bytes: cedrat_media::AlignedBuf,
}
impl Chunk {
    /// The bytes of a record's body, by the range that came with it.
    pub fn body(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.bytes[range]
    }
}

/// One transaction's records in one partition, newest first.
#[derive(Debug)]
pub struct Backwards {}
impl Backwards {
    /// The next older record, following `previous`; `None` after the first.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<RecordRef<'_>>, LogError> {
        panic!("{NOT_YET}")
    }
    /// Go on at this place instead (a compensation's `undo_next`); `None`: nothing is left.
    pub fn seek(&mut self, to: Option<LogOffset>) {
        panic!("{NOT_YET}")
    }
}

/// The writer thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Writer {}
