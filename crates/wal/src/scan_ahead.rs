//! Scans of which another thread reads and verifies the records, while the caller works with earlier ones.
//!
//! To decode a record and to compute its checksum takes about as long as analysis of recovery takes with it. The thread passes records
//! in pieces, which share the chunks that were read: no body is copied.

use cedrat_sync::{Arc, Closing, Lane, thread};
use std::ops::Range;

use crate::read::Chunk;
use crate::record::{RecordHead, RecordRef};
use crate::scan::{Scan, Scanned};
use crate::{ByteLen, LogError, Lsn, Position};

/// Number of records of a piece: enough to pay for handing it over, few enough that it is still in a cache when it is taken.
const PIECE_RECORDS: usize = if cfg!(any(test, cedrat_shuttle)) { 3 } else { 2 << 10 };
/// Number of pieces that may wait for the caller.
const LANE_LEN: usize = 4;

/// A scan of which another thread reads the records. Drop ends it.
#[derive(Debug)]
pub struct ScanAhead(Source);

#[derive(Debug)]
enum Source {
    /// Without a thread.
    Here(Box<Scan>),
    There(There),
}

#[derive(Debug)]
struct There {
    lane: Arc<Lane<Piece>>,
    thread: Option<thread::JoinHandle<()>>,
    piece: Piece,
    /// The record of the piece that is next.
    next: usize,
    has_ended: bool,
    bytes: ByteLen,
}

/// Records that follow each other.
#[derive(Debug, Default)]
struct Piece {
    entries: Vec<Entry>,
    chunks: Vec<Arc<Chunk>>,
    /// Bytes of the log that were read before its end.
    read: ByteLen,
    /// The end of the scan, if it is behind these records.
    end: Option<Result<(), LogError>>,
}

#[derive(Debug)]
struct Entry {
    lsn: Lsn,
    position: Position,
    head: RecordHead,
    chunk: usize,
    body: Range<usize>,
}

impl Scan {
    /// Lets another thread read the records, if the system gives one.
    pub fn ahead(self) -> ScanAhead {
        let lane = Arc::new(Lane::<Piece>::new(LANE_LEN));
        let bytes = self.progress().1;
        // The thread may be refused, and then this scan goes on: so it waits for the scan.
        let handed = Arc::new(Lane::<Scan>::new(1));
        let work = {
            let (lane, handed) = (Arc::clone(&lane), Arc::clone(&handed));
            move || {
                // Closed on every exit, panics included: the caller must not wait for a thread that has ended.
                let _closed_at_end = Closing(&lane);
                if let Some(scan) = handed.take() {
                    read(scan, &lane);
                }
            }
        };
        match thread::Builder::new().name("cedrat-log-scan".into()).spawn(work) {
            Ok(thread) => {
                handed.put(self);
                let (piece, next, has_ended) = (Piece::default(), 0, false);
                ScanAhead(Source::There(There { lane, thread: Some(thread), piece, next, has_ended, bytes }))
            }
            Err(_) => self.here(),
        }
    }

    /// Lets the caller's thread read the records.
    pub fn here(self) -> ScanAhead {
        ScanAhead(Source::Here(Box::new(self)))
    }
}

impl ScanAhead {
    /// Returns the next record, as [`Scan::next`] does.
    ///
    /// # Errors
    /// Those of [`Scan::next`], behind all records before it.
    ///
    /// # Panics
    /// With the panic of the thread, if it panicked.
    #[allow(clippy::should_implement_trait)] // it lends
    #[inline]
    pub fn next(&mut self) -> Result<Option<Scanned<'_>>, LogError> {
        match &mut self.0 {
            Source::Here(scan) => scan.next(),
            Source::There(there) => there.next(),
        }
    }

    /// Returns the progress of the scan, as [`Scan::progress`] does.
    pub fn progress(&self) -> (ByteLen, ByteLen) {
        match &self.0 {
            Source::Here(scan) => scan.progress(),
            Source::There(there) => (there.piece.read, there.bytes),
        }
    }
}

