//! Logged changes of objects: patches of this crate, and the application's own deltas (Lemon §7.1).
//!
//! | delta | changes | undone by |
//! |---|---|---|
//! | [`PutBytes`] | a range of the object | the previous bytes |
//! | [`Resize`] | its length, and a range | the reverse change |
//! | [`Forward`] | the record of the object | [`RemoveForward`], or the previous place |
//! | [`Dead`] | the object is removed | [`Alive`] |
//! | [`OnObject`] | as an [`ObjectDelta`] of the application defines | the caller's inverse, or the previous bytes |

use std::fmt;
use std::ops::Range;

use cedrat_pages::{PageId, Slot};
use cedrat_txn::object_cache::{Delta, DeltaRegistry};
use cedrat_txn::{RecordId, Refused, Registry, SmallBytes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::record::{self, HEADER_LEN, Header, PLACE_LEN};

/// A change of an object, defined by the application: its fields are its arguments, which are logged.
///
/// Registered with [`register_delta`]. The serialised form (by `postcard`) is a format: give changed arguments another
/// name.
///
/// ```
/// use cedrat_objects::ObjectDelta;
/// use cedrat_txn::Refused;
/// use serde::{Deserialize, Serialize};
///
/// /// An article is an amount in cents, and its name.
/// #[derive(Debug, Serialize, Deserialize)]
/// struct CostsMore { cents: u64 }
///
/// impl ObjectDelta for CostsMore {
///     const NAME: &'static str = "shop.costs_more.v1";
///
///     fn apply(&self, article: &mut [u8]) -> Result<(), Refused> {
///         let price = article.first_chunk_mut().ok_or(Refused::new("an article begins with its price"))?;
///         *price = u64::from_le_bytes(*price).wrapping_add(self.cents).to_le_bytes();
///         Ok(())
///     }
/// }
/// ```
pub trait ObjectDelta: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// The name that identifies the delta in a store permanently, for example `"shop.costs_more.v1"`.
    const NAME: &'static str;

    /// Changes the object's bytes. Its length stays the same.
    ///
    /// The object cache calls it before it logs the delta; recovery calls it again, on the result of the earlier changes.
    /// So it must be a function of the arguments and of these bytes alone, without side effects.
    ///
    /// # Errors
    /// [`Refused`] if the change does not apply to this object; the object must be unchanged then.
    fn apply(&self, object: &mut [u8]) -> Result<(), Refused>;

    /// The bytes of the object that [`apply`](ObjectDelta::apply) may change, if the arguments determine them. Only these are
    /// then copied beforehand, to be restored if the change is refused or does not count; all other bytes must stay unchanged
    /// in any case. The range may reach beyond the object's end.
    ///
    /// The default, `None`, stands for all bytes.
    fn changes(&self) -> Option<Range<usize>> {
        None
    }
}

/// Adds a delta of the application's own to a registry.
#[must_use]
pub fn register_delta<D: ObjectDelta>(registry: Registry) -> Registry {
    registry.delta::<OnObject<D>>()
}

/// A delta of a record that may know which bytes it changes.
pub(crate) trait RecordDelta: Delta {
    /// Like [`ObjectDelta::changes`], for the record.
    fn changes(&self) -> Option<Range<usize>>;
}

/// Bytes of a record from its header to the end of the place that it forwards to.
const TO_PLACE: Range<usize> = 0..HEADER_LEN + PLACE_LEN;

/// An application's delta, applied to the record of the object.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub(crate) struct OnObject<D: ObjectDelta>(pub(crate) D);

impl<D: ObjectDelta> Delta for OnObject<D> {
    const NAME: &'static str = D::NAME;

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        let len = live_len(record)?;
        self.0.apply(&mut record::body(record)[..len])
    }
}

impl<D: ObjectDelta> RecordDelta for OnObject<D> {
    #[inline]
    fn changes(&self) -> Option<Range<usize>> {
        let Range { start, end } = self.0.changes()?;
        Some(start.saturating_add(HEADER_LEN)..end.saturating_add(HEADER_LEN))
    }
}

/// Overwrites a part of the object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PutBytes {
    pub(crate) at: u16,
    pub(crate) bytes: SmallBytes,
}

