//! The positions of the records that redo on demand may have to apply, by page.
//!
//! Analysis notes one position for each record and page. The notes of a page are a list from the newest to the oldest; the notes of
//! all pages are in pieces in the order of the log, so that those that the drain has passed are dropped.
//!
//! A read of the log at a position takes some hundred microseconds, and undo and the first transactions need thousands. So the log that
//! analysis has read stays in memory, up to a limit.
//!
//! A few pages have records all over a longer log: space maps, the roots of structures. To read their records by their positions is to
//! read the log again for each. So analysis keeps these records in memory.

use cedrat_pages::PageId;
use cedrat_wal::{LogOffset, Lsn, PartitionId, Position, RecordRef};
use std::collections::HashMap;

use super::kept::Kept;
use crate::locks::Words;

/// Number of notes in a piece: 48 KiB.
const PIECE_NOTES: usize = 1 << 12;

/// Notes have offsets of so many bits: 256 TiB of log.
const OFFSET_BITS: u32 = 48;

/// The number of records from which those of a page are kept that are not retained. To read fewer takes a few milliseconds.
const KEPT_FROM_MIN: u32 = 32;

/// Memory for kept records, in bytes, after which only pages with twice as many records are kept.
const KEPT_STEP: usize = if cfg!(test) { 4 << 10 } else { 4 << 20 };

/// The number of steps, so that at most so many times as much memory is used.
const KEPT_STEPS: usize = 8;

/// Returns the number of records from which those of a page are kept. Pages that have most records in the log reach it first.
fn kept_from(bytes: usize) -> u32 {
    match bytes / KEPT_STEP {
        KEPT_STEPS.. => u32::MAX,
        steps => KEPT_FROM_MIN << steps,
    }
}

/// The records that redo has still to apply, by page.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pages: HashMap<PageId, OfPage, Words>,
    pieces: Vec<Piece>,
    /// Notes that were dropped, from the first one on.
    dropped: usize,
    /// The drain has redone all records before it.
    drained: Lsn,
    /// For each load that reads records, an LSN from which on the log has them.
    reading: Vec<Lsn>,
    /// A record could not be noted, so redo on demand would miss it.
    is_incomplete: bool,
    /// The records of pages with many of them.
    kept: HashMap<PageId, Kept, Words>,
    /// Bytes of memory of these.
    kept_bytes: usize,
}

/// The notes of a page.
#[derive(Clone, Copy, Debug)]
struct OfPage {
    /// The number of the newest note, counted from 1.
    newest: u32,
    newest_lsn: Lsn,
    /// The number of notes.
    records: u32,
    /// Whether the oldest record formats the page, and was not redone yet.
    formats: bool,
}

/// Notes that follow each other in the log.
#[derive(Debug)]
struct Piece {
    /// The LSN of the first one.
    first: Lsn,
    notes: Vec<Note>,
}

/// The position of a record, in two words, and the number of the note before it of the same page; 0 if there is none.
#[derive(Clone, Copy, Debug)]
struct Note {
    low: u32,
    high: u32,
    before: u32,
}

impl Note {
    fn position(self) -> Position {
        let word = u64::from(self.high) << 32 | u64::from(self.low);
        let partition = PartitionId((word >> OFFSET_BITS) as u16);
        Position { partition, offset: LogOffset::new(word & ((1 << OFFSET_BITS) - 1)) }
    }
}

