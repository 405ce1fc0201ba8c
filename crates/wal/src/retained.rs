//! Parts of the log that a scan has read, and that stay in memory for reads by position.
//!
//! A scan reads the log in long pieces, and a read by position costs an input of its own for each record that lies apart.

use cedrat_sync::{Arc, RwLock};
use std::collections::VecDeque;

use crate::read::Chunk;
use crate::scan::Scanned;
use crate::{ByteLen, LogOffset, Lsn, Position};

/// Parts of the log in memory, each with the records that a scan has found in it. Threads may share it.
#[derive(Debug)]
pub struct Retained {
    /// Per partition, in the order of the log.
    partitions: RwLock<Vec<VecDeque<Part>>>,
    /// Bytes of all parts that were ever retained.
    bytes: u64,
    bytes_max: u64,
}

#[derive(Debug)]
struct Part {
    /// The first record of the part.
    first: Lsn,
    chunk: Arc<Chunk>,
}

impl Retained {
    /// Returns an empty set, which will take at most `bytes_max` bytes of memory.
    pub fn new(bytes_max: ByteLen) -> Retained {
        Retained { partitions: RwLock::default(), bytes: 0, bytes_max: bytes_max.0 }
    }

    /// Retains the part that holds a record, unless it would exceed the limit. The records of a partition come in the order of the
    /// log. Returns whether the part is retained.
    #[inline]
    pub fn retain(&mut self, scanned: &Scanned<'_>) -> bool {
        let partition = scanned.record.position.partition.index();
        let partitions = self.partitions.get_mut();
        let newest = partitions.get(partition).and_then(VecDeque::back);
        newest.is_some_and(|part| Arc::ptr_eq(&part.chunk, scanned.chunk)) || self.retain_part(partition, scanned)
    }

    #[cold]
    fn retain_part(&mut self, partition: usize, scanned: &Scanned<'_>) -> bool {
        let bytes = self.bytes + scanned.chunk.bytes().len() as u64;
        if bytes > self.bytes_max {
            return false;
        }
        self.bytes = bytes;
        let partitions = self.partitions.get_mut();
        if partitions.len() <= partition {
            partitions.resize_with(partition + 1, VecDeque::new);
        }
        partitions[partition].push_back(Part { first: scanned.record.lsn, chunk: Arc::clone(scanned.chunk) });
        true
    }

    /// Drops the parts without a record from this LSN on.
    pub fn drop_before(&self, lsn: Lsn) {
        for parts in self.partitions.write().iter_mut() {
            while parts.get(1).is_some_and(|next| next.first <= lsn) {
                parts.pop_front();
            }
        }
    }

    /// Returns the part that may hold the record at a position. A record at the end of a part may lie in the next one.
    pub(crate) fn find(&self, at: Position) -> Option<Arc<Chunk>> {
        let partitions = self.partitions.read();
        let parts = partitions.get(at.partition.index())?;
        let before = parts.partition_point(|part| part.chunk.begin() <= at.offset);
        let chunk = &parts.get(before.checked_sub(1)?)?.chunk;
        (at.offset < end(chunk)).then(|| Arc::clone(chunk))
    }
}

fn end(chunk: &Chunk) -> LogOffset {
    LogOffset::new(chunk.begin().get() + chunk.bytes().len() as u64)
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_media::Damage;

    use super::*;
    use crate::filled::filled;
    use crate::{Log, Record};

    const RECORDS: u64 = 6000;

    /// Returns the records of the log, and what is retained of it.
    fn scanned(log: &Log, bytes_max: u64) -> (Vec<Record>, Retained) {
        let mut retained = Retained::new(ByteLen(bytes_max));
        let mut records = Vec::new();
        let mut scan = log.scan(Lsn::ZERO).expect("it is sound");
        while let Some(scanned) = scan.next().expect("it is sound") {
            let is_retained = retained.retain(&scanned);
            assert_eq!(is_retained, retained.find(scanned.record.position).is_some());
            records.push(scanned.record.to_record());
        }
        (records, retained)
    }

    fn read(log: &Log, records: &[Record], retained: &Retained) -> Result<Vec<Record>, crate::LogError> {
        let positions: Vec<_> = records.iter().map(|record| record.position).collect();
        let (mut reads, mut found) = (log.records(&positions, Some(retained)), Vec::new());
        while let Some(record) = reads.next()? {
            found.push(record.to_record());
        }
        Ok(found)
    }

    /// R8d: records are the same whether they are read from memory, from the disk, or some of each; the limit holds.
    #[test]
    fn retained_records_equal_those_on_disk() {
        let (log, _) = filled(RECORDS);
        for bytes_max in [0, 100, 70_000, 130_000, 200_000, u64::MAX] {
            let (records, retained) = scanned(&log, bytes_max);
            assert!(retained.bytes <= bytes_max && records.len() as u64 == RECORDS);
            assert_eq!(read(&log, &records, &retained).expect("it is sound"), records, "R8d: {bytes_max}");
            let backwards: Vec<_> = records.iter().rev().cloned().collect();
            assert_eq!(read(&log, &backwards, &retained).expect("it is sound"), backwards, "R8d: {bytes_max}");
        }
    }

    /// R8d: what is dropped lies before the given record, and is read from the disk.
    #[test]
    fn dropped_parts_are_read_from_disk() {
        let (log, disk) = filled(RECORDS);
        let (records, retained) = scanned(&log, u64::MAX);
        let parts = || retained.partitions.read().iter().map(VecDeque::len).sum::<usize>();
        let all = parts();
        let later = &records[4000..];
        retained.drop_before(later[0].lsn);
        assert!(parts() < all && parts() >= 2, "{all} parts, {} left", parts());
        assert!(later.iter().all(|record| retained.find(record.position).is_some()), "R8d");
        assert_eq!(read(&log, &records, &retained).expect("it is sound"), records, "R8d");

        let reader = &log.shared().reader;
        for record in [&records[5], &later[900]] {
            let (file, offset) = reader.place(record.position);
            disk.corrupt(&file, offset + 6, Damage::Flip { bit: 3 }).expect("it is there");
        }
        assert_eq!(read(&log, later, &retained).expect("nothing is read"), later);
        assert!(read(&log, &records[..10], &retained).is_err(), "its part is dropped");
    }
}
