//! Records and their frames (drawn in docs/formats/log.md).
//!
//! ```text
//! length varint | crc32c 4 | lsn varint | kind 1 | transaction varint | distance varint | body
//! ```
//!
//! `length` counts the bytes after the CRC; the CRC covers the same bytes, the body first: so most of it is computed
//! before the LSN is drawn and the latch of the tail is taken. `distance` leads back to the transaction's previous
//! record in the same partition, 0 if there is none.

use crate::checksum::{record_crc, record_crc_of_few};
use crate::{ByteLen, LogOffset, Lsn, Position, TxnId, crc, varint};

/// The kind of a record. The numbers are part of the format, and are never reused.
///
/// The log interprets no kind; the only kind that it writes by itself is `Void`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u8);

impl Kind {
    /// A change of a page with its redo and undo.
    pub const UPDATE: Kind = Kind(1);
    /// The compensation of a change: redo only, with the next record to undo (Lemon §3.4).
    pub const COMPENSATION: Kind = Kind(2);
    /// The end of a committed transaction.
    pub const COMMIT: Kind = Kind(3);
    /// The end of a rolled-back transaction.
    pub const ROLLBACK_END: Kind = Kind(4);
    /// The end of a nested top action.
    pub const NESTED_END: Kind = Kind(5);
    /// A drawn LSN without content.
    pub const VOID: Kind = Kind(6);
    /// An undo without a redo.
    pub const UNDO_ONLY: Kind = Kind(7);
    /// A transaction is prepared: it commits or rolls back as its coordinator decides.
    pub const PREPARE: Kind = Kind(8);
    /// A user's own record; its body begins with a varint, the number of its name in the control file.
    pub const USER: Kind = Kind(9);

    /// The largest number of a kind.
    pub const MAX: u8 = 63;

    /// Returns the kind with this number, if it is at most [`Kind::MAX`] and not 0.
    pub const fn new(number: u8) -> Option<Kind> {
        if number == 0 || number > Kind::MAX { None } else { Some(Kind(number)) }
    }

    /// Returns the number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The bit of the kind byte that marks a record as recoverable with its own partition alone, even beyond a gap (Hathi
/// §3).
const PARTITION_FLAG: u8 = 0x80;

/// The properties of a record besides its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// The kind of the record.
    pub kind: Kind,
    /// The transaction of the record, or [`TxnId::NONE`].
    pub txn: TxnId,
    /// The offset of the transaction's previous record in the same partition.
    pub previous: Option<LogOffset>,
    /// Whether recovery may use the record beyond a gap of other partitions: heap transactions only.
    pub partition_commit: bool,
}

impl RecordHead {
    /// Creates a head without flags.
    pub const fn new(kind: Kind, txn: TxnId, previous: Option<LogOffset>) -> RecordHead {
        RecordHead { kind, txn, previous, partition_commit: false }
    }
}

/// The LSN and offset of an appended record. It is not durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The record's LSN.
    pub lsn: Lsn,
    /// The record's offset in the partition to which it was appended.
    pub offset: LogOffset,
}

/// The result of an append that was decided on when its LSN was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The LSN that was drawn, and the offset of the record, or of the void record instead of it.
    pub appended: Appended,
    /// Whether the record was placed; otherwise a void record fills its LSN.
    pub kept: bool,
}

/// The maximum length of a frame without its body.
pub(crate) const FRAME_LEN_MAX: usize = 4 + CRC_LEN + varint::LEN_MAX + 1 + 2 * varint::LEN_MAX;
const CRC_LEN: usize = 4;

/// The maximum length of a body, whatever the segment length (docs/formats/log.md).
pub(crate) const BODY_LEN_CEILING: usize = 1 << 20;

// A length that includes the largest body takes at most four bytes, as FRAME_LEN_MAX counts.
const _: () = assert!(varint::len((BODY_LEN_CEILING + FRAME_LEN_MAX) as u64) <= 4);

/// Returns the maximum log space of a record with a body of `body` bytes: the space to reserve for it.
pub const fn record_len_bound(body: ByteLen) -> ByteLen {
    ByteLen(body.0 + FRAME_LEN_MAX as u64)
}

/// A record as read from the log. Its body borrows the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The record's LSN.
    pub lsn: Lsn,
    /// The record's position.
    pub position: Position,
    /// Kind, transaction and previous record.
    pub head: RecordHead,
    /// The body.
    pub body: &'a [u8],
}

impl RecordRef<'_> {
    /// Returns a copy that owns its body.
    pub fn to_record(&self) -> Record {
        Record { lsn: self.lsn, position: self.position, head: self.head, body: self.body.to_vec() }
    }
}