impl Pending {
    /// Notes a change of a page. Records come in the order of the log. One that is retained need not be kept.
    #[inline]
    pub(crate) fn note(&mut self, page: PageId, record: &RecordRef<'_>, formats: bool, is_retained: bool) {
        let (lsn, position) = (record.lsn, record.position);
        let number = (self.pieces.len().saturating_sub(1) * PIECE_NOTES) + self.pieces.last().map_or(0, Piece::len) + 1;
        let offset = position.offset.get();
        let Some(newest) = u32::try_from(number).ok().filter(|_| offset >> OFFSET_BITS == 0) else {
            self.is_incomplete = true;
            return;
        };
        let mut before = 0;
        let of = self.pages.entry(page).or_insert(OfPage { newest, newest_lsn: Lsn::ZERO, records: 0, formats });
        if of.newest_lsn == lsn {
            return; // a further change by the same record
        }
        if of.newest_lsn != Lsn::ZERO {
            before = of.newest;
        }
        (of.newest, of.newest_lsn) = (newest, lsn);
        of.records = of.records.saturating_add(1);
        if of.records > kept_from(self.kept_bytes) && !is_retained {
            let kept = self.kept.entry(page).or_default();
            self.kept_bytes += kept.push(record);
        } else if of.records > KEPT_FROM_MIN
            && let Some(kept) = self.kept.get_mut(&page)
        {
            kept.cut();
        }
        let word = u64::from(position.partition.0) << OFFSET_BITS | offset;
        let note = Note { low: word as u32, high: (word >> 32) as u32, before };
        match self.pieces.last_mut().filter(|piece| piece.len() < PIECE_NOTES) {
            Some(piece) => piece.notes.push(note),
            None => {
                let mut notes = Vec::with_capacity(PIECE_NOTES);
                notes.push(note);
                self.pieces.push(Piece { first: lsn, notes });
            }
        }
    }

    /// Whether every record was noted.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Returns the positions of the records of a page from the oldest on; `None` if the page is not pending. Those that the drain
    /// has redone may be missing.
    pub(crate) fn records_of(&self, page: PageId) -> Option<Vec<Position>> {
        let mut next = self.get(page)?.newest as usize;
        let mut positions = Vec::new();
        while next > self.dropped {
            let at = next - 1;
            let note = self.pieces[at / PIECE_NOTES].notes[at % PIECE_NOTES];
            positions.push(note.position());
            next = note.before as usize;
        }
        positions.reverse();
        Some(positions)
    }

    /// Returns the positions of the records of a page as [`records_of`](Pending::records_of) does, and those of them that are in memory.
    /// Until [`end_read`](Pending::end_read) is called with the LSN that is also returned, the log keeps all of them.
    ///
    /// If the page stays pending, all of its records are read at the next attempt.
    pub(crate) fn begin_read(&mut self, page: PageId) -> Option<(Vec<Position>, Kept, Lsn)> {
        let positions = self.records_of(page)?;
        let from = self.first_noted().unwrap_or(Lsn::MAX);
        self.reading.push(from);
        Some((positions, self.forget_kept(page), from))
    }

    /// Returns the records of a page that were in memory.
    fn forget_kept(&mut self, page: PageId) -> Kept {
        if self.kept.is_empty() {
            return Kept::default();
        }
        let kept = self.kept.remove(&page).unwrap_or_default();
        self.kept_bytes -= kept.memory();
        kept
    }

    /// Ends a read of records that has begun with this LSN.
    pub(crate) fn end_read(&mut self, from: Lsn) {
        if let Some(at) = self.reading.iter().position(|&reading| reading == from) {
            self.reading.swap_remove(at);
        }
    }

    /// Returns the LSN from which on the log has all records that loads read, or may still read.
    pub(crate) fn needs_log_from(&self) -> Option<Lsn> {
        self.reading.iter().copied().chain(self.first_noted()).min()
    }

    /// Returns the LSN of the first note. The drain may have redone its record: notes are dropped in whole pieces.
    fn first_noted(&self) -> Option<Lsn> {
        self.pieces.get(self.dropped / PIECE_NOTES).map(|piece| piece.first)
    }

    pub(crate) fn has(&self, page: PageId) -> bool {
        self.get(page).is_some()
    }

    /// Returns the notes of a page that is pending. Records that do not count may be the newest ones: the drain does not visit the page
    /// for them, which may have been freed and punched after them.
    fn get(&self, page: PageId) -> Option<&OfPage> {
        self.pages.get(&page).filter(|of| of.newest_lsn >= self.drained)
    }

