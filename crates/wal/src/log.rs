//! The log of an open store.

use cedrat_media::{Media, OpenMode};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, Mutex, OwnWord, is_free, planted, prefetch_to_write};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::backwards::{Backwards, RecordsAt};
use crate::clock::{Clock, Steps};
use crate::control::{Checkpoint, Control, ControlFile, NAME_LEN_MAX, NAMES_LEN_MAX};
use crate::entries::DirectoryLock;
use crate::error::{LogError, StopReason, Stopped};
use crate::open::Found;
use crate::opening::Lock;
use crate::options::LogOptions;
use crate::partition::{InMemory, Partition};
use crate::read::Reader;
use crate::record::{Appended, Body, Content, Decided, Kind, Pairs, Record, RecordHead};
use crate::reservation::{Cost, Reservation};
use crate::retained::Retained;
use crate::scan::{self, Scan};
use crate::segment::Pool;
use crate::space::{LogSpace, Space};
use crate::ticket::{Ticket, Tickets};
use crate::writer::{Writer, WriterState};
use crate::{ByteLen, LogOffset, Lsn, PartitionId, Position};

/// The write-ahead log of one open store (Lemon §3.3, Hathi §4). Cheap to clone; all clones refer to the same log.
///
/// All methods may be called from any thread at any time.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

/// The state shared by all clones of a log, its tickets and its writer.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) media: Arc<dyn Media>,
    pub(crate) options: LogOptions,
    pub(crate) epoch: u32,
    pub(crate) clock: Clock,
    /// The largest length of a record's body, in bytes.
    pub(crate) body_len_max: usize,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) space: Arc<Space>,
    pub(crate) control: Mutex<ControlState>,
    pub(crate) tickets: Tickets,
    pub(crate) writer: WriterState,
    /// [`RUNNING`] or [`STOPPED`]; in a forked child neither.
    pub(crate) state: OwnWord,
    pub(crate) stopped: Mutex<Option<Stopped>>,
    /// Whether new reservations are refused.
    pub(crate) is_read_only: AtomicBool,
    #[cfg(feature = "counts")]
    pub(crate) writes: cedrat_sync::atomic::AtomicU64,
    #[cfg(feature = "planted-faults")]
    pub(crate) fault: Option<crate::Fault>,
}

/// State of a log that goes on.
pub(crate) const RUNNING: u32 = 1;

/// State of a log whose reason to stop is known.
const STOPPED: u32 = 2;

/// The control file and its content.
#[derive(Debug)]
pub(crate) struct ControlState {
    pub(crate) file: ControlFile,
    pub(crate) control: Control,
}

/// The proof that every record up to an LSN is durable. Only forcing the log creates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    up_to: Lsn,
}

impl Forced {
    pub(crate) fn new(up_to: Lsn) -> Forced {
        Forced { up_to }
    }

    /// Returns the LSN up to which every record is durable.
    pub fn up_to(&self) -> Lsn {
        self.up_to
    }
}

