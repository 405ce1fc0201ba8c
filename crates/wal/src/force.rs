//! Group commit: the threads that write, wait and wake.
//!
//! No flusher thread is needed. A committer whose block is not being written writes it itself, outside the latch,
//! while other threads do the same with other blocks, up to `writes_in_flight` at a time. A committer that arrives
//! when that many writes are in flight waits with the open block, which fills meanwhile. The thread that completes a
//! write wakes the committers whose blocks it made durable, and asks one of the committers of the next block to write
//! it.

use cedrat_sync::atomic::{Ordering, fence};
use cedrat_sync::{Arc, planted};
use std::convert::identity;
use std::io;

use crate::error::{StopReason, Stopped};
use crate::log::{ControlState, Forced, Shared};
use crate::partition::{Block, Next, Partition, Step, Tail};
use crate::segment::Slot;
use crate::sink::{InFile, Piece};
use crate::space::Space;
use crate::{LogError, LogOffset, Lsn, PartitionId, Position};

impl Shared {
    /// Returns when every record up to `up_to` is durable.
    pub(crate) fn force(&self, up_to: Lsn) -> Result<Forced, Stopped> {
        self.check_running()?;
        let up_to = up_to.min(self.clock.newest());
        #[cfg(feature = "planted-faults")]
        if self.fault == Some(crate::Fault::ReplyBeforeFlush) {
            return Ok(Forced::new(up_to));
        }
        self.write_until_stable(up_to)
    }

    fn write_until_stable(&self, up_to: Lsn) -> Result<Forced, Stopped> {
        while !self.is_stable(up_to) {
            // Checked in each turn: a record that a stop drops is never stable, and no block holds it that could be
            // waited for.
            self.check_running()?;
            for partition in &self.partitions {
                if partition.bounds.lower() <= up_to.get() {
                    // Taking the latch also waits for an appender that is filling a place there.
                    let mut tail = partition.tail.lock();
                    if let Some(offset) = tail.last_block_up_to(up_to) {
                        // Under the same latch: threads that commit take it often enough.
                        let next = self.next_step(partition, &mut tail, offset, Step::First);
                        drop(tail);
                        self.follow(partition, offset, next)?;
                        if planted!("other_partitions_not_forced") {
                            return Ok(Forced::new(up_to));
                        }
                    }
                }
            }
        }
        Ok(Forced::new(up_to))
    }

    /// Returns when the partition is durable up to and including the record at `position`.
    pub(crate) fn force_partition(&self, position: Position) -> Result<(), Stopped> {
        self.check_running()?;
        match self.partitions.get(position.partition.index()) {
            Some(partition) => self.force_block(partition, position.offset),
            None => Ok(()),
        }
    }

    /// Returns when the block that holds this offset is durable, and every one before it in the partition.
    pub(crate) fn force_block(&self, partition: &Partition, offset: LogOffset) -> Result<(), Stopped> {
        let next = self.next_step(partition, &mut partition.tail.lock(), offset, Step::First);
        self.follow(partition, offset, next)
    }

    fn next_step(&self, partition: &Partition, tail: &mut Tail, offset: LogOffset, step: Step) -> Next {
        tail.next_step(partition, self.clock.known_durable(), offset, step, self.options.writes_in_flight)
    }

    /// Does what `next` says and what follows from that, until the block that holds this offset is durable.
    fn follow(&self, partition: &Partition, offset: LogOffset, mut next: Next) -> Result<(), Stopped> {
        loop {
            let step = match next {
                Next::Durable => return Ok(()),
                Next::Stopped => return self.check_running(),
                Next::Write(block) => {
                    self.write(partition, block, None)?;
                    Step::Again
                }
                Next::Wait(event, patience) => {
                    let impatient = event.wait(patience);
                    if partition.is_flushed(offset) {
                        return Ok(());
                    }
                    match patience {
                        Some(_) if impatient => Step::Impatient,
                        Some(_) => Step::Unwatched,
                        None => Step::Again,
                    }
                }
            };
            next = self.next_step(partition, &mut partition.tail.lock(), offset, step);
        }
    }

