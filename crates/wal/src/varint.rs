//! Variable-length integers: seven bits a byte, least significant first; a set high bit means that another byte
//! follows.
//!
//! Every number has exactly one encoding: an encoding longer than needed is refused, so that bytes and values
//! correspond one to one.

/// The largest number of bytes that an encoding takes.
pub(crate) const LEN_MAX: usize = 10;

/// Returns the number of bytes that `value` takes.
#[inline]
pub(crate) const fn len(value: u64) -> usize {
    // One more than the bits above the lowest, divided by seven: 9/64 is close enough to 1/7 for 64 bits.
    (((value | 1).ilog2() * 9 + 73) / 64) as usize
}

/// Writes `value` at the beginning of `to`, which is long enough for it, and returns the length of the encoding. Up
/// to eight bytes of `to` may be overwritten, however short the encoding.
#[inline]
pub(crate) fn put(to: &mut [u8], value: u64) -> usize {
    if value < 0x80 {
        to[0] = value as u8;
        1
    } else {
        put_long(to, value)
    }
}

/// The high bit of each of eight bytes.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Joins the lowest seven bits of each of eight bytes.
#[inline]
fn gather(bytes: u64) -> u64 {
    let quarters = bytes & 0x007f_007f_007f_007f | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
    let halves = quarters & 0x0000_3fff_0000_3fff | (quarters & 0x3fff_0000_3fff_0000) >> 2;
    halves & 0x0fff_ffff | (halves & 0x0fff_ffff_0000_0000) >> 4
}

/// The inverse of [`gather`]: distributes a number to the lowest seven bits of each of eight bytes.
#[inline]
fn spread(value: u64) -> u64 {
    let halves = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let quarters = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    quarters & 0x007f_007f_007f_007f | (quarters & 0x3f80_3f80_3f80_3f80) << 1
}

/// Returns the encoding of a number that takes up to eight bytes, followed by zeros.
#[inline]
pub(crate) fn eight(value: u64) -> u64 {
    spread(value) | MORE & !(u64::MAX << (8 * (len(value) - 1)))
}

/// A number whose encoding takes up to eight bytes, encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    bytes: u64,
    /// The length of the encoding in bytes.
    pub(crate) len: usize,
}

impl Short {
    /// Encodes `value`; `None` if it takes more than eight bytes.
    #[inline]
    pub(crate) fn of(value: u64) -> Option<Short> {
        match value {
            0..0x80 => Some(Short { bytes: value, len: 1 }),
            0x80..0x100_0000_0000_0000 => Some(Short { bytes: eight(value), len: len(value) }),
            _ => None,
        }
    }

    /// Writes the encoding at the beginning of `to`, of which eight bytes are overwritten, and returns its length.
    #[inline]
    pub(crate) fn put(self, to: &mut [u8]) -> usize {
        to[..8].copy_from_slice(&self.bytes.to_le_bytes());
        self.len
    }
}

#[inline]
fn put_long(to: &mut [u8], value: u64) -> usize {
    let len = len(value);
    match to.first_chunk_mut::<8>() {
        // Bytes beyond the encoding's end are not part of it: the caller overwrites or ignores them.
        Some(to) if len <= 8 => {
            *to = eight(value).to_le_bytes();
            len
        }
        _ => put_bytes(to, value, len),
    }
}

#[inline(never)]
fn put_bytes(to: &mut [u8], mut value: u64, len: usize) -> usize {
    let (last, first) = to[..len].split_last_mut().expect("a number takes at least a byte");
    for byte in first {
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    *last = value as u8;
    len
}

/// Reads the number at the beginning of `from`: its value and the length of its encoding. `None` if there is no valid
/// encoding.
#[inline]
pub(crate) fn get(from: &[u8]) -> Option<(u64, usize)> {
    let first = from.first()?;
    if *first < 0x80 {
        return Some((u64::from(*first), 1));
    }
    let Some(eight) = from.first_chunk::<8>() else {
        return get_long(from);
    };
    let eight = u64::from_le_bytes(*eight);
    let ends = !eight & MORE;
    if ends == 0 {
        return get_long(from);
    }
    let len = ends.trailing_zeros() / 8 + 1;
    let value = gather(eight & u64::MAX >> (64 - 8 * len));
    if value >> (7 * (len - 1)) == 0 { None } else { Some((value, len as usize)) } // else a shorter encoding exists
}

#[cold]
fn get_long(from: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, &byte) in from.iter().take(LEN_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            let beyond_64_bits = at == LEN_MAX - 1 && byte > 1;
            let shorter_exists = at > 0 && byte == 0;
            return (!beyond_64_bits && !shorter_exists).then_some((value, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_at_every_border() {
        for bits in 0..64 {
            for value in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                let mut bytes = [0; LEN_MAX];
                let written = put(&mut bytes, value);
                assert_eq!(written, len(value), "{value}");
                assert_eq!(get(&bytes), Some((value, written)), "{value}");
                assert_eq!(get(&bytes[..written]), Some((value, written)), "{value}");
            }
        }
        assert_eq!(len(u64::MAX), LEN_MAX);
    }

    #[test]
    fn longer_encodings_than_needed_are_refused() {
        assert_eq!(get(&[0x80, 0x00]), None);
        assert_eq!(get(&[0xff, 0x80, 0x00]), None);
        for len in 2..=LEN_MAX {
            let mut bytes = [0x80; 12];
            bytes[len - 1] = 0;
            assert_eq!((get(&bytes), get(&bytes[..len])), (None, None), "{len}");
        }
        assert_eq!(get(&[0xff; 11]), None);
        assert_eq!(get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(get(&[]), None);
        assert_eq!(get(&[0x80]), None);
    }

    proptest! {
        #[test]
        fn written_varint_is_read_back(value: u64) {
            let mut bytes = [0; LEN_MAX];
            let written = put(&mut bytes, value);
            prop_assert_eq!(written, len(value));
            prop_assert_eq!(get(&bytes[..written]), Some((value, written)));
            for short in 0..written {
                prop_assert_eq!(get(&bytes[..short]), None);
            }
        }
    }
}
