//! Variable-length numbers: seven bits a byte, least significant first, the high bit says "more follows".
//!
//! Every number has exactly one encoding: a longer one than needed is refused, so that bytes and meaning
//! correspond one to one.

/// The most bytes that a number takes.
pub(crate) const LEN_MAX: usize = 10;

/// How many bytes `value` takes.
#[inline]
pub(crate) const fn len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Writes `value` at the beginning of `to`, which has room for it, and returns how many bytes it took.
#[inline]
pub(crate) fn put(to: &mut [u8], mut value: u64) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        to[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    to[at] = value as u8;
    at + 1
}

/// Reads the number at the beginning of `from`: its value and its length. `None` if there is no number.
#[inline]
pub(crate) fn get(from: &[u8]) -> Option<(u64, usize)> {
    let first = *from.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    let mut value = u64::from(first & 0x7f);
    for at in 1..LEN_MAX {
        let byte = *from.get(at)?;
        let bits = u64::from(byte & 0x7f);
        if at == LEN_MAX - 1 && byte > 1 {
            return None; // beyond 64 bits
        }
        value |= bits << (7 * at);
        if byte < 0x80 {
            return if byte == 0 {
                None // a shorter encoding exists
            } else {
                Some((value, at + 1))
            };
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
            }
        }
        assert_eq!(len(u64::MAX), LEN_MAX);
    }

    #[test]
    fn longer_encodings_than_needed_are_refused() {
        assert_eq!(get(&[0x80, 0x00]), None);
        assert_eq!(get(&[0xff, 0x80, 0x00]), None);
        assert_eq!(get(&[0xff; 11]), None);
        assert_eq!(get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(get(&[]), None);
        assert_eq!(get(&[0x80]), None);
    }

    proptest! {
        #[test]
        fn what_is_put_is_got(value: u64) {
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