    /// Asks the writer threads to write the records that keep this LSN from being stable.
    pub(crate) fn flush_soon(&self, up_to: Lsn) {
        let late = self.partitions.iter().filter(|partition| partition.bounds.lower() <= up_to.get());
        late.for_each(|partition| self.writer.flush(partition.id));
    }

    /// Writes the records that the partition holds now and that no other thread writes, one block after the other; those
    /// of the open block if `open` is set.
    pub(crate) fn write_out(&self, partition: &Partition, open: bool) -> Result<(), Stopped> {
        self.check_running()?;
        let (mut next, last) = partition.take_first(self.clock.known_durable(), self.options.writes_in_flight, open);
        while let Some(block) = next {
            next = self.write(partition, block, Some(last))?;
        }
        Ok(())
    }

    /// Makes a block stable and wakes the threads that wait for it. Takes the next one to write at the same time, if
    /// it begins at `last` or before: another acquisition of the latch may take long if its holder has lost its
    /// processor.
    fn write(
        &self,
        partition: &Partition,
        block: Arc<Block>,
        last: Option<LogOffset>,
    ) -> Result<Option<Arc<Block>>, Stopped> {
        let position = Position { partition: partition.id, offset: block.offset() };
        let slot = self.segment_for(position)?;
        let piece = Piece {
            file: &slot.name,
            offset: self.reader.geometry.in_file(position.offset),
            bytes: block.write_bytes(),
            position,
            first_lsn: block.header.first_lsn,
            last_lsn: block.header.last_lsn,
        };
        let mut written = self.stabilise(&slot, piece);
        if planted!("durable_block_written_again") || written.is_err() && planted!("failed_write_retried") {
            written = self.stabilise(&slot, piece);
        }
        if let Err((file, source)) = written {
            // W6: it is unknown what the disk has kept of it, and another attempt would not reveal it.
            return Err(self.stop(StopReason::WriteFailed { file, source }));
        }
        #[cfg(feature = "counts")]
        self.writes.fetch_add(1, Ordering::Relaxed);
        let durable = self.clock.known_durable();
        let (completed, next) = partition.complete(block, self.options.writes_in_flight, durable, last);
        if completed.advanced {
            // If two writers advance their partitions at the same time, one of them sees both, so that a ticket for
            // both is woken.
            fence(Ordering::SeqCst);
            self.durable_lsn();
        }
        completed.wake();
        if completed.advanced && self.tickets.any() {
            if planted!("task_woken_by_committer") {
                self.tickets.wake(|| self.durable_lsn());
            }
            self.writer.wake_tasks();
        }
        Ok(next)
    }

    fn stabilise(&self, slot: &Slot, piece: Piece<'_>) -> Result<(), (String, io::Error)> {
        let local = InFile { media: &*self.media, file: slot.file, offset: piece.offset, bytes: piece.bytes };
        let stabilise = || self.options.sink.stabilise(piece, &local);
        self.reader.opening.change(identity, stabilise).map_err(|error| (self.media.path(slot.file), error))
    }

    /// Returns the segment file that holds the position; begins the segment if the partition has just reached it.
    fn segment_for(&self, position: Position) -> Result<Arc<Slot>, Stopped> {
        if let Some(slot) = self.reader.slot(position.partition, position.offset) {
            return Ok(slot);
        }
        let wanted = self.reader.geometry.sequence(position.offset);
        let state = &mut *self.control.lock();
        // In their order: the control file records how many have begun, and recovery misses each of them that is
        // absent (W8).
        for before in state.control.partitions[position.partition.index()].segments_begun..wanted {
            self.begin_segment(state, position.partition, before)?;
        }
        self.begin_segment(state, position.partition, wanted)
    }

