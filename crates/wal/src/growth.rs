//! Growth of the log: more segment files, and longer ones; and fewer, after a load that needed many.
//!
//! The first segment files of a log are short. Once a log is as large as twice as many of them as it needs at least,
//! new ones are twice as long, up to the length of a segment. A record that is longer than an eighth of a file needs longer
//! ones at once.
//!
//! No free file is shorter than a new one, so a reservation can count on each of them: before new ones become longer, the
//! free ones do (E16.1). A file that is shorter and comes back is filled again before it counts.

use cedrat_sync::planted;
use std::convert::identity;
use std::io;

use crate::error::{LogFull, StopReason};
use crate::log::Shared;
use crate::reservation::Reservation;
use crate::segment::Slot;
use crate::space::Space;

/// The part of the spare segment files that a truncation removes: one that is needed again soon costs the writes that fill it.
const TRIMMED_PART: u64 = 4;

impl Shared {
    /// Removes some of the segment files of which `spare` were not needed lately, as far as no reservation needs them (E16.11).
    pub(crate) fn trim(&self, spare: u64) {
        let trimmed = (0..spare.div_ceil(TRIMMED_PART)).take_while(|_| self.pool.retire(&self.space)).count();
        if trimmed > 0 {
            // A file that cannot be removed is filled again when the log needs one. After its end the opening removes none (E1.8).
            let _ = self.reader.opening.change(identity, || {
                self.pool.remove_all_short(&*self.media);
                Ok::<(), io::Error>(())
            });
        }
    }

    /// Prepares segments until the reservation can be granted, or returns the reason why it cannot.
    #[cold]
    pub(crate) fn make_space(&self, reservation: &mut Reservation, forward: u64, undo: u64) -> Result<(), LogFull> {
        if self.space.needs_longer_segments(forward, undo) {
            self.check_running()?;
            let len = self.reader.geometry.longer(self.pool.len(), forward.max(undo));
            match self.lengthen_segments(len, true) {
                Ok(true) => {}
                Ok(false) => return Err(self.is_at_limit(forward, undo)),
                Err(error) => return Err(self.why_not_prepared(error)),
            }
        }
        let mut may_be_longer = true;
        loop {
            // One at a time: the segments that one thread prepares may be enough for all that wait here, and the limit is
            // kept.
            let alone = self.space.growing.lock();
            self.check_running()?;
            if reservation.try_grow(forward, undo) {
                return Ok(());
            }
            // A thread that begins a segment ahead holds the control file when it locks the mutex.
            if may_be_longer && self.space.has_many_segments() {
                drop(alone);
                may_be_longer = self.double_segments();
                continue;
            }
            if !self.space.may_grow() {
                drop(alone);
                return Err(self.is_at_limit(forward, undo));
            }
            if let Err(error) = self.prepare_segment(0, Space::may_grow) {
                return Err(self.why_not_prepared(error));
            }
        }
    }

    fn is_at_limit(&self, forward: u64, undo: u64) -> LogFull {
        let kept_from = self.control.lock().control.checkpoint.scan_lsn;
        LogFull::Limit { asked: forward.saturating_add(undo), limit: self.space.bytes_max(), kept_from }
    }

    /// Returns the reason why a segment could not be prepared; stops the log if it is not a lack of space.
    fn why_not_prepared(&self, error: io::Error) -> LogFull {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match error.kind() {
            QuotaExceeded if !planted!("no_descriptor_stops_log") => LogFull::Descriptors { why: error.to_string() },
            StorageFull | FileTooLarge => LogFull::Disk { segment_len: self.pool.len() },
            _ => {
                let reason = StopReason::WriteFailed { file: "a new log segment".into(), source: error };
                self.stop(reason).into()
            }
        }
    }

    /// Makes segments twice as long, and returns whether they are. Nothing depends on it.
    pub(crate) fn double_segments(&self) -> bool {
        let len = (2 * self.pool.len()).min(self.reader.geometry.segment_len);
        // At the limit, longer files that count as short ones are worth more than these.
        let is_needed = self.pool.has_free(len);
        len > self.pool.len() && matches!(self.lengthen_segments(len, is_needed), Ok(true))
    }