    /// Whether the oldest record of the page formats it, and no record was redone yet.
    pub(crate) fn formats(&self, page: PageId) -> bool {
        self.get(page).is_some_and(|of| of.formats)
    }

    /// Notes that the records of the page before an LSN are redone. Returns whether the page has no other ones, and is not pending
    /// any more.
    pub(crate) fn redone_before(&mut self, page: PageId, lsn: Lsn) -> bool {
        let Some(of) = self.pages.get_mut(&page) else { return true };
        of.formats = false;
        let is_done = of.newest_lsn < lsn;
        if is_done {
            self.redone(page);
        }
        is_done
    }

    /// Notes that all records of the page are redone.
    pub(crate) fn redone(&mut self, page: PageId) {
        self.pages.remove(&page);
        drop(self.forget_kept(page));
    }

    /// Drops the notes of records before an LSN, which are redone, in whole pieces. The first record of the next piece may have its
    /// last note in this one.
    pub(crate) fn drop_before(&mut self, lsn: Lsn) {
        self.drained = self.drained.max(lsn);
        let mut piece = self.dropped / PIECE_NOTES;
        while self.pieces.get(piece + 1).is_some_and(|next| next.first < lsn) {
            self.pieces[piece].notes = Vec::new();
            piece += 1;
        }
        self.dropped = piece * PIECE_NOTES;
    }

    /// Returns the pages that are pending.
    pub(crate) fn pages(&self) -> Vec<PageId> {
        self.pages.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }
}