impl There {
    #[inline]
    fn next(&mut self) -> Result<Option<Scanned<'_>>, LogError> {
        if self.next == self.piece.entries.len() && !self.take_piece()? {
            return Ok(None);
        }
        let entry = &self.piece.entries[self.next];
        self.next += 1;
        let chunk = &self.piece.chunks[entry.chunk];
        let body = &chunk.bytes()[entry.body.clone()];
        let record = RecordRef { lsn: entry.lsn, position: entry.position, head: entry.head, body };
        Ok(Some(Scanned { record, chunk, body: entry.body.clone() }))
    }

    /// Takes the next piece that has records; `false` at the end.
    fn take_piece(&mut self) -> Result<bool, LogError> {
        while !self.has_ended {
            if let Some(end) = self.piece.end.take() {
                self.has_ended = true;
                return end.map(|()| false);
            }
            match self.lane.take() {
                Some(piece) => (self.piece, self.next) = (piece, 0),
                None => {
                    self.has_ended = true;
                    match self.thread.take().map(thread::JoinHandle::join) {
                        Some(Err(panic)) => std::panic::resume_unwind(panic),
                        _ => unreachable!("a thread that does not panic passes the end of its scan"),
                    }
                }
            }
            if !self.piece.entries.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for There {
    fn drop(&mut self) {
        self.lane.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic concerns records that no caller asked for
        }
    }
}

/// Passes all records to the lane, and the end of the scan.
fn read(mut scan: Scan, lane: &Lane<Piece>) {
    let mut has_ended = false;
    while !has_ended && !lane.is_closed() {
        let mut piece = Piece { entries: Vec::with_capacity(PIECE_RECORDS), ..Piece::default() };
        while piece.entries.len() < PIECE_RECORDS && !has_ended {
            match scan.next() {
                Ok(Some(scanned)) => piece.push(&scanned),
                end => {
                    piece.end = Some(end.map(drop));
                    has_ended = true;
                }
            }
        }
        piece.read = scan.progress().0;
        lane.put(piece);
    }
}

impl Piece {
    #[inline]
    fn push(&mut self, scanned: &Scanned<'_>) {
        // The chunks of the partitions alternate; there are few of them.
        let known = self.chunks.iter().rposition(|chunk| Arc::ptr_eq(chunk, scanned.chunk));
        let chunk = known.unwrap_or_else(|| {
            self.chunks.push(Arc::clone(scanned.chunk));
            self.chunks.len() - 1
        });
        let RecordRef { lsn, position, head, .. } = scanned.record;
        self.entries.push(Entry { lsn, position, head, chunk, body: scanned.body.clone() });
    }
}

#[cfg(all(test, not(cedrat_shuttle)))] // a panic ends a schedule
mod tests {
    use cedrat_media::{Call, Damage, Fault, Media, SimDisk};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::filled::filled;
    use crate::{Found, Log};

    const RECORDS: u64 = 3000;

    fn look(disk: &Arc<SimDisk>) -> Found {
        let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
        Log::look(&media).expect("it is sound")
    }

    /// Returns all records, with their bodies by both ways, and the error behind them.
    fn all(mut scan: ScanAhead) -> (Vec<crate::Record>, Option<String>) {
        let mut records = Vec::new();
        loop {
            match scan.next() {
                Ok(Some(scanned)) => {
                    assert_eq!(scanned.record.body, scanned.chunk.body(scanned.body.clone()));
                    records.push(scanned.record.to_record());
                }
                Ok(None) => {
                    let (done, of) = scan.progress();
                    assert_eq!(done, of);
                    assert!(scan.next().expect("it has ended").is_none());
                    return (records, None);
                }
                Err(error) => {
                    assert!(scan.next().expect("it has ended").is_none());
                    return (records, Some(error.to_string()));
                }
            }
        }
    }

    /// W3: the thread returns what the scan returns, its error included.
    #[test]
    fn scan_ahead_returns_the_same_records() {
        let (_, disk) = filled(RECORDS);
        let found = look(&disk);
        let both = || {
            [false, true].map(|is_ahead| {
                let scan = found.scan(Lsn::ZERO).expect("the first blocks are sound");
                all(if is_ahead { scan.ahead() } else { scan.here() })
            })
        };
        let [here, ahead] = both();
        assert_eq!((here.0.len() as u64, &here.1), (RECORDS, &None));
        assert_eq!(here, ahead, "W3");

        let middle = here.0[2000].position;
        let (file, offset) = found.place(middle);
        disk.corrupt(&file, offset + 6, Damage::Flip { bit: 3 }).expect("it is there");
        let [here, ahead] = both();
        assert!(here.1.as_ref().is_some_and(|error| error.contains(&file)), "{:?}", here.1);
        assert_eq!(here, ahead, "W3");
    }

    #[test]
    fn dropped_scan_ends_its_thread() {
        let (_, disk) = filled(RECORDS);
        for records in [0, 1, 7, 400] {
            let mut scan = look(&disk).scan(Lsn::ZERO).expect("it is sound").ahead();
            for _ in 0..records {
                assert!(scan.next().expect("it is sound").is_some());
            }
        }
    }

    #[test]
    fn panic_of_scanning_thread_propagates() {
        let (_, disk) = filled(RECORDS);
        let mut scan = look(&disk).scan(Lsn::ZERO).expect("it is sound").ahead();
        assert!(scan.next().expect("it is sound").is_some());
        disk.inject(Fault::panic(Call::Read));
        let panicked = catch_unwind(AssertUnwindSafe(|| while scan.next().expect("no error").is_some() {}));
        assert!(panicked.is_err(), "its records are not the whole log");
    }
}