    /// Makes all free segment files, and new ones, at least as long as `len`. `Ok(false)`: the limit of the log does not allow
    /// it, even if `is_needed` and the free files that no reservation needs become fewer.
    fn lengthen_segments(&self, len: u64, is_needed: bool) -> io::Result<bool> {
        let _one_at_a_time = self.pool.lengthening.lock();
        if len <= self.pool.len() {
            return Ok(true);
        }
        loop {
            // Each time: files of before are freed meanwhile.
            let missing = self.pool.missing(len);
            if !self.space.has_space_for(missing) {
                if !is_needed || !self.pool.retire(&self.space) {
                    return Ok(false);
                }
                continue;
            }
            let Some(slot) = self.pool.set_len(len, &self.space) else { return Ok(true) };
            let more = len - slot.len();
            let is_late = planted!("growth_counted_afterwards");
            if !is_late && !self.space.try_claim_bytes(more) {
                continue; // another thread has begun a new file meanwhile
            }
            let made = self.make_longer(&slot, len, missing.saturating_sub(more));
            if is_late {
                self.space.claim_bytes(more);
            }
            if !matches!(made, Ok(true)) {
                self.space.release_bytes(more);
            }
            made?;
        }
    }

    /// Makes a file longer, if it is still free then, whose additional bytes were claimed. Files that do not count are removed so
    /// that others may become longer by `others` bytes.
    fn make_longer(&self, slot: &Slot, len: u64, others: u64) -> io::Result<bool> {
        self.reader.opening.change(identity, || {
            self.pool.remove_short(&*self.media, &self.space, others);
            self.pool.fill_more(&*self.media, slot, len)
        })?;
        // No segment begins meanwhile.
        let _control = self.control.lock();
        self.reader.opening.change(identity, || self.pool.note_longer(&*self.media, slot, len))
    }
}

#[cfg(test)]
mod tests {
    use cedrat_media::{Durability, Loss, Media, SimDisk};
    use cedrat_sync::atomic::{AtomicU64, Ordering};
    use cedrat_sync::{Arc, Mutex, explore, thread};
    use std::io;

    use crate::record_len_bound;
    use crate::sink::{Local, Piece, Sink};
    use crate::space::Space;
    use crate::{ByteLen, Checkpoint, Kind, Log, LogOptions, Lsn, PartitionId, RecordHead, SEGMENT_LEN_MIN, TxnId};