impl Log {
    pub(crate) fn from_shared(shared: Arc<Shared>) -> Log {
        Log { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Creates the log of a new store and the store's control file, and begins the first epoch.
    ///
    /// `names` get the numbers 0, 1, … in their order. A creation that a crash interrupted is simply repeated.
    ///
    /// # Errors
    ///
    /// [`LogError::AlreadyThere`] if there is a store; [`LogError::Options`] for invalid options; [`LogError::InUse`] while
    /// another opening has the directory.
    pub fn create(media: &Arc<dyn Media>, options: &LogOptions, names: &[&str]) -> Result<Log, LogError> {
        crate::open::create(media, options, names, Lock::Take)
    }

    /// Creates a log as [`Log::create`] does, for a caller that holds the directory's [lock](crate::lock), and keeps
    /// it until the log is [closed](Log::close).
    ///
    /// # Errors
    ///
    /// The errors of [`Log::create`].
    pub fn create_locked(
        media: &Arc<dyn Media>,
        held: &DirectoryLock,
        options: &LogOptions,
        names: &[&str],
    ) -> Result<Log, LogError> {
        crate::open::create(media, options, names, Lock::Held(held))
    }

    /// Ends the opening without forcing the appended records.
    pub(crate) fn end(&self) {
        self.shared.end();
    }

    /// Reads the log of a store. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`LogError::Absent`] if no store was ever completed here; [`LogError::Damaged`] and [`LogError::Version`] name
    /// file and offset.
    pub fn look(media: &Arc<dyn Media>) -> Result<Found, LogError> {
        Found::look(media)
    }

    /// Reads the control file of a store, also while it is open elsewhere.
    ///
    /// # Errors
    ///
    /// [`LogError::Absent`], [`LogError::Damaged`], [`LogError::Io`].
    pub fn look_at_control(media: &Arc<dyn Media>) -> Result<Control, LogError> {
        Ok(crate::open::open_control(media, OpenMode::Read)?.1)
    }

    /// Draws the next LSN and places the record. Never waits for I/O or space, never fails; after the log
    /// stopped, the record is dropped.
    ///
    /// # Panics
    ///
    /// If there is no such partition, or the body is longer than [`Log::body_len_max`]; nothing was drawn then.
    #[inline]
    pub fn append(
        &self,
        partition: PartitionId,
        head: RecordHead,
        body: &[&[u8]],
        reservation: &mut Reservation,
    ) -> Appended {
        self.shared.append(partition, head, Body::new(body), reservation, |_| true).appended
    }

    /// Appends as [`Log::append`] does, but decides whether to keep the record when its LSN is drawn: `decide`
    /// receives the LSN, and if it returns `false`, a void record fills the number instead. So it does if
    /// `decide` panics; the panic then continues.
    ///
    /// `decide` runs under the latch of the partition's tail, between the draw and the placing. So no thread can see
    /// the record before it has returned, and every thread that appends to the partition, or forces the log, waits
    /// for it: it should be short, and must neither wait nor call the log. It is called exactly once; also after the
    /// log stopped, though then nothing is placed.
    ///
    /// # Panics
    ///
    /// As [`Log::append`], with nothing drawn; or if `decide` panics, with the number filled.
    #[inline]
    pub fn append_deciding(
        &self,
        partition: PartitionId,
        head: RecordHead,
        body: &[&[u8]],
        reservation: &mut Reservation,
        decide: impl FnOnce(Lsn) -> bool,
    ) -> Decided {
        self.shared.append(partition, head, Body::new(body), reservation, decide)
    }

    /// Appends as [`Log::append_deciding`] does, but a body that is written where the record is placed, once `decide` has
    /// returned `true`: it is not copied, and its checksum is made of the same registers.
    ///
    /// The record is placed in the same steps, under the latch of the partition's tail: the order of records, and what other
    /// threads see of the draw, do not depend on who writes the body. `pair` runs there too.
    ///
    /// # Panics
    /// If `pair` does: the log then stops.
    #[inline]
    pub fn append_pairs_deciding<T>(
        &self,
        partition: PartitionId,
        head: RecordHead,
        body: Pairs<'_, T, impl Fn(&T) -> (u32, u64)>,
        reservation: &mut Reservation,
        decide: impl FnOnce(Lsn) -> bool,
    ) -> Decided {
        self.shared.append(partition, head, body, reservation, decide)
    }

    /// Returns the largest length of a record's body, in bytes: an eighth of a segment, at most 1 MiB.
    pub fn body_len_max(&self) -> usize {
        self.shared.body_len_max()
    }

    /// Waits while the partition holds too many unwritten bytes. To be called before any latch is taken. Returns at
    /// once for a partition that does not exist.
    #[inline]
    pub fn throttle(&self, partition: PartitionId) -> Result<(), Stopped> {
        self.shared.partitions.get(partition.index()).map_or(Ok(()), |partition| self.shared.throttle(partition))
    }

    /// Returns the newest LSN drawn.
    pub fn current_lsn(&self) -> Lsn {
        self.shared.clock.newest()
    }

    /// Returns the LSN up to which every record is durable, in all partitions. It never decreases.
    pub fn durable_lsn(&self) -> Lsn {
        self.shared.durable_lsn()
    }

    /// Returns an LSN up to which every record is durable: the result of the last [`Log::durable_lsn`], at the cost
    /// of one load.
    #[inline]
    pub fn known_durable_lsn(&self) -> Lsn {
        self.shared.clock.known_durable()
    }

    /// Whether every record up to `lsn` is durable (Hathi §3).
    pub fn is_stable(&self, lsn: Lsn) -> bool {
        self.shared.is_stable(lsn)
    }

    /// Returns when every record up to `up_to`, or up to the newest if that is earlier, is durable. Committers that
    /// arrive together share a write.
    pub fn force(&self, up_to: Lsn) -> Result<Forced, Stopped> {
        self.shared.force(up_to)
    }

    /// Returns when the partition is durable up to and including the record at `position`, whatever the state of
    /// other partitions (`Partition` commits, Hathi §3; for records with `partition_commit` only).
    pub fn force_partition(&self, position: Position) -> Result<(), Stopped> {
        self.shared.force_partition(position)
    }

    /// Returns a ticket that is ready once `lsn` is stable.
    pub fn ticket(&self, lsn: Lsn) -> Ticket {
        Ticket::new(&self.shared, lsn)
    }

    /// Reads the record at `position`, from memory or disk.
    pub fn read(&self, position: Position) -> Result<Record, LogError> {
        self.backwards(position).read_one()
    }

    /// Returns one transaction's records in one partition, newest first, beginning with the one at `from`.
    pub fn backwards(&self, from: Position) -> Backwards {
        Backwards::new(&self.shared.reader, Some(Arc::clone(&self.shared)), from)
    }

    /// Reads the records of a list of positions, in its order. They are durable. Those that are retained are read from memory.
    pub fn records<'p>(&self, positions: &'p [Position], retained: Option<&'p Retained>) -> RecordsAt<'p> {
        RecordsAt::new(&self.shared.reader, positions, retained)
    }

    /// Returns all records that are durable now, from `from` on or from the oldest one certainly kept, in the order
    /// of LSNs.
    pub fn scan(&self, from: Lsn) -> Result<Scan, LogError> {
        self.shared.scan(from, None)
    }

    /// Returns the content of the control file.
    pub fn control(&self) -> Control {
        self.shared.control.lock().control.clone()
    }

    /// Returns the numbers of these names, in their order. New names are durably added to the control file.
    pub fn names(&self, names: &[&str]) -> Result<Vec<u32>, LogError> {
        self.shared.names(names)
    }

    /// Durably records the argument schemas of these names, where none was recorded before; 0 is none.
    pub fn note_schemas(&self, schemas: &[(&str, u32)]) -> Result<(), LogError> {
        self.shared.note_schemas(schemas)
    }

    /// Returns the bytes of log, in whole blocks, that keeping all records from `lsn` on takes.
    pub fn bytes_since(&self, lsn: Lsn) -> ByteLen {
        // Before the latches of tails, as in `truncate`.
        let state = self.shared.control.lock();
        let partitions = self.shared.partitions.iter().zip(&state.control.partitions);
        let kept = partitions.map(|(partition, known)| {
            let tail = partition.tail.lock();
            let (from, to) = (tail.first_block(lsn, known.scan_from), tail.end());
            drop(tail);
            self.shared.pool.bytes_between(partition.id, from, to)
        });
        ByteLen(kept.sum())
    }

    /// Durably sets the start of recovery, after forcing the log up to there.
    pub fn checkpoint_control(&self, checkpoint: &Checkpoint) -> Result<(), LogError> {
        self.shared.checkpoint_control(checkpoint, &[])
    }

    /// Sets the start of recovery as [`checkpoint_control`](Log::checkpoint_control) does, but later openings keep the log from these
    /// offsets on, one for each partition.
    pub fn checkpoint_control_keeping(&self, checkpoint: &Checkpoint, offsets: &[LogOffset]) -> Result<(), LogError> {
        self.shared.checkpoint_control(checkpoint, offsets)
    }

    /// Frees whole segments that hold no record from `keep_from` on, nor from the control file's scan LSN on.
    /// Returns the number of freed segments. [`Lsn::MAX`] keeps only the records that recovery needs.
    pub fn truncate(&self, keep_from: Lsn) -> u64 {
        self.shared.truncate(keep_from, &[])
    }

    /// Frees segments as [`truncate`](Log::truncate) does, but none from these offsets on, one for each partition.
    pub fn truncate_before(&self, keep_from: Lsn, offsets: &[LogOffset]) -> u64 {
        self.shared.truncate(keep_from, offsets)
    }

    /// Writes the durable LSN to the log: when idle, and at a clean close.
    pub fn promise(&self) -> Result<(), Stopped> {
        self.shared.promise()
    }

    /// Forces everything, writes the durable LSN to the log, and ends the opening: this handle, its clones, tickets
    /// and scans fail from now on with [`StopReason::Closed`], and write nothing. Returns when no write is in flight;
    /// the directory may be opened again then.
    ///
    /// # Errors
    ///
    /// The log had stopped before, or stopped now; it is closed nevertheless.
    pub fn close(&self) -> Result<(), Stopped> {
        let promised = self.promise();
        self.shared.end();
        promised
    }

    /// Stops the log permanently: nothing is acknowledged any more, and every waiting thread returns with the reason.
    pub fn stop(&self, why: impl Into<String>) {
        self.shared.stop(StopReason::Asked(why.into()));
    }

    /// Returns the reason why the log stopped, if it did.
    pub fn stopped(&self) -> Option<Stopped> {
        self.shared.check_running().err()
    }

    /// Begins the next segment of each partition that has used a quarter of its own, as the threads of
    /// [`Log::start_writer`] do. It affects only the duration of writes at the end of a segment.
    pub fn begin_ahead(&self) -> Result<(), Stopped> {
        self.shared.begin_ahead()
    }

    /// Whether the log has stopped. Cheap.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.shared.state.load() != RUNNING
    }

    /// Whether this process was forked from the one that has opened the log. It has none of its threads, so whatever one of them
    /// has locked stays locked here. Cheap.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.shared.is_forked()
    }