/// A record that owns its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The record's LSN.
    pub lsn: Lsn,
    /// The record's position.
    pub position: Position,
    /// Kind, transaction and previous record.
    pub head: RecordHead,
    /// The body.
    pub body: Vec<u8>,
}

/// The reason why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotARecord {
    /// The frame extends beyond the given bytes; if there are no more bytes, it is damaged.
    Longer {
        /// The length of the frame in bytes.
        needed: usize,
    },
    /// The frame contradicts itself, or its checksum does not match.
    Bad,
}

/// A decoded frame: the record's fields, without its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) lsn: Lsn,
    pub(crate) head: RecordHead,
    /// The offset of the body in the frame.
    pub(crate) body_at: usize,
    /// The length of the whole frame.
    pub(crate) len: usize,
}

/// The body of a record, with its length and checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    parts: &'a [&'a [u8]],
    len: usize,
    crc: u32,
}

impl<'a> Body<'a> {
    /// An empty body.
    pub(crate) const EMPTY: Body<'static> = Body { parts: &[], len: 0, crc: 0 };

    /// Creates a body of these parts, one after the other.
    #[inline]
    pub(crate) fn new(parts: &'a [&'a [u8]]) -> Body<'a> {
        let mut body = Body { parts, len: 0, crc: 0 };
        for part in parts {
            body.len += part.len();
            body.crc = crc::append(body.crc, part);
        }
        body
    }
}

/// The body of a record that is being placed.
pub(crate) trait Content {
    /// Returns the length in bytes.
    fn len(&self) -> usize;

    /// Writes the body to `to`, which has its length, and returns its checksum.
    fn put(self, to: &mut [u8]) -> u32;
}

impl Content for Body<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn put(self, to: &mut [u8]) -> u32 {
        let mut rest = to;
        for part in self.parts {
            let (now, later) = rest.split_at_mut(part.len());
            now.copy_from_slice(part);
            rest = later;
        }
        self.crc
    }
}

/// A body of four bytes and of pairs of numbers, of four bytes and of eight, little endian. It is written to the log's own
/// buffer, and is nowhere before.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a, T, F> {
    /// The first four bytes.
    pub head: [u8; 4],
    /// The elements from which the pairs are made.
    pub from: &'a [T],
    /// Returns the pair of an element.
    pub pair: F,
}

impl<T, F: Fn(&T) -> (u32, u64)> Pairs<'_, T, F> {
    /// The length of a body of so many pairs.
    pub const fn len_of(count: usize) -> usize {
        4 + 12 * count
    }
}

impl<T, F: Fn(&T) -> (u32, u64)> Content for Pairs<'_, T, F> {
    #[inline]
    fn len(&self) -> usize {
        Self::len_of(self.from.len())
    }

    #[inline(always)]
    fn put(self, to: &mut [u8]) -> u32 {
        crc::put_pairs(to, self.head, self.from, self.pair)
    }
}

/// Writes a record's frame at the beginning of `to` and returns its length.
///
/// `to` holds at least [`FRAME_LEN_MAX`] bytes more than the body.
#[inline(always)]
pub(crate) fn encode(
    to: &mut [u8],
    seed: u32,
    offset: LogOffset,
    lsn: Lsn,
    head: RecordHead,
    body: impl Content,
) -> usize {
    let body_len = body.len();
    let kind = head.kind.0 | if head.partition_commit { PARTITION_FLAG } else { 0 };
    let lsn_len = varint::len(lsn.get());
    if head.txn == TxnId::NONE && head.previous.is_none() && lsn_len <= 8 && to.len() >= FRAME_LEN_MAX {
        // A heap's commit has no other records: few bytes, written at once. Before the kind there are at most eight bytes,
        // behind it two zeros.
        let head_len = lsn_len + 3;
        let crc_at = varint::put(to, (head_len + body_len) as u64);
        let lsn = varint::eight(lsn.get());
        let behind_crc = match lsn_len {
            ..8 => u128::from(lsn | u64::from(kind) << (8 * lsn_len)),
            _ => u128::from(lsn) | u128::from(kind) << u64::BITS,
        };
        to[crc_at + CRC_LEN..][..16].copy_from_slice(&behind_crc.to_le_bytes());
        let at = crc_at + CRC_LEN + head_len;
        let body_crc = body.put(&mut to[at..at + body_len]);
        let crc = record_crc_of_few(seed, offset, body_crc, behind_crc, head_len);
        to[crc_at..crc_at + CRC_LEN].copy_from_slice(&crc.to_le_bytes());
        return at + body_len;
    }
    let (crc_at, at) = put_linked(to, offset, lsn, kind, head, body_len);
    let body_crc = body.put(&mut to[at..at + body_len]);
    let crc = record_crc(seed, offset, body_crc, &to[crc_at + CRC_LEN..at]);
    to[crc_at..crc_at + CRC_LEN].copy_from_slice(&crc.to_le_bytes());
    at + body_len
}

