//! CRC-32C of short byte strings by the processor's own instruction. This module holds every `unsafe` of the crate.
//!
//! A record has some forty bytes, and its checksum is a large part of the cost of appending and scanning. The
//! `crc32c` crate is built for kilobytes; it still handles long strings and machines without the instruction.
//!
//! Sound because
//! 1. a function that needs SSE 4.2 is called only after the processor was found to have it.

#![allow(unsafe_code)]

/// The length from which the crate's three parallel streams are faster than one.
#[cfg(any(target_arch = "x86_64", test))]
const LONG: usize = 512;

/// Continues a CRC-32C over `bytes`; the same function as `crc32c::crc32c_append`.
#[inline]
pub(crate) fn append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < LONG && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: 1; checked in the line above.
        return unsafe { short(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// Continues a CRC-32C over the four bytes of `word`, then over `bytes`.
#[inline]
pub(crate) fn append_after(crc: u32, word: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < LONG && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: 1; checked in the line above.
        return unsafe { short_after(crc, word, bytes) };
    }
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &word.to_le_bytes()), bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short_after(crc: u32, word: u32, bytes: &[u8]) -> u32 {
    short(!std::arch::x86_64::_mm_crc32_u32(!crc, word), bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let (words, mut rest) = bytes.as_chunks::<8>();
    let mut crc = u64::from(!crc);
    for word in words {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    let mut crc = crc as u32;
    if let Some((four, more)) = rest.split_first_chunk::<4>() {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*four));
        rest = more;
    }
    if let Some((two, more)) = rest.split_first_chunk::<2>() {
        crc = _mm_crc32_u16(crc, u16::from_le_bytes(*two));
        rest = more;
    }
    if let [one] = rest {
        crc = _mm_crc32_u8(crc, *one);
    }
    !crc
}

/// Continues a CRC-32C over the four bytes of `word`, then over the first `len` bytes of `bytes`, fewer than sixteen.
#[inline]
pub(crate) fn append_few_after(crc: u32, word: u32, bytes: u128, len: usize) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: 1; checked in the line above.
        return unsafe { few_after(crc, word, bytes, len) };
    }
    append_after(crc, word, &bytes.to_le_bytes()[..len])
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn few_after(crc: u32, word: u32, bytes: u128, len: usize) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let mut crc = _mm_crc32_u32(!crc, word);
    let mut rest = bytes as u64;
    debug_assert!(len < 16);
    if len & 8 != 0 {
        crc = _mm_crc32_u64(crc.into(), rest) as u32;
        rest = (bytes >> 64) as u64;
    }
    if len & 4 != 0 {
        crc = _mm_crc32_u32(crc, rest as u32);
        rest >>= 32;
    }
    if len & 2 != 0 {
        crc = _mm_crc32_u16(crc, rest as u16);
        rest >>= 16;
    }
    if len & 1 != 0 {
        crc = _mm_crc32_u8(crc, rest as u8);
    }
    !crc
}

/// Writes `head` and a pair of numbers for each element to `to`, which has their length, and returns the CRC-32C of all.
///
/// Words of eight bytes are made in registers, for the store and the checksum: two pairs take three. A checksum of stored bytes
/// would load words that consist of parts of two stores, and wait until both have left the processor's store buffer.
#[inline(always)]
pub(crate) fn put_pairs<T>(to: &mut [u8], head: [u8; 4], from: &[T], pair: impl Fn(&T) -> (u32, u64)) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: 1; checked in the line above.
        return unsafe { put_pairs_short(to, head, from, pair) };
    }
    let (first, pairs) = to.split_first_chunk_mut().expect("a body of pairs begins with four bytes");
    *first = head;
    for (to, one) in pairs.as_chunks_mut::<12>().0.iter_mut().zip(from) {
        let (number, value) = pair(one);
        to[..4].copy_from_slice(&number.to_le_bytes());
        to[4..].copy_from_slice(&value.to_le_bytes());
    }
    crc32c::crc32c(to)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
fn put_pairs_short<T>(to: &mut [u8], head: [u8; 4], from: &[T], pair: impl Fn(&T) -> (u32, u64)) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u32, _mm_crc32_u64};
    let mut crc = u64::from(u32::MAX);
    let mut put = |to: &mut [u8; 8], word: u64| {
        *to = word.to_le_bytes();
        crc = _mm_crc32_u64(crc, word);
    };
    // Four bytes of which the next word begins.
    let mut begun = u64::from(u32::from_le_bytes(head));
    let (twos, last) = from.as_chunks::<2>();
    let (threes, rest) = to.as_chunks_mut::<24>();
    for ([one, two], [a, b, c]) in twos.iter().zip(threes.iter_mut().map(as_words)) {
        let ((first, one), (second, two)) = (pair(one), pair(two));
        put(a, begun | u64::from(first) << 32);
        put(b, one);
        put(c, u64::from(second) | two << 32);
        begun = two >> 32;
    }
    match (last, rest.first_chunk_mut::<16>()) {
        ([last], Some(two)) => {
            let (number, value) = pair(last);
            let [a, b] = as_words(two);
            put(a, begun | u64::from(number) << 32);
            put(b, value);
            !(crc as u32)
        }
        _ => {
            rest.copy_from_slice(&(begun as u32).to_le_bytes());
            !_mm_crc32_u32(crc as u32, begun as u32)
        }
    }
}

/// Divides bytes into words of eight.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn as_words<const LEN: usize, const WORDS: usize>(bytes: &mut [u8; LEN]) -> &mut [[u8; 8]; WORDS] {
    bytes.as_chunks_mut().0.try_into().expect("eight bytes for each word")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_agrees_at_every_length_and_alignment() {
        let bytes: Vec<u8> = (0..LONG as u32 + 40).map(|at| (at * 31 % 251) as u8).collect();
        for from in 0..9 {
            for len in (0..80).chain(LONG - 3..LONG + 3) {
                let part = &bytes[from..from + len];
                assert_eq!(append(17, part), crc32c::crc32c_append(17, part), "{from} {len}");
                let after = crc32c::crc32c_append(crc32c::crc32c_append(17, &9u32.to_le_bytes()), part);
                assert_eq!(append_after(17, 9, part), after, "{from} {len}");
                if let Some(few) = bytes[from..].first_chunk().filter(|few: &&[u8; 16]| len < few.len()) {
                    assert_eq!(append_few_after(17, 9, u128::from_le_bytes(*few), len), after, "{from} {len}");
                }
            }
        }
    }

    #[test]
    fn pairs_are_written_as_their_bytes() {
        let pairs: Vec<(u32, u64)> = (0..70u64).map(|at| ((at * 77_777) as u32, at * 0x0123_4567_89ab_cdef)).collect();
        for len in 0..pairs.len() {
            let head = (len as u32 * 31).to_le_bytes();
            let each = pairs[..len].iter().map(|(number, value)| (number.to_le_bytes(), value.to_le_bytes()));
            let expected: Vec<u8> = head.into_iter().chain(each.flat_map(|(a, b)| a.into_iter().chain(b))).collect();
            let mut bytes = vec![0xee; expected.len()];
            let crc = put_pairs(&mut bytes, head, &pairs[..len], |&pair| pair);
            assert_eq!((bytes, crc), (expected.clone(), crc32c::crc32c(&expected)), "{len}");
        }
    }
}