    /// Returns the segment that a partition should begin ahead: the next one, once a quarter of its own is used and
    /// the next is not begun.
    pub(crate) fn ahead_of(&self, partition: &Partition) -> Option<u64> {
        let geometry = self.reader.geometry;
        let flushed = LogOffset::new(partition.flushed.load(Ordering::Acquire));
        let next = geometry.sequence(flushed) + 1;
        let in_use = self.reader.in_use[partition.id.index()].read();
        let own = in_use.get(&(next - 1));
        let room = own.map_or(geometry.capacity(), |slot| geometry.room(slot.len()));
        let is_far = room.saturating_sub(flushed.get() % geometry.capacity()) <= room / 4 * 3;
        (is_far && !in_use.contains_key(&next)).then_some(next)
    }

    /// Begins the next segment of each partition that has used a quarter of its own, if there is space beyond all
    /// reservations. So a writer that reaches the segment waits neither for its header nor for the control file.
    pub(crate) fn begin_ahead(&self) -> Result<(), Stopped> {
        self.check_running()?;
        for partition in &self.partitions {
            if let Some(sequence) = self.ahead_of(partition) {
                self.begin_this_ahead(partition.id, sequence)?;
            }
        }
        Ok(())
    }

    /// Begins a segment that a partition should have ahead, if it still should.
    fn begin_this_ahead(&self, partition: PartitionId, sequence: u64) -> Result<(), Stopped> {
        self.check_running()?;
        let state = &mut *self.control.lock();
        // Since the request the partition may have begun this and later segments, and freed this one: it would begin
        // a second time.
        let is_next = state.control.partitions[partition.index()].segments_begun == sequence;
        if is_next && self.space.take_ahead(partition, sequence) {
            self.begin_segment(state, partition, sequence)?;
        }
        Ok(())
    }

    /// Begins a segment, unless another thread has. If that fails, the log stops while this thread has the control file:
    /// the next one would begin the segment again, in another file (W6).
    fn begin_segment(
        &self,
        state: &mut ControlState,
        partition: PartitionId,
        sequence: u64,
    ) -> Result<Arc<Slot>, Stopped> {
        let in_use = &self.reader.in_use[partition.index()];
        if let Some(slot) = in_use.read().get(&sequence) {
            return Ok(Arc::clone(slot)); // another thread was faster
        }
        if !planted!("failed_segment_begun_again") {
            self.check_running()?;
        }
        let slot = self.write_beginning(state, partition, sequence).map_err(|(file, source)| {
            self.stop(StopReason::WriteFailed { file, source }) // E16.4
        })?;
        in_use.write().insert(sequence, Arc::clone(&slot));
        Ok(slot)
    }

    /// Takes a file for a segment, and writes that it has begun.
    fn write_beginning(
        &self,
        state: &mut ControlState,
        partition: PartitionId,
        sequence: u64,
    ) -> Result<Arc<Slot>, (String, io::Error)> {
        let slot = loop {
            match self.pool.begin(&self.space, partition, sequence) {
                Ok(slot) => break slot,
                // No reservation covers this; without space for it the log cannot continue.
                Err(len) => self
                    .prepare_segment(len, |_| self.pool.begin(&self.space, partition, sequence).is_err())
                    .map_err(|error| ("a new log segment".into(), error))?,
            }
        };
        let header = self.pool.header(partition, sequence, self.epoch, slot.len());
        let piece = Piece {
            file: &slot.name,
            offset: 0,
            bytes: &header,
            position: Position { partition, offset: self.reader.geometry.begin(sequence) },
            first_lsn: Lsn::ZERO,
            last_lsn: Lsn::ZERO,
        };
        self.stabilise(&slot, piece)?;
        if !planted!("segment_not_noted") {
            self.note_segment(state, partition, sequence)?;
        }
        Ok(slot)
    }