impl RecordDelta for PutBytes {
    fn changes(&self) -> Option<Range<usize>> {
        let at = HEADER_LEN + usize::from(self.at);
        Some(at..at + self.bytes.len())
    }
}

impl Delta for PutBytes {
    const NAME: &'static str = "cedrat.objects.put_bytes.v1";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        let len = live_len(record)?;
        put(&mut record::body(record)[..len], self.at, &self.bytes)
    }
}

/// Makes the object longer or shorter, within its record, and overwrites a part of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Resize {
    pub(crate) len: u16,
    pub(crate) at: u16,
    pub(crate) bytes: SmallBytes,
}

impl RecordDelta for Resize {
    fn changes(&self) -> Option<Range<usize>> {
        Some(0..HEADER_LEN + usize::from(self.at) + self.bytes.len())
    }
}

impl Delta for Resize {
    const NAME: &'static str = "cedrat.objects.resize.v1";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        live_len(record)?;
        let body = record::body(record);
        let object = body.get_mut(..self.len.into()).ok_or(Refused::new("the object is longer than its record"))?;
        put(object, self.at, &self.bytes)?;
        record::set_len(record, self.len);
        Ok(())
    }
}

/// Forwards the object to another record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Forward {
    page: u64,
    slot: u16,
}

impl Forward {
    pub(crate) fn to(at: RecordId) -> Forward {
        Forward { page: at.page.get(), slot: at.slot.0 }
    }
}

impl RecordDelta for Forward {
    fn changes(&self) -> Option<Range<usize>> {
        Some(TO_PLACE)
    }
}

impl Delta for Forward {
    const NAME: &'static str = "cedrat.objects.forward.v1";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        let header = Header::of(record)?;
        if header.is_dead() || header.is_target() {
            return Err(Refused::new("the record has no object that could be moved"));
        }
        let to = RecordId::new(PageId::new(self.page), Slot(self.slot));
        record::body(record)[..PLACE_LEN].copy_from_slice(&record::place_bytes(to));
        record::set_forward(record, true);
        Ok(())
    }
}

/// Undoes a forward: the object is in its own record again, whose first bytes were these.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RemoveForward {
    pub(crate) bytes: [u8; PLACE_LEN],
}

impl RecordDelta for RemoveForward {
    fn changes(&self) -> Option<Range<usize>> {
        Some(TO_PLACE)
    }
}

impl Delta for RemoveForward {
    const NAME: &'static str = "cedrat.objects.unforward.v1";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        if Header::of(record)?.forward.is_none() {
            return Err(Refused::new("the object was not moved to another record"));
        }
        record::body(record)[..PLACE_LEN].copy_from_slice(&self.bytes);
        record::set_forward(record, false);
        Ok(())
    }
}

/// Marks an object as removed, or a record that an object has left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Dead {}

impl RecordDelta for Dead {
    fn changes(&self) -> Option<Range<usize>> {
        Some(0..HEADER_LEN)
    }
}

impl Delta for Dead {
    const NAME: &'static str = "cedrat.objects.dead.v1";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        if Header::of(record)?.is_dead() {
            return Err(Refused::new("the object was removed already"));
        }
        record::set_dead(record, true);
        Ok(())
    }
}

/// Undoes the removal of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Alive {}

impl RecordDelta for Alive {
    fn changes(&self) -> Option<Range<usize>> {
        Some(0..HEADER_LEN)
    }
}

impl Delta for Alive {
    const NAME: &'static str = "cedrat.objects.alive.v1";

    fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        if !Header::of(record)?.is_dead() {
            return Err(Refused::new("the object was not removed"));
        }
        record::set_dead(record, false);
        Ok(())
    }
}

pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .delta::<PutBytes>()
        .delta::<Resize>()
        .delta::<Forward>()
        .delta::<RemoveForward>()
        .delta::<Dead>()
        .delta::<Alive>()
}

/// Returns the length of the object in this record.
fn live_len(record: &[u8]) -> Result<usize, Refused> {
    let header = Header::of(record)?;
    if header.is_dead() || header.forward.is_some() {
        return Err(Refused::new("no object lies in this record"));
    }
    Ok(header.len)
}