    /// Returns the use of the log's space.
    pub fn space(&self) -> LogSpace {
        self.shared.space.show()
    }

    /// Whether rollbacks use space that is never reserved. A force that can be avoided should be avoided then.
    pub fn is_used_up(&self) -> bool {
        self.shared.space.is_used_up()
    }

    /// Whether a reservation may be kept that is not needed at the moment: at most half of what the log can promise is reserved.
    pub fn has_room_to_spare(&self) -> bool {
        self.shared.space.has_room_to_spare()
    }

    /// Starts the threads that write asynchronous commits and promises, and prepare segments ahead of need. They end
    /// when the handle is dropped. Start at most one.
    pub fn start_writer(&self) -> Writer {
        Writer::start(&self.shared)
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> u16 {
        self.shared.partitions.len() as u16
    }

    /// Returns the offset below which everything in this partition is durable; 0 for a partition that does not exist.
    pub fn flushed(&self, partition: PartitionId) -> LogOffset {
        let partition = self.shared.partitions.get(partition.index());
        partition.map_or(LogOffset::ZERO, |partition| LogOffset::new(partition.flushed.load(Ordering::Acquire)))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // No handle is left that could write, but scans and their threads may still read.
        if !self.is_forked() {
            self.reader.opening.end();
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("epoch", &self.shared.epoch)
            .field("partitions", &self.shared.partitions.len())
            .field("current_lsn", &self.current_lsn())
            .field("durable_lsn", &self.durable_lsn())
            .finish_non_exhaustive()
    }
}

impl Shared {
    #[inline]
    fn append(
        &self,
        partition: PartitionId,
        head: RecordHead,
        body: impl Content,
        reservation: &mut Reservation,
        decide: impl FnOnce(Lsn) -> bool,
    ) -> Decided {
        let (partition_id, partition) = (partition, &self.partitions[partition.index()]);
        if planted!("refused_after_draw") {
            self.clock.draw(&partition.bounds, self.steps(), |_| ());
        }
        assert!(body.len() <= self.body_len_max(), "a record's body has {} bytes: too many", body.len());
        // With several processors, another processor usually wrote each of these lines last. Not while another thread
        // holds the latch, since it would have to fetch them again.
        if is_free(&partition.tail) {
            prefetch_to_write(&partition.tail);
            self.clock.prefetch_to_draw(&partition.bounds);
        }
        // Dropped after the latch is released: the stop locks it.
        let mut placing = Placing { log: self, is_done: false };
        let mut tail = partition.tail.lock();
        self.clock.prefetch_to_draw(&partition.bounds);
        let sealed = tail.make_room(partition, &self.clock, body.len());
        tail.prefetch_to_place();
        let (appended, cost, decision) = self.clock.draw(&partition.bounds, self.steps(), |lsn| {
            // A panic must not leave the number without a record: it is passed on after the latch is released.
            let decision = catch_unwind(AssertUnwindSafe(|| decide(lsn)));
            if decision.is_err() && planted!("drawn_number_not_filled") {
                return (Appended { lsn, offset: LogOffset::ZERO }, Cost::default(), decision);
            }
            let kind = if let Ok(true) = decision { head.kind } else { Kind::VOID };
            let (offset, cost) = match decision {
                _ if self.leaves_unfilled(kind) => (LogOffset::ZERO, Cost::default()),
                Ok(true) => tail.place(lsn, head, body),
                _ => tail.place_void(lsn), // E2.2
            };
            (Appended { lsn, offset }, cost, decision)
        });
        #[cfg(feature = "planted-faults")]
        if cost.record == 0 && self.fault == Some(crate::Fault::DrawnNotFilled) {
            partition.bounds.flushed_before(tail.first_unflushed());
        }
        drop(tail);
        placing.is_done = true;
        reservation.pay(cost);
        if sealed && planted!("append_writes") {
            let _ = self.write_out(partition, true);
        }
        self.writer.appended(partition_id, sealed, reservation.spending());
        match decision {
            Ok(kept) => Decided { appended, kept },
            Err(panic) => resume_unwind(panic),
        }
    }

    #[inline]
    pub(crate) fn body_len_max(&self) -> usize {
        self.body_len_max
    }

    pub(crate) fn durable_lsn(&self) -> Lsn {
        self.clock.durable(self.partitions.iter().map(|partition| &partition.bounds))
    }

    #[inline]
    pub(crate) fn is_stable(&self, lsn: Lsn) -> bool {
        self.clock.known_durable() >= lsn || self.durable_lsn() >= lsn
    }

    pub(crate) fn in_memory(&self, position: Position) -> Option<InMemory> {
        self.partitions[position.partition.index()].tail.lock().in_memory(position)
    }

    #[inline]
    pub(crate) fn check_running(&self) -> Result<(), Stopped> {
        match self.state.load() {
            RUNNING => return Ok(()),
            STOPPED => {}
            _ => return Err(Stopped::forked()),
        }
        let stopped = self.stopped.lock();
        Err(stopped.clone().expect("the reason was set before the flag"))
    }

    /// Whether this process was forked from the one that has opened the log (E1.9d).
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.state.load() == 0 && !planted!("child_awaits_latches")
    }

    /// Ends the opening (E1.8).
    pub(crate) fn end(&self) {
        self.stop(StopReason::Closed);
        if !self.is_forked() {
            self.reader.opening.end();
        }
    }

    /// Whether the log was closed. Whatever was durable then stays durable, so a ticket may report it.
    pub(crate) fn is_closed(&self) -> bool {
        self.check_running().is_err_and(|stopped| matches!(*stopped.reason, StopReason::Closed))
    }

    /// Stops the log, and returns the reason: an earlier one, if it had stopped before.
    pub(crate) fn stop(&self, reason: StopReason) -> Stopped {
        if self.is_forked() {
            return Stopped::forked(); // no thread of this process waits, and a latch may never be released
        }
        let mut stopped = self.stopped.lock();
        #[cfg(feature = "tracing")]
        if stopped.is_none() && !matches!(reason, StopReason::Closed) {
            tracing::error!(target: "cedrat", reason = %reason, "the log stopped");
        }
        let reason = stopped.get_or_insert_with(|| Stopped { reason: Arc::new(reason) }).clone();
        self.state.store(STOPPED);
        drop(stopped);
        self.partitions.iter().for_each(Partition::stop);
        self.writer.wake_tasks();
        reason
    }

    /// `oldest`: the LSN from which on the log is kept; `None`: that from which on recovery needs it.
    pub(crate) fn scan(&self, from: Lsn, oldest: Option<Lsn>) -> Result<Scan, LogError> {
        if self.is_forked() {
            return Err(Stopped::forked().into());
        }
        self.reader.opening.check_read()?;
        let control = self.control.lock();
        let from = from.max(oldest.unwrap_or(control.control.checkpoint.scan_lsn)).max(Lsn::new(1));
        let durable = self.durable_lsn();
        let mut places = Vec::new();
        for (partition, known) in self.partitions.iter().zip(&control.control.partitions) {
            // Read after the durable LSN: all records up to it are below this offset.
            let stop = LogOffset::new(partition.flushed.load(Ordering::Acquire));
            let begin = partition.tail.lock().first_block(from, known.scan_from);
            places.push((begin.min(stop), stop));
        }
        drop(control);
        let bounds = scan::Bounds { from, end: durable.next(), places };
        Scan::new(&self.reader, bounds, None)
    }

    fn names(&self, names: &[&str]) -> Result<Vec<u32>, LogError> {
        self.check_running()?;
        let state = &mut *self.control.lock();
        let mut control = state.control.clone();
        let numbers = add_names(&mut control, names)?;
        if control.names.len() > state.control.names.len() {
            self.write_control(state, control)?;
        }
        Ok(numbers)
    }

    fn note_schemas(&self, schemas: &[(&str, u32)]) -> Result<(), LogError> {
        self.check_running()?;
        let state = &mut *self.control.lock();
        let mut control = state.control.clone();
        control.note_schemas(schemas);
        if control.schemas != state.control.schemas {
            self.write_control(state, control)?;
        }
        Ok(())
    }

    fn checkpoint_control(&self, checkpoint: &Checkpoint, offsets: &[LogOffset]) -> Result<(), LogError> {
        // A checkpoint beyond the durable LSN would let recovery begin after records that a crash has lost.
        self.force(checkpoint.scan_lsn.max(checkpoint.redo_lsn).previous())?;
        let state = &mut *self.control.lock();
        let mut control = state.control.clone();
        // Never back, for earlier records may be recycled; never beyond the newest LSN drawn.
        let before = control.checkpoint;
        let next = self.clock.newest().next();
        let scan_lsn = checkpoint.scan_lsn.min(checkpoint.redo_lsn).min(next).max(before.scan_lsn);
        let redo_lsn = checkpoint.redo_lsn.min(next).max(before.redo_lsn);
        let next_txn = checkpoint.next_txn.max(before.next_txn);
        control.checkpoint = Checkpoint { redo_lsn, scan_lsn, next_txn };
        control.promise = self.durable_lsn();
        for (index, (partition, known)) in self.partitions.iter().zip(&mut control.partitions).enumerate() {
            known.durable_below = LogOffset::new(partition.flushed.load(Ordering::Acquire));
            let from = partition.tail.lock().first_block(scan_lsn, known.scan_from);
            let kept = offsets.get(index).map_or(from, |&offset| from.min(offset));
            known.scan_from = kept.min(known.durable_below).max(known.scan_from);
        }
        let scan_from: Vec<_> = control.partitions.iter().map(|known| known.scan_from).collect();
        control.epochs.forget_before(scan_lsn, &scan_from);
        self.write_control(state, control)
    }

    /// Writes the control file. If that fails, its content is unknown, and the log stops (W6).
    fn write_control(&self, state: &mut ControlState, mut control: Control) -> Result<(), LogError> {
        self.check_running()?;
        control.generation += 1;
        match self.change_control(state, &control) {
            Ok(()) => {
                state.control = control;
                Ok(())
            }
            Err(LogError::Io { source, .. }) => {
                let file = state.file.path(&*self.media);
                Err(self.stop(StopReason::WriteFailed { file, source }).into())
            }
            Err(other) => Err(other), // it did not fit: nothing was written
        }
    }

    /// Writes the control file, and nothing else.
    pub(crate) fn change_control(&self, state: &ControlState, control: &Control) -> Result<(), LogError> {
        let of = |error| LogError::io("writing the control file", error);
        self.reader.opening.change(of, || state.file.write(&*self.media, control))
    }

    fn truncate(&self, keep_from: Lsn, offsets: &[LogOffset]) -> u64 {
        if self.check_running().is_err() {
            return 0;
        }
        let geometry = self.reader.geometry;
        // Before any is freed: since the last truncation the log has needed the others.
        let spare = self.space.spare();
        let state = self.control.lock();
        let mut recycled = 0;
        for (index, (partition, known)) in self.partitions.iter().zip(&state.control.partitions).enumerate() {
            let keep = if keep_from >= state.control.checkpoint.scan_lsn || planted!("kept_log_recycled") {
                known.scan_from
            } else {
                partition.tail.lock().first_block(keep_from, LogOffset::ZERO).min(known.scan_from)
            };
            let keep = offsets.get(index).map_or(keep, |&offset| keep.min(offset));
            partition.tail.lock().forget_index_before(keep);
            let first_kept = geometry.sequence(keep);
            let mut in_use = self.reader.in_use[partition.id.index()].write();
            let kept = in_use.split_off(&first_kept);
            let old = std::mem::replace(&mut *in_use, kept);
            // Before a reader can miss one of them.
            self.reader.recycled_below[partition.id.index()].fetch_max(first_kept, Ordering::Release);
            drop(in_use);
            recycled += old.len() as u64;
            for (sequence, slot) in old {
                self.pool.give_back(partition.id, sequence, slot, &self.space);
            }
        }
        drop(state);
        self.trim(spare);
        recycled
    }

    pub(crate) fn promise(&self) -> Result<(), Stopped> {
        self.force(self.clock.newest())?;
        let durable = self.durable_lsn();
        for partition in &self.partitions {
            let sealed = partition.tail.lock().seal_promise(partition, durable);
            if let Some(offset) = sealed {
                self.force_block(partition, offset)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn steps(&self) -> Steps {
        #[cfg(feature = "planted-faults")]
        if self.fault == Some(crate::Fault::DrawnBeforeBound) {
            return Steps::DrawThenBound;
        }
        Steps::BoundThenDraw
    }

    #[inline]
    #[cfg_attr(not(feature = "planted-faults"), allow(unused_variables))]
    fn leaves_unfilled(&self, kind: Kind) -> bool {
        #[cfg(feature = "planted-faults")]
        if self.fault == Some(crate::Fault::DrawnNotFilled) {
            return kind == Kind::VOID;
        }
        false
    }
}

/// A record that is being placed. If its body panics, its LSN has no record, and waits for it would not end: the log stops.
struct Placing<'l> {
    log: &'l Shared,
    is_done: bool,
}

impl Drop for Placing<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_done && !planted!("panicked_body_not_noticed") {
            self.log.stop(StopReason::Asked("a panic has left an LSN without a record; open the store again".into()));
        }
    }
}

/// Returns the numbers of these names; new ones get the next numbers.
pub(crate) fn add_names(control: &mut Control, names: &[&str]) -> Result<Vec<u32>, LogError> {
    let known_before = control.names.len();
    let mut numbers = Vec::new();
    for name in names {
        if name.len() > NAME_LEN_MAX {
            return Err(LogError::Limit {
                what: "the length of an operation's name",
                given: name.len() as u64,
                limit: NAME_LEN_MAX as u64,
            });
        }
        let known = control.names.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            control.names.push((*name).to_owned());
            control.names.len() - 1
        });
        numbers.push(number as u32);
    }
    let given = control.names_len();
    if control.names.len() > known_before && given > NAMES_LEN_MAX {
        let what = "the length of all names of operations, with their schemas, in bytes";
        return Err(LogError::Limit { what, given: given as u64, limit: NAMES_LEN_MAX as u64 });
    }
    Ok(numbers)
}
