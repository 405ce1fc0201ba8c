//! Commits of heap words that span several records.

use std::collections::HashMap;

use cedrat_heap::FoundHeaps;
use cedrat_sync::planted;
use cedrat_wal::{Found, Position, RecordRef, TxnId};

use crate::body::Body;
use crate::error::{Error, Result};

/// Records with heap words of transactions whose commit record was not yet read (E10.5). The words stay in the log
/// until then: those of a transaction without an end may fill the whole log.
#[derive(Debug, Default)]
pub(super) struct Parts(HashMap<TxnId, Vec<Position>>);

impl Parts {
    /// Keeps the part of a record, or replays those of a transaction that commits.
    pub(super) fn note(
        &mut self,
        found: &Found,
        heaps: &mut FoundHeaps,
        record: &RecordRef<'_>,
        body: &Body<'_>,
    ) -> Result<()> {
        match *body {
            Body::Commit { heap, .. } if !heap.is_empty() => self.commit(found, heaps, record, heap)?,
            Body::HeapPart { heap } if planted!("part_counts_without_commit") => heaps.replay(record.lsn, heap)?,
            Body::HeapPart { .. } => self.keep(record.head.txn, record.position),
            Body::RollbackEnd => self.forget(record.head.txn),
            _ => {}
        }
        Ok(())
    }

    fn keep(&mut self, id: TxnId, part: Position) {
        self.0.entry(id).or_default().push(part);
    }

    fn forget(&mut self, id: TxnId) {
        if !self.0.is_empty() {
            self.0.remove(&id);
        }
    }

    /// Replays the words of a transaction; the commit record has the last ones.
    fn commit(&mut self, found: &Found, heaps: &mut FoundHeaps, commit: &RecordRef<'_>, last: &[u8]) -> Result<()> {
        if !self.0.is_empty() {
            for part in self.0.remove(&commit.head.txn).unwrap_or_default() {
                let part = found.read(part)?;
                match Body::parse(part.head.kind, &part.body) {
                    Ok(Body::HeapPart { heap }) => heaps.replay(commit.lsn, heap)?,
                    _ => return Err(Error::bad_record(part.lsn, "it is no part of a commit, and was one before")),
                }
            }
        }
        Ok(heaps.replay(commit.lsn, last)?)
    }

    /// Returns the memory of all parts, in bytes.
    #[cfg(all(test, not(cedrat_shuttle)))]
    fn memory_len(&self) -> usize {
        self.0.values().map(|parts| parts.capacity() * size_of::<Position>()).sum()
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use cedrat_heap::HeapOptions;
    use cedrat_media::{Media, SimDisk};
    use cedrat_sync::Arc;

    use super::*;
    use crate::{Commit, Options, Registry, Store};

    /// Several parts without a commit record take a few bytes each, whatever the number of their words.
    #[test]
    fn parts_without_commit_take_little_memory() {
        let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
        let store = Store::open(disk, Options::simulated(), Registry::new()).unwrap();
        let words = store.memory().create_heap("words", &HeapOptions::raw(1 << 20)).unwrap();
        let from = store.log().current_lsn().next();
        let mut txn = store.begin();
        txn.heap(|tx| (0..6000).try_for_each(|word| tx.write(&words, word * 16, word + 1))).unwrap();
        txn.commit(Commit::Sync).unwrap();
        let (mut parts, mut bytes, mut count) = (Parts::default(), 0, 0);
        let mut scan = store.log().scan(from).unwrap();
        while let Some(scanned) = scan.next().unwrap() {
            let record = scanned.record;
            if let Ok(Body::HeapPart { heap }) = Body::parse(record.head.kind, record.body) {
                parts.keep(record.head.txn, record.position);
                (bytes, count) = (bytes + heap.len(), count + 1);
            }
        }
        assert!(count > 2, "{count} parts with {bytes} bytes");
        assert!(parts.memory_len() <= bytes / 32, "{} for {count} parts with {bytes} bytes", parts.memory_len());
    }
}
