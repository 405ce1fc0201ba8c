//! A file between cache and medium: its durable state, and the changes that a crash may lose.

use super::image::Contents;
use super::loss::Fate;
use cedrat_sync::Arc;
use std::fmt;
use std::ops::Range;

/// A file on the medium, with the changes that a cache still holds.
#[derive(Clone, Default)]
pub(super) struct Cached {
    pub(super) durable: Contents,
    /// Changes in the order in which the calls ended.
    pub(super) volatile: Vec<Change>,
}

/// A change that a crash may lose.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) what: What,
    /// The entry after which it counts as completed.
    pub(super) position: usize,
    /// Whether no sync will write it any more; some of it may have reached the medium.
    pub(super) forgotten: bool,
}

/// The effect of a change on a file.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A range of the bytes of a write.
    Bytes {
        offset: u64,
        bytes: Arc<[u8]>,
        range: Range<usize>,
    },
    Zeros {
        offset: u64,
        len: u64,
    },
    Reserve {
        offset: u64,
        len: u64,
    },
    SetLen {
        len: u64,
    },
}

impl Cached {
    pub(super) fn new(durable: Contents) -> Cached {
        Cached { durable, volatile: Vec::new() }
    }

    /// Applies a successful sync that began after the entry `began`.
    pub(super) fn settle_before(&mut self, began: usize) {
        let mut rest = Vec::new();
        for change in std::mem::take(&mut self.volatile) {
            if change.forgotten || change.position >= began {
                rest.push(change);
            } else {
                // Only forgotten changes can remain among the older ones.
                cover(&mut rest, &change.what);
                change.what.apply(&mut self.durable, Fate::Kept);
            }
        }
        self.volatile = rest;
    }

    /// Applies a failed sync that began after the entry `began`, and that no other sync will repeat.
    pub(super) fn forget_before(&mut self, began: usize) {
        for change in self.volatile.iter_mut().filter(|change| change.position < began) {
            change.forgotten = true;
        }
    }

    /// Writes bytes to the medium, over any older change to them in the cache.
    pub(super) fn write_durably(&mut self, offset: u64, bytes: &[u8]) {
        self.settle_lengths();
        let end = offset + bytes.len() as u64;
        self.volatile =
            std::mem::take(&mut self.volatile).into_iter().flat_map(|change| change.without(offset..end)).collect();
        self.durable.write(offset, bytes);
    }

    /// Makes the file's length durable with a durable write, as a file system's journal keeps changes of it in order:
    /// otherwise an older truncation could still remove the new bytes.
    fn settle_lengths(&mut self) {
        if !self.volatile.iter().any(|change| matches!(change.what, What::SetLen { .. })) {
            return;
        }
        let mut rest = Vec::new();
        for change in std::mem::take(&mut self.volatile) {
            if matches!(change.what, What::SetLen { .. }) {
                cover(&mut rest, &change.what);
                change.what.apply(&mut self.durable, Fate::Kept);
            } else {
                rest.push(change);
            }
        }
        self.volatile = rest;
    }
}

/// Removes from older changes the parts that a newer, now durable one has replaced.
fn cover(older: &mut Vec<Change>, newer: &What) {
    let area = match *newer {
        What::Bytes { offset, ref range, .. } => offset..offset + range.len() as u64,
        What::Zeros { offset, len } => offset..offset.saturating_add(len),
        What::SetLen { len } => len..u64::MAX,
        What::Reserve { .. } => return,
    };
    let is_length = matches!(newer, What::SetLen { .. });
    *older = std::mem::take(older)
        .into_iter()
        .filter(|change| !(is_length && matches!(change.what, What::SetLen { .. })))
        .flat_map(|change| change.without(area.clone()))
        .collect();
}

impl Change {
    /// Returns the rest of the change outside of `area`; a change of the length concerns no bytes.
    fn without(self, area: Range<u64>) -> impl Iterator<Item = Change> {
        let (start, end) = match self.what {
            What::Bytes { offset, ref range, .. } => (offset, offset + range.len() as u64),
            What::Zeros { offset, len } | What::Reserve { offset, len } => (offset, offset.saturating_add(len)),
            What::SetLen { .. } => (area.end, area.end),
        };
        // Only a truncation undoes a reservation: bytes written into it leave the rest of it unchanged.
        let untouched =
            end <= area.start || area.end <= start || matches!(self.what, What::Reserve { .. }) && area.end < u64::MAX;
        let pieces = if untouched {
            [Some(self), None]
        } else {
            [start..area.start.min(end), area.end.max(start)..end].map(|piece| {
                let keep = piece.start < piece.end;
                keep.then(|| Change { what: self.what.part(start, piece), ..self.clone() })
            })
        };
        pieces.into_iter().flatten()
    }
}