    /// Files become longer while another thread begins segments and a third one frees them. What is durable is found, and no
    /// record lacks its space.
    #[test]
    fn segments_become_longer_in_any_order() {
        explore(5, 300, || {
            let disk = Arc::new(SimDisk::new());
            let media: Arc<dyn Media> = Arc::clone(&disk) as _;
            let options = LogOptions { partitions: 2, segment_len: 4 * SEGMENT_LEN_MIN, ..LogOptions::small() };
            let options = LogOptions { log_bytes_max: 10 * options.segment_len, ..options };
            let log = Log::create(&media, &options, &[]).expect("a log is created");
            let append = |log: &Log, partition: u16, len: usize, records: usize| {
                let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
                let bound = record_len_bound(ByteLen(len as u64));
                for _ in 0..records {
                    let mut room = log.reserve(bound, bound).expect("E16.1: there is space");
                    log.append(PartitionId(partition), head, &[&vec![7; len]], &mut room);
                }
                log.force(Lsn::MAX).expect("the log runs");
            };
            append(&log, 0, 5000, 12);
            let longer = {
                let log = log.clone();
                thread::spawn(move || append(&log, 1, 20_000, 3))
            };
            let freeing = {
                let log = log.clone();
                thread::spawn(move || {
                    let lsn = log.durable_lsn().next();
                    let checkpoint = Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 };
                    log.checkpoint_control(&checkpoint).expect("the log runs");
                    log.truncate(Lsn::MAX);
                    log.begin_ahead().expect("the log runs");
                })
            };
            append(&log, 0, 5000, 12);
            longer.join().expect("no panic");
            freeing.join().expect("no panic");
            assert_eq!(log.space().overdrawn, ByteLen(0), "E16.1");
            assert_eq!(log.space().reserved, ByteLen(0), "E16.1");
            let (end, newest) = (log.durable_lsn(), log.current_lsn());
            assert_eq!(end, newest);
            drop(log);
            let media: Arc<dyn Media> = Arc::new(disk.cut_power(Loss::Everything));
            let found = Log::look(&media).expect("it opens");
            assert_eq!(found.end_lsn(), end.next(), "W4");
            let log = found.begin(&[], &options).expect("it opens");
            append(&log, 0, 20_000, 1);
        });
    }

    /// Returns the number of bytes of the segment files.
    fn files_len(disk: &SimDisk) -> u64 {
        let image = disk.image();
        let files = image.names().filter(|name| name.starts_with("log/"));
        files.map(|name| image.file(name).expect("it has this name").len() as u64).sum()
    }

    fn truncate_all(log: &Log) {
        let lsn = log.durable_lsn().next();
        log.checkpoint_control(&Checkpoint { redo_lsn: lsn, scan_lsn: lsn, next_txn: 1 }).expect("the log runs");
        log.truncate(Lsn::MAX);
    }

    /// After a large load truncations remove files, but none that a reservation counts on; and a steady load none at all (E16.11).
    #[test]
    fn reserved_segments_are_not_trimmed() {
        explore(1, 1, || {
            let disk = Arc::new(SimDisk::new());
            let media: Arc<dyn Media> = Arc::clone(&disk) as _;
            let options = LogOptions { log_bytes_max: 80 * SEGMENT_LEN_MIN, ..LogOptions::small() };
            let log = Log::create(&media, &options, &[]).expect("a log is created");
            let append = |records: usize| {
                let bound = record_len_bound(ByteLen(5000));
                for _ in 0..records {
                    let mut room = log.reserve(bound, bound).expect("E16.1: there is space");
                    let head = RecordHead::new(Kind::COMMIT, TxnId(1), None);
                    log.append(PartitionId(0), head, &[&[7; 5000]], &mut room);
                }
                log.force(Lsn::MAX).expect("the log runs");
            };
            append(400);
            let large = files_len(&disk);
            let reserved = 20 * SEGMENT_LEN_MIN;
            let held = log.reserve(ByteLen(1000), ByteLen(reserved)).expect("there is space");
            (0..30).for_each(|_| truncate_all(&log));
            let space = log.space();
            assert!(space.reserved.0 >= reserved && files_len(&disk) > reserved, "E16.11: {space:?}");
            while log.shared().pool.retire(&log.shared().space) {}
            let space = log.space();
            let free = (space.segments - space.segments_in_use) * SEGMENT_LEN_MIN;
            assert!(free > space.reserved.0, "E16.11: {space:?}");
            drop(held);
            (0..30).for_each(|_| truncate_all(&log));
            let small = files_len(&disk);
            assert!(small < large / 4, "{small} bytes are left of {large}");
            (0..10).for_each(|_| {
                append(40);
                truncate_all(&log);
            });
            let numbers = log.space().segments;
            (0..20).for_each(|_| {
                append(40);
                assert_eq!(log.space().segments, numbers, "E16.11");
                truncate_all(&log);
            });
        });
    }

    /// At the piece after `pieces` others it lets another thread prepare as many segments as the limit allows.
    #[derive(Debug, Default)]
    struct PreparesMore {
        log: Mutex<Option<Log>>,
        pieces: AtomicU64,
    }

    impl Sink for PreparesMore {
        fn stabilise(&self, _piece: Piece<'_>, local: &dyn Local) -> io::Result<()> {
            let is_now = self.pieces.fetch_sub(1, Ordering::Relaxed) == 0;
            let log = if is_now { self.log.lock().take() } else { None };
            let prepare_all = |log: Log| {
                while log.shared().space.may_grow() {
                    log.shared().prepare_segment(0, Space::may_grow).expect("the disk works");
                }
            };
            if let Some(log) = log {
                thread::spawn(move || prepare_all(log)).join().expect("no panic");
            }
            local.write(Durability::Durable)
        }
    }

    /// E16.10b: while files become longer, another thread prepares new ones. Together they keep the limit.
    #[test]
    fn concurrent_growth_keeps_the_limit() {
        for (segments, pieces) in (4..9).flat_map(|segments| (0..8).map(move |pieces| (segments, pieces))) {
            explore(1, 1, move || {
                let disk = Arc::new(SimDisk::new());
                let media: Arc<dyn Media> = Arc::clone(&disk) as _;
                let sink = Arc::new(PreparesMore::default());
                let options = LogOptions { segment_len: 4 * SEGMENT_LEN_MIN, ..LogOptions::small() };
                let options = LogOptions { log_bytes_max: segments * options.segment_len, ..options };
                let log = Log::create(&media, &LogOptions { sink: Arc::clone(&sink) as _, ..options.clone() }, &[]);
                let log = log.expect("a log is created");
                drop(log.reserve(ByteLen(1000), ByteLen(1000)).expect("there is space"));
                sink.pieces.store(pieces, Ordering::Relaxed);
                *sink.log.lock() = Some(log.clone());
                let _ = log.shared().lengthen_segments(options.segment_len, true).expect("the disk works");
                let len = files_len(&disk);
                assert!(len <= options.log_bytes_max, "E16.10b: {len} of {}", options.log_bytes_max);
            });
        }
    }
}