/// Writes a frame except its CRC and its body. Returns the offsets of these two.
#[inline(never)]
fn put_linked(
    to: &mut [u8],
    offset: LogOffset,
    lsn: Lsn,
    kind: u8,
    head: RecordHead,
    body_len: usize,
) -> (usize, usize) {
    let distance = head.previous.map_or(0, |previous| offset.since(previous).0);
    debug_assert!(head.previous.is_none() || distance > 0, "a transaction's previous record lies before the next one");
    if let Some(to) = to.first_chunk_mut::<FRAME_LEN_MAX>()
        && let Some(lsn) = varint::Short::of(lsn.get())
        && let Some(txn) = varint::Short::of(head.txn.0)
        && let Some(distance) = varint::Short::of(distance)
    {
        let crc_at = varint::put(to, (lsn.len + 1 + txn.len + distance.len + body_len) as u64);
        let mut at = crc_at + CRC_LEN;
        at += lsn.put(&mut to[at..]);
        to[at] = kind;
        at += 1;
        at += txn.put(&mut to[at..]);
        at += distance.put(&mut to[at..]);
        return (crc_at, at);
    }
    let head_len = varint::len(lsn.get()) + 1 + varint::len(head.txn.0) + varint::len(distance);
    let crc_at = varint::put(to, (head_len + body_len) as u64);
    let mut at = crc_at + CRC_LEN;
    at += varint::put(&mut to[at..], lsn.get());
    to[at] = kind;
    at += 1;
    at += varint::put(&mut to[at..], head.txn.0);
    at += varint::put(&mut to[at..], distance);
    debug_assert_eq!(at, crc_at + CRC_LEN + head_len);
    (crc_at, at)
}

/// Reads the frame at the beginning of `from`, which was read at `offset`.
#[inline]
pub(crate) fn decode(from: &[u8], seed: u32, offset: LogOffset) -> Result<Frame, NotARecord> {
    let Some((covered_len, crc_at)) = varint::get(from) else {
        return if from.len() < varint::LEN_MAX {
            Err(NotARecord::Longer { needed: varint::LEN_MAX })
        } else {
            Err(NotARecord::Bad)
        };
    };
    if covered_len > (BODY_LEN_CEILING + FRAME_LEN_MAX) as u64 || covered_len < 4 {
        return Err(NotARecord::Bad);
    }
    let covered_at = crc_at + CRC_LEN;
    let len = covered_at + covered_len as usize;
    if from.len() < len {
        return Err(NotARecord::Longer { needed: len });
    }
    let crc_bytes = from[crc_at..covered_at].try_into().expect("four bytes");
    let covered = &from[covered_at..len];
    let (head_of, at) = parts(covered).ok_or(NotARecord::Bad)?;
    let (head, body) = covered.split_at(at);
    if record_crc(seed, offset, crc::append(0, body), head) != u32::from_le_bytes(crc_bytes) {
        return Err(NotARecord::Bad);
    }
    let (lsn, kind, txn, distance) = head_of;
    let previous = match distance {
        0 => None,
        back if back <= offset.get() => Some(LogOffset::new(offset.get() - back)),
        _ => return Err(NotARecord::Bad),
    };
    let head = RecordHead {
        kind: Kind::new(kind & !PARTITION_FLAG).ok_or(NotARecord::Bad)?,
        txn: TxnId(txn),
        previous,
        partition_commit: kind & PARTITION_FLAG != 0,
    };
    Ok(Frame { lsn: Lsn::new(lsn), head, body_at: covered_at + at, len })
}