    /// Records in the control file that a segment has begun: from now on recovery misses it if it is absent (W8).
    fn note_segment(
        &self,
        state: &mut ControlState,
        partition: PartitionId,
        sequence: u64,
    ) -> Result<(), (String, io::Error)> {
        let mut control = state.control.clone();
        control.generation += 1;
        let known = &mut control.partitions[partition.index()];
        known.segments_begun = known.segments_begun.max(sequence + 1);
        control.promise = self.durable_lsn(); // E20.1
        match self.change_control(state, &control) {
            Ok(()) => {
                state.control = control;
                Ok(())
            }
            Err(LogError::Io { source, .. }) => Err((state.file.path(&*self.media), source)),
            Err(other) => Err(("the control file".into(), io::Error::other(other))),
        }
    }

    /// Prepares one more segment of at least `least` bytes, if it is still wanted when its turn comes: another thread may
    /// have prepared the last one that the limit allows.
    pub(crate) fn prepare_segment(&self, least: u64, is_wanted: impl FnOnce(&Space) -> bool) -> io::Result<()> {
        let prepare = || {
            let _one_at_a_time = self.pool.filling.lock();
            if is_wanted(&self.space) { self.pool.prepare(&*self.media, &self.space, least) } else { Ok(()) }
        };
        self.reader.opening.change(identity, prepare)
    }

    /// Waits, and helps to write, while the partition holds too many unwritten bytes.
    #[inline]
    pub(crate) fn throttle(&self, partition: &Partition) -> Result<(), Stopped> {
        if partition.unwritten.load(Ordering::Relaxed) > self.options.unwritten_max {
            return self.write_along(partition);
        }
        Ok(())
    }

    #[cold]
    fn write_along(&self, partition: &Partition) -> Result<(), Stopped> {
        while partition.unwritten.load(Ordering::Relaxed) > self.options.unwritten_max {
            self.check_running()?;
            let oldest = partition.tail.lock().oldest_sealed();
            match oldest {
                Some(offset) => self.force_block(partition, offset)?,
                None => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use cedrat_media::{Call, Fault, Media, SimDisk};
    use cedrat_sync::{Mutex, explore, thread};

    use super::*;
    use crate::{ByteLen, Checkpoint, Kind, Log, LogOptions, RecordHead, TxnId};

    /// The stop comes after `force` has checked for one, and the clock it reads then covers a dropped record: no
    /// block holds that, so there is nothing to write and nothing to wait for.
    #[test]
    fn force_of_dropped_record_returns() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
            let mut room = log.reserve(ByteLen(100), ByteLen(0)).expect("there is room");
            log.stop("asked by a test");
            let dropped = log.append(PartitionId(0), RecordHead::new(Kind::COMMIT, TxnId(1), None), &[b"x"], &mut room);
            assert!(log.shared().write_until_stable(dropped.lsn).is_err(), "E16.5");
        });
    }

