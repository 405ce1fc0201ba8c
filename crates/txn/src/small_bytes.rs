//! Byte strings that are usually stored inline.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use postcard::ser_flavors::Flavor;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum length in bytes that needs no allocation.
pub const INLINE_LEN_MAX: usize = 46;

/// A short byte string: usually the arguments of an operation, a key, a value, a before-image.
///
/// Strings of up to [`INLINE_LEN_MAX`] bytes are stored inline; longer ones on the heap. In the log it is a length and
/// the bytes.
#[derive(Clone)]
pub struct SmallBytes(Place);

#[derive(Clone)]
enum Place {
    Inline { len: u8, bytes: [u8; INLINE_LEN_MAX] },
    Heap(Vec<u8>),
}

impl SmallBytes {
    /// Returns an empty byte string.
    #[inline]
    pub const fn new() -> SmallBytes {
        SmallBytes(Place::Inline { len: 0, bytes: [0; INLINE_LEN_MAX] })
    }

    /// Appends `more`.
    #[inline]
    pub fn extend_from_slice(&mut self, more: &[u8]) {
        match &mut self.0 {
            Place::Inline { len, bytes } => {
                let begin = usize::from(*len);
                let end = begin + more.len();
                if end <= INLINE_LEN_MAX {
                    bytes[begin..end].copy_from_slice(more);
                    *len = end as u8;
                } else {
                    let mut heap = Vec::with_capacity(end.max(2 * INLINE_LEN_MAX));
                    heap.extend_from_slice(&bytes[..begin]);
                    heap.extend_from_slice(more);
                    self.0 = Place::Heap(heap);
                }
            }
            Place::Heap(bytes) => bytes.extend_from_slice(more),
        }
    }
}

impl SmallBytes {
    /// Removes all bytes outside of this range.
    ///
    /// # Panics
    /// If the range is not within the byte string.
    #[inline]
    pub fn keep(&mut self, range: Range<usize>) {
        match &mut self.0 {
            Place::Inline { len, bytes } => {
                assert!(range.end <= usize::from(*len), "{range:?} of {len} bytes");
                let kept = range.len();
                bytes.copy_within(range, 0);
                *len = kept as u8;
            }
            Place::Heap(bytes) => {
                bytes.truncate(range.end);
                bytes.drain(..range.start);
            }
        }
    }
}

/// Appends the output of `postcard`.
impl Flavor for SmallBytes {
    type Output = SmallBytes;

    #[inline]
    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.extend_from_slice(data);
        Ok(())
    }

    #[inline]
    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.extend_from_slice(&[data]);
        Ok(())
    }

    #[inline]
    fn finalize(self) -> postcard::Result<SmallBytes> {
        Ok(self)
    }
}

impl Default for SmallBytes {
    fn default() -> SmallBytes {
        SmallBytes::new()
    }
}

impl Deref for SmallBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Place::Heap(bytes) => bytes,
        }
    }
}

impl DerefMut for SmallBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Place::Inline { len, bytes } => &mut bytes[..usize::from(*len)],
            Place::Heap(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for SmallBytes {
    #[inline]
    fn from(from: &[u8]) -> SmallBytes {
        let mut bytes = SmallBytes::new();
        if let (Place::Inline { len, bytes: inline }, Ok(word)) = (&mut bytes.0, <&[u8; 8]>::try_from(from)) {
            // Mostly a number or a reference: for a constant length no function is called to copy it.
            inline[..8].copy_from_slice(word);
            *len = 8;
            return bytes;
        }
        bytes.extend_from_slice(from);
        bytes
    }
}

impl From<Vec<u8>> for SmallBytes {
    fn from(from: Vec<u8>) -> SmallBytes {
        if from.len() <= INLINE_LEN_MAX { from.as_slice().into() } else { SmallBytes(Place::Heap(from)) }
    }
}

impl Extend<u8> for SmallBytes {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, more: T) {
        for byte in more {
            self.extend_from_slice(&[byte]);
        }
    }
}

impl PartialEq for SmallBytes {
    fn eq(&self, other: &SmallBytes) -> bool {
        **self == **other
    }
}
impl Eq for SmallBytes {}

impl fmt::Debug for SmallBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl Serialize for SmallBytes {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for SmallBytes {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SmallBytes, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = SmallBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<SmallBytes, E> {
                Ok(bytes.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<SmallBytes, A::Error> {
                let mut bytes = SmallBytes::new();
                while let Some(byte) = elements.next_element::<u8>()? {
                    bytes.extend_from_slice(&[byte]);
                }
                Ok(bytes)
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_bytes_come_back() {
        for len in [0, 1, INLINE_LEN_MAX, INLINE_LEN_MAX + 1, 4000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let small = SmallBytes::from(bytes.as_slice());
            assert_eq!(&*small, &bytes[..]);
            let encoded = postcard::to_allocvec(&small).unwrap();
            assert_eq!(postcard::from_bytes::<SmallBytes>(&encoded).unwrap(), small);
            assert_eq!(encoded, postcard::to_allocvec(&bytes).unwrap(), "the same form as a vector's");
        }
    }

    #[test]
    fn part_of_bytes_is_kept() {
        for len in [8, INLINE_LEN_MAX, 100] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            for (from, to) in [(0, 0), (0, len), (2, 5), (len - 1, len), (len, len)] {
                let mut small = SmallBytes::from(bytes.as_slice());
                small.keep(from..to);
                assert_eq!(&*small, &bytes[from..to]);
                small.reverse();
                assert!(small.iter().eq(bytes[from..to].iter().rev()));
            }
        }
    }
}