fn put(object: &mut [u8], at: u16, bytes: &[u8]) -> Result<(), Refused> {
    let at = usize::from(at);
    let range = object.get_mut(at..at + bytes.len()).ok_or(Refused::new("the bytes do not lie within the object"))?;
    range.copy_from_slice(bytes);
    Ok(())
}

/// Returns the smallest range that contains all differences of two sequences of the same length.
pub(crate) fn difference(a: &[u8], b: &[u8]) -> Range<usize> {
    /// Compared in pieces first, then by words: a comparison by bytes would take longer than the rest of a small change.
    const PIECE: usize = 64;
    debug_assert_eq!(a.len(), b.len());
    // Most small changes are of one word: a number, or a reference.
    if let (&[a], []) = a.as_chunks()
        && let (&[b], []) = b.as_chunks()
    {
        return match u64::from_le_bytes(a) ^ u64::from_le_bytes(b) {
            0 => 0..0,
            unlike => unlike.trailing_zeros() as usize / 8..8 - unlike.leading_zeros() as usize / 8,
        };
    }
    if a.len() <= PIECE {
        let first = same_at_the_front(a, b);
        return if first == a.len() { 0..0 } else { first..a.len() - same_at_the_back(a, b) };
    }
    let differ = |(a, b): &(&[u8], &[u8])| a != b;
    let Some(piece) = a.chunks(PIECE).zip(b.chunks(PIECE)).position(|pair| differ(&pair)) else { return 0..0 };
    let from = piece * PIECE;
    let first = from + same_at_the_front(&a[from..], &b[from..]);
    let pieces = a.rchunks(PIECE).zip(b.rchunks(PIECE)).take_while(|pair| !differ(pair)).count();
    let to = a.len() - pieces * PIECE;
    first..to - same_at_the_back(&a[..to], &b[..to])
}

/// Returns the length of the common prefix.
fn same_at_the_front(a: &[u8], b: &[u8]) -> usize {
    let (words, others) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (index, (a, b)) in words.iter().zip(others).enumerate() {
        let unlike = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if unlike != 0 {
            return 8 * index + unlike.trailing_zeros() as usize / 8;
        }
    }
    let rest = 8 * words.len();
    rest + a[rest..].iter().zip(&b[rest..]).take_while(|(a, b)| a == b).count()
}

