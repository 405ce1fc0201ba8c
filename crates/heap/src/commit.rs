//! Committing: from a snapshot and a write set to one record in the log and words visible to all transactions.
//!
//! ```text
//! 1. room in the log is reserved                 may wait, may refuse      (E2.1)
//! 2. stripes of written words are locked         may refuse: conflict
//! 3. the reads are validated                     may refuse: cheap, keeps void records rare
//! 4. the LSN is drawn, in the log                the clock moves
//! 5. the reads are validated again               decides: commit record or void record (E2.3)
//! 6. words are written back, stripes unlocked    their version is the LSN
//! ```
//!
//! Why step 5 comes after step 4: with validation only before the draw, a transaction that changes a word that was read may
//! lock, draw and commit between the two. It would precede this transaction in the order of LSNs, but this one has not seen
//! it; a reader whose snapshot lies between both sees a state that no serial order of them gives.

use cedrat_sync::atomic::Ordering;
use cedrat_sync::planted;
use cedrat_wal::{
    ByteLen, Kind, Log, LogFull, LogOffset, Lsn, Pairs, PartitionId, Position, RecordHead, TxnId, record_len_bound,
};

use crate::error::{Error, Interrupt};
use crate::options::Commit;
use crate::redo;
use crate::region::WORD_LEN;
use crate::stripes::Look;
use crate::tx::Tx;
use crate::write_set::Bytes;

/// Part of a commit that does not fit into one record; it counts only with the transaction's commit record.
pub const HEAP_PART: Kind = match Kind::new(10) {
    Some(kind) => kind,
    None => panic!("a kind's number is not 0 and at most 63"),
};

/// Result of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    /// LSN that must be durable before the transaction may be reported as durable.
    pub(crate) up_to: Lsn,
    /// Position up to which its own partition has to be forced; only for `Partition` commits.
    pub(crate) position: Option<Position>,
}

/// Unit of log space reservations, large enough that most commits find space reserved already.
const RESERVATION_PIECE: u64 = 16 << 10;

/// Upper bound of the log space that a session keeps between commits; nothing where the log is short of space.
const RESERVATION_KEPT: u64 = 4 * RESERVATION_PIECE;

/// Number of times that a commit that finds the log full waits for a checkpoint.
const RESERVATION_ATTEMPTS: u32 = 8;

