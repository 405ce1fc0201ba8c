//! Records of a page that analysis has kept in memory for redo on demand.

use cedrat_wal::{Kind, Lsn, Position, RecordHead, RecordRef, TxnId};

/// Records of a page that follow each other.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    records: Vec<Record>,
    bodies: Vec<u8>,
    /// The number of later records of the page, which are not kept.
    after: usize,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    lsn: Lsn,
    position: Position,
    txn: TxnId,
    kind: Kind,
    /// The end of its body; it begins at that of the record before.
    end: u32,
}

impl Kept {
    /// Keeps a record, unless one before it is missing. Returns the number of bytes of memory that it takes.
    pub(super) fn push(&mut self, record: &RecordRef<'_>) -> usize {
        let end = u32::try_from(self.bodies.len() + record.body.len());
        let Some(end) = end.ok().filter(|_| self.after == 0) else {
            self.cut();
            return 0;
        };
        self.bodies.extend_from_slice(record.body);
        let (kind, txn) = (record.head.kind, record.head.txn);
        self.records.push(Record { lsn: record.lsn, position: record.position, txn, kind, end });
        size_of::<Record>() + record.body.len()
    }

    /// Counts a record that is not kept.
    pub(super) fn cut(&mut self) {
        self.after += 1;
    }

    /// Returns the number of bytes that the kept records take.
    pub(super) fn memory(&self) -> usize {
        self.records.len() * size_of::<Record>() + self.bodies.len()
    }

    /// Returns the positions before the kept records, and those after them, of the newest records of the page.
    pub(crate) fn split<'p>(&self, positions: &'p [Position]) -> (&'p [Position], &'p [Position]) {
        let (others, after) = positions.split_at(positions.len().saturating_sub(self.after));
        (&others[..others.len().saturating_sub(self.records.len())], after)
    }

    /// Returns the kept records, without the links of their transactions.
    pub(crate) fn records(&self) -> impl Iterator<Item = RecordRef<'_>> {
        let mut begin = 0;
        self.records.iter().map(move |record| {
            let end = record.end as usize;
            let body = &self.bodies[std::mem::replace(&mut begin, end)..end];
            let head = RecordHead::new(record.kind, record.txn, None);
            RecordRef { lsn: record.lsn, position: record.position, head, body }
        })
    }
}
