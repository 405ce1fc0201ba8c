//! One file between cache and medium: what is durable, and the changes that a crash may take away.

use super::image::Contents;
use super::loss::Fate;
use cedrat_sync::Arc;
use std::fmt;
use std::ops::Range;

/// A file on the medium, and what a cache still holds of it.
#[derive(Clone, Default)]
pub(super) struct Cached {
    pub(super) durable: Contents,
    /// In the order in which the calls ended.
    pub(super) volatile: Vec<Change>,
}

/// A change that a crash may take away.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) what: What,
    /// The entry after which it counts as completed.
    pub(super) position: usize,
    /// No sync will write it any more, yet some of it may have reached the medium.
    pub(super) forgotten: bool,
}

/// What a change does to a file.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A range of what a write was given.
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

    /// A sync that began after the entry `began` has succeeded.
    pub(super) fn settle_before(&mut self, began: usize) {
        let mut rest = Vec::new();
        for change in std::mem::take(&mut self.volatile) {
            if change.forgotten || change.position >= began {
                rest.push(change);
            } else {
                // Only forgotten changes can be left among the older ones.
                cover(&mut rest, &change.what);
                change.what.apply(&mut self.durable, Fate::Kept);
            }
        }
        self.volatile = rest;
    }

    /// A sync that began after the entry `began` has failed, and none will try again.
    pub(super) fn forget_before(&mut self, began: usize) {
        for change in self.volatile.iter_mut().filter(|change| change.position < began) {
            change.forgotten = true;
        }
    }

    /// Bytes are on the medium now, whatever older change to them a cache still holds.
    pub(super) fn write_durably(&mut self, offset: u64, bytes: &[u8]) {
        self.settle_lengths();
        let end = offset + bytes.len() as u64;
        self.volatile =
            std::mem::take(&mut self.volatile).into_iter().flat_map(|change| change.without(offset..end)).collect();
        self.durable.write(offset, bytes);
    }

    /// A durable write takes along the file's length, as a file system's journal keeps changes of it in order:
    /// otherwise an older cut could still take the new bytes away.
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

/// Takes from older changes what a newer, now durable one has made obsolete.
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
    /// What is left of the change outside of `area`; a change of the length concerns no bytes.
    fn without(self, area: Range<u64>) -> impl Iterator<Item = Change> {
        let (start, end) = match self.what {
            What::Bytes { offset, ref range, .. } => (offset, offset + range.len() as u64),
            What::Zeros { offset, len } | What::Reserve { offset, len } => (offset, offset.saturating_add(len)),
            What::SetLen { .. } => (area.end, area.end),
        };
        // A reservation is undone by a cut only: bytes written into it leave the rest of it as it was.
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
    /// The part of a change that begins at `start` which lies in `piece`.
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