impl Tx<'_> {
    /// Returns whether there is nothing to commit.
    #[inline(always)]
    pub(crate) fn is_read_only(&self) -> bool {
        self.this.writes.is_empty() && self.this.blocks.is_empty()
    }

    /// Commits. An interrupt also ends the transaction without effect.
    #[inline]
    pub(crate) fn commit(&mut self, mode: Commit) -> Result<Committed, Interrupt> {
        if self.this.interrupted {
            let why = self.why_interrupted();
            self.abandon();
            return Err(why);
        }
        if self.is_read_only() {
            // A snapshot is a consistent state: nothing has to be validated again.
            let up_to = Lsn::new(self.newest_read(mode));
            // A rollback to a savepoint may have left locks.
            if self.this.locked.is_empty() {
                self.forget()
            } else {
                self.abandon()
            }
            return Ok(Committed { up_to, position: None });
        }
        let committed = self.try_commit(mode);
        if committed.is_err() {
            self.abandon();
        }
        committed
    }

    /// Returns a version at or before which everything that the transaction has read was committed.
    ///
    /// The snapshot always is such a version; a caller that is going to wait for it gets the newest version that was read.
    pub(crate) fn newest_read(&self, mode: Commit) -> u64 {
        let snapshot = self.this.snapshot;
        let stable = self.shared.clock.log().is_none_or(|log| log.is_stable(Lsn::new(snapshot)));
        if stable || matches!(mode, Commit::Async | Commit::NoFlush) {
            return snapshot;
        }
        // A stripe that is locked or newer now has been overwritten since: its version at the time of the read is no longer
        // known.
        let version = |&stripe: &u32| self.shared.stripes.look(stripe).free_version();
        let versions = self.this.reads.iter().map(|stripe| version(stripe).map_or(snapshot, |now| now.min(snapshot)));
        versions.max().unwrap_or(0)
    }

    /// Returns the interrupt with which a transaction ends that continued after one. After a half-done call another attempt may
    /// have no other outcome.
    #[cold]
    pub(crate) fn why_interrupted(&self) -> Interrupt {
        let what =
            "a call of the transaction has panicked, or failed after it rolled back earlier ones; it was rolled back";
        match self.this.half_done && !planted!("panicked_call_repeated") {
            true => Interrupt::failed(Error::Misuse(what)),
            false => Interrupt::CONFLICT,
        }
    }

    fn try_commit(&mut self, mode: Commit) -> Result<Committed, Interrupt> {
        if self.shared.clock.is_forked() {
            // The latches of the log may be held by threads that only the parent has (E1.9d).
            self.shared.clock.running().map_err(|stopped| Interrupt::failed(stopped.into()))?;
        }
        match self.shared.clock.log() {
            None => self.commit_volatile(),
            Some(log) => self.commit_logged(log, mode),
        }
    }

    fn commit_volatile(&mut self) -> Result<Committed, Interrupt> {
        self.lock_writes()?;
        self.merge_partial_words();
        let crate::clock::Clock::Own(counter) = &self.shared.clock else { unreachable!("it has no log") };
        let version = counter.draw();
        if !self.decide(version) {
            return Err(Interrupt::CONFLICT);
        }
        self.publish(version);
        Ok(Committed { up_to: Lsn::new(version), position: None })
    }

    fn commit_logged(&mut self, log: &Log, mode: Commit) -> Result<Committed, Interrupt> {
        let head = self.head_of_pairs();
        match head {
            Some(_) => {
                let body = ByteLen(redo::pairs_len(self.this.writes.all().len()) as u64);
                self.reserve(log, record_len_bound(body).0)?;
                self.prepare_unencoded()?;
            }
            None => self.reserve_and_prepare(log)?,
        }
        let flagged = mode == Commit::Partition && self.may_go_alone(log);
        let slot = self.slot();
        // The snapshot suffices, although newer LSNs were drawn since: it saves loading a line that every thread writes.
        slot.commits_after(self.this.snapshot);
        let appended = match head {
            Some(head) => self.append_pairs(log, flagged, head),
            None => self.append(log, flagged),
        };
        match appended {
            Some((lsn, position)) => {
                if flagged {
                    self.shared.flagged.push(self.this.partition, lsn, log.durable_lsn());
                }
                self.publish(lsn.get());
                slot.committed();
                Ok(Committed { up_to: lsn, position: flagged.then_some(position) })
            }
            None => {
                slot.committed();
                self.shared.counters.void_records.fetch_add(1, Ordering::Relaxed);
                Err(Interrupt::CONFLICT)
            }
        }
    }

    #[inline(never)]
    fn reserve_and_prepare(&mut self, log: &Log) -> Result<(), Interrupt> {
        let part_len_max = log.body_len_max();
        self.reserve(log, self.log_space_wanted(part_len_max))?;
        self.prepare(part_len_max)
    }

    /// Returns the beginning of the commit record's body if that is nothing but pairs of one heap: the log then encodes them.
    #[inline]
    fn head_of_pairs(&self) -> Option<[u8; 4]> {
        let this = &*self.this;
        match &this.heaps[..] {
            // What is written to is remembered, and so all of it is written to this heap.
            [only] if this.blocks.is_empty() => redo::pairs_head(this.writes.all(), only.words()),
            _ => None,
        }
    }

    /// Locks the written stripes and validates the reads, for a commit whose writes the log encodes.
    #[inline(always)]
    fn prepare_unencoded(&mut self) -> Result<(), Interrupt> {
        self.lock_writes()?;
        self.merge_partial_words();
        self.check_reads()
    }

    /// Locks the written stripes, validates the reads, and encodes the writes for the log.
    #[inline(never)]
    pub(crate) fn prepare(&mut self, part_len_max: usize) -> Result<(), Interrupt> {
        if self.this.interrupted {
            return Err(self.why_interrupted());
        }
        // Before the locks, if possible: they are held for less time, and the encoded bytes have left the processor's store
        // buffer when the log computes their checksum.
        let whole = !self.this.writes.has_partial();
        if whole {
            self.encode(part_len_max);
        }
        self.lock_writes()?;
        if !whole {
            self.merge_partial_words();
            self.encode(part_len_max);
        }
        self.check_reads()
    }

    #[inline(always)]
    fn check_reads(&self) -> Result<(), Interrupt> {
        let unread = self.this.reads.is_empty();
        if !unread && self.shared.clock.now() != self.this.snapshot && !self.looks_current() {
            return Err(Interrupt::CONFLICT);
        }
        Ok(())
    }

    /// Validates before the draw: this keeps void records rare, and nothing depends on it.
    fn looks_current(&self) -> bool {
        #[cfg(feature = "planted-faults")]
        if self.shared.options.fault == Some(crate::Fault::SkipValidation) {
            return true;
        }
        self.reads_hold()
    }

    /// Returns the upper bound of the log space that the commit takes.
    #[inline]
    pub(crate) fn log_space_wanted(&self, part_len_max: usize) -> u64 {
        let writes = self.this.writes.all().len() as u64 * (WORD_LEN + crate::redo::RUN_HEAD_MAX as u64);
        let blocks: u64 = self.this.blocks.iter().map(|change| change.logged_len()).sum();
        let body = writes + blocks;
        // Each part has a frame of its own, as have the commit record and the end record of a transaction that is rolled
        // back.
        let part = part_len_max as u64 / 2;
        let records = if body < part { 3 } else { body / part + 3 };
        body + records * record_len_bound(ByteLen(64)).0
    }

    /// Reserves the log space that the commit takes if nothing more is written before; the transaction continues after an error.
    pub(crate) fn reserve_for_commit(&mut self) -> Result<(), Interrupt> {
        let Some(log) = self.shared.clock.log() else { return Ok(()) };
        self.reserve(log, self.log_space_wanted(log.body_len_max()))
    }

    /// Reserves log space, before anything is locked: it may wait for the disk, even for a checkpoint.
    #[inline]
    fn reserve(&mut self, log: &Log, wanted: u64) -> Result<(), Interrupt> {
        let has = self.this.room.as_ref().map_or(0, |room| room.forward().0);
        if log.needs_longer_segments(ByteLen(wanted), ByteLen(0)) && !planted!("long_words_reserved_in_pieces") {
            return self.reserve_slowly(log, wanted); // as a whole, however much there is
        }
        if has < wanted { self.reserve_slowly(log, wanted - has) } else { Ok(()) }
    }

    #[cold]
    fn reserve_slowly(&mut self, log: &Log, missing: u64) -> Result<(), Interrupt> {
        log.throttle(self.this.partition).map_err(Error::from)?;
        self.shared.log_taken(missing.max(RESERVATION_PIECE));
        self.this.keeps_reservation = log.has_room_to_spare();
        let piece = if self.this.keeps_reservation { RESERVATION_PIECE } else { 0 };
        for asked in [missing.max(piece), missing] {
            match self.try_reserve(log, asked) {
                Err(Error::LogFull(full)) if full != LogFull::ReadOnly => {}
                reserved => return Ok(reserved?),
            }
        }
        // Other waiting commits may take the space that a checkpoint has freed.
        for _ in 0..RESERVATION_ATTEMPTS {
            self.shared.free_log_space();
            if self.try_reserve(log, missing).is_ok() {
                return Ok(());
            }
        }
        Ok(self.try_reserve(log, missing)?)
    }

    fn try_reserve(&mut self, log: &Log, bytes: u64) -> Result<(), Error> {
        match &mut self.this.room {
            Some(room) => log.reserve_more(room, ByteLen(bytes), ByteLen(0))?,
            none => *none = Some(Box::new(log.reserve(ByteLen(bytes), ByteLen(0))?)),
        }
        Ok(())
    }

    /// Locks the stripes of everything written, allocated or freed.
    #[inline(always)]
    fn lock_writes(&mut self) -> Result<(), Interrupt> {
        #[cfg(feature = "planted-faults")]
        if self.shared.options.fault == Some(crate::Fault::PublishBeforeLock) {
            self.merge_partial_words();
            self.write_back();
        }
        let mut blocks_left = !self.this.blocks.is_empty();
        if !self.this.encounter {
            let mut from = 0;
            while let Some(met) = self.lock_free_ones(from, &mut blocks_left) {
                // Another transaction holds this stripe, or its word was read and has changed.
                let write = self.this.writes.all()[met];
                self.lock(write.stripe)?;
                if write.read && !self.was_old_when_locked(write.stripe) && !planted!("overtaken_update_commits") {
                    return Err(self.this.conflict());
                }
                from = met + 1;
            }
        }
        if blocks_left {
            self.lock_blocks()?;
        }
        if self.shared.is_unusual() {
            self.look_at_heaps()?;
        }
        Ok(())
    }

    /// Refuses writes to dropped heaps, and loads absent chunks: those of blocks that were filled are loaded already.
    #[cold]
    fn look_at_heaps(&mut self) -> Result<(), Interrupt> {
        if self.shared.has_dropped_heaps() {
            self.refuse_dropped()?;
        }
        if self.shared.has_absent_chunks() {
            let this = &*self.this;
            self.shared.load_for(this.writes.all().iter().map(|write| (this.heap(write.heap), write.word)))?;
        }
        Ok(())
    }

    /// Refuses writes to a heap that was dropped; everything else that this session keeps of it is discarded.
    fn refuse_dropped(&mut self) -> Result<(), Interrupt> {
        let mut heaps = self.this.writes.all().iter().map(|write| write.heap);
        let written = heaps.find(|&heap| self.this.heap(heap).is_dropped());
        match written {
            Some(heap) => {
                let name = self.this.heap(heap).name.clone();
                Err(Interrupt::failed(Error::Unknown { what: "heap", name }))
            }
            None => Ok(()),
        }
    }

    /// Fills the unwritten bytes of partly written words from memory: the words are locked, so no other transaction changes
    /// them.
    #[inline]
    fn merge_partial_words(&mut self) {
        if self.this.writes.has_partial() {
            self.merge_slowly();
        }
    }

    #[cold]
    fn merge_slowly(&mut self) {
        let this = &mut *self.this;
        for write in this.writes.all_mut() {
            let core = this.heaps.iter().find(|core| core.number == write.heap).expect("it is remembered");
            let now = core.region.words()[write.word as usize].load(Ordering::Relaxed);
            write.value = write.bytes.merge(now, write.value);
            write.bytes = Bytes::ALL;
        }
    }

    /// Returns whether the transaction may commit at this version: nothing that it has read has changed.
    #[inline(always)]
    pub(crate) fn decide(&self, version: u64) -> bool {
        #[cfg(feature = "planted-faults")]
        if matches!(self.shared.options.fault, Some(crate::Fault::SkipValidation | crate::Fault::ValidateBeforeDraw)) {
            return true;
        }
        // No other transaction has drawn an LSN in between, so none has changed anything.
        version == self.this.snapshot + 1 || planted!("reads_not_validated") || self.reads_hold()
    }

    /// Encodes the writes for the log, in parts that fit into records.
    #[inline]
    fn encode(&mut self, part_len_max: usize) {
        let this = &mut *self.this;
        this.redo.begin(part_len_max);
        if this.blocks.is_empty() && this.redo.pairs_alone(this.writes.all()) {
            return;
        }
        for change in &this.blocks {
            let core = this.heaps.iter().find(|core| core.number == change.heap).expect("it is remembered");
            change.log(core, &mut this.redo);
        }
        this.redo.writes(this.writes.all());
    }

    /// Appends the commit record of words of one heap. Returns as [`Tx::append`] does.
    #[inline(always)]
    fn append_pairs(&mut self, log: &Log, flagged: bool, head: [u8; 4]) -> Option<(Lsn, Position)> {
        let partition = self.this.partition;
        let mut room = self.this.room.take().expect("room was reserved");
        let body = Pairs { head, from: self.this.writes.all(), pair: redo::pair };
        let head = RecordHead { kind: Kind::COMMIT, txn: TxnId::NONE, previous: None, partition_commit: flagged };
        let decided = log.append_pairs_deciding(partition, head, body, &mut room, |lsn| self.decide(lsn.get()));
        self.this.room = Some(room);
        self.give_up_reservation();
        let position = Position { partition, offset: decided.appended.offset };
        decided.kept.then_some((decided.appended.lsn, position))
    }

    /// Appends the parts and the commit record. Returns `None` if a word that was read has changed: the LSN then went to a
    /// void record.
    #[inline(never)]
    fn append(&mut self, log: &Log, flagged: bool) -> Option<(Lsn, Position)> {
        let partition = self.this.partition;
        let mut room = self.this.room.take().expect("room was reserved");
        let (txn, previous) =
            if self.this.redo.parts() > 1 { self.append_parts(log, &mut room, flagged) } else { (TxnId::NONE, None) };
        let head = RecordHead { kind: Kind::COMMIT, txn, previous, partition_commit: flagged };
        let body: &[&[u8]] = &[self.this.redo.last_part()];
        let decided = log.append_deciding(partition, head, body, &mut room, |lsn| self.decide(lsn.get()));
        if !decided.kept && txn != TxnId::NONE {
            let end = RecordHead::new(Kind::ROLLBACK_END, txn, previous);
            log.append(partition, end, &[], &mut room);
        }
        self.this.room = Some(room);
        self.give_up_reservation();
        let position = Position { partition, offset: decided.appended.offset };
        decided.kept.then_some((decided.appended.lsn, position))
    }

    /// Releases log space that other sessions may need: the rest of a large commit, and all of it if the log is short of space.
    /// A session that commits no more would keep it as long as it lives.
    #[inline]
    pub(crate) fn give_up_reservation(&mut self) {
        let keeps = self.this.keeps_reservation;
        self.this.room.take_if(|room| !keeps || room.forward().0 > RESERVATION_KEPT);
    }

    #[cold]
    fn append_parts(&self, log: &Log, room: &mut cedrat_wal::Reservation, flagged: bool) -> (TxnId, Option<LogOffset>) {
        let txn = TxnId(self.shared.next_txn.fetch_add(1, Ordering::Relaxed));
        let mut previous = None;
        for part in self.this.redo.all_but_last() {
            let head = RecordHead { kind: HEAP_PART, txn, previous, partition_commit: flagged };
            previous = Some(log.append(self.this.partition, head, &[part], room).offset);
        }
        (txn, previous)
    }

    /// Writes back and releases the locks: from here on the commit is visible to all transactions.
    #[inline]
    pub(crate) fn publish(&mut self, version: u64) {
        #[cfg(feature = "planted-faults")]
        if self.shared.options.fault == Some(crate::Fault::PublishBeforeLock) {
            return self.let_go(version);
        }
        #[cfg(feature = "counts")]
        self.slot().count_commit();
        self.write_back();
        self.let_go(version);
    }

    #[inline(always)]
    fn write_back(&self) {
        let this = &*self.this;
        match &this.heaps[..] {
            // One heap: the address of its words is looked up once, not for each.
            [only] => only.write_back(this.writes.all()),
            _ => this.writes.all().chunk_by(|one, next| one.heap == next.heap).for_each(|of_heap| {
                this.heap(of_heap[0].heap).write_back(of_heap);
            }),
        }
        for change in &this.blocks {
            change.mark_changed(this.heap(change.heap));
        }
    }

    #[inline]
    fn let_go(&mut self, version: u64) {
        let (locks, version_now) = (self.shared.stripes.locks(), Look::version(version));
        for &(stripe, _) in &*self.this.locked {
            locks.let_go(stripe, version_now);
        }
        if !self.this.blocks.is_empty() {
            self.settle_blocks(version);
        }
        self.forget();
        self.shared.wake_waiting();
    }

    /// Returns whether a `Partition` commit may be replayed although other partitions lose commits: everything that it read
    /// or overwrote is durable, or a `Partition` commit of the same partition (E8.5).
    fn may_go_alone(&self, log: &Log) -> bool {
        #[cfg(feature = "planted-faults")]
        if self.shared.options.fault == Some(crate::Fault::AloneWhateverItRead) {
            return true;
        }
        if planted!("dependent_commit_alone") {
            return true;
        }
        let durable = log.durable_lsn();
        let partition = self.this.partition;
        let alone = |version: u64| version <= durable.get() || self.shared.flagged.has(partition, Lsn::new(version));
        let own = Look::owned_by(self.this.number);
        let reads = self.this.reads.iter().map(|&stripe| self.shared.stripes.look(stripe));
        // A stripe locked by another transaction has no version: it may be any. For its own stripes the list of locks has
        // the version.
        let read_alone = |look: Look| look.free_version().map_or(look == own, alone);
        let mut locked = self.this.locked.iter().filter_map(|(_, before)| before.free_version());
        let all = reads.into_iter().all(read_alone) && locked.all(alone);
        if !all {
            self.shared.counters.partition_commits_made_sync.fetch_add(1, Ordering::Relaxed);
        }
        all
    }
}