impl Piece {
    fn len(&self) -> usize {
        self.notes.len()
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;

    use cedrat_wal::{Kind, RecordHead, TxnId};

    fn note(pending: &mut Pending, page: PageId, lsn: u64, position: Position, formats: bool) {
        let head = RecordHead::new(Kind::UPDATE, TxnId(lsn), None);
        pending.note(page, &RecordRef { lsn: Lsn::new(lsn), position, head, body: &lsn.to_le_bytes() }, formats, false);
    }

    fn at(offset: u64) -> Position {
        Position { partition: PartitionId((offset % 3) as u16), offset: LogOffset::new(offset) }
    }

    /// R8: the records of a page are found in the order of the log.
    #[test]
    fn notes_return_records_in_order() {
        let mut pending = Pending::default();
        let pages = [7, 1 << 40, 9].map(PageId::new);
        let page_of = |record: u64| pages[(record * record % 7 % 3) as usize];
        for record in 1..20_000 {
            note(&mut pending, page_of(record), record, at(record << 20), false);
            note(&mut pending, page_of(record), record, at(record << 20), true);
        }
        assert!(pending.is_complete());
        let records = |page, from| -> Vec<Position> {
            (from..20_000).filter(|&record| page_of(record) == page).map(|record| at(record << 20)).collect()
        };
        for page in pages {
            assert_eq!(pending.records_of(page), Some(records(page, 1)), "R8");
            assert!(!pending.formats(page), "the first change of a record decides");
        }
        pending.drop_before(Lsn::new(9000));
        let left = pending.records_of(pages[0]).expect("it is pending");
        assert!(left.ends_with(&records(pages[0], 9000)) && left.len() < records(pages[0], 4000).len());
        assert!(!pending.redone_before(pages[0], Lsn::new(19_990)) && pending.has(pages[0]));
        assert!(pending.redone_before(pages[0], Lsn::new(20_000)) && !pending.has(pages[0]));
        assert_eq!(pending.records_of(pages[0]), None);
    }

    /// R8: a record of two pages, whose notes are in two pieces, is kept for both until it is redone.
    #[test]
    fn record_of_two_pieces_is_kept() {
        let (first, second) = (PageId::new(1), PageId::new(2));
        let newest = PIECE_NOTES as u64;
        let mut pending = Pending::default();
        (1..newest).for_each(|record| note(&mut pending, PageId::new(3), record, at(record), false));
        [first, second].into_iter().for_each(|page| note(&mut pending, page, newest, at(newest), false));
        pending.drop_before(Lsn::new(newest));
        assert_eq!(pending.records_of(first), Some(vec![at(newest)]), "R8");
        assert_eq!(pending.records_of(second), Some(vec![at(newest)]), "R8");
        pending.drop_before(Lsn::new(newest + 1));
        assert_eq!(
            [first, second].map(|page| pending.has(page)),
            [false; 2],
            "its only record does not count, or is redone"
        );
    }

    /// R9c: the log has the records of all notes, and of those that a load reads.
    #[test]
    fn notes_and_reads_keep_the_log() {
        let (page, piece) = (PageId::new(1), PIECE_NOTES as u64);
        let mut pending = Pending::default();
        (1..=3 * piece).for_each(|record| note(&mut pending, page, record, at(record), false));
        let (positions, _, from) = pending.begin_read(page).expect("it is pending");
        assert_eq!((positions.len() as u64, pending.needs_log_from()), (3 * piece, Some(Lsn::new(1))), "R9c");
        pending.drop_before(Lsn::new(2 * piece));
        assert_eq!(pending.needs_log_from(), Some(Lsn::new(1)), "R9c");
        pending.end_read(from);
        assert_eq!(pending.needs_log_from(), Some(Lsn::new(piece + 1)), "R9c");
        assert_eq!(pending.records_of(page).map(|positions| positions[0]), Some(at(piece + 1)), "R9c");
    }

    #[test]
    fn offset_beyond_notes_is_incomplete() {
        let mut pending = Pending::default();
        note(&mut pending, PageId::new(1), 1, at((1 << OFFSET_BITS) - 1), false);
        assert!(pending.is_complete());
        note(&mut pending, PageId::new(1), 2, at(1 << OFFSET_BITS), false);
        assert!(!pending.is_complete(), "R8");
    }

    /// R8c: the kept records of a page follow each other, and the others are found by their positions, also when the drain has passed
    /// some of them; the memory is bounded, and is freed.
    #[test]
    fn records_of_busy_pages_are_kept() {
        let (busy, calm) = (PageId::new(1), [2, 3, 4].map(PageId::new));
        for drained in [0, 1, 5_000, 30_000] {
            let mut pending = Pending::default();
            let page_of = |record: u64| if record.is_multiple_of(4) { calm[(record % 3) as usize] } else { busy };
            (1..40_000).for_each(|record| note(&mut pending, page_of(record), record, at(record), false));
            assert!(pending.kept_bytes <= KEPT_STEPS * KEPT_STEP + 100, "{}", pending.kept_bytes);
            pending.drop_before(Lsn::new(drained));
            for page in [busy, calm[0], calm[1], calm[2]] {
                let all: Vec<_> = (1..40_000).filter(|&record| page_of(record) == page).map(at).collect();
                let (positions, kept, from) = pending.begin_read(page).expect("it is pending");
                pending.end_read(from);
                let (before, after) = kept.split(&positions);
                let in_memory: Vec<_> = kept.records().map(|record| record.position).collect();
                assert!(!in_memory.is_empty(), "page {page}");
                for record in kept.records() {
                    assert_eq!(at(record.lsn.get()), record.position, "R8");
                    assert_eq!(
                        (record.body, record.head.txn),
                        (&record.lsn.get().to_le_bytes()[..], TxnId(record.lsn.get()))
                    );
                }
                let found: Vec<_> = before.iter().chain(&in_memory).chain(after).copied().collect();
                assert!(found.len() >= positions.len() && all.ends_with(&found[found.len() - positions.len()..]), "R8");
                assert!(all.ends_with(&found) || before.is_empty(), "R8: page {page}");
                let (positions, kept, from) = pending.begin_read(page).expect("the attempt has failed");
                assert_eq!((kept.split(&positions).0.len(), kept.records().count()), (positions.len(), 0), "R8");
                pending.end_read(from);
                pending.redone(page);
            }
            assert_eq!((pending.kept_bytes, pending.kept.len()), (0, 0));
        }
    }
}