/// Returns the length of the common suffix.
fn same_at_the_back(a: &[u8], b: &[u8]) -> usize {
    let (words, others) = (a.as_rchunks::<8>().1, b.as_rchunks::<8>().1);
    for (index, (a, b)) in words.iter().rev().zip(others.iter().rev()).enumerate() {
        let unlike = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if unlike != 0 {
            return 8 * index + unlike.leading_zeros() as usize / 8;
        }
    }
    let rest = 8 * words.len();
    let (a, b) = (&a[..a.len() - rest], &b[..b.len() - rest]);
    rest + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// Returns the bytes of `to` that turn `from` into it, together with its length; `None` if the objects are equal.
#[inline]
pub(crate) fn changed_range(from: &[u8], to: &[u8]) -> Option<Range<usize>> {
    let common = from.len().min(to.len());
    let range = difference(&from[..common], &to[..common]);
    if from.len() == to.len() {
        return (!range.is_empty()).then_some(range);
    }
    // Bytes behind the end of an object are undefined: a longer object contains all of its tail.
    let range = if range.is_empty() { common..common } else { range };
    Some(range.start..if to.len() > from.len() { to.len() } else { range.end })
}

/// Change that turns one object into another.
#[derive(Debug)]
pub(crate) enum Patch {
    PutBytes(PutBytes),
    Resize(Resize),
}

impl Patch {
    /// Computes the change; `None` if the objects are equal. The result fits a log record.
    pub(crate) fn between(from: &[u8], to: &[u8]) -> Option<Patch> {
        let range = changed_range(from, to)?;
        let len = (from.len() != to.len()).then_some(to.len() as u16);
        Some(Patch::of(len, range.start as u16, &to[range]))
    }

    /// Makes the change of a range, together with the object's length if one is given.
    pub(crate) fn of(len: Option<u16>, at: u16, bytes: &[u8]) -> Patch {
        let bytes = bytes.into();
        match len {
            None => Patch::PutBytes(PutBytes { at, bytes }),
            Some(len) => Patch::Resize(Resize { len, at, bytes }),
        }
    }

    /// Changes the record of the object.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn apply(&self, record: &mut [u8]) -> Result<(), Refused> {
        match self {
            Patch::PutBytes(put) => put.apply(record),
            Patch::Resize(resize) => resize.apply(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::new_record;

    fn object_of(record: &[u8]) -> Vec<u8> {
        record::object(record, &Header::of(record).unwrap()).to_vec()
    }

    proptest! {
        /// Forwards and back, also if the bytes behind a shorter object are undefined.
        #[test]
        fn patch_converts_between_two_versions(
            from in prop::collection::vec(0_u8..3, 0..40),
            to in prop::collection::vec(0_u8..3, 0..40),
        ) {
            let mut record = new_record(&from, 48, false);
            if let Some(patch) = Patch::between(&from, &to) {
                patch.apply(&mut record).unwrap();
            }
            prop_assert_eq!(&object_of(&record), &to);
            let len = to.len();
            record::body(&mut record)[len..].fill(9);
            if let Some(patch) = Patch::between(&to, &from) {
                patch.apply(&mut record).unwrap();
            }
            prop_assert_eq!(&object_of(&record), &from);
        }
    }

    #[test]
    fn a_difference_is_found_wherever_it_is() {
        for len in [1, 7, 8, 9, 63, 64, 65, 200] {
            let zeros = vec![0; len];
            assert!(difference(&zeros, &zeros).is_empty());
            for first in 0..len {
                for last in first..len {
                    let mut other = zeros.clone();
                    (other[first], other[last]) = (1, 1);
                    assert_eq!(difference(&zeros, &other), first..last + 1, "{len}");
                }
            }
        }
        assert!(difference(&[], &[]).is_empty());
    }

    #[test]
    fn patch_is_as_short_as_change() {
        let Some(Patch::PutBytes(put)) = Patch::between(b"one two three", b"one TWO three") else { panic!() };
        assert_eq!((put.at, &put.bytes[..]), (4, &b"TWO"[..]));
        assert!(Patch::between(b"same", b"same").is_none());
        let Some(Patch::Resize(cut)) = Patch::between(b"one two three", b"one") else { panic!() };
        assert_eq!((cut.len, cut.bytes.len()), (3, 0));
        let Some(Patch::Resize(longer)) = Patch::between(b"one", b"one two") else { panic!() };
        assert_eq!((longer.len, longer.at, &longer.bytes[..]), (7, 3, &b" two"[..]));
    }

    #[test]
    fn delta_that_does_not_fit_is_refused() {
        let mut record = new_record(b"object", 16, false);
        assert!(PutBytes { at: 5, bytes: b"xx"[..].into() }.apply(&mut record).is_err());
        assert!(Resize { len: 17, at: 0, bytes: SmallBytes::new() }.apply(&mut record).is_err());
        assert!(Resize { len: 2, at: 2, bytes: b"x"[..].into() }.apply(&mut record).is_err());
        assert!(Alive {}.apply(&mut record).is_err());
        assert!(RemoveForward { bytes: [0; PLACE_LEN] }.apply(&mut record).is_err());
        assert_eq!(object_of(&record), b"object", "nothing has happened");
        Dead {}.apply(&mut record).unwrap();
        assert!(Dead {}.apply(&mut record).is_err());
        assert!(PutBytes { at: 0, bytes: b"x"[..].into() }.apply(&mut record).is_err());
        Alive {}.apply(&mut record).unwrap();
        assert_eq!(object_of(&record), b"object");
        let mut target = new_record(b"object", 16, true);
        let to = RecordId::new(PageId::new(3), Slot(1));
        assert!(Forward::to(to).apply(&mut target).is_err());
        Forward::to(to).apply(&mut record).unwrap();
        assert_eq!(Header::of(&record).unwrap().forward, Some(to));
        assert!(PutBytes { at: 0, bytes: b"x"[..].into() }.apply(&mut record).is_err());
        RemoveForward { bytes: *b"object\0\0\0\0" }.apply(&mut record).unwrap();
        assert_eq!(object_of(&record), b"object");
    }
}