    /// With several writes in flight, a block of a later segment may be the first to need its file. The control file
    /// then records that all before it have begun too.
    #[test]
    fn segment_begins_only_after_its_predecessors() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
            let shared = log.shared();
            let third = Position { partition: PartitionId(0), offset: shared.reader.geometry.begin(2) };
            shared.segment_for(third).expect("there is room");
            assert_eq!(log.control().partitions[0].segments_begun, 3);
            // As after a crash at this moment: nothing was written yet.
            Log::look(&media).expect("W8: a segment that the control file knows is there");
        });
    }

    /// The next thread that gets the control file would begin the segment again, in another file, and no opening would know
    /// which one counts.
    #[test]
    fn segment_that_failed_is_not_begun_again() {
        explore(1, 1, || {
            let sim = Arc::new(SimDisk::new());
            let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&sim);
            let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
            drop(log.reserve(ByteLen(100_000), ByteLen(0)).expect("there is room"));
            let shared = log.shared();
            let second = Position { partition: PartitionId(0), offset: shared.reader.geometry.begin(1) };
            sim.inject(Fault::error(Call::Write, io::ErrorKind::Other).of("control"));
            assert!(shared.segment_for(second).is_err());
            sim.clear_faults();
            let written = sim.journal_len();
            assert!(shared.segment_for(second).is_err(), "W6");
            assert_eq!(sim.journal_len(), written, "W6");
            Log::look(&media).expect("one file has the segment");
        });
    }

    /// E16.8h: a waker may drop a transaction or take a checkpoint, and so wait for what the thread that forces or stops the log
    /// has locked.
    #[test]
    fn wakers_run_on_their_own_thread() {
        type Wakes<'w> = &'w dyn Fn(&Log, Lsn);
        struct Tells(Mutex<Option<String>>);
        impl Wake for Tells {
            fn wake(self: std::sync::Arc<Self>) {
                let name = thread::current().name().unwrap_or_default().to_owned();
                *self.0.lock() = Some(name);
            }
        }
        explore(1, 1, || {
            let causes: [(Option<(Call, &str)>, Wakes<'_>); 5] = [
                (None, &|log, lsn| drop(log.force(lsn))),
                (None, &|log, _| log.stop("asked by a test")),
                (Some((Call::Write, "control")), &|log, _| {
                    let second = Position { partition: PartitionId(0), offset: log.shared().reader.geometry.begin(1) };
                    drop(log.shared().segment_for(second));
                }),
                (Some((Call::Write, "control")), &|log, _| drop(log.checkpoint_control(&log.control().checkpoint))),
                (Some((Call::Any, "log/")), &|log, _| drop(log.reserve(ByteLen(600_000), ByteLen(0)))),
            ];
            for (fault, cause) in causes {
                let sim = Arc::new(SimDisk::new());
                let media: Arc<dyn Media> = Arc::<SimDisk>::clone(&sim);
                let options = LogOptions { flush_interval_ms: 1 << 32, ..LogOptions::small() };
                let log = Log::create(&media, &options, &[]).expect("a log is created");
                let _writes_nothing_unasked = log.start_writer();
                let mut room = log.reserve(ByteLen(100), ByteLen(0)).expect("there is room");
                let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
                let lsn = log.append(PartitionId(0), head, &[b"x"], &mut room).lsn;
                let tells = std::sync::Arc::new(Tells(Mutex::default()));
                log.shared().tickets.register(lsn, &std::sync::Arc::clone(&tells).into());
                if let Some((call, file)) = fault {
                    sim.inject(Fault::error(call, io::ErrorKind::Other).of(file));
                }
                cause(&log, lsn);
                while tells.0.lock().is_none() {
                    thread::yield_now();
                }
                assert_eq!(tells.0.lock().as_deref(), Some("cedrat-wakes"), "{fault:?}");
            }
        });
    }

    /// A segment begun ahead is begun as any other, counts as taken, and is available to another partition after a
    /// crash.
    #[test]
    fn segment_begins_ahead_at_a_quarter() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = LogOptions { partitions: 2, ..LogOptions::small() };
            let log = Log::create(&media, &options, &[]).expect("a log is created");
            drop(log.reserve(ByteLen(500_000), ByteLen(0)).expect("there is room"));
            let mut room = log.reserve(ByteLen(130_000), ByteLen(0)).expect("there is room");
            let begun =
                |log: &Log| log.control().partitions.iter().map(|known| known.segments_begun).collect::<Vec<_>>();
            let mut append = || {
                let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
                let placed = log.append(PartitionId(1), head, &[&[7; 5000]], &mut room);
                log.force(placed.lsn).expect("the log runs");
                log.begin_ahead().expect("the log runs");
            };
            append();
            assert_eq!(begun(&log), [0, 1]);
            (0..3).for_each(|_| append());
            assert_eq!(begun(&log), [0, 2]);
            assert_eq!(log.space().segments_in_use, 3);
            (0..20).for_each(|_| append());
            assert_eq!(log.space().segments_in_use, 1 + begun(&log)[1], "each counts once");
            drop(room);
            assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
            drop(log);
            let found = Log::look(&media).expect("W8: what has begun is there");
            let again = found.begin(&[], &options).expect("the log opens");
            assert_eq!(again.space().segments_in_use, 1 + begun(&again)[1], "what was ahead was given back");
        });
    }

    /// Between the check and the beginning the partition may reach the segment, pass it, and free it. Begun a second
    /// time, it would keep a file from all partitions, and be freed a second time.
    #[test]
    fn returned_segment_is_not_begun_ahead() {
        explore(1, 1, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let log = Log::create(&media, &LogOptions::small(), &[]).expect("a log is created");
            let shared = log.shared();
            let mut room = log.reserve(ByteLen(300_000), ByteLen(0)).expect("there is room");
            let mut append = |records: u64| {
                let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
                for _ in 0..records {
                    log.append(PartitionId(0), head, &[&[7; 5000]], &mut room);
                }
                log.force(Lsn::MAX).expect("the log runs");
            };
            let give_back = || {
                let lsn = log.durable_lsn().next();
                let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 };
                log.checkpoint_control(&checkpoint).expect("the log runs");
                log.truncate(Lsn::MAX)
            };
            append(4);
            let asked = shared.ahead_of(&shared.partitions[0]).expect("a quarter of the first one is used");
            append(30);
            let begun = log.control().partitions[0].segments_begun;
            assert!(begun > asked + 2, "{begun}: it got beyond it");
            give_back();
            let before = (log.space(), log.control());
            shared.begin_this_ahead(PartitionId(0), asked).expect("the log runs");
            assert_eq!((log.space(), log.control()), before, "E16.1: nothing is begun, nothing counts");
            assert!(!shared.reader.in_use[0].read().contains_key(&asked), "what was given back is not in use again");
            append(30);
            let used = log.control().partitions[0].segments_begun - begun;
            assert_eq!(give_back(), used, "each is given back once");
            assert_eq!(log.space().segments_in_use, 1, "E16.1: the one that takes records");
        });
    }

    /// Beginning a segment ahead reserves much space for a moment, to see whether it is available. A reservation in
    /// that moment does not fail with "log full".
    #[test]
    fn allocation_ahead_blocks_no_append() {
        explore(3, 3000, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = LogOptions { log_bytes_max: 12 * crate::SEGMENT_LEN_MIN, ..LogOptions::small() };
            let log = Log::create(&media, &options, &[]).expect("a log is created");
            let mut all = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
            while log.reserve_more(&mut all, ByteLen(10_000), ByteLen(0)).is_ok() {}
            drop(all);
            let free = log.space().free;
            assert!(!log.shared().space.may_grow(), "no other segment helps");
            let beginner = {
                let log = log.clone();
                thread::spawn(move || log.shared().space.take_ahead(PartitionId(0), 1))
            };
            let room = log.reserve(ByteLen(free.0 * 3 / 5), ByteLen(0));
            assert!(room.is_ok(), "E16.1: {room:?}");
            beginner.join().expect("no panic");
        });
    }

    /// A reservation that a full log refuses reads the control file; a segment that begins ahead changes it.
    #[test]
    fn full_log_is_reported_while_segments_begin() {
        explore(4, 3000, || {
            let media: Arc<dyn Media> = Arc::new(SimDisk::new());
            let options = LogOptions { log_bytes_max: 12 * crate::SEGMENT_LEN_MIN, ..LogOptions::small() };
            let log = Log::create(&media, &options, &[]).expect("a log is created");
            let mut all = log.reserve(ByteLen(0), ByteLen(0)).expect("nothing is asked");
            while log.reserve_more(&mut all, ByteLen(10_000), ByteLen(0)).is_ok() {}
            let beginner = {
                let log = log.clone();
                thread::spawn(move || log.shared().begin_this_ahead(PartitionId(0), 0))
            };
            let refused = log.reserve(ByteLen(10_000), ByteLen(0));
            assert!(matches!(refused, Err(crate::LogFull::Limit { .. })), "E16.1: {refused:?}");
            beginner.join().expect("no panic").expect("the log runs");
        });
    }
}