/// Returns LSN, kind byte, transaction and distance, and the offset of the body.
#[inline]
fn parts(covered: &[u8]) -> Option<((u64, u8, u64, u64), usize)> {
    let (lsn, mut at) = varint::get(covered)?;
    let kind = *covered.get(at)?;
    at += 1;
    let (txn, len) = varint::get(&covered[at..])?;
    at += len;
    let (distance, len) = varint::get(&covered[at..])?;
    Some(((lsn, kind, txn, distance), at + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(lsn: u64, head: RecordHead, offset: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; body.len() + FRAME_LEN_MAX];
        let offset = LogOffset::new(offset);
        let len = encode(&mut bytes, 7, offset, Lsn::new(lsn), head, Body::new(&[body]));
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn a_small_record_has_a_small_frame() {
        let head = RecordHead::new(Kind::UPDATE, TxnId(9), Some(LogOffset::new(1_000_000)));
        let bytes = framed(1_000_000, head, 1_000_100, b"twenty-four bytes inside");
        assert!(bytes.len() - 24 <= 12, "{}", bytes.len());
    }

    proptest! {
        /// The record does not depend on who encodes the body, whatever the length of its LSN and the links of its head.
        #[test]
        fn pairs_and_bytes_make_same_record(
            lsn_bits in 1u32..=64, txn in 0u64..3, offset in 1u64..1 << 60, flag: bool,
            pairs in proptest::collection::vec(any::<(u32, u64)>(), 0..70),
        ) {
            let (lsn, offset) = (Lsn::new(u64::MAX >> (64 - lsn_bits)), LogOffset::new(offset));
            let previous = (txn == 2).then(|| LogOffset::new(offset.get() - 1));
            let head = RecordHead { kind: Kind::COMMIT, txn: TxnId(txn), previous, partition_commit: flag };
            let body = Pairs { head: [1, 2, 3, 4], from: &pairs, pair: |pair: &(u32, u64)| *pair };
            let each = pairs.iter().map(|(number, value)| (number.to_le_bytes(), value.to_le_bytes()));
            let bytes: Vec<u8> = [1, 2, 3, 4].into_iter().chain(each.flat_map(|(a, b)| a.into_iter().chain(b))).collect();
            let mut both = [(); 2].map(|()| vec![0xee; bytes.len() + FRAME_LEN_MAX]);
            let [of_pairs, of_bytes] = &mut both;
            let lens = [
                encode(of_pairs, 7, offset, lsn, head, body),
                encode(of_bytes, 7, offset, lsn, head, Body::new(&[&bytes])),
            ];
            prop_assert_eq!(lens[0], lens[1]);
            prop_assert_eq!(&of_pairs[..lens[0]], &of_bytes[..lens[0]]);
            let frame = decode(of_pairs, 7, offset).unwrap();
            prop_assert_eq!((frame.lsn, frame.head, &of_pairs[frame.body_at..frame.len]), (lsn, head, &bytes[..]));
        }
    }

    proptest! {
        #[test]
        fn encoded_record_is_decoded(
            lsn in 1u64.., kind in 1u8..=63, txn: u64, offset in 1u64..1 << 60, back: u64, flag: bool,
            body in proptest::collection::vec(any::<u8>(), 0..300), split in 0usize..300,
        ) {
            let previous = (back % 3 != 0).then(|| LogOffset::new(offset - 1 - back % offset.min(1 << 40)));
            let head = RecordHead {
                kind: Kind::new(kind).unwrap(), txn: TxnId(txn), previous, partition_commit: flag,
            };
            let (first, second) = body.split_at(split.min(body.len()));
            let mut bytes = vec![0; body.len() + FRAME_LEN_MAX];
            let place = LogOffset::new(offset);
            let len = encode(&mut bytes, 7, place, Lsn::new(lsn), head, Body::new(&[first, second]));
            let frame = decode(&bytes, 7, place).unwrap();
            prop_assert_eq!((frame.lsn, frame.head, frame.len), (Lsn::new(lsn), head, len));
            prop_assert_eq!(&bytes[frame.body_at..frame.len], &body[..]);
            prop_assert!(len as u64 <= record_len_bound(ByteLen(body.len() as u64)).0);
            // a shorter prefix never decodes, and never panics
            for short in 0..len {
                let longer = matches!(decode(&bytes[..short], 7, place), Err(NotARecord::Longer { .. }));
                prop_assert!(longer);
            }
        }

        #[test]
        fn a_changed_byte_is_noticed(at in 0usize..40, bit in 0u8..8) {
            let head = RecordHead::new(Kind::COMMIT, TxnId(77), None);
            let mut bytes = framed(12345, head, 640, b"a body of some thirty bytes...");
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes, 7, LogOffset::new(640)).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64), seed: u32) {
            let _ = decode(&bytes, seed, LogOffset::new(64));
        }
    }

    #[test]
    fn another_place_or_epoch_is_noticed() {
        let head = RecordHead::new(Kind::COMMIT, TxnId(77), None);
        let bytes = framed(12345, head, 640, b"body");
        assert!(decode(&bytes, 7, LogOffset::new(640)).is_ok());
        assert_eq!(decode(&bytes, 7, LogOffset::new(641)), Err(NotARecord::Bad), "E1.4");
        assert_eq!(decode(&bytes, 8, LogOffset::new(640)), Err(NotARecord::Bad), "E1.4");
    }
}