/// `Partition` commits that are not known to be durable in all partitions, by partition.
#[derive(Debug)]
pub(crate) struct Flagged(Vec<cedrat_sync::Mutex<std::collections::VecDeque<Lsn>>>);

impl Flagged {
    pub(crate) fn new(partitions: u16) -> Flagged {
        Flagged((0..partitions).map(|_| cedrat_sync::Mutex::default()).collect())
    }

    fn push(&self, partition: PartitionId, lsn: Lsn, durable: Lsn) {
        let mut flagged = self.0[usize::from(partition.0)].lock();
        while flagged.front().is_some_and(|&oldest| oldest <= durable) {
            flagged.pop_front();
        }
        // Sessions of one partition may arrive in another order than their records.
        let at = flagged.partition_point(|&other| other < lsn);
        flagged.insert(at, lsn);
    }

    fn has(&self, partition: PartitionId, lsn: Lsn) -> bool {
        self.0[usize::from(partition.0)].lock().binary_search(&lsn).is_ok()
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::joined::Joined;
    use crate::load::FoundHeaps;
    use crate::{Counted, Heap, HeapOptions, Locking, Memory, MemoryOptions};
    use cedrat_media::{Loss, Media, SimDisk};
    use cedrat_sync::atomic::{AtomicBool, AtomicU64};
    use cedrat_sync::{Arc, thread};
    use cedrat_wal::LogOptions;

    /// Words in different stripes.
    const READ: u64 = 0;
    const WRITTEN: u64 = 2048;
    const UNRELATED: u64 = 4096;

    fn open(media: &Arc<dyn Media>, log: Log) -> Memory {
        let found =
            FoundHeaps::load(media, log.control().store, &MemoryOptions::small(), 0, 0).expect("it makes sense");
        found.open(log, Arc::new(AtomicU64::new(1))).expect("it opens")
    }

    fn logged() -> (Arc<dyn Media>, Memory, Heap) {
        logged_on(Arc::new(SimDisk::new()))
    }

    fn logged_on(media: Arc<dyn Media>) -> (Arc<dyn Media>, Memory, Heap) {
        let options = LogOptions { partitions: 2, ..LogOptions::small() };
        let memory = open(&media, Log::create(&media, &options, &[]).expect("a log is created"));
        let heap = memory.create_heap("heap", &HeapOptions::raw(64 << 10)).expect("a heap");
        (media, memory, heap)
    }

    fn void_records_in(log: &Log) -> u64 {
        log.force(Lsn::MAX).expect("the log runs");
        let mut scan = log.scan(Lsn::ZERO).expect("it can be read");
        let mut count = 0;
        while let Some(found) = scan.next().expect("it can be read") {
            count += u64::from(found.record.head.kind == Kind::VOID);
        }
        count
    }

    /// Runs a commit that has validated its reads and waits for the latch of its partition's tail; then another transaction
    /// changes one of them. Returns the counters, and whether the commit was recoverable alone in the end.
    fn overtaken(mode: Commit) -> (Counted, bool) {
        let (media, memory, heap) = logged();
        let log = memory.log().expect("it is logged").clone();
        let shared = memory.shared();
        let (mut slow, mut quick) = (memory.session().expect("a seat"), memory.session().expect("a seat"));
        let mut room = log.reserve(ByteLen(1000), ByteLen(0)).expect("there is room");
        let has_read = AtomicBool::new(false);
        let mut attempts = 0;
        let done = thread::scope(|scope| {
            let mut running = None;
            let head = RecordHead::new(Kind::USER, TxnId::NONE, None);
            // The first session is in the first partition, whose latch is held while this one decides.
            log.append_deciding(PartitionId(0), head, &[b"x"], &mut room, |_| {
                let (slow, heap, has_read, attempts) = (&mut slow, &heap, &has_read, &mut attempts);
                running = Some(scope.spawn(move || {
                    slow.run(mode, |tx| {
                        *attempts += 1;
                        let value = tx.read(heap, READ)?;
                        has_read.store(true, Ordering::Release);
                        tx.write(heap, WRITTEN, value + 1)
                    })
                }));
                let runs = || running.as_ref().is_some_and(|thread| !thread.is_finished());
                while runs() && !has_read.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                // The clock advances, so that a commit in progress shows in the LSN that is known to be written back.
                quick.run(Commit::Async, |tx| tx.write(heap, UNRELATED, 1)).expect("room");
                let clock = shared.clock.now();
                while runs() && shared.slots.written_back(clock) == clock {
                    thread::yield_now();
                }
                quick.run(Commit::Async, |tx| tx.write(heap, READ, 7)).expect("room");
                true
            });
            running.expect("it was started").join().expect("no panic").expect("it is run again")
        });
        assert_eq!(attempts, 2);
        assert_eq!(heap.atomically(|tx| tx.read(&heap, WRITTEN)).expect("reading"), 8, "E2.3");
        let counted = memory.counted();
        assert_eq!(counted.void_records, void_records_in(&log), "E2.2");
        drop((slow, quick, heap, memory, log));
        let found = Log::look(&media).expect("it can be read");
        let again = open(&media, found.begin(&[], &LogOptions::small()).expect("it opens"));
        assert_eq!(again.counted().void_records, 0, "those of an earlier opening are not counted");
        (counted, done.alone.is_some())
    }

    #[test]
    fn overtaken_commit_counts_as_void() {
        let (counted, _) = overtaken(Commit::Async);
        assert_eq!((counted.void_records, counted.conflicts, counted.partition_commits_made_sync), (1, 1, 0));
        // Run again, it reads a word that another partition may lose.
        let (counted, alone) = overtaken(Commit::Partition);
        assert_eq!((counted.void_records, counted.conflicts, counted.partition_commits_made_sync), (1, 1, 1));
        assert!(!alone, "E8.5");
    }

    #[test]
    fn commits_in_order_count_no_voids() {
        let (_media, memory, heap) = logged();
        let mut sessions = [memory.session().expect("a seat"), memory.session().expect("a seat")];
        for (at, session) in (0..).zip(&mut sessions) {
            for mode in [Commit::Sync, Commit::Partition] {
                let done = session.run(mode, |tx| {
                    let value = tx.read(&heap, at * 2048)?;
                    tx.write(&heap, at * 2048, value + 1)
                });
                assert_eq!(done.expect("room").alone.is_some(), mode == Commit::Partition);
            }
        }
        let given_up = sessions[0].run(Commit::Sync, |tx| -> Result<(), Interrupt> {
            tx.write(&heap, READ, 1)?;
            Err(Interrupt::abort("not today"))
        });
        assert!(matches!(given_up, Err(Error::Aborted(_))), "{given_up:?}");
        let counted = memory.counted();
        assert_eq!((counted.void_records, counted.conflicts, counted.partition_commits_made_sync), (0, 0, 0));
        assert_eq!(void_records_in(memory.log().expect("it is logged")), 0);
    }

    /// In a transaction over heaps and pages the store draws the LSN.
    #[test]
    fn overtaken_joined_commit_counts_as_void() {
        let (_media, memory, heap) = logged();
        let log = memory.log().expect("it is logged");
        let mut joined = Joined::begin(&memory).expect("a seat");
        let work = joined.run(|tx| {
            let value = tx.read(&heap, READ)?;
            tx.write(&heap, WRITTEN, value + 1)
        });
        work.expect("no other transaction writes");
        let mut room = log.reserve(ByteLen(joined.log_wanted(log.body_len_max())), ByteLen(0)).expect("there is room");
        joined.prepare(log.body_len_max()).expect("no other transaction writes");
        memory.run(Commit::Async, |tx| tx.write(&heap, READ, 7)).expect("room");
        let (head, body) = (RecordHead::new(Kind::COMMIT, TxnId(1), None), joined.last_part().to_vec());
        let decided = log.append_deciding(PartitionId(0), head, &[&body], &mut room, |lsn| joined.validate(lsn));
        assert!(!decided.kept, "E2.3");
        drop(joined);
        assert_eq!(memory.counted().void_records, void_records_in(log), "E2.2");
        assert_eq!(memory.counted().void_records, 1);
    }

    /// Also where the memory's option is to lock at the first write.
    #[test]
    fn joined_transaction_locks_nothing_before_its_commit() {
        let options = MemoryOptions { locking: Locking::EncounterTime, ..MemoryOptions::small() };
        let memory = Memory::volatile(options).expect("memory");
        let heap = memory.create_heap("heap", &HeapOptions::raw(64 << 10)).expect("a heap");
        let mut joined = Joined::begin(&memory).expect("a seat");
        joined.run(|tx| tx.write(&heap, WRITTEN, 1)).expect("no other transaction writes");
        assert!(joined.tx().this.locked.is_empty(), "E10.4");
    }

    /// A commit that may have drawn its LSN, and has not written back its words.
    #[test]
    fn redo_lsn_precedes_unfinished_write_back() {
        let (_media, memory, heap) = logged();
        let shared = memory.shared();
        let known = shared.clock.now();
        let seat = shared.slots.take().expect("a seat");
        shared.slots.slot(seat).commits_after(known);
        memory.run(Commit::Sync, |tx| tx.write(&heap, WRITTEN, 7)).expect("room");
        let taken = memory.checkpoint().expect("the disk works");
        shared.slots.slot(seat).committed();
        assert!(taken.redo_from <= Lsn::new(known), "E4.1: {} after {known}", taken.redo_from);
    }

    /// Wherever the power fails during a checkpoint, the root names copies that are whole.
    #[test]
    fn crash_within_checkpoint_leaves_whole_copies() {
        let disk = Arc::new(SimDisk::new());
        let (_media, memory, heap) = logged_on(Arc::clone(&disk) as _);
        memory.run(Commit::Sync, |tx| tx.write(&heap, WRITTEN, 7)).expect("room");
        let from = disk.journal_len();
        memory.checkpoint().expect("the disk works");
        let journal = disk.journal();
        for at in from..=journal.len() {
            let crashed: Arc<dyn Media> = Arc::new(journal.crash(at, Loss::Everything));
            let store = Log::look(&crashed).expect("it can be read").control().store;
            let loaded = FoundHeaps::load(&crashed, store, &MemoryOptions::small(), 0, 0);
            assert!(loaded.is_ok(), "E4.3: crash at {at}: {:?}", loaded.err());
        }
    }

    /// A checkpoint with words of a commit that is not durable counts only once that commit is.
    #[test]
    fn checkpoint_waits_for_commits_it_has_copied() {
        let (_media, memory, heap) = logged();
        let log = memory.log().expect("it is logged").clone();
        memory.run(Commit::Async, |tx| tx.write(&heap, WRITTEN, 7)).expect("room");
        let commit = log.current_lsn();
        assert!(log.durable_lsn() < commit);
        memory.checkpoint().expect("the disk works");
        assert!(log.durable_lsn() >= commit, "E4.2");
    }

    /// Copies go to two files in turn: a chunk changed by a commit is copied again into each.
    #[test]
    fn changed_chunk_is_copied_by_each_checkpoint() {
        let (_media, memory, heap) = logged();
        for round in 1..=4 {
            memory.run(Commit::Sync, |tx| tx.write(&heap, WRITTEN, round)).expect("room");
            assert_eq!(memory.checkpoint().expect("the disk works").chunks, 1, "E4.4: checkpoint {round}");
            assert_eq!(memory.checkpoint().expect("the disk works").chunks, 0, "nothing has changed");
        }
    }

    /// All flags of a heap are set; then it grows.
    #[test]
    fn changed_chunk_of_grown_heap_is_copied() {
        const LEN: u64 = 4096;
        let (_media, memory, _) = logged();
        let options = HeapOptions { size_max: 2 * LEN, chunk_len: LEN, ..HeapOptions::raw(LEN) };
        let heap = memory.create_heap("growing", &options).expect("a heap");
        let write = |offset| memory.run(Commit::Sync, |tx| tx.write(&heap, offset, 7)).expect("room");
        write(0);
        heap.grow(2 * LEN).expect("it may be as large");
        write(LEN);
        assert_eq!(memory.checkpoint().expect("the disk works").chunks, 2, "E4.4");
    }

    #[test]
    fn words_lie_in_no_page_file() {
        let (media, memory, heap) = logged();
        memory.run(Commit::Sync, |tx| tx.write(&heap, WRITTEN, 7)).expect("room");
        memory.checkpoint().expect("the disk works");
        let names = media.list("").expect("it has a directory");
        assert!(!names.contains(&"pages".to_string()), "E7.4: {names:?}");
    }
}