impl What {
    /// Returns the part within `piece` of a change that begins at `start`.
    fn part(&self, start: u64, piece: Range<u64>) -> What {
        let (offset, len) = (piece.start, piece.end - piece.start);
        match self {
            What::Bytes { bytes, range, .. } => {
                let skipped = range.start + (offset - start) as usize;
                What::Bytes { offset, bytes: bytes.clone(), range: skipped..skipped + len as usize }
            }
            What::Zeros { .. } => What::Zeros { offset, len },
            What::Reserve { .. } => What::Reserve { offset, len },
            What::SetLen { len } => What::SetLen { len: *len },
        }
    }

    pub(super) fn apply(&self, contents: &mut Contents, fate: Fate) {
        match self {
            What::Bytes { offset, bytes, range } => {
                contents.write_sectors(*offset, &bytes[range.clone()], |sector| fate.keeps(sector));
            }
            What::Zeros { offset, len } => contents.zero_sectors(*offset, *len, |sector| fate.keeps(sector)),
            What::Reserve { offset, len } if fate.keeps(0) => contents.reserve(*offset, *len),
            What::SetLen { len } if fate.keeps(0) => contents.set_len(*len),
            What::Reserve { .. } | What::SetLen { .. } => {}
        }
    }
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} volatile changes", self.durable.len(), self.volatile.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECTOR_LEN;

    const SECTOR: u64 = SECTOR_LEN as u64;

    fn bytes(offset: u64, len: usize, byte: u8) -> What {
        What::Bytes { offset, bytes: vec![byte; len].into(), range: 0..len }
    }

    /// Returns a file with these changes, completed at 1, 2, …
    fn cached(changes: impl IntoIterator<Item = What>) -> Cached {
        let volatile = changes.into_iter().zip(1..).map(|(what, position)| Change { what, position, forgotten: false });
        Cached { durable: Contents::default(), volatile: volatile.collect() }
    }

    fn durable(file: &Cached) -> Vec<u8> {
        let mut bytes = vec![0; file.durable.len() as usize];
        file.durable.read(0, &mut bytes);
        bytes
    }

    /// Returns the content after a crash that loses nothing.
    fn kept(mut file: Cached) -> Vec<u8> {
        for change in &file.volatile {
            change.what.apply(&mut file.durable, Fate::Kept);
        }
        durable(&file)
    }

    #[test]
    fn sync_covers_writes_completed_before_it() {
        let mut file = cached([bytes(0, 10, 1), bytes(5, 10, 2), bytes(0, 2, 3)]);
        file.settle_before(3);
        assert_eq!(durable(&file), [[1; 5].as_slice(), &[2; 10]].concat());
        assert_eq!(file.volatile.len(), 1);
        assert_eq!(kept(file)[..3], [3, 3, 1]);
    }

    #[test]
    fn durable_bytes_split_older_change() {
        let mut file = cached([bytes(0, 10, 1)]);
        file.write_durably(4, &[2; 3]);
        assert_eq!(durable(&file), [0, 0, 0, 0, 2, 2, 2]);
        assert_eq!(kept(file), [1, 1, 1, 1, 2, 2, 2, 1, 1, 1]);

        let mut file = cached([bytes(0, 10, 1), What::Zeros { offset: 2, len: 5 }]);
        file.write_durably(0, &[2; 10]);
        assert!(file.volatile.is_empty());
    }

    #[test]
    fn durable_write_persists_earlier_lengths() {
        let mut file = cached([
            bytes(0, 3, 1),
            What::Reserve { offset: 0, len: 9000 },
            What::SetLen { len: 2 },
            What::SetLen { len: 5 },
            bytes(0, 1, 3),
        ]);
        file.write_durably(4, &[2; 2]);
        assert_eq!(durable(&file), [0, 0, 0, 0, 2, 2]);
        assert_eq!(kept(file), [3, 1, 0, 0, 2, 2], "what the cut took does not come back");
    }

    #[test]
    fn only_newer_synced_changes_cover_forgotten_ones() {
        let mut file = cached([bytes(0, 2 * SECTOR_LEN, 1)]);
        file.forget_before(2);
        file.volatile.push(Change { what: bytes(SECTOR, SECTOR_LEN, 2), position: 5, forgotten: false });
        file.settle_before(9);
        assert_eq!(durable(&file), [[0; SECTOR_LEN], [2; SECTOR_LEN]].concat());
        assert_eq!(kept(file), [[1; SECTOR_LEN], [2; SECTOR_LEN]].concat());
    }

    #[test]
    fn a_reservation_outlives_writes_into_it() {
        let mut file = cached([What::Reserve { offset: 0, len: 8192 }]);
        file.write_durably(0, &[1; 10]);
        assert_eq!(file.durable.len(), 10);
        assert_eq!(kept(file).len(), 8192);
    }
}
